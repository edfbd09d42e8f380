// SPDX-License-Identifier: Apache-2.0
//! Effects of faults on several systems, side by side.

use plimsoll_core::op::OpKind;
use plimsoll_stats::events::{bound_of_none, median};

use super::{CONFIDENCE, SystemFaults, shown, stall};
use crate::model::{ReportItem, ReportSection, ReportSeverity, ReportTable, ReportTableCell};
use crate::words::{count, dash, percent_whole};

pub(super) fn section(systems: &[Vec<SystemFaults<'_>>]) -> Option<ReportSection> {
    if systems.len() < 2 {
        return None;
    }
    let mut table = ReportSection::new(
        "Write outage",
        "a row for each system, a column for each fault",
    );
    table.is_answer = true;
    table.items = vec![
        ReportItem::Table(grid(systems)),
        ReportItem::Table(list(systems)),
    ];
    Some(table)
}

fn grid(systems: &[Vec<SystemFaults<'_>>]) -> ReportTable {
    let faults = systems[0].iter().map(|kind| format!("#{}", kind.name));
    let titles: Vec<String> = std::iter::once("system".into()).chain(faults).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let mut table = ReportTable::new("Median of all faults (longest)", &titles);
    for kinds in systems {
        let name = ReportTableCell::new(kinds[0].system);
        let row = std::iter::once(name).chain(kinds.iter().map(brief));
        table.rows.push(row.collect());
    }
    table
}

/// A cell as it stands among the others.
fn brief(kind: &SystemFaults<'_>) -> ReportTableCell {
    if kind.injection.refused.contains_key(kind.system) {
        return ReportTableCell::new("not possible").tone(ReportSeverity::Muted);
    }
    if kind.faults.is_empty() {
        return dash();
    }
    let (middle, most) = stalls(kind, OpKind::Write);
    let (text, tone) = match kind.kept_its_data() {
        true => (middle, ReportSeverity::Plain),
        false => (format!("{middle}, data lost"), ReportSeverity::Bad),
    };
    ReportTableCell::new(text).detail(most).tone(tone)
}

/// Median and longest of all faults.
fn stalls(kind: &SystemFaults<'_>, op: OpKind) -> (String, String) {
    let lengths = kind.lengths(op);
    let most = lengths.iter().copied().fold(0.0, f64::max);
    let middle = median(lengths.iter().copied());
    let is_open = (kind.results()).any(|fault| stall(fault, op).is_some_and(|stall| stall.is_open));
    let more = if is_open { "> " } else { "" };
    (
        middle.map_or_else(|| "–".into(), shown),
        format!("{more}{}", shown(most)),
    )
}

fn list(systems: &[Vec<SystemFaults<'_>>]) -> ReportTable {
    let mut table = ReportTable::new(
        "Each system under each fault",
        &[
            "system",
            "fault",
            "#n",
            "#write outage",
            "#at most",
            "~#read outage",
            "#sessions that survived",
            "#errors",
            "data",
        ],
    );
    let all = || systems.iter().flatten();
    let done = || all().filter(|kind| !kind.faults.is_empty());
    table.rows = done().map(row).collect();
    table.notes = all()
        .filter_map(|kind| {
            let why = kind.injection.refused.get(kind.system)?;
            Some(format!("{}, {}: {why}", kind.system, kind.name))
        })
        .collect();
    if let Some(faults) = done().map(|kind| kind.faults.len()).min() {
        table.notes.push(format!(
            "What was not seen in {} of a row happens in at most {} of such faults (95 % \
             confidence).",
            count(faults, "fault"),
            percent_whole(bound_of_none(faults, CONFIDENCE))
        ));
    }
    table
}

fn row(kind: &SystemFaults<'_>) -> Vec<ReportTableCell> {
    let (writes, most) = stalls(kind, OpKind::Write);
    let (total, alive) = kind.survivors();
    let crashed = kind.results().any(|fault| fault.crashed > 0);
    let (data, tone) = match (kind.kept_its_data(), crashed) {
        (false, _) => ("lost", ReportSeverity::Bad),
        (true, true) => ("kept, server failed", ReportSeverity::Bad),
        (true, false) => ("kept", ReportSeverity::Plain),
    };
    vec![
        ReportTableCell::new(kind.system),
        ReportTableCell::new(kind.name),
        ReportTableCell::new(kind.faults.len().to_string()),
        ReportTableCell::new(writes),
        ReportTableCell::new(most),
        ReportTableCell::new(stalls(kind, OpKind::Read).0),
        ReportTableCell::new(format!("{alive} of {total}")),
        ReportTableCell::new(kind.errors().to_string()),
        ReportTableCell::new(data).tone(tone),
    ]
}
