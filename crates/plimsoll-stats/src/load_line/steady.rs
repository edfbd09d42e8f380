// SPDX-License-Identifier: Apache-2.0
//! Whether a trial had reached a steady state: the proportional-window equivalence test.
//!
//! Of all that passed since the start the third quarter is held against the last. Windows grow with the
//! trial, so that a slow decay is not mistaken for its end, as it is by windows of a fixed length. It
//! is equivalence that must be shown: noise that hides a decay does not pass. A better end than
//! beginning is no harm, so only a decline is limited.

use plimsoll_core::load_line::LoadLineBatch;

use super::limit::LoadLineLimit;
use crate::student;

/// Batches below which nothing is called steady.
const BATCHES_MIN: usize = 12;

/// Decline of a margin that could not change what is said of the multiple.
const DECLINE_MAX: f64 = 0.25;

/// Confidence that the decline is smaller.
const CONFIDENCE: f64 = 0.95;

/// What the test found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadLineSteadiness {
    /// Margin of the third quarter less that of the last.
    pub decline: f64,
    /// What the decline is below, with confidence.
    pub at_most: f64,
    /// Whether that is small enough: a quarter of a unit, or half of the margin that is left.
    pub is_steady: bool,
}

impl LoadLineLimit {
    /// Whether the margin still declined at the end; `None` when the trial was too short to tell.
    #[must_use]
    pub fn steadiness(&self, batches: &[LoadLineBatch]) -> Option<LoadLineSteadiness> {
        let n = batches.len();
        if n < BATCHES_MIN {
            return None;
        }
        let third = self.margin(&batches[n / 2..n * 3 / 4]);
        let last = self.margin(&batches[n * 3 / 4..]);
        let decline = third.value - last.value;
        let error = third.error.hypot(last.error);
        // Each window has ten pieces at most, so nine degrees of freedom each.
        let pieces = (n / 4).min(10);
        let at_most = decline + student::quantile(CONFIDENCE, 2 * (pieces - 1)) * error;
        Some(LoadLineSteadiness {
            decline,
            at_most,
            is_steady: at_most <= DECLINE_MAX.max(last.value / 2.0),
        })
    }
}
