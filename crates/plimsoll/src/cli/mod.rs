// SPDX-License-Identifier: Apache-2.0
//! The command line: one file per subcommand, each with its arguments, its work and its output.

mod boot;
mod check;
mod compare;
mod completions;
mod defaults;
mod design;
mod diff;
mod doctor;
mod durability;
mod export;
mod facts;
mod failover;
mod first_screen;
mod fit;
mod fit_for;
mod gate;
mod gates;
mod import;
mod inject;
mod inventory;
mod layers;
mod ledger;
mod loadline;
mod man;
mod measure;
mod merge;
mod mistakes;
mod mix;
mod model_file;
mod monitoring;
mod new;
mod offers;
mod pool;
mod profile;
mod progress;
mod push;
mod quit_key;
mod raze;
mod record;
#[cfg(test)]
mod reference;
mod report;
mod repro;
mod run;
mod server;
mod stack;
mod trace_ops;
mod trust;
mod tune;
mod verify;
mod vm;
mod watchdog;
mod workloads;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use defaults::OptionDefaults;
use first_screen::{FIRST_SCREEN, commands_by_task};
use plimsoll_agent::raze::{nothing_left, raze_own_runs};
use plimsoll_console::command_line;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, EXIT_CODES};
use plimsoll_console::terminal;
use plimsoll_remote::command::{HistoryArgs, ServeArgs, TeamArgs};
use std::path::Path;
use std::process::ExitCode;

/// Find how much load a storage system carries safely.
///
/// Fit a workload to a production recording, run it on several systems side by side, and see which
/// system serves it best, and with what confidence.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_long_help = EXIT_CODES, help_template = PROGRAM_HELP)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

/// The help of the program. The commands are in a text before it, since the parser knows no groups of them.
const PROGRAM_HELP: &str = "\
{about-with-newline}
{usage-heading} {usage}

{before-help}Options:
{options}{after-help}";

#[derive(Debug, Subcommand)]
enum CliCommand {
    Check(check::CheckArgs),
    Record(record::RecordArgs),
    Fit(fit::FitArgs),
    Verify(verify::VerifyArgs),
    Profile(profile::ProfileArgs),
    Merge(merge::MergeArgs),
    Run(run::RunArgs),
    Compare(compare::CompareArgs),
    Gate(gate::GateArgs),
    #[command(name = "loadline")]
    LoadLine(loadline::LoadLineArgs),
    #[command(name = "fit-for")]
    FitFor(fit_for::FitForArgs),
    Diff(diff::DiffArgs),
    Layers(layers::LayersArgs),
    Tune(tune::TuneArgs),
    Durability(durability::DurabilityArgs),
    Ledger(ledger::LedgerArgs),
    Stack(stack::StackArgs),
    Failover(failover::FailoverArgs),
    Vm(vm::VmArgs),
    Report(report::ReportArgs),
    Serve(ServeArgs),
    Push(push::PushArgs),
    Team(TeamArgs),
    History(HistoryArgs),
    Repro(repro::ReproArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Mix(mix::MixArgs),
    Raze(raze::RazeArgs),
    New(new::NewArgs),
    Doctor(doctor::DoctorArgs),
    Workloads(workloads::WorkloadsArgs),
    Man(man::ManArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Watchdog(watchdog::WatchdogArgs),
    #[command(name = "__boot", hide = true)]
    Boot(boot::BootArgs),
    #[command(name = "__offers", hide = true)]
    Offers(offers::OffersArgs),
}

/// The words behind the name of the program.
fn typed_words() -> Vec<String> {
    let words = std::env::args_os().skip(1);
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Helper of a workload that is a program, if this process was started as one.
fn helper() -> Option<ExitCode> {
    let words = typed_words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = plimsoll_agent::trees::helper(&words)?;
    Some(done.map_or_else(
        |failure| {
            terminal::say(&failure.to_string());
            failure.code.into()
        },
        |()| ExitCode::SUCCESS,
    ))
}

/// The code of a program that panicked, as Rust's own.
const EXIT_PANICKED: u8 = 101;

/// Does what the command line asks for. A panic is a defect, and leaves nothing behind either.
pub(crate) fn main() -> ExitCode {
    let code = std::panic::catch_unwind(answer_command_line).unwrap_or_else(|_| after_a_panic());
    terminal::ended(code)
}

/// Undoes what this process made: nothing else does any more.
fn after_a_panic() -> ExitCode {
    terminal::say(
        "plimsoll panicked, which is a defect of plimsoll; it undoes what it made on this machine",
    );
    let undone = context::state_dir()
        .and_then(|state| raze_own_runs(&state, &mut context::nodes()))
        .and_then(|summary| nothing_left(&summary.left));
    if let Err(failure) = undone {
        terminal::say(&failure.to_string());
    }
    EXIT_PANICKED.into()
}

/// Reads the command line, does the work, and turns a failure into words and an exit code.
fn answer_command_line() -> ExitCode {
    completions::answer_shell();
    context::print_notices_with(terminal::say);
    if let Some(done) = helper() {
        return done;
    }
    if std::env::args_os().len() <= 1 {
        terminal::print(FIRST_SCREEN);
        return ExitCode::SUCCESS;
    }
    let words = typed_words();
    let defaults = match OptionDefaults::of(&words) {
        Ok(defaults) => defaults,
        Err(failure) => {
            terminal::say(&failure.to_string());
            return failure.code.into();
        }
    };
    let program = match &defaults {
        Some(defaults) => defaults.apply(definition(), &words[0]),
        None => definition(),
    };
    let read = program.try_get_matches();
    let cli = match read.and_then(|given| Cli::from_arg_matches(&given)) {
        Ok(cli) => {
            if let Some(defaults) = &defaults {
                terminal::say(&defaults.notice());
            }
            cli
        }
        Err(error) => {
            // Help and version are not failures; clap words and places both well.
            let code = if error.use_stderr() {
                CliExitCode::Usage.into()
            } else {
                ExitCode::SUCCESS
            };
            match error.use_stderr() {
                true => terminal::say(&mistakes::text(&error, &words)),
                false => terminal::print(&error.render().to_string()),
            }
            return code;
        }
    };
    carry_out(cli.command).unwrap_or_else(|failure| {
        terminal::say(&failure.to_string());
        failure.code.into()
    })
}

/// Carries out a command that is a part of another one, by the words behind the name of the program. They are
/// from `file`, or of this program.
fn carry_out_words(words: &[String], file: Option<&Path>) -> CliResult {
    let cli = Cli::from_arg_matches(&matches_of(words)?);
    let cli = cli.map_err(|error| misread(words, &error))?;
    command_line::with_words(words, file, || carry_out(cli.command))
}

/// The words of such a command as its arguments.
fn matches_of(words: &[String]) -> Result<clap::ArgMatches, CliError> {
    let program = std::iter::once("plimsoll".to_owned());
    let read = definition().try_get_matches_from(program.chain(words.iter().cloned()));
    read.map_err(|error| misread(words, &error))
}

fn misread(words: &[String], error: &clap::Error) -> CliError {
    let text = mistakes::text(error, words);
    let text = text.trim_start_matches("error: ").to_owned();
    CliError::invalid(format!("{}: {text}", words.join(" ")))
}

/// The commands that the words name, from the program itself to the innermost one.
fn commands_named(words: &[String]) -> Vec<clap::Command> {
    let mut commands = vec![definition()];
    for word in words {
        let innermost = commands
            .last()
            .and_then(|command| command.find_subcommand(word));
        let Some(inner) = innermost.cloned() else {
            break;
        };
        commands.push(inner);
    }
    commands
}

/// Whether the command that the words name has an option of this name.
fn has_option(words: &[String], name: &str) -> bool {
    let commands = commands_named(words);
    let mut options = commands
        .last()
        .into_iter()
        .flat_map(clap::Command::get_arguments);
    options.any(|argument| argument.get_long() == Some(name))
}

fn carry_out(command: CliCommand) -> CliResult {
    match command {
        CliCommand::Record(args) => record::main(&args),
        CliCommand::Fit(args) => fit::main(&args),
        CliCommand::Verify(args) => verify::main(&args),
        CliCommand::Profile(args) => profile::main(&args),
        CliCommand::Merge(args) => merge::main(&args),
        CliCommand::Run(args) => run::main(&args),
        CliCommand::Compare(args) => compare::main(&args),
        CliCommand::Gate(args) => gate::main(&args),
        CliCommand::LoadLine(args) => loadline::main(&args),
        CliCommand::Check(args) => check::main(&args),
        CliCommand::FitFor(args) => fit_for::main(&args),
        CliCommand::Diff(args) => diff::main(&args),
        CliCommand::Layers(args) => layers::main(&args),
        CliCommand::Tune(args) => tune::main(&args),
        CliCommand::Durability(args) => durability::main(&args),
        CliCommand::Ledger(args) => ledger::main(&args),
        CliCommand::Stack(args) => stack::main(&args),
        CliCommand::Failover(args) => failover::main(&args),
        CliCommand::Vm(args) => vm::main(&args),
        CliCommand::Report(args) => report::main(&args),
        CliCommand::Push(args) => push::main(&args),
        CliCommand::Serve(_) | CliCommand::Team(_) | CliCommand::History(_) => server::main(),
        CliCommand::Repro(args) => repro::main(&args),
        CliCommand::Import(args) => import::main(&args),
        CliCommand::Export(args) => export::main(&args),
        CliCommand::Mix(args) => mix::main(&args),
        CliCommand::Raze(args) => raze::main(&args),
        CliCommand::New(args) => new::main(&args),
        CliCommand::Doctor(args) => doctor::main(&args),
        CliCommand::Workloads(args) => workloads::main(&args),
        CliCommand::Man(args) => man::main(&args),
        CliCommand::Completions(args) => completions::main(&args),
        CliCommand::Watchdog(args) => watchdog::main(&args),
        CliCommand::Boot(args) => boot::main(&args),
        CliCommand::Offers(args) => offers::main(&args),
    }
}

/// The whole command line, from which help, manual pages and completions are also made.
fn definition() -> clap::Command {
    let program = with_negatives(Cli::command());
    let commands = commands_by_task(&program);
    program.before_help(commands)
}

/// Parses `-1` as a value, so that errors name the valid range, not an "unknown option".
fn with_negatives(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let takes = arg.get_action().takes_values();
            arg.allow_negative_numbers(takes)
        })
        .mut_subcommands(with_negatives)
}

/// Fails with the worst of several things that went wrong, which gives the exit code; the others are printed.
fn worst(mut failures: Vec<CliError>) -> Result<(), CliError> {
    failures.sort_by_key(|failure| match failure.code {
        CliExitCode::BadData => 0,
        CliExitCode::NotCleaned => 1,
        _ => 2,
    });
    let mut failures = failures.into_iter();
    let worst = failures.next();
    for failure in failures {
        terminal::say(&failure.to_string());
    }
    worst.map_or(Ok(()), Err)
}

/// An orderly end with an exit code that says something.
fn done(code: CliExitCode) -> CliResult {
    Ok(code.into())
}
