// SPDX-License-Identifier: Apache-2.0
//! The agent while it plays: the task in a thread of its own, the connection attended to beside it.
//!
//! A connection that ends ends the task, so that no node goes on loading a system nobody watches.

use plimsoll_core::load::{AgentEvent, AgentTask};
use plimsoll_core::units::Nanos;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

use super::ANSWER_LIMIT;
use crate::host::agent::channel::{AgentChannel, AgentChannelError};
use crate::host::agent::message::{AgentRequest, AgentResponse, written};
use crate::host::{HostTimeSource, SystemClock};

/// How often the agent looks for something to tell while nobody asks anything. Questions are
/// answered at once.
const LOOK: Duration = Duration::from_millis(20);

/// After so long without anything to tell the agent says that it is alive.
const ALIVE: Duration = Duration::from_secs(5);

/// What carries out tasks on this machine.
pub trait AgentTaskRunner: Sync {
    /// What the clock shows that instants are on.
    fn now(&self) -> Nanos;

    /// Carries out a task.
    ///
    /// # Errors
    /// When it could not be done, in words.
    fn play(&self, task: &AgentTask, turn: &AgentTaskContext<'_>) -> Result<AgentEvent, String>;
}

/// What a [`AgentTaskRunner`] is given besides its task.
#[derive(Debug)]
pub struct AgentTaskContext<'a> {
    /// Set when the task is to end; what was measured so far is its result.
    pub stop: &'a AtomicBool,
    told: Sender<AgentEvent>,
    /// What was told and is not yet sent.
    waiting: &'a AtomicUsize,
    start: Receiver<Nanos>,
}

impl AgentTaskContext<'_> {
    /// Tells something.
    pub fn tell(&self, told: AgentEvent) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Nobody hears it when the connection is gone; then the task is being stopped.
        let _ = self.told.send(told);
    }

    /// How much was told that is not yet sent: a connection may be slower than what is told.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for the instant at which to start; `None` when it is to stop instead.
    #[must_use]
    pub fn start_at(&self) -> Option<Nanos> {
        // Ends: whoever attends to the connection sends a start, or sets the flag when it is gone.
        while !self.stop.load(Ordering::Relaxed) {
            match self.start.recv_timeout(LOOK) {
                Ok(at) => return Some(at),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }
}

/// Carries out a task to its end, or to that of the connection.
pub(super) fn attend(
    channel: &mut AgentChannel<impl AsFd, impl AsFd>,
    player: &dyn AgentTaskRunner,
    task: &AgentTask,
    stop: &AtomicBool,
) -> Result<(), AgentChannelError> {
    let (halt, waiting) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (tell, told) = mpsc::channel();
    let (go, start) = mpsc::channel();
    std::thread::scope(|scope| {
        // However this side ends, the task must.
        let _halted = SetOnDrop(&halt);
        let (halt, waiting) = (&halt, &waiting);
        scope.spawn(move || {
            let turn = AgentTaskContext {
                stop: halt,
                told: tell,
                waiting,
                start,
            };
            let last = player.play(task, &turn).unwrap_or_else(AgentEvent::Failed);
            turn.tell(last);
        });
        let desk = AgentTaskSession {
            player,
            halt,
            waiting,
            go,
        };
        desk.attend(channel, &told, stop)
    })
}

/// Sets a flag when it goes.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The side of the connection.
struct AgentTaskSession<'a> {
    player: &'a dyn AgentTaskRunner,
    halt: &'a AtomicBool,
    waiting: &'a AtomicUsize,
    go: Sender<Nanos>,
}

impl AgentTaskSession<'_> {
    fn attend(
        &self,
        channel: &mut AgentChannel<impl AsFd, impl AsFd>,
        told: &Receiver<AgentEvent>,
        stop: &AtomicBool,
    ) -> Result<(), AgentChannelError> {
        let clock = SystemClock::new();
        let mut said_at = clock.now();
        loop {
            let told = match told.try_recv() {
                Ok(told) => {
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                    Some(told)
                }
                Err(TryRecvError::Disconnected) => {
                    Some(AgentEvent::Failed("the task panicked".into()))
                }
                Err(TryRecvError::Empty) => {
                    let is_silent = clock.now().saturating_sub(said_at) >= ALIVE;
                    is_silent.then_some(AgentEvent::Alive)
                }
            };
            if let Some(told) = told {
                let is_last = told.is_last();
                let answer = AgentResponse::Told(Box::new(told));
                channel.send(&written(&answer), ANSWER_LIMIT)?;
                said_at = clock.now();
                if is_last {
                    return Ok(());
                }
                continue;
            }
            match channel.receive(LOOK, Some(stop)) {
                Ok(message) => self.answer(channel, &message)?,
                Err(AgentChannelError::TimedOut(_)) => {}
                Err(broken) => return Err(broken),
            }
        }
    }

    fn answer(
        &self,
        channel: &mut AgentChannel<impl AsFd, impl AsFd>,
        message: &[u8],
    ) -> Result<(), AgentChannelError> {
        let foreign = |error: String| AgentChannelError::Io(std::io::Error::other(error));
        match AgentRequest::read(message).map_err(foreign)? {
            AgentRequest::Clock => {
                let answer = AgentResponse::Clock(self.player.now());
                channel.send(&written(&answer), ANSWER_LIMIT)
            }
            AgentRequest::Start(at) => {
                // A task that has ended needs no start.
                let _ = self.go.send(at);
                Ok(())
            }
            AgentRequest::Halt => {
                self.halt.store(true, Ordering::Relaxed);
                Ok(())
            }
            AgentRequest::Bye => Err(AgentChannelError::Closed),
            other => Err(foreign(format!(
                "protocol error: request during a task: {other:?}"
            ))),
        }
    }
}
