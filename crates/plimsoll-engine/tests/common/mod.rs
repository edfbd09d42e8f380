// SPDX-License-Identifier: Apache-2.0
//! Models and plays for the tests.

use plimsoll_core::model::{Assumed, Cell, Envelope, Load, Model, Offsets, Provenance};
use plimsoll_core::units::Nanos;

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
        },
        assumed: Assumed {
            working_set_bytes: 4 << 20,
            offsets: Offsets::Uniform,
        },
        bursts: Vec::new(),
        fidelity: Vec::new(),
        envelope: Envelope::new(cells).expect("the cells have a length"),
    }
}
