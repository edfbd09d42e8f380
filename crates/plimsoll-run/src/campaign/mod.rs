// SPDX-License-Identifier: Apache-2.0
//! Carries out a run or a comparison: arms made ready, trials in their planned order, everything
//! recorded, everything undone.
//!
//! The final verdicts are computed from the run folder when it is read back, not from data in memory.

mod arms;
mod conditioning;
mod course;
mod device_watch;
mod failover;
mod load_line;
mod loops;
mod names;
mod nodes;
mod order;
mod pilot;
mod proof;
mod scale;
mod trial;

pub use arms::{ArmFacts, ArmRequest, ArmSet, ResolvedArms};
pub use conditioning::ConditioningGoal;
pub use course::busy_now;

use crate::recorder::sample;
use crate::request::WorkloadRequest;
use course::{BlockCourse, CourseStep};
use failover::FaultBench;
use pilot::{PilotListener, PilotRecord};
use plimsoll_archive::{ArchiveError, RunFolderWriter};
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, failed};
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::design::{BlockDesign, BlocksEndCause};
use plimsoll_core::event::{
    RunEvent, RunFolderContents, RunListener, RunManifest, RunWarning, TrialId, TrialResult,
    WorkloadEntry,
};
use plimsoll_core::failover::{FaultInjection, StackCondition};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::rng::Seed;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_engine::DataCheck;
use plimsoll_engine::EngineChoice;
use plimsoll_engine::RunOptions;
use plimsoll_machine::host::{HostTimeSource as _, SystemClock, facts};
use plimsoll_machine::set_on_drop::SetOnDrop;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub use failover::{check_asked_under_faults, check_power_cuts, fault_intentions};
pub use load_line::load_line_seconds;
pub use loops::{check_both_loops, twin_entries, twin_entries_again, twin_labels};
pub use nodes::ClientLoadGenerators;
pub use order::{order, planned_order};
pub use pilot::PILOT_LENGTH;
pub use proof::{prove, refuse_failed, unseen};
pub use scale::{entries, entries_again, label_of, labels_of, length, other_client_cpus};
pub use trial::usual_warmup;

/// Options of all trials.
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
    /// Time before the measured part, where the user says.
    pub warmup: Option<Nanos>,
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
    /// Wait before each trial until what earlier ones wrote is on the disks.
    pub settle: bool,
    /// Record what the disks below the arms count meanwhile.
    pub record: bool,
    /// Faults that are injected, each in trials of its own.
    pub inject: Vec<FaultInjection>,
    /// Conditions of the systems, each in trials of its own.
    pub conditions: Vec<StackCondition>,
    /// Numbers of processors of the client, each in trials of its own beside those with its usual one.
    pub client_cpus: Vec<u32>,
    /// After how long no further trial begins.
    pub budget: Option<TimeBudget>,
    /// Goal of the design that a pilot is to find, if blocks are designed by one.
    pub design: Option<BlockDesignGoal>,
    /// Conditioning of the systems before the first block.
    pub conditioning: ConditioningGoal,
    /// Bytes of the measured part after which a trial ends, if that is before its time.
    pub bytes: Option<u64>,
}

/// Goal of the blocks, and the values that the user set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlockDesignGoal {
    /// The true difference that is to be found four times in five, as a fraction.
    pub effect: Option<f64>,
    /// Number of blocks, the pilot's included.
    pub blocks: Option<u32>,
    /// Length of the measured part of trials.
    pub length: Option<Nanos>,
    /// Time before it.
    pub warmup: Option<Nanos>,
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
        self.left() == Nanos(0)
    }

    /// Time that is left of the budget.
    fn left(self) -> Nanos {
        let passed = u64::try_from(self.clock.now().as_nanos()).unwrap_or(u64::MAX);
        self.time.since(Nanos(passed))
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
            warmup: trial::warmup(&one.workload, scale::length(one, settings), settings),
            data_check: settings.data_check,
            ..RunOptions::default()
        };
        // Workloads that nodes cannot play are refused when the nodes prepare them.
        for here in arms.probed().filter_map(|(_, target)| target.here.as_ref()) {
            plimsoll_agent::opened(here)
                .and_then(|ground| plimsoll_engine::check(&ground, &one.workload, &options))
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
    arms: ArmFacts,
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
        command: plimsoll_console::command_line::words(),
        seed: settings.seed,
        generator: plimsoll_core::rng::GENERATOR.into(),
        policy: settings.policy,
        machine: facts::machine(),
        versions: facts::versions(context::nodes().local()),
        arms: arms.arms,
        entries,
        blocks: settings.blocks,
        design: None,
        balanced: false,
        ladder: Vec::new(),
        load_nodes: arms.load_nodes,
        conditioning: settings.conditioning.asked(),
        trial_bytes: settings.bytes,
        campaign: None,
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

/// Contents of a run folder in the end, and the error that ended the run before its last trial.
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
    let pilot = pilot_before(manifest, folder, before.is_some());
    let ended = recorded(disks, arms, &mut everyone, |everyone| {
        let (settings, ended) =
            conditioning::condition_all(manifest, arms, settings, stop, everyone)?;
        if ended != CampaignEndKind::Whole || stop.load(Ordering::Relaxed) {
            return Ok(ended);
        }
        let settings = &settings;
        if manifest
            .entries
            .iter()
            .any(|entry| entry.load_line.is_some())
        {
            let plan = (manifest, done);
            return load_line::search_all(plan, arms, settings, stop, everyone);
        }
        let plan = (BlockCourse::new(manifest, settings, pilot), done);
        run_all(plan, arms, bench.as_mut(), stop, everyone)
    });
    let interrupted = !matches!(ended, Ok(CampaignEndKind::Whole)) || stop.load(Ordering::Relaxed);
    // However long it took, nothing of the results was held until now.
    let read = plimsoll_archive::open(folder);
    let trials = read.as_ref().map_or(&[][..], |results| &results.trials);
    // That which is read has the design in it, and how the blocks ended.
    let manifest = read.as_ref().map_or(manifest, |results| &results.manifest);
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

/// Hint on the trials kept of a run whose folder could take no more.
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
    let numbers = arms.devices().into_iter();
    let disks: Vec<String> = numbers
        .filter_map(plimsoll_machine::host::disks::name_of_number)
        .collect();
    let Some(base) = base.filter(|_| !disks.is_empty()) else {
        return work(listener);
    };
    let ended = AtomicBool::new(false);
    let (done, sampled) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| sample(base, disks, &SystemClock::new(), &ended));
        let over = SetOnDrop(&ended);
        let done = work(listener);
        drop(over);
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
    (mut course, done): (BlockCourse<'_>, &[TrialResult]),
    arms: &ArmSet,
    mut bench: Option<&mut FaultBench>,
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<CampaignEndKind, CliError> {
    // Bounded by the blocks of the manifest and of its design.
    for block in 0.. {
        // A pilot that is not whole is no ground for a design.
        if course.is_pilot() && stop.load(Ordering::Relaxed) {
            course.ended(block, BlocksEndCause::UserQuit, listener);
            break;
        }
        if course.after(block, listener) == CourseStep::End {
            break;
        }
        let settings = course.settings();
        for trial in course.trials(block) {
            if stop.load(Ordering::Relaxed) {
                course.ended(block, BlocksEndCause::UserQuit, listener);
                return Ok(CampaignEndKind::Whole);
            }
            if let Some(result) = done.iter().find(|result| result.trial == trial) {
                course.take(result);
                course.pilot.take(result);
                continue;
            }
            if settings.budget.is_some_and(|budget| budget.is_over()) {
                return Ok(out_of_time(&mut course, block, listener));
            }
            let bench = bench.as_deref_mut();
            let with = (&settings, bench);
            match one_trial(&mut course, &trial, arms, with, stop, listener) {
                // Another number of nodes is another load.
                Ok(result) if result.lost_node().is_some() => return Ok(CampaignEndKind::LostNode),
                Ok(result) => course.take(&result),
                // A stop while files are laid out is no failure of the trial.
                Err(failure)
                    if failure.code != CliExitCode::NotCleaned && stop.load(Ordering::Relaxed) =>
                {
                    course.ended(block, BlocksEndCause::UserQuit, listener);
                    return Ok(CampaignEndKind::Whole);
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(CampaignEndKind::Whole)
}

/// Whether no further trial may begin; then the listener hears why.
fn is_out_of_time(settings: &CampaignOptions, listener: &mut dyn RunListener) -> bool {
    let is_over = settings.budget.is_some_and(|budget| budget.is_over());
    if is_over {
        listener.event(&RunEvent::Warning(budget_over()));
    }
    is_over
}

fn budget_over() -> RunWarning {
    RunWarning {
        about: String::new(),
        text: "the time of --budget is over; the same command with the same -o runs what is left"
            .into(),
    }
}

/// Runs a trial; of a pilot it is kept what it tells of the noise and of what a trial costs.
fn one_trial(
    course: &mut BlockCourse<'_>,
    trial: &TrialId,
    arms: &ArmSet,
    with: (&CampaignOptions, Option<&mut FaultBench>),
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<TrialResult, CliError> {
    let entry = entry_of(course.manifest(), trial).clone();
    if !course.is_pilot() {
        return trial::run_trial(trial, arms, &entry, with, stop, listener);
    }
    let clock = SystemClock::new();
    let warmup = trial::warmup(&entry.workload, entry.length, with.0);
    let mut heard = PilotListener {
        record: &mut course.pilot,
        listener,
    };
    let result = trial::run_trial(trial, arms, &entry, with, stop, &mut heard)?;
    let mut reach = arms.target(&trial.arm).reach().iter();
    let is_real = reach.any(NodeTarget::is_in_real_time);
    let took = Nanos::from_secs_f64(clock.now().as_secs_f64());
    course
        .pilot
        .take_timed(&result, warmup, is_real.then_some(took));
    Ok(result)
}

/// The time of the budget is over: for designed blocks that is an end like others.
fn out_of_time(
    course: &mut BlockCourse<'_>,
    block: u32,
    listener: &mut dyn RunListener,
) -> CampaignEndKind {
    if course.manifest().design.is_some() && !course.is_pilot() {
        course.ended(block, BlocksEndCause::BudgetSpent, listener);
        return CampaignEndKind::Whole;
    }
    listener.event(&RunEvent::Warning(budget_over()));
    CampaignEndKind::OutOfTime
}

/// Steps of a pilot that was cut off, for a run that goes on.
fn pilot_before(manifest: &RunManifest, folder: &Path, is_resumed: bool) -> PilotRecord {
    let awaits = manifest
        .design
        .as_ref()
        .is_some_and(BlockDesign::awaits_pilot);
    if !is_resumed || !awaits {
        return PilotRecord::default();
    }
    // Steps that cannot be read are measured with the rest of the pilot.
    let read = plimsoll_archive::open(folder);
    read.map_or_else(
        |_| PilotRecord::default(),
        |read| PilotRecord::of(read.intervals),
    )
}

fn entry_of<'a>(manifest: &'a RunManifest, trial: &TrialId) -> &'a WorkloadEntry {
    let mut entries = manifest.entries.iter();
    let found = entries.find(|entry| entry.label == trial.workload);
    found.expect("the order was made from these entries")
}
