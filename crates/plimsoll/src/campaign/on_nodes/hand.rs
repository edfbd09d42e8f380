// SPDX-License-Identifier: Apache-2.0
//! One node in one task: how far it is, and what it has told.

use super::Account;
use crate::failure::{CliError, CliExitCode};
use plimsoll_core::clock_offset::{ClockOffset, difference};
use plimsoll_core::event::{ClientLoadNodeLoss, ClientLoadNodeResult};
use plimsoll_core::event::{GeneratorStats, OpStats};
use plimsoll_core::load::{AgentEvent, AgentTask, AgentTrialResult};
use plimsoll_core::units::Nanos;
use plimsoll_engine::sys::clock::monotonic;
use plimsoll_lab::host::HostError;
use plimsoll_lab::host::agent::AgentHost;
use std::time::Duration;

/// How long one node is listened to before the next one.
const LISTEN: Duration = Duration::from_millis(5);

/// A node that is at work says so every five seconds; one that has not for so long is lost.
const SILENT_MAX: Nanos = Nanos(30 * Nanos::SECOND.0);

/// How long a node may take to stop what it does: a system call that hangs is waited for.
const STOP_MAX: Nanos = Nanos(60 * Nanos::SECOND.0);

/// How far a node is.
#[derive(Debug)]
pub(super) enum NodeSessionState {
    /// At work on what precedes the measured part, or on a proof.
    Working,
    /// Waiting for its start.
    Prepared,
    /// In the measured part.
    Playing,
    /// At its end, with the last it told.
    Told(AgentEvent),
    /// Lost at this instant of our clock, for this reason.
    Lost(Nanos, String),
}

/// One node in one task.
#[derive(Debug)]
pub(super) struct NodeSession<'a> {
    name: &'a str,
    agent: &'a AgentHost,
    pub(super) state: NodeSessionState,
    clock: ClockOffset,
    /// How long it took to lay everything out.
    prepared: Nanos,
    /// When it was heard of last.
    heard_at: Nanos,
    /// What its seconds add up to: all that is known of a node that is lost.
    stats: OpStats,
    covered: Nanos,
}

impl<'a> NodeSession<'a> {
    pub(super) fn new(name: &'a str, agent: &'a AgentHost) -> Self {
        NodeSession {
            name,
            agent,
            state: NodeSessionState::Working,
            clock: ClockOffset::default(),
            prepared: Nanos(0),
            heard_at: monotonic(),
            stats: OpStats::default(),
            covered: Nanos(0),
        }
    }

    pub(super) fn begin(&mut self, task: AgentTask) {
        let began = self.agent.begin(task);
        self.keep(began);
    }

    pub(super) fn measure_clock(&mut self) {
        let offset = self.agent.clock_offset(monotonic);
        if let Some(offset) = self.keep(offset) {
            self.clock = offset;
        }
    }

    /// Lets it start at this instant of our clock.
    pub(super) fn start(&mut self, at: Nanos) {
        let told = self.agent.start(self.clock.theirs(at));
        if self.keep(told).is_some() {
            self.state = NodeSessionState::Playing;
        }
    }

    pub(super) fn halt(&mut self) {
        if !matches!(
            self.state,
            NodeSessionState::Told(_) | NodeSessionState::Lost(..)
        ) {
            let told = self.agent.halt();
            self.keep(told);
        }
    }

    /// Hears what it tells within a moment; gives what happens between the start and the end.
    pub(super) fn listen(&mut self) -> Option<AgentEvent> {
        let told = self.agent.told(LISTEN);
        let told = self.keep(told)?;
        let now = monotonic();
        let Some(told) = told else {
            if now.since(self.heard_at) > SILENT_MAX {
                let why = format!("nothing was heard of it for {SILENT_MAX}");
                self.agent.give_up(&why);
                self.state = NodeSessionState::Lost(now, why);
            }
            return None;
        };
        self.heard_at = now;
        match told {
            AgentEvent::Alive => None,
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

    /// What was asked of it, unless it is lost.
    fn keep<T>(&mut self, result: Result<T, HostError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let why = self.agent.lost().unwrap_or_else(|| {
                    // It said what makes no sense: what it does must end all the same.
                    self.agent.give_up(&error.to_string());
                    error.to_string()
                });
                self.state = NodeSessionState::Lost(monotonic(), why);
                None
            }
        }
    }

    pub(super) fn prepared(&self) -> Nanos {
        self.prepared
    }

    pub(super) fn is_playing(&self) -> bool {
        matches!(self.state, NodeSessionState::Playing)
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, NodeSessionState::Told(AgentEvent::Failed(_)))
    }

    /// Why nothing can come of it, if that is so.
    pub(super) fn failure(&self) -> Option<CliError> {
        match &self.state {
            NodeSessionState::Told(AgentEvent::Failed(why)) => {
                let text = format!("node {}: {why}", self.name);
                Some(CliError::sentence(CliExitCode::Failed, text))
            }
            NodeSessionState::Lost(_, why) => {
                let text = format!("node {} was lost: {why}", self.name);
                Some(CliError::sentence(CliExitCode::LostNode, text))
            }
            _ => None,
        }
    }

    /// Its account of a trial that started at this instant of our clock.
    pub(super) fn account(self, start_at: Nanos) -> Result<Account, CliError> {
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

/// Stops all that are still at work, so that they can be given another task.
pub(super) fn dismiss(hands: &mut [NodeSession<'_>]) {
    hands.iter_mut().for_each(NodeSession::halt);
    let until = monotonic() + STOP_MAX;
    for hand in hands {
        while !matches!(
            hand.state,
            NodeSessionState::Told(_) | NodeSessionState::Lost(..)
        ) {
            let _ = hand.listen();
            if monotonic() > until {
                hand.agent.give_up("it did not stop");
                break;
            }
        }
    }
}
