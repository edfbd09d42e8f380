// SPDX-License-Identifier: Apache-2.0
//! Programs as workloads: each command is run on the target and timed, and what it prints may be
//! read for more.

use serde::{Deserialize, Serialize};

/// Commands one after another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CommandWorkload {
    /// Name in reports.
    pub name: String,
    /// Run before the measured part, such as unpacking what will be copied.
    #[serde(default)]
    pub prepare: Vec<WorkloadCommand>,
    /// Run in order, each measured.
    pub phases: Vec<WorkloadCommand>,
    /// Run after the measured part, also when it failed: removes what was made elsewhere.
    #[serde(default)]
    pub finish: Vec<WorkloadCommand>,
    /// Room they need on the target.
    pub data_bytes: u64,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkloadCommand {
    /// Name in reports.
    pub name: String,
    /// Program and arguments. `{dir}` stands for the directory on the target (which is also where
    /// the command runs), `{target}` for the target itself, `{tmp}` for a directory that is not on the
    /// target and goes after the run, `{cache}` for one that stays, `{here}` for the one this program was
    /// started in, `{user}` for the number of the user, `{plimsoll}` for this program.
    pub argv: Vec<String>,
    /// How its output is read.
    #[serde(default)]
    pub output: CommandOutputFormat,
    /// Bytes it moves, where they are known: then it is compared on its throughput, else on its
    /// time.
    #[serde(default)]
    pub moves: Option<CommandTransfer>,
}

/// Bytes that a command moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CommandTransfer {
    /// This number of bytes to the target.
    To(u64),
    /// This number of bytes from the target.
    From(u64),
}

/// Result that is read from the output of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CommandOutputFormat {
    /// Nothing: the wall time is the result.
    #[default]
    Time,
    /// fio's JSON or JSON+.
    Fio,
    /// bonnie++'s CSV, 1.96 to 1.98.
    Bonnie,
    /// iozone's throughput report.
    Iozone,
    /// filebench's IO Summary.
    Filebench,
    /// This program's report of a machine that it boots: a time each, and remarks.
    Boots,
    /// Nothing: the size of the files that it leaves in its directory is the result.
    Size,
}
