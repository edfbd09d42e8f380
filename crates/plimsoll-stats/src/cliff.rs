// SPDX-License-Identifier: Apache-2.0
//! Cliffs: a throughput that falls within a trial and stays there. A cache that is full, credit that is
//! spent, a device that runs hot: what was measured before is not sustained.
//!
//! Throughput also falls by noise, but recovers. A fall counts when a step explains the seconds of its trial
//! far better than a line does, when nearly all seconds before it are above and nearly all after it below
//! the middle, and when the trials that follow do not contradict: they are low from their beginning, or
//! fall again.

use plimsoll_core::event::{RunFolderContents, TrialResult, TrialTimeBin};
use plimsoll_core::explanation::ThroughputCliff;
use plimsoll_core::units::Nanos;

use crate::events::median;
use crate::explain::{free_rates, is_free};

/// Seconds that a trial must have.
const STEPS_MIN: usize = 12;
/// Seconds that must be before a fall, and after it.
const BEFORE_MIN: usize = 2;
const AFTER_MIN: usize = 6;
/// The level before is at least this many times the level after.
const FACTOR_MIN: f64 = 1.25;
/// The least fall, as a multiple of the scatter beside it, of logarithms.
const SCATTERS: f64 = 4.0;
/// Seconds that may lie on the wrong side of the middle.
const STRAY_SHARE: f64 = 0.05;
/// A step must leave this share of the squares that a line leaves, at most.
const OF_A_LINE: f64 = 0.5;
/// From the median absolute deviation to the standard deviation of a normal law.
const MAD_TO_SD: f64 = 1.4826;

/// The cliffs of a run: of each system under each workload the first.
pub fn throughput_cliffs(results: &RunFolderContents) -> Vec<ThroughputCliff> {
    let manifest = &results.manifest;
    let mut cliffs = Vec::new();
    for entry in manifest.entries.iter().filter(|e| e.load_line.is_none()) {
        for arm in &manifest.arms {
            let mut trials: Vec<&TrialResult> = (results.trials.iter())
                .filter(|t| t.trial.workload == entry.label && t.trial.arm == arm.name)
                .filter(|t| is_free(t) && t.fault.is_none() && t.failed.is_none())
                .collect();
            trials.sort_by_key(|trial| trial.trial.place);
            let courses: Vec<TrialCourse<'_>> = trials
                .iter()
                .filter_map(|trial| {
                    TrialCourse::of(trial, results.intervals.get(&trial.trial.place)?)
                })
                .collect();
            cliffs.extend(
                first_cliff(&courses).map(|(course, fall, rest)| ThroughputCliff {
                    workload: entry.label.clone(),
                    arm: arm.name.clone(),
                    block: course.trial.trial.block,
                    trials: [1 + rest.falls, courses.len()],
                    after: Nanos::from_secs_f64(fall.after_s),
                    before_per_s: fall.before,
                    after_per_s: fall.after,
                    recovers: rest.falls > 0,
                }),
            );
        }
    }
    cliffs
}

/// A trial and its rates.
struct TrialCourse<'a> {
    trial: &'a TrialResult,
    rates: Vec<(f64, f64)>,
}

impl<'a> TrialCourse<'a> {
    fn of(trial: &'a TrialResult, bins: &[TrialTimeBin]) -> Option<TrialCourse<'a>> {
        let mut rates = free_rates(bins);
        // The last second may be cut off by the end.
        rates.pop();
        (rates.len() >= STEPS_MIN).then_some(TrialCourse { trial, rates })
    }
}

/// The throughput of the trials after a fall.
struct LaterTrials {
    /// Those that fall again.
    falls: usize,
}

fn first_cliff<'a, 'b>(
    courses: &'b [TrialCourse<'a>],
) -> Option<(&'b TrialCourse<'a>, ThroughputFall, LaterTrials)> {
    let falls: Vec<Option<ThroughputFall>> = courses
        .iter()
        .map(|course| fall_in(&course.rates))
        .collect();
    let first = falls.iter().position(Option::is_some)?;
    let fall = falls[first]?;
    let middle = (fall.before * fall.after).sqrt();
    let later = courses.iter().zip(&falls).skip(first + 1);
    let (mut agree, mut against, mut again) = (0, 0, 0);
    for (course, own) in later {
        let level = median(course.rates.iter().map(|(rate, _)| *rate))?;
        match own {
            Some(_) => again += 1,
            None if level < middle => agree += 1,
            None => against += 1,
        }
    }
    let is_lasting = 2 * against <= agree + again;
    is_lasting.then_some((&courses[first], fall, LaterTrials { falls: again }))
}

/// A fall within a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ThroughputFall {
    before: f64,
    after: f64,
    after_s: f64,
}

/// Whether a trial with these rates a second fell and stayed there, for all that it shows alone.
pub fn is_cliff(rates: &[f64]) -> bool {
    let seconds: Vec<(f64, f64)> = rates.iter().map(|rate| (*rate, 1.0)).collect();
    fall_in(&seconds).is_some()
}

/// The fall, where there is one: the split with the least squares, if it is one.
fn fall_in(rates: &[(f64, f64)]) -> Option<ThroughputFall> {
    let values: Vec<f64> = rates.iter().map(|(rate, _)| *rate).collect();
    let n = values.len();
    if n < STEPS_MIN || values.iter().all(|value| *value <= 0.0) {
        return None;
    }
    let error = |at: &usize| squares(&values[..*at]) + squares(&values[*at..]);
    let splits = BEFORE_MIN..=n - AFTER_MIN;
    let at = splits.min_by(|a, b| error(a).total_cmp(&error(b)))?;
    let (before, after) = (&values[..at], &values[at..]);
    let (high, low) = (
        median(before.iter().copied())?,
        median(after.iter().copied())?,
    );
    let middle = (high * low).sqrt();
    let strays = before.iter().filter(|value| **value < middle).count()
        + after
            .iter()
            .skip(1)
            .filter(|value| **value > middle)
            .count();
    let fall = (high / low).ln();
    let is_one = low > 0.0
        && high >= FACTOR_MIN * low
        && fall >= SCATTERS * scatter(before, high).max(scatter(after, low))
        && strays as f64 <= STRAY_SHARE * n as f64
        && error(&at) <= OF_A_LINE * squares_of_line(&values);
    is_one.then(|| ThroughputFall {
        before: high,
        after: low,
        after_s: rates[..at].iter().map(|(_, seconds)| seconds).sum(),
    })
}

fn squares(part: &[f64]) -> f64 {
    let mean = part.iter().sum::<f64>() / part.len().max(1) as f64;
    part.iter().map(|value| (value - mean).powi(2)).sum()
}

/// The squares that the best line leaves.
fn squares_of_line(values: &[f64]) -> f64 {
    let middle = (values.len() - 1) as f64 / 2.0;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (mut along, mut square) = (0.0, 0.0);
    for (number, value) in values.iter().enumerate() {
        let at = number as f64 - middle;
        along += at * (value - mean);
        square += at * at;
    }
    squares(values) - along * along / square
}

/// Robust scatter of logarithms around their middle.
fn scatter(values: &[f64], middle: f64) -> f64 {
    let far = values
        .iter()
        .map(|value| (value.max(f64::MIN_POSITIVE) / middle).ln().abs());
    MAD_TO_SD * median(far).unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    fn seconds(count: usize, noise: f64, law: impl Fn(usize) -> f64) -> Vec<(f64, f64)> {
        let mut rng = Rng::new(Seed(8));
        let mut value = |second| law(second) * (noise * rng.normal()).exp();
        (0..count).map(|second| (value(second), 1.0)).collect()
    }

    #[test]
    fn a_fall_that_stays_is_found_with_its_instant_and_its_levels() {
        for noise in [0.0, 0.02, 0.08] {
            let rates = seconds(90, noise, |second| if second < 47 { 820.0 } else { 310.0 });
            let fall = fall_in(&rates).unwrap();
            assert!((fall.after_s - 47.0).abs() < 1.5, "{noise}: {fall:?}");
            assert!(
                (fall.before / 820.0 - 1.0).abs() < 0.05,
                "{noise}: {fall:?}"
            );
            assert!((fall.after / 310.0 - 1.0).abs() < 0.05, "{noise}: {fall:?}");
        }
    }

    #[test]
    fn what_declines_dips_rises_or_scatters_is_no_cliff() {
        let none = |rates: &[(f64, f64)]| assert_eq!(fall_in(rates), None, "{rates:?}");
        none(&seconds(60, 0.02, |_| 500.0));
        none(&seconds(60, 0.3, |_| 500.0));
        none(&seconds(60, 0.01, |second| 900.0 - 10.0 * second as f64));
        none(&seconds(60, 0.02, |second| {
            if (20..30).contains(&second) {
                300.0
            } else {
                800.0
            }
        }));
        none(&seconds(
            60,
            0.02,
            |second| if second < 30 { 300.0 } else { 800.0 },
        ));
        none(&seconds(
            60,
            0.02,
            |second| if second < 30 { 330.0 } else { 300.0 },
        ));
        none(&seconds(
            8,
            0.0,
            |second| if second < 3 { 900.0 } else { 300.0 },
        ));
        none(&seconds(60, 0.0, |_| 0.0));
    }
}
