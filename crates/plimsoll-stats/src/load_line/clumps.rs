// SPDX-License-Identifier: Apache-2.0
//! How large the clumps are in which operations come that are beyond a limit.
//!
//! A queue that is long makes many of them late, one after the other: a count of 15 may be one event. So
//! the count of a trial scatters more than that of independent operations would, by a factor that is about
//! the size of a clump. One trial has too few of them to tell; all trials of a search together have enough.

use plimsoll_core::load_line::LoadLineBatch;

use super::limit::pieces;

/// The belief before any trial: clumps of this size, with the weight of this many operations seen.
const SIZE: f64 = 3.0;
const WEIGHT: f64 = 10.0;

/// Trials that saw more than this many times the allowed share show the overload and not the limit.
const BEYOND_MAX: f64 = 6.0;

/// The clumps that all trials of a search show of one limit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClumpTally {
    /// Squares of how far pieces are from the mean of their trial.
    squares: f64,
    /// Their expectation without clumps.
    independent: f64,
}

impl ClumpTally {
    pub(super) fn add(&mut self, batches: &[LoadLineBatch], allowed: f64) {
        let all = LoadLineBatch::sum(batches);
        let share = all.amount / all.operations.max(1.0);
        let n = pieces(batches).count() as f64;
        if n < 2.0 || share > BEYOND_MAX * allowed {
            return;
        }
        for piece in pieces(batches) {
            let piece = LoadLineBatch::sum(piece);
            self.squares += (piece.amount - share * piece.operations).powi(2);
        }
        self.independent += all.amount * (1.0 - share) * (n - 1.0) / n;
    }

    /// The mean size, weighted by how many operations a clump has.
    pub(super) fn size(&self) -> f64 {
        let squares = self.squares + SIZE * WEIGHT;
        (squares / (self.independent + WEIGHT)).max(1.0)
    }
}
