// SPDX-License-Identifier: Apache-2.0
//! The engine of one file of an NFS server: as many calls in flight as there are slots, on one
//! connection.
//!
//! The tasks of a kernel's client are done here: a broken connection is made again and unanswered
//! calls are sent again under the same numbers (reads, writes and commits may be carried out
//! twice); data that are not durable are kept, and written again when the server says, by another
//! verifier, that it may have forgotten them. There is no cache, so every operation is a call.
//! Unlike other engines this one has a clock: for the limits of its waits, never for stamps.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::num::saturating_u32;
use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_nfs::wire::{self, RpcReply, RpcRequest};
use plimsoll_nfs::{NfsFileHandle, NfsMount, RpcConnection, StableHow};
use rustix::io::Errno;

use super::kept::NfsUncommittedWrites;
use crate::clock::RunClock;
use crate::engine::{IoBuffer, IoCompletion, IoEngine, UnsupportedOp, buffers, fits};
use crate::error::EngineError;
use crate::sys::clock::HostClock;
use crate::sys::clock::nap;

/// Room for data that are not durable, in each of two halves: what a kernel lets a busy file have
/// dirty is of this size.
pub(super) const KEPT_BYTES: usize = 16 << 20;

/// Answers that make no sense, one after another, until the server is given up.
const NONSENSE_MAX: u32 = 3;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct NfsTimeouts {
    /// A call that is unanswered so long is sent again on a new connection.
    pub(super) call: Nanos,
    /// An operation ends with `ETIMEDOUT` so long after it was submitted.
    pub(super) operation: Nanos,
    /// Between two attempts to connect, and before a server that is busy is asked again.
    pub(super) pause: Nanos,
    /// A connection must be accepted so soon.
    pub(super) dial: Nanos,
}

impl NfsTimeouts {
    /// For servers that may be restarted, as those under test are.
    pub(super) const USUAL: NfsTimeouts = NfsTimeouts {
        call: Nanos(15_000_000_000),
        operation: Nanos(60_000_000_000),
        pause: Nanos(100_000_000),
        dial: Nanos(1_000_000_000),
    };
}

/// Where an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NfsOpState {
    Free,
    /// Waits to be sent.
    Held,
    /// Unanswered.
    Flying,
    /// A commit that came too late: ends when everything has been written again.
    AwaitsRepair,
}

/// A slot, or one of our own calls.
#[derive(Debug, Clone, Copy)]
struct NfsOpSlot {
    state: NfsOpState,
    kind: OpKind,
    offset: u64,
    len: u32,
    moved: u32,
    number: u32,
    /// The call that is in flight, and the bytes it asks for.
    ask: RpcRequest,
    asked: u32,
    /// When the operation was submitted, and its last call was sent.
    begun: Nanos,
    sent: Nanos,
    /// Whether its commit is for the older half of what is kept.
    seals: bool,
}

const IDLE: NfsOpSlot = NfsOpSlot {
    state: NfsOpState::Free,
    kind: OpKind::Read,
    offset: 0,
    len: 0,
    moved: 0,
    number: 0,
    ask: RpcRequest::Commit,
    asked: 0,
    begun: Nanos(0),
    sent: Nanos(0),
    seals: false,
};

/// The engine.
#[derive(Debug)]
pub(super) struct NfsEngine {
    share: Arc<NfsMount>,
    file: NfsFileHandle,
    stable: StableHow,
    line: Option<RpcConnection>,
    /// Not before then: the next attempt to connect, or to send.
    not_before: Nanos,
    clock: HostClock,
    patience: NfsTimeouts,
    buffers: Vec<IoBuffer>,
    /// One for each slot, then our own commit, then what writes again.
    jobs: Vec<NfsOpSlot>,
    held: VecDeque<u32>,
    ended: Vec<IoCompletion>,
    kept: NfsUncommittedWrites,
    verifier: Option<[u8; 8]>,
    /// The piece of what is kept that is written again next, while that is done.
    repair: Option<usize>,
    /// Whether a new connection is asked whether the server was restarted.
    probing: bool,
    /// The error of data that had been answered: the next fsync reports it.
    lost: Option<i32>,
    flying: u32,
    /// Makes the numbers of calls differ.
    round: u32,
    /// When the limits are looked at next.
    next_look: Nanos,
    nonsense: u32,
    len_max: u32,
}

impl NfsEngine {
    /// An engine of `slots` slots on `file`, for requests of at most `len_max` bytes, writing as
    /// durably as `stable`.
    pub(super) fn open(
        share: Arc<NfsMount>,
        file: NfsFileHandle,
        (slots, len_max): (u32, u32),
        stable: StableHow,
        seed: Seed,
        patience: NfsTimeouts,
    ) -> io::Result<Self> {
        let limits = share.limits();
        let call_bytes = len_max.min(limits.read_bytes.max(limits.write_bytes));
        let in_flight = slots as usize * call_bytes as usize;
        let kept = match stable {
            StableHow::Unstable => NfsUncommittedWrites::new(KEPT_BYTES, in_flight),
            StableHow::Data | StableHow::File => NfsUncommittedWrites::new(0, 0),
        };
        let mut pipe = NfsEngine {
            share,
            file,
            stable,
            line: None,
            not_before: Nanos(0),
            clock: HostClock::start(),
            patience,
            buffers: buffers(slots, len_max, seed),
            jobs: vec![IDLE; slots as usize + 2],
            held: VecDeque::with_capacity(slots as usize + 2),
            ended: Vec::with_capacity(slots as usize + 2),
            kept,
            verifier: None,
            repair: None,
            probing: false,
            lost: None,
            flying: 0,
            round: 0,
            next_look: Nanos(0),
            nonsense: 0,
            len_max: call_bytes,
        };
        pipe.line = Some(pipe.dial()?);
        Ok(pipe)
    }

    fn dial(&self) -> io::Result<RpcConnection> {
        let calls = saturating_u32(self.jobs.len() as u64);
        let limit = Duration::from_nanos(self.patience.dial.0);
        self.share.line(self.len_max, calls, limit)
    }

    fn own_commit(&self) -> u32 {
        saturating_u32(self.buffers.len() as u64)
    }

    fn rewriter(&self) -> u32 {
        self.own_commit() + 1
    }

    /// Sends what waits, as far as it may.
    fn send_held(&mut self, now: Nanos) {
        if now < self.not_before || self.line.is_none() {
            return;
        }
        for _ in 0..self.held.len() {
            let Some(slot) = self.held.pop_front() else {
                break;
            };
            let is_repair = slot == self.rewriter();
            // A new write could be overtaken by an old one that is sent again.
            let is_first = !self.probing || slot == self.own_commit();
            let may_go = is_repair || self.repair.is_none() && is_first;
            if !(may_go && self.send(slot, now)) {
                self.held.push_back(slot);
                if !is_repair && may_go {
                    self.commit_for_room(now);
                }
            }
        }
        self.begin_repair(now);
    }

    /// Sends the next call of an operation; `false` when there is no room for what it writes.
    fn send(&mut self, slot: u32, now: Nanos) -> bool {
        let Some(line) = &mut self.line else {
            return false;
        };
        let rewriter = self.buffers.len() + 1;
        let job = &mut self.jobs[slot as usize];
        let limits = self.share.limits();
        let (left, offset) = (job.len - job.moved, job.offset + u64::from(job.moved));
        let mut data: &[u8] = &[];
        (job.ask, job.asked) = match job.kind {
            OpKind::Read => {
                let len = left.min(limits.read_bytes);
                (RpcRequest::Read { offset, len }, len)
            }
            OpKind::Write if slot as usize == rewriter => {
                let piece = self.repair.and_then(|number| self.kept.piece(number));
                let Some((offset, bytes)) = piece else {
                    return false;
                };
                data = bytes;
                let stable = StableHow::File;
                (
                    RpcRequest::Write { offset, stable },
                    saturating_u32(data.len() as u64),
                )
            }
            OpKind::Write => {
                let len = left.min(limits.write_bytes);
                if self.stable == StableHow::Unstable && !self.kept.promise(len) {
                    return false;
                }
                let from = job.moved as usize;
                data = &self.buffers[slot as usize].bytes()[from..from + len as usize];
                let stable = self.stable;
                (RpcRequest::Write { offset, stable }, len)
            }
            _ => {
                job.seals = self.kept.seal();
                (RpcRequest::Commit, 0)
            }
        };
        if job.number == 0 {
            // The number identifies the slot.
            let count = saturating_u32(self.jobs.len() as u64);
            let last = u32::MAX / count - 1;
            self.round = if self.round < last { self.round + 1 } else { 1 };
            self.jobs[slot as usize].number = self.round * count + slot;
        }
        let job = &mut self.jobs[slot as usize];
        (job.state, job.sent) = (NfsOpState::Flying, now);
        line.queue(job.number, &self.file, job.ask, data);
        self.flying += 1;
        true
    }

    /// The room for data that are not durable is used up: a commit of our own makes some.
    fn commit_for_room(&mut self, now: Nanos) {
        let own = self.own_commit();
        if self.jobs[own as usize].state == NfsOpState::Free && self.repair.is_none() {
            self.start_own(own, OpKind::Fsync, now);
        }
    }

    fn start_own(&mut self, slot: u32, kind: OpKind, now: Nanos) {
        self.jobs[slot as usize] = NfsOpSlot {
            state: NfsOpState::Held,
            kind,
            begun: now,
            ..IDLE
        };
        if !self.send(slot, now) {
            self.held.push_back(slot);
        }
    }

    /// Writes again what is kept, one piece after another, once nothing else is on its way.
    fn begin_repair(&mut self, now: Nanos) {
        if self.repair.is_some() && self.flying == 0 {
            let rewriter = self.rewriter();
            if self.jobs[rewriter as usize].state != NfsOpState::Free {
                return;
            }
            if self
                .repair
                .is_some_and(|number| self.kept.piece(number).is_some())
            {
                self.start_own(rewriter, OpKind::Write, now);
            } else {
                self.end_repair(Ok(0));
            }
        }
    }

    fn end_repair(&mut self, result: Result<u64, i32>) {
        self.repair = None;
        self.kept.clear();
        let mut told = false;
        for slot in 0..self.jobs.len() {
            if self.jobs[slot].state == NfsOpState::AwaitsRepair {
                told |= slot < self.buffers.len();
                self.end(saturating_u32(slot as u64), result);
            }
        }
        if let (Err(errno), false) = (result, told) {
            self.lost = Some(errno);
        }
    }

    /// The server's write verifier; a changed one means that it may have forgotten data.
    fn note(&mut self, verifier: [u8; 8]) {
        let before = self.verifier.replace(verifier);
        if before.is_some_and(|before| before != verifier) && !self.kept.is_empty() {
            self.kept.unseal();
            if self.repair.is_none() {
                self.repair = Some(0);
            }
        }
    }

    fn end(&mut self, slot: u32, result: Result<u64, i32>) {
        let job = &mut self.jobs[slot as usize];
        let kind = job.kind;
        job.state = NfsOpState::Free;
        if (slot as usize) < self.buffers.len() {
            let result = match (kind, self.lost) {
                (OpKind::Fsync, Some(errno)) => {
                    self.lost = None;
                    Err(errno)
                }
                _ => result,
            };
            self.ended.push(IoCompletion { slot, result });
        } else {
            self.probing &= slot != self.own_commit();
            self.lost = result.err().or(self.lost);
        }
    }

    /// More of an operation is to be done, by another call.
    fn hold(&mut self, slot: u32) {
        let job = &mut self.jobs[slot as usize];
        (job.state, job.number) = (NfsOpState::Held, 0);
        self.held.push_back(slot);
    }

    /// Takes all answers that have arrived.
    fn take_answers(&mut self, now: Nanos) -> io::Result<()> {
        // Ends when what has arrived is taken; nothing more is fetched here.
        loop {
            let Some(line) = &mut self.line else {
                return Ok(());
            };
            let Some((number, record)) = line.take()? else {
                return Ok(());
            };
            let slot = number as usize % self.jobs.len();
            let job = &mut self.jobs[slot];
            if job.state != NfsOpState::Flying || job.number != number {
                return Err(wire::RpcReplyError("it answered a request that was not sent").into());
            }
            let answer = wire::answer(record, job.ask, job.asked)?;
            let outcome = match answer {
                RpcReply::Read { data, end } => {
                    let from = job.moved as usize;
                    let buffer = self.buffers[slot].bytes_mut();
                    buffer[from..from + data.len()].copy_from_slice(data);
                    NfsReplySummary::Moved(data.len(), end || data.is_empty())
                }
                RpcReply::Written {
                    count,
                    committed,
                    verifier,
                } => NfsReplySummary::Written(count, committed, verifier),
                RpcReply::Committed { verifier } => NfsReplySummary::Committed(verifier),
                RpcReply::Failed(errno) => NfsReplySummary::Failed(errno),
            };
            self.nonsense = 0;
            self.flying -= 1;
            self.took(saturating_u32(slot as u64), outcome, now);
        }
    }

    fn took(&mut self, slot: u32, outcome: NfsReplySummary, now: Nanos) {
        let job = self.jobs[slot as usize];
        match outcome {
            NfsReplySummary::Failed(errno) => self.failed(slot, errno, now),
            NfsReplySummary::Moved(len, is_last) => {
                let job = &mut self.jobs[slot as usize];
                job.moved += saturating_u32(len as u64);
                if is_last || job.moved == job.len {
                    let moved = job.moved.into();
                    self.end(slot, Ok(moved));
                } else {
                    self.hold(slot);
                }
            }
            NfsReplySummary::Written(count, committed, verifier) if slot == self.rewriter() => {
                self.verifier = Some(verifier);
                let short = count < job.asked || committed == StableHow::Unstable;
                self.jobs[slot as usize].state = NfsOpState::Free;
                match self.repair {
                    Some(_) if short => self.end_repair(Err(Errno::IO.raw_os_error())),
                    Some(piece) => self.repair = Some(piece + 1),
                    None => {}
                }
                self.begin_repair(now);
            }
            NfsReplySummary::Written(count, committed, verifier) => {
                self.written(slot, count, committed, verifier);
            }
            NfsReplySummary::Committed(verifier) => {
                self.probing &= slot != self.own_commit();
                self.note(verifier);
                if self.repair.is_some() {
                    self.jobs[slot as usize].state = NfsOpState::AwaitsRepair;
                    return;
                }
                if job.seals {
                    self.kept.committed();
                }
                self.end(slot, Ok(0));
            }
        }
    }

    fn written(&mut self, slot: u32, count: u32, committed: StableHow, verifier: [u8; 8]) {
        let job = self.jobs[slot as usize];
        let unstable = self.stable == StableHow::Unstable;
        self.note(verifier);
        if unstable {
            self.kept.release(job.asked);
        }
        let broken_word = !unstable && committed == StableHow::Unstable;
        if count == 0 || broken_word {
            self.end(slot, Err(Errno::IO.raw_os_error()));
            return;
        }
        if committed == StableHow::Unstable {
            let from = job.moved as usize;
            let data = &self.buffers[slot as usize].bytes()[from..from + count as usize];
            self.kept.promise(count);
            self.kept.keep(job.offset + u64::from(job.moved), data);
        }
        let job = &mut self.jobs[slot as usize];
        job.moved += count;
        if job.moved == job.len {
            let moved = job.moved.into();
            self.end(slot, Ok(moved));
        } else {
            self.hold(slot);
        }
    }

    fn failed(&mut self, slot: u32, errno: i32, now: Nanos) {
        self.forget_call(slot);
        if errno == Errno::AGAIN.raw_os_error() {
            // The server is busy (it may just have come back), and wants to be asked again.
            self.not_before = now + self.patience.pause;
            self.hold(slot);
        } else if slot == self.rewriter() {
            self.jobs[slot as usize].state = NfsOpState::Free;
            self.end_repair(Err(errno));
        } else {
            self.end(slot, Err(errno));
        }
    }

    /// A call will not be answered, or was in vain: what was set apart for it is given back.
    fn forget_call(&mut self, slot: u32) {
        let rewriter = self.rewriter();
        let job = &mut self.jobs[slot as usize];
        if job.kind == OpKind::Write && slot != rewriter && self.stable == StableHow::Unstable {
            self.kept.release(job.asked);
        }
        if std::mem::take(&mut job.seals) {
            self.kept.unseal();
        }
    }

    /// The connection is of no more use: what is unanswered is sent again on the next.
    fn give_up_line(&mut self, now: Nanos) {
        self.line = None;
        self.not_before = now;
        let mut again: Vec<u32> = (0..saturating_u32(self.jobs.len() as u64))
            .filter(|slot| self.jobs[*slot as usize].state == NfsOpState::Flying)
            .collect();
        again.sort_by_key(|slot| self.jobs[*slot as usize].begun);
        for slot in again.into_iter().rev() {
            self.forget_call(slot);
            self.jobs[slot as usize].state = NfsOpState::Held;
            self.held.push_front(slot);
        }
        self.flying = 0;
    }

    fn connect(&mut self, now: Nanos) {
        if self.line.is_some() || now < self.not_before {
            return;
        }
        match self.dial() {
            Ok(line) => {
                self.line = Some(line);
                // A read must not see what a restarted server has fallen back to: it is asked
                // first whether it was.
                self.probing = !self.kept.is_empty() && self.repair.is_none();
                if self.probing {
                    self.commit_for_room(now);
                }
            }
            // Tried again until the operations have waited too long.
            Err(_) => self.not_before = now + self.patience.pause,
        }
    }

    /// Ends what has waited too long, and the connection on which nothing comes.
    fn look_at_limits(&mut self, now: Nanos) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + self.patience.pause;
        let busy = |job: &&NfsOpSlot| job.state != NfsOpState::Free;
        let is_late = |job: &NfsOpSlot, since: Nanos, limit: Nanos| {
            job.state != NfsOpState::Free && now.since(since) > limit
        };
        let silent = self.jobs.iter().filter(busy).any(|job| {
            job.state == NfsOpState::Flying && is_late(job, job.sent, self.patience.call)
        });
        if silent {
            self.give_up_line(now);
        }
        for slot in 0..saturating_u32(self.jobs.len() as u64) {
            let job = self.jobs[slot as usize];
            if !is_late(&job, job.begun, self.patience.operation) {
                continue;
            }
            if job.state == NfsOpState::Flying {
                // A new connection discards the reply to this call, which may still arrive.
                self.give_up_line(now);
            }
            self.held.retain(|other| *other != slot);
            let timed_out = Err(Errno::TIMEDOUT.raw_os_error());
            if slot == self.rewriter() {
                self.jobs[slot as usize].state = NfsOpState::Free;
                self.end_repair(timed_out);
            } else {
                self.end(slot, timed_out);
            }
        }
    }

    /// One turn of the connection.
    fn turn(&mut self, now: Nanos) -> Result<(), EngineError> {
        self.connect(now);
        self.send_held(now);
        let Some(line) = &mut self.line else {
            return Ok(());
        };
        let turned = line.turn().and_then(|()| self.take_answers(now));
        let Err(error) = turned else {
            // Held calls that may go after these answers.
            self.send_held(now);
            return Ok(());
        };
        if error.kind() == io::ErrorKind::InvalidData {
            self.nonsense += 1;
            if self.nonsense >= NONSENSE_MAX {
                let doing = format!("speak NFS with {}", self.share.address());
                return Err(EngineError::Io {
                    doing,
                    source: error,
                });
            }
        }
        self.give_up_line(now);
        Ok(())
    }

    fn wait(&mut self, time: Nanos, now: Nanos) -> Result<(), EngineError> {
        let pause = match &self.line {
            // Something held may go before anything arrives.
            _ if now < self.not_before => time.min(self.not_before.since(now)),
            Some(line) if self.flying > 0 || line.has_unsent() => {
                let waited = line.wait(Duration::from_nanos(time.0));
                return waited.map_err(EngineError::doing(format!(
                    "wait for {}",
                    self.share.address()
                )));
            }
            _ if self.held.is_empty() => time,
            _ => Nanos(0),
        };
        nap(pause);
        Ok(())
    }
}

/// An answer without its bytes.
#[derive(Clone, Copy)]
enum NfsReplySummary {
    /// Number of bytes that were read, and whether there are no more.
    Moved(usize, bool),
    Written(u32, StableHow, [u8; 8]),
    Committed([u8; 8]),
    Failed(i32),
}

impl IoEngine for NfsEngine {
    fn describe(&self) -> String {
        let how = match self.stable {
            StableHow::Unstable => "unstable writes, made durable by COMMIT",
            StableHow::Data | StableHow::File => "every write durable",
        };
        format!("NFSv3 in this program, one connection ({how})")
    }

    fn slots(&self) -> u32 {
        saturating_u32(self.buffers.len() as u64)
    }

    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        let is_free = self.jobs[slot as usize].state == NfsOpState::Free;
        assert!(is_free, "the slot is free");
        self.buffers[slot as usize].bytes_mut()
    }

    fn queue(&mut self, slot: u32, request: &OpRequest) -> Result<(), UnsupportedOp> {
        let is_free = self.jobs[slot as usize].state == NfsOpState::Free;
        assert!(is_free, "the slot is free");
        let room = self.buffers[slot as usize].bytes().len();
        assert!(fits(request, room), "the request fits its buffer");
        let kind = match request.kind {
            OpKind::Read | OpKind::Write => request.kind,
            // Closing makes durable what the program wrote, as it does in a kernel's client.
            OpKind::Fsync | OpKind::Fdatasync | OpKind::SyncAll | OpKind::Close => OpKind::Fsync,
            other => return Err(UnsupportedOp(other)),
        };
        self.jobs[slot as usize] = NfsOpSlot {
            state: NfsOpState::Held,
            kind,
            offset: request.offset,
            len: request.len,
            begun: Nanos::MAX,
            ..IDLE
        };
        self.held.push_back(slot);
        Ok(())
    }

    fn enter(&mut self, wait: Option<Nanos>) -> Result<(), EngineError> {
        let now = self.clock.now();
        for job in &mut self.jobs {
            if job.begun == Nanos::MAX {
                job.begun = now;
            }
        }
        self.turn(now)?;
        if let (Some(time), true) = (wait, self.ended.is_empty()) {
            self.wait(time, now)?;
            let now = self.clock.now();
            self.look_at_limits(now);
            self.turn(now)?;
        }
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<IoCompletion>) {
        done.append(&mut self.ended);
    }
}

#[cfg(test)]
mod tests;
