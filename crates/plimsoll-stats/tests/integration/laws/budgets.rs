// SPDX-License-Identifier: Apache-2.0
//! Systems that serve from a budget, which is refilled in time: burst credits and room in a cache.

use plimsoll_core::rng::Rng;

use super::{LawGroup, LawTruth, Set, Sink, System};

/// A bucket of credits: an operation takes one, or waits for it. Full when a session begins.
struct Credits {
    left: f64,
    most: f64,
    refill: f64,
    at: f64,
    /// Seconds from one operation to the next in a burst, and when the next may start.
    spacing: f64,
    free: f64,
    rng: Rng,
}

impl System for Credits {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        self.left = (self.left + (at - self.at) * self.refill).min(self.most) - 1.0;
        self.at = at;
        let credited = at + (-self.left / self.refill).max(0.0);
        let start = credited.max(self.free);
        self.free = start + self.spacing;
        sink.done(at, start - at + self.rng.exponential(0.000_4));
    }

    fn end(&mut self, at: f64, _sink: &mut Sink) {
        // Who waits is withdrawn, and takes no credit.
        self.left = self.left.max(0.0);
        self.free = self.free.min(at + self.spacing);
    }
}

/// Writes go to memory until `high` bytes are dirty; then all wait until `low` are left. Only while they wait
/// can all of the disk be used to clean the memory.
struct WriteBack {
    dirty: f64,
    at: f64,
    free: f64,
    /// Mean size of a write.
    size: f64,
    low: f64,
    high: f64,
    cleaned: f64,
    cleaned_alone: f64,
    rng: Rng,
}

/// Seconds that a write takes memory.
const COPY: f64 = 0.000_02;

impl System for WriteBack {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        let start = at.max(self.free);
        self.dirty = (self.dirty - (start - self.at) * self.cleaned).max(0.0);
        self.dirty += self.rng.exponential(self.size);
        (self.at, self.free) = (start, start + COPY);
        if self.dirty >= self.high {
            self.free = start + (self.dirty - self.low) / self.cleaned_alone;
            (self.at, self.dirty) = (self.free, self.low);
        }
        sink.done(at, start + COPY - at + self.rng.exponential(0.000_1));
    }

    fn end(&mut self, at: f64, _sink: &mut Sink) {
        // Writes that wait longer than any pause lasts are withdrawn.
        let pause = (self.high - self.low) / self.cleaned_alone;
        if self.free > at + pause {
            (self.free, self.at) = (at + pause, at + pause);
        }
    }
}

pub(super) fn sets() -> Vec<Set> {
    let mut sets = Vec::from(credits());
    sets.extend(write_back());
    sets
}

/// The truth is the refill: below it the bucket fills up, above it it empties, sooner or later. Held for a
/// time only, `most` ÷ time more is carried.
fn credits() -> [Set; 3] {
    let about = "A bucket of credits for bursts, which idle times refill";
    let credits = |refill: f64, most: f64, burst: f64, rate: f64| {
        let set = Set::new("burst credits", about, LawGroup::Noisy, move |rng| {
            Credits {
                left: most,
                most,
                refill,
                at: 0.0,
                spacing: 1.0 / burst,
                free: 0.0,
                rng,
            }
        });
        set.soak(12_000.0).answers(LawTruth::AtMost {
            multiple: refill / rate,
            error: 0.0,
        })
    };
    [
        credits(500.0, 30_000.0, 3_000.0, 400.0).load(400.0, 0.1, 10.0),
        credits(600.0, 60_000.0, 2_500.0, 40.0)
            .numbered(2)
            .load(40.0, 1.0, 100.0),
        credits(1_200.0, 3_000.0, 4_000.0, 3_000.0)
            .numbered(3)
            .load(3_000.0, 0.02, 2.0)
            .soak(2_000.0),
    ]
}

fn write_back() -> [Set; 3] {
    let about = "Memory takes writes in until too much is dirty; then all wait for seconds";
    // `pause`: how long all wait.
    let cache = |kib: f64, cleaned: f64, cleaned_alone: f64, pause: f64| {
        Set::new("write-back", about, LawGroup::Noisy, move |rng| WriteBack {
            dirty: 0.0,
            at: 0.0,
            free: 0.0,
            size: kib * 1_024.0,
            low: pause * cleaned_alone,
            high: 2.0 * pause * cleaned_alone,
            cleaned,
            cleaned_alone,
            rng,
        })
    };
    [
        cache(64.0, 60e6, 180e6, 2.0)
            .load(900.0, 0.1, 10.0)
            .soak(10_000.0),
        cache(16.0, 40e6, 100e6, 0.4)
            .numbered(2)
            .load(200.0, 0.3, 80.0),
        cache(256.0, 100e6, 400e6, 5.0)
            .numbered(3)
            .load(900.0, 0.02, 4.0)
            .soak(25_000.0),
    ]
}
