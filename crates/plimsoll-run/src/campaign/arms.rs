// SPDX-License-Identifier: Apache-2.0
//! The arms of an experiment: named and resolved, then raised.
//!
//! Every arm works in a directory of its own below its target, made and marked through the lab's
//! journal, so that a run that is killed can be razed.

mod notes;

use super::names::{directory_name, free_name, short_name};
use super::nodes::{ClientLoadGenerators, check_asked};
use crate::request::{SpaceRequirements, WorkloadRequest, commands_of, data_bytes, is_of_programs};
use crate::targets::{
    self, DestroyConsent, RaiseRequest, RaisedTarget, ResolvedTarget, TargetBench, TargetIntent,
    TargetKind, TargetRaising, TargetSurvey,
};
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, stopped};
use plimsoll_core::event::{ArmEntry, ClientLoadNode, RunWarning};
use plimsoll_core::plan::{Plan, PlanNode};
use plimsoll_core::target::{NodeTarget, TargetFacts};
use plimsoll_core::units;
use plimsoll_machine::host::{HostPool, HostResolver as _, facts, lustre};
use plimsoll_machine::watch::ServerWatchScope;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// One arm, and its target at this stage.
#[derive(Debug)]
struct Arm<T> {
    name: String,
    given: String,
    control_of: Option<String>,
    is_stack: bool,
    keeps_data: bool,
    target: T,
}

impl<T> Arm<T> {
    fn with<U>(self, target: U) -> Arm<U> {
        Arm {
            name: self.name,
            given: self.given,
            control_of: self.control_of,
            is_stack: self.is_stack,
            keeps_data: self.keeps_data,
            target,
        }
    }

    fn entry(&self, description: &str, facts: Option<&TargetFacts>) -> ArmEntry {
        ArmEntry {
            name: self.name.clone(),
            target: self.given.clone(),
            description: description.to_owned(),
            control_of: self.control_of.clone(),
            facts: facts.cloned(),
        }
    }
}

/// The systems of a run, as they were asked for.
#[derive(Debug)]
pub struct ArmRequest<'a> {
    /// Their words.
    pub given: &'a [String],
    /// Their names in reports; a short one of their words, where there is none.
    pub names: &'a [Option<String>],
    /// The targets that these name.
    pub targets: &'a [Rc<dyn TargetKind>],
    /// Whether the base is entered a second time.
    pub control: bool,
    /// The workloads that are to run on them.
    pub asked: &'a [WorkloadRequest],
    /// Devices that may be destroyed.
    pub consent: &'a DestroyConsent,
    /// Share of each file system that is to stay free.
    pub keep_free: f64,
}

impl ArmRequest<'_> {
    /// Finds everything that can be known to be wrong before anything is changed, with the load from these
    /// machines.
    ///
    /// # Errors
    /// When a system cannot be used, or the data do not fit.
    pub fn resolve(
        &self,
        load: &Rc<ClientLoadGenerators>,
        bench: &mut TargetBench,
    ) -> Result<ResolvedArms, CliError> {
        load.introduce(bench.hosts());
        bench.load_from(load.nodes());
        if !bench.is_here() {
            check_asked(self.asked)?;
        }
        let data_bytes = data_bytes(self.asked);
        let mut space = SpaceRequirements::default();
        let mut arms = Vec::new();
        for arm in self.named() {
            let resolved = arm.target.resolve(&mut TargetSurvey {
                given: &arm.given,
                asked: self.asked,
                data_bytes,
                consent: self.consent,
                bench,
                keep_free: self.keep_free,
                space: &mut space,
            })?;
            arms.push(arm.with(resolved));
        }
        space.check()?;
        let load = Rc::clone(load);
        Ok(ResolvedArms { arms, load })
    }

    /// Labels are short where they can be.
    fn named(&self) -> Vec<Arm<Rc<dyn TargetKind>>> {
        let base = self.given.iter().zip(self.targets).take(1);
        let control = base.filter(|_| self.control);
        let mut arms: Vec<Arm<Rc<dyn TargetKind>>> = Vec::new();
        for (at, (given, target)) in self
            .given
            .iter()
            .zip(self.targets)
            .chain(control)
            .enumerate()
        {
            let control_of = arms.first().filter(|_| at == self.given.len());
            let control_of = control_of.map(|base| base.name.clone());
            let wanted = match &control_of {
                Some(base) => format!("{base} (A/A control)"),
                None => match self.names.get(at) {
                    Some(Some(name)) => name.clone(),
                    _ => short_name(given, self.given),
                },
            };
            let taken: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
            arms.push(Arm {
                name: free_name(&wanted, &taken),
                given: given.clone(),
                control_of,
                is_stack: target.stack().is_some(),
                keeps_data: target.keeps_data(),
                target: Rc::clone(target),
            });
        }
        arms
    }
}

/// The arms of a run before anything was made.
#[derive(Debug)]
pub struct ResolvedArms {
    arms: Vec<Arm<Box<dyn ResolvedTarget>>>,
    load: Rc<ClientLoadGenerators>,
}

impl ResolvedArms {
    /// Facts that are known before anything was made.
    pub fn facts(&self) -> ArmFacts {
        let entry = |arm: &Arm<Box<dyn ResolvedTarget>>| {
            arm.entry(arm.target.description(), arm.target.facts())
        };
        ArmFacts {
            arms: self.arms.iter().map(entry).collect(),
            load_nodes: self.load.facts(),
        }
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.arms.iter().map(|arm| arm.name.as_str())
    }

    /// Each system once, and whether it keeps data.
    pub fn probed(&self) -> impl Iterator<Item = (&str, bool)> {
        let once = self.arms.iter().filter(|arm| arm.control_of.is_none());
        once.map(|arm| (arm.name.as_str(), arm.keeps_data))
    }

    /// Whether one of the systems is a stack.
    pub fn has_stacks(&self) -> bool {
        self.arms.iter().any(|arm| arm.is_stack)
    }

    /// Planned steps of raising, one line each.
    pub fn intentions(&self, id: &str, asked: &[WorkloadRequest]) -> Vec<String> {
        let mut needed = units::size(data_bytes(asked) as f64);
        if asked.iter().any(is_of_programs) {
            needed += " and what the programs write";
        }
        let names = self.load.node_names();
        let on_each_node =
            names.map_or_else(String::new, |names| format!("-NODE on each of {names}"));
        let of_arm = |(place, arm): (usize, &Arm<Box<dyn ResolvedTarget>>)| {
            arm.target.intentions(&TargetIntent {
                given: &arm.given,
                is_control: arm.control_of.is_some(),
                directory: &directory_name(id, place, &arm.name),
                on_each_node: &on_each_node,
                needed: &needed,
            })
        };
        let arms = self.arms.iter().enumerate();
        let programs = asked.iter().flat_map(commands_of);
        arms.flat_map(of_arm)
            .chain(programs.map(|program| format!("start {program}")))
            .collect()
    }

    /// Raises stacks that are not up, makes the arms' directories. Everything that has to be undone is in the
    /// bench, also after an error.
    ///
    /// # Errors
    /// When something fails on the way, or is stopped.
    pub fn raise(
        self,
        bench: &mut TargetBench,
        request: &RaiseRequest<'_>,
    ) -> Result<ArmSet, CliError> {
        bench.hosts().heed(request.stop);
        let mut plan = Plan::default();
        let mut arms = Vec::new();
        for (place, arm) in self.arms.into_iter().enumerate() {
            if request.stop.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            let raised = arm.target.raise(&mut TargetRaising {
                given: &arm.given,
                arm: &arm.name,
                directory: directory_name(request.id, place, &arm.name),
                mark: format!("{}-{}", request.id, place + 1),
                request,
                bench,
                plan: &mut plan,
            })?;
            arms.push(arm.with(raised));
        }
        let scratch = match request.asked.iter().any(is_of_programs) {
            true => make_scratch(arms.len(), &mut plan, bench, request)?,
            false => Vec::new(),
        };
        bench.claim_disks(arms.iter().map(|arm| &arm.target));
        bench.make(&plan, request)?;
        arms.iter_mut().for_each(|arm| arm.target.look_at_made());
        let raised = ArmSet {
            arms,
            load: self.load,
            scratch,
            others: bench.others().to_vec(),
            said: RefCell::default(),
        };
        raised.check_room_for(data_bytes(request.asked))?;
        Ok(raised)
    }
}

/// Adds the steps that make a directory for what programs copy on each machine that load comes from.
fn make_scratch(
    place: usize,
    plan: &mut Plan,
    bench: &TargetBench,
    request: &RaiseRequest<'_>,
) -> Result<Vec<PathBuf>, CliError> {
    let name = directory_name(request.id, place, "scratch");
    if bench.is_here() {
        let scratch = std::env::temp_dir().join(name);
        let why = "create a directory for the files that programs copy";
        plan.steps.push(targets::directory_step(&scratch, why)?);
        return Ok(vec![scratch]);
    }
    let on_node = |node: &PlanNode| {
        let path = format!("{}/{name}", node.dir);
        targets::add_directory(plan, node, &path);
        path.into()
    };
    Ok(bench.load_nodes().iter().map(on_node).collect())
}

/// Facts of a run's systems, as its manifest has them.
#[derive(Debug)]
pub struct ArmFacts {
    /// The arms.
    pub arms: Vec<ArmEntry>,
    /// The machines that load comes from.
    pub load_nodes: Vec<ClientLoadNode>,
}

/// All arms, ready for trials.
#[derive(Debug)]
pub struct ArmSet {
    arms: Vec<Arm<RaisedTarget>>,
    /// Where the load comes from.
    load: Rc<ClientLoadGenerators>,
    /// Made when there are programs to run, for each node of the load in its order.
    scratch: Vec<PathBuf>,
    /// Warnings of other runs that work on the same arm or disk.
    others: Vec<RunWarning>,
    /// Remarks already made on a system under a workload, not to be repeated for every trial.
    said: RefCell<BTreeSet<String>>,
}

impl ArmSet {
    /// Whether this has not been said yet.
    pub(super) fn is_first_time(&self, what: &str) -> bool {
        self.said.borrow_mut().insert(what.to_owned())
    }

    /// Facts about all of them.
    pub fn facts(&self) -> ArmFacts {
        let entry =
            |arm: &Arm<RaisedTarget>| arm.entry(&arm.target.description, arm.target.facts.as_ref());
        ArmFacts {
            arms: self.arms.iter().map(entry).collect(),
            load_nodes: self.load.facts(),
        }
    }

    /// Each system, and the one whose control it is.
    pub(super) fn controls(&self) -> impl Iterator<Item = (&str, &str)> {
        self.arms.iter().filter_map(|arm| {
            let base = arm.control_of.as_ref()?;
            Some((arm.name.as_str(), base.as_str()))
        })
    }

    /// The target of the arm of this name.
    pub fn target(&self, name: &str) -> &RaisedTarget {
        let found = self.arms.iter().find(|arm| arm.name == name);
        &found.expect("trials are planned for these arms").target
    }

    /// Each system once, for measuring what it carries.
    pub fn probed(&self) -> impl Iterator<Item = (&str, &RaisedTarget)> {
        let once = self.arms.iter().filter(|arm| arm.control_of.is_none());
        once.map(|arm| (arm.name.as_str(), &arm.target))
    }

    /// The machines that load comes from.
    pub fn load(&self) -> &ClientLoadGenerators {
        &self.load
    }

    /// A directory of the load's node of this number that is not on the targets, where there are programs
    /// to run.
    pub fn scratch(&self, node: usize) -> Option<&Path> {
        self.scratch.get(node).map(PathBuf::as_path)
    }

    /// Disks of this machine below the arms (major:minor).
    pub fn devices(&self) -> BTreeSet<&str> {
        let all = self.arms.iter().flat_map(|arm| &arm.target.devices);
        all.map(String::as_str).collect()
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
        let facts = target.facts.as_ref();
        let nfs = facts.filter(|facts| facts.file_system.starts_with("nfs"));
        let by_mount = nfs.and_then(|facts| facts.mount_source.rsplit_once(":/"));
        let by_mount = by_mount.map(|(host, _)| host.to_owned());
        let all: BTreeSet<String> = target.servers.iter().cloned().chain(by_mount).collect();
        let known = all.into_iter().filter(|address| !address.is_empty());
        known.collect()
    }

    /// Where trials write on the node of this number: what must be on the disks before the next one
    /// begins.
    pub fn grounds(&self, n: usize) -> Vec<PathBuf> {
        let path = |arm: &Arm<RaisedTarget>| match &arm.target.reach()[n] {
            NodeTarget::Directory { path, .. } | NodeTarget::Device { path, .. } => {
                Some(path.clone())
            }
            NodeTarget::File { path, .. } => Some(targets::parent_of(path).into()),
            _ => None,
        };
        let own = self.arms.iter().filter_map(path);
        let mut grounds: Vec<PathBuf> = own.collect();
        if !self.load.is_here() {
            return grounds;
        }
        grounds.extend(self.arms.iter().flat_map(|arm| arm.target.grounds.clone()));
        let mut seen = BTreeSet::new();
        grounds.retain(|path| {
            fs::metadata(path).is_ok_and(|data| {
                let is_device = facts::is_block_device(path);
                seen.insert(if is_device { data.rdev() } else { data.dev() })
            })
        });
        grounds
    }

    /// Watchable parts of an arm (servers, client programs, Lustre), and the way to its nodes.
    pub fn subjects(&self, name: &str) -> Option<(ServerWatchScope<'_>, HostPool)> {
        let target = self.target(name);
        let stack = target.stack.as_ref();
        let servers = stack.map_or(&[][..], |stack| &stack.made.servers);
        // Where the load comes from other machines, those have programs of their own.
        let stack_here = stack.filter(|_| self.load.is_here());
        let client_programs = stack_here.map_or(&[][..], |stack| &stack.made.client_programs);
        // I/O of other machines is not counted on this one.
        let facts = target.facts.as_ref().filter(|_| self.load.is_here());
        let lustre = facts.and_then(lustre::name);
        if servers.is_empty() && client_programs.is_empty() && lustre.is_none() {
            return None;
        }
        let mut reached = context::nodes();
        reached.meet(stack.map_or(&[][..], |stack| &stack.nodes));
        let scope = ServerWatchScope {
            servers,
            client_programs,
            lustre,
        };
        Some((scope, reached))
    }

    /// Fails where an arm's directory lies on another mount than when it was made: something was mounted
    /// over it, or it was taken away.
    pub fn check_mount(&self, name: &str) -> Result<(), CliError> {
        let target = self.target(name);
        let (Some(directory), Some(mount)) = (target.directory(), target.mount) else {
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

    /// Checks that `bytes` bytes fit on every system.
    pub(super) fn check_room_for(&self, bytes: u64) -> Result<(), CliError> {
        let mut places = SpaceRequirements::default();
        let facts = self.arms.iter().filter_map(|arm| arm.target.facts.as_ref());
        facts.for_each(|found| places.need(&found.device, bytes, found.free_bytes));
        places.check()
    }

    /// The stack that an arm is, and by what it is held.
    pub(super) fn held(&self, arm: &str) -> Option<(&str, &File)> {
        let stack = self.target(arm).stack.as_ref()?;
        Some((&stack.name, &stack.held))
    }
}
