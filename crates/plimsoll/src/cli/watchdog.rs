// SPDX-License-Identifier: Apache-2.0
//! `plimsoll watchdog`: an internal command that only the plan of a stack starts; not in the help.

use plimsoll_console::failure::CliResult;
use plimsoll_console::terminal;
use std::process::ExitCode;

/// Watch the target of a stack's disk; end its client if the target disappears (internal).
#[derive(Debug, clap::Args)]
pub(super) struct WatchdogArgs {}

pub(super) fn main(_: &WatchdogArgs) -> CliResult {
    terminal::say(&plimsoll_agent::watchdog::run()?);
    Ok(ExitCode::SUCCESS)
}
