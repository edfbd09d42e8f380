// SPDX-License-Identifier: Apache-2.0
//! `plimsoll fit-for`: whether storage fits a use, by what is published of the use's needs.

use super::measure::{
    ClientLoadArgs, DestroyArgs, RunAttempt, RunAttemptArgs, TrialTimingArgs, measure,
};
use super::stack::StackOptionArgs;
use plimsoll_classics::{REQUIREMENTS, RequirementDefinition};
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::campaign::{CampaignLoadLine, CampaignOrder, CampaignSpec};
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::load_line::LoadLineRequirement;
use plimsoll_core::written::WrittenTexts;
use plimsoll_stats::load_line::{LoadLineFit, arm_load_lines};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Find whether storage fits a use, and how much head-room it has.
///
/// A requirement is the published need of a use: a load, made as the program of the use makes it,
/// and limits on its response times. The load is played slower and faster. A target fits if it
/// sustains the published load with confidence. The head-room is the largest multiple that the
/// target sustains. If publications give a range, the smallest value decides.
#[derive(Debug, clap::Args)]
#[command(mut_arg("length", |arg| arg
    .help("Hold period: a target must sustain the load for TIME (default: 1m)")
    .long_help("Hold period: a target must sustain the load for TIME (default: 1m)")))]
#[command(after_help = "Examples:
  plimsoll fit-for etcd /var/lib/etcd
  plimsoll fit-for --list
  plimsoll fit-for etcd,iops=500 /mnt/a /mnt/b --for 10m
  plimsoll fit-for postgres-wal,commits=400 --slo 'fdatasync p99 < 5ms' /mnt/pg
  plimsoll fit-for vm-boot,vms=40 raid1 --json

Exit codes: 0 all targets fit, 10 a target does not fit, 11 otherwise (at least one cannot be judged).")]
pub(super) struct FitForArgs {
    /// Use to test: etcd, postgres-wal, vm-boot, mail, checkpoint or kv-cache.
    ///
    /// Settings follow after commas, such as etcd,iops=500.
    #[arg(required_unless_present = "list", value_name = "USE")]
    requirement: Option<String>,
    /// Targets to test, see plimsoll compare --help.
    #[arg(required_unless_present = "list", num_args = 1.., value_name = "TARGET")]
    targets: Vec<String>,
    /// List the uses with their requirements, sources and settings.
    #[arg(long, conflicts_with_all = ["requirement", "targets"])]
    list: bool,
    /// Limit that replaces the published ones. May be repeated; all must hold.
    ///
    /// For example `fdatasync p99 < 5ms`; plimsoll loadline --help describes limits.
    #[arg(long = "slo", value_parser = super::loadline::limit, value_name = "LIMIT")]
    limits: Vec<String>,
    /// Smallest multiple of the load to try; below 1.
    #[arg(
        long = "min",
        default_value_t = 0.25,
        value_name = "MULTIPLE",
        hide_short_help = true,
        help_heading = "Search and verdicts"
    )]
    from: f64,
    /// Largest multiple of the load to try, which bounds the head-room; above 1.
    #[arg(
        long = "max",
        default_value_t = 8.0,
        value_name = "MULTIPLE",
        hide_short_help = true,
        help_heading = "Search and verdicts"
    )]
    to: f64,
    /// End a search when its confidence interval is as narrow as this fraction.
    #[arg(long, default_value = "20%", value_parser = super::loadline::fraction, value_name = "FRACTION", hide_short_help = true, help_heading = "Search and verdicts")]
    width: f64,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    attempt: RunAttemptArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    #[command(flatten)]
    source: ClientLoadArgs,
    #[command(flatten)]
    destroy: DestroyArgs,
}

impl FitForArgs {
    fn campaign(&self) -> CampaignSpec {
        let mut spec = CampaignSpec {
            control: false,
            order: CampaignOrder::Random,
            target: self.targets.iter().map(Into::into).collect(),
            load_line: Some(CampaignLoadLine {
                limits: self.limits.clone(),
                from: self.from,
                to: self.to,
                width: self.width,
                budget: None,
                costs: BTreeMap::new(),
                requirement: WrittenTexts(self.requirement.iter().cloned().collect()),
            }),
            ..CampaignSpec::default()
        };
        self.timing.apply(&mut spec);
        self.shape.apply(&mut spec);
        self.source.apply(&mut spec);
        spec
    }
}

pub(super) fn main(args: &FitForArgs) -> CliResult {
    if args.list {
        return list(args.attempt.json);
    }
    let measured = measure(
        &args.campaign(),
        &RunAttempt {
            source: &args.source,
            consent: args.destroy.consent(),
            ..args.attempt.attempt(args.shape.trust())
        },
    )?;
    match measured {
        ControlFlow::Break(code) => Ok(code),
        ControlFlow::Continue(results) => Ok(exit_code(&results)),
    }
}

/// That of the worst verdict.
pub(super) fn exit_code(results: &RunFolderContents) -> ExitCode {
    let lines = arm_load_lines(&results.manifest, &results.trials);
    match lines.iter().map(LoadLineFit::of).max() {
        Some(LoadLineFit::Fits) => ExitCode::SUCCESS,
        Some(LoadLineFit::DoesNotFit) => CliExitCode::Different.into(),
        Some(LoadLineFit::CannotTell) | None => CliExitCode::Inconclusive.into(),
    }
}

fn list(as_json: bool) -> CliResult {
    let mut all = Vec::new();
    for one in REQUIREMENTS {
        all.push((one, one.by_default().map_err(CliError::invalid)?));
    }
    if as_json {
        let all = all.iter().map(|(one, need)| {
            serde_json::json!({ "requirement": need, "limits": one.limits,
                "settings": super::workloads::settings_as_json(one.workload.settings) })
        });
        terminal::print_json(&all.collect());
        return Ok(ExitCode::SUCCESS);
    }
    let told: Vec<String> = all.iter().map(|(one, need)| tell(one, need)).collect();
    terminal::print(told.join("\n").trim_end());
    Ok(ExitCode::SUCCESS)
}

/// A requirement in some lines.
fn tell(one: &RequirementDefinition, need: &LoadLineRequirement) -> String {
    let mut text = format!("{}: {}\n", need.name, need.about);
    let limits: Vec<String> = one.slos().iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "  load     {}", need.load);
    let _ = writeln!(text, "  limits   {}", limits.join(", "));
    for source in &need.sources {
        let _ = writeln!(text, "  source   {} ({})", source.title, source.date);
        let _ = writeln!(text, "           {}", source.url);
        let _ = writeln!(text, "           {}", source.says);
    }
    for note in &need.notes {
        let _ = writeln!(text, "  note     {note}");
    }
    for setting in one.workload.settings {
        let _ = writeln!(
            text,
            "  setting  {}={}  {}",
            setting.name, setting.default, setting.help
        );
    }
    text
}
