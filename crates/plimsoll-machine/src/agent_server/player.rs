// SPDX-License-Identifier: Apache-2.0
//! A task while it is carried out: it has a thread of its own and reports over a channel. The requester holds
//! the other end: this program itself, or the connection of the agent.
//!
//! The end of the connection ends the task, so that no node goes on loading a system that is not watched.

use plimsoll_core::load::{AgentEvent, AgentFailure, AgentTask};
use plimsoll_core::units::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use super::ANSWER_LIMIT;
use crate::host::agent::AgentStream;
use crate::host::agent::channel::{AgentChannel, AgentChannelError};
use crate::host::agent::message::{AgentRequest, AgentResponse, written};
use crate::host::{HostTimeSource, SystemClock};

/// How often the agent looks for something to report while no request comes. Questions are
/// answered at once.
const LOOK: Duration = Duration::from_millis(20);

/// After so long without a report the agent says that it is alive.
const ALIVE: Duration = Duration::from_secs(5);

/// Carries out tasks on this machine.
pub trait AgentTaskRunner: Send + Sync {
    /// The time on the clock that instants are on.
    fn now(&self) -> Nanos;

    /// Carries out a task.
    ///
    /// # Errors
    /// When it could not be done.
    fn play(&self, task: AgentTask, turn: &AgentTaskContext) -> Result<AgentEvent, AgentFailure>;
}

/// Flags that both ends of a task share.
#[derive(Debug, Default)]
struct TaskFlags {
    /// Set when the task is to end.
    halt: AtomicBool,
    /// Reports that are not yet taken.
    waiting: AtomicUsize,
}

/// The surroundings of an [`AgentTaskRunner`]'s task.
#[derive(Debug)]
pub struct AgentTaskContext {
    flags: Arc<TaskFlags>,
    told: Sender<AgentEvent>,
    start: Receiver<Nanos>,
}

impl AgentTaskContext {
    /// Set when the task is to end; what was measured so far is its result.
    pub fn stop(&self) -> &AtomicBool {
        &self.flags.halt
    }

    /// Tells something.
    pub fn tell(&self, told: AgentEvent) {
        self.flags.waiting.fetch_add(1, Ordering::Relaxed);
        // Sending fails when the connection is gone; then the task is being stopped.
        let _ = self.told.send(told);
    }

    /// Size of the reports not yet taken: a connection may be slower than they come.
    pub fn waiting(&self) -> usize {
        self.flags.waiting.load(Ordering::Relaxed)
    }

    /// Waits for the instant at which to start; `None` when it is to stop instead.
    pub fn start_at(&self) -> Option<Nanos> {
        // The loop ends: the requester sends a start, or sets the flag when it goes.
        while !self.stop().load(Ordering::Relaxed) {
            match self.start.recv_timeout(LOOK) {
                Ok(at) => return Some(at),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }
}

/// A task under way on this machine. One that is dropped is stopped, and waited for.
#[derive(Debug)]
pub struct AgentTaskThread {
    flags: Arc<TaskFlags>,
    told: Receiver<AgentEvent>,
    go: Sender<Nanos>,
    thread: Option<JoinHandle<()>>,
}

impl AgentTaskThread {
    /// Begins a task.
    pub fn begin(runner: Arc<dyn AgentTaskRunner>, task: AgentTask) -> Self {
        let flags = Arc::new(TaskFlags::default());
        let (tell, told) = mpsc::channel();
        let (go, start) = mpsc::channel();
        let context = AgentTaskContext {
            flags: Arc::clone(&flags),
            told: tell,
            start,
        };
        let thread = std::thread::spawn(move || {
            let last = runner.play(task, &context);
            context.tell(last.unwrap_or_else(AgentEvent::Failed));
        });
        AgentTaskThread {
            flags,
            told,
            go,
            thread: Some(thread),
        }
    }

    /// Its next report, within this time.
    pub fn told(&self, within: Duration) -> Option<AgentEvent> {
        match self.told.recv_timeout(within) {
            Ok(told) => {
                self.flags.waiting.fetch_sub(1, Ordering::Relaxed);
                Some(told)
            }
            Err(RecvTimeoutError::Disconnected) => {
                Some(AgentEvent::Failed("the task panicked".into()))
            }
            Err(RecvTimeoutError::Timeout) => None,
        }
    }

    /// Lets it start at this instant. A task that has ended needs no start.
    pub fn start(&self, at: Nanos) {
        let _ = self.go.send(at);
    }

    /// Lets it end; what was measured so far is its result.
    pub fn halt(&self) {
        self.flags.halt.store(true, Ordering::Relaxed);
    }
}

impl Drop for AgentTaskThread {
    fn drop(&mut self) {
        self.halt();
        if let Some(thread) = self.thread.take() {
            // The result of the thread is not needed: the task reports its end, and `told` reports a panic.
            let _ = thread.join();
        }
    }
}

/// Carries out a task to its end, or to that of the connection.
pub(super) fn attend(
    channel: &mut AgentChannel<impl AgentStream>,
    runner: &Arc<dyn AgentTaskRunner>,
    task: AgentTask,
    stop: &AtomicBool,
) -> Result<(), AgentChannelError> {
    let session = AgentTaskSession {
        runner,
        thread: AgentTaskThread::begin(Arc::clone(runner), task),
    };
    session.attend(channel, stop)
}

/// The side of the connection.
struct AgentTaskSession<'a> {
    runner: &'a Arc<dyn AgentTaskRunner>,
    thread: AgentTaskThread,
}

impl AgentTaskSession<'_> {
    fn attend(
        &self,
        channel: &mut AgentChannel<impl AgentStream>,
        stop: &AtomicBool,
    ) -> Result<(), AgentChannelError> {
        let clock = SystemClock::new();
        let mut said_at = clock.now();
        loop {
            let is_silent = || clock.now().saturating_sub(said_at) >= ALIVE;
            let told = self.thread.told(Duration::ZERO);
            if let Some(told) = told.or_else(|| is_silent().then_some(AgentEvent::Alive)) {
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
        channel: &mut AgentChannel<impl AgentStream>,
        message: &[u8],
    ) -> Result<(), AgentChannelError> {
        let foreign = |error: String| AgentChannelError::Io(std::io::Error::other(error));
        match AgentRequest::read(message).map_err(foreign)? {
            AgentRequest::Clock => {
                let answer = AgentResponse::Clock(self.runner.now());
                channel.send(&written(&answer), ANSWER_LIMIT)
            }
            AgentRequest::Start(at) => {
                self.thread.start(at);
                Ok(())
            }
            AgentRequest::Halt => {
                self.thread.halt();
                Ok(())
            }
            AgentRequest::Bye => Err(AgentChannelError::Closed),
            other => Err(foreign(format!(
                "protocol error: request during a task: {other:?}"
            ))),
        }
    }
}
