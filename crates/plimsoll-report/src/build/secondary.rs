// SPDX-License-Identifier: Apache-2.0
//! Secondary differences: the metrics beside the one that was fixed beforehand.

use plimsoll_core::comparison::{ArmComparison, ComparisonVerdict};

use super::view::ResultsView;
use crate::model::{ReportItem, ReportSection, ReportSeverity, ReportTable, ReportTableCell};
use crate::words;

/// More rows than these are summed up in a line on the terminal.
const ROWS_MAX: usize = 14;

/// The table, below the answer; `None` where nothing but the one metric was measured.
pub(super) fn section(view: &ResultsView<'_>) -> Option<ReportSection> {
    let rows = &view.secondary;
    let first = rows.first()?;
    let confidence = words::percent_whole(view.results.manifest.policy.confidence);
    let mut section = ReportSection::new(
        "What else differs?",
        format!(
            "Secondary metrics against {}, corrected together for {} (Holm); verdicts and exit codes rest on \
             the metric above alone.",
            first.base,
            words::count(tested(rows), "comparison"),
        ),
    );
    section.is_answer = true;
    let base = format!("~#{}", first.base);
    let ratio = format!("#Ratio ({confidence} CI)");
    let columns = [
        "Metric",
        "System",
        &base,
        "~#System’s value",
        &ratio,
        "Verdict",
    ];
    let mut table = ReportTable::new("Secondary metrics by workload and system", &columns);
    let several = rows.iter().any(|row| row.workload != first.workload);
    let mut above = None;
    for row in rows {
        let heading = (&row.workload, row.metric);
        let is_first = above != Some(heading);
        table.rows.push(table_row(row, is_first, several));
        above = Some(heading);
    }
    table.notes = notes(rows);
    section.items.push(match rows.len() > ROWS_MAX {
        true => ReportItem::Folded(in_a_line(rows), table),
        false => ReportItem::Table(table),
    });
    Some(section)
}

fn tested(rows: &[ArmComparison]) -> usize {
    rows.iter().filter(|row| row.ratio.is_some()).count()
}

fn table_row(row: &ArmComparison, is_first: bool, several: bool) -> Vec<ReportTableCell> {
    let value = |value: f64| match value > 0.0 {
        true => ReportTableCell::new(row.metric.show(value)),
        false => words::dash(),
    };
    let metric = if is_first { row.metric.name() } else { "" };
    let workload = if is_first && several {
        &row.workload
    } else {
        ""
    };
    let ratio = row.ratio.as_ref();
    let verdict = match ratio {
        Some(_) => ReportTableCell::new(words::verdict(row)).tone(words::tone(row)),
        None => ReportTableCell::new("not tested").tone(ReportSeverity::Muted),
    };
    vec![
        ReportTableCell::new(metric).detail(workload),
        ReportTableCell::new(words::arm(row)),
        value(row.base_value),
        value(row.arm_value),
        ratio.map_or_else(words::dash, |ratio| {
            let (times, interval) = (words::estimate(ratio), words::interval(ratio));
            ReportTableCell::new(format!("{times} ({interval})"))
        }),
        verdict,
    ]
}

/// Differences in one line, where the table is too long for a terminal.
fn in_a_line(rows: &[ArmComparison]) -> String {
    let is_different = |row: &&ArmComparison| row.verdict == ComparisonVerdict::Different;
    let found = rows.iter().filter(is_different).map(|row| {
        let times = row.ratio.as_ref().map(words::estimate).unwrap_or_default();
        format!(
            "{times}× the {} on {} ({})",
            row.metric.name(),
            row.arm,
            row.workload
        )
    });
    let found: Vec<String> = found.collect();
    let all = words::count(tested(rows), "comparison");
    match found.is_empty() {
        true => format!("None of {all} differs; the page has the table."),
        false => format!("Of {all}: {}; the page has the table.", found.join("; ")),
    }
}

/// Each reason once, with what it is of.
fn notes(rows: &[ArmComparison]) -> Vec<String> {
    let mut notes: Vec<(String, Vec<String>)> = Vec::new();
    let with_reason = rows.iter().filter(|row| !row.reason.is_empty());
    // Of what is inconclusive the interval says enough.
    let told = with_reason
        .filter(|row| row.ratio.is_none() || row.verdict == ComparisonVerdict::Different);
    for row in told {
        let about = format!("{} of {}", row.metric.name(), words::arm(row));
        match notes.iter_mut().find(|(reason, _)| *reason == row.reason) {
            Some((_, all)) if all.contains(&about) => {}
            Some((_, all)) => all.push(about),
            None => notes.push((row.reason.clone(), vec![about])),
        }
    }
    let line = |(reason, about): (String, Vec<String>)| format!("{}: {reason}.", about.join(", "));
    notes.into_iter().map(line).collect()
}
