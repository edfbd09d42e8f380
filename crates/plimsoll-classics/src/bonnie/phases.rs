// SPDX-License-Identifier: Apache-2.0
//! The phases of bonnie++, in its order.

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::syncs::SyncPolicy;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    BlockIoFileCreation, BlockIoFinalOp, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind,
    BlockIoStopCondition,
};
use plimsoll_core::workload::files::{
    FileLoop, FileLoopOp, FileLoopOrder, FileLoopSelection, FileNameScheme, FileOp, FileSet,
    FileSizeDistribution, FileTreeLayout,
};
use plimsoll_core::workload::series::PhaseSpec;

use super::{BonnieOptions, MIB, NAME};
use crate::parts::{block_phase, file_phase, looped, series, shared_file, threads_that};
use plimsoll_core::settings::SettingValues;

/// One in this number of seeks changes the chunk and writes it back.
const UPDATE_EVERY: f64 = 10.0;

pub(super) fn build(shape: &BonnieOptions, settings: &SettingValues) -> Workload {
    let mut phases = Vec::new();
    if shape.size_mib > 0 {
        phases.extend(large_file(shape));
    }
    if shape.number > 0 {
        phases.extend(small_files(
            shape,
            "seq",
            FileNameScheme::NumberFirst,
            FileLoopOrder::Listed,
        ));
        phases.extend(small_files(
            shape,
            "ran",
            FileNameScheme::NumberLast,
            FileLoopOrder::Shuffled,
        ));
    }
    series(NAME, settings, phases)
}

fn large_file(shape: &BonnieOptions) -> Vec<PhaseSpec> {
    let bytes = shape.byte_mib * MIB;
    let putc = BlockIoGroup {
        extent: shared_file("bonnie", bytes, BlockIoFileCreation::During),
        mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Write, 1)],
        direct: false,
        ..sequential(shape)
    };
    let put_block = BlockIoGroup {
        extent: shared_file("bonnie", shape.size_mib * MIB, BlockIoFileCreation::During),
        mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Write, shape.chunk_bytes)],
        ..sequential(shape)
    };
    let of_chunks = |kind| BlockIoGroup {
        mix: vec![BlockIoMixEntry::of(kind, shape.chunk_bytes)],
        ..sequential(shape)
    };
    let getc = BlockIoGroup {
        mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Read, 1)],
        work: BlockIoStopCondition::Each(bytes),
        direct: false,
        ..sequential(shape)
    };
    let phases = [
        ("putc", putc),
        ("put_block", put_block),
        ("rewrite", of_chunks(BlockIoOpKind::Update)),
        ("getc", getc),
        ("get_block", of_chunks(BlockIoOpKind::Read)),
        ("seeks", seeks(shape)),
    ];
    let wanted = |name: &str| shape.byte_mib > 0 || !matches!(name, "putc" | "getc");
    let phases = phases.into_iter().filter(|(name, _)| wanted(name));
    let phases = phases.map(|(name, group)| block_phase(name, vec![group]));
    phases.map(counted).collect()
}

/// Seeks are counted, everything else is measured in bytes.
fn counted(mut phase: PhaseSpec) -> PhaseSpec {
    if phase.name == "seeks" {
        phase.metric = ComparisonMetric::OpsPerSecond;
    }
    phase
}

/// One worker that goes once through the file of an earlier phase.
fn sequential(shape: &BonnieOptions) -> BlockIoGroup {
    BlockIoGroup {
        name: "bonnie".into(),
        extent: shared_file("bonnie", shape.size_mib * MIB, BlockIoFileCreation::Earlier),
        offsets: OffsetPattern::Sequential,
        finish: vec![BlockIoFinalOp::Fsync, BlockIoFinalOp::Close],
        direct: shape.direct,
        work: BlockIoStopCondition::Pass,
        ..BlockIoGroup::default()
    }
}

fn seeks(shape: &BonnieOptions) -> BlockIoGroup {
    let turn = |kind, weight| BlockIoMixEntry {
        weight,
        ..BlockIoMixEntry::of(kind, shape.chunk_bytes)
    };
    BlockIoGroup {
        name: "seekers".into(),
        workers: shape.seekers,
        mix: vec![
            turn(BlockIoOpKind::Read, UPDATE_EVERY - 1.0),
            turn(BlockIoOpKind::Update, 1.0),
        ],
        offsets: OffsetPattern::Uniform,
        work: BlockIoStopCondition::Together(shape.seeks),
        syncs: SyncPolicy {
            every: u32::from(shape.sync),
            ..SyncPolicy::default()
        },
        ..sequential(shape)
    }
}

fn small_files(
    shape: &BonnieOptions,
    prefix: &str,
    names: FileNameScheme,
    order: FileLoopOrder,
) -> [PhaseSpec; 3] {
    let has_data = shape.max_bytes > 0;
    let piece_bytes = shape.file_chunk_bytes;
    let mut create = vec![FileOp::Create];
    let mut stat = vec![FileOp::Stat];
    if has_data {
        create.push(FileOp::WriteWhole { piece_bytes });
        stat.extend([
            FileOp::Open,
            FileOp::ReadWhole { piece_bytes },
            FileOp::Close,
        ]);
    }
    if shape.sync {
        create.push(FileOp::Fsync);
    }
    create.push(FileOp::Close);
    let file_loop = |name: &str, ops: Vec<FileOp>, order, made_earlier, sync_at_end| {
        let name = format!("{prefix}_{name}");
        let set = FileSet {
            prealloc: if made_earlier { 1.0 } else { 0.0 },
            tree: match shape.directories {
                1 => FileTreeLayout::Flat,
                count => FileTreeLayout::Even(count),
            },
            names,
            made_earlier,
            ..FileSet::flat(
                &format!("bonnie-{prefix}"),
                shape.files(),
                mean(shape),
                sizes(shape),
            )
        };
        let ops = ops.into_iter().map(FileLoopOp::from).collect();
        let files = FileLoop {
            over: FileLoopSelection::Each(order),
            sync_at_end,
            ..looped(&name, vec![set], vec![threads_that("bonnie", 1, ops)])
        };
        file_phase(&name, files)
    };
    [
        file_loop("create", create, FileLoopOrder::Numbered, false, true),
        file_loop("stat", stat, order, true, false),
        file_loop("del", vec![FileOp::Delete], order, true, true),
    ]
}

fn mean(shape: &BonnieOptions) -> u64 {
    u64::midpoint(shape.min_bytes, shape.max_bytes)
}

fn sizes(shape: &BonnieOptions) -> FileSizeDistribution {
    if shape.min_bytes == shape.max_bytes {
        FileSizeDistribution::Constant
    } else {
        FileSizeDistribution::UniformFrom(shape.min_bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::{built, file_loop, groups, names};

    use super::*;

    const LARGE: [&str; 6] = ["putc", "put_block", "rewrite", "getc", "get_block", "seeks"];
    const SMALL: [&str; 6] = [
        "seq_create",
        "seq_stat",
        "seq_del",
        "ran_create",
        "ran_stat",
        "ran_del",
    ];

    #[test]
    fn each_part_can_be_left_out() {
        for (given, expect) in [
            (&[][..], [LARGE, SMALL].concat()),
            (&[("s", "0")], SMALL.to_vec()),
            (&[("n", "0")], LARGE.to_vec()),
            (
                &[("n", "0"), ("f", "0")],
                vec!["put_block", "rewrite", "get_block", "seeks"],
            ),
        ] {
            assert_eq!(names(&built(NAME, given)), expect, "{given:?}");
        }
    }

    #[test]
    fn the_large_file_is_worked_on_as_the_original_does() {
        let series = built(
            NAME,
            &[("s", "64:4k:100:3"), ("f", "2"), ("D", "on"), ("b", "on")],
        );
        let both = BlockIoFinalOp::Fsync;
        for (phase, turn, bytes, made, work, direct, file_bytes) in [
            (
                "putc",
                BlockIoOpKind::Write,
                1,
                BlockIoFileCreation::During,
                BlockIoStopCondition::Pass,
                false,
                2 << 20,
            ),
            (
                "put_block",
                BlockIoOpKind::Write,
                4096,
                BlockIoFileCreation::During,
                BlockIoStopCondition::Pass,
                true,
                64 << 20,
            ),
            (
                "rewrite",
                BlockIoOpKind::Update,
                4096,
                BlockIoFileCreation::Earlier,
                BlockIoStopCondition::Pass,
                true,
                64 << 20,
            ),
            (
                "getc",
                BlockIoOpKind::Read,
                1,
                BlockIoFileCreation::Earlier,
                BlockIoStopCondition::Each(2 << 20),
                false,
                64 << 20,
            ),
            (
                "get_block",
                BlockIoOpKind::Read,
                4096,
                BlockIoFileCreation::Earlier,
                BlockIoStopCondition::Pass,
                true,
                64 << 20,
            ),
        ] {
            let [group] = groups(&series, phase) else {
                panic!("{phase} has one group");
            };
            assert_eq!(group.mix, [BlockIoMixEntry::of(turn, bytes)], "{phase}");
            assert_eq!((group.workers, group.depth), (1, 1), "{phase}");
            assert_eq!((group.extent.made, group.work), (made, work), "{phase}");
            assert_eq!(
                (group.direct, group.extent.bytes),
                (direct, file_bytes),
                "{phase}"
            );
            assert_eq!(group.offsets, OffsetPattern::Sequential, "{phase}");
            assert_eq!(group.finish, [both, BlockIoFinalOp::Close], "{phase}");
            assert_eq!(group.syncs.every, 0, "{phase}");
        }
    }

    #[test]
    fn seekers_share_their_seeks_and_update_every_tenth() {
        let series = built(NAME, &[("s", "64:4k:100:3"), ("b", "on")]);
        let [seekers] = groups(&series, "seeks") else {
            panic!("seeks has one group");
        };
        assert_eq!(
            (seekers.workers, seekers.work),
            (3, BlockIoStopCondition::Together(100))
        );
        assert_eq!(
            (seekers.offsets.clone(), seekers.syncs.every),
            (OffsetPattern::Uniform, 1)
        );
        let weights: Vec<_> = seekers.mix.iter().map(|t| (t.kind, t.weight)).collect();
        assert_eq!(
            weights,
            [(BlockIoOpKind::Read, 9.0), (BlockIoOpKind::Update, 1.0)]
        );
        assert_eq!(series.data_set_bytes(), 64 << 20);
    }

    #[test]
    fn small_files_are_made_looked_at_and_removed_in_their_orders() {
        use FileOp::{Close, Create, Delete, Fsync, Open, ReadWhole, Stat, WriteWhole};
        let piece_bytes = 256;
        let (write, read) = (WriteWhole { piece_bytes }, ReadWhole { piece_bytes });
        let data = [("n", "2:1000:10:4:256"), ("b", "on")];
        for (given, phase, ops, order, sync_at_end) in [
            (
                &[][..],
                "seq_create",
                vec![Create, Close],
                FileLoopOrder::Numbered,
                true,
            ),
            (&[], "seq_stat", vec![Stat], FileLoopOrder::Listed, false),
            (&[], "seq_del", vec![Delete], FileLoopOrder::Listed, true),
            (
                &[],
                "ran_create",
                vec![Create, Close],
                FileLoopOrder::Numbered,
                true,
            ),
            (&[], "ran_stat", vec![Stat], FileLoopOrder::Shuffled, false),
            (&[], "ran_del", vec![Delete], FileLoopOrder::Shuffled, true),
            (
                &data,
                "seq_create",
                vec![Create, write, Fsync, Close],
                FileLoopOrder::Numbered,
                true,
            ),
            (
                &data,
                "ran_stat",
                vec![Stat, Open, read, Close],
                FileLoopOrder::Shuffled,
                false,
            ),
        ] {
            let series = built(NAME, given);
            let files = file_loop(&series, phase);
            let own: Vec<FileOp> = files.groups[0].ops.iter().map(|op| op.op).collect();
            assert_eq!(own, ops, "{phase}");
            assert_eq!(files.over, FileLoopSelection::Each(order), "{phase}");
            assert_eq!(files.sync_at_end, sync_at_end, "{phase}");
            let set = &files.sets[0];
            let sequential = phase.starts_with("seq");
            assert_eq!(
                set.names == FileNameScheme::NumberFirst,
                sequential,
                "{phase}"
            );
            assert_eq!(set.made_earlier, !phase.ends_with("create"), "{phase}");
            let (entries, tree, sizes, mean) = match given {
                [] => (
                    16 * 1024,
                    FileTreeLayout::Flat,
                    FileSizeDistribution::Constant,
                    0,
                ),
                _ => (
                    2048,
                    FileTreeLayout::Even(4),
                    FileSizeDistribution::UniformFrom(10),
                    505,
                ),
            };
            assert_eq!((set.entries, set.tree), (entries, tree), "{phase}");
            assert_eq!((set.sizes, set.mean_bytes), (sizes, mean), "{phase}");
        }
    }
}
