// SPDX-License-Identifier: Apache-2.0
//! The intervals of a disk as rows: every figure on the grid of its first counter.

#[cfg(feature = "parquet")]
mod table;

#[cfg(feature = "parquet")]
pub use table::IntervalTable;

use DiskMetric::{
    Active, Idle, InFlight, Ops, QueueLength, QueueTime, ReadBytes, ReadTime, Reads, TotalTime,
    WriteBytes, WriteTime, Writes,
};
use plimsoll_core::profile::IntervalRow;

use crate::cells::{IntervalCursor, is_plausible};
use plimsoll_trace::{CounterInterval, DiskMetric, DiskSeries, PointSample};

/// The counters that a row is made of.
const COUNTERS: [DiskMetric; 11] = [
    Reads, Writes, Ops, ReadBytes, WriteBytes, Active, Idle, QueueTime, TotalTime, ReadTime,
    WriteTime,
];

/// The intervals of a disk in order of time, those that do not count included: they are empty.
pub fn intervals(series: &DiskSeries) -> DiskIntervalRows<'_> {
    let samples = [QueueLength, InFlight];
    let samples = samples.iter().find_map(|metric| series.column(*metric));
    DiskIntervalRows {
        grid: series.grid().iter(),
        walks: COUNTERS.map(|metric| series.column(metric).map(IntervalCursor::of)),
        samples: samples.map_or(&[][..], |column| &column.samples),
    }
}

/// See [`intervals`].
#[derive(Debug)]
pub struct DiskIntervalRows<'a> {
    grid: std::slice::Iter<'a, CounterInterval>,
    /// By the order of [`COUNTERS`], of those that were recorded.
    walks: [Option<IntervalCursor<'a>>; COUNTERS.len()],
    /// Those that are not yet passed.
    samples: &'a [PointSample],
}

impl Iterator for DiskIntervalRows<'_> {
    type Item = IntervalRow;

    fn next(&mut self) -> Option<IntervalRow> {
        let interval = self.grid.next()?;
        let seconds = interval.seconds();
        let rises = self.walks.each_mut();
        let rises = rises.map(|walk| walk.as_mut()?.rise(interval));
        let [
            reads,
            writes,
            all_ops,
            read_bytes,
            write_bytes,
            active,
            idle,
            queue,
            total,
            read_time_s,
            write_time_s,
        ] = rises;
        let both = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        let idle = idle.map(|idle| (1.0 - idle / seconds).max(0.0));
        let active = active.map(|active| active / seconds);
        let integrated = queue.or(both(read_time_s, write_time_s)).or(total);
        let sampled = self.sampled(interval);
        let row = IntervalRow {
            from_unix_ns: interval.from_unix_ns,
            to_unix_ns: interval.to_unix_ns,
            ops: both(reads, writes).or(all_ops),
            reads,
            writes,
            read_bytes,
            write_bytes,
            busy: active.or(idle),
            queue: integrated.map(|sum| sum / seconds).or(sampled),
            read_time_s,
            write_time_s,
        };
        let ops = row.ops.unwrap_or_default();
        let bytes = [row.read_bytes, row.write_bytes];
        let bytes = bytes.into_iter().flatten().fold(0.0, f64::max);
        if interval.counts() && is_plausible(ops, bytes, seconds) {
            return Some(row);
        }
        Some(IntervalRow {
            from_unix_ns: row.from_unix_ns,
            to_unix_ns: row.to_unix_ns,
            ..IntervalRow::default()
        })
    }
}

impl DiskIntervalRows<'_> {
    /// Mean of the samples in an interval, its end included.
    fn sampled(&mut self, interval: &CounterInterval) -> Option<f64> {
        let before = |at: u64| self.samples.partition_point(|s| s.at_unix_ns <= at);
        let (from, to) = (before(interval.from_unix_ns), before(interval.to_unix_ns));
        let inside = &self.samples[from..to];
        self.samples = &self.samples[to..];
        let sum: f64 = inside.iter().map(|sample| sample.value).sum();
        (!inside.is_empty()).then(|| sum / inside.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_trace::{IntervalVerdict, MetricSeries};

    const SECOND: u64 = 1_000_000_000;

    fn column(metric: DiskMetric, rises: &[f64]) -> MetricSeries {
        let interval = |(at, rise): (u64, &f64)| CounterInterval {
            from_unix_ns: at * 10 * SECOND,
            to_unix_ns: (at + 1) * 10 * SECOND,
            difference: rise.max(0.0),
            verdict: match *rise < 0.0 {
                true => IntervalVerdict::Gap,
                false => IntervalVerdict::Kept,
            },
        };
        MetricSeries {
            metric,
            intervals: (0..).zip(rises).map(interval).collect(),
            samples: Vec::new(),
        }
    }

    fn rows(columns: Vec<MetricSeries>) -> Vec<IntervalRow> {
        let series = DiskSeries {
            disk: "d".into(),
            columns,
            damage: None,
            warnings: Vec::new(),
        };
        intervals(&series).collect()
    }

    #[test]
    fn figures_stand_beside_each_other_and_what_does_not_count_is_empty() {
        let sample = |at_s: u64, value| PointSample {
            at_unix_ns: at_s * SECOND,
            value,
            after_gap: false,
        };
        let found = rows(vec![
            column(DiskMetric::Reads, &[100.0, -1.0, 0.0, 1e15]),
            column(DiskMetric::Writes, &[50.0, 1.0, 0.0, 0.0]),
            column(DiskMetric::Idle, &[2.5, 1.0, 11.0, 1.0]),
            MetricSeries {
                metric: DiskMetric::QueueLength,
                intervals: Vec::new(),
                samples: vec![
                    sample(0, 9.0),
                    sample(5, 1.0),
                    sample(10, 2.0),
                    sample(30, 4.0),
                ],
            },
        ]);
        let first = found[0];
        assert_eq!((first.ops, first.busy), (Some(150.0), Some(0.75)));
        assert_eq!((first.queue, first.read_bytes), (Some(1.5), None));
        assert!(!found[1].is_known(), "a gap: {:?}", found[1]);
        assert_eq!((found[2].busy, found[2].queue), (Some(0.0), Some(4.0)));
        assert!(
            !found[3].is_known(),
            "no disk reads so fast: {:?}",
            found[3]
        );
    }

    #[test]
    fn a_total_alone_still_makes_rows_and_nothing_makes_none() {
        let found = rows(vec![column(DiskMetric::Ops, &[20.0])]);
        assert_eq!((found[0].ops, found[0].reads), (Some(20.0), None));
        assert!(rows(Vec::new()).is_empty());
    }
}
