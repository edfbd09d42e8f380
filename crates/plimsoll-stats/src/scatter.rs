// SPDX-License-Identifier: Apache-2.0
//! Whether one system scatters more from run to run than another.
//!
//! Of every entry the distance of each block's logarithm from the entry's own median is taken (Brown and
//! Forsythe, 1974). If both systems scatter alike, nothing tells which of the distances of a block is the
//! arm's, so the arrangement test applies to them: it needs no normal noise, which the F test and Bartlett's
//! do, and a shift of the machine from block to block meets both alike. Entries of a control keep medians of
//! their own: a median of more values leaves larger distances. Distances count in full, unlike the values of
//! a verdict: the mean distance from a middle hardly depends on where exactly that is taken, but their middle
//! does, and with skewed noise a test of clipped distances is wrong in one campaign of twelve.
//!
//! The interval holds all factors by which the arm's distances can be divided without the test rejecting.

use plimsoll_core::comparison::{RatioEstimate, StoppingRule};

use crate::arrangement::{ArrangementTails, ArrangementTest, BlockLogValues};
use crate::contrast::ContrastQuestion;
use crate::events::median;
use crate::paired::PairedLogRatioStats;
use crate::student;

/// Fewer blocks leave distances that are mostly rounding of the median.
pub const SCATTER_BLOCKS_MIN: usize = 5;

/// A mean distance times this is the standard deviation of normal values.
const MEAN_TO_DEVIATION: f64 = 1.253_3;

/// No factor is searched beyond this |ln|.
const FACTOR_MAX: f64 = 6.0;

/// Halvings of the search for a factor.
const HALVINGS: u32 = 16;

/// How far two systems scatter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScatterContrast {
    /// Blocks in which both have a value.
    pub blocks: usize,
    /// Standard deviation of the base's logarithms, as far as mean distances show it.
    pub base: f64,
    /// The same of the arm.
    pub arm: f64,
    /// Arm ÷ base, with the confidence that was asked for; `None` where one of them does not scatter.
    pub ratio: Option<RatioEstimate>,
    /// How likely such a difference is between systems that scatter alike, uncorrected.
    pub p_value: f64,
}

impl ScatterContrast {
    /// From blocks of logarithms with the same entries each; others are left out. `None` below
    /// [`SCATTER_BLOCKS_MIN`] blocks, and where verdicts may be reached at any time: each look would have
    /// other medians.
    pub fn of(blocks: &[BlockLogValues], question: &ContrastQuestion) -> Option<ScatterContrast> {
        let distances = usable_distances(blocks, question)?;
        let test = ScatterTest::of(&distances, question)?;
        let alpha = 1.0 - question.confidence;
        let mean = |of: fn(&BlockLogValues) -> &Vec<f64>| {
            let all: Vec<f64> = distances
                .iter()
                .flat_map(|block| of(block).clone())
                .collect();
            MEAN_TO_DEVIATION * all.iter().sum::<f64>() / all.len() as f64
        };
        let (base, arm) = (mean(|block| &block.base), mean(|block| &block.arm));
        Some(ScatterContrast {
            blocks: distances.len(),
            base,
            arm,
            ratio: (base > 0.0 && arm > 0.0).then(|| test.ratio(alpha)),
            p_value: test.tails(0.0).both(),
        })
    }
}

/// How likely a difference in scatter at least as large is between systems that scatter alike; `None` as
/// [`ScatterContrast::of`].
pub fn scatter_p_value(blocks: &[BlockLogValues], question: &ContrastQuestion) -> Option<f64> {
    let distances = usable_distances(blocks, question)?;
    Some(ScatterTest::of(&distances, question)?.tails(0.0).both())
}

fn usable_distances(
    blocks: &[BlockLogValues],
    question: &ContrastQuestion,
) -> Option<Vec<BlockLogValues>> {
    let distances = distances(blocks);
    let is_few = distances.len() < SCATTER_BLOCKS_MIN;
    (!is_few && question.stopping != StoppingRule::Anytime).then_some(distances)
}

/// The distances of each entry from its own median.
fn distances(blocks: &[BlockLogValues]) -> Vec<BlockLogValues> {
    let most = |of: fn(&BlockLogValues) -> &Vec<f64>| {
        let entries = blocks.iter().map(|block| of(block).len());
        entries.max().unwrap_or(0)
    };
    let (bases, arms) = (most(|block| &block.base), most(|block| &block.arm));
    let is_whole = |block: &&BlockLogValues| block.base.len() == bases && block.arm.len() == arms;
    let whole: Vec<&BlockLogValues> = blocks.iter().filter(is_whole).collect();
    let middles = |of: fn(&BlockLogValues) -> &Vec<f64>, entries: usize| -> Vec<f64> {
        let middle = |entry: usize| median(whole.iter().map(|block| of(block)[entry]));
        (0..entries)
            .map(|entry| middle(entry).unwrap_or(0.0))
            .collect()
    };
    let base_middles = middles(|block| &block.base, bases);
    let arm_middles = middles(|block| &block.arm, arms);
    let from = |values: &[f64], middles: &[f64]| -> Vec<f64> {
        let pairs = values.iter().zip(middles);
        pairs
            .map(|(value, middle)| (value - middle).abs())
            .collect()
    };
    let each = whole.iter();
    each.map(|block| BlockLogValues {
        base: from(&block.base, &base_middles),
        arm: from(&block.arm, &arm_middles),
    })
    .collect()
}

/// The test, with the arm's distances divided by a factor.
struct ScatterTest<'a> {
    distances: &'a [BlockLogValues],
    by_arrangements: bool,
}

impl<'a> ScatterTest<'a> {
    fn of(distances: &'a [BlockLogValues], question: &ContrastQuestion) -> Option<Self> {
        let needed = (1.0 - question.confidence) / question.family.max(1) as f64;
        let test = ArrangementTest::of_means(distances)?;
        Some(ScatterTest {
            distances,
            by_arrangements: test.finest() <= needed,
        })
    }

    fn divided(&self, factor_ln: f64) -> Vec<BlockLogValues> {
        let factor = factor_ln.exp();
        let each = self.distances.iter();
        each.map(|block| BlockLogValues {
            base: block.base.clone(),
            arm: block.arm.iter().map(|value| value / factor).collect(),
        })
        .collect()
    }

    /// If the arm scattered this factor more.
    fn tails(&self, factor_ln: f64) -> ArrangementTails {
        let sides = |above, below| ArrangementTails { above, below };
        let Some(test) = ArrangementTest::of_means(&self.divided(factor_ln)) else {
            return sides(1.0, 1.0);
        };
        if self.by_arrangements {
            return test.tails(0.0);
        }
        let Some(paired) = PairedLogRatioStats::of(&test.differences()) else {
            return sides(1.0, 1.0);
        };
        let error = paired.deviation / (paired.blocks as f64).sqrt();
        if error <= 0.0 {
            return sides(0.5, 0.5);
        }
        let tail = |mean: f64| student::above(mean / error, paired.blocks - 1);
        sides(tail(paired.mean), tail(-paired.mean))
    }

    fn ratio(&self, alpha: f64) -> RatioEstimate {
        let mean = |factor_ln: f64| -> f64 {
            let differences = self.divided(factor_ln);
            differences.iter().map(BlockLogValues::difference).sum()
        };
        let estimate = edge(|factor_ln| mean(factor_ln) > 0.0);
        // Not rejected upwards from the lower end on, nor downwards up to the upper one.
        let low = edge(|factor_ln| self.tails(factor_ln).above <= alpha / 2.0);
        let high = edge(|factor_ln| self.tails(factor_ln).below > alpha / 2.0);
        RatioEstimate::of_logs(estimate, low.min(estimate), high.max(estimate))
    }
}

/// Where something that holds for small factors ends.
fn edge(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut inside, mut outside) = (-FACTOR_MAX, FACTOR_MAX);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(inside, outside);
        if holds(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    f64::midpoint(inside, outside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    fn question(stopping: StoppingRule) -> ContrastQuestion {
        ContrastQuestion {
            confidence: 0.95,
            margin: 0.05,
            stopping,
            family: 1,
        }
    }

    /// An arm that scatters `times` as much as the base, and takes twice as long.
    fn drawn(rng: &mut Rng, blocks: usize, times: f64) -> Vec<BlockLogValues> {
        let block = |_| BlockLogValues {
            base: vec![0.05 * rng.normal(), 0.05 * rng.normal()],
            arm: vec![0.7 + times * 0.05 * rng.normal()],
        };
        (0..blocks).map(block).collect()
    }

    #[test]
    fn four_times_the_scatter_is_found_and_a_shift_is_none() {
        let rate = |times: f64| {
            let mut rng = Rng::new(Seed(3));
            let found = |_: &u32| {
                let blocks = drawn(&mut rng, 12, times);
                let scatter = ScatterContrast::of(&blocks, &question(StoppingRule::Fixed));
                scatter.unwrap().p_value <= 0.05
            };
            (0..100).filter(found).count()
        };
        assert!(rate(4.0) >= 85, "{}", rate(4.0));
        assert!(rate(1.0) <= 12, "{}", rate(1.0));
    }

    #[test]
    fn the_factor_and_its_interval_are_those_of_the_blocks() {
        let blocks = drawn(&mut Rng::new(Seed(5)), 40, 3.0);
        let scatter = ScatterContrast::of(&blocks, &question(StoppingRule::Fixed)).unwrap();
        let ratio = scatter.ratio.unwrap();
        assert!(ratio.low > 1.2 && ratio.low < 3.0, "{scatter:?}");
        assert!(ratio.high > 3.0 && ratio.high < 8.0, "{scatter:?}");
        assert!((0.035..0.07).contains(&scatter.base), "{scatter:?}");
    }

    #[test]
    fn there_is_no_answer_where_there_can_be_none() {
        let mut rng = Rng::new(Seed(1));
        let few = drawn(&mut rng, SCATTER_BLOCKS_MIN - 1, 1.0);
        assert_eq!(
            ScatterContrast::of(&few, &question(StoppingRule::Fixed)),
            None
        );
        let many = drawn(&mut rng, 12, 1.0);
        assert_eq!(
            ScatterContrast::of(&many, &question(StoppingRule::Anytime)),
            None
        );
        let still = vec![
            BlockLogValues {
                base: vec![1.0],
                arm: vec![2.0],
            };
            8
        ];
        let still = ScatterContrast::of(&still, &question(StoppingRule::Fixed)).unwrap();
        assert_eq!((still.ratio, still.base.to_bits()), (None, 0));
        assert!(still.p_value >= 0.9, "{still:?}");
    }
}
