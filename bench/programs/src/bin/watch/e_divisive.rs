// SPDX-License-Identifier: Apache-2.0
//! E-divisive (Matteson and James, 2014) as it is described: energy distances with α = 1, hierarchical
//! splits, a permutation test for each. Segments of both sides reach to the ends, as in Hunter.

use plimsoll_core::rng::Rng;

/// Points of each side at least.
pub(crate) const SIDE_MIN: usize = 4;
const PERMUTATIONS: usize = 99;
const LEVEL: f64 = 0.05;

/// First points of new levels.
pub(crate) fn e_divisive(values: &[f64], rng: &mut Rng) -> Vec<usize> {
    let mut changes = Vec::new();
    let mut segments = vec![(0, values.len())];
    while let Some((start, end)) = segments.pop() {
        let part = &values[start..end];
        let Some((split, clearest)) = best_split(part) else {
            continue;
        };
        let mut shuffled = part.to_vec();
        let mut as_clear = |_: &usize| {
            rng.shuffle(&mut shuffled);
            best_split(&shuffled).is_some_and(|(_, other)| other >= clearest)
        };
        let more = (0..PERMUTATIONS).filter(&mut as_clear).count();
        if (more + 1) as f64 / (PERMUTATIONS + 1) as f64 <= LEVEL {
            changes.push(start + split);
            segments.extend([(start, start + split), (start + split, end)]);
        }
    }
    changes.sort_unstable();
    changes
}

/// The split with the largest energy distance, which is found in O(n²) by moving one point at a time.
fn best_split(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    let distance = |a: usize, b: usize| (values[a] - values[b]).abs();
    let (mut left, mut across) = (0.0, 0.0);
    let mut right: f64 = (0..n)
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .map(|(a, b)| distance(a, b))
        .sum();
    let mut best: Option<(usize, f64)> = None;
    for split in 1..n {
        // The point before the split changes sides.
        let moved = split - 1;
        let to_left: f64 = (0..moved).map(|other| distance(moved, other)).sum();
        let to_right: f64 = (split..n).map(|other| distance(moved, other)).sum();
        left += to_left;
        right -= to_right;
        across += to_right - to_left;
        let sides = (split as f64, (n - split) as f64);
        if split < SIDE_MIN || n - split < SIDE_MIN {
            continue;
        }
        let within = |sum: f64, count: f64| sum / (count * (count - 1.0) / 2.0);
        let between = 2.0 * across / (sides.0 * sides.1);
        let energy = between - within(left, sides.0) - within(right, sides.1);
        let scaled = energy * sides.0 * sides.1 / n as f64;
        if best.is_none_or(|(_, largest)| scaled > largest) {
            best = Some((split, scaled));
        }
    }
    best
}
