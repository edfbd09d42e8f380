// SPDX-License-Identifier: Apache-2.0
//! Of what an outage is made, where the servers' cluster keeps a log.

use plimsoll_core::failover::FaultResult;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;
use plimsoll_stats::events::median;

use super::{SystemFaults, shown, stall};
use crate::model::{ReportTable, ReportTableCell};
use crate::words::dash;

/// Stages of a failover, in order: the word of the cluster's events, and the column title.
const PARTS: [(&str, &str); 5] = [
    ("noticed", "#failure detected"),
    ("agreed", "#membership agreed"),
    ("fenced", "#fenced"),
    ("promoting", "#promoting"),
    ("serving", "#serving"),
];

/// When each part was over, from the fault on: medians and the latest.
pub(super) fn parts(kinds: &[SystemFaults<'_>]) -> Option<ReportTable> {
    let mut columns = vec!["fault"];
    columns.extend(PARTS.map(|(_, title)| title));
    columns.push("#first write");
    let mut table = ReportTable::new("Parts of an outage", &columns);
    for kind in kinds {
        if kind.results().all(|fault| fault.events.is_empty()) {
            continue;
        }
        let mut row = vec![ReportTableCell::new(kind.name)];
        row.extend(PARTS.map(|(word, _)| cell(kind, |fault| fault.first(word))));
        row.push(cell(kind, first_write));
        table.rows.push(row);
    }
    table.notes = vec![
        "Time from the fault until each was first completed: the median, and the latest. Until \
         fencing, timeouts of the ring and of fencing dominate; the rest is work."
            .into(),
    ];
    (!table.rows.is_empty()).then_some(table)
}

/// When the longest standstill of a write was over.
fn first_write(fault: &FaultResult) -> Option<Nanos> {
    let stall = stall(fault, OpKind::Write).filter(|stall| !stall.is_open)?;
    // A stall is reported less the time between two operations.
    let at = stall.from + stall.length + fault.outage.resolution;
    Some(at.since(fault.outage.fault_at?))
}

fn cell(kind: &SystemFaults<'_>, time: impl Fn(&FaultResult) -> Option<Nanos>) -> ReportTableCell {
    let times: Vec<f64> = (kind.results().filter_map(time))
        .map(|time| time.0 as f64)
        .collect();
    let Some(middle) = median(times.iter().copied()) else {
        return dash();
    };
    let latest = times.iter().copied().fold(0.0, f64::max);
    ReportTableCell::new(format!("{} ({})", shown(middle), shown(latest)))
}
