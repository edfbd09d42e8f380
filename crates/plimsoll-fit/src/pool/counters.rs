// SPDX-License-Identifier: Apache-2.0
//! The sum of all devices over time as counters of one disk, so that what describes and fits a disk
//! describes and fits all of them.

use plimsoll_core::units::Nanos;
use plimsoll_trace::{
    CounterInterval, CounterReadState, CounterSource, DiskMetric, DiskSeries, IntervalVerdict,
    MetricSeries, RecordingCapabilities, RecordingDetail, RecordingInfo, RecordingTimes,
    RecordingWindow, TraceError, TraceOrder,
};

use super::steps::PoolSteps;

/// Name of the sum.
pub(super) const ALL: &str = "all disks";

const CARRIES: RecordingCapabilities = RecordingCapabilities {
    arrivals: RecordingDetail::Mean,
    resolution: Nanos::SECOND,
    direction: true,
    sizes: RecordingDetail::Mean,
    offsets: false,
    service: RecordingDetail::Absent,
    queue: RecordingDetail::Absent,
    order: TraceOrder::Started,
};

/// Counters of all devices together.
pub(super) struct PoolCounters {
    state: CounterReadState,
    /// Both ends of each step with load, and what was counted in it.
    intervals: Vec<(u64, u64, [f64; 4])>,
}

impl PoolCounters {
    /// `None` when nothing is known over time.
    pub(super) fn of(
        steps: &PoolSteps,
        step_s: u64,
        name: String,
        host: String,
    ) -> Option<PoolCounters> {
        let (from, to) = steps.span?;
        let step_ns = step_s.saturating_mul(1_000_000_000);
        let intervals = steps.steps.iter().filter_map(|(at, sums)| {
            // The first and the last step may be recorded in part.
            let begin = at.saturating_mul(step_ns);
            let end = begin.saturating_add(step_ns).min(to);
            let begin = begin.max(from);
            let [reads, read_bytes, writes, write_bytes, device_ns] = sums.map(|sum| sum as f64);
            let is_recorded = device_ns > 0.0 && begin < end;
            is_recorded.then_some((begin, end, [reads, writes, read_bytes, write_bytes]))
        });
        let intervals: Vec<(u64, u64, [f64; 4])> = intervals.collect();
        let span = RecordingWindow {
            from_unix_ns: intervals.first()?.0,
            to_unix_ns: intervals.last()?.1,
        };
        Some(PoolCounters {
            state: CounterReadState {
                times: RecordingTimes::new(&name, "UTC", span).0,
                about: RecordingInfo {
                    name,
                    format: "recordings together".into(),
                    host,
                    carries: CARRIES,
                },
                damage: None,
                warnings: Vec::new(),
            },
            intervals,
        })
    }

    fn column(&self, metric: DiskMetric, figure: usize) -> MetricSeries {
        let mut intervals = Vec::with_capacity(self.intervals.len());
        let mut until = None;
        for (from_unix_ns, to_unix_ns, figures) in &self.intervals {
            // Between steps in which nothing was recorded lies one gap.
            if let Some(until) = until.filter(|until| until < from_unix_ns) {
                intervals.push(CounterInterval {
                    from_unix_ns: until,
                    to_unix_ns: *from_unix_ns,
                    difference: 0.0,
                    verdict: IntervalVerdict::Gap,
                });
            }
            until = Some(*to_unix_ns);
            intervals.push(CounterInterval {
                from_unix_ns: *from_unix_ns,
                to_unix_ns: *to_unix_ns,
                difference: figures[figure],
                verdict: IntervalVerdict::Kept,
            });
        }
        MetricSeries {
            metric,
            intervals,
            samples: Vec::new(),
        }
    }
}

impl CounterSource for PoolCounters {
    fn state(&self) -> &CounterReadState {
        &self.state
    }

    fn disks(&self) -> Vec<String> {
        vec![ALL.into()]
    }

    fn several(
        &self,
        disks: &[String],
        _: &RecordingWindow,
    ) -> Result<Vec<DiskSeries>, TraceError> {
        let all = disks.iter().map(|disk| DiskSeries {
            disk: disk.clone(),
            columns: vec![
                self.column(DiskMetric::Reads, 0),
                self.column(DiskMetric::Writes, 1),
                self.column(DiskMetric::ReadBytes, 2),
                self.column(DiskMetric::WriteBytes, 3),
            ],
            damage: None,
            warnings: Vec::new(),
        });
        Ok(all.collect())
    }
}
