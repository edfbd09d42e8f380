// SPDX-License-Identifier: Apache-2.0
//! How large a change is: the middle of all differences between both levels (Hodges and Lehmann).

use plimsoll_core::comparison::RatioEstimate;
use plimsoll_core::num::{floor_u64, to_usize};
use spec_math::cephes64::ndtri;

use super::LevelSides;
use super::{scores, serial};
use crate::events::median;

/// Level after − level before.
pub(super) fn shift(before: &[f64], after: &[f64]) -> f64 {
    median(differences(before, after)).unwrap_or(0.0)
}

fn differences<'a>(before: &'a [f64], after: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    after
        .iter()
        .flat_map(move |after| before.iter().map(move |before| after - before))
}

/// Level after ÷ level before, with its interval: the differences that the rank test does not reject, and
/// no narrower than the errors of the points themselves allow.
pub(super) fn estimate(
    values: &[f64],
    errors: &[f64],
    sides: &LevelSides,
    confidence: f64,
) -> RatioEstimate {
    let (before, after) = (&values[sides.before.clone()], &values[sides.after.clone()]);
    let mut all: Vec<f64> = differences(before, after).collect();
    all.sort_by(f64::total_cmp);
    let middle = median(all.iter().copied()).unwrap_or(0.0);
    let (n, m) = (before.len() as f64, after.len() as f64);
    let z = ndtri(0.5 + confidence / 2.0);
    let joined: Vec<f64> = before.iter().chain(after).copied().collect();
    let dependence = serial::dependence(&scores::clipped(&joined), before.len());
    let side = |n: usize| serial::variance_factor(dependence, n) / n as f64;
    let factor = (side(before.len()) + side(after.len())) / (1.0 / n + 1.0 / m);
    let far = z * (factor * n * m * (n + m + 1.0) / 12.0).sqrt();
    let outside = to_usize(floor_u64((n * m / 2.0 - far - 0.5).max(0.0)));
    let (mut low, mut high) = (middle, middle);
    if let (Some(least), Some(most)) = (all.get(outside), all.iter().rev().nth(outside)) {
        (low, high) = (*least, *most);
    }
    let own = |range: &std::ops::Range<usize>| {
        let squares: f64 = errors[range.clone()]
            .iter()
            .map(|error| error * error)
            .sum();
        squares / (range.len() as f64).powi(2)
    };
    let known = z * (own(&sides.before) + own(&sides.after)).sqrt();
    RatioEstimate::of_logs(middle, low.min(middle - known), high.max(middle + known))
}
