// SPDX-License-Identifier: Apache-2.0
//! Options of what blocks are to reach, and when they end.

use super::measure::choices;
use plimsoll_console::failure::CliError;
use plimsoll_core::campaign::{CampaignDesign, CampaignSpec};
use plimsoll_core::comparison::StoppingRule;
use plimsoll_core::design::BlockDesign;
use plimsoll_core::units;
use plimsoll_core::workload::Workload;
use plimsoll_core::written::WrittenTime;
use plimsoll_run::campaign::BlockDesignGoal;
use std::ops::RangeInclusive;

/// How many blocks may be asked for.
pub(super) const BLOCKS_RANGE: RangeInclusive<i64> = 1..=BlockDesign::BLOCKS_MAX as i64;

/// Stopping rules by their names.
const RULES: [(&str, StoppingRule); 3] = [
    ("fixed", StoppingRule::Fixed),
    ("two-stage", StoppingRule::TwoStage),
    ("anytime", StoppingRule::Anytime),
];

/// Effect that blocks must find, and the rule that ends them.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Blocks and verdicts")]
pub(super) struct BlockDesignArgs {
    /// Find a true difference of this size, such as 5% or 0.05, in four of five runs.
    ///
    /// A pilot of three blocks measures the noise. The noise sets the length of trials, the warm-up
    /// and the number of blocks. The expected precision is printed before the remaining blocks
    /// begin. --budget limits the time. --for, --warmup and --blocks (the maximum) stay as given.
    #[arg(long, value_parser = effect, value_name = "SIZE")]
    effect: Option<f64>,
    /// Rule that ends the blocks (default: two-stage with --effect, else fixed).
    ///
    /// fixed: the number of blocks is set before the first block. two-stage: the noise of the first
    /// blocks sets the number, whatever the difference. anytime: the blocks end as soon as every
    /// system has a verdict; the test allows a look after each block, and needs about 50 % more
    /// blocks. With --budget and without --effect, fixed and anytime use the budget to find as
    /// small a difference as possible.
    #[arg(long = "stop", value_parser = choices(&RULES), value_name = "RULE", hide_short_help = true)]
    stopping: Option<StoppingRule>,
}

/// How blocks are designed and end.
#[derive(Debug, Clone, Default)]
pub(super) struct BlockDesignChoice {
    /// Design as the manifest records it; `None` where only the number of blocks is set.
    pub(super) design: Option<BlockDesign>,
    /// Goal of the pilot, if there is one.
    pub(super) goal: Option<BlockDesignGoal>,
}

impl BlockDesignArgs {
    /// Puts what was given into a campaign.
    pub(super) fn apply(&self, spec: &mut CampaignSpec) {
        if self.effect.is_some() || self.stopping.is_some() {
            let before = spec.design.unwrap_or_default();
            spec.design = Some(CampaignDesign {
                effect: self.effect.or(before.effect),
                stop: self.stopping.or(before.stop),
                budget: before.budget,
                pilot: true,
            });
        }
    }
}

impl BlockDesignChoice {
    /// Design of the blocks of a campaign.
    pub(super) fn of(spec: &CampaignSpec) -> BlockDesignChoice {
        let has_pilot = spec.has_pilot();
        let Some(asked) = spec
            .design
            .filter(|asked| has_pilot || !asked.rule().is_fixed())
        else {
            return BlockDesignChoice::default();
        };
        let trial = &spec.trial;
        let design = BlockDesign {
            effect: asked.effect,
            budget: asked.budget.map(|time| time.0),
            pilot_blocks: if has_pilot {
                BlockDesign::PILOT_BLOCKS
            } else {
                0
            },
            given: given(spec),
            ..BlockDesign::default()
        };
        let goal = BlockDesignGoal {
            effect: asked.effect,
            blocks: spec.blocks,
            length: trial.length.map(|time| time.0),
            warmup: trial.warmup.map(|time| time.0),
        };
        BlockDesignChoice {
            design: Some(design),
            goal: has_pilot.then_some(goal),
        }
    }
}

/// Settings that no design changes, as options.
fn given(spec: &CampaignSpec) -> Vec<String> {
    let time = |name: &str, time: WrittenTime| format!("{name} {}", units::duration(time.0));
    let length = spec.trial.length.map(|length| time("--for", length));
    let warmup = spec.trial.warmup.map(|warmup| time("--warmup", warmup));
    let blocks = spec.blocks.map(|blocks| format!("--blocks {blocks}"));
    length.into_iter().chain(warmup).chain(blocks).collect()
}

/// Refuses workloads of which no length can be chosen.
pub(super) fn check_designable<'a>(
    workloads: impl Iterator<Item = &'a Workload>,
) -> Result<(), CliError> {
    for workload in workloads {
        if workload.metric().is_none() || workload.ends_by_itself() {
            return Err(CliError::invalid(format!(
                "--effect and --stop do not work with {}, whose trials end when their work is done",
                workload.name()
            ))
            .hint("leave them out and give --blocks"));
        }
    }
    Ok(())
}

/// Reads `5%` or `0.05`.
/// `5%` or `0.05`.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let share = units::parse_fraction(text);
    share.ok_or_else(|| "expected a percentage or a fraction, such as 5% or 0.05".into())
}

fn effect(text: &str) -> Result<f64, String> {
    units::parse_fraction(text)
        .filter(|fraction| CampaignDesign::EFFECTS.contains(fraction))
        .ok_or_else(|| "expected a percentage or a fraction, such as 5% or 0.05".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::units::Nanos;

    #[test]
    fn effects_are_percentages_or_fractions() {
        for (text, expect) in [("5%", 0.05), ("0.05", 0.05), ("150%", 1.5), ("0.1%", 0.001)] {
            assert!((effect(text).unwrap() - expect).abs() < 1e-12, "{text}");
        }
        for text in [
            "5",
            "0",
            "-5%",
            "0%",
            "5 percent",
            "nan",
            "2000%",
            "inf",
            "%",
            "",
        ] {
            assert!(effect(text).is_err(), "{text}");
        }
    }

    /// The design of two systems with these options and this budget.
    fn chosen(
        args: BlockDesignArgs,
        budget: Option<Nanos>,
        blocks: Option<u32>,
    ) -> BlockDesignChoice {
        let names = ["null".to_owned(), "sim".to_owned()];
        let mut spec = CampaignSpec {
            blocks,
            target: names.iter().map(Into::into).collect(),
            workload: vec![(&"randread".to_owned()).into()],
            ..CampaignSpec::default()
        };
        args.apply(&mut spec);
        if let Some(design) = &mut spec.design {
            design.budget = budget.map(WrittenTime);
        }
        assert_eq!(spec.problems(), []);
        BlockDesignChoice::of(&spec)
    }

    fn args(effect: Option<f64>, stopping: Option<StoppingRule>) -> BlockDesignArgs {
        BlockDesignArgs { effect, stopping }
    }

    #[test]
    fn without_a_wish_all_stays_as_it_is() {
        for (args, budget) in [
            (args(None, None), None),
            (args(None, None), Some(Nanos::SECOND)),
            (args(None, Some(StoppingRule::Fixed)), None),
        ] {
            let choice = chosen(args, budget, None);
            assert!(choice.design.is_none() && choice.goal.is_none());
        }
    }

    #[test]
    fn an_effect_or_a_budget_with_a_rule_is_designed_by_a_pilot() {
        let choice = chosen(args(Some(0.05), None), None, None);
        assert_eq!(
            choice.design.unwrap().pilot_blocks,
            BlockDesign::PILOT_BLOCKS
        );
        let anytime = args(None, Some(StoppingRule::Anytime));
        let choice = chosen(anytime, Some(Nanos::SECOND), Some(8));
        assert_eq!(choice.goal.unwrap().blocks, Some(8));
        assert_eq!(choice.design.unwrap().given, ["--blocks 8"]);
        // Looks after each of a given number of blocks need none.
        let choice = chosen(anytime, None, Some(8));
        assert!(choice.design.is_some() && choice.goal.is_none());
    }
}
