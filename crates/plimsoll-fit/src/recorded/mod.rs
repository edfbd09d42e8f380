// SPDX-License-Identifier: Apache-2.0
//! From recorded requests to a model that plays them.
//!
//! A recording is gone through twice: once to see how long it is and of which devices ([`survey`]), once
//! to pack the requests of one device ([`fit_requests`]). What was packed is then unpacked and
//! held against what was recorded, figure by figure: counted, not claimed. Only what is the same
//! request by request need not be counted twice.

mod beside;
mod ceiling;
mod clockwork;
mod content;
mod counted;
mod describe;
mod doubts;
mod in_flight;
mod measures;
mod reliance;
mod reuse;
mod shuffle;
mod streams;
mod touched;
mod zones;

pub(crate) use self::describe::BusyTime;
pub use self::describe::describe_requests;

use std::path::Path;

use plimsoll_core::model::{
    FidelityCheck, ModelFacts, PackedGapPrecision, PackedRequests, PackedRequestsWriter,
};
use plimsoll_core::op::TraceAccess;
use plimsoll_core::units::Nanos;

use self::beside::{TraceFanOut, beside};
use self::clockwork::TraceTickFinder;
pub(crate) use self::clockwork::{TraceTickSpreader, TraceTimeBase};
use self::counted::TraceCounters;
use self::doubts::{TraceValidity, TraceValidityCheck};
pub(crate) use self::in_flight::InFlightTracker;
use self::measures::PackedTraceStats;
pub(crate) use self::measures::TraceStats;
use self::reliance::DependencyReplayMode;
pub use self::shuffle::TraceShuffle;
use self::shuffle::TraceShuffler;
use crate::fit::{FitOptions, FitResult, fit_within};
use crate::kept::TraceCache;
use plimsoll_trace::TraceError;
use plimsoll_trace::requests::{self, TraceRange, TraceRangeReader, TraceRequest, TraceSorter};
use plimsoll_trace::{CounterSource, RecordingDetail, RecordingInfo, TraceSource};

/// Intervals that describe a model of requests.
const INTERVALS: u64 = 200;
/// The shortest of them.
const INTERVAL_MIN: Nanos = Nanos(1_000_000);

/// One device of a recording of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceDevice {
    /// Its name in the recording.
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Times from start to end together; `None` when no end is recorded.
    pub took: Option<Nanos>,
    /// Requests whose ends are recorded.
    pub ended: u64,
}

/// Share of the requests whose ends must be recorded for what was in flight to be known.
const ENDED_MIN: f64 = 0.9;

/// Most requests whose times are kept finely by default. A quarter of a byte more for each hardly counts
/// where there are few, and single requests make up the tail of few.
const FINE_MAX: u64 = 1 << 16;

impl TraceDevice {
    /// Whether its ends say what was in flight.
    pub(crate) fn tells_in_flight(&self) -> bool {
        self.ended > 0 && self.ended as f64 >= ENDED_MIN * self.requests as f64
    }

    /// A sentence about requests whose ends are not recorded, where others are.
    fn lacks_ends(&self) -> Option<String> {
        if self.ended == 0 || self.ended == self.requests {
            return None;
        }
        let rest = match self.tells_in_flight() {
            true => "time busy and queue lack them",
            false => "time busy and queue are unknown",
        };
        Some(format!(
            "{} of {} requests of {} have no end: response times are of the others, {rest}",
            self.requests - self.ended,
            self.requests,
            self.name
        ))
    }

    /// How the times between its requests are kept by default.
    pub fn gaps(&self) -> PackedGapPrecision {
        match self.requests {
            0..=FINE_MAX => PackedGapPrecision::Fine,
            _ => PackedGapPrecision::Classes,
        }
    }
}

/// The part of recorded requests that a model keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceFitOptions {
    /// The times between them; `None`: as [`TraceDevice::gaps`] says.
    pub gaps: Option<PackedGapPrecision>,
    /// Their order, if it is not to be the recorded one.
    pub shuffle: Option<TraceShuffle>,
    /// Whether nothing is kept of a limit on what was in flight, and of what waited for what.
    pub open_loop: bool,
}

/// The content of a recording of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSurvey {
    /// The devices, in order of their first request.
    pub devices: Vec<TraceDevice>,
    /// From the first start to the end of the tick of the last, and to the last end where ends are
    /// recorded.
    pub length: Nanos,
    /// The finest difference of two starts: what the format promises, or what the starts show where
    /// they are coarser.
    pub resolution: Nanos,
    doubted: TraceValidity,
}

impl TraceSurvey {
    pub(crate) fn clockwork(&self) -> TraceTimeBase {
        TraceTimeBase {
            length: self.length,
            resolution: self.resolution,
        }
    }

    /// Doubts about its times, as sentences.
    pub(crate) fn doubts(&self) -> &[String] {
        &self.doubted.told
    }

    fn place_of(&self, disk: &str, about: &RecordingInfo) -> Result<usize, TraceError> {
        let place = self.devices.iter().position(|device| device.name == disk);
        place.ok_or_else(|| self.no_disk(disk, &about.name))
    }

    /// That a recording has no such disk.
    pub(crate) fn no_disk(&self, disk: &str, recording: &str) -> TraceError {
        TraceError::NoDisk {
            disk: disk.into(),
            recording: recording.into(),
            disks: self.devices.iter().map(|d| d.name.clone()).collect(),
            damage: None,
        }
    }
}

/// Reads a recording of requests to its end and says what is in it.
///
/// # Errors
/// When it cannot be read.
pub fn survey(requests: &mut dyn TraceSource) -> Result<TraceSurvey, TraceError> {
    let mut devices: Vec<TraceDevice> = Vec::new();
    let (mut ticks, mut doubts) = (TraceTickFinder::default(), TraceValidityCheck::default());
    let (mut started, mut ended) = (Nanos(0), Nanos(0));
    each(requests, |request| {
        let place = usize::from(request.target);
        while devices.len() <= place {
            devices.push(TraceDevice::default());
        }
        let device = &mut devices[place];
        device.requests += 1;
        device.reads += u64::from(request.kind.is_read());
        device.bytes += u64::from(request.bytes);
        if let Some(took) = request.took {
            device.took = Some(device.took.unwrap_or_default() + took);
            device.ended += 1;
        }
        let took = request.took.unwrap_or_default();
        started = started.max(request.at);
        ended = ended.max(Nanos(request.at.0.saturating_add(took.0)));
        ticks.add(request.at);
        doubts.add(
            request.at,
            request.offset.saturating_add(request.bytes.into()),
        );
    })?;
    let resolution = ticks.resolution(requests.about().carries.resolution);
    let mut survey = TraceSurvey {
        devices,
        length: ended,
        resolution,
        doubted: TraceValidity::default(),
    };
    if survey.clockwork().is_coarse() {
        // Its last tick was recorded whole.
        let end = Nanos(started.0.saturating_add(resolution.0));
        survey.length = ended.max(end);
    }
    survey.doubted = doubts.finish(survey.length);
    for (device, name) in survey.devices.iter_mut().zip(requests.targets()) {
        device.name.clone_from(name);
    }
    Ok(survey)
}

/// Content of the part of a recording between two times as [`TraceRange::of`] takes them, and that part, to
/// be read in the order of the requests' starts. `first` is the recording at `path`, opened; where it
/// is too long to be held, `path` is read again.
///
/// # Errors
/// When it cannot be read, or the times select no part of it.
pub fn survey_part(
    path: &Path,
    first: Box<dyn TraceSource>,
    from: Option<&str>,
    to: Option<&str>,
) -> Result<(TraceSurvey, TraceSorter<Box<dyn TraceSource>>), TraceError> {
    let mut whole = TraceCache::new(first);
    let found = survey(&mut whole)?;
    if from.is_none() && to.is_none() {
        let again = whole.again(|| requests::open(path))?;
        return Ok((found, TraceSorter::new(again)));
    }
    let clip = TraceRange::of(&whole, found.length, from, to)?;
    let length = clip.length(found.length);
    let again = whole.again(|| requests::open(path))?;
    let mut part = TraceCache::new(Box::new(TraceRangeReader::new(again, clip)));
    let whole = found.resolution;
    let mut found = survey(&mut part)?;
    // Of a part there may be too few starts to show how coarse they are.
    found.resolution = found.resolution.max(whole);
    found.length = length;
    if found.devices.is_empty() {
        let typed = [from, to].into_iter().flatten().collect::<Vec<_>>();
        return Err(TraceError::Time {
            text: typed.join(" to "),
            reason: "no request starts there".into(),
        });
    }
    let again = part.again(|| Ok(Box::new(TraceRangeReader::new(requests::open(path)?, clip))))?;
    Ok((found, TraceSorter::new(again)))
}

/// Requests without one of these cannot be played.
fn check(about: &RecordingInfo) -> Result<(), TraceError> {
    let carries = &about.carries;
    let needed = [
        (carries.direction, "directions"),
        (carries.sizes == RecordingDetail::Each, "sizes"),
        (carries.offsets, "places"),
        (carries.arrivals == RecordingDetail::Each, "starts"),
    ];
    let lacks = needed.iter().filter(|(is_there, _)| !is_there);
    let lacks: Vec<&str> = lacks.map(|(_, what)| *what).collect();
    if lacks.is_empty() {
        return Ok(());
    }
    Err(TraceError::Lacks {
        recording: about.name.clone(),
        lacks: lacks.join(", "),
    })
}

/// Hands every request of a recording on.
pub(crate) fn each(
    requests: &mut dyn TraceSource,
    mut take: impl FnMut(&TraceRequest),
) -> Result<(), TraceError> {
    let mut batch = Vec::new();
    loop {
        batch.clear();
        let more = requests.read(&mut batch)?;
        batch.iter().for_each(&mut take);
        if !more {
            return Ok(());
        }
    }
}

/// The place of a device among those that were found; without a name that of the only one.
pub(crate) fn device_of(
    survey: &TraceSurvey,
    about: &RecordingInfo,
    disk: Option<&str>,
) -> Result<usize, TraceError> {
    match (disk, &survey.devices[..]) {
        (None, [_]) => Ok(0),
        (None, devices) => Err(TraceError::DiskMissing {
            recording: about.name.clone(),
            disks: devices.iter().map(|d| d.name.clone()).collect(),
        }),
        (Some(disk), _) => survey.place_of(disk, about),
    }
}

/// The counters that the requests of one device would have made: their sums in intervals of this length
/// (at least a nanosecond), and nothing else. `requests` is read from its start; `survey` is what an
/// earlier reading of it found.
///
/// # Errors
/// When the device is not in the recording, it cannot be read, or does not distinguish requests by
/// direction, size and start.
pub fn count_requests(
    requests: &mut dyn TraceSource,
    survey: &TraceSurvey,
    disk: &str,
    interval: Nanos,
) -> Result<Box<dyn CounterSource>, TraceError> {
    let about = requests.about().clone();
    check(&about)?;
    let place = survey.place_of(disk, &about)?;
    let mut counted = TraceCounters::new(&about, disk, interval);
    each(requests, |request| {
        if usize::from(request.target) == place {
            counted.add(&request.traced(), None);
        }
    })?;
    counted.finish(survey.length, requests);
    Ok(Box::new(counted))
}

/// Fits a model to the requests of one device. `requests` is read from its start; `survey` is what
/// an earlier reading of it found. What of them is kept says
/// `keep`.
///
/// # Errors
/// When the device is not in the recording, it cannot be read, lacks what a play needs, or
/// has too few requests.
pub fn fit_requests(
    requests: &mut dyn TraceSource,
    survey: &TraceSurvey,
    disk: &str,
    name: &str,
    keep: TraceFitOptions,
) -> Result<FitResult, TraceError> {
    let about = requests.about().clone();
    check(&about)?;
    let place = survey.place_of(disk, &about)?;
    let device = &survey.devices[place];
    let refused = |reason: String| TraceError::Misread {
        recording: about.name.clone(),
        reason,
    };
    if let Some(reason) = &survey.doubted.refused {
        return Err(refused(reason.clone()));
    }
    let clockwork = survey.clockwork();
    let interval = Nanos(survey.length.0.div_ceil(INTERVALS).max(INTERVAL_MIN.0));
    let mut counted = TraceCounters::new(&about, disk, clockwork.whole_ticks(interval));
    let mut recorded = TraceStats::new(device, clockwork);
    let mut waits = Waits::default();
    let mut packing = Packing {
        place,
        gaps: keep.gaps.unwrap_or(device.gaps()),
        shuffle: keep.shuffle,
        clockwork,
        late: 0,
        spread: TraceTickSpreader::new(clockwork),
    };
    let seen = |request: &TraceAccess, took: Option<Nanos>| {
        counted.add(request, took.filter(|_| device.tells_in_flight()));
        // Of starts recorded by the tick it is unknown what waited for what.
        if !clockwork.is_coarse() {
            waits.add(request.at, took);
        }
        recorded.add(request);
    };
    let (packed, unpacked) = beside(seen, |other| packing.pack(requests, other))?;
    packing.spread.check(device, clockwork).map_err(refused)?;
    // Times are kept to classes, by which the last request may be played a little later; it is
    // played all the same.
    let played = Nanos(packed.length().0.saturating_add(1));
    counted.finish(survey.length.max(played), requests);
    // The requests are played, so nothing is drawn from the intervals to be checked.
    let options = FitOptions {
        disk: disk.into(),
        window: counted.times().span(),
        name: name.into(),
        facts: ModelFacts::of_requests(packed.footprint_bytes().max(packed.largest_bytes().into())),
    };
    let mut fitted = fit_within(&counted, &options, 0)?;
    recorded.finish();
    fitted.model.fidelity = recorded.compare_packed(&packed, &unpacked);
    fitted.model.requests = Some(Box::new(packed));
    if requests.origin_unix_ns().is_none() {
        let ends = ends_without_date(&*requests, survey.length);
        (fitted.profile.from, fitted.profile.to) = ends.clone();
        (fitted.model.source.from, fitted.model.source.to) = ends;
    }
    fitted.warnings.extend(survey.doubted.told.clone());
    fitted.warnings.extend(device.lacks_ends());
    fitted.warnings.extend(told(requests));
    fitted.warnings.extend(packing.spread.sentence());
    waits.tell(keep, &mut fitted);
    if packing.late > 0 {
        fitted.warnings.push(format!(
            "{} requests come after later ones and are counted at the time of those",
            packing.late
        ));
    }
    Ok(fitted)
}

/// How the requests of one device are packed.
struct Packing {
    /// The place of the device.
    place: usize,
    gaps: PackedGapPrecision,
    shuffle: Option<TraceShuffle>,
    clockwork: TraceTimeBase,
    /// Requests that stood behind later ones.
    late: u64,
    spread: TraceTickSpreader,
}

impl Packing {
    /// Packs them, and looks at what was packed. `other` is handed each one as it was recorded.
    fn pack(
        &mut self,
        requests: &mut dyn TraceSource,
        mut other: TraceFanOut,
    ) -> Result<(PackedRequests, PackedTraceStats), TraceError> {
        let mut packer = PackedRequestsWriter::new(self.gaps);
        let mut shuffler = self.shuffle.map(TraceShuffler::new);
        let mut last = Nanos(0);
        let mut give = |request: &TraceAccess, took| {
            other.add(request, took);
            match &mut shuffler {
                Some(shuffler) => shuffler.push(request, |request| packer.push(request)),
                None => packer.push(request),
            }
        };
        each(requests, |request| {
            if usize::from(request.target) != self.place {
                return;
            }
            self.late += u64::from(request.at < last);
            last = last.max(request.at);
            let traced = TraceAccess {
                at: last,
                ..request.traced()
            };
            self.spread.push(traced, request.took, &mut give);
        })?;
        self.spread.release(&mut give);
        other.finish();
        if let Some(shuffler) = &mut shuffler {
            shuffler.release(|request| packer.push(request));
        }
        let mut packed = packer.finish(self.clockwork.length);
        packed.shuffled = self.shuffle.map(|shuffle| shuffle.window);
        let unpacked = PackedTraceStats::of(&packed, self.clockwork);
        Ok((packed, unpacked))
    }
}

/// Evidence whether requests waited for others.
#[derive(Default)]
struct Waits {
    ceiling: ceiling::InFlightLimitFinder,
    reliance: reliance::DependencyFinder,
}

impl Waits {
    fn add(&mut self, at: Nanos, took: Option<Nanos>) {
        self.ceiling.add(at, took);
        self.reliance.add(at, took);
    }

    /// Puts what was found into the model, as far as it is kept, and says so.
    fn tell(self, keep: TraceFitOptions, fitted: &mut FitResult) {
        if let Some(ceiling) = self.ceiling.finish() {
            fitted.model.facts.threads = (!keep.open_loop).then(|| ceiling.threads());
            fitted.warnings.push(ceiling.sentence(keep.open_loop));
        }
        let played = DependencyReplayMode::of(keep);
        if let (DependencyReplayMode::Waiting, Some(left_out)) = (played, self.reliance.left_out())
        {
            fitted.model.source.left_out.push(left_out.clone());
            fitted.warnings.push(left_out);
        }
        let Some(found) = self.reliance.finish() else {
            return;
        };
        fitted.warnings.push(found.sentence(played));
        let packed = fitted.model.requests.take();
        fitted.model.requests = match played {
            DependencyReplayMode::Waiting => {
                packed.map(|packed| Box::new(packed.with_links(found.links.into_iter())))
            }
            DependencyReplayMode::Open | DependencyReplayMode::Shuffled => packed,
        };
    }
}

/// The ends of a recording without a date.
pub(crate) fn ends_without_date(requests: &dyn TraceSource, length: Nanos) -> (String, String) {
    let from = match requests.taken_up_after() {
        Nanos(0) => "its start".into(),
        after => format!("{after} after its start"),
    };
    (from, format!("{length} later"))
}

/// The facts that a recording says of itself.
pub(crate) fn told(requests: &dyn TraceSource) -> Vec<String> {
    let mut told = requests.warnings().to_vec();
    if requests.lost() > 0 {
        let text = format!("{} events were lost by the recorder", requests.lost());
        told.push(text);
    }
    told
}

/// Holds packed requests against those that they should be: the gates of a fit of requests.
pub fn check_packed(
    expected: impl Iterator<Item = TraceAccess>,
    packed: &PackedRequests,
) -> Vec<FidelityCheck> {
    let bytes = packed.unpack().map(|request| u64::from(request.bytes));
    let device = TraceDevice {
        requests: packed.requests(),
        bytes: bytes.fold(0, u64::saturating_add),
        ..TraceDevice::default()
    };
    let clockwork = TraceTimeBase::fine(packed.length());
    let mut recorded = TraceStats::new(&device, clockwork);
    expected.for_each(|request| recorded.add(&request));
    recorded.finish();
    recorded.compare_packed(packed, &PackedTraceStats::of(packed, clockwork))
}
