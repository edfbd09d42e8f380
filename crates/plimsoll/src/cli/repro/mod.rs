// SPDX-License-Identifier: Apache-2.0
//! `plimsoll repro`: published experiments, repeated.

mod experiment;
mod pcp_model;
mod tables;

use super::measure::TrialTimingArgs;
use super::stack::StackOptionArgs;
use crate::terminal;
use plimsoll_agent::failure::{CliError, CliResult};
use plimsoll_core::experiment::ExperimentProfile;
use std::path::PathBuf;
use std::process::ExitCode;

/// Repeat a published experiment, and compare its results with ours.
///
/// Without a name: list the experiments. A path names an experiment of your own: docs/repro.md describes the
/// file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll repro
  plimsoll repro pmsapp --profile quick -o pmsapp
  plimsoll repro pmsapp --dry-run
  plimsoll repro examples/experiments/pmsapp/experiment.toml
  plimsoll repro pcp-model --data demo /mnt/a /mnt/b

scripts/fetch-recordings.sh DIR fetches the recordings of pcp-model.
Exit code 14 when one of our models misses a gate.")]
pub(super) struct ReproArgs {
    /// Experiment to repeat: a name, or a file of your own.
    #[arg(value_name = "NAME|FILE.toml")]
    name: Option<String>,
    /// How much time to spend: minutes, which show the mechanism, or as long as it takes.
    #[arg(long, value_enum, default_value_t, value_name = "PROFILE")]
    profile: ExperimentProfileArg,
    /// Directory for the results and the page (default: ./plimsoll-results/<name>-<time>).
    ///
    /// If DIR holds what the same command began, that is continued: parts that are done are not repeated.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Print the parts, their commands and how long they take; change nothing.
    #[arg(long)]
    dry_run: bool,
    /// pcp-model: targets to compare, two or more, as for plimsoll compare (default: the stacks local and
    /// raid1 as root, else none).
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// pcp-model: directory of its data, with pcp/diskmodel and optionally published in it (default: the
    /// value of PLIMSOLL_TEST_DATA).
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// pcp-model: number of blocks of the comparison (default: 3).
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=1000))]
    blocks: Option<u32>,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    /// Allow block devices among the targets to be overwritten, as for plimsoll compare.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "DEVICE")]
    destroy: Vec<String>,
    /// pcp-model: skip the comparison.
    #[arg(long, conflicts_with = "targets")]
    no_compare: bool,
}

/// A profile by its name.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum ExperimentProfileArg {
    /// Minutes: shows the mechanism, with wide intervals.
    #[default]
    Quick,
    /// As long as it takes.
    Full,
}

impl ExperimentProfileArg {
    fn profile(self) -> ExperimentProfile {
        match self {
            ExperimentProfileArg::Quick => ExperimentProfile::Quick,
            ExperimentProfileArg::Full => ExperimentProfile::Full,
        }
    }
}

impl ReproArgs {
    /// Refuses options that say what an experiment's own file says.
    fn check_experiment(&self) -> Result<(), CliError> {
        let is_given = [
            ("TARGET", !self.targets.is_empty()),
            ("--data", self.data.is_some()),
            ("--blocks", self.blocks.is_some()),
            ("--no-compare", self.no_compare),
            ("--for", self.timing.length().is_some()),
            ("--budget", self.timing.budget().is_some()),
        ];
        match is_given.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((option, _)) => Err(CliError::invalid(format!(
                "{option} belongs to pcp-model: an experiment's file says what is carried out"
            ))
            .hint("copy its folder from examples/experiments, change the file, and give its path")),
        }
    }

    /// What it consents to, for the commands of an experiment: options by their names, with their words.
    fn consent(&self) -> Vec<(&'static str, Vec<String>)> {
        let destroy = self.destroy.iter().map(|device| match device.is_empty() {
            true => "--destroy".into(),
            false => format!("--destroy={device}"),
        });
        vec![
            ("trust", self.shape.trust().words().collect()),
            ("destroy", destroy.collect()),
        ]
    }

    /// Refuses options of experiments that are data.
    fn check_pcp_model(&self) -> Result<(), CliError> {
        match self.dry_run || self.json {
            false => Ok(()),
            true => Err(CliError::invalid(
                "--dry-run and --json belong to the experiments that are data; pcp-model verifies models",
            )),
        }
    }
}

/// The experiment that is code, since it fits and verifies models of recordings.
const PCP_MODEL: &str = "pcp-model";

pub(super) fn main(args: &ReproArgs) -> CliResult {
    let Some(name) = &args.name else {
        terminal::print(&list()?);
        return Ok(ExitCode::SUCCESS);
    };
    if name == PCP_MODEL {
        args.check_pcp_model()?;
        return pcp_model::main(args);
    }
    match experiment::find(name)? {
        Some(source) => experiment::main(args, &source),
        None => Err(CliError::invalid(format!("unknown experiment '{name}'"))
            .hint("`plimsoll repro` lists them; a path to a file names one of your own")),
    }
}

fn list() -> Result<String, CliError> {
    let line = |name: &str, what: &str| format!("{name:<14}{what}");
    let mut lines = vec![line(
        PCP_MODEL,
        "Performance Co-Pilot's tutorial: a fio model of a file server and a database, fitted by hand",
    )];
    for embedded in experiment::EMBEDDED {
        lines.push(line(embedded.name, &embedded.read()?.file.title));
    }
    Ok(lines.join("\n"))
}
