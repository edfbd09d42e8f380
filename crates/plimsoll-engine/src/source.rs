// SPDX-License-Identifier: Apache-2.0
//! Where requests come from: the contract, and the open loop of a model.
//!
//! A source is asked once per free slot and learns of every end. It waits only when it says so,
//! for others of its kind, and knows no clock.
//! The closed loop of files is in [`crate::file_loop`]; block I/O is private.

use plimsoll_core::event::WorkerResult;
use plimsoll_core::model::{DirectionLoad, ModelExcerpt, ModelInterval, ModelReplay};
use plimsoll_core::op::{OpRequest, OpSample};
use plimsoll_core::units::Nanos;

use crate::error::EngineError;

/// Answer of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextRequest {
    /// Do this, at its intended time or, when that has passed, at once.
    Request(OpRequest),
    /// Nothing to do, for any slot, before this time or before another operation has ended.
    Until(Nanos),
    /// Nothing to do before another operation has ended. Only while one is in flight.
    Wait,
    /// Nothing to do before another worker has got on: to be asked again after
    /// [`RequestSource::wait_for_others`].
    Again,
    /// Nothing more, for any slot.
    End,
}

/// Says what to do next.
pub trait RequestSource {
    /// Whether [`RequestSource::check`] wants to see what was read.
    const CHECKS: bool = false;

    /// The next request, to be carried out in `slot`.
    ///
    /// # Errors
    /// When the workload cannot go on.
    fn next(&mut self, now: Nanos, slot: u32) -> Result<NextRequest, EngineError>;

    /// Fills the bytes of a write before it is submitted.
    #[inline]
    fn fill(&mut self, _slot: u32, _request: &OpRequest, bytes: &mut [u8]) {
        scramble(bytes);
    }

    /// Sleeps until what [`NextRequest::Again`] waits for may have come. It is woken for it, and may wake
    /// at any time.
    fn wait_for_others(&mut self, _now: Nanos) {}

    /// The request was submitted to the engine.
    #[inline]
    fn handed_over(&mut self, _request: &OpRequest, _at: Nanos) {}

    /// The operation in `slot` has ended.
    fn completed(&mut self, slot: u32, sample: &OpSample);

    /// Whether the slot whose operation has just ended is to be asked before all others, because
    /// what it does next belongs to that operation.
    #[inline]
    fn goes_on(&self, _slot: u32) -> bool {
        false
    }

    /// Whether the operation in `slot`, which has ended, belongs to the results. Asked before
    /// [`RequestSource::completed`].
    #[inline]
    fn is_counted(&self, _slot: u32) -> bool {
        true
    }

    /// Which of its workers has its operation in `slot`, where it plays several. Asked before
    /// [`RequestSource::completed`].
    #[inline]
    fn worker_of(&self, _slot: u32) -> u32 {
        0
    }

    /// The results of each worker that this source plays; `None` when it does not know them.
    fn workers(&self) -> Option<Vec<WorkerResult>> {
        None
    }

    /// Looks at the buffer of an operation that has ended, if [`RequestSource::CHECKS`].
    fn check(&mut self, _slot: u32, _sample: &OpSample, _buffer: &[u8]) {}

    /// The operation in `slot` has not come back and is waited for no longer: the time it took
    /// until now is known, its end is not.
    fn given_up(&mut self, _slot: u32, _sample: &OpSample) {}

    /// How many requests intended to start before `time` were never given out; `due` hears when
    /// each was. May use them up.
    fn left_before(&mut self, _time: Nanos, _due: &mut dyn FnMut(Nanos)) -> u64 {
        0
    }
}

/// Makes a buffer of random bytes differ from what it was in every 512 bytes, at the cost of one
/// addition each, so that writing it again is not writing the same.
#[inline]
pub fn scramble(bytes: &mut [u8]) {
    // An odd constant with well-mixed bits (the golden ratio): 2^64 steps until it repeats.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    for sector in bytes.chunks_mut(512) {
        if let Some(head) = sector.first_chunk_mut::<8>() {
            *head = u64::from_le_bytes(*head).wrapping_add(STEP).to_le_bytes();
        }
    }
}

/// The load submitted, by the cells of an excerpt; what was submitted after the last cell is in the
/// last.
#[derive(Debug)]
pub(crate) struct SubmissionCounts {
    /// Starts of the cells, then the end of the last.
    edges: Vec<Nanos>,
    cells: Vec<ModelInterval>,
    cell: usize,
}

impl SubmissionCounts {
    pub(crate) fn new(excerpt: &ModelExcerpt) -> SubmissionCounts {
        let mut edges = vec![Nanos(0)];
        for cell in &excerpt.cells {
            let start = edges.last().copied().unwrap_or_default();
            edges.push(start + cell.length);
        }
        let empty = |cell: &ModelInterval| ModelInterval {
            length: cell.length,
            read: DirectionLoad::default(),
            write: DirectionLoad::default(),
        };
        SubmissionCounts {
            edges,
            cells: excerpt.cells.iter().map(empty).collect(),
            cell: 0,
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, request: &OpRequest, at: Nanos) {
        // Hand-overs come in order, so the cell only moves on.
        while self.cell + 1 < self.cells.len() && at >= self.edges[self.cell + 1] {
            self.cell += 1;
        }
        if let Some(cell) = self.cells.get_mut(self.cell) {
            cell.count(request);
        }
    }

    pub(crate) fn into_cells(self) -> Vec<ModelInterval> {
        self.cells
    }
}

/// A model's requests: they come when they come, whatever the target does.
#[derive(Debug)]
pub struct OpenLoopSource {
    requests: ModelReplay,
    end: Nanos,
    submitted: SubmissionCounts,
    ended: bool,
}

impl OpenLoopSource {
    /// Plays the requests of `excerpt` until `end`.
    pub fn new(requests: ModelReplay, excerpt: &ModelExcerpt, end: Nanos) -> Self {
        OpenLoopSource {
            requests,
            end,
            submitted: SubmissionCounts::new(excerpt),
            ended: false,
        }
    }

    /// The load submitted, by the cells of the play in which it was submitted; what was
    /// submitted after the last cell is in the last.
    #[must_use]
    pub fn into_submitted(self) -> Vec<ModelInterval> {
        self.submitted.into_cells()
    }

    fn draw(&mut self) -> Option<OpRequest> {
        if self.ended {
            return None;
        }
        let next = self.requests.next().filter(|r| r.intended_at < self.end);
        self.ended = next.is_none();
        next
    }
}

impl RequestSource for OpenLoopSource {
    #[inline]
    fn next(&mut self, _now: Nanos, _slot: u32) -> Result<NextRequest, EngineError> {
        Ok(self.draw().map_or(NextRequest::End, NextRequest::Request))
    }

    #[inline]
    fn handed_over(&mut self, request: &OpRequest, at: Nanos) {
        self.submitted.count(request, at);
    }

    fn completed(&mut self, _slot: u32, _sample: &OpSample) {}

    fn left_before(&mut self, time: Nanos, due: &mut dyn FnMut(Nanos)) -> u64 {
        let mut left = 0;
        // Bounded by the schedule.
        while let Some(request) = self.draw() {
            if request.intended_at >= time {
                break;
            }
            due(request.intended_at);
            left += 1;
        }
        left
    }
}
