// SPDX-License-Identifier: Apache-2.0
//! Arms brought up and taken down: stacks, marked directories, devices and exports, by the journal.

use super::super::WorkloadRequest;
use super::super::attach::{self, AttachedDisk};
use super::super::device::{self, DestroyConsent};
use super::super::names::directory_name;
use super::super::remote;
use super::super::room::{data_bytes, is_of_programs};
use super::ground::ArmClaims;
use super::{
    ArmSet, ArmTarget, Root, absolute, directory_step, for_nodes, look_at, on_nodes, shown,
};
use crate::lab_failure::trying;
use crate::spec::TargetSpec;
use plimsoll_agent::run_id;
use plimsoll_console::failure::{CliError, CliExitCode, doing, stopped};
use plimsoll_core::plan::{HERE, Plan, PlanAction, PlanStep};
use plimsoll_lab::stacks;
use plimsoll_lab::stacks::{DownError, StackConfig};
use plimsoll_machine::host::{Host as _, file_system_of};
use plimsoll_machine::host::{facts, lustre};
use plimsoll_machine::journal::{Journal, JournalError, JournalHeader, StateDir};
use plimsoll_machine::raise::{raise, raze};
use plimsoll_nfs::NfsAddress;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

impl ArmSet {
    /// Raises stacks that are not up, makes the arms' directories, finds facts.
    pub fn raise(
        &mut self,
        id: &str,
        state: &StateDir,
        asked: &[WorkloadRequest],
        consent: &DestroyConsent,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), CliError> {
        self.nodes.heed(stop);
        let mut plan = Plan::default();
        for place in 0..self.targets.len() {
            if stop.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            let root = match self.targets[place].spec.clone() {
                spec if !self.load.is_here() && !matches!(spec, TargetSpec::Stack(_)) => {
                    self.place_on_nodes(place, id, &mut plan)?;
                    continue;
                }
                TargetSpec::Stack(choice) => match self.stack_root(place, &choice, state)? {
                    Root::Nodes if !self.load.is_here() => continue,
                    Root::Nodes => return Err(for_nodes(&self.targets[place].given)),
                    Root::Directory(root) => root,
                    Root::Export { address, served } => {
                        let name = directory_name(id, place, &self.targets[place].name);
                        plan.steps
                            .push(self.export(place, address, served.as_deref(), name)?);
                        remote::check(&self.targets[place].given, asked)?;
                        continue;
                    }
                },
                TargetSpec::Nfs(address) => {
                    let name = directory_name(id, place, &self.targets[place].name);
                    plan.steps.push(self.export(place, address, None, name)?);
                    self.targets[place].description = remote::DESCRIPTION.into();
                    continue;
                }
                TargetSpec::Null | TargetSpec::Nop | TargetSpec::Sim(_) => continue,
                TargetSpec::Device(path) => {
                    self.find_device(place, &path)?;
                    continue;
                }
                TargetSpec::Attach(address) => {
                    self.attach(place, &address, id, state, consent)?;
                    continue;
                }
                _ => self.targets[place].root(),
            };
            let step = self.claim_place(place, &root, id)?;
            // A file that is the base is the control's file too.
            if !plan.steps.contains(&step) {
                plan.steps.push(step);
            }
        }
        self.devices.sort();
        self.devices.dedup();
        if asked.iter().any(is_of_programs) {
            self.make_scratch(id, &mut plan)?;
        }
        self.check_room(asked)?;
        self.claim_disks();
        self.make(plan, id, state)?;
        self.try_direct();
        Ok(())
    }

    /// Adds the steps that make a directory for what programs copy on each node that load comes from.
    fn make_scratch(&mut self, id: &str, plan: &mut Plan) -> Result<(), CliError> {
        let name = directory_name(id, self.targets.len(), "scratch");
        if self.load.is_here() {
            let scratch = std::env::temp_dir().join(name);
            let why = "create a directory for the files that programs copy";
            plan.steps.push(directory_step(&scratch, why)?);
            self.scratch.push(scratch);
            return Ok(());
        }
        for node in self.load_nodes() {
            self.scratch.push(on_nodes::scratch(plan, &node, &name));
        }
        Ok(())
    }

    /// Finds and claims what a target lies on; gives the step that makes the directory or file there.
    fn claim_place(&mut self, place: usize, root: &Path, id: &str) -> Result<PlanStep, CliError> {
        let target = &mut self.targets[place];
        let mut found = facts::target(root).map_err(doing(CliExitCode::Failed, look_at(target)))?;
        lustre::add_facts(self.nodes.local(), &mut found);
        if target.description.is_empty() {
            target.description = format!("{} on {}", found.file_system, found.mount_source);
        }
        target.facts = Some(found);
        self.ground.claim_root(target, root)?;
        self.devices.extend(facts::device_of(root));
        making(target, root, &directory_name(id, place, &target.name))
    }

    fn note_mounts(&mut self) {
        for target in &mut self.targets {
            let directory = target.directory.as_deref();
            target.mount = directory.and_then(facts::mount_identity);
        }
    }

    /// Notes the facts of a device: nothing has to be made for it.
    fn find_device(&mut self, place: usize, path: &Path) -> Result<(), CliError> {
        let (found, identity) = device::facts(path, self.nodes.local())?;
        let target = &mut self.targets[place];
        // Consent to destroy is for the device that was looked at, not for what has its name now.
        if target
            .identity
            .as_ref()
            .is_some_and(|checked| *checked != identity)
        {
            let (path, checked) = (path.display(), target.identity.as_ref());
            let checked = checked.map(ToString::to_string).unwrap_or_default();
            let what = format!(
                "use target '{path}': it is another device now ({identity}) than the one that may be destroyed \
                 ({checked})"
            );
            return Err(CliError::new(CliExitCode::Failed, what));
        }
        target.identity = Some(identity);
        target.description = device::description(&found);
        target.exclusive = !found.in_use;
        target.facts = Some(device::target_facts(&found));
        self.devices.push(found.number);
        Ok(())
    }

    /// Attaches the disk of an arm, unless another arm has it already, and notes its facts.
    fn attach(
        &mut self,
        place: usize,
        address: &plimsoll_lab::attach::RemoteDiskAddress,
        id: &str,
        state: &StateDir,
        consent: &DestroyConsent,
    ) -> Result<(), CliError> {
        let is_it = |attached: &AttachedDisk| attached.address == *address;
        let number = match self.attached.iter().position(is_it) {
            Some(number) => number,
            None => {
                let number = self.attached.len();
                let id = format!("{id}-disk{}", number + 1);
                let attached = attach::attach(address, &id, state, &mut self.nodes)?;
                self.attached.push(attached);
                number
            }
        };
        let attached = &self.attached[number];
        let (found, identity) = attached.look(consent, self.nodes.local())?;
        let target = &mut self.targets[place];
        target.identity = Some(identity);
        target.description = attached.description(&found);
        target.exclusive = !found.in_use;
        target.facts = Some(attached.target_facts(&found));
        self.devices.push(found.number);
        target.attached = Some(found.path);
        Ok(())
    }

    /// An export whose client plimsoll itself is. Where it is served from this machine, the arm's
    /// directory is made there, so that it can be removed when the server is gone.
    fn export(
        &mut self,
        place: usize,
        address: NfsAddress,
        served: Option<&Path>,
        name: String,
    ) -> Result<PlanStep, CliError> {
        let found = remote::facts(&address)?;
        let step = match served {
            Some(served) => {
                self.devices.extend(facts::device_of(served));
                self.targets[place].served = Some(served.into());
                directory_step(&served.join(&name), "create a directory")?
            }
            None => remote::making(&address, &name),
        };
        let target = &mut self.targets[place];
        target.facts = Some(found);
        target.remote = Some((address, name.into()));
        Ok(step)
    }

    /// Room is checked again once all stacks are up: their images have taken theirs by then.
    fn check_room(&self, asked: &[WorkloadRequest]) -> Result<(), CliError> {
        self.check_room_for(data_bytes(asked))
    }

    /// Some file systems (NFS) have direct I/O, but none of the nameless files it is tried on
    /// elsewhere: with a directory of our own it can be tried on a named one.
    fn try_direct(&mut self) {
        for target in &mut self.targets {
            if let (Some(facts), Some(directory)) = (&mut target.facts, &target.directory)
                && facts.direct_align_bytes == 0
            {
                facts.direct_align_bytes = facts::direct_align_in(directory);
            }
        }
    }

    fn make(&mut self, mut plan: Plan, id: &str, state: &StateDir) -> Result<(), CliError> {
        self.clients_on_nodes(id, state, &mut plan)?;
        if plan.steps.is_empty() {
            return Ok(());
        }
        let header = JournalHeader {
            nodes: self.load_nodes(),
            ..run_id::run_header(id)
        };
        let journal = Journal::create(state, header)
            .map_err(doing(CliExitCode::Failed, "begin the journal of the run"))?;
        let standing = raise(&plan, None, &mut self.nodes, journal).map_err(doing(
            CliExitCode::Failed,
            "make the directories of the run",
        ))?;
        self.directories = Some(standing);
        self.note_mounts();
        Ok(())
    }

    /// The directory of a stack that is up and healthy; raises it when it is not up.
    fn stack_root(
        &mut self,
        place: usize,
        choice: &StackConfig,
        state: &StateDir,
    ) -> Result<Root, CliError> {
        let name = choice.parts.to_string();
        let all = stacks::status(state, &mut self.nodes).map_err(doing(
            CliExitCode::Failed,
            "read the journals of the stacks",
        ))?;
        let (made, nodes) = match all.into_iter().find(|status| status.name == name) {
            Some(status) if !status.problems.is_empty() => {
                let list = status.problems.join("; ");
                return Err(CliError::new(
                    CliExitCode::Failed,
                    format!("use stack '{name}': {list}"),
                )
                .hint(format!("take it down with: plimsoll stack down '{name}'")));
            }
            Some(status) => {
                self.targets[place].degraded = status.degraded;
                (status.made.unwrap_or_default(), status.nodes)
            }
            None => {
                let up = stacks::up(choice, &self.options, state, &mut self.nodes)
                    .map_err(trying(format!("bring up the stack {name}")))?;
                self.raised.push(name.clone());
                (up.made, up.nodes)
            }
        };
        self.hold(&name, state)?;
        self.targets[place]
            .description
            .clone_from(&made.description);
        let root = match &made.address {
            None if made.mount_dir.is_empty() => Root::Nodes,
            None => Root::Directory(PathBuf::from(&made.mount_dir)),
            Some(address) => Root::Export {
                address: address
                    .parse()
                    .map_err(doing(CliExitCode::Failed, format!("use stack '{name}'")))?,
                served: made.served_dir.clone().map(PathBuf::from),
            },
        };
        self.targets[place].made = Some((made, nodes));
        Ok(root)
    }

    /// Keeps others from taking the stack down while it is measured.
    fn hold(&mut self, name: &str, state: &StateDir) -> Result<(), CliError> {
        if !self.held.contains_key(name) {
            let held = stacks::hold(name, state, self.host().clock())
                .map_err(doing(CliExitCode::Failed, format!("hold the stack {name}")))?;
            self.held.insert(name.into(), held);
        }
        Ok(())
    }

    /// Undoes everything that was raised here, in reverse; returns what is left. A stack that
    /// another run has begun to use stays for it.
    pub fn lower(&mut self, state: &StateDir) -> Vec<String> {
        let mut left = Vec::new();
        if let Some(standing) = self.directories.take() {
            left.extend(raze(standing.journal, &mut self.nodes).problems());
        }
        while let Some(attached) = self.attached.pop() {
            left.extend(raze(attached.standing.journal, &mut self.nodes).problems());
        }
        self.held.clear();
        self.ground = ArmClaims::default();
        while let Some(name) = self.raised.pop() {
            match stacks::down(&name, state, &mut self.nodes) {
                Ok(razed) => left.extend(razed.problems()),
                Err(DownError::Journal(JournalError::InUse { .. })) => {}
                Err(error) => left.push(format!("stack {name}: {error}")),
            }
        }
        left
    }
}

/// The step that makes what the arm works in: its file, or a directory of its own.
fn making(target: &mut ArmTarget, root: &Path, directory: &str) -> Result<PlanStep, CliError> {
    if let TargetSpec::File(path) = &target.spec {
        let path = shown(&absolute(path)?)?;
        return Ok(PlanStep::on(
            HERE,
            "create the file",
            PlanAction::MakeFile {
                path: path.clone(),
                bytes: 0,
            },
            Some(PlanAction::RemoveFile(path)),
        ));
    }
    let directory = absolute(root)?.join(directory);
    let mut step = directory_step(&directory, "create a directory")?;
    // A disk of the user's may be pulled while it is measured; what a stack has goes with the stack.
    if let (TargetSpec::Directory(_), Some(file_system)) = (&target.spec, file_system_of(root)) {
        let path = shown(&directory)?;
        step.undo = Some(PlanAction::RemoveDirOf { path, file_system });
    }
    target.directory = Some(directory);
    Ok(step)
}
