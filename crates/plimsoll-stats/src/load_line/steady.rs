// SPDX-License-Identifier: Apache-2.0
//! Whether a trial had reached a steady state: the proportional-window equivalence test of [`crate::steady`],
//! on the margin of a limit. A better end than beginning is no harm, so only a decline is limited.

use plimsoll_core::load_line::LoadLineBatch;

use super::limit::LoadLineLimit;
use crate::steady::{STEPS_MIN, last_quarters, quarters_factor};

/// Decline of a margin that cannot change the verdict on the multiple.
const DECLINE_MAX: f64 = 0.25;

/// Confidence that the decline is smaller.
const CONFIDENCE: f64 = 0.95;

/// The result of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadLineSteadiness {
    /// Margin of the third quarter less that of the last.
    pub decline: f64,
    /// Upper bound of the decline, with confidence.
    pub at_most: f64,
    /// Whether that is small enough: a quarter of a unit, or half of the margin that is left.
    pub is_steady: bool,
}

impl LoadLineLimit {
    /// Whether the margin still declined at the end; `None` when the trial was too short to tell.
    pub(super) fn steadiness(
        &self,
        batches: &[LoadLineBatch],
        clump: f64,
    ) -> Option<LoadLineSteadiness> {
        let n = batches.len();
        if n < STEPS_MIN {
            return None;
        }
        let [third, last] = last_quarters(n).map(|window| self.measured(&batches[window], clump));
        let decline = third.value - last.value;
        let error = third.error.hypot(last.error);
        let at_most = decline + quarters_factor(n, CONFIDENCE) * error;
        Some(LoadLineSteadiness {
            decline,
            at_most,
            is_steady: at_most <= DECLINE_MAX.max(last.value / 2.0),
        })
    }
}
