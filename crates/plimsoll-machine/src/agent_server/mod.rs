// SPDX-License-Identifier: Apache-2.0
//! The agent: carries out requests on its machine, and keeps a journal of it there.
//!
//! The journal is locked only while an action is carried out. So a second agent of the same
//! controller, which lost the connection to the first, can undo as soon as the first has finished
//! the action it was at, which ending that action's commands sees to.

mod player;

use plimsoll_core::format::FormatVersion;
use plimsoll_core::plan::{HERE, PlanAction, PlanStep};
use plimsoll_core::target::TargetFacts;
use rustix::fs::{AtFlags, Dir, FileType, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use player::attend;
pub use player::{AgentTaskContext, AgentTaskRunner, AgentTaskThread};

use crate::host::HostError;
use crate::host::agent::channel::{AgentChannel, AgentChannelError};
use crate::host::agent::message::{AgentRequest, AgentResponse, AgentSecret, PROTOCOL, written};
use crate::host::agent::{AgentStream, COPY_DIR, COPY_MARK, MADE_FILE, READY_LINE};
use crate::host::rfc3339;
use crate::host::{Host, HostProcessId, MARK_FILE, command_mark, places};
use crate::journal::{Journal, JournalError, JournalHeader, JournalScope, StateDir};

/// How long an agent waits for a request. A controller that measures for longer connects anew; one
/// whose connection is dead without either machine having noticed is gone by then.
const IDLE_LIMIT: Duration = Duration::from_secs(600);

/// How long an answer may take to be taken.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// How long an agent waits for another one of the same journal to finish the action it is at.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// Serves one connection until it ends, then removes the copy of the program if nothing is left
/// that may have to be undone.
///
/// # Errors
/// When what came is not from a plimsoll.
pub fn serve(
    host: &mut dyn Host,
    player: &Arc<dyn AgentTaskRunner>,
    state: &StateDir,
    build: &str,
    (input, output): (impl AsFd + fmt::Debug + Send, impl AsFd + fmt::Debug + Send),
    stop: &AtomicBool,
) -> Result<(), String> {
    let mut channel = AgentChannel::new(input, output);
    let with = (player, state, build);
    let ended = serve_channel(&mut channel, host, with, IDLE_LIMIT, stop);
    forget_copy(state);
    ended
}

/// Serves the requests on this channel until it ends, or until none comes within `idle_limit`.
///
/// # Errors
/// When what came is not from a plimsoll.
pub fn serve_channel(
    channel: &mut AgentChannel<impl AgentStream>,
    host: &mut dyn Host,
    (player, state, build): (&Arc<dyn AgentTaskRunner>, &StateDir, &str),
    idle_limit: Duration,
    stop: &AtomicBool,
) -> Result<(), String> {
    let ended = answer_all(channel, host, (player, state, build), idle_limit, stop);
    match ended {
        AgentChannelError::Closed | AgentChannelError::Stopped | AgentChannelError::TimedOut(_) => {
            Ok(())
        }
        other => Err(other.to_string()),
    }
}

/// Answers until the connection ends; gives why it did.
fn answer_all(
    channel: &mut AgentChannel<impl AgentStream>,
    host: &mut dyn Host,
    (player, state, build): (&Arc<dyn AgentTaskRunner>, &StateDir, &str),
    idle_limit: Duration,
    stop: &AtomicBool,
) -> AgentChannelError {
    let ready = format!("\n{READY_LINE}\n");
    if let Err(broken) = channel.send_bytes(ready.as_bytes(), ANSWER_LIMIT) {
        return broken;
    }
    let mut greeted = false;
    loop {
        let message = match channel.receive(idle_limit, Some(stop)) {
            Ok(message) => message,
            Err(broken) => return broken,
        };
        let answer = match AgentRequest::read(&message) {
            Ok(AgentRequest::Bye) => return AgentChannelError::Closed,
            Ok(AgentRequest::Hello { .. }) => {
                greeted = true;
                AgentResponse::Hello {
                    protocol: PROTOCOL,
                    build: build.into(),
                }
            }
            Ok(_) if !greeted => AgentResponse::Failed("protocol error: expected Hello".into()),
            Ok(AgentRequest::Begin(task)) => match attend(channel, player, *task, stop) {
                Ok(()) => continue,
                Err(broken) => return broken,
            },
            // The task ended by itself before it was stopped.
            Ok(AgentRequest::Start(_) | AgentRequest::Halt) => continue,
            Ok(AgentRequest::Clock) => AgentResponse::Clock(player.now()),
            Ok(request) => answer(request, host, state),
            Err(error) => return AgentChannelError::Io(io::Error::other(error)),
        };
        if let Err(broken) = channel.send(&written(&answer), ANSWER_LIMIT) {
            return broken;
        }
    }
}

fn answer(request: AgentRequest, host: &mut dyn Host, state: &StateDir) -> AgentResponse {
    let path = |path: Option<PathBuf>| {
        AgentResponse::Path(path.map(|path| path.to_string_lossy().into_owned()))
    };
    match request {
        AgentRequest::Apply {
            id,
            step,
            text,
            programs,
        } => done(apply(host, state, &id, (&step, text), &programs)),
        AgentRequest::Undo { id, action } => done(undo(host, state, &id, &action)),
        AgentRequest::CarryOut { id, action } => {
            done(check_id(&id).and_then(|()| Ok(host.carry_out(&id, &action)?)))
        }
        AgentRequest::Marked(mark) => AgentResponse::Processes(host.marked(&mark)),
        AgentRequest::FindProgram(name) => path(host.find_program(&name)),
        AgentRequest::FindQemuModule(name) => path(host.find_qemu_module(&name)),
        AgentRequest::Exists(path) => AgentResponse::Is(host.exists(Path::new(&path))),
        AgentRequest::KnowsFileSystem(name) => AgentResponse::Is(host.knows_file_system(&name)),
        AgentRequest::IsRoot => AgentResponse::Is(host.is_root()),
        AgentRequest::Target(dir) => target(host.target(Path::new(&dir))),
        AgentRequest::Export(address) => target(host.export(&address)),
        AgentRequest::FreePorts { from, count } => match host.free_ports(from, count) {
            Ok(port) => AgentResponse::Port(port),
            Err(error) => AgentResponse::Failed(error.to_string()),
        },
        AgentRequest::Usage(mark) => AgentResponse::Usage(host.usage(&mark)),
        AgentRequest::Flushes(dir) => AgentResponse::Flushes(host.flushes(Path::new(&dir))),
        AgentRequest::Look { id, cmd } => match host.answer(&id, &cmd) {
            Ok(text) => AgentResponse::Said(text),
            Err(error) => AgentResponse::Failed(error.to_string()),
        },
        AgentRequest::FindText { dirs, texts } => match host.find_text(&dirs, &texts) {
            Ok(place) => AgentResponse::Place(place),
            Err(error) => AgentResponse::Failed(error.to_string()),
        },
        AgentRequest::Strange(closed) => match host.strange(&closed) {
            Ok(report) => AgentResponse::Stranger(report),
            Err(error) => AgentResponse::Failed(error.to_string()),
        },
        AgentRequest::Machine => AgentResponse::Machine(Box::new(crate::host::facts::machine())),
        // The last ones are answered before they come here.
        AgentRequest::Ping
        | AgentRequest::Hello { .. }
        | AgentRequest::Bye
        | AgentRequest::Clock
        | AgentRequest::Begin(_)
        | AgentRequest::Start(_)
        | AgentRequest::Halt => AgentResponse::Done,
    }
}

fn target(found: Result<TargetFacts, HostError>) -> AgentResponse {
    match found {
        Ok(facts) => AgentResponse::Target(Box::new(facts)),
        Err(error) => AgentResponse::Failed(error.to_string()),
    }
}

/// Why something was not done: a failure of a command is reported as such to who waited for it.
#[derive(Debug)]
struct AgentServeError(AgentResponse);

impl From<HostError> for AgentServeError {
    fn from(error: HostError) -> AgentServeError {
        AgentServeError(match error {
            HostError::Failed {
                command,
                status,
                output,
            } => AgentResponse::Ended {
                command,
                status,
                output,
            },
            other => AgentResponse::Failed(other.to_string()),
        })
    }
}

impl From<JournalError> for AgentServeError {
    fn from(error: JournalError) -> AgentServeError {
        AgentServeError(AgentResponse::Failed(error.to_string()))
    }
}

fn done(result: Result<(), AgentServeError>) -> AgentResponse {
    result.map_or_else(|fault| fault.0, |()| AgentResponse::Done)
}

/// The identifier becomes a part of a file name.
fn check_id(id: &str) -> Result<(), AgentServeError> {
    let is_safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !id.is_empty() && id.len() <= 100 && id.chars().all(is_safe) {
        return Ok(());
    }
    let text = format!("invalid identifier of a journal: '{id}'");
    Err(AgentServeError(AgentResponse::Failed(text)))
}

fn journal_path(state: &StateDir, id: &str) -> PathBuf {
    let kind = JournalScope::Part(id.into());
    state.journals().join(kind.file_name())
}

/// The journal, if there is one; what it trusts is trusted.
fn resume(
    host: &mut dyn Host,
    state: &StateDir,
    id: &str,
) -> Result<Option<Journal>, AgentServeError> {
    match Journal::resume(&journal_path(state, id), host.clock(), LOCK_PATIENCE) {
        Err(error) if error.is_absent() => Ok(None),
        other => {
            let journal = other?;
            host.trust_programs(id, &journal.record().programs);
            Ok(Some(journal))
        }
    }
}

fn begin(host: &dyn Host, state: &StateDir, id: &str) -> Result<Journal, JournalError> {
    let header = JournalHeader {
        format: FormatVersion::JOURNAL,
        id: id.into(),
        kind: JournalScope::Part(id.into()),
        owner: HostProcessId::this(),
        began_at: rfc3339(host.clock().unix_seconds()),
        mount_dir: None,
        ask: None,
        nodes: Vec::new(),
    };
    Journal::create(state, header)
}

fn apply(
    host: &mut dyn Host,
    state: &StateDir,
    id: &str,
    (step, text): (&PlanStep, Option<AgentSecret>),
    programs: &[String],
) -> Result<(), AgentServeError> {
    check_id(id)?;
    let mut journal = match resume(host, state, id)? {
        Some(journal) => journal,
        None => begin(host, state, id)?,
    };
    if !programs.is_empty() && journal.record().programs != programs {
        journal.trust(programs)?;
        host.trust_programs(id, programs);
    }
    // For the machine that carries it out, a step is always here.
    let step = PlanStep {
        node: HERE.into(),
        ..step.clone()
    };
    let n = journal.intend(&step)?;
    match (&step.apply, text) {
        // The journal has the step, which does not say what the file does.
        (PlanAction::CopySecret { to, .. }, Some(AgentSecret(text))) => {
            let (path, secret) = (to.clone(), None);
            host.carry_out(id, &PlanAction::WriteFile { path, text, secret })?;
        }
        (action, _) => host.carry_out(id, action)?,
    }
    Ok(journal.done(n)?)
}

fn undo(
    host: &mut dyn Host,
    state: &StateDir,
    id: &str,
    action: &PlanAction,
) -> Result<(), AgentServeError> {
    check_id(id)?;
    let ends_commands = matches!(action, PlanAction::Stop { mark } if *mark == command_mark(id));
    if ends_commands {
        // Before the lock is asked for: they may be what its holder waits for.
        host.carry_out(id, action)?;
    }
    let journal = resume(host, state, id)?;
    if !ends_commands {
        host.carry_out(id, action)?;
    }
    let Some(mut journal) = journal else {
        return Ok(());
    };
    let entries = journal.record().entries.iter().enumerate();
    let undone: Vec<usize> = entries
        .filter(|(_, entry)| {
            let step = &entry.step;
            let by = [&step.undo, &step.back].map(Option::as_ref);
            !entry.undone && by.contains(&Some(action))
        })
        .map(|(n, _)| n)
        .collect();
    for n in undone {
        // Not noted (a full disk) means only that it is undone once more.
        let _ = journal.undone(n);
    }
    if journal.record().to_undo().is_empty() {
        journal.remove()?;
    }
    Ok(())
}

/// The copy of the program in a node's directory, while no journal may need it there.
struct AgentProgramCopy {
    path: PathBuf,
    held: OwnedFd,
    /// Files that we put there.
    ours: Vec<OsString>,
    /// Whether there is anything else.
    is_shared: bool,
}

impl AgentProgramCopy {
    /// Looks for it: a directory that is ours alone and carries the mark of copies.
    fn find(state: &StateDir) -> Option<AgentProgramCopy> {
        if !state.journal_files().ok()?.is_empty() {
            return None;
        }
        let path = state.path().join(COPY_DIR);
        let held = places::hold(&path).ok()??;
        let mut copied = AgentProgramCopy {
            ours: Vec::new(),
            is_shared: false,
            path,
            held,
        };
        let mut is_marked = false;
        for entry in Dir::read_from(&copied.held).ok()? {
            let name = OsStr::from_bytes(entry.ok()?.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            let found = places::look(&copied.held, &name).ok()?;
            let is_file = places::kind(&found) == FileType::RegularFile;
            let is_mark = name == MARK_FILE;
            is_marked |= is_mark && is_file;
            if is_file && (is_mark || is_of_copy(&name)) {
                copied.ours.push(name);
            } else {
                copied.is_shared = true;
            }
        }
        let mark = copied.path.join(MARK_FILE);
        let is_ours = is_marked
            && std::fs::read_to_string(mark).is_ok_and(|text| text.trim_end() == COPY_MARK);
        // The mark goes last.
        copied.ours.sort_by_key(|name| name == MARK_FILE);
        is_ours.then_some(copied)
    }

    /// Files to remove: the mark stays while something else is there.
    fn goes(&self) -> impl Iterator<Item = &OsString> {
        let names = self.ours.iter();
        names.filter(|name| *name != MARK_FILE || !self.is_shared)
    }
}

/// Whether we give such names to what is in [`COPY_DIR`]: `plimsoll-BUILD`, with the number of a process
/// while it is copied, and [`MADE_FILE`].
fn is_of_copy(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let copy = name.strip_prefix("plimsoll-").map(|build| {
        let (build, process) = build.split_once('.').unwrap_or((build, "0"));
        let is_build = !build.is_empty() && build.chars().all(|c| c.is_ascii_hexdigit());
        is_build && !process.is_empty() && process.chars().all(|c| c.is_ascii_digit())
    });
    copy.unwrap_or(name == MADE_FILE)
}

/// Files that [`forget_copy`] would remove.
pub fn copied(state: &StateDir) -> Vec<PathBuf> {
    let Some(copied) = AgentProgramCopy::find(state) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = copied.goes().map(|name| copied.path.join(name)).collect();
    if !copied.is_shared {
        paths.push(copied.path);
    }
    paths
}

/// Removes the copy of the program from a node's directory, and that directory if it was made for
/// the copy and is empty, unless a journal is left there. Fine when there is no copy.
pub fn forget_copy(state: &StateDir) {
    let Some(copied) = AgentProgramCopy::find(state) else {
        return;
    };
    let made = copied.ours.iter().any(|name| name == MADE_FILE);
    // A file that cannot be removed does no harm, and the next removal takes it.
    for name in copied.goes() {
        let _ = unlinkat(&copied.held, name, AtFlags::empty());
    }
    // Each only if it is empty.
    let _ = std::fs::remove_dir(&copied.path);
    let _ = std::fs::remove_dir(state.journals());
    if made {
        let _ = std::fs::remove_dir(state.path());
    }
}

#[cfg(test)]
mod tests;
