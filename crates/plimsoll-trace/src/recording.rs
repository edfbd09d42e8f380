// SPDX-License-Identifier: Apache-2.0
//! What every recording says of itself, whatever its format: who, when, and what it carries.
//!
//! There are two kinds. *Counters* tell how much each disk did between two instants; *requests*
//! tell every request by itself. Each source declares what it carries, and nothing is fitted that
//! its source does not carry.

use std::fmt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use plimsoll_core::profile::Made;
use plimsoll_core::units::Nanos;

use crate::counters::{self, CounterFile};
use crate::error::{Damage, TraceError};
use crate::input::Input;
use crate::pcp::Archive;
use crate::requests::{self, Request};
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

/// A recording of either kind.
pub enum Recording {
    /// How much each disk did.
    Counters(Box<dyn Counters>),
    /// Every request.
    Requests(Box<dyn Requests>),
}

/// Opens a recording of any kind: a PCP archive by its base name or any of its files, one of
/// blktrace by its base name or any of its files, any other by its file, whose content decides.
///
/// # Errors
/// When there is nothing of that name, it cannot be read, or it is of no known kind; the message
/// lists the kinds.
pub fn open(path: &Path) -> Result<Recording, TraceError> {
    if let Some(error) = no_file(path) {
        return Err(error);
    }
    if path.is_file() {
        let input = Input::open(path)?;
        if requests::is_one(&input) {
            return requests::read(input).map(Recording::Requests);
        }
        if counters::is_one(&input) {
            return Ok(Recording::Counters(Box::new(CounterFile::open(path)?)));
        }
    } else if requests::has_files(path) {
        return requests::open(path).map(Recording::Requests);
    }
    let archive = Archive::open(path).map_err(|error| match error {
        TraceError::NoArchive { .. } if path.is_file() => unknown(path),
        TraceError::NoArchive { path } => TraceError::NoRecording { path },
        other => other,
    })?;
    Ok(Recording::Counters(Box::new(archive)))
}

/// What is said of a file that is of no known kind.
fn unknown(path: &Path) -> TraceError {
    let formats = ["PCP archive"]
        .into_iter()
        .chain(counters::names())
        .chain(requests::names())
        .collect();
    match Input::open(path) {
        Ok(input) => counters::unknown(input.name(), input.head(), formats),
        Err(error) => error,
    }
}

/// What is there and cannot be read twice.
fn no_file(path: &Path) -> Option<TraceError> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    let what = match kind {
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() => "a terminal or another device",
        _ => return None,
    };
    Some(TraceError::NoFile {
        path: path.display().to_string(),
        what,
    })
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, about) = match self {
            Recording::Counters(counters) => ("Counters", counters.about()),
            Recording::Requests(requests) => ("Requests", requests.about()),
        };
        f.debug_tuple(kind).field(about).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_and_what_is_nothing_is_said_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.name");
        let opened = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            open(&path).map_err(|error| error.to_string())
        };
        let requests = opened(b"1538323199,8,48,1,1063\n");
        assert!(
            matches!(requests, Ok(Recording::Requests(_))),
            "{requests:?}"
        );
        let counters = opened(b"1795220132\n8 0 sda 1 0 1 1 1 0 1 1 0 1 1\n");
        assert!(
            matches!(counters, Ok(Recording::Counters(_))),
            "{counters:?}"
        );
        let error = opened(b"hello\n").unwrap_err();
        for part in ["any.name", "PCP archive", "blktrace", "iostat", "sadf"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let error = opened(b"\x96\xd5 of sar\n").unwrap_err();
        assert!(
            error.contains("sadf -j") && !error.contains("known are"),
            "{error}"
        );
        let error = open(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("into a file first"), "{error}");
        let error = open(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.starts_with("find a recording at"), "{error}");
    }
}
