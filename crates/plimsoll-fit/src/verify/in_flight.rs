// SPDX-License-Identifier: Apache-2.0
//! How many requests are in flight over time: submitted and not completed.
//!
//! A load says when requests start, the storage when they end. So that the load alone is judged, its
//! requests take as long as the recorded ones of their kind and size did, each in its turn; what
//! waits for an end starts after that, and never more are in flight than the load has threads.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use plimsoll_core::model::{FidelityCheck, PackedReplay, PackedRequests, ReplayAddressSpace};
use plimsoll_core::num::{ratio, to_usize};
use plimsoll_core::op::{OpKind, TraceAccess};
use plimsoll_core::units::Nanos;

use crate::fidelity::distance;
use crate::recorded::InFlightTracker;

/// Most requests that are looked at: their times are held.
pub(super) const REQUESTS_MAX: usize = 1 << 22;
/// Gates of the mean, and of the distance of the distributions in parts of the mean.
const GATE: f64 = 0.05;
const MEAN: &str = "requests in flight, mean";
const APART: &str = "requests in flight, earth mover's distance in means";

/// Times that recorded requests took.
#[derive(Debug, Default)]
pub(super) struct TraceLatencies {
    /// In the order of their starts.
    all: Vec<Nanos>,
    /// Their places, by kind and size.
    by_transfer: BTreeMap<(OpKind, u32), Vec<u32>>,
    /// When the last one started.
    last: Nanos,
}

impl TraceLatencies {
    /// A request whose end is not recorded counts as one that took no time.
    pub(super) fn add(&mut self, request: &TraceAccess, took: Option<Nanos>) {
        if self.is_full() {
            return;
        }
        let place = plimsoll_core::num::saturating_u32(self.all.len() as u64);
        let transfer = (request.kind, request.bytes);
        self.by_transfer.entry(transfer).or_default().push(place);
        self.all.push(took.unwrap_or_default());
        self.last = request.at;
    }

    /// Until when they are looked at, where that is not until the end.
    pub(super) fn length(&self) -> Option<Nanos> {
        self.is_full().then_some(self.last)
    }

    /// Whether more requests were given than are looked at.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= REQUESTS_MAX
    }
}

/// Hands out times: of the kind and size that is asked for in the recorded order, again and again;
/// of any, where there are none.
struct TraceLatencyCycle<'a> {
    took: &'a TraceLatencies,
    next: BTreeMap<(OpKind, u32), usize>,
}

impl TraceLatencyCycle<'_> {
    fn take(&mut self, transfer: (OpKind, u32), number: usize) -> Nanos {
        let of_any = |number: usize| match self.took.all.len() {
            0 => Nanos(0),
            n => self.took.all[number % n],
        };
        let Some(places) = self.took.by_transfer.get(&transfer) else {
            return of_any(number);
        };
        let next = self.next.entry(transfer).or_default();
        let place = places[*next % places.len()];
        *next += 1;
        of_any(place as usize)
    }
}

/// Shares of the time by number of requests in flight.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlightShares {
    /// With one, two, ….
    shares: Vec<f64>,
}

impl InFlightShares {
    /// Of what lasts so long.
    pub(super) fn of(in_flight: InFlightTracker, length: Nanos) -> InFlightShares {
        let busy = in_flight.busy();
        let sum = busy.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        let length = length.0.max(sum) as f64;
        InFlightShares {
            shares: busy.iter().map(|ns| ratio(*ns as f64, length)).collect(),
        }
    }

    fn mean(&self) -> f64 {
        let each = self.shares.iter().zip(1..);
        each.map(|(share, n)| share * f64::from(n)).sum()
    }

    /// How far another distribution is from this, and their means.
    pub(super) fn compare(&self, other: &InFlightShares) -> Vec<FidelityCheck> {
        let share = |of: &InFlightShares, n: usize| of.shares.get(n).copied().unwrap_or_default();
        let most = self.shares.len().max(other.shares.len());
        let (mut above, mut apart) = (0.0, 0.0);
        for n in (0..most).rev() {
            above += share(self, n) - share(other, n);
            apart += f64::abs(above);
        }
        let (recorded, submitted) = (self.mean(), other.mean());
        vec![
            FidelityCheck::relative(MEAN, recorded, submitted, GATE),
            distance(APART, ratio(apart, recorded), GATE),
        ]
    }
}

/// Shares in flight of packed requests with the latencies `took`, on `threads` threads.
pub(super) fn of_packed(
    packed: &PackedRequests,
    threads: Option<u32>,
    took: &TraceLatencies,
) -> InFlightShares {
    let mut turns = TraceLatencyCycle {
        took,
        next: BTreeMap::new(),
    };
    let mut play = PackedReplay::new(packed, ReplayAddressSpace::AsRecorded, Nanos(0), 1.0, 1);
    let mut waiting: BTreeMap<u64, Nanos> = BTreeMap::new();
    let mut flown = Vec::new();
    while let Some(step) = (flown.len() < REQUESTS_MAX).then(|| play.step()).flatten() {
        let request = step.request;
        let start = waiting.remove(&step.number).unwrap_or(request.intended_at);
        let takes = turns.take((request.kind, request.len), to_usize(step.number));
        if let Some(link) = step.link {
            let next = step.number.saturating_add(link.distance.into());
            waiting.insert(next, start + takes + link.think);
        }
        flown.push((start, takes));
    }
    // Requests that wait may start after later ones.
    flown.sort_by_key(|(start, _)| *start);
    let length = match flown.last() {
        Some((last, _)) if flown.len() == REQUESTS_MAX => *last,
        _ => packed.length(),
    };
    InFlightShares::of(through(&flown, threads), length)
}

/// Requests in flight, given in the order of their starts; those that find all threads busy wait.
fn through(flown: &[(Nanos, Nanos)], threads: Option<u32>) -> InFlightTracker {
    let mut in_flight = InFlightTracker::default();
    let mut ends: BinaryHeap<Reverse<Nanos>> = BinaryHeap::new();
    for (start, takes) in flown {
        let mut start = *start;
        if let Some(threads) = threads
            && ends.len() >= threads as usize
            && let Some(Reverse(free)) = ends.pop()
        {
            start = start.max(free);
        }
        if threads.is_some() {
            ends.push(Reverse(start + *takes));
        }
        in_flight.add(start, *takes);
    }
    in_flight
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::model::{PackedDependency, PackedGapPrecision, PackedRequestsWriter};

    const MS: u64 = 1_000_000;

    fn read(at: Nanos) -> TraceAccess {
        TraceAccess {
            at,
            kind: OpKind::Read,
            offset: 0,
            bytes: 4_096,
        }
    }

    /// A request every 10 ms, taking 5 and 15 ms in turns, a thousand times.
    fn recorded() -> (TraceLatencies, InFlightShares) {
        let (mut took, mut in_flight) = (TraceLatencies::default(), InFlightTracker::default());
        for i in 0..1_000 {
            let (at, takes) = (Nanos(i * 10 * MS), Nanos((5 + i % 2 * 10) * MS));
            took.add(&read(at), Some(takes));
            in_flight.add(at, takes);
        }
        (took, InFlightShares::of(in_flight, Nanos(10_000 * MS)))
    }

    fn flights(
        packed: &PackedRequests,
        threads: Option<u32>,
        took: &TraceLatencies,
    ) -> InFlightShares {
        of_packed(packed, threads, took)
    }

    fn packed(at: impl Iterator<Item = u64>) -> PackedRequests {
        let mut packer = PackedRequestsWriter::new(PackedGapPrecision::Exact);
        at.for_each(|at| packer.push(&read(Nanos(at))));
        packer.finish(Nanos(10_000 * MS))
    }

    fn failed(lines: &[FidelityCheck]) -> Vec<&str> {
        let missed = lines.iter().filter(|line| !line.passed());
        missed.map(|line| line.metric.as_str()).collect()
    }

    #[test]
    fn the_same_starts_are_alike_and_bunched_ones_differ_in_distribution_alone() {
        let (took, recorded) = recorded();
        assert!((recorded.mean() - 1.0).abs() < 1e-3, "{recorded:?}");
        let same = flights(&packed((0..1_000).map(|i| i * 10 * MS)), None, &took);
        assert_eq!(failed(&recorded.compare(&same)), [""; 0]);
        let bunched = flights(&packed((0..1_000).map(|i| i / 4 * 40 * MS)), None, &took);
        assert_eq!(failed(&recorded.compare(&bunched)), [APART]);
        let half = flights(&packed((0..500).map(|i| i * 20 * MS)), None, &took);
        assert_eq!(failed(&recorded.compare(&half)), [MEAN, APART]);
    }

    #[test]
    fn what_waits_starts_after_ends_and_threads_are_a_limit() {
        let (took, _) = recorded();
        // All are meant for the first instant, but each waits for the one before: one at a time.
        let link = PackedDependency {
            distance: 1,
            think: Nanos(0),
        };
        let links = (0..1_000).map(|i| (i < 999).then_some(link));
        let chain = || packed((0..1_000).map(|_| 0));
        let waiting = flights(&chain().with_links(links), None, &took);
        assert_eq!(waiting.shares.len(), 1);
        assert!((waiting.mean() - 1.0).abs() < 1e-3, "{waiting:?}");
        let free = flights(&chain(), None, &took);
        assert_eq!(free.shares.len(), 1_000);
        let limited = flights(&chain(), Some(3), &took);
        assert_eq!(limited.shares.len(), 3);
    }
}
