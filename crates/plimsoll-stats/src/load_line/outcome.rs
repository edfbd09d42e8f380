// SPDX-License-Identifier: Apache-2.0
//! The result of a search.

use super::steady::LoadLineSteadiness;

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadLineStop {
    /// The interval is as narrow as was asked for, and its lower end was held for long.
    WidthReached,
    /// There is no time for another trial; the interval is as wide as it is.
    BudgetReached,
    /// Not even the smallest multiple is carried.
    NothingCarried,
    /// The largest multiple is carried.
    EverythingCarried,
}

/// Which ends of the interval rest on trials. An end that does not is no figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadLineReach {
    /// Trials lie on both sides of the line.
    Between,
    /// No limit was reached, or the line may lie above the largest multiple: it is at least the lower end.
    AtLeast,
    /// No trial was carried, or the line may lie below the smallest multiple: it is below the upper end.
    Below,
    /// Neither end is known.
    Unknown,
}

impl LoadLineReach {
    /// Whether the lower end is a figure.
    #[must_use]
    pub fn has_low(self) -> bool {
        matches!(self, LoadLineReach::Between | LoadLineReach::AtLeast)
    }

    /// Whether the upper end is a figure.
    #[must_use]
    pub fn has_high(self) -> bool {
        matches!(self, LoadLineReach::Between | LoadLineReach::Below)
    }

    pub(super) fn of(is_low_known: bool, is_high_known: bool) -> LoadLineReach {
        if is_low_known && is_high_known {
            LoadLineReach::Between
        } else if is_low_known {
            LoadLineReach::AtLeast
        } else if is_high_known {
            LoadLineReach::Below
        } else {
            LoadLineReach::Unknown
        }
    }
}

/// The limit that binds at the lowest load that can be measured: what machine, path and storage
/// take of it without any queue.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadLineIdle {
    /// The limit that was nearest to being broken.
    pub limit: String,
    /// The load.
    pub multiple: f64,
    /// Seconds of it.
    pub seconds: f64,
    /// Share of operations beyond the limit.
    pub beyond: f64,
    /// Share that the limit allows.
    pub allowed: f64,
    /// Whether the limit was broken.
    pub is_broken: bool,
}

/// Where an edge is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadLineInterval {
    /// Lower end.
    pub low: f64,
    /// As likely below the edge as above it.
    pub point: f64,
    /// Upper end.
    pub high: f64,
}

impl LoadLineInterval {
    /// The smallest interval that holds both, with the point of this one.
    pub(super) fn hull(self, other: &LoadLineInterval) -> LoadLineInterval {
        LoadLineInterval {
            low: self.low.min(other.low),
            point: self.point,
            high: self.high.max(other.high),
        }
    }
}

/// The belief about the response at one multiple.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadLineCurvePoint {
    /// The multiple.
    pub multiple: f64,
    /// Lower end of the margin's band.
    pub low: f64,
    /// Margin of the limit that binds; positive where it holds.
    pub margin: f64,
    /// Upper end of the band.
    pub high: f64,
    /// Probability that the multiple is carried.
    pub carried: f64,
}

/// The line of one system.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadLineResult {
    /// The edge of what is carried for as long as was asked for. An end that `reach` does not vouch for is
    /// the end of the multiples that were allowed.
    pub sustained: LoadLineInterval,
    /// Which of its ends are figures.
    pub reach: LoadLineReach,
    /// The trial at the lowest load, where there was one.
    pub idle: Option<LoadLineIdle>,
    /// The edge of what is carried for a while, where that is clearly more.
    pub burst: Option<LoadLineInterval>,
    /// Why the search ended; none while it goes on.
    pub stop: Option<LoadLineStop>,
    /// The limit that is broken first.
    pub binding: Option<String>,
    /// Trials, those that did not count included.
    pub trials: usize,
    /// Time of all trials.
    pub seconds: f64,
    /// The steadiness of the longest stay.
    pub steadiness: Option<LoadLineSteadiness>,
    /// The response around the edge.
    pub curve: Vec<LoadLineCurvePoint>,
}
