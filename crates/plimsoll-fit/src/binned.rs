// SPDX-License-Identifier: Apache-2.0
//! Statistics of binned series: distance of distributions, dispersion, autocorrelation, quantiles.
//!
//! Everything takes slices and ignores nothing: a value that is not finite is the caller's error.
//! Not here: statistics of runs and their confidence (`plimsoll-stats`).

use plimsoll_core::num::{floor_u64, ratio, to_usize};

/// Mean; 0 of nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    ratio(values.iter().sum(), values.len() as f64)
}

/// Ascending copy.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The quantile `q` (0..=1) of ascending values, interpolated; 0 of nothing.
pub(crate) fn quantile(ascending: &[f64], q: f64) -> f64 {
    let Some(last) = ascending.len().checked_sub(1) else {
        return 0.0;
    };
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = to_usize(floor_u64(place)).min(last);
    let above = (below + 1).min(last);
    ascending[below] + (ascending[above] - ascending[below]) * (place - below as f64)
}

/// Kolmogorov–Smirnov distance of two samples: the largest gap between their distribution
/// functions, 0..=1. 1 when one is empty.
pub(crate) fn ks_distance(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let (a, b) = (sorted(a), sorted(b));
    let (mut i, mut j, mut worst) = (0, 0, 0.0f64);
    while i < a.len() && j < b.len() {
        let at = a[i].min(b[j]);
        i += a[i..].partition_point(|v| *v <= at);
        j += b[j..].partition_point(|v| *v <= at);
        let gap = i as f64 / a.len() as f64 - j as f64 / b.len() as f64;
        worst = worst.max(gap.abs());
    }
    worst
}

/// Index of dispersion of counts: variance over mean of the sums of `group` neighbours. 1 for a
/// Poisson process, 0 for a constant rate. `None` with fewer than two groups or nothing counted.
pub(crate) fn idc(counts: &[f64], group: usize) -> Option<f64> {
    let sums: Vec<f64> = counts
        .chunks_exact(group.max(1))
        .map(|g| g.iter().sum())
        .collect();
    let mean = mean(&sums);
    if sums.len() < 2 || mean <= 0.0 {
        return None;
    }
    let squares: f64 = sums.iter().map(|s| (s - mean).powi(2)).sum();
    Some(squares / sums.len() as f64 / mean)
}

/// Autocorrelation at a lag, -1..=1; 0 for a constant series or a lag beyond it.
pub(crate) fn autocorrelation(values: &[f64], lag: usize) -> f64 {
    let mean = mean(values);
    let variance: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    // The rest of a constant is rounding, which correlates with itself at random.
    if variance <= 1e-20 * mean * mean * values.len() as f64 {
        return 0.0;
    }
    let later = values.get(lag..).unwrap_or_default();
    let pairs = values.iter().zip(later);
    let covariance: f64 = pairs.map(|(a, b)| (a - mean) * (b - mean)).sum();
    ratio(covariance, variance)
}

/// Otsu's threshold: the cut between two values that leaves the least variance inside the two
/// classes. `None` when all values are equal.
pub(crate) fn otsu(values: &[f64]) -> Option<f64> {
    let ascending = sorted(values);
    let n = ascending.len() as f64;
    let total: f64 = ascending.iter().sum();
    let (mut below, mut best) = (0.0, (0.0, None));
    for (i, pair) in ascending.windows(2).enumerate() {
        below += pair[0];
        if pair[1] <= pair[0] {
            continue;
        }
        let count = (i + 1) as f64;
        let distance = (total - below) / (n - count) - below / count;
        let between = count * (n - count) * distance * distance;
        if between > best.0 {
            best = (between, Some(f64::midpoint(pair[0], pair[1])));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_distributions_is_the_largest_gap() {
        assert!(ks_distance(&[1.0, 2.0, 3.0], &[3.0, 1.0, 2.0]) < 1e-12);
        assert!((ks_distance(&[0.0, 0.0], &[1.0, 1.0]) - 1.0).abs() < 1e-12);
        // Ties must be stepped over together.
        assert!((ks_distance(&[0.0, 0.0, 1.0, 1.0], &[0.0, 1.0, 1.0, 1.0]) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn dispersion_is_zero_for_a_constant_and_grows_with_grouping_of_bursts() {
        assert_eq!(idc(&[5.0; 40], 4), Some(0.0));
        assert_eq!(idc(&[0.0; 40], 4), None);
        let bursts: Vec<f64> = (0..64)
            .map(|i| if i / 8 % 2 == 0 { 0.0 } else { 10.0 })
            .collect();
        let (one, four) = (idc(&bursts, 1).unwrap(), idc(&bursts, 4).unwrap());
        assert!(four > 3.5 * one, "{one} {four}");
    }

    #[test]
    fn quantiles_interpolate_and_the_threshold_lies_between_the_classes() {
        let ascending = [0.0, 10.0, 20.0];
        assert!((quantile(&ascending, 0.25) - 5.0).abs() < 1e-12);
        assert!((quantile(&ascending, 1.0) - 20.0).abs() < 1e-12);
        let cut = otsu(&[1.0, 1.1, 0.9, 5.0, 5.2]).unwrap();
        assert!((1.1..5.0).contains(&cut), "{cut}");
        assert_eq!(otsu(&[2.0, 2.0]), None);
    }

    #[test]
    fn a_series_that_repeats_is_correlated_with_itself_at_its_period() {
        let wave: Vec<f64> = (0..200).map(|i| f64::from(i % 10)).collect();
        assert!(autocorrelation(&wave, 10) > 0.9);
        assert!(autocorrelation(&wave, 5) < 0.0);
        assert!(autocorrelation(&wave, 999).abs() < 1e-12);
    }
}
