// SPDX-License-Identifier: Apache-2.0
//! The promises of a verdict, held against thousands of simulated campaigns whose truth is known.
//!
//! Everything is seeded: the rates below are the same on every machine.

use plimsoll_core::comparison::{
    ArmComparison, ComparisonMetric, ComparisonVerdict, VerdictPolicy,
};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_stats::{ArmValues, compare};

/// A base, its control and one arm whose true ratio is `ratio`; blocks drift by 20 %.
fn campaign(rng: &mut Rng, blocks: usize, variation: f64, ratio: f64) -> Vec<ArmComparison> {
    let sigma = (1.0 + variation * variation).ln().sqrt();
    let mut values = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..blocks {
        let block = 0.2 * rng.normal();
        for (arm, truth) in values.iter_mut().zip([1.0, ratio, 1.0]) {
            arm.push(Some(1e6 * truth * (block + sigma * rng.normal()).exp()));
        }
    }
    let [base, arm, control] = values;
    let arms = [
        named("base", None, base),
        named("arm", None, arm),
        named("base again", Some("base"), control),
    ];
    compare(
        "w",
        ComparisonMetric::MeanResponse,
        &arms,
        &VerdictPolicy::default(),
    )
}

fn named(name: &str, control_of: Option<&str>, values: Vec<Option<f64>>) -> ArmValues {
    ArmValues {
        name: name.into(),
        control_of: control_of.map(Into::into),
        values,
        places: Vec::new(),
    }
}

/// Shares of campaigns in which the arm, and in which the control gets this verdict.
fn shares(
    seed: u64,
    (n, variation, ratio): (usize, f64, f64),
    want: ComparisonVerdict,
) -> [f64; 2] {
    // A thousand for the rates that are promised, fewer where the margin to the promise is wide.
    let reps = if seed <= 3 || seed == 8 { 1_000 } else { 400 };
    let mut rng = Rng::new(Seed(seed));
    let mut hits = [0; 2];
    for _ in 0..reps {
        let rows = campaign(&mut rng, n, variation, ratio);
        for (hits, row) in hits.iter_mut().zip(&rows) {
            *hits += u32::from(row.verdict == want);
        }
    }
    hits.map(|hits| f64::from(hits) / f64::from(reps))
}

/// The share of the arm alone.
fn share(seed: u64, truth: (usize, f64, f64), want: ComparisonVerdict) -> f64 {
    shares(seed, truth, want)[0]
}

#[test]
fn identical_systems_are_rarely_called_different() {
    for (seed, n) in [(1, 3), (2, 5), (3, 10)] {
        // The control row has no noise floor to protect it: the plain 5 % of the interval.
        let [arm, control] = shares(seed, (n, 0.05, 1.0), ComparisonVerdict::Different);
        assert!(arm <= 0.07 && control <= 0.07, "{arm} {control}");
    }
}

#[test]
fn a_true_tenth_is_found_when_the_blocks_allow_it() {
    assert!(share(4, (5, 0.02, 1.1), ComparisonVerdict::Different) >= 0.95);
    assert!(share(5, (10, 0.03, 1.1), ComparisonVerdict::Different) >= 0.95);
    assert!(share(6, (5, 0.05, 2.0), ComparisonVerdict::Different) >= 0.99);
}

#[test]
fn a_true_tenth_is_never_called_equivalent() {
    for n in [3, 10] {
        for variation in [0.02, 0.1] {
            assert!(share(7, (n, variation, 1.1), ComparisonVerdict::Equivalent) <= 0.05);
        }
    }
}

#[test]
fn a_true_difference_at_the_margin_is_called_equivalent_at_most_one_time_in_twenty() {
    for n in [5, 10] {
        assert!(share(8, (n, 0.02, 1.05), ComparisonVerdict::Equivalent) <= 0.065);
    }
}

#[test]
fn quiet_identical_systems_are_called_equivalent() {
    assert!(share(9, (5, 0.01, 1.0), ComparisonVerdict::Equivalent) >= 0.95);
    assert!(share(10, (10, 0.02, 1.0), ComparisonVerdict::Equivalent) >= 0.95);
}

fn fixed(arm: &[Option<f64>], control: Option<&[f64]>) -> Vec<ArmComparison> {
    let base = vec![Some(100.0), Some(110.0), Some(90.0), Some(100.0)];
    let mut arms = vec![named("base", None, base), named("arm", None, arm.to_vec())];
    if let Some(values) = control {
        let values = values.iter().copied().map(Some).collect();
        arms.push(named("base again", Some("base"), values));
    }
    compare(
        "w",
        ComparisonMetric::OpsPerSecond,
        &arms,
        &VerdictPolicy::default(),
    )
}

#[test]
fn values_without_a_logarithm_never_become_a_verdict() {
    let nothing = [None, Some(0.0), Some(f64::NAN), Some(-3.0)];
    let row = &fixed(&nothing, None)[0];
    assert_eq!(
        (row.verdict, row.blocks),
        (ComparisonVerdict::Inconclusive, 0)
    );
    assert_eq!((row.ratio, row.blocks_needed), (None, Some(2)));
    assert!(row.reason.contains("at least two blocks"), "{}", row.reason);
    assert!(
        row.reason.contains("3 blocks were left out"),
        "{}",
        row.reason
    );
    assert!(row.base_value > 0.0 && row.arm_value.abs() < f64::EPSILON);
    let half = [Some(200.0), Some(220.0), None, Some(f64::INFINITY)];
    let row = &fixed(&half, None)[0];
    assert_eq!((row.verdict, row.blocks), (ComparisonVerdict::Different, 2));
}

#[test]
fn no_spread_at_all_is_still_a_verdict() {
    let same = [Some(100.0), Some(110.0), Some(90.0), Some(100.0)];
    let row = &fixed(&same, None)[0];
    assert_eq!(row.verdict, ComparisonVerdict::Equivalent);
    // 1 − 0.05^(1/4) = 52.7 %.
    assert_eq!(
        row.reason,
        "4 trials may miss a stall that strikes fewer than 53 % of trials"
    );
    let twice = same.map(|v| v.map(|v| v * 2.0));
    let row = &fixed(&twice, Some(&[100.0, 110.0, 90.0, 100.0]))[0];
    assert_eq!(
        (row.verdict, row.reason.as_str()),
        (ComparisonVerdict::Different, "")
    );
    assert!((row.ratio.unwrap().estimate - 2.0).abs() < 1e-9);
    assert!(row.noise_floor.unwrap() < 1e-9);
}

#[test]
fn a_control_that_scatters_widens_the_interval_of_the_arm() {
    let arm = [Some(110.0), Some(121.5), Some(99.0), Some(110.3)];
    assert_eq!(fixed(&arm, None)[0].verdict, ComparisonVerdict::Different);
    let rows = fixed(&arm, Some(&[120.0, 108.0, 95.0, 80.0]));
    let row = &rows[0];
    assert_eq!(row.verdict, ComparisonVerdict::Inconclusive);
    assert!(row.reason.contains("includes 1"), "{}", row.reason);
    assert!(row.blocks_needed.unwrap() > 4);
    assert!(row.detectable.unwrap() > 0.1);
    assert!(rows[1].is_control && rows[1].noise_floor == row.noise_floor);
}

#[test]
fn an_effect_within_the_bound_of_a_control_that_differs_is_inconclusive_and_says_so() {
    let arm = [Some(125.0), Some(137.4), Some(112.6), Some(125.1)];
    assert_eq!(fixed(&arm, None)[0].verdict, ComparisonVerdict::Different);
    let row = &fixed(&arm, Some(&[120.0, 132.1, 107.9, 120.1]))[0];
    assert_eq!(row.verdict, ComparisonVerdict::Inconclusive);
    assert!(
        row.reason.contains("within the A/A bound"),
        "{}",
        row.reason
    );
}

#[test]
fn a_control_that_differs_accuses_the_lab() {
    let arm = [Some(400.0), Some(441.0), Some(360.0), Some(401.0)];
    let rows = fixed(&arm, Some(&[110.0, 121.5, 99.0, 110.3]));
    assert_eq!(rows[1].verdict, ComparisonVerdict::Different);
    assert!(rows[1].reason.contains("control shows a difference"));
    assert_eq!(rows[0].verdict, ComparisonVerdict::Different);
    assert!(rows[0].reason.contains("control differs too"));
}

#[test]
fn nothing_is_equivalent_while_the_control_is_not() {
    let same = [Some(100.1), Some(109.9), Some(90.05), Some(99.95)];
    assert_eq!(fixed(&same, None)[0].verdict, ComparisonVerdict::Equivalent);
    // In the middle between both entries of the base, which are a fifth apart.
    let middle = [Some(109.6), Some(120.4), Some(98.6), Some(109.5)];
    let row = &fixed(&middle, Some(&[120.0, 132.1, 107.9, 120.1]))[0];
    assert_eq!(row.verdict, ComparisonVerdict::Inconclusive);
    assert!(
        row.reason.contains("the A/A control does not"),
        "{}",
        row.reason
    );
}

#[test]
fn one_arm_alone_is_not_compared() {
    let alone = [named("a", None, vec![Some(1.0)])];
    assert!(
        compare(
            "w",
            ComparisonMetric::OpsPerSecond,
            &alone,
            &VerdictPolicy::default()
        )
        .is_empty()
    );
    assert!(
        compare(
            "w",
            ComparisonMetric::OpsPerSecond,
            &[],
            &VerdictPolicy::default()
        )
        .is_empty()
    );
}
