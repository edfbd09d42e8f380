// SPDX-License-Identifier: Apache-2.0
//! filebench's results: the `IO Summary`, which counts every I/O operation, those on metadata too,
//! and before it a line per operation of the loop. Megabytes are MiB.

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::PhaseResult;
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;

use super::{ProgramOutputResult, RateOnlyResult, before};

/// Operations whose times are repeated in a note.
const TIMES_MAX: usize = 32;

pub(super) fn read(text: &str) -> Result<Vec<ProgramOutputResult>, String> {
    let mut readings = Vec::new();
    let mut operations: Vec<FilebenchSummaryLine> = Vec::new();
    for (line, text) in (1usize..).zip(text.lines()) {
        if let Some((_, rest)) = text.split_once("IO Summary:") {
            let summary = FilebenchSummaryLine::read("IO Summary", rest);
            let summary = summary
                .ok_or_else(|| format!("line {line}: '{}' has no ops and ops/s", text.trim()))?;
            readings.push(reading(summary, std::mem::take(&mut operations)));
        } else if let Some((name, rest)) = text.trim().split_once(char::is_whitespace)
            && rest.contains("ops/s")
        {
            operations.extend(FilebenchSummaryLine::read(name, rest));
        }
    }
    if readings.is_empty() {
        return Err("there is no 'IO Summary:' line: the run did not end in order".into());
    }
    Ok(readings)
}

/// A run: its summary, and its operations. Their own rates are whole numbers; all took as long as
/// the run did, which the summary gives to a thousandth of an operation a second.
fn reading(
    summary: FilebenchSummaryLine,
    operations: Vec<FilebenchSummaryLine>,
) -> ProgramOutputResult {
    let seconds = ratio(summary.ops, summary.per_s);
    let mut times = Vec::new();
    let mut phases = Vec::new();
    for mut told in std::iter::once(summary).chain(operations) {
        if seconds > 0.0 {
            told.per_s = told.ops / seconds;
        }
        if let (Some(mean), true) = (told.mean_ms, times.len() < TIMES_MAX) {
            times.push(format!("{} {mean}", told.name));
        }
        phases.push(told.result());
    }
    let told = !times.is_empty();
    let note = || {
        format!(
            "mean times as filebench prints them, in ms/op: {}",
            times.join(", ")
        )
    };
    ProgramOutputResult {
        phases,
        notes: told.then(note).into_iter().collect(),
        ..ProgramOutputResult::default()
    }
}

/// A line of the text.
struct FilebenchSummaryLine {
    name: String,
    ops: f64,
    per_s: f64,
    mean_ms: Option<f64>,
}

impl FilebenchSummaryLine {
    fn read(name: &str, text: &str) -> Option<FilebenchSummaryLine> {
        let text = text.replace([',', '(', ')', '[', ']'], " ");
        let words: Vec<&str> = text.split_whitespace().collect();
        Some(FilebenchSummaryLine {
            name: name.into(),
            ops: before(&words, "ops")?,
            per_s: before(&words, "ops/s")?,
            mean_ms: before(&words, "ms/op"),
        })
    }

    fn result(self) -> PhaseResult {
        let rate = RateOnlyResult {
            name: self.name,
            metric: ComparisonMetric::OpsPerSecond,
            per_s: self.per_s,
            amount: self.ops,
            kind: OpKind::Write,
        };
        rate.result()
    }
}
