// SPDX-License-Identifier: Apache-2.0
//! Operations that end together: a log whose commits take in all that came during the last one.

use plimsoll_core::rng::Rng;

use super::{LawGroup, Set, Sink, System};

struct Commits {
    waiting: Vec<f64>,
    ends: f64,
    each: f64,
    per_operation: f64,
    rng: Rng,
}

impl Commits {
    /// Commits what waits, from `start` on.
    fn commit(&mut self, start: f64, sink: &mut Sink) {
        let each = self.rng.gamma(8.0, self.each);
        self.ends = start + each + self.per_operation * self.waiting.len() as f64;
        for due in self.waiting.drain(..) {
            sink.done(due, self.ends - due);
        }
    }

    fn advance(&mut self, to: f64, sink: &mut Sink) {
        while self.ends <= to && !self.waiting.is_empty() {
            self.commit(self.ends, sink);
        }
    }
}

impl System for Commits {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        self.advance(at, sink);
        self.waiting.push(at);
        if self.ends <= at {
            self.commit(at, sink);
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
    let about = "A log whose commits grow with the load: a low, then a steep latency";
    let log = |each, per_operation| {
        Set::new("group commit", about, LawGroup::Quiet, move |rng| Commits {
            waiting: Vec::new(),
            ends: 0.0,
            each,
            per_operation,
            rng,
        })
    };
    vec![
        log(0.004, 0.000_5).load(700.0, 0.1, 10.0),
        log(0.008, 0.000_3)
            .numbered(2)
            .limited(50.0)
            .load(80.0, 0.5, 60.0),
    ]
}
