// SPDX-License-Identifier: Apache-2.0
//! Change points of several figures at once.
//!
//! The best division of a series into stretches of constant means is found by dynamic
//! programming that forgets starts which can never win again (PELT: Killick, Fearnhead and Eckley,
//! JASA 107(500), 2012). Figures count in units of their noise, so that one penalty serves all; an
//! interval that says nothing of a figure costs nothing.

use std::ops::Range;

use plimsoll_core::num::ratio;

use super::figures::PhaseLogSeries;

/// Penalty per stretch and figure in units of ln n. The information criterion would take 1 for
/// the mean; noise with heavy tails and memory needs more.
const PENALTY: f64 = 3.0;
/// Longest piece searched at once. The search is quadratic where nothing changes; a series of
/// years is searched in pieces, whose ends the clustering of stretches makes good.
const PIECE_MAX: usize = 2_048;

/// The stretches of constant means, of at least `least` intervals each; together they are the
/// whole. Figures must have the same length.
pub(super) fn stretches(figures: &[PhaseLogSeries], least: usize) -> Vec<Range<usize>> {
    let n = figures.first().map_or(0, |figure| figure.logs.len());
    let penalty = PENALTY * figures.len() as f64 * (n.max(2) as f64).ln();
    let pieces = n.div_ceil(PIECE_MAX).max(1);
    let mut found = Vec::new();
    for piece in 0..pieces {
        let (from, to) = (n * piece / pieces, n * (piece + 1) / pieces);
        let sums: Vec<PhaseRunningSums> = figures
            .iter()
            .map(|f| PhaseRunningSums::of(f, from..to))
            .collect();
        let ends = ends(&sums, to - from, penalty, least.max(1));
        let mut start = from;
        for end in ends {
            found.push(start..from + end);
            start = from + end;
        }
    }
    found
}

/// Running numbers, sums and squares of a figure in units of its noise.
struct PhaseRunningSums(Vec<(f64, f64, f64)>);

impl PhaseRunningSums {
    fn of(figure: &PhaseLogSeries, piece: Range<usize>) -> PhaseRunningSums {
        let mut sums = vec![(0.0, 0.0, 0.0)];
        let (mut number, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for value in &figure.logs[piece] {
            if let Some(value) = value.map(|value| value / figure.noise) {
                number += 1.0;
                sum += value;
                squares += value * value;
            }
            sums.push((number, sum, squares));
        }
        PhaseRunningSums(sums)
    }

    /// Squares of the distances to the mean of a stretch.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let (a, b) = (self.0[from], self.0[to]);
        let sum = b.1 - a.1;
        (b.2 - a.2 - ratio(sum * sum, b.0 - a.0)).max(0.0)
    }
}

/// Ends of the best stretches of a piece of `n` intervals, in order; the last is `n`.
fn ends(sums: &[PhaseRunningSums], n: usize, penalty: f64, least: usize) -> Vec<usize> {
    if n < 2 * least {
        return if n == 0 { Vec::new() } else { vec![n] };
    }
    let cost = |from: usize, to: usize| sums.iter().map(|s| s.cost(from, to)).sum::<f64>();
    // The least cost of the first `i` intervals, and where their last stretch starts.
    let mut best = vec![(f64::INFINITY, 0); n + 1];
    best[0].0 = -penalty;
    // Where the last stretch may start, and since when another start is better for good. That one
    // can be used only a shortest stretch later.
    let mut starts: Vec<(usize, usize)> = vec![(0, usize::MAX)];
    for to in least..=n {
        for (from, _) in &starts {
            let sum = best[*from].0 + cost(*from, to) + penalty;
            if sum < best[to].0 {
                best[to] = (sum, *from);
            }
        }
        for (from, beaten) in &mut starts {
            if *beaten == usize::MAX && best[*from].0 + cost(*from, to) > best[to].0 {
                *beaten = to;
            }
        }
        starts.retain(|(_, beaten)| to < beaten.saturating_add(least));
        // A stretch may start here as soon as it could end.
        let start = to + 1 - least;
        if start >= least {
            starts.push((start, usize::MAX));
        }
    }
    let mut ends = Vec::new();
    let mut at = n;
    // Every step goes back by at least a stretch.
    while at > 0 {
        ends.push(at);
        at = best[at].1;
    }
    ends.reverse();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    #[test]
    fn steps_are_found_where_they_are_and_noise_makes_none() {
        let mut rng = Rng::new(Seed(5));
        let means = [(60, 0.0), (5, 6.0), (80, 0.0), (40, -3.0)];
        let step = means
            .iter()
            .flat_map(|(n, mean)| vec![*mean; *n])
            .map(|mean| Some(mean + rng.normal()))
            .collect();
        let step = PhaseLogSeries::new(step);
        // Every third interval says nothing.
        let still = (0..185).map(|i| (i % 3 > 0).then(|| rng.normal()));
        let still = PhaseLogSeries::new(still.collect());
        assert_eq!(stretches(std::slice::from_ref(&still), 2).len(), 1);
        let found = stretches(&[step, still], 2);
        let starts: Vec<usize> = found.iter().map(|r| r.start).collect();
        assert_eq!(starts.len(), 4, "{found:?}");
        for (start, expected) in starts.iter().zip([0, 60, 65, 145]) {
            assert!(start.abs_diff(expected) <= 1, "{found:?}");
        }
    }

    #[test]
    fn pieces_of_a_long_series_join_and_short_ones_are_one_stretch() {
        let long = (0..5_000).map(|i| Some(f64::from(u8::from(i >= 1_000))));
        let found = stretches(&[PhaseLogSeries::new(long.collect())], 2);
        assert!(found.iter().any(|r| r.start == 1_000), "{found:?}");
        assert_eq!(found.iter().map(Range::len).sum::<usize>(), 5_000);
        for n in 0..4 {
            let found = stretches(&[PhaseLogSeries::new(vec![Some(1.0); n])], 2);
            assert_eq!(found.iter().map(Range::len).sum::<usize>(), n);
        }
        assert!(stretches(&[], 2).is_empty());
    }
}
