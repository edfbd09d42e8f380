// SPDX-License-Identifier: Apache-2.0
//! Counts the operations of workers whose source does not count them.

use plimsoll_core::event::WorkerResult;
use plimsoll_core::op::{OpKind, OpRequest, OpSample};
use plimsoll_core::units::Nanos;

use crate::error::EngineError;
use crate::source::{NextRequest, RequestSource};

/// A source, and what was done for it.
#[derive(Debug)]
pub(crate) struct WorkerStatsSource<S> {
    source: S,
    warmup: Nanos,
    /// By the worker that the source says a slot is.
    workers: Vec<Option<WorkerResult>>,
}

impl<S: RequestSource> WorkerStatsSource<S> {
    /// Watches a source of `workers` workers.
    pub(crate) fn new(source: S, workers: u32, warmup: Nanos) -> Self {
        WorkerStatsSource {
            source,
            warmup,
            workers: vec![None; workers.max(1) as usize],
        }
    }

    pub(crate) fn into_inner(self) -> S {
        self.source
    }

    #[inline]
    fn count(&mut self, slot: u32, sample: &OpSample) {
        let began = sample.request.intended_at;
        if began < self.warmup {
            return;
        }
        let worker = self.source.worker_of(slot) as usize;
        let worker = self.workers[worker].get_or_insert(WorkerResult {
            began,
            ..WorkerResult::default()
        });
        worker.ends(sample.completed_at);
        let is_work = !matches!(
            sample.request.kind,
            OpKind::Fsync | OpKind::Fdatasync | OpKind::SyncRange | OpKind::SyncAll | OpKind::Close
        );
        if let (Ok(bytes), true) = (sample.result, is_work) {
            worker.ops += 1;
            worker.bytes += bytes;
        }
    }
}

impl<S: RequestSource> RequestSource for WorkerStatsSource<S> {
    const CHECKS: bool = S::CHECKS;

    #[inline]
    fn next(&mut self, now: Nanos, slot: u32) -> Result<NextRequest, EngineError> {
        self.source.next(now, slot)
    }

    #[inline]
    fn fill(&mut self, slot: u32, request: &OpRequest, bytes: &mut [u8]) {
        self.source.fill(slot, request, bytes);
    }

    fn wait_for_others(&mut self, now: Nanos) {
        self.source.wait_for_others(now);
    }

    #[inline]
    fn handed_over(&mut self, request: &OpRequest, at: Nanos) {
        self.source.handed_over(request, at);
    }

    #[inline]
    fn completed(&mut self, slot: u32, sample: &OpSample) {
        if self.source.is_counted(slot) {
            self.count(slot, sample);
        }
        self.source.completed(slot, sample);
    }

    #[inline]
    fn goes_on(&self, slot: u32) -> bool {
        self.source.goes_on(slot)
    }

    #[inline]
    fn is_counted(&self, slot: u32) -> bool {
        self.source.is_counted(slot)
    }

    fn check(&mut self, slot: u32, sample: &OpSample, buffer: &[u8]) {
        self.source.check(slot, sample, buffer);
    }

    fn workers(&self) -> Option<Vec<WorkerResult>> {
        let counted = self.workers.iter().map(|w| w.unwrap_or_default());
        Some((self.source.workers()).unwrap_or_else(|| counted.collect()))
    }

    fn given_up(&mut self, slot: u32, sample: &OpSample) {
        if self.source.is_counted(slot) {
            self.count(slot, sample);
        }
        self.source.given_up(slot, sample);
    }

    fn left_before(&mut self, time: Nanos, due: &mut dyn FnMut(Nanos)) -> u64 {
        self.source.left_before(time, due)
    }
}
