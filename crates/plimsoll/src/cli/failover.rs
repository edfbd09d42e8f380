// SPDX-License-Identifier: Apache-2.0
//! `plimsoll failover`: the short way to trials under faults.
//!
//! Manual: `docs/failover.md`.

use super::inject::FaultInjectionArgs;
use super::measure::{ClientLoadArgs, RunAttempt, RunAttemptArgs, TrialTimingArgs, measure};
use super::stack::StackOptionArgs;
use plimsoll_console::failure::CliResult;
use plimsoll_core::campaign::{CampaignOrder, CampaignSpec};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::units;
use plimsoll_core::written::WrittenSize;
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Default number of injections per fault.
const REPEAT: u32 = 10;

/// Default rate of a session, in reads per second.
const RATE: f64 = 100.0;

/// Inject faults under load; measure the outage and lost writes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Faults: kill, stop, power-cut, pause, slow, link-down, one-way, flap, partition, delay,
loss, disk-slow, disk-hung, disk-errors, disk-full, clock-step, malformed, double, fail-back.
docs/failover.md describes each fault and where it is possible.

Examples:
  plimsoll failover raid1 --repeat 10
  plimsoll failover 'gluster(volume=replicate)' --fault kill,link-down --on netns -o faults
  plimsoll failover san --on lab.toml --fault power-cut --repeat 20
  plimsoll failover raid1 ceph --fault kill,slow --repeat 5 -o table --budget 2h"
)]
pub(super) struct FailoverArgs {
    /// Stacks to inject faults into.
    ///
    /// Stacks that are not up are brought up, and taken down at the end. Several stacks are
    /// compared: every block injects every fault once into every stack.
    #[arg(value_name = "STACK", required = true)]
    stacks: Vec<String>,
    /// Background workload beside the sessions. May be repeated.
    ///
    /// Each workload has separate trials.
    #[arg(short, long = "workload", value_name = "WORKLOAD")]
    workloads: Vec<String>,
    #[command(flatten)]
    inject: FaultInjectionArgs,
    /// Size of each read and write of the sessions (default: 4k).
    #[arg(long = "block", value_parser = units::parse_size, value_name = "SIZE")]
    block_bytes: Option<u64>,
    /// Size of each session's file (default: 16M).
    #[arg(long = "file-size", value_parser = units::parse_size, value_name = "SIZE")]
    file_bytes: Option<u64>,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    attempt: RunAttemptArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    #[command(flatten)]
    source: ClientLoadArgs,
}

impl FailoverArgs {
    fn campaign(&self) -> CampaignSpec {
        let mut spec = CampaignSpec {
            blocks: Some(REPEAT),
            control: false,
            order: CampaignOrder::Random,
            target: self.stacks.iter().map(Into::into).collect(),
            workload: self.workloads.iter().map(Into::into).collect(),
            ..CampaignSpec::default()
        };
        self.inject.apply(&mut spec);
        self.timing.apply(&mut spec);
        self.shape.apply(&mut spec);
        self.source.apply(&mut spec);
        let faults = &mut spec.faults;
        if faults.inject.is_empty() {
            faults.inject.push(FaultKind::Kill.to_string());
        }
        if faults.load.is_none() {
            faults.rate.get_or_insert(RATE);
        }
        faults.block = self.block_bytes.map(WrittenSize);
        faults.file_size = self.file_bytes.map(WrittenSize);
        spec
    }
}

pub(super) fn main(args: &FailoverArgs) -> CliResult {
    let measured = measure(
        &args.campaign(),
        &RunAttempt {
            source: &args.source,
            ..args.attempt.attempt(args.shape.trust())
        },
    )?;
    Ok(match measured {
        ControlFlow::Break(code) => code,
        ControlFlow::Continue(_) => ExitCode::SUCCESS,
    })
}
