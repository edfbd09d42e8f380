// SPDX-License-Identifier: Apache-2.0
//! The results of elbencho, as CSV with its line of names (`--csvfile`) or as JSON (`--jsonfile`). Each phase
//! has a line or a document; the rates are those at the end of its slowest thread ("last done"). CSV has
//! whole MiB per second and whole milliseconds, JSON bytes. Source: elbencho's own writer
//! (`source/Statistics.cpp`) and `docs/csv-docs.md`.

use std::collections::BTreeMap;

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::{KindStats, OpStats, PhaseResult};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::round_u64;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;
use serde_json::Value;

use super::{ProgramOutputResult, number};

const MIB: f64 = 1_048_576.0;
/// Settings that tell phases of one file apart, if they differ: name in CSV, in JSON, in a phase.
const SETTINGS: [(&str, &str, &str); 8] = [
    ("label", "label", "label"),
    ("hosts", "hosts", "hosts"),
    ("threads", "threads", "threads"),
    ("files", "files", "files"),
    ("file size", "file_size", "size"),
    ("block size", "block_size", "block"),
    ("random", "random_offsets", "random"),
    ("IO depth", "io_depth", "depth"),
];

/// A phase as either file tells it.
#[derive(Debug, Default)]
struct ElbenchoPhase {
    name: String,
    settings: [String; SETTINGS.len()],
    wall_ms: f64,
    bytes_per_s: Option<f64>,
    iops: Option<f64>,
    entries_per_s: Option<f64>,
    bytes: f64,
    /// Response times of its I/O operations, where there are buckets.
    times: Option<Histogram>,
    /// Smallest, mean, largest in microseconds.
    summary_us: Option<[f64; 3]>,
}

/// Whether a line names the columns of the CSV.
pub(super) fn is_heading(line: &str) -> bool {
    let mut columns = line.split(',');
    line.starts_with("ISO date,") && columns.any(|column| column == "time ms [last]")
}

/// Whether a text holds the JSON.
pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && text.contains("\"phase_type\"")
        && text.contains("\"last_done\"")
}

pub(super) fn read(text: &str) -> Result<Vec<ProgramOutputResult>, String> {
    let (phases, is_whole) = if is_json(text) {
        (json(text)?, false)
    } else {
        (csv(text)?, true)
    };
    let mut differ = [false; SETTINGS.len()];
    for (place, differs) in differ.iter_mut().enumerate() {
        let first = phases.first().map(|phase| &phase.settings[place]);
        *differs = phases
            .iter()
            .any(|phase| Some(&phase.settings[place]) != first);
    }
    let mut readings: Vec<ProgramOutputResult> = Vec::new();
    let mut current = ProgramOutputResult::default();
    for mut phase in phases {
        let mut told = Vec::new();
        for ((value, differs), (_, _, name)) in phase.settings.iter().zip(differ).zip(SETTINGS) {
            if differs && !value.is_empty() {
                told.push(format!("{name}={value}"));
            }
        }
        if !told.is_empty() {
            phase.name = format!("{} ({})", phase.name, told.join(" "));
        }
        // The same phase again: the next run.
        let first = phase.results().into_iter().next();
        let is_known = |new: &PhaseResult| current.phases.iter().any(|old| old.name == new.name);
        if first.as_ref().is_some_and(is_known) {
            readings.push(std::mem::take(&mut current));
        }
        if current.notes.is_empty() {
            current
                .notes
                .push("rates are those at the end of the slowest thread (last done)".into());
            if is_whole {
                let note = "its CSV has whole MiB/s and milliseconds; --jsonfile tells bytes";
                current.notes.push(note.into());
            }
        }
        current.notes.extend(phase.note());
        current.phases.extend(phase.results());
    }
    if !current.phases.is_empty() {
        readings.push(current);
    }
    Ok(readings)
}

impl ElbenchoPhase {
    /// Its results, the one with the operations first.
    fn results(&self) -> Vec<PhaseResult> {
        let result = |name: String, metric, value, stats| PhaseResult {
            name,
            metric,
            value,
            wall: Nanos::from_secs_f64(self.wall_ms / 1e3),
            stats,
            user_cpu_ns: 0,
            system_cpu_ns: 0,
            workers: Vec::new(),
        };
        let kind = if self.name.contains("READ") {
            OpKind::Read
        } else {
            OpKind::Write
        };
        let mut stats = OpStats::default();
        if self.bytes > 0.0 {
            let service = self.times.clone().unwrap_or_default();
            let told = KindStats {
                bytes: round_u64(self.bytes),
                response: service.clone(),
                service,
                ..KindStats::default()
            };
            stats.0.insert(kind, told);
        }
        let mut results = Vec::new();
        if let Some(bytes_per_s) = self.bytes_per_s {
            let metric = ComparisonMetric::BytesPerSecond;
            results.push(result(self.name.clone(), metric, bytes_per_s, stats));
        }
        for (rate, what) in [(self.iops, "I/Os"), (self.entries_per_s, "entries")] {
            if let Some(rate) = rate {
                let name = format!("{}: {what}", self.name);
                let metric = ComparisonMetric::OpsPerSecond;
                results.push(result(name, metric, rate, OpStats::default()));
            }
        }
        results
    }

    fn note(&self) -> Option<String> {
        let [min, mean, max] = self.summary_us?;
        let what = if self.times.is_some() {
            "its buckets are elbencho's: their upper edges stand for the times in them"
        } else {
            "it tells no distribution (--lathisto with --jsonfile does)"
        };
        Some(format!(
            "{}: times of an I/O {min} to {max} us, mean {mean} us; {what}",
            self.name
        ))
    }
}

fn csv(text: &str) -> Result<Vec<ElbenchoPhase>, String> {
    let mut columns: BTreeMap<&str, usize> = BTreeMap::new();
    let mut phases = Vec::new();
    for (line, text) in (1usize..).zip(text.lines()) {
        if is_heading(text) {
            columns = text.split(',').map(str::trim).zip(0..).collect();
            continue;
        }
        if text.trim().is_empty() || columns.is_empty() {
            continue;
        }
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if fields.len() != columns.len() {
            return Err(format!(
                "line {line}: it has {} columns, and {} are named",
                fields.len(),
                columns.len()
            ));
        }
        let field = |name: &str| {
            let found = columns.get(name).and_then(|place| fields.get(*place));
            found.copied().unwrap_or_default()
        };
        let figure = |name: &str| match field(name) {
            "" => Ok(None),
            text => number(text).map(Some).ok_or_else(|| {
                format!("line {line}: invalid value '{text}' for {name}: expected a number")
            }),
        };
        let mut times = [None; 3];
        for (time, which) in times.iter_mut().zip(["min", "avg", "max"]) {
            *time = figure(&format!("IO lat us [{which}]"))?;
        }
        let wall_ms = figure("time ms [last]")?.unwrap_or(0.0);
        let settings = SETTINGS.map(|(name, _, _)| field(name).to_owned());
        let phase = |name: &str, before: &str| -> Result<ElbenchoPhase, String> {
            let column = |name: &str| figure(&format!("{before}{name} [last]"));
            Ok(ElbenchoPhase {
                name: name.into(),
                settings: settings.clone(),
                wall_ms,
                bytes_per_s: column("MiB/s")?.map(|mib| mib * MIB),
                iops: column("IOPS")?,
                entries_per_s: column("entries/s")?,
                bytes: column("MiB")?.unwrap_or(0.0) * MIB,
                times: None,
                summary_us: None,
            })
        };
        let mut main = phase(field("operation"), "")?;
        if let [Some(min), Some(mean), Some(max)] = times {
            main.summary_us = Some([min, mean, max]);
        }
        // Reads of a mixed phase have columns of their own.
        let reads = phase(&format!("{}: READ", main.name), "rwmix read ")?;
        phases.push(main);
        if reads
            .iops
            .or(reads.entries_per_s)
            .or(reads.bytes_per_s)
            .is_some()
        {
            phases.push(reads);
        }
    }
    Ok(phases)
}

fn json(text: &str) -> Result<Vec<ElbenchoPhase>, String> {
    let mut phases = Vec::new();
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    while let Some(document) = documents.next() {
        let document = document.map_err(|error| {
            let line = text[..documents.byte_offset().min(text.len())]
                .matches('\n')
                .count();
            format!(
                "line {}: it is not a whole JSON document ({error})",
                line + 1
            )
        })?;
        let name = document["phase_type"]
            .as_str()
            .ok_or("a document has no 'phase_type'")?;
        let (done, config) = (&document["last_done"], &document["config"]);
        let settings = SETTINGS.map(|(_, key, _)| {
            let place = if key == "label" { &document } else { config };
            place[key].as_str().unwrap_or_default().to_owned()
        });
        let phase = |name: String, done: &Value, latency: &Value, wall_ms| {
            let times = histogram(latency);
            let summary = ["min_us", "avg_us", "max_us"].map(|key| figure(&latency[key]));
            let [min, mean, max] = summary;
            ElbenchoPhase {
                name,
                settings: settings.clone(),
                wall_ms,
                bytes_per_s: figure(&done["bytes/s"]),
                iops: figure(&done["iops"]),
                entries_per_s: figure(&done["entries/s"]),
                bytes: figure(&done["bytes"]).unwrap_or(0.0),
                times,
                summary_us: min
                    .zip(mean)
                    .zip(max)
                    .map(|((min, mean), max)| [min, mean, max]),
            }
        };
        let wall_ms = figure(&done["elapsed_time_ms"]).unwrap_or(0.0);
        let latency = &done["latency"]["IO"];
        phases.push(phase(name.into(), done, latency, wall_ms));
        let reads = &done["rwmix_read"];
        if reads.is_object() {
            let name = format!("{name}: READ");
            phases.push(phase(name, reads, &latency["rwmix_read"], wall_ms));
        }
    }
    Ok(phases)
}

/// A number; elbencho writes all of them as texts.
fn figure(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => number(text),
        other => other.as_f64().filter(|number| (0.0..1e18).contains(number)),
    }
}

/// Its buckets, `{"range": "64-76.1us", "count": "5"}`: times are taken as the upper edge, and none
/// above the largest.
fn histogram(latency: &Value) -> Option<Histogram> {
    let buckets = latency["histogram"].as_array()?;
    let max_us = figure(&latency["max_us"])?;
    let mut counts = BTreeMap::new();
    let mut n = 0.0;
    for bucket in buckets {
        let range = bucket["range"].as_str()?.trim_end_matches("us");
        let upper = match range.split_once('-') {
            Some((_, upper)) => number(upper)?,
            // The last has no end.
            None => number(range.trim_end_matches('+'))?.max(max_us),
        };
        let count = figure(&bucket["count"])?;
        n += count;
        let below: &mut u64 = counts
            .entry(round_u64(upper.min(max_us) * 1e3))
            .or_default();
        *below = below.saturating_add(round_u64(count));
    }
    let mean_us = figure(&latency["avg_us"])?;
    let min_us = figure(&latency["min_us"])?;
    let [sum, min, max] = [mean_us * n, min_us, max_us].map(|us| round_u64(us * 1e3));
    (n > 0.0).then(|| Histogram::from_counts(counts, sum, min, max))
}
