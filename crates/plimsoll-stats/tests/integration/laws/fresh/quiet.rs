// SPDX-License-Identifier: Apache-2.0
//! Systems whose states last milliseconds.

use std::collections::{BTreeMap, VecDeque};

use plimsoll_core::num::to_usize;
use plimsoll_core::rng::Rng;

use super::queue::{ArrivalGaps, FifoQueue};
use crate::laws::{LawGroup, Set, Sink, System, Work, split};

pub(super) fn sets() -> Vec<Set> {
    let mut sets = Vec::from(lines());
    sets.extend(crowds());
    sets.extend(compounds());
    sets
}

fn quiet<S: System + 'static>(
    family: &'static str,
    description: &'static str,
    build: impl Fn(Rng) -> S + 'static,
) -> Set {
    Set::new(family, description, LawGroup::Quiet, build)
}

/// Servers in parallel, each of which takes this work.
fn servers(count: usize, work: Work, gaps: ArrivalGaps, rng: Rng) -> impl System {
    FifoQueue::new(count, rng, move |start, rng| start + work.draw(rng)).gaps(gaps)
}

fn lines() -> [Set; 5] {
    let page = 8_192.0 / 117e6;
    let extent = 262_144.0 / 117e6;
    let sizes = Work::Two {
        small: page,
        large: extent,
        chance: 0.1,
    };
    let disk = Work::Pareto {
        shape: 1.5,
        smallest: 0.004,
        largest: 0.250,
    };
    let channel = Work::Lognormal {
        mean: 0.000_8,
        sigma: 0.9,
    };
    let path = Work::Exponential { mean: 0.005 };
    [
        quiet(
            "weibull reads",
            "a SATA flash disk, one read at a time, Weibull times of shape 0.7",
            |rng| {
                // Γ(1 + 1 / 0.7) is 1.265 823: the mean is 0.9 ms.
                let scale = 0.000_9 / 1.265_823;
                FifoQueue::new(1, rng, move |start, rng| {
                    start + scale * rng.exponential(1.0).powf(1.0 / 0.7)
                })
            },
        )
        .limited(10.0)
        .load(200.0, 0.2, 20.0)
        .soak(6_000.0),
        quiet(
            "iscsi link",
            "a gigabit link that carries pages and, one in ten, extents",
            move |rng| servers(1, sizes, ArrivalGaps::Poisson, rng),
        )
        .limited(12.0)
        .load(500.0, 0.5, 30.0)
        .soak(900.0),
        quiet(
            "mirror",
            "two disks with the same data; Pareto times up to a quarter of a second",
            move |rng| servers(2, disk, ArrivalGaps::Poisson, rng),
        )
        .limited(150.0)
        .load(40.0, 0.3, 12.0)
        .soak(20_000.0),
        quiet(
            "eight channels",
            "flash channels that a paced application reads; lognormal times",
            move |rng| servers(8, channel, ArrivalGaps::Regular, rng),
        )
        .limited(6.0)
        .load(3_000.0, 0.5, 7.0)
        .soak(200.0),
        quiet(
            "sixteen paths",
            "sixteen queues of an array, hyperexponential arrivals",
            move |rng| servers(16, path, ArrivalGaps::Bursty, rng),
        )
        .limited(40.0)
        .load(400.0, 1.0, 40.0)
        .soak(700.0),
    ]
}

/// Operations of which any is equally likely the next to end, as exponential sizes that share a server are.
struct Crowd {
    /// When they were due; none of what a device goes on with after a trial.
    inside: Vec<Option<f64>>,
    /// Operations that end per second, by the number inside.
    ends: fn(f64) -> f64,
    /// Operations that a device goes on with after a trial.
    keeps: usize,
    now: f64,
    rng: Rng,
}

impl Crowd {
    fn advance(&mut self, to: f64, sink: &mut Sink) {
        while !self.inside.is_empty() {
            let step = self
                .rng
                .exponential(1.0 / (self.ends)(self.inside.len() as f64));
            if self.now + step > to {
                break;
            }
            self.now += step;
            let which = self.rng.below(self.inside.len() as u64);
            if let Some(due) = self.inside.swap_remove(to_usize(which)) {
                sink.done(due, self.now - due);
            }
        }
        self.now = to;
    }
}

impl System for Crowd {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        self.advance(at, sink);
        self.inside.push(Some(at));
    }

    fn end(&mut self, at: f64, sink: &mut Sink) {
        self.advance(at, sink);
        for due in self.inside.iter_mut().filter_map(Option::take) {
            sink.withdrawn(due, at - due);
        }
        self.inside.truncate(self.keeps);
    }
}

fn crowd(keeps: usize, ends: fn(f64) -> f64) -> impl Fn(Rng) -> Crowd {
    move |rng| Crowd {
        inside: Vec::new(),
        ends,
        keeps,
        now: 0.0,
        rng,
    }
}

fn crowds() -> [Set; 2] {
    [
        quiet(
            "capped shares",
            "ten gigabits that clients with a gigabit each share; exponential sizes of a mebibyte",
            crowd(0, |inside| inside.min(10.0) / 0.008),
        )
        .limited(60.0)
        .load(100.0, 1.0, 40.0)
        .soak(2_000.0),
        quiet(
            "elevator",
            "a disk that serves the nearest, so faster the more wait",
            crowd(32, |inside| {
                1.0 / (0.004 + 0.008_5 / inside.min(32.0).sqrt())
            }),
        )
        .limited(200.0)
        .load(30.0, 0.5, 20.0)
        .soak(15_000.0),
    ]
}

/// A line whose operations go on to another.
struct Stages<F, G> {
    first: FifoQueue<F>,
    second: FifoQueue<G>,
}

impl<F: FnMut(f64, &mut Rng) -> f64, G: FnMut(f64, &mut Rng) -> f64> Stages<F, G> {
    fn advance(&mut self, to: f64, sink: &mut Sink) {
        let Stages { first, second } = self;
        first.begin(to, |due, end| second.join(due, end));
        second.begin(to, |due, end| sink.done(due, end - due));
    }
}

impl<F: FnMut(f64, &mut Rng) -> f64, G: FnMut(f64, &mut Rng) -> f64> System for Stages<F, G> {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        self.first.join(at, at);
        self.advance(at, sink);
    }

    fn end(&mut self, at: f64, sink: &mut Sink) {
        self.advance(at, sink);
        self.first.withdraw(at, sink);
        self.second.withdraw(at, sink);
    }
}

/// A cache before some disks.
struct Cached<F> {
    misses: f64,
    disks: Vec<FifoQueue<F>>,
    rng: Rng,
}

impl<F: FnMut(f64, &mut Rng) -> f64> System for Cached<F> {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        if self.rng.unit() < self.misses {
            let which = self.rng.below(self.disks.len() as u64);
            self.disks[to_usize(which)].arrive(at, sink);
        } else {
            sink.done(at, self.rng.exponential(0.000_15));
        }
    }

    fn end(&mut self, at: f64, sink: &mut Sink) {
        self.disks.iter_mut().for_each(|disk| disk.end(at, sink));
    }
}

/// A log whose appends go together: whatever has come, but at most 64.
struct Appends {
    waiting: VecDeque<f64>,
    free: f64,
    rng: Rng,
}

impl Appends {
    fn begin(&mut self, now: f64, sink: &mut Sink) {
        let sync = Work::Lognormal {
            mean: 0.002,
            sigma: 0.5,
        };
        while let Some(first) = self.waiting.front() {
            let start = first.max(self.free);
            if start > now {
                break;
            }
            let count = self
                .waiting
                .iter()
                .take(64)
                .take_while(|due| **due <= start)
                .count();
            self.free = start + sync.draw(&mut self.rng) + 0.000_02 * count as f64;
            for due in self.waiting.drain(..count) {
                sink.done(due, self.free - due);
            }
        }
    }
}

impl System for Appends {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        self.waiting.push_back(at);
        self.begin(at, sink);
    }

    fn end(&mut self, at: f64, sink: &mut Sink) {
        self.begin(at, sink);
        for due in self.waiting.drain(..) {
            sink.withdrawn(due, at - due);
        }
    }
}

/// One disk, of whose operations writes wait until no read does.
struct ReadsFirst {
    reads: VecDeque<f64>,
    writes: VecDeque<f64>,
    free: f64,
    rng: Rng,
}

impl ReadsFirst {
    fn begin(&mut self, now: f64, sink: &mut Sink) {
        let due = |queue: &VecDeque<f64>| queue.front().copied().unwrap_or(f64::INFINITY);
        // Ends: each round takes an operation off, and with none left the start is never.
        loop {
            let start = due(&self.reads).min(due(&self.writes)).max(self.free);
            if start > now {
                break;
            }
            let (queue, mean) = if due(&self.reads) <= start {
                (&mut self.reads, 0.003)
            } else {
                (&mut self.writes, 0.006)
            };
            let due = queue.pop_front().unwrap();
            self.free = start + self.rng.exponential(mean);
            sink.done(due, self.free - due);
        }
    }
}

impl System for ReadsFirst {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        let is_write = self.rng.unit() < 0.3;
        let queue = if is_write {
            &mut self.writes
        } else {
            &mut self.reads
        };
        queue.push_back(at);
        self.begin(at, sink);
    }

    fn end(&mut self, at: f64, sink: &mut Sink) {
        self.begin(at, sink);
        for due in self.reads.drain(..).chain(self.writes.drain(..)) {
            sink.withdrawn(due, at - due);
        }
    }
}

/// Who was refused, and how often.
#[derive(Debug, Clone, Copy)]
struct Refused {
    due: f64,
    times: i32,
}

/// Workers with little room before them; who finds none comes again after a random part of a growing time.
struct Retried<F> {
    workers: FifoQueue<F>,
    room: usize,
    /// By the bits of the time, which order as times do, and a number that tells equal ones apart.
    again: BTreeMap<(u64, u64), Refused>,
    refusals: u64,
    rng: Rng,
}

impl<F: FnMut(f64, &mut Rng) -> f64> Retried<F> {
    fn come(&mut self, at: f64, one: Refused, sink: &mut Sink) {
        self.workers.begin(at, |due, end| sink.done(due, end - due));
        if self.workers.inside(at) < self.room {
            self.workers.join(one.due, at);
            self.workers.begin(at, |due, end| sink.done(due, end - due));
            return;
        }
        let most = (0.1 * 2.0_f64.powi(one.times)).min(5.0);
        let next = at + self.rng.unit() * most;
        let times = one.times + 1;
        self.refusals += 1;
        self.again
            .insert((next.to_bits(), self.refusals), Refused { times, ..one });
    }

    fn advance(&mut self, to: f64, sink: &mut Sink) {
        while let Some(first) = self.again.first_entry() {
            let at = f64::from_bits(first.key().0);
            if at > to {
                break;
            }
            let one = first.remove();
            self.come(at, one, sink);
        }
    }
}

impl<F: FnMut(f64, &mut Rng) -> f64> System for Retried<F> {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        self.advance(at, sink);
        self.come(at, Refused { due: at, times: 0 }, sink);
    }

    fn end(&mut self, at: f64, sink: &mut Sink) {
        self.advance(at, sink);
        self.workers.end(at, sink);
        for one in std::mem::take(&mut self.again).into_values() {
            sink.withdrawn(one.due, at - one.due);
        }
    }
}

/// Servers of exponential times.
fn exponential(count: usize, mean: f64, rng: Rng) -> FifoQueue<impl FnMut(f64, &mut Rng) -> f64> {
    FifoQueue::new(count, rng, move |start, rng: &mut Rng| {
        start + rng.exponential(mean)
    })
}

fn compounds() -> [Set; 5] {
    [
        quiet(
            "two stages",
            "a controller, and six disks behind it",
            |mut rng| Stages {
                first: exponential(1, 0.000_25, split(&mut rng)),
                second: exponential(6, 0.006, rng),
            },
        )
        .limited(40.0)
        .load(250.0, 0.4, 15.0)
        .soak(2_000.0),
        quiet(
            "cached reads",
            "a cache that finds 85 of 100, before four disks",
            |mut rng| Cached {
                misses: 0.15,
                disks: (0..4)
                    .map(|_| exponential(1, 0.008, split(&mut rng)))
                    .collect(),
                rng,
            },
        )
        .limited(50.0)
        .load(300.0, 1.0, 40.0)
        .soak(1_200.0),
        quiet(
            "joint appends",
            "a replicated log that syncs what has come as one",
            |rng| Appends {
                waiting: VecDeque::new(),
                free: 0.0,
                rng,
            },
        )
        .limited(12.0)
        .load(1_500.0, 1.0, 30.0)
        .soak(120.0),
        quiet(
            "reads first",
            "a disk whose scheduler lets reads pass writes",
            |rng| ReadsFirst {
                reads: VecDeque::new(),
                writes: VecDeque::new(),
                free: 0.0,
                rng,
            },
        )
        .limited(120.0)
        .load(50.0, 0.5, 20.0)
        .soak(12_000.0),
        quiet(
            "busy and retry",
            "an object store that refuses, and clients that back off",
            |mut rng| Retried {
                workers: exponential(12, 0.020, split(&mut rng)),
                room: 24,
                again: BTreeMap::new(),
                refusals: 0,
                rng,
            },
        )
        .limited(400.0)
        .load(100.0, 0.5, 12.0)
        .soak(4_000.0),
    ]
}
