// SPDX-License-Identifier: Apache-2.0
//! Runs of requests in another order, so that a model does not reveal who followed whom.
//!
//! Within windows of time the runs (requests of one kind that go on where the last one ended) are
//! put into a drawn order; instants stay. Every request is played once: drawing runs with
//! replacement would ruin what is read again.

use std::collections::BTreeMap;

use plimsoll_core::op::{OpKind, TraceAccess};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

/// Most requests that are held back: a window of more is cut.
const HELD_MAX: usize = 1 << 20;

/// How runs are put into another order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceShuffle {
    /// Length of the windows, at least a nanosecond.
    pub window: Nanos,
    /// The seed of the order. Who knows it can undo the shuffling.
    pub seed: Seed,
}

/// Shuffles requests that come in the order of their starts.
pub(super) struct TraceShuffler {
    window: Nanos,
    rng: Rng,
    held: Vec<TraceAccess>,
    /// Which window those are of.
    number: u64,
}

impl TraceShuffler {
    pub(super) fn new(shuffle: TraceShuffle) -> TraceShuffler {
        TraceShuffler {
            window: Nanos(shuffle.window.0.max(1)),
            rng: Rng::new(shuffle.seed.derive("shuffle", 0)),
            held: Vec::new(),
            number: 0,
        }
    }

    /// Takes a request, and gives those of a window that is over.
    pub(super) fn push(&mut self, request: &TraceAccess, give: impl FnMut(&TraceAccess)) {
        let number = request.at.0 / self.window.0;
        if number != self.number || self.held.len() >= HELD_MAX {
            self.release(give);
            self.number = number;
        }
        self.held.push(*request);
    }

    /// Gives what is held.
    pub(super) fn release(&mut self, mut give: impl FnMut(&TraceAccess)) {
        let mut runs = runs(&self.held);
        self.rng.shuffle(&mut runs);
        let shuffled = runs.iter().flatten();
        for (request, instant) in shuffled.zip(&self.held) {
            give(&TraceAccess {
                at: instant.at,
                ..self.held[*request]
            });
        }
        self.held.clear();
    }
}

/// The runs of some requests, as their places.
fn runs(requests: &[TraceAccess]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut ends: BTreeMap<(OpKind, u64), usize> = BTreeMap::new();
    for (place, request) in requests.iter().enumerate() {
        let goes_on = ends.remove(&(request.kind, request.offset));
        let run = match goes_on {
            Some(run) if request.bytes > 0 => run,
            _ => {
                runs.push(Vec::new());
                runs.len() - 1
            }
        };
        runs[run].push(place);
        let end = request.offset.saturating_add(request.bytes.into());
        ends.insert((request.kind, end), run);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two streams of reads that run into one another, and writes here and there.
    fn recorded() -> Vec<TraceAccess> {
        let request = |i: u64| {
            let (kind, offset) = match i % 3 {
                0 => (OpKind::Read, i / 3 * 4096),
                1 => (OpKind::Read, (1 << 30) + i / 3 * 4096),
                _ => (OpKind::Write, (i * 7919) % 1000 * 65_536),
            };
            TraceAccess {
                at: Nanos(i * 10_000_000),
                kind,
                offset,
                bytes: 4096,
            }
        };
        (0..600).map(request).collect()
    }

    fn shuffled(window: u64, seed: u64) -> Vec<TraceAccess> {
        let (window, seed) = (Nanos(window), Seed(seed));
        let mut shuffler = TraceShuffler::new(TraceShuffle { window, seed });
        let mut given = Vec::new();
        for request in recorded() {
            shuffler.push(&request, |request| given.push(*request));
        }
        shuffler.release(|request| given.push(*request));
        given
    }

    #[test]
    fn every_request_is_there_once_within_its_window_and_instants_stay() {
        let (before, after) = (recorded(), shuffled(1_000_000_000, 3));
        assert_ne!(before, after);
        assert!(before.iter().map(|r| r.at).eq(after.iter().map(|r| r.at)));
        let window = |requests: &[TraceAccess], second: u64| {
            let inside = requests.iter().filter(|r| r.at.0 / 1_000_000_000 == second);
            let mut what: Vec<_> = inside.map(|r| (r.kind, r.offset, r.bytes)).collect();
            what.sort_unstable();
            what
        };
        for second in 0..6 {
            assert_eq!(window(&before, second), window(&after, second), "{second}");
        }
        assert_ne!(after, shuffled(1_000_000_000, 4));
        // In a window of one request there is nothing to change.
        assert_eq!(before, shuffled(1, 3));
    }

    #[test]
    fn runs_stay_whole_and_in_their_order() {
        let after = shuffled(1_000_000_000, 3);
        let first: Vec<u64> = after[..100].iter().map(|r| r.offset).collect();
        let stream: Vec<u64> = (0..34).map(|i| i * 4096).collect();
        assert!(first.windows(stream.len()).any(|part| part == stream));
    }
}
