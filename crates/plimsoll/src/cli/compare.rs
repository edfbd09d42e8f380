// SPDX-License-Identifier: Apache-2.0
//! `plimsoll compare`: several targets side by side under the same workloads.

use super::design::{BLOCKS_RANGE, BlockDesignArgs, BlockDesignChoice};
use super::inject::{FaultInjectionArgs, condition};
use super::measure::{
    CampaignChoice, ClientLoadArgs, ConditioningArgs, MeasureOptions, TrialTimingArgs, measure,
    policy,
};
use super::stack::StackOptionArgs;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_core::campaign_file::CampaignOrder;
use plimsoll_core::comparison::{ArmComparison, ComparisonVerdict};
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::failover::StackConditionKind;
use plimsoll_core::others::NeighbourUse;
use plimsoll_run::campaign::DestroyConsent;
use plimsoll_run::campaign_file::{CampaignPlan, WorkloadVariant};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

/// Reads of a session a second, where nobody says: few, since a workload is compared beside them.
const RATE: f64 = 20.0;

/// Number of blocks, where nobody says.
pub(super) const BLOCKS: u32 = 5;

/// Compare systems side by side under the same workloads.
///
/// Shows which system serves the workloads best, and with what confidence. Every block runs every
/// workload once on every system, in an order drawn from the seed. The first system is the base; it
/// takes part a second time as the A/A control, which shows the differences that are only
/// noise. Stacks that are not up are brought up, and taken down at the end.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll compare /mnt/a /mnt/b -w varmail
  plimsoll compare /mnt/a /mnt/b -w varmail --clients n1,n2 --on lab.toml
  plimsoll compare /mnt/a /mnt/b -w varmail --effect 5% --budget 10m
  plimsoll compare /mnt/a /mnt/b -w varmail --budget 10m --stop anytime
  plimsoll compare local iscsi raid1 -w nas.toml -w nas.toml@auto -w varmail
  plimsoll compare --campaign campaign.toml -o results/monday
  plimsoll compare /mnt/a /mnt/b -w open.toml --closed-and-open
  plimsoll compare raid1 'gluster(volume=replicate)' --on netns -w varmail --fault kill --repeat 5
  plimsoll compare raid1 'gluster(volume=replicate)' --on netns -w varmail --under healthy,degraded,slow")]
#[command(group = clap::ArgGroup::new("under-fault").multiple(true).requires("fault")
    .args(["fault", "repeat", "fault_duration", "sessions", "rate", "share", "observers"]))]
#[command(group = clap::ArgGroup::new("server-state").args(["fault", "conditions"]))]
#[command(group = clap::ArgGroup::new("of-server").multiple(true).requires("server-state")
    .args(["victim", "recovery_timeout"]))]
pub(super) struct CompareArgs {
    /// Targets to compare; the first is the base of all ratios.
    ///
    /// Directories, new files (`file:PATH`), block devices, existing iSCSI or NBD targets
    /// (`iscsi://host/target/lun`, `nbd://host/export`), NFS exports (`nfs://host/export`) or
    /// stacks.
    #[arg(required_unless_present = "campaign", num_args = 1.., value_name = "TARGET")]
    targets: Vec<String>,
    /// Workload to run, see plimsoll run --help. May be repeated.
    ///
    /// A name with settings, a file, or an original program before a colon. A model may have
    /// @FACTOR, or @auto: the largest round factor that the slowest system should carry.
    #[arg(
        short,
        long = "workload",
        required_unless_present = "campaign",
        value_name = "WORKLOAD"
    )]
    workloads: Vec<String>,
    /// Read targets, workloads, their parameters and conditions from FILE instead.
    ///
    /// The file is TOML. A setting with a list of values makes one system or workload of each value;
    /// docs/campaigns.md lists its keys.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["targets", "workloads", "blocks", "conditions", "margin",
        "no_control", "fault", "repeat"])]
    campaign: Option<PathBuf>,
    /// Play each workload also in the other loop, at the same throughput, and report how much a closed
    /// loop hides of the tail.
    ///
    /// For block I/O. On each system the closed loop is measured first; the open one is paced at what it
    /// reached. The result is the factor between the 99th percentiles of both.
    #[arg(long, conflicts_with_all = ["fault", "conditions", "effect", "stopping"])]
    closed_and_open: bool,
    /// Number of blocks: how often every system runs every workload (default: 5; with --effect
    /// what the pilot's noise asks for).
    #[arg(long, value_parser = clap::value_parser!(u32).range(BLOCKS_RANGE), conflicts_with = "repeat")]
    blocks: Option<u32>,
    #[command(flatten)]
    design: BlockDesignArgs,
    /// Measure while the systems are like this, each condition in trials of its own: healthy,
    /// degraded (one server is killed), rebuild, scrub, full (to 90 %), slow, delay, loss, disk-slow.
    ///
    /// From before the measured part of a trial until after it; faults are of one server of each
    /// stack, another one in each block. Targets must be stacks.
    #[arg(long = "under", value_name = "CONDITION,...", value_delimiter = ',', value_parser = condition,
        conflicts_with_all = ["fault"])]
    conditions: Vec<StackConditionKind>,
    #[command(flatten)]
    inject: FaultInjectionArgs,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    conditioning: ConditioningArgs,
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
    /// Equivalence margin: systems within this fraction of each other are equivalent. Fixed before
    /// the first block.
    #[arg(long, default_value_t = 0.05, value_name = "FRACTION")]
    margin: f64,
    /// Leave out the A/A control.
    #[arg(long)]
    no_control: bool,
    /// Exit with an error code when there is such a verdict.
    ///
    /// `different` exits with 10, also when a system cannot carry the load; `worse` only when a
    /// system is worse than the base, or cannot carry the load; `inconclusive` exits with 11. So does
    /// each of them where other programs took so much of the machine that nothing was decided.
    #[arg(long, value_name = "VERDICT", value_parser = ["different", "worse", "inconclusive"])]
    fail_on: Option<String>,
    /// Write the run folder to DIR (default: ./plimsoll-results/<time>).
    ///
    /// If DIR holds an interrupted run of the same systems, workloads and settings, that run is resumed.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Print what would be done, in which order; change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Campaign to compare, from the command line or a campaign file.
struct ComparedCampaign {
    targets: Vec<String>,
    variants: Vec<WorkloadVariant>,
    conditions: Vec<StackConditionKind>,
    blocks: Option<u32>,
    margin: f64,
    control: bool,
    balanced: bool,
}

impl ComparedCampaign {
    fn of(args: &CompareArgs) -> Result<ComparedCampaign, CliError> {
        let Some(file) = &args.campaign else {
            return Ok(ComparedCampaign {
                targets: args.targets.clone(),
                variants: Vec::new(),
                conditions: args.conditions.clone(),
                blocks: args.blocks,
                margin: args.margin,
                control: !args.no_control,
                balanced: false,
            });
        };
        let plan = CampaignPlan::read(file)?;
        if plan.targets.is_empty() {
            let text = format!(
                "campaign {}: expected at least one [[target]]",
                file.display()
            );
            return Err(CliError::invalid(text)
                .hint("its [build] is for plimsoll gate, which compares two builds"));
        }
        if args.closed_and_open && !plan.conditions.is_empty() {
            let text = "--closed-and-open does not work with conditions: remove 'under' from the campaign file";
            return Err(CliError::invalid(text));
        }
        Ok(ComparedCampaign {
            targets: plan.targets,
            variants: plan.workloads,
            conditions: plan.conditions,
            blocks: plan.blocks,
            margin: plan.margin.unwrap_or(args.margin),
            control: plan.control,
            balanced: plan.order == CampaignOrder::Balanced,
        })
    }

    /// How blocks are designed and end. A fault has a number of its own.
    fn design(&self, args: &CompareArgs) -> Result<BlockDesignChoice, CliError> {
        let given = args.timing.given(self.blocks, self.targets.len());
        let choice = args.design.choice(&given)?;
        if choice.design.is_some() && args.inject.is_asked() {
            let text = "--effect and --stop do not work with --fault";
            return Err(CliError::invalid(text).hint("give --blocks or --repeat instead"));
        }
        Ok(choice)
    }
}

pub(super) fn main(args: &CompareArgs) -> CliResult {
    let asked = ComparedCampaign::of(args)?;
    let policy = policy(asked.margin)?;
    if asked.targets.len() < 2 && !asked.control {
        let text = "compare --no-control needs at least two targets";
        return Err(CliError::invalid(text).hint("give a second target"));
    }
    let design = asked.design(args)?;
    let measured = measure(&MeasureOptions {
        targets: &asked.targets,
        workloads: &args.workloads,
        control: asked.control,
        blocks: args.inject.repeat().or(asked.blocks).unwrap_or(BLOCKS),
        inject: args.inject.injections(&[], RATE)?,
        conditions: args.inject.conditions(&asked.conditions),
        load_line: None,
        whole: false,
        timing: &args.timing,
        shape: &args.shape,
        source: &args.source,
        consent: DestroyConsent::of(&args.destroy),
        policy,
        design,
        campaign: CampaignChoice {
            variants: &asked.variants,
            file: args.campaign.as_deref(),
            balanced: asked.balanced,
            closed_and_open: args.closed_and_open,
        },
        conditioning: args.conditioning.choice(),
        output: args.output.as_deref(),
        json: args.json,
        dry_run: args.dry_run,
        quiet: false,
        ladder: &[],
    })?;
    let results = match measured {
        ControlFlow::Continue(results) => results,
        ControlFlow::Break(code) => return Ok(code),
    };
    exit_code(&results, args.fail_on.as_deref())
}

/// That of the verdicts, where some of them are to fail.
fn exit_code(results: &RunFolderContents, fail_on: Option<&str>) -> CliResult {
    let counted = results.comparisons.iter().filter(|c| !c.is_control);
    let any = |verdict| counted.clone().any(|c| c.verdict == verdict);
    let others = results.trials.iter().filter_map(|t| t.others.as_ref());
    let is_disturbed = NeighbourUse::of_all(others).is_some_and(|all| all.decides().is_some());
    // Verdicts that noise decided blame no system.
    let is_noise =
        |c: &ArmComparison| is_disturbed && c.base_is_overloaded() && c.arm_is_overloaded();
    let mut true_verdicts = counted.clone().filter(|c| !is_noise(c));
    match fail_on {
        Some("different")
            if true_verdicts.any(|c| {
                let is_different = c.verdict == ComparisonVerdict::Different;
                is_different || c.verdict == ComparisonVerdict::CannotCarry
            }) =>
        {
            super::done(CliExitCode::Different)
        }
        Some("worse") if true_verdicts.any(ArmComparison::is_worse) => {
            super::done(CliExitCode::Different)
        }
        Some("inconclusive") if any(ComparisonVerdict::Inconclusive) => {
            super::done(CliExitCode::Inconclusive)
        }
        Some(_) if is_disturbed && any(ComparisonVerdict::Inconclusive) => {
            super::done(CliExitCode::Inconclusive)
        }
        Some(_) if counted.clone().any(is_noise) => super::done(CliExitCode::Inconclusive),
        _ => Ok(ExitCode::SUCCESS),
    }
}
