// SPDX-License-Identifier: Apache-2.0
//! Bursty arrivals at a hard rate limit: the system is simple, but the workload is not.

use plimsoll_core::rng::Rng;

use super::{LawGroup, Set, Sink, System, Work};

/// Sources that are busy or not, each by itself; their number sets the rate of Poisson arrivals.
struct Sources {
    busy_for: Work,
    idle_for: Work,
    /// Whether each is busy, and until when it is as it is.
    sources: Vec<(bool, f64)>,
    /// Rate of one that is idle ÷ of one that is busy.
    idle_rate: f64,
    /// Share of the time that a source is busy.
    share: f64,
    /// Seconds from one operation to the next, and when the next may start.
    spacing: f64,
    free: f64,
    /// When the next source changes, and rate ÷ mean rate until then.
    changes: f64,
    factor: f64,
    rng: Rng,
}

impl Sources {
    fn turn(&mut self, at: f64) {
        for (is_busy, until) in &mut self.sources {
            while *until <= at {
                *is_busy = !*is_busy;
                let time = if *is_busy {
                    self.busy_for
                } else {
                    self.idle_for
                };
                *until += time.draw(&mut self.rng);
            }
        }
        let ends = self.sources.iter().map(|(_, until)| *until);
        self.changes = ends.fold(f64::INFINITY, f64::min);
        let rates = self
            .sources
            .iter()
            .map(|(is_busy, _)| if *is_busy { 1.0 } else { self.idle_rate });
        let mean = self.share + (1.0 - self.share) * self.idle_rate;
        self.factor = rates.sum::<f64>() / (mean * self.sources.len() as f64);
    }
}

impl System for Sources {
    fn gap(&mut self, rng: &mut Rng, at: f64, rate: f64) -> f64 {
        let mut left = rng.exponential(1.0 / rate);
        let mut now = at;
        // Ends: some source becomes busy.
        loop {
            if self.changes <= now {
                self.turn(now);
            }
            let can = (self.changes - now) * self.factor;
            if can >= left {
                return now + left / self.factor - at;
            }
            left -= can;
            now = self.changes;
        }
    }

    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        let start = self.free.max(at);
        self.free = start + self.spacing;
        sink.done(at, start - at + self.rng.exponential(0.000_5));
    }

    fn end(&mut self, at: f64, _sink: &mut Sink) {
        self.free = self.free.min(at + 1.0);
    }
}

pub(super) fn sets() -> Vec<Set> {
    let pareto = Work::Pareto {
        shape: 1.4,
        smallest: 0.3,
        largest: 60.0,
    };
    let mild = |mean| Work::Exponential { mean };
    let similar = "Self-similar arrivals: 24 sources, busy for times with a heavy tail";
    let modulated = "Markov-modulated arrivals at a hard limit of the rate";
    vec![
        bursty(similar, 24, (pareto, pareto), (0.5, 0.0), 1_000.0)
            .load(150.0, 0.1, 15.0)
            .soak(15_000.0),
        bursty(
            modulated,
            1,
            (mild(2.0), mild(10.0)),
            (1.0 / 6.0, 0.25),
            1_500.0,
        )
        .numbered(2)
        .load(1_500.0, 0.02, 3.0)
        .soak(10_000.0),
        bursty(modulated, 60, (mild(0.5), mild(1.5)), (0.25, 0.0), 600.0)
            .numbered(3)
            .load(20.0, 0.5, 100.0)
            .soak(8_000.0),
    ]
}

/// Times of being busy and idle; share of the time that a source is busy, and what it sends when idle.
fn bursty(
    about: &'static str,
    sources: usize,
    times: (Work, Work),
    busy: (f64, f64),
    served: f64,
) -> Set {
    let set = Set::new("bursty arrivals", about, LawGroup::Noisy, move |mut rng| {
        let (share, idle_rate) = busy;
        // As if each had just begun, at times that differ.
        let begun = |rng: &mut Rng| (rng.unit() < share, rng.unit());
        Sources {
            busy_for: times.0,
            idle_for: times.1,
            sources: (0..sources).map(|_| begun(&mut rng)).collect(),
            idle_rate,
            share,
            spacing: 1.0 / served,
            free: 0.0,
            changes: 0.0,
            factor: 1.0,
            rng,
        }
    });
    set.limited(50.0)
}
