// SPDX-License-Identifier: Apache-2.0
//! `plimsoll failover`: faults done to a stack under load, and what came of them.
//!
//! Manual: `docs/failover.md`.

mod matrix;

use super::stack::{StackOptionArgs, choices};
use crate::terminal;
use plimsoll_agent::context;
use plimsoll_agent::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_agent::run_id;
use plimsoll_core::failover::FailoverResult;
use plimsoll_core::fault::FaultKind;
use plimsoll_core::plan::Plan;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::{self, Nanos};
use plimsoll_lab::stacks::StackConfig;
use plimsoll_machine::host::MadeDir;
use plimsoll_machine::journal::{Journal, StateDir};
use plimsoll_machine::raise::{self, AppliedPlan};
use plimsoll_report::ReportDocument;
use plimsoll_run::campaign::{
    self, ArmSet, CampaignOptions, DestroyConsent, FailoverOptions, FailoverWitnessKind,
    SessionLoadOptions, WorkloadRequest,
};
use plimsoll_run::spec::TargetSpec;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Inject faults into a stack's servers under load; measure the outage and check that no
/// acknowledged write is lost.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Faults: kill, stop, power-cut, pause, slow, link-down, one-way, flap, partition, delay,
loss, disk-slow, disk-hung, disk-errors, disk-full, clock-step, malformed, double, fail-back.
See docs/failover.md for what each fault does and where it is possible.

Examples:
  plimsoll failover raid1 --repeat 10
  plimsoll failover 'gluster(volume=replicate)' --fault kill,link-down -o faults.html
  plimsoll failover san --on lab.toml --fault power-cut --repeat 20
  plimsoll failover raid1 ceph --fault kill,slow --repeat 5 --checkpoint-dir table --budget 2h"
)]
pub(super) struct FailoverArgs {
    /// Stack to inject faults into.
    ///
    /// A stack that is not up is brought up, and taken down at the end. Several stacks make a
    /// table: a row for each stack, a column for each fault.
    #[arg(value_name = "STACK", required = true)]
    names: Vec<String>,
    /// Faults to inject, one kind after the other.
    #[arg(long = "fault", value_name = "FAULT,...", default_value = "kill", value_delimiter = ',', value_parser = fault)]
    faults: Vec<FaultKind>,
    /// Inject each fault this many times.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Server to inject faults into, or `active`: the one that serves at that moment (default: each
    /// in turn).
    #[arg(long, value_name = "SERVER")]
    victim: Option<String>,
    /// Number of sessions that use the stack during the faults.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    sessions: u32,
    /// Reads per second of each session, and as many synced writes.
    #[arg(long, default_value_t = 100.0, value_name = "PER_S")]
    rate: f64,
    /// Background workload to run beside the sessions. May be repeated.
    #[arg(short, long = "workload", value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// Observers to run beside the sessions.
    ///
    /// `stamp` writes a line every second; `scp` copies a file again and again.
    #[arg(long = "observer", value_name = "stamp|scp,...", value_delimiter = ',', value_parser = observer)]
    observers: Vec<FailoverWitnessKind>,
    /// Load the stack with this share of its maximum instead of --rate, for example 50%.
    ///
    /// The maximum is what the sessions reach without a rate; it is measured first.
    #[arg(long = "load", value_name = "SHARE", value_parser = share, conflicts_with = "rate")]
    share: Option<f64>,
    /// Size of each read and write.
    #[arg(long = "block", default_value = "4k", value_parser = units::parse_size, value_name = "SIZE")]
    block_bytes: u64,
    /// Size of each session's file.
    #[arg(long = "file-size", default_value = "16M", value_parser = units::parse_size, value_name = "SIZE")]
    file_bytes: u64,
    /// Keep each fault for at least TIME.
    #[arg(long, default_value = "10s", value_parser = units::parse_duration, value_name = "TIME")]
    fault_duration: Nanos,
    /// Wait at most TIME for stalled sessions to recover.
    #[arg(long, default_value = "120s", value_parser = units::parse_duration, value_name = "TIME")]
    recovery_timeout: Nanos,
    /// Seed of the times at which faults are injected.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the report to an HTML file.
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Keep the ledgers in this new directory.
    #[arg(long, value_name = "DIR")]
    ledgers: Option<PathBuf>,
    /// Save each finished cell of a table in DIR, and resume from what is there.
    #[arg(long, value_name = "DIR")]
    checkpoint_dir: Option<PathBuf>,
    /// Start no further cell of a table after TIME.
    #[arg(long, value_parser = units::parse_duration, value_name = "TIME")]
    budget: Option<Nanos>,
    /// Overwrite the report file.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print what would be done; change nothing.
    #[arg(long, conflicts_with = "json")]
    dry_run: bool,
    #[command(flatten)]
    shape: StackOptionArgs,
}

pub(super) fn fault(text: &str) -> Result<FaultKind, String> {
    FaultKind::find(text).ok_or_else(|| format!("expected one of {}", FaultKind::names()))
}

fn observer(text: &str) -> Result<FailoverWitnessKind, String> {
    match text {
        "stamp" => Ok(FailoverWitnessKind::Stamp),
        "scp" => Ok(FailoverWitnessKind::Scp),
        _ => Err("expected stamp or scp".into()),
    }
}

/// Refuses rates of sessions that cannot be.
pub(super) fn check_rate(rate: f64) -> Result<(), CliError> {
    match (0.1..=RATE_MAX).contains(&rate) {
        true => Ok(()),
        false => Err(CliError::invalid(format!(
            "invalid value '{rate}' for --rate: expected a number from 0.1 to {RATE_MAX}"
        ))),
    }
}

/// Longest time that a workload is played beside the sessions: longer than any fault is looked at.
const BESIDE: Nanos = Nanos(3600 * Nanos::SECOND.0);

/// Most reads of a session a second: with as many writes, what a ledger takes.
const RATE_MAX: f64 = 50_000.0;

fn share(text: &str) -> Result<f64, String> {
    let percent = text
        .strip_suffix('%')
        .and_then(|number| number.parse().ok());
    percent
        .filter(|percent| (1.0..=100.0).contains(percent))
        .map(|percent: f64| percent / 100.0)
        .ok_or_else(|| "expected a share from 1% to 100%".into())
}

pub(super) fn main(args: &FailoverArgs) -> CliResult {
    if let Some(path) = &args.output {
        super::check_output(path, args.force)?;
    }
    let load = args.load()?;
    let asked = |text: &String| super::measure::asked(text, None);
    let beside = args.workloads.iter().map(asked);
    let beside = beside.collect::<Result<Vec<_>, _>>()?;
    let mut stacks = choices(&args.names)?;
    if args.dry_run {
        terminal::print(&args.would(&load, &stacks));
        return Ok(ExitCode::SUCCESS);
    }
    let state = context::state_dir()?;
    let bench = FailoverRunner {
        args,
        load,
        beside,
        settings: CampaignOptions {
            length: Some(BESIDE),
            ..super::measure::proof_settings("beside")
        },
        stop: context::stop_flag()?,
        ledgers: Ledgers::new(args.ledgers.clone(), &run_id::run_id(), &state)?,
        state,
    };
    if stacks.len() > 1 || args.checkpoint_dir.is_some() || args.budget.is_some() {
        return matrix::main(&bench, &stacks);
    }
    let (done, left) = bench.on_stack(&stacks.remove(0), |arms, name| {
        bench.strike(arms, name, &args.faults, &bench.ledgers.path)
    });
    let mut wrong: Vec<CliError> = super::raze::verdict(&left).err().into_iter().collect();
    let (done, ended) = match done {
        Ok((done, ended)) => (Some(done), ended),
        Err(failure) => (None, Err(failure)),
    };
    wrong.extend(ended.err());
    if let Some(done) = done.filter(|done| !done.strikes.is_empty()) {
        let told = args.tell(&plimsoll_report::failover(&done), &done);
        wrong.extend(told.err());
        if !done.kept_its_data() {
            return super::bad_data(wrong);
        }
    }
    super::worst(wrong)
}

/// What faults are done with, whichever the stack.
struct FailoverRunner<'a> {
    args: &'a FailoverArgs,
    load: SessionLoadOptions,
    /// Workloads beside the sessions, and how they are played.
    beside: Vec<WorkloadRequest>,
    settings: CampaignOptions,
    state: StateDir,
    stop: Arc<AtomicBool>,
    ledgers: Ledgers,
}

impl FailoverRunner<'_> {
    /// Does something with a stack, which is stood up for that unless it is up; also what could not be
    /// removed then.
    fn on_stack<T>(
        &self,
        choice: &StackConfig,
        work: impl FnOnce(&ArmSet, &str) -> Result<T, CliError>,
    ) -> (Result<T, CliError>, Vec<String>) {
        let name = choice.parts.to_string();
        let options = match self.args.shape.options(&self.state) {
            Ok(options) => options,
            Err(failure) => return (Err(failure), Vec::new()),
        };
        let specs = [TargetSpec::Stack(Box::new(choice.clone()))];
        let names = [name.clone()];
        let mut arms = ArmSet::named(&names, &specs, false, options, context::nodes());
        let id = run_id::run_id();
        let done = arms
            .raise(
                &id,
                &self.state,
                &[],
                &DestroyConsent::default(),
                &self.stop,
            )
            .and_then(|()| {
                for (name, text) in arms.degraded() {
                    terminal::say(&format!("{name}: {text}"));
                }
                work(&arms, &name)
            });
        (done, arms.lower(&self.state))
    }

    /// Does faults of these kinds to a stack that is up, its ledgers in a directory.
    fn strike(
        &self,
        arms: &ArmSet,
        name: &str,
        faults: &[FaultKind],
        ledgers: &Path,
    ) -> Result<(FailoverResult, Result<(), CliError>), CliError> {
        let wanted = FailoverOptions {
            name,
            faults,
            repeat: self.args.repeat,
            victim: self.args.victim.as_deref(),
            load: self.load,
            share: self.args.share,
            beside: &self.beside,
            settings: &self.settings,
            witnesses: &self.args.observers,
            lasting: Duration::from_nanos(self.args.fault_duration.0),
            patience: Duration::from_nanos(self.args.recovery_timeout.0),
            seed: Seed(self.args.seed),
            ledgers,
        };
        campaign::failover(&wanted, arms, &self.state, &self.stop, &mut terminal::say)
    }
}

impl FailoverArgs {
    fn load(&self) -> Result<SessionLoadOptions, CliError> {
        check_rate(self.rate)?;
        let block_bytes = u32::try_from(self.block_bytes)
            .ok()
            .filter(|bytes| bytes.is_power_of_two() && (4096..=1 << 20).contains(bytes))
            .ok_or_else(|| {
                CliError::invalid("--block: expected a power of two from 4 KiB to 1 MiB")
            })?;
        if self.file_bytes < 16 * self.block_bytes {
            return Err(CliError::invalid(
                "--file-size: expected at least 16 blocks",
            ));
        }
        Ok(SessionLoadOptions {
            sessions: self.sessions,
            rate: self.rate,
            block_bytes,
            file_bytes: self.file_bytes,
        })
    }

    /// What would be done, a line for each part. Which faults can be done to a stack is asked when it is up.
    fn would(&self, load: &SessionLoadOptions, stacks: &[StackConfig]) -> String {
        let victim = match self.victim.as_deref() {
            None => "each server in turn".into(),
            Some(campaign::ACTIVE) => "whichever server serves then".into(),
            Some(name) => format!("server {name}"),
        };
        let rate = match self.share {
            Some(share) => format!("{:.0} % of what it carries (measured first)", share * 100.0),
            None => format!("{} reads and as many synced writes a second", load.rate),
        };
        let time = units::clock_duration;
        let mut lines = Vec::new();
        for stack in stacks {
            let name = &stack.parts;
            lines.push(format!("{name}:"));
            lines.push(format!(
                "  raise it if it is not up, and lower it then (see: plimsoll stack up '{name}' --dry-run)"
            ));
            lines.push(format!(
                "  {} sessions, a file of {} each: {rate}",
                load.sessions,
                units::size(load.file_bytes as f64)
            ));
            for workload in &self.workloads {
                lines.push(format!("  play {workload} beside them"));
            }
            for fault in &self.faults {
                lines.push(format!(
                    "  {} times {fault}, done to {victim}: for {} at least, and {} more while sessions stand \
                     still; then read everything back",
                    self.repeat,
                    time(self.fault_duration),
                    time(self.recovery_timeout)
                ));
            }
        }
        lines.join("\n")
    }

    /// Tells what was done; what cannot be written is told all the same.
    fn tell(&self, report: &ReportDocument, done: &impl Serialize) -> Result<(), CliError> {
        let written = match &self.output {
            Some(path) => plimsoll_archive::write_result(path, plimsoll_report::html(report))
                .map_err(|error| {
                    CliError::new(
                        CliExitCode::Failed,
                        format!("write {}: {error}", path.display()),
                    )
                }),
            None => Ok(()),
        };
        if self.json {
            terminal::print_json(&serde_json::to_value(done).expect("values are plain data"));
            return written;
        }
        let text = plimsoll_report::terminal(report, terminal::width(), terminal::colour(), false);
        terminal::print_coloured(&text);
        written?;
        if let Some(path) = &self.output {
            terminal::print(&format!("Written: {}", path.display()));
        }
        Ok(())
    }
}

/// The directory of the ledgers; one that nobody asked for is removed in the end, whoever ends this
/// program: it stands in a journal.
struct Ledgers {
    path: PathBuf,
    standing: Option<AppliedPlan>,
}

impl Ledgers {
    fn new(asked: Option<PathBuf>, id: &str, state: &StateDir) -> Result<Self, CliError> {
        let Some(path) = asked else {
            return Self::passing(id, state);
        };
        super::check_directory_of(&path)?;
        super::refuse_existing(&path, false).map_err(|failure| {
            failure.hint("ledgers are kept in a directory of their own: name a new one")
        })?;
        MadeDir::make(&path).map_err(doing(
            CliExitCode::Failed,
            format!("make {}", path.display()),
        ))?;
        Ok(Ledgers {
            path,
            standing: None,
        })
    }

    /// One that goes with this.
    fn passing(id: &str, state: &StateDir) -> Result<Self, CliError> {
        const WHAT: &str = "make a directory for the ledgers";
        let path = std::env::temp_dir().join(format!("plimsoll-{id}"));
        let mut plan = Plan::default();
        plan.steps.push(campaign::directory_step(&path, WHAT)?);
        // A journal of its own: the run that follows in this second has the same number.
        let journal = Journal::create(state, run_id::run_header(&format!("{id}-ledgers")));
        let journal = journal.map_err(doing(
            CliExitCode::Failed,
            "begin the journal of the ledgers",
        ))?;
        let standing = raise::raise(&plan, None, &mut context::nodes(), journal);
        Ok(Ledgers {
            path,
            standing: Some(standing.map_err(doing(CliExitCode::Failed, WHAT))?),
        })
    }
}

impl Drop for Ledgers {
    fn drop(&mut self) {
        if let Some(standing) = self.standing.take() {
            // What cannot be removed stays in its journal, for raze.
            for problem in raise::raze(standing.journal, &mut context::nodes()).problems() {
                terminal::say(&format!("note: {problem}; try again with: plimsoll raze"));
            }
        }
    }
}
