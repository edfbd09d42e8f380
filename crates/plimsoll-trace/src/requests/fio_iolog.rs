// SPDX-License-Identifier: Apache-2.0
//! I/O logs of fio, versions 2 and 3 (`write_iolog`).
//!
//! After `fio version N iolog` a line is `file action [offset length]`, in version 3 with a time in
//! front. Source: fio's manual; that the time is in microseconds was seen with fio 3.33, which
//! writes and reads it so. Version 2 has no times but `file wait microseconds`, and fio itself
//! writes none: such a log contains what was requested, not when.

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::rows::{RowFormat, TraceRow, TraceRowParser, TraceRowReader};
use super::{TraceFormat, UNTIMED};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::recording::{RecordingCapabilities, RecordingDetail, TraceSource};
use crate::text::{first_line, lines, whole, whole_u32, words};

/// Recognised by its first line.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "fio I/O log",
    is: |head| version(head).is_some(),
    open,
};

const MICROS: u64 = 1_000;
const VERSION_2: &[u8] = b"fio version 2 iolog";
const VERSION_3: &[u8] = b"fio version 3 iolog";

fn version(head: &[u8]) -> Option<u8> {
    match first_line(head)?.trim_ascii() {
        VERSION_2 => Some(2),
        VERSION_3 => Some(3),
        _ => None,
    }
}

fn open(input: RecordingInput) -> Result<Box<dyn TraceSource>, TraceError> {
    let has_times = version(input.head()) == Some(3);
    let is_wait = |line: &[u8]| words(line).nth(1) == Some(b"wait");
    let waits = !has_times && lines(input.head()).any(is_wait);
    let format = RowFormat {
        name: if has_times {
            "fio I/O log, version 3"
        } else {
            "fio I/O log, version 2"
        },
        carries: RecordingCapabilities {
            arrivals: if has_times || waits {
                RecordingDetail::Each
            } else {
                RecordingDetail::Absent
            },
            resolution: Nanos(MICROS),
            ..UNTIMED
        },
        zero_unix_ns: None,
    };
    let log = FioIologParser {
        has_times,
        waited_ns: 0,
        last_ns: 0,
        begin_ns: 0,
        runs: 0,
    };
    TraceRowReader::open(input, format, log)
}

struct FioIologParser {
    has_times: bool,
    /// Of version 2: the waits so far, which follow each other.
    waited_ns: u64,
    /// The latest time so far.
    last_ns: u64,
    /// Origin of the times of a run: fio appends to an existing log, and counts anew.
    begin_ns: u64,
    /// Runs whose header was met.
    runs: u64,
}

impl TraceRowParser for FioIologParser {
    fn notes(&self) -> Vec<String> {
        let told = format!(
            "it holds {} runs of fio, which appends to a log that is there: each is taken to begin where \
             the one before ended, as the time between them is not recorded",
            self.runs
        );
        if self.runs > 1 {
            vec![told]
        } else {
            Vec::new()
        }
    }

    fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Option<TraceRow<'a>>, &'static str> {
        let mut words = words(line);
        let Some(first) = words.next() else {
            return Ok(None);
        };
        if first == b"fio" && matches!(line.trim_ascii(), VERSION_2 | VERSION_3) {
            self.runs += 1;
            self.begin_ns = self.last_ns;
            return Ok(None);
        }
        let micros = |text| whole(text).and_then(|us| us.checked_mul(MICROS));
        let few = "it has too few words";
        let (time, target) = if self.has_times {
            (Some(first), words.next().ok_or(few)?)
        } else {
            (None, first)
        };
        let at_ns = match time {
            Some(time) => {
                let at_ns = micros(time).ok_or("its time is not a number of microseconds")?;
                self.begin_ns.saturating_add(at_ns)
            }
            None => self.waited_ns,
        };
        self.last_ns = self.last_ns.max(at_ns);
        let kind = match words.next().ok_or(few)? {
            b"read" => OpKind::Read,
            b"write" => OpKind::Write,
            b"trim" => OpKind::Discard,
            b"sync" => OpKind::Fsync,
            b"datasync" => OpKind::Fdatasync,
            b"add" | b"open" | b"close" => return Ok(None),
            b"wait" if !self.has_times => {
                let wait_ns = words.next().and_then(micros);
                let wait_ns = wait_ns.ok_or("its wait is not a number of microseconds")?;
                self.waited_ns = self.waited_ns.saturating_add(wait_ns);
                return Ok(None);
            }
            _ => return Err("its action is not known"),
        };
        let moves = matches!(kind, OpKind::Read | OpKind::Write | OpKind::Discard);
        let (offset, bytes) = match (words.next(), words.next()) {
            (Some(offset), Some(length)) => (
                whole(offset).ok_or("its offset is not a number")?,
                whole_u32(length).ok_or("its length is not a number below 4 GiB")?,
            ),
            _ if moves => return Err(few),
            _ => (0, 0),
        };
        if words.next().is_some() {
            return Err("it has too many words");
        }
        Ok(Some(TraceRow {
            at_ns,
            took: None,
            kind,
            target: target.into(),
            bytes: if moves { bytes } else { 0 },
            offset: if moves { offset } else { 0 },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{IOLOG_2, IOLOG_3, read};
    use super::*;

    #[test]
    fn version_3_has_microseconds_in_front() {
        let (rows, found) = read(&FORMAT, IOLOG_3);
        let expect = [
            (0, None, OpKind::Read, 0, 4_096, 8_192),
            (250_000, None, OpKind::Write, 0, 8_192, 0),
            (251_000, None, OpKind::Discard, 0, 4_096, 0),
            (300_000, None, OpKind::Fsync, 0, 0, 0),
        ];
        assert_eq!(found, expect);
        assert_eq!(rows.about().format, "fio I/O log, version 3");
        assert_eq!(rows.about().carries.arrivals, RecordingDetail::Each);
    }

    #[test]
    fn runs_that_were_appended_follow_each_other() {
        let twice = [IOLOG_3, IOLOG_3].concat();
        let (rows, found) = read(&FORMAT, &twice);
        let starts: Vec<u64> = found.iter().map(|request| request.0 / 1_000).collect();
        assert_eq!(starts, [0, 250, 251, 300, 401, 651, 652, 701]);
        assert!(
            rows.warnings()[0].contains("2 runs"),
            "{:?}",
            rows.warnings()
        );
    }

    #[test]
    fn version_2_has_times_only_if_it_has_waits() {
        let (rows, found) = read(&FORMAT, IOLOG_2);
        let expect = [
            (0, None, OpKind::Read, 0, 4_096, 8_192),
            (1_500_000, None, OpKind::Write, 0, 8_192, 0),
            (1_500_000, None, OpKind::Fdatasync, 0, 0, 0),
        ];
        assert_eq!(found, expect);
        assert_eq!(rows.about().carries.arrivals, RecordingDetail::Each);
        let (rows, _) = read(&FORMAT, b"fio version 2 iolog\n/f add\n/f read 0 4096\n");
        assert_eq!(rows.about().carries.arrivals, RecordingDetail::Absent);
    }
}
