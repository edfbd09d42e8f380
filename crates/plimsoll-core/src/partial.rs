// SPDX-License-Identifier: Apache-2.0
//! Partial results of profiles: what is kept of each recording, so that the results of many
//! programs can be merged into the same profile that one program makes of all recordings.
//!
//! A partial result is text, one JSON object per line ([`PartialLine`]): a header, one line for each
//! recording in the order of their digests, and an end with the digest of all lines before it. All
//! figures of a recording are whole numbers, rounded once, when it is read. Sums of whole numbers do
//! not depend on their order, so neither does what is merged.

use serde::{Deserialize, Serialize};

use crate::format::FormatVersion;
use crate::histogram::Histogram;
use crate::op::OpKind;

/// Shortest and longest step of the load over time, seconds; a step divides a day.
const STEP_S: (u64, u64) = (60, 86_400);
/// Default step, seconds: that of sar.
pub const STEP_DEFAULT_S: u64 = 600;

/// Most devices of one recording.
const DEVICES_MAX: usize = 100_000;
/// Most steps of one recording: seven years of minutes.
const STEPS_MAX: usize = 4_000_000;
/// Longest text of a recording that is not ours.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Most sentences of a recording.
const NOTES_MAX: usize = 32;

/// Settings that apply to every recording. Partial results of different settings are not merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PoolSettings {
    /// Start of the window, as it was typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// End of the window, as it was typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The one disk that counts of each recording; without it all, but for layers above others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Step of the load over time, seconds.
    pub step_s: u64,
}

impl Default for PoolSettings {
    fn default() -> PoolSettings {
        PoolSettings {
            from: None,
            to: None,
            disk: None,
            step_s: STEP_DEFAULT_S,
        }
    }
}

impl PoolSettings {
    /// # Errors
    /// When the step is none.
    pub fn check(&self) -> Result<(), String> {
        let (least, most) = STEP_S;
        let divides = self.step_s > 0 && most.is_multiple_of(self.step_s);
        if !divides || self.step_s < least {
            let step = self.step_s;
            return Err(format!(
                "invalid step of {step} s: expected a time from 1m to 1d that divides a day"
            ));
        }
        Ok(())
    }

    /// In which of them these differ from others, for a message; `None` when in none.
    pub fn difference(&self, other: &PoolSettings) -> Option<String> {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".into());
        let settings = |of: &PoolSettings| {
            [
                ("--from", text(&of.from)),
                ("--to", text(&of.to)),
                ("--disk", text(&of.disk)),
                ("--step", format!("{}s", of.step_s)),
            ]
        };
        let pairs = settings(self).into_iter().zip(settings(other));
        let different = pairs.filter(|(one, two)| one.1 != two.1);
        let told: Vec<String> = different
            .map(|((name, one), (_, two))| format!("{name} {one} and {two}"))
            .collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

/// A line of a partial result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PartialLine {
    /// The first.
    Header(PartialHeader),
    /// One for each recording, in the order of their digests.
    Recording(Box<RecordingSummary>),
    /// The last.
    End(PartialEnd),
}

/// How a partial result begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PartialHeader {
    /// Version of the format.
    pub format: FormatVersion,
    /// Settings that apply to every recording.
    pub settings: PoolSettings,
}

/// How a partial result ends. One without this line was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PartialEnd {
    /// Lines of recordings before it.
    pub recordings: u64,
    /// SHA-256 of all lines before it, their ends included, in hexadecimal digits.
    pub sha256: String,
}

/// Summary of one recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RecordingSummary {
    /// SHA-256 over the content of its files, in hexadecimal digits: by this it is known, whatever it
    /// is called.
    pub sha256: String,
    /// Its name when it was read.
    pub name: String,
    /// Kind of recording.
    pub format: String,
    /// The host that was recorded; empty when the recording does not say.
    pub host: String,
    /// Why it could not be read; then it has no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Whether its times have a date; without one they count from its start.
    pub has_date: bool,
    /// First instant, nanoseconds since 1970.
    pub from_unix_ns: u64,
    /// Last instant, nanoseconds since 1970.
    pub to_unix_ns: u64,
    /// Devices that are left out, since their load is that of others, seen again.
    pub counted_again: u64,
    /// The devices that count.
    pub devices: Vec<DeviceSummary>,
    /// Operations per second of the single intervals of all devices, in thousandths.
    pub interval_rates: Histogram,
    /// The load of all devices over time; nothing without a date.
    pub steps: RecordingSteps,
    /// Figures that only requests show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestsSummary>,
    /// Notes for the reader, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A sum, and the time over which it was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CounterTotal {
    /// How much: operations, bytes, or nanoseconds.
    pub sum: u64,
    /// The time that counts, nanoseconds.
    pub over_ns: u64,
}

impl CounterTotal {
    /// Both together; `None` when that is more than can be counted.
    #[must_use]
    pub fn plus(self, other: CounterTotal) -> Option<CounterTotal> {
        Some(CounterTotal {
            sum: self.sum.checked_add(other.sum)?,
            over_ns: self.over_ns.checked_add(other.over_ns)?,
        })
    }
}

/// Counts of a device. Counts that were not recorded are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CounterTotals {
    /// Reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<CounterTotal>,
    /// Writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<CounterTotal>,
    /// Bytes read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<CounterTotal>,
    /// Bytes written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<CounterTotal>,
    /// Operations of all kinds, where reads and writes are not distinguished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<CounterTotal>,
    /// Time with something in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_ns: Option<CounterTotal>,
    /// Time with nothing in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ns: Option<CounterTotal>,
    /// Operations in flight times time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_ns: Option<CounterTotal>,
    /// Time that reads took together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_time_ns: Option<CounterTotal>,
    /// Time that writes took together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_time_ns: Option<CounterTotal>,
    /// Time that all operations took together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_time_ns: Option<CounterTotal>,
}

impl CounterTotals {
    /// All of them, each in its place.
    pub fn each_mut(&mut self) -> [&mut Option<CounterTotal>; 11] {
        [
            &mut self.reads,
            &mut self.writes,
            &mut self.read_bytes,
            &mut self.write_bytes,
            &mut self.ops,
            &mut self.active_ns,
            &mut self.idle_ns,
            &mut self.queue_ns,
            &mut self.read_time_ns,
            &mut self.write_time_ns,
            &mut self.total_time_ns,
        ]
    }

    /// Adds what was counted elsewhere.
    ///
    /// # Errors
    /// When that is more than can be counted.
    pub fn add(&mut self, other: &CounterTotals) -> Result<(), String> {
        let mut other = other.clone();
        for (mine, theirs) in self.each_mut().into_iter().zip(other.each_mut()) {
            *mine = match (*mine, *theirs) {
                (Some(one), Some(two)) => {
                    Some(one.plus(two).ok_or("a sum is more than can be counted")?)
                }
                (one, two) => one.or(two),
            };
        }
        Ok(())
    }
}

/// Summary of one device of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceSummary {
    /// Its name in the recording.
    pub name: String,
    /// Intervals that count.
    pub intervals: u64,
    /// Intervals left out because of gaps, resets or wraps.
    pub intervals_dropped: u64,
    /// Operations per second of the busiest interval, in thousandths.
    pub peak_milli_ops_per_s: u64,
    /// The counts.
    pub totals: CounterTotals,
}

/// The load of a recording in steps of one clock for all: step N begins N times the step after 1970.
/// Columns of one length.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RecordingSteps {
    /// Numbers of the steps, rising.
    pub at: Vec<u64>,
    /// Reads.
    pub reads: Vec<u64>,
    /// Bytes read.
    pub read_bytes: Vec<u64>,
    /// Writes.
    pub writes: Vec<u64>,
    /// Bytes written.
    pub write_bytes: Vec<u64>,
    /// Time of all devices that counts.
    pub device_ns: Vec<u64>,
}

/// Figures that only requests show.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RequestsSummary {
    /// Kinds that occur, in the order of [`OpKind::ALL`].
    pub kinds: Vec<KindSummary>,
    /// Times between starts on the same device; empty where starts are too coarse.
    pub gaps: Histogram,
}

/// The requests of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KindSummary {
    /// Which.
    pub kind: OpKind,
    /// How many.
    pub requests: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Their sizes: the power of two that is not below, as its exponent, and how many.
    pub sizes: Vec<(u8, u64)>,
    /// Times from start to end.
    pub response: Histogram,
}

impl RecordingSummary {
    /// Whether it is one that this program can have written. What comes from a file is checked
    /// before it is used.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn check(&self) -> Result<(), String> {
        if !is_sha256(&self.sha256) {
            return Err("sha256 is not a digest of 64 hexadecimal digits".into());
        }
        let devices = self.devices.iter().map(|device| &device.name);
        let unread = self.unread.iter();
        let mut texts = [&self.name, &self.format, &self.host].into_iter();
        let mut others = devices.chain(unread).chain(&self.notes);
        let is_long = |text: &String| text.len() > TEXT_BYTES_MAX;
        if texts.any(is_long) || others.any(is_long) {
            return Err(format!("a text has more than {TEXT_BYTES_MAX} bytes"));
        }
        if self.devices.len() > DEVICES_MAX || self.notes.len() > NOTES_MAX {
            return Err("it has more devices or notes than a recording can have".into());
        }
        if self.from_unix_ns > self.to_unix_ns {
            return Err("it ends before it begins".into());
        }
        self.steps.check()?;
        match &self.requests {
            Some(requests) => requests.check(),
            None => Ok(()),
        }
    }

    /// Whether of two summaries of one recording this one is kept: by its name, so that it does not
    /// matter which came first.
    pub fn precedes(&self, other: &RecordingSummary) -> bool {
        let texts = |of: &RecordingSummary| (of.name.clone(), of.unread.clone(), of.notes.clone());
        texts(self) < texts(other)
    }

    /// Keeps texts and sentences within what [`RecordingSummary::check`] lets through.
    pub fn shorten(&mut self) {
        let more = self.notes.len().saturating_sub(NOTES_MAX - 1);
        if more > 1 {
            self.notes.truncate(NOTES_MAX - 1);
            self.notes.push(format!("and {more} more like these"));
        }
        let devices = self.devices.iter_mut().map(|device| &mut device.name);
        let own = [&mut self.name, &mut self.format, &mut self.host];
        let texts = own.into_iter().chain(devices).chain(&mut self.notes);
        for text in texts.chain(&mut self.unread) {
            if text.len() > TEXT_BYTES_MAX {
                let end = (0..=TEXT_BYTES_MAX)
                    .rev()
                    .find(|at| text.is_char_boundary(*at));
                text.truncate(end.unwrap_or(0));
            }
        }
    }
}

impl RecordingSteps {
    /// The columns beside their numbers.
    fn columns(&self) -> [&Vec<u64>; 5] {
        [
            &self.reads,
            &self.read_bytes,
            &self.writes,
            &self.write_bytes,
            &self.device_ns,
        ]
    }

    fn check(&self) -> Result<(), String> {
        let length = self.at.len();
        if self.columns().iter().any(|column| column.len() != length) {
            return Err("the columns of its steps are not of one length".into());
        }
        if length > STEPS_MAX {
            return Err(format!("it has more than {STEPS_MAX} steps"));
        }
        let latest = u64::MAX / 1_000_000_000 / STEP_S.0;
        let rises = self.at.is_sorted_by(|a, b| a < b);
        match rises && self.at.last().is_none_or(|last| *last <= latest) {
            true => Ok(()),
            false => Err("the numbers of its steps do not rise, or are too large".into()),
        }
    }
}

impl RequestsSummary {
    fn check(&self) -> Result<(), String> {
        let rises = |sizes: &[(u8, u64)]| sizes.is_sorted_by(|a, b| a.0 < b.0);
        let sizes = |kind: &KindSummary| {
            rises(&kind.sizes) && kind.sizes.iter().all(|(power, _)| *power <= 32)
        };
        let once = self
            .kinds
            .is_sorted_by(|a, b| a.kind.index() < b.kind.index());
        match once && self.kinds.iter().all(sizes) {
            true => Ok(()),
            false => Err("its kinds or sizes of requests do not rise, or are too large".into()),
        }
    }
}

/// Whether a text is a SHA-256 in lower-case hexadecimal digits.
pub fn is_sha256(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 64 && text.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> RecordingSummary {
        RecordingSummary {
            sha256: "0123456789abcdef".repeat(4),
            ..RecordingSummary::default()
        }
    }

    #[test]
    fn lines_round_trip_and_unknown_keys_are_refused() {
        let line = PartialLine::Recording(Box::new(summary()));
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(serde_json::from_str::<PartialLine>(&text).unwrap(), line);
        let foreign = text.replacen("\"name\"", "\"nome\"", 1);
        assert!(serde_json::from_str::<PartialLine>(&foreign).is_err());
    }

    #[test]
    fn what_no_program_writes_is_refused() {
        assert_eq!(summary().check(), Ok(()));
        let broken: [fn(&mut RecordingSummary); 6] = [
            |s| s.sha256.make_ascii_uppercase(),
            |s| s.from_unix_ns = 1,
            |s| s.steps.at.push(3),
            |s| {
                s.steps = RecordingSteps {
                    at: vec![4, 4],
                    reads: vec![0, 0],
                    read_bytes: vec![0, 0],
                    writes: vec![0, 0],
                    write_bytes: vec![0, 0],
                    device_ns: vec![0, 0],
                };
            },
            |s| s.name = "x".repeat(TEXT_BYTES_MAX + 1),
            |s| s.notes = vec![String::new(); NOTES_MAX + 1],
        ];
        for (case, damage) in broken.iter().enumerate() {
            let mut summary = summary();
            damage(&mut summary);
            assert!(summary.check().is_err(), "case {case}");
            summary.shorten();
            // A summary that is only too long is made to fit.
            assert_eq!(summary.check().is_ok(), case > 3, "case {case}");
        }
    }

    #[test]
    fn settings_say_in_what_they_differ() {
        let ours = PoolSettings::default();
        assert_eq!(ours.difference(&ours.clone()), None);
        let theirs = PoolSettings {
            step_s: 60,
            ..ours.clone()
        };
        assert_eq!(theirs.difference(&ours).unwrap(), "--step 60s and 600s");
        for (step_s, expect) in [
            (60, true),
            (59, false),
            (700, false),
            (86_400, true),
            (0, false),
        ] {
            let settings = PoolSettings {
                step_s,
                ..ours.clone()
            };
            assert_eq!(settings.check().is_ok(), expect, "{step_s}");
        }
    }
}
