// SPDX-License-Identifier: Apache-2.0
//! Results of a gate: for the terminal, for a comment of a pull request, and as test cases.

use plimsoll_core::comparison::RatioEstimate;
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::gate::{GateOutcome, GateRow, GateVerdict};
use plimsoll_core::text::printable;

use super::markdown::{escaped, put_command, put_row};
use crate::put::put;
use crate::words;

/// By which a robot finds its comment again, to write over it.
const COMMENT_MARK: &str = "<!-- plimsoll gate -->";

/// The lines of a terminal.
pub fn gate_text(outcome: &GateOutcome) -> String {
    let mut out = format!("Gate: {}\n", headline(outcome));
    for row in &outcome.rows {
        put!(
            out,
            "  {}: {}\n",
            printable(&row.workload),
            gate_line(outcome, row)
        );
    }
    out
}

/// A comment: the verdict, the figures, and how they are made again.
pub fn gate_markdown(results: &RunFolderContents, outcome: &GateOutcome) -> String {
    let mut out = format!("{COMMENT_MARK}\n## Gate: {}\n\n", outcome.verdict.name());
    put!(out, "**{}**\n\n", escaped(&headline(outcome)));
    let confidence = words::percent_whole(outcome.confidence);
    put!(
        out,
        "| workload | metric | reference | candidate | candidate ÷ reference ({confidence} CI) | blocks | verdict |\n\
         | --- | --- | ---: | ---: | ---: | ---: | --- |\n"
    );
    for row in &outcome.rows {
        let ratio = row.ratio.as_ref().map_or_else(
            || "–".into(),
            |ratio| format!("{}× ({})", words::estimate(ratio), words::interval(ratio)),
        );
        let cells = [
            row.workload.clone(),
            row.metric.name().to_owned(),
            row.metric.show(row.reference_value),
            row.metric.show(row.candidate_value),
            ratio,
            row.blocks.to_string(),
            row.verdict.name().to_owned(),
        ];
        put_row(&mut out, cells.iter().map(String::as_str));
    }
    let unsure = outcome
        .rows
        .iter()
        .filter(|row| row.verdict == GateVerdict::CannotTell && !row.reason.is_empty());
    for row in unsure {
        put!(
            out,
            "\n- {}: {}",
            escaped(&row.workload),
            escaped(&row.reason)
        );
    }
    put!(
        out,
        "\n\nBoth were measured in the same randomised blocks. A regression is a worsening that is shown, and \
         not shown to be smaller than {}.\n\n",
        words::percent(outcome.effect)
    );
    put_command(&mut out, &results.manifest.command);
    out
}

/// Test cases that build servers read.
pub fn gate_junit(results: &RunFolderContents, outcome: &GateOutcome) -> String {
    super::junit::gate_junit(results, outcome)
}

fn headline(outcome: &GateOutcome) -> String {
    let (of, all) = (
        (outcome.rows.iter()).filter(|row| row.verdict == outcome.verdict),
        words::count(outcome.rows.len(), "figure"),
    );
    format!(
        "{} in {} of {all}: {} against {}",
        outcome.verdict.name(),
        of.count(),
        printable(&outcome.candidate),
        printable(&outcome.reference),
    )
}

/// A row in a sentence.
pub(super) fn gate_line(outcome: &GateOutcome, row: &GateRow) -> String {
    let figures = match &row.ratio {
        Some(ratio) => changed(row, ratio, outcome.confidence),
        None => "no interval".into(),
    };
    let mut line = format!("{}: {} {figures}", row.verdict.name(), row.metric.name());
    if row.verdict == GateVerdict::CannotTell && !row.reason.is_empty() {
        put!(line, "; {}", printable(&row.reason));
    }
    line
}

fn changed(row: &GateRow, ratio: &RatioEstimate, confidence: f64) -> String {
    let sign = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
    let is_more = ratio.estimate > 1.0;
    let word = match is_more == row.metric.more_is_better() {
        // Nothing is shown.
        _ if ratio.low <= 1.0 && ratio.high >= 1.0 => "",
        true => ", better",
        false => ", worse",
    };
    format!(
        "{}{word} ({} CI {} to {}), {} against {}, {}",
        sign(ratio.estimate),
        words::percent_whole(confidence),
        sign(ratio.low),
        sign(ratio.high),
        row.metric.show(row.candidate_value),
        row.metric.show(row.reference_value),
        words::count(row.blocks as usize, "block"),
    )
}
