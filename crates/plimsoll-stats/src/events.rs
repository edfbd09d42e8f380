// SPDX-License-Identifier: Apache-2.0
//! The conclusion from a number of like events on those that were not tried.
//!
//! The unit is the event (a fault), not the operation: the writes of one event share its fate.

/// With this confidence, the probability of an outcome per event is at most this when none of `count`
/// events had it: 1 − (1 − confidence)^(1/count), the exact one-sided binomial bound of Clopper and
/// Pearson for no successes. 1 when there were no events.
pub fn bound_of_none(count: usize, confidence: f64) -> f64 {
    1.0 - covered_by_longest(count, confidence)
}

/// With this confidence, the longest of `count` values is above this quantile of all values:
/// (1 − confidence)^(1/count), by the law of order statistics. 0 when there were none.
pub fn covered_by_longest(count: usize, confidence: f64) -> f64 {
    if count == 0 {
        return 0.0;
    }
    (1.0 - confidence).powf(1.0 / count as f64)
}

/// The median distance of normal values from their middle times this is their standard deviation.
pub(crate) const MEDIAN_TO_DEVIATION: f64 = 1.4826;

/// The middle value; of an even number the mean of the two. `None` when there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    values
        .get(middle - 1)
        .map(|lower| f64::midpoint(*lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_tables() {
        for (count, percent) in [(10, 25.9), (20, 13.9), (30, 9.5), (59, 4.95), (299, 1.0)] {
            let bound = 100.0 * bound_of_none(count, 0.95);
            assert!((bound - percent).abs() < 0.05, "{count}: {bound}");
        }
        assert!((bound_of_none(0, 0.95) - 1.0).abs() < 1e-12);
        let covered = covered_by_longest(59, 0.95);
        assert!((covered - 0.95).abs() < 0.001, "{covered}");
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0]), Some(2.5));
        assert_eq!(median([f64::NAN]), None);
    }
}
