// SPDX-License-Identifier: Apache-2.0
//! What every recording says of itself, whatever its format: who, when, and what it carries.
//!
//! There are two kinds. *Counters* tell how much each disk did between two instants; *requests*
//! tell every request by itself. Each source declares what it carries, and nothing is fitted that
//! its source does not carry.

use std::fmt;

use plimsoll_core::profile::Made;
use plimsoll_core::recording::Request;
use plimsoll_core::units::Nanos;

use crate::error::{Damage, TraceError};
use crate::series::{DiskAverages, DiskSeries};
use crate::window::{Times, Window};

/// What is known of a recording before its data is read.
#[derive(Debug, Clone)]
pub struct About {
    /// What it is called: its path as it was given, an archive's base name.
    pub name: String,
    /// What kind it is, with its version: `PCP archive, version 2`.
    pub format: String,
    /// The host that was recorded; empty when the recording does not say.
    pub host: String,
    /// What it tells.
    pub carries: Carries,
}

/// How well a figure is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Of every request.
    Each,
    /// The mean of each interval.
    Mean,
    /// Seen at the instants of the samples only.
    Sampled,
    /// Not at all.
    Absent,
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Detail::Each => "of every request",
            Detail::Mean => "means of the intervals",
            Detail::Sampled => "at the samples only",
            Detail::Absent => "not recorded",
        })
    }
}

/// The order in which requests stand in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By their start.
    Started,
    /// By their end; starts are told by the time each took.
    Ended,
    /// In any.
    Mixed,
}

/// What was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Requests as one block device got them.
    Device,
    /// Everything one machine, virtual or not, asked of its disks.
    Host,
    /// Operations on files.
    File,
    /// What an array got from all its clients.
    Array,
}

/// What a source tells, and how finely. What is absent here is assumed by a model, and said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carries {
    /// Starts of requests: of each, or how many in an interval.
    pub arrivals: Detail,
    /// The finest difference of two times it can tell.
    pub resolution: Nanos,
    /// Whether reads and writes are told apart.
    pub direction: bool,
    /// Lengths of requests.
    pub sizes: Detail,
    /// Whether it tells where on the device.
    pub offsets: bool,
    /// Times from start to end.
    pub service: Detail,
    /// Requests waiting or being served.
    pub queue: Detail,
    /// In which order requests stand in it.
    pub order: Order,
    /// What was recorded.
    pub scope: Scope,
}

/// A recording of how much each disk did between two instants.
pub trait Counters {
    /// What is known of it as a whole.
    fn about(&self) -> &About;

    /// When it was made.
    fn times(&self) -> &Times;

    /// Names of the disks, in recorded order.
    fn disks(&self) -> Vec<String>;

    /// What a disk is made of, where the recording tells more than its name does.
    fn made(&self, _disk: &str) -> Option<Made> {
        None
    }

    /// Everything recorded of `disk` inside `window` (both ends included).
    ///
    /// # Errors
    /// When it has no such disk; the message lists those it has.
    fn series(&self, disk: &str, window: &Window) -> Result<DiskSeries, TraceError>;

    /// Everything recorded of several disks inside `window`, in their order. What is read in one
    /// pass where the source can do that is held in memory all at once.
    ///
    /// # Errors
    /// As [`Counters::series`].
    fn several(&self, disks: &[String], window: &Window) -> Result<Vec<DiskSeries>, TraceError> {
        disks.iter().map(|disk| self.series(disk, window)).collect()
    }

    /// Everything recorded of each disk inside `window`, in the order of [`Counters::disks`]: for
    /// recordings that are known to be small; [`each_series`] is for any.
    ///
    /// # Errors
    /// As [`Counters::series`].
    fn all_series(&self, window: &Window) -> Result<Vec<DiskSeries>, TraceError> {
        self.several(&self.disks(), window)
    }

    /// Both averages of every figure of each of `disks` inside `window`, in their order. Memory does
    /// not grow with the recording.
    ///
    /// # Errors
    /// As [`Counters::series`].
    fn averages(&self, disks: &[String], window: &Window) -> Result<Vec<DiskAverages>, TraceError> {
        let mut found = Vec::with_capacity(disks.len());
        each_series(self, disks, window, |series| {
            found.push(DiskAverages::of(&series));
            Ok::<(), TraceError>(())
        })?;
        Ok(found)
    }

    /// Where it stops being readable.
    fn damage(&self) -> Option<&Damage>;

    /// What else the reader should know, as sentences.
    fn warnings(&self) -> &[String];
}

/// Intervals and samples of disks that are held at once (some 40 bytes each).
const HELD_MAX: usize = 2_000_000;

/// Hands on everything recorded of each of `disks` inside `window`, one after the other. As many
/// disks are read at once as are sure to be held in memory, so memory does not grow with their
/// number, nor time with it where they are small.
///
/// # Errors
/// As [`Counters::series`], and what `take` says.
pub fn each_series<E: From<TraceError>>(
    counters: &(impl Counters + ?Sized),
    disks: &[String],
    window: &Window,
    mut take: impl FnMut(DiskSeries) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = disks;
    // Of the first disk nothing is known: it tells how large the others may be.
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

/// A recording of every request. It is read once, from its start to its end, in pieces, so that
/// memory does not grow with its length.
pub trait Requests {
    /// What is known of it as a whole.
    fn about(&self) -> &About;

    /// The instant from which [`Request::at`] counts, nanoseconds since 1970; `None` when the
    /// source counts from an instant it does not tell.
    fn origin_unix_ns(&self) -> Option<u64>;

    /// How long after its start the recording was taken up: [`Request::at`] counts from there.
    fn taken_up_after(&self) -> Nanos {
        Nanos(0)
    }

    /// Appends the next requests to `into`, some thousands at most, in the order of the
    /// recording. Returns whether there may be more.
    ///
    /// # Errors
    /// When the file can no longer be read, or nothing of it could be understood. Damage behind
    /// which nothing is readable ends the reading and is told by [`Requests::damage`].
    fn read(&mut self, into: &mut Vec<Request>) -> Result<bool, TraceError>;

    /// Names of the devices (disks, volumes, files) that were met so far: [`Request::target`] is
    /// a place in it.
    fn targets(&self) -> &[String];

    /// Requests that the recorder says it lost, so far.
    fn lost(&self) -> u64 {
        0
    }

    /// Where it stopped being readable.
    fn damage(&self) -> Option<&Damage>;

    /// What else the reader should know so far, as sentences.
    fn warnings(&self) -> &[String];
}
