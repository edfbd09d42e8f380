// SPDX-License-Identifier: Apache-2.0
//! `plimsoll run`: one workload on one target.

use super::measure::{
    ClientLoadArgs, MeasureOptions, SensitivityBoundArgs, TrialTimingArgs, measure,
};
use super::stack::StackOptionArgs;
use crate::campaign::DestroyConsent;
use crate::failure::{CliExitCode, CliResult};
use plimsoll_core::comparison::VerdictPolicy;
use std::path::PathBuf;

/// Run one workload on one target and report what it did.
///
/// WORKLOAD is known by name (`plimsoll workloads` lists all), with settings behind commas or as
/// options of the original; or a file: a model made by `plimsoll fit`, with `@FACTOR` to multiply
/// its rates, a fio job (.fio), filebench's language (.f); or a program before a colon, such as
/// `fio:FILE`. TARGET is a directory, a new file (`file:PATH`), a block device, a disk of somebody
/// else (`iscsi://host/target/lun`, `nbd://host/export`), an NFS export (`nfs://host/export`), the
/// name of a stack, `null` (nothing: measures plimsoll itself) or `sim` (a simulated disk in
/// virtual time). With --trace-ops nothing is run: it shows what the workload would do.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll run varmail,nfiles=50000 /mnt/a
  plimsoll run 'bonnie++ -s 4g -n 16 -r 0' /mnt/a
  plimsoll run nas.toml@10 /mnt/a --for 30s
  plimsoll run nas.toml sim --full-replay
  plimsoll run varmail,nthreads=1 --trace-ops 13")]
pub(super) struct RunArgs {
    /// Workload to run.
    workload: String,
    /// Where to run it. Not needed, and not touched, with --trace-ops.
    #[arg(required_unless_present_any = ["trace_ops", "trace_issues"])]
    target: Option<String>,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    at_corners: SensitivityBoundArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    #[command(flatten)]
    source: ClientLoadArgs,
    /// Block devices among the targets may be overwritten. One that carries a file system, a
    /// partition table or a RAID signature, or is in use, must be named again: --destroy=/dev/sdx.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "DEVICE")]
    destroy: Vec<String>,
    /// Play the whole recording instead of one-second slices of it.
    #[arg(long, conflicts_with = "length")]
    full_replay: bool,
    /// Run folder to make (default: ./plimsoll-results/<time>).
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Say what would be done and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Only print the first N operations of one worker, or thread, in order (of a series: of each
    /// phase): phase of a series, kind, file, offset and bytes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX),
        conflicts_with_all = ["output", "destroy", "full_replay", "dry_run"])]
    trace_ops: Option<u32>,
    /// Play block I/O on nothing and print, for the first N operations of its first worker, when
    /// each was meant to start and when it was issued, in nanoseconds. For tests of pacing.
    #[arg(long, hide = true, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX),
        conflicts_with_all = ["output", "destroy", "full_replay", "dry_run", "trace_ops"])]
    trace_issues: Option<u32>,
    /// Group of the worker that is traced, from 0.
    #[arg(long, value_name = "G", default_value_t = 0, requires = "trace_ops")]
    group: u32,
    /// Which worker or thread of the group is traced, from 0.
    #[arg(long, value_name = "W", default_value_t = 0, requires = "trace_ops")]
    worker: u32,
}

/// Most operations that are traced: they are kept until all are known.
const COUNT_MAX: i64 = 10_000_000;

pub(super) fn main(args: &RunArgs) -> CliResult {
    if let Some(count) = args.trace_ops {
        let who = (args.group, args.worker);
        return super::trace_ops::print(&args.workload, who, args.timing.seed(), count, args.json);
    }
    if let Some(count) = args.trace_issues {
        return super::trace_ops::print_issues(
            &args.workload,
            args.timing.seed(),
            count,
            args.json,
        );
    }
    let finished = measure(&MeasureOptions {
        targets: args.target.as_slice(),
        workloads: std::slice::from_ref(&args.workload),
        control: false,
        blocks: 1,
        whole: args.full_replay,
        corners: args.at_corners.corners(),
        timing: &args.timing,
        shape: &args.shape,
        source: &args.source,
        consent: DestroyConsent::of(&args.destroy),
        policy: VerdictPolicy::default(),
        output: args.output.as_deref(),
        json: args.json,
        dry_run: args.dry_run,
        ladder: &[],
    })?;
    let Some(results) = finished else {
        return Ok(std::process::ExitCode::SUCCESS);
    };
    super::measure::check_data(&results)?;
    super::measure::check_nodes(&results)?;
    if !results.complete {
        return super::done(CliExitCode::Interrupted);
    }
    super::measure::check_trials(&results)?;
    let missed = results
        .trials
        .iter()
        .flat_map(|trial| &trial.fidelity)
        .any(|line| !line.passed());
    if missed {
        super::done(CliExitCode::Gate)
    } else {
        Ok(std::process::ExitCode::SUCCESS)
    }
}
