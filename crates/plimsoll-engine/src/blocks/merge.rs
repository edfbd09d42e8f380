// SPDX-License-Identifier: Apache-2.0
//! Several workers as one source: in virtual time there is one clock and one disk for all, so all
//! share a driver. Each worker keeps its own depth.

use std::collections::VecDeque;

use plimsoll_core::event::WorkerResult;
use plimsoll_core::op::{Request, Sample};
use plimsoll_core::units::Nanos;

use super::BlockSource;
use crate::error::Error;
use crate::source::{Next, Source};

/// Workers side by side.
#[derive(Debug)]
pub(crate) struct Merged {
    workers: Vec<Member>,
    /// Which worker and which of its slots is in each slot of the engine.
    seats: Vec<(usize, u32)>,
    /// The worker that is asked first, so that none is favoured.
    first: usize,
}

#[derive(Debug)]
struct Member {
    source: BlockSource,
    free: VecDeque<u32>,
    ended: bool,
}

impl Merged {
    /// These workers and their depths.
    pub(crate) fn new(workers: Vec<(BlockSource, u32)>) -> Self {
        let slots: u32 = workers.iter().map(|(_, depth)| depth).sum();
        let member = |(source, depth)| Member {
            source,
            free: (0..depth).collect(),
            ended: false,
        };
        Merged {
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

impl Source for Merged {
    fn next(&mut self, now: Nanos, slot: u32) -> Result<Next, Error> {
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
                    Next::Request(request) => {
                        member.free.pop_front();
                        self.seats[slot as usize] = (number, own);
                        self.first = (number + 1) % n;
                        return Ok(Next::Request(request));
                    }
                    Next::Until(at) if at > now => {
                        earliest = Some(earliest.map_or(at, |other: Nanos| other.min(at)));
                    }
                    Next::Until(_) => continue,
                    Next::End => member.ended = true,
                    Next::Wait | Next::Again => {}
                }
                break;
            }
            all_ended &= member.ended;
        }
        Ok(match earliest {
            Some(at) => Next::Until(at),
            None if all_ended => Next::End,
            None => Next::Wait,
        })
    }

    fn is_counted(&self, slot: u32) -> bool {
        let (number, own) = self.seats[slot as usize];
        self.workers[number].source.is_counted(own)
    }

    fn completed(&mut self, slot: u32, sample: &Sample) {
        let (number, own) = self.seats[slot as usize];
        let member = &mut self.workers[number];
        member.source.completed(own, sample);
        if member.source.goes_on(own) {
            member.free.push_front(own);
        } else {
            member.free.push_back(own);
        }
    }

    fn fill(&mut self, slot: u32, request: &Request, bytes: &mut [u8]) {
        let (number, own) = self.seats[slot as usize];
        self.workers[number].source.fill(own, request, bytes);
    }

    fn workers(&self) -> Option<Vec<WorkerResult>> {
        let members = self.workers.iter();
        Some(members.map(|member| member.source.result()).collect())
    }

    fn given_up(&mut self, slot: u32, sample: &Sample) {
        let (number, own) = self.seats[slot as usize];
        self.workers[number].source.given_up(own, sample);
    }

    fn left_before(&mut self, time: Nanos, due: &mut dyn FnMut(Nanos)) -> u64 {
        let members = self.workers.iter_mut();
        members.map(|m| m.source.left_before(time, due)).sum()
    }
}
