// SPDX-License-Identifier: Apache-2.0
//! The text of `iostat`, best with `-x` and `-t`.
//!
//! Source: its manual page, and its output of versions 9 to 12. After a line about the host come
//! reports: the time (with `-t`), the processors, a header `Device …` and a line for each disk; the
//! columns depend on the version and are taken from the header. With `-h` a report has several
//! headers, each with a part of the columns, and the disks stand last. The first report after each
//! start of iostat is the average since the machine was started and is left out; of it only the time
//! is used, as the beginning of the second. Without `-t` the length of the intervals is nowhere.

use plimsoll_core::units::Nanos;

use super::meaning::{ColumnMeaning, DiskRowValues, human, of_sysstat};
use super::reports::IostatReports;
use super::{CounterFormat, CounterScanSummary, Give};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::recording::RecordingScope;
use crate::text::{lines, words};

/// Recognised by a header of disks, whatever stands before it.
pub(super) const FORMAT: CounterFormat = CounterFormat {
    name: "iostat text",
    resolution: Nanos::SECOND,
    scope: RecordingScope::Device,
    is: |head| lines(head).any(|line| IostatHeader::of(line).is_some()),
    scan,
};

const ROUNDED: &str =
    "its figures are rounded to one decimal (iostat -h), and so are those shown here";

/// The columns of a header.
#[derive(Debug, Clone, PartialEq)]
struct IostatHeader {
    /// Without that of the disk.
    columns: Vec<Option<ColumnMeaning>>,
    is_disk_last: bool,
}

impl IostatHeader {
    fn of(line: &[u8]) -> Option<IostatHeader> {
        let is_disk = |word: &[u8]| matches!(word, b"Device" | b"Device:");
        let mut words = words(line);
        let first = words.next()?;
        let is_disk_last = !is_disk(first);
        if is_disk_last && !words.next_back().is_some_and(is_disk) {
            return None;
        }
        let of = |word: &[u8]| of_sysstat(str::from_utf8(word).ok()?);
        let before = is_disk_last.then_some(first);
        let columns: Vec<Option<ColumnMeaning>> = before.into_iter().chain(words).map(of).collect();
        let knows = columns.iter().any(Option::is_some);
        knows.then_some(IostatHeader {
            columns,
            is_disk_last,
        })
    }

    /// A blank before the name belongs to it: so iostat prints groups.
    fn row<'a>(&self, line: &'a [u8]) -> Option<(&'a [u8], DiskRowValues)> {
        let mut words = words(line);
        let (disk, blanks) = match self.is_disk_last {
            true => (words.next_back()?, 2),
            false => (words.next()?, 1),
        };
        let at = disk.as_ptr() as usize - line.as_ptr() as usize;
        let is_group = at >= blanks && line[at - blanks..at].iter().all(|byte| *byte == b' ');
        let disk = &line[at - usize::from(is_group)..at + disk.len()];
        let mut row = Vec::new();
        for meaning in &self.columns {
            let word = words.next()?;
            let value = human(word, *meaning)?;
            row.extend(meaning.map(|meaning| (meaning, value)));
        }
        words.next().is_none().then_some((disk, row))
    }
}

/// Where the reading stands.
#[derive(Debug, Default)]
struct IostatText {
    reports: IostatReports,
    header: Option<IostatHeader>,
    /// Headers of this report so far.
    seen: Vec<IostatHeader>,
    /// What stood before the next report: its time.
    time: Option<u64>,
}

fn scan(
    input: &mut RecordingInput,
    told: &mut CounterScanSummary,
    give: &mut Give<'_>,
) -> Result<(), TraceError> {
    let mut text = IostatText::default();
    while let Some((offset, line)) = input.line()? {
        if let Some(start) = start_of(line) {
            text.reports.restart(give);
            host(start, told, &mut text.reports);
            (text.header, text.time) = (None, None);
            text.seen.clear();
        } else if let Some(header) = IostatHeader::of(line) {
            text.header(header, told, give);
        } else if line.trim_ascii().is_empty() || line.starts_with(b"avg-cpu") {
            // Behind an empty line come the processors of the next report, or its time.
            text.header = None;
            text.reports.is_whole();
            if line.starts_with(b"avg-cpu") {
                text.seen.clear();
            }
        } else if let Some(header) = &text.header {
            match header.row(line) {
                Some((disk, row)) => {
                    told.wrong.right();
                    text.reports.row(disk, row);
                }
                None => {
                    text.reports.is_spoilt();
                    let what = "it has not a number in every column";
                    if let Some(what) = told.wrong.wrong(offset, what, line) {
                        told.damage = Some(input.damage(offset, what));
                        break;
                    }
                }
            }
        } else if let Some(at) = told.instant(line) {
            text.time = Some(at);
        }
    }
    text.reports.finish(told, give);
    Ok(())
}

impl IostatText {
    /// A header begins a report, unless it has other columns of the same one.
    fn header(&mut self, header: IostatHeader, told: &mut CounterScanSummary, give: &mut Give<'_>) {
        if header.is_disk_last {
            told.warn_once(ROUNDED);
        }
        let goes_on = self.time.is_none() && !self.seen.is_empty() && !self.seen.contains(&header);
        if !goes_on {
            self.reports.begin(self.time.take(), told, give);
            self.seen.clear();
        }
        self.seen.push(header.clone());
        self.header = Some(header);
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

fn host(line: &[u8], told: &mut CounterScanSummary, reports: &mut IostatReports) {
    let mut words = words(line);
    if let Some(name) = words.nth(2) {
        let name = String::from_utf8_lossy(name);
        told.host = name.trim_matches(['(', ')']).into();
    }
    if let Some(date) = words.next() {
        let midnight = [date, b" 00:00:00"].concat();
        reports.day = told.local(&midnight);
    }
}
