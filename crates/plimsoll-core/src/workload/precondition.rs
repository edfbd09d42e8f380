// SPDX-License-Identifier: Apache-2.0
//! Writes before a workload is measured, so that storage is used as it will be (SNIA's
//! preconditioning): the working set in order, then by the workload itself, as fast as the storage
//! lets it.

use super::Workload;
use super::blocks::{
    ArrivalProcess, BlockIoExtent, BlockIoFileCreation, BlockIoFinalOp, BlockIoGroup,
    BlockIoMixEntry, BlockIoOpKind, BlockIoPacing, BlockIoRegion, BlockIoStopCondition,
    BlockIoWorkload,
};
use crate::num::round_u64;
use crate::offsets::OffsetPattern;
use crate::units::Nanos;

/// Size of the writes in order: that of the specification.
const ORDERED_BYTES: u32 = 128 << 10;
/// The size of which files and parts of devices are multiples.
const BLOCK_BYTES: u32 = 4096;
/// Writes in order that are in flight: enough to keep a disk busy.
const ORDERED_DEPTH: u32 = 8;

impl Workload {
    /// Writes of its working set in order, `passes` times over.
    ///
    /// # Errors
    /// Why there are none, as the end of a sentence.
    pub fn ordered_writes(&self, passes: f64) -> Result<BlockIoWorkload, &'static str> {
        let groups = match self {
            Workload::Blocks(blocks) => of_blocks(blocks, passes)?,
            Workload::Model(model) => {
                let bytes = match &model.requests {
                    Some(packed) => packed.footprint_bytes(),
                    None => model.facts.working_set_bytes.value,
                };
                let extent = BlockIoExtent {
                    bytes: bytes.next_multiple_of(u64::from(BLOCK_BYTES)),
                    ..BlockIoExtent::default()
                };
                let group = BlockIoGroup {
                    extent,
                    ..BlockIoGroup::default()
                };
                vec![ordered(&group, 0, passes)]
            }
            Workload::Files(_) => {
                return Err(
                    "makes its files anew for every trial, so nothing of what was written would be left",
                );
            }
            Workload::Series(_) | Workload::Commands(_) => {
                return Err("has phases or programs, which make their files anew for every trial");
            }
        };
        Ok(BlockIoWorkload {
            name: "precondition".into(),
            groups,
        })
    }
}

impl BlockIoWorkload {
    /// The same as fast as the storage lets it, for as long as it is let; `None` where it writes
    /// nothing, or follows a trace.
    pub fn unpaced(&self) -> Option<BlockIoWorkload> {
        let writes = |turn: &BlockIoMixEntry| {
            matches!(turn.kind, BlockIoOpKind::Write | BlockIoOpKind::Update) && turn.weight > 0.0
        };
        let is_trace =
            |pace: &BlockIoPacing| matches!(pace, BlockIoPacing::Open(ArrivalProcess::Trace(_)));
        let mut groups = self.groups.iter();
        if groups.any(|group| is_trace(&group.pace))
            || !self.groups.iter().any(|group| group.mix.iter().any(writes))
        {
            return None;
        }
        let mut unpaced = self.clone();
        for group in &mut unpaced.groups {
            group.pace = BlockIoPacing::default();
            group.delay = Nanos(0);
            group.work = BlockIoStopCondition::Time;
        }
        Some(unpaced)
    }
}

fn of_blocks(blocks: &BlockIoWorkload, passes: f64) -> Result<Vec<BlockIoGroup>, &'static str> {
    let mut groups: Vec<BlockIoGroup> = Vec::new();
    for group in &blocks.groups {
        if group.extent.made != BlockIoFileCreation::Before {
            return Err(
                "makes its files itself in every trial, so nothing of what was written would be left",
            );
        }
        let same = |other: &&mut BlockIoGroup| {
            other.extent.file == group.extent.file && other.extent.shared == group.extent.shared
        };
        match groups.iter_mut().find(same) {
            // Files that groups share are as large as the largest of them wants.
            Some(known) if known.extent.bytes >= group.extent.bytes => {}
            Some(known) => known.extent.bytes = group.extent.bytes,
            None => groups.push(group.clone()),
        }
    }
    let numbered = groups.iter().enumerate();
    Ok(numbered
        .map(|(number, group)| ordered(group, number, passes))
        .collect())
}

/// One writer of each file of a group.
fn ordered(group: &BlockIoGroup, number: usize, passes: f64) -> BlockIoGroup {
    let whole = group.extent.bytes;
    let mut bytes = ORDERED_BYTES;
    while bytes > BLOCK_BYTES && !whole.is_multiple_of(u64::from(bytes)) {
        bytes /= 2;
    }
    BlockIoGroup {
        name: format!("order {number}"),
        workers: if group.extent.shared {
            1
        } else {
            group.workers
        },
        depth: ORDERED_DEPTH,
        extent: BlockIoExtent {
            region: BlockIoRegion::Whole,
            ..group.extent.clone()
        },
        mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Write, bytes)],
        offsets: OffsetPattern::Sequential,
        work: BlockIoStopCondition::Bytes(round_u64(passes * whole as f64)),
        finish: vec![BlockIoFinalOp::Fsync],
        direct: group.direct,
        content: group.content,
        ..BlockIoGroup::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(groups: Vec<BlockIoGroup>) -> Workload {
        Workload::Blocks(BlockIoWorkload {
            name: "w".into(),
            groups,
        })
    }

    fn group(file: &str, shared: bool, bytes: u64) -> BlockIoGroup {
        BlockIoGroup {
            name: format!("{file} {bytes}"),
            workers: 3,
            extent: BlockIoExtent {
                file: file.into(),
                shared,
                bytes,
                ..BlockIoExtent::default()
            },
            ..BlockIoGroup::default()
        }
    }

    #[test]
    fn every_file_is_written_whole_so_many_times() {
        let workload = blocks(vec![
            group("a", true, 1 << 20),
            group("a", true, 1 << 30),
            group("b", false, 12_288),
        ]);
        let ordered = workload.ordered_writes(2.0).unwrap();
        let [a, b] = &ordered.groups[..] else {
            panic!("{ordered:?}")
        };
        assert_eq!(
            (a.workers, a.extent.bytes, a.mix[0].bytes),
            (1, 1 << 30, 128 << 10)
        );
        assert_eq!(a.work, BlockIoStopCondition::Bytes(2 << 30));
        // Each of three workers has a file of its own, of three blocks.
        assert_eq!((b.workers, b.mix[0].bytes), (3, 4096));
        assert_eq!(b.work, BlockIoStopCondition::Bytes(24_576));
        assert_eq!(ordered.groups[0].offsets, OffsetPattern::Sequential);
    }

    #[test]
    fn what_makes_its_files_anew_cannot_be_preconditioned() {
        let mut made = group("a", true, 1 << 20);
        made.extent.made = BlockIoFileCreation::During;
        assert!(blocks(vec![made]).ordered_writes(1.0).is_err());
        assert!(Workload::idle("x").ordered_writes(1.0).is_err());
    }

    #[test]
    fn a_workload_that_writes_is_played_without_its_pace() {
        let mut paced = BlockIoWorkload::random("w", 0.7);
        paced.groups[0].pace = BlockIoPacing::Open(ArrivalProcess::Poisson { per_s: 10.0 });
        let unpaced = paced.unpaced().unwrap();
        assert!(!unpaced.is_open_loop() && !unpaced.ends_by_itself());
        assert!(BlockIoWorkload::random("r", 1.0).unpaced().is_none());
    }
}
