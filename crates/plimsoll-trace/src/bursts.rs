// SPDX-License-Identifier: Apache-2.0
//! Bursts: intervals much busier than the rest, and whether they come back periodically.

use plimsoll_core::model::{Bursts, Cell, Direction};
use plimsoll_core::num::{ratio, round_u64, to_usize};

use crate::binned::{autocorrelation, idc, mean, otsu, quantile, sorted};

/// Fewer intervals than this show no pattern.
const INTERVALS_MIN: usize = 12;
/// Least ratio of the mean rates inside and outside: less is a slope, not a burst.
const RATIO_MIN: f64 = 3.0;
/// Most of the time that bursts may take: beyond, the quiet is the exception.
const DUTY_MAX: f64 = 0.5;
/// Least dispersion of the counts: below, chance alone makes the difference (Poisson has 1).
const IDC_MIN: f64 = 2.0;
/// How far the number of bursts may be from what the period asks for.
const COUNT_TOLERANCE: f64 = 0.25;
/// Most lags searched for a period: a day of minutes in a recording of three.
const LAGS_MAX: usize = 2_000;
/// Most products the search may form, so that it stays below a second on years of intervals; its
/// longest lag shrinks instead.
const PRODUCTS_MAX: usize = 200_000_000;

/// The bursts of one direction, if its intervals fall into two well separated classes.
///
/// The threshold is Otsu's on the logarithm of the rates, which separates "something" from "next
/// to nothing". Where the rates have a period and that threshold gives a number of bursts the
/// period does not allow (a second, smaller activity passes it), Otsu's on the plain rates is
/// taken, which separates the highest.
pub(crate) fn find(cells: &[Cell], direction: Direction) -> Option<Bursts> {
    if cells.len() < INTERVALS_MIN {
        return None;
    }
    let counts: Vec<f64> = cells.iter().map(|c| c.load(direction).ops as f64).collect();
    if idc(&counts, 1)? < IDC_MIN {
        return None;
    }
    let rates: Vec<f64> = cells.iter().map(|c| c.ops_per_s(direction)).collect();
    let logs: Vec<f64> = rates.iter().map(|rate| rate.ln_1p()).collect();
    let classes = |threshold: f64| classify(cells, direction, threshold);
    let wide = otsu(&logs).map(f64::exp_m1).and_then(classes);
    let grid = Grid::of(cells, direction);
    let Some(lag) = period(&grid.rates) else {
        return wide;
    };
    let expected = grid.rates.len() as f64 / lag as f64;
    let fits = |found: &Bursts| (found.count as f64 / expected - 1.0).abs() <= COUNT_TOLERANCE;
    let narrow = || otsu(&rates).and_then(classes).filter(fits);
    let mut found = match wide {
        Some(wide) if fits(&wide) => wide,
        other => narrow().or(other)?,
    };
    found.period_s = Some(lag as f64 * grid.step_s);
    found.autocorrelation = Some(autocorrelation(&grid.rates, lag));
    Some(found)
}

fn classify(cells: &[Cell], direction: Direction, threshold_per_s: f64) -> Option<Bursts> {
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
    let separated = busy > 0.0 && busy >= RATIO_MIN * quiet && duty <= DUTY_MAX;
    separated.then(|| Bursts {
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
pub(crate) struct Grid {
    /// Operations per second in each step.
    pub(crate) rates: Vec<f64>,
    /// Length of a step in seconds.
    pub(crate) step_s: f64,
}

impl Grid {
    /// Steps of about the median length that divide the whole evenly. A cell's operations are
    /// spread over the steps it overlaps; where every cell is a step, that is the cell itself.
    pub(crate) fn of(cells: &[Cell], direction: Direction) -> Grid {
        let lengths: Vec<f64> = cells.iter().map(|c| c.length.as_secs_f64()).collect();
        let total: f64 = lengths.iter().sum();
        let median = median_length_s(cells);
        // Timer jitter moves edges by milliseconds; resampling would only smear neighbours.
        let regular = lengths.iter().all(|l| (l / median - 1.0).abs() < 0.1);
        let n = to_usize(round_u64(ratio(total, median))).max(1);
        if regular || n > 4 * cells.len() {
            return Grid {
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
        Grid {
            rates: ops.into_iter().map(|ops| ops / step_s).collect(),
            step_s,
        }
    }
}

/// Median length of the cells in seconds.
pub(crate) fn median_length_s(cells: &[Cell]) -> f64 {
    let lengths: Vec<f64> = cells.iter().map(|c| c.length.as_secs_f64()).collect();
    quantile(&sorted(&lengths), 0.5)
}

/// The lag at which the series repeats: the first of the highest peaks of its autocorrelation
/// that stands out of twice the band of white noise, rises from a valley deeper than the band,
/// and comes back at the double lag.
fn period(rates: &[f64]) -> Option<usize> {
    let n = rates.len();
    let lags = (n / 3).min(LAGS_MAX).min(PRODUCTS_MAX / n.max(1));
    let centred: Vec<f64> = {
        let mean = mean(rates);
        rates.iter().map(|r| r - mean).collect()
    };
    let acf: Vec<f64> = (0..=lags).map(|k| autocorrelation(&centred, k)).collect();
    let band = 1.96 / (n as f64).sqrt();
    let is_peak = |k: usize| k >= 1 && k < lags && acf[k] > acf[k - 1] && acf[k] >= acf[k + 1];
    let repeats = |k: usize| (2 * k - 1..=2 * k + 1).any(|k| is_peak(k) && acf[k] > band);
    let mut peaks = Vec::new();
    let mut valley = 1.0f64;
    for (k, value) in acf.iter().enumerate().take(lags / 2).skip(1) {
        valley = valley.min(*value);
        if is_peak(k) && *value > 2.0 * band && value - valley > band && repeats(k) {
            peaks.push(k);
        }
    }
    let highest = peaks.iter().map(|k| acf[*k]).fold(0.0, f64::max);
    // Multiples of the period peak nearly as high as the period itself.
    peaks.into_iter().find(|k| acf[*k] >= 0.8 * highest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::model::Load;
    use plimsoll_core::rng::{Rng, Seed};
    use plimsoll_core::units::Nanos;

    fn cell(length_s: f64, writes: u64) -> Cell {
        Cell {
            length: Nanos::from_secs_f64(length_s),
            read: Load::default(),
            write: Load {
                ops: writes,
                bytes: writes * 4096,
            },
        }
    }

    #[test]
    fn periodic_bursts_are_found_with_their_period_duty_and_share() {
        let cells: Vec<Cell> = (0..400)
            .map(|i| cell(15.0, if i % 20 < 2 { 3_000 + i } else { 100 + i % 7 }))
            .collect();
        let found = find(&cells, Direction::Write).unwrap();
        assert_eq!(found.count, 20);
        assert!((found.period_s.unwrap() - 300.0).abs() < 0.01);
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
        let found = find(&cells, Direction::Write).unwrap();
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
        let random: Vec<Cell> = (0..300).map(|_| cell(15.0, poisson(3.0))).collect();
        let slope: Vec<Cell> = (0..300).map(|i| cell(15.0, 1_000 + 3 * i)).collect();
        let steady: Vec<Cell> = (0..300).map(|_| cell(15.0, 500)).collect();
        for cells in [random, slope, steady, Vec::new()] {
            assert_eq!(find(&cells, Direction::Write), None);
        }
    }
}
