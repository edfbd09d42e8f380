// SPDX-License-Identifier: Apache-2.0
//! Whether a system has become steady: the proportional-window equivalence test, with SNIA's rule
//! beside it.
//!
//! Of all that passed since the start the third quarter is compared with the last. Windows grow with
//! the time, so that a slow decay is not mistaken for its end, as it is by windows of a fixed length.
//! It is equivalence that must be shown: noise that hides a change does not pass. Steps of a trial
//! depend on each other, so the error of a window is that of the means of its tenths (batch means).

use std::ops::Range;

use plimsoll_core::conditioning::{SniaSteadyState, SteadyStateResult, SteadyStateVerdict};
use plimsoll_core::num::{floor_u64, to_usize};
use plimsoll_core::units::Nanos;

use crate::student;
use crate::summary::SummaryStats;

/// Steps below which nothing is called steady: three for each window of a quarter.
pub(crate) const STEPS_MIN: usize = 12;

/// Nothing is called steady before: a slow decay changes little in less.
const SHORTEST_S: f64 = 60.0;

/// Confidence that a change is smaller than its reported bound.
const CONFIDENCE: f64 = 0.95;

/// Pieces of a window whose means give its error.
const PIECES: usize = 10;

/// From one look to the next the time grows by this: each look is a chance to be wrong.
const LOOK_GROWTH: f64 = 1.1;

/// Looks in a row that must find it steady.
const LOOKS_IN_A_ROW: usize = 2;

/// Rounds of SNIA's rule, and how long one is where there is time for it.
const SNIA_ROUNDS: usize = 5;
const SNIA_ROUND_S: f64 = 60.0;
/// How far the largest and the smallest of them may be apart, of their average.
const SNIA_EXCURSION: f64 = 0.20;
/// How far the line through them may rise or fall.
const SNIA_SLOPE: f64 = 0.10;

/// The third quarter of `n` values, and the last.
pub(crate) fn last_quarters(n: usize) -> [Range<usize>; 2] {
    [n / 2..n * 3 / 4, n * 3 / 4..n]
}

/// The factor on the error of a difference of two such windows below which it lies with this confidence.
pub(crate) fn quarters_factor(n: usize, confidence: f64) -> f64 {
    // Each window has ten pieces at most, so nine degrees of freedom each.
    let pieces = (n / 4).min(PIECES);
    student::quantile(confidence, 2 * (pieces - 1))
}

/// A workload that is played until the system is steady.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadyStateSearch {
    step_s: f64,
    /// Change that is none, as a fraction.
    margin: f64,
    /// The level in each step.
    values: Vec<f64>,
    next_look: usize,
    /// Looks in a row that found it steady.
    row: usize,
}

impl SteadyStateSearch {
    /// The change that SNIA's rule could not see and no comparison is made for.
    pub const MARGIN: f64 = 0.03;

    /// One that has seen nothing, of values of steps of this length.
    pub fn new(step_s: f64) -> Self {
        SteadyStateSearch {
            step_s,
            margin: Self::MARGIN,
            values: Vec::new(),
            next_look: STEPS_MIN.max(to_usize(floor_u64(SHORTEST_S / step_s))),
            row: 0,
        }
    }

    /// Takes the level of another step; whether the system is steady now.
    pub fn push(&mut self, value: f64) -> bool {
        self.values.push(value);
        let n = self.values.len();
        if n < self.next_look {
            return self.row >= LOOKS_IN_A_ROW;
        }
        let later = floor_u64(n as f64 * LOOK_GROWTH);
        self.next_look = (n + 1).max(to_usize(later));
        let is_steady = SteadyStateChange::of(&self.values)
            .is_some_and(|change| change.at_most() <= self.margin);
        self.row = if is_steady { self.row + 1 } else { 0 };
        self.row >= LOOKS_IN_A_ROW
    }

    /// The verdict at the end; `None` where too little was seen.
    pub fn result(&self, is_response: bool) -> Option<SteadyStateResult> {
        let change = SteadyStateChange::of(&self.values)?;
        let n = self.values.len();
        let [_, last] = last_quarters(n);
        let is_steady = self.row >= LOOKS_IN_A_ROW;
        let begins = beginning(&self.values, self.margin) as f64 * self.step_s;
        Some(SteadyStateResult {
            verdict: match is_steady {
                true => SteadyStateVerdict::Steady,
                false if change.at_least() > self.margin => SteadyStateVerdict::Changing,
                false => SteadyStateVerdict::CannotTell,
            },
            after: Nanos::from_secs_f64(n as f64 * self.step_s),
            change: change.log.exp_m1(),
            at_most: change.at_most().exp_m1(),
            margin: self.margin,
            level: mean(&self.values[last]),
            is_response,
            begins: Nanos::from_secs_f64(begins),
            snia: snia(&self.values, self.step_s),
        })
    }
}

/// The change from the third quarter to the last.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SteadyStateChange {
    /// Its logarithm.
    log: f64,
    /// The uncertainty of the size of the logarithm, on one side.
    error: f64,
}

impl SteadyStateChange {
    fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n < STEPS_MIN {
            return None;
        }
        let [third, last] = last_quarters(n).map(|window| window_mean(&values[window]));
        if third.0 <= 0.0 || last.0 <= 0.0 {
            return None;
        }
        let error = (third.1 / third.0).hypot(last.1 / last.0);
        Some(SteadyStateChange {
            log: (last.0 / third.0).ln(),
            error: quarters_factor(n, CONFIDENCE) * error,
        })
    }

    fn at_most(self) -> f64 {
        self.log.abs() + self.error
    }

    fn at_least(self) -> f64 {
        self.log.abs() - self.error
    }
}

/// The mean of a window, and its standard error by batch means.
fn window_mean(values: &[f64]) -> (f64, f64) {
    let pieces: Vec<f64> = values
        .chunks(values.len().div_ceil(PIECES).max(1))
        .map(mean)
        .collect();
    let error = SummaryStats::of(pieces.iter().copied()).map_or(0.0, |pieces_stats| {
        let n = pieces.len() as f64;
        let square = |value: &f64| (value - pieces_stats.mean).powi(2);
        let squares: f64 = pieces.iter().map(square).sum();
        (squares / (n - 1.0).max(1.0) / n).sqrt()
    });
    (mean(values), error)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Steps after which the level is that of the end: windows that double are looked at from the middle
/// back, and the first that differs from the last half by more than the margin and its noise is the end
/// of the beginning. The noise of a window is that of windows of its length in the last half.
fn beginning(values: &[f64], margin: f64) -> usize {
    let n = values.len();
    let last = &values[n / 2..];
    let level = mean(last);
    let mut from = n / 4;
    while from >= 1 {
        let window = &values[from..2 * from];
        let change = (mean(window) / level).ln().abs();
        if !change.is_finite() || change > margin + scatter_of_means(last, from) / level {
            return 2 * from;
        }
        from /= 2;
    }
    0
}

/// The one-sided uncertainty of the mean of `steps` steps in a row, estimated from `values`.
fn scatter_of_means(values: &[f64], steps: usize) -> f64 {
    let piece = steps.min(values.len().div_ceil(PIECES)).max(1);
    let means: Vec<f64> = values.chunks_exact(piece).map(mean).collect();
    let middle = mean(&means);
    let squares: f64 = means.iter().map(|value| (value - middle).powi(2)).sum();
    let degrees = means.len().saturating_sub(1).max(1);
    let deviation = (squares / degrees as f64).sqrt();
    // Longer windows than are seen: their means scatter less.
    let longer = steps as f64 / piece as f64;
    student::quantile(CONFIDENCE, degrees) * deviation / longer.sqrt()
}

/// SNIA's rule on the last five rounds of a minute, or of a tenth of the time where that is shorter.
fn snia(values: &[f64], step_s: f64) -> Option<SniaSteadyState> {
    let longest = values.len() / (2 * SNIA_ROUNDS);
    let minute = to_usize(floor_u64(SNIA_ROUND_S / step_s)).max(1);
    let steps = longest.min(minute);
    if steps == 0 {
        return None;
    }
    let last = &values[values.len() - SNIA_ROUNDS * steps..];
    let rounds: Vec<f64> = last.chunks(steps).map(mean).collect();
    snia_of(&rounds, steps as f64 * step_s)
}

/// SNIA's rule on rounds of this length.
pub fn snia_of(rounds: &[f64], round_s: f64) -> Option<SniaSteadyState> {
    let average = mean(rounds);
    if average <= 0.0 {
        return None;
    }
    let largest = rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let middle = (rounds.len() - 1) as f64 / 2.0;
    let (mut along, mut square) = (0.0, 0.0);
    for (number, value) in rounds.iter().enumerate() {
        let at = number as f64 - middle;
        along += at * (value - average);
        square += at * at;
    }
    let excursion = (largest - smallest) / average;
    let slope = (along / square).abs() * (rounds.len() - 1) as f64 / average;
    Some(SniaSteadyState {
        round: Nanos::from_secs_f64(round_s),
        excursion,
        slope,
        is_steady: excursion <= SNIA_EXCURSION && slope <= SNIA_SLOPE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    /// Plays a law with this noise for `steps` steps at most.
    fn search(steps: usize, noise: f64, law: impl Fn(f64) -> f64) -> SteadyStateSearch {
        let mut rng = Rng::new(Seed(3));
        let mut search = SteadyStateSearch::new(0.5);
        for step in 0..steps {
            let value = law(step as f64 * 0.5) * (noise * rng.normal()).exp();
            if search.push(value) {
                break;
            }
        }
        search
    }

    #[test]
    fn a_steady_system_is_soon_called_so_and_has_no_beginning() {
        let result = search(1_200, 0.02, |_| 800.0).result(false).unwrap();
        assert_eq!(result.verdict, SteadyStateVerdict::Steady);
        assert!(result.after < Nanos(80 * Nanos::SECOND.0), "{result:?}");
        assert!(
            result.at_most <= 0.031 && result.begins == Nanos(0),
            "{result:?}"
        );
        assert!((result.level / 800.0 - 1.0).abs() < 0.02);
        assert!(result.snia.unwrap().is_steady);
    }

    #[test]
    fn a_slow_decay_is_waited_for() {
        // To a third, with a time constant of 20 s.
        let decay = |at: f64| 300.0 + 700.0 * (-at / 20.0).exp();
        let result = search(1_200, 0.02, decay).result(false).unwrap();
        assert_eq!(result.verdict, SteadyStateVerdict::Steady);
        assert!((result.level / 300.0 - 1.0).abs() < 0.02, "{result:?}");
        let begins = result.begins.as_secs_f64();
        assert!((60.0..180.0).contains(&begins), "{result:?}");
    }

    #[test]
    fn a_beginning_is_found_beside_noise_and_where_it_ends_at_once() {
        let falls = |at: f64| if at < 20.0 { 1_000.0 } else { 400.0 };
        for noise in [0.02, 0.1] {
            let result = search(1_200, noise, falls).result(false).unwrap();
            let begins = result.begins.as_secs_f64();
            assert!((20.0..=60.0).contains(&begins), "{noise}: {result:?}");
        }
    }

    #[test]
    fn what_goes_on_changing_or_is_too_noisy_is_not_called_steady() {
        let growing = search(240, 0.01, |at| 100.0 + at).result(true).unwrap();
        assert_eq!(growing.verdict, SteadyStateVerdict::Changing);
        assert!(growing.change > 0.1 && growing.is_response);
        let noisy = search(40, 0.4, |_| 100.0).result(false).unwrap();
        assert_eq!(noisy.verdict, SteadyStateVerdict::CannotTell);
        assert!(SteadyStateSearch::new(0.5).result(false).is_none());
        let nothing = search(40, 0.0, |_| 0.0);
        assert!(nothing.result(false).is_none());
    }

    #[test]
    fn the_rule_of_snia_has_its_limits_where_the_specification_has_them() {
        let of = |rounds: &[f64]| snia_of(rounds, 1.0).unwrap();
        for (rounds, excursion, slope, is_steady) in [
            ([100.0, 100.0, 100.0, 100.0, 100.0], 0.0, 0.0, true),
            ([90.0, 110.0, 100.0, 110.0, 90.0], 0.2, 0.0, true),
            ([89.0, 111.0, 100.0, 111.0, 89.0], 0.22, 0.0, false),
            ([95.0, 97.5, 100.0, 102.5, 105.0], 0.1, 0.1, true),
            ([94.0, 97.0, 100.0, 103.0, 106.0], 0.12, 0.12, false),
        ] {
            let found = of(&rounds);
            assert!((found.excursion - excursion).abs() < 1e-9, "{found:?}");
            assert!((found.slope - slope).abs() < 1e-9, "{found:?}");
            assert_eq!(found.is_steady, is_steady, "{rounds:?}");
        }
    }
}
