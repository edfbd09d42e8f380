// SPDX-License-Identifier: Apache-2.0
//! How often a watched series raises a false alarm, and how soon it shows a step, in short. The long form
//! is `bench/programs/src/bin/watch`; its tables are in docs/results/2026-11-watch.md.
//!
//! Everything is seeded: the rates below are the same on every machine. Bounds are the promise and
//! three standard errors of this number of histories.

use super::histories::HistoryLaw;
use plimsoll_core::change::RatioPoint;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_stats::change::{ChangeOptions, change_points};

const HISTORIES: usize = 600;
/// 5 % and three standard errors.
const ALARMS_MAX: f64 = 0.05 + 3.0 * 0.0089;
/// 80 % less three standard errors.
const FOUND_MIN: f64 = 0.8 - 3.0 * 0.0163;
/// Where the step is, and within how many points it must be found.
const STEP: (usize, usize) = (30, 8);

/// A lab that drifts twice as far as its trials scatter, and slow points now and then.
const LAB: HistoryLaw = HistoryLaw {
    points: 60,
    noise: 0.02,
    drift: 0.04,
    memory: 0.6,
    leak: 0.1,
    outliers: 0.1,
    step: None,
};

/// Options that A/A controls of such campaigns admit.
fn options() -> ChangeOptions {
    ChangeOptions {
        least_effect: 0.03,
        ..ChangeOptions::default()
    }
}

fn share(is: impl FnMut(&usize) -> bool) -> f64 {
    (0..HISTORIES).filter(is).count() as f64 / HISTORIES as f64
}

#[test]
fn of_a_hundred_series_without_a_change_at_most_five_raise_an_alarm() {
    for (memory, outliers) in [(0.6, 0.0), (0.6, 0.1), (0.9, 0.1)] {
        let law = HistoryLaw {
            memory,
            outliers,
            ..LAB
        };
        let mut rng = Rng::new(Seed(1));
        let alarms = share(|_| !change_points(&law.draw(&mut rng).ratios, &options()).is_empty());
        assert!(
            (0.003..=ALARMS_MAX).contains(&alarms),
            "{memory} {outliers}: {alarms}"
        );
    }
}

#[test]
fn raw_values_of_the_same_histories_alarm_far_more_often() {
    let mut rng = Rng::new(Seed(1));
    let alarms = share(|_| {
        let drawn = LAB.draw(&mut rng);
        let raw = |(value, point): (&f64, &RatioPoint)| RatioPoint {
            log_ratio: *value,
            error: None,
            ..*point
        };
        let points: Vec<RatioPoint> = drawn.raw.iter().zip(&drawn.ratios).map(raw).collect();
        !change_points(&points, &ChangeOptions::default()).is_empty()
    });
    assert!(alarms > 0.1, "{alarms}");
}

#[test]
fn a_step_of_one_and_a_half_deviations_is_found_within_eight_points() {
    let (first, within) = STEP;
    for direction in [1.0, -1.0] {
        let step = direction * 1.5 * LAB.raw_deviation();
        let law = HistoryLaw {
            step: Some((first, step)),
            ..LAB
        };
        let mut rng = Rng::new(Seed(2));
        let (mut covers, mut places) = (0, 0);
        let found = share(|_| {
            let changes = change_points(&law.draw(&mut rng).ratios, &options());
            let change = changes.iter().find(|change| change.found >= first);
            if let Some(change) = change {
                covers +=
                    usize::from(change.size.low <= step.exp() && step.exp() <= change.size.high);
                places += usize::from((change.earliest..=change.latest).contains(&first));
            }
            change.is_some_and(|change| change.found < first + within)
        });
        assert!(found >= FOUND_MIN, "{direction}: {found}");
        // Intervals of size and place at 95 %; that of the size is of what was noticed.
        let (covers, places) = (
            covers as f64 / HISTORIES as f64,
            places as f64 / HISTORIES as f64,
        );
        assert!(covers >= 0.85, "{direction}: size {covers}");
        assert!(places >= 0.85, "{direction}: place {places}");
    }
}
