// SPDX-License-Identifier: Apache-2.0
//! Margins, steadiness, searches of systems without noise, turns and ratios. How often intervals hold the
//! edge of noisy systems is seen in `tests/integration/load_line.rs`.

use plimsoll_core::comparison::{ComparisonVerdict, VerdictPolicy};
use plimsoll_core::num::round_u64;
use plimsoll_core::rng::{Rng, Seed};

use plimsoll_core::load_line::{LoadLineBatch, LoadLinePurpose, LoadLineReading, LoadLineRequest};

use super::*;

fn share(allowed: f64) -> LoadLineLimit {
    LoadLineLimit {
        name: format!("share {allowed}"),
        measure: LoadLineMeasure::Share(allowed),
    }
}

fn batch(operations: f64, amount: f64) -> LoadLineBatch {
    LoadLineBatch { operations, amount }
}

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 0.01
}

#[test]
fn the_sign_of_a_margin_is_that_of_the_plain_comparison() {
    for (allowed, operations) in [(0.01, 1_000.0), (0.5, 40.0), (0.001, 90.0), (0.0, 1e6)] {
        for beyond in [0.0, 1.0, 9.0, 11.0, 40.0] {
            let margin = share(allowed).margin(&[batch(operations, beyond)]);
            let holds = beyond <= allowed * operations;
            assert_eq!(margin >= 0.0, holds, "{beyond} of {operations}, {allowed}");
        }
    }
}

#[test]
fn margins_are_distances_in_standard_deviations() {
    // 2.28 % beyond: two deviations; 1 % is at 2.326.
    let p99 = share(0.01).margin(&[batch(1e6, 22_750.0)]);
    assert!(close(p99, 2.0 - 2.326), "{p99:?}");
    let mean = LoadLineLimit {
        name: "mean".into(),
        measure: LoadLineMeasure::Mean(20.0),
    };
    assert!(close(mean.margin(&[batch(10.0, 100.0)]), 2.0 * 2f64.ln()));
    assert!(close(mean.margin(&[batch(10.0, 0.0)]), 2.5));
}

#[test]
fn what_still_declines_is_not_steady() {
    let noisy = |decline: f64| -> Vec<LoadLineBatch> {
        let mut rng = Rng::new(Seed(3));
        let mut at = |second: u32| {
            let beyond = 40.0 * (decline * f64::from(second) / 600.0).exp();
            batch(10_000.0, (beyond * (0.1 * rng.normal()).exp()).round())
        };
        (0..600).map(&mut at).collect()
    };
    assert!(share(0.01).steadiness(&noisy(0.0), 1.0).unwrap().is_steady);
    assert!(!share(0.01).steadiness(&noisy(3.0), 1.0).unwrap().is_steady);
    assert_eq!(share(0.01).steadiness(&noisy(0.0)[..11], 1.0), None);
}

/// A system whose p99 and failed operations follow laws of the multiple, with credits or without.
struct QuietSystem {
    beyond: fn(f64) -> f64,
    failed: fn(f64) -> f64,
    /// Multiple that is carried without credits, and the number of credits.
    baseline: f64,
    credits: f64,
}

impl QuietSystem {
    fn of(beyond: fn(f64) -> f64) -> QuietSystem {
        QuietSystem {
            beyond,
            failed: |_| 0.0,
            baseline: f64::INFINITY,
            credits: 0.0,
        }
    }

    fn play(&mut self, request: LoadLineRequest) -> LoadLineTrial {
        let mut readings = vec![LoadLineReading::default(); 2];
        let (mut served, mut overloaded) = (0.0, false);
        let mut second = 0.0;
        while second < request.seconds {
            if self.baseline.is_finite() {
                self.credits = (self.credits + self.baseline - request.multiple).max(0.0);
            }
            overloaded = request.multiple > self.baseline && self.credits <= 0.0;
            let share = if overloaded {
                1.0
            } else {
                (self.beyond)(request.multiple)
            };
            let operations = 10_000.0;
            readings[0]
                .batches
                .push(batch(operations, (share * operations).round()));
            let failed = (self.failed)(request.multiple) * operations;
            readings[1].batches.push(batch(operations, failed.round()));
            served = if overloaded {
                self.baseline / request.multiple
            } else {
                1.0
            };
            second += 1.0;
        }
        LoadLineTrial {
            request,
            readings,
            served,
            backlog_grew: overloaded,
            is_void: false,
        }
    }
}

fn options() -> LoadLineOptions {
    LoadLineOptions {
        limits: vec![share(0.01), share(0.0)],
        ..LoadLineOptions::default()
    }
}

fn searched(system: &mut QuietSystem, options: LoadLineOptions) -> LoadLineResult {
    let mut search = LoadLineSearch::new(options);
    while let LoadLineStep::Try(request) = search.next() {
        search.observe(&system.play(request));
    }
    search.result()
}

/// 1 % at a multiple of 2.
fn knee(multiple: f64) -> f64 {
    (0.01 * (multiple / 2.0).powi(6)).min(1.0)
}

fn cliff(multiple: f64) -> f64 {
    if multiple < 3.0 { 0.001 } else { 0.9 }
}

#[test]
fn the_edge_of_a_quiet_system_is_found() {
    for (law, edge) in [(knee as fn(f64) -> f64, 2.0), (cliff, 3.0)] {
        let result = searched(&mut QuietSystem::of(law), options());
        let found = result.sustained;
        assert!(found.low <= edge && edge <= found.high, "{edge}: {found:?}");
        assert!(found.high / found.low < 1.051, "{found:?}");
        assert_eq!(result.stop, Some(LoadLineStop::WidthReached));
        assert_eq!(result.binding.as_deref(), Some("share 0.01"));
        assert_eq!(result.burst, None);
        assert!(result.seconds < 2_000.0, "{}", result.seconds);
        let first = result.curve.first().unwrap();
        assert!(first.carried > 0.9 && first.low > 0.0, "{first:?}");
    }
}

#[test]
fn the_limit_that_is_broken_first_is_named() {
    let mut system = QuietSystem::of(knee);
    system.failed = |multiple| if multiple > 1.2 { 0.001 } else { 0.0 };
    let result = searched(&mut system, options());
    let found = result.sustained;
    assert!(found.low <= 1.2 && 1.2 <= found.high, "{found:?}");
    assert_eq!(result.binding.as_deref(), Some("share 0"));
}

#[test]
fn what_is_carried_for_a_while_only_is_a_burst() {
    let mut system = QuietSystem::of(knee);
    (system.baseline, system.credits) = (0.8, 700.0);
    let result = searched(&mut system, options());
    let found = result.sustained;
    assert!(found.low <= 0.8 && 0.8 <= found.high, "{found:?}");
    assert!(
        result.burst.is_some_and(|burst| burst.low > 0.9),
        "{result:?}"
    );
}

#[test]
fn a_line_outside_the_range_is_said_to_be() {
    let result = searched(&mut QuietSystem::of(|_| 0.2), options());
    assert_eq!(result.stop, Some(LoadLineStop::NothingCarried));
    let result = searched(&mut QuietSystem::of(|_| 0.001), options());
    assert_eq!(result.stop, Some(LoadLineStop::EverythingCarried));
    // Margins that say no more than their sign leave the edge just beyond the range for ever.
    let result = searched(&mut QuietSystem::of(|_| 0.0), options());
    assert_eq!(result.stop, Some(LoadLineStop::EverythingCarried));
    assert!(result.trials <= 30, "{result:?}");
    let result = searched(&mut QuietSystem::of(|_| 1.0), options());
    assert_eq!(result.stop, Some(LoadLineStop::NothingCarried));
    assert!(result.trials <= 30, "{result:?}");
}

#[test]
fn clients_are_whole_numbers() {
    let whole = LoadLineOptions {
        smallest: 1.0,
        largest: 64.0,
        is_whole: true,
        ..options()
    };
    let result = searched(&mut QuietSystem::of(|n| knee(n / 3.7)), whole);
    let found = result.sustained;
    // The share is 1 % at 7.4 clients: 7 are carried and 8 are not.
    assert!(
        found.low >= 6.0 && found.low <= 7.0 && found.high <= 8.0,
        "{found:?}"
    );
    assert_eq!(result.stop, Some(LoadLineStop::WidthReached));
}

#[test]
fn a_void_trial_costs_time_and_tells_nothing() {
    let mut search = LoadLineSearch::new(options());
    let LoadLineStep::Try(request) = search.next() else {
        panic!("it has just begun")
    };
    let mut trial = QuietSystem::of(knee).play(request);
    trial.is_void = true;
    search.observe(&trial);
    assert_eq!(search.next(), LoadLineStep::Try(request));
    assert!(close(search.result().seconds, request.seconds));
}

#[test]
fn the_budget_ends_a_search_with_the_interval_that_is_known() {
    let short = LoadLineOptions {
        budget_s: 120.0,
        ..options()
    };
    let result = searched(&mut QuietSystem::of(knee), short);
    assert_eq!(result.stop, Some(LoadLineStop::BudgetReached));
    assert!(result.seconds <= 120.0 && result.sustained.high > 1.05 * result.sustained.low);
}

#[test]
fn each_search_has_one_turn_in_a_round_and_a_stay_is_not_left() {
    let searches = vec![LoadLineSearch::new(options()); 3];
    let mut systems = [knee as fn(f64) -> f64, cliff, |m| knee(3.0 * m)].map(QuietSystem::of);
    let mut rounds = LoadLineRounds::new(searches, Seed(1));
    let mut order = Vec::new();
    while let Some(turn) = rounds.turn() {
        if turn.request.is_continued {
            assert_eq!(order.last(), Some(&turn.search));
        } else {
            order.push(turn.search);
        }
        let trial = systems[turn.search].play(turn.request);
        rounds.observe(turn.search, &trial);
    }
    for round in order.chunks(3).take(5) {
        assert!((0..3).all(|search| round.contains(&search)), "{order:?}");
    }
    assert!(
        order.chunks(3).any(|round| round[0] != order[0]),
        "{order:?}"
    );
    assert!(
        rounds
            .searches()
            .iter()
            .all(|search| search.result().stop.is_some())
    );
}

fn result_at(point: f64, half: f64) -> LoadLineResult {
    let mut result = LoadLineSearch::new(options()).result();
    result.reach = LoadLineReach::Between;
    result.sustained = LoadLineInterval {
        low: point / half,
        point,
        high: point * half,
    };
    result
}

#[test]
fn ratios_of_lines_have_the_three_verdicts() {
    let policy = VerdictPolicy::default();
    let of = |other: f64, half: f64| {
        LoadLineRatio::of(&result_at(2.0, half), &result_at(other, half), &policy).unwrap()
    };
    assert_eq!(of(2.01, 1.02).verdict, ComparisonVerdict::Equivalent);
    assert_eq!(of(2.4, 1.02).verdict, ComparisonVerdict::Different);
    assert_eq!(of(2.1, 1.08).verdict, ComparisonVerdict::Inconclusive);
    let ratio = of(4.0, 1.03).ratio;
    assert!(close(ratio.estimate, 2.0) && close((ratio.high / 2.0).ln(), 2f64.sqrt() * 0.0296));
    let mut nothing = result_at(1.0, 1.1);
    nothing.reach = LoadLineReach::Below;
    assert_eq!(
        LoadLineRatio::of(&nothing, &result_at(1.0, 1.1), &policy),
        None
    );
}

/// A hundred operations a second at a multiple of 1; those beyond the limit come in clumps of about ten, and
/// make up 1 % at a multiple of 1 and hardly more above it.
fn clumps(request: LoadLineRequest, rng: &mut Rng) -> LoadLineTrial {
    let operations = 100.0 * request.multiple;
    let share = 0.01 * request.multiple.powf(1.6);
    let mut second = || {
        let is_clump = rng.unit() < share * operations / 10.0;
        let beyond = if is_clump {
            10.0 * rng.exponential(1.0)
        } else {
            0.0
        };
        batch(operations.round(), beyond.round())
    };
    let batches = (0..round_u64(request.seconds)).map(|_| second()).collect();
    LoadLineTrial {
        request,
        readings: vec![LoadLineReading { batches }],
        served: 1.0,
        backlog_grew: false,
        is_void: false,
    }
}

#[test]
fn where_operations_come_in_clumps_trials_get_longer_and_intervals_hold() {
    for seed in 1..=5 {
        let mut rng = Rng::new(Seed(seed));
        let mut search = LoadLineSearch::new(LoadLineOptions {
            limits: vec![share(0.01)],
            short_s: 4.0,
            trial_s: 12.0,
            sustained_s: 120.0,
            budget_s: 2_880.0,
            ..LoadLineOptions::default()
        });
        let mut longest_s: f64 = 0.0;
        while let LoadLineStep::Try(request) = search.next() {
            if request.purpose == LoadLinePurpose::Locate {
                longest_s = longest_s.max(request.seconds);
            }
            search.observe(&clumps(request, &mut rng));
        }
        let found = search.result().sustained;
        assert!(longest_s >= 40.0, "{seed}: {longest_s} s, {found:?}");
        let is_held = found.low <= 1.1 && 0.95 <= found.high;
        assert!(is_held, "{seed}: {found:?}");
    }
}

#[test]
fn one_stay_that_others_disturb_throws_nothing_away() {
    // The first stay only: two looks at the same multiple differ.
    let mut system = QuietSystem::of(knee);
    let mut search = LoadLineSearch::new(options());
    let mut stays = 0;
    while let LoadLineStep::Try(request) = search.next() {
        let is_stay = request.purpose == LoadLinePurpose::Sustain;
        stays += usize::from(is_stay && !request.is_continued);
        let mut trial = system.play(request);
        if is_stay && stays == 1 {
            for batch in &mut trial.readings[0].batches {
                batch.amount = 0.2 * batch.operations;
            }
        }
        search.observe(&trial);
    }
    let result = search.result();
    let found = result.sustained;
    assert!(found.low <= 2.0 && 2.0 <= found.high, "{found:?}");
    assert!(
        result.burst.is_none() && found.high / found.low < 1.2,
        "{result:?}"
    );
}

#[test]
fn no_multiple_is_judged_on_fewer_operations_than_its_percentile_needs() {
    // Two operations a second at a multiple of 1: a stay of ten minutes needs a quarter of that to see one
    // in a hundred.
    let mut search = LoadLineSearch::new(LoadLineOptions {
        limits: vec![share(0.01)],
        ..LoadLineOptions::default()
    });
    let mut judged = Vec::new();
    while let LoadLineStep::Try(request) = search.next() {
        let batches = (0..round_u64(request.seconds)).map(|_| batch(2.0 * request.multiple, 0.0));
        let mut batches: Vec<LoadLineBatch> = batches.collect();
        // None is carried.
        batches
            .iter_mut()
            .for_each(|batch| batch.amount = 0.1 * batch.operations);
        judged.push(request.multiple);
        search.observe(&LoadLineTrial {
            request,
            readings: vec![LoadLineReading { batches }],
            served: 1.0,
            backlog_grew: false,
            is_void: false,
        });
    }
    assert!(
        judged[1..].iter().all(|multiple| *multiple >= 0.249),
        "{judged:?}"
    );
    assert_eq!(search.result().stop, Some(LoadLineStop::NothingCarried));
}
