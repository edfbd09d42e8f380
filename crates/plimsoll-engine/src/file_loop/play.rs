// SPDX-License-Identifier: Apache-2.0
//! State shared by the threads of a loop while it is played. Atomics only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use plimsoll_core::num::{floor_u64, round_u64, saturating_u32};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::FileLoop;
use plimsoll_core::workload::files::{FileLoopGroup, FileLoopOrder, FileLoopSelection, FileOp};

use super::FileLoopSource;
use super::each::FileLoopShare;
use super::thread::FileLoopBlocker;
use crate::bell::WakeNotifier;
use crate::error::EngineError;
use crate::file_sets::FileSetLocation;
use crate::target::RequestTarget;
use crate::trees::FileLoopSets;

/// Events that no thread takes within this time are lost, because filebench 1.5 fills its bucket no further.
const EVENTS_KEPT: Nanos = Nanos(5_000_000_000);

/// One run of a loop: made anew for each, so that events and signals begin at nothing.
#[derive(Debug)]
pub struct FileLoopRun {
    pub(super) files: FileLoop,
    pub(super) trees: Arc<FileLoopSets>,
    pub(super) events: Option<FileLoopEventRate>,
    pub(super) signals: Vec<FileLoopSignal>,
    /// Threads that still have work.
    at_work: AtomicU32,
    /// Operations and bytes of all threads, where the run ends after a total of them.
    done: Option<[AtomicU64; 2]>,
    /// Whether the run is over before its time.
    is_over: AtomicBool,
}

impl FileLoopRun {
    /// Of a loop that was checked, on its sets.
    pub fn new(files: &FileLoop, trees: Arc<FileLoopSets>) -> Self {
        FileLoopRun {
            files: files.clone(),
            trees,
            events: files.events_per_s.map(FileLoopEventRate::new),
            signals: signals(files),
            at_work: AtomicU32::new(files.threads()),
            done: counts_all(files).then(Default::default),
            is_over: AtomicBool::new(false),
        }
    }

    /// Counts an operation of any thread that has ended and moved `bytes` bytes.
    #[inline]
    pub(super) fn count(&self, bytes: u64) {
        if let Some([ops, moved]) = &self.done {
            ops.fetch_add(1, Ordering::Relaxed);
            moved.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Operations and bytes of all threads; zeros where no operation ends the run after a total.
    pub(super) fn done(&self) -> (u64, u64) {
        let done = self.done.as_ref();
        done.map_or((0, 0), |[ops, bytes]| {
            (ops.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
        })
    }

    /// The work is done: ends the run for all threads.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.wake_all();
    }

    /// Whether the run is over before its time.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The source of threads `first..first + slots`, until `end`. `place` is where the sets
    /// lie; without one they are imagined, and sizes come from the sets.
    ///
    /// # Errors
    /// When a directory must be listed and cannot be.
    pub(crate) fn source(
        self: &Arc<Self>,
        (first, slots): (u32, u32),
        end: Nanos,
        place: Option<FileSetLocation<'_>>,
        seed: Seed,
    ) -> Result<FileLoopSource, EngineError> {
        let mut shares = Vec::new();
        for thread in first..first + slots {
            shares.push(self.share(thread, place, seed)?);
        }
        let imagined = place.is_none();
        Ok(FileLoopSource::new(
            Arc::clone(self),
            first,
            shares,
            end,
            imagined,
            seed,
        ))
    }

    /// The files in `place` as `thread` sees them. `direct_align`: what direct I/O needs there,
    /// in bytes; `None`: it is not possible.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub(crate) fn target(
        &self,
        thread: u32,
        place: FileSetLocation<'_>,
        direct_align: Option<u32>,
    ) -> Result<RequestTarget, EngineError> {
        let group = self.group(thread).1;
        let trees = Arc::clone(&self.trees);
        match place {
            FileSetLocation::Directory(directory) => {
                let flags = (direct_align.filter(|_| group.direct), group.sync);
                RequestTarget::tree(directory, trees, flags)
            }
            FileSetLocation::Export(export) => Ok(RequestTarget::Export(Box::new(
                export.tree(trees, group.sync)?,
            ))),
        }
    }

    /// The largest buffer that `thread` needs, in bytes.
    pub fn len_max(&self, thread: u32) -> u32 {
        super::check::len_max(self.group(thread).1)
    }

    /// The group of a thread, and which of its threads it is.
    pub(super) fn group(&self, thread: u32) -> (usize, &FileLoopGroup, u32) {
        let mut first = 0;
        for (index, group) in self.files.groups.iter().enumerate() {
            if thread - first < group.threads {
                return (index, group, thread - first);
            }
            first += group.threads;
        }
        unreachable!("there are as many workers as threads");
    }

    fn share(
        &self,
        thread: u32,
        place: Option<FileSetLocation<'_>>,
        seed: Seed,
    ) -> Result<Option<FileLoopShare>, EngineError> {
        let FileLoopSelection::Each(order) = self.files.over else {
            return Ok(None);
        };
        let (_, group, of_group) = self.group(thread);
        let part = (of_group, group.threads);
        let entries = self.trees.set(0).entries();
        Ok(Some(match (order, place) {
            (FileLoopOrder::Listed, Some(place)) => {
                FileLoopShare::of_list(&place.listing(self.trees.grove(0))?, part)
            }
            (FileLoopOrder::Shuffled, _) => {
                let seed = seed.derive("order of files", u64::from(thread));
                FileLoopShare::shuffled(entries, part, seed)
            }
            _ => FileLoopShare::numbered(entries, part),
        }))
    }

    /// `thread` sleeps until what it waits for may have come, for `at_most`. May end early.
    pub(super) fn wait(&self, thread: u32, obstacle: FileLoopBlocker, at_most: Nanos) {
        match obstacle {
            FileLoopBlocker::Posts { signal } => {
                self.signals[signal as usize].wait(thread, at_most);
            }
            FileLoopBlocker::Room { signal } => {
                self.signals[signal as usize].wait_for_room(at_most);
            }
            FileLoopBlocker::File { set, pick } => self.trees.set(set).wait_for(pick, at_most),
        }
    }

    /// Wakes all threads that sleep, because the run is stopped or a thread has left it.
    pub(crate) fn wake_all(&self) {
        for signal in &self.signals {
            signal.wake_all();
        }
        for set in 0..saturating_u32(self.files.sets.len() as u64) {
            self.trees.set(set).wake_all();
        }
    }

    /// A thread has done its work; whether it was the last, and is to make everything durable.
    pub(super) fn leave(&self) -> bool {
        self.at_work.fetch_sub(1, Ordering::AcqRel) == 1 && self.files.sync_at_end
    }
}

/// Whether the run ends after a total of all threads.
fn counts_all(files: &FileLoop) -> bool {
    let mut ops = files.groups.iter().flat_map(|group| &group.ops);
    ops.any(|op| matches!(op.op, FileOp::EndAfter { of: None, .. }))
}

/// Events at a rate: the `k`-th (from 1) is due at `k / rate`, to the nanosecond.
#[derive(Debug)]
pub(super) struct FileLoopEventRate {
    per_s: f64,
    taken: AtomicU64,
}

impl FileLoopEventRate {
    fn new(per_s: f64) -> Self {
        FileLoopEventRate {
            per_s,
            taken: AtomicU64::new(0),
        }
    }

    /// Takes `count` events, and returns when the last of them is due.
    pub(super) fn take(&self, now: Nanos, count: u64) -> Nanos {
        let lost = floor_u64(now.since(EVENTS_KEPT).as_secs_f64() * self.per_s);
        let next = |taken: u64| taken.max(lost).saturating_add(count);
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let before = self
            .taken
            .fetch_update(order.0, order.1, |taken| Some(next(taken)));
        let last = next(before.expect("the change is always made"));
        Nanos(round_u64(last as f64 * 1e9 / self.per_s))
    }
}

/// Posts, and who waits for them. Each post is for all that wait.
#[derive(Debug, Default)]
pub(super) struct FileLoopSignal {
    posted: AtomicU64,
    waiters: Vec<Waiter>,
    /// Rung when those that were too far behind have asked for more.
    room: WakeNotifier,
}

#[derive(Debug)]
struct Waiter {
    thread: u32,
    /// Posts it has asked for so far.
    asked: AtomicU64,
    ahead: u64,
    /// Rung at the post that is the last it has asked for.
    given: WakeNotifier,
}

impl FileLoopSignal {
    /// Whether it may be posted now.
    pub(super) fn has_room(&self) -> bool {
        !self.waiters.iter().any(|waiter| self.is_far(waiter))
    }

    /// Whether this thread is so far behind that posters wait for it.
    pub(super) fn is_held_by(&self, thread: u32) -> bool {
        self.waiter(thread)
            .is_some_and(|waiter| self.is_far(waiter))
    }

    fn is_far(&self, waiter: &Waiter) -> bool {
        let asked = waiter.asked.load(Ordering::Acquire);
        self.posted.load(Ordering::Acquire) >= asked + waiter.ahead
    }

    /// Posts once; whether there was room for it.
    pub(super) fn post(&self) -> bool {
        let room = |posted: u64| {
            let far = |waiter: &Waiter| waiter.asked.load(Ordering::Acquire) + waiter.ahead;
            let room = self.waiters.iter().all(|waiter| posted < far(waiter));
            room.then_some(posted + 1)
        };
        let posted = self
            .posted
            .fetch_update(Ordering::SeqCst, Ordering::Acquire, room);
        let Ok(before) = posted else { return false };
        for waiter in &self.waiters {
            // The posts before this one give it nothing to do.
            if waiter.asked.load(Ordering::SeqCst) == before + 1 {
                waiter.given.ring();
            }
        }
        true
    }

    /// A thread asks for `posts` more posts.
    pub(super) fn ask(&self, thread: u32, posts: u32) {
        if let Some(waiter) = self.waiter(thread) {
            waiter.asked.fetch_add(u64::from(posts), Ordering::SeqCst);
            if self.has_room() {
                self.room.ring_for_all();
            }
        }
    }

    /// Whether a thread has got all it asked for.
    pub(super) fn is_given(&self, thread: u32) -> bool {
        let posted = self.posted.load(Ordering::Acquire);
        let asked = |waiter: &Waiter| waiter.asked.load(Ordering::Acquire);
        self.waiter(thread)
            .is_none_or(|waiter| posted >= asked(waiter))
    }

    /// A thread sleeps until it has got all it asked for.
    fn wait(&self, thread: u32, at_most: Nanos) {
        if let Some(waiter) = self.waiter(thread) {
            waiter.given.wait(at_most, || self.is_given(thread));
        }
    }

    /// Sleeps until a post may be made.
    fn wait_for_room(&self, at_most: Nanos) {
        self.room.wait(at_most, || self.has_room());
    }

    fn wake_all(&self) {
        self.room.ring_for_all();
        for waiter in &self.waiters {
            waiter.given.ring_for_all();
        }
    }

    fn waiter(&self, thread: u32) -> Option<&Waiter> {
        self.waiters.iter().find(|waiter| waiter.thread == thread)
    }
}

/// The signals of a loop. A thread that awaits one in several places waits for it as one.
pub(super) fn signals(files: &FileLoop) -> Vec<FileLoopSignal> {
    let mut signals: Vec<FileLoopSignal> = Vec::new();
    let mut first = 0;
    for group in &files.groups {
        for op in &group.ops {
            let (FileOp::Post { signal } | FileOp::Await { signal, .. }) = op.op else {
                continue;
            };
            let place = signal as usize;
            if signals.len() <= place {
                signals.resize_with(place + 1, FileLoopSignal::default);
            }
            if let FileOp::Await { ahead, .. } = op.op {
                let waiter = |thread| Waiter {
                    thread,
                    asked: AtomicU64::new(0),
                    ahead: u64::from(ahead),
                    given: WakeNotifier::default(),
                };
                for thread in first..first + group.threads {
                    let waiters = &mut signals[place].waiters;
                    match waiters.iter_mut().find(|known| known.thread == thread) {
                        Some(known) => known.ahead = known.ahead.max(ahead.into()),
                        None => waiters.push(waiter(thread)),
                    }
                }
            }
        }
        first += group.threads;
    }
    signals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_at_their_rate_and_are_kept_for_five_seconds() {
        let events = FileLoopEventRate::new(3.0);
        let due: Vec<u64> = (0..4).map(|_| events.take(Nanos(0), 1).0).collect();
        assert_eq!(
            due,
            [333_333_333, 666_666_667, 1_000_000_000, 1_333_333_333]
        );
        assert_eq!(events.take(Nanos(0), 6), Nanos(3_333_333_333));
        // At 20 s those up to 15 s are lost: the next is the 46th.
        let now = Nanos(20 * Nanos::SECOND.0);
        assert_eq!(events.take(now, 1), Nanos(15_333_333_333));
        let fast = FileLoopEventRate::new(1e6);
        let last = (0..1_000_000).map(|_| fast.take(Nanos(0), 1)).last();
        assert_eq!(last, Some(Nanos::SECOND), "no drift");
    }

    #[test]
    fn posters_wait_for_those_that_are_far_behind() {
        let waiter = |thread, ahead| Waiter {
            thread,
            asked: AtomicU64::new(0),
            ahead,
            given: WakeNotifier::default(),
        };
        let signal = FileLoopSignal {
            waiters: vec![waiter(3, 2), waiter(4, 5)],
            ..FileLoopSignal::default()
        };
        assert_eq!(
            [signal.post(), signal.post(), signal.post()],
            [true, true, false]
        );
        signal.ask(3, 3);
        assert!(!signal.is_given(3) && signal.is_given(4));
        assert!(signal.post() && signal.is_given(3));
        assert!(signal.post() && signal.post() && !signal.post());
        signal.ask(4, 1);
        assert!(!signal.post(), "thread 3 has not asked for more");
    }
}
