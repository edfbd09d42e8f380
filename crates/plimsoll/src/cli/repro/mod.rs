// SPDX-License-Identifier: Apache-2.0
//! `plimsoll repro`: published experiments, repeated.

mod experiment;

use super::stack::StackOptionArgs;
use plimsoll_console::failure::{CliError, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::experiment::{ExperimentFile, ExperimentProfile};
use std::path::PathBuf;
use std::process::ExitCode;

/// Repeat a published experiment, and compare the results.
///
/// Without a name, the command lists the experiments. A path names an experiment of your own
/// (docs/repro.md describes the file).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll repro
  plimsoll repro pmsapp --profile quick -o pmsapp
  plimsoll repro pmsapp --dry-run
  plimsoll repro examples/experiments/pmsapp/experiment.toml
  plimsoll repro pcp-model --data demo

scripts/fetch-recordings.sh DIR fetches the recordings of pcp-model.")]
pub(super) struct ReproArgs {
    /// Experiment to repeat: a name, or a file of your own.
    #[arg(value_name = "NAME|FILE.toml")]
    name: Option<String>,
    /// Time to spend on the experiment.
    #[arg(long, value_enum, default_value_t, value_name = "PROFILE")]
    profile: ExperimentProfileArg,
    /// Directory for the results and the page (default: ./plimsoll-results/<name>-<time>).
    ///
    /// If DIR holds unfinished results of the same command, the command resumes: finished parts are
    /// not repeated.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Print the parts, their commands and durations; change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Directory of recordings (default: value of PLIMSOLL_TEST_DATA).
    ///
    /// For experiments whose commands contain {data}.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    shape: StackOptionArgs,
    /// Allow block devices among the targets to be overwritten.
    ///
    /// As for plimsoll compare.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "DEVICE")]
    destroy: Vec<String>,
}

/// A profile by its name.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum ExperimentProfileArg {
    /// Minutes: shows the mechanism, with wide intervals.
    #[default]
    Quick,
    /// As long as the original sizes and lengths take.
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
    /// The folder that `{data}` stands for in the commands of an experiment, where one has it.
    fn data_of(&self, file: &ExperimentFile) -> Result<Option<PathBuf>, CliError> {
        let commands = file.part.iter().flat_map(|part| [&part.quick, &part.full]);
        let mut words = commands.flatten().flat_map(|command| &command.run);
        if !words.any(|word| word.contains("{data}")) {
            return Ok(None);
        }
        let set = || std::env::var_os("PLIMSOLL_TEST_DATA").map(PathBuf::from);
        let folder = self.data.clone().or_else(set);
        folder.map(Some).ok_or_else(|| {
            CliError::usage("find the recordings of the experiment: no folder is given").hint(
                "give it with --data DIR; scripts/fetch-recordings.sh DIR fetches those of pcp-model",
            )
        })
    }

    /// Consent for the commands of an experiment: options by their names, with their words.
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
}

pub(super) fn main(args: &ReproArgs) -> CliResult {
    let Some(name) = &args.name else {
        terminal::print(&list()?);
        return Ok(ExitCode::SUCCESS);
    };
    match experiment::find(name)? {
        Some(source) => experiment::main(args, &source),
        None => Err(CliError::invalid(format!("unknown experiment '{name}'"))
            .hint("`plimsoll repro` lists them; a path to a file names one of your own")),
    }
}

fn list() -> Result<String, CliError> {
    let line = |name: &str, what: &str| format!("{name:<14}{what}");
    let mut lines = Vec::new();
    for embedded in experiment::EMBEDDED {
        lines.push(line(embedded.name, &embedded.read()?.file.title));
    }
    Ok(lines.join("\n"))
}
