// SPDX-License-Identifier: Apache-2.0
//! Where the operations of a worker lie: one stream for all, or one for each kind.

use plimsoll_core::offsets::{OffsetGenerator, OffsetPattern, OffsetRegion};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::workload::blocks::{
    BlockIoGroup, BlockIoMixEntry, BlockIoOffsetSharing, BlockIoOpKind,
};

use super::bounds;
use super::source::BlockIoMixSampler;

/// How often a size that does not fit behind a place is drawn again.
const REDRAWS_MAX: u32 = 1_000;

/// The places of one worker.
#[derive(Debug)]
pub(super) enum BlockIoOffsetStreams {
    Shared(OffsetGenerator),
    ByKind(Vec<BlockIoKindStream>),
}

#[derive(Debug)]
pub(super) struct BlockIoKindStream {
    kinds: Vec<BlockIoOpKind>,
    smallest: u32,
    draw: OffsetGenerator,
}

impl BlockIoOffsetStreams {
    pub(super) fn new(group: &BlockIoGroup, who: (u32, u32), seed: Seed) -> Self {
        let region = bounds(group, who.0);
        if group.positions == BlockIoOffsetSharing::Shared || group.mix.is_empty() {
            return BlockIoOffsetStreams::Shared(OffsetGenerator::new(
                &group.offsets,
                region,
                who,
                seed,
            ));
        }
        let mut parts: Vec<BlockIoKindStream> = Vec::new();
        for turn in &group.mix {
            if parts.iter().any(|part| part.kinds.contains(&turn.kind)) {
                continue;
            }
            let smallest = smallest(&group.mix, turn.kind);
            let known = parts.iter_mut().find(|part| part.smallest == smallest);
            if let Some(part) = known.filter(|_| !is_stream(&group.offsets)) {
                part.kinds.push(turn.kind);
                continue;
            }
            let region = OffsetRegion {
                grain_bytes: smallest.into(),
                ..region
            };
            parts.push(BlockIoKindStream {
                kinds: vec![turn.kind],
                smallest,
                draw: OffsetGenerator::of_sizes(&group.offsets, region, who, seed),
            });
        }
        BlockIoOffsetStreams::ByKind(parts)
    }

    /// Operations that go through the region once.
    pub(super) fn pass(&self) -> u64 {
        match self {
            BlockIoOffsetStreams::Shared(draw) => draw.pass(),
            BlockIoOffsetStreams::ByKind(parts) => parts.first().map_or(1, |part| part.draw.pass()),
        }
    }

    /// Where this turn's operation begins, and how long it is.
    #[inline(always)]
    pub(super) fn next(
        &mut self,
        turn: BlockIoMixEntry,
        mix: &BlockIoMixSampler,
        rng: &mut Rng,
    ) -> (u64, u32) {
        match self {
            BlockIoOffsetStreams::Shared(draw) => (draw.next(turn.bytes, rng), turn.bytes),
            BlockIoOffsetStreams::ByKind(parts) => next_of_kind(parts, turn, mix, rng),
        }
    }
}

#[inline(never)]
fn next_of_kind(
    parts: &mut [BlockIoKindStream],
    turn: BlockIoMixEntry,
    mix: &BlockIoMixSampler,
    rng: &mut Rng,
) -> (u64, u32) {
    let part = parts
        .iter_mut()
        .find(|part| part.kinds.contains(&turn.kind))
        .expect("each kind of the mix has its part");
    let place = part.draw.place(rng);
    let room = part.draw.room(place);
    let fits = |turn: &BlockIoMixEntry| u64::from(turn.bytes) <= room;
    let mut size = turn;
    let mut redraws = 0;
    while !fits(&size) && redraws < REDRAWS_MAX {
        let drawn = mix.draw(rng);
        if drawn.kind == turn.kind {
            size = drawn;
        }
        redraws += 1;
    }
    let bytes = if fits(&size) {
        size.bytes
    } else {
        part.smallest
    };
    (place, part.draw.take(place, bytes))
}

/// Whether each kind has its own place to go on from.
fn is_stream(offsets: &OffsetPattern) -> bool {
    matches!(
        offsets,
        OffsetPattern::Sequential
            | OffsetPattern::Backward
            | OffsetPattern::Runs { .. }
            | OffsetPattern::Interleaved
            | OffsetPattern::Strided { .. }
    )
}

fn smallest(mix: &[BlockIoMixEntry], kind: BlockIoOpKind) -> u32 {
    let of_kind = mix.iter().filter(|turn| turn.kind == kind);
    of_kind.map(|turn| turn.bytes).min().unwrap_or(1).max(1)
}

/// Blocks of the maps that the workers of a group need in memory.
pub(crate) fn map_blocks(group: &BlockIoGroup) -> u64 {
    let has_map = matches!(
        group.offsets,
        OffsetPattern::Permutation | OffsetPattern::FixedPermutation { .. }
    );
    if !has_map || group.positions == BlockIoOffsetSharing::Shared {
        return 0;
    }
    let least = group.mix.iter().map(|turn| turn.bytes).min();
    let grain = u64::from(least.unwrap_or(1).max(1));
    let each = bounds(group, 0).bytes / grain;
    // At most one for each kind.
    let maps = u64::from(group.workers).saturating_mul(3);
    each.saturating_mul(maps)
}
