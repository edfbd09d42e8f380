// SPDX-License-Identifier: Apache-2.0
//! The phases of bonnie++, in its order.

use plimsoll_core::comparison::Metric;
use plimsoll_core::offsets::Offsets;
use plimsoll_core::syncs::Syncs;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{Extent, Finish, Group, Made, Region, Turn, TurnKind, Work};
use plimsoll_core::workload::files::{
    FileLoop, FileOp, FileSet, LoopGroup, LoopOp, Names, Order, Over, Sizes, Tree, WithoutFile,
};
use plimsoll_core::workload::series::Phase;

use super::{MIB, NAME, Shape};
use crate::parts::{block_phase, file_phase, series};
use plimsoll_core::settings::Settings;

/// One in so many seeks changes the chunk and writes it back.
const UPDATE_EVERY: f64 = 10.0;

pub(super) fn build(shape: &Shape, settings: &Settings) -> Workload {
    let mut phases = Vec::new();
    if shape.size_mib > 0 {
        phases.extend(large_file(shape));
    }
    if shape.number > 0 {
        phases.extend(small_files(shape, "seq", Names::NumberFirst, Order::Listed));
        phases.extend(small_files(
            shape,
            "ran",
            Names::NumberLast,
            Order::Shuffled,
        ));
    }
    series(NAME, settings, phases)
}

fn large_file(shape: &Shape) -> Vec<Phase> {
    let bytes = shape.byte_mib * MIB;
    let putc = Group {
        extent: extent(bytes, Made::During),
        mix: vec![Turn::of(TurnKind::Write, 1)],
        direct: false,
        ..sequential(shape)
    };
    let put_block = Group {
        extent: extent(shape.size_mib * MIB, Made::During),
        mix: vec![Turn::of(TurnKind::Write, shape.chunk_bytes)],
        ..sequential(shape)
    };
    let of_chunks = |kind| Group {
        mix: vec![Turn::of(kind, shape.chunk_bytes)],
        ..sequential(shape)
    };
    let getc = Group {
        mix: vec![Turn::of(TurnKind::Read, 1)],
        work: Work::Each(bytes),
        direct: false,
        ..sequential(shape)
    };
    let phases = [
        ("putc", putc),
        ("put_block", put_block),
        ("rewrite", of_chunks(TurnKind::Update)),
        ("getc", getc),
        ("get_block", of_chunks(TurnKind::Read)),
        ("seeks", seeks(shape)),
    ];
    let wanted = |name: &str| shape.byte_mib > 0 || !matches!(name, "putc" | "getc");
    let phases = phases.into_iter().filter(|(name, _)| wanted(name));
    let phases = phases.map(|(name, group)| block_phase(name, vec![group]));
    phases.map(counted).collect()
}

/// Seeks are counted, everything else is measured in bytes.
fn counted(mut phase: Phase) -> Phase {
    if phase.name == "seeks" {
        phase.metric = Metric::OpsPerSecond;
    }
    phase
}

/// One worker that goes once through the file of an earlier phase.
fn sequential(shape: &Shape) -> Group {
    Group {
        name: "bonnie".into(),
        extent: extent(shape.size_mib * MIB, Made::Earlier),
        offsets: Offsets::Sequential,
        finish: vec![Finish::Fsync, Finish::Close],
        direct: shape.direct,
        work: Work::Pass,
        ..Group::default()
    }
}

fn extent(bytes: u64, made: Made) -> Extent {
    Extent {
        file: "bonnie".into(),
        shared: true,
        bytes,
        region: Region::Whole,
        made,
    }
}

fn seeks(shape: &Shape) -> Group {
    let turn = |kind, weight| Turn {
        weight,
        ..Turn::of(kind, shape.chunk_bytes)
    };
    Group {
        name: "seekers".into(),
        workers: shape.seekers,
        mix: vec![
            turn(TurnKind::Read, UPDATE_EVERY - 1.0),
            turn(TurnKind::Update, 1.0),
        ],
        offsets: Offsets::Uniform,
        work: Work::Together(shape.seeks),
        syncs: Syncs {
            every: u32::from(shape.sync),
            ..Syncs::default()
        },
        ..sequential(shape)
    }
}

fn small_files(shape: &Shape, prefix: &str, names: Names, order: Order) -> [Phase; 3] {
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
                1 => Tree::Flat,
                count => Tree::Even(count),
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
        let group = LoopGroup {
            name: "bonnie".into(),
            threads: 1,
            ops: ops.into_iter().map(LoopOp::from).collect(),
            direct: false,
            sync: false,
        };
        let files = FileLoop {
            name: name.clone(),
            sets: vec![set],
            groups: vec![group],
            over: Over::Each(order),
            events_per_s: None,
            sync_at_end,
            without_file: WithoutFile::Fail,
        };
        file_phase(&name, files)
    };
    [
        file_loop("create", create, Order::Numbered, false, true),
        file_loop("stat", stat, order, true, false),
        file_loop("del", vec![FileOp::Delete], order, true, true),
    ]
}

fn mean(shape: &Shape) -> u64 {
    u64::midpoint(shape.min_bytes, shape.max_bytes)
}

fn sizes(shape: &Shape) -> Sizes {
    if shape.min_bytes == shape.max_bytes {
        Sizes::Constant
    } else {
        Sizes::UniformFrom(shape.min_bytes)
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
        let both = Finish::Fsync;
        for (phase, turn, bytes, made, work, direct, file_bytes) in [
            (
                "putc",
                TurnKind::Write,
                1,
                Made::During,
                Work::Pass,
                false,
                2 << 20,
            ),
            (
                "put_block",
                TurnKind::Write,
                4096,
                Made::During,
                Work::Pass,
                true,
                64 << 20,
            ),
            (
                "rewrite",
                TurnKind::Update,
                4096,
                Made::Earlier,
                Work::Pass,
                true,
                64 << 20,
            ),
            (
                "getc",
                TurnKind::Read,
                1,
                Made::Earlier,
                Work::Each(2 << 20),
                false,
                64 << 20,
            ),
            (
                "get_block",
                TurnKind::Read,
                4096,
                Made::Earlier,
                Work::Pass,
                true,
                64 << 20,
            ),
        ] {
            let [group] = groups(&series, phase) else {
                panic!("{phase} has one group");
            };
            assert_eq!(group.mix, [Turn::of(turn, bytes)], "{phase}");
            assert_eq!((group.workers, group.depth), (1, 1), "{phase}");
            assert_eq!((group.extent.made, group.work), (made, work), "{phase}");
            assert_eq!(
                (group.direct, group.extent.bytes),
                (direct, file_bytes),
                "{phase}"
            );
            assert_eq!(group.offsets, Offsets::Sequential, "{phase}");
            assert_eq!(group.finish, [both, Finish::Close], "{phase}");
            assert_eq!(group.syncs.every, 0, "{phase}");
        }
    }

    #[test]
    fn seekers_share_their_seeks_and_update_every_tenth() {
        let series = built(NAME, &[("s", "64:4k:100:3"), ("b", "on")]);
        let [seekers] = groups(&series, "seeks") else {
            panic!("seeks has one group");
        };
        assert_eq!((seekers.workers, seekers.work), (3, Work::Together(100)));
        assert_eq!(
            (seekers.offsets.clone(), seekers.syncs.every),
            (Offsets::Uniform, 1)
        );
        let weights: Vec<_> = seekers.mix.iter().map(|t| (t.kind, t.weight)).collect();
        assert_eq!(weights, [(TurnKind::Read, 9.0), (TurnKind::Update, 1.0)]);
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
                Order::Numbered,
                true,
            ),
            (&[], "seq_stat", vec![Stat], Order::Listed, false),
            (&[], "seq_del", vec![Delete], Order::Listed, true),
            (
                &[],
                "ran_create",
                vec![Create, Close],
                Order::Numbered,
                true,
            ),
            (&[], "ran_stat", vec![Stat], Order::Shuffled, false),
            (&[], "ran_del", vec![Delete], Order::Shuffled, true),
            (
                &data,
                "seq_create",
                vec![Create, write, Fsync, Close],
                Order::Numbered,
                true,
            ),
            (
                &data,
                "ran_stat",
                vec![Stat, Open, read, Close],
                Order::Shuffled,
                false,
            ),
        ] {
            let series = built(NAME, given);
            let files = file_loop(&series, phase);
            let own: Vec<FileOp> = files.groups[0].ops.iter().map(|op| op.op).collect();
            assert_eq!(own, ops, "{phase}");
            assert_eq!(files.over, Over::Each(order), "{phase}");
            assert_eq!(files.sync_at_end, sync_at_end, "{phase}");
            let set = &files.sets[0];
            let sequential = phase.starts_with("seq");
            assert_eq!(set.names == Names::NumberFirst, sequential, "{phase}");
            assert_eq!(set.made_earlier, !phase.ends_with("create"), "{phase}");
            let (entries, tree, sizes, mean) = match given {
                [] => (16 * 1024, Tree::Flat, Sizes::Constant, 0),
                _ => (2048, Tree::Even(4), Sizes::UniformFrom(10), 505),
            };
            assert_eq!((set.entries, set.tree), (entries, tree), "{phase}");
            assert_eq!((set.sizes, set.mean_bytes), (sizes, mean), "{phase}");
        }
    }
}
