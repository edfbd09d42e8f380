// SPDX-License-Identifier: Apache-2.0
//! Bringing stacks up and down by name, and seeing how they are.
//!
//! Invariant: everything that can be known to be missing is said before anything is changed.

use plimsoll_core::format::FormatVersion;
use plimsoll_core::plan::{Action, Plan};
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{ALL, Facts, Options, Stack, Unmet, find};
use crate::facts;
use crate::host::{Host, HostError, Owner, rfc3339};
use crate::journal::{self, Header, Journal, JournalError, Kind, Record, StateDir};
use crate::raise::{RaiseError, Razed, list, raise, raze};

/// A stack that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Up {
    /// Its name.
    pub name: String,
    /// Identifier of its journal.
    pub id: String,
    /// The directory to measure on.
    pub mount_dir: PathBuf,
    /// What it is made of, in one line.
    pub description: String,
}

/// A stack that did not come up; the text completes "failed to bring the stack up: ".
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// There is no such stack.
    #[error("there is no stack '{name}'; there are: {}", names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// It is up.
    #[error(
        "stack '{name}' is already up at {mount_dir}; take it down with: plimsoll stack down {name}"
    )]
    AlreadyUp {
        /// Its name.
        name: String,
        /// Where.
        mount_dir: String,
    },
    /// A process is bringing it up at this moment.
    #[error("stack '{name}' is being brought up by process {pid}; wait for it or end it")]
    AtWork {
        /// Its name.
        name: String,
        /// The process.
        pid: u32,
    },
    /// A process that is gone left it half made.
    #[error("stack '{name}' was left unfinished; clean up with: plimsoll stack down {name}")]
    Unfinished {
        /// Its name.
        name: String,
    },
    /// Something is missing.
    #[error("stack '{name}' cannot be made here: {unmet}")]
    Unmet {
        /// Its name.
        name: String,
        /// What is missing.
        unmet: Unmet,
    },
    /// The base directory cannot be used.
    #[error(transparent)]
    Base(#[from] HostError),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A step failed; what was begun has been undone.
    #[error("could not {}", .0.what())]
    Raise(#[from] Box<RaiseError>),
}

/// A stack that did not go down; the text completes "failed to take the stack down: ".
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    /// It has no journal.
    #[error("stack '{name}' is not up")]
    NotUp {
        /// Its name.
        name: String,
    },
    /// Its journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// How a stack is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Whether all of it was made.
    pub standing: bool,
    /// The directory to measure on.
    pub mount_dir: Option<String>,
    /// When it was begun, RFC 3339.
    pub since: String,
    /// What is wrong with it; empty when it is healthy.
    pub problems: Vec<String>,
}

fn names() -> String {
    ALL.map(Stack::name).join(", ")
}

fn known(name: &str) -> Result<&'static dyn Stack, UpError> {
    find(name).ok_or_else(|| UpError::Unknown { name: name.into() })
}

/// The plan of a stack with the facts of this machine, with the base directory made absolute;
/// nothing is changed, and what is up already does not matter. Also the identifier in it.
///
/// # Errors
/// When there is no such stack or it cannot be made here.
pub fn plan(name: &str, options: &Options, host: &dyn Host) -> Result<(Plan, String), UpError> {
    let stack = known(name)?;
    let unmet = |unmet| UpError::Unmet {
        name: name.into(),
        unmet,
    };
    stack.needs().check(host).map_err(unmet)?;
    let id = new_id(name, host);
    let mut options = options.clone();
    options.base_dir = resolved(&options.base_dir)?;
    let target = facts::target(existing_part(&options.base_dir))?;
    let facts = Facts {
        id: id.clone(),
        free_bytes: target.free_bytes,
        direct_align_bytes: target.direct_align_bytes,
    };
    let plan = stack.plan(&options, &facts).map_err(unmet)?;
    Ok((plan, id))
}

/// An identifier nobody else has: marks are made of it, and who has the mark is ended.
fn new_id(name: &str, host: &dyn Host) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (seconds, pid) = (host.clock().unix_seconds(), std::process::id());
    // Two threads of one process may begin in the same second.
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{seconds:x}-{pid}-{number}")
}

/// The part of a path that exists: the rest will lie on the same file system.
fn existing_part(path: &Path) -> &Path {
    path.ancestors()
        .find(|part| part.exists())
        .unwrap_or(Path::new("/"))
}

/// Brings a stack up. It stays when this process ends.
///
/// # Errors
/// When it is up already, cannot be made here, or a step fails: then what was begun is undone.
pub fn up(
    name: &str,
    options: &Options,
    state: &StateDir,
    host: &mut dyn Host,
) -> Result<Up, UpError> {
    let stack = known(name)?;
    let kind = Kind::Stack(name.into());
    check_not_up(name, state)?;
    let mut options = options.clone();
    options.base_dir = resolved(&options.base_dir)?;
    let (plan, id) = plan(name, &options, host)?;
    let mount_dir = stack.mount_dir(&options);
    let header = Header {
        format: FormatVersion::JOURNAL,
        id: id.clone(),
        kind,
        owner: Owner::this(),
        began_at: rfc3339(host.clock().unix_seconds()),
        mount_dir: Some(mount_dir.display().to_string()),
    };
    let journal = match Journal::create(state, header) {
        // Somebody was faster between the look and now.
        Err(JournalError::Exists { .. }) => {
            check_not_up(name, state).and(Err(UpError::Unfinished { name: name.into() }))?
        }
        other => other?,
    };
    raise(&plan, host, journal)?;
    Ok(Up {
        name: name.into(),
        id,
        mount_dir,
        description: stack.description().into(),
    })
}

/// The base directory as an absolute path without links, which the mount table does not have
/// either. What of it does not exist is made by the first step, and goes with it.
fn resolved(base: &Path) -> Result<PathBuf, HostError> {
    let absolute = std::path::absolute(base).map_err(HostError::io("find", base))?;
    let existing = existing_part(&absolute);
    let real = existing
        .canonicalize()
        .map_err(HostError::io("look at", existing))?;
    let rest = absolute.strip_prefix(existing).unwrap_or(Path::new(""));
    if rest.components().any(|part| part == Component::ParentDir) {
        return Err(HostError::State(format!(
            "{} leads through a directory that does not exist and back; name it without '..'",
            base.display()
        )));
    }
    Ok(real.components().chain(rest.components()).collect())
}

fn journal_file(name: &str, state: &StateDir) -> PathBuf {
    state.journals().join(Kind::Stack(name.into()).file_name())
}

fn check_not_up(name: &str, state: &StateDir) -> Result<(), UpError> {
    let path = journal_file(name, state);
    if !path.exists() {
        return Ok(());
    }
    let record = Record::read(&path)?;
    Err(if record.standing {
        UpError::AlreadyUp {
            name: name.into(),
            mount_dir: record.header.mount_dir.unwrap_or_default(),
        }
    } else if record.at_work() {
        UpError::AtWork {
            name: name.into(),
            pid: record.header.owner.pid,
        }
    } else {
        UpError::Unfinished { name: name.into() }
    })
}

/// Keeps a stack that is up from being taken down or razed, by anyone, until the file that is given
/// back is dropped or this process ends, however it ends. Others may hold it at the same time.
/// Whoever holds it must drop it before [`down`].
///
/// # Errors
/// [`JournalError::NotStanding`] when it is not up; [`JournalError::InUse`] when somebody brings it
/// up or takes it down at this moment; else when its journal cannot be read.
pub fn hold(name: &str, state: &StateDir) -> Result<File, JournalError> {
    let kind = Kind::Stack(name.into());
    match journal::hold(&journal_file(name, state)) {
        Err(error) if error.is_absent() => Err(JournalError::NotStanding { kind }),
        other => other,
    }
}

/// Takes a stack down, also one that was left unfinished.
///
/// # Errors
/// When it is not up, or another process is at work on it or holds it. What could not be undone is in the result.
pub fn down(name: &str, state: &StateDir, host: &mut dyn Host) -> Result<Razed, DownError> {
    let not_up = || DownError::NotUp { name: name.into() };
    let path = journal_file(name, state);
    match Journal::open(&path, host.clock()) {
        Err(error) if error.is_absent() => Err(not_up()),
        Err(error) => Err(error.into()),
        Ok(journal) => Ok(raze(journal, host)),
    }
}

/// How the stacks are that have a journal.
///
/// # Errors
/// When the state directory cannot be read. A journal that cannot be read is not listed here but
/// in [`crate::raise::list`].
pub fn status(state: &StateDir, host: &mut dyn Host) -> io::Result<Vec<Status>> {
    let mut all = Vec::new();
    for found in list(state)? {
        let Ok(record) = found.record else { continue };
        let Kind::Stack(name) = &record.header.kind else {
            continue;
        };
        all.push(Status {
            name: name.clone(),
            standing: record.standing,
            mount_dir: record.header.mount_dir.clone(),
            since: record.header.began_at.clone(),
            problems: problems(&record, host),
        });
    }
    Ok(all)
}

/// What is wrong with a stack: parts not made, daemons gone, mounts gone.
#[must_use]
pub fn problems(record: &Record, host: &mut dyn Host) -> Vec<String> {
    let mut problems = Vec::new();
    if !record.standing {
        problems.push(if record.at_work() {
            format!("process {} is at work on it", record.header.owner.pid)
        } else {
            "it was left unfinished".into()
        });
    }
    for entry in &record.entries {
        match &entry.step.apply {
            Action::Start { cmd, mark, log, .. } if host.marked(mark).is_empty() => {
                problems.push(format!("{} has ended; see {log}", cmd.program));
            }
            look @ Action::MountIs { .. } => {
                let seen = host.carry_out(&record.header.id, look);
                problems.extend(seen.err().map(|error| error.to_string()));
            }
            Action::MakeDir(path) if !host.exists(Path::new(path)) => {
                problems.push(format!("{path} is gone"));
            }
            _ => {}
        }
    }
    problems
}

#[cfg(test)]
mod tests;
