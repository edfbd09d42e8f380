// SPDX-License-Identifier: Apache-2.0
//! The arms of an experiment: named, checked, raised, and in the end lowered again.
//!
//! Every arm works in a directory of its own below its target, made and marked through the lab's
//! journal, so that a run that is killed can be razed.

mod ground;
mod on_nodes;
mod raised;

use super::WorkloadRequest;
use super::attach::{self, AttachedDisk};
use super::device::{self, DestroyConsent};
use super::names::{directory_name, free_name, short_name};
use super::nodes::ClientLoadGenerators;
use super::programs::commands_of;
use super::remote;
use super::room::{SpaceRequirements, data_bytes, is_of_programs};
use crate::spec::TargetSpec;
use crate::trust::commands_of_stack;
use ground::ArmClaims;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::event::ArmEntry;
use plimsoll_core::plan::{HERE, PlanAction, PlanNode, PlanStep, StackOutputs};
use plimsoll_core::target::{DeviceIdentity, NodeTarget, TargetFacts};
use plimsoll_core::units;
use plimsoll_lab::attach::{NbdServerAddress, RemoteDiskAddress, RemoteDiskTransport};
use plimsoll_lab::stacks;
use plimsoll_machine::host::facts::MountIdentity;
use plimsoll_machine::host::{HostPool, HostResolver as _, LocalHost, check_way};
use plimsoll_machine::host::{facts, lustre};
use plimsoll_machine::raise::AppliedPlan;
use plimsoll_machine::watch::ServerWatchScope;
use plimsoll_nfs::NfsAddress;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// One arm.
#[derive(Debug)]
pub struct ArmTarget {
    name: String,
    given: String,
    spec: TargetSpec,
    control_of: Option<String>,
    description: String,
    /// Whether a device is opened for us alone: not if others already use it.
    exclusive: bool,
    /// The block device of a disk that was attached.
    attached: Option<PathBuf>,
    /// Which device it is that may be destroyed.
    identity: Option<DeviceIdentity>,
    /// Directory the arm works in, once raised.
    pub(super) directory: Option<PathBuf>,
    /// Where plimsoll itself is the client: the export, and the arm's directory in it.
    remote: Option<(NfsAddress, PathBuf)>,
    /// The directory of this machine that is exported, if it is served from here.
    served: Option<PathBuf>,
    facts: Option<TargetFacts>,
    /// Degradations of the stack when it was first used, if the target is one.
    degraded: Vec<String>,
    /// The mount that its directory lies on.
    mount: Option<MountIdentity>,
    /// Outputs of the stack, if the target is one, and its nodes.
    made: Option<(StackOutputs, Vec<PlanNode>)>,
    /// Where each node works, when the load comes from others than this machine.
    on_nodes: Vec<NodeTarget>,
}

impl ArmTarget {
    /// Where this machine works.
    pub fn here(&self) -> NodeTarget {
        if let Some((address, directory)) = &self.remote {
            return NodeTarget::Export {
                address: address.to_string(),
                directory: directory.clone(),
            };
        }
        if let Some(path) = &self.attached {
            return self.device(path);
        }
        let direct_align_bytes = self.direct_align_bytes();
        match (&self.spec, &self.directory) {
            (TargetSpec::Null, _) => NodeTarget::Null,
            (TargetSpec::Nop, _) => NodeTarget::Nop,
            (TargetSpec::Sim(_), _) => NodeTarget::Sim(self.given.clone()),
            (TargetSpec::Device(path), _) => self.device(path),
            (TargetSpec::File(path), _) => NodeTarget::File {
                path: path.clone(),
                direct_align_bytes,
            },
            (_, Some(path)) => NodeTarget::Directory {
                path: path.clone(),
                direct_align_bytes,
            },
            (_, None) => unreachable!("an arm is raised before it is used"),
        }
    }

    fn device(&self, path: &Path) -> NodeTarget {
        let identity = self.identity.clone();
        NodeTarget::Device {
            path: path.into(),
            direct_align_bytes: self.direct_align_bytes(),
            identity: identity.expect("a device is looked at before it is used"),
            exclusive: self.exclusive,
        }
    }

    /// Outputs of the stack, if the target is one, and its nodes.
    pub(super) fn made(&self) -> Option<&(StackOutputs, Vec<PlanNode>)> {
        self.made.as_ref()
    }

    pub(super) fn direct_align_bytes(&self) -> u32 {
        self.facts
            .as_ref()
            .map_or(0, |facts| facts.direct_align_bytes)
    }

    pub(super) fn is_real(&self) -> bool {
        !matches!(
            self.spec,
            TargetSpec::Null | TargetSpec::Nop | TargetSpec::Sim(_)
        )
    }

    /// The directory the target's file system is found by.
    fn root(&self) -> PathBuf {
        match &self.spec {
            TargetSpec::Directory(path) => path.clone(),
            TargetSpec::Device(path) => path.clone(),
            TargetSpec::File(path) => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent.into(),
                _ => PathBuf::from("."),
            },
            _ => PathBuf::from("/"),
        }
    }
}

/// Where a stack is measured.
enum Root {
    Directory(PathBuf),
    /// By its address; `served` is the directory that is exported, if it is this machine's.
    Export {
        address: NfsAddress,
        served: Option<PathBuf>,
    },
    /// On other machines alone.
    Nodes,
}

/// All arms, and what has to be undone for them.
#[derive(Debug)]
pub struct ArmSet {
    targets: Vec<ArmTarget>,
    options: stacks::StackUpOptions,
    nodes: HostPool,
    /// Where the load comes from.
    load: ClientLoadGenerators,
    raised: Vec<String>,
    attached: Vec<AttachedDisk>,
    directories: Option<AppliedPlan>,
    /// Stacks that are kept from being taken down, by their names.
    held: BTreeMap<String, File>,
    devices: Vec<String>,
    ground: ArmClaims,
    /// Made when there are programs to run, for each node of the load in its order.
    scratch: Vec<PathBuf>,
    /// Remarks already made on a system under a workload, not to be repeated for every trial.
    said: RefCell<BTreeSet<String>>,
}

impl ArmSet {
    /// Whether this has not been said yet.
    pub(super) fn is_first_time(&self, what: &str) -> bool {
        self.said.borrow_mut().insert(what.to_owned())
    }

    /// The arms of these targets: labels are short where they can be, and the base is entered a
    /// second time when a control is wanted.
    pub fn named(
        given: &[String],
        specs: &[TargetSpec],
        control: bool,
        options: stacks::StackUpOptions,
        nodes: HostPool,
    ) -> Self {
        let mut targets: Vec<ArmTarget> = Vec::new();
        for (text, spec) in given.iter().zip(specs) {
            let taken: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
            let name = free_name(&short_name(text, given), &taken);
            targets.push(new_target(name, text, spec, None));
        }
        if control && let (Some(text), Some(spec)) = (given.first(), specs.first()) {
            let base = targets[0].name.clone();
            let taken: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
            let name = free_name(&format!("{base} (A/A control)"), &taken);
            targets.push(new_target(name, text, spec, Some(base)));
        }
        ArmSet {
            targets,
            options,
            nodes,
            load: ClientLoadGenerators::here(),
            raised: Vec::new(),
            attached: Vec::new(),
            directories: None,
            held: BTreeMap::new(),
            devices: Vec::new(),
            ground: ArmClaims::default(),
            scratch: Vec::new(),
            said: RefCell::default(),
        }
    }

    /// Manifest entries of the arms.
    pub fn described(&self) -> Vec<ArmEntry> {
        let described = |target: &ArmTarget| ArmEntry {
            name: target.name.clone(),
            target: target.given.clone(),
            description: target.description.clone(),
            control_of: target.control_of.clone(),
            facts: target.facts.clone(),
        };
        self.targets.iter().map(described).collect()
    }

    /// The arm of this name.
    pub fn target(&self, name: &str) -> &ArmTarget {
        let found = self.targets.iter().find(|target| target.name == name);
        found.expect("trials are planned for these arms")
    }

    /// Whether what is written to a system stays there for the trials that follow.
    pub(super) fn keeps_data(&self, name: &str) -> bool {
        self.target(name).is_real()
    }

    /// A directory of the load's node of this number that is not on the targets, where there are programs
    /// to run.
    pub fn scratch(&self, node: usize) -> Option<&Path> {
        self.scratch.get(node).map(PathBuf::as_path)
    }

    /// Host that carries out changes of this machine.
    pub fn host(&self) -> &LocalHost {
        self.nodes.local()
    }

    /// Disks below the arms (major:minor).
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// The kernel's name of the block device below an arm, if this machine counts what it does.
    pub fn device(&self, name: &str) -> Option<String> {
        let facts = self.target(name).facts.as_ref();
        // I/O of other machines is not counted on this one.
        let facts = facts.filter(|_| self.load.is_here())?;
        let number = facts::device_of(Path::new(&facts.path))?;
        plimsoll_machine::host::disks::name_of_number(&number)
    }

    /// Addresses of the machines that serve an arm, as far as they are known.
    pub fn peers(&self, name: &str) -> Vec<String> {
        let target = self.target(name);
        let of_disk = |address: &RemoteDiskAddress| match &address.kind {
            RemoteDiskTransport::Iscsi(iscsi) => Some(iscsi.host.clone()),
            RemoteDiskTransport::Nbd { server, .. } => match server {
                NbdServerAddress::Tcp(host, _) => Some(host.clone()),
                NbdServerAddress::Unix(_) => None,
            },
        };
        let by_address = match &target.spec {
            TargetSpec::Attach(address) => of_disk(address),
            TargetSpec::Nfs(address) => Some(address.host.clone()),
            _ => None,
        };
        let facts = target.facts.as_ref();
        let nfs = facts.filter(|facts| facts.file_system.starts_with("nfs"));
        let by_mount = nfs.and_then(|facts| facts.mount_source.rsplit_once(":/"));
        let nodes = target.made.iter().flat_map(|(_, nodes)| nodes);
        let mut all: Vec<String> = by_address
            .into_iter()
            .chain(by_mount.map(|(host, _)| host.to_owned()))
            .chain(nodes.map(|node| node.address.clone()))
            .filter(|address| !address.is_empty())
            .collect();
        all.sort();
        all.dedup();
        all
    }

    /// Watchable parts of an arm (servers, client programs, Lustre), and the way to its nodes.
    pub fn subjects(&self, name: &str) -> Option<(ServerWatchScope<'_>, HostPool)> {
        let target = self.target(name);
        let made = target.made.as_ref();
        let (servers, nodes) = made.map_or((&[][..], &[][..]), |(made, nodes)| {
            (&*made.servers, nodes.as_slice())
        });
        // Where the load comes from other machines, those have programs of their own.
        let client_programs = made.map_or(&[][..], |(made, _)| &*made.client_programs);
        let client_programs = match self.load.is_here() {
            true => client_programs,
            false => &[],
        };
        // I/O of other machines is not counted on this one.
        let facts = target.facts.as_ref().filter(|_| self.load.is_here());
        let lustre = facts.and_then(lustre::name);
        if servers.is_empty() && client_programs.is_empty() && lustre.is_none() {
            return None;
        }
        let mut reached = context::nodes();
        reached.meet(nodes);
        let scope = ServerWatchScope {
            servers,
            client_programs,
            lustre,
        };
        Some((scope, reached))
    }

    /// Each system once, for measuring what it carries.
    pub fn probed(&self) -> impl Iterator<Item = (&str, &ArmTarget)> {
        let once = self
            .targets
            .iter()
            .filter(|target| target.control_of.is_none());
        once.map(|target| (target.name.as_str(), target))
    }

    /// Whether the system of this name is a stack.
    pub fn is_stack(&self, name: &str) -> bool {
        self.target(name).spec.stack().is_some()
    }

    /// Whether one of the systems is a stack.
    pub fn has_stacks(&self) -> bool {
        let mut targets = self.targets.iter();
        targets.any(|target| target.spec.stack().is_some())
    }

    /// Versions of the programs the arms may be made of.
    pub fn versions(&self) -> BTreeMap<String, String> {
        facts::versions(self.nodes.local())
    }

    /// Everything that can be known to be wrong before anything is changed.
    pub fn check(
        &mut self,
        asked: &[WorkloadRequest],
        consent: &DestroyConsent,
    ) -> Result<(), CliError> {
        self.check_on_nodes(asked)?;
        let needed = data_bytes(asked);
        let mut places = SpaceRequirements::default();
        for target in self.targets.iter_mut().filter(|target| target.is_real()) {
            match &target.spec {
                // A stack without servers is as large as what it lies on; its room is looked at once
                // it is up.
                TargetSpec::Stack(choice) => {
                    let shape = choice.stack.shape(choice).map_err(CliError::invalid)?;
                    if shape.servers > 0 {
                        places.need(&target.given, needed, self.options.size_bytes);
                    }
                    continue;
                }
                // They were looked at on the nodes.
                _ if !self.load.is_here() => continue,
                TargetSpec::Device(path) => {
                    let (found, identity) = device::check(path, consent, self.nodes.local())?;
                    target.identity = Some(identity);
                    check_one_file(target, asked)?;
                    places.need(&target.given, needed, found.bytes);
                    continue;
                }
                TargetSpec::Attach(address) => {
                    attach::check(address, consent, self.nodes.local())?;
                    check_one_file(target, asked)?;
                    continue;
                }
                TargetSpec::File(_) => check_one_file(target, asked)?,
                TargetSpec::Nfs(address) => {
                    remote::check(target.given.as_str(), asked)?;
                    let found = remote::facts(address)?;
                    places.need(&target.given, needed, found.free_bytes);
                    continue;
                }
                _ => {}
            }
            let root = target.root();
            check_place(&format!("use target '{}'", target.given), &root)?;
            facts::check_writable(&root).map_err(|error| {
                CliError::usage(format!(
                    "use target '{}': it is not writable: {error}",
                    target.given
                ))
            })?;
            ground::check(target, &root)?;
            let found =
                facts::target(&root).map_err(doing(CliExitCode::Failed, look_at(target)))?;
            places.need(&found.path, needed, found.free_bytes);
        }
        places.check()
    }

    /// Planned steps of raising, one line each.
    pub fn intentions(&self, id: &str, asked: &[WorkloadRequest]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut needed = units::size(data_bytes(asked) as f64);
        if asked.iter().any(is_of_programs) {
            needed += " and what the programs write";
        }
        for (place, target) in self.targets.iter().enumerate() {
            match &target.spec {
                TargetSpec::Null | TargetSpec::Nop | TargetSpec::Sim(_) => continue,
                TargetSpec::Device(_) => {
                    lines.push(format!("overwrite the first {needed} of {}", target.given));
                    continue;
                }
                TargetSpec::Attach(_) => {
                    let given = &target.given;
                    if target.control_of.is_none() {
                        lines.push(format!("attach {given}, and detach it at the end"));
                    }
                    lines.push(format!("overwrite the first {needed} of {given}"));
                    continue;
                }
                TargetSpec::Stack(choice) if target.control_of.is_none() => {
                    let name = &choice.parts;
                    lines.push(format!("raise the stack {name} if it is not up (see: plimsoll stack up '{name}' --dry-run)"));
                    let own = choice.own.iter().flat_map(|own| commands_of_stack(own));
                    lines.extend(own.map(|command| format!("start {command}")));
                }
                TargetSpec::File(path) => {
                    lines.push(format!(
                        "make {}{} with up to {needed}, and remove it at the end",
                        path.display(),
                        self.on_each_node()
                    ));
                    continue;
                }
                _ => {}
            }
            lines.push(format!(
                "make {}/{}{} with up to {needed}, and remove it at the end",
                target.given.trim_end_matches('/'),
                directory_name(id, place, &target.name),
                self.on_each_node()
            ));
        }
        let programs = asked.iter().flat_map(commands_of);
        lines.extend(programs.map(|program| format!("start {program}")));
        lines
    }

    /// Fails where an arm's directory lies on another mount than when it was made: something was mounted
    /// over it, or it was taken away.
    pub fn check_mount(&self, name: &str) -> Result<(), CliError> {
        let target = self.target(name);
        let (Some(directory), Some(mount)) = (&target.directory, target.mount) else {
            return Ok(());
        };
        if facts::mount_identity(directory) == Some(mount) {
            return Ok(());
        }
        Err(CliError::new(
            CliExitCode::Failed,
            format!(
                "measure on {name}: {} lies on another file system than at the start of the run, or is \
                 gone: something was mounted over it or unmounted",
                directory.display()
            ),
        ))
    }

    /// Degradations of stacks when they were first used, system by system.
    pub fn degraded(&self) -> impl Iterator<Item = (&str, String)> {
        let lacking = self
            .probed()
            .filter(|(_, target)| !target.degraded.is_empty());
        lacking.map(|(name, target)| {
            let text = format!(
                "it was degraded before the start: {}",
                target.degraded.join("; ")
            );
            (name, text)
        })
    }

    /// Whether so many bytes fit on every arm.
    pub(super) fn check_room_for(&self, bytes: u64) -> Result<(), CliError> {
        let mut places = SpaceRequirements::default();
        for found in self
            .targets
            .iter()
            .filter_map(|target| target.facts.as_ref())
        {
            places.need(&found.device, bytes, found.free_bytes);
        }
        places.check()
    }

    /// The stack that an arm is, and by what it is held.
    pub(super) fn held(&self, arm: &str) -> Option<(String, &File)> {
        let TargetSpec::Stack(choice) = &self.target(arm).spec else {
            return None;
        };
        let name = choice.parts.to_string();
        let held = self.held.get(&name)?;
        Some((name, held))
    }
}

/// Root works in no directory that another user could lead elsewhere: any file of this machine could be
/// written over then. `doing` is what is refused.
pub fn check_place(doing: &str, root: &Path) -> Result<(), CliError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    check_way(root).map_err(|error| {
        CliError::usage(format!("{doing} as root: {error}")).hint(
            "measure it as its owner: setpriv --reuid=USER --init-groups plimsoll …; or use a directory \
             of root on the same file system, with no directory above it that others may write to",
        )
    })
}

fn look_at(target: &ArmTarget) -> String {
    format!("look at target '{}'", target.given)
}

fn check_one_file(target: &ArmTarget, asked: &[WorkloadRequest]) -> Result<(), CliError> {
    match asked.iter().find(|one| one.workload.needs_directory()) {
        None => Ok(()),
        Some(one) => Err(CliError::usage(format!(
            "run {} on {}: it needs a directory{}",
            one.workload.name(),
            target.given,
            match target.spec {
                TargetSpec::File(_) => ", and nothing is there",
                _ => "",
            }
        ))),
    }
}

/// Error for using such a stack from here.
fn for_nodes(stack: &str) -> CliError {
    CliError::usage(format!(
        "use {stack} from this machine: the kernel of another one attaches its disk"
    ))
    .hint("name the machine that the load comes from: --clients c1 --on FILE")
}

/// The step that makes a directory of ours.
///
/// # Errors
/// When its path is not valid UTF-8.
pub(super) fn directory_step(directory: &Path, why: &str) -> Result<PlanStep, CliError> {
    let path = shown(directory)?;
    Ok(PlanStep::on(
        HERE,
        why,
        PlanAction::MakeDir(path.clone()),
        Some(PlanAction::RemoveDir(path)),
    ))
}

fn new_target(
    name: String,
    given: &str,
    spec: &TargetSpec,
    control_of: Option<String>,
) -> ArmTarget {
    let device;
    let description = match spec {
        TargetSpec::Null => "nothing: operations end at once",
        TargetSpec::Nop => "nothing: requests end at once in the kernel",
        TargetSpec::Sim(sim) => {
            device = sim.to_string();
            &device
        }
        _ => "",
    };
    ArmTarget {
        name,
        given: given.to_owned(),
        spec: spec.clone(),
        control_of,
        description: description.into(),
        exclusive: true,
        attached: None,
        identity: None,
        directory: None,
        remote: None,
        facts: None,
        degraded: Vec::new(),
        mount: None,
        made: None,
        on_nodes: Vec::new(),
        served: None,
    }
}

fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|error| {
        CliError::new(
            CliExitCode::Failed,
            format!("find {}: {error}", path.display()),
        )
    })
}

/// A path as the journal keeps it.
pub(super) fn shown(path: &Path) -> Result<String, CliError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        CliError::usage(format!(
            "use {}: its name is not valid UTF-8, and the journal could not name it",
            path.display()
        ))
    })
}
