// SPDX-License-Identifier: Apache-2.0
//! Systems that slow down with what is in them: a disk that is shared evenly, and one that thrashes.

use plimsoll_core::rng::Rng;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use super::{LawGroup, Set, Sink, System, Work};

/// An operation in service, by how much every operation will have been served when it is done.
struct Job {
    tag: f64,
    due: f64,
}

impl Ord for Job {
    fn cmp(&self, other: &Job) -> Ordering {
        other.tag.total_cmp(&self.tag)
    }
}
impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Job) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Job {
    fn eq(&self, other: &Job) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Job {}

/// Processor sharing behind a cache, which answers its share at once.
struct Shared {
    jobs: BinaryHeap<Job>,
    /// Work done for each operation in service since the beginning.
    served: f64,
    at: f64,
    hits: f64,
    work: Work,
    rng: Rng,
}

impl Shared {
    fn advance(&mut self, to: f64, sink: &mut Sink) {
        while let Some(next) = self.jobs.peek() {
            let time = (next.tag - self.served) * self.jobs.len() as f64;
            if self.at + time > to {
                self.served += (to - self.at) / self.jobs.len() as f64;
                break;
            }
            self.at += time;
            self.served = next.tag;
            sink.done(next.due, self.at - next.due);
            self.jobs.pop();
        }
        self.at = to;
    }
}

impl System for Shared {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        if self.rng.unit() < self.hits {
            sink.done(at, self.rng.exponential(0.000_2));
            return;
        }
        self.advance(at, sink);
        let tag = self.served + self.work.draw(&mut self.rng);
        self.jobs.push(Job { tag, due: at });
    }

    fn end(&mut self, at: f64, sink: &mut Sink) {
        self.advance(at, sink);
        for job in self.jobs.drain() {
            sink.withdrawn(job.due, at - job.due);
        }
    }
}

/// Serves in order, ever more slowly once more than `most` wait, down to a floor at twice as many.
struct Collapse {
    waiting: VecDeque<f64>,
    at: f64,
    rate: f64,
    most: f64,
    floor: f64,
    rng: Rng,
}

/// More than that are refused, which counts as this many seconds.
const ROOM: usize = 4_096;
const REFUSED: f64 = 60.0;

impl Collapse {
    fn served(&self) -> f64 {
        let over = (self.waiting.len() as f64 / self.most - 1.0).clamp(0.0, 1.0);
        self.rate * (1.0 - over * (1.0 - self.floor))
    }

    fn advance(&mut self, to: f64, sink: &mut Sink) {
        while let Some(&due) = self.waiting.front() {
            // Service times are exponential: what was served does not matter.
            self.at += self.rng.exponential(1.0 / self.served());
            if self.at > to {
                break;
            }
            sink.done(due, self.at - due);
            self.waiting.pop_front();
        }
        self.at = to;
    }
}

impl System for Collapse {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        self.advance(at, sink);
        if self.waiting.len() < ROOM {
            self.waiting.push_back(at);
        } else {
            sink.withdrawn(at, REFUSED);
        }
    }

    fn end(&mut self, at: f64, sink: &mut Sink) {
        self.advance(at, sink);
        for due in self.waiting.drain(..) {
            sink.withdrawn(due, at - due);
        }
    }
}

pub(super) fn sets() -> Vec<Set> {
    let mut sets = Vec::from(shared());
    sets.extend(collapse());
    sets
}

fn shared() -> [Set; 3] {
    let about = "Processor sharing behind a cache: the tail rises long before the knee";
    let shared = |hits, work| {
        Set::new("shared disk", about, LawGroup::Quiet, move |rng| Shared {
            jobs: BinaryHeap::new(),
            served: 0.0,
            at: 0.0,
            hits,
            work,
            rng,
        })
    };
    let pareto = Work::Pareto {
        shape: 1.7,
        smallest: 0.002,
        largest: 0.4,
    };
    [
        shared(
            0.7,
            Work::Lognormal {
                mean: 0.002,
                sigma: 1.0,
            },
        )
        .load(800.0, 0.05, 8.0),
        shared(0.5, pareto)
            .numbered(2)
            .limited(60.0)
            .load(10.0, 0.5, 80.0)
            .soak(15_000.0),
        shared(0.0, Work::Exponential { mean: 0.000_8 })
            .numbered(3)
            .load(3_000.0, 0.02, 2.0),
    ]
}

fn collapse() -> [Set; 2] {
    let about = "Throughput falls past the knee, and stays low while the load does not fall";
    let collapse = |rate, most, floor| {
        Set::new("collapse", about, LawGroup::Noisy, move |rng| Collapse {
            waiting: VecDeque::new(),
            at: 0.0,
            rate,
            most,
            floor,
            rng,
        })
    };
    [
        collapse(1_000.0, 15.0, 0.7)
            .limited(50.0)
            .load(400.0, 0.05, 8.0)
            .soak(5_000.0),
        collapse(400.0, 10.0, 0.6)
            .numbered(2)
            .limited(100.0)
            .load(20.0, 0.5, 60.0)
            .soak(15_000.0),
    ]
}
