// SPDX-License-Identifier: Apache-2.0
//! Faults that were injected while workloads ran: what became of the data, and every fault as the sessions
//! of its system felt it. How systems compare in this is among the verdicts.

use plimsoll_core::event::WorkloadEntry;
use plimsoll_core::failover::FailoverResult;

use super::view::ResultsView;
use crate::failover::{data, every_fault, method, sessions};
use crate::model::{ReportFinding, ReportSection};

/// The faults of each system, under each workload.
fn results(view: &ResultsView<'_>) -> Vec<FailoverResult> {
    let mut all = Vec::new();
    for entry in view.entries() {
        for arm in view.arms.iter().filter(|arm| arm.arm.control_of.is_none()) {
            all.extend(result(view, entry, &arm.arm.name));
        }
    }
    all
}

/// The faults of one, the entry of the A/A control with them: it is the same system.
fn result(view: &ResultsView<'_>, entry: &WorkloadEntry, arm: &str) -> Option<FailoverResult> {
    let injection = entry.inject.as_ref()?;
    let manifest = &view.results.manifest;
    let is_system = |name: &str| {
        let entered = manifest.arms.iter().find(|entered| entered.name == name);
        name == arm || entered.is_some_and(|one| one.control_of.as_deref() == Some(arm))
    };
    let trials = view.results.trials.iter();
    let own = trials.filter(|t| t.trial.workload == entry.label && is_system(&t.trial.arm));
    let strikes: Vec<_> = own.filter_map(|trial| trial.fault.clone()).collect();
    let description = manifest.arms.iter().find(|entered| entered.name == arm);
    (!strikes.is_empty()).then(|| FailoverResult {
        name: arm.into(),
        description: description.map_or_else(String::new, |arm| arm.description.clone()),
        sessions: injection.sessions,
        rate: injection.rate,
        most: None,
        block_bytes: injection.block_bytes,
        seed: manifest.seed.0,
        strikes,
    })
}

pub(super) fn headline(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let mut all = Vec::new();
    for done in results(view) {
        let strikes: Vec<_> = done.strikes.iter().collect();
        let kind = done.strikes[0].fault;
        for finding in [sessions(kind, &strikes), data(&done)] {
            all.push(ReportFinding {
                text: format!("{}: {}", done.name, finding.text),
                ..finding
            });
        }
    }
    all
}

pub(super) fn sections(view: &ResultsView<'_>) -> Vec<ReportSection> {
    let all = results(view);
    let mut sections: Vec<ReportSection> = all
        .iter()
        .map(|done| {
            let section = every_fault(done);
            ReportSection {
                title: format!("{}: every {}", done.name, done.strikes[0].fault),
                is_answer: false,
                ..section
            }
        })
        .collect();
    if !sections.is_empty() {
        let mut method = method();
        method.title = "How faults were measured".into();
        sections.push(method);
    }
    sections
}
