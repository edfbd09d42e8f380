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
pub(crate) mod spec;
mod stack;
mod trace_ops;
mod trees;
mod verify;
mod vm;
mod watchdog;
mod workloads;

use crate::failure::{Code, EXIT_CODES, Failure, Outcome};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use plimsoll_core::text::{printable, printable_coloured, printable_json, printable_lines};
use plimsoll_core::units;
use plimsoll_lab::host::{LocalHost, Nodes, SearchPath};
use plimsoll_lab::journal::StateDir;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
                say(text.trim_end());
            } else {
                print(&text);
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
        say(&failure.to_string());
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

/// Prints a result, in which names from files, nodes and programs are only text.
fn print(text: &str) {
    write_out(&printable_lines(text));
}

/// Prints a result that a renderer coloured.
fn print_coloured(text: &str) {
    write_out(&printable_coloured(text));
}

/// A reader that went away (a closed pipe) is no failure.
fn write_out(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = out.write_all(b"\n");
    }
    let _ = out.flush();
}

/// Prints a result for machines.
fn print_json(value: &serde_json::Value) {
    let text = serde_json::to_string_pretty(value).expect("values are plain data");
    write_out(&printable_json(&text));
}

/// Says what is going on or went wrong, beside the results.
fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "{}", printable_lines(text));
}

/// The same in place of the line before, on a terminal.
fn say_over(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "\r\x1b[K{}", printable(text));
    let _ = err.flush();
}

/// Whether results may be coloured: a terminal whose user did not ask for plain text.
fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Columns of the terminal as its user set them, else a common width.
fn width() -> usize {
    let set = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok());
    set.unwrap_or(100).clamp(60, 200)
}

/// Where journals and stacks are kept.
fn state_dir() -> Result<StateDir, Failure> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let path = if let Some(set) = std::env::var_os("PLIMSOLL_STATE") {
        PathBuf::from(set)
    } else if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/lib/plimsoll")
    } else if let Some(set) = std::env::var_os("XDG_STATE_HOME") {
        PathBuf::from(set).join("plimsoll")
    } else if let Some(home) = home {
        home.join(".local/state/plimsoll")
    } else {
        return Err(Failure::usage(
            "find a place for the journal: neither HOME nor PLIMSOLL_STATE is set",
        )
        .hint("set PLIMSOLL_STATE to a directory on a disk that is not under test"));
    };
    Ok(StateDir::new(path))
}

/// This machine, with the user's search path.
pub(crate) fn host() -> LocalHost {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let host = LocalHost::new(SearchPath::new(&path));
    match state_dir() {
        Ok(state) => host.of_state(state.path()),
        Err(_) => host,
    }
}

/// This machine and the nodes that are reached from it.
pub(crate) fn nodes() -> Nodes {
    Nodes::new(host()).telling(|node, copy| {
        let size = units::size(copy.bytes as f64);
        let seconds = copy.took.as_secs_f64();
        say(&format!(
            "node {node}: copied this program ({size}) in {seconds:.1} s"
        ));
    })
}

/// A flag that Ctrl-C, SIGTERM and SIGHUP set; everything that waits looks at it.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| Failure::new(Code::Failed, format!("watch for Ctrl-C: {error}")))?;
    }
    Ok(flag)
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
        say(&failure.to_string());
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
        say(&failure.to_string());
    }
    Err(worst)
}

/// An orderly end with an exit code that says something.
fn done(code: Code) -> Outcome {
    Ok(code.into())
}
