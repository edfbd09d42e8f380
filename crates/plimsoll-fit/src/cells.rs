// SPDX-License-Identifier: Apache-2.0
//! Recorded columns onto one grid of cells.
//!
//! The grid is that of the read counter. A logger may have written the other counters in another
//! record, milliseconds or whole intervals apart; their running sums are then interpolated at the
//! grid's edges, which is exact where the edges agree. A cell in which any of the four counters
//! has no counted interval for more than a tenth of its time is dropped. An interval that does not
//! show when its load came becomes cells of the usual length, with the load spread evenly.

use plimsoll_core::model::{DirectionLoad, ModelInterval};
use plimsoll_core::num::{floor_u64, round_u64};
use plimsoll_core::units::Nanos;

use crate::binned::{quantile, sorted};
use crate::bursts::median_length_s;
use plimsoll_trace::{CounterInterval, DiskMetric, DiskSeries, IntervalVerdict, MetricSeries};

/// The four counters without which there are no cells.
pub(crate) const NEEDED: [DiskMetric; 4] = [
    DiskMetric::Reads,
    DiskMetric::Writes,
    DiskMetric::ReadBytes,
    DiskMetric::WriteBytes,
];

/// Largest share of a cell for which a counter may be unknown: a logger's groups are milliseconds
/// apart, a missing interval is the whole cell.
const UNKNOWN_SHARE_MAX: f64 = 0.1;
/// More operations or bytes per second than any disk; a counter that jumps so far is damaged.
const OPS_PER_S_MAX: f64 = 1e9;
const BYTES_PER_S_MAX: f64 = 1e14;

/// Cells and what became of the rest.
#[derive(Debug, Default)]
pub(crate) struct IntervalGrid {
    pub(crate) cells: Vec<ModelInterval>,
    /// When each of them starts, nanoseconds since 1970.
    pub(crate) starts_unix_ns: Vec<u64>,
    /// Intervals left out for gaps, resets or wraps.
    pub(crate) dropped: u64,
    /// Of these, those in which a counter rose by more than any disk can do.
    pub(crate) implausible: u64,
    /// Intervals that the cells are made of.
    pub(crate) intervals: u64,
    /// The time of those left out between which the recorder was not interrupted.
    pub(crate) unused: Nanos,
}

impl IntervalGrid {
    /// How long one of them is, as a rule.
    pub(crate) fn step(&self) -> Nanos {
        Nanos::from_secs_f64(median_length_s(&self.cells))
    }
}

/// Whether a disk can do this number of operations and move this number of bytes in the time.
pub(crate) fn is_plausible(ops: f64, bytes: f64, seconds: f64) -> bool {
    ops <= OPS_PER_S_MAX * seconds && bytes <= BYTES_PER_S_MAX * seconds
}

/// The series on the grid of its read counter, or the name of the counter that is missing.
pub(crate) fn cells(series: &DiskSeries) -> Result<IntervalGrid, &'static str> {
    let is_missing = |metric: &&DiskMetric| series.column(**metric).is_none();
    match NEEDED.iter().find(is_missing) {
        Some(metric) => Err(metric.pcp_name()),
        None => Ok(known_cells(series)),
    }
}

/// The length of the cells that a long interval is split into; `None` where long ones are most of the
/// time, of which little would be recorded.
pub(crate) fn long_step(grid: &[CounterInterval]) -> Option<f64> {
    let lengths = |verdict| {
        let alike = grid.iter().filter(move |i| i.verdict == verdict);
        alike.map(CounterInterval::seconds).collect::<Vec<f64>>()
    };
    let (kept, long) = (
        lengths(IntervalVerdict::Kept),
        lengths(IntervalVerdict::Long),
    );
    let is_known = long.iter().sum::<f64>() <= kept.iter().sum();
    (is_known && !kept.is_empty()).then(|| quantile(&sorted(&kept), 0.5))
}

/// The series on the grid of its first counter; what was not recorded counts as nothing.
pub(crate) fn known_cells(series: &DiskSeries) -> IntervalGrid {
    let mut walks = NEEDED.map(|metric| series.column(metric).map(IntervalCursor::of));
    let step = long_step(series.grid());
    // Fractions of an operation at interpolated edges are carried on, not rounded away.
    let mut owed = [0.0; 4];
    let mut result = IntervalGrid::default();
    for interval in series.grid() {
        let rises = walks.each_mut().map(|walk| match walk {
            Some(walk) => walk.rise(interval),
            None => Some(0.0),
        });
        let parts = match (interval.verdict, step) {
            (IntervalVerdict::Kept, _) => 1,
            (IntervalVerdict::Long, Some(step)) => floor_u64(interval.seconds() / step),
            _ => 0,
        };
        let known = match rises {
            [Some(a), Some(b), Some(c), Some(d)] if parts > 0 => Some([a, b, c, d]),
            _ => None,
        };
        let is_plausible = |[reads, writes, read_bytes, write_bytes]: [f64; 4]| {
            let (ops, bytes) = (reads.max(writes), read_bytes.max(write_bytes));
            is_plausible(ops, bytes, interval.seconds())
        };
        match known {
            Some(rises) if is_plausible(rises) => result.push(interval, rises, parts, &mut owed),
            unusable => {
                result.dropped += 1;
                result.implausible += u64::from(unusable.is_some());
                if interval.verdict != IntervalVerdict::Gap {
                    result.unused.0 += interval.to_unix_ns - interval.from_unix_ns;
                }
            }
        }
    }
    result
}

impl IntervalGrid {
    /// Adds an interval, split into `parts` cells of one length.
    fn push(
        &mut self,
        interval: &CounterInterval,
        rises: [f64; 4],
        parts: u64,
        owed: &mut [f64; 4],
    ) {
        let length = interval.to_unix_ns - interval.from_unix_ns;
        let edge = |part: u64| length / parts * part + length % parts * part / parts;
        self.intervals += 1;
        for part in 0..parts {
            let mut figures = [0; 4];
            for ((figure, owed), rise) in figures.iter_mut().zip(owed.iter_mut()).zip(rises) {
                *owed += rise / parts as f64;
                *figure = round_u64(*owed);
                *owed -= *figure as f64;
            }
            let [reads, writes, read_bytes, write_bytes] = figures;
            let load = |ops, bytes| DirectionLoad { ops, bytes };
            self.starts_unix_ns.push(interval.from_unix_ns + edge(part));
            self.cells.push(ModelInterval {
                length: Nanos(edge(part + 1) - edge(part)),
                read: load(reads, read_bytes),
                write: load(writes, write_bytes),
            });
        }
    }
}

/// A column read from front to back in step with the grid.
#[derive(Debug)]
pub(crate) struct IntervalCursor<'a> {
    intervals: &'a [CounterInterval],
    next: usize,
}

impl<'a> IntervalCursor<'a> {
    pub(crate) fn of(column: &'a MetricSeries) -> Self {
        IntervalCursor {
            intervals: &column.intervals,
            next: 0,
        }
    }

    /// How much the column rose during `cell`; `None` when that is unknown for too much of it.
    pub(crate) fn rise(&mut self, cell: &CounterInterval) -> Option<f64> {
        let (mut rise, mut known_ns) = (0.0, 0u64);
        while let Some(interval) = self.intervals.get(self.next) {
            let from = interval.from_unix_ns.max(cell.from_unix_ns);
            let to = interval.to_unix_ns.min(cell.to_unix_ns);
            let overlap_ns = to.saturating_sub(from);
            if overlap_ns > 0 && interval.counts() {
                let length_ns = interval.to_unix_ns - interval.from_unix_ns;
                rise += if overlap_ns == length_ns {
                    interval.difference
                } else {
                    interval.difference * (overlap_ns as f64 / length_ns as f64)
                };
                known_ns += overlap_ns;
            }
            if interval.to_unix_ns > cell.to_unix_ns {
                break;
            }
            self.next += 1;
        }
        let unknown = 1.0 - known_ns as f64 / (cell.to_unix_ns - cell.from_unix_ns) as f64;
        (unknown <= UNKNOWN_SHARE_MAX).then_some(rise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_trace::IntervalVerdict;

    fn column(metric: DiskMetric, edges_s: &[f64], rises: &[f64]) -> MetricSeries {
        let interval = |(edge, rise): (&[f64], &f64)| CounterInterval {
            from_unix_ns: round_u64(edge[0] * 1e9),
            to_unix_ns: round_u64(edge[1] * 1e9),
            difference: rise.max(0.0),
            verdict: if *rise < 0.0 {
                IntervalVerdict::Gap
            } else {
                IntervalVerdict::Kept
            },
        };
        MetricSeries {
            metric,
            intervals: edges_s.windows(2).zip(rises).map(interval).collect(),
            samples: Vec::new(),
        }
    }

    fn series(columns: Vec<MetricSeries>) -> DiskSeries {
        DiskSeries {
            disk: "d".into(),
            columns,
            damage: None,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn counters_on_another_grid_are_interpolated_and_nothing_is_lost() {
        let edges = [0.0, 10.0, 20.0, 30.0];
        let shifted = [0.005, 15.005, 30.005];
        let found = cells(&series(vec![
            column(DiskMetric::Reads, &edges, &[10.0, 20.0, 30.0]),
            column(DiskMetric::Writes, &shifted, &[30.0, 60.0]),
            column(DiskMetric::ReadBytes, &edges, &[1e4, 2e4, 3e4]),
            column(DiskMetric::WriteBytes, &shifted, &[3e5, 6e5]),
        ]))
        .unwrap();
        let writes: Vec<u64> = found.cells.iter().map(|c| c.write.ops).collect();
        assert_eq!(writes, [20, 30, 40]);
        assert_eq!(
            found.cells[2].read,
            DirectionLoad {
                ops: 30,
                bytes: 30_000
            }
        );
        assert_eq!(found.dropped, 0);
    }

    #[test]
    fn a_long_interval_is_spread_unless_long_ones_are_most_of_the_time() {
        for (ends, spread) in [(20_i32, true), (12, false)] {
            let edges: Vec<f64> = (0..=ends)
                .map(|i| f64::from(i) + f64::from(i / 10) * 14.5)
                .collect();
            let mut reads = column(DiskMetric::Reads, &edges, &[10.0; 20]);
            let long = reads
                .intervals
                .iter_mut()
                .find(|i| i.seconds() > 2.0)
                .unwrap();
            long.verdict = IntervalVerdict::Long;
            long.difference = 31.0;
            let found = known_cells(&series(vec![reads]));
            let ops: u64 = found.cells.iter().map(|cell| cell.read.ops).sum();
            let all_s: f64 = found
                .cells
                .iter()
                .map(|cell| cell.length.as_secs_f64())
                .sum();
            let all = u64::from(ends.unsigned_abs());
            if spread {
                assert_eq!(
                    (ops, found.intervals, found.dropped),
                    (10 * (all - 1) + 31, all, 0)
                );
                assert_eq!(found.cells.len() as u64, all - 1 + 15);
                assert!((all_s - edges[edges.len() - 1]).abs() < 1e-9);
            } else {
                assert_eq!(
                    (ops, found.intervals, found.dropped),
                    (10 * (all - 1), all - 1, 1)
                );
                assert_eq!(found.unused, Nanos(15_500_000_000));
            }
        }
    }

    #[test]
    fn a_gap_in_any_counter_drops_the_cell_and_a_missing_counter_is_named() {
        let edges = [0.0, 10.0, 20.0, 30.0];
        let good = [1.0, 1.0, 1.0];
        let mut all = series(vec![
            column(DiskMetric::Reads, &edges, &good),
            column(DiskMetric::Writes, &edges, &good),
            column(DiskMetric::ReadBytes, &edges, &[512.0, -1.0, 512.0]),
            column(DiskMetric::WriteBytes, &edges, &[512.0, 512.0, 1e30]),
        ]);
        let found = cells(&all).unwrap();
        assert_eq!((found.cells.len(), found.dropped), (1, 2));
        assert_eq!(found.implausible, 1);
        all.columns.pop();
        assert_eq!(cells(&all).unwrap_err(), "disk.dev.write_bytes");
    }
}
