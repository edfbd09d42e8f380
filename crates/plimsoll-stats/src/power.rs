// SPDX-License-Identifier: Apache-2.0
//! Effects that a number of blocks can find: exact power of the paired t test and of the equivalence test.
//!
//! Both are integrals over the distribution of the sample deviation S (a scaled chi variable): given
//! S, the mean is normal and the decision is a statement about the mean alone. With no A/A bound
//! the first integral is the noncentral t distribution. Effects are |ln ratio| unless a name says
//! fraction. Nothing here knows arms or blocks' values.

use spec_math::cephes64::{lgam, ndtr};

use crate::student;

/// Power asked of a design, by convention.
pub const POWER: f64 = 0.8;

/// Most blocks that are ever suggested: beyond this the answer is a quieter machine, not more
/// blocks.
pub const BLOCKS_MAX: usize = 1_000;

/// Effects beyond a factor of a thousand are not worth a search.
const EFFECT_MAX: f64 = 6.907_755;

/// Half the cells of the integration. With one degree of freedom the critical value is large and
/// the integrand steep; the error is below 1e-5 in either case.
const HALF_CELLS: u32 = 120;
const HALF_CELLS_STEEP: u32 = 800;

/// How a difference is tested.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DifferenceTest {
    /// Standard deviation of ln(arm ÷ base) between blocks.
    pub deviation: f64,
    /// Confidence of the two-sided interval.
    pub confidence: f64,
    /// Estimates up to this |ln ratio| do not count as a difference.
    pub floor: f64,
}

impl DifferenceTest {
    /// Probability of finding a true |ln ratio| of `effect` with `blocks` ≥ 2: the interval
    /// excludes 0 and the estimate lies beyond the floor.
    pub fn power(&self, effect: f64, blocks: usize) -> f64 {
        let error = self.deviation / (blocks as f64).sqrt();
        if error <= 0.0 {
            return f64::from(u8::from(effect > self.floor));
        }
        let critical = student::two_sided(self.confidence, blocks - 1);
        let (shift, floor) = (effect / error, self.floor / error);
        over_deviations(blocks - 1, |s| {
            let limit = (critical * s).max(floor);
            ndtr(shift - limit) + ndtr(-shift - limit)
        })
    }

    /// The smallest true effect, as a fraction (0.1 = a ratio of 1.1), that `blocks` ≥ 2 find with
    /// [`POWER`]; `None` when it is beyond a factor of a thousand.
    pub fn detectable_fraction(&self, blocks: usize) -> Option<f64> {
        if self.deviation <= 0.0 {
            return Some(self.floor.exp_m1());
        }
        // Near the effect that a normal estimate would need; a bracket around it saves most steps.
        let error = self.deviation / (blocks as f64).sqrt();
        let near = self.floor + (student::two_sided(self.confidence, blocks - 1) + 0.85) * error;
        let (mut low, mut high) = (0.0, EFFECT_MAX);
        if near < EFFECT_MAX && self.power(near, blocks) >= POWER {
            high = near;
        } else if self.power(EFFECT_MAX, blocks) < POWER {
            return None;
        }
        if self.power(0.5 * high, blocks) < POWER {
            low = 0.5 * high;
        }
        // 24 halvings leave less than 1e-7 of the effect.
        for _ in 0..24 {
            let middle = f64::midpoint(low, high);
            if self.power(middle, blocks) < POWER {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(high.exp_m1())
    }

    /// Probability that two arms with a true |ln ratio| of `effect` are found equivalent: the
    /// (1 - 2α) interval lies within ± `margin` (ln), α being 1 - confidence.
    pub fn equivalence_power(&self, effect: f64, margin: f64, blocks: usize) -> f64 {
        let error = self.deviation / (blocks as f64).sqrt();
        if error <= 0.0 {
            return f64::from(u8::from(effect < margin));
        }
        let critical = student::quantile(self.confidence, blocks - 1);
        over_deviations(blocks - 1, |s| {
            let upper = (margin - effect) / error - critical * s;
            let lower = (-margin - effect) / error + critical * s;
            (ndtr(upper) - ndtr(lower)).max(0.0)
        })
    }
}

/// The smallest number of blocks ≥ `least` (itself ≥ 2) for which `reached` holds, up to
/// [`BLOCKS_MAX`]; `reached` must stay true once it is true.
pub fn fewest_blocks(least: usize, reached: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut low, mut high) = (least.max(2), BLOCKS_MAX);
    if low > high || !reached(high) {
        return None;
    }
    while low < high {
        let middle = usize::midpoint(low, high);
        if reached(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

/// Expectation of `given(S)` for S = sqrt(chi² / df), by Simpson's rule.
fn over_deviations(df: usize, given: impl Fn(f64) -> f64) -> f64 {
    let half_cells = if df > 1 { HALF_CELLS } else { HALF_CELLS_STEEP };
    let df = df as f64;
    // S has a deviation of about 1 / sqrt(2 df); ten of them leave out less than 1e-13.
    let reach = 10.0 / (2.0 * df).sqrt();
    let (from, to) = ((1.0 - reach).max(0.0), 1.0 + reach);
    let step = (to - from) / f64::from(2 * half_cells);
    let constant = 2f64.ln() + df / 2.0 * (df / 2.0).ln() - lgam(df / 2.0);
    let at = |i: u32| {
        let s = (from + step * f64::from(i)).max(f64::MIN_POSITIVE);
        let density = (constant + (df - 1.0) * s.ln() - df * s * s / 2.0).exp();
        density * given(s)
    };
    let odd: f64 = (0..half_cells).map(|i| at(2 * i + 1)).sum();
    let even: f64 = (1..half_cells).map(|i| at(2 * i)).sum();
    (at(0) + 4.0 * odd + 2.0 * even + at(2 * half_cells)) * step / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Within-block deviation of ln(arm ÷ base) at this CoV and a within-block correlation of 0.8.
    fn test(variation: f64) -> DifferenceTest {
        DifferenceTest {
            deviation: variation * (2.0f64 * (1.0 - 0.8)).sqrt(),
            confidence: 0.95,
            floor: 0.0,
        }
    }

    #[test]
    fn without_an_effect_the_power_is_the_false_alarm_rate() {
        for blocks in [2, 3, 5, 10, 100] {
            let power = test(0.05).power(0.0, blocks);
            assert!((power - 0.05).abs() < 1e-5, "{blocks}: {power}");
        }
    }

    #[test]
    fn detectable_effects_match_the_planning_table() {
        let blocks = [3, 5, 7, 10, 20, 30];
        let table = [
            (0.01, [2.1, 1.1, 0.8, 0.6, 0.4, 0.3]),
            (0.02, [4.2, 2.2, 1.6, 1.3, 0.8, 0.7]),
            (0.05, [10.9, 5.5, 4.1, 3.2, 2.1, 1.7]),
            (0.10, [22.9, 11.2, 8.4, 6.5, 4.3, 3.4]),
        ];
        for (variation, row) in table {
            for (n, expect) in blocks.into_iter().zip(row) {
                let found = test(variation).detectable_fraction(n).unwrap() * 100.0;
                assert!((found - expect).abs() < 0.06, "{variation} {n}: {found}");
            }
        }
    }

    #[test]
    fn blocks_to_detect_match_the_planning_table() {
        let effects = [0.01f64, 0.02, 0.05, 0.10];
        let table = [
            (0.01, [6, 4, 3, 2]),
            (0.02, [15, 6, 3, 3]),
            (0.05, [82, 23, 6, 4]),
            (0.10, [320, 83, 16, 6]),
        ];
        for (variation, row) in table {
            for (effect, expect) in effects.into_iter().zip(row) {
                let test = test(variation);
                let found = fewest_blocks(2, |n| test.power(effect.ln_1p(), n) >= POWER);
                assert_eq!(found, Some(expect), "{variation} {effect}");
            }
        }
    }

    #[test]
    fn a_noise_floor_costs_power() {
        let quiet = test(0.05);
        let noisy = DifferenceTest {
            floor: 0.08,
            ..quiet
        };
        assert!(noisy.power(0.08, 10) < 0.51 && quiet.power(0.08, 10) > 0.99);
        assert!(noisy.detectable_fraction(10).unwrap() > 0.08);
    }

    #[test]
    fn no_spread_decides_at_once_and_noise_never() {
        let certain = DifferenceTest {
            deviation: 0.0,
            confidence: 0.95,
            floor: 0.0,
        };
        assert_eq!(certain.detectable_fraction(2), Some(0.0));
        assert!(certain.equivalence_power(0.0, 0.05, 2) > 0.99);
        let hopeless = DifferenceTest {
            deviation: 9.0,
            ..certain
        };
        assert_eq!(hopeless.detectable_fraction(2), None);
        assert_eq!(fewest_blocks(2, |n| hopeless.power(0.01, n) >= POWER), None);
    }
}
