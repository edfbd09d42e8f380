// SPDX-License-Identifier: Apache-2.0
//! How often a method raises an alarm, when it looks after every point or once at the end.

use plimsoll_core::change::RatioPoint;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_measurements::histories::{HistoryLaw, SimulatedHistory};
use plimsoll_stats::change::{ChangeOptions, change_points};

use crate::e_divisive::{SIDE_MIN, e_divisive};

/// Points within which a step must be found.
pub(crate) const WITHIN: usize = 8;
/// Where it is.
pub(crate) const STEP_AT: usize = 30;

/// A way to look for changes, and what it looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchMethod {
    /// Ours, of ratios.
    Ratios,
    /// Ours, of raw values.
    Raw,
    /// E-divisive of ratios, each day anew.
    DivisiveRatios,
    /// E-divisive of raw values, each day anew.
    DivisiveRaw,
}

/// Outcome of many histories.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WatchRates {
    /// Histories without a step in which an alarm was raised at any point.
    pub(crate) alarms: f64,
    /// The same where only the whole history was looked at.
    pub(crate) alarms_at_end: f64,
    /// Histories whose step was found within [`WITHIN`] points.
    pub(crate) found: f64,
    /// Those in which more was found than the step.
    pub(crate) more: f64,
}

/// Draws `count` histories without a step and `count` with one, and counts the alarms of the method.
pub(crate) fn rates(
    law: &HistoryLaw,
    step: f64,
    least: f64,
    method: WatchMethod,
    count: usize,
) -> WatchRates {
    let share = |hits: usize| hits as f64 / count as f64;
    let mut rng = Rng::new(Seed(2026).derive("level", 0));
    let mut rates = WatchRates::default();
    let (mut alarms, mut at_end) = (0, 0);
    for _ in 0..count {
        let days = alarm_days(&law.draw(&mut rng), least, method, &mut rng.clone());
        alarms += usize::from(!days.is_empty());
        at_end += usize::from(days.iter().any(|day| day.is_at_end));
    }
    (rates.alarms, rates.alarms_at_end) = (share(alarms), share(at_end));
    let stepped = HistoryLaw {
        step: Some((STEP_AT, step)),
        ..*law
    };
    let mut rng = Rng::new(Seed(2026).derive("step", 0));
    let (mut found, mut more) = (0, 0);
    for _ in 0..count {
        let days = alarm_days(&stepped.draw(&mut rng), least, method, &mut rng.clone());
        let is_step = |day: &&AlarmDay| {
            (STEP_AT..STEP_AT + WITHIN).contains(&day.found) && day.first + SIDE_MIN >= STEP_AT
        };
        found += usize::from(days.iter().any(|day| is_step(&day)));
        more += usize::from(
            days.iter()
                .filter(|day| day.first.abs_diff(STEP_AT) > WITHIN)
                .count()
                > 0,
        );
    }
    (rates.found, rates.more) = (share(found), share(more));
    rates
}

/// An alarm: with which point it was raised, of which.
struct AlarmDay {
    found: usize,
    first: usize,
    /// Whether it is there when the whole history is looked at.
    is_at_end: bool,
}

fn alarm_days(
    history: &SimulatedHistory,
    least: f64,
    method: WatchMethod,
    rng: &mut Rng,
) -> Vec<AlarmDay> {
    let raw = |(point, value): (&RatioPoint, &f64)| RatioPoint {
        log_ratio: *value,
        error: None,
        ..*point
    };
    let points: Vec<RatioPoint> = match method {
        WatchMethod::Ratios | WatchMethod::DivisiveRatios => history.ratios.clone(),
        WatchMethod::Raw | WatchMethod::DivisiveRaw => {
            history.ratios.iter().zip(&history.raw).map(raw).collect()
        }
    };
    if matches!(method, WatchMethod::Ratios | WatchMethod::Raw) {
        let options = ChangeOptions {
            least_effect: least,
            ..ChangeOptions::default()
        };
        let changes = change_points(&points, &options);
        let day = |change: &plimsoll_core::change::RatioChange| AlarmDay {
            found: change.found,
            first: change.first,
            is_at_end: true,
        };
        return changes.iter().map(day).collect();
    }
    let values: Vec<f64> = points.iter().map(|point| point.log_ratio).collect();
    let mut days: Vec<AlarmDay> = Vec::new();
    for end in 2 * SIDE_MIN..=values.len() {
        for first in e_divisive(&values[..end], rng) {
            let is_at_end = end == values.len();
            let known = days
                .iter_mut()
                .find(|day| day.first.abs_diff(first) <= SIDE_MIN);
            match known {
                Some(day) => day.is_at_end |= is_at_end,
                None => days.push(AlarmDay {
                    found: end - 1,
                    first,
                    is_at_end,
                }),
            }
        }
    }
    days
}
