// SPDX-License-Identifier: Apache-2.0
//! Prometheus and what is compatible: answers to queries, and texts of exporters with times.
//!
//! Sources: the HTTP API of Prometheus (`docs/querying/api.md`: matrices of `query_range`, or of `query` with
//! a range such as `[1d]`, which has the samples as they were scraped), VictoriaMetrics' `/api/v1/export`
//! (one series a line), the OpenMetrics specification 1.0 (times in seconds, ends with `# EOF`) and
//! Prometheus's text format 0.0.4 (times in milliseconds). Several answers may stand one behind the other.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};

use plimsoll_core::units::Nanos;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::monitored::{self, MonitoredSamples, SeriesLabels};
use super::{CounterFormat, CounterScan};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::text::lines;

/// Recognised by its first keys.
pub(super) const JSON: CounterFormat = CounterFormat {
    name: "JSON of Prometheus (query_range) or VictoriaMetrics (export)",
    resolution: Nanos(1_000_000),
    is: |head| {
        let text = head.trim_ascii_start();
        let has = |key: &[u8]| text.windows(key.len()).any(|part| part == key);
        let is_answer = has(b"\"status\"") && has(b"\"resultType\"");
        let is_export = has(b"\"metric\"") && has(b"\"__name__\"");
        text.starts_with(b"{") && (is_answer || is_export)
    },
    scan: scan_json,
};

/// Recognised by what stands before a metric, or by a line of a known one.
pub(super) const TEXT: CounterFormat = CounterFormat {
    name: "OpenMetrics or Prometheus text with times",
    resolution: Nanos(1_000_000),
    is: |head| {
        let mut first = lines(head).filter(|line| !line.is_empty()).take(8);
        first.any(|line| {
            let is_head = [&b"# HELP "[..], b"# TYPE "]
                .iter()
                .any(|s| line.starts_with(s));
            let is_sample = || {
                let line = str::from_utf8(line).ok().and_then(text_sample);
                line.is_some_and(|line| monitored::is_known(line.name))
            };
            is_head || is_sample()
        })
    },
    scan: scan_text,
};

/// Most bytes of one answer. Those of Prometheus have at most 11,000 samples of a series.
const ANSWER_BYTES: u64 = 256 << 20;

/// An answer, or a series by itself.
#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct MonitoredAnswer {
    status: String,
    error: String,
    warnings: Vec<String>,
    data: AnswerData,
    metric: UniqueLabels,
    values: Vec<AnswerValue>,
    /// In milliseconds.
    timestamps: Vec<f64>,
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct AnswerData {
    #[serde(rename = "resultType")]
    kind: String,
    result: Vec<AnswerSeries>,
}

#[derive(serde::Deserialize)]
struct AnswerSeries {
    metric: UniqueLabels,
    #[serde(default)]
    values: Vec<(f64, AnswerValue)>,
}

/// Labels, none of which stands twice.
#[derive(Default)]
struct UniqueLabels(SeriesLabels);

impl<'de> Deserialize<'de> for UniqueLabels {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<UniqueLabels, D::Error> {
        struct LabelVisitor;
        impl<'de> Visitor<'de> for LabelVisitor {
            type Value = UniqueLabels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueLabels, A::Error> {
                let mut labels = SeriesLabels::new();
                while let Some((label, value)) = map.next_entry::<String, String>()? {
                    if labels.contains_key(&label) {
                        return Err(de::Error::custom("a label stands twice in a series"));
                    }
                    labels.insert(label, value);
                }
                Ok(UniqueLabels(labels))
            }
        }
        from.deserialize_map(LabelVisitor)
    }
}

/// A number, in quotation marks or not; `null` is none.
struct AnswerValue(f64);

impl<'de> Deserialize<'de> for AnswerValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<AnswerValue, D::Error> {
        struct ValueVisitor;
        impl Visitor<'_> for ValueVisitor {
            type Value = AnswerValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sample")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<AnswerValue, E> {
                let value = text.parse().map_err(|_| E::custom("a sample is no number"));
                value.map(AnswerValue)
            }

            fn visit_f64<E>(self, value: f64) -> Result<AnswerValue, E> {
                Ok(AnswerValue(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<AnswerValue, E> {
                Ok(AnswerValue(value as f64))
            }

            fn visit_i64<E>(self, value: i64) -> Result<AnswerValue, E> {
                Ok(AnswerValue(value as f64))
            }

            fn visit_unit<E>(self) -> Result<AnswerValue, E> {
                Ok(AnswerValue(f64::NAN))
            }
        }
        from.deserialize_any(ValueVisitor)
    }
}

/// The bytes of an input, as many as one answer may have.
struct BoundedAnswer<'a> {
    input: &'a mut RecordingInput,
    left: &'a Cell<u64>,
}

impl Read for BoundedAnswer<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = into.len().min(64 << 10);
        let read = self.input.take(wanted).map_err(io::Error::other)?;
        into[..read.len()].copy_from_slice(read);
        let left = self.left.get().checked_sub(read.len() as u64);
        let left =
            left.ok_or_else(|| io::Error::other("one answer in it has more than 256 MiB"))?;
        self.left.set(left);
        Ok(read.len())
    }
}

fn scan_json(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    let file = input.name().to_owned();
    let start = input.offset();
    let mut found = MonitoredSamples::default();
    let left = Cell::new(ANSWER_BYTES);
    let bytes = BufReader::new(BoundedAnswer { input, left: &left });
    let mut answers = serde_json::Deserializer::from_reader(bytes).into_iter::<MonitoredAnswer>();
    let mut stopped = None;
    while let Some(answer) = answers.next() {
        left.set(ANSWER_BYTES);
        let taken = match answer {
            Ok(answer) => take(answer, scan, &mut found),
            Err(error) if error.is_io() => {
                let source = error.into();
                return Err(TraceError::Read { file, source });
            }
            Err(error) => Err(format!(
                "the JSON that begins here is broken or cut off: {error}"
            )),
        };
        if let Err(what) = taken {
            stopped = Some((start + answers.byte_offset() as u64, what));
            break;
        }
    }
    drop(answers);
    scan.told.damage = stopped.map(|(offset, what)| input.damage(offset, what));
    found.finish(scan);
    Ok(())
}

/// Takes the series of one answer.
fn take(
    answer: MonitoredAnswer,
    scan: &mut CounterScan<'_>,
    found: &mut MonitoredSamples,
) -> Result<(), String> {
    let printable = plimsoll_core::text::printable;
    if !matches!(&*answer.status, "" | "success") {
        return Err(format!(
            "an error was answered: {}",
            printable(&answer.error)
        ));
    }
    for warning in &answer.warnings {
        scan.warn_once(&format!("its server warned: {}", printable(warning)));
    }
    if !matches!(&*answer.data.kind, "" | "matrix") {
        return Err(format!(
            "it is a {}, which has one sample of each series; ask /api/v1/query_range, or /api/v1/query with a \
             range such as [1d]",
            printable(&answer.data.kind)
        ));
    }
    if answer.values.len() != answer.timestamps.len() {
        return Err("a series has not as many times as values".into());
    }
    let values = answer.timestamps.iter().zip(answer.values);
    series(
        found,
        answer.metric,
        values.map(|(at, value)| (at / 1e3, value)),
    )?;
    for one in answer.data.result {
        series(found, one.metric, one.values.into_iter())?;
    }
    Ok(())
}

/// Takes one series, whose times are seconds.
fn series(
    found: &mut MonitoredSamples,
    metric: UniqueLabels,
    values: impl ExactSizeIterator<Item = (f64, AnswerValue)>,
) -> Result<(), String> {
    let UniqueLabels(mut labels) = metric;
    if values.len() == 0 {
        return Ok(());
    }
    let name = labels.remove("__name__").unwrap_or_default();
    let Some(series) = found.series(&name, &labels) else {
        return Ok(());
    };
    for (at, AnswerValue(value)) in values {
        let at = monitored::instant_ns(at, 1.0).ok_or_else(|| format!("{at} is no time"))?;
        let taken = found.sample(series, at, value);
        taken.map_err(|what| format!("{}: {what}", plimsoll_core::text::printable(&name)))?;
    }
    Ok(())
}

/// A line of a text.
struct TextSample<'a> {
    name: &'a str,
    labels: SeriesLabels,
    value: f64,
    time: Option<f64>,
}

/// `name{label="value",…} value [time] [# an exemplar]`.
fn text_sample(line: &str) -> Option<TextSample<'_>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = line.find(|c| !is_name(c)).filter(|end| *end > 0)?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = SeriesLabels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = text_labels(inside, &mut labels)?;
    }
    let mut words = rest.split_ascii_whitespace();
    let value = words.next()?.parse().ok()?;
    let time = match words.next() {
        None | Some("#") => None,
        Some(time) => Some(time.parse().ok()?),
    };
    Some(TextSample {
        name,
        labels,
        value,
        time,
    })
}

/// Takes labels up to the closing brace, and returns what stands behind it.
fn text_labels<'a>(mut rest: &'a str, labels: &mut SeriesLabels) -> Option<&'a str> {
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(behind) = rest.strip_prefix('}') {
            return Some(behind);
        }
        let (label, behind) = rest.split_once("=\"")?;
        let (value, behind) = quoted(behind)?;
        if labels.insert(label.trim().into(), value).is_some() {
            return None;
        }
        rest = behind;
    }
}

/// The text up to the closing quotation mark, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            (_, other) => value.push(other),
        }
    }
}

/// Seconds of all times to come are fewer, milliseconds of all since 1973 more.
const SECONDS_MAX: f64 = 1e11;

fn scan_text(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    let mut found = MonitoredSamples::default();
    let (mut has_seconds, mut is_ended) = (false, false);
    let mut end = input.offset();
    scan.lines(input, RecordingInput::line, |scan, offset, line| {
        end = offset + line.len() as u64;
        let text = str::from_utf8(line).unwrap_or("").trim_ascii();
        is_ended |= text == "# EOF";
        if line.trim_ascii().is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let sample = text_sample(text).ok_or("it is no sample")?;
        has_seconds |= sample.time.is_some_and(|time| time < SECONDS_MAX);
        text_taken(&sample, &mut found)?;
        scan.right();
        Ok::<(), String>(())
    })?;
    if scan.told.damage.is_none() && has_seconds && !is_ended {
        scan.told.damage =
            Some(input.damage(end, "the file is cut off: it does not end with # EOF"));
    } else if scan.told.damage.is_none() && end == input.offset() && !is_ended && end > 0 {
        scan.told.damage = Some(input.damage(end, "the file is cut off: its last line has no end"));
    }
    found.finish(scan);
    Ok(())
}

/// Takes one sample.
fn text_taken(sample: &TextSample<'_>, found: &mut MonitoredSamples) -> Result<(), String> {
    let Some(series) = found.series(sample.name, &sample.labels) else {
        return Ok(());
    };
    let time = sample.time.ok_or(NO_TIME)?;
    let per_s = if time < SECONDS_MAX { 1.0 } else { 1e3 };
    let at = monitored::instant_ns(time, per_s).ok_or("its time is none")?;
    found.sample(series, at, sample.value)
}

const NO_TIME: &str = "it has no time; one look at an exporter has each counter once: ask Prometheus for a range, \
                       or let it print its samples (promtool tsdb dump)";

#[cfg(test)]
mod tests;
