// SPDX-License-Identifier: Apache-2.0
//! Reads and writes of one size at a fixed depth: a closed loop.
//!
//! An operation is meant to start when the one before it in the same slot has ended.

use plimsoll_core::offsets::Offsets;
use plimsoll_core::op::{Kind, Request, Sample};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::blocks::{Group, TurnKind};

use crate::error::Error;
use crate::source::{Next, Source};

/// The source of a group of workers.
#[derive(Debug)]
pub(crate) struct RandomLoop {
    rng: Rng,
    /// Shares of 2^64 below which a draw is a read; `None`: always.
    reads_below: Option<u64>,
    block_bytes: u32,
    blocks: u64,
    /// The next block of a sequential stream.
    cursor: Option<u64>,
    end: Nanos,
    /// When each slot became free.
    free_since: Vec<Nanos>,
}

impl RandomLoop {
    /// Operations on a file of `file_bytes` (at least one block) until `end`.
    pub(crate) fn new(group: &Group, slots: u32, end: Nanos, seed: Seed) -> Self {
        let weight = |kind| {
            let turns = group
                .mix
                .iter()
                .filter(|turn| Some(turn.kind) == kind || kind.is_none());
            turns.map(|turn| turn.weight).sum::<f64>()
        };
        let read_share = weight(Some(TurnKind::Read)) / weight(None);
        let share = plimsoll_core::num::floor_u64(read_share * 2f64.powi(64));
        let block_bytes = group.mix.first().map_or(4096, |turn| turn.bytes);
        RandomLoop {
            rng: Rng::new(seed.derive("random", 0)),
            reads_below: (read_share < 1.0).then_some(share),
            block_bytes,
            blocks: (group.extent.bytes / u64::from(block_bytes)).max(1),
            cursor: (group.offsets == Offsets::Sequential).then_some(0),
            end,
            free_since: vec![Nanos(0); slots as usize],
        }
    }
}

impl Source for RandomLoop {
    #[inline]
    fn next(&mut self, now: Nanos, slot: u32) -> Result<Next, Error> {
        if now >= self.end {
            return Ok(Next::End);
        }
        let is_read = match self.reads_below {
            None => true,
            Some(0) => false,
            Some(limit) => self.rng.next_u64() < limit,
        };
        let block = match &mut self.cursor {
            None => self.rng.below(self.blocks),
            Some(cursor) => {
                let block = *cursor;
                *cursor = if block + 1 < self.blocks {
                    block + 1
                } else {
                    0
                };
                block
            }
        };
        Ok(Next::Request(Request {
            kind: if is_read { Kind::Read } else { Kind::Write },
            file: 0,
            offset: block * u64::from(self.block_bytes),
            len: self.block_bytes,
            intended_at: self.free_since[slot as usize],
        }))
    }

    #[inline]
    fn completed(&mut self, slot: u32, sample: &Sample) {
        self.free_since[slot as usize] = sample.completed_at;
    }
}
