// SPDX-License-Identifier: Apache-2.0
//! `plimsoll vm shell`: commands in a machine. It is also how plimsoll itself reaches one.

use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_machine::journal::StateDir;
use plimsoll_run::trying;
use std::io::{IsTerminal, stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct VmShellArgs {
    /// State directory of the VMs (default: that of the current user).
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Name of the VM, such as n1 or c1.
    #[arg(value_name = "NAME")]
    name: String,
    /// Command to run; its words are joined by spaces for a shell (default: a shell).
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<String>,
}

pub(super) fn main(args: &VmShellArgs, state: &StateDir) -> CliResult {
    let state = match &args.state {
        Some(dir) => &StateDir::new(dir),
        None => state,
    };
    let failed = || trying(format!("reach machine {}", args.name));
    let lab = super::find(state).map_err(failed())?;
    let port = lab.port(&args.name, &context::host()).map_err(failed())?;
    // An open shell must not keep the machines from being taken down.
    drop(lab);
    let command = if args.words.is_empty() && stdin().is_terminal() {
        format!("PS1='{}# ' exec sh -i", args.name)
    } else if args.words.is_empty() {
        "exec sh".into()
    } else {
        args.words.join(" ")
    };
    let input = stdin();
    let status = port
        .relay(
            &command,
            Some(input.as_fd()),
            (&mut stdout().lock(), &mut stderr().lock()),
            None,
        )
        .map_err(|error| {
            CliError::new(
                CliExitCode::Failed,
                format!("stay connected to machine {}: {error}", args.name),
            )
        })?;
    Ok(ExitCode::from(status))
}
