// SPDX-License-Identifier: Apache-2.0
//! A recording in whole numbers.

use std::path::Path;

use plimsoll_core::num::round_u64;
use plimsoll_core::partial::{
    CounterTotal, CounterTotals, DeviceSummary, PoolSettings, RecordingSummary,
};
use plimsoll_core::profile::DeviceClassification;
use plimsoll_core::units::Nanos;
use plimsoll_trace::{
    CounterSource, DiskAverages, DiskMetric, DiskSeries, OpenRecording, TraceError, each_series,
};

use super::COUNTED;
use super::steps::StepCounter;
use crate::cells::{NEEDED, known_cells};
use crate::intervals::intervals;

/// A sum of this or more is left out: no disk does that much.
const SUM_MAX: f64 = (1u64 << 60) as f64;

/// The summary of a recording, its digest still empty. `path` is where it lies.
///
/// # Errors
/// When it cannot be read, lacks the disk that the settings name, or nothing of it counts inside
/// their window.
pub fn summarise(
    path: &Path,
    recording: OpenRecording,
    settings: &PoolSettings,
) -> Result<RecordingSummary, TraceError> {
    let mut summary = match recording {
        OpenRecording::Counters(counters) => of_counters(&*counters, settings)?,
        OpenRecording::Requests(requests) => super::traces::of_requests(path, requests, settings)?,
    };
    summary.shorten();
    Ok(summary)
}

fn of_counters(
    counters: &dyn CounterSource,
    settings: &PoolSettings,
) -> Result<RecordingSummary, TraceError> {
    let about = counters.about();
    let times = counters.times();
    let window = times.window(settings.from.as_deref(), settings.to.as_deref())?;
    let (chosen, counted_again) = chosen(counters, settings)?;
    let mut summary = RecordingSummary {
        name: about.name.clone(),
        format: about.format.clone(),
        host: about.host.clone(),
        has_date: times.has_date(),
        counted_again,
        notes: counters
            .damage()
            .map(ToString::to_string)
            .into_iter()
            .collect(),
        ..RecordingSummary::default()
    };
    summary.notes.extend_from_slice(counters.warnings());
    let mut steps = StepCounter::new(settings.step_s);
    let mut ends = None;
    each_series(counters, &chosen, &window, |series| {
        device(&mut summary, &mut steps, &mut ends, &series)
    })?;
    let kept: u64 = summary.devices.iter().map(|device| device.intervals).sum();
    let Some((from, to)) = ends.filter(|_| kept > 0) else {
        return Err(nothing(counters, &summary, &chosen));
    };
    (summary.from_unix_ns, summary.to_unix_ns) = (from, to);
    summary.steps = steps.finish();
    Ok(summary)
}

/// The disks that count, and how many are left out as layers above others.
fn chosen(
    counters: &dyn CounterSource,
    settings: &PoolSettings,
) -> Result<(Vec<String>, u64), TraceError> {
    let disks = counters.disks();
    if let Some(disk) = &settings.disk
        && !disks.is_empty()
    {
        return match disks.contains(disk) {
            true => Ok((vec![disk.clone()], 0)),
            false => Err(counters.no_disk(disk)),
        };
    }
    let sides = DeviceClassification::of(&disks, &|name| counters.made(name));
    let all = disks.len();
    let counts = disks.into_iter().zip(sides);
    let counts = counts.filter(|(_, side)| !side.counted_again);
    let chosen: Vec<String> = counts.map(|(disk, _)| disk).collect();
    if chosen.is_empty() {
        return Err(TraceError::NoDisks {
            recording: counters.about().name.clone(),
            damage: counters.damage().cloned(),
        });
    }
    let again = (all - chosen.len()) as u64;
    Ok((chosen, again))
}

fn nothing(
    counters: &dyn CounterSource,
    summary: &RecordingSummary,
    chosen: &[String],
) -> TraceError {
    TraceError::TooFew {
        disk: chosen.first().cloned().unwrap_or_default(),
        recording: counters.about().name.clone(),
        kept: 0,
        dropped: summary.devices.iter().map(|d| d.intervals_dropped).sum(),
        needed: 1,
    }
}

/// Adds one device to a summary.
fn device(
    summary: &mut RecordingSummary,
    steps: &mut StepCounter,
    ends: &mut Option<(u64, u64)>,
    series: &DiskSeries,
) -> Result<(), TraceError> {
    let too_long = |reason: String| TraceError::Together {
        recording: summary.name.clone(),
        reason,
    };
    if let (Some(first), Some(last)) = (series.grid().first(), series.grid().last()) {
        let (from, to) = ends.unwrap_or((first.from_unix_ns, last.to_unix_ns));
        let span = (from.min(first.from_unix_ns), to.max(last.to_unix_ns));
        if summary.has_date {
            steps.check(span.0, span.1).map_err(too_long)?;
        }
        *ends = Some(span);
    }
    let mut found = DeviceSummary {
        name: series.disk.clone(),
        totals: totals(&DiskAverages::of(series), &mut summary.notes),
        ..DeviceSummary::default()
    };
    for row in intervals(series) {
        if !row.is_known() {
            found.intervals_dropped += 1;
            continue;
        }
        found.intervals += 1;
        if let (Some(ops), true) = (row.ops, row.seconds() > 0.0) {
            let milli = round_u64(ops / row.seconds() * 1e3);
            found.peak_milli_ops_per_s = found.peak_milli_ops_per_s.max(milli);
            summary.interval_rates.record(Nanos(milli));
        }
    }
    let is_whole = NEEDED.iter().all(|metric| series.column(*metric).is_some());
    if summary.has_date && is_whole {
        let grid = known_cells(series);
        for (from, cell) in grid.starts_unix_ns.iter().zip(&grid.cells) {
            steps.interval(*from, cell);
        }
    }
    summary.devices.push(found);
    Ok(())
}

/// The counters of a device, rounded once.
fn totals(averages: &DiskAverages, notes: &mut Vec<String>) -> CounterTotals {
    let mut total = |metric: DiskMetric| {
        let figure = averages.figure(metric)?;
        let unit = if metric.is_seconds() { 1e9 } else { 1.0 };
        let sum = figure.whole * unit;
        if sum >= SUM_MAX {
            let name = metric.pcp_name();
            notes.push(format!(
                "{name} of {} is left out: it rose by more than any disk can do",
                averages.disk
            ));
            return None;
        }
        Some(CounterTotal {
            sum: round_u64(sum),
            over_ns: round_u64(figure.seconds * 1e9),
        })
    };
    let mut totals = CounterTotals::default();
    for (place, metric) in totals.each_mut().into_iter().zip(COUNTED) {
        *place = total(metric);
    }
    totals
}
