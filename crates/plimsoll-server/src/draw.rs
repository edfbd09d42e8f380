// SPDX-License-Identifier: Apache-2.0
//! Command that only the server starts, to draw a page of a run folder; not in the help.

use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use std::io::Write as _;
use std::process::ExitCode;

/// Draws what standard input asks for.
pub(super) fn main() -> CliResult {
    let drawn = plimsoll_serve::draw_for_server(std::io::stdin().lock());
    let drawn = drawn.map_err(|text| CliError::sentence(CliExitCode::Usage, text))?;
    let written = std::io::stdout().lock().write_all(&drawn);
    written.map_err(|error| {
        CliError::new(CliExitCode::Failed, format!("write to the server: {error}"))
    })?;
    Ok(ExitCode::SUCCESS)
}
