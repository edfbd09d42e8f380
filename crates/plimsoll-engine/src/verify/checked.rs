// SPDX-License-Identifier: Apache-2.0
//! Verification of what a workload itself writes: while it runs, or when it has ended.
//!
//! [`DataCheckSource`] wraps the source of a worker: every write of whole blocks is stamped and
//! entered in the [`DataCheckRegister`] of its target, and, when that is wanted, every read is held
//! against it. Afterwards [`read_back`] reads every block that was written. Stamping and checking
//! take processor time, so a verified run is not a measured one.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::event::WorkerResult;
use plimsoll_core::op::{OpKind, OpRequest, OpSample};
use plimsoll_core::units::Nanos;

use super::register::{DataCheckRegister, DataCheckSnapshot};
use super::{DataFlaw, TIME_MAX, VerifyFinding, VerifyReport};
use crate::clock::RunClock;
use crate::drive::{DriverLimits, drive};
use crate::engine::IoEngine;
use crate::error::EngineError;
use crate::recorder::SampleRecorder;
use crate::source::{NextRequest, RequestSource};
use crate::sys::clock::HostClock;

/// The state of a slot, as far as the register is concerned.
#[derive(Debug, Default)]
struct DataCheckSlot {
    blocks: Range<usize>,
    /// Version that is being written; 0: none.
    writing: u64,
    /// The known state of the blocks that are being read.
    known: Vec<DataCheckSnapshot>,
}

/// A source whose writes are stamped and whose reads may be checked.
#[derive(Debug)]
pub struct DataCheckSource<S> {
    inner: S,
    register: Arc<DataCheckRegister>,
    check_reads: bool,
    slots: Vec<DataCheckSlot>,
}

impl<S: RequestSource> DataCheckSource<S> {
    /// `inner`, for an engine of `slots` slots that moves data, with its writes entered in
    /// `register`; with `check_reads`, its reads are checked while it runs.
    pub fn new(inner: S, register: Arc<DataCheckRegister>, slots: u32, check_reads: bool) -> Self {
        DataCheckSource {
            inner,
            register,
            check_reads,
            slots: (0..slots).map(|_| DataCheckSlot::default()).collect(),
        }
    }

    /// The source that was wrapped.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.inner
    }

    fn begin_read(&mut self, slot: u32, request: &OpRequest) {
        let slot = &mut self.slots[slot as usize];
        match self.register.blocks_of(request.offset, request.len) {
            Some(blocks) if self.check_reads => {
                self.register.before(blocks.clone(), &mut slot.known);
                slot.blocks = blocks;
            }
            _ => slot.known.clear(),
        }
    }
}

impl<S> DataCheckSource<S> {
    fn begin_unknown(&mut self, slot: u32, request: &OpRequest) {
        let state = &mut self.slots[slot as usize];
        state.blocks = self.register.touched_by(request.offset, request.len);
        state.writing = self.register.begin_unknown(state.blocks.clone());
    }
}

impl<S: RequestSource> RequestSource for DataCheckSource<S> {
    const CHECKS: bool = true;

    fn next(&mut self, now: Nanos, slot: u32) -> Result<NextRequest, EngineError> {
        let next = self.inner.next(now, slot)?;
        if let NextRequest::Request(request) = &next {
            match request.kind {
                // The earliest moment at which it may be carried out: what is known can only grow.
                OpKind::Read => self.begin_read(slot, request),
                OpKind::Discard => self.begin_unknown(slot, request),
                _ => {}
            }
        }
        Ok(next)
    }

    fn fill(&mut self, slot: u32, request: &OpRequest, bytes: &mut [u8]) {
        let blocks = self.register.blocks_of(request.offset, request.len);
        // Where an append goes is not known; it lies behind what is watched.
        let is_write = request.kind == OpKind::Write;
        if let (Some(blocks), true) = (blocks, is_write) {
            let state = &mut self.slots[slot as usize];
            let offset = request.offset;
            state.writing = self.register.begin_write(blocks.clone(), offset, bytes);
            state.blocks = blocks;
            return;
        }
        if is_write {
            self.begin_unknown(slot, request);
        }
        self.inner.fill(slot, request, bytes);
    }

    fn handed_over(&mut self, request: &OpRequest, at: Nanos) {
        self.inner.handed_over(request, at);
    }

    fn check(&mut self, slot: u32, sample: &OpSample, buffer: &[u8]) {
        let state = &self.slots[slot as usize];
        let is_read = sample.request.kind == OpKind::Read && sample.result.is_ok();
        if is_read && !state.known.is_empty() {
            let bytes = &buffer[..sample.request.len as usize];
            self.register.check(state.blocks.start, &state.known, bytes);
        }
        self.inner.check(slot, sample, buffer);
    }

    fn completed(&mut self, slot: u32, sample: &OpSample) {
        let state = &mut self.slots[slot as usize];
        let ok = sample.result.is_ok();
        match std::mem::take(&mut state.writing) {
            0 if ok => {}
            0 => self.register.failed(),
            version => self.register.end_write(state.blocks.clone(), version, ok),
        }
        self.inner.completed(slot, sample);
    }

    fn goes_on(&self, slot: u32) -> bool {
        self.inner.goes_on(slot)
    }

    fn is_counted(&self, slot: u32) -> bool {
        self.inner.is_counted(slot)
    }

    fn worker_of(&self, slot: u32) -> u32 {
        self.inner.worker_of(slot)
    }

    fn workers(&self) -> Option<Vec<WorkerResult>> {
        self.inner.workers()
    }

    fn given_up(&mut self, slot: u32, sample: &OpSample) {
        self.inner.given_up(slot, sample);
    }

    fn left_before(&mut self, time: Nanos, due: &mut dyn FnMut(Nanos)) -> u64 {
        self.inner.left_before(time, due)
    }
}

/// A sync, then a read of every block that was written.
struct DataCheckSweep {
    block_bytes: u32,
    /// Blocks to be read, last first.
    blocks: Vec<u64>,
    stage: DataCheckSweepStage,
    in_flight: u32,
    /// Offsets of blocks that could not be read.
    unreadable: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DataCheckSweepStage {
    Sync,
    Syncing,
    Reading,
}

impl RequestSource for DataCheckSweep {
    fn next(&mut self, now: Nanos, _: u32) -> Result<NextRequest, EngineError> {
        if self.stage == DataCheckSweepStage::Syncing {
            return Ok(NextRequest::Wait);
        }
        let is_sync = self.stage == DataCheckSweepStage::Sync;
        let block = if is_sync { Some(0) } else { self.blocks.pop() };
        let Some(block) = block else {
            return Ok(NextRequest::End);
        };
        if is_sync {
            self.stage = DataCheckSweepStage::Syncing;
        }
        self.in_flight += 1;
        Ok(NextRequest::Request(OpRequest {
            kind: if is_sync { OpKind::Fsync } else { OpKind::Read },
            file: 0,
            offset: block * u64::from(self.block_bytes),
            len: if is_sync { 0 } else { self.block_bytes },
            intended_at: now,
        }))
    }

    fn completed(&mut self, _: u32, sample: &OpSample) {
        self.in_flight -= 1;
        match sample.request.kind {
            OpKind::Fsync => self.stage = DataCheckSweepStage::Reading,
            _ if sample.result.is_err() => self.unreadable.push(sample.request.offset),
            _ => {}
        }
    }
}

/// Makes everything durable, then reads every block that `register` knows to be written, with an
/// engine on its target whose buffers hold a block. No writer may be at work any more. A block that
/// cannot be read is a bad one. The report is of everything in the register, also of what was found
/// while the workload ran.
///
/// # Errors
/// When the engine breaks or the first 100 operations all fail. Bad blocks are not an error but in
/// the report.
pub fn read_back(
    engine: &mut dyn IoEngine,
    register: &Arc<DataCheckRegister>,
    stop: &AtomicBool,
) -> Result<VerifyReport, EngineError> {
    let mut blocks: Vec<u64> = register.written_blocks().collect();
    blocks.reverse();
    let bytes = blocks.len() as u64 * u64::from(register.block_bytes());
    let sweep = DataCheckSweep {
        block_bytes: register.block_bytes(),
        blocks,
        stage: DataCheckSweepStage::Sync,
        in_flight: 0,
        unreadable: Vec::new(),
    };
    let mut source = DataCheckSource::new(sweep, Arc::clone(register), engine.slots(), true);
    let clock = HostClock::start();
    let mut recorder = SampleRecorder::new(Nanos::MAX, ());
    // Slower than 10 MB/s is a hang.
    let limits = DriverLimits::real(clock.now() + TIME_MAX + Nanos(bytes.saturating_mul(100)));
    let end = drive(engine, &clock, &mut source, &mut recorder, limits, stop)?;
    let sweep = source.into_inner();
    let is_whole = sweep.blocks.is_empty() && sweep.in_flight == 0;
    for offset in sweep.unreadable {
        let flaw = DataFlaw::Unreadable;
        register.report_flaw(VerifyFinding { offset, flaw });
    }
    Ok(VerifyReport {
        engine: engine.describe(),
        interrupted: end.interrupted || !is_whole,
        ..register.report()
    })
}
