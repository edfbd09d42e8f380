// SPDX-License-Identifier: Apache-2.0
//! Limits of the control groups that hold the client: whether its rate was at one.

use plimsoll_core::event::TrialResult;
use plimsoll_core::evidence::{DiskLimit, DiskLimitKind, DiskUse, MachineUse};
use plimsoll_core::explanation::{EvidenceFigure, EvidenceUnit, ExplanationCause};
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;

use super::storage::disks_of;
use super::{ArmEvidence, CauseFinding, TrialSign, machines, over_trials};

/// A rate that is this share of its limit is at it: the kernel lets the first requests of each tenth of a
/// second through at once, and the edges of a trial take some.
const AT_LIMIT: f64 = 0.9;
/// Bytes read again of those that were asked for: less changes a mean by less than the noise of a disk.
const READ_AGAIN_SHARE: f64 = 0.2;

/// Why nothing is known of the groups.
const NO_GROUPS: &str = "the control groups of the client were not read";

/// A limit for the disks of the arm.
pub(super) fn io(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if evidence.arm.facts.is_none() {
        return CauseFinding::NotApplicable;
    }
    let cause = ExplanationCause::IoLimit;
    over_trials(evidence, cause, "", NO_GROUPS, |trial, _| {
        let mut used = machines(trial).filter(|used| used.io_limits.is_some());
        let Some(used) = used.next() else {
            return TrialSign::Missing;
        };
        let limits = used.io_limits.iter().flatten();
        let of_disk = |limit: &DiskLimit| {
            let mut disks = disks_of(evidence, trial, used);
            let disk = disks.find(|disk| disk.disk == limit.disk)?;
            let share = ratio(rate(limit.what, disk, used), limit.per_s as f64);
            (share >= AT_LIMIT).then(|| at_limit(limit, share))
        };
        match limits.filter_map(of_disk).next() {
            Some(figures) => TrialSign::Shown(figures),
            None => TrialSign::Absent,
        }
    })
}

fn rate(what: DiskLimitKind, disk: &DiskUse, used: &MachineUse) -> f64 {
    let writes = disk.writes.unwrap_or_default().count;
    let count = match what {
        DiskLimitKind::Reads => disk.requests.saturating_sub(writes),
        DiskLimitKind::Writes => writes,
        DiskLimitKind::ReadBytes => disk.read_bytes,
        DiskLimitKind::WrittenBytes => disk.written_bytes,
    };
    ratio(count as f64, used.length.as_secs_f64())
}

fn at_limit(limit: &DiskLimit, share: f64) -> Vec<EvidenceFigure> {
    let (name, unit) = match limit.what {
        DiskLimitKind::Reads => ("limit of reads", EvidenceUnit::OpsPerSecond),
        DiskLimitKind::Writes => ("limit of writes", EvidenceUnit::OpsPerSecond),
        DiskLimitKind::ReadBytes => ("limit of bytes read", EvidenceUnit::BytesPerSecond),
        DiskLimitKind::WrittenBytes => ("limit of bytes written", EvidenceUnit::BytesPerSecond),
    };
    let reached = "rate, of the limit of the cgroup";
    vec![
        EvidenceFigure::new(reached, share, EvidenceUnit::Share, AT_LIMIT),
        EvidenceFigure::plain(name, limit.per_s as f64, unit),
    ]
}

/// A limit of memory that made it read files again.
pub(super) fn memory(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if evidence.arm.facts.is_none() {
        return CauseFinding::NotApplicable;
    }
    let cause = ExplanationCause::MemoryLimit;
    over_trials(evidence, cause, "", NO_GROUPS, |trial, _| {
        let mut used = machines(trial).filter(|used| used.io_limits.is_some());
        let Some(used) = used.next() else {
            return TrialSign::Missing;
        };
        let (Some(limit), read) = (used.memory_limit, read_bytes(trial)) else {
            return TrialSign::Absent;
        };
        let share = ratio(limit.read_again_bytes as f64, read);
        if share < READ_AGAIN_SHARE || limit.hits == 0 {
            return TrialSign::Absent;
        }
        let again = "bytes read again that had been dropped from memory, of those requested";
        TrialSign::Shown(vec![
            EvidenceFigure::new(again, share, EvidenceUnit::Share, READ_AGAIN_SHARE),
            EvidenceFigure::plain(
                "memory limit of the cgroup",
                limit.limit_bytes as f64,
                EvidenceUnit::Bytes,
            ),
            EvidenceFigure::plain(
                "times it was reached",
                limit.hits as f64,
                EvidenceUnit::Count,
            ),
        ])
    })
}

fn read_bytes(trial: &TrialResult) -> f64 {
    let kinds = [OpKind::Read, OpKind::ReadWhole];
    let read = kinds.iter().filter_map(|kind| trial.stats.0.get(kind));
    read.map(|stats| stats.bytes as f64).sum()
}
