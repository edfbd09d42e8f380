// SPDX-License-Identifier: Apache-2.0
//! A node as a host: every question and action goes to the agent there.

use plimsoll_core::plan::{Action, Cmd, Node, Proof, Reach, Step};
use plimsoll_core::target::TargetFacts;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::channel::Broken;
use super::connect::{Connection, Uploaded};
use super::message::{Answer, Request, Secret, written};
use super::program::Program;
use crate::host::clock::{Clock, SystemClock};
use crate::host::command::{self, SearchPath};
use crate::host::error::HostError;
use crate::host::{Host, StrangerReport, Usage, files};

/// How long an action may take there. Every action has a limit of its own on the node, far below;
/// a connection that is cut is told within seconds by the command that holds it. This one is for
/// a machine that stands still.
const ACTION_LIMIT: Duration = Duration::from_secs(900);

/// How long an answer that needs no work may take.
pub(super) const QUESTION_LIMIT: Duration = Duration::from_secs(60);

/// How long the agent may take to clean up behind itself and end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Another machine.
#[derive(Debug)]
pub struct AgentHost {
    node: String,
    connection: RefCell<Connection>,
    /// Why nothing can be asked any more.
    lost: RefCell<Option<String>>,
    clock: SystemClock,
    uploaded: Option<Uploaded>,
    /// Programs that commands of these journals may name; told with their steps.
    trusted: BTreeMap<String, Vec<String>>,
}

impl AgentHost {
    /// Connects to a node, and copies `program` there when it has not got it.
    ///
    /// # Errors
    /// When it cannot be reached, does not let us in, is of another type, or cannot take the copy.
    pub fn connect(
        node: &Node,
        search: &SearchPath,
        program: &Program,
    ) -> Result<AgentHost, HostError> {
        let Reach::Agent(prefix) = &node.reach else {
            return Err(HostError::State(format!(
                "node {} is not another machine",
                node.name
            )));
        };
        let (connection, uploaded) = Connection::open(node, prefix, search, program)?;
        Ok(AgentHost {
            node: node.name.clone(),
            connection: RefCell::new(connection),
            lost: RefCell::new(None),
            clock: SystemClock::new(),
            uploaded,
            trusted: BTreeMap::new(),
        })
    }

    /// The copy that had to be made, if any.
    #[must_use]
    pub fn uploaded(&self) -> Option<Uploaded> {
        self.uploaded
    }

    /// Looks whether the agent answers.
    ///
    /// # Errors
    /// When it does not. Then it never will again: connect anew.
    pub fn check(&self) -> Result<(), HostError> {
        self.ask(&Request::Ping, QUESTION_LIMIT).map(|_| ())
    }

    /// Does something with the connection, unless it is lost. When it breaks it is lost.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Broken>,
    ) -> Result<T, HostError> {
        let mut connection = self.connection.borrow_mut();
        let gone = |why: &str| HostError::OnNode {
            node: self.node.clone(),
            what: format!(
                "the connection was lost ({why}); what was begun there stands in a journal on both \
                 sides: plimsoll raze"
            ),
        };
        if let Some(why) = &*self.lost.borrow() {
            return Err(gone(why));
        }
        work(&mut connection).map_err(|broken| {
            let why = broken.to_string();
            let error = gone(&why);
            self.lost.replace(Some(why));
            command::end_group(&mut connection.child, &self.clock);
            error
        })
    }

    /// Why the connection is lost, if it is.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        self.lost.borrow().clone()
    }

    pub(super) fn ask(&self, request: &Request, limit: Duration) -> Result<Answer, HostError> {
        match self.with(|connection| connection.ask(request, limit))? {
            Answer::Failed(what) => Err(HostError::OnNode {
                node: self.node.clone(),
                what,
            }),
            Answer::Ended {
                command,
                status,
                output,
            } => Err(HostError::Failed {
                command: format!("on node {}: {command}", self.node),
                status,
                output,
            }),
            answer => Ok(answer),
        }
    }

    fn act(&self, request: &Request, action: &Action) -> Result<(), HostError> {
        // What moves whole disks says how long it may take.
        let limit = match action {
            Action::Run(cmd) | Action::RunIf { run: cmd, .. } => cmd.limit_s,
            _ => 0,
        };
        let limit = ACTION_LIMIT + Duration::from_secs(limit.into());
        match self.ask(request, limit)? {
            Answer::Done => Ok(()),
            other => Err(self.unfitting(&other)),
        }
    }

    pub(super) fn unfitting(&self, answer: &Answer) -> HostError {
        HostError::OnNode {
            node: self.node.clone(),
            what: format!("the agent answered something else than asked: {answer:?}"),
        }
    }

    fn path(&self, request: &Request) -> Option<PathBuf> {
        match self.ask(request, QUESTION_LIMIT) {
            Ok(Answer::Path(path)) => path.map(Into::into),
            _ => None,
        }
    }

    fn facts(&self, request: &Request) -> Result<TargetFacts, HostError> {
        match self.ask(request, QUESTION_LIMIT)? {
            Answer::Target(facts) => Ok(*facts),
            other => Err(self.unfitting(&other)),
        }
    }

    fn is(&self, request: &Request) -> bool {
        matches!(self.ask(request, QUESTION_LIMIT), Ok(Answer::Is(true)))
    }
}

impl Drop for AgentHost {
    /// Lets the agent end and clean up. When it cannot be reached it does so by itself.
    fn drop(&mut self) {
        let mut connection = self.connection.borrow_mut();
        if self.lost.borrow().is_none()
            && let Some(mut channel) = connection.channel.take()
        {
            let _ = channel.send(&written(&Request::Bye), END_LIMIT);
        }
        // Without its streams it ends; one that does not is ended.
        connection.channel = None;
        if !matches!(
            command::wait(&mut connection.child, END_LIMIT, &self.clock),
            Ok(Some(_))
        ) {
            command::end_group(&mut connection.child, &self.clock);
        }
    }
}

/// What cannot fail in the trait answers "no" when the connection is lost; whoever needs to tell
/// the two apart looks with [`AgentHost::check`] first, as [`super::super::Nodes`] does.
impl Host for AgentHost {
    fn carry_out(&mut self, id: &str, action: &Action) -> Result<(), HostError> {
        let request = Request::CarryOut {
            id: id.into(),
            action: Box::new(action.clone()),
        };
        self.act(&request, action)
    }

    fn apply(&mut self, id: &str, step: &Step) -> Result<(), HostError> {
        let text = match &step.apply {
            Action::CopySecret { from, .. } => Some(files::read_ours(Path::new(from), id)?),
            _ => None,
        };
        let request = Request::Apply {
            id: id.into(),
            step: Box::new(step.clone()),
            text: text.map(Secret),
            programs: self.trusted.get(id).cloned().unwrap_or_default(),
        };
        self.act(&request, &step.apply)
    }

    fn undo(&mut self, id: &str, action: &Action) -> Result<(), HostError> {
        let request = Request::Undo {
            id: id.into(),
            action: Box::new(action.clone()),
        };
        self.act(&request, action)
    }

    fn trust_programs(&mut self, id: &str, programs: &[String]) {
        self.trusted.insert(id.into(), programs.to_vec());
    }

    fn marked(&self, mark: &str) -> Vec<u32> {
        match self.ask(&Request::Marked(mark.into()), QUESTION_LIMIT) {
            Ok(Answer::Processes(found)) => found,
            _ => Vec::new(),
        }
    }

    fn find_program(&self, name: &str) -> Option<PathBuf> {
        self.path(&Request::FindProgram(name.into()))
    }

    fn find_qemu_module(&self, name: &str) -> Option<PathBuf> {
        self.path(&Request::FindQemuModule(name.into()))
    }

    fn exists(&self, path: &Path) -> bool {
        self.is(&Request::Exists(path.to_string_lossy().into_owned()))
    }

    fn knows_file_system(&self, name: &str) -> bool {
        self.is(&Request::KnowsFileSystem(name.into()))
    }

    fn is_root(&self) -> bool {
        self.is(&Request::IsRoot)
    }

    fn target(&self, dir: &Path) -> Result<TargetFacts, HostError> {
        self.facts(&Request::Target(dir.to_string_lossy().into_owned()))
    }

    fn export(&self, address: &str) -> Result<TargetFacts, HostError> {
        self.facts(&Request::Export(address.into()))
    }

    fn free_ports(&self, from: u16, count: u16) -> Result<u16, HostError> {
        match self.ask(&Request::FreePorts { from, count }, QUESTION_LIMIT)? {
            Answer::Port(port) => Ok(port),
            other => Err(self.unfitting(&other)),
        }
    }

    fn usage(&self, mark: &str) -> Usage {
        match self.ask(&Request::Usage(mark.into()), QUESTION_LIMIT) {
            Ok(Answer::Usage(usage)) => usage,
            _ => Usage::default(),
        }
    }

    fn flushes(&self, dir: &Path) -> Option<u64> {
        let request = Request::Flushes(dir.to_string_lossy().into_owned());
        match self.ask(&request, QUESTION_LIMIT) {
            Ok(Answer::Count(count)) => count,
            _ => None,
        }
    }

    fn answer(&self, id: &str, cmd: &Cmd) -> Result<String, HostError> {
        let request = Request::Look {
            id: id.into(),
            cmd: cmd.clone(),
        };
        match self.ask(&request, ACTION_LIMIT)? {
            Answer::Said(text) => Ok(text),
            other => Err(self.unfitting(&other)),
        }
    }

    fn find_text(&self, dirs: &[String], texts: &[String]) -> Result<Option<String>, HostError> {
        let request = Request::FindText {
            dirs: dirs.to_vec(),
            texts: texts.to_vec(),
        };
        match self.ask(&request, ACTION_LIMIT)? {
            Answer::Place(place) => Ok(place),
            other => Err(self.unfitting(&other)),
        }
    }

    fn strange(&self, closed: &Proof) -> Result<StrangerReport, HostError> {
        let request = Request::Strange(Box::new(closed.clone()));
        match self.ask(&request, ACTION_LIMIT)? {
            Answer::Stranger(report) => Ok(report),
            other => Err(self.unfitting(&other)),
        }
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }
}
