// SPDX-License-Identifier: Apache-2.0
//! `plimsoll run --trace-ops`: the operations of a workload in order, without doing them, so that
//! its definition can be held against the original; and when operations were really issued.

use plimsoll_console::failure::{CliExitCode, CliResult, failed};
use plimsoll_console::terminal;
use plimsoll_core::rng::Seed;
use plimsoll_core::workload::Workload;
use plimsoll_engine::{TracedOp, WorkerId};
use plimsoll_run::spec;
use std::fmt::Write;
use std::process::ExitCode;

/// Prints the first `count` operations of one worker.
pub(super) fn print(text: &str, who: WorkerId, seed: Seed, count: u32, json: bool) -> CliResult {
    let asked = spec::workload(text)?;
    for note in &asked.notes {
        terminal::say(note);
    }
    let count = plimsoll_core::num::to_usize(count.into());
    let traced = plimsoll_engine::trace_worker(&asked.workload, who, seed, count)
        .map_err(failed(CliExitCode::Usage))?;
    let phases = phases(&asked.workload);
    if json {
        let all: Vec<serde_json::Value> = traced.iter().map(|op| as_json(op, &phases)).collect();
        terminal::print_json(&serde_json::Value::from(all));
    } else {
        terminal::say(&format!("seed {seed}"));
        terminal::print(&as_text(&traced, &phases));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints when the first `count` operations were meant to start, and when they were issued.
pub(super) fn print_issues(text: &str, seed: Seed, count: u32, json: bool) -> CliResult {
    let asked = spec::workload(text)?;
    for note in &asked.notes {
        terminal::say(note);
    }
    let count = plimsoll_core::num::to_usize(count.into());
    let issues = plimsoll_engine::trace_issues(&asked.workload, seed, count)
        .map_err(failed(CliExitCode::Usage))?;
    let times = issues
        .iter()
        .map(|issue| [issue.intended_at.0, issue.issued_at.0]);
    if json {
        let all: Vec<serde_json::Value> = times.map(serde_json::Value::from).collect();
        terminal::print_json(&serde_json::Value::from(all));
    } else {
        terminal::say(&format!("seed {seed}"));
        let lines: Vec<String> = times
            .map(|[intended, issued]| format!("{intended:>15}  {issued:>15}\n"))
            .collect();
        terminal::print(&lines.concat());
    }
    Ok(ExitCode::SUCCESS)
}

/// Names of the phases of a series; of others nothing.
fn phases(workload: &Workload) -> Vec<&str> {
    match workload {
        Workload::Series(series) => {
            let phases = series.phases.iter();
            phases.map(|phase| phase.name.as_str()).collect()
        }
        _ => Vec::new(),
    }
}

fn phase_of<'a>(op: &TracedOp, phases: &[&'a str]) -> Option<&'a str> {
    let number = plimsoll_core::num::to_usize(op.phase.into());
    phases.get(number).copied()
}

fn as_json(op: &TracedOp, phases: &[&str]) -> serde_json::Value {
    let mut value = serde_json::json!({
        "kind": op.kind, "file": op.file, "offset": op.offset, "bytes": op.len });
    if let Some(phase) = phase_of(op, phases) {
        value["phase"] = phase.into();
    }
    value
}

/// One line for each operation, in columns.
fn as_text(traced: &[TracedOp], phases: &[&str]) -> String {
    let width = |of: fn(&TracedOp) -> usize| traced.iter().map(of).max().unwrap_or(0);
    let (kinds, files) = (width(|op| op.kind.name().len()), width(|op| op.file.len()));
    let names = phases.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for op in traced {
        if let Some(phase) = phase_of(op, phases) {
            let _ = write!(text, "{phase:names$}  ");
        }
        // Operations on no file have that column all the same.
        let file = if op.file.is_empty() { "-" } else { &op.file };
        let (kind, offset, bytes) = (op.kind.name(), op.offset, op.len);
        let _ = writeln!(
            text,
            "{kind:kinds$}  {file:files$}  {offset:>12}  {bytes:>9}"
        );
    }
    text
}
