// SPDX-License-Identifier: Apache-2.0
//! `plimsoll compare`: several targets side by side under the same workloads.

use super::design::{BLOCKS_RANGE, BlockDesignArgs, share};
use super::inject::{FaultInjectionArgs, condition};
use super::measure::{
    ClientLoadArgs, ConditioningArgs, DestroyArgs, RunAttempt, RunAttemptArgs, TrialTimingArgs,
    measure, named_targets,
};
use super::stack::StackOptionArgs;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_core::campaign::{CampaignOrder, CampaignSpec};
use plimsoll_core::comparison::{ArmComparison, ComparisonVerdict};
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::others::NeighbourUse;
use plimsoll_run::campaign_file::CampaignFile;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare systems side by side under the same workloads.
///
/// The report shows which system serves the workloads best, and with what confidence. Every block
/// runs every workload once on every system, in an order drawn from the seed. The first system is
/// the base. The base takes part a second time as the A/A control, which shows the differences that
/// noise alone causes. Stacks that are not up are brought up, and taken down at the end.
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
    /// WORKLOAD is a name with settings, a file, or an original program before a colon. A model
    /// accepts @FACTOR or @auto: the largest round factor that the slowest system should sustain.
    #[arg(
        short,
        long = "workload",
        required_unless_present = "campaign",
        value_name = "WORKLOAD"
    )]
    workloads: Vec<String>,
    /// Name of a target in reports, in the order of the targets. May be repeated.
    #[arg(short = 'n', long = "name", value_name = "NAME", requires = "targets")]
    names: Vec<String>,
    /// Read targets, workloads, their parameters and conditions from FILE (TOML) instead.
    ///
    /// A setting with a list of values makes one system or workload of each value.
    /// docs/campaigns.md lists all keys.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["targets", "workloads", "blocks", "conditions", "margin",
        "no_control", "fault", "repeat"])]
    campaign: Option<PathBuf>,
    /// Also run each workload in the other loop mode, at equal throughput.
    ///
    /// For block I/O. The report gives the ratio of the 99th percentiles of both loops: how much
    /// tail latency the closed loop hides. On each system the closed loop is measured first; its
    /// throughput paces the open loop.
    #[arg(long, hide_short_help = true, help_heading = "Blocks and verdicts")]
    closed_and_open: bool,
    /// Number of blocks (default: 5; with --effect: as the pilot's noise requires).
    ///
    /// Every block runs every workload once on every system.
    #[arg(long, value_parser = clap::value_parser!(u32).range(BLOCKS_RANGE), conflicts_with = "repeat", help_heading = "Blocks and verdicts")]
    blocks: Option<u32>,
    #[command(flatten)]
    design: BlockDesignArgs,
    /// Conditions of the systems, such as healthy,degraded,slow. Targets must be stacks.
    ///
    /// One or more of: healthy, degraded, rebuild, scrub, full, slow, delay, loss, disk-slow. Each
    /// condition has separate trials, and covers the whole measured part of a trial. degraded: one
    /// server is killed. full: the file system is filled to 90 %. Faults hit one server per stack,
    /// a different one in each block.
    #[arg(long = "under", value_name = "CONDITION,...", value_delimiter = ',', value_parser = condition, help_heading = "State of the systems")]
    conditions: Vec<String>,
    #[command(flatten)]
    inject: FaultInjectionArgs,
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
    /// Equivalence margin: systems within this fraction are equivalent (default: 0.05).
    ///
    /// The margin is fixed before the first block.
    #[arg(long, value_parser = share, value_name = "FRACTION", hide_short_help = true, help_heading = "Blocks and verdicts")]
    margin: Option<f64>,
    /// Omit the A/A control.
    #[arg(long, hide_short_help = true, help_heading = "Blocks and verdicts")]
    no_control: bool,
    /// Exit with an error code if this verdict occurs.
    ///
    /// `different`: exit code 10 if a system differs from the base, or cannot carry the load.
    /// `worse`: exit code 10 only if a system is worse than the base, or cannot carry the load.
    /// `inconclusive`: exit code 11. All three exit with 11 if the load of other programs on the machine
    /// prevented a decision.
    #[arg(long, value_name = "VERDICT", value_parser = ["different", "worse", "inconclusive"], help_heading = "Blocks and verdicts")]
    fail_on: Option<String>,
}

impl CompareArgs {
    /// The campaign of the command line, or of a file.
    fn campaign(&self) -> Result<(Option<CampaignFile>, CampaignSpec), CliError> {
        let (file, mut spec) = match &self.campaign {
            None => (None, self.of_words()?),
            Some(path) => {
                let (file, spec) = CampaignFile::read(path)?;
                (Some(file), spec)
            }
        };
        if self.inject.repeat().is_some()
            && spec.faults.inject.is_empty()
            && !self.inject.is_asked()
        {
            return Err(CliError::invalid("--repeat needs --fault"));
        }
        spec.closed_and_open |= self.closed_and_open;
        self.design.apply(&mut spec);
        self.inject.apply(&mut spec);
        self.timing.apply(&mut spec);
        self.conditioning.apply(&mut spec);
        self.shape.apply(&mut spec);
        self.source.apply(&mut spec);
        Ok((file, spec))
    }

    fn of_words(&self) -> Result<CampaignSpec, CliError> {
        Ok(CampaignSpec {
            blocks: self.blocks,
            margin: self.margin,
            control: !self.no_control,
            order: CampaignOrder::Random,
            under: self.conditions.clone(),
            target: named_targets(&self.targets, &self.names)?,
            workload: self.workloads.iter().map(Into::into).collect(),
            ..CampaignSpec::default()
        })
    }
}

pub(super) fn main(args: &CompareArgs) -> CliResult {
    let (file, spec) = args.campaign()?;
    let measured = measure(
        &spec,
        &RunAttempt {
            source: &args.source,
            consent: args.destroy.consent(),
            file,
            ..args.attempt.attempt(args.shape.trust())
        },
    )?;
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
