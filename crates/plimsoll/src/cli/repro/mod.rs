// SPDX-License-Identifier: Apache-2.0
//! `plimsoll repro`: published experiments done again.

mod pcp_model;
mod tables;

use super::measure::TrialTimingArgs;
use super::stack::StackOptionArgs;
use crate::terminal;
use plimsoll_agent::failure::{CliError, CliResult};
use std::path::PathBuf;
use std::process::ExitCode;

/// Repeat a published experiment, and compare its results with ours.
///
/// Without a name: list the experiments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll repro
  plimsoll repro pcp-model --data demo /mnt/a /mnt/b

scripts/fetch-recordings.sh DIR fetches the recordings of pcp-model.
Exit code 14 when one of our models misses a gate.")]
pub(super) struct ReproArgs {
    /// Experiment to repeat.
    name: Option<String>,
    /// Targets to compare, two or more, as for plimsoll compare (default: the stacks local and
    /// raid1 as root, else none).
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Directory of its data, with pcp/diskmodel and optionally published in it (default: the value
    /// of PLIMSOLL_TEST_DATA).
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// New directory for models, results and the page.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Number of blocks of the comparison.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=1000))]
    blocks: u32,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    /// Allow block devices among the targets to be overwritten, as for plimsoll compare.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "DEVICE")]
    destroy: Vec<String>,
    /// Skip the comparison.
    #[arg(long, conflicts_with = "targets")]
    no_compare: bool,
}

/// An experiment: its name, what was published, and whether it can be done here.
struct Experiment {
    name: &'static str,
    what: &'static str,
    is_there: bool,
}

/// The experiments whose tables were published.
const EXPERIMENTS: [Experiment; 5] = [
    Experiment {
        name: "pcp-model",
        what: "tutorial of Performance Co-Pilot: a fio model of a file server and a database, fitted by hand",
        is_there: true,
    },
    Experiment {
        name: "appliance",
        what: "a storage appliance as a virtual machine: filebench, scp across a fail-over",
        is_there: false,
    },
    Experiment {
        name: "build-farm",
        what: "storage of a farm that builds packages: bonnie++",
        is_there: false,
    },
    Experiment {
        name: "lustre",
        what: "Lustre in a cloud: sgpdd-survey and iozone",
        is_there: false,
    },
    Experiment {
        name: "cloudfs",
        what: "GlusterFS with the layers of CloudFS: iozone",
        is_there: false,
    },
];

pub(super) fn main(args: &ReproArgs) -> CliResult {
    let Some(name) = &args.name else {
        let line = |e: &Experiment| {
            let state = if e.is_there { "      " } else { "not yet" };
            format!("{:<12}{:<9}{}", e.name, state.trim(), e.what)
        };
        let lines: Vec<String> = EXPERIMENTS.iter().map(line).collect();
        terminal::print(&lines.join("\n"));
        return Ok(ExitCode::SUCCESS);
    };
    match EXPERIMENTS.iter().find(|e| e.name == name) {
        Some(known) if known.is_there => pcp_model::main(args),
        Some(_) => Err(
            CliError::usage(format!("reproduce {name}: it is not implemented yet"))
                .hint("run its workloads by hand: docs/repro.md lists them"),
        ),
        None => Err(CliError::invalid(format!("unknown experiment '{name}'"))
            .hint("`plimsoll repro` lists them")),
    }
}
