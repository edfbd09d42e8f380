// SPDX-License-Identifier: Apache-2.0
//! What faults did to several storage systems, side by side.

use plimsoll_core::failover::{CellOutcome, Failover, Matrix, MatrixCell};
use plimsoll_core::fault::Fault;
use plimsoll_core::op::Kind;
use plimsoll_stats::events::{bound_of_none, median};

use crate::failover::{CONFIDENCE, lengths, method, shown};
use crate::model::{Cell, Item, Report, Section, Sentence, Table, Tone};
use crate::words::{count, dash, percent_whole};

/// What is said of a table of faults.
#[must_use]
pub fn matrix(all: &Matrix) -> Report {
    let mut table = Section::new(
        "Writes stood still",
        "a row for each system, a column for each fault",
    );
    table.is_answer = true;
    table.items = vec![Item::Table(grid(all)), Item::Table(list(all))];
    let subtitle = done(all).next().map_or_else(String::new, |(_, first)| {
        format!(
            "{} with {} reads and as many writes per second each",
            count(first.sessions as usize, "session"),
            first.rate
        )
    });
    Report {
        title: "Faults of storage systems".into(),
        subtitle,
        headline: vec![verdict(all)],
        sections: vec![table, method()],
        data: serde_json::to_string(all).unwrap_or_default(),
    }
}

fn done(all: &Matrix) -> impl Iterator<Item = (&MatrixCell, &Failover)> {
    all.cells.iter().filter_map(|cell| match &cell.outcome {
        CellOutcome::Done(done) => Some((cell, done)),
        _ => None,
    })
}

fn verdict(all: &Matrix) -> Sentence {
    let faults: usize = done(all).map(|(_, done)| done.strikes.len()).sum();
    let open = all.cells.len() - done(all).count();
    let bad: Vec<String> = done(all)
        .filter(|(_, done)| !done.kept_its_data())
        .map(|(cell, _)| format!("{} after {}", cell.stack, cell.fault))
        .collect();
    let detail = match open {
        0 => format!("all {} were done", count(all.cells.len(), "cell")),
        open => format!(
            "{} of {} have no result",
            count(open, "cell"),
            all.cells.len()
        ),
    };
    if faults == 0 {
        return Sentence {
            mark: "data".into(),
            tone: Tone::Muted,
            text: "no fault was done, so nothing is known".into(),
            detail,
        };
    }
    if bad.is_empty() {
        return Sentence {
            mark: "data".into(),
            tone: Tone::Good,
            text: format!(
                "no acknowledged write was lost in {}",
                count(faults, "fault")
            ),
            detail,
        };
    }
    Sentence {
        mark: "data".into(),
        tone: Tone::Bad,
        text: format!("not all that was acknowledged is there: {}", bad.join(", ")),
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

fn grid(all: &Matrix) -> Table {
    let stacks = distinct(all.cells.iter().map(|cell| cell.stack.as_str()));
    let faults: Vec<Fault> = distinct(all.cells.iter().map(|cell| cell.fault));
    let titles = faults.iter().map(|fault| format!("#{fault}"));
    let titles: Vec<String> = std::iter::once("system".into()).chain(titles).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let mut table = Table::new("Median of all faults (longest)", &titles);
    for stack in stacks {
        let of = |fault: &Fault| {
            let mut cells = all.cells.iter();
            let found = cells.find(|cell| cell.stack == stack && cell.fault == *fault);
            found.map_or_else(dash, |cell| brief(&cell.outcome))
        };
        let row = std::iter::once(Cell::new(stack)).chain(faults.iter().map(of));
        table.rows.push(row.collect());
    }
    table
}

/// A cell as it stands among the others.
fn brief(outcome: &CellOutcome) -> Cell {
    match outcome {
        CellOutcome::Done(done) => {
            let (middle, most) = stalls(done, Kind::Write);
            let (text, tone) = match done.kept_its_data() {
                true => (middle, Tone::Plain),
                false => (format!("{middle}, data lost"), Tone::Bad),
            };
            Cell::new(text).detail(most).tone(tone)
        }
        CellOutcome::Refused(_) => Cell::new("cannot be done").tone(Tone::Muted),
        CellOutcome::Failed(_) => Cell::new("failed").tone(Tone::Bad),
        CellOutcome::NotTried => dash(),
    }
}

/// Median and longest of all faults.
fn stalls(done: &Failover, kind: Kind) -> (String, String) {
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

fn list(all: &Matrix) -> Table {
    let mut table = Table::new(
        "Each cell",
        &[
            "system",
            "fault",
            "#n",
            "#writes stood still",
            "#at most",
            "~#reads stood still",
            "#sessions that survived",
            "#errors",
            "data",
        ],
    );
    let why = |cell: &MatrixCell| match &cell.outcome {
        CellOutcome::Refused(why) | CellOutcome::Failed(why) => {
            Some(format!("{}, {}: {why}", cell.stack, cell.fault))
        }
        _ => None,
    };
    table.rows = done(all).map(|(cell, done)| row(cell, done)).collect();
    table.notes = all.cells.iter().filter_map(why).collect();
    let faults = done(all).map(|(_, done)| done.strikes.len()).min();
    if let Some(faults) = faults {
        table.notes.push(format!(
            "What none of {} of a cell showed happens in at most {} of such faults (95 % confidence).",
            count(faults, "fault"),
            percent_whole(bound_of_none(faults, CONFIDENCE))
        ));
    }
    table
}

fn row(cell: &MatrixCell, done: &Failover) -> Vec<Cell> {
    let (writes, most) = stalls(done, Kind::Write);
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
        (false, _) => ("lost", Tone::Bad),
        (true, true) => ("kept, server failed", Tone::Bad),
        (true, false) => ("kept", Tone::Plain),
    };
    vec![
        Cell::new(&*cell.stack),
        Cell::new(cell.fault.name()),
        Cell::new(done.strikes.len().to_string()),
        Cell::new(writes),
        Cell::new(most),
        Cell::new(stalls(done, Kind::Read).0),
        Cell::new(format!("{alive} of {}", sessions.len())),
        Cell::new(errors.to_string()),
        Cell::new(data).tone(tone),
    ]
}
