// SPDX-License-Identifier: Apache-2.0
//! The `plimsoll` command: finds the load a storage system safely carries.
//!
//! `cli/` has one file per subcommand. Only `terminal` prints; runs are carried out by `plimsoll-run`,
//! and what is computed comes from the crates below it.
#![forbid(unsafe_code)]

mod cli;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
