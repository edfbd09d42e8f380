// SPDX-License-Identifier: Apache-2.0
//! How many requests were in flight, and for how long.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use plimsoll_core::units::Nanos;

/// Most requests in flight that are followed.
const IN_FLIGHT_MAX: usize = 1 << 16;

/// Follows requests in the order of their starts.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// When those in flight end.
    ends: BinaryHeap<Reverse<Nanos>>,
    /// Until when time was counted.
    at: Nanos,
    /// Time by the number in flight, ns.
    times: Vec<u64>,
}

impl InFlight {
    /// A request that started at `at`, not before the last one did, and took so long.
    pub(crate) fn add(&mut self, at: Nanos, took: Nanos) {
        self.until(at);
        if self.ends.len() < IN_FLIGHT_MAX {
            self.ends.push(Reverse(at + took));
        }
    }

    /// Counts the time until `at`, with what ends on the way.
    fn until(&mut self, at: Nanos) {
        while let Some(Reverse(end)) = self.ends.peek().copied() {
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

    #[test]
    fn time_is_counted_by_how_many_were_in_flight() {
        let mut in_flight = InFlight::default();
        for (at, took) in [(0, 10), (4, 3), (5, 1), (30, 2)] {
            in_flight.add(Nanos(at), Nanos(took));
        }
        assert_eq!(in_flight.busy(), [9, 2, 1]);
        assert_eq!(InFlight::default().busy(), [0u64; 0]);
    }
}
