// SPDX-License-Identifier: Apache-2.0
//! A controller's requests to an agent that plays. See [`crate::agent_server::AgentTaskRunner`].

use plimsoll_core::clock_offset::{ClockOffset, RoundTrip};
use plimsoll_core::load::{AgentEvent, AgentTask};
use plimsoll_core::target::MachineFacts;
use plimsoll_core::units::Nanos;
use std::time::Duration;

use super::channel::AgentChannelError;
use super::client::{AgentHost, QUESTION_LIMIT};
use super::connect::AgentConnection;
use super::message::{AgentRequest, AgentResponse};
use crate::host::error::HostError;

/// Round trips for the offset of a clock: among this number, at least one is undisturbed.
const ROUND_TRIPS: usize = 20;

impl AgentHost {
    /// Facts of the machine.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn machine(&self) -> Result<MachineFacts, HostError> {
        match self.ask(&AgentRequest::Machine, QUESTION_LIMIT)? {
            AgentResponse::Machine(facts) => Ok(*facts),
            other => Err(self.unfitting(&other)),
        }
    }

    /// How far its clock is ahead of ours, which `now` shows.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn clock_offset(&self, now: impl Fn() -> Nanos) -> Result<ClockOffset, HostError> {
        let trip = |connection: &mut AgentConnection| {
            let sent = now();
            connection.send(&AgentRequest::Clock)?;
            let theirs = clock_answer(connection)?;
            Ok(RoundTrip {
                sent,
                theirs,
                came: now(),
            })
        };
        let trips = self.with(|connection| {
            let trips = (0..ROUND_TRIPS).map(|_| trip(connection));
            trips.collect::<Result<Vec<_>, AgentChannelError>>()
        })?;
        Ok(ClockOffset::of(&trips).unwrap_or_default())
    }

    /// Lets it begin a task.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn begin(&self, task: AgentTask) -> Result<(), HostError> {
        self.tell(&AgentRequest::Begin(Box::new(task)))
    }

    /// Lets it start what is prepared at this instant of its clock.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn start(&self, at: Nanos) -> Result<(), HostError> {
        self.tell(&AgentRequest::Start(at))
    }

    /// Lets it end its task; what was measured is reported.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn halt(&self) -> Result<(), HostError> {
        self.tell(&AgentRequest::Halt)
    }

    /// Its next report on the task within this time, if any.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn told(&self, limit: Duration) -> Result<Option<AgentEvent>, HostError> {
        let answer = self.with(|connection| match connection.receive(limit) {
            Err(AgentChannelError::TimedOut(_)) => Ok(None),
            other => other.map(Some),
        })?;
        match answer {
            None => Ok(None),
            Some(AgentResponse::Told(told)) => Ok(Some(*told)),
            Some(other) => Err(self.unfitting(&other)),
        }
    }

    /// Gives the connection up: what it was doing ends there.
    pub fn give_up(&self, why: &str) {
        let broken = || AgentChannelError::Io(std::io::Error::other(why.to_owned()));
        // The error is the wish.
        let _ = self.with(|_| Err::<(), _>(broken()));
    }

    fn tell(&self, request: &AgentRequest) -> Result<(), HostError> {
        self.with(|connection| connection.send(request))
    }
}

/// The answer to [`AgentRequest::Clock`]. Signs of life may come before it.
fn clock_answer(connection: &mut AgentConnection) -> Result<Nanos, AgentChannelError> {
    // Ends: signs of life are seconds apart, and the answer comes or the wait ends.
    loop {
        match connection.receive(QUESTION_LIMIT)? {
            AgentResponse::Clock(theirs) => return Ok(theirs),
            AgentResponse::Told(told) if matches!(*told, AgentEvent::Alive) => {}
            other => {
                let text = format!("protocol error: unexpected response: {other:?}");
                return Err(AgentChannelError::Io(std::io::Error::other(text)));
            }
        }
    }
}
