// SPDX-License-Identifier: Apache-2.0
//! Which blocks of a region have been reached, one bit each, with a summary above every 64 words so
//! that the next free block is found in a few steps. When all have been, all are free again.

use crate::num::to_usize;

/// Most blocks of the maps of a group, its workers together: 256 MiB.
pub const MAP_BLOCKS_MAX: u64 = 1 << 31;

const BITS: u64 = u64::BITS as u64;

/// Blocks that have been reached.
#[derive(Debug, Clone)]
pub(crate) struct BlockMap {
    blocks: u64,
    taken: u64,
    /// Level 0 has a bit for each block, each level above one for each full word below it.
    levels: Vec<Vec<u64>>,
}

impl BlockMap {
    /// All of them free. At least one.
    pub(crate) fn new(blocks: u64) -> Self {
        let blocks = blocks.max(1);
        let mut levels = Vec::new();
        let mut bits = blocks;
        // Ends: each level has a 64th of the one below.
        loop {
            let words = bits.div_ceil(BITS);
            levels.push(vec![0u64; to_usize(words)]);
            if words == 1 {
                break;
            }
            bits = words;
        }
        let mut map = BlockMap {
            blocks,
            taken: 0,
            levels,
        };
        map.clear();
        map
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Frees all. What lies behind the last block of a level counts as taken.
    fn clear(&mut self) {
        self.taken = 0;
        let mut bits = self.blocks;
        for level in &mut self.levels {
            level.fill(0);
            let rest = bits % BITS;
            if let Some(last) = level.last_mut()
                && rest > 0
            {
                *last = u64::MAX << rest;
            }
            bits = bits.div_ceil(BITS);
        }
    }

    fn is_taken(&self, block: u64) -> bool {
        self.levels[0][to_usize(block / BITS)] >> (block % BITS) & 1 == 1
    }

    /// This block if it is free, else the next that is, from the start again behind the last.
    pub(crate) fn free_from(&self, block: u64) -> u64 {
        self.free_at_or_behind(block)
            .or_else(|| self.free_at_or_behind(0))
            .unwrap_or(0)
    }

    fn free_at_or_behind(&self, block: u64) -> Option<u64> {
        let mut at = block;
        // Up to the first level that has something free behind, then down to the block itself.
        for level in 0..self.levels.len() {
            let word = self.levels[level].get(to_usize(at / BITS))?;
            let free = !word & (u64::MAX << (at % BITS));
            if free != 0 {
                at = at / BITS * BITS + u64::from(free.trailing_zeros());
                return Some(self.down(level, at));
            }
            at = at / BITS + 1;
        }
        None
    }

    /// The first free block below bit `at` of this level, which has one.
    fn down(&self, level: usize, mut at: u64) -> u64 {
        for below in self.levels[..level].iter().rev() {
            let free = !below[to_usize(at)];
            at = at * BITS + u64::from(free.trailing_zeros());
        }
        at
    }

    /// Takes the blocks from `first` on, at most `most` and up to the first that is taken: how many.
    pub(crate) fn take(&mut self, first: u64, most: u64) -> u64 {
        let mut n = 0;
        while n < most && first + n < self.blocks && !self.is_taken(first + n) {
            self.set(first + n);
            n += 1;
        }
        self.taken += n;
        if self.taken == self.blocks {
            self.clear();
        }
        n
    }

    fn set(&mut self, block: u64) {
        let mut at = block;
        for level in &mut self.levels {
            let word = &mut level[to_usize(at / BITS)];
            *word |= 1 << (at % BITS);
            if *word != u64::MAX {
                return;
            }
            at /= BITS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Rng, Seed};

    #[test]
    fn every_block_is_taken_once_before_any_is_taken_again() {
        for blocks in [1, 2, 63, 64, 65, 4_096, 4_097, 10_000] {
            let mut map = BlockMap::new(blocks);
            let mut rng = Rng::new(Seed(blocks));
            for _round in 0..3 {
                let mut seen = vec![false; to_usize(blocks)];
                let mut left = blocks;
                while left > 0 {
                    let first = map.free_from(rng.below(blocks));
                    let n = map.take(first, 1 + rng.below(9));
                    assert!(n > 0, "{blocks}: {first} was given out as free");
                    for block in first..first + n {
                        assert!(!seen[to_usize(block)], "{blocks}: {block} twice");
                        seen[to_usize(block)] = true;
                    }
                    left -= n;
                }
            }
        }
    }

    #[test]
    fn the_next_free_block_is_the_nearest_behind() {
        let mut map = BlockMap::new(9_000);
        assert_eq!(map.take(100, 8_800), 8_800);
        for (from, expect) in [(99, 99), (100, 8_900), (5_000, 8_900), (8_950, 8_950)] {
            assert_eq!(map.free_from(from), expect);
        }
        map.take(8_900, 100);
        assert_eq!(map.free_from(8_999), 0);
        // An operation ends where the next block was reached before.
        assert_eq!(map.take(96, 16), 4);
    }
}
