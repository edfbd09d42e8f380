// SPDX-License-Identifier: Apache-2.0
//! Journals: write-ahead logs of the changes to a machine.
//!
//! Invariants: one file per undertaking, lines of JSON, only appended to; a step is in the file (synced)
//! before anything of it happens; a file appears whole with its header or not at all; a torn last line means
//! that its step did not begin. The file goes when nothing is left. How steps are done and undone is not
//! here.

mod error;
mod lock;
mod record;
mod state;

pub use error::JournalError;
pub(crate) use lock::holder;
pub use record::{JournalChange, JournalContents, JournalEntry};
pub use state::StateDir;

use plimsoll_core::format::FormatVersion;
use plimsoll_core::plan::{
    PlanNode, PlanStep, StackNodes, StackOutputs, StackRequest, file_name_of,
};
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, RenameFlags, flock, linkat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::{HostProcessId, HostTimeSource, places};
use lock::LOCK_WAIT;
use record::JournalLine;

/// The kind of an undertaking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalScope {
    /// A stack of this name, which stays when the program that raised it ends.
    Stack(String),
    /// A run of this name, which is worth nothing without the program that runs it.
    Run(String),
    /// A node's part of the undertaking with this identifier, which is another machine's.
    Part(String),
    /// The virtual machines of this machine, which stay when the program that started them ends.
    Machines,
}

impl JournalScope {
    /// Name of the journal's file; a second undertaking of the same kind and name is impossible.
    pub fn file_name(&self) -> String {
        match self {
            JournalScope::Stack(name) => format!("stack-{}.jsonl", file_name_of(name)),
            JournalScope::Run(name) => format!("run-{name}.jsonl"),
            JournalScope::Part(id) => format!("part-{id}.jsonl"),
            // All are undone in the order of their names, and what stands on machines must go first.
            JournalScope::Machines => "vm.jsonl".into(),
        }
    }
}

impl fmt::Display for JournalScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalScope::Stack(name) => write!(f, "stack '{name}'"),
            JournalScope::Run(name) => write!(f, "run '{name}'"),
            JournalScope::Part(id) => write!(f, "this node's part of '{id}'"),
            JournalScope::Machines => f.write_str("the virtual machines"),
        }
    }
}

/// First line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalHeader {
    /// [`FormatVersion::JOURNAL`] of the program that wrote it.
    pub format: FormatVersion,
    /// Identifier: in marks, in mark files, in names on the network.
    pub id: String,
    /// The kind of the undertaking.
    pub kind: JournalScope,
    /// Who does it.
    pub owner: HostProcessId,
    /// When it began, RFC 3339.
    pub began_at: String,
    /// The directory it makes available, if any.
    pub mount_dir: Option<String>,
    /// The request, when it is a stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<StackRequest>,
    /// The machines that a run works on besides this one, or the virtual machines that were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<PlanNode>,
}

impl JournalHeader {
    /// The nodes that steps may name, besides this machine.
    pub fn nodes(&self) -> &[PlanNode] {
        let of_stack = self.ask.as_ref().map(|ask| &*ask.site.servers);
        of_stack.unwrap_or(&self.nodes)
    }
}

/// A journal that is being written. Locked against other processes until it is dropped.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    record: JournalContents,
}

impl Journal {
    /// Begins a journal.
    ///
    /// # Errors
    /// [`JournalError::Exists`] when the same undertaking has one; else when it cannot be written.
    pub fn create(state: &StateDir, header: JournalHeader) -> Result<Journal, JournalError> {
        let dir = state.journals();
        let held = state.hold_made()?;
        let path = dir.join(header.kind.file_name());
        let early = state.temporary(&header.owner);
        let file = write_header(&held, &early, &header)?;
        let named = name_it(&held, &early, &path);
        if named.is_err() {
            // One that stays is removed by the next cleaning up.
            let _ = fs::remove_file(&early);
        }
        named.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => JournalError::Exists {
                kind: header.kind.clone(),
                path: path.clone(),
            },
            _ => JournalError::io("create", &path)(error),
        })?;
        rustix::fs::fsync(&held).map_err(|errno| JournalError::io("write", &dir)(errno.into()))?;
        Ok(Journal {
            file,
            path,
            record: JournalContents {
                header,
                entries: Vec::new(),
                made: None,
                standing: false,
                changing: None,
                before_change: None,
                programs: Vec::new(),
            },
        })
    }

    /// Opens a journal to undo it or to add to it.
    ///
    /// # Errors
    /// [`JournalError::InUse`] when its owner is at work, or another process undoes it or uses what
    /// it made; [`JournalError::Io`] with "not found" when it is gone; else when it cannot be read.
    pub fn open(path: &Path, clock: &dyn HostTimeSource) -> Result<Journal, JournalError> {
        let (mut file, early) = open_file(path)?;
        let owner = early.worker().pid;
        let in_use = |pid| in_use(&early, path, pid);
        let is_ours = lock::exclusive(&file, path, clock, patience(&early))
            || (lock::is_of_the_killed(path) && lock::beside_the_killed(&file))
            // Those that were killed may be gone between the two looks.
            || lock::exclusive(&file, path, clock, Duration::ZERO);
        if !is_ours {
            let holder = lock::holder(path);
            return Err(in_use(holder.or(early.at_work().then_some(owner))));
        }
        let (record, whole) = read_locked(&mut file, path)?;
        if record.at_work() {
            return Err(in_use(Some(record.worker().pid)));
        }
        Journal::at_end(file, path, record, whole)
    }

    /// Opens a journal to go on with it, whichever process began it: for a node's part of an undertaking,
    /// whose owner is on another machine and may have been connected anew. The lock is waited for.
    pub(crate) fn resume(
        path: &Path,
        clock: &dyn HostTimeSource,
        patience: Duration,
    ) -> Result<Journal, JournalError> {
        let (mut file, early) = open_file(path)?;
        if !lock::exclusive(&file, path, clock, patience) {
            return Err(JournalError::InUse {
                kind: early.header.kind,
                path: path.into(),
                pid: lock::holder(path),
            });
        }
        let (record, whole) = read_locked(&mut file, path)?;
        Journal::at_end(file, path, record, whole)
    }

    /// Goes on with a journal that this process holds, alone.
    pub fn held_alone(held: &File, path: &Path) -> Result<Journal, JournalError> {
        let mut file = held.try_clone().map_err(JournalError::io("open", path))?;
        let (record, whole) = read_locked(&mut file, path)?;
        Journal::at_end(file, path, record, whole)
    }

    /// A locked journal, its file ready for another line.
    fn at_end(
        mut file: File,
        path: &Path,
        record: JournalContents,
        whole: u64,
    ) -> Result<Journal, JournalError> {
        // The next line must not be glued to a torn one.
        file.set_len(whole)
            .map_err(JournalError::io("repair", path))?;
        file.seek(SeekFrom::End(0))
            .map_err(JournalError::io("read", path))?;
        Ok(Journal {
            file,
            path: path.into(),
            record,
        })
    }

    /// The contents so far.
    pub fn record(&self) -> &JournalContents {
        &self.record
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes a step before it is begun; gives its number.
    ///
    /// # Errors
    /// When it could not be written: then the step must not be begun.
    pub fn intend(&mut self, step: &PlanStep) -> Result<usize, JournalError> {
        self.append(JournalLine::Intend(Box::new(step.clone())))?;
        Ok(self.record.entries.len() - 1)
    }

    /// Notes that a step is done.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn done(&mut self, step: usize) -> Result<(), JournalError> {
        self.append(JournalLine::Done(step))
    }

    /// Notes that a step is undone.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn undone(&mut self, step: usize) -> Result<(), JournalError> {
        self.append(JournalLine::Undone(step))
    }

    /// Notes programs that commands of this journal may name besides those of recipes.
    ///
    /// # Errors
    /// When it could not be written.
    pub(crate) fn trust(&mut self, programs: &[String]) -> Result<(), JournalError> {
        self.append(JournalLine::Trust(programs.to_vec()))
    }

    /// Notes what the steps made.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn made(&mut self, made: &StackOutputs) -> Result<(), JournalError> {
        self.append(JournalLine::Made(Box::new(made.clone())))
    }

    /// Notes that all steps are done.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn standing(&mut self) -> Result<(), JournalError> {
        self.append(JournalLine::Standing)
    }

    /// Notes that this process begins to change what stands.
    ///
    /// # Errors
    /// When it could not be written: then the change must not be begun.
    pub fn changing(&mut self, verb: &str) -> Result<(), JournalError> {
        self.append(JournalLine::Changing(Box::new(JournalChange {
            verb: verb.into(),
            owner: HostProcessId::this(),
        })))
    }

    /// Notes the nodes from here on, before any of them is made.
    ///
    /// # Errors
    /// When it could not be written, or nothing was asked for.
    pub fn site(&mut self, site: &StackNodes) -> Result<(), JournalError> {
        self.append(JournalLine::Site(Box::new(site.clone())))
    }

    /// Notes that the steps from this number on are as if they had never been.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn forget(&mut self, from: usize) -> Result<(), JournalError> {
        self.append(JournalLine::Forget(from))
    }

    /// Notes that the change is over.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn changed(&mut self) -> Result<(), JournalError> {
        self.append(JournalLine::Changed)
    }

    /// Removes the file: nothing is left to undo.
    ///
    /// # Errors
    /// When it could not be removed.
    pub fn remove(self) -> Result<(), JournalError> {
        fs::remove_file(&self.path).map_err(JournalError::io("remove", &self.path))
    }

    fn append(&mut self, line: JournalLine) -> Result<(), JournalError> {
        write_line(&mut self.file, &line).map_err(JournalError::io("write", &self.path))?;
        self.record
            .add(line)
            .expect("steps are numbered by this journal");
        Ok(())
    }
}

/// Keeps what a finished journal made from being undone, until the file that is given back is
/// dropped or this process ends. Any number of processes may do so at the same time.
pub fn hold(path: &Path, clock: &dyn HostTimeSource) -> Result<File, JournalError> {
    let (mut file, early) = open_file(path)?;
    if !lock::shared(&file, clock, patience(&early)) {
        return Err(in_use(&early, path, lock::holder(path)));
    }
    let (record, _) = read_locked(&mut file, path)?;
    if record.standing
        && record
            .entries
            .iter()
            .all(|entry| entry.done && !entry.undone)
    {
        Ok(file)
    } else {
        let kind = record.header.kind;
        Err(JournalError::NotStanding { kind })
    }
}

/// Makes a shared hold exclusive, to keep out the processes that use the stack as it is, now or soon. When
/// this fails, the shared hold is gone as well.
pub fn hold_alone(held: &File, path: &Path) -> Result<(), JournalError> {
    if lock::alone(held) {
        return Ok(());
    }
    let (_, early) = open_file(path)?;
    Err(in_use(&early, path, lock::holder(path)))
}

/// How long it is worth waiting for the lock of a journal that said this before it was locked: who is
/// at work does not let go of it soon.
fn patience(early: &JournalContents) -> Duration {
    if early.at_work() {
        Duration::ZERO
    } else {
        LOCK_WAIT
    }
}

fn in_use(early: &JournalContents, path: &Path, pid: Option<u32>) -> JournalError {
    JournalError::InUse {
        kind: early.header.kind.clone(),
        path: path.into(),
        pid,
    }
}

/// Opens a journal's file, with what it says at this moment.
fn open_file(path: &Path) -> Result<(File, JournalContents), JournalError> {
    let mut file = open_journal(path, OFlags::RDWR)?;
    let (record, _) = JournalContents::parse(&mut file, path)?;
    Ok((file, record))
}

/// Opens the file of a journal in a directory that is ours: no link is followed, and nothing is waited
/// for that is no file.
fn open_journal(path: &Path, how: OFlags) -> Result<File, JournalError> {
    let absent = || JournalError::io("open", path)(io::ErrorKind::NotFound.into());
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(absent());
    };
    let held = places::hold(dir)?.ok_or_else(absent)?;
    let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::openat(&held, name, flags, Mode::empty()) {
        Ok(file) => Ok(file.into()),
        Err(Errno::LOOP) => Err(JournalError::Unreadable {
            path: path.into(),
            why: "is a link, and no journal of ours; look into it, then remove it".into(),
        }),
        Err(errno) => Err(JournalError::io("open", path)(errno.into())),
    }
}

/// The contents of a locked journal, which no other process changes now, and the length of its whole part.
fn read_locked(file: &mut File, path: &Path) -> Result<(JournalContents, u64), JournalError> {
    lock::check_same(file, path).map_err(JournalError::io("open", path))?;
    file.seek(SeekFrom::Start(0))
        .map_err(JournalError::io("read", path))?;
    JournalContents::parse(file, path)
}

fn write_header(dir: &OwnedFd, path: &Path, header: &JournalHeader) -> Result<File, JournalError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let name = path.file_name().unwrap_or_default();
    // Whatever the umask: a journal that others can write is not trusted, and its contents are theirs
    // neither.
    let opened = rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o600));
    let create = |errno: Errno| JournalError::io("create", path)(errno.into());
    let mut file = File::from(opened.map_err(create)?);
    write_line(&mut file, header).map_err(JournalError::io("write", path))?;
    // Locked before others can see it; no other process has this file, so the lock is free.
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|errno| JournalError::io("lock", path)(errno.into()))?;
    Ok(file)
}

/// Gives a prepared journal its name, under which it appears with its header or not at all. Nothing is
/// ever replaced.
fn name_it(dir: &OwnedFd, early: &Path, path: &Path) -> io::Result<()> {
    let [early, name] = [early, path].map(|path| path.file_name().unwrap_or_default());
    match renameat_with(dir, early, dir, name, RenameFlags::NOREPLACE) {
        // Some file systems cannot promise that; a link never replaces.
        Err(Errno::INVAL) => {
            linkat(dir, early, dir, name, AtFlags::empty())?;
            Ok(unlinkat(dir, early, AtFlags::empty())?)
        }
        other => Ok(other?),
    }
}

fn write_line(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    // One write, so that a crash tears at most this line.
    file.write_all(&bytes)?;
    file.sync_data()
}

#[cfg(test)]
mod tests;
