// SPDX-License-Identifier: Apache-2.0
//! `plimsoll loadline`: how many times a workload each system carries within limits.

use super::inject::condition;
use super::measure::{
    ClientLoadArgs, DestroyArgs, PreconditionArgs, RunAttempt, RunAttemptArgs, TrialTimingArgs,
    measure,
};
use super::stack::StackOptionArgs;
use plimsoll_console::failure::{CliExitCode, CliResult};
use plimsoll_core::campaign::{CampaignFaults, CampaignLoadLine, CampaignOrder, CampaignSpec};
use plimsoll_core::load_line::LoadLineSlo;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::written::{WrittenTexts, WrittenTime};
use plimsoll_stats::load_line::{ArmLoadLine, arm_load_lines};
use std::ops::ControlFlow;
use std::process::ExitCode;

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
    #[arg(long = "slo", required = true, value_parser = limit, value_name = "LIMIT")]
    limits: Vec<String>,
    /// Smallest multiple to try; of clients at least 1.
    #[arg(long, default_value_t = CampaignLoadLine::SMALLEST, value_name = "MULTIPLE")]
    from: f64,
    /// Largest multiple to try.
    #[arg(long, default_value_t = CampaignLoadLine::LARGEST, value_name = "MULTIPLE")]
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
    conditions: Vec<String>,
    /// Server that has the fault of --under (default: another one in each trial).
    #[arg(long, value_name = "SERVER")]
    victim: Option<String>,
    /// Wait at most TIME for a system to answer again after the fault of --under (default: 120s).
    #[arg(long, value_parser = units::parse_duration, value_name = "TIME")]
    recovery_timeout: Option<Nanos>,
    /// Search the first target twice: the A/A control.
    #[arg(long)]
    control: bool,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    attempt: RunAttemptArgs,
    #[command(flatten)]
    precondition: PreconditionArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    #[command(flatten)]
    source: ClientLoadArgs,
    #[command(flatten)]
    destroy: DestroyArgs,
    /// Equivalence margin: load lines within this fraction of each other are equivalent
    /// (default: 0.05).
    #[arg(long, value_name = "FRACTION")]
    margin: Option<f64>,
    /// Exit with an error code when there is such a verdict.
    ///
    /// `inconclusive` exits with 11: nothing is known of a load line, or other programs took so much of
    /// the machine that they decided.
    #[arg(long, value_name = "VERDICT", value_parser = ["inconclusive"])]
    fail_on: Option<String>,
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

/// A limit, as it is written.
pub(super) fn limit(text: &str) -> Result<String, String> {
    text.parse::<LoadLineSlo>().map(|_| text.to_owned())
}

impl LoadLineArgs {
    fn campaign(&self) -> CampaignSpec {
        let mut spec = CampaignSpec {
            margin: self.margin,
            control: self.control,
            order: CampaignOrder::Random,
            under: self.conditions.clone(),
            load_line: Some(CampaignLoadLine {
                limits: self.limits.clone(),
                from: self.from,
                to: self.to,
                width: self.width,
                budget: None,
                costs: self.costs.iter().cloned().collect(),
                requirement: WrittenTexts::default(),
            }),
            faults: CampaignFaults {
                victim: self.victim.clone(),
                recovery_timeout: self.recovery_timeout.map(WrittenTime),
                ..CampaignFaults::default()
            },
            target: self.targets.iter().map(Into::into).collect(),
            workload: self.workloads.iter().map(Into::into).collect(),
            ..CampaignSpec::default()
        };
        self.timing.apply(&mut spec);
        self.precondition.apply(&mut spec);
        self.shape.apply(&mut spec);
        self.source.apply(&mut spec);
        spec
    }
}

pub(super) fn main(args: &LoadLineArgs) -> CliResult {
    let measured = measure(
        &args.campaign(),
        &RunAttempt {
            source: &args.source,
            consent: args.destroy.consent(),
            ..args.attempt.attempt(args.shape.trust())
        },
    )?;
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
