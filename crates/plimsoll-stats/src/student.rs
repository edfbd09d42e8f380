// SPDX-License-Identifier: Apache-2.0
//! Student's t: the quantile that makes an interval out of a standard error.
//!
//! Invariant: every function returns a finite number for the arguments it documents.

use spec_math::cephes64::{stdtr, stdtri};

/// The value that a t variable with `df` ≥ 1 degrees of freedom stays below with probability `p`,
/// 0 < `p` < 1.
///
/// # Panics
/// When `df` is 0: one observation has no spread, so its interval is a mistake of the caller.
pub fn quantile(p: f64, df: usize) -> f64 {
    stdtri(freedom(df), p)
}

/// The factor on the standard error that gives a two-sided interval of this confidence.
///
/// # Panics
/// When `df` is 0.
pub fn two_sided(confidence: f64, df: usize) -> f64 {
    quantile(0.5 + confidence / 2.0, df)
}

/// The probability that a t variable with `df` ≥ 1 degrees of freedom is at least `t`.
///
/// # Panics
/// When `df` is 0.
pub fn above(t: f64, df: usize) -> f64 {
    // The law is symmetric, and its lower tail has all digits.
    stdtr(freedom(df), -t)
}

fn freedom(df: usize) -> isize {
    assert!(df > 0, "at least one degree of freedom");
    df.try_into().unwrap_or(isize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_printed_table() {
        let table = [
            (1, [3.078, 6.314, 12.706, 63.657]),
            (2, [1.886, 2.920, 4.303, 9.925]),
            (3, [1.638, 2.353, 3.182, 5.841]),
            (4, [1.533, 2.132, 2.776, 4.604]),
            (9, [1.383, 1.833, 2.262, 3.250]),
            (29, [1.311, 1.699, 2.045, 2.756]),
        ];
        for (df, row) in table {
            for (p, expect) in [0.90, 0.95, 0.975, 0.995].into_iter().zip(row) {
                let found = quantile(p, df);
                assert!((found - expect).abs() < 6e-4, "df {df}, p {p}: {found}");
                assert!((quantile(1.0 - p, df) + found).abs() < 1e-6);
            }
        }
        assert!((two_sided(0.95, 4) - 2.776).abs() < 6e-4);
        assert!((above(2.776, 4) - 0.025).abs() < 1e-4 && (above(-2.776, 4) - 0.975).abs() < 1e-4);
    }
}
