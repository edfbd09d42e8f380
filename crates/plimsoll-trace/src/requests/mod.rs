// SPDX-License-Identifier: Apache-2.0
//! Recordings of single requests: one module for each format, one door for all.
//!
//! A format is recognised by its first bytes, never by a file's name. Readers stream: they hold a
//! piece of the file and what is needed to match ends with starts, both bounded.

mod alibaba;
mod biosnoop;
mod blkparse;
mod blktrace;
mod capture;
mod clipped;
mod darshan;
mod fio_iolog;
mod fio_lat;
mod fiu;
#[cfg(test)]
mod fixtures;
mod gathered;
mod mqsim;
mod msr;
mod pairs;
#[cfg(feature = "parquet")]
pub mod parquet;
mod ring;
mod rows;
mod sorted;
mod spc;
mod spool;
mod systor;
mod tencent;
mod vscsi;
mod warp;

use std::path::{Path, PathBuf};

pub use plimsoll_core::recording::TraceRequest;
use plimsoll_core::units::Nanos;

use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::recording::{RecordingCapabilities, RecordingDetail, TraceOrder, TraceSource};
use crate::text;
pub use capture::{FtraceParser, recorded_events};
pub use clipped::{TraceRange, TraceRangeReader};
use rows::TraceRow;
pub use sorted::TraceSorter;
pub use spool::TraceSpool;

/// Of a device, with the end of every request: what most tracers record, and formats vary.
const TIMED: RecordingCapabilities = RecordingCapabilities {
    arrivals: RecordingDetail::Each,
    resolution: Nanos(1),
    direction: true,
    sizes: RecordingDetail::Each,
    offsets: true,
    service: RecordingDetail::Each,
    queue: RecordingDetail::Each,
    order: TraceOrder::Started,
};

/// As [`TIMED`], without the ends.
const UNTIMED: RecordingCapabilities = RecordingCapabilities {
    service: RecordingDetail::Absent,
    queue: RecordingDetail::Absent,
    ..TIMED
};

/// A format that is recognized by its first bytes.
struct TraceFormat {
    /// As it is listed to people.
    name: &'static str,
    /// Whether a file that begins so is one. `head` is the whole file if that is shorter than
    /// [`crate::input::HEAD_BYTES`].
    is: fn(head: &[u8]) -> bool,
    /// Begins to read it.
    open: fn(RecordingInput) -> Result<Box<dyn TraceSource>, TraceError>,
}

/// All of them; the first that recognises a file reads it, so the strict stand before the lax:
/// magic numbers, headers, then rows by their columns.
const FORMATS: &[TraceFormat] = &[
    spool::FORMAT,
    #[cfg(feature = "parquet")]
    parquet::FORMAT,
    blktrace::FORMAT,
    vscsi::FORMAT,
    darshan::LOG,
    darshan::TEXT,
    warp::FORMAT,
    fio_iolog::FORMAT,
    biosnoop::FORMAT,
    blkparse::FORMAT,
    msr::FORMAT,
    systor::FORMAT,
    fio_lat::FORMAT,
    alibaba::FORMAT,
    tencent::FORMAT,
    spc::FORMAT,
    fiu::FORMAT,
    mqsim::FORMAT,
];

/// Opens a recording of requests of any known format. That of blktrace may be given by its base
/// name or by one of its files.
///
/// # Errors
/// When the file cannot be read, or is of no known format; the message lists the formats.
pub fn open(path: &Path) -> Result<Box<dyn TraceSource>, TraceError> {
    if !path.exists() {
        for file in blktrace::files_of(path) {
            let input = RecordingInput::open(&file)?;
            // A processor on which nothing happened has an empty file.
            if (blktrace::FORMAT.is)(input.head()) {
                return read(input);
            }
        }
    }
    read(RecordingInput::open(path)?)
}

/// Reads a recording of requests from an open file, or from memory.
///
/// # Errors
/// As [`open`].
pub fn read(input: RecordingInput) -> Result<Box<dyn TraceSource>, TraceError> {
    match format(&input) {
        Some(format) => (format.open)(input),
        None => {
            let formats: Vec<&str> = names().collect();
            Err(crate::resembling::unknown(
                input.name(),
                input.head(),
                &formats,
            ))
        }
    }
}

/// Whether a file is a recording of requests, by its first bytes.
pub(crate) fn is_one(input: &RecordingInput) -> bool {
    format(input).is_some()
}

/// The files of a recording of blktrace, by its base name or one of them; none of another.
pub(crate) fn files_of(path: &Path) -> Vec<PathBuf> {
    match path.is_file() {
        true => blktrace::neighbours(path),
        false => blktrace::files_of(path),
    }
}

/// Whether a name is that of a recording in several files.
pub(crate) fn has_files(base: &Path) -> bool {
    !blktrace::files_of(base).is_empty()
}

/// Names of the formats.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.name)
}

fn format(input: &RecordingInput) -> Option<&'static TraceFormat> {
    FORMATS.iter().find(|format| (format.is)(input.head()))
}

/// Rows that are looked at until one holds a request: a header may stand before it.
const HEADER_ROWS: usize = 2;

/// Whether the first row of a file that holds a request is one of a format, with nothing before it
/// but a heading and what is not a request in that format either.
fn first_row_is(
    head: &[u8],
    parse: fn(&[u8]) -> Result<Option<TraceRow<'_>>, &'static str>,
) -> bool {
    let rows = text::lines(head).take(HEADER_ROWS);
    for line in rows.filter(|line| !line.is_empty()) {
        match parse(line) {
            Ok(Some(_)) => return true,
            Ok(None) => {}
            Err(_) if text::is_heading(line) => {}
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use fixtures::{MSR, all as fixtures};
#[cfg(test)]
pub(crate) use tests::mutate;
