// SPDX-License-Identifier: Apache-2.0
//! A test that may be looked at after every block: the randomisation as a fair game.
//!
//! If the true ratio is the one that is assumed, every choice of the arm's entries in a block is
//! equally likely. Who bets on the true choice in proportion to exp(λ × score) and is paid by its
//! share of the sum over all choices then plays a fair game, so the stake is a nonnegative martingale:
//! the probability that it *ever* reaches 1/α is at most α (Ville, 1939), however often it is looked
//! at and for whatever reason one stops. Nothing is assumed of the noise; it may differ from block to
//! block. λ is not known, so the stake is spread over a few, in units of the spread of the blocks up
//! to here, which does not depend on labels. One game bets on larger, one on smaller.
//!
//! The price for looking at any time: about half as many blocks again as one planned look needs.

use crate::arrangement::{BlockLogValues, LogInterval, distances, farthest, score};
use crate::events::MEDIAN_TO_DEVIATION;

/// Stakes are spread evenly over these λ. Small ones win slowly and surely, large ones early.
const BETS: [f64; 4] = [0.7, 1.5, 3.0, 8.0];

/// Differences are clipped at this number of robust standard deviations.
const CLIP: f64 = 2.0;

/// The largest stake ever held, as a logarithm; a stake begins at 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StakePeaks {
    /// Of the game that bets on a larger ratio.
    pub above: f64,
    /// Of the game that bets on a smaller one.
    pub below: f64,
}

impl StakePeaks {
    /// The two-sided p value, valid at any time: half of the stake is on either side.
    pub fn p_value(&self) -> f64 {
        (2.0 * (-self.above.max(self.below)).exp()).min(1.0)
    }
}

/// Blocks in their order, and what is staked on.
#[derive(Debug, Clone, Copy)]
pub struct StakesGame<'a> {
    /// The blocks.
    pub blocks: &'a [BlockLogValues],
    /// Whether the arm scatters more than the base. Then not every choice is equally likely, but the score
    /// of the true choice is as likely as its negative: a stake must also win the game on these signs.
    pub is_uneven: bool,
}

impl StakesGame<'_> {
    /// Plays both games, as if the |ln ratio| were `effect`.
    pub fn stakes(&self, effect: f64) -> StakePeaks {
        let all = self.played(effect, false);
        if !self.is_uneven {
            return all;
        }
        let signs = self.played(effect, true);
        StakePeaks {
            above: all.above.min(signs.above),
            below: all.below.min(signs.below),
        }
    }

    fn played(&self, effect: f64, by_signs: bool) -> StakePeaks {
        let mut peaks = StakePeaks {
            above: 0.0,
            below: 0.0,
        };
        let (mut above, mut below) = ([0.0; BETS.len()], [0.0; BETS.len()]);
        let mut spread = RunningSpread::default();
        let both = |block: &&BlockLogValues| !block.arm.is_empty() && !block.base.is_empty();
        for block in self.blocks.iter().filter(both) {
            let values = block.aligned(effect);
            let Some(scale) = spread.with(&distances(&values)) else {
                continue;
            };
            let mut scores = choice_scores(&values, &block.choices(), scale);
            if by_signs {
                scores = vec![scores[0], -scores[0]];
            }
            for (index, bet) in BETS.into_iter().enumerate() {
                above[index] += log_payment(&scores, bet);
                below[index] += log_payment(&scores, -bet);
            }
            peaks.above = peaks.above.max(log_mean_exp(&above));
            peaks.below = peaks.below.max(log_mean_exp(&below));
        }
        peaks
    }

    /// All effects that no look up to here has rejected with this confidence.
    pub fn confidence_sequence(&self, estimate: f64, step: f64, confidence: f64) -> LogInterval {
        let limit = (2.0 / (1.0 - confidence)).ln();
        let step = step.abs();
        LogInterval {
            low: farthest(estimate, -step, |e| self.stakes(e).above < limit),
            high: farthest(estimate, step, |e| self.stakes(e).below < limit),
        }
    }
}

/// Plays both games over blocks in their order, as if the |ln ratio| were `effect`.
pub fn stakes(blocks: &[BlockLogValues], effect: f64) -> StakePeaks {
    let is_uneven = false;
    StakesGame { blocks, is_uneven }.stakes(effect)
}

/// The median distance of entries in the blocks so far, as a standard deviation.
#[derive(Debug, Default)]
struct RunningSpread(Vec<f64>);

impl RunningSpread {
    /// With one block more; `None` while there is no spread at all.
    fn with(&mut self, distances: &[f64]) -> Option<f64> {
        for distance in distances {
            let place = self.0.partition_point(|other| other < distance);
            self.0.insert(place, *distance);
        }
        let middle = self.0.len() / 2;
        let median = if self.0.len() % 2 == 1 {
            self.0[middle]
        } else {
            f64::midpoint(self.0[middle - 1], self.0[middle])
        };
        // Where most are the same to the last digit, the largest says what a difference is.
        let scale = if median > 0.0 {
            median
        } else {
            self.0.last().copied().unwrap_or(0.0)
        };
        (scale > 0.0).then_some(MEDIAN_TO_DEVIATION * scale)
    }
}

/// Scores of all choices, the true one first, in units of `scale`.
fn choice_scores(values: &[f64], choices: &[u32], scale: f64) -> Vec<f64> {
    let choices = choices.iter();
    choices
        .map(|mask| score(values, *mask, CLIP * scale) / scale)
        .collect()
}

/// The logarithm of the amount that a stake of 1 on the true choice becomes.
fn log_payment(scores: &[f64], bet: f64) -> f64 {
    let exponents: Vec<f64> = scores.iter().map(|score| bet * score).collect();
    exponents[0] - log_mean_exp(&exponents)
}

fn log_mean_exp(values: &[f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = values.iter().map(|value| (value - largest).exp()).sum();
    largest + (sum / values.len() as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    fn drawn(rng: &mut Rng, blocks: usize, effect: f64) -> Vec<BlockLogValues> {
        let one = |_| BlockLogValues {
            base: vec![0.1 * rng.normal(), 0.1 * rng.normal()],
            arm: vec![effect + 0.1 * rng.normal()],
        };
        (0..blocks).map(one).collect()
    }

    #[test]
    fn one_block_is_a_fair_game() {
        // Each choice in turn is the true one: the mean payment is 1.
        for bet in BETS {
            let values = [0.3, -0.2, 1.7];
            let scores = choice_scores(&values, &[1, 2, 4], 0.5);
            let paid = |index: usize| {
                let mut turned = scores.clone();
                turned.swap(0, index);
                log_payment(&turned, bet).exp()
            };
            let mean = (0..3).map(paid).sum::<f64>() / 3.0;
            assert!((mean - 1.0).abs() < 1e-12, "{bet}: {mean}");
        }
    }

    #[test]
    fn a_large_effect_is_seen_early_and_none_hardly_ever() {
        let mut rng = Rng::new(Seed(3));
        let seen = (0..200).filter(|_| stakes(&drawn(&mut rng, 10, 0.5), 0.0).p_value() <= 0.05);
        assert!(seen.count() > 195);
        let seen = (0..500).filter(|_| stakes(&drawn(&mut rng, 30, 0.0), 0.0).p_value() <= 0.05);
        assert!(seen.count() <= 25);
    }

    #[test]
    fn the_sequence_only_shrinks_and_holds_the_truth() {
        let mut rng = Rng::new(Seed(4));
        let blocks = drawn(&mut rng, 40, 0.2);
        let mut before = f64::INFINITY;
        for looks in [10, 20, 40] {
            let game = StakesGame {
                blocks: &blocks[..looks],
                is_uneven: false,
            };
            let range = game.confidence_sequence(0.2, 0.05, 0.95);
            assert!(range.low < 0.2 && 0.2 < range.high, "{range:?}");
            assert!(range.high - range.low <= before + 1e-9);
            before = range.high - range.low;
        }
        assert!(before < 0.2, "{before}");
    }

    #[test]
    fn values_without_spread_decide_nothing_by_dividing_by_zero() {
        let same = BlockLogValues {
            base: vec![1.0, 1.0],
            arm: vec![1.0],
        };
        let peaks = stakes(&vec![same; 10], 0.0);
        assert!(peaks.p_value() > 0.999, "{peaks:?}");
    }
}
