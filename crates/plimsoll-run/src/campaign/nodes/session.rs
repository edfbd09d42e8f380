// SPDX-License-Identifier: Apache-2.0
//! One node in one task: how far it is, and what it has reported.

use super::NodeAccount;
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_core::clock_offset::{ClockOffset, difference};
use plimsoll_core::event::{ClientLoadNodeLoss, ClientLoadNodeResult};
use plimsoll_core::event::{GeneratorStats, OpStats};
use plimsoll_core::load::{AgentEvent, AgentTask, AgentTrialResult};
use plimsoll_core::units::Nanos;
use plimsoll_engine::sys::clock::monotonic;
use plimsoll_machine::agent_server::AgentTaskThread;
use plimsoll_machine::host::HostError;
use plimsoll_machine::host::agent::AgentHost;
use std::time::Duration;

/// How long the rest of a report is waited for that has begun to come.
const LISTEN: Duration = Duration::from_millis(5);

/// How long any of several nodes is waited for.
const LISTEN_ANY: Duration = Duration::from_millis(50);

/// The same of this machine, which has no others beside it: who looks up often takes processor time from
/// the load.
const LISTEN_HERE: Duration = Duration::from_millis(100);

/// A node at work reports every five seconds; one that is silent for this long is lost.
const SILENT_MAX: Nanos = Nanos(30 * Nanos::SECOND.0);

/// How long a node may take to stop what it does: a system call that hangs is waited for.
const STOP_MAX: Nanos = Nanos(60 * Nanos::SECOND.0);

/// How far a node is.
#[derive(Debug)]
pub(super) enum NodeSessionState {
    /// At work on what precedes the measured part, or on a self-test.
    Working,
    /// Waiting for its start.
    Prepared,
    /// In the measured part.
    Playing,
    /// In it, waiting for others to come to the next phase.
    BetweenPhases,
    /// At its end, with its last report.
    Told(AgentEvent),
    /// Lost at this instant of our clock, for this reason.
    Lost(Nanos, String),
}

/// How a task and its reports get from one to the other.
#[derive(Debug)]
pub(super) enum NodeLink {
    /// Within this program.
    Here(AgentTaskThread),
    /// To an agent on another machine.
    Agent(AgentHost),
    /// To none: the node was lost before the task began.
    Gone,
}

impl NodeLink {
    fn clock_offset(&self) -> Result<ClockOffset, HostError> {
        match self {
            // There is but one clock.
            NodeLink::Here(_) => Ok(ClockOffset::default()),
            NodeLink::Agent(agent) => agent.clock_offset(monotonic),
            NodeLink::Gone => Ok(ClockOffset::default()),
        }
    }

    fn start(&self, at: Nanos) -> Result<(), HostError> {
        match self {
            NodeLink::Here(thread) => {
                thread.start(at);
                Ok(())
            }
            NodeLink::Agent(agent) => agent.start(at),
            NodeLink::Gone => Ok(()),
        }
    }

    fn halt(&self) -> Result<(), HostError> {
        match self {
            NodeLink::Here(thread) => {
                thread.halt();
                Ok(())
            }
            NodeLink::Agent(agent) => agent.halt(),
            NodeLink::Gone => Ok(()),
        }
    }

    fn told(&self) -> Result<Option<AgentEvent>, HostError> {
        match self {
            NodeLink::Here(thread) => Ok(thread.told(LISTEN_HERE)),
            NodeLink::Agent(agent) => agent.told(LISTEN),
            NodeLink::Gone => Ok(None),
        }
    }
}

/// One node in one task.
#[derive(Debug)]
pub(super) struct NodeSession<'a> {
    name: &'a str,
    link: NodeLink,
    pub(super) state: NodeSessionState,
    clock: ClockOffset,
    /// How long it took to lay everything out.
    prepared: Nanos,
    /// When it was heard of last.
    heard_at: Nanos,
    /// Sum of its seconds: all that is known of a node that is lost.
    stats: OpStats,
    covered: Nanos,
    /// Remarks that a reader of its result should know.
    pub(super) notes: Vec<String>,
}

impl<'a> NodeSession<'a> {
    /// A task that was begun on a node, over this link.
    pub(super) fn new(name: &'a str, link: NodeLink) -> Self {
        NodeSession {
            name,
            link,
            state: NodeSessionState::Working,
            clock: ClockOffset::default(),
            prepared: Nanos(0),
            heard_at: monotonic(),
            stats: OpStats::default(),
            covered: Nanos(0),
            notes: Vec::new(),
        }
    }

    /// A node that was lost before its task began.
    pub(super) fn lost(name: &'a str, why: String) -> Self {
        NodeSession {
            state: NodeSessionState::Lost(monotonic(), why),
            ..NodeSession::new(name, NodeLink::Gone)
        }
    }

    /// Lets an agent begin its task.
    pub(super) fn begin(&mut self, task: AgentTask) {
        if let NodeLink::Agent(agent) = &self.link {
            let began = agent.begin(task);
            self.keep(began);
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self.state, NodeSessionState::Lost(..))
    }

    pub(super) fn measure_clock(&mut self) {
        if self.is_lost() {
            return;
        }
        let offset = self.link.clock_offset();
        if let Some(offset) = self.keep(offset) {
            self.clock = offset;
            // Messages that it sent meanwhile were heard with its answers.
            self.heard_at = monotonic();
        }
    }

    /// Lets it start at this instant of our clock.
    pub(super) fn start(&mut self, at: Nanos) {
        if self.is_lost() {
            return;
        }
        let told = self.link.start(self.clock.theirs(at));
        if self.keep(told).is_some() {
            self.state = NodeSessionState::Playing;
        }
    }

    pub(super) fn halt(&mut self) {
        if !matches!(
            self.state,
            NodeSessionState::Told(_) | NodeSessionState::Lost(..)
        ) {
            let told = self.link.halt();
            self.keep(told);
        }
    }

    /// Waits a moment for its report; gives what happens between the start and the end.
    pub(super) fn listen(&mut self) -> Option<AgentEvent> {
        let told = self.link.told();
        let told = self.keep(told)?;
        let Some(told) = told else {
            self.notice_silence();
            return None;
        };
        self.heard_at = monotonic();
        match told {
            AgentEvent::Alive => None,
            AgentEvent::PhaseReady => {
                self.state = NodeSessionState::BetweenPhases;
                None
            }
            AgentEvent::Note(text) => {
                self.notes.push(text);
                None
            }
            AgentEvent::Prepared { took } => {
                self.prepared = took;
                self.state = NodeSessionState::Prepared;
                None
            }
            AgentEvent::Second(interval) => {
                self.stats.merge(&interval.stats);
                self.covered = self.covered.max(interval.start + interval.length);
                Some(AgentEvent::Second(interval))
            }
            told if told.is_last() => {
                self.state = NodeSessionState::Told(told);
                None
            }
            told => Some(told),
        }
    }

    /// A node that has said nothing for too long is lost.
    fn notice_silence(&mut self) {
        let now = monotonic();
        if let NodeLink::Agent(agent) = &self.link
            && now.since(self.heard_at) > SILENT_MAX
        {
            let why = format!("no message from it for {SILENT_MAX}");
            agent.give_up(&why);
            self.state = NodeSessionState::Lost(now, why);
        }
    }

    /// Answer of the node; `None` after an error, with which the node is lost.
    fn keep<T>(&mut self, result: Result<T, HostError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let why = match &self.link {
                    NodeLink::Here(_) | NodeLink::Gone => error.to_string(),
                    NodeLink::Agent(agent) => agent.lost().unwrap_or_else(|| {
                        // It said what makes no sense: what it does must end all the same.
                        agent.give_up(&error.to_string());
                        error.to_string()
                    }),
                };
                self.state = NodeSessionState::Lost(monotonic(), why);
                None
            }
        }
    }

    pub(super) fn prepared(&self) -> Nanos {
        self.prepared
    }

    pub(super) fn is_playing(&self) -> bool {
        let state = &self.state;
        matches!(
            state,
            NodeSessionState::Playing | NodeSessionState::BetweenPhases
        )
    }

    pub(super) fn is_between_phases(&self) -> bool {
        matches!(self.state, NodeSessionState::BetweenPhases)
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, NodeSessionState::Told(AgentEvent::Failed(_)))
    }

    /// Why nothing can come of it, if that is so.
    pub(super) fn failure(&self) -> Option<CliError> {
        match &self.state {
            NodeSessionState::Told(AgentEvent::Failed(failure)) => {
                let failure = CliError::from(failure.clone());
                Some(match &self.link {
                    NodeLink::Here(_) => failure,
                    _ => CliError {
                        message: format!("node {}: {}", self.name, failure.message),
                        ..failure
                    },
                })
            }
            NodeSessionState::Lost(_, why) => {
                let text = format!("node {} was lost: {why}", self.name);
                Some(CliError::sentence(CliExitCode::LostNode, text))
            }
            _ => None,
        }
    }

    /// Its account of a trial that started at this instant of our clock.
    pub(super) fn account(self, start_at: Nanos) -> Result<NodeAccount, CliError> {
        if self.has_failed()
            && let Some(failure) = self.failure()
        {
            return Err(failure);
        }
        let node = self.name.to_owned();
        let clock = self.clock;
        match self.state {
            NodeSessionState::Told(AgentEvent::Played(played)) => {
                let AgentTrialResult { result, began_at } = *played;
                let agreed = clock.theirs(start_at);
                let account = ClientLoadNodeResult {
                    node,
                    clock,
                    began_ns: began_at.map(|at| difference(at, agreed)),
                    length: result.length,
                    stats: result.stats.clone(),
                    generator: result.generator.clone(),
                    lost: None,
                };
                Ok((account, Some(result)))
            }
            NodeSessionState::Lost(at, why) => {
                let lost = ClientLoadNodeLoss {
                    after: at.since(start_at),
                    why,
                };
                let account = ClientLoadNodeResult {
                    node,
                    clock,
                    began_ns: None,
                    length: self.covered,
                    stats: self.stats,
                    generator: GeneratorStats::default(),
                    lost: Some(lost),
                };
                Ok((account, None))
            }
            other => Err(CliError::sentence(
                CliExitCode::Failed,
                format!("protocol error: node {node} ended the trial with {other:?}"),
            )),
        }
    }
}

/// Waits a moment until one of those that are awaited has something to report; says of each whether it has.
pub(super) fn await_any<'a>(
    sessions: &mut [NodeSession<'a>],
    is_awaited: impl Fn(&NodeSession<'a>) -> bool,
) -> Vec<bool> {
    let mut agents = Vec::new();
    let mut places = Vec::new();
    let mut ready: Vec<bool> = sessions.iter().map(&is_awaited).collect();
    for (n, session) in sessions.iter().enumerate() {
        if let (true, NodeLink::Agent(agent)) = (ready[n], &session.link) {
            agents.push(agent);
            places.push(n);
        }
    }
    // This machine has no connection to wait on: who listens to it waits for what it says.
    if agents.is_empty() {
        return ready;
    }
    let heard = AgentHost::await_any(&agents, LISTEN_ANY);
    for (n, has_some) in places.into_iter().zip(heard) {
        ready[n] = has_some;
        if !has_some {
            sessions[n].notice_silence();
        }
    }
    ready
}

/// Stops all that are still at work, so that they can be given another task.
pub(super) fn dismiss(sessions: &mut [NodeSession<'_>]) {
    sessions.iter_mut().for_each(NodeSession::halt);
    let until = monotonic() + STOP_MAX;
    for session in sessions {
        while !matches!(
            session.state,
            NodeSessionState::Told(_) | NodeSessionState::Lost(..)
        ) {
            let _ = session.listen();
            // A generator stuck in a system call here is waited for: its files are in use.
            if let NodeLink::Agent(agent) = &session.link
                && monotonic() > until
            {
                agent.give_up("it did not stop");
                break;
            }
        }
    }
}
