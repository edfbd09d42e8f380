// SPDX-License-Identifier: Apache-2.0
//! The threads of the load: whether one got much less than those beside it.

use plimsoll_core::event::{TrialResult, WorkerResult};
use plimsoll_core::explanation::{EvidenceFigure, EvidenceUnit, ExplanationCause};
use plimsoll_core::num::{ratio, to_usize};
use plimsoll_core::workload::Workload;

use super::{ArmEvidence, CauseFinding, TrialSign, over_trials};
use crate::events::median;

/// A thread with less than this of what the middle one of its group did was starved.
const STARVED: f64 = 0.5;
/// Operations of the middle thread below which chance alone would make some slow.
const OPS_MIN: f64 = 100.0;

/// A thread that was starved beside others that do the same.
pub(super) fn starved(evidence: &ArmEvidence<'_>) -> CauseFinding {
    let groups = group_sizes(&evidence.entry.workload);
    // Older runs have no account of threads.
    let has_accounts = evidence.results().any(|trial| !trial.workers.is_empty());
    if !has_accounts || groups.iter().all(|threads| *threads < 2) {
        return CauseFinding::NotApplicable;
    }
    let cause = ExplanationCause::ThreadStarved;
    let missing = "the threads of the load completed too little";
    over_trials(evidence, cause, "", missing, |trial, _| {
        let slowest = slowest_share(trial, &groups);
        match slowest {
            None => TrialSign::Missing,
            Some(share) if share >= STARVED => TrialSign::Absent,
            Some(share) => {
                let name = "operations of the slowest thread, of the middle one";
                let figure = EvidenceFigure::up_to(name, share, EvidenceUnit::Share, STARVED);
                TrialSign::Shown(vec![figure])
            }
        }
    })
}

/// Threads of each group of workers: those of one group do the same.
fn group_sizes(workload: &Workload) -> Vec<usize> {
    match workload {
        Workload::Blocks(blocks) => {
            let groups = blocks.groups.iter();
            groups.map(|group| to_usize(group.workers.into())).collect()
        }
        Workload::Files(files) => {
            let groups = files.groups.iter();
            groups.map(|group| to_usize(group.threads.into())).collect()
        }
        Workload::Model(_) | Workload::Series(_) | Workload::Commands(_) => Vec::new(),
    }
}

/// The least share of its group's middle that a thread had; nodes play all groups one after another.
fn slowest_share(trial: &TrialResult, groups: &[usize]) -> Option<f64> {
    let of_node: usize = groups.iter().sum();
    if of_node == 0 || trial.workers.is_empty() || !trial.workers.len().is_multiple_of(of_node) {
        return None;
    }
    let mut slowest: Option<f64> = None;
    for node in trial.workers.chunks(of_node) {
        let mut rest = node;
        for threads in groups {
            let (group, others) = rest.split_at(*threads);
            rest = others;
            if let Some(share) = share_in(group) {
                slowest = Some(slowest.map_or(share, |known| known.min(share)));
            }
        }
    }
    slowest
}

fn share_in(group: &[WorkerResult]) -> Option<f64> {
    let middle = median(group.iter().map(|worker| worker.ops as f64))?;
    let least = group.iter().map(|worker| worker.ops).min()?;
    (group.len() > 1 && middle >= OPS_MIN).then(|| ratio(least as f64, middle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::event::TrialId;

    fn trial(ops: &[u64]) -> TrialResult {
        let worker = |ops: &u64| WorkerResult {
            ops: *ops,
            ..WorkerResult::default()
        };
        TrialResult {
            workers: ops.iter().map(worker).collect(),
            ..TrialResult::of(TrialId {
                block: 0,
                place: 0,
                arm: "a".into(),
                workload: "w".into(),
            })
        }
    }

    #[test]
    fn a_thread_is_compared_with_those_that_do_the_same() {
        for (ops, groups, expect) in [
            (&[1_000, 990, 400, 1_010][..], &[4][..], Some(0.402)),
            // Of two groups one is slower by design.
            (&[1_000, 1_000, 100, 100], &[2, 2], Some(1.0)),
            // Two nodes.
            (&[1_000, 1_000, 1_000, 200], &[2], Some(1.0 / 3.0)),
            (&[12, 2, 9, 11], &[4], None),
            (&[1_000, 1_000, 1_000], &[2], None),
            (&[], &[2], None),
        ] {
            let found = slowest_share(&trial(ops), groups);
            let is_same = match (found, expect) {
                (Some(found), Some(expect)) => f64::abs(found - expect) < 0.001,
                (found, expect) => found.is_none() && expect.is_none(),
            };
            assert!(is_same, "{ops:?} {groups:?}: {found:?}");
        }
    }
}
