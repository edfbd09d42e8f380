// SPDX-License-Identifier: Apache-2.0
//! `plimsoll completions`: what a shell needs to complete this program's subcommands and options.

use clap_complete::{Shell, generate};
use plimsoll_console::failure::CliResult;
use plimsoll_console::terminal;
use std::process::ExitCode;

/// Print the completions of this program for a shell.
///
/// The Debian package installs those of bash, zsh and fish.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll completions bash > ~/.local/share/bash-completion/completions/plimsoll
  plimsoll completions zsh > ~/.zfunc/_plimsoll
  plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish")]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(super) fn main(args: &CompletionsArgs) -> CliResult {
    terminal::print(&script(args.shell));
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell) -> String {
    let mut out = Vec::new();
    generate(shell, &mut super::definition(), "plimsoll", &mut out);
    String::from_utf8(out).expect("completions are text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;
    use plimsoll_core::text::printable_lines;

    /// Whether the generator leaves the options of this command out: for fish it writes those of two levels.
    fn is_too_deep(command: &Command, shell: Shell) -> bool {
        let name = command.get_bin_name().unwrap_or_default();
        shell == Shell::Fish && name.split(' ').count() > 3
    }

    fn visit(command: &Command, script: &str, shell: Shell, faults: &mut Vec<String>) {
        let shown = command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set() && !is_too_deep(command, shell));
        for long in shown.filter_map(|arg| arg.get_long()) {
            // fish names an option without its dashes.
            let typed = match shell {
                Shell::Fish => format!("-l {long}"),
                _ => format!("--{long}"),
            };
            if !script.contains(&typed) {
                faults.push(format!("{shell}: {} lacks {typed}", command.get_name()));
            }
        }
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            if !script.contains(sub.get_name()) {
                faults.push(format!("{shell}: {} is missing", sub.get_name()));
            }
            visit(sub, script, shell, faults);
        }
    }

    #[test]
    fn every_command_and_option_is_completed() {
        let mut root = crate::cli::definition();
        root.build();
        let mut faults = Vec::new();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            visit(&root, &script, shell, &mut faults);
            assert_eq!(script, printable_lines(&script), "{shell}: what is printed");
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
