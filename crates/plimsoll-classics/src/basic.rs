// SPDX-License-Identifier: Apache-2.0
//! Plain block I/O by name: random and sequential reads and writes.

use plimsoll_core::offsets::Offsets;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{Blocks, Extent, Group, Turn, TurnKind};

use crate::error::Error;
use crate::known::Known;
use crate::parts::setting;
use plimsoll_core::settings::{Setting, Settings, Unit};

/// Deepest queue of one worker.
const DEPTH_MAX: u32 = 4096;
/// Most workers.
const WORKERS_MAX: u32 = 4096;
/// Largest block.
const BLOCK_MAX: u64 = 256 << 20;

const SETTINGS: &[Setting] = &[
    setting("bs", Unit::Size(1), "4KiB", "bytes per operation"),
    setting(
        "depth",
        Unit::Count,
        "32",
        "operations in flight per worker",
    ),
    setting("workers", Unit::Count, "1", "workers, each a thread"),
    setting(
        "size",
        Unit::Size(1),
        "1GiB",
        "size of the file, which all workers share",
    ),
    setting("direct", Unit::Flag, "on", "bypass the page cache"),
];

pub(crate) const KNOWN: &[Known] = &[
    Known {
        name: "randread",
        about: "reads of one size at random offsets of one file",
        settings: SETTINGS,
        build: |settings| build("randread", TurnKind::Read, Offsets::Uniform, settings),
    },
    Known {
        name: "randwrite",
        about: "writes of one size at random offsets of one file",
        settings: SETTINGS,
        build: |settings| build("randwrite", TurnKind::Write, Offsets::Uniform, settings),
    },
    Known {
        name: "seqread",
        about: "reads of one size from start to end of one file",
        settings: SETTINGS,
        build: |settings| build("seqread", TurnKind::Read, Offsets::Sequential, settings),
    },
    Known {
        name: "seqwrite",
        about: "writes of one size from start to end of one file",
        settings: SETTINGS,
        build: |settings| build("seqwrite", TurnKind::Write, Offsets::Sequential, settings),
    },
];

fn build(
    name: &str,
    kind: TurnKind,
    offsets: Offsets,
    settings: &Settings,
) -> Result<Workload, Error> {
    let bytes = settings.bytes_within("bs", 1, BLOCK_MAX)?;
    let group = Group {
        workers: settings.count_within("workers", 1, WORKERS_MAX)?,
        depth: settings.count_within("depth", 1, DEPTH_MAX)?,
        extent: Extent {
            bytes: settings.bytes_within("size", bytes, 1 << 62)?,
            ..Extent::default()
        },
        mix: vec![Turn::of(kind, plimsoll_core::num::saturating_u32(bytes))],
        offsets,
        direct: settings.flag("direct"),
        ..Group::default()
    };
    Ok(Workload::Blocks(Blocks {
        name: name.into(),
        groups: vec![group],
    }))
}
