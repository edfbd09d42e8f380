// SPDX-License-Identifier: Apache-2.0
//! `plimsoll compare`: several targets side by side under the same workloads.

use super::design::{BLOCKS_RANGE, BlockDesignArgs};
use super::inject::{FaultInjectionArgs, condition};
use super::measure::{
    ClientLoadArgs, ConditioningArgs, DestroyArgs, RunAttempt, RunAttemptArgs, TrialTimingArgs,
    measure,
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
    #[arg(long)]
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
    #[arg(long = "under", value_name = "CONDITION,...", value_delimiter = ',', value_parser = condition)]
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
    /// Equivalence margin: systems within this fraction of each other are equivalent. Fixed before
    /// the first block (default: 0.05).
    #[arg(long, value_name = "FRACTION")]
    margin: Option<f64>,
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
}

impl CompareArgs {
    /// The campaign of the command line, or of a file.
    fn campaign(&self) -> Result<(Option<CampaignFile>, CampaignSpec), CliError> {
        let (file, mut spec) = match &self.campaign {
            None => (None, self.of_words()),
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

    fn of_words(&self) -> CampaignSpec {
        CampaignSpec {
            blocks: self.blocks,
            margin: self.margin,
            control: !self.no_control,
            order: CampaignOrder::Random,
            under: self.conditions.clone(),
            target: self.targets.iter().map(Into::into).collect(),
            workload: self.workloads.iter().map(Into::into).collect(),
            ..CampaignSpec::default()
        }
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
