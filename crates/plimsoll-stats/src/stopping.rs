// SPDX-License-Identifier: Apache-2.0
//! When the blocks of an experiment end, and why.
//!
//! Who looks after every block and stops at the first p below 0.05 finds a difference between equal
//! systems in a quarter of all experiments. Two ways to end early keep the promise:
//!
//! * *two-stage* (Stein, 1945): the first few blocks tell the noise, which sets the number of all
//!   blocks, once; the effect has no part in it;
//! * *anytime*: the stakes of the randomisation game, which may be looked at after every block.
//!
//! The rule is part of the policy, fixed before the first block: [`crate::compare()`] judges by the
//! test that belongs to it.

use plimsoll_core::comparison::{StoppingRule, VerdictPolicy};
use plimsoll_core::num::{round_u64, to_usize};

use crate::compare::{ArmValues, contrasts};
use crate::contrast::ArmContrast;
use crate::family::holm;
use crate::student;

/// Power asked of the second stage.
const POWER: f64 = crate::power::POWER;

/// Where one trial of ten stalls, at least one of this number does, in 19 runs of 20. A run that ends because
/// equal systems are found equivalent has seen this number, if there is time for them.
const TRIALS_TO_SEE_STALLS: usize = 29;

/// The choices that were fixed before the first block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoppingPlan {
    /// Confidence, margin and the rule.
    pub policy: VerdictPolicy,
    /// Blocks of the first stage; at least 4.
    pub pilot_blocks: usize,
    /// The effect to be found, as a fraction.
    pub effect: f64,
    /// Blocks that the budget allows.
    pub blocks_max: usize,
}

/// Why the blocks ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppingReason {
    /// All blocks that were fixed before are done.
    Planned,
    /// The blocks that the noise of the first stage asked for are done.
    PrecisionReached,
    /// Every arm has a verdict.
    VerdictReached,
    /// The budget allows no more.
    BudgetSpent,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppingStep {
    /// More blocks, up to this number in all before the next look.
    Continue {
        /// Blocks in all.
        until: usize,
    },
    /// No more.
    Stop(StoppingReason),
}

impl StoppingPlan {
    /// The step after `done` blocks of every workload; `workloads` has their values.
    pub fn after(&self, done: usize, workloads: &[Vec<ArmValues>]) -> StoppingStep {
        match self.policy.stopping {
            StoppingRule::Fixed => until(done, self.blocks_max, StoppingReason::Planned),
            StoppingRule::TwoStage => self.second_stage(done, workloads),
            StoppingRule::Anytime if self.is_settled(workloads) => {
                StoppingStep::Stop(StoppingReason::VerdictReached)
            }
            StoppingRule::Anytime if done >= self.blocks_max => {
                StoppingStep::Stop(StoppingReason::BudgetSpent)
            }
            StoppingRule::Anytime => StoppingStep::Continue { until: done + 1 },
        }
    }

    /// There is one look at the effect, when the blocks that the noise asked for are done. The caller ends
    /// there if there is a verdict; else the second and last one is when all blocks are done.
    fn second_stage(&self, done: usize, workloads: &[Vec<ArmValues>]) -> StoppingStep {
        let pilot = self.pilot_blocks.max(4);
        let all = until(done, self.blocks_max, StoppingReason::BudgetSpent);
        if pilot >= self.blocks_max {
            return all;
        }
        if done < pilot {
            return StoppingStep::Continue { until: pilot };
        }
        // Of the first stage alone, whenever it is asked: later blocks change nothing.
        let wanted = workloads.iter().flat_map(|arms| {
            let first = first_blocks(arms, pilot);
            let family = contrasts(&first, &self.policy);
            let count = family.len();
            let each = family.into_iter().flatten();
            each.map(move |contrast| self.blocks_for(&contrast, count))
                .collect::<Vec<usize>>()
        });
        let wanted = wanted.max().unwrap_or(usize::MAX).max(pilot);
        match wanted <= self.blocks_max && done <= wanted {
            true => until(done, wanted, StoppingReason::PrecisionReached),
            false => all,
        }
    }

    /// Stein's number: with the t quantiles of the first stage, so that the power holds although its
    /// deviation is uncertain.
    fn blocks_for(&self, contrast: &ArmContrast, family: usize) -> usize {
        let df = contrast.blocks - 1;
        let alpha = (1.0 - self.policy.confidence) / family.max(1) as f64;
        let factor = student::two_sided(1.0 - alpha, df) + student::quantile(POWER, df);
        let ratio = factor * contrast.unlabelled_deviation / self.effect.max(1e-6).ln_1p();
        to_usize(round_u64((ratio * ratio).ceil()).min(1 << 20))
    }

    /// Whether every arm under every workload has a verdict.
    fn is_settled(&self, workloads: &[Vec<ArmValues>]) -> bool {
        let alpha = 1.0 - self.policy.confidence;
        workloads.iter().all(|arms| {
            let family = contrasts(arms, &self.policy);
            let p_value = |one: &Option<ArmContrast>| one.map_or(1.0, |one| one.p_value);
            let corrected = holm(&family.iter().map(p_value).collect::<Vec<_>>());
            let is_close = |one: &Option<ArmContrast>| {
                let tells = |c: &ArmContrast| c.blocks >= TRIALS_TO_SEE_STALLS.min(self.blocks_max);
                one.is_some_and(|one| one.margin_p_value <= alpha && tells(&one))
            };
            let mut both = family.iter().zip(corrected);
            both.all(|(one, p_value)| p_value <= alpha || is_close(one))
        })
    }
}

fn until(done: usize, blocks: usize, reason: StoppingReason) -> StoppingStep {
    if done >= blocks {
        StoppingStep::Stop(reason)
    } else {
        StoppingStep::Continue { until: blocks }
    }
}

fn first_blocks(arms: &[ArmValues], blocks: usize) -> Vec<ArmValues> {
    let cut = |arm: &ArmValues| ArmValues {
        values: arm.values.iter().copied().take(blocks).collect(),
        places: arm.places.iter().copied().take(blocks).collect(),
        ..arm.clone()
    };
    arms.iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    fn plan(stopping: StoppingRule) -> StoppingPlan {
        StoppingPlan {
            policy: VerdictPolicy {
                stopping,
                ..VerdictPolicy::default()
            },
            pilot_blocks: 5,
            effect: 0.1,
            blocks_max: 40,
        }
    }

    fn arms(blocks: usize, noise: f64, effect: f64) -> Vec<ArmValues> {
        let mut rng = Rng::new(Seed(9));
        let mut all: Vec<ArmValues> = Vec::new();
        for (name, control_of, truth) in [
            ("a", None, 0.0),
            ("b", None, effect),
            ("a again", Some("a"), 0.0),
        ] {
            let mut value = |_| Some((truth + noise * rng.normal()).exp());
            all.push(ArmValues {
                name: name.into(),
                control_of: control_of.map(String::from),
                values: (0..blocks).map(&mut value).collect(),
                places: Vec::new(),
            });
        }
        all
    }

    /// Blocks that are done, and why no more.
    fn carried_out(plan: &StoppingPlan, noise: f64, effect: f64) -> (usize, StoppingReason) {
        let all = arms(plan.blocks_max, noise, effect);
        let mut done = 0;
        loop {
            match plan.after(done, &[first_blocks(&all, done)]) {
                StoppingStep::Stop(reason) => return (done, reason),
                StoppingStep::Continue { until } => done = until,
            }
        }
    }

    #[test]
    fn two_stages_take_blocks_by_the_noise_alone() {
        let plan = plan(StoppingRule::TwoStage);
        let quiet = carried_out(&plan, 0.01, 0.0);
        assert_eq!(quiet, (5, StoppingReason::PrecisionReached));
        let some = carried_out(&plan, 0.08, 0.0);
        assert_eq!(some.1, StoppingReason::PrecisionReached);
        assert!((6..40).contains(&some.0), "{some:?}");
        assert_eq!(carried_out(&plan, 0.08, 0.5), some);
        let loud = carried_out(&plan, 0.8, 0.0);
        assert_eq!(loud, (40, StoppingReason::BudgetSpent));
    }

    #[test]
    fn looks_at_any_time_end_with_a_verdict_or_the_budget() {
        let plan = plan(StoppingRule::Anytime);
        let large = carried_out(&plan, 0.02, 0.5);
        assert_eq!(large.1, StoppingReason::VerdictReached);
        assert!(large.0 < 10, "{large:?}");
        let equal = carried_out(&plan, 0.01, 0.0);
        assert_eq!(equal.1, StoppingReason::VerdictReached);
        let unclear = carried_out(&plan, 0.3, 0.05);
        assert_eq!(unclear, (40, StoppingReason::BudgetSpent));
    }

    #[test]
    fn a_fixed_number_is_fixed() {
        let plan = plan(StoppingRule::Fixed);
        assert_eq!(carried_out(&plan, 0.05, 0.0), (40, StoppingReason::Planned));
    }
}
