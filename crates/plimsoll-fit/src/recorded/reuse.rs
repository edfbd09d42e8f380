// SPDX-License-Identifier: Apache-2.0
//! The effect of a cache on requests: the miss ratio of a least-recently-used cache of any size.
//!
//! The reuse distance of an access is the number of other blocks touched since the last access to
//! its block; a cache of more blocks than that has it. Source: Mattson, Gecsei, Slutz and Traiger,
//! "Evaluation techniques for storage hierarchies" (1970). Of long recordings a share of the blocks
//! stands for all, chosen by a hash of their number, with distances in proportion: Waldspurger,
//! Park, Garthwaite and Ahmad, "Efficient MRC construction with SHARDS" (2015).

use plimsoll_core::num::to_usize;
use plimsoll_core::op::TraceAccess;
use plimsoll_core::table::IntHashMap;

/// A block of the cache.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// Accesses of a recording that are looked at, about.
const ACCESSES: u64 = 1 << 18;
/// Sizes of caches, in powers of two of blocks.
const SIZES: usize = 40;

/// The blocks that are looked at: those whose hash lies below a limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct TraceBlockSampler {
    below: u64,
}

impl TraceBlockSampler {
    /// For a recording that moves about `bytes` bytes.
    pub(super) fn new(bytes: u64) -> TraceBlockSampler {
        let accesses = bytes / BLOCK_BYTES + 1;
        let below = match u64::MAX.checked_div(accesses.div_ceil(ACCESSES)) {
            Some(below) if accesses > ACCESSES => below,
            _ => u64::MAX,
        };
        TraceBlockSampler { below }
    }

    /// All blocks for each that is looked at.
    pub(super) fn share(self) -> f64 {
        u64::MAX as f64 / self.below as f64
    }

    /// Hands on the blocks of a request that are looked at.
    pub(super) fn blocks(self, request: &TraceAccess, mut take: impl FnMut(u64)) {
        let Some(last) = u64::from(request.bytes).checked_sub(1) else {
            return;
        };
        let first = request.offset / BLOCK_BYTES;
        for block in first..=request.offset.saturating_add(last) / BLOCK_BYTES {
            // Fibonacci hashing.
            if block.wrapping_mul(0x9e37_79b9_7f4a_7c15) <= self.below {
                take(block);
            }
        }
    }
}

/// Distances of accesses.
pub(super) struct TraceReuseDistances {
    sample: TraceBlockSampler,
    /// Where in `seen` each block was accessed last.
    last: IntHashMap<Option<u32>>,
    /// 1 at the last access of each block: sums over it are counts of blocks (Fenwick's tree).
    tree: Vec<u32>,
    next: u32,
    /// Accesses by the power of two of blocks at which they hit.
    hits: [u64; SIZES],
    accesses: u64,
}

impl TraceReuseDistances {
    /// For a recording that moves about `bytes` bytes.
    pub(super) fn new(bytes: u64) -> TraceReuseDistances {
        TraceReuseDistances {
            sample: TraceBlockSampler::new(bytes),
            last: IntHashMap::default(),
            tree: vec![0; 2 * to_usize(ACCESSES) + 1],
            next: 0,
            hits: [0; SIZES],
            accesses: 0,
        }
    }

    pub(super) fn add(&mut self, request: &TraceAccess) {
        self.sample.blocks(request, |block| self.access(block));
    }

    fn access(&mut self, block: u64) {
        if to_usize(u64::from(self.next) + 1) >= self.tree.len() {
            self.renumber();
        }
        let now = self.next;
        self.next += 1;
        self.accesses += 1;
        let before = self.last.at(block).replace(now);
        if let Some(before) = before {
            let since = self.sum(now) - self.sum(before + 1);
            self.change(before, u32::MAX);
            // Distances of all blocks, those that are not looked at included.
            let blocks = f64::from(since + 1) * self.sample.share();
            let size = to_usize(plimsoll_core::num::round_u64(blocks.log2().ceil()));
            self.hits[size.min(SIZES - 1)] += 1;
        }
        self.change(now, 1);
    }

    /// Adds to the place `at`; `u32::MAX` takes one away.
    fn change(&mut self, at: u32, by: u32) {
        let mut node = at as usize + 1;
        while let Some(count) = self.tree.get_mut(node) {
            *count = count.wrapping_add(by);
            node += node & node.wrapping_neg();
        }
    }

    /// Blocks whose last access stands before the place `at`.
    fn sum(&self, at: u32) -> u32 {
        let mut node = at as usize;
        let mut sum = 0u32;
        while node > 0 {
            sum = sum.wrapping_add(self.tree[node]);
            node &= node - 1;
        }
        sum
    }

    /// Moves the last accesses together, so that there is room for more; forgets the oldest half
    /// when they fill it all.
    fn renumber(&mut self) {
        let blocks = self.last.sorted();
        let mut order: Vec<(u32, u64)> = blocks
            .into_iter()
            .filter_map(|(block, at)| Some((at?, block)))
            .collect();
        order.sort_unstable();
        let keep = order.len().min(to_usize(ACCESSES));
        order.drain(..order.len() - keep);
        self.tree.fill(0);
        self.last = IntHashMap::default();
        self.next = 0;
        for (_, block) in order {
            *self.last.at(block) = Some(self.next);
            self.change(self.next, 1);
            self.next += 1;
        }
    }

    /// Bytes of all blocks that were touched: of each the first access misses in every cache.
    pub(super) fn touched_bytes(&self) -> f64 {
        let first = self.accesses - self.hits.iter().sum::<u64>();
        first as f64 * self.sample.share() * BLOCK_BYTES as f64
    }

    /// Share of the accesses that miss in caches of 1, 2, 4, … blocks, up to where nothing changes.
    pub(super) fn miss_ratios(&self) -> Vec<f64> {
        let accesses = self.accesses.max(1) as f64;
        let mut misses = self.accesses;
        let ratios = self.hits.iter().map(|hits| {
            misses -= hits;
            misses as f64 / accesses
        });
        ratios.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::op::OpKind;
    use plimsoll_core::units::Nanos;

    fn ratios(blocks: impl Iterator<Item = u64>) -> Vec<f64> {
        let mut reuse = TraceReuseDistances::new(0);
        for block in blocks {
            reuse.add(&TraceAccess {
                at: Nanos(0),
                kind: OpKind::Read,
                offset: block * BLOCK_BYTES,
                bytes: 4096,
            });
        }
        reuse.miss_ratios()
    }

    #[test]
    fn a_cycle_of_blocks_hits_only_where_all_of_them_fit() {
        // 10 times 100 blocks: distances are 99, so a cache of 128 has all but the first round.
        let found = ratios((0..1000).map(|i| i % 100));
        assert!((found[6] - 1.0).abs() < 1e-12, "64 blocks: {found:?}");
        assert!((found[7] - 0.1).abs() < 1e-12, "128 blocks: {found:?}");
        let mut reuse = TraceReuseDistances::new(0);
        (0..1000).for_each(|i| reuse.access(i % 100));
        assert!((reuse.touched_bytes() - 409_600.0).abs() < 1e-6);
        // The same block again and again hits in the smallest cache.
        let same = ratios(std::iter::repeat_n(7, 50));
        assert!((same[0] - 0.02).abs() < 1e-12, "{same:?}");
    }

    #[test]
    fn a_long_recording_keeps_its_distances_when_accesses_are_numbered_anew() {
        let n = 2 * ACCESSES + 5_000;
        let found = ratios((0..n).map(|i| i % 1000));
        assert!(found[9] > 0.999, "512 blocks: {}", found[9]);
        // Of the first round every access misses.
        assert!(found[10] < 0.002, "1024 blocks: {}", found[10]);
    }
}
