// SPDX-License-Identifier: Apache-2.0
//! One arm held against its base: the estimate, its interval, and what both tests say.
//!
//! The second entry of a system is another measurement of it, so a control does not only watch: it is
//! averaged with the base. Which test is used is fixed by the design, never by the values: for an
//! experiment that stops when its blocks are done the randomisation test, or Student's t where the
//! blocks have too few arrangements for the confidence; for one that may stop at any time the stakes
//! that allow it. What all of this means for a verdict is decided elsewhere.

use plimsoll_core::comparison::{RatioEstimate, StoppingRule};

use crate::anytime;
use crate::arrangement::{ArrangementTest, BlockLogValues, LogInterval};
use crate::paired::PairedLogRatioStats;
use crate::student;

/// With two stages the blocks whose noise sets the number are counted again: they end early where they
/// happened to be quiet. That costs half a percent of coverage; so much of the level makes up for
/// it (simulated, docs/results/2026-11-verdicts.md).
const SPENT_AFTER_A_LOOK: f64 = 0.9;

/// What is asked of the blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ContrastQuestion {
    /// Confidence of the interval.
    pub confidence: f64,
    /// Equivalence margin as |ln ratio|.
    pub margin: f64,
    /// When the blocks stop.
    pub stopping: StoppingRule,
    /// Comparisons that are corrected together: the test must be able to speak for all.
    pub family: usize,
}

/// Where the figures of a contrast come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContrastBasis {
    /// Arrangements of labels within blocks.
    Arrangements,
    /// Student's t: too few arrangements.
    StudentsT,
    /// Stakes that may be looked at after every block.
    Stakes,
}

/// What blocks say of two systems, on logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmContrast {
    /// Blocks in which both have a value.
    pub blocks: usize,
    /// Where the figures come from.
    pub basis: ContrastBasis,
    /// ln(arm ÷ base).
    pub estimate: f64,
    /// The interval of the confidence that was asked for.
    pub interval: LogInterval,
    /// How likely such a difference is between equal systems, uncorrected.
    pub p_value: f64,
    /// How likely such closeness is between systems as far apart as the margin: the larger of both
    /// one-sided tests.
    pub margin_p_value: f64,
    /// Standard deviation of ln(arm ÷ base) between blocks, as far as it limits the estimate.
    pub deviation: f64,
    /// The same from all entries of the blocks whatever they are: what more blocks are planned by.
    pub unlabelled_deviation: f64,
}

impl ArmContrast {
    /// From blocks in their order; `None` below two in which both systems have a value.
    #[must_use]
    pub fn of(blocks: &[BlockLogValues], question: &ContrastQuestion) -> Option<ArmContrast> {
        let test = ArrangementTest::of(blocks)?;
        let needed = (1.0 - question.confidence) / question.family.max(1) as f64;
        if question.stopping == StoppingRule::Anytime {
            return Some(at_any_time(&test, blocks, question));
        }
        let spent = match question.stopping {
            StoppingRule::TwoStage => SPENT_AFTER_A_LOOK,
            StoppingRule::Fixed | StoppingRule::Anytime => 1.0,
        };
        let question = ContrastQuestion {
            confidence: 1.0 - spent * (1.0 - question.confidence),
            ..*question
        };
        let contrast = if test.finest() <= spent * needed {
            by_arrangements(&test, &question)
        } else {
            by_students_t(&test, &question)?
        };
        Some(ArmContrast {
            p_value: (contrast.p_value / spent).min(1.0),
            margin_p_value: (contrast.margin_p_value / spent).min(1.0),
            ..contrast
        })
    }

    /// The ratio with its interval.
    #[must_use]
    pub fn ratio(&self) -> RatioEstimate {
        RatioEstimate {
            estimate: self.estimate.exp(),
            low: self.interval.low.exp(),
            high: self.interval.high.exp(),
        }
    }
}

fn by_arrangements(test: &ArrangementTest, question: &ContrastQuestion) -> ArmContrast {
    let estimate = test.estimate();
    let below = test.tails(question.margin).below;
    let above = test.tails(-question.margin).above;
    ArmContrast {
        blocks: test.block_count(),
        basis: ContrastBasis::Arrangements,
        estimate,
        interval: test.interval(estimate, question.confidence),
        p_value: test.tails(0.0).both(),
        margin_p_value: below.max(above),
        deviation: test.deviation(estimate),
        unlabelled_deviation: test.unlabelled_deviation(estimate),
    }
}

fn by_students_t(test: &ArrangementTest, question: &ContrastQuestion) -> Option<ArmContrast> {
    let paired = PairedLogRatioStats::of(&test.differences())?;
    let half = paired.half_width(question.confidence);
    let tail = |distance: f64| one_sided(distance, &paired);
    Some(ArmContrast {
        blocks: paired.blocks,
        basis: ContrastBasis::StudentsT,
        estimate: paired.mean,
        interval: LogInterval {
            low: paired.mean - half,
            high: paired.mean + half,
        },
        p_value: (2.0 * tail(paired.mean.abs())).min(1.0),
        margin_p_value: tail(question.margin - paired.mean.abs()),
        deviation: paired.deviation,
        unlabelled_deviation: test.unlabelled_deviation(paired.mean),
    })
}

fn at_any_time(
    test: &ArrangementTest,
    blocks: &[BlockLogValues],
    question: &ContrastQuestion,
) -> ArmContrast {
    let estimate = test.estimate();
    let deviation = test.deviation(estimate);
    let step = deviation / (test.block_count() as f64).sqrt();
    let below = anytime::stakes(blocks, question.margin).below;
    let above = anytime::stakes(blocks, -question.margin).above;
    ArmContrast {
        blocks: test.block_count(),
        basis: ContrastBasis::Stakes,
        estimate,
        interval: anytime::confidence_sequence(blocks, estimate, step, question.confidence),
        p_value: anytime::stakes(blocks, 0.0).p_value(),
        margin_p_value: (-below.min(above)).exp().min(1.0),
        deviation,
        unlabelled_deviation: test.unlabelled_deviation(estimate),
    }
}

/// How likely a t variable is at least this distance, in logarithms, above 0.
fn one_sided(distance: f64, paired: &PairedLogRatioStats) -> f64 {
    let error = paired.deviation / (paired.blocks as f64).sqrt();
    if error > 0.0 {
        return student::above(distance / error, paired.blocks - 1);
    }
    f64::from(u8::from(distance <= 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    fn question(stopping: StoppingRule, family: usize) -> ContrastQuestion {
        ContrastQuestion {
            confidence: 0.95,
            margin: 0.05f64.ln_1p(),
            stopping,
            family,
        }
    }

    /// Blocks of an arm that takes a tenth more, with 3 % of noise.
    fn drawn(blocks: usize, base: usize) -> Vec<BlockLogValues> {
        let mut rng = Rng::new(Seed(12));
        let mut noise = |_| 0.03 * rng.normal();
        let one = |_| BlockLogValues {
            base: (0..base).map(&mut noise).collect(),
            arm: vec![0.1 + noise(0)],
        };
        (0..blocks).map(one).collect()
    }

    #[test]
    fn the_design_chooses_the_test() {
        let basis = |blocks, base, stopping, family| {
            let contrast = ArmContrast::of(&drawn(blocks, base), &question(stopping, family));
            contrast.unwrap().basis
        };
        let fixed = StoppingRule::Fixed;
        assert_eq!(basis(3, 2, fixed, 1), ContrastBasis::StudentsT);
        assert_eq!(basis(4, 2, fixed, 1), ContrastBasis::Arrangements);
        assert_eq!(basis(4, 2, fixed, 5), ContrastBasis::StudentsT);
        assert_eq!(basis(5, 2, fixed, 5), ContrastBasis::Arrangements);
        assert_eq!(basis(5, 1, fixed, 1), ContrastBasis::StudentsT);
        assert_eq!(basis(6, 1, fixed, 1), ContrastBasis::Arrangements);
        let anytime = StoppingRule::Anytime;
        assert_eq!(basis(3, 2, anytime, 1), ContrastBasis::Stakes);
        assert!(ArmContrast::of(&drawn(1, 2), &question(fixed, 1)).is_none());
    }

    #[test]
    fn all_tests_find_the_same_tenth_with_intervals_of_their_own() {
        let width = |blocks: usize, stopping| {
            let contrast = ArmContrast::of(&drawn(blocks, 2), &question(stopping, 1)).unwrap();
            assert!((contrast.estimate - 0.1).abs() < 0.03, "{contrast:?}");
            assert!(contrast.p_value < 0.01 && contrast.margin_p_value > 0.5);
            assert!(contrast.interval.low < 0.1 && contrast.interval.high > 0.1);
            assert!((0.02..0.06).contains(&contrast.deviation), "{contrast:?}");
            contrast.interval.high - contrast.interval.low
        };
        let fixed = width(20, StoppingRule::Fixed);
        let staged = width(20, StoppingRule::TwoStage);
        let anytime = width(20, StoppingRule::Anytime);
        assert!(
            fixed < staged && staged < anytime,
            "{fixed} {staged} {anytime}"
        );
        assert!(anytime < 1.8 * fixed, "{anytime} {fixed}");
    }
}
