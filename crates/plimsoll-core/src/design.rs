// SPDX-License-Identifier: Apache-2.0
//! Goal of the blocks of a comparison, the design that a pilot led to, and why the blocks ended.

use serde::{Deserialize, Serialize};

use crate::units::{Nanos, clock_duration};

/// The goal set for the blocks before the first one and, as far as known, the results.
///
/// The manifest holds the goal. The results are events of the run; a reader of a run folder finds
/// them here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BlockDesign {
    /// The true difference that is to be found four times in five, as a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<f64>,
    /// Time for the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Nanos>,
    /// Blocks at the beginning whose noise decides on the others; 0 where nothing is left to decide.
    pub pilot_blocks: u32,
    /// Options that the user set, with their values; no design changes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<String>,
    /// The design.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<BlockDesignResult>,
    /// How the blocks ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<BlocksEnd>,
}

impl BlockDesign {
    /// Most blocks of a run.
    pub const BLOCKS_MAX: u32 = 1_000;

    /// Blocks of a pilot.
    pub const PILOT_BLOCKS: u32 = 3;

    /// The fewest blocks that a pilot may lead to, its own included.
    pub const BLOCKS_LEAST: u32 = 6;

    /// Whether the trials of the pilot have been run and the others are not designed yet.
    pub fn awaits_pilot(&self) -> bool {
        self.pilot_blocks > 0 && self.found.is_none()
    }

    /// The first block that counts: those of a pilot that warmed up do not.
    pub fn first_block(&self) -> u32 {
        let left_out = self.found.as_ref().is_some_and(|found| !found.keeps_pilot);
        if left_out { self.pilot_blocks } else { 0 }
    }

    /// The goal, in words.
    pub fn question(&self) -> String {
        let wanted = match self.effect {
            Some(effect) => format!("find a difference of {}", percent(effect)),
            None => "find as small a difference as possible".into(),
        };
        match self.budget {
            Some(budget) => format!("{wanted} within {}", clock_duration(budget)),
            None => wanted,
        }
    }
}

/// Without superfluous decimals: it is a chosen number.
fn percent(fraction: f64) -> String {
    let text = format!("{:.3}", fraction * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The trials that follow a pilot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BlockDesignResult {
    /// Length of the measured part of each.
    pub length: Nanos,
    /// Time before it.
    pub warmup: Nanos,
    /// Blocks at most, the pilot's included.
    pub blocks: u32,
    /// Blocks that are expected, the pilot's included.
    pub expected: u32,
    /// Whether the blocks of the pilot count: not if their trials began elsewhere than they went on.
    pub keeps_pilot: bool,
    /// The difference whose size sets the second stage, as a fraction.
    pub effect: f64,
    /// Time that one block is expected to take.
    pub block_time: Nanos,
    /// Forecast of the result, as stated before these trials.
    pub forecast: String,
}

/// After how many blocks a comparison ended, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BlocksEnd {
    /// Whole blocks.
    pub blocks: u32,
    /// Why no more.
    pub cause: BlocksEndCause,
}

impl BlocksEnd {
    /// As people read it.
    pub fn sentence(&self) -> String {
        let plural = if self.blocks == 1 { "" } else { "s" };
        format!(
            "ended after {} block{plural}: {}",
            self.blocks,
            self.cause.sentence()
        )
    }
}

/// Why the blocks of a comparison ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BlocksEndCause {
    /// All blocks that were fixed before are done.
    Planned,
    /// The blocks that the noise of the first stage asked for are done.
    PrecisionReached,
    /// Every system has a verdict.
    VerdictReached,
    /// The largest number of blocks is done.
    LimitReached,
    /// The time of the budget is over.
    BudgetSpent,
    /// The user ended it.
    UserQuit,
}

impl BlocksEndCause {
    /// As people read it.
    pub fn sentence(self) -> &'static str {
        match self {
            BlocksEndCause::Planned => "all planned blocks are done",
            BlocksEndCause::PrecisionReached => {
                "the blocks that the noise of the first ones asked for are done"
            }
            BlocksEndCause::VerdictReached => "every system has a verdict",
            BlocksEndCause::LimitReached => "the largest number of blocks is done",
            BlocksEndCause::BudgetSpent => "the budget allows no more blocks",
            BlocksEndCause::UserQuit => "the user ended it",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_said_in_words() {
        let mut design = BlockDesign {
            effect: Some(0.05),
            ..BlockDesign::default()
        };
        assert_eq!(design.question(), "find a difference of 5 %");
        design.budget = Some(Nanos(600 * Nanos::SECOND.0));
        assert_eq!(
            design.question(),
            "find a difference of 5 % within 10 min 00 s"
        );
        design.effect = None;
        assert_eq!(
            design.question(),
            "find as small a difference as possible within 10 min 00 s"
        );
    }

    #[test]
    fn a_pilot_that_warmed_up_does_not_count() {
        let mut design = BlockDesign {
            pilot_blocks: 3,
            ..BlockDesign::default()
        };
        assert!(design.awaits_pilot());
        assert_eq!(design.first_block(), 0);
        let found = |keeps_pilot| BlockDesignResult {
            length: Nanos::SECOND,
            warmup: Nanos(0),
            blocks: 20,
            expected: 12,
            keeps_pilot,
            effect: 0.1,
            block_time: Nanos::SECOND,
            forecast: String::new(),
        };
        design.found = Some(found(true));
        assert_eq!((design.first_block(), design.awaits_pilot()), (0, false));
        design.found = Some(found(false));
        assert_eq!(design.first_block(), 3);
    }
}
