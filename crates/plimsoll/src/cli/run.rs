// SPDX-License-Identifier: Apache-2.0
//! `plimsoll run`: one workload on one target.

use super::loadline::limit;
use super::measure::{
    ClientLoadArgs, ConditioningArgs, DestroyArgs, RunAttempt, RunAttemptArgs, TrialTimingArgs,
    drawn_seed, enter_directory, kept, measure,
};
use super::stack::StackOptionArgs;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, failed};
use plimsoll_core::campaign::{CampaignOrder, CampaignSpec};
use plimsoll_core::load_line::SloVerdict;
use plimsoll_core::rng::Seed;
use plimsoll_run::campaign_file::CampaignFile;
use plimsoll_run::trust::STANDARD_INPUT;
use plimsoll_stats::slo::slo_results;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Run one workload on one target and report the results.
///
/// WORKLOAD is one of: a name (see `plimsoll workloads`), with settings after commas or in the
/// options of the original program; a file, which is a model made by `plimsoll fit`, a fio job
/// (.fio) or a filebench script (.f); an original program before a colon, such as `fio:FILE`.
/// `@FACTOR` after a model multiplies its rates.
///
/// TARGET is a directory, a new file (`file:PATH`), a block device, an existing iSCSI or NBD target
/// (`iscsi://host/target/lun`, `nbd://host/export`), an NFS export (`nfs://host/export`), the name
/// of a stack, `null` (discards everything: measures plimsoll itself) or `sim` (a simulated disk in
/// virtual time).
///
/// A campaign file (as --save of the measuring commands writes it) or a run folder replaces
/// WORKLOAD and TARGET. The command runs the campaign; an interrupted run folder is resumed. `-`
/// reads a campaign from standard input. Options of the command line override the campaign.
///
/// With --trace-ops the command prints the operations of the workload and runs nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll run varmail,nfiles=50000 /mnt/a
  plimsoll run 'bonnie++ -s 4g -n 16 -r 0' /mnt/a
  plimsoll run nas.toml@10 /mnt/a --for 30s
  plimsoll run nas.toml /mnt/a --slo 'p99 < 20ms' --slo 'errors < 0.1%'
  plimsoll run nas.toml sim --full-replay
  plimsoll run campaign.toml -o results/monday
  plimsoll run varmail,nthreads=1 --trace-ops 13")]
pub(super) struct RunArgs {
    /// Workload to run, or a campaign file (-: standard input) or run folder.
    workload: String,
    /// Target to run on. Campaigns and --trace-ops take no target.
    target: Option<String>,
    /// Limit that the run must keep, such as `p99 < 20ms`. May be repeated.
    ///
    /// plimsoll loadline --help describes limits. The report shows pass or fail. Exit code 10 if a
    /// limit is broken, 11 if the operations are too few to decide.
    #[arg(long = "slo", value_parser = limit, value_name = "LIMIT")]
    limits: Vec<String>,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    attempt: RunAttemptArgs,
    #[command(flatten)]
    conditioning: ConditioningArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    #[command(flatten)]
    source: ClientLoadArgs,
    #[command(flatten)]
    destroy: DestroyArgs,
    /// Play the whole recording instead of a sample of it.
    ///
    /// By default a run shorter than the recording plays a sample: one-second slices of counters,
    /// or a stretch of requests.
    #[arg(
        long,
        conflicts_with = "length",
        help_heading = "Trials",
        hide_short_help = true
    )]
    full_replay: bool,
    /// Print the first N operations of one worker, and run nothing.
    ///
    /// Operations are printed in order, with kind, file, offset and bytes; in a series also with
    /// the phase, N operations of each phase.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX),
        conflicts_with_all = ["output", "destroy", "full_replay", "dry_run"], help_heading = "Trials", hide_short_help = true)]
    trace_ops: Option<u32>,
    /// Print intended and actual submission times of the first N operations, in nanoseconds.
    ///
    /// The first worker's block I/O is played on `null`. For tests of pacing.
    #[arg(long, hide = true, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX),
        conflicts_with_all = ["output", "destroy", "full_replay", "dry_run", "trace_ops"])]
    trace_issues: Option<u32>,
    /// Group of the traced worker, counted from 0.
    #[arg(
        long,
        value_name = "G",
        default_value_t = 0,
        requires = "trace_ops",
        help_heading = "Trials",
        hide_short_help = true
    )]
    group: u32,
    /// Number of the traced worker (thread) in its group, counted from 0.
    #[arg(
        long,
        value_name = "W",
        default_value_t = 0,
        requires = "trace_ops",
        help_heading = "Trials",
        hide_short_help = true
    )]
    worker: u32,
}

/// Most operations that are traced: they are kept until all are known.
const COUNT_MAX: i64 = 10_000_000;

impl RunArgs {
    /// One trial of the workload on the target.
    fn one_trial(&self, target: &String) -> CampaignSpec {
        CampaignSpec {
            blocks: Some(1),
            control: false,
            order: CampaignOrder::Random,
            target: vec![target.into()],
            workload: vec![(&self.workload).into()],
            ..CampaignSpec::default()
        }
    }

    /// The campaign of a file or of a run folder, in whose directory this program is then.
    fn of_file(&self) -> Result<(CampaignFile, CampaignSpec), CliError> {
        let path = &kept(Path::new(&self.workload));
        let is_toml = path
            .extension()
            .is_some_and(|extension| extension == "toml");
        let (file, spec) = match path.is_dir() {
            _ if self.workload == STANDARD_INPUT => CampaignFile::of_standard_input()?,
            true => CampaignFile::of_run(path)?,
            false if is_toml && !CampaignFile::is_workload(path) => CampaignFile::read(path)?,
            false => {
                let text = format!("run {}: no target is given", self.workload);
                let hint = "only a campaign file or a run folder has its own targets";
                return Err(CliError::usage(text).hint(hint));
            }
        };
        enter_directory(&spec)?;
        Ok((file, spec))
    }

    /// Where the run goes: one that was interrupted goes on in its folder.
    fn folder(&self) -> Result<Option<PathBuf>, CliError> {
        let own = Path::new(&self.workload);
        let is_run = self.target.is_none() && own.is_dir();
        let read = is_run.then(|| plimsoll_archive::open(own)).transpose();
        let read = read.map_err(failed(CliExitCode::Usage))?;
        let own = read.filter(|run| !run.complete).map(|_| own);
        Ok(self.attempt.output.as_deref().or(own).map(kept))
    }
}

pub(super) fn main(args: &RunArgs) -> CliResult {
    if let Some(count) = args.trace_ops {
        let who = (args.group, args.worker);
        let seed = Seed(args.timing.seed().unwrap_or_else(drawn_seed));
        return super::trace_ops::print(&args.workload, who, seed, count, args.attempt.json);
    }
    if let Some(count) = args.trace_issues {
        let seed = Seed(args.timing.seed().unwrap_or_else(drawn_seed));
        return super::trace_ops::print_issues(&args.workload, seed, count, args.attempt.json);
    }
    let output = args.folder()?;
    let save = args.attempt.save.as_deref().map(kept);
    let shape = match &args.target {
        Some(_) => args.shape.clone(),
        None => args.shape.kept(),
    };
    let (file, mut spec) = match &args.target {
        Some(target) => (None, args.one_trial(target)),
        None => {
            let (file, spec) = args.of_file()?;
            (Some(file), spec)
        }
    };
    args.timing.apply(&mut spec);
    args.conditioning.apply(&mut spec);
    shape.apply(&mut spec);
    args.source.apply(&mut spec);
    spec.trial.full_replay |= args.full_replay;
    spec.trial.limits.extend(args.limits.iter().cloned());
    let measured = measure(
        &spec,
        &RunAttempt {
            output,
            save: save.as_deref(),
            source: &args.source,
            consent: args.destroy.consent(),
            file,
            ..args.attempt.attempt(shape.trust())
        },
    )?;
    let results = match measured {
        ControlFlow::Continue(results) => results,
        ControlFlow::Break(code) => return Ok(code),
    };
    if spec
        .load_line
        .is_some_and(|line| !line.requirement.0.is_empty())
    {
        return Ok(super::fit_for::exit_code(&results));
    }
    let slos = slo_results(&results.manifest, &results.trials);
    let has = |verdict| slos.iter().any(|slo| slo.verdict == verdict);
    if has(SloVerdict::Fail) {
        return super::done(CliExitCode::Different);
    }
    if has(SloVerdict::Unknown) {
        return super::done(CliExitCode::Inconclusive);
    }
    let mut fidelity = results.trials.iter().flat_map(|trial| &trial.fidelity);
    match fidelity.any(|line| !line.passed()) {
        true => super::done(CliExitCode::Gate),
        false => Ok(std::process::ExitCode::SUCCESS),
    }
}
