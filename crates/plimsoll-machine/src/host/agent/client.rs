// SPDX-License-Identifier: Apache-2.0
//! A node as a host: every question and action goes to the agent there.

use plimsoll_core::plan::{
    NodeTransport, PlanAction, PlanCommand, PlanNode, PlanStep, StackSelfTest,
};
use plimsoll_core::target::TargetFacts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::channel::{AgentChannel, AgentChannelError};
use super::connect::{AgentConnection, AgentUpload};
use super::message::{AgentRequest, AgentResponse, AgentSecret, written};
use super::program::AgentProgram;
use super::stream::AgentStream;
use crate::host::clock::{HostTimeSource, SystemClock};
use crate::host::command::SearchPath;
use crate::host::error::HostError;
use crate::host::{DeviceFlushCount, Host, HostProcessUsage, StrangerReport, files};

/// How long an action may take there. Every action has a limit of its own on the node, far below;
/// a cut connection is reported within seconds by the command that holds it. This one is for
/// a machine that stands still.
const ACTION_LIMIT: Duration = Duration::from_secs(900);

/// How long an answer that needs no work may take.
pub(super) const QUESTION_LIMIT: Duration = Duration::from_secs(60);

/// How long the agent may take to clean up behind itself and end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Another machine. Copies of it share its connection.
#[derive(Debug, Clone)]
pub struct AgentHost {
    node: String,
    link: Arc<Mutex<AgentLink>>,
    clock: SystemClock,
    uploaded: Option<AgentUpload>,
    /// Programs that commands of these journals may name; sent with their steps.
    trusted: BTreeMap<String, Vec<String>>,
}

/// The connection that all copies of a host share.
#[derive(Debug)]
struct AgentLink {
    connection: AgentConnection,
    /// Why nothing can be asked any more.
    lost: Option<String>,
}

impl AgentHost {
    /// Connects to a node, and copies `program` there when it has not got it.
    ///
    /// # Errors
    /// When it cannot be reached, does not let us in, is of another type, or cannot take the copy.
    pub fn connect(
        node: &PlanNode,
        search: &SearchPath,
        program: &AgentProgram,
    ) -> Result<AgentHost, HostError> {
        let NodeTransport::Agent(prefix) = &node.reach else {
            return Err(HostError::State(format!(
                "node {} is not another machine",
                node.name
            )));
        };
        let (connection, uploaded) = AgentConnection::open(node, prefix, search, program)?;
        Ok(AgentHost::of(&node.name, connection, uploaded))
    }

    /// An agent of this build that connected to us.
    ///
    /// # Errors
    /// When it does not greet as ours do, or is of another build.
    pub fn over(
        node: &str,
        stream: Box<dyn AgentStream>,
        build: &str,
    ) -> Result<AgentHost, HostError> {
        let connection = AgentConnection::over(node, stream, build)?;
        Ok(AgentHost::of(node, connection, None))
    }

    fn of(node: &str, connection: AgentConnection, uploaded: Option<AgentUpload>) -> AgentHost {
        AgentHost {
            node: node.into(),
            link: Arc::new(Mutex::new(AgentLink {
                connection,
                lost: None,
            })),
            clock: SystemClock::new(),
            uploaded,
            trusted: BTreeMap::new(),
        }
    }

    fn link(&self) -> MutexGuard<'_, AgentLink> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets it go, for all copies: it cleans up behind itself and ends.
    pub fn leave(&self) {
        let mut link = self.link();
        link.say_bye();
        link.connection.close(END_LIMIT);
        link.lost.get_or_insert_with(|| "it was let go".into());
    }

    /// Waits until one of these has something to say, or cannot any more; gives which ones.
    pub fn await_any(agents: &[&AgentHost], limit: Duration) -> Vec<bool> {
        let links: Vec<_> = agents.iter().map(|agent| agent.link()).collect();
        let mut ready = vec![true; links.len()];
        let mut waiting = Vec::new();
        for (n, link) in links.iter().enumerate() {
            let channel = link.connection.channel.as_ref();
            if let Some(on) = channel.and_then(AgentChannel::waits_on) {
                ready[n] = false;
                waiting.push((n, PollFd::from_borrowed_fd(on, PollFlags::IN)));
            }
        }
        let has_some = waiting.len() < links.len();
        let limit = if has_some { Duration::ZERO } else { limit };
        let mut polled: Vec<_> = waiting.iter().map(|(_, on)| on.clone()).collect();
        // A signal also ends the wait: the caller looks around and waits again.
        let _ = poll(&mut polled, Timespec::try_from(limit).ok().as_ref());
        for ((n, _), on) in waiting.iter().zip(&polled) {
            ready[*n] = !on.revents().is_empty();
        }
        ready
    }

    /// The copy that had to be made, if any.
    pub fn uploaded(&self) -> Option<AgentUpload> {
        self.uploaded
    }

    /// Looks whether the agent answers.
    ///
    /// # Errors
    /// When it does not. Then it never will again: connect anew.
    pub fn check(&self) -> Result<(), HostError> {
        self.ask(&AgentRequest::Ping, QUESTION_LIMIT).map(|_| ())
    }

    /// Does something with the connection, unless it is lost. When it breaks it is lost.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&mut AgentConnection) -> Result<T, AgentChannelError>,
    ) -> Result<T, HostError> {
        let mut link = self.link();
        let gone = |why: &str| HostError::OnNode {
            node: self.node.clone(),
            what: format!(
                "the connection was lost ({why}); undo what was begun there with: plimsoll raze"
            ),
        };
        if let Some(why) = &link.lost {
            return Err(gone(why));
        }
        work(&mut link.connection).map_err(|broken| {
            let why = broken.to_string();
            let error = gone(&why);
            link.lost = Some(why);
            link.connection.close(Duration::ZERO);
            error
        })
    }

    /// Why the connection is lost, if it is.
    pub fn lost(&self) -> Option<String> {
        self.link().lost.clone()
    }

    pub(super) fn ask(
        &self,
        request: &AgentRequest,
        limit: Duration,
    ) -> Result<AgentResponse, HostError> {
        match self.with(|connection| connection.ask(request, limit))? {
            AgentResponse::Failed(what) => Err(HostError::OnNode {
                node: self.node.clone(),
                what,
            }),
            AgentResponse::Ended {
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

    fn act(&self, request: &AgentRequest, action: &PlanAction) -> Result<(), HostError> {
        // An action that moves whole disks names its own limit.
        let limit = match action {
            PlanAction::Run(cmd)
            | PlanAction::RunIf { run: cmd, .. }
            | PlanAction::RunUnless { run: cmd, .. } => cmd.limit_s,
            _ => 0,
        };
        let limit = ACTION_LIMIT + Duration::from_secs(limit.into());
        match self.ask(request, limit)? {
            AgentResponse::Done => Ok(()),
            other => Err(self.unfitting(&other)),
        }
    }

    pub(super) fn unfitting(&self, answer: &AgentResponse) -> HostError {
        HostError::OnNode {
            node: self.node.clone(),
            what: format!("protocol error: unexpected response: {answer:?}"),
        }
    }

    fn path(&self, request: &AgentRequest) -> Option<PathBuf> {
        match self.ask(request, QUESTION_LIMIT) {
            Ok(AgentResponse::Path(path)) => path.map(Into::into),
            _ => None,
        }
    }

    fn facts(&self, request: &AgentRequest) -> Result<TargetFacts, HostError> {
        match self.ask(request, QUESTION_LIMIT)? {
            AgentResponse::Target(facts) => Ok(*facts),
            other => Err(self.unfitting(&other)),
        }
    }

    fn is(&self, request: &AgentRequest) -> bool {
        matches!(
            self.ask(request, QUESTION_LIMIT),
            Ok(AgentResponse::Is(true))
        )
    }
}

impl AgentLink {
    fn say_bye(&mut self) {
        if self.lost.is_none()
            && let Some(channel) = &mut self.connection.channel
        {
            let _ = channel.send(&written(&AgentRequest::Bye), END_LIMIT);
        }
    }
}

impl Drop for AgentLink {
    /// Lets the agent end and clean up. When it cannot be reached it does so by itself.
    fn drop(&mut self) {
        self.say_bye();
        self.connection.close(END_LIMIT);
    }
}

/// Questions that cannot fail in the trait get "no" when the connection is lost. A caller that needs to
/// distinguish the two calls [`AgentHost::check`] first, as [`super::super::HostPool`] does.
impl Host for AgentHost {
    fn carry_out(&mut self, id: &str, action: &PlanAction) -> Result<(), HostError> {
        let request = AgentRequest::CarryOut {
            id: id.into(),
            action: Box::new(action.clone()),
        };
        self.act(&request, action)
    }

    fn apply(&mut self, id: &str, step: &PlanStep) -> Result<(), HostError> {
        let text = match &step.apply {
            PlanAction::CopySecret { from, .. } => Some(files::read_ours(Path::new(from))?),
            _ => None,
        };
        let request = AgentRequest::Apply {
            id: id.into(),
            step: Box::new(step.clone()),
            text: text.map(AgentSecret),
            programs: self.trusted.get(id).cloned().unwrap_or_default(),
        };
        self.act(&request, &step.apply)
    }

    fn undo(&mut self, id: &str, action: &PlanAction) -> Result<(), HostError> {
        let request = AgentRequest::Undo {
            id: id.into(),
            action: Box::new(action.clone()),
        };
        self.act(&request, action)
    }

    fn trust_programs(&mut self, id: &str, programs: &[String]) {
        self.trusted.insert(id.into(), programs.to_vec());
    }

    fn marked(&self, mark: &str) -> Vec<u32> {
        match self.ask(&AgentRequest::Marked(mark.into()), QUESTION_LIMIT) {
            Ok(AgentResponse::Processes(found)) => found,
            _ => Vec::new(),
        }
    }

    fn find_program(&self, name: &str) -> Option<PathBuf> {
        self.path(&AgentRequest::FindProgram(name.into()))
    }

    fn find_qemu_module(&self, name: &str) -> Option<PathBuf> {
        self.path(&AgentRequest::FindQemuModule(name.into()))
    }

    fn exists(&self, path: &Path) -> bool {
        self.is(&AgentRequest::Exists(path.to_string_lossy().into_owned()))
    }

    fn knows_file_system(&self, name: &str) -> bool {
        self.is(&AgentRequest::KnowsFileSystem(name.into()))
    }

    fn is_root(&self) -> bool {
        self.is(&AgentRequest::IsRoot)
    }

    fn target(&self, dir: &Path) -> Result<TargetFacts, HostError> {
        self.facts(&AgentRequest::Target(dir.to_string_lossy().into_owned()))
    }

    fn export(&self, address: &str) -> Result<TargetFacts, HostError> {
        self.facts(&AgentRequest::Export(address.into()))
    }

    fn free_ports(&self, from: u16, count: u16) -> Result<u16, HostError> {
        match self.ask(&AgentRequest::FreePorts { from, count }, QUESTION_LIMIT)? {
            AgentResponse::Port(port) => Ok(port),
            other => Err(self.unfitting(&other)),
        }
    }

    fn usage(&self, mark: &str) -> HostProcessUsage {
        match self.ask(&AgentRequest::Usage(mark.into()), QUESTION_LIMIT) {
            Ok(AgentResponse::Usage(usage)) => usage,
            _ => HostProcessUsage::default(),
        }
    }

    fn flushes(&self, dir: &Path) -> Option<DeviceFlushCount> {
        let request = AgentRequest::Flushes(dir.to_string_lossy().into_owned());
        match self.ask(&request, QUESTION_LIMIT) {
            Ok(AgentResponse::Flushes(count)) => count,
            _ => None,
        }
    }

    fn answer(&self, id: &str, cmd: &PlanCommand) -> Result<String, HostError> {
        let request = AgentRequest::Look {
            id: id.into(),
            cmd: cmd.clone(),
        };
        match self.ask(&request, ACTION_LIMIT)? {
            AgentResponse::Said(text) => Ok(text),
            other => Err(self.unfitting(&other)),
        }
    }

    fn find_text(&self, dirs: &[String], texts: &[String]) -> Result<Option<String>, HostError> {
        let request = AgentRequest::FindText {
            dirs: dirs.to_vec(),
            texts: texts.to_vec(),
        };
        match self.ask(&request, ACTION_LIMIT)? {
            AgentResponse::Place(place) => Ok(place),
            other => Err(self.unfitting(&other)),
        }
    }

    fn strange(&self, closed: &StackSelfTest) -> Result<StrangerReport, HostError> {
        let request = AgentRequest::Strange(Box::new(closed.clone()));
        match self.ask(&request, ACTION_LIMIT)? {
            AgentResponse::Stranger(report) => Ok(report),
            other => Err(self.unfitting(&other)),
        }
    }

    fn clock(&self) -> &dyn HostTimeSource {
        &self.clock
    }
}
