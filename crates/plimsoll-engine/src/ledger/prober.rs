// SPDX-License-Identifier: Apache-2.0
//! What a session does: fills its blocks, then writes and reads them at a steady rate.
//!
//! The order that everything rests on: a write is in the ledger, durably, before it is handed over;
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
use plimsoll_core::ledger::{Campaign, Durability, Ended, Entry, Found, Issued, Outcome, Session};
use plimsoll_core::num::{saturating_u32, to_usize};
use plimsoll_core::op::{Kind, Request, Sample};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

use super::book::Book;
use crate::error::Error;
use crate::source::{Next, Source};
use crate::verify::{Before, Found as Sector, Origin, Register, SECTOR_BYTES, read_sector};

/// Bytes of a write that fills blocks.
pub(super) const FILL_BYTES: u32 = 256 << 10;

/// Blocks remembered as written lately, to be read soon.
const RECENT_MAX: usize = 32;

/// What a session has done so far. Read by others while it works.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) writes: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) given_up: AtomicU64,
    pub(super) reopened: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What a slot is doing.
#[derive(Debug, Default)]
struct Slot {
    /// Whether an operation is on its way.
    is_busy: bool,
    op: u64,
    version: u64,
    offset: u64,
    intended_at: Nanos,
    kind: Option<Kind>,
    /// Blocks of the file.
    blocks: Range<usize>,
    /// What was known of them when a read began.
    known: Vec<Before>,
    /// What a read found.
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
enum Stage {
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
pub(super) struct Prober<'a> {
    book: &'a Book,
    known: Arc<Register>,
    campaign: Campaign,
    session: Session,
    counters: Arc<Counters>,
    rng: Rng,
    stage: Stage,
    epoch: u32,
    probing: (Nanos, Nanos),
    /// Probes drawn so far.
    ticks: u64,
    next_op: u64,
    slots: Vec<Slot>,
    in_flight: u32,
    /// By block of the file, counted from the session's first.
    busy: Vec<bool>,
    recent: VecDeque<usize>,
    unsettled: Vec<Unsettled>,
    /// Writes since the last sync was handed over.
    unsynced: u32,
    is_syncing: bool,
    bad: BadBlocks,
}

impl<'a> Prober<'a> {
    pub(super) fn new(
        book: &'a Book,
        known: Arc<Register>,
        campaign: Campaign,
        session: Session,
        counters: Arc<Counters>,
    ) -> Self {
        let seed = Seed(campaign.id).derive("ledger session", u64::from(session.number));
        let blocks = session.bytes / u64::from(campaign.block_bytes);
        Prober {
            book,
            known,
            campaign,
            counters,
            rng: Rng::new(seed),
            stage: Stage::Fill { next: 0 },
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
        (self.stage, self.probing) = (Stage::Probe, (from, until));
    }

    /// The file or device was opened, for the n-th time from 0, with so many slots.
    pub(super) fn opened(&mut self, epoch: u32, slots: u32, at: Nanos) {
        self.epoch = epoch;
        self.slots.resize_with(slots as usize, Slot::default);
        if self.stage == Stage::Probe || self.stage == Stage::Last {
            let session = self.session.number;
            self.book.append(&Entry::Opened { session, epoch, at });
        }
        if epoch > 0 {
            add(&self.counters.reopened);
        }
    }

    /// Whether it has nothing more to do.
    pub(super) fn is_finished(&self) -> bool {
        self.stage == Stage::End
    }

    /// Bad blocks that its reads have found.
    pub(super) fn bad(&self) -> BadBlocks {
        self.bad
    }

    /// What is still on its way will not be heard of any more. When all `is_over`, what was drawn ahead
    /// and not yet due is forgotten: nobody was asked.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub(super) fn abandon(&mut self, at: Nanos, is_over: bool) -> Result<(), Error> {
        for slot in 0..self.slots.len() {
            let state = &self.slots[slot];
            let is_due = !is_over || state.intended_at <= at;
            if state.is_busy && is_due {
                self.end(slot, (at, at), Outcome::GivenUp);
            }
        }
        self.settle()
    }

    /// Ends that have come count as soon as they are durable in the ledger.
    fn settle(&mut self) -> Result<(), Error> {
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

    fn begin(&mut self, slot: u32, request: Request) -> Request {
        let state = &mut self.slots[slot as usize];
        state.is_busy = true;
        state.op = self.next_op;
        state.kind = Some(request.kind);
        (state.offset, state.intended_at) = (request.offset, request.intended_at);
        (state.version, state.found) = (0, 0);
        self.next_op += 1;
        self.in_flight += 1;
        if request.kind == Kind::Fsync {
            return request;
        }
        let blocks = self.known.blocks_of(request.offset, request.len);
        let blocks = blocks.expect("sessions work on whole blocks of their own");
        let own = self.own(&blocks);
        self.busy[own].fill(true);
        let state = &mut self.slots[slot as usize];
        if request.kind == Kind::Read {
            self.known.before(blocks.clone(), &mut state.known);
        }
        state.blocks = blocks;
        request
    }

    /// A write is in the ledger before it is handed over.
    fn write(&mut self, slot: u32, offset: u64, len: u32, at: Nanos) -> Result<Next, Error> {
        let request = self.begin(slot, request(Kind::Write, offset, len, at));
        let state = &mut self.slots[slot as usize];
        state.version = self.known.begin(state.blocks.clone());
        self.book.append(&Entry::Issued(Issued {
            session: self.session.number,
            op: state.op,
            offset,
            len,
            version: state.version,
            intended_at: at,
        }));
        self.settle()?;
        self.unsynced += 1;
        Ok(Next::Request(request))
    }

    fn sync(&mut self, slot: u32, at: Nanos) -> Next {
        self.unsynced = 0;
        self.is_syncing = true;
        Next::Request(self.begin(slot, request(Kind::Fsync, 0, 0, at)))
    }

    fn fill_blocks(&mut self, slot: u32, next: u64, now: Nanos) -> Result<Next, Error> {
        let left = self.session.bytes - next;
        if left == 0 {
            return Ok(self.last(slot, now));
        }
        let len = FILL_BYTES - FILL_BYTES % self.campaign.block_bytes;
        let len = len.max(self.campaign.block_bytes);
        let len = len.min(saturating_u32(left));
        self.stage = Stage::Fill {
            next: next + u64::from(len),
        };
        self.write(slot, self.session.offset + next, len, now)
    }

    /// The end of a stage: everything that was written is made durable.
    fn last(&mut self, slot: u32, now: Nanos) -> Next {
        if self.in_flight > 0 {
            return Next::Wait;
        }
        // Filling is made durable whatever is probed, so that there is something to start from.
        let is_fill = matches!(self.stage, Stage::Fill { .. });
        if self.unsynced > 0 && (is_fill || self.campaign.durability != Durability::EachWrite) {
            return self.sync(slot, now);
        }
        self.stage = Stage::End;
        Next::End
    }

    fn probe_next(&mut self, slot: u32, now: Nanos) -> Result<Next, Error> {
        self.settle()?;
        if let Durability::Fsync(count) = self.campaign.durability
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
            self.stage = Stage::Last;
            return Ok(self.last(slot, now));
        }
        let Some(block) = self.block(is_write) else {
            return Ok(Next::Wait);
        };
        self.ticks += 1;
        let len = self.campaign.block_bytes;
        let offset = self.session.offset + block as u64 * u64::from(len);
        if is_write {
            return self.write(slot, offset, len, at);
        }
        let request = request(Kind::Read, offset, len, at);
        Ok(Next::Request(self.begin(slot, request)))
    }

    /// A block that nobody works on; for every other read one of those written lately.
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
    fn end(&mut self, slot: usize, (submitted_at, ended_at): (Nanos, Nanos), outcome: Outcome) {
        let state = &mut self.slots[slot];
        let Some(kind) = state.kind.take() else {
            return;
        };
        state.is_busy = false;
        self.in_flight -= 1;
        let blocks = std::mem::take(&mut state.blocks);
        let version = if kind == Kind::Read {
            state.found
        } else {
            state.version
        };
        self.book.append(&Entry::Ended(Ended {
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
        let ok = outcome == Outcome::Ok;
        match kind {
            Kind::Write => self.unsettled.push(Unsettled {
                blocks,
                version,
                ok,
            }),
            Kind::Read => {
                self.free(&blocks);
                if ok {
                    add(&self.counters.reads);
                }
            }
            _ => self.is_syncing = false,
        }
        match outcome {
            Outcome::Ok => {}
            Outcome::Error(_) => add(&self.counters.errors),
            Outcome::GivenUp => add(&self.counters.given_up),
        }
    }
}

fn request(kind: Kind, offset: u64, len: u32, intended_at: Nanos) -> Request {
    Request {
        kind,
        file: 0,
        offset,
        len,
        intended_at,
    }
}

impl Source for Prober<'_> {
    const CHECKS: bool = true;

    fn next(&mut self, now: Nanos, slot: u32) -> Result<Next, Error> {
        match self.stage {
            Stage::Fill { next } => {
                self.settle()?;
                self.fill_blocks(slot, next, now)
            }
            Stage::Probe => self.probe_next(slot, now),
            Stage::Last => {
                self.settle()?;
                Ok(self.last(slot, now))
            }
            Stage::End => Ok(Next::End),
        }
    }

    fn fill(&mut self, slot: u32, request: &Request, bytes: &mut [u8]) {
        let state = &self.slots[slot as usize];
        let origin = Origin {
            writer: self.session.number,
            epoch: self.epoch,
            op: state.op,
            intended_at: self.campaign.began_at + request.intended_at,
        };
        self.known
            .stamp(request.offset, state.version, origin, bytes);
    }

    fn check(&mut self, slot: u32, sample: &Sample, buffer: &[u8]) {
        if sample.request.kind != Kind::Read || sample.result.is_err() {
            return;
        }
        let state = &mut self.slots[slot as usize];
        let bytes = &buffer[..sample.request.len as usize];
        if let Sector::Stamped(stamp) = read_sector(&bytes[..SECTOR_BYTES]) {
            state.found = stamp.version;
        }
        let finding = self.known.check(state.blocks.start, &state.known, bytes);
        if let Some(finding) = finding {
            self.bad.count(finding.flaw);
            self.book.append(&Entry::Found(Found {
                session: self.session.number,
                offset: finding.offset,
                flaw: finding.flaw,
            }));
        }
    }

    fn completed(&mut self, slot: u32, sample: &Sample) {
        let outcome = match sample.result {
            Ok(_) => Outcome::Ok,
            Err(errno) => Outcome::Error(errno),
        };
        let times = (sample.submitted_at, sample.completed_at);
        self.end(slot as usize, times, outcome);
    }

    fn given_up(&mut self, slot: u32, sample: &Sample) {
        let times = (sample.submitted_at, sample.completed_at);
        self.end(slot as usize, times, Outcome::GivenUp);
    }
}
