// SPDX-License-Identifier: Apache-2.0
//! Causes that were removed, or made stronger, in interleaved trials: the only ones that are called causes.

use plimsoll_core::comparison::RatioEstimate;
use plimsoll_core::event::{ArmEntry, RunFolderContents, TrialResult, WorkloadEntry};
use plimsoll_core::explanation::{
    CauseExplanation, EvidenceFigure, EvidenceUnit, ExplanationCause, ExplanationStrength,
};
use plimsoll_core::num::saturating_u32;

use crate::paired::PairedLogRatioStats;

/// Whether the result moves with the number of processors that the client may use.
pub(super) fn client_processors(
    results: &RunFolderContents,
    entry: &WorkloadEntry,
    arm: &ArmEntry,
) -> Vec<CauseExplanation> {
    let manifest = &results.manifest;
    let others = manifest.entries.iter().filter_map(|other| {
        let client = other.client.as_ref()?;
        (client.of == entry.label).then_some((other, client.cpus))
    });
    let policy = &manifest.policy;
    others
        .filter_map(|(other, cpus)| {
            let logs = log_ratios(results, arm, (entry, other));
            let ratio = PairedLogRatioStats::of(&logs)?.ratio(policy.confidence);
            // It moved, and by more than counts as equal.
            let most = 1.0 + policy.margin;
            let is_beyond = (ratio.low > 1.0 && ratio.estimate > most)
                || (ratio.high < 1.0 && ratio.estimate < most.recip());
            let trials = saturating_u32(logs.len() as u64);
            is_beyond.then(|| CauseExplanation {
                cause: ExplanationCause::ClientProcessors,
                about: match cpus {
                    1 => "1 CPU".into(),
                    more => format!("{more} CPUs"),
                },
                strength: ExplanationStrength::Cause,
                trials,
                of: trials,
                evidence: figures(&ratio, policy.margin),
            })
        })
        .collect()
}

fn figures(ratio: &RatioEstimate, margin: f64) -> Vec<EvidenceFigure> {
    let name = "result with them, of that with the usual number";
    let (unit, most) = (EvidenceUnit::Times, 1.0 + margin);
    let moved = match ratio.estimate > 1.0 {
        true => EvidenceFigure::new(name, ratio.estimate, unit, most),
        false => EvidenceFigure::up_to(name, ratio.estimate, unit, most.recip()),
    };
    vec![
        moved,
        EvidenceFigure::plain("interval from", ratio.low, EvidenceUnit::Times),
        EvidenceFigure::plain("interval to", ratio.high, EvidenceUnit::Times),
    ]
}

/// Logarithm of the ratio to the usual number in each block that has both.
fn log_ratios(
    results: &RunFolderContents,
    arm: &ArmEntry,
    (usual, other): (&WorkloadEntry, &WorkloadEntry),
) -> Vec<f64> {
    let Some(metric) = usual.workload.metric() else {
        return Vec::new();
    };
    let of = |entry: &WorkloadEntry, block: u32| {
        let is_it = |trial: &&TrialResult| {
            let id = &trial.trial;
            id.block == block && id.arm == arm.name && id.workload == entry.label
        };
        let mut found = results.trials.iter().filter(is_it);
        let found = found.find(|trial| trial.is_comparable())?;
        Some(found.value(metric)).filter(|value| *value > 0.0)
    };
    let blocks = 0..results.manifest.blocks;
    blocks
        .filter_map(|block| Some((of(other, block)? / of(usual, block)?).ln()))
        .collect()
}
