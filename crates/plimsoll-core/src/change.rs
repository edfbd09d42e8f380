// SPDX-License-Identifier: Apache-2.0
//! Series of ratios to a pinned reference, and the changes of their level.

use serde::{Deserialize, Serialize};

use crate::comparison::RatioEstimate;

/// One point of a series: a system ÷ its reference, measured in the same randomised blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RatioPoint {
    /// When it was measured, in seconds since 1970.
    pub when_unix_s: i64,
    /// ln(system ÷ reference).
    pub log_ratio: f64,
    /// Standard error of `log_ratio`, from the blocks of its campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
}

/// A change of the level of a series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RatioChange {
    /// Index of the first point at the new level. It becomes more exact as points follow.
    pub first: usize,
    /// The earliest point that may be the first one, with the confidence that was asked for.
    pub earliest: usize,
    /// The latest one.
    pub latest: usize,
    /// Index of the point with which it was found. It never changes, and no later point takes the
    /// change back.
    pub found: usize,
    /// Level after ÷ level before, with its interval.
    pub size: RatioEstimate,
    /// How often a series of sixty points without a change shows one as clear as this at any of its
    /// points.
    pub p_value: f64,
}
