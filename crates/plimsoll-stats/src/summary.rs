// SPDX-License-Identifier: Apache-2.0
//! A few values over blocks in a few numbers, so that no value is ever shown bare.
//!
//! Invariant: no field is NaN; what cannot be computed is absent.

/// Values over blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SummaryStats {
    /// How many values.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Sample standard deviation ÷ mean; absent below two values or at a mean of 0.
    pub variation: Option<f64>,
}

impl SummaryStats {
    /// Summarises the finite values; `None` when there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<SummaryStats> {
        let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        if values.is_empty() {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let variation = (values.len() > 1 && mean.abs() > 0.0)
            .then(|| (squares / (n - 1.0)).sqrt() / mean.abs());
        Some(SummaryStats {
            count: values.len(),
            mean,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            variation,
        })
    }
}

/// Geometric mean of the positive finite values; 0 when there are none.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = values
        .into_iter()
        .filter(|v| is_usable(*v))
        .map(f64::ln)
        .collect();
    if logs.is_empty() {
        0.0
    } else {
        (logs.iter().sum::<f64>() / logs.len() as f64).exp()
    }
}

/// Whether a value has a logarithm.
pub fn is_usable(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_hold_no_nan() {
        assert_eq!(SummaryStats::of([f64::NAN]), None);
        let one = SummaryStats::of([3.0]).unwrap();
        assert_eq!((one.count, one.variation), (1, None));
        let zeros = SummaryStats::of([0.0, 0.0]).unwrap();
        assert_eq!(zeros.variation, None);
        let two = SummaryStats::of([1.0, 3.0]).unwrap();
        assert!((two.variation.unwrap() - 0.5f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn geometric_means_ignore_what_has_no_logarithm() {
        assert!((geometric_mean([1.0, 100.0, 0.0, f64::NAN]) - 10.0).abs() < 1e-9);
        assert!(geometric_mean([-1.0]).abs() < f64::EPSILON);
    }
}
