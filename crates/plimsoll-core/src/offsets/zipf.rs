// SPDX-License-Identifier: Apache-2.0
//! Exact Zipf ranks: rank `r` of `1..=n` with a probability in proportion to `r^-exponent`.
//!
//! Rejection-inversion after Hörmann and Derflinger, "Rejection-inversion to generate variates
//! from monotone discrete distributions", ACM TOMACS 6(3), 1996: constant time and memory for any
//! `n`, no table, no approximation. The integral of `x^-exponent` and its inverse are written with
//! `expm1` and `ln_1p`, so that exponents near and at 1 are no special case.

use crate::num::round_u64;
use crate::rng::Rng;

/// Draws ranks.
#[derive(Debug, Clone)]
pub(super) struct ZipfSampler {
    n: f64,
    exponent: f64,
    /// Area below the hat from its left end to 1.5, less the probability mass of rank 1.
    area_first: f64,
    /// Area up to `n + 0.5`.
    area_last: f64,
    /// A rank this close to the point of the hat is accepted without a look.
    sure: f64,
}

impl ZipfSampler {
    /// Ranks `1..=n` (at least 1) with this exponent, 0 to 10.
    pub(super) fn new(n: u64, exponent: f64) -> Self {
        let n = n.max(1) as f64;
        let mut zipf = ZipfSampler {
            n,
            exponent,
            area_first: 0.0,
            area_last: 0.0,
            sure: 0.0,
        };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(n + 0.5);
        zipf.sure = 2.0 - zipf.point(zipf.area(2.5) - zipf.mass(2.0));
        zipf
    }

    /// The next rank.
    #[inline]
    pub(super) fn next(&self, rng: &mut Rng) -> u64 {
        // Accepted with a probability above 0.7 for every exponent and n, so the loop ends.
        loop {
            let area = self.area_last + rng.unit() * (self.area_first - self.area_last);
            let point = self.point(area);
            let rank = point.round().clamp(1.0, self.n);
            if rank - point <= self.sure || area >= self.area(rank + 0.5) - self.mass(rank) {
                return round_u64(rank);
            }
        }
    }

    fn mass(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of `t^-exponent` from 1 to `x`.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        if power.abs() < 1e-9 {
            // (e^p - 1) / p goes to 1 + p/2.
            log * (1.0 + power / 2.0)
        } else {
            log * power.exp_m1() / power
        }
    }

    /// Where the integral has this value.
    fn point(&self, area: f64) -> f64 {
        // Rounding may put it a hair below the lowest possible value.
        let scaled = (area * (1.0 - self.exponent)).max(-1.0);
        let log = if scaled.abs() < 1e-9 {
            area * (1.0 - scaled / 2.0)
        } else {
            area * scaled.ln_1p() / scaled
        };
        log.exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::to_usize;
    use crate::rng::Seed;

    #[test]
    fn ranks_have_their_exact_probabilities() {
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.000_001, 1.2, 2.0, 10.0] {
            for n in [1u64, 2, 10, 1_000] {
                let zipf = ZipfSampler::new(n, exponent);
                let mut rng = Rng::new(Seed(n));
                let draws = 200_000;
                let mut counts = vec![0u64; to_usize(n)];
                for _ in 0..draws {
                    counts[to_usize(zipf.next(&mut rng)) - 1] += 1;
                }
                let mass = |rank: usize| (rank as f64).powf(-exponent);
                let whole: f64 = (1..=counts.len()).map(mass).sum();
                let (mut chi, mut cells) = (0.0, 0u32);
                // The rare ranks together are one cell, or the statistic has no known law.
                let (mut rest, mut rest_expect) = (0.0, 0.0);
                for (i, count) in counts.iter().enumerate() {
                    let expect = f64::from(draws) * mass(i + 1) / whole;
                    if expect >= 10.0 {
                        chi += (*count as f64 - expect).powi(2) / expect;
                        cells += 1;
                    } else {
                        rest += *count as f64;
                        rest_expect += expect;
                    }
                }
                if rest_expect >= 5.0 {
                    chi += (rest - rest_expect).powi(2) / rest_expect;
                    cells += 1;
                }
                let freedom = f64::from(cells.max(1) - 1);
                let limit = freedom + 4.0 * (2.0 * freedom).sqrt() + 8.0;
                assert!(chi < limit, "exponent {exponent}, n {n}: {chi} > {limit}");
            }
        }
    }

    #[test]
    fn a_terabyte_of_blocks_needs_no_table() {
        let n = 1 << 28;
        let zipf = ZipfSampler::new(n, 0.9);
        let mut rng = Rng::new(Seed(1));
        let ranks: Vec<u64> = (0..10_000).map(|_| zipf.next(&mut rng)).collect();
        assert!(ranks.iter().all(|rank| (1..=n).contains(rank)));
        // P(rank <= 2^14) is the ratio of the integrals, within the noise of the sample.
        let within = ranks.iter().filter(|rank| **rank <= 1 << 14).count() as f64 / 1e4;
        let area = |x: f64| (x.powf(0.1) - 1.0) / 0.1 + 0.58;
        let expect = area(16_384.5) / area(n as f64 + 0.5);
        assert!((within - expect).abs() < 0.02, "{within} {expect}");
    }
}
