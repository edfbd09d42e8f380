// SPDX-License-Identifier: Apache-2.0
//! `plimsoll failover`: the short way to trials under faults.
//!
//! Manual: `docs/failover.md`.

use super::design::BlockDesignChoice;
use super::inject::{FaultInjectionArgs, SessionFiles};
use super::measure::{
    CampaignChoice, ClientLoadArgs, ConditioningChoice, MeasureOptions, TrialTimingArgs, measure,
};
use super::stack::StackOptionArgs;
use plimsoll_console::failure::{CliError, CliResult};
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::fault::FaultKind;
use plimsoll_core::units;
use plimsoll_run::campaign::DestroyConsent;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

/// How often each fault is injected, where nobody says.
const REPEAT: u32 = 10;

/// Reads of a session a second, where nobody says.
const RATE: f64 = 100.0;

/// Inject faults into the servers of stacks under load; measure the outage and check that no
/// acknowledged write is lost.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Faults: kill, stop, power-cut, pause, slow, link-down, one-way, flap, partition, delay,
loss, disk-slow, disk-hung, disk-errors, disk-full, clock-step, malformed, double, fail-back.
See docs/failover.md for what each fault does and where it is possible.

Examples:
  plimsoll failover raid1 --repeat 10
  plimsoll failover 'gluster(volume=replicate)' --fault kill,link-down --on netns -o faults
  plimsoll failover san --on lab.toml --fault power-cut --repeat 20
  plimsoll failover raid1 ceph --fault kill,slow --repeat 5 -o table --budget 2h"
)]
pub(super) struct FailoverArgs {
    /// Stacks to inject faults into.
    ///
    /// A stack that is not up is brought up, and taken down at the end. Several stacks are compared:
    /// every block injects every fault once into every stack.
    #[arg(value_name = "STACK", required = true)]
    stacks: Vec<String>,
    /// Background workload to run beside the sessions. May be repeated: each is played in trials of
    /// its own.
    #[arg(short, long = "workload", value_name = "WORKLOAD")]
    workloads: Vec<String>,
    #[command(flatten)]
    inject: FaultInjectionArgs,
    /// Size of each read and write of the sessions.
    #[arg(long = "block", default_value = "4k", value_parser = units::parse_size, value_name = "SIZE")]
    block_bytes: u64,
    /// Size of each session's file.
    #[arg(long = "file-size", default_value = "16M", value_parser = units::parse_size, value_name = "SIZE")]
    file_bytes: u64,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    #[command(flatten)]
    source: ClientLoadArgs,
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

impl FailoverArgs {
    fn files(&self) -> Result<SessionFiles, CliError> {
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
        Ok(SessionFiles {
            block_bytes,
            file_bytes: self.file_bytes,
        })
    }
}

pub(super) fn main(args: &FailoverArgs) -> CliResult {
    let files = args.files()?;
    let mut inject = args.inject.injections(&[FaultKind::Kill], RATE)?;
    inject.iter_mut().for_each(|one| files.apply(one));
    let measured = measure(&MeasureOptions {
        targets: &args.stacks,
        workloads: &args.workloads,
        control: false,
        blocks: args.inject.repeat().unwrap_or(REPEAT),
        inject,
        conditions: Vec::new(),
        load_line: None,
        whole: false,
        timing: &args.timing,
        shape: &args.shape,
        source: &args.source,
        consent: DestroyConsent::of(&[]),
        policy: VerdictPolicy::default(),
        design: BlockDesignChoice::default(),
        campaign: CampaignChoice::default(),
        conditioning: ConditioningChoice::default(),
        output: args.output.as_deref(),
        json: args.json,
        dry_run: args.dry_run,
        quiet: false,
        ladder: &[],
    })?;
    Ok(match measured {
        ControlFlow::Break(code) => code,
        ControlFlow::Continue(_) => ExitCode::SUCCESS,
    })
}
