// SPDX-License-Identifier: Apache-2.0
//! From one disk of a recording to a model that can be played, and a profile that can be read.
//!
//! The model's fidelity is counted, not claimed: the fit plays the model's generator over the
//! whole window and bins what comes out.

use plimsoll_core::model::{
    DirectionLoad, FidelityCheck, ModelArrivals, ModelEnvelope, ModelFactValue, ModelFacts,
    ModelInterval, ModelProvenance, WorkloadModel,
};
use plimsoll_core::op::OpRequest;
use plimsoll_core::profile::{DiskProfile, QueueSource};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::{Nanos, size, three_digits, throughput};

use crate::binned::idc;
use crate::cells::{IntervalGrid, cells, long_step};
use crate::fidelity::fidelity;
use crate::phases::PhaseDetection;
use crate::profile::profile;
use plimsoll_trace::{
    CounterSource, DiskMetric, DiskSeries, IntervalVerdict, RecordingWindow, TraceError,
};

/// Fewest intervals that make a model.
const INTERVALS_MIN: u64 = 2;
/// Alignment of the self-check's requests: the smallest any device has.
const ALIGN_BYTES: u32 = 512;
/// Seed of the self-check. Any would do; a fixed one makes fits repeatable.
const CHECK_SEED: Seed = Seed(0x706c_696d_736f_6c6c);
/// Most operations the self-check plays (some seconds); of a longer load the first part counts.
const CHECK_OPS_MAX: u64 = 50_000_000;

/// The part to fit, and under which name.
#[derive(Debug, Clone, PartialEq)]
pub struct FitOptions {
    /// The disk, as [`CounterSource::disks`] names it.
    pub disk: String,
    /// The part of the recording, from [`plimsoll_trace::RecordingTimes`].
    pub window: RecordingWindow,
    /// The name of the model in reports.
    pub name: String,
    /// Figures that counters do not contain: declared or assumed.
    pub facts: ModelFacts,
}

/// The result of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct FitResult {
    /// The model, its fidelity filled in.
    pub model: WorkloadModel,
    /// The findings.
    pub profile: DiskProfile,
    /// Warnings for the reader, as sentences: damage, dropped intervals, unread columns.
    pub warnings: Vec<String>,
}

/// Fits a model to one disk of a recording of counters.
///
/// # Errors
/// When the disk or a needed counter is not in the recording, too few intervals are usable, or the
/// working set is smaller than the largest transfer.
pub fn fit(counters: &dyn CounterSource, options: &FitOptions) -> Result<FitResult, TraceError> {
    fit_within(counters, options, CHECK_OPS_MAX)
}

/// [`fit`] with another limit to the self-check; with 0 there is none.
pub(crate) fn fit_within(
    counters: &dyn CounterSource,
    options: &FitOptions,
    check_ops_max: u64,
) -> Result<FitResult, TraceError> {
    let series = counters.series(&options.disk, &options.window)?;
    let disk = || options.disk.clone();
    let recording = || counters.about().name.clone();
    let found = cells(&series).map_err(|metric| TraceError::NoMetric {
        metric,
        disk: disk(),
        recording: recording(),
    })?;
    let kept = found.intervals;
    if kept < INTERVALS_MIN {
        return Err(TraceError::TooFew {
            disk: disk(),
            recording: recording(),
            kept,
            dropped: found.dropped,
            needed: INTERVALS_MIN,
        });
    }
    let envelope = |reason: String| TraceError::Envelope {
        disk: disk(),
        recording: recording(),
        reason,
    };
    check_totals(&found.cells).map_err(envelope)?;
    check_possible(counters, &series, &found)?;
    let seen = PhaseDetection::of(&found);
    let times = counters.times();
    let step = found.step();
    let phases = seen.phases(&found, &|at| times.civil_to(at, step));
    let ends = ends(&series, &options.window);
    let mut model = WorkloadModel {
        name: options.name.clone(),
        source: ModelProvenance {
            recording: recording(),
            format: counters.about().format.clone(),
            host: counters.about().host.clone(),
            disk: disk(),
            from: times.civil(ends.0),
            to: times.civil(ends.1),
            intervals_dropped: found.dropped,
            left_out: Vec::new(),
            changes: Vec::new(),
        },
        facts: options.facts.clone(),
        bursts: seen.bursts,
        phases,
        fidelity: Vec::new(),
        verified: None,
        requests: None,
        envelope: ModelEnvelope::new(found.cells.clone()).map_err(envelope)?,
    };
    check_working_set(&found.cells, model.facts.working_set_bytes.value)?;
    let mut warnings = warnings(&series, &found);
    warnings.extend(OtherRates::of(&series).not_played(model.facts.syncs().each_write));
    if check_ops_max > 0 {
        warnings.extend(spread_bursts(&found));
    }
    model.fidelity = self_check(&model, check_ops_max, &mut warnings);
    let (from, to) = (times.civil_to(ends.0, step), times.civil_to(ends.1, step));
    let profile = profile(&series, &found, (&model.bursts, &model.phases), (from, to));
    model.facts.in_flight = in_flight(&profile);
    check_threads(&model)?;
    Ok(FitResult {
        model,
        profile,
        warnings,
    })
}

/// Mean number of requests in flight, by Little's law. Samples of a queue at instants are too inexact for a
/// model; the profile records them with their error.
fn in_flight(profile: &DiskProfile) -> Option<ModelFactValue<f64>> {
    let queue = profile.queue.as_ref()?;
    match queue.source {
        QueueSource::Integrated => Some(ModelFactValue::derived(queue.average.time)),
        QueueSource::Sampled => None,
    }
}

/// No mean can be above the ceiling.
fn check_threads(model: &WorkloadModel) -> Result<(), TraceError> {
    match (model.facts.threads, model.facts.in_flight) {
        (Some(threads), Some(mean)) if mean.value > f64::from(threads.value) => {
            Err(TraceError::Threads {
                threads: threads.value,
                disk: model.source.disk.clone(),
                recording: model.source.recording.clone(),
                in_flight: mean.value,
            })
        }
        _ => Ok(()),
    }
}

/// First and last sample of the first counter inside the window.
pub(crate) fn ends(series: &DiskSeries, window: &RecordingWindow) -> (u64, u64) {
    match series.grid() {
        [first, .., last] => (first.from_unix_ns, last.to_unix_ns),
        [only] => (only.from_unix_ns, only.to_unix_ns),
        _ => (window.from_unix_ns, window.to_unix_ns),
    }
}

/// The largest share of the time that a device may have been busy: kernels count by their ticks.
const BUSY_MAX: f64 = 1.05;

/// A recording of which most is unusable, or that no disk can have done, makes no model.
fn check_possible(
    counters: &dyn CounterSource,
    series: &DiskSeries,
    found: &IntervalGrid,
) -> Result<(), TraceError> {
    let lengths = found.cells.iter().map(|cell| cell.length);
    let used = lengths.fold(Nanos(0), |sum, length| sum + length);
    let busy = series.averages(DiskMetric::Active).map(|busy| busy.time);
    let reason = match busy.filter(|busy| *busy > BUSY_MAX) {
        _ if used < found.unused => format!(
            "{} of {} do not show when their load came, or what it was; select another part with \
             --from and --to",
            found.unused,
            used + found.unused
        ),
        Some(busy) => format!(
            "{} would have been busy for {:.0} % of the time, so its counters are not those of one \
             disk; select another disk or part",
            series.disk,
            busy * 100.0
        ),
        None => return Ok(()),
    };
    Err(TraceError::Misread {
        recording: counters.about().name.clone(),
        reason,
    })
}

/// Sums over a play must stay countable, also at a scale.
fn check_totals(cells: &[ModelInterval]) -> Result<(), String> {
    const TOTAL_MAX: u128 = 1 << 60;
    let sum = |of: fn(&ModelInterval) -> u64| cells.iter().map(|c| u128::from(of(c))).sum::<u128>();
    let totals = [
        sum(|c| c.length.0),
        sum(|c| c.read.ops),
        sum(|c| c.read.bytes),
        sum(|c| c.write.ops),
        sum(|c| c.write.bytes),
    ];
    if totals.iter().any(|total| *total > TOTAL_MAX) {
        return Err("its counters rise by more than any disk can do".into());
    }
    Ok(())
}

fn check_working_set(cells: &[ModelInterval], bytes: u64) -> Result<(), TraceError> {
    // Room for the probe itself; only the largest transfer is asked for here.
    let facts = ModelFacts::assumed(u64::MAX);
    let largest = ModelArrivals::new(cells.to_vec(), &facts, ALIGN_BYTES, CHECK_SEED).len_max();
    let needed = u64::from(largest);
    if bytes < needed {
        return Err(TraceError::WorkingSet { bytes, needed });
    }
    Ok(())
}

/// Plays a whole model of counters and compares what its generator gives with its intervals. What
/// there is to be said of that comes with it, as sentences.
pub fn check_play(model: &WorkloadModel) -> (Vec<FidelityCheck>, Vec<String>) {
    let mut warnings = Vec::new();
    let lines = self_check(model, CHECK_OPS_MAX, &mut warnings);
    (lines, warnings)
}

/// Plays the whole model and compares what its generator gave with what was recorded.
fn self_check(
    model: &WorkloadModel,
    ops_max: u64,
    warnings: &mut Vec<String>,
) -> Vec<FidelityCheck> {
    if ops_max == 0 {
        return Vec::new();
    }
    let recorded = model.envelope.cells();
    let mut played = model.play_whole(1.0);
    let mut ops = 0u64;
    let part = played
        .iter()
        .take_while(|cell| {
            ops = ops.saturating_add(cell.read.ops.saturating_add(cell.write.ops));
            ops <= ops_max
        })
        .count();
    if part < played.len() {
        warnings.push(format!(
            "the fidelity was counted over the first {part} of {} intervals, which hold about \
             {ops_max} operations",
            played.len()
        ));
        played.truncate(part);
    }
    let empty = no_load(played.iter().map(|cell| cell.length));
    let arrivals = ModelArrivals::new(played, &model.facts, ALIGN_BYTES, CHECK_SEED);
    let submitted = count(arrivals, empty, usize::MAX);
    let lines = fidelity(&recorded[..part], &submitted, &model.bursts);
    lines.into_iter().map(FidelityCheck::of_its_own).collect()
}

/// A load of nothing in intervals of these lengths.
pub(crate) fn no_load(lengths: impl Iterator<Item = Nanos>) -> Vec<ModelInterval> {
    let empty = |length| ModelInterval {
        length,
        read: DirectionLoad::default(),
        write: DirectionLoad::default(),
    };
    lengths.map(empty).collect()
}

/// Counts the requests of a play, `ops_max` at most, in these intervals. Behind the most only what
/// is before the interval of the next one is returned.
pub(crate) fn count(
    played: impl Iterator<Item = OpRequest>,
    mut cells: Vec<ModelInterval>,
    ops_max: usize,
) -> Vec<ModelInterval> {
    let (mut at, mut end) = (0, cells.first().map_or(Nanos(0), |cell| cell.length));
    // Requests come in order, so the intervals are walked once. One at the very end of an interval
    // belongs to the next, that of the last excepted.
    for (ops, request) in played.enumerate() {
        while request.intended_at >= end && at + 1 < cells.len() {
            at += 1;
            end = end + cells[at].length;
        }
        // The last interval takes what rounding put at its end, not what is left of the play.
        if request.intended_at > end {
            break;
        }
        if ops == ops_max {
            cells.truncate(at);
            break;
        }
        if let Some(cell) = cells.get_mut(at) {
            cell.count(&request);
        }
    }
    cells
}

/// Least flushes of a write at which writes are likely to be durable when they end.
const FLUSHES_PER_WRITE_MIN: f64 = 0.1;

/// Counters of a disk, each second, that are part of no load that is played.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OtherRates {
    flushes: f64,
    discards: f64,
    discarded: f64,
    writes: f64,
}

impl OtherRates {
    pub(crate) fn of(series: &DiskSeries) -> OtherRates {
        let rate = |metric| series.averages(metric).map_or(0.0, |rates| rates.time);
        OtherRates {
            flushes: rate(DiskMetric::Flushes),
            discards: rate(DiskMetric::Discards),
            discarded: rate(DiskMetric::DiscardBytes),
            writes: rate(DiskMetric::Writes),
        }
    }

    /// The part that a load leaves out, as sentences; `is_sync`: each of its writes is durable.
    pub(crate) fn not_played(self, is_sync: bool) -> Vec<String> {
        let mut told = Vec::new();
        if self.flushes > 0.0 && !is_sync {
            let (flushes, writes) = (three_digits(self.flushes), three_digits(self.writes));
            let beside = format!("{flushes} flushes/s beside {writes} writes/s");
            told.push(match self.flushes >= FLUSHES_PER_WRITE_MIN * self.writes {
                true => format!("{beside} are recorded and not played: add --declare sync to fit"),
                false => format!("{beside} are recorded and not played"),
            });
        }
        if self.discards > 0.0 {
            let (count, bytes) = (three_digits(self.discards), throughput(self.discarded));
            told.push(format!(
                "{count} discards/s ({bytes}) are recorded and not played"
            ));
        }
        told
    }
}

/// Share of the dispersion that must be there in intervals at another phase for bursts to be longer
/// than intervals.
const DISPERSION_KEPT: f64 = 0.8;

/// A sentence where bursts are shorter than intervals: a play spreads them over these.
fn spread_bursts(found: &IntervalGrid) -> Option<String> {
    let cells = found.cells.iter();
    let counts: Vec<f64> = cells.map(|c| (c.read.ops + c.write.ops) as f64).collect();
    let later: Vec<f64> = (counts.windows(2))
        .map(|pair| f64::midpoint(pair[0], pair[1]))
        .collect();
    let (own, later) = (idc(&counts, 1)?, idc(&later, 1)?);
    (own > 2.0 && later < DISPERSION_KEPT * own).then(|| {
        format!(
            "bursts shorter than its intervals of {} are spread over them: the dispersion of operations \
             is {} in these intervals, and {} in those that begin half of one later",
            found.step(),
            three_digits(own),
            three_digits(later)
        )
    })
}

pub(crate) fn warnings(series: &DiskSeries, found: &IntervalGrid) -> Vec<String> {
    let mut warnings = series.warnings.clone();
    warnings.extend(series.damage.as_ref().map(ToString::to_string));
    if found.dropped > 0 {
        warnings.push(format!(
            "{} of {} intervals were left out (gaps, resets or wraps of a counter)",
            found.dropped,
            found.dropped + found.intervals
        ));
    }
    warnings.extend(long(series));
    if found.implausible > 0 {
        warnings.push(format!(
            "in {} of them a counter rose by more than any disk can do",
            found.implausible
        ));
    }
    for column in &series.columns {
        for interval in &column.intervals {
            if let IntervalVerdict::WentDown {
                as_wrap: Some(rise),
            } = interval.verdict
                && crate::cells::NEEDED.contains(&column.metric)
            {
                let name = column.metric.pcp_name();
                let rise = if name.ends_with("bytes") {
                    size(rise)
                } else {
                    format!("{rise:.0} operations")
                };
                let length = Nanos(interval.to_unix_ns - interval.from_unix_ns);
                warnings.push(format!(
                    "{name} went down: a reset, or a wrap after {rise} in {length}; the interval \
                     is left out"
                ));
            }
        }
    }
    limited(warnings)
}

/// A sentence about intervals that do not show when their load came.
fn long(series: &DiskSeries) -> Option<String> {
    let grid = series.grid().iter();
    let lengths = grid.filter(|i| i.verdict == IntervalVerdict::Long);
    let lengths: Vec<Nanos> = lengths
        .map(|i| Nanos(i.to_unix_ns - i.from_unix_ns))
        .collect();
    let longest = lengths.iter().max()?;
    let n = lengths.len();
    let spread = match long_step(series.grid()) {
        Some(_) => "is spread evenly over them",
        None => "is only in the means",
    };
    Some(format!(
        "{n} of {} intervals are more than 20 times as long as their neighbours (the longest {longest}): \
         when in them the load came is unknown, so it {spread}",
        series.grid().len()
    ))
}

/// A recording with a thousand resets must not print a thousand lines.
fn limited(mut warnings: Vec<String>) -> Vec<String> {
    const WARNINGS_MAX: usize = 20;
    if warnings.len() > WARNINGS_MAX {
        let more = warnings.len() - WARNINGS_MAX;
        warnings.truncate(WARNINGS_MAX);
        warnings.push(format!("and {more} more like these"));
    }
    warnings
}

#[cfg(test)]
mod tests;
