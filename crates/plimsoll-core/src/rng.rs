// SPDX-License-Identifier: Apache-2.0
//! Random numbers whose sequence never changes between releases, so that a recorded seed replays.
//!
//! The generator is xoshiro256++ 1.0 seeded through `SplitMix64` (Blackman and Vigna, "Scrambled
//! linear pseudorandom number generators", ACM TOMS 2021). Library generators and their
//! distributions may change their output in a new version; recorded runs must not.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::num::to_usize;

/// Name of this generator in a manifest.
pub const GENERATOR: &str = "xoshiro256++ 1.0, SplitMix64 seeding";

/// The root of all randomness of a run. Printed and recorded, so that the run can be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// An independent seed for one purpose (`"order"`, `"offsets"`, …) and index.
    #[must_use]
    pub fn derive(self, purpose: &str, index: u64) -> Seed {
        // FNV-1a over the purpose; SplitMix64 then spreads even neighbouring values.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in purpose.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut state = self.0 ^ hash;
        let first = split_mix(&mut state);
        let mut state = first ^ index;
        Seed(split_mix(&mut state))
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The generator. One per worker and purpose; never shared.
#[derive(Debug, Clone)]
pub struct Rng([u64; 4]);

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// Starts the sequence of `seed`.
    pub fn new(seed: Seed) -> Self {
        let mut state = seed.0;
        Rng(std::array::from_fn(|_| split_mix(&mut state)))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `0..n`; `n` must not be 0. The bias is below n / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0, "an empty range has no number in it");
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in the open interval (0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Exponential with the given mean.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    /// Standard normal (Marsaglia's polar method).
    #[inline]
    pub fn normal(&mut self) -> f64 {
        // Each round succeeds with probability π/4, so the loop ends.
        loop {
            let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                return u * (-2.0 * s.ln() / s).sqrt();
            }
        }
    }

    /// Gamma with `shape` ≥ 1 and the given mean (Marsaglia and Tsang, ACM TOMS 26(3), 2000).
    ///
    /// # Panics
    /// When `shape` is below 1.
    #[inline]
    pub fn gamma(&mut self, shape: f64, mean: f64) -> f64 {
        assert!(shape >= 1.0, "the method needs a shape of at least 1");
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        // Acceptance is above 95 % for every shape ≥ 1, so the loop ends.
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.unit().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v * mean / shape;
            }
        }
    }

    /// Shuffles in place (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = to_usize(self.below(i as u64 + 1));
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_is_fixed_for_ever() {
        // Computed once from the published reference algorithm; a change here breaks replays.
        let mut rng = Rng([1, 2, 3, 4]);
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(
            first,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386
            ]
        );
    }

    #[test]
    fn derived_seeds_differ_by_purpose_and_index() {
        let root = Seed(7);
        assert_ne!(root.derive("order", 0), root.derive("order", 1));
        assert_ne!(root.derive("order", 0), root.derive("offsets", 0));
        assert_eq!(root.derive("order", 3), root.derive("order", 3));
    }

    #[test]
    fn distributions_have_the_stated_moments() {
        let mut rng = Rng::new(Seed(1));
        let n = 200_000;
        let draw: Vec<f64> = (0..n).map(|_| rng.gamma(1.5, 16_384.0)).collect();
        let mean = draw.iter().sum::<f64>() / f64::from(n);
        let var = draw.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!((mean / 16_384.0 - 1.0).abs() < 0.01, "mean {mean}");
        // Coefficient of variation 1/sqrt(1.5) = 0.8165.
        assert!((var.sqrt() / mean - 0.8165).abs() < 0.01);
        let mean = (0..n).map(|_| rng.exponential(2.0)).sum::<f64>() / f64::from(n);
        assert!((mean / 2.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn shuffle_reaches_every_order_equally_often() {
        let mut rng = Rng::new(Seed(5));
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6_000 {
            let mut items = [0, 1, 2];
            rng.shuffle(&mut items);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(
            counts.values().all(|c| (850..1150).contains(c)),
            "{counts:?}"
        );
    }
}
