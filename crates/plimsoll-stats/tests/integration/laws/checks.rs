// SPDX-License-Identifier: Apache-2.0
//! Whether the laws are what they say: their truths, and that their states outlive a trial.
#![expect(
    clippy::print_stdout,
    reason = "the figures of a truth are read by people"
)]

use std::collections::BTreeSet;

use super::{HALVES, LawGroup, LawHalf, LawTrial, LawTruth, Set, all, sets};

fn set(family: &str, number: u32) -> Set {
    let mut sets = sets().into_iter();
    let is_it = |set: &Set| set.family == family && set.number == number;
    sets.find(is_it).unwrap()
}

/// Share of late operations from some second on.
fn late(trial: &LawTrial, from: usize) -> f64 {
    let seconds = &trial.seconds[from..];
    let ops: u64 = seconds.iter().map(|second| second.ops).sum();
    let late: u64 = seconds.iter().map(|second| second.late).sum();
    late as f64 / ops as f64
}

/// Of this set, its long-run share ÷ the limit's, by a part of what tells it.
pub(super) fn long_run(family: &str, number: u32, multiple: f64, seed: u64, part: f64) -> f64 {
    let set = set(family, number);
    let (warm, share) = (set.soak / 4.0, set.limit.share);
    let seconds = warm + set.soak * part;
    let trial = super::Law::trial(&mut set.open(seed), multiple, seconds, 0.0);
    late(
        &trial,
        plimsoll_core::num::to_usize(plimsoll_core::num::floor_u64(warm)),
    ) / share
}

/// The same over sessions that begin at this time and last minutes.
fn at_time(family: &str, number: u32, multiple: f64, start: f64) -> f64 {
    let share = |seed| {
        let set = set(family, number);
        let limit = set.limit.share;
        late(
            &super::Law::trial(&mut set.open(seed), multiple, 400.0, start),
            5,
        ) / limit
    };
    (0..16).map(share).sum::<f64>() / 16.0
}

/// Three percent to both sides of the truth the share is on its side of the limit.
fn truth_holds(name: &str) {
    for set in sets().into_iter().filter(|set| set.family == name) {
        let number = set.number;
        let share = |multiple| long_run(name, number, multiple, 7, 1.0);
        let (low, high) = set.range;
        match set.truth() {
            LawTruth::AtMost { multiple, error } => {
                assert!(
                    low * 2.0 < multiple && multiple * 2.0 < high,
                    "{name} {number}"
                );
                assert!(error < 0.005, "{name} {number}: {error}");
                let (below, above) = (share(multiple * 0.97), share(multiple * 1.03));
                println!("{name} {number}: {below:.3} {above:.3}");
                assert!(
                    below < 1.0 && above > 1.0,
                    "{name} {number}: {below} {above}"
                );
            }
            LawTruth::Sinks { low, high } => {
                for (multiple, start) in [(high, 0.0), (low, 8.0 * 3_600.0)] {
                    let below = at_time(name, number, multiple * 0.97, start);
                    let above = at_time(name, number, multiple * 1.03, start);
                    println!("{name} {number}: {below:.3} {above:.3}");
                    assert!(
                        below < 1.0 && above > 1.0,
                        "{name} {number}: {below} {above}"
                    );
                }
            }
            LawTruth::Unlimited => assert!(share(high) < 0.9, "{name} {number}"),
            LawTruth::Never => assert!(
                share(low) > 1.2 && share(low * 8.0) > 1.2,
                "{name} {number}"
            ),
        }
    }
}

/// Where the share crosses the limit, of one seed, which listens for a part of the time.
pub(super) fn crossing(set: &Set, seed: u64, bracket: (f64, f64), rounds: u32, part: f64) -> f64 {
    let (mut low, mut high) = bracket;
    for _ in 0..rounds {
        let middle = (low * high).sqrt();
        if long_run(set.family, set.number, middle, seed, part) <= 1.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * high).sqrt()
}

fn truth_is_computed(name: &str) {
    for set in sets().into_iter().filter(|set| set.family == name) {
        let LawTruth::AtMost { .. } = set.truth() else {
            continue;
        };
        let first = crossing(&set, 100, set.range, 8, 0.15);
        let first = crossing(&set, 100, (first / 1.15, first * 1.15), 5, 0.5);
        let bracket = (first / 1.05, first * 1.05);
        let one = |seed| crossing(&set, seed, bracket, 6, 1.0);
        let found: Vec<f64> = (101..=106).map(one).collect();
        let mean = found.iter().sum::<f64>() / 6.0;
        let squares = found
            .iter()
            .map(|one| (one / mean - 1.0).powi(2))
            .sum::<f64>();
        let error = (squares / 30.0).sqrt();
        println!(
            "(\"{name}\", {}, {mean:.4}, {error:.4}), not {:?}",
            set.number,
            set.truth()
        );
    }
}

macro_rules! families {
    ($($module:ident $name:literal),* $(,)?) => {
        $(mod $module {
            #[test]
            fn truth_holds() {
                super::truth_holds($name);
            }

            #[test]
            #[ignore = "computes the constants again: minutes"]
            fn truth_is_computed() {
                super::truth_is_computed($name);
            }
        })*

        #[test]
        fn halves_alternate_by_name_of_family() {
            let names = [$($name),*];
            assert!(names.is_sorted());
            for (number, (name, half)) in names.into_iter().zip(HALVES).map(|(name, (known, half))| {
                assert_eq!(name, known);
                (name, half)
            }).enumerate() {
                let expected = if number % 2 == 0 { LawHalf::Tuning } else { LawHalf::Judging };
                assert_eq!(half, expected, "{name}");
            }
            assert_eq!(names.len(), HALVES.len());
        }
    };
}

families! {
    ageing "ageing",
    burst_credits "burst credits",
    bursty_arrivals "bursty arrivals",
    collapse "collapse",
    failing_disk "failing disk",
    flat "flat",
    group_commit "group commit",
    heavy_tails "heavy tails",
    large_among_small "large among small",
    naps "naps",
    neighbour "neighbour",
    pauses "pauses",
    scrub "scrub",
    shared_disk "shared disk",
    stripes "stripes",
    two_tiers "two tiers",
    wandering_speed "wandering speed",
    write_back "write-back",
}

#[test]
fn laws_of_both_halves_are_of_every_group() {
    let laws = all(1);
    let names: BTreeSet<&str> = laws.iter().map(|law| law.name()).collect();
    assert_eq!(names.len(), laws.len(), "names are unique");
    for half in [LawHalf::Tuning, LawHalf::Judging] {
        for group in [LawGroup::Quiet, LawGroup::Noisy, LawGroup::NoAnswer] {
            let these = laws
                .iter()
                .filter(|law| law.half() == half && law.group() == group);
            assert!(these.count() >= 2, "{half:?} {group:?}");
        }
    }
    for law in &laws {
        let has_answer = matches!(
            law.truth(law.limit()),
            LawTruth::AtMost { .. } | LawTruth::Sinks { .. }
        );
        assert_eq!(
            has_answer,
            law.group() != LawGroup::NoAnswer,
            "{}",
            law.name()
        );
        assert!(!law.description().is_empty());
    }
}

#[test]
fn trials_of_a_seed_repeat_and_count_every_operation_once() {
    for (law, twin) in all(3).iter_mut().zip(&mut all(3)) {
        let (low, high) = law.range();
        for (number, multiple) in [low, (low * high).sqrt(), high].into_iter().enumerate() {
            let trial = law.trial(multiple, 10.5, number as f64 * 20.0);
            let again = twin.trial(multiple, 10.5, number as f64 * 20.0);
            assert_eq!(trial.seconds, again.seconds, "{}", law.name());
            assert_eq!(trial.seconds.len(), 11);
            let sum = |of: fn(&super::LawSecond) -> u64| trial.seconds.iter().map(of).sum::<u64>();
            assert_eq!(sum(|second| second.ops), trial.offered, "{}", law.name());
            assert_eq!(
                sum(|second| second.ended),
                trial.completed,
                "{}",
                law.name()
            );
            assert!(trial.completed <= trial.offered);
            assert_eq!(trial.response.count(), trial.offered);
            let limit = law.limit();
            let is_late =
                trial.response.quantile_ns(1.0 - limit.share) as f64 > limit.seconds * 1e9;
            let share = late(&trial, 0) / limit.share;
            assert!(
                is_late == (share > 1.0) || (0.9..1.1).contains(&share),
                "{}",
                law.name()
            );
        }
    }
}

#[test]
fn more_load_is_later_where_a_law_says_so() {
    for mut law in all(5)
        .into_iter()
        .filter(|law| law.group() != LawGroup::NoAnswer)
    {
        let (low, high) = law.range();
        let few = late(&law.trial(low, 120.0, 0.0), 0);
        let many = late(&law.trial(high, 120.0, 120.0), 0);
        let middle = late(&law.trial((low * high).sqrt(), 120.0, 4_000.0), 0);
        assert!(many > law.limit().share, "{}: {many}", law.name());
        assert_eq!(
            law.is_monotone(),
            few <= middle + 0.01,
            "{}: {few} {middle}",
            law.name()
        );
    }
}

#[test]
fn credits_that_a_trial_used_are_back_after_a_rest_only() {
    let mut law = set("burst credits", 1).open(1);
    let mut trial =
        |multiple, seconds, start| late(&super::Law::trial(&mut law, multiple, seconds, start), 0);
    assert!(
        trial(4.0, 25.0, 0.0) < 0.01,
        "1,600 a second from 30,000 credits"
    );
    assert!(trial(4.0, 25.0, 25.0) > 0.5);
    assert!(trial(1.5, 25.0, 51.0) > 0.5);
    assert!(trial(4.0, 25.0, 600.0) < 0.01);
}

#[test]
fn a_neighbour_comes_and_goes_while_nothing_is_tried() {
    let mut law = set("neighbour", 1).open(1);
    let shares: Vec<f64> = (0..60)
        .map(|number| {
            late(
                &super::Law::trial(&mut law, 1.9, 20.0, f64::from(number) * 600.0),
                2,
            )
        })
        .collect();
    let slow = shares.iter().filter(|share| **share > 0.05).count();
    assert!((8..40).contains(&slow), "a third of the time: {shares:?}");
}

/// Share of late operations of M/G/1 with two sizes: its waiting time is a geometric number of residual
/// service times (Pollaczek and Khinchine), whose sum is computed on a lattice (Panjer).
fn late_of_two_sizes(rate: f64, sizes: [(f64, f64); 2], limit: f64) -> f64 {
    let (steps, step) = (4_000, limit / 4_000.0);
    let mean: f64 = sizes.iter().map(|(size, chance)| size * chance).sum();
    let longer = |time: f64| -> f64 {
        let these = sizes.iter().filter(|(size, _)| *size > time);
        these.map(|(_, chance)| chance).sum()
    };
    let residual: Vec<f64> = (0..=steps)
        .map(|number| {
            let (from, to) = (f64::from(number) - 0.5, f64::from(number) + 0.5);
            let below = |end: f64| -> f64 {
                let part = |(size, chance): &(f64, f64)| size.min(end.max(0.0) * step) * chance;
                sizes.iter().map(part).sum()
            };
            (below(to) - below(from)) / mean
        })
        .collect();
    let busy = rate * mean;
    let mut waits = vec![(1.0 - busy) / (1.0 - busy * residual[0])];
    let (mut late, mut seen) = (0.0, 0.0);
    for number in 0..steps {
        let wait = waits.last().copied().unwrap();
        late += wait * longer(limit - f64::from(number) * step);
        seen += wait;
        let sum: f64 = residual[1..]
            .iter()
            .zip(waits.iter().rev())
            .map(|(a, b)| a * b)
            .sum();
        waits.push(busy * sum / (1.0 - busy * residual[0]));
    }
    late + 1.0 - seen
}

#[test]
fn truths_of_two_sizes_solve_the_equation_of_their_waiting_time() {
    let parameters = [
        (0.0004, 0.008, 0.02),
        (0.0002, 0.02, 0.01),
        (0.0005, 0.003, 0.15),
    ];
    for (number, (small, large, chance)) in (1..).zip(parameters) {
        let set = set("large among small", number);
        let LawTruth::AtMost { multiple, .. } = set.truth() else {
            panic!("{number}")
        };
        let sizes = [(small, 1.0 - chance), (large, chance)];
        let late = |multiple: f64| late_of_two_sizes(multiple * set.rate, sizes, set.limit.seconds);
        assert!(
            late(multiple * 0.998) < 0.01 && late(multiple * 1.002) > 0.01,
            "{number}"
        );
    }
}
