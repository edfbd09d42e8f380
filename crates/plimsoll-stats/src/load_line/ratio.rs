// SPDX-License-Identifier: Apache-2.0
//! How the line of one system compares with that of another.
//!
//! Both intervals are taken apart at their points, and the four distances added as squares (Zou and
//! Donner, 2008): the interval of the ratio needs no shape of either, and is no wider than it must be. The
//! verdict is that of all comparisons: equivalent before different, else inconclusive.

use plimsoll_core::comparison::{ComparisonVerdict, RatioEstimate, VerdictPolicy};
use spec_math::cephes64::ndtri;

use super::outcome::{LoadLineInterval, LoadLineReach, LoadLineResult};

/// The line of a system ÷ that of the base.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadLineRatio {
    /// The ratio and its interval at the policy's confidence; both searches must use the same confidence.
    pub ratio: RatioEstimate,
    /// The verdict.
    pub verdict: ComparisonVerdict,
}

impl LoadLineRatio {
    /// `None` where one of them has no edge between multiples that were tried.
    pub fn of(
        base: &LoadLineResult,
        other: &LoadLineResult,
        policy: &VerdictPolicy,
    ) -> Option<LoadLineRatio> {
        let has_edge = |result: &LoadLineResult| result.reach == LoadLineReach::Between;
        if !has_edge(base) || !has_edge(other) {
            return None;
        }
        let logs = LogRatio::of(&base.sustained, &other.sustained);
        let (low, high) = (logs.middle - logs.below, logs.middle + logs.above);
        Some(LoadLineRatio {
            ratio: RatioEstimate::of_logs(logs.middle, low, high),
            verdict: logs.verdict(policy),
        })
    }
}

#[derive(Debug, Clone, Copy)]
struct LogRatio {
    middle: f64,
    below: f64,
    above: f64,
}

impl LogRatio {
    fn of(base: &LoadLineInterval, other: &LoadLineInterval) -> LogRatio {
        let below = |of: &LoadLineInterval| (of.point / of.low).ln();
        let above = |of: &LoadLineInterval| (of.high / of.point).ln();
        LogRatio {
            middle: (other.point / base.point).ln(),
            below: below(other).hypot(above(base)),
            above: above(other).hypot(below(base)),
        }
    }

    fn verdict(&self, policy: &VerdictPolicy) -> ComparisonVerdict {
        let margin = policy.margin.max(0.0).ln_1p();
        // Two one-sided tests need the interval of 1 - 2α, which is narrower by this factor.
        let error = 1.0 - policy.confidence.clamp(0.5, 0.9999);
        let narrower = ndtri(error) / ndtri(error / 2.0);
        let (low, high) = (self.middle - self.below, self.middle + self.above);
        let inner_low = self.middle - narrower * self.below;
        let inner_high = self.middle + narrower * self.above;
        if inner_low >= -margin && inner_high <= margin {
            ComparisonVerdict::Equivalent
        } else if low > 0.0 || high < 0.0 {
            ComparisonVerdict::Different
        } else {
            ComparisonVerdict::Inconclusive
        }
    }
}
