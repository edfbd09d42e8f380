// SPDX-License-Identifier: Apache-2.0
//! The hosts of a plan by the names of their nodes.

use plimsoll_core::plan::{HERE, NodeTransport, PlanAction, PlanNode};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::agent::{AgentHost, AgentProgram, AgentUpload};
use super::error::HostError;
use super::{Host, LocalHost};

/// How long a node that could not be reached is not tried again: undoing asks for it once for each
/// step, and each attempt may take as long as ssh waits.
const RETRY: Duration = Duration::from_secs(30);

/// Finds the host of a node.
pub trait HostResolver {
    /// The host of this node.
    ///
    /// # Errors
    /// When it is not known, or cannot be reached.
    fn on(&mut self, node: &str) -> Result<&mut dyn Host, HostError>;

    /// Learns how nodes are reached. Nothing is reached before it is needed.
    fn meet(&mut self, nodes: &[PlanNode]);

    /// [`Host::trust_programs`] for all of them.
    fn trust(&mut self, id: &str, programs: &[String]);

    /// Whether a node is known to be no more, and all that was made on it.
    fn is_gone(&self, _node: &str) -> bool {
        false
    }

    /// Learns that these machines are no more, nor anything that was made on them.
    fn lose(&mut self, _machines: &[PlanNode]) {}

    /// A node that may see the storage of one that is gone, and can remove there what carries our mark.
    fn stand_in(&self, _node: &str) -> Option<String> {
        None
    }

    /// Whether the object of this removal is known to be gone, or its removal is not wanted any more.
    fn is_given_up(&self, _action: &PlanAction) -> bool {
        false
    }

    /// Whether the requester of the work wants it to end.
    fn is_stopping(&self) -> bool {
        false
    }

    /// This machine.
    fn here(&self) -> &dyn Host;
}

/// This machine, and nodes that are reached from it.
pub struct HostPool {
    here: LocalHost,
    known: BTreeMap<String, PlanNode>,
    reached: BTreeMap<String, Reached>,
    /// Agents that connected by themselves.
    joined: BTreeMap<String, AgentHost>,
    /// Programs that commands of these journals may name.
    trusted: BTreeMap<String, Vec<String>>,
    /// This program, as it is copied to nodes; looked at when the first one is reached.
    program: Option<AgentProgram>,
    copied: fn(&str, AgentUpload),
    /// Nodes and paths that are no more.
    gone: Vec<String>,
    /// Ways to machines that are no more.
    lost: Vec<NodeTransport>,
    /// Set when all is to end.
    stop: Option<Arc<AtomicBool>>,
}

impl fmt::Debug for HostPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HostPool");
        shown.field("here", &self.here).field("known", &self.known);
        shown
            .field("reached", &self.reached)
            .finish_non_exhaustive()
    }
}

/// The outcome of the attempt to reach a node.
#[derive(Debug)]
enum Reached {
    Local(LocalHost),
    Agent(Box<AgentHost>),
    /// Not reached, for this reason, at this time.
    Not(String, Duration),
}

impl HostPool {
    /// This machine alone.
    pub fn new(here: LocalHost) -> Self {
        HostPool {
            here,
            known: BTreeMap::new(),
            reached: BTreeMap::new(),
            joined: BTreeMap::new(),
            trusted: BTreeMap::new(),
            program: None,
            copied: |_, _| {},
            gone: Vec::new(),
            lost: Vec::new(),
            stop: None,
        }
    }

    /// The same, reporting to `copied` every copy of the agent that was made on a node.
    #[must_use]
    pub fn telling(mut self, copied: fn(&str, AgentUpload)) -> Self {
        self.copied = copied;
        self
    }

    /// The same, where these nodes are no more, nor what was made on them; nor what lies at these paths.
    #[must_use]
    pub fn without(mut self, gone: &[String]) -> Self {
        self.gone = gone.to_vec();
        self
    }

    /// The same, copying this program to nodes instead of the one that runs.
    #[must_use]
    pub fn copying(mut self, program: AgentProgram) -> Self {
        self.program = Some(program);
        self
    }

    /// From now on what is being made is given up, and what was begun of it undone, when this is set.
    pub fn heed(&mut self, stop: &Arc<AtomicBool>) {
        self.stop = Some(Arc::clone(stop));
    }

    /// Learns of an agent that connected by itself, the node of this name.
    pub fn join(&mut self, node: &str, agent: &AgentHost) {
        self.joined.insert(node.into(), agent.clone());
    }

    /// The agent of a node that connected by itself, while it is there.
    fn joined(&self, node: &str) -> Result<AgentHost, HostError> {
        let why = match self.joined.get(node) {
            Some(agent) => match agent.lost() {
                None => return Ok(agent.clone()),
                Some(why) => why,
            },
            None => "it ended with the run that it belonged to".into(),
        };
        Err(HostError::State(format!("load host {node} is gone: {why}")))
    }

    /// Reaches a node, unless that failed a moment ago.
    fn reach(&mut self, name: &str) -> Result<Reached, HostError> {
        let Some(node) = self.known.get(name) else {
            return Err(HostError::State(format!(
                "no connection settings for node {name}"
            )));
        };
        match &node.reach {
            NodeTransport::Here => Ok(Reached::Local(self.here.copy())),
            NodeTransport::Namespace(namespace) => {
                Ok(Reached::Local(self.here.in_namespace(namespace)))
            }
            NodeTransport::Fleet => {
                let mut host = self.joined(name)?;
                for (id, programs) in &self.trusted {
                    host.trust_programs(id, programs);
                }
                Ok(Reached::Agent(Box::new(host)))
            }
            NodeTransport::Agent(_) => {
                let program = match self.program.take() {
                    Some(program) => program,
                    None => AgentProgram::beside()?,
                };
                let connected = AgentHost::connect(node, &self.here.search, &program);
                self.program = Some(program);
                let mut host = connected?;
                for (id, programs) in &self.trusted {
                    host.trust_programs(id, programs);
                }
                if let Some(uploaded) = host.uploaded() {
                    (self.copied)(name, uploaded);
                }
                Ok(Reached::Agent(Box::new(host)))
            }
        }
    }

    /// Whether what is known of a node still holds: a connection may have been lost, and a failure
    /// is not for ever.
    fn is_settled(&self, name: &str) -> bool {
        match self.reached.get(name) {
            None => false,
            Some(Reached::Local(_)) => true,
            Some(Reached::Agent(host)) => host.check().is_ok(),
            Some(Reached::Not(_, at)) => self.here.clock.now().saturating_sub(*at) < RETRY,
        }
    }

    /// The agents of these nodes, all of them reached.
    ///
    /// # Errors
    /// When one of them cannot be reached, or is not another machine.
    pub fn agents<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Vec<&AgentHost>, HostError> {
        for name in names.clone() {
            self.on(name)?;
        }
        let agent = |name: &str| match self.reached.get(name) {
            Some(Reached::Agent(host)) => Ok(&**host),
            _ => Err(HostError::State(format!(
                "node {name} is not another machine"
            ))),
        };
        names.map(agent).collect()
    }

    /// This machine as it is, for what only it can do.
    pub fn local(&self) -> &LocalHost {
        &self.here
    }
}

impl HostResolver for HostPool {
    fn on(&mut self, node: &str) -> Result<&mut dyn Host, HostError> {
        if node == HERE {
            return Ok(&mut self.here);
        }
        if !self.is_settled(node) {
            let reached = match self.reach(node) {
                Ok(reached) => reached,
                Err(error) => Reached::Not(error.to_string(), self.here.clock.now()),
            };
            self.reached.insert(node.into(), reached);
        }
        match self.reached.get_mut(node).expect("it was just put there") {
            Reached::Local(host) => Ok(host),
            Reached::Agent(host) => Ok(&mut **host),
            Reached::Not(why, _) => Err(HostError::State(why.clone())),
        }
    }

    fn is_given_up(&self, action: &PlanAction) -> bool {
        action
            .removed_path()
            .is_some_and(|path| self.gone.iter().any(|gone| gone == path))
    }

    fn is_gone(&self, node: &str) -> bool {
        // Its agent undoes its own changes before it ends; no other way leads to such a node.
        let known = self.known.get(node);
        let is_of_fleet = known.is_some_and(|node| node.reach == NodeTransport::Fleet);
        let is_lost = known.is_some_and(|node| self.lost.contains(&node.reach));
        (is_of_fleet && self.joined(node).is_err())
            || is_lost
            || self.gone.iter().any(|name| name == node)
    }

    fn lose(&mut self, machines: &[PlanNode]) {
        self.lost
            .extend(machines.iter().map(|node| node.reach.clone()));
    }

    fn stand_in(&self, node: &str) -> Option<String> {
        let known = self.known.get(node)?;
        let is_there = |name: &&String| self.joined(name).is_ok();
        let others = self.joined.keys().filter(|name| **name != *node);
        (known.reach == NodeTransport::Fleet).then(|| others.into_iter().find(is_there).cloned())?
    }

    fn is_stopping(&self) -> bool {
        let stop = self.stop.as_ref();
        stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn meet(&mut self, nodes: &[PlanNode]) {
        for node in nodes {
            let known = self.known.insert(node.name.clone(), node.clone());
            // Another machine of the same name, or another directory, which is where its agent is.
            let is_same = |known: PlanNode| {
                (known.reach, known.dir) == (node.reach.clone(), node.dir.clone())
            };
            if !known.is_none_or(is_same) {
                self.reached.remove(&node.name);
            }
        }
    }

    fn trust(&mut self, id: &str, programs: &[String]) {
        if programs.is_empty() {
            return;
        }
        self.here.trust_programs(id, programs);
        // For those that are reached later, or anew.
        self.trusted.insert(id.into(), programs.to_vec());
        for reached in self.reached.values_mut() {
            match reached {
                Reached::Local(host) => host.trust_programs(id, programs),
                Reached::Agent(host) => host.trust_programs(id, programs),
                Reached::Not(..) => {}
            }
        }
    }

    fn here(&self) -> &dyn Host {
        &self.here
    }
}

/// Everything happens on this machine; other nodes are not known.
impl HostResolver for LocalHost {
    fn on(&mut self, node: &str) -> Result<&mut dyn Host, HostError> {
        if node == HERE {
            return Ok(self);
        }
        Err(HostError::State(format!(
            "unknown node {node}: only this machine is known here"
        )))
    }

    fn meet(&mut self, _: &[PlanNode]) {}

    fn trust(&mut self, id: &str, programs: &[String]) {
        self.trust_programs(id, programs);
    }

    fn here(&self) -> &dyn Host {
        self
    }
}
