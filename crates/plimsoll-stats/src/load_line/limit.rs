// SPDX-License-Identifier: Apache-2.0
//! Limits, what a trial tells of them, and the margin that is left.
//!
//! A margin is 0 at the limit, positive while it holds, and measured in units that make the response
//! nearly straight near the edge: for a share of operations the difference of probits (of lognormal
//! response times that is ln(limit ÷ quantile) ÷ σ), for a mean twice the logarithm of the ratio.

use plimsoll_core::load_line::{LoadLineBatch, LoadLineQuantity, LoadLineSlo};
use spec_math::cephes64::ndtri;

use crate::summary::SummaryStats;

/// Beyond this a margin says no more than its sign: far from the edge nothing is straight.
pub(super) const MARGIN_MAX: f64 = 2.5;

/// Pieces of a trial whose scatter gives the standard error: longer than most noise remembers.
pub(super) const PIECES: usize = 10;

/// With this number of clumps of operations beyond a limit, its margin scatters evenly around the truth. With
/// fewer, a trial sees none as often as many, and most trials look better than they should.
const CLUMPS_MIN: f64 = 5.0;

/// Where this number of operations may be beyond a limit, at least one is, in 19 of 20 trials. With fewer, a
/// trial that sees none says nothing.
const SEEN_MIN: f64 = 3.0;

/// The margin of a limit that only holds or does not.
const YES_OR_NO: f64 = 1.0;

/// A limit that a load must keep to be carried.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadLineLimit {
    /// As results name it, such as `read p99 < 20 ms`.
    pub name: String,
    /// The figure that is limited.
    pub measure: LoadLineMeasure,
}

/// The figure that a limit is about.
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
pub(super) struct LoadLineMargin {
    /// Positive when the limit held.
    pub(super) value: f64,
    /// Standard error within the trial: of a count of clumps, of a mean by batch means. What differs
    /// between trials is not in it.
    pub(super) error: f64,
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
    /// The margin of all operations of these batches together, where those beyond the limit come in clumps
    /// of this size.
    pub(super) fn measured(&self, batches: &[LoadLineBatch], clump: f64) -> LoadLineMargin {
        let value = self.margin(batches);
        let error = match self.measure {
            LoadLineMeasure::Share(_) => self.share_error(&LoadLineBatch::sum(batches), clump),
            LoadLineMeasure::Mean(_) => {
                let values: Vec<f64> = pieces(batches).map(|piece| self.margin(piece)).collect();
                standard_error(&values)
            }
        };
        LoadLineMargin { value, error }
    }

    /// The error of a share, by all operations that tell it: of a count of clumps, carried over to the
    /// probit. Of less than is allowed it is the error of what is allowed: few or none were luck as often
    /// as not.
    pub(super) fn share_error(&self, all: &LoadLineBatch, clump: f64) -> f64 {
        let allowed = self.allowed_share();
        if allowed <= 0.0 {
            return 0.0;
        }
        let operations = all.operations.max(1.0);
        let at = |share: f64| {
            let share = share.clamp(1e-9, 0.5);
            (clump * share * (1.0 - share) / operations).sqrt() / density(probit(share))
        };
        at(allowed).max(at((all.amount / operations).max(allowed)))
    }

    /// How far the limit was from being broken, by all operations of these batches together: positive when
    /// it held.
    pub fn margin(&self, batches: &[LoadLineBatch]) -> f64 {
        let LoadLineBatch { operations, amount } = LoadLineBatch::sum(batches);
        let margin = match self.measure {
            LoadLineMeasure::Share(allowed) => share_margin(amount, operations, allowed),
            LoadLineMeasure::Mean(_) if operations <= 0.0 => 0.0,
            LoadLineMeasure::Mean(most) => 2.0 * (most * operations / amount).ln(),
        };
        margin.clamp(-MARGIN_MAX, MARGIN_MAX)
    }

    /// Operations that a trial must have for its margin to be worth its time, where they come in clumps of
    /// this size.
    pub(super) fn operations_needed(&self, clump: f64) -> f64 {
        CLUMPS_MIN * clump * self.operations_for_each()
    }

    /// Operations that a stay must have to tell anything of this limit.
    pub(super) fn operations_least(&self) -> f64 {
        SEEN_MIN * self.operations_for_each()
    }

    /// The share of operations that may be beyond the limit; of a mean none is.
    pub(super) fn allowed_share(&self) -> f64 {
        match self.measure {
            LoadLineMeasure::Share(allowed) => allowed,
            LoadLineMeasure::Mean(_) => 0.0,
        }
    }

    /// Operations of which one may be beyond the limit.
    fn operations_for_each(&self) -> f64 {
        match self.measure {
            LoadLineMeasure::Share(allowed) if allowed > 0.0 => 1.0 / allowed,
            LoadLineMeasure::Share(_) | LoadLineMeasure::Mean(_) => 0.0,
        }
    }
}

/// The pieces of a trial.
pub(super) fn pieces(batches: &[LoadLineBatch]) -> impl Iterator<Item = &[LoadLineBatch]> {
    batches.chunks(batches.len().div_ceil(PIECES).max(1))
}

/// Adds half an operation beyond the limit, so that the probit is finite where none is beyond it, and to all
/// operations the number with which the sign is always that of the plain comparison.
fn share_margin(beyond: f64, operations: f64, allowed: f64) -> f64 {
    if allowed <= 0.0 {
        return if beyond > 0.0 { -YES_OR_NO } else { YES_OR_NO };
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
    ndtri(share)
}

/// Of the standard normal distribution.
fn density(at: f64) -> f64 {
    (-0.5 * at * at).exp() / (2.0 * std::f64::consts::PI).sqrt()
}
