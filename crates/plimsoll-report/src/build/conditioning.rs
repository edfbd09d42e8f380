// SPDX-License-Identifier: Apache-2.0
//! In which state the systems were measured: what was done before the first block, and whether trials
//! stayed at one level.

use plimsoll_core::conditioning::{
    SteadyStateVerdict, SystemConditioning, SystemConditioningResult, SystemConditioningStep,
};
use plimsoll_core::units;

use super::view::ResultsView;
use crate::model::{
    ReportFinding, ReportItem, ReportSection, ReportSeverity, ReportTable, ReportTableCell,
};

/// Conditioning before the first block, and its outcome.
pub(super) fn section(view: &ResultsView<'_>) -> Option<ReportSection> {
    let manifest = &view.results.manifest;
    let asked = manifest.conditioning.as_ref()?;
    let mut section = ReportSection::new("Were the systems steady?", lead(asked)).at("steady");
    let mut table = ReportTable::new(
        "Before the first block",
        &["System", "Workload", "What came of it", "SNIA's rule"],
    );
    table.rows.extend(asked.done.iter().map(row));
    if !table.rows.is_empty() {
        section.items.push(ReportItem::Table(table));
    }
    Some(section)
}

fn lead(asked: &SystemConditioning) -> String {
    let written = asked.passes.map(|passes| {
        format!("The working set was written {passes} times over before the first block.")
    });
    let steady = asked.steady_within.map(|limit| {
        format!(
            "Each workload was played on each system until its level changed by at most 3 % from the third \
             quarter of that time to the last (proportional-window equivalence, 95 %), for {} at most.",
            units::clock_duration(limit)
        )
    });
    let parts: Vec<String> = written.into_iter().chain(steady).collect();
    parts.join(" ")
}

fn row(done: &SystemConditioningResult) -> Vec<ReportTableCell> {
    let steady = match &done.step {
        SystemConditioningStep::Written(_) => None,
        SystemConditioningStep::Steady(steady) | SystemConditioningStep::SteadyAgain(steady) => {
            Some(steady)
        }
    };
    let tone = match steady.map(|steady| steady.verdict) {
        Some(SteadyStateVerdict::Steady) | None => ReportSeverity::Good,
        Some(SteadyStateVerdict::Changing) => ReportSeverity::Bad,
        Some(SteadyStateVerdict::CannotTell) => ReportSeverity::Care,
    };
    let snia = match steady.and_then(|steady| steady.snia) {
        None => "–",
        Some(snia) if snia.is_steady => "steady",
        Some(_) => "not steady",
    };
    vec![
        ReportTableCell::new(done.arm.clone()),
        ReportTableCell::new(done.workload.clone()),
        ReportTableCell::new(done.step.sentence()).tone(tone),
        ReportTableCell::new(snia),
    ]
}

/// Findings that a reader needs before the figures: systems that were not steady, and trials in
/// which a throughput fell.
pub(super) fn headline(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let done = view.results.manifest.conditioning.iter();
    let done = done.flat_map(|asked| &asked.done);
    let unsteady = done.filter_map(|one| match &one.step {
        SystemConditioningStep::Steady(steady) | SystemConditioningStep::SteadyAgain(steady)
            if steady.verdict != SteadyStateVerdict::Steady =>
        {
            let detail = "Its results may be those of a state that does not last; see “Were the systems steady?”.";
            Some(ReportFinding::new("not steady", one.sentence()).detail(detail))
        }
        _ => None,
    });
    let cliffs = view.cliffs.iter().map(|cliff| {
        let detail =
            "Longer trials (--for, --bytes), --precondition or --steady measure what follows.";
        ReportFinding::new("not sustained", cliff.sentence()).detail(detail)
    });
    let all = unsteady.chain(cliffs);
    all.map(|one| one.tone(ReportSeverity::Care)).collect()
}

/// Facts for the section on the method: byte limit of a trial, and conditioning of each arm.
pub(super) fn facts(view: &ResultsView<'_>) -> Vec<(String, String)> {
    let manifest = &view.results.manifest;
    let mut facts = Vec::new();
    if let Some(bytes) = manifest.trial_bytes {
        let text = format!(
            "when its measured part has moved {}",
            units::size(bytes as f64)
        );
        facts.push(("A trial ends".to_owned(), text));
    }
    for one in manifest.conditioning.iter().flat_map(|asked| &asked.done) {
        facts.push((
            format!("Before the first block, {}", one.arm),
            one.sentence(),
        ));
    }
    facts
}
