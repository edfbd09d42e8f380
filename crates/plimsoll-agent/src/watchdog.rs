// SPDX-License-Identifier: Apache-2.0
//! The watchdog that the plan of a stack starts.

use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_machine::host::Host as _;
use plimsoll_machine::host::watchdog::HostWatchdog;

/// Watches the target of a stack's disk and ends its client when the target is gone; returns the message for
/// that case.
///
/// # Errors
/// When its environment variables are missing or invalid, or the client cannot be ended.
pub fn run() -> Result<String, CliError> {
    HostWatchdog::from_environment()
        .ok_or_else(|| CliError::invalid("this subcommand is internal: stacks start it"))?
        .map_err(CliError::usage)?
        .watch(context::host().clock())
        .map_err(doing(
            CliExitCode::Failed,
            "end the client of a target that is gone",
        ))
}
