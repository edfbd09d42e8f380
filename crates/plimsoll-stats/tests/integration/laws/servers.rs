// SPDX-License-Identifier: Apache-2.0
//! Servers in front of a queue, first come, first served; stripes, and a device that naps.

use plimsoll_core::num::to_usize;
use plimsoll_core::rng::Rng;

use super::paths::LawPath;
use super::{LawGroup, Set, Sink, System, Work, split};

/// Work that the device has taken in when a trial ends, in seconds at most.
const TAKEN_IN: f64 = 1.0;

/// Equal servers, whose speed changes together along a path.
pub(super) struct LawServers {
    free: Vec<f64>,
    path: LawPath,
    work: Work,
    rng: Rng,
}

impl LawServers {
    pub(super) fn new(servers: usize, work: Work, path: LawPath, rng: Rng) -> LawServers {
        let free = vec![0.0; servers];
        LawServers {
            free,
            path,
            work,
            rng,
        }
    }
}

impl System for LawServers {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        let work = self.work.draw(&mut self.rng);
        let first = earliest(&mut self.free);
        let end = self.path.finish(at, first.max(at), work);
        *first = end;
        sink.done(at, end - at);
    }

    fn end(&mut self, at: f64, _sink: &mut Sink) {
        withdraw(&mut self.free, at);
    }
}

fn earliest(free: &mut [f64]) -> &mut f64 {
    free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap()
}

fn withdraw(free: &mut [f64], at: f64) {
    free.iter_mut()
        .for_each(|free| *free = free.min(at + TAKEN_IN));
}

/// An operation is cut in pieces, which go to disks in a row from any one on; it ends with the last.
struct Stripes {
    free: Vec<f64>,
    pieces: usize,
    work: Work,
    rng: Rng,
}

impl System for Stripes {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        let disks = self.free.len();
        let first = to_usize(self.rng.below(disks as u64));
        let mut last = at;
        for piece in 0..self.pieces {
            let free = &mut self.free[(first + piece) % disks];
            *free = free.max(at) + self.work.draw(&mut self.rng);
            last = last.max(*free);
        }
        sink.done(at, last - at);
    }

    fn end(&mut self, at: f64, _sink: &mut Sink) {
        withdraw(&mut self.free, at);
    }
}

/// Sleeps when nothing came for a while, and takes long to wake up.
struct Naps {
    free: Vec<f64>,
    work: Work,
    after: f64,
    wake: f64,
    rng: Rng,
}

impl System for Naps {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        let busy = self.free.iter().copied().fold(0.0, f64::max);
        if busy + self.after < at {
            self.free.fill(at + self.wake);
        }
        let work = self.work.draw(&mut self.rng);
        let first = earliest(&mut self.free);
        *first = first.max(at) + work;
        sink.done(at, *first - at);
    }

    fn end(&mut self, at: f64, _sink: &mut Sink) {
        withdraw(&mut self.free, at);
    }
}

pub(super) fn sets() -> Vec<Set> {
    let mut sets = Vec::from(heavy());
    sets.extend(large());
    sets.extend(stripes());
    sets.extend(naps());
    sets
}

fn queue(family: &'static str, about: &'static str, servers: usize, work: Work) -> Set {
    Set::new(family, about, LawGroup::Quiet, move |mut rng| {
        let path = LawPath::steady(split(&mut rng));
        LawServers::new(servers, work, path, rng)
    })
}

fn heavy() -> [Set; 3] {
    let set = |servers, work| {
        queue(
            "heavy tails",
            "M/G/k, service times with a heavy tail",
            servers,
            work,
        )
    };
    let many = Work::Pareto {
        shape: 1.8,
        smallest: 0.0035,
        largest: 1.0,
    };
    let one = Work::Pareto {
        shape: 2.1,
        smallest: 0.0004,
        largest: 0.5,
    };
    [
        set(
            4,
            Work::Lognormal {
                mean: 0.002,
                sigma: 1.2,
            },
        )
        .load(1_000.0, 0.1, 10.0),
        set(16, many)
            .numbered(2)
            .limited(100.0)
            .load(50.0, 1.0, 150.0),
        set(1, one)
            .numbered(3)
            .load(2_500.0, 0.02, 1.5)
            .soak(5_000.0),
    ]
}

fn large() -> [Set; 3] {
    let set = |small, large, chance| {
        let about = "M/G/1 with two sizes: small operations wait behind rare large ones";
        queue(
            "large among small",
            about,
            1,
            Work::Two {
                small,
                large,
                chance,
            },
        )
    };
    [
        set(0.0004, 0.008, 0.02).load(400.0, 0.1, 10.0),
        set(0.0002, 0.02, 0.01)
            .numbered(2)
            .limited(30.0)
            .load(2_500.0, 0.02, 4.0)
            .soak(8_000.0),
        set(0.0005, 0.003, 0.15).numbered(3).load(100.0, 0.5, 50.0),
    ]
}

fn stripes() -> [Set; 2] {
    let set = |disks, pieces, work| {
        let about = "An operation waits for the slowest of several disks";
        let set = Set::new("stripes", about, LawGroup::Quiet, move |rng| Stripes {
            free: vec![0.0; disks],
            pieces,
            work,
            rng,
        });
        set.soak(3_000.0)
    };
    [
        set(12, 4, Work::Exponential { mean: 0.004 })
            .limited(40.0)
            .load(500.0, 0.1, 10.0),
        set(
            6,
            6,
            Work::Gamma {
                shape: 4.0,
                mean: 0.002,
            },
        )
        .numbered(2)
        .load(25.0, 0.5, 100.0),
    ]
}

fn naps() -> [Set; 2] {
    let about = "A device that sleeps when idle: few operations are later than many";
    let set = |after, wake| {
        let set = Set::new("naps", about, LawGroup::Quiet, move |rng| Naps {
            free: vec![0.0; 2],
            work: Work::Exponential { mean: 0.002 },
            after,
            wake,
            rng,
        });
        set.not_monotone()
    };
    [
        set(0.1, 0.03).load(60.0, 0.2, 60.0),
        set(0.03, 0.04)
            .numbered(2)
            .limited(30.0)
            .load(300.0, 0.1, 15.0),
    ]
}
