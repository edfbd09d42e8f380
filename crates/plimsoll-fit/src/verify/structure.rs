// SPDX-License-Identifier: Apache-2.0
//! How requests follow one another: runs, jumps, and where and when hang together.

use std::collections::VecDeque;

use plimsoll_core::model::{FidelityCheck, ZONE_BYTES};
use plimsoll_core::num::{ratio, to_usize};
use plimsoll_core::op::{OpKind, TraceAccess};
use plimsoll_core::table::IntHashMap;
use plimsoll_core::units::Nanos;

use crate::fidelity::{difference, distance};

/// Streams that may go on at the same time.
const STREAMS: usize = 64;
/// A stream that rests so long has ended.
const REST: Nanos = Nanos(1_000_000_000);
/// Longer runs count as this long.
const RUN_MAX: usize = 4_096;
/// Classes of jumps: a power of two each, forward and backward.
const JUMPS: usize = 2 * 64 + 1;
/// The finest plot has 2^LEVELS columns and rows.
const LEVELS: u32 = 10;
const COLUMNS: u64 = 1 << LEVELS;
/// Fewer levels have no slope worth comparing.
const LEVELS_MIN: u32 = 3;

/// Gates: distances of distributions, and difference of slopes.
const RUN_GATE: f64 = 0.05;
const JUMP_GATE: f64 = 0.05;
const SLOPE_GATE: f64 = 0.03;

/// A stream of requests that begin where one before them ended.
struct SequentialRun {
    kind: OpKind,
    end: u64,
    at: Nanos,
    requests: usize,
}

/// Access structure of a stream of requests.
pub(super) struct AccessStructure {
    length: Nanos,
    /// Those that may go on, the one that went on last behind.
    streams: VecDeque<SequentialRun>,
    /// Runs by their number of requests.
    runs: Vec<u64>,
    /// Requests by the distance from the end of the one before.
    jumps: Vec<u64>,
    last_end: Option<u64>,
    /// Requests by zone and column of time.
    plot: IntHashMap<u64>,
    requests: u64,
    zones: u64,
}

impl AccessStructure {
    pub(super) fn new(length: Nanos) -> AccessStructure {
        AccessStructure {
            length,
            streams: VecDeque::with_capacity(STREAMS + 1),
            runs: vec![0; RUN_MAX + 1],
            jumps: vec![0; JUMPS],
            last_end: None,
            plot: IntHashMap::default(),
            requests: 0,
            zones: 0,
        }
    }

    pub(super) fn add(&mut self, request: &TraceAccess) {
        if request.bytes == 0 {
            return;
        }
        let end = request.offset.saturating_add(request.bytes.into());
        self.follow(request, end);
        if let Some(last) = self.last_end.replace(end) {
            self.jumps[jump_class(last, request.offset)] += 1;
        }
        let zone = request.offset / ZONE_BYTES;
        let column =
            u128::from(request.at.0) * u128::from(COLUMNS) / u128::from(self.length.0.max(1));
        let column = u64::try_from(column).unwrap_or(u64::MAX).min(COLUMNS - 1);
        *self.plot.at(zone * COLUMNS + column) += 1;
        self.requests += 1;
        self.zones = self.zones.max(zone + 1);
    }

    fn follow(&mut self, request: &TraceAccess, end: u64) {
        let goes_on = |stream: &SequentialRun| {
            stream.end == request.offset
                && stream.kind == request.kind
                && request.at.since(stream.at) < REST
        };
        let found = self.streams.iter().rposition(goes_on);
        let requests = match found.and_then(|place| self.streams.remove(place)) {
            Some(stream) => stream.requests + 1,
            None => 1,
        };
        self.streams.push_back(SequentialRun {
            kind: request.kind,
            end,
            at: request.at,
            requests,
        });
        if self.streams.len() > STREAMS
            && let Some(ended) = self.streams.pop_front()
        {
            self.runs[ended.requests.min(RUN_MAX)] += 1;
        }
    }

    pub(super) fn finish(&mut self) {
        for stream in self.streams.drain(..) {
            self.runs[stream.requests.min(RUN_MAX)] += 1;
        }
    }

    /// How far `other` is from this, gate by gate.
    pub(super) fn compare(&self, other: &AccessStructure) -> Vec<FidelityCheck> {
        let mut lines = vec![
            distance(
                "requests in a run (KS distance)",
                gap(&self.runs, &other.runs),
                RUN_GATE,
            ),
            distance(
                "jump from one request to the next (KS distance)",
                gap(&self.jumps, &other.jumps),
                JUMP_GATE,
            ),
        ];
        // Both at the levels that the shorter one fills.
        let levels = self.levels().min(other.levels());
        if levels >= LEVELS_MIN {
            lines.push(difference(
                "entropy over place and time, bits per level",
                self.slope(levels),
                other.slope(levels),
                SLOPE_GATE,
            ));
        }
        lines
    }

    /// Levels at which a plot has fewer places than requests fell on it.
    fn levels(&self) -> u32 {
        (self.requests.max(1).ilog2() / 2).min(LEVELS)
    }

    /// Bits of entropy gained from one level of the plot to the next finer one: 2 where requests
    /// are spread evenly over place and time, less where they gather.
    fn slope(&self, levels: u32) -> f64 {
        let counts = self.plot.sorted();
        let points: Vec<(f64, f64)> = (1..=levels)
            .map(|level| (f64::from(level), self.entropy(&counts, level)))
            .collect();
        let n = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
        let products = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y));
        let squares = points.iter().map(|(x, _)| (x - mean_x).powi(2));
        ratio(products.sum(), squares.sum())
    }

    fn entropy(&self, counts: &[(u64, u64)], level: u32) -> f64 {
        let side = 1u64 << level;
        let mut plot = vec![0u64; to_usize(side * side)];
        for (place, count) in counts {
            let (zone, column) = (place / COLUMNS, place % COLUMNS);
            let row = u128::from(zone) * u128::from(side) / u128::from(self.zones.max(1));
            let row = u64::try_from(row).unwrap_or(0);
            plot[to_usize(row * side + (column >> (LEVELS - level)))] += count;
        }
        let all = self.requests.max(1) as f64;
        let share = plot.iter().filter(|count| **count > 0);
        -share
            .map(|count| {
                let p = *count as f64 / all;
                p * p.log2()
            })
            .sum::<f64>()
    }
}

/// Powers of two of a distance: those backward below the middle, those forward above it.
fn jump_class(from: u64, to: u64) -> usize {
    let class = |distance: u64| distance.checked_ilog2().map_or(0, |log| log as usize + 1);
    let middle = JUMPS / 2;
    if to >= from {
        middle + class(to - from).min(middle)
    } else {
        middle - class(from - to).min(middle)
    }
}

/// Kolmogorov–Smirnov distance of two histograms over the same classes.
fn gap(a: &[u64], b: &[u64]) -> f64 {
    let total = |of: &[u64]| of.iter().sum::<u64>().max(1) as f64;
    let (all_a, all_b) = (total(a), total(b));
    let (mut below, mut worst) = (0.0, 0.0f64);
    for (a, b) in a.iter().zip(b) {
        below += *a as f64 / all_a - *b as f64 / all_b;
        worst = worst.max(f64::abs(below));
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure(requests: impl Iterator<Item = (u64, u64)>) -> AccessStructure {
        let mut structure = AccessStructure::new(Nanos(1_000_000_000_000));
        for (at_ms, offset) in requests {
            structure.add(&TraceAccess {
                at: Nanos(at_ms * 1_000_000),
                kind: OpKind::Read,
                offset,
                bytes: 4_096,
            });
        }
        structure.finish();
        structure
    }

    #[test]
    fn interleaved_streams_are_told_from_single_requests() {
        // Two streams of 100 requests in turns, and 200 requests far apart.
        let streams = structure((0..200).map(|i| (i, (i % 2) * (1 << 40) + i / 2 * 4_096)));
        assert_eq!((streams.runs[100], streams.runs[1]), (2, 0));
        let single = structure((0..200).map(|i| (i, i * (1 << 30))));
        assert_eq!(single.runs[1], 200);
        let lines = streams.compare(&single);
        assert!(!lines[0].passed() && !lines[1].passed(), "{lines:?}");
        let same = streams.compare(&streams);
        assert!(same.iter().all(FidelityCheck::passed), "{same:?}");
        // A stream that rests for a second has ended.
        let resting = structure((0..10).map(|i| (i * 2_000, i * 4_096)));
        assert_eq!(resting.runs[1], 10);
    }

    #[test]
    fn entropy_grows_by_two_bits_where_requests_are_spread_evenly() {
        let mut rng = plimsoll_core::rng::Rng::new(plimsoll_core::rng::Seed(5));
        let n = 1 << 20;
        let even = structure((0..n).map(|i| (i * 1_000_000 / n, rng.below(1 << 40))));
        let levels = 6;
        assert!(
            (even.slope(levels) - 2.0).abs() < 0.02,
            "{}",
            even.slope(levels)
        );
        // All time on one place gains one bit a level, of time alone.
        let line = structure((0..n).map(|i| (i * 1_000_000 / n, 0)));
        assert!(
            (line.slope(levels) - 1.0).abs() < 0.02,
            "{}",
            line.slope(levels)
        );
    }
}
