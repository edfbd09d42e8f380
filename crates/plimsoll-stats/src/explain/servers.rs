// SPDX-License-Identifier: Apache-2.0
//! The servers of a system: processors, memory, and how evenly they worked.

use plimsoll_core::event::{ServerUse, TrialResult};
use plimsoll_core::explanation::{EvidenceFigure, EvidenceUnit, ExplanationCause};
use plimsoll_core::num::ratio;

use super::{ArmEvidence, CauseFinding, TrialSign, over_subjects, over_trials};

/// A thread that takes this share of a processor in some second has no more to give.
pub(super) const THREAD_FULL: f64 = 0.95;
/// A server that used less of a processor over the whole trial was full for a moment only.
const SERVER_CPUS: f64 = 0.6;
/// Servers are uneven when the busiest moved this many times the mean.
const UNEVEN: f64 = 1.25;
/// A server that stood still for this share of the time while others worked is named.
const STILL_SHARE: f64 = 0.05;
/// More servers that stood still are not named one by one: the files of a workload may lie on few of
/// the targets of a large file system.
const STILL_NAMED: usize = 4;
/// Memory that grew by this and by [`LEAK_SHARE`] of itself in a trial looks like a leak …
const LEAK_BYTES: i64 = 16 << 20;
const LEAK_SHARE: f64 = 0.1;
/// … if it grew to the end: a cache that fills does so at first. Share of the growth in the second half.
const LATE_GROWTH: f64 = 0.25;
/// Steps that are needed to see when it grew.
const STEPS_MIN: usize = 4;

/// Why nothing is known.
const NO_SERVERS: &str = "the servers were not watched";

fn names<'a>(evidence: &ArmEvidence<'a>) -> Vec<&'a str> {
    let used = evidence.results().flat_map(|trial| &trial.servers);
    let mut names: Vec<&str> = Vec::new();
    for server in used {
        if !names.contains(&&*server.server) {
            names.push(&server.server);
        }
    }
    names
}

/// The evidence of each server.
fn each(
    evidence: &ArmEvidence<'_>,
    cause: ExplanationCause,
    sign: impl Fn(&ServerUse) -> TrialSign,
) -> CauseFinding {
    let names = names(evidence);
    if names.is_empty() {
        return without_servers(evidence);
    }
    let of = |name: &&str| {
        over_trials(evidence, cause, name, NO_SERVERS, |trial, _| {
            let mut used = trial.servers.iter();
            let found = used.find(|used| used.server == *name);
            found.map_or(TrialSign::Missing, &sign)
        })
    };
    over_subjects(names.iter().map(of).collect(), NO_SERVERS)
}

/// A local disk, or a device that is no device, has no servers.
fn without_servers(evidence: &ArmEvidence<'_>) -> CauseFinding {
    let facts = evidence.arm.facts.as_ref();
    let has_own_disks = facts.is_none_or(|facts| !facts.disks.is_empty());
    let peers = evidence
        .results()
        .flat_map(|trial| &trial.machines)
        .any(|used| !used.peers.is_empty());
    match has_own_disks && !peers {
        true => CauseFinding::NotApplicable,
        false => CauseFinding::Unknown(NO_SERVERS),
    }
}

/// Whether its processes were seen: not of an object storage target, which its client reports.
fn has_processes(used: &ServerUse) -> bool {
    used.cpu_ns > 0 || used.resident_bytes > 0 || used.processes_lost > 0
}

/// A thread of a server with no more to give.
pub(super) fn processor(evidence: &ArmEvidence<'_>) -> CauseFinding {
    each(evidence, ExplanationCause::ServerProcessor, |used| {
        if !has_processes(used) {
            return TrialSign::Missing;
        }
        let cpus = ratio(used.cpu_ns as f64, used.length.0 as f64);
        if used.thread_share_max < THREAD_FULL || cpus < SERVER_CPUS {
            return TrialSign::Absent;
        }
        TrialSign::Shown(vec![
            EvidenceFigure::new(
                "busiest thread in a second, of one CPU",
                used.thread_share_max.min(1.0),
                EvidenceUnit::Share,
                THREAD_FULL,
            ),
            EvidenceFigure::new(
                "CPUs the server used",
                cpus,
                EvidenceUnit::Count,
                SERVER_CPUS,
            ),
        ])
    })
}

/// Servers that stood still while others worked; many of them as one.
pub(super) fn stalled(evidence: &ArmEvidence<'_>) -> CauseFinding {
    let count = names(evidence).len();
    if count == 1 {
        return CauseFinding::NotApplicable;
    }
    let found = each(evidence, ExplanationCause::ServerStalled, |used| {
        let share = ratio(used.still.0 as f64, used.length.0 as f64);
        if share <= STILL_SHARE {
            return TrialSign::Absent;
        }
        let name = "time without a transfer while others worked";
        TrialSign::Shown(vec![EvidenceFigure::new(
            name,
            share,
            EvidenceUnit::Share,
            STILL_SHARE,
        )])
    });
    match found {
        CauseFinding::Found(mut all) if all.len() > STILL_NAMED => {
            let many = all.len();
            all.truncate(1);
            all[0].about = format!("{many} of {count} servers");
            CauseFinding::Found(all)
        }
        found => found,
    }
}

/// Servers that were loaded unevenly.
pub(super) fn uneven(evidence: &ArmEvidence<'_>) -> CauseFinding {
    match names(evidence).len() {
        0 => return without_servers(evidence),
        1 => return CauseFinding::NotApplicable,
        _ => {}
    }
    let cause = ExplanationCause::ServersUneven;
    over_trials(evidence, cause, "", NO_SERVERS, |trial, _| {
        let Some((most, jain)) = shares(trial) else {
            return TrialSign::Missing;
        };
        if most <= UNEVEN {
            return TrialSign::Absent;
        }
        let busiest = "bytes of the busiest server, of the mean";
        TrialSign::Shown(vec![
            EvidenceFigure::new(busiest, most, EvidenceUnit::Times, UNEVEN),
            EvidenceFigure::plain("evenness (Jain's index)", jain, EvidenceUnit::Count),
        ])
    })
}

fn shares(trial: &TrialResult) -> Option<(f64, f64)> {
    let servers = trial.servers.iter();
    let moved: Vec<f64> = servers.map(|used| used.moved_bytes as f64).collect();
    let total: f64 = moved.iter().sum();
    let most = moved.iter().copied().fold(0.0, f64::max);
    let jain = plimsoll_core::load::evenness(&moved)?;
    Some((ratio(most * moved.len() as f64, total), jain))
}

/// Memory of a server that grew to the end of the trial.
pub(super) fn memory_growth(evidence: &ArmEvidence<'_>) -> CauseFinding {
    each(evidence, ExplanationCause::MemoryGrowth, |used| {
        if !has_processes(used) {
            return TrialSign::Missing;
        }
        let share = ratio(used.grown_bytes as f64, used.resident_bytes as f64);
        let late = late_growth(&used.resident_steps);
        let is_late = late.is_none_or(|late| late >= LATE_GROWTH);
        if used.grown_bytes < LEAK_BYTES || share < LEAK_SHARE || !is_late {
            return TrialSign::Absent;
        }
        let mut figures = vec![
            EvidenceFigure::new(
                "growth of its memory in a trial",
                used.grown_bytes as f64,
                EvidenceUnit::Bytes,
                LEAK_BYTES as f64,
            ),
            EvidenceFigure::new(
                "growth, of its memory",
                share,
                EvidenceUnit::Share,
                LEAK_SHARE,
            ),
        ];
        figures.extend(late.map(|late| {
            let name = "growth in the second half of the trial";
            EvidenceFigure::new(name, late, EvidenceUnit::Share, LATE_GROWTH)
        }));
        TrialSign::Shown(figures)
    })
}

/// The share of the growth that came in the second half; `None` where that cannot be told.
fn late_growth(steps: &[u64]) -> Option<f64> {
    if steps.len() < STEPS_MIN {
        return None;
    }
    let (first, last) = (*steps.first()?, *steps.last()?);
    let middle = steps[steps.len() / 2];
    let all = last.checked_sub(first).filter(|grown| *grown > 0)?;
    Some(ratio(last.saturating_sub(middle) as f64, all as f64))
}
