// SPDX-License-Identifier: Apache-2.0
//! Changes of the level of a series of ratios, found point by point.
//!
//! Every point of the past is looked at as if it were the newest: what a series says after a day is what
//! it said on that day. A change is found when some split of the last points is as unlikely by chance as
//! [`SPLIT_P_MAX`] allows. That limit is so strict that of 100 series without a change
//! at most five raise an alarm in sixty points, although each new point is another look. Values are
//! clipped, so that no point counts much more than its neighbours, however far it lies, and a change must be
//! one also without the point that speaks most for it: an outlier is none. Points that depend on their
//! predecessors count less, as far as the series itself shows it.

use std::ops::Range;

use plimsoll_core::change::{RatioChange, RatioPoint};

use crate::events::median;
use scores::SideSums;

mod place;
mod scores;
mod serial;
mod size;
#[cfg(test)]
mod tests;

/// Points that a look goes back at most.
const WINDOW: usize = 60;
/// Points of the old level, and of the new one, that a change needs at least.
const SIDE_MIN: usize = 4;
/// The largest two-sided p value of a single split, without its clearest point, that is a change. Found by
/// simulation: `docs/method/watch.md`.
const SPLIT_P_MAX: f64 = 0.001_8;
/// No smaller t has such a p value, whatever the number of points.
const T_MIN: f64 = 2.5;
/// Independent splits that all looks of sixty points amount to.
const SPLITS_OF_SIXTY: f64 = 0.05 / SPLIT_P_MAX;
/// A point whose error is more than this many times the usual one is ignored, unless it is far away.
const POOR: f64 = 4.0;
/// How many of its own errors are far away.
const FAR: f64 = 3.0;
/// Points for which the place of a change is still looked for after it was found.
const PLACE_SETTLES: usize = 16;

/// The limits of a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangeOptions {
    /// A smaller change is none, as a fraction: the A/A bound of the series' campaigns.
    pub least_effect: f64,
    /// Confidence of the intervals of place and size.
    pub confidence: f64,
}

impl Default for ChangeOptions {
    fn default() -> Self {
        ChangeOptions {
            least_effect: 0.0,
            confidence: 0.95,
        }
    }
}

/// The changes of a series whose points are in the order of time, the oldest first. Points without a
/// finite value, or with far larger errors than those before them, are passed over; indices are of
/// `points`.
pub fn change_points(points: &[RatioPoint], options: &ChangeOptions) -> Vec<RatioChange> {
    let kept = usable(points);
    let values: Vec<f64> = kept.iter().map(|at| points[*at].log_ratio).collect();
    let errors: Vec<f64> = kept
        .iter()
        .map(|at| points[*at].error.unwrap_or(0.0))
        .collect();
    let found = watch(&values, options.least_effect.max(0.0).ln_1p());
    let mut changes = Vec::new();
    for (number, one) in found.iter().enumerate() {
        let before = number.checked_sub(1).map_or(0, |last| found[last].first);
        let end = found
            .get(number + 1)
            .map_or(values.len(), |next| next.first);
        let sides = LevelSides {
            before: before..one.first,
            after: one.first..end,
        };
        let whole = &values[before..end];
        let places = place::interval(whole, one.first - before, options.confidence);
        changes.push(RatioChange {
            first: kept[one.first],
            earliest: kept[before + places.start],
            latest: kept[before + places.end],
            found: kept[one.found],
            size: size::estimate(&values, &errors, &sides, options.confidence),
            p_value: (SPLITS_OF_SIXTY * one.p_value).min(1.0),
        });
    }
    changes
}

/// Points before a change and after it.
struct LevelSides {
    before: Range<usize>,
    after: Range<usize>,
}

/// A change, as indices of the points that are used.
struct FoundChange {
    first: usize,
    found: usize,
    p_value: f64,
}

/// Points that say something, each by what was known when it came.
fn usable(points: &[RatioPoint]) -> Vec<usize> {
    let mut errors: Vec<f64> = Vec::new();
    let mut kept: Vec<usize> = Vec::new();
    for (at, point) in points.iter().enumerate() {
        let error = point.error.filter(|error| error.is_finite());
        let usual = median(errors.iter().copied()).filter(|_| errors.len() >= SIDE_MIN);
        let is_poor = match (error, usual) {
            (Some(error), Some(usual)) => {
                usual > 0.0 && error > POOR * usual && !is_far(point, error, points, &kept)
            }
            _ => point.error.is_some() && error.is_none(),
        };
        errors.extend(error);
        if point.log_ratio.is_finite() && !is_poor {
            kept.push(at);
        }
    }
    kept
}

/// Whether a point is more than [`FAR`] of its errors away from the latest ones. Such a point counts despite
/// its large error: a system that becomes slower often also becomes noisier.
fn is_far(point: &RatioPoint, error: f64, points: &[RatioPoint], kept: &[usize]) -> bool {
    let latest = &kept[kept.len().saturating_sub(WINDOW)..];
    let level = median(latest.iter().map(|at| points[*at].log_ratio));
    level.is_some_and(|level| (point.log_ratio - level).abs() > FAR * error)
}

/// Looks after every point. `least` is the smallest change, as a logarithm.
fn watch(values: &[f64], least: f64) -> Vec<FoundChange> {
    let mut found: Vec<FoundChange> = Vec::new();
    // Where the level before the last change began.
    let mut older = 0;
    for end in 1..=values.len() {
        if let Some(last) = found.last_mut()
            && end <= last.found + PLACE_SETTLES
        {
            let place = older + place::likeliest(&values[older..end], last.first - older);
            last.first = place.min(last.found);
        }
        let start = found.last().map_or(0, |change| change.first);
        let start = start.max(end.saturating_sub(WINDOW));
        if let Some((split, p_value)) = clearest_split(&values[start..end], least) {
            older = start;
            let place = start + place::likeliest(&values[start..end], split);
            found.push(FoundChange {
                first: place.min(end - 1),
                found: end - 1,
                p_value,
            });
        }
    }
    found
}

/// The split of a segment that is the least likely by chance, if it is a change.
fn clearest_split(values: &[f64], least: f64) -> Option<(usize, f64)> {
    let n = values.len();
    if n < 2 * SIDE_MIN {
        return None;
    }
    let scores = scores::clipped(values);
    let mut before = SideSums::of(&scores[..SIDE_MIN - 1]);
    let mut after = SideSums::of(&scores[SIDE_MIN - 1..]);
    let mut best: Option<(usize, f64)> = None;
    for split in SIDE_MIN..=n - SIDE_MIN {
        before.add(scores[split - 1]);
        after.remove(scores[split - 1]);
        if scores::t_value(&before, &after).abs() < T_MIN {
            continue;
        }
        let t = scores::t_without_one(&scores, split);
        let p_value = scores::p_value(t, split, n - split);
        if p_value > SPLIT_P_MAX {
            continue;
        }
        let p_value = serial::deflated(p_value, &scores, split);
        // Of a few points dependence cannot be told from chance: it makes a step less sure, and must not
        // count against it twice, for their number already limits what they can show.
        let p_value = p_value.max(scores::p_value_min(split, n - split));
        let is_change = p_value <= SPLIT_P_MAX
            && best.is_none_or(|(_, least_p)| p_value < least_p)
            && size::shift(&values[..split], &values[split..]).abs() >= least;
        if is_change {
            best = Some((split, p_value));
        }
    }
    best
}
