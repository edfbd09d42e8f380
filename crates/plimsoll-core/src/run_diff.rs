// SPDX-License-Identifier: Apache-2.0
//! Two runs of one campaign at two times: what changed around them, and in their results.

use serde::{Deserialize, Serialize};

use crate::comparison::{ComparisonMetric, ComparisonVerdict, RatioEstimate};

/// All that two runs differ in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunDiff {
    /// The earlier run.
    pub before: RunDiffSide,
    /// The later run.
    pub after: RunDiffSide,
    /// Facts around them that differ.
    pub surroundings: Vec<RunDiffFact>,
    /// Each result that both have.
    pub results: Vec<RunDiffRow>,
    /// Results that only one of them has, in words.
    pub unmatched: Vec<String>,
}

/// One of two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunDiffSide {
    /// The run folder as it was given.
    pub folder: String,
    /// Identifier of the run.
    pub id: String,
    /// When it began, RFC 3339.
    pub began_at: String,
    /// Whether its plan was carried out to its end.
    pub complete: bool,
}

/// Something around two runs that is not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunDiffFact {
    /// Path of the fact in the manifest, such as `machine.kernel`.
    pub what: String,
    /// In the earlier run; empty where it has none.
    pub before: String,
    /// In the later run.
    pub after: String,
}

/// Basis that a difference between two runs is measured against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunDiffBasis {
    /// Against this arm, which both runs measured in the same blocks: what changed for all alike cancels.
    BaseOfBlocks(String),
    /// Against nothing: what else changed between the runs is in the ratio, and not in its interval.
    TimeBetween,
}

/// One result of two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunDiffRow {
    /// Workload label, of phases with the phase.
    pub workload: String,
    /// The system.
    pub arm: String,
    /// The metric.
    pub metric: ComparisonMetric,
    /// Basis of the difference.
    pub basis: RunDiffBasis,
    /// In the earlier run: geometric mean of the values, or of their ratios to the base.
    pub before: f64,
    /// In the later run.
    pub after: f64,
    /// Blocks of both runs.
    pub blocks: [u32; 2],
    /// After ÷ before; `None` below two blocks in each.
    pub ratio: Option<RatioEstimate>,
    /// The verdict.
    pub verdict: ComparisonVerdict,
    /// The reason of the verdict; empty when there is nothing to add.
    pub reason: String,
}

impl RunDiffRow {
    /// Whether the change is for the better.
    pub fn is_better(&self) -> bool {
        let more = self.ratio.is_some_and(|ratio| ratio.estimate > 1.0);
        more == self.metric.more_is_better()
    }

    /// Whether the later result is worse, or one of both systems cannot carry the load.
    pub fn is_worse(&self) -> bool {
        match self.verdict {
            ComparisonVerdict::Different => !self.is_better(),
            verdict => verdict == ComparisonVerdict::CannotCarry,
        }
    }
}
