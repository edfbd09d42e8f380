// SPDX-License-Identifier: Apache-2.0
//! Of what an outage is made, where the servers' cluster keeps a log.

use plimsoll_core::failover::{FailoverResult, FaultResult};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;
use plimsoll_stats::events::median;

use super::{of, shown, stall};
use crate::model::{ReportTable, ReportTableCell};
use crate::words::dash;

/// What a cluster does, in order: the word of its events, and what a reader is told.
const PARTS: [(&str, &str); 5] = [
    ("noticed", "#failure detected"),
    ("agreed", "#membership agreed"),
    ("fenced", "#fenced"),
    ("promoting", "#promoting"),
    ("serving", "#serving"),
];

/// When each part was over, from the fault on: medians and the latest.
pub(super) fn parts(done: &FailoverResult, kinds: &[FaultKind]) -> Option<ReportTable> {
    let mut columns = vec!["fault"];
    columns.extend(PARTS.map(|(_, title)| title));
    columns.push("#first write");
    let mut table = ReportTable::new("Parts of an outage", &columns);
    for fault in kinds {
        let strikes = of(done, *fault);
        if strikes.iter().all(|strike| strike.events.is_empty()) {
            continue;
        }
        let mut row = vec![ReportTableCell::new(fault.name())];
        row.extend(PARTS.map(|(word, _)| cell(&strikes, |strike| strike.first(word))));
        row.push(cell(&strikes, first_write));
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
fn first_write(strike: &FaultResult) -> Option<Nanos> {
    let stall = stall(strike, OpKind::Write).filter(|stall| !stall.is_open)?;
    // A stall is told less the time between two operations.
    let at = stall.from + stall.length + strike.outage.resolution;
    Some(at.since(strike.outage.fault_at?))
}

fn cell(strikes: &[&FaultResult], time: impl Fn(&FaultResult) -> Option<Nanos>) -> ReportTableCell {
    let times: Vec<f64> = strikes
        .iter()
        .filter_map(|s| time(s))
        .map(|t| t.0 as f64)
        .collect();
    let Some(middle) = median(times.iter().copied()) else {
        return dash();
    };
    let latest = times.iter().copied().fold(0.0, f64::max);
    ReportTableCell::new(format!("{} ({})", shown(middle), shown(latest)))
}
