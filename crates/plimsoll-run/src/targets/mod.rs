// SPDX-License-Identifier: Apache-2.0
//! Targets by kind: one file a kind, and one line in [`READERS`].
//!
//! [`read`] makes a [`TargetKind`] of words; [`TargetKind::resolve`] finds its facts before anything is made;
//! [`ResolvedTarget::raise`] adds the steps that make it ready to a plan, and says how each node reaches it.

mod attached;
mod bench;
mod claims;
pub mod device;
mod directory;
mod export;
mod file;
mod place;
mod raised;
mod stack;
mod unreal;

pub use bench::{RaiseRequest, TargetBench};
pub use device::DestroyConsent;
pub use place::{NEW_FILE, check_place};
pub(crate) use place::{add_directory, directory_step, parent_of};
pub use raised::RaisedTarget;
pub use stack::StackTarget;

use crate::request::{SpaceRequirements, WorkloadRequest};
use plimsoll_console::failure::CliError;
use plimsoll_core::num::round_u64;
use plimsoll_core::plan::{Plan, PlanStep};
use plimsoll_core::target::TargetFacts;
use plimsoll_lab::stacks::StackConfig;
use std::fmt::Debug;
use std::rc::Rc;

/// Machines that a load comes from, as far as words depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadOrigin {
    /// This one.
    Here,
    /// Others: a path is one of theirs.
    Nodes,
}

/// Reads the words of one kind of target; `None` where they are not its words.
type TargetReader = fn(&str, LoadOrigin) -> Result<Option<Rc<dyn TargetKind>>, CliError>;

/// The kinds, in the order in which their readers are asked: words before paths.
const READERS: &[TargetReader] = &[
    unreal::read,
    export::read,
    attached::read,
    stack::read,
    file::read,
    device::read,
    directory::read,
];

/// Reads a directory, a new file (`file:PATH`), a block device, the address of an NFS export or of a remote
/// disk, the name of a stack, `null` or a simulated device.
///
/// # Errors
/// When nothing of that is meant, or what is named is not there.
pub fn read(text: &str, origin: LoadOrigin) -> Result<Rc<dyn TargetKind>, CliError> {
    for reader in READERS {
        if let Some(target) = reader(text, origin)? {
            return Ok(target);
        }
    }
    Err(place::refusal(text, origin))
}

/// A target as its words name it.
pub trait TargetKind: Debug {
    /// The stack, if it is one.
    fn stack(&self) -> Option<&StackConfig> {
        None
    }

    /// Whether data that are written there stay.
    fn keeps_data(&self) -> bool {
        true
    }

    /// Finds its facts, and everything that can be known to be wrong before anything is made.
    ///
    /// # Errors
    /// When it cannot be used, or must not.
    fn resolve(&self, survey: &mut TargetSurvey<'_>) -> Result<Box<dyn ResolvedTarget>, CliError>;
}

/// A target that was looked at.
pub trait ResolvedTarget: Debug {
    /// How it is made up, where that is known before it is raised.
    fn description(&self) -> &str {
        ""
    }

    /// Facts, where they are known before it is raised.
    fn facts(&self) -> Option<&TargetFacts> {
        None
    }

    /// Everything that raising it does, a line each.
    fn intentions(&self, intent: &TargetIntent<'_>) -> Vec<String>;

    /// Makes it ready, but for the steps that it adds to the plan of the run.
    ///
    /// # Errors
    /// When something fails on the way.
    fn raise(&self, raising: &mut TargetRaising<'_>) -> Result<RaisedTarget, CliError>;
}

/// Everything a target is resolved with.
#[derive(Debug)]
pub struct TargetSurvey<'a> {
    /// Its words.
    pub(crate) given: &'a str,
    /// The workloads that are to run on it.
    pub(crate) asked: &'a [WorkloadRequest],
    /// Bytes that their data need.
    pub(crate) data_bytes: u64,
    /// Devices that may be destroyed.
    pub(crate) consent: &'a DestroyConsent,
    /// Machines, and where the load comes from.
    pub(crate) bench: &'a mut TargetBench,
    /// Share of a file system that is to stay free.
    pub(crate) keep_free: f64,
    /// Room that its data need, to be added to.
    pub(crate) space: &'a mut SpaceRequirements,
}

/// A target in a dry run.
#[derive(Debug)]
pub struct TargetIntent<'a> {
    /// Its words.
    pub(crate) given: &'a str,
    /// Whether the same target is there already, as the base of this control.
    pub(crate) is_control: bool,
    /// The arm's own directory, with the nodes on which there is one.
    pub(crate) directory: &'a str,
    /// Behind the name of what is made on each node; empty where it is made here.
    pub(crate) on_each_node: &'a str,
    /// Bytes that are written, in words.
    pub(crate) needed: &'a str,
}

impl TargetIntent<'_> {
    /// The line of a directory of the arm's own.
    pub(crate) fn make_directory(&self) -> String {
        let (given, directory) = (self.given.trim_end_matches('/'), self.directory);
        self.make(&format!("{given}/{directory}"))
    }

    /// The line of something that is made for the run.
    pub(crate) fn make(&self, path: &str) -> String {
        let (on_each, needed) = (self.on_each_node, self.needed);
        format!("make {path}{on_each} with up to {needed}, and remove it at the end")
    }

    /// The line of a device that is written to as a whole.
    pub(crate) fn overwrite(&self) -> String {
        format!("overwrite the first {} of {}", self.needed, self.given)
    }
}

/// Everything a target is raised with.
#[derive(Debug)]
pub struct TargetRaising<'a> {
    /// Its words.
    pub(crate) given: &'a str,
    /// The arm that it is raised for.
    pub(crate) arm: &'a str,
    /// Name of the arm's own directory.
    pub(crate) directory: String,
    /// Another one for each arm of the run: two may be the same stack.
    pub(crate) mark: String,
    /// The run.
    pub(crate) request: &'a RaiseRequest<'a>,
    /// Machines, and everything that has to be undone.
    pub(crate) bench: &'a mut TargetBench,
    /// Steps that are carried out for all arms together.
    pub(crate) plan: &'a mut Plan,
}

impl TargetRaising<'_> {
    /// Adds a step, unless the plan has it: the base and its control share a target.
    pub(crate) fn make_once(&mut self, step: PlanStep) {
        if !self.plan.steps.contains(&step) {
            self.plan.steps.push(step);
        }
    }
}

impl TargetSurvey<'_> {
    /// Adds the room that the data of the workloads needs in a place with `free_bytes` free bytes.
    pub(crate) fn need(&mut self, place: &str, free_bytes: u64) {
        self.space.need(place, self.data_bytes, free_bytes);
    }

    /// The same in a file system, of which a share may have to stay free.
    pub(crate) fn need_in(&mut self, place: &str, found: &TargetFacts) {
        let kept = round_u64(found.size_bytes as f64 * self.keep_free);
        self.need(place, found.free_bytes.saturating_sub(kept));
    }
}
