// SPDX-License-Identifier: Apache-2.0
//! `plimsoll completions`: completes commands, options, and the names of workloads, stacks, faults and
//! conditions with their settings.
//!
//! The script of a shell asks this program, so names and settings are those of the version that runs.

use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_console::terminal;
use plimsoll_core::failover::StackConditionKind;
use plimsoll_core::fault::FaultKind;
use plimsoll_core::settings::SettingDefinition;
use plimsoll_lab::stacks;
use std::ffi::OsStr;
use std::process::ExitCode;

/// Print a completion script for a shell.
///
/// The script completes commands, options, workloads, stacks, faults and their settings. The Debian
/// package installs the scripts of bash, zsh and fish.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll completions bash > ~/.local/share/bash-completion/completions/plimsoll
  plimsoll completions zsh > ~/.zfunc/_plimsoll
  plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish")]
pub(super) struct CompletionsArgs {
    /// Shell that runs the script.
    #[arg(value_parser = SHELLS)]
    shell: String,
}

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// The variable by which a script asks.
const VARIABLE: &str = "PLIMSOLL_COMPLETE";

pub(super) fn main(args: &CompletionsArgs) -> CliResult {
    let shells = Shells::builtins();
    let shell = shells.completer(&args.shell);
    let shell = shell.ok_or_else(|| CliError::usage(format!("complete in {}", args.shell)))?;
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "plimsoll", "plimsoll", "plimsoll", &mut script)
        .map_err(doing(CliExitCode::Failed, "write completions"))?;
    terminal::print(&String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}

/// Answers the script of a shell, where it is that which asks; the program ends then.
pub(super) fn answer_shell() {
    CompleteEnv::with_factory(with_values)
        .var(VARIABLE)
        .bin("plimsoll")
        .completer("plimsoll")
        .complete();
}

/// The command line with the values that its arguments may have, by the names of these values in the help.
fn with_values() -> clap::Command {
    completed(super::definition())
}

fn completed(command: clap::Command) -> clap::Command {
    command
        .mut_args(|argument| {
            let name = argument.get_value_names().and_then(<[_]>::first);
            let name = name.map(ToString::to_string);
            let name = name.unwrap_or_else(|| argument.get_id().as_str().to_uppercase());
            match values_of(&name) {
                Some(values) => argument.add(ArgValueCompleter::new(values)),
                None => argument,
            }
        })
        .mut_subcommands(completed)
}

/// Names that can be completed, and whether a path may be in their place.
struct CompletedValues {
    names: fn(&str) -> Vec<String>,
    takes_paths: bool,
    /// Whether a comma separates several.
    is_list: bool,
}

fn values_of(value_name: &str) -> Option<CompletedValues> {
    let (names, takes_paths, is_list): (fn(&str) -> Vec<String>, _, _) = match value_name {
        "WORKLOAD" => (workloads, true, false),
        "TARGET" => (targets, true, false),
        "STACK" => (targets, false, false),
        "FAULT,..." => (
            |_| FaultKind::ALL.map(|kind| kind.name().into()).into(),
            false,
            true,
        ),
        "CONDITION,..." => (
            |_| StackConditionKind::ALL.map(|(name, _)| name.into()).into(),
            false,
            true,
        ),
        _ => return None,
    };
    Some(CompletedValues {
        names,
        takes_paths,
        is_list,
    })
}

impl ValueCompleter for CompletedValues {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let typed = current.to_string_lossy();
        let before = typed.rfind(',').filter(|_| self.is_list);
        let before = &typed[..before.map_or(0, |comma| comma + 1)];
        let whole = |name: String| format!("{before}{name}");
        let names = (self.names)(&typed).into_iter().map(whole);
        let names = names.filter(|name| name.starts_with(&*typed));
        let mut all: Vec<CompletionCandidate> = names.map(CompletionCandidate::new).collect();
        if self.takes_paths {
            all.extend(PathCompleter::any().complete(current));
        }
        all
    }
}

/// Workloads by name; behind a name and a comma, its settings.
fn workloads(typed: &str) -> Vec<String> {
    let Some((name, _)) = typed.split_once(',') else {
        return plimsoll_classics::known()
            .map(|known| known.name.into())
            .collect();
    };
    let known = plimsoll_classics::find(name);
    let settings = known.map_or(&[][..], |known| known.settings);
    behind(typed, ',', settings)
}

/// Stacks by name; behind a name and a bracket, its settings.
fn targets(typed: &str) -> Vec<String> {
    let Some((name, _)) = typed.split_once('(') else {
        return stacks::ALL
            .iter()
            .map(|stack| stack.name().into())
            .collect();
    };
    let stack = stacks::ALL.iter().find(|stack| stack.name() == name);
    behind(typed, '(', stack.map_or(&[][..], |stack| stack.settings()))
}

/// The typed text up to its last separator, with each of the settings behind it.
fn behind(typed: &str, first: char, settings: &[SettingDefinition]) -> Vec<String> {
    let end = typed.rfind([first, ',']).map_or(0, |at| at + 1);
    let settings = settings.iter();
    settings
        .map(|setting| format!("{}{}=", &typed[..end], setting.name))
        .collect()
}
