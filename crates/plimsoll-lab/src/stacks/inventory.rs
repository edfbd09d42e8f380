// SPDX-License-Identifier: Apache-2.0
//! Machines of the user that stacks can be spread over.
//!
//! How they are written in a file is the program's matter; here they are looked at.

use plimsoll_core::plan::{HERE, PlanNode};
use std::path::Path;

use super::manage::find_all;
use super::{PreconditionError, SiteError, StackConfig, StackFootprint, StackUpOptions};
use plimsoll_machine::host::{HostError, HostResolver, network};

/// The machines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInventory {
    /// The file, for errors.
    pub file: String,
    /// Address at which the nodes reach this machine; found out when absent.
    pub address: Option<String>,
    /// Whether nodes and this machine cannot reach each other by their network, only by the commands
    /// that give shells.
    pub is_apart: bool,
    /// The machines as nodes without facts yet, in the order in which stacks take them.
    pub machines: Vec<PlanNode>,
}

impl NodeInventory {
    /// The machines of these names, as nodes without facts yet.
    ///
    /// # Errors
    /// When one is not known, or named twice.
    pub fn nodes(&self, names: &[String]) -> Result<Vec<PlanNode>, PreconditionError> {
        let find = |(n, name): (usize, &String)| {
            if names[..n].contains(name) {
                return Err(PreconditionError(vec![format!(
                    "node {name} is named twice"
                )]));
            }
            let found = self.machines.iter().find(|machine| machine.name == *name);
            found.cloned().ok_or_else(|| {
                let known: Vec<&str> = self.machines.iter().map(|m| &*m.name).collect();
                PreconditionError(vec![format!(
                    "{} has no node '{name}'; available: {}",
                    self.file,
                    known.join(", ")
                )])
            })
        };
        names.iter().enumerate().map(find).collect()
    }

    /// The first machines, as many as a stack of this shape takes, looked at.
    pub(super) fn servers(
        &self,
        choice: &StackConfig,
        shape: &StackFootprint,
        options: &StackUpOptions,
        hosts: &mut dyn HostResolver,
    ) -> Result<Vec<PlanNode>, SiteError> {
        let count = usize::from(shape.servers);
        let Some(machines) = self.machines.get(..count) else {
            let text = format!(
                "it needs {count} servers, and {} lists {}; add a [[node]] to it",
                self.file,
                self.machines.len()
            );
            return Err(PreconditionError(vec![text]).into());
        };
        let mut nodes = machines.to_vec();
        hosts.meet(&nodes);
        let mut missing = Vec::new();
        for (number, node) in (1..).zip(&mut nodes) {
            missing.extend(look(
                (number, node),
                choice,
                shape,
                options.first_port,
                hosts,
            )?);
        }
        if missing.is_empty() {
            Ok(nodes)
        } else {
            Err(PreconditionError(missing).into())
        }
    }

    /// The first `count` machines that are none of these nodes, looked at.
    pub(super) fn more(
        &self,
        known: &[PlanNode],
        count: u16,
        choice: &StackConfig,
        shape: &StackFootprint,
        hosts: &mut dyn HostResolver,
    ) -> Result<Vec<PlanNode>, SiteError> {
        let is_new = |machine: &&PlanNode| {
            let same =
                |node: &PlanNode| node.name == machine.name || node.address == machine.address;
            !known.iter().any(same)
        };
        let new = self.machines.iter().filter(is_new).cloned();
        let mut nodes: Vec<PlanNode> = new.take(count.into()).collect();
        if nodes.len() < usize::from(count) {
            let text = format!(
                "it needs {count} more nodes, and {} lists {} unused ones; add a [[node]] to it",
                self.file,
                nodes.len()
            );
            return Err(PreconditionError(vec![text]).into());
        }
        hosts.meet(&nodes);
        let first_port = known.last().map_or(0, |node| node.first_port);
        let mut missing = Vec::new();
        for (number, node) in (known.len() + 1..).zip(&mut nodes) {
            missing.extend(look((number, node), choice, shape, first_port, hosts)?);
        }
        if missing.is_empty() {
            Ok(nodes)
        } else {
            Err(PreconditionError(missing).into())
        }
    }

    /// Fails where this machine would be the client of servers that it does not reach.
    pub(super) fn check_client(&self, choice: &StackConfig) -> Result<(), PreconditionError> {
        if !self.is_apart || choice.stack.client_needs(choice).is_some() {
            return Ok(());
        }
        Err(PreconditionError(vec![format!(
            "its client is this machine, which is not in the network of the nodes of {}. That of virtual \
             machines is made by root only: start them with sudo, or take a stack whose client can be a \
             node (nvmetcp, drbd, iscsi(target=lio)), with load from one (--clients)",
            self.file
        )]))
    }

    /// The address at which the servers reach this machine.
    pub(super) fn client_address(&self, servers: &[PlanNode]) -> Result<String, PreconditionError> {
        if self.is_apart {
            return Ok("127.0.0.1".into());
        }
        if let Some(address) = &self.address {
            return Ok(address.clone());
        }
        let Some(first) = servers.first() else {
            return Ok("127.0.0.1".into());
        };
        network::address_towards(&first.address).ok_or_else(|| {
            PreconditionError(vec![format!(
                "no route from here to {}, the address of node {}; correct it in {}",
                first.address, first.name, self.file
            )])
        })
    }
}

/// Looks at a machine, the first of which is number 1; gives what it lacks.
fn look(
    (number, node): (usize, &mut PlanNode),
    choice: &StackConfig,
    shape: &StackFootprint,
    first_port: u16,
    hosts: &mut dyn HostResolver,
) -> Result<Vec<String>, HostError> {
    debug_assert_ne!(node.name, HERE, "an inventory cannot list this machine");
    let host = hosts.on(&node.name)?;
    let found = host.target(Path::new(&node.dir))?;
    node.free_bytes = found.free_bytes;
    node.direct_align_bytes = found.direct_align_bytes;
    node.first_port = first_port;
    if shape.ports > 0 {
        node.first_port = host.free_ports(first_port, shape.ports)?;
    }
    let own = choice.own.as_ref();
    let programs = own.map_or_else(Vec::new, |own| own.programs_on(Some(number)));
    let looked = [
        choice.stack.server_needs(choice).check(host),
        find_all(&programs, host),
    ];
    let missing = looked.into_iter().filter_map(Result::err);
    let said = |text: String| format!("on node {}: {text}", node.name);
    Ok(missing.flat_map(|unmet| unmet.0).map(said).collect())
}
