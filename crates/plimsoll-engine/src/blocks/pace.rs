// SPDX-License-Identifier: Apache-2.0
//! The instants of an open loop, one worker's share of them, in order.
//!
//! All instants are nanoseconds after the start of the group, computed from the start and not from
//! each other, or summed in a way that cannot drift: what is late stays late only once. Rates are
//! of the whole group. Equally spaced instants are dealt out to the workers in turn; each worker
//! of a Poisson group has a Poisson process of its own with its share of the rate, and these add
//! up to one of the whole rate.

use plimsoll_core::num::round_u64;
use plimsoll_core::rng::Rng;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::blocks::{ArrivalProcess, ArrivalRateSegment};

/// The instants of one worker.
#[derive(Debug)]
pub(crate) struct BlockIoArrivalTimes {
    law: BlockIoArrivalProcess,
    rng: Rng,
}

#[derive(Debug)]
enum BlockIoArrivalProcess {
    /// The instants `k * gap` for `k` from the worker's number in steps of the workers.
    Paced { gap_ns: f64, next: u64, step: u64 },
    /// Summed as a float: 2^53 ns are 104 days, so the sum is right to a nanosecond.
    Poisson { mean_ns: f64, at_ns: f64 },
    /// As Poisson, with `size` turns at each instant.
    Batch {
        mean_ns: f64,
        at_ns: f64,
        size: u32,
        left: u32,
    },
    /// As Poisson on a clock that stands still during the off phases.
    OnOff {
        mean_ns: f64,
        on_ns: u64,
        off_ns: u64,
        at_ns: f64,
    },
    /// As Poisson on a clock that runs with the rate.
    Envelope(BlockIoRateEnvelope),
    /// Never.
    Silent,
}

#[derive(Debug)]
struct BlockIoRateEnvelope {
    segments: Vec<ArrivalRateSegment>,
    /// Number of workers of the group: each gets an equal share of the rate.
    workers: f64,
    /// The current segment, when it began, and how far in the instant before lies.
    segment: usize,
    began_ns: u64,
    inside_s: f64,
}

impl BlockIoArrivalTimes {
    /// The share of worker `worker` of `workers` in `arrival`. Traces have no law: `Silent`.
    pub(crate) fn new(arrival: &ArrivalProcess, (worker, workers): (u32, u32), rng: Rng) -> Self {
        let share = f64::from(workers.max(1));
        let law = match arrival {
            ArrivalProcess::Paced { per_s } => BlockIoArrivalProcess::Paced {
                gap_ns: 1e9 / per_s,
                next: worker.into(),
                step: u64::from(workers.max(1)),
            },
            ArrivalProcess::Poisson { per_s } => BlockIoArrivalProcess::Poisson {
                mean_ns: 1e9 / per_s * share,
                at_ns: 0.0,
            },
            ArrivalProcess::Batch { per_s, size } => BlockIoArrivalProcess::Batch {
                mean_ns: 1e9 / per_s * share * f64::from((*size).max(1)),
                at_ns: 0.0,
                size: (*size).max(1),
                left: 0,
            },
            ArrivalProcess::OnOff { per_s, on, off } => BlockIoArrivalProcess::OnOff {
                mean_ns: 1e9 / per_s * share,
                on_ns: on.0.max(1),
                off_ns: off.0,
                at_ns: 0.0,
            },
            ArrivalProcess::Envelope(segments) if segments.iter().any(has_mass) => {
                BlockIoArrivalProcess::Envelope(BlockIoRateEnvelope {
                    segments: segments.clone(),
                    workers: share,
                    segment: 0,
                    began_ns: 0,
                    inside_s: 0.0,
                })
            }
            ArrivalProcess::Envelope(_) | ArrivalProcess::Trace(_) => BlockIoArrivalProcess::Silent,
        };
        BlockIoArrivalTimes { law, rng }
    }

    /// The next instant; `None` when there is none any more.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Nanos> {
        let rng = &mut self.rng;
        match &mut self.law {
            BlockIoArrivalProcess::Paced { gap_ns, next, step } => {
                let at = *next as f64 * *gap_ns;
                *next += *step;
                Some(Nanos(round_u64(at)))
            }
            BlockIoArrivalProcess::Poisson { mean_ns, at_ns } => {
                *at_ns += rng.exponential(*mean_ns);
                Some(Nanos(round_u64(*at_ns)))
            }
            BlockIoArrivalProcess::Batch {
                mean_ns,
                at_ns,
                size,
                left,
            } => {
                if *left == 0 {
                    *at_ns += rng.exponential(*mean_ns);
                    *left = *size;
                }
                *left -= 1;
                Some(Nanos(round_u64(*at_ns)))
            }
            BlockIoArrivalProcess::OnOff {
                mean_ns,
                on_ns,
                off_ns,
                at_ns,
            } => {
                *at_ns += rng.exponential(*mean_ns);
                let at = round_u64(*at_ns);
                let silence = (at / *on_ns).saturating_mul(*off_ns);
                Some(Nanos(at.saturating_add(silence)))
            }
            BlockIoArrivalProcess::Envelope(envelope) => {
                Some(envelope.next(rng.exponential(envelope.workers)))
            }
            BlockIoArrivalProcess::Silent => None,
        }
    }
}

fn has_mass(segment: &ArrivalRateSegment) -> bool {
    segment.length > Nanos(0) && segment.from_per_s + segment.to_per_s > 0.0
}

impl BlockIoRateEnvelope {
    /// The instant at which the integral of the rate has grown by `mass`: exact, nothing is drawn
    /// and thrown away.
    fn next(&mut self, mut mass: f64) -> Nanos {
        // Whole rounds lead to the same place in a later one; rates of almost nothing need many.
        let rounds = (mass / self.round_mass()).floor();
        if rounds >= 1.0 {
            mass -= rounds * self.round_mass();
            let round_ns: f64 = self.segments.iter().map(|s| s.length.0 as f64).sum();
            self.began_ns = self.began_ns.saturating_add(round_u64(rounds * round_ns));
        }
        // Less than a round is left, but for rounding.
        for _ in 0..=2 * self.segments.len() {
            let segment = self.segments[self.segment];
            let seconds = segment.length.as_secs_f64();
            let slope = (segment.to_per_s - segment.from_per_s) / seconds.max(1e-9);
            let rate = (segment.from_per_s + slope * self.inside_s).max(0.0);
            let left_s = (seconds - self.inside_s).max(0.0);
            let left = (rate + segment.to_per_s) / 2.0 * left_s;
            if left > 0.0 && mass <= left {
                // The root of rate*x + slope*x^2/2 = mass, in the form that does not cancel.
                let root = (rate * rate + 2.0 * slope * mass).max(0.0).sqrt();
                self.inside_s += (2.0 * mass / (rate + root)).min(left_s);
                return Nanos(self.began_ns) + Nanos::from_secs_f64(self.inside_s);
            }
            mass -= left;
            self.began_ns = self.began_ns.saturating_add(segment.length.0);
            self.inside_s = 0.0;
            self.segment = (self.segment + 1) % self.segments.len();
        }
        Nanos(self.began_ns)
    }

    /// Integral of the rate over all segments; above 0, or there would be no envelope.
    fn round_mass(&self) -> f64 {
        let mass =
            |s: &ArrivalRateSegment| (s.from_per_s + s.to_per_s) / 2.0 * s.length.as_secs_f64();
        self.segments.iter().map(mass).sum()
    }
}

#[cfg(test)]
mod tests;
