// SPDX-License-Identifier: Apache-2.0
//! Acknowledged blocks, those of them that were read back, and those that were lost.

use plimsoll_core::data_check::{DataCheckResult, DataFlaw};
use plimsoll_stats::events::bound_of_none;

use super::super::view::{ResultsView, grouped};
use super::{CONFIDENCE, SystemFaults, good};
use crate::model::{ReportItem, ReportSection, ReportTable, ReportTableCell};
use crate::words::{dash, percent_whole};

/// A row: a system, under what, the tests that it rests on, and what was found.
type IntegrityRow = (String, String, usize, DataCheckResult);

/// The table, where anything was verified.
pub(super) fn section(
    view: &ResultsView<'_>,
    systems: &[Vec<SystemFaults<'_>>],
) -> Option<ReportSection> {
    let rows: Vec<IntegrityRow> = (after_faults(systems).into_iter())
        .chain(of_trials(view))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let bad: u64 = rows.iter().map(|(.., check)| check.bad.total()).sum();
    let written: u64 = rows.iter().map(|(.., check)| check.written).sum();
    let lead = match bad {
        0 => format!(
            "None of {} acknowledged blocks was lost or damaged.",
            grouped(written)
        ),
        bad => format!(
            "{} of {} acknowledged blocks are bad.",
            grouped(bad),
            grouped(written)
        ),
    };
    let mut section = ReportSection::new("Was anything lost?", lead).at("integrity");
    section.page_only = true;
    section.items.push(ReportItem::Table(table(&rows)));
    Some(section)
}

/// Everything that was written around the faults of one kind, together.
fn after_faults(systems: &[Vec<SystemFaults<'_>>]) -> Vec<IntegrityRow> {
    let kinds = systems.iter().flatten();
    let rows = kinds.filter_map(|kind| {
        let checks = kind.results().map(|fault| fault.check.data.clone());
        let all = merged(checks)?;
        Some((
            kind.system.to_owned(),
            kind.name.to_owned(),
            kind.faults.len(),
            all,
        ))
    });
    rows.collect()
}

/// Blocks that trials without faults wrote and read back.
fn of_trials(view: &ResultsView<'_>) -> Vec<IntegrityRow> {
    let entries = view.entries();
    let rows = entries.flat_map(|entry| {
        let pools = view.pools(entry).into_iter();
        pools.filter_map(|pool| {
            let checks = pool
                .trials
                .iter()
                .filter_map(|trial| trial.data_check.clone());
            let trials = checks.clone().count();
            Some((pool.name(), entry.label.clone(), trials, merged(checks)?))
        })
    });
    rows.collect()
}

fn merged(checks: impl Iterator<Item = DataCheckResult>) -> Option<DataCheckResult> {
    checks.reduce(|mut all, one| {
        all.merge(one);
        all
    })
}

fn table(rows: &[IntegrityRow]) -> ReportTable {
    let columns = [
        "System",
        "Under",
        "#Tests",
        "#Acknowledged blocks",
        "#Read back",
        "#Lost",
        "#Otherwise bad",
        "~#Errors",
        "#Loss in at most",
    ];
    let mut table = ReportTable::new("Acknowledged, verified, lost", &columns);
    let number = |count: u64| ReportTableCell::new(grouped(count)).value(count as f64);
    for (system, under, tests, check) in rows {
        let lost = [DataFlaw::Lost, DataFlaw::Hole, DataFlaw::Stale];
        let lost: u64 = lost.into_iter().map(|flaw| check.bad.of(flaw)).sum();
        let other = check.bad.total() - lost;
        let bound = match check.bad.total() {
            0 => ReportTableCell::new(percent_whole(bound_of_none(*tests, CONFIDENCE))),
            _ => dash(),
        };
        table.rows.push(vec![
            ReportTableCell::new(system.clone()),
            ReportTableCell::new(under.clone()),
            number(*tests as u64),
            number(check.written),
            number(check.checked).detail(match check.interrupted {
                true => "not everything",
                false => "",
            }),
            number(lost).tone(good(lost == 0)),
            number(other).tone(good(other == 0)),
            number(check.errors).tone(good(check.errors == 0)),
            bound,
        ]);
    }
    table.notes = vec![
        "A test is a fault, or a trial. Lost: an acknowledged write that is missing, alone or with others. \
         Loss in at most: the share of such tests that may lose something although none did (95 % \
         confidence)."
            .into(),
    ];
    table
}
