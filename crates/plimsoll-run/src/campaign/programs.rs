// SPDX-License-Identifier: Apache-2.0
//! Programs that workloads start, as a dry run shows them.

use super::WorkloadRequest;
use crate::trust::typed;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::commands::WorkloadCommand;

/// Every program that a workload starts, with its arguments.
pub fn commands_of(asked: &WorkloadRequest) -> Vec<String> {
    let Workload::Commands(commands) = &asked.workload else {
        return Vec::new();
    };
    let all = commands.prepare.iter().chain(&commands.phases);
    let all = all.chain(&commands.finish);
    all.map(|command: &WorkloadCommand| typed(&command.argv))
        .collect()
}
