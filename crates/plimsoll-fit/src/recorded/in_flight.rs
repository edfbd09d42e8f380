// SPDX-License-Identifier: Apache-2.0
//! How many requests were in flight, and for how long.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use plimsoll_core::units::Nanos;

/// Most requests in flight that are followed.
const IN_FLIGHT_MAX: usize = 1 << 16;

/// Ends that are kept in order: mostly all.
const FEW: usize = 64;

/// Ends of which the earliest is asked for.
#[derive(Debug, Default)]
struct Ends {
    /// The first ones, the earliest last.
    few: Vec<Nanos>,
    /// All others, none of them before those.
    many: BinaryHeap<Reverse<Nanos>>,
}

impl Ends {
    fn len(&self) -> usize {
        self.few.len() + self.many.len()
    }

    fn push(&mut self, end: Nanos) {
        if self.many.peek().is_some_and(|Reverse(first)| *first <= end) {
            self.many.push(Reverse(end));
            return;
        }
        let later = self.few.iter().take_while(|other| **other > end).count();
        self.few.insert(later, end);
        if self.few.len() > FEW {
            self.many.push(Reverse(self.few.remove(0)));
        }
    }

    fn earliest(&self) -> Option<Nanos> {
        self.few.last().copied()
    }

    fn pop(&mut self) {
        self.few.pop();
        if self.few.is_empty() {
            let next = (0..FEW / 2).map_while(|_| self.many.pop());
            self.few.extend(next.map(|Reverse(end)| end));
            self.few.reverse();
        }
    }
}

/// Follows requests in the order of their starts.
#[derive(Debug, Default)]
pub(crate) struct InFlightTracker {
    /// When those in flight end.
    ends: Ends,
    /// Until when time was counted.
    at: Nanos,
    /// Time by the number in flight, ns.
    times: Vec<u64>,
}

impl InFlightTracker {
    /// A request that started at `at`, not before the last one did, and took so long.
    pub(crate) fn add(&mut self, at: Nanos, took: Nanos) {
        self.until(at);
        if self.ends.len() < IN_FLIGHT_MAX {
            self.ends.push(at + took);
        }
    }

    /// Counts the time until `at`, with what ends on the way.
    fn until(&mut self, at: Nanos) {
        while let Some(end) = self.ends.earliest() {
            if end > at {
                break;
            }
            self.count(end);
            self.ends.pop();
        }
        self.count(at);
    }

    fn count(&mut self, to: Nanos) {
        let level = self.ends.len();
        if self.times.len() <= level {
            self.times.resize(level + 1, 0);
        }
        self.times[level] = self.times[level].saturating_add(to.since(self.at).0);
        self.at = self.at.max(to);
    }

    /// Time with one in flight, with two, and so on, ns, until the last has ended.
    pub(crate) fn busy(mut self) -> Vec<u64> {
        self.until(Nanos::MAX);
        self.times.drain(..1.min(self.times.len()));
        self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    #[test]
    fn time_is_counted_by_how_many_were_in_flight() {
        let mut in_flight = InFlightTracker::default();
        for (at, took) in [(0, 10), (4, 3), (5, 1), (30, 2)] {
            in_flight.add(Nanos(at), Nanos(took));
        }
        assert_eq!(in_flight.busy(), [9, 2, 1]);
        assert_eq!(InFlightTracker::default().busy(), [0u64; 0]);
    }

    #[test]
    fn ends_come_in_their_order_however_many_there_are() {
        let mut rng = Rng::new(Seed(9));
        let (mut ends, mut plain) = (Ends::default(), Vec::new());
        for step in 0..20_000 {
            // They grow to some hundreds and shrink to none, again and again.
            if rng.below(1_000) < if step % 2_000 < 1_000 { 700 } else { 200 } {
                let end = Nanos(rng.below(300));
                ends.push(end);
                plain.push(end);
            } else {
                let place = (0..plain.len()).min_by_key(|place| plain[*place]);
                let earliest = place.map(|place| plain.swap_remove(place));
                assert_eq!(ends.earliest(), earliest);
                ends.pop();
            }
            assert_eq!(ends.len(), plain.len());
        }
    }
}
