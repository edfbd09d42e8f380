// SPDX-License-Identifier: Apache-2.0
//! A load held against a recording: one it was made from, or any other.
//!
//! Submitted load is counted, not claimed: a model's generator is played over its whole length, a
//! job's rates are counted out interval by interval. Each error comes with its value where nothing
//! is wrong: between two plays from two seeds, and between the two halves of the recording.

mod in_flight;
mod intervals;
mod queue;
mod structure;
mod submitted;
mod untold;

pub use submitted::{ConstantRate, ConstantRateLoad, FidelityLoad};

use std::path::Path;

use plimsoll_core::model::{
    BurstPattern, FidelityCheck, FidelityNoiseFloor, FidelityReport, FidelityReportRow,
    ModelInterval, ModelPhase, ModelPhaseSpan, WorkloadModel,
};
use plimsoll_core::num::to_usize;
use plimsoll_core::op::TraceAccess;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;

use self::in_flight::{InFlightShares, TraceLatencies};
use self::intervals::TraceIntervals;
use self::queue::QueueTimeSeries;
use self::structure::AccessStructure;
use crate::bursts;
use crate::cells::cells;
use crate::fidelity::{fidelity, phase_fidelity};
use crate::fit::OtherRates;
use crate::phases::PhaseDetection;
use crate::recorded::{
    InFlightTracker, TraceDevice, TraceStats, TraceSurvey, TraceTickSpreader, TraceTimeBase,
    count_requests, device_of, each, ends_without_date, survey_part,
};
use plimsoll_trace::requests::TraceSorter;
use plimsoll_trace::{
    CounterSource, OpenRecording, RecordingTimes, RecordingWindow, TraceSource, open,
};
use plimsoll_trace::{DeviceChoices, TraceError};

/// Seeds of the two plays. Any two would do; fixed ones make verifications repeatable.
const SEEDS: [Seed; 2] = [Seed(0x706c_696d_736f_6c6c), Seed(0x6c6c_6f73_6d69_6c70)];
/// Intervals that requests are counted in, where counters are held against them.
const INTERVALS: u64 = 200;
/// Fewest intervals that can be compared.
const INTERVALS_MIN: u64 = 2;
/// Fewest intervals of a phase that is compared by itself.
const PHASE_MIN: usize = 20;
const SECOND_NS: u64 = Nanos::SECOND.0;

/// Which part of a recording is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingSelection {
    /// The disk; without it the only one there is.
    pub disk: Option<String>,
    /// Start, as people type it; without it the recording's.
    pub from: Option<String>,
    /// End, as people type it; without it the recording's.
    pub to: Option<String>,
    /// Whether the times are those of a model, not of a person: then the parts of seconds are cut
    /// off, and a recording of another time is taken whole.
    pub of_model: bool,
}

impl RecordingSelection {
    /// The part that a model was made of.
    pub fn of_model(model: &WorkloadModel) -> RecordingSelection {
        let source = &model.source;
        RecordingSelection {
            disk: Some(source.disk.clone()),
            from: Some(source.from.clone()),
            to: Some(source.to.clone()),
            of_model: true,
        }
    }
}

/// One disk of a recording, to hold loads against.
#[derive(Debug)]
pub struct FidelityReference {
    recording: String,
    disk: String,
    from: String,
    to: String,
    cells: Vec<ModelInterval>,
    bursts: Vec<BurstPattern>,
    phases: Vec<ModelPhase>,
    /// How long operations took; `None` where that is not counted.
    queue: Option<QueueTimeSeries>,
    /// Other rates that were counted.
    others: OtherRates,
    /// Whether it is of requests that were counted.
    of_requests: bool,
    /// Warnings for the reader, as sentences.
    pub warnings: Vec<String>,
}

impl FidelityReference {
    /// Reads one disk. Requests are counted in intervals.
    ///
    /// # Errors
    /// When the recording cannot be read, has no such disk or too few intervals, or does not contain
    /// operations and bytes of both directions.
    pub fn read(path: &Path, part: &RecordingSelection) -> Result<FidelityReference, TraceError> {
        match open(path)? {
            OpenRecording::Counters(counters) => FidelityReference::of(&*counters, part),
            OpenRecording::Requests(requests) => {
                let (found, mut again) = surveyed(path, requests, part)?;
                let place = device_of(&found, again.about(), part.disk.as_deref())?;
                let interval = Nanos(found.length.0.div_ceil(INTERVALS).max(1));
                let interval = found.clockwork().whole_ticks(interval);
                let disk = &found.devices[place].name;
                let counted = count_requests(&mut again, &found, disk, interval)?;
                let part = RecordingSelection {
                    disk: Some(disk.clone()),
                    ..RecordingSelection::default()
                };
                Ok(FidelityReference {
                    of_requests: true,
                    ..FidelityReference::of(&*counted, &part)?
                })
            }
        }
    }

    fn of(
        counters: &dyn CounterSource,
        part: &RecordingSelection,
    ) -> Result<FidelityReference, TraceError> {
        let recording = counters.about().name.clone();
        let DeviceChoices { disks, .. } = DeviceChoices::of(counters);
        let disk = match (&part.disk, &disks[..]) {
            (Some(disk), _) => disk.clone(),
            (None, [only]) => only.clone(),
            (None, _) => return Err(TraceError::DiskMissing { recording, disks }),
        };
        let window = window(counters.times(), part)?;
        let series = counters.series(&disk, &window)?;
        let found = cells(&series).map_err(|metric| TraceError::NoMetric {
            metric,
            disk: disk.clone(),
            recording: recording.clone(),
        })?;
        let kept = found.cells.len() as u64;
        if kept < INTERVALS_MIN {
            return Err(TraceError::TooFew {
                disk,
                recording,
                kept,
                dropped: found.dropped,
                needed: INTERVALS_MIN,
            });
        }
        let mut warnings = Vec::new();
        if found.dropped > 0 {
            let all = found.dropped + kept;
            let text = format!(
                "{} of {all} intervals were left out (gaps, resets or wraps of a counter); what is compared is the rest",
                found.dropped
            );
            warnings.push(text);
        }
        let seen = PhaseDetection::of(&found);
        Ok(FidelityReference {
            recording,
            disk,
            from: counters.times().civil(window.from_unix_ns),
            to: counters.times().civil(window.to_unix_ns),
            phases: seen.phases(&found, &|at| counters.times().civil_to(at, found.step())),
            queue: QueueTimeSeries::of(&series, &found),
            others: OtherRates::of(&series),
            of_requests: false,
            bursts: seen.bursts,
            cells: found.cells,
            warnings,
        })
    }

    /// Holds a load against it: every metric that counters have.
    ///
    /// # Errors
    /// When the load is shorter than two intervals of the recording.
    pub fn verify(&self, load: &FidelityLoad<'_>) -> Result<FidelityReport, TraceError> {
        let layout = load.layout(&self.cells);
        if (layout.len() as u64) < INTERVALS_MIN {
            return Err(TraceError::TooShort {
                recording: self.recording.clone(),
                interval: bursts::median_length_s(&self.cells),
            });
        }
        let plays = SEEDS.map(|seed| load.count(&layout, seed));
        let [first, second] = &plays;
        let recorded = &self.cells[..self.cells.len().min(first.recorded)];
        let all = |recorded: &[ModelInterval], submitted: &[ModelInterval]| {
            let mut lines = fidelity(recorded, submitted, &self.bursts);
            lines.extend(of_phases(&self.phases, recorded, submitted));
            let queue = self.queue.iter();
            lines.extend(queue.flat_map(|queue| queue.compare(recorded, submitted)));
            lines
        };
        let lines = load.held(&self.recording, &self.disk, all(recorded, &first.cells));
        let seeds = all(&first.cells, &second.cells);
        let (early, late) = recorded.split_at(recorded.len() / 2);
        let mut halves = fidelity(early, late, &self.bursts);
        let queue = self.queue.iter();
        halves.extend(queue.flat_map(|queue| queue.halves(recorded)));
        Ok(FidelityReport {
            recording: self.recording.clone(),
            disk: self.disk.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            compared: recorded.len() as u64,
            lines: beside(lines, &seeds, &halves),
            untold: untold::of_counters(self, load),
        })
    }
}

/// The means of each phase of the recording that is long enough, where the load is counted in the
/// same intervals.
fn of_phases(
    phases: &[ModelPhase],
    recorded: &[ModelInterval],
    submitted: &[ModelInterval],
) -> Vec<FidelityCheck> {
    if recorded.len() != submitted.len() {
        return Vec::new();
    }
    let of_phase = |phase: &ModelPhase| {
        let chosen = |cells: &[ModelInterval]| -> Vec<ModelInterval> {
            let stretch = |stretch: &ModelPhaseSpan| {
                let first = to_usize(stretch.first).min(cells.len());
                let end = first.saturating_add(to_usize(stretch.intervals));
                cells[first..end.min(cells.len())].to_vec()
            };
            phase.stretches.iter().flat_map(stretch).collect()
        };
        let (recorded, submitted) = (chosen(recorded), chosen(submitted));
        if recorded.len() < PHASE_MIN {
            return Vec::new();
        }
        phase_fidelity(&phase.name, &recorded, &submitted)
    };
    phases.iter().flat_map(of_phase).collect()
}

/// The window that was asked for.
fn window(
    times: &RecordingTimes,
    part: &RecordingSelection,
) -> Result<RecordingWindow, TraceError> {
    let asked = times.window(part.from.as_deref(), part.to.as_deref());
    match asked {
        // The second in which a model ends belongs to it.
        Ok(window) if part.of_model => Ok(RecordingWindow {
            to_unix_ns: window.to_unix_ns.saturating_add(SECOND_NS - 1),
            ..window
        }),
        Err(_) if part.of_model => Ok(times.span()),
        asked => asked,
    }
}

/// Survey of the part of a recording of requests that was asked for, and that part. Times of a
/// model are whole seconds, too coarse for requests: then the part is the whole recording.
fn surveyed(
    path: &Path,
    requests: Box<dyn TraceSource>,
    part: &RecordingSelection,
) -> Result<(TraceSurvey, TraceSorter<Box<dyn TraceSource>>), TraceError> {
    let asked = |time: &'_ Option<String>| time.clone().filter(|_| !part.of_model);
    let (from, to) = (asked(&part.from), asked(&part.to));
    survey_part(path, requests, from.as_deref(), to.as_deref())
}

/// Every line with the errors that the same metric has by chance.
fn beside(
    lines: Vec<FidelityCheck>,
    seeds: &[FidelityCheck],
    halves: &[FidelityCheck],
) -> Vec<FidelityReportRow> {
    let error = |of: &[FidelityCheck], metric: &str| {
        let same = of.iter().find(|line| line.metric == metric)?;
        same.error.is_finite().then_some(same.error)
    };
    let checked = lines.into_iter().map(|line| FidelityReportRow {
        floor: FidelityNoiseFloor {
            seeds: error(seeds, &line.metric),
            halves: error(halves, &line.metric),
        },
        line,
    });
    checked.collect()
}

/// Measurements of one stream of requests.
struct TraceStreamStats {
    measures: TraceStats,
    structure: AccessStructure,
    intervals: TraceIntervals,
    /// Shares of the requests in flight; `None` where ends are not recorded.
    flights: Option<InFlightShares>,
    /// Start of the stream: earlier requests do not belong to it.
    from: Nanos,
}

impl TraceStreamStats {
    /// Of a stream that lasts `length`, where the recording (or the half that is meant) was made so.
    fn new(
        device: &TraceDevice,
        from: Nanos,
        (length, recorded): (Nanos, TraceTimeBase),
    ) -> TraceStreamStats {
        let clockwork = TraceTimeBase { length, ..recorded };
        TraceStreamStats {
            measures: TraceStats::new(device, clockwork),
            structure: AccessStructure::new(length),
            intervals: TraceIntervals::new(recorded.length, length),
            flights: None,
            from,
        }
    }

    fn add(&mut self, request: &TraceAccess) {
        let request = TraceAccess {
            at: request.at.since(self.from),
            ..*request
        };
        self.measures.add(&request);
        self.structure.add(&request);
        self.intervals.add(&request);
    }

    fn finished(mut self) -> TraceStreamStats {
        self.measures.finish();
        self.structure.finish();
        self
    }

    fn compare(&self, other: &TraceStreamStats) -> Vec<FidelityCheck> {
        let mut lines = self.measures.compare(&other.measures);
        lines.extend(self.structure.compare(&other.structure));
        lines.extend(self.intervals.compare(&other.intervals));
        if let (Some(recorded), Some(submitted)) = (&self.flights, &other.flights) {
            lines.extend(recorded.compare(submitted));
        }
        lines
    }
}

/// First and last instant of a recording of requests.
fn ends(requests: &dyn TraceSource, length: Nanos) -> (String, String) {
    let Some(from_unix_ns) = requests.origin_unix_ns() else {
        return ends_without_date(requests, length);
    };
    let to_unix_ns = from_unix_ns.saturating_add(length.0);
    let span = RecordingWindow {
        from_unix_ns,
        to_unix_ns,
    };
    let (times, _) = RecordingTimes::new(&requests.about().name, "UTC", span);
    (times.civil(from_unix_ns), times.civil(to_unix_ns))
}

/// Holds the requests of a model against those of a recording: every metric that requests have.
///
/// # Errors
/// When the recording cannot be read, is of counters, has no such disk, or not the part that was
/// asked for.
pub fn verify_requests(
    path: &Path,
    part: &RecordingSelection,
    load: &FidelityLoad<'_>,
) -> Result<FidelityReport, TraceError> {
    let OpenRecording::Requests(first) = open(path)? else {
        return Err(TraceError::NoRecording {
            path: path.display().to_string(),
        });
    };
    let (found, mut again) = surveyed(path, first, part)?;
    let place = device_of(&found, again.about(), part.disk.as_deref())?;
    let device = &found.devices[place];
    let recorded = TraceReferenceStats::read(&mut again, place, device, found.clockwork())?;
    let plays = SEEDS.map(|seed| {
        let lengths = (load.length(), found.clockwork());
        let mut watched = TraceStreamStats::new(device, Nanos(0), lengths);
        load.requests(seed)
            .for_each(|request| watched.add(&request));
        // Requests in flight do not depend on the seed.
        watched.flights = load.flights(recorded.took.as_ref());
        watched
    });
    let TraceReferenceStats {
        whole,
        halves: [early, late],
        took,
    } = recorded;
    let [one, two] = plays.map(TraceStreamStats::finished);
    let recording = again.about().name.clone();
    let lines = beside(
        load.held(&recording, &device.name, whole.compare(&one)),
        &one.compare(&two),
        &early.compare(&late),
    );
    let untold = untold::of_requests(&lines, &whole, took.as_ref());
    let (from, to) = ends(&again, found.length);
    Ok(FidelityReport {
        recording,
        disk: device.name.clone(),
        from,
        to,
        compared: device.requests,
        untold,
        lines,
    })
}

/// Measurements of the requests of one device of a recording.
struct TraceReferenceStats {
    whole: TraceStreamStats,
    halves: [TraceStreamStats; 2],
    /// `None` where ends are not recorded.
    took: Option<TraceLatencies>,
}

impl TraceReferenceStats {
    fn read(
        requests: &mut dyn TraceSource,
        place: usize,
        device: &TraceDevice,
        clockwork: TraceTimeBase,
    ) -> Result<TraceReferenceStats, TraceError> {
        let length = clockwork.length;
        let half = Nanos(length.0 / 2);
        let mut whole = TraceStreamStats::new(device, Nanos(0), (length, clockwork));
        let of_half = TraceTimeBase {
            length: half,
            ..clockwork
        };
        let mut halves =
            [Nanos(0), half].map(|from| TraceStreamStats::new(device, from, (half, of_half)));
        // Of starts recorded by the tick it is unknown what was in flight together.
        let ends = (device.tells_in_flight() && !clockwork.is_coarse()).then_some(());
        let mut took = ends.map(|_| TraceLatencies::default());
        let mut flights: [InFlightTracker; 3] = Default::default();
        let mut last = Nanos(0);
        let mut watch = |traced: &TraceAccess, end: Option<Nanos>| {
            let at = traced.at;
            let is_late = usize::from(at >= half);
            whole.add(traced);
            halves[is_late].add(traced);
            if let Some(took) = took.as_mut().filter(|took| !took.is_full()) {
                took.add(traced, end);
                let takes = end.unwrap_or_default();
                flights[0].add(at, takes);
                flights[1 + is_late].add(at.since(halves[is_late].from), takes);
            }
        };
        // As they are played.
        let mut spread = TraceTickSpreader::new(clockwork);
        each(requests, |request| {
            if usize::from(request.target) != place {
                return;
            }
            last = last.max(request.at);
            let traced = TraceAccess {
                at: last,
                ..request.traced()
            };
            spread.push(traced, request.took, &mut watch);
        })?;
        spread.release(&mut watch);
        let [of_whole, of_early, of_late] = flights;
        if let Some(took) = &took {
            let length = took.length().unwrap_or(length);
            whole.flights = Some(InFlightShares::of(of_whole, length));
            let [early, late] = &mut halves;
            // Where not all are looked at the halves are not, either.
            if !took.is_full() {
                early.flights = Some(InFlightShares::of(of_early, half));
                late.flights = Some(InFlightShares::of(of_late, half));
            }
        }
        Ok(TraceReferenceStats {
            whole: whole.finished(),
            halves: halves.map(TraceStreamStats::finished),
            took,
        })
    }
}
