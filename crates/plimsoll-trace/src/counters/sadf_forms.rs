// SPDX-License-Identifier: Apache-2.0
//! Two more forms of sadf: a line for each figure (`sadf -p -- -d`), and XML (`sadf -x -- -d`).
//!
//! Source: its manual page and output. A line of the first is host, interval, time, device, name and value
//! between tabs; of the second, `timestamp` has date, time and interval, and `disk-device` its figures as
//! attributes, an element on every line. Reads and writes are not kept apart in `tps`.

use plimsoll_core::units::Nanos;

use super::meaning::{DiskRowValues, number, of_sysstat};
use super::{CounterFormat, CounterScan};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::text::{columns, lines};

/// Recognised by the columns of its first line.
pub(super) const PAIRS: CounterFormat = CounterFormat {
    name: "sadf -p text",
    resolution: Nanos::SECOND,
    is: |head| lines(head).next().is_some_and(is_pair),
    scan: scan_pairs,
};

/// Recognised by the name of its document.
pub(super) const XML: CounterFormat = CounterFormat {
    name: "sysstat XML (sadf -x)",
    resolution: Nanos::SECOND,
    is: |head| {
        let has = |part: &[u8]| head.windows(part.len()).any(|found| found == part);
        head.trim_ascii_start().starts_with(b"<?xml") && has(b"<sysstat")
    },
    scan: scan_xml,
};

const NO_DISKS: &str = "it has no figures of disks; make it with the option -d behind two dashes: \
                        sadf -p -- -d";
const RESTART: &[u8] = b"LINUX-RESTART";

fn is_pair(line: &[u8]) -> bool {
    let found = columns::<6>(line, b'\t');
    found.is_some_and(|[_, interval, time, _, _, value]| {
        number(interval).is_some() && number(value).is_some() && time.contains(&b':')
    })
}

/// The span of `seconds` seconds that ends at `at`.
fn span(at: u64, seconds: f64) -> Option<(u64, u64)> {
    let from = at.checked_sub(Nanos::from_secs_f64(seconds).0);
    from.filter(|from| *from < at).map(|from| (from, at))
}

/// Figures of a disk that stand on lines which follow each other.
#[derive(Default)]
struct PairedFigures {
    disk: Vec<u8>,
    span: Option<(u64, u64)>,
    row: DiskRowValues,
}

impl PairedFigures {
    fn give(&mut self, scan: &mut CounterScan<'_>) {
        if let (Some(span), false) = (self.span, self.row.is_empty()) {
            scan.rates(&self.disk, span, &self.row);
        }
        self.row.clear();
    }
}

fn scan_pairs(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    let mut held = PairedFigures::default();
    let mut has_disks = false;
    scan.lines(input, RecordingInput::line, |scan, _, line| {
        if line.windows(RESTART.len()).any(|part| part == RESTART) {
            held.give(scan);
            scan.gap();
            return Ok(());
        }
        if line.is_empty() {
            return Ok(());
        }
        let [host, interval, time, disk, name, value] =
            columns::<6>(line, b'\t').ok_or("it has not six columns")?;
        let meaning = str::from_utf8(name).ok().and_then(of_sysstat);
        // Figures of the whole machine have no device.
        let Some(meaning) = meaning.filter(|_| disk != b"-") else {
            return Ok(());
        };
        has_disks = true;
        if scan.told.host.is_empty() {
            scan.told.host = String::from_utf8_lossy(host).into_owned();
        }
        let at = scan.instant(time);
        let found = at.zip(number(interval)).zip(number(value));
        let ((at, seconds), value) = found.ok_or("its interval, time or value is none")?;
        scan.right();
        let span = span(at, seconds);
        if held.disk != disk || held.span != span {
            held.give(scan);
            held.disk = disk.into();
            held.span = span;
        }
        held.row.push((meaning, value));
        Ok::<(), &str>(())
    })?;
    held.give(scan);
    if !has_disks {
        scan.warn_once(NO_DISKS);
    }
    Ok(())
}

fn scan_xml(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    let mut now: Option<(u64, u64)> = None;
    let (mut has_disks, mut is_ended) = (false, false);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    scan.lines(input, RecordingInput::line, |scan, offset, line| {
        let line = line.trim_ascii();
        if let Some(rest) = line.strip_prefix(b"<host ") {
            if let Some((_, name)) = attributes(rest).find(|(name, _)| *name == b"nodename") {
                scan.told.host = String::from_utf8_lossy(name).into_owned();
            }
        } else if let Some(rest) = line.strip_prefix(b"<timestamp ") {
            now = timestamp(rest, scan);
            seen.clear();
        } else if let Some(rest) = line.strip_prefix(b"<disk-device ") {
            has_disks = true;
            let mut disk = None;
            let mut row = DiskRowValues::new();
            for (name, value) in attributes(rest) {
                if name == b"dev" {
                    disk = Some(value);
                }
                let meaning = str::from_utf8(name).ok().and_then(of_sysstat);
                row.extend(meaning.zip(number(value)));
            }
            match disk.zip(now) {
                Some((disk, _)) if seen.iter().any(|known| known == disk) => {
                    scan.warn_once(&missing(offset));
                }
                Some((disk, span)) => {
                    scan.right();
                    seen.push(disk.into());
                    scan.rates(disk, span, &row);
                }
                None => return Err("it has no device, or no time before it"),
            }
        } else if line == b"</sysstat>" {
            is_ended = true;
        }
        Ok(())
    })?;
    if !is_ended && scan.told.damage.is_none() {
        scan.told.damage = Some(input.damage(input.offset(), "the file ends inside of its XML"));
    }
    if !has_disks {
        scan.warn_once(&NO_DISKS.replace("-p --", "-x --"));
    }
    Ok(())
}

/// A sentence about a hole, behind which the disks of another report go on.
pub(super) fn missing(offset: u64) -> String {
    format!("a part of it is missing before byte {offset}: there a disk stands twice in one report")
}

fn timestamp(line: &[u8], scan: &mut CounterScan<'_>) -> Option<(u64, u64)> {
    let value = |wanted: &[u8]| {
        let found = attributes(line).find(|(name, _)| *name == wanted);
        found.map(|(_, value)| value)
    };
    let zone: &[u8] = if value(b"utc") == Some(b"1") {
        b" UTC"
    } else {
        b""
    };
    let text = [value(b"date")?, b" ", value(b"time")?, zone].concat();
    let at = scan.instant(&text)?;
    span(at, number(value(b"interval")?)?)
}

/// `name="value"`, one after the other.
fn attributes(mut line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let equals = line.iter().position(|byte| *byte == b'=')?;
        let name = line[..equals].trim_ascii();
        let rest = line[equals + 1..].strip_prefix(b"\"")?;
        let end = rest.iter().position(|byte| *byte == b'"')?;
        line = &rest[end + 1..];
        Some((name, &rest[..end]))
    })
}
