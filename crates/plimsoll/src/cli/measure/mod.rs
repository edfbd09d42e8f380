// SPDX-License-Identifier: Apache-2.0
//! Steps of `run` and `compare`: from arguments to a run folder, its report and its cleaning up.

mod asked;
mod conditioning;
pub(in crate::cli) mod ended;
mod load_source;
mod plan;
mod resume;

pub(super) use asked::asked;
pub(super) use conditioning::{ConditioningArgs, ConditioningChoice, PreconditionArgs};
pub(super) use load_source::ClientLoadArgs;
pub(super) use resume::interrupted;

use super::design::{BlockDesignChoice, GivenTrials};
use super::progress::{ProgressMode, RunProgress};
use super::quit_key::QuitKey;
use super::stack::StackOptionArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plimsoll_agent::raze::{RazeSummary, raze_dead_runs};
use plimsoll_agent::run_id;
use plimsoll_console::context;
use plimsoll_console::failure::CliError;
use plimsoll_console::terminal;
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::event::{
    RunFolderContents, RunManifest, RunSettings, RunWarning, WorkloadEntry,
};
use plimsoll_core::failover::{FaultInjection, StackCondition};
use plimsoll_core::load_line::LoadLineGoal;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::{self, Nanos};
use plimsoll_engine::{DataCheck, EngineChoice};
use plimsoll_lab::proofs::SelfTestDepth;
use plimsoll_machine::journal::StateDir;
use plimsoll_run::campaign::{
    self, ArmSet, CampaignOptions, CampaignResult, ConditioningGoal, DestroyConsent, TimeBudget,
    WorkloadRequest,
};
use plimsoll_run::campaign_file::WorkloadVariant;
use plimsoll_run::spec::TargetSpec;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// How operations reach the kernel.
const ENGINES: [(&str, EngineChoice); 3] = [
    ("auto", EngineChoice::Auto),
    ("uring", EngineChoice::Uring),
    ("sync", EngineChoice::Sync),
];

/// When what is written is verified, where it is.
const DATA_CHECKS: [(&str, DataCheck); 2] =
    [("end", DataCheck::End), ("always", DataCheck::Always)];

/// Reads one of these words as what it means.
pub(super) fn choices<T: Copy + Send + Sync>(
    words: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let known = PossibleValuesParser::new(words.iter().map(|(word, _)| *word));
    known.try_map(|given| {
        let found = words.iter().find(|(word, _)| *word == given);
        found.map(|(_, meaning)| *meaning).ok_or("unknown word")
    })
}

/// The word of a meaning.
fn word<T: PartialEq + Copy>(words: &[(&str, T)], meaning: T) -> Option<String> {
    let found = words.iter().find(|(_, known)| *known == meaning);
    found.map(|(word, _)| (*word).to_owned())
}

/// Shorter runs say nothing.
const LENGTH_MIN: Nanos = Nanos(100_000_000);
/// Warm-up where nobody says.
const WARMUP: Nanos = Nanos::SECOND;
/// How long, from which seed, with which engine.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TrialTimingArgs {
    /// Measure each trial for TIME (default: 10s, or what the workload file says; under a fault,
    /// 22s longer than that lasts).
    ///
    /// Workloads that end by themselves need no length.
    #[arg(long = "for", id = "length", value_parser = units::parse_duration, value_name = "TIME")]
    length: Option<Nanos>,
    /// Warm up for TIME before the measured part, for workloads that run as fast as they can
    /// (default: 1s; with --effect what the pilot needs).
    #[arg(long, value_parser = units::parse_duration, value_name = "TIME")]
    warmup: Option<Nanos>,
    /// Seed of all random numbers (default: drawn and printed).
    #[arg(long)]
    seed: Option<u64>,
    /// Submit operations by io_uring (uring), by plain system calls (sync), or by what suits the
    /// workload (auto).
    #[arg(long, default_value = "auto", value_parser = choices(&ENGINES))]
    engine: EngineChoice,
    /// Skip the write-verify test that precedes every measurement.
    #[arg(long)]
    no_verify: bool,
    /// Do not record disk counters during the trials.
    ///
    /// By default the counters of the disks below the targets are recorded once a second into the
    /// run folder.
    #[arg(long)]
    no_record: bool,
    /// Verify the data that a block workload writes.
    ///
    /// `end` stamps every sector and reads everything back after each trial; `always` also checks
    /// every read during the trial. Bad blocks end the command with exit code 12. Verification
    /// costs CPU time for every byte written (with `always` also for every byte read), 32 bytes of
    /// memory per block, and the time to read everything back. Use it to test data integrity; do
    /// not compare its results with those of runs without it.
    #[arg(long, value_name = "WHEN", value_parser = choices(&DATA_CHECKS))]
    verify_data: Option<DataCheck>,
    /// Play every workload also with half and with double the client's CPUs.
    ///
    /// Each is a workload of its own in every block. If the result moves with the CPUs, the report says
    /// that this measures your client. What cannot be doubled, because the machine has no more, is said.
    #[arg(long)]
    prove_client: bool,
    /// Play a model that missed a gate when it was fitted or verified.
    ///
    /// The report says so at its top.
    #[arg(long)]
    force_model: bool,
    /// Measure although another run uses the same directory.
    ///
    /// The report says so.
    #[arg(long)]
    shared: bool,
    /// Start no further trial after TIME, counted from the start of the command.
    ///
    /// The same command with the same -o runs the trials that are left. With --effect or --stop
    /// of compare and layers, blocks are designed to fit into it.
    #[arg(long, value_parser = units::parse_duration, value_name = "TIME")]
    budget: Option<Nanos>,
    /// How the run is shown on standard error while it goes on.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    progress: ProgressMode,
}

impl TrialTimingArgs {
    fn data_check(&self) -> DataCheck {
        self.verify_data.unwrap_or_default()
    }

    /// The same for one of several runs of a command: with what is left of its time, and for another length.
    pub(super) fn of_part(
        &self,
        length: Option<Nanos>,
        budget: Option<Nanos>,
        seed: Option<Seed>,
    ) -> TrialTimingArgs {
        TrialTimingArgs {
            length,
            budget,
            seed: seed.map(|seed| seed.0),
            ..self.clone()
        }
    }

    pub(super) fn given_seed(&self) -> Option<Seed> {
        self.seed.map(Seed)
    }

    /// How long, where that was said.
    pub(super) fn length(&self) -> Option<Nanos> {
        self.length
    }

    pub(super) fn warmup(&self) -> Nanos {
        self.warmup.unwrap_or(WARMUP)
    }

    /// After how long nothing more begins, where that was said.
    pub(super) fn budget(&self) -> Option<Nanos> {
        self.budget
    }

    /// Trial settings that a design of blocks has to keep to, with these blocks and systems.
    pub(super) fn given(&self, blocks: Option<u32>, systems: usize) -> GivenTrials {
        GivenTrials {
            blocks,
            length: self.length,
            warmup: self.warmup,
            budget: self.budget,
            systems,
        }
    }

    /// The seed that was given, or a new one.
    pub(super) fn seed(&self) -> Seed {
        Seed(self.seed.unwrap_or_else(drawn_seed))
    }
}

/// A number that nobody chose.
pub(super) fn drawn_seed() -> u64 {
    let now = jiff::Timestamp::now().as_nanosecond();
    // Any 32 bits do; a short number is easier to type again.
    u64::try_from(now.rem_euclid(1 << 32)).unwrap_or(0)
}

/// Campaign options beyond the targets and workloads of a command line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CampaignChoice<'a> {
    /// The workloads of a campaign file.
    pub(super) variants: &'a [WorkloadVariant],
    /// That file.
    pub(super) file: Option<&'a Path>,
    /// Whether systems come in rows of Williams squares.
    pub(super) balanced: bool,
    /// Whether each workload is played in both loops at one throughput.
    pub(super) closed_and_open: bool,
}

/// Options that `run` and `compare` measure with.
#[derive(Debug)]
pub(super) struct MeasureOptions<'a> {
    pub(super) targets: &'a [String],
    pub(super) workloads: &'a [String],
    pub(super) control: bool,
    pub(super) blocks: u32,
    /// Faults that are injected, each in trials of its own.
    pub(super) inject: Vec<FaultInjection>,
    /// Conditions of the systems, each in trials of its own.
    pub(super) conditions: Vec<StackCondition>,
    /// The load line that is searched instead of comparing in blocks.
    pub(super) load_line: Option<LoadLineGoal>,
    pub(super) whole: bool,
    pub(super) timing: &'a TrialTimingArgs,
    pub(super) shape: &'a StackOptionArgs,
    pub(super) source: &'a ClientLoadArgs,
    pub(super) consent: DestroyConsent,
    pub(super) policy: VerdictPolicy,
    /// How blocks are designed and end.
    pub(super) design: BlockDesignChoice,
    pub(super) campaign: CampaignChoice<'a>,
    /// Conditioning of the systems before the first block, and the bytes that end a trial.
    pub(super) conditioning: ConditioningChoice,
    pub(super) output: Option<&'a Path>,
    pub(super) json: bool,
    pub(super) dry_run: bool,
    /// Leave the page, and print nothing of the results: they are a part of something.
    pub(super) quiet: bool,
    /// Layers that each target adds to the one before it; empty unless they are a ladder.
    pub(super) ladder: &'a [String],
}

/// The results of a run that is over; an exit code where there is nothing more to be said of it: after a dry
/// run, and where the user stopped it.
pub(super) type MeasureResult = ControlFlow<ExitCode, RunFolderContents>;

/// Does it, prints the results, leaves the report in the run folder.
///
/// # Errors
/// Also when something was lost, aborted or left behind: what was measured is printed all the same.
pub(super) fn measure(job: &MeasureOptions<'_>) -> Result<MeasureResult, CliError> {
    let targets: Vec<TargetSpec> = job
        .targets
        .iter()
        .map(|text| match job.source.is_here() {
            true => TargetSpec::parse(text),
            false => TargetSpec::parse_on_nodes(text),
        })
        .collect::<Result<_, _>>()?;
    let asked = asked::requests(job)?;
    let trust = job.shape.trust();
    trust.check_stacks(targets.iter().filter_map(TargetSpec::stack), job.dry_run)?;
    asked::check_asked(job, &targets, &asked)?;
    let id = run_id::run_id();
    let mut settings = settings(job, &id)?;
    campaign::check_asked_under_faults(&asked, &targets, &settings)?;
    let state = context::state_dir()?;
    let options = job.shape.options(&state)?;
    let stop = context::stop_flag()?;
    if let (Some(request), true) = (job.source.fleet()?, job.dry_run) {
        terminal::print(&load_source::carried_as(&request, &id)?);
        return Ok(ControlFlow::Break(ExitCode::SUCCESS));
    }
    let load = job.source.loaders(&options, &id, &stop)?;
    let mut arms = ArmSet::named(
        job.targets,
        &targets,
        job.control,
        options,
        context::nodes(),
    )
    .loaded_by(load)
    .shared(job.timing.shared);
    arms.check(&asked, &job.consent)?;
    let folder = job.output.map_or_else(
        || PathBuf::from("plimsoll-results").join(&id),
        Path::to_path_buf,
    );
    let before = interrupted(&folder)?;
    if let Some(before) = &before {
        settings.seed = job.timing.given_seed().unwrap_or(before.manifest.seed);
        resume::check(job, &arms, (&asked, &settings), (&before.manifest, &folder))?;
        terminal::say(&resume::resuming(before, &folder));
    }
    if job.dry_run {
        plan::show_plan(job, &arms, &asked, &settings, &id);
        return Ok(ControlFlow::Break(ExitCode::SUCCESS));
    }
    // A run that was killed while its stacks came up has no folder yet, and is in the way all the same.
    clear(&state)?;
    let key = QuitKey::watch(&stop);
    let outcome = arms
        .raise(&id, &state, &asked, &job.consent, &stop)
        .and_then(|()| {
            let (kept, order) = ((&*folder, before.as_ref()), (&*asked, &mut settings));
            play(job, &arms, order, &id, kept, (&stop, &key))
        });
    // Results measured until the key was pressed are an answer like any other.
    let is_stopped = stop.load(Ordering::Relaxed) && !key.was_pressed();
    drop(key);
    let left = arms.lower(&state);
    ended::ended(job, outcome, &left, (&folder, is_stopped))
}

/// Removes what killed runs left. What cannot be removed may be of another one, and is only told.
fn clear(state: &StateDir) -> Result<(), CliError> {
    let RazeSummary {
        undone,
        journals,
        left,
        ..
    } = raze_dead_runs(state, &mut context::nodes())?;
    if journals > 0 {
        terminal::say(&format!(
            "removed first what killed runs left: {undone} steps of {journals} journals undone"
        ));
    }
    for problem in left {
        terminal::say(&format!("note: {problem}"));
    }
    Ok(())
}

fn settings(job: &MeasureOptions<'_>, id: &str) -> Result<CampaignOptions, CliError> {
    let timing = job.timing;
    if let Some(length) = timing.length.filter(|length| *length < LENGTH_MIN) {
        return Err(CliError::invalid(format!(
            "invalid value '{length}' for --for: expected at least 100 ms"
        )));
    }
    if timing.prove_client && !job.source.is_here() {
        return Err(CliError::invalid(
            "use --prove-client: with --clients the load comes from other machines",
        )
        .hint("leave out --clients, and run it on one of them"));
    }
    let seed = timing.seed();
    let pilot = job.design.goal.as_ref();
    Ok(CampaignOptions {
        client_cpus: match timing.prove_client {
            true => campaign::other_client_cpus(),
            false => Vec::new(),
        },
        inject: job.inject.clone(),
        conditions: job.conditions.clone(),
        load_line: job.load_line.clone(),
        settle: true,
        budget: timing.budget.map(TimeBudget::new),
        seed,
        data_check: timing.data_check(),
        // Stamps that an earlier run with the same seed left must not pass for those of this run.
        stamp_seed: seed.derive(&format!("stamps {id}"), 0),
        policy: VerdictPolicy {
            stopping: job.design.rule,
            ..job.policy
        },
        blocks: pilot.map_or(job.blocks, |_| campaign::PILOT_BLOCKS),
        length: pilot.map_or(timing.length, |_| {
            Some(campaign::PILOT_LENGTH.max(timing.length.unwrap_or_default()))
        }),
        warmup: timing.warmup.unwrap_or(WARMUP),
        design: pilot.cloned(),
        conditioning: job.conditioning.goal(timing.warmup.is_some()),
        bytes: job.conditioning.bytes,
        whole: job.whole,
        verify: !timing.no_verify,
        engine: timing.engine,
        record: !timing.no_record,
    })
}

/// How verdicts are reached with this margin.
pub(super) fn policy(margin: f64) -> Result<VerdictPolicy, CliError> {
    if !(margin > 0.0 && margin < 1.0) {
        return Err(CliError::invalid(format!(
            "invalid value '{margin}' for --margin: expected a fraction between 0 and 1, \
             such as 0.05"
        )));
    }
    Ok(VerdictPolicy {
        margin,
        ..VerdictPolicy::default()
    })
}

/// Settings for self-tests alone, of which only the seed matters.
pub(super) fn proof_settings(id: &str) -> CampaignOptions {
    let seed = Seed(0).derive(id, 0);
    CampaignOptions {
        client_cpus: Vec::new(),
        inject: Vec::new(),
        conditions: Vec::new(),
        load_line: None,
        settle: true,
        budget: None,
        seed,
        stamp_seed: seed,
        policy: VerdictPolicy::default(),
        blocks: 1,
        length: None,
        warmup: Nanos(0),
        design: None,
        conditioning: ConditioningGoal::default(),
        bytes: None,
        whole: false,
        verify: true,
        data_check: DataCheck::Off,
        engine: EngineChoice::Auto,
        record: false,
    }
}

/// Settings that decide what is measured: a run goes on with the same ones only.
fn run_settings(
    job: &MeasureOptions<'_>,
    settings: &CampaignOptions,
    arms: &ArmSet,
) -> RunSettings {
    RunSettings {
        engine: word(&ENGINES, settings.engine).unwrap_or_default(),
        warmup: settings.warmup,
        full_replay: settings.whole,
        verify: settings.verify,
        verify_data: word(&DATA_CHECKS, settings.data_check),
        clients: job.source.clients(),
        stacks: (arms.has_stacks() || !job.source.is_here()).then(|| job.shape.settings()),
    }
}

/// The manifest of what this command is about to do.
fn planned(
    job: &MeasureOptions<'_>,
    arms: &ArmSet,
    entries: Vec<WorkloadEntry>,
    settings: &CampaignOptions,
    id: &str,
) -> RunManifest {
    RunManifest {
        ladder: job.ladder.to_vec(),
        design: job.design.design.clone(),
        balanced: job.campaign.balanced,
        settings: Some(run_settings(job, settings, arms)),
        ..campaign::manifest(id, arms, entries, settings)
    }
}

fn play(
    job: &MeasureOptions<'_>,
    arms: &ArmSet,
    (asked, settings): (&[WorkloadRequest], &mut CampaignOptions),
    id: &str,
    (folder, before): (&Path, Option<&RunFolderContents>),
    (stop, key): (&AtomicBool, &QuitKey),
) -> Result<CampaignResult, CliError> {
    if let Some(before) = before {
        resume::check_places(arms, &before.manifest)?;
    }
    campaign::check_shapes(arms, asked, settings)?;
    let mut notes = arms.notes(asked);
    // Where systems are held against each other, each must have all faults.
    let leave_out = job.targets.len() > 1 && !job.control;
    notes.extend(campaign::check_faults(arms, settings, leave_out)?);
    // In virtual time nobody is in the way.
    let mut targets = arms.probed().flat_map(|(_, target)| target.targets());
    if targets.any(|target| target.is_in_real_time()) {
        notes.extend(campaign::busy_now());
    }
    if settings.verify {
        let proved = campaign::prove(arms, id, settings, SelfTestDepth::Quick, stop)?;
        campaign::refuse_failed(&proved)?;
        notes.extend(campaign::unseen(&proved));
    }
    let manifest = match before {
        // It is the plan of this command, with what was found since.
        Some(before) => before.manifest.clone(),
        None => {
            let resolve = match job.campaign.closed_and_open {
                true => campaign::twin_entries,
                false => campaign::entries,
            };
            let entries = resolve(asked, arms, settings, stop, &mut notes)?;
            planned(job, arms, entries, settings, id)
        }
    };
    let progress = job.timing.progress.resolved(job.json);
    if !job.json && progress != ProgressMode::Json {
        arms.lines().iter().for_each(|line| terminal::say(line));
        terminal::say(&plan::announcement(&manifest, folder));
        if key.is_there() && progress != ProgressMode::Screen {
            terminal::say("press q to end the run and report what was measured");
        }
    }
    let whole = before.map(resume::whole_trials);
    notes.extend(whole.as_ref().map(|whole| RunWarning {
        about: String::new(),
        text: format!(
            "the run was interrupted and resumed after {}; what the machine did between is not known",
            resume::trials_done(&manifest, whole.len())
        ),
    }));
    let done = whole.as_ref().map_or(0, |whole| whole.len() as u64);
    let mut screen = RunProgress::new(&manifest, done, progress, key.is_there());
    let resumed = (&manifest, whole.as_deref());
    campaign::carry_out(resumed, arms, settings, &notes, folder, stop, &mut screen)
}
