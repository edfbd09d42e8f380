// SPDX-License-Identifier: Apache-2.0
//! The text of `sar -d`, with `-p` and `-h` or without, alone or among other reports (`sar -A`).
//!
//! Source: its manual page, and its output of versions 11 and 12. A line `Linux …` names the host and the
//! day; behind each empty line stand the names of columns, with the time of the sample before, then a line
//! for each disk with the time of its own sample. Days are not told: a time that goes back by more
//! than half a day is the next day. Reads and writes are not kept apart in `tps`.

use plimsoll_core::units::Nanos;

use super::clock::time_of_day_ns;
use super::printed::TableHeader;
use super::{CounterFormat, CounterScan};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::text::{lines, words};

/// Recognised by the names of the columns of disks, or of processors, which stand before them in `sar -A`.
pub(super) const FORMAT: CounterFormat = CounterFormat {
    name: "sar -d text",
    resolution: Nanos::SECOND,
    is: |head| {
        let is_of_disks = |line| header_of(line).is_some();
        let is_of_cpus = |line| {
            time(line).is_some_and(|(_, rest)| {
                let mut names = words(rest);
                names.next() == Some(b"CPU") && names.next().is_some_and(|name| name[0] == b'%')
            })
        };
        lines(head).any(|line| is_of_disks(line) || is_of_cpus(line))
    },
    scan,
};

const NO_DISKS: &str = "it has no figures of disks; print them with sar -d";
const DAY_NS: u64 = 86_400 * 1_000_000_000;

/// A time of day at the front of a line, `05:44:05` or `05:44:05 AM`, and what stands behind it.
fn time(line: &[u8]) -> Option<(u64, &[u8])> {
    let split = |line: &[u8]| -> Option<usize> { line.iter().position(u8::is_ascii_whitespace) };
    let (time, rest) = line.split_at(split(line)?);
    let at_ns = time_of_day_ns(time)?;
    let rest = rest.trim_ascii_start();
    let half_ns = DAY_NS / 2;
    let (at_ns, rest) = match rest.split_at(split(rest).unwrap_or(rest.len())) {
        (b"AM", rest) => (at_ns % half_ns, rest),
        (b"PM", rest) => (at_ns % half_ns + half_ns, rest),
        _ => (at_ns, rest),
    };
    Some((at_ns, rest))
}

/// The names of the columns of disks, and the time of the sample before them.
fn header_of(line: &[u8]) -> Option<(u64, TableHeader)> {
    let (at_ns, rest) = time(line)?;
    Some((at_ns, TableHeader::of_sar(rest)?))
}

/// Whether a line is one of disks, or names their columns; the averages at the end begin with a word.
fn is_of_disks(line: &[u8], is_below_header: bool) -> bool {
    let is_average = words(line).next().is_some_and(|word| word.ends_with(b":"));
    !is_average && (is_below_header || words(line).any(|word| word == b"DEV"))
}

/// Where the reading stands.
#[derive(Default)]
struct SarClock {
    /// Midnight of the day of the last time.
    midnight_ns: u64,
    last_ns: u64,
    /// The sample before, and the one that is read.
    from: Option<u64>,
    now: Option<u64>,
}

impl SarClock {
    fn instant(&mut self, at_ns: u64) -> u64 {
        if at_ns + DAY_NS / 2 < self.last_ns {
            self.midnight_ns = self.midnight_ns.saturating_add(DAY_NS);
        }
        self.last_ns = at_ns;
        self.midnight_ns.saturating_add(at_ns)
    }

    /// A sample was taken then.
    fn sample(&mut self, at_ns: u64) -> Option<(u64, u64)> {
        let at = self.instant(at_ns);
        if self.now != Some(at) {
            (self.from, self.now) = (self.now, Some(at));
        }
        self.from.zip(self.now).filter(|(from, now)| from < now)
    }
}

fn scan(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    let mut clock = SarClock::default();
    // `None` while lines are not of disks.
    let mut header: Option<TableHeader> = None;
    let mut has_disks = false;
    scan.told.lacks_date = true;
    scan.told.lacks_zone = true;
    scan.lines(input, RecordingInput::line, |scan, _, line| {
        if line.starts_with(b"Linux ") {
            header = None;
            if clock.now.is_some() {
                scan.gap();
            }
            clock = SarClock::default();
            if let Some(at) = scan.heading(line) {
                (clock.midnight_ns, scan.told.lacks_date) = (at, false);
            }
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            header = None;
            return Ok(());
        }
        if line.windows(7).any(|part| part == b"RESTART") {
            scan.gap();
            (clock.from, clock.now) = (None, None);
            return Ok(());
        }
        if let Some((at_ns, found)) = header_of(line) {
            clock.sample(at_ns);
            has_disks = true;
            header = Some(found);
            return Ok(());
        }
        let found = time(line).zip(header.as_ref());
        match found.map(|((at_ns, rest), header)| (at_ns, header.row(rest))) {
            Some((at_ns, Some(row))) => {
                scan.right();
                if let Some(span) = clock.sample(at_ns) {
                    scan.rates(row.device, span, &row.values);
                }
                Ok(())
            }
            Some((_, None)) => Err("it has not a number in every column"),
            None if is_of_disks(line, header.is_some()) => Err("its time is not understood"),
            None => Ok(()),
        }
    })?;
    if !has_disks {
        scan.warn_once(NO_DISKS);
    }
    Ok(())
}
