// SPDX-License-Identifier: Apache-2.0
//! A session: fills its blocks, then writes and reads them at a steady rate.
//!
//! The order that everything rests on: a write is in the ledger, durably, before it is submitted;
//! its end is in the ledger, durably, before its block is used again and before a read is held
//! against it. Both wait for the ledger while the next probe is not yet due, so that the ledger's
//! disk does not make probes late unless it is slower than they are.
//!
//! One operation at a time works on a block. Which write is the newest is always known then, until
//! one fails or is given up: that one may be there from then on, or not.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_core::data_check::BadBlocks;
use plimsoll_core::ledger::{
    LedgerBadBlock, LedgerCompletion, LedgerCompletionStatus, LedgerDurability, LedgerEntry,
    LedgerHeader, LedgerSession, LedgerWriteIntent,
};
use plimsoll_core::num::{saturating_u32, to_usize};
use plimsoll_core::op::{OpKind, OpRequest, OpSample};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

use super::book::LedgerWriter;
use super::options::FILL_BYTES;
use plimsoll_engine::EngineError;
use plimsoll_engine::source::{NextRequest, RequestSource};
use plimsoll_engine::verify::{
    DataCheckRegister, DataCheckSectorState, DataCheckSnapshot, DataCheckStampOrigin, SECTOR_BYTES,
    read_sector,
};

/// Blocks remembered as written lately, to be read soon.
const RECENT_MAX: usize = 32;

/// Counters of a session, read by others while it works.
#[derive(Debug, Default)]
pub(super) struct LedgerSessionCounters {
    pub(super) writes: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) given_up: AtomicU64,
    pub(super) reopened: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The state of a slot.
#[derive(Debug, Default)]
struct LedgerProbeSlot {
    /// Whether an operation is on its way.
    is_busy: bool,
    op: u64,
    version: u64,
    offset: u64,
    intended_at: Nanos,
    kind: Option<OpKind>,
    /// Blocks of the file.
    blocks: Range<usize>,
    /// Legal contents of the blocks when their read began.
    known: Vec<DataCheckSnapshot>,
    /// Blocks that a read judged.
    found: u64,
}

/// A write whose end is in the ledger, and perhaps not yet durable there.
#[derive(Debug)]
struct Unsettled {
    blocks: Range<usize>,
    version: u64,
    ok: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LedgerProbeStage {
    /// Writes every block once.
    Fill {
        next: u64,
    },
    Probe,
    /// Waits for what is in flight, and makes it durable.
    Last,
    End,
}

/// The source of a session's operations.
pub(super) struct LedgerProber<'a> {
    book: &'a LedgerWriter,
    known: Arc<DataCheckRegister>,
    campaign: LedgerHeader,
    session: LedgerSession,
    counters: Arc<LedgerSessionCounters>,
    rng: Rng,
    stage: LedgerProbeStage,
    epoch: u32,
    probing: (Nanos, Nanos),
    /// Probes drawn so far.
    ticks: u64,
    next_op: u64,
    slots: Vec<LedgerProbeSlot>,
    in_flight: u32,
    /// By block of the file, counted from the session's first.
    busy: Vec<bool>,
    recent: VecDeque<usize>,
    unsettled: Vec<Unsettled>,
    /// Writes since the last sync was submitted.
    unsynced: u32,
    is_syncing: bool,
    bad: BadBlocks,
}

impl<'a> LedgerProber<'a> {
    pub(super) fn new(
        book: &'a LedgerWriter,
        known: Arc<DataCheckRegister>,
        campaign: LedgerHeader,
        session: LedgerSession,
        counters: Arc<LedgerSessionCounters>,
    ) -> Self {
        let seed = Seed(campaign.id).derive("ledger session", u64::from(session.number));
        let blocks = session.bytes / u64::from(campaign.block_bytes);
        LedgerProber {
            book,
            known,
            campaign,
            counters,
            rng: Rng::new(seed),
            stage: LedgerProbeStage::Fill { next: 0 },
            epoch: 0,
            probing: (Nanos(0), Nanos(0)),
            ticks: 0,
            next_op: 0,
            slots: Vec::new(),
            in_flight: 0,
            busy: vec![false; to_usize(blocks)],
            recent: VecDeque::with_capacity(RECENT_MAX + 1),
            unsettled: Vec::new(),
            unsynced: 0,
            is_syncing: false,
            bad: BadBlocks::default(),
            session,
        }
    }

    /// The blocks are full: probes start from then on, before the other time.
    pub(super) fn probe(&mut self, from: Nanos, until: Nanos) {
        (self.stage, self.probing) = (LedgerProbeStage::Probe, (from, until));
    }

    /// The file or device was opened, for the `epoch`-th time from 0, with `slots` slots.
    pub(super) fn opened(&mut self, epoch: u32, slots: u32, at: Nanos) {
        self.epoch = epoch;
        self.slots
            .resize_with(slots as usize, LedgerProbeSlot::default);
        if self.stage == LedgerProbeStage::Probe || self.stage == LedgerProbeStage::Last {
            let session = self.session.number;
            self.book
                .append(&LedgerEntry::Opened { session, epoch, at });
        }
        if epoch > 0 {
            add(&self.counters.reopened);
        }
    }

    /// Whether it has nothing more to do.
    pub(super) fn is_finished(&self) -> bool {
        self.stage == LedgerProbeStage::End
    }

    /// Bad blocks that its reads have found.
    pub(super) fn bad(&self) -> BadBlocks {
        self.bad
    }

    /// Requests still in flight will not be answered. When all `is_over`, requests that were drawn ahead and
    /// are not yet due are forgotten: none was submitted.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub(super) fn abandon(&mut self, at: Nanos, is_over: bool) -> Result<(), EngineError> {
        for slot in 0..self.slots.len() {
            let state = &self.slots[slot];
            let is_due = !is_over || state.intended_at <= at;
            if state.is_busy && is_due {
                self.end(slot, (at, at), LedgerCompletionStatus::GivenUp);
            }
        }
        self.settle()
    }

    /// Ends that have come count as soon as they are durable in the ledger.
    fn settle(&mut self) -> Result<(), EngineError> {
        self.book.sync()?;
        for ended in std::mem::take(&mut self.unsettled) {
            let Unsettled {
                blocks,
                version,
                ok,
            } = ended;
            self.free(&blocks);
            self.known.end_write(blocks, version, ok);
            if ok {
                add(&self.counters.writes);
            }
        }
        Ok(())
    }

    fn first_block(&self) -> usize {
        to_usize(self.session.offset / u64::from(self.campaign.block_bytes))
    }

    fn own(&self, blocks: &Range<usize>) -> Range<usize> {
        let first = self.first_block();
        blocks.start - first..blocks.end - first
    }

    fn free(&mut self, blocks: &Range<usize>) {
        let own = self.own(blocks);
        self.busy[own].fill(false);
    }

    fn begin(&mut self, slot: u32, request: OpRequest) -> OpRequest {
        let state = &mut self.slots[slot as usize];
        state.is_busy = true;
        state.op = self.next_op;
        state.kind = Some(request.kind);
        (state.offset, state.intended_at) = (request.offset, request.intended_at);
        (state.version, state.found) = (0, 0);
        self.next_op += 1;
        self.in_flight += 1;
        if request.kind == OpKind::Fsync {
            return request;
        }
        let blocks = self.known.blocks_of(request.offset, request.len);
        let blocks = blocks.expect("sessions work on whole blocks of their own");
        let own = self.own(&blocks);
        self.busy[own].fill(true);
        let state = &mut self.slots[slot as usize];
        if request.kind == OpKind::Read {
            self.known.before(blocks.clone(), &mut state.known);
        }
        state.blocks = blocks;
        request
    }

    /// A write is in the ledger before it is submitted.
    fn write(
        &mut self,
        slot: u32,
        offset: u64,
        len: u32,
        at: Nanos,
    ) -> Result<NextRequest, EngineError> {
        let request = self.begin(slot, request(OpKind::Write, offset, len, at));
        let state = &mut self.slots[slot as usize];
        state.version = self.known.begin(state.blocks.clone());
        self.book.append(&LedgerEntry::Issued(LedgerWriteIntent {
            session: self.session.number,
            op: state.op,
            offset,
            len,
            version: state.version,
            intended_at: at,
        }));
        self.settle()?;
        self.unsynced += 1;
        Ok(NextRequest::Request(request))
    }

    fn sync(&mut self, slot: u32, at: Nanos) -> NextRequest {
        self.unsynced = 0;
        self.is_syncing = true;
        NextRequest::Request(self.begin(slot, request(OpKind::Fsync, 0, 0, at)))
    }

    fn fill_blocks(
        &mut self,
        slot: u32,
        next: u64,
        now: Nanos,
    ) -> Result<NextRequest, EngineError> {
        let left = self.session.bytes - next;
        if left == 0 {
            return Ok(self.last(slot, now));
        }
        let len = FILL_BYTES - FILL_BYTES % self.campaign.block_bytes;
        let len = len.max(self.campaign.block_bytes);
        let len = len.min(saturating_u32(left));
        self.stage = LedgerProbeStage::Fill {
            next: next + u64::from(len),
        };
        self.write(slot, self.session.offset + next, len, now)
    }

    /// The end of a stage: everything that was written is made durable.
    fn last(&mut self, slot: u32, now: Nanos) -> NextRequest {
        if self.in_flight > 0 {
            return NextRequest::Wait;
        }
        // Filling is made durable whatever is probed, so that there is something to start from.
        let is_fill = matches!(self.stage, LedgerProbeStage::Fill { .. });
        if self.unsynced > 0 && (is_fill || self.campaign.durability != LedgerDurability::EachWrite)
        {
            return self.sync(slot, now);
        }
        self.stage = LedgerProbeStage::End;
        NextRequest::End
    }

    fn probe_next(&mut self, slot: u32, now: Nanos) -> Result<NextRequest, EngineError> {
        self.settle()?;
        if let LedgerDurability::Fsync(count) = self.campaign.durability
            && self.unsynced >= count
            && !self.is_syncing
        {
            return Ok(self.sync(slot, now));
        }
        let (from, until) = self.probing;
        let is_write = self.ticks.is_multiple_of(2);
        let half = Nanos(self.ticks / 2 * self.session.write_period.0);
        let at = if is_write {
            from + half
        } else {
            from + half + Nanos(self.session.write_period.0 / 2)
        };
        if at >= until {
            self.stage = LedgerProbeStage::Last;
            return Ok(self.last(slot, now));
        }
        let Some(block) = self.block(is_write) else {
            return Ok(NextRequest::Wait);
        };
        self.ticks += 1;
        let len = self.campaign.block_bytes;
        let offset = self.session.offset + block as u64 * u64::from(len);
        if is_write {
            return self.write(slot, offset, len, at);
        }
        let request = request(OpKind::Read, offset, len, at);
        Ok(NextRequest::Request(self.begin(slot, request)))
    }

    /// A block without an operation in flight; for about half of the reads a recently written one.
    fn block(&mut self, is_write: bool) -> Option<usize> {
        if !is_write && self.rng.below(2) == 0 {
            let recent = self.recent.iter().position(|block| !self.busy[*block]);
            if let Some(block) = recent.and_then(|place| self.recent.remove(place)) {
                return Some(block);
            }
        }
        let blocks = self.busy.len();
        let first = to_usize(self.rng.below(blocks as u64));
        let free = (first..blocks).chain(0..first).find(|b| !self.busy[*b])?;
        if is_write {
            self.recent.push_back(free);
            if self.recent.len() > RECENT_MAX {
                self.recent.pop_front();
            }
        }
        Some(free)
    }

    /// Enters the end of what `slot` was doing.
    fn end(
        &mut self,
        slot: usize,
        (submitted_at, ended_at): (Nanos, Nanos),
        outcome: LedgerCompletionStatus,
    ) {
        let state = &mut self.slots[slot];
        let Some(kind) = state.kind.take() else {
            return;
        };
        state.is_busy = false;
        self.in_flight -= 1;
        let blocks = std::mem::take(&mut state.blocks);
        let version = if kind == OpKind::Read {
            state.found
        } else {
            state.version
        };
        self.book.append(&LedgerEntry::Ended(LedgerCompletion {
            session: self.session.number,
            op: state.op,
            kind,
            offset: state.offset,
            version,
            intended_at: state.intended_at,
            submitted_at,
            ended_at,
            outcome,
        }));
        let ok = outcome == LedgerCompletionStatus::Ok;
        match kind {
            OpKind::Write => self.unsettled.push(Unsettled {
                blocks,
                version,
                ok,
            }),
            OpKind::Read => {
                self.free(&blocks);
                if ok {
                    add(&self.counters.reads);
                }
            }
            _ => self.is_syncing = false,
        }
        match outcome {
            LedgerCompletionStatus::Ok => {}
            LedgerCompletionStatus::Error(_) => add(&self.counters.errors),
            LedgerCompletionStatus::GivenUp => add(&self.counters.given_up),
        }
    }
}

fn request(kind: OpKind, offset: u64, len: u32, intended_at: Nanos) -> OpRequest {
    OpRequest {
        kind,
        file: 0,
        offset,
        len,
        intended_at,
    }
}

impl RequestSource for LedgerProber<'_> {
    const CHECKS: bool = true;

    fn next(&mut self, now: Nanos, slot: u32) -> Result<NextRequest, EngineError> {
        match self.stage {
            LedgerProbeStage::Fill { next } => {
                self.settle()?;
                self.fill_blocks(slot, next, now)
            }
            LedgerProbeStage::Probe => self.probe_next(slot, now),
            LedgerProbeStage::Last => {
                self.settle()?;
                Ok(self.last(slot, now))
            }
            LedgerProbeStage::End => Ok(NextRequest::End),
        }
    }

    fn fill(&mut self, slot: u32, request: &OpRequest, bytes: &mut [u8]) {
        let state = &self.slots[slot as usize];
        let origin = DataCheckStampOrigin {
            writer: self.session.number,
            epoch: self.epoch,
            op: state.op,
            intended_at: self.campaign.began_at + request.intended_at,
        };
        self.known
            .stamp(request.offset, state.version, origin, bytes);
    }

    fn check(&mut self, slot: u32, sample: &OpSample, buffer: &[u8]) {
        if sample.request.kind != OpKind::Read || sample.result.is_err() {
            return;
        }
        let state = &mut self.slots[slot as usize];
        let bytes = &buffer[..sample.request.len as usize];
        if let DataCheckSectorState::Stamped(stamp) = read_sector(&bytes[..SECTOR_BYTES]) {
            state.found = stamp.version;
        }
        let finding = self.known.check(state.blocks.start, &state.known, bytes);
        if let Some(finding) = finding {
            self.bad.count(finding.flaw);
            self.book.append(&LedgerEntry::Found(LedgerBadBlock {
                session: self.session.number,
                offset: finding.offset,
                flaw: finding.flaw,
            }));
        }
    }

    fn completed(&mut self, slot: u32, sample: &OpSample) {
        let outcome = match sample.result {
            Ok(_) => LedgerCompletionStatus::Ok,
            Err(errno) => LedgerCompletionStatus::Error(errno),
        };
        let times = (sample.submitted_at, sample.completed_at);
        self.end(slot as usize, times, outcome);
    }

    fn given_up(&mut self, slot: u32, sample: &OpSample) {
        let times = (sample.submitted_at, sample.completed_at);
        self.end(slot as usize, times, LedgerCompletionStatus::GivenUp);
    }
}
