// SPDX-License-Identifier: Apache-2.0
//! Arrivals inside an interval of which only the count is known.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::num::{floor_u64, round_u64};
use crate::rng::{Rng, Seed};
use crate::units::Nanos;

/// How arrivals lie inside an interval. No counter contains it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelArrivalPattern {
    /// At equal distances: the kindest to a storage system.
    Even,
    /// Independent and uniform: a Poisson process given its count.
    Poisson,
    /// In bursts within bursts (the b-model of Wang and others, ICDE 2002): of the two halves of the
    /// interval, of their halves and so on down to some 16 microseconds, one is the busier, drawn
    /// alike for reads and writes, and each arrival falls into it with the probability `bias`.
    Biased {
        /// Share of the busier half, 0.5 (Poisson) up to 1 (all at once).
        bias: f64,
    },
}

impl ModelArrivalPattern {
    /// As bursty as recorded disks commonly are.
    pub const BURSTY: ModelArrivalPattern = ModelArrivalPattern::Biased { bias: 0.7 };

    /// The bias with which an interval is halved; `None` where it is not.
    fn bias(self) -> Option<f64> {
        match self {
            ModelArrivalPattern::Even | ModelArrivalPattern::Poisson => None,
            ModelArrivalPattern::Biased { bias } => Some(bias.clamp(0.5, 1.0)),
        }
    }
}

impl fmt::Display for ModelArrivalPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ModelArrivalPattern::Even => "even",
            ModelArrivalPattern::Poisson => "Poisson",
            ModelArrivalPattern::Biased { .. } => "bursty",
        })
    }
}

/// Halves no longer than this are not halved again: so far down recordings show the same bias.
const SPAN_MIN: Nanos = Nanos(32_000);
/// Up to this number, each arrival is drawn into a half; of more, the rounded share is as good as exact.
const DRAWN_MAX: u64 = 64;

/// Arrivals still to come in a stretch of time.
#[derive(Debug, Clone, Copy, Default)]
struct ModelArrivalSpan {
    from: Nanos,
    to: Nanos,
    arrivals: u64,
    has_begun: bool,
    /// Which span of the interval it is: 1 the whole, 2 and 3 its halves, and so on.
    place: u64,
}

/// Draws the instants of one interval after another, in order, with fixed memory.
#[derive(Debug)]
pub(super) struct ModelArrivalSampler {
    within: ModelArrivalPattern,
    rng: Rng,
    /// From which comes which halves are the busier.
    bursts: Seed,
    intervals: u64,
    bias: Option<f64>,
    /// Spans after `now`, the next last: at most one for each halving.
    later: Vec<ModelArrivalSpan>,
    now: ModelArrivalSpan,
}

impl ModelArrivalSampler {
    /// Those with the same `bursts` have their bursts at the same time.
    pub(super) fn new(
        within: ModelArrivalPattern,
        seed: Seed,
        bursts: Seed,
    ) -> ModelArrivalSampler {
        ModelArrivalSampler {
            within,
            rng: Rng::new(seed),
            bursts,
            intervals: 0,
            bias: None,
            later: Vec::new(),
            now: ModelArrivalSpan::default(),
        }
    }

    /// Begins an interval with `arrivals` arrivals, and drops those left of the interval before.
    pub(super) fn begin(&mut self, from: Nanos, to: Nanos, arrivals: u64) {
        self.now = ModelArrivalSpan::default();
        self.intervals += 1;
        self.bias = self.within.bias();
        self.later.clear();
        self.later.push(ModelArrivalSpan {
            from,
            to,
            arrivals,
            has_begun: false,
            place: 1,
        });
    }

    /// The next arrival of the interval.
    pub(super) fn next(&mut self) -> Option<Nanos> {
        // Bounded by the halvings of the interval.
        while self.now.arrivals == 0 {
            self.now = self.next_span()?;
        }
        let left = self.now.arrivals as f64;
        let fraction = match (self.within, self.now.has_begun) {
            (ModelArrivalPattern::Even, false) => 0.5 / left,
            (ModelArrivalPattern::Even, true) => 1.0 / (left + 0.5),
            // The smallest of `left` uniform instants.
            _ => 1.0 - self.rng.unit().powf(1.0 / left),
        };
        let span = &mut self.now;
        let room = span.to.since(span.from).0 as f64;
        span.from = Nanos((span.from.0 + floor_u64(room * fraction)).min(span.to.0));
        span.arrivals -= 1;
        span.has_begun = true;
        Some(span.from)
    }

    fn next_span(&mut self) -> Option<ModelArrivalSpan> {
        let mut span = self.later.pop()?;
        let Some(bias) = self.bias else {
            return Some(span);
        };
        let busy = self.bursts.derive("interval", self.intervals);
        while span.arrivals > 0 && span.to.since(span.from) > SPAN_MIN {
            let middle = Nanos(span.from.0 + span.to.since(span.from).0 / 2);
            let first_is_busier = busy.derive("busier", span.place).0.is_multiple_of(2);
            let busier = self.share(span.arrivals, bias);
            let first = match first_is_busier {
                true => busier,
                false => span.arrivals - busier,
            };
            let half = |from, to, arrivals, place| ModelArrivalSpan {
                from,
                to,
                arrivals,
                has_begun: false,
                place,
            };
            let second = half(middle, span.to, span.arrivals - first, span.place * 2 + 1);
            self.later.push(second);
            span = half(span.from, middle, first, span.place * 2);
        }
        Some(span)
    }

    /// How many of `arrivals` fall into the busier half.
    fn share(&mut self, arrivals: u64, bias: f64) -> u64 {
        match arrivals {
            // Rounded, of two arrivals one would fall into each half: few would come evenly.
            0..=DRAWN_MAX => (0..arrivals).filter(|_| self.rng.unit() < bias).count() as u64,
            _ => round_u64(arrivals as f64 * bias).min(arrivals),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(within: ModelArrivalPattern, arrivals: u64) -> Vec<u64> {
        let mut instants = ModelArrivalSampler::new(within, Seed(11), Seed(12));
        instants.begin(Nanos(0), Nanos(Nanos::SECOND.0 * 16), arrivals);
        let drawn: Vec<u64> = std::iter::from_fn(|| instants.next())
            .map(|at| at.0)
            .collect();
        assert!(drawn.is_sorted() && drawn.iter().all(|at| *at <= 16_000_000_000));
        drawn
    }

    /// Variance of the counts in windows of `ns` over their mean.
    fn dispersion(drawn: &[u64], ns: u64) -> f64 {
        let windows = 16_000_000_000 / ns;
        let count = |k: u64| drawn.iter().filter(|at| **at / ns == k).count() as f64;
        let counts: Vec<f64> = (0..windows).map(count).collect();
        let mean = counts.iter().sum::<f64>() / windows as f64;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / windows as f64;
        variance / mean
    }

    #[test]
    fn every_arrival_comes_however_they_lie() {
        for within in [
            ModelArrivalPattern::Even,
            ModelArrivalPattern::Poisson,
            ModelArrivalPattern::BURSTY,
        ] {
            for arrivals in [0, 1, 2, 7, 10_000] {
                assert_eq!(drawn(within, arrivals).len() as u64, arrivals, "{within}");
            }
        }
    }

    /// How many others each arrival has within a leaf, on average over many intervals.
    fn others(within: ModelArrivalPattern, arrivals: u64) -> f64 {
        let leaf = 30_000;
        let mut instants = ModelArrivalSampler::new(within, Seed(3), Seed(4));
        let (mut others, mut all) = (0.0, 0.0);
        for _ in 0..200_000 / arrivals {
            instants.begin(Nanos(0), Nanos(leaf << 19), arrivals);
            let leaves: Vec<u64> = std::iter::from_fn(|| instants.next())
                .map(|at| at.0 / leaf)
                .collect();
            for run in leaves.chunk_by(|a, b| a == b) {
                others += (run.len() * (run.len() - 1)) as f64;
            }
            all += arrivals as f64;
        }
        others / all
    }

    #[test]
    fn few_arrivals_come_in_bursts_as_many_do() {
        let bias = 0.9;
        let together = (bias * bias + 0.1_f64 * 0.1).powi(19);
        for arrivals in [2, 5, 1_000] {
            let found = others(ModelArrivalPattern::Biased { bias }, arrivals);
            let expected = together * (arrivals - 1) as f64;
            assert!(
                (found / expected - 1.0).abs() < 0.2,
                "{arrivals}: {found} {expected}"
            );
        }
    }

    #[test]
    fn bursts_of_both_directions_come_together() {
        let of = |seed| {
            let mut instants =
                ModelArrivalSampler::new(ModelArrivalPattern::Biased { bias: 1.0 }, seed, Seed(12));
            instants.begin(Nanos(0), Nanos(16_000_000_000), 100);
            instants.next().unwrap_or_default()
        };
        assert!(of(Seed(1)).0.abs_diff(of(Seed(2)).0) < 32_000);
    }

    #[test]
    fn even_ones_have_equal_distances_and_bursty_ones_come_in_bursts() {
        let even = drawn(ModelArrivalPattern::Even, 1_000);
        let gaps = even.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.into_iter().all(|gap| gap.abs_diff(16_000_000) < 100));
        assert_eq!(even[0].abs_diff(8_000_000), 0);
        let window = 125_000_000;
        let poisson = dispersion(&drawn(ModelArrivalPattern::Poisson, 10_000), window);
        let bursty = dispersion(&drawn(ModelArrivalPattern::BURSTY, 10_000), window);
        assert!((0.5..1.5).contains(&poisson), "{poisson}");
        assert!(bursty > 100.0, "{bursty}");
    }
}
