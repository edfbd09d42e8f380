// SPDX-License-Identifier: Apache-2.0
//! Operations that wait in order for one of some servers.

use std::collections::VecDeque;

use plimsoll_core::rng::Rng;

use crate::laws::{Sink, System};

/// How arrivals follow each other.
#[derive(Debug, Clone, Copy)]
pub(super) enum ArrivalGaps {
    Poisson,
    /// Erlang of shape 4: half as scattered.
    Regular,
    /// Hyperexponential of balanced means, with twice the scatter.
    Bursty,
}

impl ArrivalGaps {
    fn draw(self, rng: &mut Rng, rate: f64) -> f64 {
        match self {
            ArrivalGaps::Poisson => rng.exponential(1.0 / rate),
            ArrivalGaps::Regular => rng.gamma(4.0, 1.0 / rate),
            ArrivalGaps::Bursty => {
                let often = f64::midpoint(1.0, 0.6_f64.sqrt());
                let chance = if rng.unit() < often {
                    often
                } else {
                    1.0 - often
                };
                rng.exponential(1.0 / (2.0 * chance * rate))
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    due: f64,
    /// When it came to this line.
    from: f64,
}

/// `serve` says when an operation ends that begins at this time.
pub(super) struct FifoQueue<F> {
    serve: F,
    gaps: ArrivalGaps,
    waiting: VecDeque<Waiting>,
    /// When each server is free.
    free: Vec<f64>,
    rng: Rng,
}

impl<F: FnMut(f64, &mut Rng) -> f64> FifoQueue<F> {
    pub(super) fn new(servers: usize, rng: Rng, serve: F) -> FifoQueue<F> {
        FifoQueue {
            serve,
            gaps: ArrivalGaps::Poisson,
            waiting: VecDeque::new(),
            free: vec![0.0; servers],
            rng,
        }
    }

    pub(super) fn gaps(self, gaps: ArrivalGaps) -> FifoQueue<F> {
        FifoQueue { gaps, ..self }
    }

    pub(super) fn join(&mut self, due: f64, from: f64) {
        self.waiting.push_back(Waiting { due, from });
    }

    /// Begins what can begin until now; `ends` gets when each was due and when it ends.
    pub(super) fn begin(&mut self, now: f64, mut ends: impl FnMut(f64, f64)) {
        while let Some(&Waiting { due, from }) = self.waiting.front() {
            let first = self.free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            let start = from.max(*first);
            if start > now {
                break;
            }
            self.waiting.pop_front();
            *first = (self.serve)(start, &mut self.rng);
            ends(due, *first);
        }
    }

    /// Operations that wait or are served.
    pub(super) fn inside(&self, now: f64) -> usize {
        self.waiting.len() + self.free.iter().filter(|free| **free > now).count()
    }

    pub(super) fn withdraw(&mut self, now: f64, sink: &mut Sink) {
        for one in self.waiting.drain(..) {
            sink.withdrawn(one.due, now - one.due);
        }
    }
}

impl<F: FnMut(f64, &mut Rng) -> f64> System for FifoQueue<F> {
    fn gap(&mut self, rng: &mut Rng, _at: f64, rate: f64) -> f64 {
        self.gaps.draw(rng, rate)
    }

    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        self.join(at, at);
        self.begin(at, |due, end| sink.done(due, end - due));
    }

    fn end(&mut self, at: f64, sink: &mut Sink) {
        self.begin(at, |due, end| sink.done(due, end - due));
        self.withdraw(at, sink);
    }
}
