// SPDX-License-Identifier: Apache-2.0
//! Limits, what a trial tells of them, and the margin that is left.
//!
//! A margin is 0 at the limit, positive while it holds, and measured in units that make the response
//! nearly straight near the edge: for a share of operations the difference of probits (of lognormal
//! response times that is ln(limit ÷ quantile) ÷ σ), for a mean twice the logarithm of the ratio.

use plimsoll_core::load_line::{LoadLineBatch, LoadLineQuantity, LoadLineSlo};
use statrs::function::erf::erfc_inv;

use crate::summary::SummaryStats;

/// Beyond this a margin says no more than its sign: far from the edge nothing is straight.
pub(super) const MARGIN_MAX: f64 = 2.5;

/// Pieces of a trial whose scatter gives the standard error: longer than most noise remembers.
const PIECES: usize = 10;

/// With fewer operations that may exceed a limit their number says little but yes or no.
const COUNT_MIN: f64 = 5.0;

/// The margin of a limit that only holds or does not.
const YES_OR_NO: f64 = 1.0;

/// A limit that a load must keep to be carried.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadLineLimit {
    /// As results name it, such as `read p99 < 20 ms`.
    pub name: String,
    /// What is limited.
    pub measure: LoadLineMeasure,
}

/// What a limit is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadLineMeasure {
    /// At most this share of operations may be beyond a limit of their own: 0.01 of p99 < 20 ms, and
    /// 0 of failed operations where none may fail.
    Share(f64),
    /// The mean of a value over operations may be at most this.
    Mean(f64),
}

/// How far a limit was from being broken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadLineMargin {
    /// Positive when the limit held.
    pub value: f64,
    /// Standard error by batch means, which holds the autocorrelation within a trial but not what
    /// differs between trials.
    pub error: f64,
}

impl From<&LoadLineSlo> for LoadLineLimit {
    fn from(slo: &LoadLineSlo) -> LoadLineLimit {
        LoadLineLimit {
            name: slo.to_string(),
            measure: match slo.quantity {
                LoadLineQuantity::Quantile(q) => LoadLineMeasure::Share(1.0 - q),
                LoadLineQuantity::Mean => LoadLineMeasure::Mean(slo.at_most),
                LoadLineQuantity::Errors => LoadLineMeasure::Share(slo.at_most),
            },
        }
    }
}

impl LoadLineLimit {
    /// The margin of all operations of these batches together.
    #[must_use]
    pub fn margin(&self, batches: &[LoadLineBatch]) -> LoadLineMargin {
        let value = self.pooled(batches);
        let pieces = batches.chunks(batches.len().div_ceil(PIECES).max(1));
        let values: Vec<f64> = pieces.map(|piece| self.pooled(piece)).collect();
        LoadLineMargin {
            value,
            error: standard_error(&values),
        }
    }

    fn pooled(&self, batches: &[LoadLineBatch]) -> f64 {
        let operations: f64 = batches.iter().map(|batch| batch.operations).sum();
        let amount: f64 = batches.iter().map(|batch| batch.amount).sum();
        let margin = match self.measure {
            LoadLineMeasure::Share(allowed) => share_margin(amount, operations, allowed),
            LoadLineMeasure::Mean(_) if operations <= 0.0 => 0.0,
            LoadLineMeasure::Mean(most) => 2.0 * (most * operations / amount).ln(),
        };
        margin.clamp(-MARGIN_MAX, MARGIN_MAX)
    }

    /// Operations that a trial must have to tell more than yes or no.
    pub(super) fn operations_needed(&self) -> f64 {
        match self.measure {
            LoadLineMeasure::Share(allowed) if allowed > 0.0 => COUNT_MIN / allowed,
            LoadLineMeasure::Share(_) | LoadLineMeasure::Mean(_) => 0.0,
        }
    }
}

/// Half an operation is added so that none beyond the limit has a probit, and so many others that the
/// sign is always that of the plain comparison.
fn share_margin(beyond: f64, operations: f64, allowed: f64) -> f64 {
    if allowed * operations < COUNT_MIN {
        let holds = beyond <= allowed * operations;
        return if holds { YES_OR_NO } else { -YES_OR_NO };
    }
    let share = (beyond + 0.5) / (operations + 0.5 / allowed);
    probit(allowed.min(0.999)) - probit(share.clamp(1e-9, 1.0 - 1e-9))
}

fn standard_error(values: &[f64]) -> f64 {
    let Some(summary) = SummaryStats::of(values.iter().copied()) else {
        return 0.0;
    };
    let n = values.len() as f64;
    let squares: f64 = values.iter().map(|v| (v - summary.mean).powi(2)).sum();
    (squares / (n - 1.0).max(1.0) / n).sqrt()
}

fn probit(share: f64) -> f64 {
    -std::f64::consts::SQRT_2 * erfc_inv(2.0 * share)
}
