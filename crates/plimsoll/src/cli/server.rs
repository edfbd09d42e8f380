// SPDX-License-Identifier: Apache-2.0
//! `plimsoll serve`, `team` and `history`: this process becomes `plimsoll-server`, which lies beside it and
//! reads the same words. So one who only measures has neither a web server nor a database in the program.

use plimsoll_console::command_line;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use std::os::unix::process::CommandExt as _;

/// The name of the program.
const NAME: &str = "plimsoll-server";

#[expect(
    clippy::disallowed_methods,
    reason = "nothing is started: this process goes on as another program"
)]
pub(super) fn main() -> CliResult {
    let failed = |error: std::io::Error| {
        CliError::new(CliExitCode::Failed, format!("start {NAME}: {error}"))
            .hint("it is in the same package as plimsoll, and has to lie beside it")
    };
    let program = std::env::current_exe()
        .map_err(failed)?
        .with_file_name(NAME);
    let words = command_line::words();
    let error = std::process::Command::new(program).args(&words[1..]).exec();
    Err(failed(error))
}
