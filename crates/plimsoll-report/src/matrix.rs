// SPDX-License-Identifier: Apache-2.0
//! What faults did to several storage systems, side by side.

use plimsoll_core::failover::{
    FailoverCellResult, FailoverMatrix, FailoverMatrixCell, FailoverResult,
};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::op::OpKind;
use plimsoll_stats::events::{bound_of_none, median};

use crate::failover::{CONFIDENCE, lengths, method, shown};
use crate::model::{
    ReportDocument, ReportFinding, ReportItem, ReportSection, ReportSeverity, ReportTable,
    ReportTableCell,
};
use crate::words::{count, dash, percent_whole};

/// What is said of a table of faults.
#[must_use]
pub fn matrix(all: &FailoverMatrix) -> ReportDocument {
    let mut table = ReportSection::new(
        "Write outage",
        "a row for each system, a column for each fault",
    );
    table.is_answer = true;
    table.items = vec![ReportItem::Table(grid(all)), ReportItem::Table(list(all))];
    let subtitle = done(all).next().map_or_else(String::new, |(_, first)| {
        format!(
            "{} with {} reads and as many writes per second each",
            count(first.sessions as usize, "session"),
            first.rate
        )
    });
    ReportDocument {
        title: "Faults of storage systems".into(),
        subtitle,
        headline: vec![verdict(all)],
        sections: vec![table, method()],
        data: serde_json::to_string(all).unwrap_or_default(),
    }
}

fn done(all: &FailoverMatrix) -> impl Iterator<Item = (&FailoverMatrixCell, &FailoverResult)> {
    all.cells.iter().filter_map(|cell| match &cell.outcome {
        FailoverCellResult::Done(done) => Some((cell, done)),
        _ => None,
    })
}

fn verdict(all: &FailoverMatrix) -> ReportFinding {
    let faults: usize = done(all).map(|(_, done)| done.strikes.len()).sum();
    let open = all.cells.len() - done(all).count();
    let bad: Vec<String> = done(all)
        .filter(|(_, done)| !done.kept_its_data())
        .map(|(cell, _)| format!("{} after {}", cell.stack, cell.fault))
        .collect();
    let detail = match open {
        0 => format!("all {} have a result", count(all.cells.len(), "cell")),
        open => format!(
            "{} of {} have no result",
            count(open, "cell"),
            all.cells.len()
        ),
    };
    if faults == 0 {
        return ReportFinding {
            mark: "data".into(),
            tone: ReportSeverity::Muted,
            text: "no fault was injected".into(),
            detail,
        };
    }
    if bad.is_empty() {
        return ReportFinding {
            mark: "data".into(),
            tone: ReportSeverity::Good,
            text: format!(
                "no acknowledged write was lost in {}",
                count(faults, "fault")
            ),
            detail,
        };
    }
    ReportFinding {
        mark: "data".into(),
        tone: ReportSeverity::Bad,
        text: format!("acknowledged writes were lost: {}", bad.join(", ")),
        detail,
    }
}

/// Each once, in the order in which they come.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn grid(all: &FailoverMatrix) -> ReportTable {
    let stacks = distinct(all.cells.iter().map(|cell| cell.stack.as_str()));
    let faults: Vec<FaultKind> = distinct(all.cells.iter().map(|cell| cell.fault));
    let titles = faults.iter().map(|fault| format!("#{fault}"));
    let titles: Vec<String> = std::iter::once("system".into()).chain(titles).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let mut table = ReportTable::new("Median of all faults (longest)", &titles);
    for stack in stacks {
        let of = |fault: &FaultKind| {
            let mut cells = all.cells.iter();
            let found = cells.find(|cell| cell.stack == stack && cell.fault == *fault);
            found.map_or_else(dash, |cell| brief(&cell.outcome))
        };
        let row = std::iter::once(ReportTableCell::new(stack)).chain(faults.iter().map(of));
        table.rows.push(row.collect());
    }
    table
}

/// A cell as it stands among the others.
fn brief(outcome: &FailoverCellResult) -> ReportTableCell {
    match outcome {
        FailoverCellResult::Done(done) => {
            let (middle, most) = stalls(done, OpKind::Write);
            let (text, tone) = match done.kept_its_data() {
                true => (middle, ReportSeverity::Plain),
                false => (format!("{middle}, data lost"), ReportSeverity::Bad),
            };
            ReportTableCell::new(text).detail(most).tone(tone)
        }
        FailoverCellResult::Refused(_) => {
            ReportTableCell::new("not possible").tone(ReportSeverity::Muted)
        }
        FailoverCellResult::Failed(_) => ReportTableCell::new("failed").tone(ReportSeverity::Bad),
        FailoverCellResult::NotTried => dash(),
    }
}

/// Median and longest of all faults.
fn stalls(done: &FailoverResult, kind: OpKind) -> (String, String) {
    let strikes: Vec<_> = done.strikes.iter().collect();
    let lengths = lengths(&strikes, kind);
    let most = lengths.iter().copied().fold(0.0, f64::max);
    let middle = median(lengths.iter().copied());
    let open = strikes
        .iter()
        .any(|strike| strike.outage.worst(kind).is_some_and(|stall| stall.is_open));
    let more = if open { "> " } else { "" };
    (
        middle.map_or_else(|| "–".into(), shown),
        format!("{more}{}", shown(most)),
    )
}

fn list(all: &FailoverMatrix) -> ReportTable {
    let mut table = ReportTable::new(
        "Each cell",
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
    let why = |cell: &FailoverMatrixCell| match &cell.outcome {
        FailoverCellResult::Refused(why) | FailoverCellResult::Failed(why) => {
            Some(format!("{}, {}: {why}", cell.stack, cell.fault))
        }
        _ => None,
    };
    table.rows = done(all).map(|(cell, done)| row(cell, done)).collect();
    table.notes = all.cells.iter().filter_map(why).collect();
    let faults = done(all).map(|(_, done)| done.strikes.len()).min();
    if let Some(faults) = faults {
        table.notes.push(format!(
            "What was not seen in {} of a cell happens in at most {} of such faults (95 % \
             confidence).",
            count(faults, "fault"),
            percent_whole(bound_of_none(faults, CONFIDENCE))
        ));
    }
    table
}

fn row(cell: &FailoverMatrixCell, done: &FailoverResult) -> Vec<ReportTableCell> {
    let (writes, most) = stalls(done, OpKind::Write);
    let sessions = done
        .strikes
        .iter()
        .flat_map(|strike| &strike.outage.sessions);
    let sessions: Vec<bool> = sessions.map(|session| session.survived).collect();
    let alive = sessions.iter().filter(|survived| **survived).count();
    let errors: u64 = done
        .strikes
        .iter()
        .map(|strike| strike.outage.errors())
        .sum();
    let crashed = done.strikes.iter().any(|strike| strike.crashed > 0);
    let (data, tone) = match (done.kept_its_data(), crashed) {
        (false, _) => ("lost", ReportSeverity::Bad),
        (true, true) => ("kept, server failed", ReportSeverity::Bad),
        (true, false) => ("kept", ReportSeverity::Plain),
    };
    vec![
        ReportTableCell::new(&*cell.stack),
        ReportTableCell::new(cell.fault.name()),
        ReportTableCell::new(done.strikes.len().to_string()),
        ReportTableCell::new(writes),
        ReportTableCell::new(most),
        ReportTableCell::new(stalls(done, OpKind::Read).0),
        ReportTableCell::new(format!("{alive} of {}", sessions.len())),
        ReportTableCell::new(errors.to_string()),
        ReportTableCell::new(data).tone(tone),
    ]
}
