// SPDX-License-Identifier: Apache-2.0
//! The `plimsoll` command: finds the load a storage system safely carries.
//!
//! `cli/` has one file per subcommand, `campaign/` carries out runs and comparisons, `recorder/`
//! watches disks, `failure.rs` holds the exit codes. Only `cli` prints; what is computed comes from
//! the other crates.
#![forbid(unsafe_code)]

mod campaign;
mod cli;
mod failure;
mod recorder;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
