// SPDX-License-Identifier: Apache-2.0
//! The command line: one file per subcommand, each with its arguments, its work and its output.

mod agent;
mod boot;
mod compare;
mod doctor;
mod export;
mod facts;
mod failover;
mod fit;
mod gates;
mod import;
mod inventory;
mod layers;
mod ledger;
mod measure;
mod mix;
mod model_file;
mod profile;
mod progress;
mod raze;
mod record;
mod report;
mod repro;
mod run;
mod stack;
mod trace_ops;
mod trees;
mod verify;
mod vm;
mod watchdog;
mod workloads;

use crate::failure::{Code, EXIT_CODES, Failure, Outcome};
use crate::terminal;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::path::Path;
use std::process::ExitCode;

/// Finds the load a storage system safely carries: fit a workload from a production recording,
/// run it on several systems side by side, and see which serves it best and how sure that is.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Record(record::Args),
    Fit(fit::Args),
    Verify(verify::Args),
    Profile(profile::Args),
    Run(run::Args),
    Compare(compare::Args),
    Layers(layers::Args),
    Ledger(ledger::Args),
    Stack(stack::Args),
    Failover(failover::Args),
    Vm(vm::Args),
    Report(report::Args),
    Repro(repro::Args),
    Import(import::Args),
    Export(export::Args),
    Mix(mix::Args),
    Raze(raze::Args),
    Agent(agent::Args),
    Doctor(doctor::Args),
    Workloads(workloads::Args),
    #[command(hide = true)]
    Watchdog(watchdog::Args),
    #[command(name = "__make-tree", hide = true)]
    MakeTree(trees::MakeArgs),
    #[command(name = "__forget", hide = true)]
    Forget(trees::ForgetArgs),
    #[command(name = "__boot", hide = true)]
    Boot(boot::Args),
}

/// Reads the command line, does the work, and turns a failure into words and an exit code.
pub(crate) fn main() -> ExitCode {
    let read = with_negatives(Cli::command()).try_get_matches();
    let cli = match read.and_then(|given| Cli::from_arg_matches(&given)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are not failures; clap words and places both well.
            let code = if error.use_stderr() {
                Code::Usage.into()
            } else {
                ExitCode::SUCCESS
            };
            let text = error.render().to_string();
            if error.use_stderr() {
                terminal::say(text.trim_end());
            } else {
                terminal::print(&text);
            }
            return code;
        }
    };
    let outcome = match cli.command {
        Command::Record(args) => record::main(&args),
        Command::Fit(args) => fit::main(&args),
        Command::Verify(args) => verify::main(&args),
        Command::Profile(args) => profile::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Compare(args) => compare::main(&args),
        Command::Layers(args) => layers::main(&args),
        Command::Ledger(args) => ledger::main(&args),
        Command::Stack(args) => stack::main(&args),
        Command::Failover(args) => failover::main(&args),
        Command::Vm(args) => vm::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Repro(args) => repro::main(&args),
        Command::Import(args) => import::main(&args),
        Command::Export(args) => export::main(&args),
        Command::Mix(args) => mix::main(&args),
        Command::Raze(args) => raze::main(&args),
        Command::Agent(args) => agent::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Workloads(args) => workloads::main(&args),
        Command::Watchdog(args) => watchdog::main(&args),
        Command::MakeTree(args) => trees::make(&args),
        Command::Forget(args) => trees::forget(&args),
        Command::Boot(args) => boot::main(&args),
    };
    outcome.unwrap_or_else(|failure| {
        terminal::say(&failure.to_string());
        failure.code.into()
    })
}

/// Takes `-1` for a number, which is refused with what may stand there, not for an option nobody knows.
fn with_negatives(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let takes = arg.get_action().takes_values();
            arg.allow_negative_numbers(takes)
        })
        .mut_subcommands(with_negatives)
}

/// Refuses a file that cannot be written, or is not to be.
fn check_output(path: &Path, force: bool) -> Result<(), Failure> {
    check_directory_of(path)?;
    refuse_existing(path, force)
}

/// Refuses to write over a file unless that is wanted.
fn refuse_existing(path: &Path, force: bool) -> Result<(), Failure> {
    // A link is there, wherever it leads.
    if path.symlink_metadata().is_err() || force {
        return Ok(());
    }
    let text = format!("write {}: it exists", path.display());
    Err(Failure::usage(text).hint("give --force to overwrite it"))
}

/// Refuses a file in a directory that is not there, before the work is done that is to go into it.
fn check_directory_of(path: &Path) -> Result<(), Failure> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() && !directory.is_dir() => {
            let (path, directory) = (path.display(), directory.display());
            let text = format!("write {path}: there is no directory {directory}");
            Err(Failure::usage(text).hint(format!("make it first: mkdir -p {directory}")))
        }
        _ => Ok(()),
    }
}

/// The end of a command that found data missing. What else went wrong is told; only one error ends a program.
fn bad_data(others: impl IntoIterator<Item = Failure>) -> Outcome {
    for failure in others {
        terminal::say(&failure.to_string());
    }
    done(Code::BadData)
}

/// The end of a command in which several things may have gone wrong: all are told, and the worst of them
/// gives the exit code.
fn worst(mut failures: Vec<Failure>) -> Outcome {
    failures.sort_by_key(|failure| match failure.code {
        Code::BadData => 0,
        Code::NotCleaned => 1,
        _ => 2,
    });
    let mut failures = failures.into_iter();
    let Some(worst) = failures.next() else {
        return Ok(ExitCode::SUCCESS);
    };
    for failure in failures {
        terminal::say(&failure.to_string());
    }
    Err(worst)
}

/// An orderly end with an exit code that says something.
fn done(code: Code) -> Outcome {
    Ok(code.into())
}
