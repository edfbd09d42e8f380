// SPDX-License-Identifier: Apache-2.0
//! Limits of the trials of a run: pass, fail, or not known.

use plimsoll_core::load_line::{LoadLineSlo, SloResult, SloVerdict};

use super::view::ResultsView;
use crate::model::{ReportItem, ReportSection, ReportSeverity, ReportTable, ReportTableCell};

/// The sentence that answers: each limit, with the measured value.
pub(super) fn answer(view: &ResultsView<'_>) -> Option<(ReportSeverity, String)> {
    let worst = view.slos.iter().map(|slo| slo.verdict).max_by_key(weight)?;
    let told: Vec<String> = view.slos.iter().map(|slo| sentence(view, slo)).collect();
    Some((
        tone(worst),
        format!("{}: {}.", name(worst), told.join("; ")),
    ))
}

fn weight(verdict: &SloVerdict) -> u8 {
    match verdict {
        SloVerdict::Pass => 0,
        SloVerdict::Unknown => 1,
        SloVerdict::Fail => 2,
    }
}

fn sentence(view: &ResultsView<'_>, slo: &SloResult) -> String {
    let (arm, workload) = (view.name_of(&slo.arm), &slo.workload);
    match (slo.verdict, shown(slo)) {
        (SloVerdict::Unknown, _) | (_, None) => {
            format!(
                "{arm} had too few operations of {workload} to know {}",
                slo.limit
            )
        }
        (SloVerdict::Pass, Some(value)) => {
            format!("{arm} keeps {} under {workload} ({value})", slo.limit)
        }
        (SloVerdict::Fail, Some(value)) => {
            format!("{arm} breaks {} under {workload} ({value})", slo.limit)
        }
    }
}

/// `p99 3.20 ms`.
fn shown(slo: &SloResult) -> Option<String> {
    let limit: LoadLineSlo = slo.limit.parse().ok()?;
    let value = slo.value?;
    Some(format!("{} {}", limit.subject(), limit.show(value)))
}

fn name(verdict: SloVerdict) -> &'static str {
    match verdict {
        SloVerdict::Pass => "Pass",
        SloVerdict::Fail => "Fail",
        SloVerdict::Unknown => "Not known",
    }
}

fn tone(verdict: SloVerdict) -> ReportSeverity {
    match verdict {
        SloVerdict::Pass => ReportSeverity::Good,
        SloVerdict::Fail => ReportSeverity::Bad,
        SloVerdict::Unknown => ReportSeverity::Care,
    }
}

/// A row for each limit.
pub(super) fn section(view: &ResultsView<'_>) -> Option<ReportSection> {
    if view.slos.is_empty() {
        return None;
    }
    let columns = ["system", "workload", "limit", "worst trial", "verdict"];
    let mut table = ReportTable::new("Limits of the trials", &columns);
    for slo in &view.slos {
        table.rows.push(vec![
            ReportTableCell::new(view.name_of(&slo.arm)),
            ReportTableCell::new(&slo.workload),
            ReportTableCell::new(&slo.limit),
            ReportTableCell::new(shown(slo).unwrap_or_else(|| "too few operations".into())),
            ReportTableCell::new(name(slo.verdict)).tone(tone(slo.verdict)),
        ]);
    }
    Some(ReportSection {
        is_answer: true,
        items: vec![ReportItem::Table(table)],
        ..ReportSection::new("Limits", "").at("slo")
    })
}
