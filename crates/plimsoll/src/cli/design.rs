// SPDX-License-Identifier: Apache-2.0
//! Options of what blocks are to reach, and when they end.

use super::measure::choices;
use plimsoll_console::failure::CliError;
use plimsoll_core::comparison::StoppingRule;
use plimsoll_core::design::BlockDesign;
use plimsoll_core::event::RunManifest;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_run::campaign::{BlockDesignGoal, PILOT_BLOCKS};
use plimsoll_stats::design::BLOCKS_LEAST;
use std::ops::RangeInclusive;

/// How many blocks may be asked for.
pub(super) const BLOCKS_RANGE: RangeInclusive<i64> = 1..=RunManifest::BLOCKS_MAX as i64;

/// Stopping rules by their names.
const RULES: [(&str, StoppingRule); 3] = [
    ("fixed", StoppingRule::Fixed),
    ("two-stage", StoppingRule::TwoStage),
    ("anytime", StoppingRule::Anytime),
];

/// The largest effect that may be asked for: ten times as much.
const EFFECT_MAX: f64 = 10.0;

/// Effect that blocks must find, and the rule that ends them.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct BlockDesignArgs {
    /// Find a true difference of this size in four of five runs, such as 5% or 0.05.
    ///
    /// A pilot of three blocks measures the noise. From that follow the length of trials, the
    /// warm-up and the number of blocks, and what they are expected to reach is printed before
    /// they begin. --budget limits the time. --for, --warmup and --blocks (the most blocks) stay as
    /// given.
    #[arg(long, value_parser = effect, value_name = "SIZE")]
    effect: Option<f64>,
    /// When the blocks end (default: two-stage with --effect, else fixed).
    ///
    /// fixed: after a number that is known before. two-stage: after a number that the noise of the
    /// first blocks sets, whatever the difference. anytime: as soon as every system has a verdict;
    /// one look after each block, by a test that allows it and needs about half as many blocks
    /// again. With --budget and without --effect, fixed and anytime use the budget to find as
    /// small a difference as possible.
    #[arg(long = "stop", value_parser = choices(&RULES), value_name = "RULE")]
    stopping: Option<StoppingRule>,
}

/// Trial settings that the user gave, from which a design is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct GivenTrials {
    pub(super) blocks: Option<u32>,
    pub(super) length: Option<Nanos>,
    pub(super) warmup: Option<Nanos>,
    pub(super) budget: Option<Nanos>,
    /// Systems that are compared.
    pub(super) systems: usize,
}

/// How blocks are designed and end.
#[derive(Debug, Clone, Default)]
pub(super) struct BlockDesignChoice {
    pub(super) rule: StoppingRule,
    /// Design as the manifest records it; `None` where only the number of blocks is set.
    pub(super) design: Option<BlockDesign>,
    /// Goal of the pilot, if there is one.
    pub(super) goal: Option<BlockDesignGoal>,
}

impl BlockDesignChoice {
    /// Two stages without a pilot, for workloads whose length is their own: the noise of the first
    /// blocks sets the number of all.
    pub(super) fn stages(effect: f64, given: &GivenTrials) -> BlockDesignChoice {
        BlockDesignChoice {
            rule: StoppingRule::TwoStage,
            design: Some(BlockDesign {
                effect: Some(effect),
                budget: given.budget,
                given: given.options(),
                ..BlockDesign::default()
            }),
            goal: None,
        }
    }
}

impl BlockDesignArgs {
    /// To find this difference, in two stages.
    pub(super) fn two_stages(effect: f64) -> BlockDesignArgs {
        BlockDesignArgs {
            effect: Some(effect),
            stopping: None,
        }
    }

    /// Design that follows from the options.
    pub(super) fn choice(&self, given: &GivenTrials) -> Result<BlockDesignChoice, CliError> {
        let rule = match (self.stopping, self.effect) {
            (Some(rule), _) => rule,
            (None, Some(_)) => StoppingRule::TwoStage,
            (None, None) => StoppingRule::Fixed,
        };
        let wants_time = self.stopping.is_some() && given.budget.is_some();
        if rule == StoppingRule::TwoStage && self.effect.is_none() {
            let text = "--stop two-stage needs --effect, the difference that is to be found";
            return Err(CliError::invalid(text).hint("for example --effect 5%"));
        }
        if self.effect.is_none() && !wants_time {
            return match rule {
                StoppingRule::Anytime => until_blocks(given),
                _ => Ok(BlockDesignChoice::default()),
            };
        }
        check_systems(given)?;
        let least = u32::try_from(BLOCKS_LEAST).unwrap_or(u32::MAX);
        if let Some(blocks) = given.blocks.filter(|blocks| *blocks < least) {
            return Err(CliError::invalid(format!(
                "invalid value '{blocks}' for --blocks: with --effect or --stop expected at least \
                 {least}, of which {PILOT_BLOCKS} are the pilot"
            )));
        }
        Ok(BlockDesignChoice {
            rule,
            design: Some(BlockDesign {
                effect: self.effect,
                budget: given.budget,
                pilot_blocks: PILOT_BLOCKS,
                given: given.options(),
                ..BlockDesign::default()
            }),
            goal: Some(BlockDesignGoal {
                effect: self.effect,
                blocks: given.blocks,
                length: given.length,
                warmup: given.warmup,
            }),
        })
    }
}

/// Looks after each of a given number of blocks, of trials as they are given.
fn until_blocks(given: &GivenTrials) -> Result<BlockDesignChoice, CliError> {
    if given.blocks.is_none() {
        let text = "--stop anytime needs a limit: --effect, --budget or --blocks";
        return Err(CliError::invalid(text).hint("for example --blocks 40"));
    }
    check_systems(given)?;
    Ok(BlockDesignChoice {
        rule: StoppingRule::Anytime,
        design: Some(BlockDesign {
            given: given.options(),
            ..BlockDesign::default()
        }),
        goal: None,
    })
}

fn check_systems(given: &GivenTrials) -> Result<(), CliError> {
    match given.systems {
        0 | 1 => Err(
            CliError::invalid("--effect and --stop need at least two targets")
                .hint("to compare a system with itself, give it twice"),
        ),
        _ => Ok(()),
    }
}

impl GivenTrials {
    /// Options that no design changes.
    fn options(&self) -> Vec<String> {
        let time = |name: &str, time: Nanos| format!("{name} {}", units::duration(time));
        let length = self.length.map(|length| time("--for", length));
        let warmup = self.warmup.map(|warmup| time("--warmup", warmup));
        let blocks = self.blocks.map(|blocks| format!("--blocks {blocks}"));
        length.into_iter().chain(warmup).chain(blocks).collect()
    }
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
fn effect(text: &str) -> Result<f64, String> {
    units::parse_fraction(text)
        .filter(|fraction| *fraction >= 1e-4 && *fraction <= EFFECT_MAX)
        .ok_or_else(|| "expected a percentage or a fraction, such as 5% or 0.05".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: GivenTrials = GivenTrials {
        blocks: None,
        length: None,
        warmup: None,
        budget: None,
        systems: 2,
    };

    fn args(effect: Option<f64>, stopping: Option<StoppingRule>) -> BlockDesignArgs {
        BlockDesignArgs { effect, stopping }
    }

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

    #[test]
    fn without_a_wish_all_stays_as_it_is() {
        let budget = GivenTrials {
            budget: Some(Nanos::SECOND),
            ..NOTHING
        };
        for (args, given) in [
            (args(None, None), NOTHING),
            (args(None, None), budget),
            (args(None, Some(StoppingRule::Fixed)), NOTHING),
        ] {
            let choice = args.choice(&given).unwrap();
            assert!(choice.design.is_none() && choice.goal.is_none());
            assert_eq!(choice.rule, StoppingRule::Fixed);
        }
    }

    #[test]
    fn an_effect_or_a_budget_with_a_rule_is_designed_by_a_pilot() {
        let budget = GivenTrials {
            budget: Some(Nanos::SECOND),
            blocks: Some(8),
            ..NOTHING
        };
        let choice = args(Some(0.05), None).choice(&NOTHING).unwrap();
        assert_eq!(choice.rule, StoppingRule::TwoStage);
        assert_eq!(choice.design.unwrap().pilot_blocks, PILOT_BLOCKS);
        let choice = args(None, Some(StoppingRule::Anytime))
            .choice(&budget)
            .unwrap();
        assert_eq!(choice.goal.unwrap().blocks, Some(8));
        assert_eq!(choice.design.unwrap().given, ["--blocks 8"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let one = GivenTrials {
            systems: 1,
            ..NOTHING
        };
        let few = GivenTrials {
            blocks: Some(5),
            ..NOTHING
        };
        for (args, given, expect) in [
            (
                args(None, Some(StoppingRule::TwoStage)),
                NOTHING,
                "--effect",
            ),
            (args(None, Some(StoppingRule::Anytime)), NOTHING, "--blocks"),
            (args(Some(0.05), None), one, "two targets"),
            (args(Some(0.05), None), few, "at least 6"),
        ] {
            let refused = args.choice(&given).unwrap_err().to_string();
            assert!(refused.contains(expect), "{refused}");
        }
    }
}
