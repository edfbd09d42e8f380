// SPDX-License-Identifier: Apache-2.0
//! `plimsoll watchdog`: what the plan of a stack starts, and nobody else; not in the help.

use crate::context;
use crate::failure::{CliError, CliExitCode, CliResult, doing};
use crate::terminal;
use plimsoll_lab::host::Host as _;
use plimsoll_lab::host::watchdog::HostWatchdog;
use std::process::ExitCode;

/// Watch the target of a stack's disk, and end its client when the target is gone (internal).
#[derive(Debug, clap::Args)]
pub(super) struct WatchdogArgs {}

pub(super) fn main(_: &WatchdogArgs) -> CliResult {
    let watchdog = HostWatchdog::from_environment()
        .ok_or_else(|| CliError::invalid("this subcommand is internal: stacks start it"))?
        .map_err(CliError::usage)?;
    let said = watchdog.watch(context::host().clock()).map_err(doing(
        CliExitCode::Failed,
        "end the client of a target that is gone",
    ))?;
    terminal::say(&said);
    Ok(ExitCode::SUCCESS)
}
