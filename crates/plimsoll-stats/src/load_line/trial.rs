// SPDX-License-Identifier: Apache-2.0
//! The question to a search, the trials that it requests, and their results.

use plimsoll_core::load_line::{LoadLineReading, LoadLineRequest};

use super::limit::LoadLineLimit;
use super::outcome::LoadLineStop;

/// The limits and settings of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadLineOptions {
    /// Smallest multiple that may be tried.
    pub smallest: f64,
    /// Largest multiple that may be tried.
    pub largest: f64,
    /// Multiples are whole numbers: clients of a closed loop.
    pub is_whole: bool,
    /// A multiple is carried when all of these hold.
    pub limits: Vec<LoadLineLimit>,
    /// Confidence of the interval.
    pub confidence: f64,
    /// Upper ÷ lower end of the interval − 1 at which the search ends.
    pub width: f64,
    /// Length of trials that only locate the edge.
    pub short_s: f64,
    /// Length of trials near the edge.
    pub trial_s: f64,
    /// How long a multiple must be held to be carried.
    pub sustained_s: f64,
    /// Most time of all trials together.
    pub budget_s: f64,
}

impl Default for LoadLineOptions {
    fn default() -> Self {
        LoadLineOptions {
            smallest: 1.0 / 16.0,
            largest: 16.0,
            is_whole: false,
            limits: Vec::new(),
            confidence: 0.95,
            width: 0.05,
            short_s: 15.0,
            trial_s: 60.0,
            sustained_s: 600.0,
            budget_s: 4.0 * 3_600.0,
        }
    }
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadLineTrial {
    /// The request.
    pub request: LoadLineRequest,
    /// By limit, in the order of the options.
    pub readings: Vec<LoadLineReading>,
    /// Share of what was due in the last half that ended in it.
    pub served: f64,
    /// Whether the backlog grew to the end.
    pub backlog_grew: bool,
    /// Whether the trial says nothing, because something held up the machine that made the load.
    pub is_void: bool,
}

/// The next step of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadLineStep {
    /// Run this trial.
    Try(LoadLineRequest),
    /// There is nothing more to do.
    Done(LoadLineStop),
}
