// SPDX-License-Identifier: Apache-2.0
//! Orders in which every arm follows every other equally often: Williams squares.
//!
//! A trial may leave something behind (a full cache, dirty pages, garbage to be collected) for
//! the next one. In blocks of independent random order that meets all arms alike in the long run
//! only; over one square of these rows it does exactly. With an even number of arms a square has as
//! many rows as arms, with an odd number twice as many.

use plimsoll_core::rng::{Rng, Seed};

/// The purpose of the seed here; changing it changes the order of recorded seeds.
const PURPOSE: &str = "carry-over";

/// The rows of one square over the arms `0..arms` (Williams, 1949): every arm once in each row,
/// equally often in each place, and behind each other arm equally often.
pub fn williams_square(arms: usize) -> Vec<Vec<usize>> {
    // 0, 1, k-1, 2, k-2, …: neighbours differ by every number once.
    let first = |place: usize| match place % 2 {
        1 => place.div_ceil(2),
        _ => (arms - place / 2) % arms,
    };
    let row = |shift: usize| -> Vec<usize> {
        (0..arms)
            .map(|place| (first(place) + shift) % arms)
            .collect()
    };
    let mut rows: Vec<Vec<usize>> = (0..arms).map(row).collect();
    if arms % 2 == 1 && arms > 1 {
        // An odd number leaves neighbours unbalanced by direction: the mirrored rows mend that.
        let mirrored = rows.iter().map(|row| row.iter().rev().copied().collect());
        let mirrored: Vec<Vec<usize>> = mirrored.collect();
        rows.extend(mirrored);
    }
    rows
}

/// The order of the systems in each of `blocks` blocks: squares one after another, each with its rows
/// in random order and its systems relabelled at random. Within a block, both orders of two systems are
/// then equally likely, as a randomisation test requires.
///
/// A block is the same however many blocks follow it.
pub fn balanced_orders(arms: usize, blocks: usize, seed: Seed) -> Vec<Vec<usize>> {
    let square = williams_square(arms);
    let mut orders = Vec::new();
    for number in 0..blocks.div_ceil(square.len().max(1)) {
        let mut rng = Rng::new(seed.derive(PURPOSE, number as u64));
        let mut labels: Vec<usize> = (0..arms).collect();
        rng.shuffle(&mut labels);
        let mut rows = square.clone();
        rng.shuffle(&mut rows);
        let named = |row: &Vec<usize>| row.iter().map(|arm| labels[*arm]).collect();
        orders.extend(rows.iter().map(named));
    }
    orders.truncate(blocks);
    orders
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// How often each arm follows each other one, `[before][after]`.
    fn followers(orders: &[Vec<usize>], arms: usize) -> Vec<Vec<u32>> {
        let mut counts = vec![vec![0; arms]; arms];
        for pair in orders.iter().flat_map(|order| order.windows(2)) {
            counts[pair[0]][pair[1]] += 1;
        }
        counts
    }

    #[test]
    fn squares_are_those_of_the_books() {
        let text = |arms: usize| -> Vec<String> {
            let letter = |arm: &usize| ["A", "B", "C", "D"][*arm];
            let row = |row: &Vec<usize>| row.iter().map(letter).collect();
            williams_square(arms).iter().map(row).collect()
        };
        assert_eq!(text(2), ["AB", "BA"]);
        assert_eq!(text(3), ["ABC", "BCA", "CAB", "CBA", "ACB", "BAC"]);
        assert_eq!(text(4), ["ABDC", "BCAD", "CDBA", "DACB"]);
        assert_eq!(text(1), ["A"]);
        assert!(text(0).is_empty());
    }

    #[test]
    fn every_arm_follows_every_other_equally_often() {
        for arms in 2..=9 {
            let rows = williams_square(arms);
            let orders = balanced_orders(arms, 3 * rows.len(), Seed(arms as u64));
            let counts = followers(&orders, arms);
            let expect = 3 * rows.len() / arms;
            for (before, row) in counts.iter().enumerate() {
                for (after, count) in row.iter().enumerate() {
                    let expect = if before == after { 0 } else { expect };
                    assert_eq!(*count as usize, expect, "{arms}: {counts:?}");
                }
            }
            for place in 0..arms {
                let first = |arm| orders.iter().filter(|order| order[place] == arm).count();
                assert!((0..arms).all(|arm| first(arm) == expect), "{arms}");
            }
        }
    }

    #[test]
    fn orders_are_drawn_and_can_be_prolonged() {
        let some = balanced_orders(3, 5, Seed(1));
        let more = balanced_orders(3, 20, Seed(1));
        assert_eq!(some[..], more[..5]);
        assert_ne!(more, balanced_orders(3, 20, Seed(2)));
        assert_eq!(more.iter().collect::<BTreeSet<_>>().len(), 6);
    }
}
