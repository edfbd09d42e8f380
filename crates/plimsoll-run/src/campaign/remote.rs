// SPDX-License-Identifier: Apache-2.0
//! Exports of NFS servers as targets: plimsoll itself is the client.

use super::WorkloadRequest;
use plimsoll_console::failure::{CliError, CliExitCode, failed};
use plimsoll_core::plan::{HERE, PlanAction, PlanStep};
use plimsoll_core::target::TargetFacts;
use plimsoll_core::workload::Workload;
use plimsoll_nfs::NfsAddress;

/// Description of such a target in reports.
pub(super) const DESCRIPTION: &str = "an NFS export; plimsoll is the client";

/// Note for readers before any number.
pub(super) const NOTE: &str = "plimsoll itself is the NFS client here: there is no page cache and no \
     direct I/O on this machine; do not compare it with an export that a kernel mounts";

/// Refuses what needs a mounted directory.
pub(super) fn check(given: &str, asked: &[WorkloadRequest]) -> Result<(), CliError> {
    let is_program = |one: &&WorkloadRequest| matches!(one.workload, Workload::Commands(_));
    match asked.iter().find(is_program) {
        None => Ok(()),
        Some(one) => Err(CliError::usage(format!(
            "run {} on {given}: a program needs a mounted directory, and here plimsoll is the client",
            one.workload.name()
        ))),
    }
}

/// Facts about an export. It is mounted to find them, and nothing is changed.
pub(super) fn facts(address: &NfsAddress) -> Result<TargetFacts, CliError> {
    plimsoll_machine::host::facts::export(&address.to_string()).map_err(failed(CliExitCode::Failed))
}

/// The step that makes the arm's directory.
pub(super) fn making(address: &NfsAddress, name: &str) -> PlanStep {
    let (address, name) = (address.to_string(), name.to_owned());
    PlanStep::on(
        HERE,
        "create a directory on the export",
        PlanAction::MakeRemoteDir {
            address: address.clone(),
            name: name.clone(),
        },
        Some(PlanAction::RemoveRemoteDir { address, name }),
    )
}
