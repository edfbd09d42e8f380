// SPDX-License-Identifier: Apache-2.0
//! Several comparisons that are read together: Holm's step-down correction.
//!
//! Of twenty arms without a difference one interval of 95 % is expected to miss 1. Who reads the
//! table asks whether *any* arm differs, and that question keeps its 5 % only when the family is
//! corrected. Holm needs no independence, which arms that share a base do not have, and is never
//! weaker than Bonferroni.

/// The p values that hold for the whole family, in the order of `p_values`: a comparison whose
/// adjusted value is at most α is a difference, and the probability that any of them is a false one
/// is at most α.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest = 0.0f64;
    for (rank, index) in order.into_iter().enumerate() {
        let left = (p_values.len() - rank) as f64;
        // Never below that of a smaller p: the steps stop at the first that fails.
        largest = largest.max(left * p_values[index]);
        adjusted[index] = largest.min(1.0);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_by_hand() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expect = [0.03, 0.06, 0.06, 0.02];
        for (found, expect) in adjusted.iter().zip(expect) {
            assert!((found - expect).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.7, 0.9]), [1.0, 1.0]);
        assert_eq!(holm(&[0.03]), [0.03]);
        assert!(holm(&[]).is_empty());
    }
}
