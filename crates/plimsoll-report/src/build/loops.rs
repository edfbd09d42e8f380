// SPDX-License-Identifier: Apache-2.0
//! The same throughput in both loops: what a closed one hides of the tail.

use plimsoll_core::comparison::{ComparisonVerdict, LoadLoopComparison};

use super::view::ResultsView;
use crate::model::{
    ChartQuantity, ReportFinding, ReportItem, ReportSection, ReportSeverity, ReportTable,
    ReportTableCell,
};
use crate::words;

/// A sentence for each system.
pub(super) fn headline(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    view.loops.iter().map(|row| sentence(view, row)).collect()
}

fn sentence(view: &ResultsView<'_>, row: &LoadLoopComparison) -> ReportFinding {
    let rate = ChartQuantity::Rate.show(row.closed_ops_per_s);
    let place = format!("{} on {} at {rate}", row.workload, row.arm);
    let text = match (&row.factor, row.verdict) {
        (_, ComparisonVerdict::CannotCarry) => {
            format!("{place}: the closed loop keeps up, the open one does not")
        }
        (Some(factor), _) => format!(
            "{place}: the p99 in an open loop is {}× that in a closed one",
            words::estimate(factor)
        ),
        (None, _) => format!("Not enough data: both loops of {}", row.workload),
    };
    let confidence = words::percent_whole(view.results.manifest.policy.confidence);
    let mut detail = match &row.factor {
        Some(factor) => format!("{confidence} CI {}; ", words::interval(factor)),
        None => String::new(),
    };
    detail.push_str(&words::count(row.blocks as usize, "block"));
    if !row.reason.is_empty() {
        detail.push_str("; ");
        detail.push_str(&row.reason);
    }
    detail.push('.');
    let mark = match row.verdict {
        ComparisonVerdict::Different | ComparisonVerdict::CannotCarry => "omission",
        ComparisonVerdict::Equivalent => "no omission",
        ComparisonVerdict::Inconclusive => "inconclusive",
    };
    ReportFinding::new(mark, text)
        .tone(tone(row))
        .detail(detail)
}

fn tone(row: &LoadLoopComparison) -> ReportSeverity {
    match row.verdict {
        ComparisonVerdict::Different | ComparisonVerdict::CannotCarry => ReportSeverity::Care,
        ComparisonVerdict::Equivalent => ReportSeverity::Same,
        ComparisonVerdict::Inconclusive => ReportSeverity::Muted,
    }
}

/// The same as a table.
pub(super) fn section(view: &ResultsView<'_>) -> Option<ReportSection> {
    view.loops.first()?;
    let mut section = ReportSection::new(
        "Closed and open loop",
        "Both loops at the throughput that the closed one reached on each system. What waits in an open loop \
         is not even asked for in a closed one (coordinated omission).",
    );
    section.is_answer = true;
    let columns = [
        "Workload",
        "System",
        "~#Closed",
        "~#Open",
        "#p99 closed",
        "#p99 open",
        "#Factor",
    ];
    let mut table = ReportTable::new("p99 response time by loop", &columns);
    for row in &view.loops {
        let rate = |value| ReportTableCell::new(ChartQuantity::Rate.show(value));
        let time = |value: f64| match value > 0.0 {
            true => ReportTableCell::new(ChartQuantity::Duration.show(value)),
            false => words::dash(),
        };
        table.rows.push(vec![
            ReportTableCell::new(row.workload.clone()),
            ReportTableCell::new(row.arm.clone()),
            rate(row.closed_ops_per_s),
            rate(row.open_ops_per_s),
            time(row.closed_p99_ns),
            time(row.open_p99_ns),
            row.factor.as_ref().map_or_else(words::dash, |factor| {
                let (times, interval) = (words::estimate(factor), words::interval(factor));
                ReportTableCell::new(format!("{times} ({interval})")).tone(tone(row))
            }),
        ]);
    }
    section.items.push(ReportItem::Table(table));
    Some(section)
}
