// SPDX-License-Identifier: Apache-2.0
//! The profile of a series: what a fit prints.

use plimsoll_core::model::{Cell, Direction, Model};
use plimsoll_core::num::ratio;
use plimsoll_core::profile::{
    Average, DirectionProfile, IntervalRates, Profile, Queue, QueueSource,
};

use crate::binned::{idc, quantile, sorted};
use crate::bursts::median_length_s;
use crate::cells::Cells;
use crate::series::{Averages, DiskMetric, DiskSeries};

/// Describes a series. `from` and `to` are its ends as people read them.
pub(crate) fn profile(
    series: &DiskSeries,
    cells: &Cells,
    model: &Model,
    (from, to): (String, String),
) -> Profile {
    let read = DirectionFigures::of(series, Direction::Read);
    let write = DirectionFigures::of(series, Direction::Write);
    let both = read.ops.stochastic + write.ops.stochastic;
    let ops_per_s = read.ops.time + write.ops.time;
    let utilisation = utilisation(series);
    let busy_ms_per_op = utilisation
        .filter(|_| ops_per_s > 0.0)
        .map(|busy| busy.time / ops_per_s * 1e3);
    Profile {
        disk: series.disk.clone(),
        from,
        to,
        intervals: cells.cells.len() as u64,
        intervals_dropped: cells.dropped,
        interval_s: median_length_s(&cells.cells),
        directions: vec![
            read.profile(Direction::Read, &cells.cells, both),
            write.profile(Direction::Write, &cells.cells, both),
        ],
        utilisation,
        queue: queue(series),
        busy_ms_per_op,
        bursts: model.bursts.clone(),
        phases: model.phases.clone(),
    }
}

struct DirectionFigures {
    ops: Average,
    bytes: Average,
}

impl DirectionFigures {
    fn of(series: &DiskSeries, direction: Direction) -> Self {
        let (ops, bytes) = match direction {
            Direction::Read => (DiskMetric::Reads, DiskMetric::ReadBytes),
            Direction::Write => (DiskMetric::Writes, DiskMetric::WriteBytes),
        };
        let average = |metric| series.averages(metric).map_or(ZERO, both);
        DirectionFigures {
            ops: average(ops),
            bytes: average(bytes),
        }
    }

    fn profile(&self, direction: Direction, cells: &[Cell], all_ops: f64) -> DirectionProfile {
        let rates: Vec<f64> = cells.iter().map(|c| c.ops_per_s(direction)).collect();
        let counts: Vec<f64> = cells.iter().map(|c| c.load(direction).ops as f64).collect();
        let ascending = sorted(&rates);
        DirectionProfile {
            direction,
            ops_per_s: self.ops,
            bytes_per_s: self.bytes,
            mean_size_bytes: Average {
                stochastic: ratio(self.bytes.stochastic, self.ops.stochastic),
                time: ratio(self.bytes.time, self.ops.time),
            },
            share: ratio(self.ops.stochastic, all_ops),
            rates: IntervalRates {
                median_per_s: quantile(&ascending, 0.5),
                p95_per_s: quantile(&ascending, 0.95),
                peak_per_s: quantile(&ascending, 1.0),
            },
            idc: idc(&counts, 1),
        }
    }
}

const ZERO: Average = Average {
    stochastic: 0.0,
    time: 0.0,
};

fn both(averages: Averages) -> Average {
    Average {
        stochastic: averages.stochastic,
        time: averages.time,
    }
}

fn utilisation(series: &DiskSeries) -> Option<Average> {
    let active = series.averages(DiskMetric::Active).map(both);
    active.or_else(|| {
        let idle = series.averages(DiskMetric::Idle)?;
        // Idle time is sampled a little later than the clock, so it may pass the interval.
        Some(Average {
            stochastic: (1.0 - idle.stochastic).max(0.0),
            time: (1.0 - idle.time).max(0.0),
        })
    })
}

/// The best queue figure there is: integrated by the kernel, by Little's law from the time that
/// finished operations took, or sampled at instants.
fn queue(series: &DiskSeries) -> Option<Queue> {
    let of = |metric| series.averages(metric).map(both);
    let by_direction = || {
        let (read, write) = (of(DiskMetric::ReadTime)?, of(DiskMetric::WriteTime)?);
        Some(Average {
            stochastic: read.stochastic + write.stochastic,
            time: read.time + write.time,
        })
    };
    let integrated = of(DiskMetric::QueueTime)
        .or_else(by_direction)
        .or_else(|| of(DiskMetric::TotalTime));
    if let Some(average) = integrated {
        return Some(Queue {
            average,
            source: QueueSource::Integrated,
            standard_error: None,
        });
    }
    let sampled = series
        .column(DiskMetric::QueueLength)
        .or_else(|| series.column(DiskMetric::InFlight))?;
    let averages = sampled.averages()?;
    let n = averages.count as f64;
    let squares: f64 = sampled
        .samples
        .iter()
        .map(|s| (s.value - averages.stochastic).powi(2))
        .sum();
    let standard_error = (averages.count > 1).then(|| (squares / (n - 1.0) / n).sqrt());
    Some(Queue {
        average: both(averages),
        source: QueueSource::Sampled,
        standard_error,
    })
}
