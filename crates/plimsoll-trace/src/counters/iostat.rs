// SPDX-License-Identifier: Apache-2.0
//! The text of `iostat`, best with `-x` and `-t`.
//!
//! Source: its manual page, and its output of versions 9 to 12. After a line about the host come
//! reports: the time (with `-t`), the processors, a header `Device …` and a line for each disk; the
//! columns depend on the version and are taken from the header. The first report is the average
//! since the machine was started and is left out; of it only the time is used, as the beginning of
//! the second. Without `-t` the length of the intervals is told nowhere.

use plimsoll_core::units::Nanos;

use super::meaning::{Figures, Meaning, number, of_sysstat, rates};
use super::{Event, Format, Found, Give, Told, What};
use crate::error::TraceError;
use crate::input::Input;
use crate::recording::Scope;
use crate::requests::text::{lines, words};
use crate::series::DiskMetric;

/// Recognised by the line about the host and a header of disks.
pub(super) const FORMAT: Format = Format {
    name: "iostat text",
    resolution: Nanos(SECOND),
    scope: Scope::Device,
    is: |head| {
        let mut lines = lines(head).filter(|line| !line.is_empty());
        lines
            .next()
            .is_some_and(|first| first.starts_with(b"Linux "))
            && lines.any(|line| columns(line).is_some())
    },
    scan,
};

pub(super) const SECOND: u64 = 1_000_000_000;
/// What is said of reports without times.
const NO_TIMES: &str = "it tells no times: every report counts as one second, and rates are right \
                        but durations are not; record it with iostat -t";
const ONLY_ONE: &str =
    "it has no report but the one since the machine was started; give iostat an interval";

/// The times of reports that follow each other.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// When the report before this one was made.
    from: Option<u64>,
    now: Option<u64>,
    /// Where reports without times begin to be counted.
    pub(super) day: Option<u64>,
}

impl Reports {
    /// A report begins, made at this time if it tells.
    pub(super) fn begin(&mut self, at: Option<u64>, told: &mut Told) {
        self.from = self.now;
        self.now = at.or_else(|| {
            told.warn_once(NO_TIMES);
            let before = self.now.or(self.day).unwrap_or(0);
            Some(before.saturating_add(SECOND))
        });
    }

    /// When this report was made.
    pub(super) fn now(&self) -> Option<u64> {
        self.now
    }

    /// Gives a disk of this report away; nothing for the first, which is since the start.
    pub(super) fn give(&self, disk: &[u8], row: &[(Meaning, f64)], give: &mut Give<'_>) {
        let (Some(from_unix_ns), Some(at_unix_ns)) = (self.from, self.now) else {
            return;
        };
        if from_unix_ns < at_unix_ns {
            per_second(disk, (from_unix_ns, at_unix_ns), row, give);
        }
    }

    /// What is wrong with a recording of this many reports.
    pub(super) fn finish(&self, told: &mut Told) {
        if self.now.is_some() && self.from.is_none() {
            told.warn_once(ONLY_ONE);
        }
    }
}

/// Gives rates of a disk between two instants away.
pub(super) fn per_second(
    disk: &[u8],
    (from_unix_ns, at_unix_ns): (u64, u64),
    row: &[(Meaning, f64)],
    give: &mut Give<'_>,
) {
    let mut found = Vec::new();
    rates(row, &mut found);
    let values: Vec<(DiskMetric, f64, f64)> = found
        .into_iter()
        .map(|(metric, value)| (metric, value, 1.0))
        .collect();
    give(Event::Row(Found {
        disk,
        at_unix_ns,
        what: What::Rates { from_unix_ns },
        values: &values,
    }));
}

/// The meanings of the columns of a header.
fn columns(line: &[u8]) -> Option<Vec<Option<Meaning>>> {
    let mut words = words(line);
    if !matches!(words.next()?, b"Device" | b"Device:") {
        return None;
    }
    let of = |word: &[u8]| of_sysstat(str::from_utf8(word).ok()?);
    let columns: Vec<Option<Meaning>> = words.map(of).collect();
    columns.iter().any(Option::is_some).then_some(columns)
}

fn scan(input: &mut Input, told: &mut Told, give: &mut Give<'_>) -> Result<(), TraceError> {
    let mut reports = Reports::default();
    let mut header: Option<Vec<Option<Meaning>>> = None;
    let mut time = None;
    while let Some((offset, line)) = input.line()? {
        if line.starts_with(b"Linux ") {
            host(line, told, &mut reports);
            header = None;
        } else if let Some(columns) = columns(line) {
            reports.begin(time.take(), told);
            header = Some(columns);
        } else if line.trim_ascii().is_empty() || line.starts_with(b"avg-cpu") {
            // Behind an empty line come the processors of the next report, or its time.
            header = None;
        } else if let Some(columns) = &header {
            match row(line, columns) {
                Some((disk, row)) => {
                    told.wrong.right();
                    reports.give(disk, &row, give);
                }
                None => {
                    let what = "it has not a number in every column";
                    if let Some(what) = told.wrong.wrong(offset, what, line) {
                        told.damage = Some(input.damage(offset, what));
                        break;
                    }
                }
            }
        } else if let Some(at) = told.instant(line) {
            time = Some(at);
        }
    }
    reports.finish(told);
    Ok(())
}

/// `Linux 6.18 (vm)  11/21/26  _x86_64_  (2 CPU)`.
fn host(line: &[u8], told: &mut Told, reports: &mut Reports) {
    let mut words = words(line);
    if let Some(name) = words.nth(2) {
        let name = String::from_utf8_lossy(name);
        told.host = name.trim_matches(['(', ')']).into();
    }
    if let Some(date) = words.next() {
        let midnight = [date, b" 00:00:00"].concat();
        reports.day = super::clock::instant(&midnight).map(|instant| instant.unix_ns);
    }
}

fn row<'a>(line: &'a [u8], columns: &[Option<Meaning>]) -> Option<(&'a [u8], Figures)> {
    let mut words = words(line);
    let disk = words.next()?;
    let mut row = Vec::new();
    for meaning in columns {
        let value = number(words.next()?)?;
        row.extend(meaning.map(|meaning| (meaning, value)));
    }
    words.next().is_none().then_some((disk, row))
}
