// SPDX-License-Identifier: Apache-2.0
//! Whether a series repeats, and after how many steps.
//!
//! The autocorrelation says *that* a series repeats, but only at whole steps: a period of 4.4
//! steps peaks highest at 9 or 22. Every peak and its divisors are therefore tried as periods of
//! any length, by folding the series at them: the one that explains most for the number of means
//! it takes is the period.

use plimsoll_core::num::{floor_u64, ratio, round_u64, to_usize};

use crate::binned::{autocorrelation, mean};

/// Most lags searched: a day of minutes in a recording of three.
const LAGS_MAX: usize = 2_000;
/// Most products the search may form, so that it stays below a second on years of intervals; its
/// longest lag shrinks instead.
const PRODUCTS_MAX: usize = 200_000_000;
/// Peaks of the autocorrelation that are looked at more closely, the highest first.
const PEAKS_MAX: usize = 12;
/// A peak may be that of several periods, at most of this number.
const DIVISORS_MAX: usize = 6;
/// Multiples of the period peak nearly as high as the period itself: at least this much of it.
const PEAK_SHARE_MIN: f64 = 0.8;
/// How many bands of white noise a peak must stand above its valleys where folding shows nothing.
/// The whole range of noise over a hundred lags is about two and a half.
const DEEP_BANDS: f64 = 3.5;
/// Shortest period in steps: below, bursts and quiet are in the same interval.
const STEPS_MIN: f64 = 3.0;
/// Places tried around each candidate.
const TRIES: usize = 64;

/// A period explains at least this share of what the best one does. Half of a period explains
/// half, a multiple as much or, where a period is no whole number of steps, somewhat more.
const TOLD_SHARE_MIN: f64 = 0.6;

/// A peak of the autocorrelation.
struct Peak {
    lag: usize,
    height: f64,
    /// Whether it stands high above the valleys on both of its sides.
    is_deep: bool,
}

/// The period in steps. Where bursts come back after about the same time but keep no rhythm (each
/// counted from the end of the one before, say), folding shows nothing, and the shortest of the
/// highest peaks stands.
pub(crate) fn period(rates: &[f64]) -> Option<f64> {
    let series: Vec<f64> = rates.iter().map(|rate| rate.ln_1p()).collect();
    let peaks = peaks(rates);
    let mut candidates: Vec<(f64, f64)> = Vec::new();
    for peak in &peaks {
        for divisor in 1..=DIVISORS_MAX {
            candidates.extend(near(&series, peak.lag as f64, divisor as f64));
        }
    }
    let most = candidates.iter().map(|c| c.0).fold(0.0, f64::max);
    let good = candidates
        .into_iter()
        .filter(|c| c.0 >= TOLD_SHARE_MIN * most);
    let beat = good.map(|c| c.1).min_by(f64::total_cmp);
    let deep = || peaks.iter().filter(|peak| peak.is_deep);
    let highest = deep().next().map_or(0.0, |peak| peak.height);
    let high = deep().filter(|peak| peak.height >= PEAK_SHARE_MIN * highest);
    beat.or_else(|| high.map(|peak| peak.lag as f64).min_by(f64::total_cmp))
}

/// The best period near a part of a peak, after what it explains.
fn near(series: &[f64], peak: f64, divisor: f64) -> Option<(f64, f64)> {
    let place = |i: usize| (peak - 0.75 + 1.5 * i as f64 / TRIES as f64) / divisor;
    (0..=TRIES)
        .map(place)
        .filter(|steps| *steps >= STEPS_MIN)
        .filter_map(|steps| Some((told(series, steps)?, steps)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Lags at which the autocorrelation stands out of twice the band of white noise, rises from a
/// valley deeper than the band, and comes back at the double lag; the highest
/// first.
fn peaks(rates: &[f64]) -> Vec<Peak> {
    let n = rates.len();
    let lags = (n / 3).min(LAGS_MAX).min(PRODUCTS_MAX / n.max(1));
    let centred: Vec<f64> = {
        let mean = mean(rates);
        rates.iter().map(|r| r - mean).collect()
    };
    let acf: Vec<f64> = (0..=lags).map(|k| autocorrelation(&centred, k)).collect();
    let band = 1.96 / (n as f64).sqrt();
    let is_peak = |k: usize| k >= 1 && k < lags && acf[k] > acf[k - 1] && acf[k] >= acf[k + 1];
    let repeats = |k: usize| (2 * k - 1..=2 * k + 1).any(|k| is_peak(k) && acf[k] > band);
    let mut peaks = Vec::new();
    let mut valley = 1.0f64;
    for (k, value) in acf.iter().enumerate().take(lags / 2).skip(1) {
        valley = valley.min(*value);
        if is_peak(k) && *value > 2.0 * band && value - valley > band && repeats(k) {
            let least = |lags: &[f64]| lags.iter().copied().fold(*value, f64::min);
            let valley = least(&acf[k / 2..k]).max(least(&acf[k..=(3 * k / 2).min(lags)]));
            peaks.push(Peak {
                lag: k,
                height: *value,
                is_deep: *value - valley > DEEP_BANDS * band,
            });
        }
    }
    peaks.sort_by(|a, b| b.height.total_cmp(&a.height));
    peaks.truncate(PEAKS_MAX);
    peaks
}

/// The share of the variance that one mean per step of a period explains; `None` when that number of
/// means explains as much by chance.
pub(crate) fn told(series: &[f64], steps: f64) -> Option<f64> {
    let n = series.len() as f64;
    let bins = to_usize(round_u64(steps)).max(2);
    let mut sums = vec![(0.0, 0.0); bins];
    let all = mean(series);
    let mut squares = 0.0;
    for (i, value) in series.iter().enumerate() {
        let turns = (i as f64 + 0.5) / steps;
        let bin = to_usize(floor_u64((turns - turns.floor()) * bins as f64)).min(bins - 1);
        sums[bin].0 += value - all;
        sums[bin].1 += 1.0;
        squares += (value - all) * (value - all);
    }
    let explained: f64 = sums.iter().map(|s| ratio(s.0 * s.0, s.1)).sum();
    let share = ratio(explained, squares);
    let gain = -n * (1.0 - share).max(f64::MIN_POSITIVE).ln();
    (gain > (bins - 1) as f64 * n.ln()).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    #[test]
    fn a_period_between_whole_steps_is_found_not_its_multiples() {
        let mut rng = Rng::new(Seed(11));
        for steps in [3.4, 4.39, 5.0, 6.67, 20.0, 31.3] {
            let rates: Vec<f64> = (0..400)
                .map(|i| {
                    let turns = f64::from(i) / steps;
                    let is_burst = turns - turns.floor() < 0.2;
                    if is_burst {
                        300.0
                    } else {
                        20.0 + 5.0 * rng.normal()
                    }
                })
                .collect();
            let found = period(&rates).unwrap();
            assert!((found - steps).abs() < 0.1, "{steps}: {found}");
        }
        let noise: Vec<f64> = (0..400).map(|_| 20.0 + 5.0 * rng.normal()).collect();
        assert_eq!(period(&noise), None);
    }
}
