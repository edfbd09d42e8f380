// SPDX-License-Identifier: Apache-2.0
//! The content of a stream of requests, whatever their times: kinds, sizes and places.

use plimsoll_core::num::{ratio, saturating_u32, to_usize};
use plimsoll_core::op::{OpKind, TraceAccess};
use plimsoll_core::profile::SizeCount;
use plimsoll_core::table::IntHashMap;

use super::reuse::TraceReuseDistances;
use super::zones::TraceZoneCounts;

/// Requests that are counted together, figure by figure: the tables are larger than a processor's
/// caches, and it waits for many places in one of them at once, but not for some in each.
const TOGETHER: usize = 256;
/// The size that most sizes are multiples of.
const SECTOR_BYTES: u32 = 512;

/// Counts of kinds, sizes and places.
pub(super) struct TraceContentStats {
    fresh: Vec<TraceAccess>,
    /// Operations and bytes by kind, in the order of [`OpKind::ALL`].
    totals: [(u64, u64); OpKind::ALL.len()],
    transfers: TraceTransferCounts,
    zones: TraceZoneCounts,
    reuse: TraceReuseDistances,
}

impl TraceContentStats {
    /// For a recording that moves about `bytes` bytes.
    pub(super) fn new(bytes: u64) -> TraceContentStats {
        TraceContentStats {
            fresh: Vec::with_capacity(TOGETHER),
            totals: Default::default(),
            transfers: TraceTransferCounts::new(),
            zones: TraceZoneCounts::default(),
            reuse: TraceReuseDistances::new(bytes),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, request: &TraceAccess) {
        self.fresh.push(*request);
        if self.fresh.len() == TOGETHER {
            self.count();
        }
    }

    fn count(&mut self) {
        for request in &self.fresh {
            self.zones.count(request.offset);
        }
        for request in &self.fresh {
            let kind = request.kind.index();
            let total = &mut self.totals[kind];
            total.0 += 1;
            total.1 += u64::from(request.bytes);
            self.transfers.count(kind, request.bytes);
        }
        for request in &self.fresh {
            self.reuse.add(request);
        }
        self.fresh.clear();
    }

    pub(super) fn finish(&mut self) {
        self.count();
    }

    /// Operations and bytes by kind, in the order of [`OpKind::ALL`].
    pub(super) fn totals(&self) -> &[(u64, u64); OpKind::ALL.len()] {
        &self.totals
    }

    /// Requests by kind and size, most frequent first.
    pub(super) fn sizes(&self) -> Vec<SizeCount> {
        let size = |(key, requests): (u64, u64)| SizeCount {
            kind: OpKind::ALL[to_usize(key >> 32)],
            bytes: saturating_u32(key & u64::from(u32::MAX)),
            requests,
        };
        let mut sizes: Vec<SizeCount> = self.transfers.sorted().into_iter().map(size).collect();
        sizes.sort_by_key(|size| std::cmp::Reverse(size.requests));
        sizes
    }

    /// Requests of each touched zone of [`plimsoll_core::model::ZONE_BYTES`], by its number.
    pub(super) fn zones(&self) -> Vec<(u64, u64)> {
        self.zones.sorted()
    }

    /// The miss ratio of caches of 1, 2, 4, … blocks of 4 KiB.
    pub(super) fn miss_ratios(&self) -> Vec<f64> {
        self.reuse.miss_ratios()
    }

    /// Bytes of all blocks of 4 KiB that were touched.
    pub(super) fn touched_bytes(&self) -> f64 {
        self.reuse.touched_bytes()
    }

    /// The share of requests whose kinds and sizes differ.
    pub(super) fn transfers_apart(&self, other: &TraceContentStats) -> f64 {
        variation(&self.transfers.sorted(), &other.transfers.sorted())
    }

    /// The share of requests that are in other zones.
    pub(super) fn zones_apart(&self, other: &TraceContentStats) -> f64 {
        variation(&self.zones(), &other.zones())
    }

    /// Mean difference of the miss ratios, over sizes of caches from one block to the first that
    /// holds everything.
    pub(super) fn reuse_apart(&self, other: &TraceContentStats) -> f64 {
        let (recorded, played) = (self.miss_ratios(), other.miss_ratios());
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

/// Requests by kind and size.
struct TraceTransferCounts {
    /// Those of some sectors, as nearly all are, by kind and sectors.
    sectors: Vec<[u64; SECTORS]>,
    /// All others, by kind above 32 bits of size.
    others: IntHashMap<u64>,
}

/// Sizes in sectors that have a place of their own: below 256 KiB.
const SECTORS: usize = 512;

impl TraceTransferCounts {
    fn new() -> TraceTransferCounts {
        TraceTransferCounts {
            sectors: vec![[0; SECTORS]; OpKind::ALL.len()],
            others: IntHashMap::default(),
        }
    }

    #[inline]
    fn count(&mut self, kind: usize, bytes: u32) {
        let sectors = (bytes / SECTOR_BYTES) as usize;
        if bytes.is_multiple_of(SECTOR_BYTES) && sectors < SECTORS {
            self.sectors[kind][sectors] += 1;
        } else {
            *self.others.at((kind as u64) << 32 | u64::from(bytes)) += 1;
        }
    }

    /// How many there are, by kind above 32 bits of size, in order.
    fn sorted(&self) -> Vec<(u64, u64)> {
        let mut all = self.others.sorted();
        for (kind, counts) in (0u64..).zip(&self.sectors) {
            let sizes = (kind << 32..).step_by(SECTOR_BYTES as usize);
            let counts = counts.iter().copied();
            all.extend(sizes.zip(counts).filter(|(_, count)| *count > 0));
        }
        all.sort_unstable();
        all
    }
}

/// Total variation: the share of the counts that would have to move to make two tables alike. Both
/// are by number.
fn variation(a: &[(u64, u64)], b: &[(u64, u64)]) -> f64 {
    let total = |of: &[(u64, u64)]| of.iter().map(|(_, count)| count).sum::<u64>().max(1) as f64;
    let (total_a, total_b) = (total(a), total(b));
    let count = |of: &[(u64, u64)], number: u64| {
        let place = of.binary_search_by_key(&number, |(number, _)| *number);
        place.map_or(0, |place| of[place].1) as f64
    };
    let in_a = a.iter().map(|(number, _)| *number);
    let only_in_b = b.iter().map(|(number, _)| *number);
    let only_in_b = only_in_b.filter(|number| count(a, *number) <= 0.0);
    let apart = in_a
        .chain(only_in_b)
        .map(|number| (count(a, number) / total_a - count(b, number) / total_b).abs());
    apart.sum::<f64>() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_size_is_counted_whether_it_is_of_sectors_or_not() {
        let mut transfers = TraceTransferCounts::new();
        let sizes = [0, 1, 512, 4095, 261_632, 262_144, u32::MAX];
        let all = || (0..OpKind::ALL.len()).flat_map(|kind| sizes.map(|bytes| (kind, bytes)));
        all().for_each(|(kind, bytes)| transfers.count(kind, bytes));
        transfers.count(1, 512);
        let expect = all().map(|(kind, bytes)| {
            let count = 1 + u64::from((kind, bytes) == (1, 512));
            ((kind as u64) << 32 | u64::from(bytes), count)
        });
        assert!(transfers.sorted().into_iter().eq(expect));
    }

    #[test]
    fn variation_is_the_share_that_would_have_to_move() {
        let (a, b) = ([(1, 50), (2, 50)], [(1, 30), (3, 70)]);
        assert!((variation(&a, &b) - 0.7).abs() < 1e-12);
        assert!(variation(&a, &a).abs() < 1e-12);
    }
}
