// SPDX-License-Identifier: Apache-2.0
//! The randomisation test within blocks: a verdict that is exact because the order was drawn.
//!
//! In a block every system is entered once or twice, in random order. If the arm were the base times
//! a factor, then after dividing by it nothing would tell which entry was which: every arrangement
//! of the labels within blocks would be as likely as the one that was seen. The share of
//! arrangements that look at least as extreme is then an exact p value, whatever the noise: drift,
//! bursts that hit single trials, blocks of unequal noise, heavy tails. Student's t on the same
//! values is exact under normal noise only; with bursts it is cautious and finds little.
//!
//! The arranged values are Huber scores: of every pair (arm entry, base entry) of a block the
//! difference of logarithms, clipped at 1.5 robust standard deviations of all pairs, which do not
//! depend on labels. So a burst counts as one surprise of limited size. The statistic is the mean
//! of the scores over their standard error, so that an arm that is noisier than the base does no
//! great harm either.

use plimsoll_core::rng::{Rng, Seed};

use crate::events::{MEDIAN_TO_DEVIATION, median};
use crate::student;

/// Differences are clipped at this number of robust standard deviations (Huber; 96 % as efficient as the mean
/// under normal noise).
const CLIP: f64 = 1.5;

/// An arm counts as scattering more than the base if its differences from the base scatter more than this
/// many times as much as those within the base: two thirds of the arms that scatter twice as much count so,
/// and one of five that do not.
const UNEVEN: f64 = 1.25;

/// Up to this number, the test looks at every arrangement; of more, it draws a sample of this size.
const ARRANGEMENTS_MAX: usize = 1_000;

/// The draw is the same for the same blocks: data have one verdict.
const DRAW: Seed = Seed(0x0a11_0ca7);

/// Halvings of a step of the search for an end of an interval.
const HALVINGS: u32 = 14;

/// Entries of one system in a block that count, from the first on: 12,870 choices at most.
const ENTRIES_MAX: usize = 8;

/// No end is searched beyond this |ln ratio|: a factor of 22,000.
const EFFECT_MAX: f64 = 10.0;

/// The logarithms that one block has of both systems, one of each entry.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlockLogValues {
    /// Of the base and its second entries.
    pub base: Vec<f64>,
    /// Of the arm and its second entries.
    pub arm: Vec<f64>,
}

impl BlockLogValues {
    /// The mean of the arm's entries less that of the base's.
    pub fn difference(&self) -> f64 {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        mean(&self.arm) - mean(&self.base)
    }

    /// Arm first, as if the true |ln ratio| were `effect`.
    pub(crate) fn aligned(&self, effect: f64) -> Vec<f64> {
        let arm = self
            .arm
            .iter()
            .take(ENTRIES_MAX)
            .map(|value| value - effect);
        let base = self.base.iter().take(ENTRIES_MAX).copied();
        arm.chain(base).collect()
    }

    /// The choice that is the true one; bits of entries, the arm's lowest.
    fn own_choice(&self) -> u32 {
        (1 << self.arm.len().min(ENTRIES_MAX)) - 1
    }

    /// The ways to choose the arm's entries, the true one first.
    pub(crate) fn choices(&self) -> Vec<u32> {
        let entries = self.arm.len().min(ENTRIES_MAX) + self.base.len().min(ENTRIES_MAX);
        let own = self.own_choice();
        let all = 0..1u32 << entries;
        let other = all.filter(|mask| mask.count_ones() == own.count_ones() && *mask != own);
        std::iter::once(own).chain(other).collect()
    }
}

/// How likely, without an effect beyond the one assumed, a result at least as extreme is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArrangementTails {
    /// At least as far up.
    pub above: f64,
    /// At least as far down.
    pub below: f64,
}

impl ArrangementTails {
    /// Two-sided.
    pub fn both(&self) -> f64 {
        (2.0 * self.above.min(self.below)).min(1.0)
    }
}

/// Ends of an interval, in logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogInterval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The blocks of two systems, and the arrangements that they are held against.
#[derive(Debug, Clone)]
pub struct ArrangementTest {
    blocks: Vec<BlockLogValues>,
    choices: Vec<Vec<u32>>,
    /// Which choice of each block, a row for every arrangement, the true one first.
    picks: Vec<u16>,
    /// Whether differences count up to a limit only.
    is_clipped: bool,
    /// Whether the arm scatters more than the base. Then labels do not tell all, and Student's t of the
    /// scores must agree.
    is_uneven: bool,
}

impl ArrangementTest {
    /// From blocks in which both systems have a value; `None` below two blocks.
    pub fn of(blocks: &[BlockLogValues]) -> Option<ArrangementTest> {
        let both = |block: &&BlockLogValues| !block.arm.is_empty() && !block.base.is_empty();
        let blocks: Vec<BlockLogValues> = blocks.iter().filter(both).cloned().collect();
        if blocks.len() < 2 {
            return None;
        }
        let choices: Vec<Vec<u32>> = blocks.iter().map(BlockLogValues::choices).collect();
        let sizes: Vec<usize> = choices.iter().map(Vec::len).collect();
        let all = sizes.iter().try_fold(1usize, |all, n| all.checked_mul(*n));
        let whole = all.filter(|all| *all <= ARRANGEMENTS_MAX);
        let picks = match whole {
            Some(all) => every_arrangement(&sizes, all),
            None => drawn_arrangements(&sizes),
        };
        Some(ArrangementTest {
            is_uneven: is_uneven(&blocks),
            blocks,
            choices,
            picks,
            is_clipped: true,
        })
    }

    /// The same with differences that count in full: for values of which the mean, not the middle, is asked.
    pub(crate) fn of_means(blocks: &[BlockLogValues]) -> Option<ArrangementTest> {
        let test = ArrangementTest::of(blocks)?;
        Some(ArrangementTest {
            is_clipped: false,
            is_uneven: false,
            ..test
        })
    }

    /// Number of blocks in which both systems have a value.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// ln(arm ÷ base) of each block.
    pub fn differences(&self) -> Vec<f64> {
        self.blocks.iter().map(BlockLogValues::difference).collect()
    }

    /// The smallest two-sided p value that this number of arrangements can give.
    pub fn finest(&self) -> f64 {
        let arrangements = self.picks.len() / self.blocks.len();
        2.0 / arrangements as f64
    }

    /// Tails of the true arrangement if the |ln ratio| were `effect`.
    pub fn tails(&self, effect: f64) -> ArrangementTails {
        let scores = self.scores(effect);
        let blocks = self.blocks.len();
        let (mut above, mut below) = (0usize, 0usize);
        let mut seen = 0.0;
        for (number, picks) in self.picks.chunks_exact(blocks).enumerate() {
            let statistic = scores.studentized(picks);
            if number == 0 {
                seen = statistic;
            }
            // Arrangements that are the same but for rounding count as equal.
            let slack = 1e-9 * (1.0 + seen.abs());
            above += usize::from(statistic >= seen - slack);
            below += usize::from(statistic <= seen + slack);
        }
        let all = (self.picks.len() / blocks) as f64;
        let (above, below) = (above as f64 / all, below as f64 / all);
        if !self.is_uneven {
            return ArrangementTails { above, below };
        }
        ArrangementTails {
            above: above.max(student::above(seen, blocks - 1)),
            below: below.max(student::above(-seen, blocks - 1)),
        }
    }

    /// Whether the arm scatters more than the base.
    pub(crate) fn is_uneven(&self) -> bool {
        self.is_uneven
    }

    /// The |ln ratio| at which the scores of the true arrangement balance.
    pub fn estimate(&self) -> f64 {
        let differences = self.differences();
        let (mut low, mut high) = (
            differences.iter().copied().fold(f64::INFINITY, f64::min),
            differences
                .iter()
                .copied()
                .fold(f64::NEG_INFINITY, f64::max),
        );
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            if self.own_scores(middle).iter().sum::<f64>() > 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        f64::midpoint(low, high)
    }

    /// The standard deviation that a block's difference has in effect: that of the scores, divided
    /// by how much of a shift they show.
    pub fn deviation(&self, estimate: f64) -> f64 {
        let scores = self.own_scores(estimate);
        let n = scores.len() as f64;
        let mean = scores.iter().sum::<f64>() / n;
        let squares: f64 = scores.iter().map(|score| (score - mean).powi(2)).sum();
        let limit = self.limit(estimate);
        let pairs = self
            .blocks
            .iter()
            .flat_map(|block| own_pairs(block, estimate));
        let pairs: Vec<f64> = pairs.collect();
        let within = pairs.iter().filter(|pair| pair.abs() <= limit).count();
        let shown = (within as f64 / pairs.len() as f64).max(0.25);
        (squares / (n - 1.0)).sqrt() / shown
    }

    /// The same from the scores of all choices, in which labels have no part: steadier for few blocks,
    /// and, other than [`Self::deviation`], independent of what the test then finds.
    pub fn unlabelled_deviation(&self, estimate: f64) -> f64 {
        let scores = self.scores(estimate);
        let mut squares = 0.0;
        for (of_block, choices) in scores.values.chunks(scores.widest).zip(&self.choices) {
            let own = &of_block[..choices.len()];
            squares += own.iter().map(|score| score * score).sum::<f64>() / own.len() as f64;
        }
        let limit = self.limit(estimate);
        let pairs = self
            .blocks
            .iter()
            .flat_map(|block| distances(&block.aligned(estimate)));
        let pairs: Vec<f64> = pairs.collect();
        let within = pairs.iter().filter(|pair| **pair <= limit).count();
        let shown = (within as f64 / pairs.len() as f64).max(0.25);
        (squares / (self.blocks.len() as f64 - 1.0)).sqrt() / shown
    }

    /// All effects that are not rejected with this confidence.
    pub fn interval(&self, estimate: f64, confidence: f64) -> LogInterval {
        let half = (1.0 - confidence) / 2.0;
        let step = self.deviation(estimate) / (self.blocks.len() as f64).sqrt();
        let range = LogInterval {
            low: farthest(estimate, -step, |effect| self.tails(effect).above > half),
            high: farthest(estimate, step, |effect| self.tails(effect).below > half),
        };
        // Of very few blocks the tails are steps that need not fall one after another: what the
        // test of no difference admits, the interval holds.
        let tails = self.tails(0.0);
        LogInterval {
            low: if tails.above > half {
                range.low.min(0.0)
            } else {
                range.low
            },
            high: if tails.below > half {
                range.high.max(0.0)
            } else {
                range.high
            },
        }
    }

    /// How far a difference counts if the |ln ratio| were `effect`. Labels have no part in it.
    fn limit(&self, effect: f64) -> f64 {
        let pairs = self
            .blocks
            .iter()
            .flat_map(|block| distances(&block.aligned(effect)));
        let scale = MEDIAN_TO_DEVIATION * median(pairs).unwrap_or(0.0);
        // Where most are the same to the last digit, clipping would leave nothing.
        if self.is_clipped && scale > 0.0 {
            CLIP * scale
        } else {
            f64::INFINITY
        }
    }

    fn own_scores(&self, effect: f64) -> Vec<f64> {
        let limit = self.limit(effect);
        let blocks = self.blocks.iter();
        blocks
            .map(|block| score(&block.aligned(effect), block.own_choice(), limit))
            .collect()
    }

    /// The score of every choice of every block.
    fn scores(&self, effect: f64) -> ChoiceScores {
        let limit = self.limit(effect);
        let widest = self.choices.iter().map(Vec::len).max().unwrap_or(1);
        let mut scores = ChoiceScores {
            widest,
            values: vec![0.0; widest * self.blocks.len()],
        };
        for (index, (block, choices)) in self.blocks.iter().zip(&self.choices).enumerate() {
            let values = block.aligned(effect);
            for (choice, mask) in choices.iter().enumerate() {
                scores.values[index * widest + choice] = score(&values, *mask, limit);
            }
        }
        scores
    }
}

/// The scores of all choices, block after block, as many for each as the widest has.
struct ChoiceScores {
    widest: usize,
    values: Vec<f64>,
}

impl ChoiceScores {
    /// The mean of the picked scores over its standard error.
    fn studentized(&self, picks: &[u16]) -> f64 {
        let (mut sum, mut squares) = (0.0, 0.0);
        for (of_block, pick) in self.values.chunks_exact(self.widest).zip(picks) {
            let score = of_block[usize::from(*pick)];
            sum += score;
            squares += score * score;
        }
        let n = picks.len() as f64;
        let mean = sum / n;
        let variance = ((squares - n * mean * mean) / (n - 1.0)).max(0.0);
        // Without any spread the mean alone decides, and no mean at all is nothing.
        mean / (variance / n).sqrt().max(1e-12)
    }
}

/// Whether the arm's differences from the base scatter more than those of the base's entries explain: 0.87
/// times as much is to be expected where all entries scatter alike.
fn is_uneven(blocks: &[BlockLogValues]) -> bool {
    let of_base = blocks.iter().filter(|block| block.base.len() > 1);
    let of_base: Vec<f64> = of_base.map(|block| block.base[1] - block.base[0]).collect();
    if of_base.len() < 2 {
        return false;
    }
    let of_arm: Vec<f64> = blocks.iter().map(BlockLogValues::difference).collect();
    mean_distance(&of_arm) > UNEVEN * mean_distance(&of_base)
}

/// The mean distance from the median.
fn mean_distance(values: &[f64]) -> f64 {
    let middle = median(values.iter().copied()).unwrap_or(0.0);
    let distances = values.iter().map(|value| (value - middle).abs());
    distances.sum::<f64>() / values.len() as f64
}

fn every_arrangement(sizes: &[usize], all: usize) -> Vec<u16> {
    let mut picks = Vec::with_capacity(all * sizes.len());
    for number in 0..all {
        let mut rest = number;
        for size in sizes {
            picks.push(u16::try_from(rest % size).unwrap_or(0));
            rest /= size;
        }
    }
    picks
}

fn drawn_arrangements(sizes: &[usize]) -> Vec<u16> {
    let mut rng = Rng::new(DRAW.derive("arrangements", sizes.len() as u64));
    let mut picks = vec![0; sizes.len()];
    for _ in 1..ARRANGEMENTS_MAX {
        let row = sizes
            .iter()
            .map(|size| u16::try_from(rng.below(*size as u64)).unwrap_or(0));
        picks.extend(row);
    }
    picks
}

/// The distances between all entries of a block.
pub(crate) fn distances(values: &[f64]) -> Vec<f64> {
    let each = values.iter().enumerate();
    each.flat_map(|(i, a)| values[i + 1..].iter().map(move |b| (a - b).abs()))
        .collect()
}

fn own_pairs(block: &BlockLogValues, effect: f64) -> Vec<f64> {
    let pairs = block.arm.iter();
    pairs
        .flat_map(|arm| block.base.iter().map(move |base| arm - effect - base))
        .collect()
}

/// The mean of the clipped differences between entries of `mask` and the others.
pub(crate) fn score(values: &[f64], mask: u32, limit: f64) -> f64 {
    let is_arm = |index: usize| mask >> index & 1 == 1;
    let (mut sum, mut pairs) = (0.0, 0.0);
    for (i, arm) in values.iter().enumerate().filter(|(i, _)| is_arm(*i)) {
        for (j, base) in values.iter().enumerate() {
            if i != j && !is_arm(j) {
                sum += (arm - base).clamp(-limit, limit);
                pairs += 1.0;
            }
        }
    }
    sum / pairs
}

/// The farthest effect from `start` in the direction of `step` for which `holds`.
pub(crate) fn farthest(start: f64, step: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let mut step = step.abs().max(1e-9).copysign(step);
    let mut inside = start;
    let mut outside = start + step;
    while holds(outside) {
        inside = outside;
        step *= 2.0;
        outside = inside + step;
        if (outside - start).abs() > EFFECT_MAX {
            return start + EFFECT_MAX.copysign(step);
        }
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(inside, outside);
        if holds(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(rng: &mut Rng, blocks: usize, noise: impl Fn(&mut Rng) -> f64) -> Vec<BlockLogValues> {
        let one = |_| {
            let shared = rng.normal();
            BlockLogValues {
                base: vec![shared + noise(rng), shared + noise(rng)],
                arm: vec![shared + noise(rng)],
            }
        };
        (0..blocks).map(one).collect()
    }

    #[test]
    fn five_blocks_by_hand() {
        // The arm is above both others in every block: of 3^5 arrangements only the true one is as
        // extreme upwards.
        let block = |index: u32| BlockLogValues {
            base: vec![0.0, 0.01 * f64::from(index)],
            arm: vec![1.0 + 0.02 * f64::from(index)],
        };
        let blocks: Vec<BlockLogValues> = (0..5).map(block).collect();
        let test = ArrangementTest::of(&blocks).unwrap();
        let tails = test.tails(0.0);
        assert!((tails.above - 1.0 / 243.0).abs() < 1e-12, "{tails:?}");
        assert!((tails.both() - 2.0 / 243.0).abs() < 1e-12);
        assert!((test.finest() - 2.0 / 243.0).abs() < 1e-12);
        let range = test.interval(test.estimate(), 0.95);
        assert!(range.low > 0.9 && range.high < 1.2, "{range:?}");
        assert!(ArrangementTest::of(&blocks[..1]).is_none());
    }

    #[test]
    fn bursts_on_random_trials_cost_little() {
        let mut rng = Rng::new(Seed(8));
        let burst = |rng: &mut Rng| {
            let hit = rng.unit() < 0.1;
            0.02 * rng.normal() + if hit { rng.exponential(1.0) } else { 0.0 }
        };
        let mut widths = (0.0, 0.0);
        for _ in 0..40 {
            let blocks = drawn(&mut rng, 15, burst);
            let test = ArrangementTest::of(&blocks).unwrap();
            let range = test.interval(test.estimate(), 0.95);
            let paired = crate::paired::PairedLogRatioStats::of(&test.differences()).unwrap();
            widths.0 += range.high - range.low;
            widths.1 += 2.0 * paired.half_width(0.95);
        }
        assert!(widths.0 < widths.1 / 3.0, "{widths:?}");
    }

    #[test]
    fn the_same_blocks_have_the_same_tails() {
        let blocks = drawn(&mut Rng::new(Seed(2)), 12, Rng::normal);
        let tails = |blocks: &[BlockLogValues]| ArrangementTest::of(blocks).unwrap().tails(0.1);
        assert_eq!(tails(&blocks), tails(&blocks));
    }

    #[test]
    fn what_is_the_same_in_most_blocks_is_not_clipped_away() {
        let block = |index: usize| BlockLogValues {
            base: vec![0.0, 0.0],
            arm: vec![if index == 0 { 1.5 } else { 1.0 }],
        };
        let blocks: Vec<BlockLogValues> = (0..8).map(block).collect();
        assert!(ArrangementTest::of(&blocks).unwrap().tails(0.0).both() < 0.01);
    }
}
