// SPDX-License-Identifier: Apache-2.0
//! Steps of `run` and `compare`: from arguments to a run folder, its report and its cleaning up.

mod args;
mod asked;
mod conditioning;
pub(in crate::cli) mod ended;
mod goal;
mod load_source;
mod plan;
mod resume;
mod save;

pub(super) use args::{
    DestroyArgs, RunAttempt, RunAttemptArgs, RunEnder, TrialTimingArgs, named_targets,
};
pub(super) use asked::asked;
pub(super) use conditioning::{ConditioningArgs, PreconditionArgs};
pub(super) use load_source::ClientLoadArgs;
pub(super) use resume::{differing, interrupted};
pub(super) use save::{enter_directory, kept};

use super::design::BlockDesignChoice;
use super::progress::{ProgressMode, RunProgress};
use super::quit_key::QuitKey;
use super::stack::stack_options;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plimsoll_agent::raze::{RazeSummary, raze_dead_runs};
use plimsoll_agent::run_id;
use plimsoll_console::context;
use plimsoll_console::failure::CliError;
use plimsoll_console::terminal;
use plimsoll_core::campaign::{CampaignOrder, CampaignProblem, CampaignSpec};
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::design::BlockDesign;
use plimsoll_core::event::{RunFolderContents, RunManifest, RunWarning, WorkloadEntry};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::text::enumerated;
use plimsoll_core::written::{WrittenSeed, WrittenTime};
use plimsoll_lab::proofs::SelfTestDepth;
use plimsoll_machine::journal::StateDir;
use plimsoll_run::campaign::{
    self, ArmFacts, ArmRequest, ArmSet, CampaignOptions, CampaignResult, ConditioningGoal,
    TimeBudget,
};
use plimsoll_run::campaign_file::{CampaignFile, refuse_problems};
use plimsoll_run::request::WorkloadRequest;
use plimsoll_run::targets::{self, LoadOrigin, RaiseRequest, TargetBench, TargetKind};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// A seed for runs without --seed, taken from the clock.
pub(super) fn drawn_seed() -> u64 {
    let now = jiff::Timestamp::now().as_nanosecond();
    // Any 32 bits do; a short number is easier to type again.
    u64::try_from(now.rem_euclid(1 << 32)).unwrap_or(0)
}

/// A campaign with its words read: everything that is measured, before anything is made.
pub(super) struct CampaignMeasurement<'a> {
    spec: CampaignSpec,
    attempt: &'a RunAttempt<'a>,
    /// The systems, as on the command line.
    given: Vec<String>,
    /// Their names in reports, where they were given.
    names: Vec<Option<String>>,
    targets: Vec<Rc<dyn TargetKind>>,
    asked: Vec<WorkloadRequest>,
    design: BlockDesignChoice,
}

impl<'a> CampaignMeasurement<'a> {
    /// Checks a campaign by its rules, and reads the words of its systems and workloads.
    fn of(spec: &CampaignSpec, attempt: &'a RunAttempt<'a>) -> Result<Self, CliError> {
        let mut spec = spec.clone();
        let budget = attempt.budget.map(WrittenTime);
        if let Some(design) = &mut spec.design {
            design.budget = budget.or(design.budget);
        }
        if let Some(line) = &mut spec.load_line {
            line.budget = budget.or(line.budget);
        }
        let file = attempt.file.as_ref();
        let words = |problem: &CampaignProblem| match file {
            Some(file) => file.words(problem),
            None => problem.words(&option_of),
        };
        refuse_problems(&spec.problems(), &words)?;
        if spec.build.is_some() {
            let text = "a campaign with [build] is for plimsoll gate, which compares two builds";
            return Err(
                CliError::invalid(text).hint("plimsoll gate --campaign FILE --against REFERENCE")
            );
        }
        if let Some(line) = &spec.load_line
            && spec.workload.is_empty()
        {
            spec.workload = line.requirement.0.iter().map(Into::into).collect();
        }
        let origin = match spec.clients {
            None => LoadOrigin::Here,
            Some(_) => LoadOrigin::Nodes,
        };
        let (mut given, mut names) = (Vec::new(), Vec::new());
        let mut targets = Vec::new();
        for (at, target) in spec.target.iter().enumerate() {
            for text in target.texts() {
                let place = |failure| match file {
                    Some(file) => file.place(&format!("target[{at}].target")).about(&failure),
                    None => failure,
                };
                targets.push(targets::read(&text, origin).map_err(place)?);
                given.push(text);
                names.push(target.name.clone());
            }
        }
        let asked = asked::requests(&spec, attempt)?;
        let design = BlockDesignChoice::of(&spec);
        Ok(CampaignMeasurement {
            spec,
            attempt,
            given,
            names,
            targets,
            asked,
            design,
        })
    }

    /// Whether the systems of a block come in balanced orders.
    fn is_balanced(&self) -> bool {
        self.spec.order == CampaignOrder::Balanced
    }
}

/// Options by the keys of a campaign, where they are not called alike.
const OPTIONS: [(&str, &str); 16] = [
    ("load_line.limits", "--slo"),
    ("load_line.from", "--min"),
    ("load_line.to", "--max"),
    ("trial.limits", "--slo"),
    ("trial.verify_data", "--check-data"),
    ("faults.inject", "--fault"),
    ("faults.duration", "--fault-duration"),
    ("faults.observers", "--observer"),
    ("load_line.costs", "--cost"),
    ("trial.verify", "--no-self-test"),
    ("trial.record", "--no-record"),
    ("clients.on", "--clients"),
    ("clients.lose", "--lose-clients"),
    ("design", "--effect and --stop"),
    ("target", "the targets"),
    ("workload", "--workload"),
];

/// How the command line calls a key.
fn option_of(key: &str) -> String {
    let key = key.split('[').next().unwrap_or(key);
    let known = OPTIONS.iter().find(|(known, _)| *known == key);
    let last = || key.rsplit('.').next().unwrap_or(key).replace('_', "-");
    known.map_or_else(
        || format!("--{}", last()),
        |(_, option)| (*option).to_owned(),
    )
}

/// The results of a run that is over; an exit code where there is nothing more to be said of it: after a dry
/// run, and where the user stopped it.
pub(super) type MeasureResult = ControlFlow<ExitCode, RunFolderContents>;

/// Carries a campaign out, prints the results, leaves the report in the run folder.
///
/// # Errors
/// Also when something was lost, aborted or left behind: what was measured is printed all the same.
pub(super) fn measure(
    spec: &CampaignSpec,
    attempt: &RunAttempt<'_>,
) -> Result<MeasureResult, CliError> {
    let job = &CampaignMeasurement::of(spec, attempt)?;
    let dry_run = attempt.dry_run;
    let stacks = job.targets.iter().filter_map(|target| target.stack());
    attempt.trust.check_stacks(stacks, dry_run)?;
    asked::check_asked(job)?;
    if let Some(file) = attempt.save {
        return save::save(&job.spec, file, dry_run);
    }
    let id = run_id::run_id();
    let mut settings = settings(job, &id);
    campaign::check_asked_under_faults(&job.asked, &job.targets, &settings)?;
    let state = context::state_dir()?;
    let options = stack_options(&job.spec.stacks, &state)?;
    campaign::check_power_cuts(&job.targets, &settings, &options, &state)?;
    let stop = match attempt.ender {
        Some(ender) => Arc::clone(&ender.stop),
        None => context::stop_flag()?,
    };
    let clients = job.spec.clients.as_ref();
    if let (Some(request), true) = (load_source::fleet(clients)?, dry_run) {
        terminal::print(&load_source::carried_as(&request, &id)?);
        return Ok(ControlFlow::Break(ExitCode::SUCCESS));
    }
    // Hosts of a fleet are there until this is dropped: after all has been undone on them.
    let load = Rc::new(attempt.source.loaders(clients, &options, &id, &stop)?);
    let mut bench = TargetBench::new(context::nodes(), options).shared(attempt.shared);
    let request = ArmRequest {
        given: &job.given,
        names: &job.names,
        targets: &job.targets,
        control: job.spec.control,
        asked: &job.asked,
        consent: &attempt.consent,
        keep_free: attempt.keep_free,
    };
    let arms = request.resolve(&load, &mut bench)?;
    let usual = || super::defaults::results_folder(&id);
    let folder = attempt.output.clone().unwrap_or_else(usual);
    let before = interrupted(&folder)?;
    if let Some(before) = &before {
        // Another user's folder could be led elsewhere while it is written.
        let doing = format!("go on with the run in {}", folder.display());
        targets::check_place(&doing, &folder)?;
        if job.spec.seed.is_none() {
            settings.seed = before.manifest.seed;
        }
        resume::check(job, &arms, &settings, (&before.manifest, &folder))?;
        terminal::say(&resume::resuming(before, &folder));
    }
    if dry_run {
        plan::show_plan(job, &arms, &settings, &id);
        return Ok(ControlFlow::Break(ExitCode::SUCCESS));
    }
    // A run that was killed while its stacks came up has no folder yet, and is in the way all the same.
    clear(&state)?;
    let key = QuitKey::watch(&stop);
    let request = RaiseRequest {
        id: &id,
        state: &state,
        asked: &job.asked,
        consent: &attempt.consent,
        stop: &stop,
    };
    let outcome = arms.raise(&mut bench, &request).and_then(|arms| {
        let kept = (&*folder, before.as_ref());
        play(job, &arms, &mut settings, &id, kept, (&stop, &key))
    });
    // Results measured until the key was pressed are an answer like any other.
    let was_ended = key.was_pressed() || attempt.ender.is_some_and(RunEnder::was_used);
    let is_stopped = stop.load(Ordering::Relaxed) && !was_ended;
    drop(key);
    let left = bench.lower(&state);
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

/// Options of all trials of a campaign.
fn settings(job: &CampaignMeasurement<'_>, id: &str) -> CampaignOptions {
    let (spec, trial) = (&job.spec, &job.spec.trial);
    let seed = spec.seed.as_ref().and_then(WrittenSeed::number);
    let seed = Seed(seed.unwrap_or_else(drawn_seed));
    let (length, warmup) = (
        trial.length.map(|time| time.0),
        trial.warmup.map(|time| time.0),
    );
    let pilot = job.design.goal.as_ref();
    let budget = match &spec.load_line {
        Some(line) => line.budget,
        None => spec.design.and_then(|design| design.budget),
    };
    let budget = job.attempt.budget.or(budget.map(|time| time.0));
    CampaignOptions {
        client_cpus: match trial.prove_client {
            true => campaign::other_client_cpus(),
            false => Vec::new(),
        },
        inject: spec.injections(),
        conditions: spec.conditions(),
        settle: true,
        budget: budget.map(TimeBudget::new),
        seed,
        data_check: trial.verify_data,
        // Stamps that an earlier run with the same seed left must not pass for those of this run.
        stamp_seed: seed.derive(&format!("stamps {id}"), 0),
        policy: spec.policy(),
        blocks: pilot.map_or(spec.blocks(), |_| BlockDesign::PILOT_BLOCKS),
        length: pilot.map_or(length, |_| {
            Some(campaign::PILOT_LENGTH.max(length.unwrap_or_default()))
        }),
        warmup,
        design: pilot.cloned(),
        conditioning: ConditioningGoal {
            passes: spec.conditioning.precondition,
            steady_within: spec.conditioning.steady.map(|time| time.0),
            keeps_warmup: warmup.is_some(),
        },
        bytes: trial.bytes.map(|size| size.0),
        whole: trial.full_replay,
        verify: trial.verify,
        engine: trial.engine,
        record: trial.record,
    }
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

/// The manifest of what is about to be done.
fn planned(
    job: &CampaignMeasurement<'_>,
    arms: ArmFacts,
    entries: Vec<WorkloadEntry>,
    settings: &CampaignOptions,
    id: &str,
) -> RunManifest {
    RunManifest {
        ladder: job.spec.ladder.clone(),
        design: job.design.design.clone(),
        balanced: job.is_balanced(),
        campaign: Some(save::in_directory(&job.spec)),
        ..campaign::manifest(id, arms, entries, settings)
    }
}

/// A slow system takes seconds for it, in which nothing else is printed.
fn announce_self_test(job: &CampaignMeasurement<'_>, arms: &ArmSet) {
    let systems = arms.probed().zip(&job.targets);
    let kept = systems.filter(|(_, target)| target.keeps_data());
    let names: Vec<&str> = kept.map(|((name, _), _)| name).collect();
    if !job.attempt.json && !names.is_empty() {
        let systems = enumerated(&names);
        terminal::say(&format!("self-test: writing and reading back on {systems}"));
    }
}

fn play(
    job: &CampaignMeasurement<'_>,
    arms: &ArmSet,
    settings: &mut CampaignOptions,
    id: &str,
    (folder, before): (&Path, Option<&RunFolderContents>),
    (stop, key): (&AtomicBool, &QuitKey),
) -> Result<CampaignResult, CliError> {
    let (asked, attempt) = (&job.asked[..], job.attempt);
    campaign::check_shapes(arms, asked, settings)?;
    let mut notes = arms.notes(asked);
    // Where systems are held against each other, each must have all faults.
    let leave_out = job.targets.len() > 1 && !job.spec.control;
    notes.extend(campaign::check_faults(arms, settings, leave_out)?);
    // A simulated target runs in virtual time: other programs cannot disturb it.
    let mut reach = arms.probed().flat_map(|(_, target)| target.reach());
    if reach.any(NodeTarget::is_in_real_time) {
        notes.extend(campaign::busy_now());
    }
    if settings.verify {
        announce_self_test(job, arms);
        let proved = campaign::prove(arms, id, settings.seed, SelfTestDepth::Quick, stop)?;
        campaign::refuse_failed(&proved)?;
        notes.extend(campaign::unseen(&proved));
    }
    let manifest = match before {
        // It is the plan of this command, with what was found since.
        Some(before) => before.manifest.clone(),
        None => {
            let resolve = match job.spec.closed_and_open {
                true => campaign::twin_entries,
                false => campaign::entries,
            };
            let entries = resolve(asked, arms, settings, stop, &mut notes)?;
            let mut manifest = planned(job, arms.facts(), entries, settings, id);
            if attempt
                .file
                .as_ref()
                .is_some_and(CampaignFile::is_standard_input)
            {
                // Standard input cannot be read again, so the command names the folder, which has the
                // campaign.
                let folder = folder.display().to_string();
                manifest.command = ["plimsoll".into(), "run".into(), folder].into();
            }
            manifest
        }
    };
    let progress = attempt.progress.resolved(attempt.json);
    if !attempt.json && progress != ProgressMode::Json {
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
