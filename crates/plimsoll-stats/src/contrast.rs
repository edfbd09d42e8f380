// SPDX-License-Identifier: Apache-2.0
//! One arm held against its base: the estimate, its interval, and what both tests say.
//!
//! The second entry of a system is another measurement of it, so a control does not only watch: it is
//! averaged with the base. Which test is used is fixed by the design, never by the values: for an
//! experiment that stops when its blocks are done the randomisation test, or Student's t where the
//! blocks have too few arrangements for the confidence; for one that may stop at any time the stakes
//! that allow it. What all of this means for a verdict is decided elsewhere.

use plimsoll_core::comparison::{RatioEstimate, StoppingRule};

use crate::anytime::{StakePeaks, StakesGame};
use crate::arrangement::{ArrangementTails, ArrangementTest, BlockLogValues, LogInterval};
use crate::carryover_fit::{BlockBefore, CarryOver, IntervalWidening};
use crate::paired::PairedLogRatioStats;
use crate::student;

/// With two stages there are two looks at the effect (Pocock, 1977), and the blocks whose noise sets the
/// number are counted again: they end early where they happened to be quiet. Each look gets this share of the
/// level (simulated, docs/results/2026-11-verdicts.md).
const SPENT_AFTER_A_LOOK: f64 = 0.58;

/// The question to the blocks.
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

/// The difference of two systems in blocks, on logarithms.
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
    /// ln of what trials right after one of the arm take more, where that is more than chance.
    pub carry_over: Option<f64>,
}

impl ArmContrast {
    /// From blocks in their order; `None` below two in which both systems have a value.
    pub fn of(blocks: &[BlockLogValues], question: &ContrastQuestion) -> Option<ArmContrast> {
        widened(blocks, question, IntervalWidening::NONE)
    }

    /// The same where it is known what ran before each trial. What the arm leaves behind is taken out, and
    /// both answers must agree: that of the values as they are is exact where nothing is left behind, the
    /// other one holds where something is.
    pub(crate) fn of_ordered(
        blocks: &[BlockLogValues],
        before: &[BlockBefore],
        question: &ContrastQuestion,
    ) -> Option<ArmContrast> {
        let plain = ArmContrast::of(blocks, question)?;
        let Some(left) = CarryOver::of(blocks, before) else {
            return Some(plain);
        };
        let cleaned = widened(&left.blocks, question, left.widening)?;
        let (nearer, estimate) = match left.is_shown {
            true => (cleaned, cleaned.estimate),
            false => (plain, plain.estimate),
        };
        let agree = plain.estimate.is_sign_positive() == cleaned.estimate.is_sign_positive();
        Some(ArmContrast {
            estimate,
            interval: LogInterval {
                low: plain.interval.low.min(cleaned.interval.low),
                high: plain.interval.high.max(cleaned.interval.high),
            },
            p_value: match agree {
                true => plain.p_value.max(cleaned.p_value),
                false => 1.0,
            },
            margin_p_value: plain.margin_p_value.max(cleaned.margin_p_value),
            deviation: nearer.deviation * left.widening.factor,
            carry_over: left.is_shown.then_some(left.next),
            ..plain
        })
    }

    /// The ratio with its interval.
    pub fn ratio(&self) -> RatioEstimate {
        RatioEstimate::of_logs(self.estimate, self.interval.low, self.interval.high)
    }
}

/// The same difference with an interval that is widened by `widening`.
fn widened(
    blocks: &[BlockLogValues],
    question: &ContrastQuestion,
    widening: IntervalWidening,
) -> Option<ArmContrast> {
    let test = ArrangementTest::of(blocks)?;
    let needed = (1.0 - question.confidence) / question.family.max(1) as f64;
    if question.stopping == StoppingRule::Anytime {
        return Some(at_any_time(&test, blocks, question, widening));
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
        by_arrangements(&test, &question, widening)
    } else {
        by_students_t(&test, &question, widening)?
    };
    Some(ArmContrast {
        p_value: (contrast.p_value / spent).min(1.0),
        margin_p_value: (contrast.margin_p_value / spent).min(1.0),
        ..contrast
    })
}

impl IntervalWidening {
    fn of(self, interval: LogInterval, estimate: f64) -> LogInterval {
        LogInterval {
            low: estimate + (interval.low - estimate) * self.factor - self.beyond,
            high: estimate + (interval.high - estimate) * self.factor + self.beyond,
        }
    }

    /// The question to a test of the values, so that it answers as the wider interval does: whether the truth
    /// lies above this effect.
    fn above(self, effect: f64, estimate: f64) -> f64 {
        estimate + (effect + self.beyond - estimate) / self.factor
    }

    /// The same below it.
    fn below(self, effect: f64, estimate: f64) -> f64 {
        estimate + (effect - self.beyond - estimate) / self.factor
    }
}

fn by_arrangements(
    test: &ArrangementTest,
    question: &ContrastQuestion,
    widening: IntervalWidening,
) -> ArmContrast {
    let estimate = test.estimate();
    let above = |effect| test.tails(widening.above(effect, estimate)).above;
    let below = |effect| test.tails(widening.below(effect, estimate)).below;
    let none = ArrangementTails {
        above: above(0.0),
        below: below(0.0),
    };
    let interval = test.interval(estimate, question.confidence);
    ArmContrast {
        blocks: test.block_count(),
        basis: ContrastBasis::Arrangements,
        estimate,
        interval: widening.of(interval, estimate),
        p_value: none.both(),
        margin_p_value: below(question.margin).max(above(-question.margin)),
        deviation: test.deviation(estimate),
        unlabelled_deviation: test.unlabelled_deviation(estimate),
        carry_over: None,
    }
}

fn by_students_t(
    test: &ArrangementTest,
    question: &ContrastQuestion,
    widening: IntervalWidening,
) -> Option<ArmContrast> {
    let paired = PairedLogRatioStats::of(&test.differences())?;
    let half = widening.factor * paired.half_width(question.confidence) + widening.beyond;
    let tail = |distance: f64| one_sided((distance - widening.beyond) / widening.factor, &paired);
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
        carry_over: None,
    })
}

fn at_any_time(
    test: &ArrangementTest,
    blocks: &[BlockLogValues],
    question: &ContrastQuestion,
    widening: IntervalWidening,
) -> ArmContrast {
    let estimate = test.estimate();
    let deviation = test.deviation(estimate);
    let step = deviation / (test.block_count() as f64).sqrt();
    let game = StakesGame {
        blocks,
        is_uneven: test.is_uneven(),
    };
    let above = |effect| game.stakes(widening.above(effect, estimate)).above;
    let below = |effect| game.stakes(widening.below(effect, estimate)).below;
    let none = StakePeaks {
        above: above(0.0),
        below: below(0.0),
    };
    let interval = game.confidence_sequence(estimate, step, question.confidence);
    let apart = below(question.margin).min(above(-question.margin));
    ArmContrast {
        blocks: test.block_count(),
        basis: ContrastBasis::Stakes,
        estimate,
        interval: widening.of(interval, estimate),
        p_value: none.p_value(),
        margin_p_value: (-apart).exp().min(1.0),
        deviation,
        unlabelled_deviation: test.unlabelled_deviation(estimate),
        carry_over: None,
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
