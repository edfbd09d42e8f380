// SPDX-License-Identifier: Apache-2.0
//! An engine with planned faults, for tests of how the program handles failing storage.
//!
//! It wraps another engine and lets everything through but what the plan names: stalls, errors,
//! short transfers, calls that are interrupted, a full disk, and storage that lies: it says that
//! it did what it did not do. All chance comes from one seed. Rules name kinds the wrapped engine
//! has.

use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use rustix::io::Errno;

use plimsoll_engine::EngineError;
use plimsoll_engine::clock::RunClock;
use plimsoll_engine::engine::pretended_bytes;
use plimsoll_engine::engine::{IoCompletion, IoEngine, UnsupportedOp};

/// The schedule of faults.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FaultySchedule {
    /// Times at which nothing ends.
    pub(crate) stalls: Vec<FaultyStall>,
    /// Operations that go wrong; the first rule that fits decides.
    pub(crate) rules: Vec<FaultyRule>,
    /// Share of the calls that return at once with nothing submitted, as after a signal
    /// (`EINTR`) or a shortage in the kernel (`EAGAIN`), 0..1.
    pub(crate) interrupted: f64,
    /// Bytes that can be written; then writes fail with `ENOSPC`. `None`: as many as you like.
    pub(crate) space_bytes: Option<u64>,
}

/// A time in which nothing ends. What would have ended ends behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FaultyStall {
    /// When it begins, on the run's clock.
    pub(crate) from: Nanos,
    /// How long it lasts.
    pub(crate) length: Nanos,
}

/// Which operations go wrong, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FaultyRule {
    /// Their kind.
    pub(crate) kind: OpKind,
    /// Which of that kind.
    pub(crate) when: FaultyTrigger,
    /// The effect on them.
    pub(crate) harm: FaultyEffect,
}

/// Which operations of a kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FaultyTrigger {
    /// The n-th, from 1.
    Nth(u64),
    /// Every n-th.
    Every(u64),
    /// Each with this probability.
    Share(f64),
}

/// The effect of a fault on an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultyEffect {
    /// It fails with this number of the system, and nothing moves.
    Errno(i32),
    /// It is done, and fails with this number of the system all the same.
    ErrnoAfter(i32),
    /// Half of it is done, and half is reported.
    Short,
    /// Nothing is done, but success is reported: a lost write, or a read that moves nothing.
    Lost,
    /// Half of it is done, but success of the whole is reported.
    Torn,
    /// It is done one length further on, within the first `within_bytes`, and success is reported.
    Misplaced {
        /// Where places begin again from 0.
        within_bytes: u64,
    },
    /// One bit of what is written is another.
    Corrupt,
}

/// Passes on what the plan does not harm.
pub(crate) struct FaultyEngine<C> {
    inner: Box<dyn IoEngine>,
    clock: C,
    plan: FaultySchedule,
    rng: Rng,
    /// Operations so far, by kind.
    seen: [u64; OpKind::ALL.len()],
    written_bytes: u64,
    n_harmed: u64,
    /// The result to report for an operation in a slot that was done, instead of its true one.
    claims: Vec<Option<Result<u64, i32>>>,
    /// Ended, and not yet given back.
    held: Vec<IoCompletion>,
}

impl<C> std::fmt::Debug for FaultyEngine<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (plan, n_harmed) = (&self.plan, self.n_harmed);
        write!(f, "Faulty({plan:?}, {n_harmed} harmed)")
    }
}

impl<C: RunClock> FaultyEngine<C> {
    /// `inner` with the faults of `plan`, at times of `clock`.
    pub(crate) fn new(
        inner: Box<dyn IoEngine>,
        clock: C,
        plan: FaultySchedule,
        seed: Seed,
    ) -> Self {
        let slots = inner.slots() as usize;
        FaultyEngine {
            inner,
            clock,
            plan,
            rng: Rng::new(seed.derive("faults", 0)),
            seen: [0; OpKind::ALL.len()],
            written_bytes: 0,
            n_harmed: 0,
            claims: vec![None; slots],
            held: Vec::with_capacity(slots),
        }
    }

    /// Operations that were harmed so far. Stalls and interrupted calls harm none.
    pub(crate) fn n_harmed(&self) -> u64 {
        self.n_harmed
    }

    /// The end of the stall that `now` lies in.
    fn stalled_until(&self, now: Nanos) -> Option<Nanos> {
        let stall = |stall: &&FaultyStall| stall.from <= now && now < stall.from + stall.length;
        let found = self.plan.stalls.iter().find(stall);
        found.map(|stall| stall.from + stall.length)
    }

    fn harm_of(&mut self, request: &OpRequest) -> Option<FaultyEffect> {
        let seen = &mut self.seen[request.kind.index()];
        *seen += 1;
        let seen = *seen;
        for rule in self.plan.rules.iter().filter(|r| r.kind == request.kind) {
            let hit = match rule.when {
                FaultyTrigger::Nth(n) => seen == n,
                FaultyTrigger::Every(n) => seen.is_multiple_of(n.max(1)),
                FaultyTrigger::Share(share) => self.rng.unit() < share,
            };
            if hit {
                return Some(rule.harm);
            }
        }
        let room = self.plan.space_bytes.filter(|_| request.kind.is_write())?;
        self.written_bytes += u64::from(request.len);
        let full = self.written_bytes > room;
        full.then_some(FaultyEffect::Errno(Errno::NOSPC.raw_os_error()))
    }

    fn end(&mut self, slot: u32, result: Result<u64, i32>) {
        self.held.push(IoCompletion { slot, result });
    }
}

impl<C: RunClock> IoEngine for FaultyEngine<C> {
    fn describe(&self) -> String {
        format!("{}, faulty by plan", self.inner.describe())
    }

    fn slots(&self) -> u32 {
        self.inner.slots()
    }

    fn moves_data(&self) -> bool {
        self.inner.moves_data()
    }

    fn helper_threads(&self) -> Vec<u32> {
        self.inner.helper_threads()
    }

    fn has_kernel_threads(&self) -> bool {
        self.inner.has_kernel_threads()
    }

    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.inner.buffer(slot)
    }

    fn queue(&mut self, slot: u32, request: &OpRequest) -> Result<(), UnsupportedOp> {
        let Some(harm) = self.harm_of(request) else {
            return self.inner.queue(slot, request);
        };
        self.n_harmed += 1;
        let whole = pretended_bytes(request);
        let mut changed = *request;
        match harm {
            FaultyEffect::Errno(errno) => {
                self.end(slot, Err(errno));
                return Ok(());
            }
            FaultyEffect::Lost => {
                self.end(slot, Ok(whole));
                return Ok(());
            }
            FaultyEffect::Short => changed.len /= 2,
            FaultyEffect::Torn => {
                changed.len /= 2;
                self.claims[slot as usize] = Some(Ok(whole));
            }
            FaultyEffect::ErrnoAfter(errno) => self.claims[slot as usize] = Some(Err(errno)),
            FaultyEffect::Misplaced { within_bytes } => {
                changed.offset = (request.offset + whole) % within_bytes.max(1);
            }
            FaultyEffect::Corrupt => {
                let bytes = self.inner.buffer(slot);
                // Somewhere in the middle, so that neither end is special.
                if let Some(byte) = bytes.get_mut(request.len as usize / 2 + 188) {
                    *byte ^= 1;
                }
            }
        }
        self.inner.queue(slot, &changed)
    }

    fn enter(&mut self, wait: Option<Nanos>) -> Result<(), EngineError> {
        if self.plan.interrupted > 0.0 && self.rng.unit() < self.plan.interrupted {
            return Ok(());
        }
        let now = self.clock.now();
        let wait = match self.stalled_until(now) {
            Some(until) => wait.map(|time| time.min(until.since(now))),
            None if self.held.is_empty() => wait,
            None => None,
        };
        self.inner.enter(wait)
    }

    fn reap(&mut self, done: &mut Vec<IoCompletion>) {
        let before = self.held.len();
        self.inner.reap(&mut self.held);
        for completion in &mut self.held[before..] {
            if let Some(claim) = self.claims[completion.slot as usize].take() {
                completion.result = completion.result.and(claim);
            }
        }
        if self.stalled_until(self.clock.now()).is_none() {
            done.append(&mut self.held);
        }
    }
}
