// SPDX-License-Identifier: Apache-2.0
//! Disks: one that is slower than its neighbours, and arrays at work on themselves.

use plimsoll_core::event::TrialResult;
use plimsoll_core::evidence::{DiskUse, MachineUse};
use plimsoll_core::explanation::{EvidenceFigure, EvidenceUnit, ExplanationCause};
use plimsoll_core::num::ratio;

use super::{
    ArmEvidence, CauseFinding, NO_MACHINES, TrialSign, machines, over_subjects, over_trials,
};
use crate::events::median;

/// A disk is slow if its requests take this many times as long as those of the others …
const SLOWER: f64 = 2.0;
/// … and this much longer: below it, queues of a busy machine scatter as much.
const SLOWER_NS: f64 = 200_000.0;
/// Disks that had less than this share of the mean number of requests are not compared.
const USED_SHARE: f64 = 0.1;
/// A disk that was busy for less than this share of the time did not delay the load.
const BUSY_SHARE: f64 = 0.3;

/// The work of the disks below an arm, and of its device where that is another.
pub(super) fn disks_of<'a>(
    evidence: &'a ArmEvidence<'_>,
    trial: &'a TrialResult,
    used: &'a MachineUse,
) -> impl Iterator<Item = &'a DiskUse> {
    let facts = evidence.arm.facts.as_ref();
    let disks = facts.map_or(&[][..], |facts| &facts.disks[..]);
    let device = trial.device.as_ref().map(|device| device.device.as_str());
    let is_of_arm =
        move |used: &&DiskUse| disks.contains(&used.disk) || device == Some(used.disk.as_str());
    used.disks.iter().filter(is_of_arm)
}

/// One of several disks below an arm that is slower than the others.
pub(super) fn slow_disk(evidence: &ArmEvidence<'_>) -> CauseFinding {
    let Some(facts) = &evidence.arm.facts else {
        return CauseFinding::NotApplicable;
    };
    let disks = &facts.disks;
    match disks.len() {
        0 => return CauseFinding::Unknown("the disks are not this machine's"),
        1 => return CauseFinding::NotApplicable,
        _ => {}
    }
    let cause = ExplanationCause::SlowDisk;
    let of = |disk: &String| {
        over_trials(evidence, cause, disk, NO_MACHINES, |trial, _| {
            sign(trial, disks, disk)
        })
    };
    over_subjects(disks.iter().map(of).collect(), NO_MACHINES)
}

fn sign(trial: &TrialResult, disks: &[String], which: &str) -> TrialSign {
    let Some(used) = machines(trial).next() else {
        return TrialSign::Missing;
    };
    let of_arm = |disk: &&DiskUse| disks.contains(&disk.disk);
    let all: Vec<&DiskUse> = used.disks.iter().filter(of_arm).collect();
    let total: u64 = all.iter().map(|disk| disk.requests).sum();
    let mean = ratio(total as f64, all.len() as f64);
    let (these, others): (Vec<&DiskUse>, Vec<&DiskUse>) = all
        .into_iter()
        .filter(|disk| disk.requests as f64 >= USED_SHARE * mean)
        .partition(|disk| disk.disk == which);
    let (Some(this), Some(usual)) = (
        these.first(),
        median(others.iter().map(|disk| disk.mean_ns())),
    ) else {
        return TrialSign::Absent;
    };
    let busy = ratio(this.busy.0 as f64, used.length.0 as f64).min(1.0);
    let slow = this.mean_ns();
    if slow < SLOWER * usual || slow - usual < SLOWER_NS || busy < BUSY_SHARE {
        return TrialSign::Absent;
    }
    TrialSign::Shown(vec![
        EvidenceFigure::new(
            "mean time of a request, of that of the other disks",
            ratio(slow, usual),
            EvidenceUnit::Times,
            SLOWER,
        ),
        EvidenceFigure::plain("mean time of a request", slow, EvidenceUnit::Nanoseconds),
        EvidenceFigure::plain("on the other disks", usual, EvidenceUnit::Nanoseconds),
        EvidenceFigure::new("disk busy", busy, EvidenceUnit::Share, BUSY_SHARE),
    ])
}

/// An array that copied or checked its members meanwhile.
pub(super) fn array_sync(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if evidence.arm.facts.is_none() {
        return CauseFinding::NotApplicable;
    }
    let cause = ExplanationCause::ArraySync;
    let mut names: Vec<&String> = evidence
        .results()
        .flat_map(machines)
        .flat_map(|used| &used.array_syncs)
        .collect();
    names.sort();
    names.dedup();
    let sign = |trial: &TrialResult, name: Option<&String>| {
        let mut used = machines(trial).peekable();
        if used.peek().is_none() {
            return TrialSign::Missing;
        }
        let is_at_work = used.any(|used| name.is_some_and(|n| used.array_syncs.contains(n)));
        match is_at_work {
            true => TrialSign::Shown(vec![EvidenceFigure::plain(
                "arrays that copied or checked their members",
                1.0,
                EvidenceUnit::Count,
            )]),
            false => TrialSign::Absent,
        }
    };
    if names.is_empty() {
        return over_trials(evidence, cause, "", NO_MACHINES, |trial, _| {
            sign(trial, None)
        });
    }
    let of = |name: &&String| {
        over_trials(evidence, cause, name, NO_MACHINES, |trial, _| {
            sign(trial, Some(name))
        })
    };
    over_subjects(names.iter().map(of).collect(), NO_MACHINES)
}
