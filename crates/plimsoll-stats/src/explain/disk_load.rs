// SPDX-License-Identifier: Apache-2.0
//! The work of the disks below an arm: other work than ours, a queue that is full, discards and pauses.

use plimsoll_core::event::{DeviceUse, TrialResult};
use plimsoll_core::evidence::{DiskAtDepth, DiskUse, MachineUse};
use plimsoll_core::explanation::{EvidenceFigure, EvidenceUnit, ExplanationCause};
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;

use super::storage::disks_of;
use super::{ArmEvidence, CauseFinding, TrialSign, machines, over_trials};

/// Bytes or time of others, of all that the disk moved or took, from which on they are named …
const OTHERS_SHARE: f64 = 0.25;
/// … where the disk was busy for this share of the time.
const BUSY_SHARE: f64 = 0.5;
/// A file system writes this many times what it is asked to, with a journal of data and copies.
const OWN_WRITES: f64 = 3.0;
/// A file system that is asked to read also reads for itself.
const OWN_READS: f64 = 1.2;
/// A queue is full with this share of what it takes: some is on its way in or out at any moment …
const QUEUE_FULL: f64 = 0.8;
/// … and too small when the workload wants this many times as much.
const QUEUE_WANTED: f64 = 1.2;
/// Time of discards, of the trial, that is named.
const DISCARDS_IN_FLIGHT: f64 = 0.1;
/// Time of pauses, of the trial, that is named …
const PAUSE_SHARE: f64 = 0.02;
/// … if the disk otherwise ends this many requests in the longest pause: chance alone makes no such gap.
const PAUSE_REQUESTS: f64 = 20.0;

/// Why nothing is known.
const NO_DISKS: &str = "what the disks did was not recorded";

/// The work of the disks of an arm in each trial.
fn over_disks(
    evidence: &ArmEvidence<'_>,
    cause: ExplanationCause,
    sign: impl Fn(&TrialResult, &MachineUse, &[&DiskUse]) -> TrialSign,
) -> CauseFinding {
    if evidence.arm.facts.is_none() {
        return CauseFinding::NotApplicable;
    }
    over_trials(evidence, cause, "", NO_DISKS, |trial, _| {
        let Some(used) = machines(trial).next() else {
            return TrialSign::Missing;
        };
        let disks: Vec<&DiskUse> = disks_of(evidence, trial, used).collect();
        match disks.is_empty() {
            true => TrialSign::Missing,
            false => sign(trial, used, &disks),
        }
    })
}

/// Whether what the workload moves is in the account of the device: requests for blocks, and nothing that
/// makes a file system write for itself.
fn is_accounted(trial: &TrialResult) -> bool {
    const KINDS: [OpKind; 4] = [
        OpKind::Read,
        OpKind::Write,
        OpKind::Fsync,
        OpKind::Fdatasync,
    ];
    trial.stats.0.keys().all(|kind| KINDS.contains(kind))
}

/// Reads, writes and flushes that the workload did not ask for.
pub(super) fn other_io(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if evidence.arm.facts.is_none() {
        return CauseFinding::NotApplicable;
    }
    let cause = ExplanationCause::OtherIo;
    let missing = "the device does not tell requests of others from those of this workload";
    over_trials(evidence, cause, "", missing, |trial, _| {
        let Some(device) = trial.device.as_ref().filter(|_| is_accounted(trial)) else {
            return TrialSign::Missing;
        };
        let bytes = others_bytes(device, evidence.entry.workload.is_direct());
        let moved = device.served.read_bytes + device.served.written_bytes;
        let of_bytes = ratio(bytes, moved as f64);
        let of_time = others_time(evidence, trial, device).unwrap_or(0.0);
        let busy = device.busy.unwrap_or_default().0 as f64;
        let busy = ratio(busy, device.length.0 as f64).min(1.0);
        if of_bytes.max(of_time) < OTHERS_SHARE || busy < BUSY_SHARE {
            return TrialSign::Absent;
        }
        TrialSign::Shown(vec![
            EvidenceFigure::new(
                "bytes that the workload did not request, of those the device moved",
                of_bytes,
                EvidenceUnit::Share,
                OTHERS_SHARE,
            ),
            EvidenceFigure::new(
                "time of requests that are not the workload's, of that of all",
                of_time,
                EvidenceUnit::Share,
                OTHERS_SHARE,
            ),
            EvidenceFigure::new("device busy", busy, EvidenceUnit::Share, BUSY_SHARE),
        ])
    })
}

/// Bytes that the device moved beyond what the workload can have caused.
fn others_bytes(device: &DeviceUse, is_direct: bool) -> f64 {
    let (asked, served) = (device.asked, device.served);
    // Read-ahead reads more than was asked for.
    let own_reads = match is_direct || asked.reads == 0 {
        true => asked.read_bytes as f64 * OWN_READS,
        false => f64::INFINITY,
    };
    let reads = served.read_bytes as f64 - own_reads;
    let writes = served.written_bytes as f64 - asked.written_bytes as f64 * OWN_WRITES;
    reads.max(0.0) + writes.max(0.0)
}

/// Share of the time of requests of the kinds for which the workload did not ask.
fn others_time(evidence: &ArmEvidence<'_>, trial: &TrialResult, device: &DeviceUse) -> Option<f64> {
    let used = machines(trial).next()?;
    let mut disks = disks_of(evidence, trial, used);
    let disk = disks.find(|disk| disk.disk == device.device)?;
    let (writes, flushes) = (disk.writes?, disk.flushes.unwrap_or_default());
    let all = disk.request_time + flushes.time;
    let others = match (device.asked.reads, device.asked.writes) {
        (0, _) => disk.request_time.since(writes.time),
        (_, 0) => writes.time + flushes.time,
        _ => return None,
    };
    Some(ratio(others.0 as f64, all.0 as f64))
}

/// Mean number of requests in flight in the seconds that have any.
fn depth(disk: &DiskUse) -> Option<f64> {
    let sum = |of: fn(&DiskAtDepth) -> u64| disk.by_depth.iter().map(of).sum::<u64>();
    let moments = sum(|class| class.in_flight[1]);
    (moments > 0).then(|| ratio(sum(|class| class.in_flight[0]) as f64, moments as f64))
}

/// A disk that takes fewer requests at once than are wanted.
pub(super) fn queue(evidence: &ArmEvidence<'_>) -> CauseFinding {
    over_disks(
        evidence,
        ExplanationCause::DeviceQueue,
        |trial, _, disks| {
            let known = disks.iter().filter_map(|disk| {
                let slots = f64::from(disk.queue_slots.filter(|slots| *slots > 0)?);
                Some((ratio(depth(disk)?, slots), slots))
            });
            let Some((full, slots)) = known.max_by(|a, b| a.0.total_cmp(&b.0)) else {
                return TrialSign::Missing;
            };
            // Little's law, with what waited to be submitted.
            let waiting = trial.stats.response().sum_ns() as f64;
            let wanted = ratio(ratio(waiting, trial.length.0 as f64), slots);
            if full < QUEUE_FULL || wanted < QUEUE_WANTED {
                return TrialSign::Absent;
            }
            TrialSign::Shown(vec![
                EvidenceFigure::new(
                    "requests in flight on the disk, of those it takes",
                    full,
                    EvidenceUnit::Share,
                    QUEUE_FULL,
                ),
                EvidenceFigure::new(
                    "requests of the workload at once, of those the disk takes",
                    wanted,
                    EvidenceUnit::Times,
                    QUEUE_WANTED,
                ),
                EvidenceFigure::plain("requests that the disk takes", slots, EvidenceUnit::Count),
            ])
        },
    )
}

/// Discards that took the time of a disk.
pub(super) fn discards(evidence: &ArmEvidence<'_>) -> CauseFinding {
    over_disks(evidence, ExplanationCause::Discards, |_, used, disks| {
        let known = || disks.iter().filter_map(|disk| disk.discards);
        if known().next().is_none() {
            return TrialSign::Missing;
        }
        let time: f64 = known().map(|discards| discards.time.0 as f64).sum();
        let count: u64 = known().map(|discards| discards.count).sum();
        // Little's law: the time of all over that of the trial.
        let in_flight = ratio(time, used.length.0 as f64);
        if in_flight < DISCARDS_IN_FLIGHT {
            return TrialSign::Absent;
        }
        let each = ratio(time, count as f64);
        TrialSign::Shown(vec![
            EvidenceFigure::new(
                "discards in flight, on average",
                in_flight,
                EvidenceUnit::Count,
                DISCARDS_IN_FLIGHT,
            ),
            EvidenceFigure::plain("mean time of a discard", each, EvidenceUnit::Nanoseconds),
        ])
    })
}

/// A disk that ended nothing for a while although requests waited.
pub(super) fn pauses(evidence: &ArmEvidence<'_>) -> CauseFinding {
    over_disks(evidence, ExplanationCause::Pauses, |_, used, disks| {
        let known = disks.iter().filter_map(|disk| Some((disk, disk.pauses?)));
        let Some((disk, pauses)) = known.max_by_key(|(_, pauses)| pauses.time) else {
            return TrialSign::Missing;
        };
        let share = ratio(pauses.time.0 as f64, used.length.0 as f64);
        let usual = ratio(disk.requests as f64, used.length.0 as f64);
        let missed = usual * pauses.longest.0 as f64;
        if share < PAUSE_SHARE || missed < PAUSE_REQUESTS {
            return TrialSign::Absent;
        }
        TrialSign::Shown(vec![
            EvidenceFigure::new(
                "time in which the disk ended nothing although requests waited",
                share,
                EvidenceUnit::Share,
                PAUSE_SHARE,
            ),
            EvidenceFigure::plain(
                "longest such time",
                pauses.longest.0 as f64,
                EvidenceUnit::Nanoseconds,
            ),
            EvidenceFigure::new(
                "requests that end in as long a time otherwise",
                missed,
                EvidenceUnit::Count,
                PAUSE_REQUESTS,
            ),
            EvidenceFigure::plain(
                "number of such times",
                f64::from(pauses.count),
                EvidenceUnit::Count,
            ),
        ])
    })
}
