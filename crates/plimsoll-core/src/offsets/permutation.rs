// SPDX-License-Identifier: Apache-2.0
//! A random order of the numbers below `n` that needs no memory.
//!
//! A Feistel network permutes the numbers of as many bits as `n - 1` has, because each of its
//! rounds can be undone; what falls beyond `n` is put through it again until it lies below
//! ("cycle walking": Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
//! Fewer than half of the numbers lie beyond, so two passes do on average. Not a cipher.

use crate::rng::{Rng, Seed};

/// Passes over both halves. Four already leave no pattern that a test of this size finds; they
/// cost some nanoseconds.
const ROUNDS: usize = 4;

/// A bijection of `0..n`, fixed by its seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeededPermutation {
    n: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    /// One for each half of each round.
    keys: [(u64, u64); ROUNDS],
}

impl SeededPermutation {
    /// The permutation of `0..n` with this seed; 0 counts as 1.
    pub fn new(n: u64, seed: Seed) -> Self {
        let n = n.max(1);
        // Both halves have a bit, so that each can stir the other.
        let bits = (u64::BITS - (n - 1).leading_zeros()).max(2);
        let low_bits = bits / 2;
        let mut rng = Rng::new(seed);
        SeededPermutation {
            n,
            low_bits,
            low_mask: (1 << low_bits) - 1,
            high_mask: (1 << (bits - low_bits)) - 1,
            keys: std::array::from_fn(|_| (rng.next_u64(), rng.next_u64())),
        }
    }

    /// How many numbers it permutes.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Where `index` goes. An index of `n` or more is taken modulo `n`.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        let mut x = if index < self.n {
            index
        } else {
            index % self.n
        };
        // The walk follows a cycle of a permutation from a point below `n`, so it comes back.
        loop {
            x = self.pass(x);
            if x < self.n {
                return x;
            }
        }
    }

    #[inline]
    fn pass(&self, x: u64) -> u64 {
        let (mut high, mut low) = (x >> self.low_bits, x & self.low_mask);
        for (of_high, of_low) in self.keys {
            high ^= stir(low, of_high) & self.high_mask;
            low ^= stir(high, of_low) & self.low_mask;
        }
        (high << self.low_bits) | low
    }
}

/// A keyed hash: the finaliser of `SplitMix64` without its last step.
#[inline]
fn stir(x: u64, key: u64) -> u64 {
    let mut z = x.wrapping_add(key);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_number_comes_exactly_once(n in prop_oneof![1..260_u64, 1..20_000_u64], seed: u64) {
            let permutation = SeededPermutation::new(n, Seed(seed));
            let mut found: Vec<u64> = (0..n).map(|i| permutation.at(i)).collect();
            found.sort_unstable();
            prop_assert!(found.into_iter().eq(0..n));
        }
    }

    #[test]
    fn a_seed_fixes_the_order_and_another_gives_another() {
        let order = |seed| -> Vec<u64> {
            let permutation = SeededPermutation::new(1_000, Seed(seed));
            (0..1_000).map(|i| permutation.at(i)).collect()
        };
        assert_eq!(order(1), order(1));
        let same = order(1).into_iter().zip(order(2)).filter(|(a, b)| a == b);
        // Two random orders agree in one place on average.
        assert!(same.count() < 10);
    }

    #[test]
    fn the_order_looks_random() {
        let n = 1u64 << 16;
        let permutation = SeededPermutation::new(n, Seed(3));
        let order: Vec<u64> = (0..n).map(|i| permutation.at(i)).collect();
        // Serial correlation of neighbours; its standard deviation is 1/256.
        let mean = (n - 1) as f64 / 2.0;
        let product = |(a, b): (&u64, &u64)| (*a as f64 - mean) * (*b as f64 - mean);
        let covariance: f64 = order.iter().zip(&order[1..]).map(product).sum();
        let variance: f64 = order.iter().map(|a| (*a as f64 - mean).powi(2)).sum();
        let correlation = covariance / variance;
        assert!(correlation.abs() < 4.0 / 256.0, "{correlation}");
        // Of 256 stretches each gets its share of every 256th of the numbers: chi-square with
        // 255 x 255 degrees of freedom, less spread than a sample with replacement.
        let mut cells = vec![0u32; 256 * 256];
        for (i, x) in order.iter().enumerate() {
            cells[i / 256 * 256 + crate::num::to_usize(x / 256)] += 1;
        }
        let chi: f64 = cells.iter().map(|c| (f64::from(*c) - 1.0).powi(2)).sum();
        let (expect, deviation) = (255.0 * 255.0, (2.0 * 255.0f64 * 255.0).sqrt());
        assert!((chi - expect).abs() < 5.0 * deviation, "{chi}");
    }
}
