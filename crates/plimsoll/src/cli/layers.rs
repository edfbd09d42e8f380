// SPDX-License-Identifier: Apache-2.0
//! `plimsoll layers`: what each layer of a stack costs.

use super::compare::BLOCKS;
use super::design::{BLOCKS_RANGE, BlockDesignArgs};
use super::measure::{
    CampaignChoice, ClientLoadArgs, ConditioningArgs, MeasureOptions, TrialTimingArgs, measure,
    policy,
};
use super::stack::StackOptionArgs;
use plimsoll_console::failure::{CliError, CliResult};
use plimsoll_core::plan::StackSpec;
use plimsoll_lab::stacks::{StackConfig, StackLadderRung};
use plimsoll_run::campaign::DestroyConsent;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure what each layer of a stack costs.
///
/// Brings the stack up layer by layer (disk, export, transport, redundancy, tenant, encryption) and
/// compares each layer with the one below it, in one interleaved experiment. The lowest takes part
/// a second time as the A/A control.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll layers raid1 -w varmail
  plimsoll layers raid1 -w varmail --effect 10% --budget 20m
  plimsoll layers 'gluster(distribute)+tenant+crypt' -w 'iozone -c -e -r 1m -s 64m -i 0 -i 1'")]
pub(super) struct LayersArgs {
    /// Stack, with its layers.
    #[arg(value_name = "STACK")]
    stack: String,
    /// Workload to run, see plimsoll run --help. May be repeated.
    #[arg(short, long = "workload", required = true, value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// Number of blocks: how often every layer runs every workload (default: 5; with --effect
    /// what the pilot's noise asks for).
    #[arg(long, value_parser = clap::value_parser!(u32).range(BLOCKS_RANGE))]
    blocks: Option<u32>,
    #[command(flatten)]
    design: BlockDesignArgs,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    conditioning: ConditioningArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    /// Equivalence margin: layers within this fraction of each other are equivalent. Fixed before
    /// the first block.
    #[arg(long, default_value_t = 0.05, value_name = "FRACTION")]
    margin: f64,
    /// Write the run folder to DIR (default: ./plimsoll-results/<time>).
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Print what would be done, in which order; change nothing.
    #[arg(long)]
    dry_run: bool,
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
    let policy = policy(args.margin)?;
    let choice = StackConfig::parse(&args.stack).map_err(CliError::invalid)?;
    let rungs = rungs(&choice);
    if rungs.len() < 2 {
        return Err(CliError::usage(format!(
            "measure {} layer by layer: it has one layer only",
            args.stack
        )));
    }
    let given = args.timing.given(args.blocks, rungs.len());
    let design = args.design.choice(&given)?;
    let targets: Vec<String> = rungs.iter().map(|rung| rung.stack.clone()).collect();
    let ladder: Vec<String> = rungs.into_iter().map(|rung| rung.adds).collect();
    let measured = measure(&MeasureOptions {
        targets: &targets,
        workloads: &args.workloads,
        control: true,
        blocks: args.blocks.unwrap_or(BLOCKS),
        inject: Vec::new(),
        conditions: Vec::new(),
        load_line: None,
        whole: false,
        timing: &args.timing,
        shape: &args.shape,
        source: &ClientLoadArgs::HERE,
        consent: DestroyConsent::of(&[]),
        policy,
        design,
        campaign: CampaignChoice::default(),
        conditioning: args.conditioning.choice(),
        output: args.output.as_deref(),
        json: args.json,
        dry_run: args.dry_run,
        quiet: false,
        ladder: &ladder,
    })?;
    Ok(match measured {
        ControlFlow::Break(code) => code,
        ControlFlow::Continue(_) => ExitCode::SUCCESS,
    })
}
