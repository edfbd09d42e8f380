// SPDX-License-Identifier: Apache-2.0
//! `plimsoll loadline`: how many times a workload each system carries within limits.

use super::design::share;
use super::inject::condition;
use super::measure::{
    ClientLoadArgs, DestroyArgs, PreconditionArgs, RunAttempt, RunAttemptArgs, TrialTimingArgs,
    measure, named_targets,
};
use super::stack::StackOptionArgs;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_core::campaign::{CampaignFaults, CampaignLoadLine, CampaignOrder, CampaignSpec};
use plimsoll_core::load_line::LoadLineSlo;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::written::{WrittenTexts, WrittenTime};
use plimsoll_stats::load_line::{ArmLoadLine, arm_load_lines};
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Find the largest load that each system sustains within limits.
///
/// An open-loop workload (a model, or block I/O with a rate) is played at multiples of its rate. A
/// closed-loop workload is played with different numbers of clients. A system sustains a multiple
/// if all limits hold and the backlog does not grow during the hold period (--for). Systems take
/// turns, trial by trial. The result is the load line: the largest multiple that a system sustains,
/// with its confidence interval. docs/method/load-line.md describes the search.
#[derive(Debug, clap::Args)]
#[command(mut_arg("length", |arg| arg
    .help("Hold period: a system must sustain a multiple for TIME (default: 10m)")
    .long_help("Hold period: a system must sustain a multiple for TIME (default: 10m).\n\n\
        A larger multiple, sustained only in shorter trials, is reported as the burst edge.")))]
#[command(after_help = "Examples:
  plimsoll loadline -w nas.toml --slo 'p99 < 20ms' /mnt/a /mnt/b
  plimsoll loadline -w nas.toml --slo 'read p99 < 5ms' --slo 'errors < 0.1%' raid1 --under healthy,degraded
  plimsoll loadline -w varmail --slo 'p99 < 50ms' --for 2m --budget 1h /mnt/a
  plimsoll loadline -w nas.toml --slo 'p99 < 20ms' a b --cost a=0.12/h --cost b=0.31/h")]
pub(super) struct LoadLineArgs {
    /// Targets to search, see plimsoll compare --help; the first is the base of all ratios.
    #[arg(required = true, num_args = 1.., value_name = "TARGET")]
    targets: Vec<String>,
    /// Workload to multiply, see plimsoll run --help. May be repeated.
    #[arg(short, long = "workload", required = true, value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// Name of a target in reports, in the order of the targets. May be repeated.
    #[arg(short = 'n', long = "name", value_name = "NAME", requires = "targets")]
    names: Vec<String>,
    /// Limit that a multiple must keep, such as `p99 < 20ms`. May be repeated; all must hold.
    ///
    /// A limit bounds p1 to p99.9999, the median or the mean of the response times, or the share of
    /// `errors` (`errors < 0.1%`), of all operations or of one kind (`read p99 < 5ms`). A growing
    /// backlog always counts as a broken limit.
    #[arg(long = "slo", required = true, value_parser = limit, value_name = "LIMIT")]
    limits: Vec<String>,
    /// Smallest multiple to try; at least 1 if clients are multiplied.
    #[arg(long = "min", default_value_t = CampaignLoadLine::SMALLEST, value_name = "MULTIPLE", hide_short_help = true, help_heading = "Search and verdicts")]
    from: f64,
    /// Largest multiple to try.
    #[arg(long = "max", default_value_t = CampaignLoadLine::LARGEST, value_name = "MULTIPLE", hide_short_help = true, help_heading = "Search and verdicts")]
    to: f64,
    /// End a search when its confidence interval is as narrow as this fraction.
    #[arg(long, default_value = "5%", value_parser = fraction, value_name = "FRACTION", hide_short_help = true, help_heading = "Search and verdicts")]
    width: f64,
    /// Price of a target per hour. May be repeated.
    ///
    /// The report then has the cost of a million operations at the load line of the target.
    #[arg(long = "cost", value_name = "TARGET=PRICE/h", value_parser = cost, hide_short_help = true)]
    costs: Vec<(String, f64)>,
    /// Conditions of the systems, such as healthy,degraded,slow. Targets must be stacks.
    ///
    /// One or more of: healthy, degraded, rebuild, scrub, full, slow, delay, loss, disk-slow. Each
    /// condition is a separate row of the results. degraded: one server is killed. full: the file
    /// system is filled to 90 %.
    #[arg(long = "under", value_name = "CONDITION,...", value_delimiter = ',', value_parser = condition, help_heading = "State of the systems")]
    conditions: Vec<String>,
    /// Server that the fault of --under hits (default: a different one in each trial).
    #[arg(
        long,
        value_name = "SERVER",
        hide_short_help = true,
        help_heading = "State of the systems"
    )]
    victim: Option<String>,
    /// Maximum wait for a system to respond after the fault of --under (default: 120s).
    #[arg(long, value_parser = units::parse_duration, value_name = "TIME", hide_short_help = true, help_heading = "State of the systems")]
    recovery_timeout: Option<Nanos>,
    /// Search the first target twice, as the A/A control.
    #[arg(long, hide_short_help = true, help_heading = "Search and verdicts")]
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
    /// Equivalence margin: load lines within this fraction are equivalent (default: 0.05).
    #[arg(long, value_parser = share, value_name = "FRACTION", hide_short_help = true, help_heading = "Search and verdicts")]
    margin: Option<f64>,
    /// Exit with an error code if this verdict occurs.
    ///
    /// `inconclusive`: exit code 11 if a load line is unknown, or if the load of other programs on the
    /// machine determined the result.
    #[arg(long, value_name = "VERDICT", value_parser = ["inconclusive"], help_heading = "Search and verdicts")]
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
    fn campaign(&self) -> Result<CampaignSpec, CliError> {
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
            target: named_targets(&self.targets, &self.names)?,
            workload: self.workloads.iter().map(Into::into).collect(),
            ..CampaignSpec::default()
        };
        self.timing.apply(&mut spec);
        self.precondition.apply(&mut spec);
        self.shape.apply(&mut spec);
        self.source.apply(&mut spec);
        Ok(spec)
    }
}

pub(super) fn main(args: &LoadLineArgs) -> CliResult {
    let measured = measure(
        &args.campaign()?,
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
