// SPDX-License-Identifier: Apache-2.0
//! The JSON of sysstat: `iostat -o JSON` and `sadf -j`.
//!
//! Source: the programs' output. Both have reports with a `disk` list of objects; iostat's object
//! names the disk `disk_device` and is of the time since the last report (the first since the
//! machine was started), sadf's names it `disk-device` and has a time and the length of its interval.
//! Only the flat shape of this is needed, so the bytes are read as they come, token by token, and
//! of a file of any length one report is held at a time: programs that sort keys put the disks before
//! the time. Several documents may stand one behind the other, and reports may have lost what is around
//! them (`jq -c '.sysstat.hosts[].statistics[]'`, a report on each line). `iostat -y` leaves a line empty
//! before its first report.

use plimsoll_core::units::Nanos;

use super::meaning::{DiskRowValues, number, of_sysstat};
use super::reports::PrintedReports;
use super::sadf_forms::missing;
use super::{CounterFormat, CounterScan};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::targets::TARGETS_MAX;

/// Recognised by its outermost key, or by a report of disks.
pub(super) const FORMAT: CounterFormat = CounterFormat {
    name: "sysstat JSON (iostat -x -o JSON, sadf -j)",
    resolution: Nanos::SECOND,
    is: |head| {
        let text = head.trim_ascii_start();
        let inner = text.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
        let has = |key: &[u8]| head.windows(key.len()).any(|part| part == key);
        let is_report = || has(b"\"disk_device\"") || has(b"\"disk-device\"");
        inner.is_some_and(|inner| inner.starts_with(b"\"sysstat\"") || is_report())
    },
    scan,
};

const NO_DISKS: &str = "it has no figures of disks; record with iostat -x, or give sadf -j -- -d";
/// Deeper than any of these programs nests.
const DEPTH_MAX: u32 = 64;

/// A part of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonToken<'a> {
    Open,
    Close,
    Colon,
    Comma,
    /// Without its quotes; escapes stand as they are.
    Text(&'a [u8]),
    /// A number, `true`, `false` or `null`.
    Plain(&'a [u8]),
    /// Text that cannot be in JSON.
    Wrong,
}

/// The first token of a text, and the rest.
fn token(text: &[u8]) -> Option<(JsonToken<'_>, &[u8])> {
    let text = text.trim_ascii_start();
    let (first, rest) = text.split_first()?;
    Some(match first {
        b'{' | b'[' => (JsonToken::Open, rest),
        b'}' | b']' => (JsonToken::Close, rest),
        b':' => (JsonToken::Colon, rest),
        b',' => (JsonToken::Comma, rest),
        b'"' => {
            let mut is_escaped = false;
            let end = rest.iter().position(|byte| {
                let is_end = *byte == b'"' && !is_escaped;
                is_escaped = *byte == b'\\' && !is_escaped;
                is_end
            });
            match end {
                Some(end) => (JsonToken::Text(&rest[..end]), &rest[end + 1..]),
                None => (JsonToken::Wrong, &[][..]),
            }
        }
        _ => {
            let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
            let end = text
                .iter()
                .position(|byte| !is_plain(byte))
                .unwrap_or(text.len());
            match end {
                0 => (JsonToken::Wrong, rest),
                _ => (JsonToken::Plain(&text[..end]), &text[end..]),
            }
        }
    })
}

fn is_value(text: &[u8]) -> bool {
    number(text).is_some() || matches!(text, b"true" | b"false" | b"null")
}

/// State of the reader. Keys may come in any order, so a report is held until its object ends.
#[derive(Debug, Default)]
struct JsonState {
    depth: u32,
    /// Of the last token.
    offset: u64,
    /// The text that was met last, which is a key if a colon follows.
    last: Vec<u8>,
    key: Option<Vec<u8>>,
    reports: PrintedReports,
    /// Of iostat's file, or of sadf's report.
    date: Vec<u8>,
    time: Vec<u8>,
    /// Date and time in one.
    stamp: Vec<u8>,
    is_utc: bool,
    interval_s: Option<f64>,
    /// At which depth the list of disks stands that is open, or was in the open report.
    list: Option<u32>,
    /// Of the disk whose object is open.
    name: Vec<u8>,
    row: DiskRowValues,
    /// Of the open report.
    disks: Vec<(Vec<u8>, DiskRowValues)>,
    is_sadf: bool,
    has_disks: bool,
    /// Whether the list of reports has begun, and none of them.
    is_list_new: bool,
}

fn scan(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    let mut state = JsonState::default();
    'lines: while let Some((offset, line)) = input.wide_line()? {
        let mut rest = line;
        if line.trim_ascii().is_empty() && state.is_list_new {
            state.reports.omits_boot();
        }
        while let Some((token, behind)) = token(rest) {
            let place = offset + (line.len() - rest.trim_ascii_start().len()) as u64;
            rest = behind;
            if token == JsonToken::Wrong || state.depth > DEPTH_MAX {
                let what = "here the JSON is broken, or cut off";
                scan.told.damage = Some(input.damage(place, what));
                break 'lines;
            }
            if let JsonToken::Plain(text) = token
                && !is_value(text)
            {
                scan.told.damage = Some(input.damage(place, "here stands no value of JSON"));
                break 'lines;
            }
            state.offset = place;
            state.take(token, scan);
        }
    }
    if state.depth > 0 && scan.told.damage.is_none() {
        scan.told.damage = Some(input.damage(input.offset(), "the file ends inside of its JSON"));
    }
    if !state.is_sadf {
        state.reports.finish(scan);
    }
    if !state.has_disks {
        scan.warn_once(NO_DISKS);
    }
    Ok(())
}

impl JsonState {
    fn take(&mut self, token: JsonToken<'_>, scan: &mut CounterScan<'_>) {
        match token {
            JsonToken::Open => {
                self.depth += 1;
                let key = self.key.take();
                self.is_list_new = key.as_deref() == Some(b"statistics");
                if key.as_deref() == Some(b"disk") {
                    self.list = Some(self.depth);
                }
            }
            JsonToken::Close => self.close(scan),
            JsonToken::Colon => {
                let key = std::mem::take(&mut self.last);
                if key == b"sysstat" {
                    self.restart(scan);
                }
                self.key = Some(key);
            }
            JsonToken::Comma => self.key = None,
            JsonToken::Text(text) => match self.key.take() {
                Some(key) => self.text(&key, text, scan),
                None => self.last = text.into(),
            },
            JsonToken::Plain(text) => {
                if let Some(key) = self.key.take() {
                    self.plain(&key, text);
                }
            }
            JsonToken::Wrong => {}
        }
    }

    /// The outermost key: a document begins, perhaps behind another one, whole or cut off.
    fn restart(&mut self, scan: &mut CounterScan<'_>) {
        self.reports.restart(scan);
        *self = JsonState {
            depth: 1,
            reports: std::mem::take(&mut self.reports),
            is_sadf: self.is_sadf,
            has_disks: self.has_disks,
            ..JsonState::default()
        };
    }

    fn close(&mut self, scan: &mut CounterScan<'_>) {
        match self.list {
            // The object of a disk is in the list, the list in the object of the report.
            Some(list) if self.depth == list + 1 => {
                let row = std::mem::take(&mut self.row);
                let name = std::mem::take(&mut self.name);
                if self.disks.iter().any(|(known, _)| *known == name) {
                    scan.warn_once(&missing(self.offset));
                } else if !name.is_empty() && self.disks.len() < TARGETS_MAX {
                    self.disks.push((name, row));
                }
            }
            Some(list) if self.depth + 1 == list => self.report(scan),
            _ => {}
        }
        self.depth = self.depth.saturating_sub(1);
        self.key = None;
    }

    fn is_in_disk(&self) -> bool {
        self.list.is_some_and(|list| self.depth == list + 1)
    }

    fn text(&mut self, key: &[u8], text: &[u8], scan: &mut CounterScan<'_>) {
        let plain = || String::from_utf8_lossy(text).into_owned();
        match key {
            b"nodename" => scan.told.host = plain(),
            b"timezone" => scan.told.zone = plain(),
            b"date" => self.date = text.into(),
            b"time" => self.time = text.into(),
            b"timestamp" => self.stamp = text.into(),
            b"disk_device" | b"disk-device" if self.is_in_disk() => {
                self.is_sadf = key == b"disk-device";
                self.has_disks = true;
                self.name = text.into();
            }
            _ => {}
        }
    }

    fn plain(&mut self, key: &[u8], text: &[u8]) {
        match key {
            b"utc" => self.is_utc = text == b"1",
            b"interval" => self.interval_s = number(text),
            _ if self.is_in_disk() => {
                let meaning = str::from_utf8(key).ok().and_then(of_sysstat);
                self.row.extend(meaning.zip(number(text)));
            }
            _ => {}
        }
    }

    /// A report with disks is at its end.
    fn report(&mut self, scan: &mut CounterScan<'_>) {
        self.list = None;
        let zone: &[u8] = if self.is_utc { b"UTC" } else { b"" };
        let (time, stamp) = (
            std::mem::take(&mut self.time),
            std::mem::take(&mut self.stamp),
        );
        let at = match (stamp.is_empty(), time.is_empty()) {
            (false, _) => scan.instant(&stamp),
            (true, false) => scan.instant(&[&self.date[..], &time, zone].join(&b' ')),
            (true, true) => {
                let midnight = [&self.date[..], b"00:00:00"].join(&b' ');
                self.reports.day = scan.local(&midnight);
                None
            }
        };
        let disks = std::mem::take(&mut self.disks);
        if self.is_sadf {
            sadf(&disks, (at, self.interval_s.take()), scan);
            return;
        }
        self.reports.begin(at, scan);
        for (disk, row) in disks {
            self.reports.row(&disk, row);
        }
        self.reports.is_whole();
    }
}

/// A report of sadf says how long it is.
fn sadf(
    disks: &[(Vec<u8>, DiskRowValues)],
    (at, interval_s): (Option<u64>, Option<f64>),
    scan: &mut CounterScan<'_>,
) {
    let interval_ns = interval_s.map(|s| Nanos::from_secs_f64(s).0);
    match (at, interval_ns) {
        (Some(at), Some(interval)) if interval > 0 && interval < at => {
            for (disk, row) in disks {
                scan.rates(disk, (at - interval, at), row);
            }
        }
        _ => scan.warn_once("a report has no time or no length and was left out"),
    }
}
