// SPDX-License-Identifier: Apache-2.0
//! Several workers as one source: in virtual time there is one clock and one disk for all, so all
//! share a driver. Each worker keeps its own depth.

use std::collections::VecDeque;

use plimsoll_core::event::WorkerResult;
use plimsoll_core::op::{OpRequest, OpSample};
use plimsoll_core::units::Nanos;

use super::BlockIoSource;
use crate::error::EngineError;
use crate::source::{NextRequest, RequestSource};

/// Workers side by side.
#[derive(Debug)]
pub(crate) struct BlockIoSourceMux {
    workers: Vec<BlockIoMuxMember>,
    /// Which worker and which of its slots is in each slot of the engine.
    seats: Vec<(usize, u32)>,
    /// The worker that is asked first, so that none is favoured.
    first: usize,
}

#[derive(Debug)]
struct BlockIoMuxMember {
    source: BlockIoSource,
    free: VecDeque<u32>,
    ended: bool,
}

impl BlockIoSourceMux {
    /// These workers and their depths.
    pub(crate) fn new(workers: Vec<(BlockIoSource, u32)>) -> Self {
        let slots: u32 = workers.iter().map(|(_, depth)| depth).sum();
        let member = |(source, depth)| BlockIoMuxMember {
            source,
            free: (0..depth).collect(),
            ended: false,
        };
        BlockIoSourceMux {
            workers: workers.into_iter().map(member).collect(),
            seats: vec![(0, 0); slots as usize],
            first: 0,
        }
    }

    /// Which of the workers, by its place, has its operation in this slot of the engine.
    pub(crate) fn holder(&self, slot: u32) -> usize {
        self.seats[slot as usize].0
    }
}

impl RequestSource for BlockIoSourceMux {
    fn next(&mut self, now: Nanos, slot: u32) -> Result<NextRequest, EngineError> {
        let n = self.workers.len();
        let (mut earliest, mut all_ended) = (None, true);
        for number in (self.first..n).chain(0..self.first) {
            let member = &mut self.workers[number];
            if member.ended {
                continue;
            }
            // At most twice: when its counted work is over a worker may go on at once.
            while let Some(own) = member.free.front().copied() {
                match member.source.next(now, own)? {
                    NextRequest::Request(request) => {
                        member.free.pop_front();
                        self.seats[slot as usize] = (number, own);
                        self.first = (number + 1) % n;
                        return Ok(NextRequest::Request(request));
                    }
                    NextRequest::Until(at) if at > now => {
                        earliest = Some(earliest.map_or(at, |other: Nanos| other.min(at)));
                    }
                    NextRequest::Until(_) => continue,
                    NextRequest::End => member.ended = true,
                    NextRequest::Wait | NextRequest::Again => {}
                }
                break;
            }
            all_ended &= member.ended;
        }
        Ok(match earliest {
            Some(at) => NextRequest::Until(at),
            None if all_ended => NextRequest::End,
            None => NextRequest::Wait,
        })
    }

    fn is_counted(&self, slot: u32) -> bool {
        let (number, own) = self.seats[slot as usize];
        self.workers[number].source.is_counted(own)
    }

    fn completed(&mut self, slot: u32, sample: &OpSample) {
        let (number, own) = self.seats[slot as usize];
        let member = &mut self.workers[number];
        member.source.completed(own, sample);
        if member.source.goes_on(own) {
            member.free.push_front(own);
        } else {
            member.free.push_back(own);
        }
    }

    fn fill(&mut self, slot: u32, request: &OpRequest, bytes: &mut [u8]) {
        let (number, own) = self.seats[slot as usize];
        self.workers[number].source.fill(own, request, bytes);
    }

    fn workers(&self) -> Option<Vec<WorkerResult>> {
        let members = self.workers.iter();
        Some(members.map(|member| member.source.result()).collect())
    }

    fn given_up(&mut self, slot: u32, sample: &OpSample) {
        let (number, own) = self.seats[slot as usize];
        self.workers[number].source.given_up(own, sample);
    }

    fn left_before(&mut self, time: Nanos, due: &mut dyn FnMut(Nanos)) -> u64 {
        let members = self.workers.iter_mut();
        members.map(|m| m.source.left_before(time, due)).sum()
    }
}
