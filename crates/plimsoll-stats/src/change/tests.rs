// SPDX-License-Identifier: Apache-2.0
//! Steps, outliers and what else a series may do.

use plimsoll_core::change::RatioPoint;
use plimsoll_core::rng::{Rng, Seed};

use super::{ChangeOptions, change_points};

/// Points a day apart, with normal noise of 2 % around a level.
fn series(count: usize, seed: u64, level: impl Fn(usize) -> f64) -> Vec<RatioPoint> {
    let mut rng = Rng::new(Seed(seed));
    let point = |day: usize| RatioPoint {
        when_unix_s: 86_400 * day as i64,
        log_ratio: level(day) + 0.02 * rng.normal(),
        error: Some(0.02),
    };
    (0..count).map(point).collect()
}

fn found(points: &[RatioPoint]) -> Vec<super::RatioChange> {
    change_points(points, &ChangeOptions::default())
}

#[test]
fn a_step_is_found_with_its_place_and_size() {
    for seed in 0..20 {
        let points = series(60, seed, |day| if day < 30 { 0.0 } else { 0.08 });
        let changes = found(&points);
        let first = changes.first().unwrap_or_else(|| panic!("seed {seed}"));
        assert!(
            first.earliest <= 30 && 30 <= first.latest,
            "{seed}: {first:?}"
        );
        assert!(first.first.abs_diff(30) <= 2, "{seed}: {first:?}");
        assert!((31..40).contains(&first.found), "{seed}: {first:?}");
        let (low, high) = (first.size.low, first.size.high);
        assert!(low > 1.04 && high < 1.13 && low < high, "{seed}: {first:?}");
        assert!(first.p_value <= 0.05);
    }
}

/// Eight points that creep up, and eight on another level: few points look dependent by chance, and the step
/// is clear all the same.
#[test]
fn a_clear_step_of_a_short_series_is_found() {
    let before = [1.684, 1.701, 1.677, 1.725, 1.709, 1.731, 1.722, 1.733];
    let after = [2.219, 2.253, 2.135, 2.189, 2.333, 2.190, 2.281, 2.217];
    let mut points = series(16, 0, |_| 0.0);
    for (point, ratio) in points.iter_mut().zip(before.iter().chain(&after)) {
        point.log_ratio = f64::ln(*ratio);
    }
    let changes = found(&points);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].first, 8, "{changes:?}");
}

/// A series that becomes slower and noisier at once is no series of poor points.
#[test]
fn a_step_to_a_noisier_level_is_found() {
    let mut points = series(40, 7, |day| if day < 30 { 0.0 } else { 0.5 });
    for point in &mut points[30..] {
        point.error = Some(0.1);
    }
    let changes = found(&points);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].first, 30, "{changes:?}");
    assert!(changes[0].found < 36, "{changes:?}");
}

#[test]
fn what_is_known_does_not_change_with_later_points() {
    let points = series(90, 3, |day| match day {
        0..30 => 0.0,
        30..60 => 0.09,
        _ => -0.05,
    });
    let all = found(&points);
    assert_eq!(all.len(), 2, "{all:?}");
    for end in 1..points.len() {
        let then: Vec<usize> = found(&points[..end]).iter().map(|c| c.found).collect();
        let known = all.iter().map(|c| c.found).filter(|at| *at < end);
        assert_eq!(then, known.collect::<Vec<_>>(), "{end}");
    }
}

#[test]
fn an_outlier_raises_no_alarm() {
    // A level that goes up and down by as much: whatever one point of it does, or two in a row.
    for (at, count) in [(0, 1), (8, 1), (20, 1), (41, 1), (59, 1), (20, 2), (57, 2)] {
        for far in [-1e6, -1.0, 0.3, 1e6] {
            let mut points = series(60, 1, |_| 0.0);
            for (day, point) in points.iter_mut().enumerate() {
                let sign = if day % 2 == 0 { 1.0 } else { -1.0 };
                point.log_ratio = sign * (0.01 + 0.01 * (day % 5) as f64);
            }
            let outliers = points[at..at + count].iter_mut();
            outliers.for_each(|point| point.log_ratio = far);
            assert!(found(&points).is_empty(), "{at} {count} {far}");
        }
    }
}

#[test]
fn outliers_do_not_make_alarms_more_frequent() {
    let alarms = |far: Option<f64>| {
        let alarm = |seed: &u64| {
            let mut points = series(60, *seed, |_| 0.0);
            if let Some(far) = far {
                points[45].log_ratio = far;
            }
            !found(&points).is_empty()
        };
        (0..600).filter(alarm).count()
    };
    // 5 % and three standard errors of 600 histories.
    let most = 30 + 16;
    for far in [None, Some(-10.0), Some(10.0)] {
        let alarms = alarms(far);
        assert!((8..=most).contains(&alarms), "{far:?}: {alarms}");
    }
}

#[test]
fn no_change_hangs_on_one_point() {
    // A split that is clear with its clearest point alone: 4 of 34 points, one of them far away.
    let mut values = vec![0.0; 34];
    for (day, value) in values.iter_mut().enumerate() {
        *value = f64::from(u32::try_from(day * 7 % 30).unwrap_or(0)) / 30.0;
    }
    values[30..].copy_from_slice(&[1.1, 1.2, 1.3, 9.0]);
    let clear = super::clearest_split(&values, 0.0);
    assert!(clear.is_some());
    values[31] = 0.5;
    assert!(super::clearest_split(&values, 0.0).is_none());
}

#[test]
fn less_than_the_least_effect_is_no_change() {
    let points = series(60, 5, |day| if day < 30 { 0.0 } else { 0.06 });
    let with = |least_effect| {
        let options = ChangeOptions {
            least_effect,
            ..ChangeOptions::default()
        };
        change_points(&points, &options).len()
    };
    assert_eq!((with(0.03), with(0.12)), (1, 0));
}

#[test]
fn poor_and_missing_points_are_passed_over() {
    let mut points = series(60, 6, |day| if day < 30 { 0.0 } else { 0.1 });
    for at in [12, 33, 34] {
        points[at].log_ratio = -3.0;
        points[at].error = Some(1.5);
    }
    points[20].log_ratio = f64::NAN;
    points[35].error = Some(f64::INFINITY);
    let changes = found(&points);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(changes[0].first == 30, "{changes:?}");
    assert!(changes[0].size.low > 1.05, "{changes:?}");
}

#[test]
fn figures_without_noise_change_by_a_step() {
    // The size of a report is the same each day, until it is not.
    let mut points = series(40, 1, |_| 0.0);
    for (day, point) in points.iter_mut().enumerate() {
        *point = RatioPoint {
            log_ratio: if day < 25 { 0.0 } else { 0.004 },
            error: None,
            ..*point
        };
    }
    let changes = found(&points);
    assert_eq!(changes.len(), 1);
    assert_eq!(
        (changes[0].first, changes[0].earliest, changes[0].latest),
        (25, 25, 25)
    );
    points.iter_mut().for_each(|point| point.log_ratio = 0.5);
    assert!(found(&points).is_empty());
    assert!(found(&[]).is_empty() && found(&points[..1]).is_empty());
}
