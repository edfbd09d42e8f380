// SPDX-License-Identifier: Apache-2.0
//! The test of a split: two samples of clipped values, by the t law that their arrangements follow.

use crate::events::median;
use crate::student;

/// Values are clipped at this number of deviations from the middle of all.
const CLIP: f64 = 1.8;
/// From the median absolute deviation to the standard deviation of a normal law.
const MAD_TO_SD: f64 = 1.4826;

/// The values around their middle, clipped. The middle and the deviation are of both sides of any split
/// together, so that every arrangement of them is as likely where no level changes.
pub(super) fn clipped(values: &[f64]) -> Vec<f64> {
    let middle = median(values.iter().copied()).unwrap_or(0.0);
    let far = |value: &f64| (value - middle).abs();
    let usual = median(values.iter().map(far)).unwrap_or(0.0);
    // More than half are equal: what is not is one step away, however far.
    let nearest = values.iter().map(far).filter(|far| *far > 0.0);
    let room = match usual > 0.0 {
        true => CLIP * MAD_TO_SD * usual,
        false => nearest.fold(f64::INFINITY, f64::min),
    };
    let clip = |value: &f64| (value - middle).clamp(-room, room);
    values.iter().map(clip).collect()
}

/// Sums of some values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SideSums {
    count: f64,
    sum: f64,
    squares: f64,
}

impl SideSums {
    pub(super) fn of(values: &[f64]) -> SideSums {
        let mut sums = SideSums::default();
        values.iter().for_each(|value| sums.add(*value));
        sums
    }

    pub(super) fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    pub(super) fn remove(&mut self, value: f64) {
        self.count -= 1.0;
        self.sum -= value;
        self.squares -= value * value;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count
    }

    fn within(&self) -> f64 {
        (self.squares - self.sum * self.mean()).max(0.0)
    }
}

/// Student's t of both sides.
pub(super) fn t_value(before: &SideSums, after: &SideSums) -> f64 {
    let apart = after.mean() - before.mean();
    let variance = (before.within() + after.within()) / (before.count + after.count - 2.0);
    let error = (variance * (1.0 / before.count + 1.0 / after.count)).sqrt();
    match apart == 0.0 {
        true => 0.0,
        false => apart / error,
    }
}

/// The smallest |t| of each side without the one value that speaks most for a difference.
pub(super) fn t_without_one(scores: &[f64], split: usize) -> f64 {
    let (before, after) = scores.split_at(split);
    let (left, right) = (SideSums::of(before), SideSums::of(after));
    let rises = t_value(&left, &right) > 0.0;
    let extreme = |side: &[f64], is_high: bool| {
        let best = side
            .iter()
            .copied()
            .reduce(|a, b| if is_high { a.max(b) } else { a.min(b) });
        best.unwrap_or(0.0)
    };
    let without = |mut sums: SideSums, value: f64| {
        sums.remove(value);
        sums
    };
    let one = t_value(&without(left, extreme(before, !rises)), &right);
    let other = t_value(&left, &without(right, extreme(after, rises)));
    one.abs().min(other.abs())
}

/// The two-sided p value of a t with these numbers of values on both sides.
pub(super) fn p_value(t: f64, before: usize, after: usize) -> f64 {
    match t.is_finite() {
        true => 2.0 * student::above(t.abs(), before + after - 2),
        false => 0.0,
    }
}

/// The smallest p value of these numbers of values on both sides: two of their arrangements lie as far apart
/// as any.
pub(super) fn p_value_min(before: usize, after: usize) -> f64 {
    let fewer = before.min(after);
    let chosen = (0..fewer).map(|at| (fewer - at) as f64 / (before + after - at) as f64);
    (2.0 * chosen.product::<f64>()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_values_count_as_near_ones() {
        let scores = clipped(&[1.0, 2.0, 3.0, 4.0, 1e9]);
        assert!((scores[4] - 1.8 * MAD_TO_SD).abs() < 1e-9, "{scores:?}");
        assert_eq!(scores[..4], [-2.0, -1.0, 0.0, 1.0]);
        // Figures without noise: what differs is one step away.
        assert_eq!(
            clipped(&[5.0, 5.0, 5.0, 7.0, 99.0]),
            [0.0, 0.0, 0.0, 2.0, 2.0]
        );
        assert_eq!(clipped(&[5.0; 3]), [0.0; 3]);
    }

    #[test]
    fn the_clearest_value_of_either_side_is_left_out() {
        let scores = [0.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0, 9.0];
        let t =
            |before: &[f64], after: &[f64]| t_value(&SideSums::of(before), &SideSums::of(after));
        let without_high = t(&scores[..4], &scores[4..7]);
        let without_low = t(&scores[1..4], &scores[4..]);
        let expect = without_high.abs().min(without_low.abs());
        assert!((t_without_one(&scores, 4) - expect).abs() < 1e-12);
    }

    #[test]
    fn p_values_are_those_of_tables_and_of_arrangements() {
        // t of 9 degrees of freedom: 3.250 leaves 1 %.
        assert!((p_value(-3.250, 5, 6) - 0.01).abs() < 1e-4);
        // Two of the C(10, 4) = 210 arrangements lie as far apart as these.
        assert!((p_value_min(4, 6) - 2.0 / 210.0).abs() < 1e-12);
        assert!(p_value(f64::INFINITY, 4, 6) < p_value_min(4, 6));
    }
}
