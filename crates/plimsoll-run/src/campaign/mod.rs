// SPDX-License-Identifier: Apache-2.0
//! Carries out a run or a comparison: arms made ready, trials in their planned order, everything
//! recorded, everything undone.
//!
//! Nothing here decides what is said of the results: that happens when the run folder is read back.

mod arms;
mod attach;
mod corners;
mod course;
mod device;
mod device_watch;
mod failover;
mod names;
mod nodes;
mod programs;
mod proof;
mod remote;
mod room;
mod scale;
mod trial;

pub use arms::{ArmSet, check_place};
pub use corners::{SensitivityBoundMode, with_corners};
pub use course::busy_now;

use crate::recorder::sample;
use course::InterimAnalysis;
use failover::FaultBench;
use plimsoll_agent::failure::{CliError, CliExitCode, failed};
use plimsoll_archive::{ArchiveError, RunFolderWriter};
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::event::{
    RunEvent, RunFolderContents, RunListener, RunManifest, RunWarning, TrialId, TrialResult,
    WorkloadEntry,
};
use plimsoll_core::failover::{FaultInjection, StackCondition};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_engine::DataCheck;
use plimsoll_engine::EngineChoice;
use plimsoll_engine::RunOptions;
use plimsoll_machine::host::{HostTimeSource as _, SystemClock};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use device::{DestroyConsent, check as check_device, facts as device_facts};
pub use failover::{check_asked_under_faults, fault_intentions};
pub use nodes::ClientLoadGenerators;
pub use proof::{prove, refuse_failed, unseen};
pub use scale::{WorkloadRequest, entries, label_of, labels_of, other_client_cpus};

/// What holds for all trials.
#[derive(Debug, Clone)]
pub struct CampaignOptions {
    /// Seed of everything that is drawn.
    pub seed: Seed,
    /// Confidence, equivalence margin and stopping rule of the verdicts.
    pub policy: VerdictPolicy,
    /// Blocks: trials of each arm and workload.
    pub blocks: u32,
    /// Length of the measured part of each trial, where the user says.
    pub length: Option<Nanos>,
    /// Time before the measured part.
    pub warmup: Nanos,
    /// Play whole recordings instead of slices.
    pub whole: bool,
    /// Prove every system before measuring on it.
    pub verify: bool,
    /// Whether the data of the trials themselves are verified.
    pub data_check: DataCheck,
    /// Marks what the trials of this run write, where that is verified.
    pub stamp_seed: Seed,
    /// How operations are submitted.
    pub engine: EngineChoice,
    /// Record what the disks below the arms count meanwhile.
    pub record: bool,
    /// Faults that are injected, each in trials of its own.
    pub inject: Vec<FaultInjection>,
    /// What systems are like, each in trials of its own.
    pub conditions: Vec<StackCondition>,
    /// Numbers of processors of the client, each in trials of its own beside those with its usual one.
    pub client_cpus: Vec<u32>,
    /// After how long no further trial begins.
    pub budget: Option<TimeBudget>,
}

/// A time after which nothing more begins.
#[derive(Debug, Clone, Copy)]
pub struct TimeBudget {
    clock: SystemClock,
    time: Nanos,
}

impl TimeBudget {
    /// One that counts from now.
    pub fn new(time: Nanos) -> Self {
        TimeBudget {
            clock: SystemClock::new(),
            time,
        }
    }

    fn is_over(&self) -> bool {
        self.clock.now() >= Duration::from_nanos(self.time.0)
    }
}

/// Asks the engine whether it takes every workload on every system: better before a run folder is
/// made than in the middle of the trials.
pub fn check_shapes(
    arms: &ArmSet,
    asked: &[WorkloadRequest],
    settings: &CampaignOptions,
) -> Result<(), CliError> {
    for one in asked {
        // Programs are not the engine's.
        if matches!(one.workload, Workload::Commands(_)) || one.workload.is_idle() {
            continue;
        }
        let options = RunOptions {
            length: scale::length(one, settings),
            warmup: trial::warmup(&one.workload, settings),
            data_check: settings.data_check,
            ..RunOptions::default()
        };
        // What nodes cannot play they say when they prepare it.
        for (_, target) in arms.probed().filter(|(_, t)| !t.is_only_on_nodes()) {
            plimsoll_engine::check(
                plimsoll_agent::located(&target.here())?,
                &one.workload,
                &options,
            )
            .map_err(failed(CliExitCode::Usage))?;
        }
    }
    Ok(())
}

/// Listeners in a row.
struct Everyone<'a>(Vec<&'a mut dyn RunListener>);

impl RunListener for Everyone<'_> {
    fn event(&mut self, event: &RunEvent) {
        self.0.iter_mut().for_each(|listener| listener.event(event));
    }
}

/// A run folder that ends the run when it can take no more: what is measured after that would be lost.
struct RunFolderListener<'a> {
    writer: &'a mut RunFolderWriter,
    stop: &'a AtomicBool,
}

impl RunListener for RunFolderListener<'_> {
    fn event(&mut self, event: &RunEvent) {
        self.writer.event(event);
        if self.writer.has_failed() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// The manifest of what is about to be done.
pub fn manifest(
    id: &str,
    arms: &ArmSet,
    entries: Vec<WorkloadEntry>,
    settings: &CampaignOptions,
) -> RunManifest {
    RunManifest {
        format: FormatVersion::RUN,
        program: env!("CARGO_PKG_VERSION").into(),
        id: id.into(),
        began_at: jiff::Zoned::now()
            .strftime("%Y-%m-%dT%H:%M:%S%:z")
            .to_string(),
        command: std::env::args().collect(),
        seed: settings.seed,
        generator: plimsoll_core::rng::GENERATOR.into(),
        policy: settings.policy,
        machine: plimsoll_machine::host::facts::machine(),
        versions: arms.versions(),
        arms: arms.described(),
        entries,
        blocks: settings.blocks,
        ladder: Vec::new(),
        load_nodes: arms.load().facts(),
    }
}

/// Looks at whether faults can be injected where that is asked, before anything is measured. Of several
/// systems those that cannot have one are left out of its trials, with a note.
pub fn check_faults(
    arms: &ArmSet,
    settings: &mut CampaignOptions,
    leave_out: bool,
) -> Result<Vec<RunWarning>, CliError> {
    failover::check_faults(arms, settings, leave_out)
}

/// What a run folder holds in the end, and what ended the run before its last trial.
pub type CampaignResult = (RunFolderContents, Result<(), CliError>);

/// Runs all trials of `manifest` in their order but those that are done, recording into `folder`, and reads
/// the results back. A stop ends the current trial; what was measured stands.
pub fn carry_out(
    (manifest, before): (&RunManifest, Option<&[TrialResult]>),
    arms: &ArmSet,
    settings: &CampaignOptions,
    notes: &[RunWarning],
    folder: &Path,
    stop: &AtomicBool,
    screen: &mut dyn RunListener,
) -> Result<CampaignResult, CliError> {
    let writer = match before {
        None => RunFolderWriter::create(folder, manifest),
        Some(_) => RunFolderWriter::resume(folder),
    };
    let mut writer = writer.map_err(|error| match &error {
        ArchiveError::Occupied(_) => CliError::usage(&error),
        _ => CliError::new(CliExitCode::Failed, &error),
    })?;
    let done = before.unwrap_or_default();
    let mut bench = match settings.inject.is_empty() {
        true => None,
        false => {
            let ledgers = writer.ledgers().map_err(failed(CliExitCode::Failed))?;
            Some(FaultBench::new(ledgers, arms, (&manifest.entries, done)))
        }
    };
    let disks = settings.record.then(|| writer.disks());
    let mut recording = RunFolderListener {
        writer: &mut writer,
        stop,
    };
    let mut everyone = Everyone(vec![&mut recording, screen]);
    for note in notes {
        everyone.event(&RunEvent::Warning(note.clone()));
    }
    let ended = recorded(disks, arms, &mut everyone, |everyone| {
        let plan = (manifest, done);
        run_all(plan, arms, (settings, bench.as_mut()), stop, everyone)
    });
    let interrupted = !matches!(ended, Ok(CampaignEndKind::Whole)) || stop.load(Ordering::Relaxed);
    // However long it took, nothing of the results was held until now.
    let read = plimsoll_archive::open(folder);
    let trials = read.as_ref().map_or(&[][..], |results| &results.trials);
    let comparisons = plimsoll_stats::compare_all(manifest, trials);
    everyone.event(&RunEvent::Finished {
        interrupted,
        comparisons: comparisons.clone(),
    });
    if let Some(failure) = writer.take_failure() {
        let trials = read.map_or(0, |results| results.trials.len());
        return Err(CliError::new(CliExitCode::Failed, failure).hint(unrecorded(folder, trials)));
    }
    let results = RunFolderContents {
        comparisons,
        complete: !interrupted,
        ..read.map_err(failed(CliExitCode::Failed))?
    };
    Ok((results, ended.map(drop)))
}

/// What there is of a run whose folder could take no more.
fn unrecorded(folder: &Path, trials: usize) -> String {
    let folder = folder.display();
    match trials {
        0 => format!(
            "the run was ended, and no trial was whole; give another folder than {folder} with -o"
        ),
        1 => format!("the run was ended; the whole trial is kept: plimsoll report {folder}"),
        _ => format!("the run was ended; {trials} whole trials are kept: plimsoll report {folder}"),
    }
}

/// How the trials of a plan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CampaignEndKind {
    /// With the last one, or when the user stopped them.
    Whole,
    /// With one that lost a node.
    LostNode,
    /// Before one for which there was no time left.
    OutOfTime,
}

/// Does something while what the disks below the arms count is recorded into an archive of this
/// base name. A recorder that fails is reported; what it was to watch goes on.
fn recorded<T>(
    base: Option<PathBuf>,
    arms: &ArmSet,
    listener: &mut dyn RunListener,
    work: impl FnOnce(&mut dyn RunListener) -> T,
) -> T {
    let numbers = arms.devices().iter();
    let disks: Vec<String> = numbers
        .filter_map(|number| plimsoll_machine::host::disks::name_of_number(number))
        .collect();
    let Some(base) = base.filter(|_| !disks.is_empty()) else {
        return work(listener);
    };
    let ended = AtomicBool::new(false);
    let (done, sampled) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| sample(base, disks, &SystemClock::new(), &ended));
        let done = work(listener);
        ended.store(true, Ordering::Relaxed);
        (done, sampler.join())
    });
    if let Ok(Err(failure)) = sampled {
        listener.event(&RunEvent::Warning(RunWarning {
            about: "disk recording".into(),
            text: format!("{}; the trials went on", failure.text()),
        }));
    }
    done
}

fn run_all(
    (manifest, done): (&RunManifest, &[TrialResult]),
    arms: &ArmSet,
    (settings, mut bench): (&CampaignOptions, Option<&mut FaultBench>),
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<CampaignEndKind, CliError> {
    let is_stopped = || stop.load(Ordering::Relaxed);
    let mut course = InterimAnalysis::new(manifest);
    let mut block = 0;
    for trial in order(manifest) {
        if is_stopped() {
            break;
        }
        if trial.block > block {
            block = trial.block;
            let warnings = course.after(block).into_iter();
            warnings.for_each(|warning| listener.event(&RunEvent::Warning(warning)));
        }
        if let Some(result) = done.iter().find(|result| result.trial == trial) {
            course.take(result);
            continue;
        }
        if settings.budget.is_some_and(|budget| budget.is_over()) {
            listener.event(&RunEvent::Warning(RunWarning {
                about: String::new(),
                text: "the time of --budget is over; the same command with the same -o runs what is left"
                    .into(),
            }));
            return Ok(CampaignEndKind::OutOfTime);
        }
        let entry = entry_of(manifest, &trial);
        let bench = bench.as_deref_mut();
        match trial::run_trial(&trial, arms, entry, (settings, bench), stop, listener) {
            // Another number of nodes is another load.
            Ok(result) if result.lost_node().is_some() => return Ok(CampaignEndKind::LostNode),
            Ok(result) => course.take(&result),
            // A stop while files are laid out is no failure of the trial.
            Err(failure) if failure.code != CliExitCode::NotCleaned && is_stopped() => break,
            Err(failure) => return Err(failure),
        }
    }
    Ok(CampaignEndKind::Whole)
}

fn entry_of<'a>(manifest: &'a RunManifest, trial: &TrialId) -> &'a WorkloadEntry {
    let mut entries = manifest.entries.iter();
    let found = entries.find(|entry| entry.label == trial.workload);
    found.expect("the order was made from these entries")
}

/// The order of the trials: randomised complete blocks from the recorded seed.
pub fn order(manifest: &RunManifest) -> Vec<TrialId> {
    let arms: Vec<String> = manifest.arms.iter().map(|arm| arm.name.clone()).collect();
    let entries: Vec<(String, u32)> = manifest
        .entries
        .iter()
        .map(|entry| (entry.label.clone(), entry.blocks(manifest.blocks)))
        .collect();
    let mut all = plimsoll_lab::experiment::order(&arms, &entries, manifest.seed);
    all.retain(|trial| entry_of(manifest, trial).is_played_on(&trial.arm));
    all
}
