// SPDX-License-Identifier: Apache-2.0
//! A gate of continuous integration: whether a candidate is worse than its reference.

use serde::{Deserialize, Serialize};

use crate::comparison::{ComparisonMetric, RatioEstimate};

/// Verdict of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    /// The candidate is not worse by as much as the effect.
    NoRegression,
    /// Neither that nor the contrary is shown.
    CannotTell,
    /// The candidate is worse, and it is not shown that this is less than the effect.
    Regression,
}

impl GateVerdict {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            GateVerdict::NoRegression => "no regression",
            GateVerdict::CannotTell => "cannot tell",
            GateVerdict::Regression => "regression",
        }
    }
}

/// One figure of the candidate against that of the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateRow {
    /// The workload, or a phase of it.
    pub workload: String,
    /// The compared metric.
    pub metric: ComparisonMetric,
    /// Of the reference, in the units of the metric.
    pub reference_value: f64,
    /// Of the candidate.
    pub candidate_value: f64,
    /// Candidate ÷ reference, with its interval.
    pub ratio: Option<RatioEstimate>,
    /// Blocks in which both have a value.
    pub blocks: u32,
    /// Verdict of the row.
    pub verdict: GateVerdict,
    /// Why, or what would settle it; may be empty.
    pub reason: String,
}

/// Result of a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateOutcome {
    /// Name of the candidate.
    pub candidate: String,
    /// Name of the reference that it is compared with.
    pub reference: String,
    /// The smallest worsening that matters, as a fraction.
    pub effect: f64,
    /// Confidence of the intervals. Of equal systems, all rows together call one of them a regression no
    /// more often than in one of twenty gates.
    pub confidence: f64,
    /// The worst verdict of all rows.
    pub verdict: GateVerdict,
    /// The rows.
    pub rows: Vec<GateRow>,
}
