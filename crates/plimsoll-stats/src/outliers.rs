// SPDX-License-Identifier: Apache-2.0
//! Whether rare slow trials are noise that meets all arms, or a property of one of them.
//!
//! Clipped scores let a burst of the machine count little. A system that itself stalls now and then
//! would be flattered by that; but its stalls are its own, and lie on one arm. Noise that hits random
//! trials is as likely on any entry: Fisher's exact test on the trials that stand out.

use spec_math::cephes64::lgam;

use crate::arrangement::{BlockLogValues, distances};
use crate::events::{MEDIAN_TO_DEVIATION, median};

/// A trial stands out when it is worse than another entry of its block by more than this many robust
/// standard deviations.
const FAR: f64 = 4.0;

/// Trials that stand out on one system alone are suspected to be its own where chance would do that as
/// rarely: a single one of three entries is.
const SUSPECTED: f64 = 0.34;

/// A stall in this share of trials, or in fewer, is rare enough to go without a word.
const RARE: f64 = 0.05;

/// The share of trials that a stall may strike and yet, with the chance `alpha`, be in none of `trials`:
/// `1 − alpha^(1/n)`. Nothing where it would have to be rare.
pub(crate) fn stalls_that_may_be_missed(trials: u32, alpha: f64) -> Option<f64> {
    let share = 1.0 - alpha.powf(1.0 / f64::from(trials.max(1)));
    (share > RARE).then_some(share)
}

/// Which of two values is the worse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorseSide {
    /// The smaller one: a rate.
    Smaller,
    /// The larger one: a time.
    Larger,
}

/// Trials that stand out.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OutlierCounts {
    /// Of the base and its second entries.
    pub base: u64,
    /// Trials of these.
    pub base_trials: u64,
    /// Of the arm.
    pub arm: u64,
    /// Trials of it.
    pub arm_trials: u64,
    /// By how much they stand out in all, as a logarithm.
    excess: f64,
}

impl OutlierCounts {
    /// Counts them, where ln(arm ÷ base) is `effect` in the middle.
    pub fn of(blocks: &[BlockLogValues], effect: f64, worse: WorseSide) -> OutlierCounts {
        let sign = match worse {
            WorseSide::Larger => 1.0,
            WorseSide::Smaller => -1.0,
        };
        let values = |block: &BlockLogValues| -> Vec<f64> {
            let arm = block.arm.iter().map(|value| sign * (value - effect));
            arm.chain(block.base.iter().map(|value| sign * value))
                .collect()
        };
        let all: Vec<Vec<f64>> = blocks.iter().map(values).collect();
        let scale = median(all.iter().flat_map(|values| distances(values)));
        let limit = FAR * MEDIAN_TO_DEVIATION * scale.unwrap_or(0.0);
        let mut counts = OutlierCounts::default();
        for (block, values) in blocks.iter().zip(&all) {
            let best = values.iter().copied().fold(f64::INFINITY, f64::min);
            let far = |value: &&f64| limit > 0.0 && **value - best > limit;
            let (arm, base) = values.split_at(block.arm.len());
            counts.arm += arm.iter().filter(far).count() as u64;
            counts.base += base.iter().filter(far).count() as u64;
            let excess = values.iter().filter(far).map(|value| value - best);
            counts.excess += excess.sum::<f64>();
            counts.arm_trials += arm.len() as u64;
            counts.base_trials += base.len() as u64;
        }
        counts
    }

    /// How likely they lie as unevenly on both sides by chance (Fisher, two-sided).
    pub fn p_value(&self) -> f64 {
        let seen = self.probability(self.arm) * (1.0 + 1e-9);
        let each = self.possible().map(|arm| self.probability(arm));
        each.filter(|p| *p <= seen).sum::<f64>().min(1.0)
    }

    /// Whether one system may stall by itself so often that its mean lies beyond this margin (a logarithm),
    /// although its ordinary trials do not: too few trials stand out to prove it, but equivalent it is not.
    pub(crate) fn may_hide(&self, margin: f64) -> bool {
        let tail = |holds: &dyn Fn(u64) -> bool| -> f64 {
            let tail = self.possible().filter(|arm| holds(*arm));
            tail.map(|arm| self.probability(arm)).sum()
        };
        let height = (self.excess / (self.arm + self.base).max(1) as f64).exp_m1();
        let sides = [
            (self.arm, self.arm_trials, tail(&|arm| arm >= self.arm)),
            (self.base, self.base_trials, tail(&|arm| arm <= self.arm)),
        ];
        sides.into_iter().any(|(out, trials, chance)| {
            let share = most_expected(out) / trials.max(1) as f64;
            out > 0 && chance <= SUSPECTED && (share.min(1.0) * height).ln_1p() > margin
        })
    }

    /// How many of those that stand out may be the arm's.
    fn possible(&self) -> std::ops::RangeInclusive<u64> {
        let out = self.arm + self.base;
        out.saturating_sub(self.base_trials)..=out.min(self.arm_trials)
    }

    /// The probability that `arm` of the trials that stand out are of the arm, where only chance decides.
    fn probability(&self, arm: u64) -> f64 {
        let out = self.arm + self.base;
        let ways = ln_choose(self.arm_trials, arm) + ln_choose(self.base_trials, out - arm);
        (ways - ln_choose(self.arm_trials + self.base_trials, out)).exp()
    }
}

/// The largest mean number, with a confidence of 95 %, where `seen` were counted (Poisson, by Wilson and
/// Hilferty).
fn most_expected(seen: u64) -> f64 {
    let next = seen as f64 + 1.0;
    next * (1.0 - 1.0 / (9.0 * next) + 1.645 / (3.0 * next.sqrt())).powi(3)
}

fn ln_choose(n: u64, k: u64) -> f64 {
    let ln_factorial = |n: u64| lgam(n as f64 + 1.0);
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drawn, not by the formula: of systems that stall in just that share of trials, one in twenty shows
    /// none.
    #[test]
    fn of_systems_that_stall_as_often_as_may_be_missed_one_in_twenty_shows_none() {
        let mut rng = plimsoll_core::rng::Rng::new(plimsoll_core::rng::Seed(1));
        for trials in [2, 6, 12, 30] {
            let share = stalls_that_may_be_missed(trials, 0.05).unwrap();
            let mut draw = || (0..trials).all(|_| rng.unit() >= share);
            let none = (0..20_000).filter(|_| draw()).count();
            // Three standard errors.
            assert!(none.abs_diff(1000) < 93, "{trials}: {none}");
        }
        assert_eq!(stalls_that_may_be_missed(60, 0.05), None);
    }

    /// Ten blocks of one arm entry and two base entries; what is added to which.
    fn blocks(slow: &[(usize, usize)]) -> Vec<BlockLogValues> {
        let noise = [
            0.01, -0.02, 0.03, -0.01, 0.0, 0.02, -0.03, 0.015, -0.005, 0.01,
        ];
        let mut blocks: Vec<BlockLogValues> = Vec::new();
        for (index, noise) in noise.iter().enumerate() {
            let mut values = [*noise, -noise, 0.01];
            for (_, entry) in slow.iter().filter(|(block, _)| *block == index) {
                values[*entry] += 1.0;
            }
            blocks.push(BlockLogValues {
                arm: vec![values[0]],
                base: values[1..].to_vec(),
            });
        }
        blocks
    }

    #[test]
    fn what_stands_out_is_counted_on_its_side() {
        let mixed = blocks(&[(0, 0), (3, 1), (5, 2)]);
        let counts = OutlierCounts::of(&mixed, 0.0, WorseSide::Larger);
        assert_eq!((counts.arm, counts.base), (1, 2));
        assert!(counts.p_value() > 0.9, "{}", counts.p_value());
        let own = blocks(&[(0, 0), (2, 0), (4, 0), (7, 0)]);
        let counts = OutlierCounts::of(&own, 0.0, WorseSide::Larger);
        assert_eq!((counts.arm, counts.base), (4, 0));
        assert!(counts.may_hide(0.05));
        // One of ten trials twice as long is a tenth of the mean; one of each entry is the machine.
        let one = OutlierCounts::of(&blocks(&[(2, 0)]), 0.0, WorseSide::Larger);
        assert!(one.may_hide(0.05) && !mixed_hides(&mixed));
        assert!(counts.p_value() < 0.01, "{}", counts.p_value());
    }

    fn mixed_hides(blocks: &[BlockLogValues]) -> bool {
        OutlierCounts::of(blocks, 0.0, WorseSide::Larger).may_hide(0.05)
    }

    #[test]
    fn a_table_of_two_by_two_by_hand() {
        // Fisher's tea: 3 of 4 against 1 of 4 has 0.486.
        let tea = OutlierCounts {
            base: 1,
            base_trials: 4,
            arm: 3,
            arm_trials: 4,
            excess: 0.0,
        };
        assert!((tea.p_value() - 34.0 / 70.0).abs() < 1e-9);
        assert!((OutlierCounts::default().p_value() - 1.0).abs() < 1e-9);
    }
}
