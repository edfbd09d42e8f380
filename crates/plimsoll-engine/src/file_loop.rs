// SPDX-License-Identifier: Apache-2.0
//! Threads that repeat lists of file operations: a closed loop over shared file sets.
//!
//! On a real directory every thread has an engine of one slot and a source of its own; in virtual
//! time one source plays all threads. An operation is meant to start when the one before it in the
//! same thread has ended and what the list says about waiting is over, so drawing the bytes of a
//! write (some microseconds) is part of its lag and response time.

mod check;
mod each;
mod play;
mod signals;
mod thread;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use plimsoll_core::num::{saturating_u32, to_usize};
use plimsoll_core::op::{OpRequest, OpSample};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::files::FileLoopNoFilePolicy;

use crate::engine::fill_random;
use crate::error::{EngineError, FileShortage};
use crate::fileset::FilePickKind;
use crate::source::{NextRequest, RequestSource};
use each::FileLoopShare;
use thread::{FileLoopBlocker, FileLoopNext, FileLoopThread};

pub use check::check;
pub use play::FileLoopRun;

/// When all files that a thread could use have been busy for longer than this, the run fails: the target
/// hangs, or the set is too small.
const BUSY_MAX: Nanos = Nanos(5_000_000_000);

/// How long a thread that waits for others sleeps at most before it lets the driver look at its
/// clock: what it waits for wakes it, and so does the end of a run that is stopped.
const SLEEP_MAX: Nanos = Nanos(250_000_000);

/// The source of one or more threads of a
/// [`FileLoop`](plimsoll_core::workload::FileLoop).
#[derive(Debug)]
pub struct FileLoopSource {
    play: Arc<FileLoopRun>,
    threads: Vec<FileLoopThread>,
    /// Threads that can go on, when, and in which order they came.
    ready: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    /// Threads that can go on when another one has.
    blocked: Vec<u32>,
    /// Which thread has its operation in which slot.
    holders: Vec<Option<u32>>,
    in_flight: u32,
    n_queued: u64,
    /// Who waits for threads of other sources, and for what.
    obstacle: Option<(u32, FileLoopBlocker)>,
    end: Nanos,
    /// Whether there are no files behind the sets, so that sizes must come from them.
    imagined: bool,
}

impl FileLoopSource {
    /// Threads from `first` on, one for each of `shares`, until `end`.
    fn new(
        play: Arc<FileLoopRun>,
        first: u32,
        shares: Vec<Option<FileLoopShare>>,
        end: Nanos,
        imagined: bool,
        seed: Seed,
    ) -> Self {
        let threads: Vec<FileLoopThread> = (first..)
            .zip(shares)
            .map(|(number, share)| FileLoopThread::new(&play, number, share, seed))
            .collect();
        let mut source = FileLoopSource {
            play,
            holders: vec![None; threads.len()],
            blocked: Vec::with_capacity(threads.len()),
            ready: BinaryHeap::with_capacity(threads.len()),
            threads,
            in_flight: 0,
            n_queued: 0,
            obstacle: None,
            end,
            imagined,
        };
        for index in 0..saturating_u32(source.threads.len() as u64) {
            source.is_ready(index, Nanos(0));
        }
        source
    }

    /// Which of its threads has its operation in `slot`.
    pub(crate) fn holder(&self, slot: u32) -> Option<u32> {
        self.holders[slot as usize]
    }

    fn is_ready(&mut self, thread: u32, at: Nanos) {
        self.ready.push(Reverse((at, self.n_queued, thread)));
        self.n_queued += 1;
    }

    fn unblock(&mut self, now: Nanos) {
        for index in 0..self.blocked.len() {
            self.is_ready(self.blocked[index], now);
        }
        self.blocked.clear();
    }

    fn give(&mut self, slot: u32, thread: u32, request: OpRequest) -> NextRequest {
        self.holders[slot as usize] = Some(thread);
        self.in_flight += 1;
        NextRequest::Request(request)
    }

    /// The request that follows from `turn` of `thread`; `None` when another thread is to be asked.
    fn take_turn(
        &mut self,
        now: Nanos,
        (slot, thread): (u32, u32),
        turn: FileLoopNext,
    ) -> Result<Option<NextRequest>, EngineError> {
        match turn {
            FileLoopNext::Request(request) => return Ok(Some(self.give(slot, thread, request))),
            FileLoopNext::Later(at) => self.is_ready(thread, at),
            FileLoopNext::Signalled => {
                self.unblock(now);
                self.is_ready(thread, now);
            }
            // The blocking thread belongs to this source: its next completion or signal unblocks this one.
            FileLoopNext::Blocked(_) if self.imagined => self.blocked.push(thread),
            FileLoopNext::Blocked(obstacle) => {
                self.is_ready(thread, now);
                if let FileLoopBlocker::File { pick, .. } = obstacle {
                    self.busy(thread, now, pick)?;
                }
                self.obstacle = Some((thread, obstacle));
                return Ok(Some(NextRequest::Again));
            }
            FileLoopNext::Done => return Ok(self.leave(slot, thread)),
            FileLoopNext::EndRun => {
                self.play.end();
                return Ok(Some(self.end(slot)));
            }
        }
        Ok(None)
    }

    /// A thread has done its work.
    fn leave(&mut self, slot: u32, thread: u32) -> Option<NextRequest> {
        let leaving = &mut self.threads[thread as usize];
        if std::mem::replace(&mut leaving.has_left, true) {
            return None;
        }
        let is_last = self.play.leave();
        let request = self.threads[thread as usize].sync_all();
        is_last.then(|| self.give(slot, thread, request))
    }

    /// The time is up. What is made durable at the end is what has been done by then.
    fn end(&mut self, slot: u32) -> NextRequest {
        if self.in_flight > 0 {
            return NextRequest::Wait;
        }
        for thread in 0..saturating_u32(self.threads.len() as u64) {
            if let Some(next) = self.leave(slot, thread) {
                return next;
            }
        }
        NextRequest::End
    }

    /// Every file that `pick` could give is in use: that must end some time.
    fn busy(&mut self, thread: u32, now: Nanos, pick: FilePickKind) -> Result<(), EngineError> {
        let since = *self.threads[thread as usize]
            .blocked_since
            .get_or_insert(now);
        let waited = now.since(since);
        if waited > BUSY_MAX {
            return Err(EngineError::NoFile(FileShortage {
                wanted: pick.name(),
                entries: self.play.trees.entries(),
                busy_for: Some(waited),
            }));
        }
        Ok(())
    }

    /// No thread can go on.
    fn idle(&self) -> Result<NextRequest, EngineError> {
        if self.in_flight > 0 {
            return Ok(NextRequest::Wait);
        }
        if self.blocked.is_empty() {
            return Ok(NextRequest::End);
        }
        let name = &self.play.files.name;
        let text = format!("'{name}': deadlock: its threads wait for each other");
        Err(EngineError::Workload(text))
    }
}

impl RequestSource for FileLoopSource {
    fn next(&mut self, now: Nanos, slot: u32) -> Result<NextRequest, EngineError> {
        if now >= self.end || self.play.is_over() {
            return Ok(self.end(slot));
        }
        // Each thread gets one turn or more; all of them end with a request, a later time or a wait.
        loop {
            let Some(Reverse((at, _, thread))) = self.ready.peek().copied() else {
                return self.idle();
            };
            if at > now {
                return Ok(NextRequest::Until(at.min(self.end)));
            }
            self.ready.pop();
            let turn = self.threads[thread as usize].next(&self.play, self.imagined, now);
            let turn = match (turn, self.play.files.without_file) {
                (Err(EngineError::NoFile(_)), FileLoopNoFilePolicy::EndRun) => FileLoopNext::EndRun,
                (Err(EngineError::NoFile(_)), FileLoopNoFilePolicy::EndThread) => {
                    FileLoopNext::Done
                }
                (turn, _) => turn?,
            };
            if let Some(next) = self.take_turn(now, (slot, thread), turn)? {
                return Ok(next);
            }
        }
    }

    fn wait_for_others(&mut self, now: Nanos) {
        if let Some((thread, obstacle)) = self.obstacle.take() {
            let thread = self.threads[to_usize(u64::from(thread))].number;
            let at_most = self.end.since(now).min(SLEEP_MAX);
            self.play.wait(thread, obstacle, at_most);
        }
    }

    /// The buffer may hold what was just read: writing that would be a gift to storage that
    /// compresses or deduplicates.
    fn fill(&mut self, slot: u32, _request: &OpRequest, bytes: &mut [u8]) {
        let thread = self.holder(slot).map_or(0, u64::from);
        fill_random(bytes, &mut self.threads[to_usize(thread)].contents);
    }

    fn worker_of(&self, slot: u32) -> u32 {
        self.holder(slot).unwrap_or(0)
    }

    fn completed(&mut self, slot: u32, sample: &OpSample) {
        let Some(thread) = self.holders[slot as usize].take() else {
            return;
        };
        self.in_flight -= 1;
        let ended = &mut self.threads[thread as usize];
        ended.completed(&self.play, sample);
        let goes_on = !ended.has_left;
        self.unblock(sample.completed_at);
        if goes_on {
            self.is_ready(thread, sample.completed_at);
        }
    }
}

impl Drop for FileLoopSource {
    fn drop(&mut self) {
        for thread in &mut self.threads {
            thread.let_go(&self.play);
        }
    }
}

#[cfg(test)]
mod tests;
