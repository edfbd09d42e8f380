// SPDX-License-Identifier: Apache-2.0
//! What a search found.

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

/// What is believed of the response at one multiple.
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
    /// The edge of what is carried for as long as was asked for.
    pub sustained: LoadLineInterval,
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
    /// What the longest stay showed of the steady state.
    pub steadiness: Option<LoadLineSteadiness>,
    /// The response around the edge.
    pub curve: Vec<LoadLineCurvePoint>,
}
