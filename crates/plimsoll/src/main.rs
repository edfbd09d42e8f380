// SPDX-License-Identifier: Apache-2.0
//! The `plimsoll` command: finds the load a storage system safely carries.
//!
//! `cli/` has one file per subcommand, `campaign/` carries out runs and comparisons, `recorder/`
//! watches disks; below them lie what users write for targets and workloads (`spec`), this machine
//! and its nodes (`context`), and the exit codes (`failure`). Only `terminal` prints; what is computed
//! comes from the other crates.
#![forbid(unsafe_code)]

mod campaign;
mod cli;
mod context;
mod failure;
mod recorder;
mod run_id;
mod spec;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
