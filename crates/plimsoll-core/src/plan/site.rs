// SPDX-License-Identifier: Apache-2.0
//! Request of the user and its result: the parts of a stack, the nodes it is spread over, and its
//! outputs. Kept in the journal, so that another process can act on a stack that is up.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{PlanAction, PlanCommand};

/// Name of the node that is this machine, with its own network.
pub const HERE: &str = "here";

/// One part of a stack: its base or a layer, with what was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackPart {
    /// Name of the recipe.
    pub name: String,
    /// Settings and their values, in the order in which they were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<(String, String)>,
}

impl fmt::Display for StackPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.given.is_empty() {
            return Ok(());
        }
        let words: Vec<String> = self
            .given
            .iter()
            .map(|(setting, value)| format!("{setting}={value}"))
            .collect();
        write!(f, "({})", words.join(","))
    }
}

/// A stack as it is written: `gluster(volume=replicate)+tenant(address=on)+crypt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackSpec {
    /// The recipe that makes storage.
    pub base: StackPart,
    /// The layers over it, from below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<StackPart>,
}

impl StackSpec {
    /// A name of it for files and directories; see [`file_name_of`].
    pub fn file_name(&self) -> String {
        file_name_of(&self.to_string())
    }
}

/// A name for files and directories made from any text: lower-case letters, digits and `-`, at
/// most 40 of them. A text of such letters alone is its own name; others end in four hexadecimal
/// digits that are made from the whole, so that different texts have different names.
pub fn file_name_of(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut name = String::new();
    for letter in text.to_lowercase().chars() {
        if letter.is_ascii_lowercase() || letter.is_ascii_digit() {
            name.push(letter);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    let name = name.trim_end_matches('-');
    if name == text && name.len() <= LONGEST {
        return name.into();
    }
    let short: String = name.chars().take(LONGEST - 5).collect();
    format!("{}-{:04x}", short.trim_end_matches('-'), checksum(text))
}

/// FNV-1a, folded to 16 bits: stable over versions, unlike the standard library's.
fn checksum(text: &str) -> u16 {
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let [a, b, c, d] = hash.to_be_bytes();
    u16::from_be_bytes([a ^ c, b ^ d])
}

impl fmt::Display for StackSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.base)?;
        self.layers.iter().try_for_each(|part| write!(f, "+{part}"))
    }
}

/// How commands get to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeTransport {
    /// Started on this machine.
    Here,
    /// Started on this machine, in this network namespace.
    Namespace(String),
    /// They are passed to our agent, which this command starts there, its words appended: `ssh` with
    /// options and a host, `docker exec -i box`, `kubectl exec -i pod --`.
    Agent(Vec<String>),
    /// They are passed to our agent, which connected to us by itself. It ends with that connection, and
    /// undoes what it made.
    Fleet,
}

impl NodeTransport {
    /// Whether its commands run on this machine, whatever its network: its files are ours, and its
    /// disk is the same.
    pub fn is_this_machine(&self) -> bool {
        !matches!(self, NodeTransport::Agent(_) | NodeTransport::Fleet)
    }
}

/// A machine, or what stands for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanNode {
    /// Its name: lower-case letters and digits.
    pub name: String,
    /// How commands get there.
    pub reach: NodeTransport,
    /// Address at which the other nodes reach it.
    pub address: String,
    /// Directory on it below which everything is made.
    pub dir: String,
    /// Free room there.
    pub free_bytes: u64,
    /// Alignment direct I/O needs there; 0 where it does not work.
    pub direct_align_bytes: u32,
    /// First of the free ports that a stack may use there.
    pub first_port: u16,
    /// The command that switches its power, `on` or `off` added; empty when none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power: Vec<String>,
    /// The command by which other nodes cut its power, `off` or `status` and its name added; empty when
    /// none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fence: Vec<String>,
    /// The same by another way, for when that one fails; empty when none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fence_next: Vec<String>,
    /// The command that injects faults into it, the name of the fault and `try`, `on` or `off` added; empty
    /// when none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

impl PlanNode {
    /// Whether it has its own network, so that all ports of its address are free for it.
    pub fn has_network(&self) -> bool {
        self.reach != NodeTransport::Here
    }
}

/// The nodes a stack is spread over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackNodes {
    /// Where the storage is used: this machine.
    pub client: PlanNode,
    /// The servers, as many as the stack needs; several may be one machine.
    pub servers: Vec<PlanNode>,
}

/// Request of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackRequest {
    /// The stack.
    pub parts: StackSpec,
    /// Size of each server's disk.
    pub size_bytes: u64,
    /// Where.
    pub site: StackNodes,
    /// Programs that commands of this journal may name besides those of recipes, since the user
    /// named them himself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
}

/// A server of a stack, which is monitored under load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackServer {
    /// Its name in reports: `n1`, `tgt0`.
    pub name: String,
    /// The node it runs on.
    pub node: String,
    /// Marks of its processes; none for a server in the kernel.
    pub marks: Vec<String>,
    /// Command that queries it on its node, where only one of the servers serves at a time; one of
    /// the words of [`ServerQuery`] is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<PlanCommand>,
    /// The actions that start it again after its machine was off, in order; empty where they are unknown, or
    /// are in a self-test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restore: Vec<(String, PlanAction)>,
}

impl StackServer {
    /// One with the name of its node, which is asked by its marks alone and is not started again.
    pub fn on(node: &str, marks: Vec<String>) -> StackServer {
        StackServer {
            name: node.into(),
            node: node.into(),
            marks,
            asked: None,
            restore: Vec::new(),
        }
    }

    /// The kernel of a node, which is no process, with what starts it again.
    pub fn kernel_of(node: &str, restore: Vec<(String, PlanAction)>) -> StackServer {
        StackServer {
            restore,
            ..StackServer::on(node, Vec::new())
        }
    }
}

/// Query to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerQuery {
    /// Whether it is the active server: then the command exits with 0.
    Serves,
    /// Its state, one item a line.
    How,
    /// Events of its cluster, a line each: seconds since 1970 with a fraction, a blank, the event.
    Events,
    /// To move to another server, in a controlled way.
    Switch,
}

impl StackServer {
    /// The command that asks it, if it can be asked.
    pub fn question(&self, question: ServerQuery) -> Option<PlanCommand> {
        let word = match question {
            ServerQuery::Serves => "serves",
            ServerQuery::How => "how",
            ServerQuery::Events => "events",
            ServerQuery::Switch => "switch",
        };
        let mut asked = self.asked.clone()?;
        asked.args.push(word.into());
        Some(asked)
    }
}

/// A self-test that a stack must pass before it is trusted, besides the write-verify.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StackSelfTest {
    /// An `fsync` of the client makes the disk below this directory of this node flush.
    Flushes {
        /// The node.
        node: String,
        /// A directory on the disk that must flush.
        dir: String,
    },
    /// Data that the client has written and closed are immediately visible at this second mount.
    SecondClient {
        /// The mount on this machine.
        path: String,
        /// Whether that only holds for data that were synced before the close.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        synced: bool,
    },
    /// This access by an unauthorized client must fail.
    Refused {
        /// The breach; completes "a stranger could …".
        why: String,
        /// The node it is tried on.
        node: String,
        /// Actions to do first: a mount, say. If one of these fails, that is a refusal too.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        before: Vec<PlanAction>,
        /// The access.
        attempt: Box<PlanCommand>,
        /// Clean-up, in order, whether it worked or not.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        undo: Vec<PlanAction>,
    },
    /// No other user of the node gains anything: he can look into none of these directories, and what
    /// the processes of these marks serve on ports of the node, and at these addresses, is not served
    /// to him.
    Closed {
        /// The node.
        node: String,
        /// The directories, without those that lie in others of them.
        dirs: Vec<String>,
        /// The marks.
        marks: Vec<String>,
        /// Addresses that the node, or what it is made of, has in the stack's network.
        addresses: Vec<String>,
        /// Addresses of exports (`nfs://server/export`).
        exports: Vec<String>,
    },
    /// Neither the stamped text of a file nor its name is found below these directories.
    Hidden {
        /// The node.
        node: String,
        /// Where the servers keep their data.
        dirs: Vec<String>,
    },
    /// All data stay available while this node is down.
    Survives {
        /// The node, as the report calls it.
        node: String,
        /// Actions that stop it, each with its node.
        lose: Vec<(String, PlanAction)>,
        /// Actions that start it again, in order.
        restore: Vec<(String, PlanAction)>,
    },
}

/// Outputs of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackOutputs {
    /// The directory to measure on; empty where there is an address instead, and where only other
    /// machines can have it mounted, each on its own.
    pub mount_dir: String,
    /// The address to measure on where no kernel mounts it: `nfs://server/export`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The directory of this machine that is served there: runs make theirs in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_dir: Option<String>,
    /// Type of file system that must be mounted there, as the kernel names it; empty where a
    /// directory of this machine's own file systems is meant.
    #[serde(default)]
    pub file_system: String,
    /// Its composition in one line, for reports.
    pub description: String,
    /// Its servers.
    #[serde(default)]
    pub servers: Vec<StackServer>,
    /// Programs of this machine between the load and the servers, such as those that serve a mount: they
    /// are watched, and no fault is injected into them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_programs: Vec<StackServer>,
    /// Self-tests that it must pass before it is trusted.
    #[serde(default)]
    pub proofs: Vec<StackSelfTest>,
    /// Whether its servers cut each other's power when they are lost, so that any of them may be off after
    /// a fault.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fences: bool,
}

impl StackOutputs {
    /// The place to measure on: the directory, or the address.
    pub fn place(&self) -> &str {
        self.address.as_deref().unwrap_or(&self.mount_dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, given: &[(&str, &str)]) -> StackPart {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        StackPart {
            name: name.into(),
            given: given.iter().map(own).collect(),
        }
    }

    #[test]
    fn different_stacks_have_different_file_names() {
        let plain = StackSpec {
            base: part("iscsi", &[]),
            layers: vec![],
        };
        assert_eq!(plain.file_name(), "iscsi");
        let mut names = std::collections::BTreeSet::new();
        for volume in ["distribute", "replicate", "disperse"] {
            for layers in [vec![], vec![part("crypt", &[("mode", "a")])]] {
                let base = part("gluster", &[("volume", volume)]);
                let name = StackSpec { base, layers }.file_name();
                assert!(name.len() <= 40, "{name}");
                assert!(names.insert(name));
            }
        }
    }

    #[test]
    fn a_stack_is_shown_as_it_is_written() {
        let parts = StackSpec {
            base: part("gluster", &[("volume", "disperse"), ("nodes", "3")]),
            layers: vec![part("tenant", &[("address", "on")]), part("crypt", &[])],
        };
        let text = "gluster(volume=disperse,nodes=3)+tenant(address=on)+crypt";
        assert_eq!(parts.to_string(), text);
    }
}
