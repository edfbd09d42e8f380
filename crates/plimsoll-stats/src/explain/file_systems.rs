// SPDX-License-Identifier: Apache-2.0
//! File systems: how they are mounted, and how full they are.

use plimsoll_core::event::{DeviceUse, TrialResult};
use plimsoll_core::explanation::{EvidenceFigure, EvidenceUnit, ExplanationCause};
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;

use super::{ArmEvidence, CauseFinding, TrialSign, over_trials};

/// Writes of the device for each one that was asked for, from which on each waits for it.
const WRITES_TIMES: f64 = 0.9;
/// Bytes that the device wrote for each that was asked for, where data are in the journal first.
const BYTES_TIMES: f64 = 1.5;
/// Less says nothing: a file system writes as much for itself.
const BYTES_MIN: u64 = 1 << 20;
/// A file system with less free space than this looks long for it.
const FREE_SHARE: f64 = 0.05;

/// Why nothing is known.
const NO_DEVICE: &str = "this machine does not count what the devices moved";

fn has_option(evidence: &ArmEvidence<'_>, wanted: &str) -> bool {
    let facts = evidence.arm.facts.as_ref();
    let options = facts.map_or("", |facts| &facts.mount_options);
    options.split(',').any(|option| option == wanted)
}

/// A directory on a file system of this machine.
fn is_mounted(evidence: &ArmEvidence<'_>) -> bool {
    let facts = evidence.arm.facts.as_ref();
    facts.is_some_and(|facts| !facts.disks.is_empty() && facts.file_system != "none")
}

/// A mount option, and what the device did more often than asked because of it.
fn mounted_with(
    evidence: &ArmEvidence<'_>,
    (cause, option): (ExplanationCause, &str),
    (name, least): (&str, f64),
    times: impl Fn(&DeviceUse) -> f64,
) -> CauseFinding {
    if !is_mounted(evidence) {
        return CauseFinding::NotApplicable;
    }
    let has = has_option(evidence, option);
    over_trials(evidence, cause, "", NO_DEVICE, |trial, _| {
        let device = trial.device.as_ref();
        let device = device.filter(|device| device.asked.written_bytes >= BYTES_MIN);
        match device.map(&times) {
            _ if !has => TrialSign::Absent,
            None => TrialSign::Missing,
            Some(times) if times < least => TrialSign::Absent,
            Some(times) => TrialSign::Shown(vec![EvidenceFigure::new(
                name,
                times,
                EvidenceUnit::Times,
                least,
            )]),
        }
    })
}

/// Every write waits for the disk.
pub(super) fn sync(evidence: &ArmEvidence<'_>) -> CauseFinding {
    let name = "writes of the device for each one requested";
    let told = (ExplanationCause::SyncMount, "sync");
    mounted_with(evidence, told, (name, WRITES_TIMES), |device| {
        ratio(device.served.writes as f64, device.asked.writes as f64)
    })
}

/// All data are written twice.
pub(super) fn journaled_data(evidence: &ArmEvidence<'_>) -> CauseFinding {
    let name = "bytes the device wrote for each one requested";
    let told = (ExplanationCause::JournaledData, "data=journal");
    mounted_with(evidence, told, (name, BYTES_TIMES), |device| {
        let asked = device.asked.written_bytes as f64;
        ratio(device.served.written_bytes as f64, asked)
    })
}

/// Hardly any space was left when the run began.
pub(super) fn full(evidence: &ArmEvidence<'_>) -> CauseFinding {
    let facts = evidence.arm.facts.as_ref();
    let facts = facts.filter(|facts| is_mounted(evidence) && facts.size_bytes > 0);
    let Some(facts) = facts else {
        return CauseFinding::NotApplicable;
    };
    let free = ratio(facts.free_bytes as f64, facts.size_bytes as f64);
    let cause = ExplanationCause::FullFileSystem;
    over_trials(evidence, cause, "", "", |trial, _| {
        match free < FREE_SHARE && takes_space(trial) {
            false => TrialSign::Absent,
            true => TrialSign::Shown(vec![EvidenceFigure::up_to(
                "free space, of the file system",
                free,
                EvidenceUnit::Share,
                FREE_SHARE,
            )]),
        }
    })
}

/// Whether files are made or grow in it.
fn takes_space(trial: &TrialResult) -> bool {
    let kinds = [OpKind::Append, OpKind::Create, OpKind::WriteWhole];
    kinds.iter().any(|kind| trial.stats.0.contains_key(kind))
}
