// SPDX-License-Identifier: Apache-2.0
//! Stack files: a storage system as its user writes it down, in commands.
//!
//! This module defines only the form of the file; `plimsoll_lab::stacks` checks its contents.

use serde::Deserialize;

/// A stack file.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StackFile {
    /// Its composition in one line, for reports.
    pub description: String,
    /// The directory to measure on: begins with `/`, or with `{dir}`, the stack's directory.
    pub mount_dir: String,
    /// Type of the file system that must be mounted there, as the kernel names it; empty where none must.
    #[serde(default)]
    pub file_system: String,
    /// How many nodes it takes besides this machine.
    #[serde(default)]
    pub nodes: u16,
    /// How many TCP ports each node takes.
    #[serde(default)]
    pub ports: u16,
    /// The steps, in their order; at least one.
    #[serde(default)]
    pub step: Vec<StackFileStep>,
}

/// One step. It has either `apply` or `start`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StackFileStep {
    /// Its purpose; completes "failed to …".
    pub why: String,
    /// The node it is carried out on, from 1; this machine when absent.
    pub node: Option<u16>,
    /// A command that ends.
    pub apply: Option<Vec<String>>,
    /// A daemon that stays in the foreground.
    pub start: Option<Vec<String>>,
    /// With `start`: a command that ends with 0 when the daemon can be used.
    pub ready: Option<Vec<String>>,
    /// A command that ends with 0 when what `apply` makes is there.
    pub check: Option<Vec<String>>,
    /// With `apply`: the command that undoes it; empty where nothing has to be undone.
    pub undo: Option<Vec<String>>,
    /// Longest time of `apply` and of `undo`, such as `5min`.
    pub limit: Option<String>,
}
