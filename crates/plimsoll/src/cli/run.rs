// SPDX-License-Identifier: Apache-2.0
//! `plimsoll run`: one workload on one target.

use super::design::BlockDesignChoice;
use super::measure::{
    CampaignChoice, ClientLoadArgs, ConditioningArgs, MeasureOptions, TrialTimingArgs, measure,
};
use super::stack::StackOptionArgs;
use plimsoll_console::failure::{CliExitCode, CliResult};
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_run::campaign::DestroyConsent;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Run one workload on one target and report the results.
///
/// WORKLOAD is a name (see `plimsoll workloads`), with settings after commas or in the options of
/// the original program; or a file: a model made by `plimsoll fit`, with `@FACTOR` to multiply its
/// rates, a fio job (.fio), a filebench script (.f); or an original program before a colon, such as
/// `fio:FILE`.
///
/// TARGET is a directory, a new file (`file:PATH`), a block device, an existing iSCSI or NBD target
/// (`iscsi://host/target/lun`, `nbd://host/export`), an NFS export (`nfs://host/export`), the name
/// of a stack, `null` (discards everything: measures plimsoll itself) or `sim` (a simulated disk in
/// virtual time).
///
/// With --trace-ops nothing is run: the operations of the workload are printed.
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
    /// Target to run it on. Optional, and not touched, with --trace-ops.
    #[arg(required_unless_present_any = ["trace_ops", "trace_issues"])]
    target: Option<String>,
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
    /// Play the whole recording instead of a sample of it.
    ///
    /// By default a run that is shorter than the recording plays one-second slices of counters, or
    /// a stretch of requests.
    #[arg(long, conflicts_with = "length")]
    full_replay: bool,
    /// Write the run folder to DIR (default: ./plimsoll-results/<time>).
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Print what would be done; change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the first N operations of one worker, and run nothing.
    ///
    /// Each with the phase of a series, kind, file, offset and bytes, in order; of a series N of
    /// each phase.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX),
        conflicts_with_all = ["output", "destroy", "full_replay", "dry_run"])]
    trace_ops: Option<u32>,
    /// Print the intended and the actual submission times of the first N operations, in
    /// nanoseconds.
    ///
    /// Plays the block I/O of the first worker on `null`. For tests of pacing.
    #[arg(long, hide = true, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX),
        conflicts_with_all = ["output", "destroy", "full_replay", "dry_run", "trace_ops"])]
    trace_issues: Option<u32>,
    /// Group of the traced worker, from 0.
    #[arg(long, value_name = "G", default_value_t = 0, requires = "trace_ops")]
    group: u32,
    /// Number of the traced worker (thread) in its group, from 0.
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
    let measured = measure(&MeasureOptions {
        targets: args.target.as_slice(),
        workloads: std::slice::from_ref(&args.workload),
        control: false,
        blocks: 1,
        inject: Vec::new(),
        conditions: Vec::new(),
        load_line: None,
        whole: args.full_replay,
        timing: &args.timing,
        shape: &args.shape,
        source: &args.source,
        consent: DestroyConsent::of(&args.destroy),
        policy: VerdictPolicy::default(),
        design: BlockDesignChoice::default(),
        campaign: CampaignChoice::default(),
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
