// SPDX-License-Identifier: Apache-2.0
//! What a controller asks of an agent that plays. See [`super::Player`].

use plimsoll_core::clock_offset::{ClockOffset, RoundTrip};
use plimsoll_core::load::{Task, Told};
use plimsoll_core::target::MachineFacts;
use plimsoll_core::units::Nanos;
use std::time::Duration;

use super::channel::Broken;
use super::client::{AgentHost, QUESTION_LIMIT};
use super::connect::Connection;
use super::message::{Answer, Request};
use crate::host::error::HostError;

/// Round trips that are tried for the offset of a clock: among so many, one is not disturbed.
const ROUND_TRIPS: usize = 20;

impl AgentHost {
    /// Facts of the machine.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn machine(&self) -> Result<MachineFacts, HostError> {
        match self.ask(&Request::Machine, QUESTION_LIMIT)? {
            Answer::Machine(facts) => Ok(*facts),
            other => Err(self.unfitting(&other)),
        }
    }

    /// How far its clock is ahead of ours, which `now` shows.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn clock_offset(&self, now: impl Fn() -> Nanos) -> Result<ClockOffset, HostError> {
        let trip = |connection: &mut Connection| {
            let sent = now();
            connection.send(&Request::Clock)?;
            let theirs = clock_answer(connection)?;
            Ok(RoundTrip {
                sent,
                theirs,
                came: now(),
            })
        };
        let trips = self.with(|connection| {
            let trips = (0..ROUND_TRIPS).map(|_| trip(connection));
            trips.collect::<Result<Vec<_>, Broken>>()
        })?;
        Ok(ClockOffset::of(&trips).unwrap_or_default())
    }

    /// Lets it begin a task.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn begin(&self, task: Task) -> Result<(), HostError> {
        self.tell(&Request::Begin(Box::new(task)))
    }

    /// Lets it start what is prepared at this instant of its clock.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn start(&self, at: Nanos) -> Result<(), HostError> {
        self.tell(&Request::Start(at))
    }

    /// Lets it end its task; what was measured is told.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn halt(&self) -> Result<(), HostError> {
        self.tell(&Request::Halt)
    }

    /// What it tells of its task within this time, if anything.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn told(&self, limit: Duration) -> Result<Option<Told>, HostError> {
        let answer = self.with(|connection| match connection.receive(limit) {
            Err(Broken::TimedOut(_)) => Ok(None),
            other => other.map(Some),
        })?;
        match answer {
            None => Ok(None),
            Some(Answer::Told(told)) => Ok(Some(*told)),
            Some(other) => Err(self.unfitting(&other)),
        }
    }

    /// Gives the connection up: what it was doing ends there.
    pub fn give_up(&self, why: &str) {
        let broken = || Broken::Io(std::io::Error::other(why.to_owned()));
        // The error is the wish.
        let _ = self.with(|_| Err::<(), _>(broken()));
    }

    fn tell(&self, request: &Request) -> Result<(), HostError> {
        self.with(|connection| connection.send(request))
    }
}

/// The answer to [`Request::Clock`]. Signs of life may come before it.
fn clock_answer(connection: &mut Connection) -> Result<Nanos, Broken> {
    // Ends: signs of life are seconds apart, and the answer comes or the wait ends.
    loop {
        match connection.receive(QUESTION_LIMIT)? {
            Answer::Clock(theirs) => return Ok(theirs),
            Answer::Told(told) if matches!(*told, Told::Alive) => {}
            other => {
                let text = format!("an answer to another question: {other:?}");
                return Err(Broken::Io(std::io::Error::other(text)));
            }
        }
    }
}
