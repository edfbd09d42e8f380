// SPDX-License-Identifier: Apache-2.0
//! A verification in the terminal.

use super::job::JobFidelity;
use crate::cli::fit::number;
use crate::cli::gates;
use plimsoll_core::model::{FidelityCheck, FidelityReport, FidelityReportRow, WorkloadModel};
use std::fmt::Write;

/// Columns of the name of a metric.
const METRIC: usize = 56;

/// Load and recording that were compared, in one line.
fn about(load: &str, verification: &FidelityReport) -> String {
    format!(
        "{load} against {} · disk {} · {} to {} · {} compared\n",
        verification.recording,
        verification.disk,
        verification.from,
        verification.to,
        verification.compared
    )
}

/// A model held against a recording: every metric between its gate and its noise floor.
pub(super) fn of_model(model: &WorkloadModel, verification: &FidelityReport, all: bool) -> String {
    let mut text = about(&model.name, verification);
    let told = gates::told(&verification.lines, |checked| &checked.line, all);
    if told.is_empty() {
        text.push_str(&verdict(verification, all));
        return text;
    }
    let _ = writeln!(
        text,
        "\n{:METRIC$}{:>11}{:>11}{:>10}{:>8}{:>11}{:>10}",
        "Metric", "recorded", "submitted", "error", "gate", "two seeds", "halves"
    );
    for checked in told {
        let FidelityReportRow { line, floor } = checked;
        let _ = writeln!(
            text,
            "{:METRIC$}{:>11}{:>11}{:>10}{:>8}{:>11}{:>10}  {}",
            line.metric,
            number(line.recorded),
            number(line.submitted),
            line.shown(percent),
            format!("{:.1} %", line.gate * 100.0),
            floor.seeds.map_or("–".into(), percent),
            floor.halves.map_or("–".into(), percent),
            word(line)
        );
    }
    text.push_str("\nTwo seeds: the error between two plays of this load. Halves: the error between the first half of the recording and the second.\n");
    text.push_str(&verdict(verification, all));
    text
}

/// Sections of a job held against a recording: the judged load, and other ways to take it.
pub(super) fn of_job(job: &JobFidelity, all: bool) -> String {
    let mut text = about(&job.sections, &job.verification);
    let told = gates::told(&job.verification.lines, |checked| &checked.line, all);
    if told.is_empty() {
        text.push_str(&verdict(&job.verification, all));
        return text;
    }
    let _ = write!(
        text,
        "\n{:METRIC$}{:>11}{:>12}{:>8}{:>10}      ",
        "Metric", "recorded", job.what, "gate", "halves"
    );
    for other in &job.others {
        let _ = write!(text, "{:>17}", other.what);
    }
    text.push('\n');
    for checked in told {
        let FidelityReportRow { line, floor } = checked;
        let _ = write!(
            text,
            "{:METRIC$}{:>11}{:>12}{:>8}{:>10}  {}",
            line.metric,
            number(line.recorded),
            line.shown(percent),
            format!("{:.1} %", line.gate * 100.0),
            floor.halves.map_or("–".into(), percent),
            word(line)
        );
        for other in &job.others {
            let same = other.lines.iter().find(|l| l.metric == line.metric);
            let error = same.map_or("–".into(), |line| percent(line.error));
            let _ = write!(text, "{error:>17}");
        }
        text.push('\n');
    }
    if !job.traps.is_empty() {
        text.push_str("\nWhy:\n");
    }
    for trap in &job.traps {
        let _ = writeln!(text, "  {trap}");
    }
    text.push_str(&verdict(&job.verification, all));
    text
}

/// Metrics that were not compared, and the verdict on the others.
fn verdict(verification: &FidelityReport, all: bool) -> String {
    let mut text = String::new();
    if !verification.untold.is_empty() {
        text.push_str("\nNot compared:\n");
    }
    for untold in &verification.untold {
        let _ = writeln!(text, "  {untold}");
    }
    let lines = verification.lines.iter().map(|checked| &checked.line);
    let summary = gates::summary(lines);
    let how = if all { "" } else { " (--gates lists them)" };
    let missed = verification.missed().count();
    let _ = match missed {
        0 => writeln!(text, "\nPassed: {summary}{how}."),
        _ => writeln!(
            text,
            "\nFAILED: {missed} gates were missed; {summary}{how}."
        ),
    };
    text
}

fn word(line: &FidelityCheck) -> &'static str {
    if line.passed() { "pass" } else { "FAIL" }
}

/// An error in percent; one against nothing has no figure.
fn percent(error: f64) -> String {
    if !error.is_finite() {
        return "none rec.".into();
    }
    let percent = error * 100.0;
    if percent.abs() >= 100.0 {
        format!("{percent:+.0} %")
    } else {
        format!("{percent:+.2} %")
    }
}
