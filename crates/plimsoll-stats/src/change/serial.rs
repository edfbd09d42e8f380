// SPDX-License-Identifier: Apache-2.0
//! Points that depend on their predecessors: n of them say as little as fewer independent ones.

use spec_math::cephes64::{ndtr, ndtri};

/// Dependence beyond this is treated as this.
const DEPENDENCE_MAX: f64 = 0.9;

/// The p value of a split, as far as the scores on both sides of it depend on their predecessors.
pub(super) fn deflated(p_value: f64, scores: &[f64], split: usize) -> f64 {
    let dependence = dependence(scores, split);
    if dependence <= 0.0 {
        return p_value;
    }
    let (before, after) = (split, scores.len() - split);
    let side = |n: usize| variance_factor(dependence, n) / n as f64;
    let factor = (side(before) + side(after)) / (1.0 / before as f64 + 1.0 / after as f64);
    let far = ndtri(p_value / 2.0) / factor.sqrt();
    (2.0 * ndtr(far)).min(1.0)
}

/// Correlation of neighbours, of clipped values, around the mean of each side; 0 where it is negative.
pub(super) fn dependence(scores: &[f64], split: usize) -> f64 {
    let (mut together, mut squares) = (0.0, 0.0);
    for side in [&scores[..split], &scores[split..]] {
        let mean = side.iter().sum::<f64>() / side.len() as f64;
        squares += side.iter().map(|score| (score - mean).powi(2)).sum::<f64>();
        let pairs = side.windows(2);
        together += pairs
            .map(|pair| (pair[0] - mean) * (pair[1] - mean))
            .sum::<f64>();
    }
    if squares <= 0.0 {
        return 0.0;
    }
    let n = scores.len() as f64;
    let raw = together / squares;
    // Two means were taken from the points themselves, which pulls the correlation down.
    (raw + BIAS * (1.0 + 3.0 * raw.max(0.0)) / n).clamp(0.0, DEPENDENCE_MAX)
}

/// The bias of the estimate below the truth, in units of (1 + 3 φ) ÷ n (Marriott and Pope).
const BIAS: f64 = 3.0;

/// The variance of a mean of `n` such points ÷ that of independent ones.
pub(super) fn variance_factor(dependence: f64, n: usize) -> f64 {
    let n = n as f64;
    let power = dependence.powf(n);
    let far = 2.0 * dependence * (1.0 - power) / (n * (1.0 - dependence).powi(2));
    (1.0 + dependence) / (1.0 - dependence) - far
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variance_of_a_mean_is_that_of_its_pairs() {
        for (dependence, n) in [(0.0, 7), (0.3, 1), (0.3, 4), (0.8, 12)] {
            let n_f = f64::from(n);
            let pairs =
                (1..n).map(|lag| 2.0 * (1.0 - f64::from(lag) / n_f) * f64::powi(dependence, lag));
            let expect = 1.0 + pairs.sum::<f64>();
            let found = variance_factor(dependence, n.unsigned_abs() as usize);
            assert!(
                (found - expect).abs() < 1e-9,
                "{dependence} {n}: {found} {expect}"
            );
        }
    }
}
