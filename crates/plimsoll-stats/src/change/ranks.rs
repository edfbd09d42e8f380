// SPDX-License-Identifier: Apache-2.0
//! The exact law of rank sums (Mann and Whitney) for two samples of a window.

use std::sync::OnceLock;

use plimsoll_core::num::{floor_u64, to_usize};

use super::WINDOW;

/// Ranks from 1; equal values share the mean of theirs.
pub(super) fn midranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let equal = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]).is_eq();
    let mut below = 0;
    for ties in order.chunk_by(equal) {
        let mean = below as f64 + (ties.len() + 1) as f64 / 2.0;
        ties.iter().for_each(|at| ranks[*at] = mean);
        below += ties.len();
    }
    ranks
}

/// How likely two samples from one law lie at least as far apart as these, of which the first has this
/// sum of ranks: two-sided, and without the one value of either that speaks most for a difference.
pub(super) fn p_value_without_one(first_sum: f64, first: usize, second: usize) -> f64 {
    let fewer = fewer_wins(first_sum, first, second);
    // Such a value wins against all others, so that the wins of the other side stay.
    two_sided(fewer, first - 1, second).max(two_sided(fewer, first, second - 1))
}

/// The number of pairs in which the sample wins that wins less often. Ties make halves; rounding towards
/// the middle makes p larger, never smaller.
fn fewer_wins(first_sum: f64, first: usize, second: usize) -> usize {
    let pairs = (first * second) as f64;
    let won = first_sum - (first * (first + 1)) as f64 / 2.0;
    to_usize(floor_u64(won.min(pairs - won).max(0.0) + 0.5))
}

fn two_sided(fewer: usize, first: usize, second: usize) -> f64 {
    let tail = &laws()[first.min(second)][first.max(second) - first.min(second)];
    tail.get(fewer).map_or(1.0, |p| (2.0 * p).min(1.0))
}

/// P(U ≤ u) of samples of `a` and `a + b` values as `[a][b][u]`, up to the middle of the law.
type RankSumTails = Vec<Vec<Vec<f64>>>;

fn laws() -> &'static RankSumTails {
    static LAWS: OnceLock<RankSumTails> = OnceLock::new();
    LAWS.get_or_init(tails)
}

/// The largest value belongs to the first sample with probability a ÷ (a + b), and then beats all of the
/// second: P(a, b, u) = a ÷ (a + b) · P(a − 1, b, u − b) + b ÷ (a + b) · P(a, b − 1, u).
fn tails() -> RankSumTails {
    let mut tails: RankSumTails = Vec::new();
    // Laws of a − 1 values against 0, 1, 2 … others.
    let mut fewer: Vec<Vec<f64>> = vec![vec![1.0]; WINDOW + 1];
    tails.push(vec![vec![1.0]; WINDOW + 1]);
    for a in 1..=WINDOW / 2 {
        let mut laws: Vec<Vec<f64>> = vec![vec![1.0]];
        for b in 1..=WINDOW - a {
            let share = a as f64 / (a + b) as f64;
            let law = (0..=a * b).map(|u| {
                let wins = u.checked_sub(b).and_then(|u| fewer[b].get(u));
                let loses = laws[b - 1].get(u);
                share * wins.unwrap_or(&0.0) + (1.0 - share) * loses.unwrap_or(&0.0)
            });
            let law = law.collect();
            laws.push(law);
        }
        tails.push(
            (a..=WINDOW - a)
                .map(|b| lower_tail(&laws[b], a * b))
                .collect(),
        );
        fewer = laws;
    }
    tails
}

fn lower_tail(law: &[f64], pairs: usize) -> Vec<f64> {
    let sums = law.iter().scan(0.0, |sum, p| {
        *sum += p;
        Some(*sum)
    });
    sums.take(pairs / 2 + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p_value(first_sum: f64, first: usize, second: usize) -> f64 {
        two_sided(fewer_wins(first_sum, first, second), first, second)
    }

    #[test]
    fn the_law_is_that_of_all_arrangements() {
        // Of 4 and 5 values: each subset of the ranks 1 to 9 is equally likely.
        let mut counts = [0u32; 21];
        let subsets = (0u32..1 << 9).filter(|set| set.count_ones() == 4);
        for set in subsets {
            let sum: u32 = (0..9)
                .filter(|at| set >> at & 1 == 1)
                .map(|at| at + 1)
                .sum();
            counts[sum as usize - 10] += 1;
        }
        let mut below = 0;
        for (won, count) in counts.iter().enumerate().take(11) {
            below += count;
            let expect = (2.0 * f64::from(below) / 126.0).min(1.0);
            let found = p_value(won as f64 + 10.0, 4, 5);
            assert!((found - expect).abs() < 1e-12, "{won}: {found} {expect}");
            let mirrored = p_value((20 - won) as f64 + 10.0, 4, 5);
            assert!((mirrored - expect).abs() < 1e-12);
            let swapped = p_value((20 - won) as f64 + 15.0, 5, 4);
            assert!((swapped - expect).abs() < 1e-12);
        }
        // All of 3 above all of 57: one arrangement of C(60, 3) on each side.
        assert!((p_value(174.0 + 3.0, 3, 57) * 34_220.0 - 2.0).abs() < 1e-9);
    }

    #[test]
    fn equal_values_share_their_ranks() {
        assert_eq!(midranks(&[2.0, 1.0, 2.0, 3.0]), [2.5, 1.0, 2.5, 4.0]);
        assert!((p_value(15.0, 5, 5) - 2.0 / 252.0).abs() < 1e-12);
        assert!((p_value(27.5, 5, 5) - 1.0).abs() < 1e-12);
    }
}
