// SPDX-License-Identifier: Apache-2.0
//! Load that a model, or jobs of constant rates, submit, counted interval by interval.

use plimsoll_core::model::{
    DirectionLoad, FidelityCheck, ModelInterval, ReplayAddressSpace, WorkloadModel,
};
use plimsoll_core::num::{ratio, round_u64, to_usize};
use plimsoll_core::op::OpRequest;
use plimsoll_core::op::TraceAccess;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

use super::in_flight::{self, InFlightShares, TraceLatencies};
use crate::bursts::median_length_s;
use crate::fit;

/// Most operations of a model that are played; of a longer one the first part counts.
const OPS_MAX: usize = 50_000_000;
/// Most intervals a load is counted in.
const INTERVALS_MAX: usize = 10_000_000;
/// Alignment of requests: that of the smallest device for drawn ones, none for recorded ones.
const ALIGN_BYTES: u32 = 512;
/// Fewest expected operations for which a Poisson count is drawn from its normal limit.
const NORMAL_MIN: f64 = 1_000.0;

/// Operations and bytes per second of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ConstantRate {
    /// Operations per second.
    pub ops_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

/// A load whose rates never change.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ConstantRateLoad {
    /// Rates of reads.
    pub read: ConstantRate,
    /// Rates of writes.
    pub write: ConstantRate,
    /// Whether operations come as a Poisson process; else equally spaced.
    pub poisson: bool,
}

/// A load that is held against a recording.
#[derive(Debug, Clone, Copy)]
pub enum FidelityLoad<'a> {
    /// Load that a model submits over its whole length.
    Model(&'a WorkloadModel),
    /// Load that jobs of constant rates submit together, for as long as the recording takes.
    Steady(&'a [ConstantRateLoad]),
}

/// A play, counted.
pub(super) struct FidelityLoadCounts {
    /// Submitted load, interval by interval.
    pub(super) cells: Vec<ModelInterval>,
    /// How many intervals of the recording belong to it.
    pub(super) recorded: usize,
}

impl FidelityLoad<'_> {
    /// Whether the model was fitted to this disk of this recording.
    pub(super) fn is_of(&self, recording: &str, disk: &str) -> bool {
        let FidelityLoad::Model(model) = self else {
            return false;
        };
        let source = &model.source;
        (&*source.recording, &*source.disk) == (recording, disk)
    }

    /// Checks of the load against this disk: of a model that was fitted to it, copies are marked.
    pub(super) fn held(
        &self,
        recording: &str,
        disk: &str,
        mut lines: Vec<FidelityCheck>,
    ) -> Vec<FidelityCheck> {
        if self.is_of(recording, disk) {
            lines = lines.into_iter().map(FidelityCheck::of_its_own).collect();
        }
        lines
    }

    /// How long it lasts; as long as asked for where its rates never change.
    pub(super) fn length(&self) -> Nanos {
        match self {
            FidelityLoad::Model(model) => model.length(),
            FidelityLoad::Steady(_) => Nanos(u64::MAX),
        }
    }

    /// The intervals it is counted in: those of the recording when it lasts as long, else as many
    /// of the recording's usual length as it lasts.
    pub(super) fn layout(&self, recorded: &[ModelInterval]) -> Vec<Nanos> {
        let lengths: Vec<Nanos> = recorded.iter().map(|cell| cell.length).collect();
        let FidelityLoad::Model(model) = self else {
            return lengths;
        };
        let total: f64 = lengths.iter().map(|length| length.as_secs_f64()).sum();
        let usual_s = median_length_s(recorded);
        let own_s = model.length().as_secs_f64();
        if (own_s - total).abs() < usual_s / 2.0 {
            return lengths;
        }
        // A last one that is cut short would count as a quiet one.
        let n = to_usize(round_u64((own_s / usual_s).floor())).min(INTERVALS_MAX);
        vec![Nanos::from_secs_f64(usual_s); n]
    }

    /// Counts one play in these intervals.
    pub(super) fn count(&self, layout: &[Nanos], seed: Seed) -> FidelityLoadCounts {
        match self {
            FidelityLoad::Model(model) => {
                let cells = fit::count(played(model, seed), empty(layout), OPS_MAX);
                let is_whole = cells.len() == layout.len();
                FidelityLoadCounts {
                    recorded: if is_whole { usize::MAX } else { cells.len() },
                    cells,
                }
            }
            FidelityLoad::Steady(jobs) => FidelityLoadCounts {
                cells: of_jobs(jobs, layout, seed),
                recorded: usize::MAX,
            },
        }
    }

    /// Shares of its requests in flight, given the latencies `took`.
    pub(super) fn flights(&self, took: Option<&TraceLatencies>) -> Option<InFlightShares> {
        match self {
            FidelityLoad::Model(model) => {
                let packed = model.requests.as_ref()?;
                let threads = model.facts.threads.map(|known| known.value);
                Some(in_flight::of_packed(packed, threads, took?))
            }
            FidelityLoad::Steady(_) => None,
        }
    }

    /// The requests of a play; a load of constant rates says nothing of single requests.
    pub(super) fn requests(&self, seed: Seed) -> Box<dyn Iterator<Item = TraceAccess> + '_> {
        match self {
            FidelityLoad::Model(model) => {
                Box::new(played(model, seed).map(|request| TraceAccess {
                    at: request.intended_at,
                    kind: request.kind,
                    offset: request.offset,
                    bytes: request.len,
                }))
            }
            FidelityLoad::Steady(_) => Box::new(std::iter::empty()),
        }
    }
}

/// The requests of a model, recorded ones exactly where they went.
fn played(model: &WorkloadModel, seed: Seed) -> impl Iterator<Item = OpRequest> + use<> {
    let align = if model.requests.is_some() {
        1
    } else {
        ALIGN_BYTES
    };
    model.play(
        &model.whole(1.0),
        &ReplayAddressSpace::AsRecorded,
        align,
        seed,
    )
}

fn empty(layout: &[Nanos]) -> Vec<ModelInterval> {
    fit::no_load(layout.iter().copied())
}

fn of_jobs(jobs: &[ConstantRateLoad], layout: &[Nanos], seed: Seed) -> Vec<ModelInterval> {
    let mut cells = empty(layout);
    for (job, number) in jobs.iter().zip(0..) {
        let mut rng = Rng::new(seed.derive("steady", number));
        let mut reads = ConstantRateStream::new(job.read, job.poisson);
        let mut writes = ConstantRateStream::new(job.write, job.poisson);
        for cell in &mut cells {
            let seconds = cell.length.as_secs_f64();
            add(&mut cell.read, reads.during(seconds, &mut rng));
            add(&mut cell.write, writes.during(seconds, &mut rng));
        }
    }
    cells
}

fn add(sum: &mut DirectionLoad, load: DirectionLoad) {
    sum.ops += load.ops;
    sum.bytes += load.bytes;
}

/// Whole operations of a constant rate; what is left over at the end of an interval is carried on.
struct ConstantRateStream {
    rate: ConstantRate,
    poisson: bool,
    owed_ops: f64,
    owed_bytes: f64,
}

impl ConstantRateStream {
    fn new(rate: ConstantRate, poisson: bool) -> ConstantRateStream {
        ConstantRateStream {
            rate,
            poisson,
            owed_ops: 0.0,
            owed_bytes: 0.0,
        }
    }

    fn during(&mut self, seconds: f64, rng: &mut Rng) -> DirectionLoad {
        let expected = self.rate.ops_per_s * seconds;
        let ops = if self.poisson {
            poisson(expected, rng)
        } else {
            self.owed_ops += expected;
            let whole = round_u64(self.owed_ops.floor());
            self.owed_ops -= whole as f64;
            whole
        };
        self.owed_bytes += ops as f64 * ratio(self.rate.bytes_per_s, self.rate.ops_per_s);
        let bytes = round_u64(self.owed_bytes.floor());
        self.owed_bytes -= bytes as f64;
        DirectionLoad { ops, bytes }
    }
}

/// How many events a Poisson process has where `expected` are expected.
fn poisson(expected: f64, rng: &mut Rng) -> u64 {
    if expected >= NORMAL_MIN {
        return round_u64(expected + expected.sqrt() * rng.normal());
    }
    let (mut at, mut events) = (0.0, 0);
    // About as many rounds as events are expected, at most some thousand.
    loop {
        at -= (1.0 - rng.unit()).ln();
        if at > expected {
            return events;
        }
        events += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_is_counted_out_and_a_poisson_process_varies() {
        let job = |poisson| ConstantRateLoad {
            read: ConstantRate {
                ops_per_s: 10.3,
                bytes_per_s: 10.3 * 8_192.0,
            },
            write: ConstantRate::default(),
            poisson,
        };
        let layout = vec![Nanos(15_000_000_000); 200];
        let counted = |poisson| of_jobs(&[job(poisson)], &layout, Seed(3));
        let total = |cells: &[ModelInterval]| cells.iter().map(|cell| cell.read.ops).sum::<u64>();
        let even = counted(false);
        assert_eq!(total(&even), 30_900);
        assert!(even.iter().all(|cell| (154..=155).contains(&cell.read.ops)));
        assert!(
            even.iter()
                .all(|cell| cell.write == DirectionLoad::default())
        );
        let varied = counted(true);
        assert!((total(&varied) as f64 / 30_900.0 - 1.0).abs() < 0.03);
        let counts: Vec<f64> = varied.iter().map(|cell| cell.read.ops as f64).collect();
        let dispersion = crate::binned::idc(&counts, 1).unwrap();
        assert!((0.7..1.4).contains(&dispersion), "{dispersion}");
    }
}
