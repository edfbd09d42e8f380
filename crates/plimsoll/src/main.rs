// SPDX-License-Identifier: Apache-2.0
//! The `plimsoll` command: finds the load a storage system safely carries.
//!
//! `cli/` has one file per subcommand. Runs are carried out by `plimsoll-run`,
//! and what is computed comes from the crates below it.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
