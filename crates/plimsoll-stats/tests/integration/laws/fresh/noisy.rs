// SPDX-License-Identifier: Apache-2.0
//! Systems whose states last minutes: one server, whose speed or work surroundings change.

use plimsoll_core::num::saturating_u32;
use plimsoll_core::rng::Rng;

use super::queue::FifoQueue;
use crate::laws::{LawGroup, Set, split};

/// When an operation ends that begins at this time.
type Serve = Box<dyn FnMut(f64, &mut Rng) -> f64>;

fn noisy(
    family: &'static str,
    description: &'static str,
    build: impl Fn(Rng) -> Serve + 'static,
) -> Set {
    let build = move |mut rng: Rng| {
        let serve = build(split(&mut rng));
        FifoQueue::new(1, rng, serve)
    };
    Set::new(family, description, LawGroup::Noisy, build)
}

pub(super) fn sets() -> Vec<Set> {
    vec![
        noisy(
            "array neighbours",
            "six hosts of an array that come and go, each takes an eighth",
            neighbours,
        )
        .limited(40.0)
        .load(100.0, 0.4, 20.0)
        .soak(30_000.0),
        noisy(
            "flash collector",
            "a flash disk that collects garbage once so much is written",
            collector,
        )
        .limited(15.0)
        .load(200.0, 0.2, 20.0)
        .soak(6_000.0),
        noisy(
            "hot controller",
            "a flash disk that throttles when hot, until it has cooled",
            hot,
        )
        .limited(10.0)
        .load(150.0, 0.5, 20.0)
        .soak(9_600.0),
        noisy(
            "leaky bucket",
            "a virtual disk with a limit, and twenty seconds of burst",
            bucket,
        )
        .limited(30.0)
        .load(50.0, 0.5, 40.0)
        .soak(16_000.0),
        noisy(
            "media cache",
            "a shingled disk whose cache is cleaned when it is idle",
            media,
        )
        .limited(50.0)
        .load(30.0, 0.5, 25.0)
        .soak(30_000.0),
        noisy(
            "snapshots",
            "a volume whose first writes after a snapshot copy",
            snapshots,
        )
        .limited(50.0)
        .load(100.0, 0.3, 20.0)
        .soak(9_000.0),
        noisy(
            "wandering cluster",
            "a cluster whose speed others move, a step in minutes",
            wandering,
        )
        .limited(60.0)
        .load(25.0, 0.3, 20.0)
        .soak(60_000.0),
    ]
}

/// Surroundings that change the speed of a server.
trait Surroundings {
    fn speed(&self) -> f64;
    /// When that changes next.
    fn next(&self) -> f64;
    /// The time of the change has come.
    fn change(&mut self);
}

/// When work ends that begins at this time.
fn worked(around: &mut impl Surroundings, start: f64, mut work: f64) -> f64 {
    while around.next() <= start {
        around.change();
    }
    let mut now = start;
    // Ends: changes are apart, and no speed is 0.
    while around.next() < now + work / around.speed() {
        let next = around.next();
        work -= (next - now) * around.speed();
        now = next;
        around.change();
    }
    now + work / around.speed()
}

const NEIGHBOURS: u32 = 6;
const ON_S: f64 = 90.0;
const OFF_S: f64 = 300.0;

struct Neighbours {
    on: u32,
    next: f64,
    rng: Rng,
}

impl Neighbours {
    fn leaving(&self) -> f64 {
        f64::from(self.on) / ON_S
    }

    fn coming(&self) -> f64 {
        f64::from(NEIGHBOURS - self.on) / OFF_S
    }

    fn wait(&mut self, now: f64) {
        self.next = now + self.rng.exponential(1.0 / (self.leaving() + self.coming()));
    }
}

impl Surroundings for Neighbours {
    fn speed(&self) -> f64 {
        1.0 - 0.12 * f64::from(self.on)
    }

    fn next(&self) -> f64 {
        self.next
    }

    fn change(&mut self) {
        let all = self.leaving() + self.coming();
        if self.rng.unit() * all < self.leaving() {
            self.on -= 1;
        } else {
            self.on += 1;
        }
        self.wait(self.next);
    }
}

fn neighbours(mut rng: Rng) -> Serve {
    let is_on = |_: &u32| rng.unit() < ON_S / (ON_S + OFF_S);
    let on = saturating_u32((0..NEIGHBOURS).filter(is_on).count() as u64);
    let mut around = Neighbours { on, next: 0.0, rng };
    around.wait(0.0);
    Box::new(move |start, rng| worked(&mut around, start, rng.gamma(2.0, 0.002)))
}

/// Free pages when collection ends, above those at which it begins, and how many it frees in a second.
const PAGES: f64 = 60_000.0;
const FREED: f64 = 1_500.0;

struct Collector {
    free: f64,
    /// Instant of the collection at which `free` pages were free; `None` while it does not collect.
    since: Option<f64>,
}

impl Collector {
    fn written(&mut self, at: f64) {
        if let Some(since) = &mut self.since {
            self.free += FREED * (at - *since);
            *since = at;
        }
        self.free -= 1.0;
        if self.free <= 0.0 {
            self.since = Some(at);
        }
    }
}

impl Surroundings for Collector {
    fn speed(&self) -> f64 {
        self.since.map_or(1.0, |_| 0.45)
    }

    fn next(&self) -> f64 {
        let full = |since| since + (PAGES - self.free) / FREED;
        self.since.map_or(f64::INFINITY, full)
    }

    fn change(&mut self) {
        self.free = PAGES;
        self.since = None;
    }
}

fn collector(_rng: Rng) -> Serve {
    let mut around = Collector {
        free: PAGES,
        since: None,
    };
    Box::new(move |start, rng| {
        let end = worked(&mut around, start, rng.gamma(2.0, 0.000_8));
        around.written(end);
        end
    })
}

/// Temperatures of a disk in a rack whose air swings by three degrees in forty minutes.
struct Hot {
    /// Degrees that operations added, as of the time `at`.
    degrees: f64,
    at: f64,
    is_throttled: bool,
    /// The controller looks each second.
    next: f64,
}

impl Hot {
    fn cool(&mut self, at: f64) {
        self.degrees *= (-(at - self.at) / 120.0).exp();
        self.at = at;
    }

    fn heat(&mut self, at: f64) {
        self.cool(at);
        self.degrees += if self.is_throttled { 0.000_3 } else { 0.000_5 };
    }
}

impl Surroundings for Hot {
    fn speed(&self) -> f64 {
        if self.is_throttled { 0.35 } else { 1.0 }
    }

    fn next(&self) -> f64 {
        self.next
    }

    fn change(&mut self) {
        self.cool(self.next);
        let air = 45.0 + 3.0 * (std::f64::consts::TAU * self.next / 2_400.0).sin();
        let bound = if self.is_throttled { 72.0 } else { 80.0 };
        self.is_throttled = air + self.degrees > bound;
        self.next += 1.0;
    }
}

fn hot(_rng: Rng) -> Serve {
    let mut around = Hot {
        degrees: 0.0,
        at: 0.0,
        is_throttled: false,
        next: 1.0,
    };
    Box::new(move |start, rng| {
        let end = worked(&mut around, start, rng.exponential(0.000_5));
        around.heat(end);
        end
    })
}

/// A level that leaks, and above which nothing passes.
struct Bucket {
    level: f64,
    most: f64,
    leak: f64,
}

impl Bucket {
    /// How long an operation would wait that comes so long after what was last asked or passed.
    fn wait(&mut self, since: f64) -> f64 {
        self.level = (self.level - self.leak * since).max(0.0);
        ((self.level - self.most) / self.leak).max(0.0)
    }
}

fn bucket(_rng: Rng) -> Serve {
    let bucket = |most, leak| Bucket {
        level: 0.0,
        most,
        leak,
    };
    // 200 a second; a burst of 1,000 a second for 20 s, itself even within a tenth of a second.
    let mut buckets = [bucket(20_000.0, 200.0), bucket(100.0, 1_000.0)];
    let mut last = 0.0;
    Box::new(move |start, _| {
        let waits = buckets.each_mut().map(|bucket| bucket.wait(start - last));
        let wait = waits[0].max(waits[1]);
        for bucket in &mut buckets {
            bucket.wait(wait);
            bucket.level += 1.0;
        }
        last = start + wait;
        last
    })
}

/// Writes that the cache of a shingled disk holds, and how many are moved out of it in an idle second.
const HELD: f64 = 8_000.0;
const CLEANED: f64 = 150.0;

fn media(_rng: Rng) -> Serve {
    let (mut held, mut ended) = (0.0_f64, 0.0);
    Box::new(move |start, rng| {
        held = (held - CLEANED * (start - ended)).max(0.0);
        let clean = if held < HELD {
            held += 1.0;
            0.0
        } else {
            0.005
        };
        ended = start + clean + rng.exponential(0.001_5);
        ended
    })
}

/// Seconds between snapshots, and pieces of a volume that the first write to each copies.
const PERIOD_S: f64 = 900.0;
const PIECES: f64 = 20_000.0;

fn snapshots(_rng: Rng) -> Serve {
    let (mut number, mut written) = (0.0, 0.0);
    Box::new(move |start, rng| {
        let now = (start / PERIOD_S).floor();
        if now > number {
            (number, written) = (now, 0.0);
        }
        let is_first = rng.unit() < (-written / PIECES).exp();
        written += 1.0;
        let copy = if is_first {
            rng.exponential(0.004)
        } else {
            0.0
        };
        start + copy + rng.gamma(2.0, 0.001)
    })
}

/// Speeds from 0.55 to 1; a step beyond them is none.
struct Wandering {
    level: u32,
    next: f64,
    rng: Rng,
}

impl Surroundings for Wandering {
    fn speed(&self) -> f64 {
        0.55 + 0.05 * f64::from(self.level)
    }

    fn next(&self) -> f64 {
        self.next
    }

    fn change(&mut self) {
        self.level = if self.rng.unit() < 0.5 {
            self.level.saturating_sub(1)
        } else {
            (self.level + 1).min(9)
        };
        self.next += self.rng.exponential(100.0);
    }
}

fn wandering(mut rng: Rng) -> Serve {
    let level = saturating_u32(rng.below(10));
    let next = rng.exponential(100.0);
    let mut around = Wandering { level, next, rng };
    Box::new(move |start, rng| worked(&mut around, start, rng.exponential(0.004)))
}
