// SPDX-License-Identifier: Apache-2.0
//! `plimsoll fit-for`: whether storage fits a use, by what is published of the use's needs.

use super::design::BlockDesignChoice;
use super::measure::{
    CampaignChoice, ClientLoadArgs, ConditioningChoice, MeasureOptions, TrialTimingArgs, measure,
    policy,
};
use super::stack::StackOptionArgs;
use plimsoll_classics::{REQUIREMENTS, RequirementDefinition};
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::load_line::{LoadLineGoal, LoadLineRequirement, LoadLineSlo};
use plimsoll_core::units::Nanos;
use plimsoll_run::campaign::{DestroyConsent, load_line_seconds};
use plimsoll_stats::load_line::{LoadLineFit, arm_load_lines};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

/// How long the load must be held, where nobody says.
const SUSTAINED: Nanos = Nanos(60 * Nanos::SECOND.0);
/// A stay has ten parts of a whole number of seconds.
const SUSTAINED_MIN: Nanos = Nanos(10 * Nanos::SECOND.0);
/// Trials near the line take a tenth of a stay, and at least so long; those that locate it half of that.
const TRIAL_MIN: Nanos = Nanos(8 * Nanos::SECOND.0);
const SHORT_MIN: Nanos = Nanos(4 * Nanos::SECOND.0);
/// Most time of all trials of a target, where nobody says: so many stays.
const BUDGET_STAYS: u64 = 12;
/// Share of --budget that is for trials; the rest is for what lies between them.
const BUDGET_SHARE: f64 = 0.8;
/// Load lines within this fraction of each other are equivalent.
const MARGIN: f64 = 0.05;

/// Find whether storage fits a use, and how much head-room it has.
///
/// Each requirement is what is published of the use's needs: a load, made as the program of the use makes
/// it, and limits on its response times. The load is played slower and faster. A target fits if it carries
/// the load itself with confidence; the largest multiple that it carries is the head-room. Where the
/// publications have a range, the least of it is needed to fit.
#[derive(Debug, clap::Args)]
#[command(mut_arg("length", |arg| arg
    .help("The load is carried when it is held for TIME (default: 1m)")
    .long_help("The load is carried when it is held for TIME (default: 1m)")))]
#[command(after_help = "Examples:
  plimsoll fit-for --list
  plimsoll fit-for etcd /var/lib/etcd
  plimsoll fit-for etcd,iops=500 /mnt/a /mnt/b --for 10m
  plimsoll fit-for postgres-wal,commits=400 --slo 'fdatasync p99 < 5ms' /mnt/pg
  plimsoll fit-for vm-boot,vms=40 raid1 --json

The exit code is 0 if all targets fit, 10 if one does not, 11 if one cannot be told.")]
pub(super) struct FitForArgs {
    /// The use, with its settings after commas: etcd, postgres-wal, vm-boot, mail, checkpoint or kv-cache.
    #[arg(required_unless_present = "list", value_name = "USE")]
    requirement: Option<String>,
    /// Targets, see plimsoll compare --help.
    #[arg(required_unless_present = "list", num_args = 1.., value_name = "TARGET")]
    targets: Vec<String>,
    /// List the uses: what they need, who says so, and what can be set.
    #[arg(long, conflicts_with_all = ["requirement", "targets"])]
    list: bool,
    /// Limit in place of the published ones: `fdatasync p99 < 5ms`. May be repeated; all must hold.
    #[arg(long = "slo", value_name = "LIMIT")]
    limits: Vec<LoadLineSlo>,
    /// Smallest multiple of the load to try; below 1.
    #[arg(long, default_value_t = 0.25, value_name = "MULTIPLE")]
    from: f64,
    /// Largest multiple of the load to try, up to which head-room is told; above 1.
    #[arg(long, default_value_t = 8.0, value_name = "MULTIPLE")]
    to: f64,
    /// End a search when its confidence interval is this narrow.
    #[arg(long, default_value = "20%", value_parser = super::loadline::fraction, value_name = "FRACTION")]
    width: f64,
    #[command(flatten)]
    timing: TrialTimingArgs,
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

impl FitForArgs {
    fn goal(
        &self,
        (found, mut need): (&RequirementDefinition, LoadLineRequirement),
    ) -> Result<LoadLineGoal, CliError> {
        if !(self.from > 0.0 && self.from < 1.0 && self.to > 1.0 && self.to.is_finite()) {
            return Err(CliError::invalid(format!(
                "invalid values '{}' for --from and '{}' for --to: expected a positive number below 1 and \
                 one above 1",
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
        let sustained = Nanos(10 * part.0);
        let targets = self.targets.len().max(1) as f64;
        let budget = match self.timing.budget() {
            None => Nanos(BUDGET_STAYS * sustained.0),
            Some(all) => Nanos::from_secs_f64(BUDGET_SHARE * all.as_secs_f64() / targets),
        };
        need.has_own_limits = !self.limits.is_empty();
        Ok(LoadLineGoal {
            limits: match need.has_own_limits {
                true => self.limits.clone(),
                false => found.slos(),
            },
            smallest: self.from,
            largest: self.to,
            width: self.width,
            short: load_line_seconds(Nanos(part.0 / 2)).max(SHORT_MIN),
            trial: part.max(TRIAL_MIN),
            sustained,
            budget,
            costs: BTreeMap::new(),
            requirement: Some(need),
        })
    }
}

pub(super) fn main(args: &FitForArgs) -> CliResult {
    if args.list {
        return list(args.json);
    }
    let text = args.requirement.clone().unwrap_or_default();
    let found = plimsoll_classics::find_requirement(&text).map_err(|error| {
        CliError::invalid(error).hint("plimsoll fit-for --list tells all, with their settings")
    })?;
    let goal = args.goal(found)?;
    let measured = measure(&MeasureOptions {
        targets: &args.targets,
        workloads: &[text],
        control: false,
        blocks: 1,
        inject: Vec::new(),
        conditions: Vec::new(),
        load_line: Some(goal),
        design: BlockDesignChoice::default(),
        whole: false,
        timing: &args.timing,
        shape: &args.shape,
        source: &args.source,
        consent: DestroyConsent::of(&args.destroy),
        campaign: CampaignChoice::default(),
        policy: policy(MARGIN)?,
        conditioning: ConditioningChoice::default(),
        output: args.output.as_deref(),
        json: args.json,
        quiet: false,
        dry_run: args.dry_run,
        ladder: &[],
    })?;
    match measured {
        ControlFlow::Break(code) => Ok(code),
        ControlFlow::Continue(results) => Ok(exit_code(&results)),
    }
}

/// That of the worst verdict.
fn exit_code(results: &RunFolderContents) -> ExitCode {
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
