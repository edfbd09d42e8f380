// SPDX-License-Identifier: Apache-2.0
//! The outages around each fault, on one axis of time.

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
    let title = format!(
        "How long is the outage of {} after a fault?",
        kinds[0].system
    );
    drawn(&title, stops(kinds)?, rows(kinds), ROWS_MAX)
}

/// The first faults of every system, as many as a first screen has room for.
pub(super) fn first_figure(systems: &[Vec<SystemFaults<'_>>]) -> Option<ReportFigure> {
    let done = systems
        .iter()
        .filter(|kinds| kinds.iter().any(|kind| !kind.faults.is_empty()));
    let done: Vec<&Vec<SystemFaults<'_>>> = done.collect();
    let each = (ROWS_FIRST / done.len().max(1)).max(1);
    let (mut all, mut total) = (Vec::new(), 0);
    for kinds in &done {
        let system = kinds[0].system;
        let rows = rows(kinds);
        total += rows.len();
        all.extend(rows.into_iter().take(each).map(|row| match done.len() {
            1 => row,
            _ => OutageRow {
                label: format!("{system}: {}", row.label),
                about: format!("{system}: {}", row.about),
                ..row
            },
        }));
    }
    // Of several systems the sentence above the picture has said it.
    let told = match done[..] {
        [only] => stops(only)?,
        _ => "A row is a fault, and 0 its injection. On the right: the length of the write outage."
            .into(),
    };
    let title = "How long is the outage after a fault?";
    let mut figure = drawn(title, told, all, ROWS_FIRST)?.compact();
    if let ReportChart::Outages(chart) = &mut figure.chart {
        chart.left_out = total - chart.rows.len();
    }
    Some(figure)
}

fn rows(kinds: &[SystemFaults<'_>]) -> Vec<OutageRow> {
    let numbered = (1..).zip(in_order(kinds));
    let rows = numbered.filter_map(|(number, (name, fault))| row(number, name, fault));
    rows.collect()
}

/// How long writes stop, in a sentence.
fn stops(kinds: &[SystemFaults<'_>]) -> Option<String> {
    let writes = kinds.iter().flat_map(|kind| kind.lengths(OpKind::Write));
    let writes: Vec<f64> = writes.collect();
    let most = writes.iter().copied().fold(0.0, f64::max);
    let middle = CentralTendency::Median.of(writes.iter().copied())?;
    Some(format!(
        "Writes stop for {} (median of {}), at most {}.",
        shown(middle),
        count(writes.len(), "fault"),
        shown(most)
    ))
}

fn drawn(
    title: &str,
    answer: String,
    rows: Vec<OutageRow>,
    rows_max: usize,
) -> Option<ReportFigure> {
    let ends = rows.iter().flat_map(|row| {
        let stalls = [row.writes, row.reads].into_iter().flatten();
        let degraded = row.degraded.map(|(until, _)| until);
        let stalls = stalls.map(|(_, until, _)| until);
        stalls.chain(degraded).chain([row.ended_s])
    });
    let length_s = ends.fold(0.0, f64::max);
    if rows.is_empty() {
        return None;
    }
    let chart = OutageChart {
        length_s,
        left_out: rows.len().saturating_sub(rows_max),
        rows: rows.into_iter().take(rows_max).collect(),
    };
    let chart = ReportChart::Outages(chart);
    Some(ReportFigure::new(title, answer, chart).beside_its_table())
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
        Some((after(from), after(from + length), !is_open))
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
