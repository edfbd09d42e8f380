// SPDX-License-Identifier: Apache-2.0
//! `plimsoll loadline`: how many times a workload each system carries within limits.

use super::design::BlockDesignChoice;
use super::inject::condition;
use super::measure::{
    CampaignChoice, ClientLoadArgs, MeasureOptions, PreconditionArgs, TrialTimingArgs, measure,
    policy,
};
use super::stack::StackOptionArgs;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_core::failover::{StackCondition, StackConditionKind};
use plimsoll_core::load_line::{LoadLineGoal, LoadLineSlo};
use plimsoll_core::units::{self, Nanos};
use plimsoll_run::campaign::{DestroyConsent, load_line_seconds};
use plimsoll_stats::load_line::{ArmLoadLine, arm_load_lines};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

/// How long a multiple must be held, where nobody says.
const SUSTAINED: Nanos = Nanos(600 * Nanos::SECOND.0);
/// A stay has ten parts of a whole number of seconds.
const SUSTAINED_MIN: Nanos = Nanos(10 * Nanos::SECOND.0);
/// Trials near the line take a tenth of a stay, within these bounds, and those that locate it a quarter of
/// that.
const TRIAL: (u64, u64) = (8, 60);
const SHORT: (u64, u64) = (4, 15);
/// Most time of all trials of a search, where nobody says: so many stays.
const BUDGET_STAYS: u64 = 24;
/// Share of --budget that is for trials; the rest is for what lies between them.
const BUDGET_SHARE: f64 = 0.8;

/// Find how many times a workload each system carries within limits on its response times.
///
/// An open-loop workload (a model, or block I/O with a rate) is played faster and slower; of a closed loop
/// the number of clients is raised. A multiple is carried when all limits hold and the backlog does not grow
/// for as long as --for says. Systems take turns, trial by trial. The result is the largest multiple, with
/// its confidence interval; docs/method/load-line.md says how it is found.
#[derive(Debug, clap::Args)]
#[command(mut_arg("length", |arg| arg
    .help("A multiple is carried when it is held for TIME (default: 10m)")
    .long_help("A multiple is carried when it is held for TIME (default: 10m).\n\n\
        What is carried for less is reported as the burst edge.")))]
#[command(after_help = "Examples:
  plimsoll loadline -w nas.toml --slo 'p99 < 20ms' /mnt/a /mnt/b
  plimsoll loadline -w nas.toml --slo 'read p99 < 5ms' --slo 'errors < 0.1%' raid1 --under healthy,degraded
  plimsoll loadline -w varmail --slo 'p99 < 50ms' --for 2m --budget 1h /mnt/a
  plimsoll loadline -w nas.toml --slo 'p99 < 20ms' a b --cost a=0.12/h --cost b=0.31/h")]
pub(super) struct LoadLineArgs {
    /// Targets to search, see plimsoll compare --help; the first is the base of all ratios.
    #[arg(required = true, num_args = 1.., value_name = "TARGET")]
    targets: Vec<String>,
    /// Workload that is multiplied, see plimsoll run --help. May be repeated.
    #[arg(short, long = "workload", required = true, value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// Limit that a load must keep to be carried: `p99 < 20ms`. May be repeated; all must hold.
    ///
    /// p1 to p99.9999, median or mean of the response times, or `errors` (`errors < 0.1%`), of all
    /// operations or of one kind (`read p99 < 5ms`). That the backlog must not grow is always a limit.
    #[arg(long = "slo", required = true, value_name = "LIMIT")]
    limits: Vec<LoadLineSlo>,
    /// Smallest multiple to try; of clients at least 1.
    #[arg(long, default_value_t = 0.02, value_name = "MULTIPLE")]
    from: f64,
    /// Largest multiple to try.
    #[arg(long, default_value_t = 50.0, value_name = "MULTIPLE")]
    to: f64,
    /// End a search when its confidence interval is this narrow.
    #[arg(long, default_value = "5%", value_parser = fraction, value_name = "FRACTION")]
    width: f64,
    /// Price of a target per hour, for the cost of a million operations at its load line. May be
    /// repeated.
    #[arg(long = "cost", value_name = "TARGET=PRICE/h", value_parser = cost)]
    costs: Vec<(String, f64)>,
    /// Search while the systems are like this, each condition a row of its own: healthy, degraded (one
    /// server is killed), rebuild, scrub, full (to 90 %), slow, delay, loss, disk-slow. Targets must be
    /// stacks.
    #[arg(long = "under", value_name = "CONDITION,...", value_delimiter = ',', value_parser = condition)]
    conditions: Vec<StackConditionKind>,
    /// Server that has the fault of --under (default: another one in each trial).
    #[arg(long, value_name = "SERVER", requires = "conditions")]
    victim: Option<String>,
    /// Wait at most TIME for a system to answer again after the fault of --under.
    #[arg(long, default_value = "120s", value_parser = units::parse_duration, value_name = "TIME")]
    recovery_timeout: Nanos,
    /// Search the first target twice: the A/A control.
    #[arg(long)]
    control: bool,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    precondition: PreconditionArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    #[command(flatten)]
    source: ClientLoadArgs,
    /// Allow block devices among the targets to be overwritten.
    ///
    /// A device that carries a file system, a partition table or a RAID signature, or is in use,
    /// must be named again: --destroy=/dev/sdx.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "DEVICE")]
    destroy: Vec<String>,
    /// Equivalence margin: load lines within this fraction of each other are equivalent.
    #[arg(long, default_value_t = 0.05, value_name = "FRACTION")]
    margin: f64,
    /// Exit with an error code when there is such a verdict.
    ///
    /// `inconclusive` exits with 11: nothing is known of a load line, or other programs took so much of
    /// the machine that they decided.
    #[arg(long, value_name = "VERDICT", value_parser = ["inconclusive"])]
    fail_on: Option<String>,
    /// Write the run folder to DIR (default: ./plimsoll-results/<time>).
    ///
    /// If DIR holds an interrupted run of the same systems, workloads and settings, that run is resumed.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Print what would be done; change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// `5%` or `0.05`.
pub(super) fn fraction(text: &str) -> Result<f64, String> {
    units::parse_fraction(text)
        .filter(|width| (0.005..=1.0).contains(width))
        .ok_or_else(|| "expected a fraction from 0.5% to 100%".into())
}

/// `TARGET=0.12/h`.
fn cost(text: &str) -> Result<(String, f64), String> {
    let expected = "expected TARGET=PRICE/h, such as /mnt/a=0.12/h";
    let (target, price) = text.rsplit_once('=').ok_or(expected)?;
    let price = price.trim().strip_suffix("/h").ok_or(expected)?;
    match price.trim().parse() {
        Ok(price) if f64::is_finite(price) && price >= 0.0 => Ok((target.trim().into(), price)),
        _ => Err(expected.into()),
    }
}

impl LoadLineArgs {
    fn goal(&self) -> Result<LoadLineGoal, CliError> {
        if !(self.from > 0.0 && self.from < self.to && self.to.is_finite()) {
            return Err(CliError::invalid(format!(
                "invalid values '{}' for --from and '{}' for --to: expected two positive numbers, the \
                 smaller first",
                self.from, self.to
            )));
        }
        let sustained = self.timing.length().unwrap_or(SUSTAINED);
        if sustained < SUSTAINED_MIN {
            return Err(CliError::invalid(format!(
                "invalid value '{sustained}' for --for: expected at least 10 s"
            )));
        }
        let part = load_line_seconds(Nanos(sustained.0 / 10));
        let seconds =
            |time: u64, (least, most): (u64, u64)| Nanos(time.clamp(least, most) * Nanos::SECOND.0);
        let part_s = part.0 / Nanos::SECOND.0;
        Ok(LoadLineGoal {
            limits: self.limits.clone(),
            smallest: self.from,
            largest: self.to,
            width: self.width,
            short: seconds(part_s / 4, SHORT),
            trial: seconds(part_s, TRIAL),
            sustained: Nanos(10 * part.0),
            budget: self.budget(10 * part.0),
            costs: self.costs()?,
            requirement: None,
        })
    }

    /// Most time of all trials of one search.
    fn budget(&self, sustained_ns: u64) -> Nanos {
        let conditions = self.conditions.len().max(1);
        let arms = self.targets.len() + usize::from(self.control);
        let searches = (arms * self.workloads.len() * conditions).max(1) as f64;
        match self.timing.budget() {
            None => Nanos(BUDGET_STAYS * sustained_ns),
            Some(all) => Nanos::from_secs_f64(BUDGET_SHARE * all.as_secs_f64() / searches),
        }
    }

    fn costs(&self) -> Result<BTreeMap<String, f64>, CliError> {
        let unknown = self
            .costs
            .iter()
            .find(|(target, _)| !self.targets.contains(target));
        match unknown {
            Some((target, _)) => Err(CliError::invalid(format!(
                "invalid value '{target}' for --cost: expected one of the targets: {}",
                self.targets.join(", ")
            ))),
            None => Ok(self.costs.iter().cloned().collect()),
        }
    }

    fn conditions(&self) -> Vec<StackCondition> {
        let victim = self.victim.as_deref();
        super::inject::conditions(&self.conditions, victim, self.recovery_timeout)
    }
}

pub(super) fn main(args: &LoadLineArgs) -> CliResult {
    let policy = policy(args.margin)?;
    let goal = args.goal()?;
    let measured = measure(&MeasureOptions {
        targets: &args.targets,
        workloads: &args.workloads,
        control: args.control,
        blocks: 1,
        inject: Vec::new(),
        conditions: args.conditions(),
        load_line: Some(goal),
        design: BlockDesignChoice::default(),
        campaign: CampaignChoice::default(),
        whole: false,
        timing: &args.timing,
        shape: &args.shape,
        source: &args.source,
        consent: DestroyConsent::of(&args.destroy),
        policy,
        conditioning: args.precondition.choice(),
        output: args.output.as_deref(),
        json: args.json,
        quiet: false,
        dry_run: args.dry_run,
        ladder: &[],
    })?;
    let results = match measured {
        ControlFlow::Break(code) => return Ok(code),
        ControlFlow::Continue(results) => results,
    };
    let lines = arm_load_lines(&results.manifest, &results.trials);
    let is_answered = lines.iter().all(ArmLoadLine::is_answered);
    match args.fail_on.is_some() && !is_answered {
        true => super::done(CliExitCode::Inconclusive),
        false => Ok(ExitCode::SUCCESS),
    }
}
