// SPDX-License-Identifier: Apache-2.0
//! A target that is ready for trials.

use plimsoll_core::plan::{PlanNode, StackOutputs};
use plimsoll_core::target::{NodeTarget, TargetFacts};
use plimsoll_machine::host::facts::{self, MountIdentity};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::slice;

/// A target that is ready for trials.
#[derive(Debug, Default)]
pub struct RaisedTarget {
    /// How it is made up, in one line.
    pub(crate) description: String,
    /// Facts of what keeps data.
    pub(crate) facts: Option<TargetFacts>,
    /// How this machine reaches it; `None` where only the nodes of the load do.
    pub(crate) here: Option<NodeTarget>,
    /// How each node of the load reaches it, in their order; none where the load comes from this machine.
    pub(crate) nodes: Vec<NodeTarget>,
    /// The mount that the directory of this machine lies on.
    pub(crate) mount: Option<MountIdentity>,
    /// Disks of this machine below it (major:minor).
    pub(crate) devices: Vec<String>,
    /// More paths of this machine that what is written to it lies below.
    pub(crate) grounds: Vec<PathBuf>,
    /// Addresses of the machines that serve it, as far as they are known.
    pub(crate) servers: Vec<String>,
    /// The stack, if it is one.
    pub(crate) stack: Option<RaisedStack>,
}

/// A stack that is up.
#[derive(Debug)]
pub(crate) struct RaisedStack {
    /// Its parts, as they are written.
    pub(crate) name: String,
    /// The lock that keeps others from taking it down.
    pub(crate) held: File,
    /// Servers, mounts and networks.
    pub(crate) made: StackOutputs,
    /// Machines that it is on.
    pub(crate) nodes: Vec<PlanNode>,
    /// Degradations when it was first used.
    pub(crate) degraded: Vec<String>,
}

impl RaisedTarget {
    /// One of this machine, on the file system of these facts.
    pub(super) fn here(reach: NodeTarget, facts: TargetFacts) -> Self {
        RaisedTarget {
            devices: facts::device_of(Path::new(&facts.path))
                .into_iter()
                .collect(),
            here: Some(reach),
            ..RaisedTarget::on_nodes(Vec::new(), facts)
        }
    }

    /// A directory of this machine.
    pub(super) fn in_directory(path: PathBuf, facts: TargetFacts) -> Self {
        let reach = NodeTarget::Directory {
            path,
            direct_align_bytes: facts.direct_align_bytes,
        };
        RaisedTarget::here(reach, facts)
    }

    /// One that the nodes of the load reach themselves.
    pub(super) fn on_nodes(nodes: Vec<NodeTarget>, facts: TargetFacts) -> Self {
        RaisedTarget {
            description: format!("{} on {}", facts.file_system, facts.mount_source),
            facts: Some(facts),
            nodes,
            ..RaisedTarget::default()
        }
    }

    /// How each machine of the load reaches it, in their order.
    pub fn reach(&self) -> &[NodeTarget] {
        match &self.here {
            Some(here) if self.nodes.is_empty() => slice::from_ref(here),
            _ => &self.nodes,
        }
    }

    /// How this machine reaches it.
    ///
    /// # Panics
    /// Where only the nodes of the load do: faults and conditions are refused there beforehand.
    pub(crate) fn local_reach(&self) -> &NodeTarget {
        let here = self.here.as_ref();
        here.expect("the target is reached from this machine")
    }

    /// The directory of this machine that is worked in, where there is one.
    pub fn directory(&self) -> Option<&Path> {
        match &self.here {
            Some(NodeTarget::Directory { path, .. }) => Some(path),
            _ => None,
        }
    }

    /// Whether it keeps data: time and bytes there are real.
    pub(crate) fn is_real(&self) -> bool {
        self.facts.is_some() || self.stack.is_some()
    }

    pub(crate) fn direct_align_bytes(&self) -> u32 {
        let facts = self.facts.as_ref();
        facts.map_or(0, |facts| facts.direct_align_bytes)
    }

    /// Finds, once its directory is made, what can only be found there.
    pub(crate) fn look_at_made(&mut self) {
        let Some(NodeTarget::Directory {
            path,
            direct_align_bytes,
        }) = &mut self.here
        else {
            return;
        };
        self.mount = facts::mount_identity(path);
        // Images of stacks that were brought up since have taken their room.
        if let (Some(facts), Ok(found)) = (&mut self.facts, facts::target(path)) {
            facts.free_bytes = found.free_bytes;
        }
        // Some file systems (NFS) have direct I/O, but none of the nameless files it is tried on elsewhere:
        // with a directory of our own it can be tried on a named one.
        if let Some(facts) = self.facts.as_mut().filter(|_| *direct_align_bytes == 0) {
            facts.direct_align_bytes = facts::direct_align_in(path);
            *direct_align_bytes = facts.direct_align_bytes;
        }
    }
}
