// SPDX-License-Identifier: Apache-2.0
//! One node in one task: how far it is, and what it has told.

use super::Account;
use crate::failure::{Code, Failure};
use plimsoll_core::clock_offset::{ClockOffset, difference};
use plimsoll_core::event::{Generator, OpStats};
use plimsoll_core::event::{Lost, NodeResult};
use plimsoll_core::load::{Played, Task, Told};
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
pub(super) enum State {
    /// At work on what precedes the measured part, or on a proof.
    Working,
    /// Waiting for its start.
    Prepared,
    /// In the measured part.
    Playing,
    /// At its end, with the last it told.
    Told(Told),
    /// Lost at this instant of our clock, for this reason.
    Lost(Nanos, String),
}

/// One node in one task.
#[derive(Debug)]
pub(super) struct Hand<'a> {
    name: &'a str,
    agent: &'a AgentHost,
    pub(super) state: State,
    clock: ClockOffset,
    /// How long it took to lay everything out.
    prepared: Nanos,
    /// When it was heard of last.
    heard_at: Nanos,
    /// What its seconds add up to: all that is known of a node that is lost.
    stats: OpStats,
    covered: Nanos,
}

impl<'a> Hand<'a> {
    pub(super) fn new(name: &'a str, agent: &'a AgentHost) -> Self {
        Hand {
            name,
            agent,
            state: State::Working,
            clock: ClockOffset::default(),
            prepared: Nanos(0),
            heard_at: monotonic(),
            stats: OpStats::default(),
            covered: Nanos(0),
        }
    }

    pub(super) fn begin(&mut self, task: Task) {
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
            self.state = State::Playing;
        }
    }

    pub(super) fn halt(&mut self) {
        if !matches!(self.state, State::Told(_) | State::Lost(..)) {
            let told = self.agent.halt();
            self.keep(told);
        }
    }

    /// Hears what it tells within a moment; gives what happens between the start and the end.
    pub(super) fn listen(&mut self) -> Option<Told> {
        let told = self.agent.told(LISTEN);
        let told = self.keep(told)?;
        let now = monotonic();
        let Some(told) = told else {
            if now.since(self.heard_at) > SILENT_MAX {
                let why = format!("nothing was heard of it for {SILENT_MAX}");
                self.agent.give_up(&why);
                self.state = State::Lost(now, why);
            }
            return None;
        };
        self.heard_at = now;
        match told {
            Told::Alive => None,
            Told::Prepared { took } => {
                self.prepared = took;
                self.state = State::Prepared;
                None
            }
            Told::Second(interval) => {
                self.stats.merge(&interval.stats);
                self.covered = self.covered.max(interval.start + interval.length);
                Some(Told::Second(interval))
            }
            told if told.is_last() => {
                self.state = State::Told(told);
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
                self.state = State::Lost(monotonic(), why);
                None
            }
        }
    }

    pub(super) fn prepared(&self) -> Nanos {
        self.prepared
    }

    pub(super) fn is_playing(&self) -> bool {
        matches!(self.state, State::Playing)
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, State::Told(Told::Failed(_)))
    }

    /// Why nothing can come of it, if that is so.
    pub(super) fn failure(&self) -> Option<Failure> {
        match &self.state {
            State::Told(Told::Failed(why)) => {
                let text = format!("work on node {}: {why}", self.name);
                Some(Failure::new(Code::Failed, text))
            }
            State::Lost(_, why) => {
                let text = format!("go on: node {} was lost: {why}", self.name);
                Some(Failure::new(Code::LostNode, text))
            }
            _ => None,
        }
    }

    /// Its account of a trial that started at this instant of our clock.
    pub(super) fn account(self, start_at: Nanos) -> Result<Account, Failure> {
        if self.has_failed()
            && let Some(failure) = self.failure()
        {
            return Err(failure);
        }
        let node = self.name.to_owned();
        let clock = self.clock;
        match self.state {
            State::Told(Told::Played(played)) => {
                let Played { result, began_at } = *played;
                let agreed = clock.theirs(start_at);
                let account = NodeResult {
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
            State::Lost(at, why) => {
                let lost = Lost {
                    after: at.since(start_at),
                    why,
                };
                let account = NodeResult {
                    node,
                    clock,
                    began_ns: None,
                    length: self.covered,
                    stats: self.stats,
                    generator: Generator::default(),
                    lost: Some(lost),
                };
                Ok((account, None))
            }
            other => Err(Failure::new(
                Code::Failed,
                format!("understand node {node}: it ended with {other:?}"),
            )),
        }
    }
}

/// Stops all that are still at work, so that they can be given another task.
pub(super) fn dismiss(hands: &mut [Hand<'_>]) {
    hands.iter_mut().for_each(Hand::halt);
    let until = monotonic() + STOP_MAX;
    for hand in hands {
        while !matches!(hand.state, State::Told(_) | State::Lost(..)) {
            let _ = hand.listen();
            if monotonic() > until {
                hand.agent.give_up("it did not stop");
                break;
            }
        }
    }
}
