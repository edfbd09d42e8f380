// SPDX-License-Identifier: Apache-2.0
//! Arms whose load comes from other machines: checked there, and a place for each node made.

use super::{ArmSet, ArmTarget, TargetSpec, look_at};
use crate::campaign::names::directory_name;
use crate::campaign::nodes::{ClientLoadGenerators, check_asked};
use crate::campaign::room::{SpaceRequirements, data_bytes};
use crate::campaign::{WorkloadRequest, remote};
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::plan::{Plan, PlanAction, PlanNode};
use plimsoll_core::target::NodeTarget;
use plimsoll_lab::stacks::{self, StackConfig};
use plimsoll_machine::host::HostResolver as _;
use plimsoll_machine::journal::StateDir;
use std::path::{Path, PathBuf};

/// More names than this are one range.
const NAMES_SHOWN: usize = 8;

impl ArmTarget {
    /// Whether nothing of it is on this machine.
    pub fn is_only_on_nodes(&self) -> bool {
        let made = self.made.as_ref().map_or("", |(made, _)| made.place());
        !self.on_nodes.is_empty() && self.is_real() && made.is_empty()
    }

    /// Where each node works, in their order.
    pub fn targets(&self) -> Vec<NodeTarget> {
        match self.on_nodes.is_empty() {
            true => vec![self.here()],
            false => self.on_nodes.clone(),
        }
    }
}

impl ArmSet {
    /// The same with the load from these machines.
    pub fn loaded_by(mut self, load: ClientLoadGenerators) -> Self {
        load.introduce(&mut self.nodes);
        self.load = load;
        self
    }

    /// The machines that load comes from.
    pub fn load(&self) -> &ClientLoadGenerators {
        &self.load
    }

    /// Those that are not this one.
    pub(super) fn load_nodes(&self) -> Vec<PlanNode> {
        self.load.nodes().to_vec()
    }

    /// Errors of load from nodes that can be found beforehand.
    pub(super) fn check_on_nodes(&mut self, asked: &[WorkloadRequest]) -> Result<(), CliError> {
        let nodes = self.load_nodes();
        if nodes.is_empty() {
            return Ok(());
        }
        check_asked(asked)?;
        for target in &self.targets {
            match &target.spec {
                TargetSpec::Stack(choice) => {
                    stacks::client::check(choice, nodes.len()).map_err(CliError::usage)?;
                }
                TargetSpec::Device(_) | TargetSpec::Attach(_) => {
                    return Err(CliError::usage(format!(
                        "use target '{}' from nodes: one device is not each node's own; give a \
                         directory or a new file that is on all of them",
                        target.given
                    )));
                }
                TargetSpec::File(_) => super::check_one_file(target, asked)?,
                TargetSpec::Nfs(_) => remote::check(&target.given, asked)?,
                _ => {}
            }
        }
        self.check_room_on_nodes(&nodes, asked)
    }

    fn check_room_on_nodes(
        &mut self,
        nodes: &[PlanNode],
        asked: &[WorkloadRequest],
    ) -> Result<(), CliError> {
        let needed = data_bytes(asked);
        let mut room = SpaceRequirements::default();
        for target in &self.targets {
            for node in nodes {
                let about = look_at_on(target, node);
                let host = self.nodes.on(&node.name);
                let host = host.map_err(doing(CliExitCode::Usage, &*about))?;
                let root = target.root();
                match &target.spec {
                    TargetSpec::Directory(_) | TargetSpec::File(_) if host.exists(&root) => {
                        let found = host
                            .target(&root)
                            .map_err(doing(CliExitCode::Usage, about))?;
                        let place = format!("{} on node {}", found.path, node.name);
                        room.need(&place, needed, found.free_bytes);
                    }
                    TargetSpec::Directory(_) | TargetSpec::File(_) => {
                        let text = format!("there is no {}", root.display());
                        return Err(CliError::usage(format!("{about}: {text}")));
                    }
                    // One room for all of them.
                    TargetSpec::Nfs(address) => {
                        let found = host.export(&address.to_string());
                        let found = found.map_err(doing(CliExitCode::Usage, about))?;
                        room.need(&target.given, needed, found.free_bytes);
                    }
                    _ => {}
                }
            }
        }
        room.check()
    }

    /// Adds the steps that make the places of a target that the nodes reach themselves.
    pub(super) fn place_on_nodes(
        &mut self,
        place: usize,
        id: &str,
        plan: &mut Plan,
    ) -> Result<(), CliError> {
        let nodes = self.load_nodes();
        let target = &mut self.targets[place];
        let name = directory_name(id, place, &target.name);
        for node in &nodes {
            let own = format!("{name}-{}", node.name);
            let made = match &target.spec {
                TargetSpec::Directory(_) | TargetSpec::File(_) => {
                    let host = self.nodes.on(&node.name);
                    let found = host.and_then(|host| host.target(&target.root()));
                    let found = found.map_err(doing(CliExitCode::Failed, look_at(target)))?;
                    let direct_align_bytes = found.direct_align_bytes;
                    if target.facts.is_none() {
                        target.description =
                            format!("{} on {}", found.file_system, found.mount_source);
                        target.facts = Some(found);
                    }
                    if let TargetSpec::File(path) = &target.spec {
                        NodeTarget::File {
                            path: add_file(plan, node, path)?.into(),
                            direct_align_bytes,
                        }
                    } else {
                        let path = super::shown(&target.root().join(own))?;
                        add_directory(plan, node, &path);
                        NodeTarget::Directory {
                            path: path.into(),
                            direct_align_bytes,
                        }
                    }
                }
                TargetSpec::Nfs(address) => {
                    if target.facts.is_none() {
                        let host = self.nodes.on(&node.name);
                        let found = host.and_then(|host| host.export(&address.to_string()));
                        target.facts =
                            Some(found.map_err(doing(CliExitCode::Failed, look_at(target)))?);
                        target.description = remote::DESCRIPTION.into();
                    }
                    add_export(plan, node, &address.to_string(), own)
                }
                TargetSpec::Nop => NodeTarget::Nop,
                TargetSpec::Sim(_) => NodeTarget::Sim(target.given.clone()),
                _ => NodeTarget::Null,
            };
            target.on_nodes.push(made);
        }
        Ok(())
    }

    /// Adds the steps that make a client of every stack on each node, and its place there.
    pub(super) fn clients_on_nodes(
        &mut self,
        id: &str,
        state: &StateDir,
        plan: &mut Plan,
    ) -> Result<(), CliError> {
        for place in 0..self.targets.len() {
            if let TargetSpec::Stack(choice) = &self.targets[place].spec {
                let choice = choice.clone();
                self.clients_of(place, &choice, id, state, plan)?;
            }
        }
        Ok(())
    }

    fn clients_of(
        &mut self,
        place: usize,
        choice: &StackConfig,
        id: &str,
        state: &StateDir,
        plan: &mut Plan,
    ) -> Result<(), CliError> {
        let stack = choice.parts.to_string();
        let name = directory_name(id, place, &self.targets[place].name);
        for node in self.load_nodes() {
            let about = format!("make a client of {stack} on node {}", node.name);
            let dir = format!("{}/{name}", node.dir);
            let host = self.nodes.on(&node.name);
            let host = host.map_err(doing(CliExitCode::Failed, &*about))?;
            // Marks are made of it: two arms may be the same stack.
            let id = format!("{id}-{}", place + 1);
            let client = stacks::client::plan(choice, state, (&*host, &node, &dir), &id);
            let (steps, made) = client.map_err(doing(CliExitCode::Failed, about))?;
            add_directory(plan, &node, &dir);
            plan.steps.extend(steps.steps);
            let own = format!("{name}-{}", node.name);
            let made = match &made.address {
                Some(address) => add_export(plan, &node, address, own),
                None => {
                    let path = format!("{}/{own}", made.mount_dir);
                    add_directory(plan, &node, &path);
                    // It is tried there: the mount is not there yet.
                    NodeTarget::Directory {
                        path: path.into(),
                        direct_align_bytes: 0,
                    }
                }
            };
            self.targets[place].on_nodes.push(made);
        }
        Ok(())
    }

    /// Their names, `n1, n2`; `None` when the load comes from this machine.
    fn node_names(&self) -> Option<String> {
        let names: Vec<&str> = self.load.nodes().iter().map(|node| &*node.name).collect();
        match names[..] {
            [] => None,
            [first, .., last] if names.len() > NAMES_SHOWN => {
                Some(format!("{} hosts, {first} to {last}", names.len()))
            }
            _ => Some(names.join(", ")),
        }
    }

    /// Note on the machines that the load comes from.
    pub(super) fn note_on_nodes(&self) -> Option<String> {
        self.node_names().map(|names| {
            format!(
                "the load comes from {names}: each plays the whole workload, on files of its own"
            )
        })
    }

    /// Behind the name of a directory that is made on every node; empty where it is made here.
    pub(super) fn on_each_node(&self) -> String {
        let names = self.node_names();
        names.map_or_else(String::new, |names| format!("-NODE on each of {names}"))
    }
}

fn look_at_on(target: &ArmTarget, node: &PlanNode) -> String {
    format!("look at target '{}' on node {}", target.given, node.name)
}

/// Adds the step that makes a file on a node; gives its path. Nodes may share the file system.
fn add_file(plan: &mut Plan, node: &PlanNode, path: &Path) -> Result<String, CliError> {
    let path = format!("{}-{}", super::shown(path)?, node.name);
    let make = PlanAction::MakeFile {
        path: path.clone(),
        bytes: 0,
    };
    let undo = PlanAction::RemoveFile(path.clone());
    plan.step_on(&node.name, "create the file", make, Some(undo));
    Ok(path)
}

/// Adds the step that makes a directory for what programs copy on a node; gives its path.
pub(super) fn scratch(plan: &mut Plan, node: &PlanNode, name: &str) -> PathBuf {
    let path = format!("{}/{name}", node.dir);
    add_directory(plan, node, &path);
    path.into()
}

fn add_directory(plan: &mut Plan, node: &PlanNode, path: &str) {
    plan.step_on(
        &node.name,
        "create a directory",
        PlanAction::MakeDir(path.into()),
        Some(PlanAction::RemoveDir(path.into())),
    );
}

fn add_export(plan: &mut Plan, node: &PlanNode, address: &str, directory: String) -> NodeTarget {
    let (address, name) = (address.to_owned(), directory.clone());
    let undo = PlanAction::RemoveRemoteDir {
        address: address.clone(),
        name: name.clone(),
    };
    let make = PlanAction::MakeRemoteDir {
        address: address.clone(),
        name,
    };
    plan.step_on(
        &node.name,
        "create a directory on the export",
        make,
        Some(undo),
    );
    NodeTarget::Export {
        address,
        directory: directory.into(),
    }
}
