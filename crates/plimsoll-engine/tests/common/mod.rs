// SPDX-License-Identifier: Apache-2.0
//! Models and plays for the tests.

use plimsoll_core::model::{Cell, Envelope, Facts, Load, Model, Provenance};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{Blocks, Group};
use plimsoll_core::workload::files::{FileLoop, FileOp, FileSet, LoopGroup, LoopOp, Sizes};

/// A cell of one length with so many reads and writes of 4 KiB.
pub(crate) fn cell(seconds: u64, reads: u64, writes: u64) -> Cell {
    let load = |ops| Load {
        ops,
        bytes: ops * 4096,
    };
    Cell {
        length: Nanos(seconds * Nanos::SECOND.0),
        read: load(reads),
        write: load(writes),
    }
}

/// A model of these cells on a small working set.
pub(crate) fn model(cells: Vec<Cell>) -> Model {
    Model {
        name: "made up".into(),
        source: Provenance {
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
        facts: Facts::assumed(4 << 20),
        bursts: Vec::new(),
        phases: Vec::new(),
        fidelity: Vec::new(),
        verified: None,
        requests: None,
        parametric: None,
        envelope: Envelope::new(cells).expect("the cells have a length"),
    }
}

/// Random block I/O, changed.
pub(crate) fn random(name: &str, read_share: f64, change: impl FnOnce(&mut Group)) -> Workload {
    let mut blocks = Blocks::random(name, read_share);
    change(&mut blocks.groups[0]);
    Workload::Blocks(blocks)
}

/// A mail server's loop of thirteen operations, with its set and its threads changed.
pub(crate) fn varmail(change: impl FnOnce(&mut FileSet, &mut LoopGroup)) -> FileLoop {
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
        ..FileSet::flat("bigfileset", 1_000, 16_384, Sizes::Gamma(1.5))
    };
    let mut files = FileLoop::of("varmail", set, 16, ops(&list));
    change(&mut files.sets[0], &mut files.groups[0]);
    files
}

/// Operations for a loop.
pub(crate) fn ops(list: &[FileOp]) -> Vec<LoopOp> {
    list.iter().copied().map(LoopOp::from).collect()
}
