// SPDX-License-Identifier: Apache-2.0
//! Chooses offsets in a region, one per operation.
//!
//! The random numbers come from the caller, so that one generator serves everything a stream of
//! operations draws. Sizes may differ from one operation to the next: then kinds that count in
//! blocks count in blocks of the region's grain, and a smaller operation lies at a random multiple
//! of its size inside its block.

use super::map::BlockMap;
use super::permutation::SeededPermutation;
use super::zipf::ZipfSampler;
use super::{OffsetPattern, OffsetZone};
use crate::num::{round_u64, saturating_u32};
use crate::rng::{Rng, Seed};

/// Region that a stream of operations may touch, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetRegion {
    /// Where it begins.
    pub start: u64,
    /// How long it is.
    pub bytes: u64,
    /// The block that is counted in, at least 1: the largest operation.
    pub grain_bytes: u64,
}

impl OffsetRegion {
    /// Whole blocks of the region, at least 1.
    pub fn blocks(&self) -> u64 {
        (self.bytes / self.grain_bytes.max(1)).max(1)
    }
}

/// Chooses offsets.
#[derive(Debug, Clone)]
pub struct OffsetGenerator {
    region: OffsetRegion,
    way: OffsetGeneratorState,
}

#[derive(Debug, Clone)]
enum OffsetGeneratorState {
    /// For operations of `size` bytes, as the one before was: a division less for each.
    Uniform {
        size: u64,
        blocks: u64,
    },
    /// Bytes from the start of the region.
    Sequential(u64),
    /// Where the operation before began, from the start of the region.
    Backward(u64),
    Runs {
        blocks: u64,
        left: u64,
        cursor: u64,
    },
    Strided {
        stride_bytes: u64,
        cursor: u64,
    },
    ByBlock(ByBlock),
    /// Places without replacement for operations of several sizes: any block that is free, then
    /// those behind it, up to the first that is not.
    Map(BlockMap),
}

/// Kinds that choose a block by its number.
#[derive(Debug, Clone)]
enum ByBlock {
    Permutation {
        order: SeededPermutation,
        seed: Seed,
        /// Of the order, counted from 0.
        round: u64,
        next: u64,
    },
    Interleaved {
        first: u64,
        step: u64,
        next: u64,
        blocks: u64,
    },
    Zipf {
        ranks: ZipfSampler,
        places: SeededPermutation,
    },
    Zones(Vec<OffsetZoneSpan>),
}

/// A zone as it is drawn: access share summed up to its end, and where it lies, in blocks.
#[derive(Debug, Clone, Copy)]
struct OffsetZoneSpan {
    access_until: f64,
    first: u64,
    blocks: u64,
}

impl OffsetGenerator {
    /// Offsets for worker `worker` of `workers` in `region`. The order of a permutation that brings
    /// no seed and the places of Zipf's ranks come from `seed`: workers with the same seed have the
    /// same hot blocks and the same order.
    pub fn new(
        offsets: &OffsetPattern,
        region: OffsetRegion,
        (worker, workers): (u32, u32),
        seed: Seed,
    ) -> Self {
        let blocks = region.blocks();
        let way = match offsets {
            OffsetPattern::Uniform => OffsetGeneratorState::Uniform {
                size: region.grain_bytes.max(1),
                blocks,
            },
            OffsetPattern::Sequential => OffsetGeneratorState::Sequential(0),
            OffsetPattern::Backward => OffsetGeneratorState::Backward(0),
            OffsetPattern::Runs { blocks } => OffsetGeneratorState::Runs {
                blocks: (*blocks).max(1),
                left: 0,
                cursor: 0,
            },
            OffsetPattern::Strided { stride_bytes } => OffsetGeneratorState::Strided {
                stride_bytes: (*stride_bytes).max(1),
                cursor: 0,
            },
            OffsetPattern::Permutation => {
                OffsetGeneratorState::ByBlock(ByBlock::permutation(blocks, seed))
            }
            OffsetPattern::FixedPermutation { seed } => {
                OffsetGeneratorState::ByBlock(ByBlock::permutation(blocks, Seed(*seed)))
            }
            OffsetPattern::Interleaved => {
                let first = u64::from(worker) % blocks;
                OffsetGeneratorState::ByBlock(ByBlock::Interleaved {
                    first,
                    step: u64::from(workers.max(1)),
                    next: first,
                    blocks,
                })
            }
            OffsetPattern::Zipf { exponent } => OffsetGeneratorState::ByBlock(ByBlock::Zipf {
                ranks: ZipfSampler::new(blocks, *exponent),
                places: SeededPermutation::new(blocks, seed.derive("places", 0)),
            }),
            OffsetPattern::Zones(zones) => {
                OffsetGeneratorState::ByBlock(ByBlock::Zones(spans(zones, blocks)))
            }
        };
        OffsetGenerator { region, way }
    }

    /// As [`OffsetGenerator::new`], for operations of several sizes whose places are drawn before
    /// their sizes ([`OffsetGenerator::place`], [`OffsetGenerator::take`]); the grain of the region
    /// is the smallest of them.
    pub fn of_sizes(
        offsets: &OffsetPattern,
        region: OffsetRegion,
        who: (u32, u32),
        seed: Seed,
    ) -> Self {
        match offsets {
            OffsetPattern::Permutation | OffsetPattern::FixedPermutation { .. } => {
                OffsetGenerator {
                    region,
                    way: OffsetGeneratorState::Map(BlockMap::new(region.blocks())),
                }
            }
            _ => OffsetGenerator::new(offsets, region, who, seed),
        }
    }

    /// Where the next operation begins, at least one block before the end of the region.
    pub fn place(&mut self, rng: &mut Rng) -> u64 {
        let grain = self.region.grain_bytes.max(1);
        if let OffsetGeneratorState::Map(map) = &self.way {
            return self.region.start + map.free_from(rng.below(map.blocks())) * grain;
        }
        self.next(saturating_u32(grain), rng)
    }

    /// Bytes from a place to the end of the region.
    pub fn room(&self, place: u64) -> u64 {
        (self.region.start + self.region.bytes).saturating_sub(place)
    }

    /// The operation at `place`, the last that was given out, is to have `size` bytes: how many it
    /// gets, at least those of one block where that is not more than `size`.
    pub fn take(&mut self, place: u64, size: u32) -> u32 {
        let grain = self.region.grain_bytes.max(1);
        let more = u64::from(size).saturating_sub(grain);
        match &mut self.way {
            OffsetGeneratorState::Sequential(cursor)
            | OffsetGeneratorState::Runs { cursor, .. } => *cursor += more,
            OffsetGeneratorState::Map(map) => {
                let first = (place - self.region.start) / grain;
                let taken = map.take(first, u64::from(size).div_ceil(grain));
                return size.min(saturating_u32(taken * grain));
            }
            _ => {}
        }
        size
    }

    /// Operations of one block each that go through the region once: where each block comes once,
    /// all of its blocks, else as many operations as it has blocks.
    pub fn pass(&self) -> u64 {
        match &self.way {
            OffsetGeneratorState::ByBlock(ByBlock::Interleaved {
                first,
                step,
                blocks,
                ..
            }) => (blocks - first).div_ceil(*step),
            OffsetGeneratorState::Strided { stride_bytes, .. } => {
                let last = self.region.bytes.saturating_sub(self.region.grain_bytes);
                last / stride_bytes + 1
            }
            _ => self.region.blocks(),
        }
    }

    /// The offset of the next operation, which is `size` bytes long. Where `size` is at most the
    /// region, the operation ends inside it.
    #[inline]
    pub fn next(&mut self, size: u32, rng: &mut Rng) -> u64 {
        // Most draws take this path, without a call.
        if let OffsetGeneratorState::Uniform {
            size: before,
            blocks,
        } = &self.way
            && *before == u64::from(size)
        {
            return self.region.start + rng.below(*blocks) * *before;
        }
        self.next_otherwise(size, rng)
    }

    #[inline(never)]
    fn next_otherwise(&mut self, size: u32, rng: &mut Rng) -> u64 {
        let size = u64::from(size.max(1));
        let bytes = self.region.bytes;
        let from_start = match &mut self.way {
            OffsetGeneratorState::Uniform {
                size: before,
                blocks,
            } => {
                if size != *before {
                    (*before, *blocks) = (size, (bytes / size).max(1));
                }
                rng.below(*blocks) * size
            }
            OffsetGeneratorState::Sequential(cursor) => {
                let at = if *cursor + size > bytes { 0 } else { *cursor };
                *cursor = at + size;
                at
            }
            OffsetGeneratorState::Backward(cursor) => {
                if *cursor < size {
                    *cursor = bytes / size * size;
                }
                *cursor = cursor.saturating_sub(size);
                *cursor
            }
            OffsetGeneratorState::Runs {
                blocks,
                left,
                cursor,
            } => {
                if *left == 0 || *cursor + size > bytes {
                    let fits = (bytes / size).max(1);
                    *cursor = rng.below(fits.saturating_sub(*blocks) + 1) * size;
                    *left = *blocks;
                }
                *left -= 1;
                *cursor += size;
                *cursor - size
            }
            OffsetGeneratorState::Strided {
                stride_bytes,
                cursor,
            } => {
                let at = if *cursor + size > bytes { 0 } else { *cursor };
                *cursor = at + *stride_bytes;
                at
            }
            OffsetGeneratorState::ByBlock(by_block) => {
                let block = by_block.next(rng);
                self.region.inside(block, size, rng)
            }
            OffsetGeneratorState::Map(map) => {
                let block = map.free_from(rng.below(map.blocks()));
                map.take(block, 1);
                block * self.region.grain_bytes.max(1)
            }
        };
        self.region.start + from_start
    }
}

impl ByBlock {
    fn permutation(blocks: u64, seed: Seed) -> Self {
        ByBlock::Permutation {
            order: SeededPermutation::new(blocks, seed.derive("round", 0)),
            seed,
            round: 0,
            next: 0,
        }
    }

    fn next(&mut self, rng: &mut Rng) -> u64 {
        match self {
            ByBlock::Permutation {
                order,
                seed,
                round,
                next,
            } => {
                if *next == order.n() {
                    *round += 1;
                    *next = 0;
                    *order = SeededPermutation::new(order.n(), seed.derive("round", *round));
                }
                *next += 1;
                order.at(*next - 1)
            }
            ByBlock::Interleaved {
                first,
                step,
                next,
                blocks,
            } => {
                let block = *next;
                *next += *step;
                if *next >= *blocks {
                    *next = *first;
                }
                block
            }
            ByBlock::Zipf { ranks, places } => places.at(ranks.next(rng) - 1),
            ByBlock::Zones(spans) => {
                let drawn = rng.unit();
                let zone = spans.partition_point(|span| span.access_until <= drawn);
                let span = spans[zone.min(spans.len() - 1)];
                span.first + rng.below(span.blocks)
            }
        }
    }
}

impl OffsetRegion {
    /// Where in `block` an operation of `size` begins, from the start of the region; one that is
    /// longer than a block begins with it, or as late as it can.
    fn inside(&self, block: u64, size: u64, rng: &mut Rng) -> u64 {
        let grain = self.grain_bytes.max(1);
        let start = block * grain;
        if size < grain {
            return start + rng.below(grain / size) * size;
        }
        start.min(self.bytes.saturating_sub(size) / grain * grain)
    }
}

/// The zones as they are drawn. A zone of some size has at least one block as long as there are
/// blocks, and the last one reaches to the end.
fn spans(zones: &[OffsetZone], blocks: u64) -> Vec<OffsetZoneSpan> {
    let access_all: f64 = zones.iter().map(|zone| zone.access).sum();
    let size_all: f64 = zones.iter().map(|zone| zone.size).sum();
    let (mut access, mut size, mut first) = (0.0, 0.0, 0);
    let mut spans = Vec::new();
    for (i, zone) in zones.iter().enumerate() {
        access += zone.access / access_all;
        size += zone.size / size_all;
        let end = if i + 1 == zones.len() {
            blocks
        } else {
            round_u64(size * blocks as f64).min(blocks)
        };
        // Rounding may leave nothing: then it shares the block before.
        let begin = first.min(blocks - 1);
        spans.push(OffsetZoneSpan {
            access_until: access,
            first: begin,
            blocks: end.saturating_sub(begin).max(1),
        });
        first = end.max(first);
    }
    if spans.is_empty() {
        spans.push(OffsetZoneSpan {
            access_until: 1.0,
            first: 0,
            blocks,
        });
    }
    spans
}

#[cfg(test)]
mod tests;
