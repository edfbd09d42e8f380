// SPDX-License-Identifier: Apache-2.0
//! `plimsoll layers`: what each layer of a stack costs.

use super::design::{BLOCKS_RANGE, BlockDesignArgs, share};
use super::measure::{ConditioningArgs, RunAttemptArgs, TrialTimingArgs, measure};
use super::stack::StackOptionArgs;
use plimsoll_console::failure::{CliError, CliResult};
use plimsoll_core::campaign::{CampaignOrder, CampaignSpec};
use plimsoll_core::plan::StackSpec;
use plimsoll_lab::stacks::{StackConfig, StackLadderRung};
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Measure what each layer of a stack costs.
///
/// The command brings the stack up layer by layer (disk, export, transport, redundancy, tenant,
/// encryption) and compares each layer with the one below it, in one interleaved experiment. The
/// lowest layer takes part a second time as the A/A control.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll layers raid1 -w varmail
  plimsoll layers raid1 -w varmail --effect 10% --budget 20m
  plimsoll layers 'gluster(distribute)+tenant+crypt' -w 'iozone -c -e -r 1m -s 64m -i 0 -i 1'")]
pub(super) struct LayersArgs {
    /// Stack to measure, with its layers.
    #[arg(value_name = "STACK")]
    stack: String,
    /// Workload to run, see plimsoll run --help. May be repeated.
    #[arg(short, long = "workload", required = true, value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// Number of blocks (default: 5; with --effect: as the pilot's noise requires).
    ///
    /// Every block runs every workload once on every layer.
    #[arg(long, value_parser = clap::value_parser!(u32).range(BLOCKS_RANGE), help_heading = "Blocks and verdicts")]
    blocks: Option<u32>,
    #[command(flatten)]
    design: BlockDesignArgs,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    attempt: RunAttemptArgs,
    #[command(flatten)]
    conditioning: ConditioningArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    /// Equivalence margin: layers within this fraction are equivalent (default: 0.05).
    ///
    /// The margin is fixed before the first block.
    #[arg(long, value_parser = share, value_name = "FRACTION", help_heading = "Blocks and verdicts", hide_short_help = true)]
    margin: Option<f64>,
}

/// The rungs of a stack: those of its base, then one for each layer.
fn rungs(choice: &StackConfig) -> Vec<StackLadderRung> {
    let mut rungs = choice.stack.rungs(choice);
    let parts = &choice.parts;
    for (n, layer) in parts.layers.iter().enumerate() {
        let up_to_here = StackSpec {
            base: parts.base.clone(),
            layers: parts.layers[..=n].to_vec(),
        };
        rungs.push(StackLadderRung {
            adds: layer.name.clone(),
            stack: up_to_here.to_string(),
        });
    }
    rungs
}

pub(super) fn main(args: &LayersArgs) -> CliResult {
    let choice = StackConfig::parse(&args.stack).map_err(CliError::invalid)?;
    let rungs = rungs(&choice);
    if rungs.len() < 2 {
        return Err(CliError::usage(format!(
            "measure {} layer by layer: it has one layer only",
            args.stack
        )));
    }
    let mut spec = CampaignSpec {
        blocks: args.blocks,
        margin: args.margin,
        order: CampaignOrder::Random,
        ladder: rungs.iter().map(|rung| rung.adds.clone()).collect(),
        target: rungs.iter().map(|rung| (&rung.stack).into()).collect(),
        workload: args.workloads.iter().map(Into::into).collect(),
        ..CampaignSpec::default()
    };
    args.design.apply(&mut spec);
    args.timing.apply(&mut spec);
    args.conditioning.apply(&mut spec);
    args.shape.apply(&mut spec);
    let measured = measure(&spec, &args.attempt.attempt(args.shape.trust()))?;
    Ok(match measured {
        ControlFlow::Break(code) => code,
        ControlFlow::Continue(_) => ExitCode::SUCCESS,
    })
}
