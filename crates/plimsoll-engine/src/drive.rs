// SPDX-License-Identifier: Apache-2.0
//! The one loop that all workloads and engines share: ask, submit, reap, stamp, record.
//!
//! Rules that decide what the numbers mean:
//! * one stamp per submission and one per reap: an operation has ended when the program can see it,
//!   which is when the engine returns and before the first look at what it brought;
//! * at most [`BATCH`] operations per submission, or [`BATCH_OF_DATA`], because the last of a batch
//!   waits for the first;
//! * never wait while a slot is free and work is due, or the target would see less depth than was
//!   asked for;
//! * slots are used first-in first-out, or a batch limit would starve some of them;
//! * a transfer that came out shorter than asked is a failed operation.
//!
//! The generator's own cost is the time from the stamp at the return of one [`IoEngine::enter`] to
//! the stamp at the next call. Both are taken anyway, for the operations, so counting it is free;
//! processor time that the kernel splits by sampling could not show it.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::num::to_usize;
use plimsoll_core::op::{OpKind, OpRequest, OpSample, OpSampleBatch};
use plimsoll_core::units::Nanos;

use crate::byte_budget::ByteBudget;
use crate::clock::RunClock;
use crate::engine::{IoCompletion, IoEngine};
use crate::error::{EngineError, FileShortage};
use crate::occupancy::QueueOccupancy;
use crate::recorder::{IntervalListener, SampleRecorder};
use crate::source::{NextRequest, RequestSource};

/// Most operations per submission. 8 to 16 cost the same per operation; more would show in the
/// service time of the last ones.
pub const BATCH: usize = 16;

/// The same where data moves: the target has the first ones while the others are put together. At
/// depth 32 a disk did 6 % more a second than with 16, at no higher cost of an operation.
pub const BATCH_OF_DATA: usize = plimsoll_core::workload::blocks::BATCH_DEFAULT as usize;

/// Longest wait: how soon a stop is noticed.
const WAIT_MAX: Nanos = Nanos(25_000_000);

/// When a run is stopped, an operation in flight for at least this long counts as unfinished.
const HUNG: Nanos = Nanos(1_000_000_000);

/// How long operations in flight are waited for after a stop.
const STOP_DRAIN: Nanos = Nanos(80_000_000);

/// Of a wait for a due request the last tenth is spent spinning, so that pacing costs at most a
/// tenth of a processor, but at least [`SPIN_MIN`] (a wake-up from a short sleep) and at most
/// [`SPIN_MAX`] (a wake-up of an idle virtual processor took 40 to 70 µs where it was measured).
const SPIN_SHARE: u64 = 10;
const SPIN_MIN: Nanos = Nanos(20_000);
const SPIN_MAX: Nanos = Nanos(200_000);

/// When the first operations of a run, this number of them, all fail, the run is given up. When as many
/// fail in a row later on, the run ends with the results up to then.
const HOPELESS: u64 = 100;

/// The fill byte that a checked read is to replace: no stamp, and not the zeros of a hole.
const UNREAD: u8 = 0xa5;

/// The error a source gets for operations still in flight when waiting was given up.
const ETIMEDOUT: i32 = rustix::io::Errno::TIMEDOUT.raw_os_error();
/// Recorded for transfers cut short.
const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
/// The errors of a full target.
const ENOSPC: i32 = rustix::io::Errno::NOSPC.raw_os_error();
const EDQUOT: i32 = rustix::io::Errno::DQUOT.raw_os_error();

/// Bounds of a drive.
#[derive(Debug, Clone, Copy)]
pub struct DriverLimits<'a> {
    /// Nothing is submitted, and nothing in flight is waited for, after this time.
    pub deadline: Nanos,
    /// Whether the last part of a wait for a due request is spent spinning, because sleeps end
    /// late. Not in virtual time.
    pub spin: bool,
    /// Most operations per submission, where the workload says so. Neighbours of one batch may
    /// be merged by the kernel.
    pub batch: Option<usize>,
    /// Bytes after which nothing more is submitted, counted with other workers.
    pub bytes: Option<&'a ByteBudget>,
}

impl DriverLimits<'_> {
    /// How long late requests and those in flight may take after the end of a run.
    pub const DRAIN: Nanos = Nanos(10_000_000_000);

    /// Limits of a run that ends at `end` on a real clock.
    pub fn real(end: Nanos) -> Self {
        DriverLimits {
            deadline: end + Self::DRAIN,
            spin: true,
            batch: None,
            bytes: None,
        }
    }

    /// Limits of a run that ends at `end` in virtual time.
    pub fn simulated(end: Nanos) -> Self {
        DriverLimits {
            deadline: end + Self::DRAIN,
            spin: false,
            batch: None,
            bytes: None,
        }
    }
}

/// The failure on which a drive ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverAbort {
    /// When it was seen.
    pub at: Nanos,
    /// The failure.
    pub cause: DriverAbortCause,
}

/// The failure for which a drive was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverAbortCause {
    /// Operations that failed.
    Operation {
        /// The kind of the operation.
        kind: OpKind,
        /// Where.
        offset: u64,
        /// The system's error number.
        errno: i32,
        /// Failures in a row, this one included.
        in_a_row: u64,
    },
    /// The source found no file that it could go on with.
    File(FileShortage),
}

impl std::fmt::Display for DriverAbort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.at;
        let (kind, offset, errno, in_a_row) = match self.cause {
            DriverAbortCause::Operation {
                kind,
                offset,
                errno,
                in_a_row,
            } => (kind, offset, errno, in_a_row),
            DriverAbortCause::File(shortage) => {
                return write!(f, "ended after {at}: could not find {shortage}");
            }
        };
        let cause = io::Error::from_raw_os_error(errno);
        write!(f, "ended after {at} by {kind}")?;
        // Other kinds name a file, not a place in one.
        if matches!(kind, OpKind::Read | OpKind::Write | OpKind::Discard) {
            write!(f, " at offset {offset}")?;
        }
        write!(f, ": {cause}")?;
        if in_a_row > 1 {
            write!(f, " ({in_a_row} failures in a row)")?;
        }
        Ok(())
    }
}

/// How a drive ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverResult {
    /// When.
    pub at: Nanos,
    /// Whether `stop` was set, or the drive given up, before the source had ended.
    pub interrupted: bool,
    /// Why it was given up, if it was.
    pub gave_up: Option<DriverAbort>,
    /// Requests due before the end that were never submitted.
    pub not_submitted: u64,
    /// Operations that have ended, those of the warm-up included.
    pub done: u64,
}

#[derive(Debug, Clone, Copy)]
struct InFlightRequest {
    request: OpRequest,
    submitted_at: Nanos,
}

enum Gathered {
    /// The batch is full; more may be due.
    More,
    /// Another worker is in the way.
    InTheWay,
    /// The next request is due then.
    At(Nanos),
    /// No slot is free, or the source waits for an end.
    Blocked,
    /// The source has ended.
    Ended,
}

struct Driver<'a, C, S, B> {
    engine: &'a mut dyn IoEngine,
    clock: &'a C,
    source: &'a mut S,
    recorder: &'a mut SampleRecorder<B>,
    moves_data: bool,
    /// Most operations of a submission.
    batch_max: usize,
    flights: Vec<Option<InFlightRequest>>,
    free: VecDeque<u32>,
    occupancy: QueueOccupancy,
    batch: Vec<u32>,
    done: Vec<IoCompletion>,
    in_flight: usize,
    /// Drawn from the source, not yet due.
    pending: Option<(u32, OpRequest)>,
    /// The due time that is waited for, and when to stop sleeping for it.
    waking: (Nanos, Nanos),
    /// Everything due by then for which there was a slot has been queued.
    asked_at: Nanos,
    ended: bool,
    n_done: u64,
    n_failed: u64,
    /// `n_done` when the last operation failed, and how many had failed in a row by then.
    last_failure: (u64, u64),
    gave_up: Option<DriverAbort>,
    /// Whether the bytes of the run are spent, so that nothing more begins.
    is_spent: bool,
}

/// Runs `source` on `engine` until it ends, `stop` is set, the deadline has passed or the target is
/// full or fails all the time.
///
/// # Errors
/// When the source cannot go on, the engine is broken or lacks an operation, or the first 100
/// operations all fail.
pub fn drive<C: RunClock, S: RequestSource, B: IntervalListener>(
    engine: &mut dyn IoEngine,
    clock: &C,
    source: &mut S,
    recorder: &mut SampleRecorder<B>,
    limits: DriverLimits<'_>,
    stop: &AtomicBool,
) -> Result<DriverResult, EngineError> {
    let slots = engine.slots();
    let mut driver = Driver {
        moves_data: engine.moves_data(),
        batch_max: match limits.batch {
            Some(most) => most.max(1),
            None if engine.moves_data() => BATCH_OF_DATA,
            None => BATCH,
        },
        engine,
        clock,
        source,
        recorder,
        flights: vec![None; slots as usize],
        free: (0..slots).collect(),
        occupancy: QueueOccupancy::default(),
        batch: Vec::with_capacity(BATCH),
        done: Vec::with_capacity(slots as usize),
        in_flight: 0,
        pending: None,
        waking: (Nanos(0), Nanos(0)),
        asked_at: Nanos(0),
        ended: false,
        n_done: 0,
        n_failed: 0,
        last_failure: (0, 0),
        gave_up: None,
        is_spent: false,
    };
    let interrupted = driver.run(limits, stop)?;
    Ok(driver.finish(interrupted))
}

impl<C: RunClock, S: RequestSource, B: IntervalListener> Driver<'_, C, S, B> {
    /// Returns whether it was interrupted. Operations may be left in flight.
    fn run(&mut self, limits: DriverLimits<'_>, stop: &AtomicBool) -> Result<bool, EngineError> {
        let mut now = self.clock.now();
        // Ends with the source, the stop or the deadline.
        loop {
            self.recorder.tick(now);
            if stop.load(Ordering::Relaxed) || self.gave_up.is_some() {
                self.drain(now, now + STOP_DRAIN)?;
                return Ok(true);
            }
            if now >= limits.deadline {
                return Ok(false);
            }
            if limits.bytes.is_some_and(ByteBudget::is_spent) {
                self.spend();
            }
            let returned = now;
            let gathered = self.gather(&mut now)?;
            self.asked_at = now;
            let handed_over = self.hand_over();
            let wait = match gathered {
                Gathered::InTheWay if self.in_flight == 0 => {
                    now = self.let_others_go(returned, now);
                    continue;
                }
                Gathered::More | Gathered::InTheWay => None,
                Gathered::Ended if self.in_flight == 0 => return Ok(false),
                Gathered::Blocked | Gathered::Ended => Some(WAIT_MAX),
                Gathered::At(due) => {
                    let sleep = self.wake_at(due, now, limits.spin).since(now);
                    (sleep > Nanos(0)).then_some(sleep.min(WAIT_MAX))
                }
            };
            let looked = matches!(gathered, Gathered::At(_));
            let left = match handed_over {
                Some(at) => at,
                // The look at the clock that found nothing due.
                None if looked => now,
                None => self.clock.now(),
            };
            let spinning = looked && wait.is_none();
            self.engine.enter(wait)?;
            now = self.collect()?;
            if let Some(bytes) = limits.bytes {
                bytes.add(self.recorder.take_moved());
            }
            if spinning && handed_over.is_none() {
                let idle = self.done.is_empty();
                self.recorder
                    .pacing(returned, if idle { now } else { left });
            } else {
                self.recorder.outside(returned, left);
            }
        }
    }

    /// The bytes of the run are spent: what is in flight ends it.
    #[cold]
    fn spend(&mut self) {
        self.pending = None;
        self.ended = true;
        self.is_spent = true;
    }

    /// Waits for other workers, and returns when that was over. Nothing is in flight meanwhile.
    fn let_others_go(&mut self, returned: Nanos, now: Nanos) -> Nanos {
        let left = self.clock.now();
        self.recorder.outside(returned, left);
        self.source.wait_for_others(now);
        self.clock.now()
    }

    /// When to wake for a request due at `due`: decided once, when it is first waited for, or a
    /// wake-up inside the spinning part would put the worker to sleep again.
    fn wake_at(&mut self, due: Nanos, now: Nanos, spin: bool) -> Nanos {
        if self.waking.0 != due {
            let tenth = Nanos(due.since(now).0 / SPIN_SHARE);
            let spinning = if spin {
                tenth.clamp(SPIN_MIN, SPIN_MAX)
            } else {
                Nanos(0)
            };
            self.waking = (due, due.since(spinning));
        }
        self.waking.1
    }

    #[inline]
    fn gather(&mut self, now: &mut Nanos) -> Result<Gathered, EngineError> {
        self.occupancy.goes_on(*now);
        while self.batch.len() < self.batch_max {
            if self.pending.is_some() {
                if let Some(gathered) = self.offer_pending(now)? {
                    return Ok(gathered);
                }
                continue;
            }
            if self.ended {
                return Ok(Gathered::Ended);
            }
            let Some(slot) = self.free.pop_front() else {
                return Ok(Gathered::Blocked);
            };
            match self.source.next(*now, slot) {
                Ok(NextRequest::Request(request)) => {
                    if let Some(gathered) = self.offer(slot, request, now)? {
                        return Ok(gathered);
                    }
                }
                Ok(NextRequest::Until(time)) => {
                    self.free.push_front(slot);
                    *now = self.clock.now();
                    if time > *now {
                        self.hold(*now, time);
                        return Ok(Gathered::At(time));
                    }
                }
                Ok(answer) => {
                    self.free.push_front(slot);
                    if matches!(answer, NextRequest::Wait) {
                        self.hold(*now, Nanos(u64::MAX));
                    }
                    return Ok(self.no_request(answer));
                }
                Err(EngineError::NoFile(shortage)) => {
                    self.free.push_front(slot);
                    let (at, cause) = (*now, DriverAbortCause::File(shortage));
                    self.gave_up = self.gave_up.or(Some(DriverAbort { at, cause }));
                    return Ok(Gathered::More);
                }
                Err(error) => return Err(error),
            }
        }
        // A full batch that took the last slot is submitted and waited for in one call.
        if self.free.is_empty() && self.pending.is_none() {
            return Ok(Gathered::Blocked);
        }
        Ok(Gathered::More)
    }

    /// No request may be submitted before one in flight has ended, or before this time.
    #[inline]
    fn hold(&mut self, now: Nanos, until: Nanos) {
        if self.recorder.wants_queue_times() && self.in_flight + self.batch.len() > 0 {
            self.occupancy.holds(now, until);
        }
    }

    /// Queues `request` in `slot` if it is due; otherwise keeps it and says when it is.
    #[inline(always)]
    fn offer(
        &mut self,
        slot: u32,
        request: OpRequest,
        now: &mut Nanos,
    ) -> Result<Option<Gathered>, EngineError> {
        let due = request.intended_at;
        if due > *now {
            *now = self.clock.now();
            if due > *now {
                self.pending = Some((slot, request));
                return Ok(Some(Gathered::At(due)));
            }
        }
        self.queue(slot, request)?;
        Ok(None)
    }

    fn offer_pending(&mut self, now: &mut Nanos) -> Result<Option<Gathered>, EngineError> {
        match self.pending.take() {
            Some((slot, request)) => self.offer(slot, request, now),
            None => Ok(None),
        }
    }

    fn no_request(&mut self, answer: NextRequest) -> Gathered {
        match answer {
            NextRequest::End => {
                self.ended = true;
                Gathered::Ended
            }
            NextRequest::Again => Gathered::InTheWay,
            NextRequest::Wait | NextRequest::Until(_) | NextRequest::Request(_) => {
                assert!(
                    self.in_flight + self.batch.len() > 0,
                    "a source waits only for an operation in flight"
                );
                Gathered::Blocked
            }
        }
    }

    /// Puts the request together where it stays until it ends: copying one that has just been put
    /// together stalls the processor for longer than all else takes here.
    #[inline(always)]
    fn queue(&mut self, slot: u32, request: OpRequest) -> Result<(), EngineError> {
        let flight = self.flights[slot as usize].insert(InFlightRequest {
            request,
            submitted_at: Nanos(0),
        });
        let request = &flight.request;
        if self.moves_data && request.kind.is_write() {
            let bytes = &mut self.engine.buffer(slot)[..request.len as usize];
            self.source.fill(slot, request, bytes);
        }
        if S::CHECKS && self.moves_data && request.kind == OpKind::Read {
            // Or a read that moves nothing could find the right answer of an earlier operation.
            self.engine.buffer(slot)[..request.len as usize].fill(UNREAD);
        }
        if let Err(unsupported) = self.engine.queue(slot, request) {
            self.flights[slot as usize] = None;
            return Err(EngineError::Unsupported {
                kind: unsupported.0,
                engine: self.engine.describe(),
            });
        }
        self.batch.push(slot);
        Ok(())
    }

    /// Stamps the batch, if there is one; the engine is entered right after.
    #[inline]
    fn hand_over(&mut self) -> Option<Nanos> {
        if self.batch.is_empty() {
            return None;
        }
        let at = self.clock.now();
        self.in_flight += self.batch.len();
        for slot in self.batch.drain(..) {
            let flight = self.flights[slot as usize].as_mut();
            let flight = flight.expect("a queued slot has its request");
            flight.submitted_at = at;
            self.source.handed_over(&flight.request, at);
            if self.recorder.wants_queue_times() {
                let intended_at = flight.request.intended_at;
                let full = self.occupancy.full_between(intended_at, at);
                self.recorder.waited_for_room(intended_at, full);
            }
        }
        if self.free.is_empty() && self.pending.is_none() {
            self.occupancy.fills(at);
        }
        Some(at)
    }

    /// Records what has ended and returns the time at which that could be seen.
    #[inline]
    fn collect(&mut self) -> Result<Nanos, EngineError> {
        self.done.clear();
        let now = self.clock.now();
        self.engine.reap(&mut self.done);
        self.recorder.tick(now);
        self.recorder.ended(now, self.done.len());
        self.in_flight -= self.done.len();
        if !self.done.is_empty() {
            self.occupancy.has_room(now);
        }
        let mut alike = OpSampleBatch::NONE;
        for index in 0..self.done.len() {
            let IoCompletion { slot, result } = self.done[index];
            let flight = self.flights[slot as usize].take();
            let flight = flight.expect("what ends has been queued");
            let sample = OpSample {
                request: flight.request,
                submitted_at: flight.submitted_at,
                completed_at: now,
                result: whole(&flight.request, result),
            };
            self.n_done += 1;
            if self.source.is_counted(slot) {
                self.recorder.record(&sample, &mut alike);
            }
            if S::CHECKS && self.moves_data {
                self.source.check(slot, &sample, self.engine.buffer(slot));
            }
            self.source.completed(slot, &sample);
            if self.source.goes_on(slot) {
                self.free.push_front(slot);
            } else {
                self.free.push_back(slot);
            }
            if let Err(errno) = sample.result {
                let failed = self.failed(flight.request, now, errno);
                if failed.is_err() {
                    self.recorder.flush(&mut alike);
                    return failed.map(|()| now);
                }
            }
        }
        self.recorder.flush(&mut alike);
        Ok(now)
    }

    #[cold]
    fn failed(&mut self, request: OpRequest, at: Nanos, errno: i32) -> Result<(), EngineError> {
        self.n_failed += 1;
        let OpRequest { kind, offset, .. } = request;
        if self.n_failed == HOPELESS && self.n_done == HOPELESS {
            return Err(EngineError::AllFailed {
                count: HOPELESS,
                kind,
                source: io::Error::from_raw_os_error(errno),
            });
        }
        let (before, row) = self.last_failure;
        let in_a_row = if before + 1 == self.n_done {
            row + 1
        } else {
            1
        };
        self.last_failure = (self.n_done, in_a_row);
        // A full target does not get better: what follows would be the speed of refusals.
        let is_full = errno == ENOSPC || errno == EDQUOT;
        // While nothing has succeeded the run may yet turn out to be hopeless.
        let is_lost = in_a_row >= HOPELESS && self.n_failed < self.n_done;
        if (is_full || is_lost) && self.gave_up.is_none() {
            let cause = DriverAbortCause::Operation {
                kind,
                offset,
                errno,
                in_a_row,
            };
            self.gave_up = Some(DriverAbort { at, cause });
        }
        Ok(())
    }

    /// Waits for what is in flight, until `limit` at most.
    fn drain(&mut self, from: Nanos, limit: Nanos) -> Result<(), EngineError> {
        let mut now = from;
        while self.in_flight > 0 && now < limit {
            self.engine.enter(Some(limit.since(now).min(WAIT_MAX)))?;
            now = self.collect()?;
        }
        Ok(())
    }

    fn finish(mut self, interrupted: bool) -> DriverResult {
        let at = self.clock.now();
        // After a stop only what had hung before it is a failure; the rest was given no time.
        let patience = if interrupted { HUNG } else { Nanos(0) };
        self.give_up(at, patience);
        // Requests that became due while an interrupted run was ending are no failures.
        let is_cut = interrupted || self.is_spent;
        let due_before = if is_cut { self.asked_at } else { at };
        let recorder = &mut *self.recorder;
        let mut due = |at| recorder.due(at);
        let pending = self.pending.take().map(|(_, request)| request.intended_at);
        let pending_due = pending.filter(|at| *at < due_before);
        pending_due.iter().for_each(|at| due(*at));
        let left = self.source.left_before(due_before, &mut due);
        let not_submitted = u64::from(pending_due.is_some()) + left;
        DriverResult {
            at,
            interrupted: interrupted && !(self.ended && self.in_flight == 0),
            gave_up: self.gave_up,
            not_submitted,
            done: self.n_done,
        }
    }

    /// Counts operations that did not come back within `patience`, with their times until now:
    /// leaving them out would hide the worst.
    fn give_up(&mut self, at: Nanos, patience: Nanos) {
        for (slot, flight) in (0..).zip(&mut self.flights) {
            let Some(flight) = flight.take_if(|f| at.since(f.submitted_at) >= patience) else {
                continue;
            };
            let sample = OpSample {
                request: flight.request,
                submitted_at: flight.submitted_at,
                completed_at: at,
                result: Err(ETIMEDOUT),
            };
            if self.source.is_counted(slot) {
                self.recorder.unfinished(&sample);
            }
            self.source.given_up(slot, &sample);
        }
    }
}

/// The result, with a transfer cut short turned into a failure.
#[inline]
fn whole(request: &OpRequest, result: Result<u64, i32>) -> Result<u64, i32> {
    let transfer = matches!(request.kind, OpKind::Read | OpKind::Write | OpKind::Append);
    match result {
        Ok(bytes) if transfer && to_usize(bytes) != request.len as usize => Err(EIO),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kinds_that_have_a_place_are_told_with_one() {
        for (kind, expect) in [
            (OpKind::Write, "by write at offset 4096: "),
            (OpKind::Append, "by append: "),
            (OpKind::Fsync, "by fsync: "),
        ] {
            let cause = DriverAbortCause::Operation {
                kind,
                offset: 4096,
                errno: rustix::io::Errno::NOSPC.raw_os_error(),
                in_a_row: 1,
            };
            let at = Nanos::SECOND;
            let end = DriverAbort { at, cause };
            let text = end.to_string();
            assert!(text.contains(expect), "{text}");
        }
    }
}
