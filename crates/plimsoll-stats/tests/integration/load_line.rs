// SPDX-License-Identifier: Apache-2.0
//! How often the interval of a load line holds the true edge of a noisy system, and in what time: a small
//! part of the systems of `docs/results/2026-11-load-line.md`, which says how to search all of them.

#[path = "../../../../bench/programs/src/bin/load_line_simulator/methods.rs"]
#[expect(dead_code, reason = "the program writes rows, the test does not")]
mod methods;
#[path = "../../../../bench/programs/src/bin/load_line_simulator/systems.rs"]
mod systems;

use methods::{SearchRow, bisection, ours};
use systems::KnownSystem;

const SUSTAINED_S: f64 = 600.0;

/// The first of the systems.
const FIRST: u64 = 10_037;

/// Of this number of systems, at most two may be outside: a method that covers 93 % fails for one set of
/// systems in twenty, and this set is fixed.
const SYSTEMS: u64 = 12;
const OUTSIDE_MAX: usize = 2;

/// Our row and that of bisection which repeats each multiple three times.
fn both(seed: u64) -> [SearchRow; 2] {
    let known = KnownSystem::of(seed, SUSTAINED_S);
    [
        ours(&known, seed, SUSTAINED_S),
        bisection(&known, seed, SUSTAINED_S, 3),
    ]
}

fn rows() -> Vec<[SearchRow; 2]> {
    let half = |first: u64| (first..first + SYSTEMS / 2).map(both).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let later = scope.spawn(|| half(FIRST + SYSTEMS / 2));
        let mut rows = half(FIRST);
        rows.extend(later.join().expect("no row panics"));
        rows
    })
}

#[test]
fn intervals_hold_the_edge_in_less_time_than_bisection() {
    let rows = rows();
    let outside: Vec<_> = rows.iter().filter(|row| !row[0].is_inside()).collect();
    assert!(outside.len() <= OUTSIDE_MAX, "{outside:#?}");
    let seconds = |method: usize| rows.iter().map(|row| row[method].seconds).sum::<f64>();
    let share = seconds(0) / seconds(1);
    println!(
        "{} of {SYSTEMS} outside, {share:.2} of bisection's time",
        outside.len()
    );
    assert!(share < 0.6, "{share}");
}
