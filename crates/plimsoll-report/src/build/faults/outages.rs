// SPDX-License-Identifier: Apache-2.0
//! When storage stood still around each fault, on one axis of time.

use plimsoll_core::failover::FaultResult;
use plimsoll_core::op::OpKind;
use plimsoll_core::outage::{BrownOut, OutageStall};
use plimsoll_core::units::Nanos;

use super::every::in_order;
use super::{SystemFaults, shown, stall};
use crate::model::{CentralTendency, OutageChart, OutageRow, ReportChart, ReportFigure};
use crate::words::count;

/// Most faults in one drawing; the table below has all.
const ROWS_MAX: usize = 30;
/// Most on a first screen.
const ROWS_FIRST: usize = 6;

/// All faults of a system; none where no fault has a known time.
pub(super) fn figure(kinds: &[SystemFaults<'_>]) -> Option<ReportFigure> {
    let rows: Vec<OutageRow> = (1..)
        .zip(in_order(kinds))
        .filter_map(|(number, (name, fault))| row(number, name, fault))
        .collect();
    let ends = rows.iter().flat_map(|row| {
        let stalls = [row.writes, row.reads].into_iter().flatten();
        let degraded = row.degraded.map(|(until, _)| until);
        stalls
            .map(|(_, until, _)| until)
            .chain(degraded)
            .chain([row.ended_s])
    });
    let length_s = ends.fold(0.0, f64::max);
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    let writes = kinds.iter().flat_map(|kind| kind.lengths(OpKind::Write));
    let writes: Vec<f64> = writes.collect();
    let most = writes.iter().copied().fold(0.0, f64::max);
    let answer = match CentralTendency::Median.of(writes.iter().copied()) {
        Some(middle) => format!(
            "Writes stop for {} (median of {}), at most {}.",
            shown(middle),
            count(writes.len(), "fault"),
            shown(most)
        ),
        None => "No write was seen to stop.".into(),
    };
    if rows.is_empty() {
        return None;
    }
    let chart = OutageChart {
        length_s,
        rows: rows.into_iter().take(ROWS_MAX).collect(),
        left_out,
    };
    let title = format!(
        "How long does {} stand still after a fault?",
        kinds[0].system
    );
    Some(ReportFigure::new(title, answer, ReportChart::Outages(chart)).beside_its_table())
}

/// As much of it as a first screen has room for.
pub(super) fn first_figure(systems: &[Vec<SystemFaults<'_>>]) -> Option<ReportFigure> {
    let kinds = systems
        .iter()
        .find(|kinds| kinds.iter().any(|kind| !kind.faults.is_empty()))?;
    let mut figure = figure(kinds)?.compact();
    if let ReportChart::Outages(chart) = &mut figure.chart {
        chart.left_out += chart.rows.len().saturating_sub(ROWS_FIRST);
        chart.rows.truncate(ROWS_FIRST);
    }
    Some(figure)
}

fn row(number: u32, name: &str, fault: &FaultResult) -> Option<OutageRow> {
    let at = fault.outage.fault_at?;
    let after = |time: Nanos| time.as_secs_f64() - at.as_secs_f64();
    let span = |kind: OpKind| {
        let OutageStall {
            from,
            length,
            is_open,
        } = stall(fault, kind)?;
        Some((after(from).max(0.0), after(from + length), !is_open))
    };
    Some(OutageRow {
        label: format!("{number} {name}"),
        about: format!("{name} of {}", fault.victim),
        ended_s: fault.lasted.as_secs_f64(),
        writes: span(OpKind::Write),
        reads: span(OpKind::Read),
        degraded: match fault.outage.brown_out {
            BrownOut::Lasted(length) => Some((length.as_secs_f64(), true)),
            BrownOut::NotOver(length) => Some((length.as_secs_f64(), false)),
            BrownOut::Unknown => None,
        },
    })
}
