// SPDX-License-Identifier: Apache-2.0
//! Inventory files: the machines that stacks are spread over, as their user writes them.

use serde::Deserialize;

/// Where everything is made on a node that does not say: also where `plimsoll raze` looks when root
/// runs it there.
pub const NODE_DIR: &str = "/var/lib/plimsoll";

/// An inventory file.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InventoryFile {
    /// Address of this machine for the nodes; found out when absent.
    pub address: Option<String>,
    /// Whether this machine and the nodes cannot reach each other by their network.
    #[serde(default)]
    pub apart: bool,
    /// Configuration file for ssh, instead of the user's; from the folder of this file.
    pub ssh_config: Option<String>,
    /// The machines, in the order in which stacks take them; at least one.
    #[serde(default)]
    pub node: Vec<InventoryNode>,
}

/// One machine of an inventory file. It has either `ssh` or `command`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InventoryNode {
    /// Its name: 1 to 20 lower-case letters and digits; not `here`, which is this machine.
    pub name: String,
    /// Its host for ssh, with or without a user.
    pub ssh: Option<String>,
    /// The command that gives a shell on it, `sh` appended.
    pub command: Option<Vec<String>>,
    /// Address at which the other nodes reach it.
    pub address: String,
    /// Directory on it below which everything is made.
    #[serde(default = "node_dir")]
    pub dir: String,
    /// The command that switches its power, `on` or `off` appended.
    #[serde(default)]
    pub power: Vec<String>,
    /// The command by which the other nodes cut its power, `off` or `status` and its name appended.
    #[serde(default)]
    pub fence: Vec<String>,
    /// The same by another way, for when that one fails.
    #[serde(default)]
    pub fence_next: Vec<String>,
    /// The command that does faults to it, the name of the fault and `try`, `on` or `off` appended.
    #[serde(default)]
    pub faults: Vec<String>,
}

fn node_dir() -> String {
    NODE_DIR.into()
}
