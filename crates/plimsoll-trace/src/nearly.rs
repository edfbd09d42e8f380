// SPDX-License-Identifier: Apache-2.0
//! Sorting of sequences that are nearly in order, as requests are by start or end: only requests that were
//! in flight together can be in each other's place.

/// Moves for each that is put in its place, on average, up to which that is faster than sorting.
const MOVES_MAX: usize = 16;

/// Sorts `all`, of which the first `sorted` are in order, by a key; equals stay in their order.
pub fn sort_nearly<T: Copy>(all: &mut [T], sorted: usize, key: impl Fn(&T) -> u64) {
    let mut moves = MOVES_MAX * (all.len() - sorted);
    for next in sorted..all.len() {
        let item = all[next];
        let late = |other: &&T| key(other) > key(&item);
        let passed = all[..next].iter().rev().take_while(late).count();
        all.copy_within(next - passed..next, next - passed + 1);
        all[next - passed] = item;
        let Some(left) = moves.checked_sub(passed) else {
            all.sort_by_key(key);
            return;
        };
        moves = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    #[test]
    fn it_sorts_as_a_stable_sort_does_however_far_things_are_out_of_order() {
        let mut rng = Rng::new(Seed(3));
        for far in [1, 3, 40, 5_000] {
            let mut all: Vec<(u64, u64)> =
                (0..5_000).map(|n| (n / 2 + rng.below(far), n)).collect();
            let sorted = 1_000;
            all[..sorted].sort_by_key(|one| one.0);
            let mut expect = all.clone();
            expect.sort_by_key(|one| one.0);
            sort_nearly(&mut all, sorted, |one| one.0);
            assert_eq!(all, expect, "{far}");
        }
        sort_nearly(&mut [0u64; 0], 0, |one| *one);
    }
}
