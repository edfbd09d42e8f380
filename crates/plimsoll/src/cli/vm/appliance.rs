// SPDX-License-Identifier: Apache-2.0
//! `plimsoll vm appliance`: a node as a bootable disk.

use super::up;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_console::terminal;
use plimsoll_core::plan::PlanStep;
use plimsoll_core::units;
use plimsoll_lab::vm::appliance::{self, VmApplianceSpec};
use plimsoll_machine::host::{HostResolver, HostTimeSource, SystemClock};
use plimsoll_machine::journal::StateDir;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

#[derive(Debug, clap::Args)]
pub(super) struct VmApplianceArgs {
    /// Directory for plimsoll-node.qcow2 and plimsoll-node.ova.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// File of public keys that may log in (id_ed25519.pub or an authorized_keys).
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Size of the data disk, for example for the disks of a SAN.
    ///
    /// The disk takes space only as it is used.
    #[arg(long, default_value = "8G", value_parser = units::parse_size, value_name = "SIZE")]
    data: u64,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    /// Print the names of the files as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &VmApplianceArgs, state: &StateDir) -> CliResult {
    let what = "make the appliance";
    let keys = std::fs::read_to_string(&args.key).map_err(|error| {
        CliError::usage(format!("read {}: {error}", args.key.display()))
            .hint("give --key the file of a public key; ssh-keygen -t ed25519 makes one")
    })?;
    let wanted = VmApplianceSpec {
        dir: args.output.clone(),
        keys,
        data_bytes: args.data,
    };
    wanted
        .check()
        .map_err(|error| CliError::usage(format!("{what}: {error}")))?;
    // A folder that is not there yet is made.
    for file in wanted.files() {
        plimsoll_console::output::refuse_existing(&file, args.force)?;
    }
    let mut hosts = context::nodes();
    let unmet = doing(CliExitCode::Failed, what);
    appliance::needs().check(hosts.here()).map_err(unmet)?;
    let stop = context::stop_flag()?;
    let clock = SystemClock::new();
    let mut told = |step: &PlanStep| up::progress_of(&clock, step);
    let made = up::image(state, &stop, &mut hosts).and_then(|image| {
        let made = appliance::make(&wanted, &image, &stop, (state, &mut hosts), &mut told);
        made.map_err(doing(CliExitCode::Failed, what))
    });
    if stop.load(Ordering::Relaxed) && made.is_err() {
        terminal::say("stopped; nothing of it is left");
        return super::super::done(CliExitCode::Interrupted);
    }
    made?;
    if args.json {
        let took = clock.now().as_secs_f64();
        terminal::print_json(&serde_json::json!({ "files": wanted.files(), "took_s": took }));
        return Ok(ExitCode::SUCCESS);
    }
    for file in wanted.files() {
        let size = file.metadata().map_or(0, |found| found.len());
        terminal::print(&format!(
            "{} ({})",
            file.display(),
            units::size(size as f64)
        ));
    }
    terminal::print(&format!(
        "made in {:.0} s; its console says how the node is joined",
        clock.now().as_secs_f64()
    ));
    Ok(ExitCode::SUCCESS)
}
