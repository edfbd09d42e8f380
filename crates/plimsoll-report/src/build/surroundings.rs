// SPDX-License-Identifier: Apache-2.0
//! Doubts about the place of a measurement: whether it was storage at all, and who else was there.

use plimsoll_core::comparison::ComparisonVerdict;
use plimsoll_core::explanation::{CauseExplanation, ExplanationCause};
use plimsoll_core::others::NeighbourUse;

use super::view::ResultsView;
use crate::model::{ReportFinding, ReportSeverity};
use crate::words;

/// The mark of a doubt about what was measured.
const TARGET: &str = "check the target";

/// Systems that are memory. No comparison with them is about storage, so this doubt precedes the comparisons.
pub(super) fn memory(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let systems = view.arms.iter().map(|arm| arm.arm);
    let systems = systems.filter(|arm| arm.control_of.is_none());
    let in_memory = systems.filter_map(|arm| Some((arm, arm.facts.as_ref()?.memory()?)));
    let sentence = |(arm, why): (&plimsoll_core::event::ArmEntry, &str)| ReportFinding {
        mark: TARGET.into(),
        tone: ReportSeverity::Bad,
        text: format!(
            "{} is memory ({why}): this measures memory, not storage",
            arm.name
        ),
        detail: "Give a directory on a disk.".into(),
    };
    in_memory.map(sentence).collect()
}

/// A machine that others used during the trials.
pub(super) fn noise(view: &ResultsView<'_>) -> Option<ReportFinding> {
    let all = others(view)?;
    Some(ReportFinding {
        mark: "noisy machine".into(),
        tone: ReportSeverity::Bad,
        text: format!("{} during the trials", all.disturbance()?),
        detail: format!(
            "All trials together: {}. The results are those of a loaded machine.",
            all.line()
        ),
    })
}

fn others(view: &ResultsView<'_>) -> Option<NeighbourUse> {
    let trials = view.results.trials.iter();
    NeighbourUse::of_all(trials.filter_map(|trial| trial.others.as_ref()))
}

/// Noise that may have decided instead of systems that were not told apart or did not carry a load.
pub(super) fn decided(view: &ResultsView<'_>) -> Option<String> {
    let others = others(view).and_then(|all| all.decides());
    others.or_else(|| late(view))
}

/// A load generator that was late itself.
pub(super) fn late(view: &ResultsView<'_>) -> Option<String> {
    let mut told = view.explanations.iter();
    let is_late = |one: &CauseExplanation| one.cause == ExplanationCause::GeneratorLate;
    let late = told.find(|told| told.found.iter().any(is_late))?;
    Some(format!(
        "the load generator was late on {}",
        view.name_of(&late.arm)
    ))
}

/// The same of the comparisons of one workload.
pub(super) fn decided_on(view: &ResultsView<'_>, workload: &str) -> Option<String> {
    let drift = || {
        let mut rows = view.comparisons.iter().filter(|row| row.is_control);
        let row = rows
            .find(|row| row.workload == workload && row.verdict == ComparisonVerdict::Different)?;
        let times = words::lead(row).map(|(_, _, times)| words::estimate(&times))?;
        Some(format!(
            "{} measured twice differed from itself {times} times",
            row.base
        ))
    };
    decided(view).or_else(drift)
}
