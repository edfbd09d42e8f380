// SPDX-License-Identifier: Apache-2.0
//! Requests that wait for earlier ones: each starts a while after the end of the one it waited for when
//! it was recorded, the others when they did then.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use plimsoll_core::model::{
    ModelExcerpt, ModelInterval, PackedDependency, PackedReplay, PackedReplayRequest,
};
use plimsoll_core::op::{OpRequest, OpSample};
use plimsoll_core::units::Nanos;

use crate::error::EngineError;
use crate::source::{NextRequest, RequestSource, SubmissionCounts};

/// Recorded requests with what waits for what.
///
/// Of the recording as much is read ahead as the clock has come to, and as far as ends ask for: of
/// requests that wait, those are held whose turn has not come.
#[derive(Debug)]
pub struct DependencyReplaySource {
    requests: PackedReplay,
    end: Nanos,
    /// When the last one that was read was recorded; those behind were not recorded before.
    read_until: Nanos,
    all_read: bool,
    /// Which requests of those not read yet wait.
    waiting: BTreeSet<u64>,
    held: BTreeMap<u64, PackedReplayRequest>,
    /// Requests that may start, by start time.
    due: BinaryHeap<Reverse<(Nanos, u64)>>,
    steps: BTreeMap<u64, PackedReplayRequest>,
    /// The request in flight in each slot.
    in_flight: BTreeMap<u32, (u64, Option<PackedDependency>)>,
    submitted: SubmissionCounts,
}

impl DependencyReplaySource {
    /// Plays the requests of `excerpt` until `end`.
    pub fn new(
        requests: PackedReplay,
        excerpt: &ModelExcerpt,
        end: Nanos,
    ) -> DependencyReplaySource {
        DependencyReplaySource {
            requests,
            end,
            read_until: Nanos(0),
            all_read: false,
            waiting: BTreeSet::new(),
            held: BTreeMap::new(),
            due: BinaryHeap::new(),
            steps: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            submitted: SubmissionCounts::new(excerpt),
        }
    }

    /// The load submitted, by the cells of the play in which it was submitted.
    #[must_use]
    pub fn into_submitted(self) -> Vec<ModelInterval> {
        self.submitted.into_cells()
    }

    fn read(&mut self) {
        let Some(step) = self.requests.step() else {
            self.all_read = true;
            return;
        };
        self.read_until = step.request.intended_at;
        if let Some(link) = step.link {
            self.waiting.insert(step.number + u64::from(link.distance));
        }
        if self.waiting.remove(&step.number) {
            self.held.insert(step.number, step);
        } else {
            self.start_at(step, step.request.intended_at);
        }
    }

    fn start_at(&mut self, step: PackedReplayRequest, at: Nanos) {
        self.due.push(Reverse((at, step.number)));
        let request = OpRequest {
            intended_at: at,
            ..step.request
        };
        self.steps
            .insert(step.number, PackedReplayRequest { request, ..step });
    }

    /// Lets start what waited for a request that ended at `at`.
    fn follow(&mut self, number: u64, link: PackedDependency, at: Nanos) {
        let next = number + u64::from(link.distance);
        while !self.held.contains_key(&next) && !self.all_read {
            self.read();
        }
        if let Some(step) = self.held.remove(&next) {
            self.start_at(step, at + link.think);
        }
    }

    fn take(&mut self, slot: u32) -> Option<OpRequest> {
        let Reverse((_, number)) = self.due.pop()?;
        let step = self.steps.remove(&number)?;
        self.in_flight.insert(slot, (number, step.link));
        Some(step.request)
    }

    fn first_due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }
}

impl RequestSource for DependencyReplaySource {
    fn next(&mut self, now: Nanos, slot: u32) -> Result<NextRequest, EngineError> {
        if now >= self.end {
            return Ok(NextRequest::End);
        }
        let idle = self.in_flight.is_empty();
        // Bounded by the recording. Where nothing is in flight only a request behind can go on.
        while !self.all_read && (self.read_until <= now || idle && self.due.is_empty()) {
            self.read();
        }
        let first = self.first_due();
        if first.is_some_and(|at| at <= now) {
            return Ok(self
                .take(slot)
                .map_or(NextRequest::End, NextRequest::Request));
        }
        let behind = (!self.all_read).then_some(self.read_until);
        Ok(match first.into_iter().chain(behind).min() {
            Some(at) if idle && first.is_none_or(|first| first >= self.end) && at >= self.end => {
                NextRequest::End
            }
            Some(at) => NextRequest::Until(at.min(self.end)),
            None if idle => NextRequest::End,
            None => NextRequest::Wait,
        })
    }

    fn handed_over(&mut self, request: &OpRequest, at: Nanos) {
        self.submitted.count(request, at);
    }

    fn completed(&mut self, slot: u32, sample: &OpSample) {
        if let Some((number, Some(link))) = self.in_flight.remove(&slot) {
            self.follow(number, link, sample.completed_at);
        }
    }

    fn left_before(&mut self, time: Nanos, due: &mut dyn FnMut(Nanos)) -> u64 {
        let time = time.min(self.end);
        while !self.all_read && self.read_until < time {
            self.read();
        }
        let starts = self.due.iter().map(|Reverse((at, _))| *at);
        let left: Vec<Nanos> = starts.filter(|at| *at < time).collect();
        left.iter().for_each(|at| due(*at));
        left.len() as u64
    }
}
