// SPDX-License-Identifier: Apache-2.0
//! Bursts: intervals much busier than the rest, and whether they come back periodically.

use plimsoll_core::model::{BurstPattern, IoDirection, ModelInterval};
use plimsoll_core::num::{ratio, round_u64, to_usize};

use crate::binned::{autocorrelation, idc, otsu, quantile, sorted};
use crate::periods::{period, told};

/// Fewer intervals than this show no pattern.
const INTERVALS_MIN: usize = 12;
/// Least ratio of the mean rates inside and outside: less is a slope, not a burst.
const RATIO_MIN: f64 = 3.0;
/// The same where the rates have a period, which says already that it is no slope.
const RATIO_PERIODIC_MIN: f64 = 1.5;
/// Most of the time that bursts may take: beyond, the quiet is the exception.
const DUTY_MAX: f64 = 0.5;
/// Least dispersion of the counts: below, chance alone makes the difference (Poisson has 1).
const IDC_MIN: f64 = 2.0;

/// The bursts of one direction, if its intervals fall into two well separated classes. The period
/// is looked for in `calm`, the same cells without what lies on top of the load for once.
///
/// Without a period the threshold is Otsu's on the logarithm of the rates, which separates
/// "something" from "next to nothing"; with one it is the rate whose crossings the period shows
/// best, as a second, smaller activity, or a change of the level below, has another rhythm.
pub(crate) fn find(
    cells: &[ModelInterval],
    calm: &[ModelInterval],
    direction: IoDirection,
) -> Option<BurstPattern> {
    if cells.len() < INTERVALS_MIN {
        return None;
    }
    let counts: Vec<f64> = cells.iter().map(|c| c.load(direction).ops as f64).collect();
    if idc(&counts, 1)? < IDC_MIN {
        return None;
    }
    let grid = RateGrid::of(calm, direction);
    let Some(steps) = period(&grid.rates) else {
        return classify(cells, direction, otsu_of_logs(cells, direction)?, RATIO_MIN);
    };
    let threshold = rhythmic(&grid.rates, steps).or_else(|| otsu_of_logs(calm, direction))?;
    let mut found = classify(cells, direction, threshold, RATIO_PERIODIC_MIN)?;
    found.period_s = Some(steps * grid.step_s);
    let lag = to_usize(round_u64(steps));
    found.autocorrelation = Some(autocorrelation(&grid.rates, lag));
    Some(found)
}

fn otsu_of_logs(cells: &[ModelInterval], direction: IoDirection) -> Option<f64> {
    let logs: Vec<f64> = cells
        .iter()
        .map(|c| c.ops_per_s(direction).ln_1p())
        .collect();
    otsu(&logs).map(f64::exp_m1)
}

/// The rate whose crossings a period of `steps` steps explains best.
fn rhythmic(rates: &[f64], steps: f64) -> Option<f64> {
    let ascending = sorted(rates);
    let place = |i: u32| quantile(&ascending, f64::from(i) / 100.0);
    let judged = (50..99).filter_map(|i| {
        let threshold = f64::midpoint(place(i), place(i + 1));
        let inside = |rate: &f64| f64::from(u8::from(*rate > threshold));
        let crossings: Vec<f64> = rates.iter().map(inside).collect();
        Some((told(&crossings, steps)?, threshold))
    });
    let best = judged.max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, threshold)| threshold)
}

fn classify(
    cells: &[ModelInterval],
    direction: IoDirection,
    threshold_per_s: f64,
    ratio_min: f64,
) -> Option<BurstPattern> {
    let (mut count, mut before) = (0, false);
    // Seconds and operations outside and inside.
    let (mut seconds, mut ops) = ([0.0; 2], [0.0; 2]);
    for cell in cells {
        let inside = cell.ops_per_s(direction) > threshold_per_s;
        count += u64::from(inside && !before);
        before = inside;
        seconds[usize::from(inside)] += cell.length.as_secs_f64();
        ops[usize::from(inside)] += cell.load(direction).ops as f64;
    }
    let duty = ratio(seconds[1], seconds[0] + seconds[1]);
    let (quiet, busy) = (ratio(ops[0], seconds[0]), ratio(ops[1], seconds[1]));
    let separated = busy > 0.0 && busy >= ratio_min * quiet && duty <= DUTY_MAX;
    separated.then(|| BurstPattern {
        direction,
        threshold_per_s,
        count,
        period_s: None,
        autocorrelation: None,
        duty,
        share: ratio(ops[1], ops[0] + ops[1]),
    })
}

/// Rates on an even grid.
#[derive(Debug)]
pub(crate) struct RateGrid {
    /// Operations per second in each step.
    pub(crate) rates: Vec<f64>,
    /// Length of a step in seconds.
    pub(crate) step_s: f64,
}

impl RateGrid {
    /// Steps of about the median length that divide the whole evenly. A cell's operations are
    /// spread over the steps it overlaps; where every cell is a step, that is the cell itself.
    pub(crate) fn of(cells: &[ModelInterval], direction: IoDirection) -> RateGrid {
        let lengths: Vec<f64> = cells.iter().map(|c| c.length.as_secs_f64()).collect();
        let total: f64 = lengths.iter().sum();
        let median = median_length_s(cells);
        // Timer jitter moves edges by milliseconds; resampling would only smear neighbours.
        let regular = lengths.iter().all(|l| (l / median - 1.0).abs() < 0.1);
        let n = to_usize(round_u64(ratio(total, median))).max(1);
        if regular || n > 4 * cells.len() {
            return RateGrid {
                rates: cells.iter().map(|c| c.ops_per_s(direction)).collect(),
                step_s: ratio(total, cells.len() as f64),
            };
        }
        let step_s = total / n as f64;
        let mut ops = vec![0.0; n];
        let mut from = 0.0;
        for (cell, length) in cells.iter().zip(lengths) {
            let to = from + length;
            let mut step = to_usize(plimsoll_core::num::floor_u64(from / step_s)).min(n - 1);
            let rate = cell.ops_per_s(direction);
            // Bounded by the steps the cell overlaps.
            while step < n && (step as f64 * step_s) < to {
                let begin = from.max(step as f64 * step_s);
                let end = to.min((step + 1) as f64 * step_s);
                ops[step] += rate * (end - begin).max(0.0);
                step += 1;
            }
            from = to;
        }
        RateGrid {
            rates: ops.into_iter().map(|ops| ops / step_s).collect(),
            step_s,
        }
    }
}

/// Median length of the cells in seconds.
pub(crate) fn median_length_s(cells: &[ModelInterval]) -> f64 {
    let lengths: Vec<f64> = cells.iter().map(|c| c.length.as_secs_f64()).collect();
    quantile(&sorted(&lengths), 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::model::DirectionLoad;
    use plimsoll_core::rng::{Rng, Seed};
    use plimsoll_core::units::Nanos;

    fn cell(length_s: f64, writes: u64) -> ModelInterval {
        ModelInterval {
            length: Nanos::from_secs_f64(length_s),
            read: DirectionLoad::default(),
            write: DirectionLoad {
                ops: writes,
                bytes: writes * 4096,
            },
        }
    }

    #[test]
    fn periodic_bursts_are_found_with_their_period_duty_and_share() {
        let cells: Vec<ModelInterval> = (0..400)
            .map(|i| cell(15.0, if i % 20 < 2 { 3_000 + i } else { 100 + i % 7 }))
            .collect();
        let found = find(&cells, &cells, IoDirection::Write).unwrap();
        assert_eq!(found.count, 20);
        assert!((found.period_s.unwrap() - 300.0).abs() < 1.0);
        assert!((found.duty - 0.1).abs() < 1e-9);
        assert!((found.share - 0.775).abs() < 0.01, "{}", found.share);
        assert!(found.autocorrelation.unwrap() > 0.8);
    }

    #[test]
    fn intervals_of_changing_length_do_not_hide_the_period() {
        // Bursts of 20 s every 100 s at 200 per s, cut into intervals of 3 to 17 s.
        let mut rng = Rng::new(Seed(3));
        let mut cells = Vec::new();
        let mut at = 0.0;
        while at < 6_000.0 {
            let length = 3.0 + 14.0 * rng.unit();
            let busy: f64 = (0..100)
                .map(|i| at + length * f64::from(i) / 100.0)
                .filter(|t| t % 100.0 < 20.0)
                .count() as f64
                / 100.0;
            cells.push(cell(length, round_u64(length * (2.0 + 200.0 * busy))));
            at += length;
        }
        let found = find(&cells, &cells, IoDirection::Write).unwrap();
        let period = found.period_s.unwrap();
        assert!((period - 100.0).abs() < 6.0, "{period}");
    }

    #[test]
    fn chance_slopes_and_steady_loads_are_no_bursts() {
        let mut rng = Rng::new(Seed(1));
        let mut poisson = |mean: f64| {
            let (mut n, mut at) = (0, rng.exponential(1.0));
            while at < mean {
                n += 1;
                at += rng.exponential(1.0);
            }
            n
        };
        let random: Vec<ModelInterval> = (0..300).map(|_| cell(15.0, poisson(3.0))).collect();
        let slope: Vec<ModelInterval> = (0..300).map(|i| cell(15.0, 1_000 + 3 * i)).collect();
        let steady: Vec<ModelInterval> = (0..300).map(|_| cell(15.0, 500)).collect();
        for cells in [random, slope, steady, Vec::new()] {
            assert_eq!(find(&cells, &cells, IoDirection::Write), None);
        }
    }
}
