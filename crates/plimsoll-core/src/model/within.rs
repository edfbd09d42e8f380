// SPDX-License-Identifier: Apache-2.0
//! How arrivals lie inside an interval of which only their number is known.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::num::{floor_u64, round_u64};
use crate::rng::{Rng, Seed};
use crate::units::Nanos;

/// How arrivals lie inside an interval. No counter tells it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Within {
    /// At equal distances: the kindest to a storage system.
    Even,
    /// Independent and uniform: a Poisson process given its count.
    Poisson,
    /// In bursts within bursts (the b-model of Wang and others, ICDE 2002): of each half of the
    /// interval, of its halves and so on down to a millisecond, one gets the share `bias` of the
    /// arrivals, which of the two is drawn.
    Biased {
        /// Share of the busier half, 0.5 (about Poisson) up to 1 (all in one millisecond).
        bias: f64,
    },
}

impl Within {
    /// As bursty as recorded disks commonly are.
    pub const BURSTY: Within = Within::Biased { bias: 0.7 };
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Within::Even => "even",
            Within::Poisson => "Poisson",
            Within::Biased { .. } => "bursty",
        })
    }
}

/// Halves no longer than this are not halved again.
const SPAN_MIN: Nanos = Nanos(1_000_000);

/// Arrivals still to come in a stretch of time.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    from: Nanos,
    to: Nanos,
    arrivals: u64,
    has_begun: bool,
}

/// Draws the instants of one interval after another, in order, with fixed memory.
#[derive(Debug)]
pub(super) struct Instants {
    within: Within,
    rng: Rng,
    /// What follows `now`, the next last: at most one for each halving.
    later: Vec<Span>,
    now: Span,
}

impl Instants {
    pub(super) fn new(within: Within, seed: Seed) -> Instants {
        Instants {
            within,
            rng: Rng::new(seed),
            later: Vec::new(),
            now: Span::default(),
        }
    }

    /// Begins an interval with so many arrivals; what was left of the last is forgotten.
    pub(super) fn begin(&mut self, from: Nanos, to: Nanos, arrivals: u64) {
        self.now = Span::default();
        self.later.clear();
        self.later.push(Span {
            from,
            to,
            arrivals,
            has_begun: false,
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
            (Within::Even, false) => 0.5 / left,
            (Within::Even, true) => 1.0 / (left + 0.5),
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

    fn next_span(&mut self) -> Option<Span> {
        let mut span = self.later.pop()?;
        let Within::Biased { bias } = self.within else {
            return Some(span);
        };
        while span.arrivals > 1 && span.to.since(span.from) > SPAN_MIN {
            let middle = Nanos(span.from.0 + span.to.since(span.from).0 / 2);
            let busier = round_u64(span.arrivals as f64 * bias.clamp(0.5, 1.0)).min(span.arrivals);
            let first = match self.rng.unit() < 0.5 {
                true => busier,
                false => span.arrivals - busier,
            };
            let half = |from, to, arrivals| Span {
                from,
                to,
                arrivals,
                has_begun: false,
            };
            self.later
                .push(half(middle, span.to, span.arrivals - first));
            span = half(span.from, middle, first);
        }
        Some(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(within: Within, arrivals: u64) -> Vec<u64> {
        let mut instants = Instants::new(within, Seed(11));
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
        for within in [Within::Even, Within::Poisson, Within::BURSTY] {
            for arrivals in [0, 1, 2, 7, 10_000] {
                assert_eq!(drawn(within, arrivals).len() as u64, arrivals, "{within}");
            }
        }
    }

    #[test]
    fn even_ones_have_equal_distances_and_bursty_ones_come_in_bursts() {
        let even = drawn(Within::Even, 1_000);
        let gaps = even.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.into_iter().all(|gap| gap.abs_diff(16_000_000) < 100));
        assert_eq!(even[0].abs_diff(8_000_000), 0);
        let window = 125_000_000;
        let poisson = dispersion(&drawn(Within::Poisson, 10_000), window);
        let bursty = dispersion(&drawn(Within::BURSTY, 10_000), window);
        assert!((0.5..1.5).contains(&poisson), "{poisson}");
        assert!(bursty > 100.0, "{bursty}");
    }
}
