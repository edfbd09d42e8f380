// SPDX-License-Identifier: Apache-2.0
//! `plimsoll check`: in minutes and without options, how storage is made, how long a synced write takes, and
//! which well-known uses it fits.

mod neighbours;

use super::measure::{RunAttempt, RunAttemptArgs, RunEnder, measure};
use super::trust::TrustArgs;
use neighbours::{DiskNeighbours, DiskWatch};
use plimsoll_agent::run_id;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_console::terminal;
use plimsoll_core::campaign::{CampaignLoadLine, CampaignOrder, CampaignSpec};
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::target::TargetFacts;
use plimsoll_core::units::Nanos;
use plimsoll_core::written::{WrittenTexts, WrittenTime};
use plimsoll_machine::host::{SystemClock, facts};
use plimsoll_stats::load_line::{LoadLineFit, arm_load_lines};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

/// The uses that are asked about, with data that slow storage lays out in its time.
const USES: [&str; 4] = [
    "etcd",
    "postgres-wal",
    "vm-boot,size=256MiB",
    "mail,size=256MiB",
];
/// Time of each path, from the start of the command.
const TIME_EACH: Nanos = Nanos(300 * Nanos::SECOND.0);
/// Time beyond that of a check in which it must end: what it is doing then is cut off.
const GRACE: Nanos = Nanos(30 * Nanos::SECOND.0);
/// Time for which a load is held that the storage carries.
const HELD: Nanos = Nanos(10 * Nanos::SECOND.0);
/// Smallest and largest multiple of a use's load.
const MULTIPLES: (f64, f64) = (0.25, 8.0);
/// Width at which a search ends: head-room is wanted to a fifth.
const WIDTH: f64 = 0.2;
/// Share of a file system that stays free.
const KEEP_FREE: f64 = 0.1;

/// Report in 5 minutes which uses storage fits, and how safe it is.
///
/// Each path is a directory. In it, plimsoll plays the loads of etcd, a PostgreSQL log, virtual
/// machines and a mail server at several multiples, and reports the largest multiple that the
/// storage sustains. The command does not require root. It keeps a tenth of the file system free,
/// removes its files, and ends early if it slows down requests of other programs on the same disk.
#[derive(Debug, clap::Args)]
#[command(mut_arg("budget", |arg| arg
    .help("Start no further trial after TIME (default: 5m for each path)")
    .long_help("Start no further trial after TIME (default: 5m for each path)")))]
#[command(after_help = "Examples:
  plimsoll check
  plimsoll check /var/lib/postgresql
  plimsoll check /mnt/a /mnt/b
  plimsoll check --use etcd,iops=500 --use postgres-wal,commits=400 /mnt/a
  plimsoll check --read-only /srv

For a longer and more certain test of one use, run plimsoll fit-for.
Exit code 11 if no use was decided.")]
pub(super) struct CheckArgs {
    /// Directories to check. With several, each use is compared between them.
    #[arg(default_value = ".", value_name = "PATH")]
    paths: Vec<String>,
    /// Check this use instead of the default ones. May be repeated.
    ///
    /// plimsoll fit-for --list lists all uses.
    #[arg(long = "use", value_name = "USE")]
    uses: Vec<String>,
    /// Create no files and no load; watch for ten seconds how other programs use the disks.
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    attempt: RunAttemptArgs,
}

impl CheckArgs {
    fn campaign(&self) -> CampaignSpec {
        let uses = match self.uses.is_empty() {
            true => USES.map(String::from).to_vec(),
            false => self.uses.clone(),
        };
        let mut spec = CampaignSpec {
            control: false,
            order: CampaignOrder::Random,
            target: self.paths.iter().map(Into::into).collect(),
            load_line: Some(CampaignLoadLine {
                limits: Vec::new(),
                from: MULTIPLES.0,
                to: MULTIPLES.1,
                width: WIDTH,
                budget: Some(WrittenTime(time_of(self))),
                costs: BTreeMap::new(),
                requirement: WrittenTexts(uses),
            }),
            ..CampaignSpec::default()
        };
        spec.trial.length = Some(WrittenTime(HELD));
        spec
    }
}

pub(super) fn main(args: &CheckArgs) -> CliResult {
    let storage: Vec<TargetFacts> = args
        .paths
        .iter()
        .map(|path| facts_of(path))
        .collect::<Result<_, _>>()?;
    if args.attempt.dry_run || args.attempt.save.is_some() {
        let trust = TrustArgs::default();
        return Ok(exit_code(measure(
            &args.campaign(),
            &attempt(args, &trust, None),
        )?));
    }
    let clock = SystemClock::default();
    let neighbours = DiskNeighbours::look(&storage, args.read_only, &clock);
    if args.read_only {
        terminal::print(&described(&storage, &neighbours));
        return Ok(ExitCode::SUCCESS);
    }
    terminal::say(&described(&storage, &neighbours));
    let ender = RunEnder::new()?;
    let trust = TrustArgs::default();
    let watch = DiskWatch::of(neighbours, time_of(args) + GRACE);
    let folder = args.attempt.output.clone();
    let folder = folder.unwrap_or_else(|| super::defaults::results_folder(run_id::run_id()));
    let measured = watch.during(&ender, &clock, || {
        let attempt = RunAttempt {
            output: Some(folder.clone()),
            ..attempt(args, &trust, Some(&ender))
        };
        measure(&args.campaign(), &attempt)
    });
    let reason = watch.reason();
    if let Some(why) = &reason {
        terminal::say(why);
    }
    let measured = match measured {
        // Ended before its first trial was: nothing is known, and nothing went wrong.
        Err(failure) if reason.is_some() && failure.code == CliExitCode::Interrupted => {
            return Ok(CliExitCode::Inconclusive.into());
        }
        measured => measured?,
    };
    if let (ControlFlow::Continue(results), false) = (&measured, args.attempt.json) {
        show(results, &folder);
    }
    Ok(exit_code(measured))
}

/// From the start of the command until no further trial begins.
fn time_of(args: &CheckArgs) -> Nanos {
    let whole = Nanos(TIME_EACH.0 * args.paths.len() as u64);
    args.attempt.budget.unwrap_or(whole)
}

fn attempt<'a>(
    args: &'a CheckArgs,
    trust: &'a TrustArgs,
    ender: Option<&'a RunEnder>,
) -> RunAttempt<'a> {
    RunAttempt {
        budget: Some(time_of(args)),
        keep_free: KEEP_FREE,
        quiet: !args.attempt.json,
        ender,
        ..args.attempt.attempt(trust)
    }
}

fn facts_of(path: &str) -> Result<TargetFacts, CliError> {
    if !Path::new(path).is_dir() {
        let text = format!("check {path}: it is no directory");
        return Err(CliError::invalid(text)
            .hint("plimsoll fit-for and plimsoll loadline take devices, stacks and exports, too"));
    }
    facts::target(Path::new(path)).map_err(doing(CliExitCode::Failed, format!("look at {path}")))
}

/// The storage of each path, and what others do there now.
fn described(storage: &[TargetFacts], neighbours: &DiskNeighbours) -> String {
    let line = |one: &TargetFacts| {
        let cache = match one.write_cache.as_str() {
            "" => String::new(),
            cache => format!(", disk cache {cache}"),
        };
        let use_of_it = match one.memory() {
            Some(_) => "in memory".to_owned(),
            None => neighbours.describe(&one.disks),
        };
        format!("{}: {}{cache}; {use_of_it}", one.path, one.line())
    };
    storage.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The first screen, and where the page is.
fn show(results: &RunFolderContents, folder: &Path) {
    let report = plimsoll_report::build(results);
    let (width, colour) = (terminal::width(), terminal::colour());
    terminal::print_coloured(&plimsoll_report::terminal(&report, width, colour, true));
    let page = folder.join("report.html");
    terminal::print(&format!("Report: {}", page.display()));
}

/// 11 where no use of any path was judged.
fn exit_code(measured: ControlFlow<ExitCode, RunFolderContents>) -> ExitCode {
    let results = match measured {
        ControlFlow::Continue(results) => results,
        ControlFlow::Break(code) => return code,
    };
    let lines = arm_load_lines(&results.manifest, &results.trials);
    let is_told = lines
        .iter()
        .any(|line| LoadLineFit::of(line) != LoadLineFit::CannotTell);
    match is_told {
        true => ExitCode::SUCCESS,
        false => CliExitCode::Inconclusive.into(),
    }
}
