// SPDX-License-Identifier: Apache-2.0
//! Where a level changed: the likelihood of every place, of points that are clipped so that a single one
//! does not choose it.

use std::ops::Range;

use super::SIDE_MIN;
use crate::events::median;

/// Points are clipped at this number of deviations from their level.
const CLIP: f64 = 2.5;
/// From the median absolute deviation to the standard deviation of a normal law.
const MAD_TO_SD: f64 = 1.4826;

/// The likeliest first point of the new level; `known` where nothing can be said.
pub(super) fn likeliest(values: &[f64], known: usize) -> usize {
    let logs = log_likelihoods(values, known);
    let best = logs.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(known, |(split, _)| *split)
}

/// The first and the last of the likeliest places that together have this probability.
pub(super) fn interval(values: &[f64], known: usize, confidence: f64) -> Range<usize> {
    let mut logs = log_likelihoods(values, known);
    logs.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some((_, top)) = logs.first().copied() else {
        return known..known;
    };
    let all: f64 = logs.iter().map(|(_, log)| (log - top).exp()).sum();
    let (mut places, mut covered) = (known..known, 0.0);
    for (split, log) in logs {
        if covered >= confidence * all {
            break;
        }
        covered += (log - top).exp();
        places = places.start.min(split)..places.end.max(split);
    }
    places
}

/// The log likelihood of every split, with the two levels that belong to it.
fn log_likelihoods(values: &[f64], known: usize) -> Vec<(usize, f64)> {
    let n = values.len();
    let Some(levels) =
        median(values[..known].iter().copied()).zip(median(values[known..].iter().copied()))
    else {
        return Vec::new();
    };
    let level = |at: usize| if at < known { levels.0 } else { levels.1 };
    let far = values
        .iter()
        .enumerate()
        .map(|(at, value)| (value - level(at)).abs());
    let mut deviation = MAD_TO_SD * median(far).unwrap_or(0.0);
    let (low, high) = (levels.0.min(levels.1), levels.0.max(levels.1));
    if deviation <= 0.0 {
        // Figures without noise: any place but the true one is out of the question.
        deviation = (high - low) / 100.0;
    }
    if deviation <= 0.0 {
        return Vec::new();
    }
    let room = CLIP * deviation;
    let clipped: Vec<f64> = (values.iter())
        .map(|value| value.clamp(low - room, high + room))
        .collect();
    let side = |part: &[f64]| {
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        part.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let least = SIDE_MIN / 2;
    let log = |split: usize| {
        let squares = side(&clipped[..split]) + side(&clipped[split..]);
        (split, -squares / (2.0 * deviation * deviation))
    };
    (least..=n.saturating_sub(least)).map(log).collect()
}
