// SPDX-License-Identifier: Apache-2.0
//! Models and plays for the tests.

use plimsoll_core::model::{
    DirectionLoad, ModelEnvelope, ModelFacts, ModelInterval, ModelProvenance, WorkloadModel,
};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{BlockIoGroup, BlockIoWorkload};
use plimsoll_core::workload::files::{
    FileLoop, FileLoopGroup, FileLoopOp, FileOp, FileSet, FileSizeDistribution,
};

/// An interval of `seconds` seconds, with these numbers of reads and writes of 4 KiB.
pub(crate) fn cell(seconds: u64, reads: u64, writes: u64) -> ModelInterval {
    let load = |ops| DirectionLoad {
        ops,
        bytes: ops * 4096,
    };
    ModelInterval {
        length: Nanos(seconds * Nanos::SECOND.0),
        read: load(reads),
        write: load(writes),
    }
}

/// A model of these cells on a small working set.
pub(crate) fn model(cells: Vec<ModelInterval>) -> WorkloadModel {
    WorkloadModel {
        name: "made up".into(),
        source: ModelProvenance {
            recording: String::new(),
            format: String::new(),
            host: String::new(),
            disk: String::new(),
            from: String::new(),
            to: String::new(),
            intervals_dropped: 0,
            left_out: Vec::new(),
            changes: Vec::new(),
        },
        facts: ModelFacts::assumed(4 << 20),
        bursts: Vec::new(),
        phases: Vec::new(),
        fidelity: Vec::new(),
        verified: None,
        requests: None,
        envelope: ModelEnvelope::new(cells).expect("the cells have a length"),
    }
}

/// Random block I/O, changed.
pub(crate) fn random(
    name: &str,
    read_share: f64,
    change: impl FnOnce(&mut BlockIoGroup),
) -> Workload {
    let mut blocks = BlockIoWorkload::random(name, read_share);
    change(&mut blocks.groups[0]);
    Workload::Blocks(blocks)
}

/// A mail server's loop of thirteen operations, with its set and its threads changed.
pub(crate) fn varmail(change: impl FnOnce(&mut FileSet, &mut FileLoopGroup)) -> FileLoop {
    let append = FileOp::AppendRandom { bytes: 16_384 };
    let piece_bytes = 1 << 20;
    let read = FileOp::ReadWhole { piece_bytes };
    let list = [
        FileOp::Delete,
        FileOp::Create,
        append,
        FileOp::Fsync,
        FileOp::Close,
        FileOp::Open,
        read,
        append,
        FileOp::Fsync,
        FileOp::Close,
        FileOp::Open,
        read,
        FileOp::Close,
    ];
    let set = FileSet {
        prealloc: 0.8,
        ..FileSet::flat(
            "bigfileset",
            1_000,
            16_384,
            FileSizeDistribution::Gamma(1.5),
        )
    };
    let mut files = FileLoop::of("varmail", set, 16, ops(&list));
    change(&mut files.sets[0], &mut files.groups[0]);
    files
}

/// Operations for a loop.
pub(crate) fn ops(list: &[FileOp]) -> Vec<FileLoopOp> {
    list.iter().copied().map(FileLoopOp::from).collect()
}
