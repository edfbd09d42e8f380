// SPDX-License-Identifier: Apache-2.0
//! Hosts: what carries out an [`PlanAction`]. This machine, others through [`agent`].
//!
//! Invariants: this is the only module that starts processes, ends them or pauses. Every process
//! carries our mark in its environment, so it is found again without any note of its number.
//! Undoing actions succeed when there is nothing to undo. What lacks our mark (a mark file in a
//! directory, a twin beside a file) is never removed.
//! The actions and their order are not decided here.

mod acl;
pub mod agent;
mod allowed;
pub mod carry;
mod clock;
mod command;
pub mod counters;
mod dirs;
pub mod disks;
pub mod echo;
pub(crate) mod environ;
mod error;
pub mod facts;
mod files;
mod fuse;
pub mod group_limits;
mod local;
pub mod loops;
pub mod lustre;
mod malformed;
pub mod medium;
pub(crate) mod memory_group;
pub mod mounts;
pub mod network;
mod nodes;
mod orders;
pub(crate) mod places;
pub mod ports;
pub mod processes;
mod remote;
pub mod removal;
mod search;
mod stranger;
mod tgt;
mod timed;
pub(crate) mod tracing;
mod usage;
pub mod watchdog;

pub use allowed::SWITCH;
pub use clock::{HostTimeSource, SystemClock, rfc3339};
pub use command::SearchPath;
pub use dirs::{file_system_of, journal_of};
pub use error::{HostError, remedy_of};
pub use local::LocalHost;
pub use local::lines::{HostLine, HostLineEnd, HostLineJob};
pub use nodes::{HostPool, HostResolver};
pub use places::{PlaceError, check_way};
pub(crate) use processes::all as all_processes;
pub(crate) use processes::is_awaited;
pub(crate) use processes::is_ended;
pub use processes::{HostProcessId, helper_mark, is_alive};
pub use removal::MadeDir;
pub use stranger::StrangerReport;
pub use timed::{HostTimedJob, HostTimedResult};
pub use usage::{DeviceFlushCount, HostProcessUsage};

use plimsoll_core::plan::{PlanAction, PlanCommand, PlanStep, StackSelfTest};
use plimsoll_core::target::TargetFacts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Variable that carries the mark of a process we started.
pub const MARK_VARIABLE: &str = "PLIMSOLL_MARK";

/// Variable that names the state directory of a process, beside its mark: a process whose journal was lost is
/// then known to belong to that directory and to no other.
pub const STATE_VARIABLE: &str = "PLIMSOLL_MARK_OF";

/// Variable that lets an agent join a run; what we start otherwise does not inherit it.
pub const TICKET_VARIABLE: &str = "PLIMSOLL_FLEET_TICKET";

/// Name of the file that says a directory is ours; it holds the identifier of the journal.
pub const MARK_FILE: &str = ".plimsoll";

/// Mark of the commands (not daemons) that belong to the journal `id`. Undoing begins by ending
/// these, so that a command that outlived its starter cannot do its work after the undoing.
pub fn command_mark(id: &str) -> String {
    format!("plimsoll-{id}-command")
}

/// Carries out actions on one machine.
pub trait Host {
    /// Carries out one action on behalf of the journal `id`. Blocks until it is done.
    ///
    /// # Errors
    /// When it could not be done, with the object and what to do about it.
    fn carry_out(&mut self, id: &str, action: &PlanAction) -> Result<(), HostError>;

    /// Carries out a step that its journal holds already. A host with a journal of its own also notes it
    /// there before it begins.
    ///
    /// # Errors
    /// As [`Host::carry_out`].
    fn apply(&mut self, id: &str, step: &PlanStep) -> Result<(), HostError> {
        self.carry_out(id, &step.apply)
    }

    /// Undoes: carries the action out, and a host with a journal of its own marks as undone the steps that
    /// are undone by it.
    ///
    /// # Errors
    /// As [`Host::carry_out`].
    fn undo(&mut self, id: &str, action: &PlanAction) -> Result<(), HostError> {
        self.carry_out(id, action)
    }

    /// Lets commands of the journal `id` name these programs too, for as long as this lives.
    fn trust_programs(&mut self, id: &str, programs: &[String]);

    /// Numbers of the living processes that carry exactly this mark.
    fn marked(&self, mark: &str) -> Vec<u32>;

    /// The use so far of the processes that carry exactly this mark.
    fn usage(&self, mark: &str) -> HostProcessUsage;

    /// Bytes moved to and from each object storage target of the Lustre file system of this name since
    /// it was mounted, by the targets' names. For this machine only: others report nothing.
    fn moved_by_targets(&self, _file_system: &str) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// How often the disk below a directory was flushed, where the kernel
    /// counts that.
    fn flushes(&self, dir: &Path) -> Option<DeviceFlushCount>;

    /// The first place below these directories where one of these texts stands, in words.
    ///
    /// # Errors
    /// When not everything could be looked at.
    fn find_text(&self, dirs: &[String], texts: &[String]) -> Result<Option<String>, HostError>;

    /// The gains of another user of the machine against the promise of [`StackSelfTest::Closed`];
    /// none against another self-test.
    ///
    /// # Errors
    /// When it cannot be tried.
    fn strange(&self, closed: &StackSelfTest) -> Result<StrangerReport, HostError>;

    /// The output of a command that looks at something and ends soon.
    ///
    /// # Errors
    /// When it may not be run, or does not end with 0.
    fn answer(&self, id: &str, cmd: &PlanCommand) -> Result<String, HostError>;

    /// Where a program is, if it is installed.
    fn find_program(&self, name: &str) -> Option<PathBuf>;

    /// Where a module of qemu is, if it is installed: qemu loads it when it needs it.
    fn find_qemu_module(&self, name: &str) -> Option<PathBuf>;

    /// Whether a file exists.
    fn exists(&self, path: &Path) -> bool;

    /// Whether the kernel can mount file systems of this type: it has it, or a module that brings it.
    fn knows_file_system(&self, name: &str) -> bool;

    /// Whether the kernel has RAID arrays of its own (md), or a module that brings them. Asked of this
    /// machine alone: other machines have none of their own disks joined.
    fn knows_md(&self) -> bool {
        false
    }

    /// How many files a process that is started may have open, where that is limited. Asked of this
    /// machine alone: what others start has the limits of their own.
    fn open_files(&self) -> Option<u64> {
        None
    }

    /// Whether actions are carried out as root.
    fn is_root(&self) -> bool;

    /// Facts about the file system below a directory; of what does not exist yet, those of the
    /// nearest directory above it.
    ///
    /// # Errors
    /// When it cannot be looked at.
    fn target(&self, dir: &Path) -> Result<TargetFacts, HostError>;

    /// Facts about an export (`nfs://host/path`) as it is seen from there.
    ///
    /// # Errors
    /// When it cannot be used from there.
    fn export(&self, address: &str) -> Result<TargetFacts, HostError> {
        crate::host::facts::export(address)
    }

    /// The first of `count` TCP ports in a row, from `from` on, that have no listener.
    ///
    /// # Errors
    /// When there are none.
    fn free_ports(&self, from: u16, count: u16) -> Result<u16, HostError>;

    /// Its clock.
    fn clock(&self) -> &dyn HostTimeSource;
}
