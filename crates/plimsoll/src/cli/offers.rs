// SPDX-License-Identifier: Apache-2.0
//! Choices that `plimsoll-server` asks for: those of the forms of its page, as this program knows
//! them; not in the help.

use super::stack::list::{offered_layers, offered_stacks};
use super::trust::TrustArgs;
use super::workloads::offered_workloads;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_console::terminal;
use plimsoll_core::failover::StackConditionKind;
use plimsoll_core::fault::FaultKind;
use plimsoll_run::targets::{self, LoadOrigin};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::json;
use std::process::ExitCode;

/// Print the choices of forms as JSON (internal).
#[derive(Debug, clap::Args)]
pub(super) struct OffersArgs {
    /// An inventory file that forms may name.
    #[arg(long = "inventory")]
    inventories: Vec<String>,
    /// A target that forms may name.
    #[arg(long = "target")]
    targets: Vec<String>,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(super) fn main(args: &OffersArgs) -> CliResult {
    // Not left behind by a server that was killed.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(doing(CliExitCode::Failed, "end with the server"))?;
    check(args)?;
    let fault = |kind: FaultKind| json!({ "name": kind.name(), "text": kind.about() });
    let conditions = StackConditionKind::ALL.map(|(name, _)| name);
    terminal::print_json(&json!({
        "workloads": offered_workloads(),
        "stacks": offered_stacks(),
        "layers": offered_layers(),
        "faults": FaultKind::ALL.into_iter().map(fault).collect::<Vec<_>>(),
        "conditions": conditions,
        "inventories": args.inventories,
        "targets": args.targets,
    }));
    Ok(ExitCode::SUCCESS)
}

/// Refuses what would only be found out when the page uses it.
fn check(args: &OffersArgs) -> Result<(), CliError> {
    for path in &args.inventories {
        super::inventory::read(path.as_ref())?;
    }
    let targets = args.targets.iter();
    let targets = targets.map(|text| targets::read(text, LoadOrigin::Here));
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    let stacks = targets.iter().filter_map(|target| target.stack());
    args.trust.check_stacks(stacks, false)
}
