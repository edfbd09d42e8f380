// SPDX-License-Identifier: Apache-2.0
//! Possible limits of a result, from the evidence that was recorded beside it.
//!
//! Every detector is pure: the trials of one arm under one workload in, signs with their figures out.
//! An explanation is reported when it shows in more than half of the trials that could show it: one
//! disturbed trial explains nothing. It is called a *cause* only where interleaved trials without it
//! differ; every other explanation is *consistent with* the measurements. Limits and their reasons:
//! `docs/method/explanations.md`.

mod client;
mod credit;
mod disk_load;
mod file_systems;
mod limits;
mod memory;
mod network;
mod removal;
mod saturation;
mod seconds;
mod servers;
mod storage;
mod threads;

pub(crate) use credit::{free_rates, is_free};
pub use saturation::{SaturatedResource, saturated};

use plimsoll_core::event::{
    ArmEntry, ClientLoadNode, RunFolderContents, RunManifest, TrialResult, TrialTimeBin,
    WorkloadEntry,
};
use plimsoll_core::evidence::MachineUse;
use plimsoll_core::explanation::{
    ArmExplanations, CauseExplanation, EvidenceFigure, ExplanationCause, ExplanationStrength,
    UnknownCause,
};
use plimsoll_core::num::saturating_u32;
use plimsoll_core::target::MachineFacts;

/// How an engine is called that another program ran and wrote down.
const IMPORTED: &str = "imported from ";
/// How it is called where an original program was the load.
const PROGRAM: &str = "the original program";

/// The evidence of one arm under one workload.
#[derive(Debug, Clone)]
pub struct ArmEvidence<'a> {
    /// The workload.
    pub entry: &'a WorkloadEntry,
    /// The arm.
    pub arm: &'a ArmEntry,
    /// The machine of the run.
    pub machine: &'a MachineFacts,
    /// The machines that the load comes from, where they are others.
    pub load_nodes: &'a [ClientLoadNode],
    /// Its trials, with their seconds.
    pub trials: Vec<(&'a TrialResult, &'a [TrialTimeBin])>,
}

impl<'a> ArmEvidence<'a> {
    /// From a run: the trials that ended; those cut short only where there are no others.
    pub fn of(
        results: &'a RunFolderContents,
        entry: &'a WorkloadEntry,
        arm: &'a ArmEntry,
    ) -> ArmEvidence<'a> {
        let of_these = |trial: &&TrialResult| {
            trial.trial.workload == entry.label && trial.trial.arm == arm.name
        };
        let all: Vec<&TrialResult> = results.trials.iter().filter(of_these).collect();
        let is_any_whole = all.iter().any(|trial| !trial.interrupted);
        let kept = all
            .into_iter()
            .filter(|trial| !(trial.interrupted && is_any_whole));
        let bins = |trial: &TrialResult| {
            let bins = results.intervals.get(&trial.trial.place);
            bins.map_or(&[][..], Vec::as_slice)
        };
        Self::new(
            &results.manifest,
            entry,
            arm,
            kept.map(|trial| (trial, bins(trial))).collect(),
        )
    }

    /// From trials at hand.
    pub fn new(
        manifest: &'a RunManifest,
        entry: &'a WorkloadEntry,
        arm: &'a ArmEntry,
        trials: Vec<(&'a TrialResult, &'a [TrialTimeBin])>,
    ) -> ArmEvidence<'a> {
        ArmEvidence {
            entry,
            arm,
            machine: &manifest.machine,
            load_nodes: &manifest.load_nodes,
            trials,
        }
    }

    fn results(&self) -> impl Iterator<Item = &'a TrialResult> {
        self.trials.iter().map(|(trial, _)| *trial)
    }

    /// Whether programs made the load, here or in an imported run: they give no account of it.
    fn ran_elsewhere(&self) -> bool {
        let mut engines = self.results().map(|trial| trial.generator.engine.as_str());
        engines.any(|engine| engine.starts_with(IMPORTED) || engine == PROGRAM)
    }

    /// Whether time was virtual: no machine was at work then.
    fn is_virtual(&self) -> bool {
        self.arm.facts.is_none() && self.results().all(|trial| trial.generator.outside_ns == 0)
    }
}

/// The finding of a detector.
#[derive(Debug, Clone, PartialEq)]
enum CauseFinding {
    /// It shows.
    Found(Vec<CauseExplanation>),
    /// It would show, and does not.
    Excluded,
    /// The evidence that would show it is missing.
    Unknown(&'static str),
    /// It cannot be: there is nothing of the kind.
    NotApplicable,
}

/// The evidence of one trial for a cause.
#[derive(Debug, Clone, PartialEq)]
enum TrialSign {
    /// Nothing: the evidence is missing.
    Missing,
    /// It is not there.
    Absent,
    /// It is.
    Shown(Vec<EvidenceFigure>),
}

type Detector = fn(&ArmEvidence<'_>) -> CauseFinding;

/// Who looks for what.
const DETECTORS: [(ExplanationCause, Detector); 31] = [
    (ExplanationCause::IoLimit, limits::io),
    (ExplanationCause::MemoryLimit, limits::memory),
    (ExplanationCause::SlowedProcessor, client::slowed),
    (ExplanationCause::PageCache, memory::page_cache),
    (ExplanationCause::DataSetInMemory, memory::data_set),
    (ExplanationCause::BurstCredit, credit::burst_credit),
    (ExplanationCause::RateLimit, seconds::rate_limit),
    (ExplanationCause::SlowDisk, storage::slow_disk),
    (ExplanationCause::SlowLink, network::slow_link),
    (ExplanationCause::Retransmits, network::retransmits),
    (ExplanationCause::ServerProcessor, servers::processor),
    (ExplanationCause::ServerStalled, servers::stalled),
    (ExplanationCause::SyncMount, file_systems::sync),
    (
        ExplanationCause::JournaledData,
        file_systems::journaled_data,
    ),
    (ExplanationCause::Discards, disk_load::discards),
    (ExplanationCause::OtherIo, disk_load::other_io),
    (ExplanationCause::DeviceQueue, disk_load::queue),
    (ExplanationCause::Pauses, disk_load::pauses),
    (ExplanationCause::Stalls, seconds::stalls),
    (ExplanationCause::Drift, seconds::drift),
    (ExplanationCause::FullFileSystem, file_systems::full),
    (ExplanationCause::ServersUneven, servers::uneven),
    (ExplanationCause::ThreadStarved, threads::starved),
    (ExplanationCause::MemoryGrowth, servers::memory_growth),
    (ExplanationCause::OtherPrograms, client::other_programs),
    (ExplanationCause::StolenProcessor, client::stolen),
    (ExplanationCause::ClientProcessor, client::processor),
    (ExplanationCause::GeneratorLate, client::late),
    (ExplanationCause::ArraySync, storage::array_sync),
    (ExplanationCause::NetworkBytes, network::amplification),
    (ExplanationCause::ClockOffset, network::clock_offset),
];

/// Causes that another cause brings about: they are not reported beside it.
const BRINGS: [(ExplanationCause, &[ExplanationCause]); 7] = [
    (ExplanationCause::IoLimit, &OF_A_LIMIT),
    (ExplanationCause::BurstCredit, &OF_A_LIMIT),
    (ExplanationCause::RateLimit, &OF_A_LIMIT),
    (ExplanationCause::SlowedProcessor, &OF_A_LIMIT),
    (ExplanationCause::PageCache, &[ExplanationCause::Stalls]),
    // The rate of a slow link is also a rate limit.
    (ExplanationCause::SlowLink, &[ExplanationCause::RateLimit]),
    (
        ExplanationCause::DeviceQueue,
        &[ExplanationCause::GeneratorLate],
    ),
];

/// A cause that holds a rate also makes it constant, and lets requests wait for their turn.
const OF_A_LIMIT: [ExplanationCause; 4] = [
    ExplanationCause::RateLimit,
    ExplanationCause::Pauses,
    ExplanationCause::Stalls,
    ExplanationCause::GeneratorLate,
];

/// The possible limits of each arm under each workload, in the order of workloads and arms.
pub fn explain(results: &RunFolderContents) -> Vec<ArmExplanations> {
    let manifest = &results.manifest;
    let mut all = Vec::new();
    for entry in manifest.entries.iter().filter(|e| !e.workload.is_idle()) {
        for arm in &manifest.arms {
            let evidence = ArmEvidence::of(results, entry, arm);
            if evidence.trials.is_empty() {
                continue;
            }
            let mut told = explain_arm(&evidence);
            told.found
                .extend(removal::client_processors(results, entry, arm));
            sort(&mut told.found);
            all.push(told);
        }
    }
    all
}

/// The possible limits of one arm under one workload.
pub fn explain_arm(evidence: &ArmEvidence<'_>) -> ArmExplanations {
    let mut told = ArmExplanations {
        workload: evidence.entry.label.clone(),
        arm: evidence.arm.name.clone(),
        found: Vec::new(),
        excluded: Vec::new(),
        unknown: Vec::new(),
    };
    for (cause, detector) in DETECTORS {
        match detector(evidence) {
            CauseFinding::Found(found) => told.found.extend(found),
            CauseFinding::Excluded => told.excluded.push(cause),
            CauseFinding::Unknown(why) => told.unknown.push(UnknownCause {
                cause,
                why: why.into(),
            }),
            CauseFinding::NotApplicable => {}
        }
    }
    leave_out_brought(&mut told.found);
    sort(&mut told.found);
    told
}

fn leave_out_brought(found: &mut Vec<CauseExplanation>) {
    let causes: Vec<ExplanationCause> = found.iter().map(|one| one.cause).collect();
    let is_brought = |cause: ExplanationCause| {
        let mut by = BRINGS.iter().filter(|(by, _)| causes.contains(by));
        by.any(|(by, brings)| *by != cause && brings.contains(&cause))
    };
    found.retain(|one| !is_brought(one.cause));
}

fn sort(found: &mut [CauseExplanation]) {
    let is_weaker = |one: &CauseExplanation| one.strength == ExplanationStrength::ConsistentWith;
    found.sort_by(|a, b| {
        let by_strength = is_weaker(a).cmp(&is_weaker(b));
        let by_cause = by_strength.then(a.cause.cmp(&b.cause));
        by_cause.then(a.about.cmp(&b.about))
    });
}

/// One subject over all trials: found when more than half of the trials that can tell show it.
fn over_trials(
    evidence: &ArmEvidence<'_>,
    cause: ExplanationCause,
    about: &str,
    missing: &'static str,
    sign: impl Fn(&TrialResult, &[TrialTimeBin]) -> TrialSign,
) -> CauseFinding {
    let signs = evidence
        .trials
        .iter()
        .map(|(trial, bins)| sign(trial, bins));
    let signs: Vec<TrialSign> = signs.filter(|sign| *sign != TrialSign::Missing).collect();
    let of = signs.len();
    let shown: Vec<Vec<EvidenceFigure>> = signs
        .into_iter()
        .filter_map(|sign| match sign {
            TrialSign::Shown(figures) => Some(figures),
            TrialSign::Missing | TrialSign::Absent => None,
        })
        .collect();
    match (of, shown.len() * 2 > of) {
        (0, _) => CauseFinding::Unknown(missing),
        (_, false) => CauseFinding::Excluded,
        (_, true) => CauseFinding::Found(vec![CauseExplanation {
            cause,
            about: about.into(),
            strength: ExplanationStrength::ConsistentWith,
            trials: saturating_u32(shown.len() as u64),
            of: saturating_u32(of as u64),
            evidence: medians(&shown),
        }]),
    }
}

/// Several subjects (servers, disks) as one answer.
fn over_subjects(findings: Vec<CauseFinding>, missing: &'static str) -> CauseFinding {
    let mut found = Vec::new();
    let mut is_excluded = false;
    for finding in findings {
        match finding {
            CauseFinding::Found(more) => found.extend(more),
            CauseFinding::Excluded => is_excluded = true,
            CauseFinding::Unknown(_) | CauseFinding::NotApplicable => {}
        }
    }
    match (found.is_empty(), is_excluded) {
        (false, _) => CauseFinding::Found(found),
        (true, true) => CauseFinding::Excluded,
        (true, false) => CauseFinding::Unknown(missing),
    }
}

/// The median of each figure, over the trials that give it.
fn medians(shown: &[Vec<EvidenceFigure>]) -> Vec<EvidenceFigure> {
    let mut figures: Vec<EvidenceFigure> = Vec::new();
    for figure in shown.iter().flatten() {
        if !figures.iter().any(|known| known.figure == figure.figure) {
            figures.push(figure.clone());
        }
    }
    for figure in &mut figures {
        let alike = shown.iter().flatten().filter(|f| f.figure == figure.figure);
        let middle = crate::events::median(alike.map(|f| f.value));
        figure.value = middle.unwrap_or(figure.value);
    }
    figures
}

/// The work of the machines of a load in a trial.
fn machines(trial: &TrialResult) -> impl Iterator<Item = &MachineUse> {
    trial.machines.iter().filter(|used| used.length.0 > 0)
}

/// Why nothing is known of the machines.
const NO_MACHINES: &str = "what the machines did was not recorded";
