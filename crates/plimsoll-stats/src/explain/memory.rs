// SPDX-License-Identifier: Apache-2.0
//! Whether memory answered for the storage: bytes that were asked for against bytes that devices
//! moved, and where devices are not seen, the size of the data set against memory.

use plimsoll_core::event::TrialResult;
use plimsoll_core::explanation::{EvidenceFigure, EvidenceUnit, ExplanationCause};
use plimsoll_core::num::ratio;

use super::{ArmEvidence, CauseFinding, TrialSign, machines, over_trials};

/// A cache that answered less than this share changes a mean by less than the noise of a disk; a file
/// system's own reads and writes, and the edges of seconds, stay below it as well.
const CACHED_SHARE: f64 = 0.2;
/// Less says nothing: a file system reads as much for itself.
const BYTES_MIN: u64 = 1 << 20;

/// Whether devices moved less than was asked.
pub(super) fn page_cache(evidence: &ArmEvidence<'_>) -> CauseFinding {
    let Some(facts) = &evidence.arm.facts else {
        return CauseFinding::NotApplicable;
    };
    if facts.memory().is_some() {
        return CauseFinding::NotApplicable;
    }
    let missing = "this machine does not count what the devices moved";
    let cause = ExplanationCause::PageCache;
    over_trials(evidence, cause, "", missing, |trial, _| {
        let [reads, writes] = absorbed(trial);
        let below = (facts.disks.len() > 1 || !is_the_device(trial, &facts.disks))
            .then(|| absorbed_below(trial, &facts.disks))
            .flatten();
        let shares = [
            ("bytes read that no device moved", reads),
            ("bytes written that no device moved", writes),
            ("bytes read that no disk below moved", below),
        ];
        if shares.iter().all(|(_, share)| share.is_none()) {
            return TrialSign::Missing;
        }
        let figures: Vec<EvidenceFigure> = shares
            .iter()
            .filter_map(|(name, share)| {
                let share = (*share).filter(|share| *share >= CACHED_SHARE)?;
                Some(EvidenceFigure::new(
                    name,
                    share,
                    EvidenceUnit::Share,
                    CACHED_SHARE,
                ))
            })
            .collect();
        match figures.is_empty() {
            true => TrialSign::Absent,
            false => TrialSign::Shown(figures),
        }
    })
}

/// Share of what was read and written that the device below the arm did not move.
fn absorbed(trial: &TrialResult) -> [Option<f64>; 2] {
    let Some(device) = &trial.device else {
        return [None; 2];
    };
    let ways = [
        (device.asked.read_bytes, device.served.read_bytes),
        (device.asked.written_bytes, device.served.written_bytes),
    ];
    ways.map(|(asked, served)| {
        (asked >= BYTES_MIN).then(|| (1.0 - ratio(served as f64, asked as f64)).max(0.0))
    })
}

fn is_the_device(trial: &TrialResult, disks: &[String]) -> bool {
    let device = trial.device.as_ref().map(|used| used.device.as_str());
    // A partition is counted with its disk.
    disks
        .iter()
        .any(|disk| device.is_some_and(|device| device.starts_with(disk.as_str())))
}

/// Share of what was read that the disks at the bottom did not move, by rates: their counters are of
/// the whole trial, and those of the workload of its counted part.
fn absorbed_below(trial: &TrialResult, disks: &[String]) -> Option<f64> {
    let device = trial.device.as_ref()?;
    let used = machines(trial).next()?;
    if disks.is_empty() || device.asked.read_bytes < BYTES_MIN {
        return None;
    }
    let below = used.disks.iter().filter(|disk| disks.contains(&disk.disk));
    let moved: u64 = below.map(|disk| disk.read_bytes).sum();
    let moved = ratio(moved as f64, used.length.as_secs_f64());
    let asked = ratio(device.asked.read_bytes as f64, device.length.as_secs_f64());
    Some((1.0 - ratio(moved, asked)).max(0.0))
}

/// Whether the data set would fit into memory, where no device says what it moved.
pub(super) fn data_set(evidence: &ArmEvidence<'_>) -> CauseFinding {
    let Some(facts) = &evidence.arm.facts else {
        return CauseFinding::NotApplicable;
    };
    if facts.memory().is_some() {
        return CauseFinding::NotApplicable;
    }
    if evidence.ran_elsewhere() {
        return CauseFinding::Unknown("the program reports neither its data set nor its cache use");
    }
    let is_seen = |trial: &TrialResult| absorbed(trial).iter().any(Option::is_some);
    let is_direct = evidence.entry.workload.is_direct() && facts.direct_align_bytes > 0;
    if is_direct || evidence.results().any(is_seen) {
        return CauseFinding::Excluded;
    }
    let bytes = evidence.entry.workload.data_set_bytes();
    let nodes = evidence.load_nodes.iter();
    let smallest = nodes.map(|node| node.machine.ram_bytes).min();
    let memory = smallest.unwrap_or(evidence.machine.ram_bytes);
    if bytes == 0 || bytes >= memory {
        return CauseFinding::Excluded;
    }
    let share = ratio(bytes as f64, memory as f64);
    let figures = [
        EvidenceFigure::plain("data set", bytes as f64, EvidenceUnit::Bytes),
        EvidenceFigure::plain("memory of the client", memory as f64, EvidenceUnit::Bytes),
        EvidenceFigure::up_to("data set, of memory", share, EvidenceUnit::Share, 1.0),
    ];
    let cause = ExplanationCause::DataSetInMemory;
    over_trials(evidence, cause, "", "", |_, _| {
        TrialSign::Shown(figures.to_vec())
    })
}
