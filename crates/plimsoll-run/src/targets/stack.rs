// SPDX-License-Identifier: Apache-2.0
//! Stacks as targets: brought up where they are not, and kept from being taken down meanwhile.

use super::place::{self, directory_step};
use super::{
    LoadOrigin, RaisedTarget, ResolvedTarget, TargetIntent, TargetKind, TargetRaising,
    TargetSurvey, export,
};
use crate::trust::commands_of_stack;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::target::NodeTarget;
use plimsoll_lab::stacks::{self, StackConfig};
use plimsoll_machine::host::{HostResolver as _, facts, lustre};
use plimsoll_nfs::NfsAddress;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A stack, by its parts.
#[derive(Debug, Clone)]
pub struct StackTarget {
    config: Box<StackConfig>,
}

pub(super) fn read(
    text: &str,
    _origin: LoadOrigin,
) -> Result<Option<Rc<dyn TargetKind>>, CliError> {
    if !is_stack(text) {
        return Ok(None);
    }
    let config = StackConfig::parse(text).map_err(CliError::invalid)?;
    Ok(Some(Rc::new(StackTarget::of(config))))
}

/// Whether a text is meant as a stack: by the word it begins with, or by what only stacks have where no file
/// has that name.
fn is_stack(text: &str) -> bool {
    let end = text.find(['(', '+']);
    let word = &text[..end.unwrap_or(text.len())];
    if text.ends_with(".toml") && Path::new(text).is_file() {
        return true;
    }
    let looks_so = end.is_some() && !text.contains('/') && !Path::new(text).exists();
    stacks::find(word.trim()).is_some() || looks_so
}

impl StackTarget {
    /// The stack of these parts.
    pub fn of(config: StackConfig) -> Self {
        let config = Box::new(config);
        StackTarget { config }
    }
}

impl TargetKind for StackTarget {
    fn stack(&self) -> Option<&StackConfig> {
        Some(&self.config)
    }

    fn resolve(&self, survey: &mut TargetSurvey<'_>) -> Result<Box<dyn ResolvedTarget>, CliError> {
        let nodes = survey.bench.load_nodes().len();
        if nodes > 0 {
            stacks::client::check(&self.config, nodes).map_err(CliError::usage)?;
        }
        // A stack without servers is as large as what it lies on; its room is looked at once it is up.
        let shape = self.config.stack.shape(&self.config);
        if shape.map_err(CliError::invalid)?.servers > 0 {
            survey.need(survey.given, survey.bench.options().size_bytes);
        }
        Ok(Box::new(self.clone()))
    }
}

impl ResolvedTarget for StackTarget {
    fn intentions(&self, intent: &TargetIntent<'_>) -> Vec<String> {
        let mut lines = Vec::new();
        if !intent.is_control {
            let name = &self.config.parts;
            lines.push(format!(
                "raise the stack {name} if it is not up (see: plimsoll stack up '{name}' --dry-run)"
            ));
            let own = self.config.own.iter();
            let commands = own.flat_map(|own| commands_of_stack(own));
            lines.extend(commands.map(|command| format!("start {command}")));
        }
        lines.push(intent.make_directory());
        lines
    }

    fn raise(&self, raising: &mut TargetRaising<'_>) -> Result<RaisedTarget, CliError> {
        let stack = raising.bench.stack(&self.config, raising.request.state)?;
        let made = &stack.made;
        let mut raised = match &made.address {
            Some(address) => {
                let address = address.parse().map_err(doing(
                    CliExitCode::Failed,
                    format!("use stack '{}'", stack.name),
                ))?;
                let served = made.served_dir.as_ref().map(PathBuf::from);
                exported(raising, &address, served.as_deref())?
            }
            None if !made.mount_dir.is_empty() => mounted(raising, Path::new(&made.mount_dir))?,
            None if raising.bench.is_here() => return Err(for_nodes(raising.given)),
            None => RaisedTarget::default(),
        };
        let servers = stack.nodes.iter().map(|node| node.address.clone());
        raised.servers = servers.collect();
        raised.description.clone_from(&made.description);
        if raising.bench.is_here() {
            // Its servers keep what they were given in files.
            raised
                .grounds
                .push(raising.bench.options().base_dir.clone());
        }
        raised.nodes = self.clients(raising)?;
        raised.stack = Some(stack);
        Ok(raised)
    }
}

/// A stack that this machine has mounted.
fn mounted(raising: &mut TargetRaising<'_>, root: &Path) -> Result<RaisedTarget, CliError> {
    let what = place::look_at(raising.given);
    let mut found = facts::target(root).map_err(doing(CliExitCode::Failed, what))?;
    lustre::add_facts(raising.bench.local(), &mut found);
    raising.claim_stack(root);
    let directory = place::absolute(root)?.join(&raising.directory);
    let step = directory_step(&directory, "create a directory")?;
    raising.plan.steps.push(step);
    Ok(RaisedTarget::in_directory(directory, found))
}

/// An export whose client plimsoll itself is. Where it is served from this machine, the arm's directory is
/// made there, so that it can be removed when the server is gone.
fn exported(
    raising: &mut TargetRaising<'_>,
    address: &NfsAddress,
    served: Option<&Path>,
) -> Result<RaisedTarget, CliError> {
    export::check(raising.given, raising.request.asked)?;
    let found = export::facts(address)?;
    let name = raising.directory.clone();
    let reach = match served {
        Some(served) => {
            let step = directory_step(&served.join(&name), "create a directory")?;
            raising.plan.steps.push(step);
            NodeTarget::Export {
                address: address.to_string(),
                directory: name.into(),
            }
        }
        None => export::add_directory(
            raising.plan,
            plimsoll_core::plan::HERE,
            &address.to_string(),
            name,
        ),
    };
    let mut raised = RaisedTarget::here(reach, found);
    raised.devices = served.and_then(facts::device_of).into_iter().collect();
    raised.grounds.extend(served.map(Path::to_path_buf));
    Ok(raised)
}

/// Error for using such a stack from here.
fn for_nodes(stack: &str) -> CliError {
    CliError::usage(format!(
        "use {stack} from this machine: the kernel of another one attaches its disk"
    ))
    .hint("name the machine that the load comes from: --clients c1 --on FILE")
}

impl StackTarget {
    /// Adds the steps that make a client of the stack on each node that the load comes from.
    fn clients(&self, raising: &mut TargetRaising<'_>) -> Result<Vec<NodeTarget>, CliError> {
        let stack = self.config.parts.to_string();
        let mut nodes = Vec::new();
        for node in raising.bench.load_nodes().to_vec() {
            let about = format!("make a client of {stack} on node {}", node.name);
            let dir = format!("{}/{}", node.dir, raising.directory);
            let host = raising.bench.hosts().on(&node.name);
            let host = host.map_err(doing(CliExitCode::Failed, &*about))?;
            let state = raising.request.state;
            let on = (&*host, &node, &*dir);
            let client = stacks::client::plan(&self.config, state, on, &raising.mark);
            let (steps, made) = client.map_err(doing(CliExitCode::Failed, about))?;
            place::add_directory(raising.plan, &node, &dir);
            raising.plan.steps.extend(steps.steps);
            let own = format!("{}-{}", raising.directory, node.name);
            nodes.push(match &made.address {
                Some(address) => export::add_directory(raising.plan, &node.name, address, own),
                None => {
                    let path = format!("{}/{own}", made.mount_dir);
                    place::add_directory(raising.plan, &node, &path);
                    // It is tried there: the mount is not there yet.
                    NodeTarget::Directory {
                        path: path.into(),
                        direct_align_bytes: 0,
                    }
                }
            });
        }
        Ok(nodes)
    }
}
