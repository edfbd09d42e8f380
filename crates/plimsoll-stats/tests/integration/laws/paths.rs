// SPDX-License-Identifier: Apache-2.0
//! Servers whose speed follows a path that knows nothing of the load: scrubs, pauses, neighbours, wear.

use plimsoll_core::rng::Rng;
use std::collections::VecDeque;

use super::servers::LawServers;
use super::{LawGroup, LawTruth, Set, Work, split};

/// Draws the next stretch: its length, and the speed during it.
type Stretches = Box<dyn FnMut(&mut Rng) -> (f64, f64)>;

/// Speed over time, in stretches.
pub(super) struct LawPath {
    next: Stretches,
    /// When each known stretch ends, and its speed.
    known: VecDeque<(f64, f64)>,
    rng: Rng,
}

impl LawPath {
    fn new(rng: Rng, next: Stretches) -> LawPath {
        let known = VecDeque::from([(0.0, 1.0)]);
        LawPath { next, known, rng }
    }

    /// Always full speed.
    pub(super) fn steady(rng: Rng) -> LawPath {
        LawPath::new(rng, Box::new(|_| (f64::INFINITY, 1.0)))
    }

    /// When work that starts at `start` ends; nothing will be asked that starts before `now`.
    pub(super) fn finish(&mut self, now: f64, start: f64, work: f64) -> f64 {
        while self.known.len() > 1 && self.known[0].0 <= now {
            self.known.pop_front();
        }
        let mut at = start;
        let mut left = work;
        let mut stretch = self.known.partition_point(|(end, _)| *end <= start);
        // Ends: speeds are above 0, but for pauses that end.
        loop {
            let (end, speed) = self.stretch(stretch);
            if end > at {
                let can = (end - at) * speed;
                if can >= left {
                    return at + left / speed;
                }
                left -= can;
                at = end;
            }
            stretch += 1;
        }
    }

    fn stretch(&mut self, number: usize) -> (f64, f64) {
        while self.known.len() <= number {
            let (length, speed) = (self.next)(&mut self.rng);
            let end = self.known.back().map_or(0.0, |(end, _)| *end);
            self.known.push_back((end + length, speed));
        }
        self.known[number]
    }
}

/// Full speed and another one in turn, each for a time that is drawn; begins anywhere within a round.
fn in_turn(draw: impl Fn(&mut Rng) -> (f64, f64) + 'static, speed: f64) -> Stretches {
    let (mut queue, mut has_begun) = (Vec::new(), false);
    Box::new(move |rng| {
        if queue.is_empty() {
            let (full, other) = draw(rng);
            queue = vec![(other, speed), (full, 1.0)];
            if !has_begun {
                has_begun = true;
                let skipped = rng.unit() * (full + other);
                queue[1].0 = (full - skipped).max(0.0);
                queue[0].0 = other - (skipped - full).max(0.0);
            }
        }
        queue.pop().unwrap()
    })
}

pub(super) fn sets() -> Vec<Set> {
    let mut sets = Vec::from(scrub());
    sets.extend(pauses());
    sets.extend(neighbour());
    sets.extend(wandering());
    sets.extend(ageing());
    sets
}

/// `path` makes the stretches.
fn set<P>(family: &'static str, about: &'static str, servers: usize, work: Work, path: P) -> Set
where
    P: Fn() -> Stretches + 'static,
{
    Set::new(family, about, LawGroup::Noisy, move |mut rng| {
        let path = LawPath::new(split(&mut rng), path());
        LawServers::new(servers, work, path, rng)
    })
}

fn scrub() -> [Set; 3] {
    let scrub = |servers, mean, period: f64, length: f64, speed| {
        let about = "A scrub that comes at fixed times, whatever the load, and slows all down";
        let path = move || in_turn(move |_| (period - length, length), speed);
        set(
            "scrub",
            about,
            servers,
            Work::Gamma { shape: 2.0, mean },
            path,
        )
    };
    [
        scrub(2, 0.004, 90.0, 9.0, 0.6)
            .load(150.0, 0.1, 10.0)
            .soak(9_000.0),
        scrub(4, 0.008, 600.0, 60.0, 0.8)
            .numbered(2)
            .limited(60.0)
            .load(20.0, 0.5, 100.0)
            .soak(12_000.0),
        scrub(1, 0.0008, 20.0, 4.0, 0.5)
            .numbered(3)
            .load(2_000.0, 0.02, 3.0)
            .soak(4_000.0),
    ]
}

fn pauses() -> [Set; 3] {
    let pauses = |servers, mean, every: f64, length: f64| {
        let about = "Nothing is served for a moment now and then, whatever the load";
        let draw = move |rng: &mut Rng| (every * (0.8 + 0.4 * rng.unit()), length);
        let path = move || in_turn(draw, 0.0);
        set("pauses", about, servers, Work::Exponential { mean }, path)
    };
    [
        pauses(1, 0.002, 200.0, 1.0)
            .limited(50.0)
            .load(125.0, 0.1, 10.0)
            .soak(24_000.0),
        pauses(4, 0.008, 60.0, 0.25)
            .numbered(2)
            .limited(50.0)
            .load(20.0, 0.5, 60.0)
            .soak(15_000.0),
        pauses(1, 0.002, 200.0, 3.0)
            .numbered(3)
            .load(125.0, 0.1, 10.0)
            .soak(8_000.0)
            .answers(LawTruth::Never),
    ]
}

fn neighbour() -> [Set; 2] {
    let neighbour = |servers, work, away: f64, here: f64, speed| {
        let about = "A neighbour that comes and goes as a Markov process, for minutes each";
        let draw = move |rng: &mut Rng| (rng.exponential(away), rng.exponential(here));
        set("neighbour", about, servers, work, move || {
            in_turn(draw, speed)
        })
    };
    let (one, many) = (
        Work::Exponential { mean: 1.0 / 300.0 },
        Work::Gamma {
            shape: 2.0,
            mean: 0.016,
        },
    );
    [
        neighbour(1, one, 240.0, 120.0, 0.65)
            .limited(50.0)
            .load(100.0, 0.1, 10.0)
            .soak(80_000.0),
        neighbour(4, many, 450.0, 30.0, 0.6)
            .numbered(2)
            .limited(100.0)
            .load(8.0, 0.5, 80.0)
            .soak(80_000.0),
    ]
}

fn wandering() -> [Set; 2] {
    let wandering = |servers, mean, sigma: f64, memory: f64| {
        let about = "A speed whose logarithm is an AR(1) process by the second";
        let path = move || -> Stretches {
            let keep = (-1.0 / memory).exp();
            let mut log = 0.0;
            Box::new(move |rng| {
                log = keep * log + (1.0 - keep * keep).sqrt() * sigma * rng.normal();
                (1.0, log.exp())
            })
        };
        set(
            "wandering speed",
            about,
            servers,
            Work::Exponential { mean },
            path,
        )
    };
    [
        wandering(1, 1.0 / 800.0, 0.12, 20.0)
            .load(500.0, 0.1, 10.0)
            .soak(15_000.0),
        wandering(8, 0.01, 0.2, 5.0)
            .numbered(2)
            .limited(60.0)
            .load(25.0, 0.5, 100.0)
            .soak(8_000.0),
    ]
}

/// M/M/1, whose truth at any moment is μ + ln(share) ÷ limit.
fn ageing() -> [Set; 2] {
    let ageing = |served: f64, loss: f64, hours: f64, ms: f64, rate: f64| {
        let about = "A speed that sinks evenly for hours and then stays: M/M/1 at any moment";
        let path = move || -> Stretches {
            let (mut at, step) = (0.0, 20.0);
            Box::new(move |_| {
                let speed = 1.0 - loss * f64::min(at / (hours * 3_600.0), 1.0);
                at += step;
                (step, speed)
            })
        };
        let carried = |speed: f64| (served * speed + 0.01_f64.ln() / (ms / 1000.0)) / rate;
        let (low, high) = (carried(1.0 - loss), carried(1.0));
        let set = set(
            "ageing",
            about,
            1,
            Work::Exponential { mean: 1.0 / served },
            path,
        );
        set.limited(ms).answers(LawTruth::Sinks { low, high })
    };
    [
        ageing(600.0, 0.12, 4.0, 50.0, 100.0).load(100.0, 0.1, 20.0),
        ageing(1_500.0, 0.08, 2.0, 20.0, 2_500.0)
            .numbered(2)
            .load(2_500.0, 0.02, 3.0),
    ]
}
