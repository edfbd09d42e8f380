// SPDX-License-Identifier: Apache-2.0
//! The profile of a series: what a fit and a description print.

use DiskMetric::{
    Active, DiscardBytes, Discards, Flushes, Idle, InFlight, Ops, QueueLength, QueueTime,
    ReadBytes, ReadMerges, ReadTime, Reads, TotalTime, WriteBytes, WriteMerges, WriteTime, Writes,
};
use plimsoll_core::model::{BurstPattern, IoDirection, ModelInterval, ModelPhase};
use plimsoll_core::num::ratio;
use plimsoll_core::profile::{
    DeviceKind, DeviceLoad, DirectionProfile, DiskProfile, IntervalRates, OtherProfile,
    ProfileAverage, ProfileDownsampler, ProfilePoint, QueueDepthProfile, QueueSource,
};

use crate::binned::{idc, quantile, sorted};
use crate::bursts::median_length_s;
use crate::cells::IntervalGrid;
use crate::intervals::intervals;
use plimsoll_trace::{DiskAverages, DiskMetric, DiskSeries, MetricAverages};

/// Describes a series. `from` and `to` are its ends as people read them.
pub(crate) fn profile(
    series: &DiskSeries,
    cells: &IntervalGrid,
    (bursts, phases): (&[BurstPattern], &[ModelPhase]),
    (from, to): (String, String),
) -> DiskProfile {
    let averages = &DiskAverages::of(series);
    let figures = IoDirection::BOTH.map(|direction| DirectionFigures::of(averages, direction));
    let figures = || figures.iter().flatten();
    let ops_per_s = total(averages, [Reads, Writes]).or(averages.figure(Ops).map(both));
    let utilisation = utilisation(averages);
    let busy_ms_per_op = utilisation
        .zip(ops_per_s.filter(|ops| ops.time > 0.0))
        .map(|(busy, ops)| busy.time / ops.time * 1e3);
    DiskProfile {
        disk: series.disk.clone(),
        from,
        to,
        intervals: cells.intervals,
        intervals_dropped: cells.dropped,
        interval_s: median_length_s(&cells.cells),
        ops_per_s,
        bytes_per_s: total(averages, [ReadBytes, WriteBytes]),
        directions: figures()
            .map(|f| f.profile(&cells.cells, ops_per_s))
            .collect(),
        others: others(averages),
        utilisation,
        queue: integrated(averages).or_else(|| sampled(series)),
        busy_ms_per_op,
        bursts: bursts.to_vec(),
        phases: phases.to_vec(),
        points: points(series),
        requests: None,
    }
}

/// The sum of two figures; `None` when one of them was not recorded.
fn total(averages: &DiskAverages, metrics: [DiskMetric; 2]) -> Option<ProfileAverage> {
    let [a, b] = metrics.map(|metric| averages.figure(metric).map(both));
    let (a, b) = (a?, b?);
    Some(ProfileAverage {
        stochastic: a.stochastic + b.stochastic,
        time: a.time + b.time,
    })
}

/// Counters that are not played, in the words of reports.
pub(crate) const OTHERS: [(DiskMetric, &str); 5] = [
    (Flushes, "flushes"),
    (Discards, "discards"),
    (DiscardBytes, "discarded bytes"),
    (ReadMerges, "merged reads"),
    (WriteMerges, "merged writes"),
];

/// Those of them that there were.
fn others(averages: &DiskAverages) -> Vec<OtherProfile> {
    let found = OTHERS.iter().filter_map(|(metric, what)| {
        let per_s = averages.figure(*metric).map(both)?;
        (per_s.time > 0.0).then(|| OtherProfile {
            what: (*what).into(),
            per_s,
            is_bytes: metric.is_bytes(),
        })
    });
    found.collect()
}

/// The series over time, for a chart.
fn points(series: &DiskSeries) -> Vec<ProfilePoint> {
    let (Some(first), Some(last)) = (series.grid().first(), series.grid().last()) else {
        return Vec::new();
    };
    let most = DiskProfile::POINTS_MAX.min(series.grid().len());
    let mut points = ProfileDownsampler::new(first.from_unix_ns, last.to_unix_ns, most);
    intervals(series).for_each(|row| points.add(&row));
    points.finish()
}

/// The load of a device as a whole. Its layer is set by those who know its neighbours.
pub(crate) fn load(averages: &DiskAverages) -> DeviceLoad {
    let time = |metric| averages.figure(metric).map(|figure| figure.time);
    let sum = |a, b| total(averages, [a, b]).map(|sum| sum.time);
    let told = sum(Reads, Writes);
    let ops_per_s = told.or(time(Ops));
    let some_ops = ops_per_s.filter(|ops| *ops > 0.0);
    let quotient = |part: Option<f64>| Some(part? / some_ops?);
    let took = sum(ReadTime, WriteTime).or(time(TotalTime));
    let queue = integrated(averages).map(|queue| queue.average.time);
    DeviceLoad {
        name: averages.disk.clone(),
        layer: DeviceKind::Disk,
        counted_again: false,
        ops_per_s,
        read_share: quotient(time(Reads)),
        bytes_per_s: sum(ReadBytes, WriteBytes),
        busy: utilisation(averages).map(|busy| busy.time),
        queue,
        response_ms: quotient(took.or(queue)).map(|seconds| seconds * 1e3),
    }
}

struct DirectionFigures {
    direction: IoDirection,
    ops: Option<ProfileAverage>,
    bytes: Option<ProfileAverage>,
}

impl DirectionFigures {
    /// `None` when nothing of this direction was recorded.
    fn of(averages: &DiskAverages, direction: IoDirection) -> Option<Self> {
        let (ops, bytes) = match direction {
            IoDirection::Read => (Reads, ReadBytes),
            IoDirection::Write => (Writes, WriteBytes),
        };
        let figure = |metric| averages.figure(metric).map(both);
        let figures = DirectionFigures {
            direction,
            ops: figure(ops),
            bytes: figure(bytes),
        };
        (figures.ops.is_some() || figures.bytes.is_some()).then_some(figures)
    }

    fn profile(
        &self,
        cells: &[ModelInterval],
        all_ops: Option<ProfileAverage>,
    ) -> DirectionProfile {
        let direction = self.direction;
        let rates: Vec<f64> = cells.iter().map(|c| c.ops_per_s(direction)).collect();
        let counts: Vec<f64> = cells.iter().map(|c| c.load(direction).ops as f64).collect();
        let ascending = sorted(&rates);
        let some_ops = self.ops.filter(|ops| ops.time > 0.0);
        DirectionProfile {
            direction,
            ops_per_s: self.ops,
            bytes_per_s: self.bytes,
            mean_size_bytes: self.bytes.zip(some_ops).map(|(bytes, ops)| ProfileAverage {
                stochastic: ratio(bytes.stochastic, ops.stochastic),
                time: ratio(bytes.time, ops.time),
            }),
            share: self
                .ops
                .zip(all_ops)
                .map(|(ops, all)| ratio(ops.stochastic, all.stochastic)),
            rates: self.ops.map(|_| IntervalRates {
                median_per_s: quantile(&ascending, 0.5),
                p95_per_s: quantile(&ascending, 0.95),
                peak_per_s: quantile(&ascending, 1.0),
            }),
            idc: self.ops.and_then(|_| idc(&counts, 1)),
        }
    }
}

fn both(averages: MetricAverages) -> ProfileAverage {
    ProfileAverage {
        stochastic: averages.stochastic,
        time: averages.time,
    }
}

fn utilisation(averages: &DiskAverages) -> Option<ProfileAverage> {
    let active = averages.figure(Active).map(both);
    active.or_else(|| {
        let idle = averages.figure(Idle)?;
        // Idle time is sampled a little later than the clock, so it may pass the interval.
        Some(ProfileAverage {
            stochastic: (1.0 - idle.stochastic).max(0.0),
            time: (1.0 - idle.time).max(0.0),
        })
    })
}

/// The best queue figure there is: integrated by the kernel, or by Little's law from the time that
/// finished operations took.
fn integrated(averages: &DiskAverages) -> Option<QueueDepthProfile> {
    let of = |metric| averages.figure(metric).map(both);
    let by_direction = || total(averages, [ReadTime, WriteTime]);
    let average = of(QueueTime)
        .or_else(by_direction)
        .or_else(|| of(TotalTime));
    average.map(|average| QueueDepthProfile {
        average,
        source: QueueSource::Integrated,
        standard_error: None,
    })
}

/// The queue as it was seen at instants, where nothing better was recorded.
fn sampled(series: &DiskSeries) -> Option<QueueDepthProfile> {
    let sampled = series
        .column(QueueLength)
        .or_else(|| series.column(InFlight))?;
    let averages = sampled.averages()?;
    let n = averages.count as f64;
    let squares: f64 = sampled
        .samples
        .iter()
        .map(|s| (s.value - averages.stochastic).powi(2))
        .sum();
    let standard_error = (averages.count > 1).then(|| (squares / (n - 1.0) / n).sqrt());
    Some(QueueDepthProfile {
        average: both(averages),
        source: QueueSource::Sampled,
        standard_error,
    })
}
