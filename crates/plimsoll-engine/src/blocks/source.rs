// SPDX-License-Identifier: Apache-2.0
//! One worker of a group: draws turns, and makes the operations of each out of it.
//!
//! A turn occupies a slot from its first operation to its last: the write of an update, and the
//! sync that follows every N writes, come next in the slot and are meant to start when the
//! operation before them ended. After the last turn has ended come the finishing operations, one
//! at a time; after them, where another worker's end stopped the counting, the rest of the work,
//! uncounted, and again the sync if there is one among the finishing operations. Last comes what is
//! outside the measured time anyway, and a rest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_core::event::WorkerResult;
use plimsoll_core::num::round_u64;
use plimsoll_core::op::TraceAccess;
use plimsoll_core::op::{OpKind, OpRequest, OpSample};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::syncs::{SyncKind, SyncPolicy};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoFileCreation, BlockIoFinalOp, BlockIoMixEntry, BlockIoOpKind,
    BlockIoPacing, BlockIoStopCondition,
};

use super::cold::BlockIoColdPasses;
use super::content::BlockIoFiller;
use super::pace::BlockIoArrivalTimes;
use super::places::BlockIoOffsetStreams;
use super::think::BlockIoThinkTime;
use super::{BlockIoSharedState, BlockIoWorkerContext};
use crate::error::EngineError;
use crate::source::{NextRequest, RequestSource};

/// The source of one worker.
#[derive(Debug)]
pub(crate) struct BlockIoSource {
    rng: Rng,
    mix: BlockIoMixSampler,
    places: BlockIoOffsetStreams,
    passes: BlockIoColdPasses,
    pace: Pacing,
    contents: BlockIoFiller,
    slots: Vec<BlockIoSlot>,
    work: Remaining,
    syncs: SyncPolicy,
    /// Writes that have ended.
    writes: u64,
    finish: Vec<BlockIoFinalOp>,
    /// Operations outside the measured time; from [`BlockIoStage::After`] on, those left to do.
    after: Vec<BlockIoFinalOp>,
    rest: Nanos,
    breaks_off: bool,
    stage: BlockIoStage,
    turns_in_flight: u32,
    warmup: Nanos,
    end: Nanos,
    result: WorkerResult,
    began: bool,
}

/// Turns by weight.
#[derive(Debug)]
pub(super) struct BlockIoMixSampler {
    pub(super) turns: Vec<BlockIoMixEntry>,
    /// Shares of 2^64 summed up to each turn but the last.
    limits: Vec<u64>,
}

#[derive(Debug)]
enum Pacing {
    /// A turn begins when the one before it in the slot has ended.
    AtOnce,
    /// Turns that think first: when each may begin, and how many came before it.
    Thinking {
        think: Nanos,
        every: u32,
        ready: BinaryHeap<Reverse<(Nanos, u32)>>,
    },
    /// Turns of a worker that thinks as a whole.
    Draining(BlockIoThinkTime),
    Open {
        instants: BlockIoArrivalTimes,
        delay: Nanos,
        head: Option<Nanos>,
    },
    Trace {
        ops: Arc<[TraceAccess]>,
        next: usize,
        /// From one operation of this worker to its next.
        step: usize,
        delay: Nanos,
    },
}

/// The state of a slot.
#[derive(Debug, Clone, Copy)]
struct BlockIoSlot {
    /// When it became free; when the operation before ended.
    free_since: Nanos,
    /// The step after the operation in it, or, when that has ended, the step due now.
    then: Then,
    offset: u64,
    bytes: u32,
    /// Turns it has carried out.
    turns: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    Write,
    Sync,
}

/// Turns that are left.
#[derive(Debug)]
struct Remaining {
    /// Of this worker; `u64::MAX` where its number is not the limit.
    turns: u64,
    /// Bytes of operations that this worker may still begin; `u64::MAX` where they are not the
    /// limit.
    bytes: u64,
    /// Shared by the group: this many in all.
    together: Option<u64>,
    group: usize,
    common: Arc<BlockIoSharedState>,
    /// Whether another worker's end may stop the counting.
    has_wall: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockIoStage {
    Turns,
    /// The finishing operation of this number is next, or in flight.
    Finishing {
        next: usize,
        in_flight: bool,
    },
    /// The rest of the work after another worker's end.
    Uncounted,
    /// Uncounted: the operation of this number is next, or in flight.
    After {
        next: usize,
        in_flight: bool,
    },
    /// Nothing happens until then.
    Resting(Nanos),
    Done,
}

/// Whether a turn can begin.
enum Begin {
    Turn(OpRequest),
    Until(Nanos),
    /// Not before what is in flight has ended.
    Wait,
    /// To be asked again, with a new look at the clock.
    Again,
    /// No more turns.
    Over,
}

impl BlockIoSource {
    /// The worker of this post on an engine of `slots` slots.
    pub(crate) fn new(post: &BlockIoWorkerContext<'_>, slots: u32) -> Self {
        let group = post.group;
        let who = (post.worker, group.workers);
        // The first worker of the first group has the sequence that the only one always had.
        let mine = |purpose| {
            let group = post.group_number as u64;
            post.seed
                .derive(purpose, (group << 32) | u64::from(post.worker))
        };
        let ours = post.seed.derive("group", post.group_number as u64);
        let places = BlockIoOffsetStreams::new(group, who, order_seed(post, ours));
        let turns = match group.work {
            BlockIoStopCondition::Time
            | BlockIoStopCondition::Together(_)
            | BlockIoStopCondition::Bytes(_) => u64::MAX,
            BlockIoStopCondition::Pass => places.pass(),
            BlockIoStopCondition::Each(turns) => turns,
        };
        let reads = |turn: &BlockIoMixEntry| turn.kind.operations().contains(&OpKind::Read);
        // Data read from a file of random bytes may be written again; holes read as zeros.
        let discards = |turn: &BlockIoMixEntry| turn.kind == BlockIoOpKind::Discard;
        let traced = matches!(group.pace, BlockIoPacing::Open(ArrivalProcess::Trace(_)));
        let holes =
            group.extent.made != BlockIoFileCreation::Before || group.mix.iter().any(discards);
        let read_into = traced || holes && group.mix.iter().any(reads);
        let slot = BlockIoSlot {
            free_since: group.delay,
            then: Then::Nothing,
            offset: 0,
            bytes: 0,
            turns: 0,
        };
        BlockIoSource {
            rng: Rng::new(mine("random")),
            mix: BlockIoMixSampler::new(&group.mix),
            places,
            passes: BlockIoColdPasses::none(),
            pace: Pacing::new(post, slots, mine("pace")),
            contents: BlockIoFiller::new(&group.content, read_into, mine("contents"), ours),
            slots: vec![slot; slots as usize],
            work: Remaining {
                turns,
                bytes: match group.work {
                    BlockIoStopCondition::Bytes(bytes) => bytes,
                    _ => u64::MAX,
                },
                together: match group.work {
                    BlockIoStopCondition::Together(turns) => Some(turns),
                    _ => None,
                },
                group: post.group_number,
                has_wall: post.common.stonewall.is_some(),
                common: Arc::clone(&post.common),
            },
            syncs: group.syncs,
            writes: 0,
            finish: group.finish.clone(),
            after: group.after.clone(),
            rest: group.rest,
            breaks_off: group.breaks_off,
            stage: BlockIoStage::Turns,
            turns_in_flight: 0,
            warmup: post.warmup,
            end: post.end,
            result: WorkerResult::default(),
            began: false,
        }
    }

    /// The same, dropping clean pages between its passes.
    pub(crate) fn with_passes(mut self, passes: BlockIoColdPasses) -> Self {
        self.passes = passes;
        self
    }

    /// The result of this worker so far.
    pub(super) fn result(&self) -> WorkerResult {
        self.result
    }

    #[inline]
    fn request(&self, kind: OpKind, slot: u32, intended_at: Nanos) -> OpRequest {
        let slot = &self.slots[slot as usize];
        OpRequest {
            kind,
            file: 0,
            offset: slot.offset,
            len: slot.bytes,
            intended_at,
        }
    }

    /// The operation that follows the one before in the same turn.
    #[inline(never)]
    fn go_on(&mut self, slot: u32) -> OpRequest {
        let state = &mut self.slots[slot as usize];
        let kind = match std::mem::replace(&mut state.then, Then::Nothing) {
            Then::Sync => {
                (state.offset, state.bytes) = (0, 0);
                sync_kind(self.syncs.with)
            }
            Then::Write | Then::Nothing => OpKind::Write,
        };
        let at = self.slots[slot as usize].free_since;
        self.request(kind, slot, at)
    }

    #[inline(always)]
    fn begin(&mut self, now: Nanos, slot: u32) -> Begin {
        if self.work.turns == 0 || self.work.bytes == 0 || self.is_walled() {
            return Begin::Over;
        }
        if self.passes.is_over() {
            return self.next_pass(now);
        }
        let free_since = self
            .passes
            .free_since(self.slots[slot as usize].free_since, now);
        let (at, traced) = match self.pace.due(now, self.end, free_since) {
            Due::At(at) => (at, None),
            Due::Op(at, op) => (at, Some(op)),
            Due::Until(at) => return Begin::Until(at),
            Due::Wait => return Begin::Wait,
            Due::Never => return Begin::Over,
        };
        if !self.work.take() {
            return Begin::Over;
        }
        let turns = self.pace.begun();
        let state = &mut self.slots[slot as usize];
        state.turns = turns.unwrap_or(state.turns);
        if !self.began && at >= self.warmup {
            (self.began, self.result.began) = (true, at);
        }
        self.turns_in_flight += 1;
        if let Some(op) = traced {
            (state.offset, state.bytes) = (op.offset, op.bytes);
            return Begin::Turn(self.request(op.kind, slot, at));
        }
        let turn = self.mix.draw(&mut self.rng);
        (state.offset, state.bytes) = match turn.kind {
            BlockIoOpKind::Append => (0, turn.bytes),
            _ => self.places.next(turn, &self.mix, &mut self.rng),
        };
        self.work.begun(state.bytes);
        self.passes.begun(state.bytes);
        let kind = match turn.kind {
            BlockIoOpKind::Read => OpKind::Read,
            BlockIoOpKind::Write => OpKind::Write,
            BlockIoOpKind::Append => OpKind::Append,
            BlockIoOpKind::Discard => OpKind::Discard,
            BlockIoOpKind::Update => {
                state.then = Then::Write;
                OpKind::Read
            }
        };
        Begin::Turn(self.request(kind, slot, at))
    }

    /// Ends a pass through the file: when nothing is in flight any more, its clean pages go.
    #[cold]
    fn next_pass(&mut self, now: Nanos) -> Begin {
        if now >= self.end {
            return Begin::Over;
        }
        if self.turns_in_flight > 0 {
            return Begin::Wait;
        }
        self.passes.begin();
        Begin::Again
    }

    /// Whether another worker's end has stopped this one's counting.
    #[inline]
    fn is_walled(&self) -> bool {
        self.work.has_wall && self.stage == BlockIoStage::Turns && self.work.common.is_walled()
    }

    /// The next step when no turn can begin and none is in flight.
    #[cold]
    fn wind_up(&mut self, now: Nanos, slot: u32) -> NextRequest {
        if self.stage == BlockIoStage::Turns {
            if !self.breaks_off {
                self.stop_the_others();
            }
            self.stage = BlockIoStage::Finishing {
                next: 0,
                in_flight: false,
            };
        }
        match self.stage {
            BlockIoStage::Finishing {
                in_flight: true, ..
            }
            | BlockIoStage::After {
                in_flight: true, ..
            } => NextRequest::Wait,
            BlockIoStage::Finishing { next, .. } if next < self.finish.len() => {
                self.stage = BlockIoStage::Finishing {
                    next,
                    in_flight: true,
                };
                self.finishing(self.finish[next], slot)
            }
            BlockIoStage::Finishing { .. } if !self.breaks_off && self.is_cut_short() => {
                self.stage = BlockIoStage::Uncounted;
                NextRequest::Until(Nanos(0))
            }
            BlockIoStage::Finishing { .. } | BlockIoStage::Uncounted => {
                if self.breaks_off {
                    self.stop_the_others();
                }
                self.after = self.left_to_do();
                self.stage = BlockIoStage::After {
                    next: 0,
                    in_flight: false,
                };
                NextRequest::Until(Nanos(0))
            }
            BlockIoStage::After { next, .. } if next < self.after.len() => {
                self.stage = BlockIoStage::After {
                    next,
                    in_flight: true,
                };
                self.finishing(self.after[next], slot)
            }
            BlockIoStage::After { .. } if self.rest > Nanos(0) => {
                self.stage = BlockIoStage::Resting(now + self.rest);
                NextRequest::Until(now + self.rest)
            }
            BlockIoStage::Resting(until) if now < until => NextRequest::Until(until),
            _ => {
                self.stage = BlockIoStage::Done;
                NextRequest::End
            }
        }
    }

    /// Says that this worker has done its work, if it has.
    fn stop_the_others(&self) {
        if (self.work.turns == 0 || self.work.bytes == 0)
            && let Some(wall) = &self.work.common.stonewall
        {
            wall.store(true, Ordering::Relaxed);
        }
    }

    /// Operations to be done outside the measured time: not again those just done inside.
    fn left_to_do(&self) -> Vec<BlockIoFinalOp> {
        let wrote_on = self.stage == BlockIoStage::Uncounted;
        let again = (self.finish.iter()).filter(|op| wrote_on && **op == BlockIoFinalOp::Fsync);
        let mut left: Vec<BlockIoFinalOp> = again.copied().collect();
        for op in &self.after {
            if !left.contains(op) && (wrote_on || !self.finish.contains(op)) {
                left.push(*op);
            }
        }
        left
    }

    fn finishing(&mut self, op: BlockIoFinalOp, slot: u32) -> NextRequest {
        let kind = match op {
            BlockIoFinalOp::Fsync => OpKind::Fsync,
            BlockIoFinalOp::Close => OpKind::Close,
        };
        let state = &mut self.slots[slot as usize];
        (state.offset, state.bytes) = (0, 0);
        let ends = self.slots.iter().map(|slot| slot.free_since);
        let at = ends.max().unwrap_or_default();
        NextRequest::Request(self.request(kind, slot, at))
    }

    /// Whether there is work left that later phases count on.
    fn is_cut_short(&self) -> bool {
        let by_turns = self.work.turns > 0 && self.work.turns < u64::MAX;
        let by_bytes = self.work.bytes > 0 && self.work.bytes < u64::MAX;
        self.work.common.is_walled() && (by_turns || by_bytes)
    }

    /// Whether what ends now is measured.
    #[inline]
    fn counts(&self) -> bool {
        !matches!(
            self.stage,
            BlockIoStage::Uncounted | BlockIoStage::After { .. }
        )
    }

    fn count_end(&mut self, sample: &OpSample) {
        if sample.request.intended_at >= self.warmup {
            self.result.ends(sample.completed_at);
        }
    }

    #[inline]
    fn count(&mut self, sample: &OpSample) {
        if !self.counts() || sample.request.intended_at < self.warmup {
            return;
        }
        self.result.ends(sample.completed_at);
        if let Ok(bytes) = sample.result
            && !is_sync(sample.request.kind)
        {
            self.result.bytes += bytes;
            self.result.ops += 1;
        }
    }
}

/// Orders and hot blocks: those of Zipf are the group's, an order without replacement is each
/// worker's own.
fn order_seed(post: &BlockIoWorkerContext<'_>, ours: Seed) -> Seed {
    use plimsoll_core::offsets::OffsetPattern;
    match post.group.offsets {
        OffsetPattern::Permutation => ours.derive("order", u64::from(post.worker)),
        _ => ours,
    }
}

fn sync_kind(kind: SyncKind) -> OpKind {
    match kind {
        SyncKind::Fsync => OpKind::Fsync,
        SyncKind::Fdatasync => OpKind::Fdatasync,
        SyncKind::SyncRange => OpKind::SyncRange,
    }
}

impl Remaining {
    /// Takes a turn, if one is left.
    #[inline]
    fn take(&mut self) -> bool {
        if let Some(all) = self.together
            && self.common.tickets[self.group].fetch_add(1, Ordering::Relaxed) >= all
        {
            self.turns = 0;
            return false;
        }
        if self.turns < u64::MAX {
            self.turns -= 1;
        }
        true
    }

    /// Takes the bytes of an operation that begins.
    #[inline]
    fn begun(&mut self, bytes: u32) {
        if self.bytes < u64::MAX {
            self.bytes = self.bytes.saturating_sub(bytes.into());
        }
    }
}

impl BlockIoMixSampler {
    pub(super) fn new(turns: &[BlockIoMixEntry]) -> Self {
        let whole: f64 = turns.iter().map(|turn| turn.weight).sum();
        let mut until = 0.0;
        let limit = |turn: &BlockIoMixEntry| {
            until += turn.weight / whole;
            round_u64(until * 2f64.powi(64))
        };
        let mut limits: Vec<u64> = turns.iter().map(limit).collect();
        limits.pop();
        BlockIoMixSampler {
            turns: turns.to_vec(),
            limits,
        }
    }

    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> BlockIoMixEntry {
        if self.limits.is_empty() {
            return self.turns[0];
        }
        let drawn = rng.next_u64();
        self.turns[self.limits.partition_point(|limit| *limit <= drawn)]
    }
}

/// When the next turn is due.
enum Due {
    At(Nanos),
    /// As [`Due::At`], with what it is.
    Op(Nanos, TraceAccess),
    /// Not before then.
    Until(Nanos),
    /// Not before what is in flight has ended.
    Wait,
    Never,
}

impl Pacing {
    fn new(post: &BlockIoWorkerContext<'_>, slots: u32, seed: Seed) -> Self {
        let who = (post.worker, post.group.workers);
        let delay = post.group.delay;
        match &post.group.pace {
            BlockIoPacing::Closed { think, .. } if *think == Nanos(0) => Pacing::AtOnce,
            BlockIoPacing::Closed {
                think,
                every,
                drains: true,
            } => Pacing::Draining(BlockIoThinkTime::new(*think, *every, delay)),
            BlockIoPacing::Closed { think, every, .. } => Pacing::Thinking {
                think: *think,
                every: (*every).max(1),
                ready: (0..slots).map(|_| Reverse((delay, 0))).collect(),
            },
            BlockIoPacing::Open(ArrivalProcess::Trace(_)) => Pacing::Trace {
                ops: post.common.trace(post.group_number),
                next: who.0 as usize,
                step: who.1.max(1) as usize,
                delay,
            },
            BlockIoPacing::Open(arrival) => Pacing::Open {
                instants: BlockIoArrivalTimes::new(arrival, who, Rng::new(seed)),
                delay,
                head: None,
            },
        }
    }

    /// When the next turn is due, for a slot that is free since `free_since`.
    #[inline(always)]
    fn due(&mut self, now: Nanos, end: Nanos, free_since: Nanos) -> Due {
        match self {
            // A closed loop begins nothing after the end, however long ago it was free to.
            Pacing::AtOnce if now >= end => Due::Never,
            Pacing::AtOnce if free_since <= now => Due::At(free_since),
            _ => self.due_at_instant(now, end, free_since),
        }
    }

    #[inline(never)]
    fn due_at_instant(&mut self, now: Nanos, end: Nanos, free_since: Nanos) -> Due {
        let until = |at: Nanos| {
            if at >= end {
                Due::Never
            } else if at > now {
                Due::Until(at)
            } else {
                Due::At(at)
            }
        };
        match self {
            Pacing::AtOnce => until(free_since),
            Pacing::Thinking { .. } | Pacing::Draining(_) if now >= end => Due::Never,
            Pacing::Draining(thinking) => match thinking.due(free_since) {
                Some(at) => until(at),
                None => Due::Wait,
            },
            Pacing::Thinking { ready, .. } => match ready.peek() {
                Some(Reverse((at, _))) => until(*at),
                None => Due::Never,
            },
            Pacing::Open {
                instants,
                delay,
                head,
            } => {
                if head.is_none() {
                    *head = instants.next().map(|at| at + *delay);
                }
                head.map_or(Due::Never, until)
            }
            Pacing::Trace {
                ops, next, delay, ..
            } => match ops.get(*next) {
                None => Due::Never,
                Some(op) => match until(op.at + *delay) {
                    Due::At(at) => Due::Op(at, *op),
                    other => other,
                },
            },
        }
    }

    /// The turn that was due begins. Turns that the one before it in its place has counted, where
    /// these count.
    #[inline]
    fn begun(&mut self) -> Option<u32> {
        match self {
            Pacing::AtOnce => None,
            Pacing::Draining(thinking) => {
                thinking.begun();
                None
            }
            Pacing::Thinking { ready, .. } => ready.pop().map(|Reverse((_, turns))| turns),
            Pacing::Open { head, .. } => {
                *head = None;
                None
            }
            Pacing::Trace { next, step, .. } => {
                *next += *step;
                None
            }
        }
    }

    /// A turn, the `turns`-th in its place, has ended.
    #[inline]
    fn ended(&mut self, at: Nanos, turns: u32) {
        match self {
            Pacing::Thinking {
                think,
                every,
                ready,
            } => {
                let thinks = turns.is_multiple_of(*every);
                ready.push(Reverse((if thinks { at + *think } else { at }, turns)));
            }
            Pacing::Draining(thinking) => thinking.ended(at),
            Pacing::AtOnce | Pacing::Open { .. } | Pacing::Trace { .. } => {}
        }
    }
}

impl RequestSource for BlockIoSource {
    #[inline(always)]
    fn next(&mut self, now: Nanos, slot: u32) -> Result<NextRequest, EngineError> {
        if self.slots[slot as usize].then != Then::Nothing {
            return Ok(NextRequest::Request(self.go_on(slot)));
        }
        if matches!(self.stage, BlockIoStage::Turns | BlockIoStage::Uncounted) {
            match self.begin(now, slot) {
                Begin::Turn(request) => return Ok(NextRequest::Request(request)),
                Begin::Until(at) => return Ok(NextRequest::Until(at)),
                Begin::Wait => return Ok(NextRequest::Wait),
                Begin::Again => return Ok(NextRequest::Again),
                Begin::Over => {}
            }
        }
        if self.turns_in_flight > 0 {
            return Ok(NextRequest::Wait);
        }
        Ok(self.wind_up(now, slot))
    }

    #[inline]
    fn fill(&mut self, _slot: u32, _request: &OpRequest, bytes: &mut [u8]) {
        self.contents.fill(bytes);
    }

    #[inline]
    fn is_counted(&self, _slot: u32) -> bool {
        self.counts()
    }

    #[inline]
    fn goes_on(&self, slot: u32) -> bool {
        self.slots[slot as usize].then != Then::Nothing
    }

    #[inline(always)]
    fn completed(&mut self, slot: u32, sample: &OpSample) {
        let state = &mut self.slots[slot as usize];
        state.free_since = sample.completed_at;
        match self.stage {
            BlockIoStage::Finishing { next, .. } => {
                self.stage = BlockIoStage::Finishing {
                    next: next + 1,
                    in_flight: false,
                };
                return self.count_end(sample);
            }
            BlockIoStage::After { next, .. } => {
                self.stage = BlockIoStage::After {
                    next: next + 1,
                    in_flight: false,
                };
                return;
            }
            BlockIoStage::Turns
            | BlockIoStage::Uncounted
            | BlockIoStage::Resting(_)
            | BlockIoStage::Done => {}
        }
        let kind = sample.request.kind;
        if state.then == Then::Write {
            if sample.result.is_ok() {
                return;
            }
            // A block that could not be read is not written.
            state.then = Then::Nothing;
        }
        if kind.is_write() {
            self.writes += 1;
            let every = u64::from(self.syncs.every);
            if every > 0 && self.writes.is_multiple_of(every) {
                state.then = Then::Sync;
                self.count(sample);
                return;
            }
        }
        state.turns = state.turns.wrapping_add(1);
        let turns = state.turns;
        self.count(sample);
        self.pace.ended(sample.completed_at, turns);
        self.turns_in_flight -= 1;
    }

    fn workers(&self) -> Option<Vec<WorkerResult>> {
        Some(vec![self.result()])
    }

    fn given_up(&mut self, _slot: u32, sample: &OpSample) {
        if self.counts() {
            self.count_end(sample);
        }
    }

    fn left_before(&mut self, time: Nanos, due: &mut dyn FnMut(Nanos)) -> u64 {
        if !matches!(self.pace, Pacing::Open { .. } | Pacing::Trace { .. }) {
            return 0;
        }
        let mut left = 0;
        // A backlog larger than this is reported as this: drawing it would take longer than the run.
        while left < LEFT_MAX && self.work.turns > 0 && self.stage == BlockIoStage::Turns {
            match self.pace.due(time, self.end.min(time), Nanos(0)) {
                Due::At(at) | Due::Op(at, _) if self.work.take() => due(at),
                _ => break,
            }
            self.pace.begun();
            left += 1;
        }
        left
    }
}

/// Most requests counted that were never submitted.
const LEFT_MAX: u64 = 10_000_000;

fn is_sync(kind: OpKind) -> bool {
    matches!(kind, OpKind::Fsync | OpKind::Fdatasync | OpKind::SyncRange)
}

#[cfg(test)]
mod tests;
