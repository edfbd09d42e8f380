// SPDX-License-Identifier: Apache-2.0
//! Block I/O by groups of workers: what each worker does next, and when.

mod cold;
mod content;
mod merge;
mod pace;
mod places;
mod source;
mod think;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_core::offsets::OffsetRegion;
use plimsoll_core::op::TraceAccess;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::BlockIoWorkload;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoGroup, BlockIoPacing, BlockIoRegion, BlockIoStopCondition,
};

pub(crate) use cold::{BlockIoColdPasses, CachedPart};
pub(crate) use merge::BlockIoSourceMux;
pub(crate) use places::map_blocks;
pub(crate) use source::BlockIoSource;

/// State shared by the workers of one run.
#[derive(Debug)]
pub(crate) struct BlockIoSharedState {
    /// Set by the first worker that has done its work, where that stops the counting of the others.
    stonewall: Option<AtomicBool>,
    /// Turns given out, by group: for work that is shared.
    tickets: Vec<AtomicU64>,
    /// Operations of traces in the order of their times, by group. Shared, as they may be many: of `n`
    /// workers, each takes every `n`-th one.
    traces: Vec<Arc<[TraceAccess]>>,
}

impl BlockIoSharedState {
    /// For one run of `blocks`.
    pub(crate) fn new(blocks: &BlockIoWorkload, stonewall: bool) -> Arc<Self> {
        Arc::new(BlockIoSharedState {
            stonewall: stonewall.then(AtomicBool::default),
            tickets: blocks.groups.iter().map(|_| AtomicU64::new(0)).collect(),
            traces: blocks.groups.iter().map(in_order).collect(),
        })
    }

    /// The trace of a group; empty where it has none.
    fn trace(&self, group: usize) -> Arc<[TraceAccess]> {
        Arc::clone(&self.traces[group])
    }

    /// Whether a worker has done its work, and that stops the counting.
    fn is_walled(&self) -> bool {
        let wall = self.stonewall.as_ref();
        wall.is_some_and(|wall| wall.load(Ordering::Relaxed))
    }
}

/// The operations of a group's trace in the order of their times.
fn in_order(group: &BlockIoGroup) -> Arc<[TraceAccess]> {
    let mut ops: Arc<[TraceAccess]> = traced(group).into();
    // There is one owner yet.
    if let Some(ops) = Arc::get_mut(&mut ops) {
        ops.sort_by_key(|op| op.at);
    }
    ops
}

fn traced(group: &BlockIoGroup) -> &[TraceAccess] {
    match &group.pace {
        BlockIoPacing::Open(ArrivalProcess::Trace(traced)) => traced,
        _ => &[],
    }
}

/// Which worker of which group, and in what run.
#[derive(Debug, Clone)]
pub(crate) struct BlockIoWorkerContext<'a> {
    pub(crate) group: &'a BlockIoGroup,
    /// Place of the group in the workload.
    pub(crate) group_number: usize,
    /// Number in the group, from 0.
    pub(crate) worker: u32,
    pub(crate) warmup: Nanos,
    /// End of the run.
    pub(crate) end: Nanos,
    pub(crate) seed: Seed,
    pub(crate) common: Arc<BlockIoSharedState>,
}

/// Every worker of `blocks`, groups in order.
pub(crate) fn posts<'a>(
    blocks: &'a BlockIoWorkload,
    (warmup, end): (Nanos, Nanos),
    seed: Seed,
    common: &Arc<BlockIoSharedState>,
) -> Vec<BlockIoWorkerContext<'a>> {
    let mut posts = Vec::new();
    for (group_number, group) in blocks.groups.iter().enumerate() {
        for worker in 0..group.workers {
            posts.push(BlockIoWorkerContext {
                group,
                group_number,
                worker,
                warmup,
                end,
                seed,
                common: Arc::clone(common),
            });
        }
    }
    posts
}

/// The largest operation of a group.
pub(crate) fn len_max(group: &BlockIoGroup) -> u32 {
    let of_mix = group.mix.iter().map(|turn| turn.bytes);
    let of_trace = traced(group).iter().map(|op| op.bytes);
    of_mix.chain(of_trace).max().unwrap_or(0)
}

/// The part of its file that worker `worker` of `group` may touch.
pub(crate) fn bounds(group: &BlockIoGroup, worker: u32) -> OffsetRegion {
    let grain_bytes = u64::from(len_max(group).max(1));
    let (bytes, workers) = (group.extent.bytes, u64::from(group.workers.max(1)));
    match group.extent.region {
        BlockIoRegion::Whole => OffsetRegion {
            start: 0,
            bytes,
            grain_bytes,
        },
        BlockIoRegion::Part => {
            let part = bytes / workers / grain_bytes * grain_bytes;
            OffsetRegion {
                start: part * u64::from(worker),
                bytes: part,
                grain_bytes,
            }
        }
    }
}

/// Whether a group ends by itself.
pub(crate) fn ends_by_itself(group: &BlockIoGroup) -> bool {
    group.work != BlockIoStopCondition::Time
        || matches!(group.pace, BlockIoPacing::Open(ArrivalProcess::Trace(_)))
}
