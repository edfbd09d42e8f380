// SPDX-License-Identifier: Apache-2.0
//! Requests in flight where counters contain how long operations took together: by Little's law the
//! time of an interval's operations over its length.
//!
//! A load does not say how long its operations take. So that it alone is judged, each of them takes
//! as long as those of the same interval did.

use plimsoll_core::model::{FidelityCheck, ModelInterval};
use plimsoll_core::num::ratio;

use crate::binned::sorted;
use crate::cells::{IntervalCursor, IntervalGrid};
use crate::fidelity::distance;
use plimsoll_trace::{CounterInterval, DiskMetric, DiskSeries, IntervalVerdict};

/// As widely as dispersion: counters of time are the coarsest there are.
const GATE: f64 = 0.1;
const MEAN: &str = "requests in flight, mean (Little's law)";
const APART: &str = "requests in flight by interval, earth mover's distance in means";

/// Seconds that the operations of each interval took together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct QueueTimeSeries(Vec<f64>);

impl QueueTimeSeries {
    /// `None` where it was not counted, or seen at instants only.
    pub(super) fn of(series: &DiskSeries, found: &IntervalGrid) -> Option<QueueTimeSeries> {
        let has = |metrics: &&[DiskMetric]| metrics.iter().all(|m| series.column(*m).is_some());
        let ways: [&[DiskMetric]; 3] = [
            &[DiskMetric::QueueTime],
            &[DiskMetric::ReadTime, DiskMetric::WriteTime],
            &[DiskMetric::TotalTime],
        ];
        let columns = ways.iter().find(|way| has(way))?.iter();
        let mut walks: Vec<IntervalCursor<'_>> = columns
            .filter_map(|metric| series.column(*metric).map(IntervalCursor::of))
            .collect();
        let cells = found.starts_unix_ns.iter().zip(&found.cells);
        let seconds: Vec<f64> = cells
            .map(|(start, cell)| {
                let interval = CounterInterval {
                    from_unix_ns: *start,
                    to_unix_ns: start + cell.length.0,
                    difference: 0.0,
                    verdict: IntervalVerdict::Kept,
                };
                // Unknown times count as nothing, for the load as well.
                let rises = walks.iter_mut().filter_map(|walk| walk.rise(&interval));
                rises.sum()
            })
            .collect();
        // A kernel that does not account for times writes nothing but 0.
        (seconds.iter().sum::<f64>() > 0.0).then_some(QueueTimeSeries(seconds))
    }

    /// Those of some of the intervals.
    fn part(&self, from: usize, to: usize) -> &[f64] {
        &self.0[from.min(self.0.len())..to.min(self.0.len())]
    }

    /// How far a load is from the recording, gate by gate. Of one that is counted in other intervals
    /// only the mean is known.
    pub(super) fn compare(
        &self,
        recorded: &[ModelInterval],
        submitted: &[ModelInterval],
    ) -> Vec<FidelityCheck> {
        let took = self.part(0, recorded.len());
        let mean_s = ratio(took.iter().sum(), recorded.iter().map(ops).sum());
        if recorded.len() != submitted.len() {
            let rate = |cells: &[ModelInterval]| ratio(cells.iter().map(ops).sum(), seconds(cells));
            let (recorded, submitted) = (rate(recorded), rate(submitted));
            let line = FidelityCheck::relative(MEAN, recorded * mean_s, submitted * mean_s, GATE);
            return vec![line];
        }
        let all = took.iter().zip(recorded).zip(submitted);
        let of_load: Vec<f64> = all
            .map(|((took, recorded), submitted)| {
                let each_s = match ops(recorded) {
                    n if n > 0.0 => took / n,
                    _ => mean_s,
                };
                (took + (ops(submitted) - ops(recorded)) * each_s).max(0.0)
            })
            .collect();
        lines((took, recorded), (&of_load, submitted))
    }

    /// The first half of the recording against the second.
    pub(super) fn halves(&self, recorded: &[ModelInterval]) -> Vec<FidelityCheck> {
        let middle = recorded.len() / 2;
        // As many on either side.
        let (early, late) = (&recorded[..middle], &recorded[middle..2 * middle]);
        lines(
            (self.part(0, middle), early),
            (self.part(middle, 2 * middle), late),
        )
    }
}

fn ops(cell: &ModelInterval) -> f64 {
    (cell.read.ops + cell.write.ops) as f64
}

fn seconds(cells: &[ModelInterval]) -> f64 {
    cells.iter().map(|cell| cell.length.as_secs_f64()).sum()
}

/// Two rows of intervals as long as each other, each with the seconds of its operations.
fn lines(
    recorded: (&[f64], &[ModelInterval]),
    submitted: (&[f64], &[ModelInterval]),
) -> Vec<FidelityCheck> {
    let mean = |(took, cells): (&[f64], &[ModelInterval])| ratio(took.iter().sum(), seconds(cells));
    let by_interval = |(took, cells): (&[f64], &[ModelInterval])| {
        let each = took.iter().zip(cells);
        let each: Vec<f64> = each
            .map(|(s, cell)| s / cell.length.as_secs_f64())
            .collect();
        sorted(&each)
    };
    let (a, b) = (by_interval(recorded), by_interval(submitted));
    let apart: f64 = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).sum();
    let in_flight: f64 = a.iter().sum();
    vec![
        FidelityCheck::relative(MEAN, mean(recorded), mean(submitted), GATE),
        distance(APART, ratio(apart, in_flight), GATE),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::model::DirectionLoad;
    use plimsoll_core::units::Nanos;

    fn cells(ops: impl Iterator<Item = u64>) -> Vec<ModelInterval> {
        let cell = |ops| ModelInterval {
            length: Nanos::SECOND,
            read: DirectionLoad {
                ops,
                bytes: ops * 512,
            },
            write: DirectionLoad::default(),
        };
        ops.map(cell).collect()
    }

    fn passed(lines: &[FidelityCheck]) -> Vec<bool> {
        lines.iter().map(FidelityCheck::passed).collect()
    }

    #[test]
    fn a_load_that_is_shifted_to_slow_intervals_is_seen() {
        // 100 operations a second, of 10 ms; every other second of 40 ms.
        let recorded = cells((0..40).map(|_| 100));
        let queue = QueueTimeSeries(
            (0..40)
                .map(|i| if i % 2 == 0 { 1.0 } else { 4.0 })
                .collect(),
        );
        assert_eq!(passed(&queue.compare(&recorded, &recorded)), [true, true]);
        let shifted = cells((0..40).map(|i| if i % 2 == 0 { 50 } else { 150 }));
        assert_eq!(passed(&queue.compare(&recorded, &shifted)), [false, false]);
        let spread = cells((0..40).map(|i| if i % 4 < 2 { 70 } else { 130 }));
        assert_eq!(passed(&queue.compare(&recorded, &spread)), [true, false]);
        // Another length: the mean alone.
        let longer = cells((0..80).map(|_| 100));
        assert_eq!(passed(&queue.compare(&recorded, &longer)), [true]);
        assert_eq!(passed(&queue.halves(&recorded)), [true, true]);
    }
}
