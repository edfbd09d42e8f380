// SPDX-License-Identifier: Apache-2.0
//! The JSON of sysstat: `iostat -o JSON` and `sadf -j`.
//!
//! Source: the programs' output. Both have reports with a `disk` list of objects; iostat's object
//! names the disk `disk_device` and is of the time since the last report (the first since the
//! machine was started), sadf's names it `disk-device` and has a time and the length of its interval.
//! Only the flat shape of this is needed, so the bytes are read as they come, token by token, and
//! a file of any length is never held.

use plimsoll_core::units::Nanos;

use super::iostat::{Reports, SECOND, per_second};
use super::meaning::{Figures, number, of_sysstat};
use super::{Format, Give, Told};
use crate::error::TraceError;
use crate::input::Input;
use crate::recording::Scope;

/// Recognised by its outermost key.
pub(super) const FORMAT: Format = Format {
    name: "sysstat JSON (iostat -x -o JSON, sadf -j)",
    resolution: Nanos(SECOND),
    scope: Scope::Device,
    is: |head| {
        let text = head.trim_ascii_start();
        let inner = text.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
        inner.is_some_and(|inner| inner.starts_with(b"\"sysstat\""))
    },
    scan,
};

const NO_DISKS: &str = "it has no figures of disks; record with iostat -x, or give sadf -j -- -d";
/// Deeper than any of these programs nests.
const DEPTH_MAX: u32 = 64;

/// A part of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Open,
    Close,
    Colon,
    Comma,
    /// Without its quotes; escapes stand as they are.
    Text(&'a [u8]),
    /// A number, `true`, `false` or `null`.
    Plain(&'a [u8]),
    /// What cannot be in JSON.
    Wrong,
}

/// The first token of a text, and the rest.
fn token(text: &[u8]) -> Option<(Token<'_>, &[u8])> {
    let text = text.trim_ascii_start();
    let (first, rest) = text.split_first()?;
    Some(match first {
        b'{' | b'[' => (Token::Open, rest),
        b'}' | b']' => (Token::Close, rest),
        b':' => (Token::Colon, rest),
        b',' => (Token::Comma, rest),
        b'"' => {
            let mut is_escaped = false;
            let end = rest.iter().position(|byte| {
                let is_end = *byte == b'"' && !is_escaped;
                is_escaped = *byte == b'\\' && !is_escaped;
                is_end
            });
            match end {
                Some(end) => (Token::Text(&rest[..end]), &rest[end + 1..]),
                None => (Token::Wrong, &[][..]),
            }
        }
        _ => {
            let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
            let end = text
                .iter()
                .position(|byte| !is_plain(byte))
                .unwrap_or(text.len());
            match end {
                0 => (Token::Wrong, rest),
                _ => (Token::Plain(&text[..end]), &text[end..]),
            }
        }
    })
}

/// Where the reading stands.
#[derive(Debug, Default)]
struct State {
    depth: u32,
    /// The text that was met last, which is a key if a colon follows.
    last: Vec<u8>,
    key: Option<Vec<u8>>,
    reports: Reports,
    /// Of the report.
    date: Vec<u8>,
    time: Vec<u8>,
    is_utc: bool,
    interval_s: Option<f64>,
    /// Of the disk, and at which depth its object stands.
    disk: Option<(Vec<u8>, u32)>,
    is_sadf: bool,
    row: Figures,
    has_disks: bool,
}

fn scan(input: &mut Input, told: &mut Told, give: &mut Give<'_>) -> Result<(), TraceError> {
    let mut state = State::default();
    'lines: while let Some((offset, line)) = input.wide_line()? {
        let mut rest = line;
        while let Some((token, behind)) = token(rest) {
            let place = offset + (line.len() - rest.len()) as u64;
            rest = behind;
            if token == Token::Wrong || state.depth > DEPTH_MAX {
                let what = "here the JSON is broken, or cut off";
                told.damage = Some(input.damage(place, what));
                break 'lines;
            }
            state.take(token, told, give);
        }
    }
    if state.depth > 0 && told.damage.is_none() {
        told.damage = Some(input.damage(input.offset(), "the file ends inside of its JSON"));
    }
    if !state.is_sadf {
        state.reports.finish(told);
    }
    if !state.has_disks {
        told.warn_once(NO_DISKS);
    }
    Ok(())
}

impl State {
    fn take(&mut self, token: Token<'_>, told: &mut Told, give: &mut Give<'_>) {
        match token {
            Token::Open => {
                self.depth += 1;
                if self.key.take().as_deref() == Some(b"disk") {
                    self.begin(told);
                }
            }
            Token::Close => {
                if let Some((disk, _)) = self.disk.take_if(|(_, depth)| *depth == self.depth) {
                    self.give(&disk, told, give);
                }
                self.depth = self.depth.saturating_sub(1);
                self.key = None;
            }
            Token::Colon => self.key = Some(std::mem::take(&mut self.last)),
            Token::Comma => self.key = None,
            Token::Text(text) => match self.key.take() {
                Some(key) => self.text(&key, text, told),
                None => self.last = text.into(),
            },
            Token::Plain(text) => {
                if let Some(key) = self.key.take() {
                    self.plain(&key, text);
                }
            }
            Token::Wrong => {}
        }
    }

    fn text(&mut self, key: &[u8], text: &[u8], told: &mut Told) {
        let plain = || String::from_utf8_lossy(text).into_owned();
        match key {
            b"nodename" => told.host = plain(),
            b"timezone" => told.zone = plain(),
            // The day of iostat's file, and of sadf's report.
            b"date" => self.date = text.into(),
            b"time" => self.time = text.into(),
            b"timestamp" => {
                self.date.clear();
                self.time = text.into();
            }
            b"disk_device" | b"disk-device" => {
                self.is_sadf = key == b"disk-device";
                self.has_disks = true;
                self.disk = Some((text.into(), self.depth));
                self.row.clear();
            }
            _ => {}
        }
    }

    fn plain(&mut self, key: &[u8], text: &[u8]) {
        match key {
            b"utc" => self.is_utc = text == b"1",
            b"interval" => self.interval_s = number(text),
            _ if self.disk.is_some() => {
                let meaning = str::from_utf8(key).ok().and_then(of_sysstat);
                self.row.extend(meaning.zip(number(text)));
            }
            _ => {}
        }
    }

    /// A list of disks begins: its time stood before it.
    fn begin(&mut self, told: &mut Told) {
        let zone: &[u8] = if self.is_utc { b"UTC" } else { b"" };
        let time = std::mem::take(&mut self.time);
        let text = [&self.date[..], &time, zone].join(&b' ');
        if time.is_empty() {
            let midnight = [&self.date[..], b"00:00:00"].join(&b' ');
            self.reports.day = super::clock::instant(&midnight).map(|instant| instant.unix_ns);
        }
        let at = if time.is_empty() {
            None
        } else {
            told.instant(&text)
        };
        self.reports.begin(at, told);
    }

    fn give(&mut self, disk: &[u8], told: &mut Told, give: &mut Give<'_>) {
        if !self.is_sadf {
            self.reports.give(disk, &self.row, give);
            return;
        }
        // A report of sadf says how long it is.
        let interval_ns = self.interval_s.map(|s| Nanos::from_secs_f64(s).0);
        match (self.reports.now(), interval_ns) {
            (Some(at), Some(interval)) if interval > 0 && interval < at => {
                per_second(disk, (at - interval, at), &self.row, give);
            }
            _ => told.warn_once("a report has no time or no length and was left out"),
        }
    }
}
