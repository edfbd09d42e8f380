// SPDX-License-Identifier: Apache-2.0
//! Doubts about the place of a measurement: whether it was storage at all, and who else was there.

use super::view::ResultsView;
use crate::model::{ReportFinding, ReportSeverity};

/// The mark of a doubt about what was measured.
const TARGET: &str = "check the target";

/// Systems that are memory. Nothing else that is said of them is of storage, so that these lead.
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
    let trials = view.results.trials.iter();
    let others = trials.filter_map(|trial| trial.others.clone());
    let all = others.reduce(|all, of_one| all.and(&of_one))?;
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
