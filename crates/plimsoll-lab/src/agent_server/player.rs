// SPDX-License-Identifier: Apache-2.0
//! The agent while it plays: the task in a thread of its own, the connection attended to beside it.
//!
//! A connection that ends ends the task, so that no node goes on loading a system nobody watches.

use plimsoll_core::load::{Task, Told};
use plimsoll_core::units::Nanos;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

use super::ANSWER_LIMIT;
use crate::host::agent::channel::{Broken, Channel};
use crate::host::agent::message::{Answer, Request, written};
use crate::host::{Clock, SystemClock};

/// How often the agent looks for something to tell while nobody asks anything. Questions are
/// answered at once.
const LOOK: Duration = Duration::from_millis(20);

/// After so long without anything to tell the agent says that it is alive.
const ALIVE: Duration = Duration::from_secs(5);

/// What carries out tasks on this machine.
pub trait Player: Sync {
    /// What the clock shows that instants are on.
    fn now(&self) -> Nanos;

    /// Carries out a task.
    ///
    /// # Errors
    /// When it could not be done, in words.
    fn play(&self, task: &Task, turn: &Turn<'_>) -> Result<Told, String>;
}

/// What a [`Player`] is given besides its task.
#[derive(Debug)]
pub struct Turn<'a> {
    /// Set when the task is to end; what was measured so far is its result.
    pub stop: &'a AtomicBool,
    told: Sender<Told>,
    /// What was told and is not yet sent.
    waiting: &'a AtomicUsize,
    start: Receiver<Nanos>,
}

impl Turn<'_> {
    /// Tells something.
    pub fn tell(&self, told: Told) {
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
    channel: &mut Channel<impl AsFd, impl AsFd>,
    player: &dyn Player,
    task: &Task,
    stop: &AtomicBool,
) -> Result<(), Broken> {
    let (halt, waiting) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (tell, told) = mpsc::channel();
    let (go, start) = mpsc::channel();
    std::thread::scope(|scope| {
        // However this side ends, the task must.
        let _halted = SetOnDrop(&halt);
        let (halt, waiting) = (&halt, &waiting);
        scope.spawn(move || {
            let turn = Turn {
                stop: halt,
                told: tell,
                waiting,
                start,
            };
            let last = player.play(task, &turn).unwrap_or_else(Told::Failed);
            turn.tell(last);
        });
        let desk = Desk {
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
struct Desk<'a> {
    player: &'a dyn Player,
    halt: &'a AtomicBool,
    waiting: &'a AtomicUsize,
    go: Sender<Nanos>,
}

impl Desk<'_> {
    fn attend(
        &self,
        channel: &mut Channel<impl AsFd, impl AsFd>,
        told: &Receiver<Told>,
        stop: &AtomicBool,
    ) -> Result<(), Broken> {
        let clock = SystemClock::new();
        let mut said_at = clock.now();
        loop {
            let told = match told.try_recv() {
                Ok(told) => {
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                    Some(told)
                }
                Err(TryRecvError::Disconnected) => {
                    Some(Told::Failed("what played it fell over".into()))
                }
                Err(TryRecvError::Empty) => {
                    let is_silent = clock.now().saturating_sub(said_at) >= ALIVE;
                    is_silent.then_some(Told::Alive)
                }
            };
            if let Some(told) = told {
                let is_last = told.is_last();
                let answer = Answer::Told(Box::new(told));
                channel.send(&written(&answer), ANSWER_LIMIT)?;
                said_at = clock.now();
                if is_last {
                    return Ok(());
                }
                continue;
            }
            match channel.receive(LOOK, Some(stop)) {
                Ok(message) => self.answer(channel, &message)?,
                Err(Broken::TimedOut(_)) => {}
                Err(broken) => return Err(broken),
            }
        }
    }

    fn answer(
        &self,
        channel: &mut Channel<impl AsFd, impl AsFd>,
        message: &[u8],
    ) -> Result<(), Broken> {
        let foreign = |error: String| Broken::Io(std::io::Error::other(error));
        match Request::read(message).map_err(foreign)? {
            Request::Clock => {
                let answer = Answer::Clock(self.player.now());
                channel.send(&written(&answer), ANSWER_LIMIT)
            }
            Request::Start(at) => {
                // A task that has ended needs no start.
                let _ = self.go.send(at);
                Ok(())
            }
            Request::Halt => {
                self.halt.store(true, Ordering::Relaxed);
                Ok(())
            }
            Request::Bye => Err(Broken::Closed),
            other => Err(foreign(format!("asked while it plays: {other:?}"))),
        }
    }
}
