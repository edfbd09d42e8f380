// SPDX-License-Identifier: Apache-2.0
//! Properties of every recording, whatever its format: its host, its times and its contents.
//!
//! There are two kinds. *Counters* say how much each disk did between two instants; *requests*
//! list every request. Each source declares what it carries, and nothing is fitted that
//! its source does not carry.

use plimsoll_core::profile::DeviceComposition;
use plimsoll_core::recording::TraceRequest;
use plimsoll_core::units::Nanos;

use crate::error::{RecordingDamage, TraceError};
use crate::series::{DiskAverages, DiskSeries};
use crate::targets::DeviceNameTable;
use crate::window::{RecordingTimes, RecordingWindow};

/// Properties of a recording known before its data is read.
#[derive(Debug, Clone)]
pub struct RecordingInfo {
    /// Name: its path as it was given, an archive's base name.
    pub name: String,
    /// Format, with its version: `PCP archive, version 2`.
    pub format: String,
    /// The host that was recorded; empty when the recording does not say.
    pub host: String,
    /// Contents and their detail.
    pub carries: RecordingCapabilities,
}

/// How well a figure is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingDetail {
    /// Of every request.
    Each,
    /// The mean of each interval.
    Mean,
    /// Seen at the instants of the samples only.
    Sampled,
    /// Not at all.
    Absent,
}

plimsoll_core::named::named_variants! {
    RecordingDetail, Display,
    /// As people read it.
    name:
    Each => "of every request",
    Mean => "means of the intervals",
    Sampled => "at the samples only",
    Absent => "not recorded",
}

/// The order of the requests in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceOrder {
    /// By their start.
    Started,
    /// By their end; starts follow from the time each took.
    Ended,
    /// In any.
    Mixed,
}

/// Contents of a source and their detail. A model assumes absent figures, and says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingCapabilities {
    /// Starts of requests: of each, or how many in an interval.
    pub arrivals: RecordingDetail,
    /// The resolution of its times.
    pub resolution: Nanos,
    /// Whether reads and writes are distinguished.
    pub direction: bool,
    /// Lengths of requests.
    pub sizes: RecordingDetail,
    /// Whether it has offsets on the device.
    pub offsets: bool,
    /// Times from start to end.
    pub service: RecordingDetail,
    /// Requests waiting or being served.
    pub queue: RecordingDetail,
    /// The order of its requests.
    pub order: TraceOrder,
}

/// Properties of a recording of counters.
#[derive(Debug)]
pub struct CounterReadState {
    /// Properties of the recording as a whole.
    pub about: RecordingInfo,
    /// When it was made.
    pub times: RecordingTimes,
    /// Where it stops being readable.
    pub damage: Option<RecordingDamage>,
    /// Other warnings for the reader, as sentences.
    pub warnings: Vec<String>,
}

/// A recording of how much each disk did between two instants.
pub trait CounterSource {
    /// Properties of the recording.
    fn state(&self) -> &CounterReadState;

    /// Names of the disks, in recorded order.
    fn disks(&self) -> Vec<String>;

    /// Composition of a disk, where the recording says more than its name.
    fn made(&self, _disk: &str) -> Option<DeviceComposition> {
        None
    }

    /// Everything recorded of several disks inside `window`, in their order, read in one pass and
    /// held in memory all at once.
    ///
    /// # Errors
    /// When it can no longer be read.
    fn several(
        &self,
        disks: &[String],
        window: &RecordingWindow,
    ) -> Result<Vec<DiskSeries>, TraceError>;

    /// Everything recorded of `disk` inside `window` (both ends included).
    ///
    /// # Errors
    /// When it has no such disk; the message lists those it has.
    fn series(&self, disk: &str, window: &RecordingWindow) -> Result<DiskSeries, TraceError> {
        if !self.disks().iter().any(|known| known == disk) {
            return Err(self.no_disk(disk));
        }
        Ok(self.several(&[disk.into()], window)?.swap_remove(0))
    }

    /// That it has no such disk.
    fn no_disk(&self, disk: &str) -> TraceError {
        TraceError::NoDisk {
            disk: disk.into(),
            recording: self.about().name.clone(),
            disks: self.disks(),
            damage: self.damage().cloned().map(Box::new),
        }
    }

    /// Everything recorded of each disk inside `window`, in the order of [`CounterSource::disks`]: for
    /// recordings that are known to be small; [`each_series`] is for any.
    ///
    /// # Errors
    /// As [`CounterSource::series`].
    fn all_series(&self, window: &RecordingWindow) -> Result<Vec<DiskSeries>, TraceError> {
        self.several(&self.disks(), window)
    }

    /// Both averages of every figure of each of `disks` inside `window`, in their order. Memory does
    /// not grow with the recording.
    ///
    /// # Errors
    /// As [`CounterSource::series`].
    fn averages(
        &self,
        disks: &[String],
        window: &RecordingWindow,
    ) -> Result<Vec<DiskAverages>, TraceError> {
        let mut found = Vec::with_capacity(disks.len());
        each_series(self, disks, window, |series| {
            found.push(DiskAverages::of(&series));
            Ok::<(), TraceError>(())
        })?;
        Ok(found)
    }

    /// Properties of the recording as a whole.
    fn about(&self) -> &RecordingInfo {
        &self.state().about
    }

    /// When it was made.
    fn times(&self) -> &RecordingTimes {
        &self.state().times
    }

    /// Where it stops being readable.
    fn damage(&self) -> Option<&RecordingDamage> {
        self.state().damage.as_ref()
    }

    /// Other warnings for the reader, as sentences.
    fn warnings(&self) -> &[String] {
        &self.state().warnings
    }
}

/// Intervals and samples of disks that are held at once (some 40 bytes each).
const HELD_MAX: usize = 2_000_000;

/// Hands on everything recorded of each of `disks` inside `window`, one after the other. As many
/// disks are read at once as are sure to be held in memory, so memory does not grow with their
/// number, nor time with it where they are small.
///
/// # Errors
/// As [`CounterSource::series`], and what `take` says.
pub fn each_series<E: From<TraceError>>(
    counters: &(impl CounterSource + ?Sized),
    disks: &[String],
    window: &RecordingWindow,
    mut take: impl FnMut(DiskSeries) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = disks;
    // Of the first disk nothing is known: it shows how large the others may be.
    let (mut at_once, mut largest) = (1, 1);
    while !rest.is_empty() {
        let (now, later) = rest.split_at(at_once.min(rest.len()));
        for series in counters.several(now, window)? {
            let lengths = series
                .columns
                .iter()
                .map(|c| c.intervals.len() + c.samples.len());
            largest = lengths.sum::<usize>().max(largest);
            take(series)?;
        }
        at_once = (HELD_MAX / largest).max(1);
        rest = later;
    }
    Ok(())
}

/// Properties of a recording of requests known so far.
#[derive(Debug)]
pub struct TraceReadState {
    pub(crate) about: RecordingInfo,
    pub(crate) targets: DeviceNameTable,
    pub(crate) lost: u64,
    pub(crate) damage: Option<RecordingDamage>,
    pub(crate) warnings: Vec<String>,
}

impl TraceReadState {
    /// Of one of which nothing was read yet.
    pub(crate) fn new(
        name: &str,
        format: impl Into<String>,
        carries: RecordingCapabilities,
    ) -> TraceReadState {
        TraceReadState {
            about: RecordingInfo {
                name: name.into(),
                format: format.into(),
                host: String::new(),
                carries,
            },
            targets: DeviceNameTable::default(),
            lost: 0,
            damage: None,
            warnings: Vec::new(),
        }
    }

    /// That nothing of it can be used.
    pub(crate) fn refused(&self, what: impl Into<String>) -> TraceError {
        TraceError::format(&self.about.name, what)
    }
}

/// A recording of every request. It is read once, from its start to its end, in pieces, so that
/// memory does not grow with its length.
pub trait TraceSource {
    /// Properties of the recording known so far. A source that reads through another one returns
    /// those of the other, and may report another order ([`TraceSource::about`]) and more warnings
    /// for itself.
    fn state(&self) -> &TraceReadState;

    /// The instant from which [`TraceRequest::at`] counts, nanoseconds since 1970; `None` when the
    /// source counts from an unknown instant.
    fn origin_unix_ns(&self) -> Option<u64>;

    /// How long after its start the recording was taken up: [`TraceRequest::at`] counts from there.
    fn taken_up_after(&self) -> Nanos {
        Nanos(0)
    }

    /// Appends the next requests to `into`, some thousands at most, in the order of the
    /// recording. Returns whether there may be more.
    ///
    /// # Errors
    /// When the file can no longer be read, or nothing of it could be understood. Damage behind
    /// which nothing is readable ends the reading and is reported by [`TraceSource::damage`].
    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError>;

    /// Properties of the recording as a whole.
    fn about(&self) -> &RecordingInfo {
        &self.state().about
    }

    /// Names of the devices (disks, volumes, files) that were met so far: [`TraceRequest::target`] is
    /// a place in it.
    fn targets(&self) -> &[String] {
        self.state().targets.names()
    }

    /// Requests that the recorder says it lost, so far.
    fn lost(&self) -> u64 {
        self.state().lost
    }

    /// Where it stopped being readable.
    fn damage(&self) -> Option<&RecordingDamage> {
        self.state().damage.as_ref()
    }

    /// Other warnings for the reader so far, as sentences.
    fn warnings(&self) -> &[String] {
        &self.state().warnings
    }
}
