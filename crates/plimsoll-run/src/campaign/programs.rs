// SPDX-License-Identifier: Apache-2.0
//! Programs that workloads start, as a dry run shows them.

use super::WorkloadRequest;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::commands::WorkloadCommand;

/// Every program that a workload starts, with its arguments, as a dry run shows it.
pub(super) fn programs_of(asked: &WorkloadRequest) -> Vec<String> {
    let Workload::Commands(commands) = &asked.workload else {
        return Vec::new();
    };
    let quoted =
        |word: &String| match word.contains(|c: char| c.is_whitespace() || "'\"$*".contains(c)) {
            true => format!("'{}'", word.replace('\'', "'\\''")),
            false => word.clone(),
        };
    let shown = |command: &WorkloadCommand| {
        let words: Vec<String> = command.argv.iter().map(quoted).collect();
        format!("start {}", words.join(" "))
    };
    let all = commands.prepare.iter().chain(&commands.phases);
    all.chain(&commands.finish).map(shown).collect()
}
