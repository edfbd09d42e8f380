// SPDX-License-Identifier: Apache-2.0
//! The hosts of a plan by the names of their nodes.

use plimsoll_core::plan::{HERE, Node, Reach};
use std::collections::BTreeMap;

use super::error::HostError;
use super::{FakeHost, Host, LocalHost};

/// Finds the host of a node.
pub trait Hosts {
    /// The host of this node.
    ///
    /// # Errors
    /// When it is not known, or cannot be reached.
    fn on(&mut self, node: &str) -> Result<&mut dyn Host, HostError>;

    /// Learns how nodes are reached. Nothing is reached before it is needed.
    fn meet(&mut self, nodes: &[Node]);

    /// Lets commands of the journal `id` name these programs too, for as long as this lives.
    fn trust(&mut self, id: &str, programs: &[String]);

    /// This machine.
    fn here(&self) -> &dyn Host;
}

/// This machine, and nodes that are reached from it.
#[derive(Debug)]
pub struct Nodes {
    here: LocalHost,
    known: BTreeMap<String, Reach>,
    reached: BTreeMap<String, LocalHost>,
}

impl Nodes {
    /// This machine alone.
    #[must_use]
    pub fn new(here: LocalHost) -> Self {
        Nodes {
            here,
            known: BTreeMap::new(),
            reached: BTreeMap::new(),
        }
    }

    /// This machine as it is, for what only it can do.
    #[must_use]
    pub fn local(&self) -> &LocalHost {
        &self.here
    }
}

impl Hosts for Nodes {
    fn on(&mut self, node: &str) -> Result<&mut dyn Host, HostError> {
        if node == HERE {
            return Ok(&mut self.here);
        }
        if !self.reached.contains_key(node) {
            let host = match self.known.get(node) {
                Some(Reach::Here) => return Ok(&mut self.here),
                Some(Reach::Namespace(name)) => self.here.in_namespace(name),
                Some(Reach::Agent(_)) => {
                    return Err(HostError::State(format!(
                        "node {node} is another machine, which cannot be reached yet"
                    )));
                }
                None => {
                    return Err(HostError::State(format!(
                        "nobody said how node {node} is reached"
                    )));
                }
            };
            self.reached.insert(node.into(), host);
        }
        Ok(self.reached.get_mut(node).expect("it was just put there"))
    }

    fn meet(&mut self, nodes: &[Node]) {
        for node in nodes {
            let known = self.known.insert(node.name.clone(), node.reach.clone());
            if known.is_some_and(|reach| reach != node.reach) {
                self.reached.remove(&node.name);
            }
        }
    }

    fn trust(&mut self, id: &str, programs: &[String]) {
        self.here.trust_programs(id, programs);
        for host in self.reached.values_mut() {
            host.trust_programs(id, programs);
        }
    }

    fn here(&self) -> &dyn Host {
        &self.here
    }
}

/// Everything happens on this machine; other nodes are not known.
impl Hosts for LocalHost {
    fn on(&mut self, node: &str) -> Result<&mut dyn Host, HostError> {
        if node == HERE {
            return Ok(self);
        }
        Err(HostError::State(format!(
            "node {node} was asked for where only this machine is known"
        )))
    }

    fn meet(&mut self, _: &[Node]) {}

    fn trust(&mut self, id: &str, programs: &[String]) {
        self.trust_programs(id, programs);
    }

    fn here(&self) -> &dyn Host {
        self
    }
}

/// All nodes are one pretended machine.
impl Hosts for FakeHost {
    fn on(&mut self, _: &str) -> Result<&mut dyn Host, HostError> {
        Ok(self)
    }

    fn meet(&mut self, _: &[Node]) {}

    fn trust(&mut self, _: &str, _: &[String]) {}

    fn here(&self) -> &dyn Host {
        self
    }
}
