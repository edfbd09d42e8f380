// SPDX-License-Identifier: Apache-2.0
//! What is measured of a stream of requests, and how far two streams are apart.

use plimsoll_core::model::{Fidelity, ZONE_BYTES};
use plimsoll_core::num::{ratio, saturating_u32, to_usize};
use plimsoll_core::op::Kind;
use plimsoll_core::profile::{Dispersion, SizeCount};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::blocks::Traced;

use super::Device;
use super::reuse::Reuse;
use super::table::Table;

/// Bits behind the first by which gaps are put into classes: 64 for each power of two, fine against
/// those in which gaps are kept.
const GAP_BITS: u32 = 6;
/// Windows in which requests are counted, for how bursty they are.
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

/// Counts in windows of one length, as sums for their mean and variance.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    window: u64,
    count: u64,
    sum: f64,
    squares: f64,
}

impl Counts {
    fn add(&mut self, window: u64) {
        if window != self.window {
            self.close();
            self.window = window;
        }
        self.count += 1;
    }

    fn close(&mut self) {
        let count = self.count as f64;
        self.sum += count;
        self.squares += count * count;
        self.count = 0;
    }

    /// Variance over mean of the counts of `n` windows.
    fn dispersion(&self, n: u64) -> f64 {
        let n = n as f64;
        let mean = self.sum / n;
        ratio(self.squares / n - mean * mean, mean)
    }
}

/// What is measured of a stream.
pub(crate) struct Measures {
    length: Nanos,
    /// Operations and bytes by kind, in the order of [`Kind::ALL`].
    totals: [(u64, u64); Kind::ALL.len()],
    /// Requests by kind and size.
    transfers: Table<u64>,
    /// Gaps by class; those of no time are in the first.
    gaps: Vec<u64>,
    last_at: Option<Nanos>,
    counts: [Counts; WINDOWS.len()],
    /// Requests by zone.
    zones: Table<u64>,
    reuse: Reuse,
}

impl Measures {
    pub(crate) fn new(device: &Device, length: Nanos) -> Measures {
        Measures {
            length,
            totals: Default::default(),
            transfers: Table::new(),
            gaps: Vec::new(),
            last_at: None,
            counts: Default::default(),
            zones: Table::new(),
            reuse: Reuse::new(device.bytes),
        }
    }

    pub(crate) fn add(&mut self, request: &Traced) {
        let kind = request.kind.index();
        let total = &mut self.totals[kind];
        total.0 += 1;
        total.1 += u64::from(request.bytes);
        *self
            .transfers
            .at((kind as u64) << 32 | u64::from(request.bytes)) += 1;
        if let Some(last) = self.last_at.replace(request.at) {
            let class = gap_class(request.at.since(last));
            if self.gaps.len() <= class {
                self.gaps.resize(class + 1, 0);
            }
            self.gaps[class] += 1;
        }
        for (counts, (length, _)) in self.counts.iter_mut().zip(WINDOWS) {
            counts.add(request.at.0 / length.0);
        }
        *self.zones.at(request.offset / ZONE_BYTES) += 1;
        self.reuse.add(request);
    }

    pub(crate) fn finish(&mut self) {
        self.counts.iter_mut().for_each(Counts::close);
    }

    /// Operations and bytes by kind, in the order of [`Kind::ALL`].
    pub(super) fn totals(&self) -> &[(u64, u64); Kind::ALL.len()] {
        &self.totals
    }

    /// Requests by kind and size, most frequent first.
    pub(super) fn sizes(&self) -> Vec<SizeCount> {
        let size = |(key, requests): (u64, u64)| SizeCount {
            kind: Kind::ALL[to_usize(key >> 32)],
            bytes: saturating_u32(key & u64::from(u32::MAX)),
            requests,
        };
        let mut sizes: Vec<SizeCount> = self.transfers.sorted().into_iter().map(size).collect();
        sizes.sort_by_key(|size| std::cmp::Reverse(size.requests));
        sizes
    }

    /// How bursty arrivals are by scale of time, where there are enough windows of it.
    pub(super) fn dispersion(&self) -> Vec<Dispersion> {
        let each = self.counts.iter().zip(WINDOWS);
        let known = each.filter_map(|(counts, (length, _))| {
            let n = self.length.0.div_ceil(length.0);
            (n >= WINDOWS_MIN).then(|| Dispersion {
                window_s: length.as_secs_f64(),
                index: counts.dispersion(n),
            })
        });
        known.collect()
    }

    /// Requests of each touched zone of [`ZONE_BYTES`], by its number.
    pub(super) fn zones(&self) -> Vec<(u64, u64)> {
        self.zones.sorted()
    }

    /// What caches of 1, 2, 4, … blocks of 4 KiB would miss.
    pub(super) fn miss_ratios(&self) -> Vec<f64> {
        self.reuse.miss_ratios()
    }

    /// How far `played` is from these, gate by gate.
    pub(crate) fn compare(&self, played: &Measures) -> Vec<Fidelity> {
        let mut lines = Vec::new();
        let totals = self.totals.iter().zip(&played.totals).zip(Kind::ALL);
        for (((ops, bytes), (played_ops, played_bytes)), kind) in totals {
            if (ops, played_ops) == (&0, &0) {
                continue;
            }
            let seconds = self.length.as_secs_f64();
            let mut line = |what: &str, recorded: u64, played: u64| {
                let name = format!("{} {what} per second", kind.name());
                let per_s = |sum: u64| ratio(sum as f64, seconds);
                let (recorded, played) = (per_s(recorded), per_s(played));
                lines.push(Fidelity::relative(name, recorded, played, RATE_GATE));
            };
            line("operations", *ops, *played_ops);
            if *bytes > 0 {
                line("bytes", *bytes, *played_bytes);
            }
        }
        lines.push(distance(
            "kinds and sizes, share that differs",
            variation(&self.transfers, &played.transfers),
            SIZE_GATE,
        ));
        lines.push(distance(
            "times between requests, decades apart",
            decades_apart(&self.gaps, &played.gaps),
            GAP_GATE,
        ));
        lines.extend(self.dispersions(played));
        lines.push(distance(
            "requests by zone of 1 MiB, share that differs",
            variation(&self.zones, &played.zones),
            ZONE_GATE,
        ));
        lines.push(distance(
            "miss ratio of caches, mean difference",
            self.reuse_apart(played),
            REUSE_GATE,
        ));
        lines
    }

    fn dispersions<'a>(&'a self, played: &'a Measures) -> impl Iterator<Item = Fidelity> + 'a {
        let both = self.counts.iter().zip(&played.counts).zip(WINDOWS);
        both.filter_map(|((recorded, played), (length, name))| {
            let n = self.length.0.div_ceil(length.0);
            let recorded = recorded.dispersion(n);
            if n < WINDOWS_MIN || recorded <= 0.0 {
                return None;
            }
            let name = format!("dispersion of requests in {name}");
            let played = played.dispersion(n);
            Some(Fidelity::relative(name, recorded, played, BURST_GATE))
        })
    }

    /// Mean difference of the miss ratios, over sizes of caches from one block to the first that
    /// holds everything.
    fn reuse_apart(&self, played: &Measures) -> f64 {
        let (recorded, played) = (self.reuse.miss_ratios(), played.reuse.miss_ratios());
        let compulsory = recorded.last().copied().unwrap_or_default();
        let holds_all = |ratio: &f64| *ratio <= compulsory;
        let n = recorded
            .iter()
            .position(holds_all)
            .map_or(recorded.len(), |at| at + 1);
        let apart = recorded
            .iter()
            .zip(&played)
            .take(n)
            .map(|(a, b)| (a - b).abs());
        ratio(apart.sum(), n as f64)
    }
}

/// A figure that is 0 when two streams are alike.
pub(crate) fn distance(metric: &str, error: f64, gate: f64) -> Fidelity {
    Fidelity {
        metric: metric.into(),
        recorded: 0.0,
        submitted: error,
        error,
        gate,
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

/// Total variation: the share of the counts that would have to move to make two tables alike.
fn variation(a: &Table<u64>, b: &Table<u64>) -> f64 {
    let (all_a, all_b) = (a.sorted(), b.sorted());
    let total = |of: &[(u64, u64)]| of.iter().map(|(_, count)| count).sum::<u64>().max(1) as f64;
    let (total_a, total_b) = (total(&all_a), total(&all_b));
    let share = |of: &Table<u64>, number: u64, total: f64| {
        of.get(number).unwrap_or_default() as f64 / total
    };
    let in_a = all_a.iter().map(|(number, _)| *number);
    let only_in_b = all_b.iter().map(|(number, _)| *number);
    let only_in_b = only_in_b.filter(|number| a.get(*number).is_none());
    let apart = in_a
        .chain(only_in_b)
        .map(|number| (share(a, number, total_a) - share(b, number, total_b)).abs());
    apart.sum::<f64>() / 2.0
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
    fn distances_are_those_of_their_definitions() {
        let table = |of: &[(u64, u64)]| {
            let mut table = Table::new();
            of.iter()
                .for_each(|(number, count)| *table.at(*number) = *count);
            table
        };
        let (a, b) = (table(&[(1, 50), (2, 50)]), table(&[(1, 30), (3, 70)]));
        assert!((variation(&a, &b) - 0.7).abs() < 1e-12);
        assert!(variation(&a, &a).abs() < 1e-12);
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
    fn dispersion_tells_bursts_from_a_steady_rate() {
        let device = Device {
            name: "d".into(),
            requests: 0,
            reads: 0,
            took: None,
            bytes: 0,
        };
        let measured = |at_ms: &dyn Fn(u64) -> u64| {
            let mut measures = Measures::new(&device, Nanos(1_000 * Nanos::SECOND.0));
            for i in 0..10_000 {
                measures.add(&Traced {
                    at: Nanos(at_ms(i) * 1_000_000),
                    kind: Kind::Read,
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
        let of = |measures: &Measures| measures.counts[2].dispersion(1_000);
        assert!(of(&steady).abs() < 1e-9, "{}", of(&steady));
        assert!((of(&bursty) - 90.0).abs() < 1e-6, "{}", of(&bursty));
        let lines = steady.compare(&bursty);
        let passed = |part: &str| {
            let line = lines.iter().find(|line| line.metric.contains(part));
            line.is_some_and(Fidelity::passed)
        };
        assert!(passed("operations per second"));
        assert!(passed("kinds and sizes"));
        assert!(!passed("times between"));
    }
}
