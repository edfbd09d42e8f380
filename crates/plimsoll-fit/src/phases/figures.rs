// SPDX-License-Identifier: Apache-2.0
//! The figures that phases are found by: logarithms of rates and mean sizes.

use std::ops::Range;

use plimsoll_core::model::{IoDirection, ModelInterval};
use plimsoll_core::num::ratio;

use crate::binned::{mean, quantile, sorted};

/// Least noise of a figure: logarithms that differ by less are the same to anybody.
const NOISE_MIN: f64 = 0.05;
/// Fewest operations of which a mean size says something: that of a few is chance.
const SIZE_OPS_MIN: u64 = 10;
/// Median of the magnitude of a standard normal variable.
const NORMAL_MEDIAN: f64 = 0.6745;

/// Logarithms by interval, `None` where the interval says nothing of the figure.
#[derive(Debug)]
pub(super) struct PhaseLogSeries {
    pub(super) logs: Vec<Option<f64>>,
    /// Standard deviation of what differs between neighbours by chance.
    pub(super) noise: f64,
    mean: f64,
}

impl PhaseLogSeries {
    /// The noise is that of differences of neighbours, of which the median ignores the jumps that
    /// are looked for.
    pub(super) fn new(logs: Vec<Option<f64>>) -> PhaseLogSeries {
        let pairs = logs.windows(2);
        let differences: Vec<f64> = pairs.filter_map(|p| Some((p[1]? - p[0]?).abs())).collect();
        let typical = quantile(&sorted(&differences), 0.5) / NORMAL_MEDIAN;
        let noise = if typical > 0.0 {
            typical
        } else {
            // More than half do not differ at all: a figure that is mostly still.
            mean(&differences.iter().map(|d| d * d).collect::<Vec<_>>()).sqrt()
        };
        let known: Vec<f64> = logs.iter().flatten().copied().collect();
        PhaseLogSeries {
            noise: (noise / 2f64.sqrt()).max(NOISE_MIN),
            mean: mean(&known),
            logs,
        }
    }

    /// Rates and mean sizes of one direction, in the intervals of which `tells` is true. The size
    /// is missing where there were hardly any operations.
    pub(super) fn of(
        cells: &[ModelInterval],
        direction: IoDirection,
        tells: &dyn Fn(usize) -> bool,
    ) -> [PhaseLogSeries; 2] {
        let rate = |cell: &ModelInterval| Some(cell.ops_per_s(direction).ln_1p());
        let size = |cell: &ModelInterval| {
            let load = cell.load(direction);
            (load.ops >= SIZE_OPS_MIN)
                .then(|| ratio(load.bytes as f64, load.ops as f64).max(1.0).ln())
        };
        let figure = |of: &dyn Fn(&ModelInterval) -> Option<f64>| {
            let cells = cells.iter().enumerate();
            PhaseLogSeries::new(
                cells
                    .map(|(at, cell)| tells(at).then(|| of(cell))?)
                    .collect(),
            )
        };
        [figure(&rate), figure(&size)]
    }

    /// Mean of a stretch; that of the whole where the stretch says nothing.
    pub(super) fn mean(&self, stretch: &Range<usize>) -> f64 {
        let known: Vec<f64> = self.logs[stretch.clone()]
            .iter()
            .flatten()
            .copied()
            .collect();
        match known.is_empty() {
            true => self.mean,
            false => mean(&known),
        }
    }
}
