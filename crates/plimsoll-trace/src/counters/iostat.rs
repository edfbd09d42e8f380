// SPDX-License-Identifier: Apache-2.0
//! Reports of devices as text: `iostat` of sysstat, FreeBSD and Solaris, `zpool iostat`, `collectl -sD`.
//!
//! Source: their manual pages, and the output of sysstat 9 to 12 and collectl 4.3. A report is its time
//! (with `-t`, `-T`, or before every line), perhaps the processors, a header and a line for each device;
//! the columns depend on the version and are taken from the header. With sysstat's `-h` a report has
//! several headers, each with a part of the columns, and the disks stand last. The first report after each
//! start is the average since the machine was started and is left out; of it only the time is used, as the
//! beginning of the second. With sysstat's `-y` there is none, which the second empty line behind the line
//! about the host shows; the first report is then as long as the second. Without times the length of the
//! intervals is nowhere. What journald prints before each line is cut off.

use plimsoll_core::units::Nanos;

use super::printed::TableHeader;
use super::reports::PrintedReports;
use super::{CounterFormat, CounterScan};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::text::{lines, words};

/// Recognised by a header of disks, whatever stands before it.
pub(super) const FORMAT: CounterFormat = CounterFormat {
    name: "iostat text",
    resolution: Nanos::SECOND,
    is: |head| {
        let is_one = |line| TableHeader::of(line).is_some() || TableHeader::of_pool(line).is_some();
        lines(head).map(unlabelled).any(is_one)
    },
    scan,
};

const ROUNDED: &str =
    "its figures are rounded to one decimal (iostat -h), and so are those shown here";

/// Where the reading stands.
#[derive(Debug, Default)]
struct IostatText {
    reports: PrintedReports,
    header: Option<TableHeader>,
    /// Headers of this report so far.
    seen: Vec<TableHeader>,
    /// Time that stood before the next report.
    time: Option<u64>,
    /// The time before the last line, where each has one.
    stamp: Vec<u8>,
    /// Empty lines since the line about the host, while there are no others.
    empty: Option<usize>,
}

fn scan(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    let mut text = IostatText::default();
    while let Some((offset, line)) = input.line()? {
        let line = unlabelled(line);
        if let Err(what) = text.line(line, scan) {
            text.reports.is_spoilt();
            if let Some(what) = scan.told.wrong.wrong(offset, what, line) {
                scan.told.damage = Some(input.damage(offset, what));
                break;
            }
        }
    }
    text.reports.finish(scan);
    Ok(())
}

impl IostatText {
    fn line(&mut self, line: &[u8], scan: &mut CounterScan<'_>) -> Result<(), &'static str> {
        let is_empty = line.trim_ascii().is_empty();
        self.empty = match (self.empty, is_empty) {
            (Some(lines), true) => Some(lines + 1),
            (Some(2..), false) => {
                self.reports.omits_boot();
                None
            }
            _ => None,
        };
        if let Some(start) = start_of(line) {
            self.reports.restart(scan);
            self.reports.day = scan.heading(start);
            *self = IostatText {
                reports: std::mem::take(&mut self.reports),
                empty: Some(0),
                ..IostatText::default()
            };
        } else if let Some(header) = TableHeader::of(line) {
            self.header(header, scan);
        } else if is_empty || is_heading(line) {
            // Behind an empty line come the processors of the next report, or its time.
            self.header = self.header.take().filter(TableHeader::is_timed);
            self.reports.is_whole();
            if !is_empty {
                self.seen.clear();
            }
        } else if !line.iter().all(|byte| b"- ".contains(byte)) {
            return self.row(line, scan);
        }
        Ok(())
    }

    /// A header begins a report, unless it has other columns of the same one.
    fn header(&mut self, header: TableHeader, scan: &mut CounterScan<'_>) {
        if header.is_device_last() {
            scan.warn_once(ROUNDED);
        }
        if header.omits_boot() {
            self.reports.omits_boot();
        }
        let goes_on = self.time.is_none() && !self.seen.is_empty() && !self.seen.contains(&header);
        if !goes_on && !header.is_timed() {
            self.reports.begin(self.time.take(), scan);
            self.seen.clear();
        }
        self.seen.push(header.clone());
        self.header = Some(header);
    }

    /// A device, or a time.
    fn row(&mut self, line: &[u8], scan: &mut CounterScan<'_>) -> Result<(), &'static str> {
        if self.header.is_none()
            && let Some(header) = TableHeader::of_pool(line)
        {
            self.header(header, scan);
        }
        let Some(row) = self.header.as_ref().and_then(|header| header.row(line)) else {
            // A row that begins with its time is none of the lines that are a time.
            let is_timed = self.header.as_ref().is_some_and(TableHeader::is_timed);
            let time = if is_timed { None } else { scan.instant(line) };
            match (time, &self.header) {
                (Some(at), _) => (self.time, self.header) = (Some(at), None),
                (None, Some(_)) => return Err("it has not a number in every column"),
                (None, None) => {}
            }
            return Ok(());
        };
        scan.right();
        if self.stamp != row.time {
            self.stamp = row.time.into();
            self.reports.begin(scan.instant(row.time), scan);
        }
        // Without times and with one header for all of them, a device that comes again begins a report.
        if row.time.is_empty() && self.seen.len() == 1 && self.reports.has(row.device) {
            self.reports.begin(None, scan);
        }
        if !row.values.is_empty() {
            self.reports.row(row.device, row.values);
        }
        Ok(())
    }
}

/// Whether a line is a heading above the names of columns, or above other tables.
fn is_heading(line: &[u8]) -> bool {
    let mut words = words(line);
    match words.next() {
        Some(b"avg-cpu:" | b"capacity") => true,
        Some(b"extended") => words.next() == Some(b"device"),
        _ => false,
    }
}

/// A line without what journald puts before it: `Nov 27 13:26:19 vm iostat[123]: `.
fn unlabelled(line: &[u8]) -> &[u8] {
    let Some(at) = line.windows(2).position(|part| part == b"]:") else {
        return line;
    };
    let before = line[..at].iter().rposition(|byte| !byte.is_ascii_digit());
    let is_label = before.is_some_and(|from| from > 0 && from + 1 < at && line[from] == b'[');
    let rest = &line[at + 2..];
    match is_label {
        true => rest.strip_prefix(b" ").unwrap_or(rest),
        false => line,
    }
}

/// The line about the host with which each iostat starts, `Linux 6.18 (vm)  11/21/26  _x86_64_  (2
/// CPU)`; what it stands behind was cut off when the machine was.
fn start_of(line: &[u8]) -> Option<&[u8]> {
    const START: &[u8] = b"Linux ";
    if line.starts_with(START) {
        return Some(line);
    }
    let at = line.windows(START.len()).position(|part| part == START)?;
    line.ends_with(b" CPU)").then(|| &line[at..])
}
