// SPDX-License-Identifier: Apache-2.0
//! Measures of a stream of requests, and how far two streams are apart.

use std::ops::Range;

use plimsoll_core::model::{FidelityCheck, PackedRequests};
use plimsoll_core::num::{ratio, to_usize};
use plimsoll_core::op::{OpKind, TraceAccess};
use plimsoll_core::profile::ArrivalDispersion;
use plimsoll_core::units::Nanos;

use super::content::TraceContentStats;
use super::{TraceDevice, TraceTimeBase};
use crate::fidelity::distance;

/// Bits behind the first by which gaps are put into classes: 64 for each power of two, fine against
/// those in which gaps are kept.
const GAP_BITS: u32 = 6;
/// Windows in which requests are counted, for how bursty they are. Each length is a multiple of the
/// first.
const WINDOWS: [(Nanos, &str); 5] = [
    (Nanos(10_000_000), "10 ms"),
    (Nanos(100_000_000), "100 ms"),
    (Nanos(1_000_000_000), "1 s"),
    (Nanos(10_000_000_000), "10 s"),
    (Nanos(100_000_000_000), "100 s"),
];
/// Fewest windows that say something of dispersion.
const WINDOWS_MIN: u64 = 20;

/// Gates, as shares or decades.
const RATE_GATE: f64 = 0.005;
const SIZE_GATE: f64 = 0.01;
const GAP_GATE: f64 = 0.05;
const BURST_GATE: f64 = 0.1;
const ZONE_GATE: f64 = 0.02;
const REUSE_GATE: f64 = 0.01;
const TOUCHED_GATE: f64 = 0.01;

/// Counts in windows of one length, as sums for their mean and variance.
#[derive(Debug, Clone, Copy, Default)]
struct ArrivalWindowCounts {
    window: u64,
    count: u64,
    sum: f64,
    squares: f64,
}

impl ArrivalWindowCounts {
    /// Ends the window that is counted in; of `whole` windows, which are all that count: a last one that
    /// is cut short has fewer requests because it is shorter.
    fn close(&mut self, whole: u64) {
        let count = self.count as f64;
        if self.window < whole {
            self.sum += count;
            self.squares += count * count;
        }
        self.count = 0;
    }

    /// Variance over mean of the counts of `n` windows.
    fn dispersion(&self, n: u64) -> f64 {
        let n = n as f64;
        let mean = self.sum / n;
        ratio(self.squares / n - mean * mean, mean)
    }
}

/// Counts in windows of all lengths.
#[derive(Debug)]
struct Windows {
    clockwork: TraceTimeBase,
    /// The shortest window that is counted in.
    now: Range<u64>,
    count: u64,
    counts: [ArrivalWindowCounts; WINDOWS.len()],
}

impl Windows {
    fn new(clockwork: TraceTimeBase) -> Windows {
        Windows {
            clockwork,
            now: 0..0,
            count: 0,
            counts: Default::default(),
        }
    }

    /// How bursty requests are in windows of each length; `None` where there are too few whole ones, or
    /// they are shorter than the resolution.
    fn dispersions(&self) -> [Option<f64>; WINDOWS.len()] {
        std::array::from_fn(|at| {
            let length = WINDOWS[at].0;
            let whole = self.clockwork.length.0 / length.0;
            let is_told = whole >= WINDOWS_MIN && length >= self.clockwork.resolution;
            is_told.then(|| self.counts[at].dispersion(whole))
        })
    }

    fn add(&mut self, at: Nanos) {
        if !self.now.contains(&at.0) {
            self.turn_to(at);
        }
        self.count += 1;
    }

    /// Ends the windows in which `at` does not lie.
    fn turn_to(&mut self, at: Nanos) {
        self.tell();
        for (counts, (length, _)) in self.counts.iter_mut().zip(WINDOWS) {
            let window = at.0 / length.0;
            if window != counts.window {
                counts.close(self.clockwork.length.0 / length.0);
                counts.window = window;
            }
        }
        let length = WINDOWS[0].0.0;
        let begin = at.0 - at.0 % length;
        self.now = begin..begin.saturating_add(length);
    }

    /// Counts in the longer windows what the shortest held.
    fn tell(&mut self) {
        for counts in &mut self.counts {
            counts.count += self.count;
        }
        self.count = 0;
    }

    fn close(&mut self) {
        self.tell();
        for (counts, (length, _)) in self.counts.iter_mut().zip(WINDOWS) {
            counts.close(self.clockwork.length.0 / length.0);
        }
    }
}

/// When requests come.
#[derive(Debug)]
struct TraceArrivalStats {
    /// Gaps by class; those of no time are in the first.
    gaps: Vec<u64>,
    last_at: Option<Nanos>,
    windows: Windows,
}

impl TraceArrivalStats {
    fn new(clockwork: TraceTimeBase) -> TraceArrivalStats {
        TraceArrivalStats {
            gaps: Vec::new(),
            last_at: None,
            windows: Windows::new(clockwork),
        }
    }

    /// Whether the times between requests are longer than the resolution.
    fn tells_gaps(&self) -> bool {
        let gaps: u64 = self.gaps.iter().sum();
        self.windows.clockwork.tells_gaps(gaps)
    }

    fn add(&mut self, at: Nanos) {
        if let Some(last) = self.last_at.replace(at) {
            let class = gap_class(at.since(last));
            if self.gaps.len() <= class {
                self.gaps.resize(class + 1, 0);
            }
            self.gaps[class] += 1;
        }
        self.windows.add(at);
    }
}

/// Tells the requests of two streams apart, but for their times: FNV-1a by words instead of bytes,
/// whose high bits go back to the low ones. Against mistakes, not against anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    #[inline]
    fn add(&mut self, request: &TraceAccess) {
        let transfer = (request.kind.index() as u64) << 32 | u64::from(request.bytes);
        for word in [request.offset, transfer] {
            let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.0 = mixed ^ mixed >> 32;
        }
    }
}

/// Measures of packed requests, by unpacking them once.
pub(super) struct PackedTraceStats {
    pace: TraceArrivalStats,
    fingerprint: Fingerprint,
}

impl PackedTraceStats {
    /// Of requests that were recorded so.
    pub(super) fn of(packed: &PackedRequests, clockwork: TraceTimeBase) -> PackedTraceStats {
        let (mut pace, mut fingerprint) =
            (TraceArrivalStats::new(clockwork), Fingerprint::default());
        for request in packed.unpack() {
            fingerprint.add(&request);
            pace.add(request.at);
        }
        pace.windows.close();
        PackedTraceStats { pace, fingerprint }
    }
}

/// Measures of a stream.
pub(crate) struct TraceStats {
    length: Nanos,
    /// Bytes that the device's requests move, about.
    bytes: u64,
    content: TraceContentStats,
    fingerprint: Fingerprint,
    pace: TraceArrivalStats,
}

impl TraceStats {
    pub(crate) fn new(device: &TraceDevice, clockwork: TraceTimeBase) -> TraceStats {
        TraceStats {
            length: clockwork.length,
            bytes: device.bytes,
            content: TraceContentStats::new(device.bytes),
            fingerprint: Fingerprint::default(),
            pace: TraceArrivalStats::new(clockwork),
        }
    }

    pub(crate) fn add(&mut self, request: &TraceAccess) {
        self.content.add(request);
        self.fingerprint.add(request);
        self.pace.add(request.at);
    }

    pub(crate) fn finish(&mut self) {
        self.content.finish();
        self.pace.windows.close();
    }

    /// Their content, without their times.
    pub(super) fn content(&self) -> &TraceContentStats {
        &self.content
    }

    /// How far `packed`, of which `unpacked` was seen, is from these, which are finished, gate by
    /// gate. What is asked for is counted only if it is not the same in the same order, request by
    /// request.
    pub(super) fn compare_packed(
        &self,
        packed: &PackedRequests,
        unpacked: &PackedTraceStats,
    ) -> Vec<FidelityCheck> {
        let pace = &unpacked.pace;
        let lines = if unpacked.fingerprint == self.fingerprint {
            self.lines(&self.content, pace)
        } else {
            let mut content = TraceContentStats::new(self.bytes);
            packed.unpack().for_each(|request| content.add(&request));
            content.finish();
            self.lines(&content, pace)
        };
        lines.into_iter().map(FidelityCheck::of_its_own).collect()
    }

    /// How bursty arrivals are by scale of time, where there are enough windows of it.
    pub(super) fn dispersion(&self) -> Vec<ArrivalDispersion> {
        let each = self.pace.windows.dispersions().into_iter().zip(WINDOWS);
        let known = each.filter_map(|(index, (length, _))| {
            Some(ArrivalDispersion {
                window_s: length.as_secs_f64(),
                index: index?,
            })
        });
        known.collect()
    }

    /// How far `played` is from these, gate by gate.
    pub(crate) fn compare(&self, played: &TraceStats) -> Vec<FidelityCheck> {
        self.lines(&played.content, &played.pace)
    }

    fn lines(&self, content: &TraceContentStats, pace: &TraceArrivalStats) -> Vec<FidelityCheck> {
        let mut lines = Vec::new();
        let totals = self.content.totals().iter();
        let totals = totals.zip(content.totals()).zip(OpKind::ALL);
        for (((ops, bytes), (played_ops, played_bytes)), kind) in totals {
            if (ops, played_ops) == (&0, &0) {
                continue;
            }
            let seconds = self.length.as_secs_f64();
            let mut line = |what: &str, recorded: u64, played: u64| {
                let name = format!("{} {what} per second", kind.name());
                let per_s = |sum: u64| ratio(sum as f64, seconds);
                let (recorded, played) = (per_s(recorded), per_s(played));
                lines.push(FidelityCheck::relative(name, recorded, played, RATE_GATE));
            };
            line("operations", *ops, *played_ops);
            if *bytes > 0 {
                line("bytes", *bytes, *played_bytes);
            }
        }
        lines.push(distance(
            "kinds and sizes, share that differs",
            self.content.transfers_apart(content),
            SIZE_GATE,
        ));
        if self.pace.tells_gaps() {
            lines.push(distance(
                "times between requests, decades apart",
                decades_apart(&self.pace.gaps, &pace.gaps),
                GAP_GATE,
            ));
        }
        lines.extend(self.dispersions(pace));
        lines.push(distance(
            "requests by zone of 1 MiB, share that differs",
            self.content.zones_apart(content),
            ZONE_GATE,
        ));
        lines.push(distance(
            "miss ratio of caches, mean difference",
            self.content.reuse_apart(content),
            REUSE_GATE,
        ));
        lines.push(FidelityCheck::relative(
            "bytes of all blocks touched",
            self.content.touched_bytes(),
            content.touched_bytes(),
            TOUCHED_GATE,
        ));
        lines
    }

    fn dispersions(&self, pace: &TraceArrivalStats) -> impl Iterator<Item = FidelityCheck> + use<> {
        let recorded = self.pace.windows.dispersions().into_iter();
        let both = recorded.zip(pace.windows.dispersions()).zip(WINDOWS);
        both.filter_map(|((recorded, played), (_, name))| {
            let (recorded, played) = (recorded.filter(|index| *index > 0.0)?, played?);
            let name = format!("dispersion of requests in {name}");
            Some(FidelityCheck::relative(name, recorded, played, BURST_GATE))
        })
    }
}

/// Gaps of up to 64 ns are classes of their own, longer ones one of 64 in their power of two.
fn gap_class(gap: Nanos) -> usize {
    let shift = (63 - gap.0.max(1).leading_zeros()).saturating_sub(GAP_BITS);
    to_usize((u64::from(shift) << GAP_BITS) + (gap.0 >> shift))
}

/// The shortest gap of a class, ns.
fn class_begin(class: usize) -> f64 {
    let per = 1usize << GAP_BITS;
    let shift = (class / per).saturating_sub(1);
    (class - shift * per) as f64 * (shift as f64).exp2()
}

/// Earth mover's distance of two distributions of gaps on a logarithmic scale, in decades. A gap of
/// no time counts as one of a nanosecond.
fn decades_apart(a: &[u64], b: &[u64]) -> f64 {
    let total = |of: &[u64]| of.iter().sum::<u64>().max(1) as f64;
    let (all_a, all_b) = (total(a), total(b));
    let (mut below, mut apart) = (0.0, 0.0);
    let at = |of: &[u64], class: usize| of.get(class).copied().unwrap_or_default() as f64;
    // The first two classes are at the same place.
    for class in 0..a.len().max(b.len()) {
        below += at(a, class) / all_a - at(b, class) / all_b;
        if class > 0 {
            let way = class_begin(class + 1) / class_begin(class);
            apart += f64::abs(below) * way.log10();
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_gaps_are_those_of_their_definition() {
        // All gaps ten times as long are one decade apart.
        let gaps = |gap: u64| {
            let mut classes = vec![0; gap_class(Nanos(gap)) + 1];
            classes[gap_class(Nanos(gap))] = 9;
            classes
        };
        let apart = decades_apart(&gaps(1_000), &gaps(10_000));
        // To the width of a class.
        assert!((apart - 1.0).abs() < 0.01, "{apart}");
        let found = class_begin(gap_class(Nanos(123_456_789)));
        assert!((0.98..=1.0).contains(&(found / 123_456_789.0)), "{found}");
        assert!(decades_apart(&gaps(0), &gaps(1)).abs() < 1e-12);
    }

    #[test]
    fn a_fingerprint_tells_order_places_kinds_and_sizes_apart_and_not_times() {
        let request = |at, kind, offset, bytes| TraceAccess {
            at: Nanos(at),
            kind,
            offset,
            bytes,
        };
        let of = |requests: &[TraceAccess]| {
            let mut fingerprint = Fingerprint::default();
            requests.iter().for_each(|request| fingerprint.add(request));
            fingerprint
        };
        let (read, other) = (
            request(1, OpKind::Read, 0, 0),
            request(2, OpKind::Read, 4096, 512),
        );
        let both = of(&[read, other]);
        assert_eq!(both, of(&[request(7, OpKind::Read, 0, 0), other]));
        for different in [
            of(&[other, read]),
            of(&[read]),
            of(&[read, read, other]),
            of(&[read, request(2, OpKind::Write, 4096, 512)]),
            of(&[read, request(2, OpKind::Read, 8192, 512)]),
            of(&[read, request(2, OpKind::Read, 4096, 1024)]),
        ] {
            assert_ne!(both, different);
        }
    }

    #[test]
    fn dispersion_tells_bursts_from_a_steady_rate() {
        let device = TraceDevice {
            name: "d".into(),
            requests: 0,
            reads: 0,
            took: None,
            ended: 0,
            bytes: 0,
        };
        let measured = |at_ms: &dyn Fn(u64) -> u64| {
            let length = Nanos(1_000 * Nanos::SECOND.0);
            let mut measures = TraceStats::new(&device, TraceTimeBase::fine(length));
            for i in 0..10_000 {
                measures.add(&TraceAccess {
                    at: Nanos(at_ms(i) * 1_000_000),
                    kind: OpKind::Read,
                    offset: 0,
                    bytes: 512,
                });
            }
            measures.finish();
            measures
        };
        // Ten a second, and a hundred together every ten seconds.
        let steady = measured(&|i| i * 100);
        let bursty = measured(&|i| i / 100 * 10_000);
        let of = |measures: &TraceStats| measures.pace.windows.counts[2].dispersion(1_000);
        assert!(of(&steady).abs() < 1e-9, "{}", of(&steady));
        assert!((of(&bursty) - 90.0).abs() < 1e-6, "{}", of(&bursty));
        let lines = steady.compare(&bursty);
        let passed = |part: &str| {
            let line = lines.iter().find(|line| line.metric.contains(part));
            line.is_some_and(FidelityCheck::passed)
        };
        assert!(passed("operations per second"));
        assert!(passed("kinds and sizes"));
        assert!(!passed("times between"));
    }

    /// Reads of 512 bytes at these instants, over `length`, in steps of `resolution`.
    fn counted(at_us: impl Iterator<Item = u64>, clockwork: TraceTimeBase) -> Vec<(f64, f64)> {
        let device = TraceDevice {
            name: "d".into(),
            requests: 0,
            reads: 0,
            took: None,
            ended: 0,
            bytes: 0,
        };
        let mut measures = TraceStats::new(&device, clockwork);
        for us in at_us {
            measures.add(&TraceAccess {
                at: Nanos(us * 1_000),
                kind: OpKind::Read,
                offset: 0,
                bytes: 512,
            });
        }
        measures.finish();
        let found = measures.dispersion().into_iter();
        found.map(|at| (at.window_s, at.index)).collect()
    }

    #[test]
    fn a_window_that_is_cut_off_by_the_end_does_not_count() {
        // One request every 7 ms for 61.5 s; counted with its last half second a clock would look
        // bursty at 1 s.
        let length = Nanos(61_495_000_000);
        let found = counted((0..8_786).map(|n| n * 7_000), TraceTimeBase::fine(length));
        let (window_s, index) = found[2];
        assert!((window_s - 1.0).abs() < 1e-9 && index < 0.001, "{found:?}");
        // Half a window of twenty and a half is none of twenty-one, nor is a request on its edge.
        let length = Nanos(20_500_000_000);
        let found = counted((0..205).map(|n| n * 100_000), TraceTimeBase::fine(length));
        assert!(
            found
                .last()
                .is_some_and(|(s, index)| (s - 1.0).abs() < 1e-9 && *index < 1e-9)
        );
    }

    #[test]
    fn windows_shorter_than_what_tells_starts_apart_have_no_dispersion() {
        let clockwork = TraceTimeBase {
            length: Nanos(100_000_000_000),
            resolution: Nanos::SECOND,
        };
        let found = counted((0..1_000).map(|n| n / 10 * 1_000_000), clockwork);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((found[0].0 - 1.0).abs() < 1e-9 && found[0].1.abs() < 1e-9);
        assert!(clockwork.tells_gaps(90) && !clockwork.tells_gaps(1_000));
    }
}
