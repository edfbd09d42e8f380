// SPDX-License-Identifier: Apache-2.0
//! How the offsets of block operations are chosen: the kinds, and [`OffsetGenerator`], which chooses.

mod draw;
mod map;
mod permutation;
mod zipf;

pub use draw::{OffsetGenerator, OffsetRegion};
pub use map::MAP_BLOCKS_MAX;
pub use permutation::SeededPermutation;

use serde::{Deserialize, Serialize};

/// How offsets are chosen. A *block* is as long as the operation; a region is the part of a file
/// or device that a worker may touch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OffsetPattern {
    /// Every block of the region equally likely, with replacement.
    Uniform,
    /// Every block once in random order, then again in another order (without replacement).
    Permutation,
    /// As [`OffsetPattern::Permutation`], in an order that depends on nothing but this number and the
    /// count of blocks: the same for all workers, in every phase and every run.
    FixedPermutation {
        /// Which order.
        seed: u64,
    },
    /// One stream from the start of the region to its end, then from its start again.
    Sequential,
    /// One stream from the end of the region to its start, then from its end again.
    Backward,
    /// Sequential runs of a fixed number of blocks, each from a place drawn uniformly.
    Runs {
        /// Blocks in a run.
        blocks: u64,
    },
    /// Worker `w` of `n` begins at block `w` and steps by `n` blocks: the interleaved access of a
    /// shared file.
    Interleaved,
    /// From the start of the region by this many bytes at a time, from its start again at the end.
    Strided {
        /// Distance from the start of one operation to the start of the next.
        stride_bytes: u64,
    },
    /// Block of rank `r` (from 1) with a probability in proportion to `r^-exponent`; ranks are
    /// scattered over the region by an exact permutation, so no two share a block.
    Zipf {
        /// Skew; 0 is uniform. Below 10.
        exponent: f64,
    },
    /// Consecutive zones, each with its share of the accesses and of the region; uniform inside.
    /// Two zones make a hot spot.
    Zones(Vec<OffsetZone>),
}

/// A part of a region and how much of the load it takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OffsetZone {
    /// Share of the accesses, relative to the other zones.
    pub access: f64,
    /// Share of the region, relative to the other zones.
    pub size: f64,
}
