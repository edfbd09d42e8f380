// SPDX-License-Identifier: Apache-2.0
//! Plain block I/O by name: random and sequential reads and writes.

use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    BlockIoExtent, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind, BlockIoWorkload,
};

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::setting;
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Deepest queue of one worker.
const DEPTH_MAX: u32 = 4096;
/// Most workers.
const WORKERS_MAX: u32 = 4096;
/// Largest block.
const BLOCK_MAX: u64 = 256 << 20;

const SETTINGS: &[SettingDefinition] = &[
    setting("bs", SettingUnit::Size(1), "4KiB", "bytes per operation"),
    setting(
        "depth",
        SettingUnit::Count,
        "32",
        "operations in flight per worker",
    ),
    setting("workers", SettingUnit::Count, "1", "workers, each a thread"),
    setting(
        "size",
        SettingUnit::Size(1),
        "1GiB",
        "size of the file, which all workers share",
    ),
    setting("direct", SettingUnit::Flag, "on", "bypass the page cache"),
];

pub(crate) const KNOWN: &[WorkloadDefinition] = &[
    WorkloadDefinition {
        name: "randread",
        about: "reads of one size at random offsets of one file",
        settings: SETTINGS,
        build: |settings| {
            build(
                "randread",
                BlockIoOpKind::Read,
                OffsetPattern::Uniform,
                settings,
            )
        },
    },
    WorkloadDefinition {
        name: "randwrite",
        about: "writes of one size at random offsets of one file",
        settings: SETTINGS,
        build: |settings| {
            build(
                "randwrite",
                BlockIoOpKind::Write,
                OffsetPattern::Uniform,
                settings,
            )
        },
    },
    WorkloadDefinition {
        name: "seqread",
        about: "reads of one size from start to end of one file",
        settings: SETTINGS,
        build: |settings| {
            build(
                "seqread",
                BlockIoOpKind::Read,
                OffsetPattern::Sequential,
                settings,
            )
        },
    },
    WorkloadDefinition {
        name: "seqwrite",
        about: "writes of one size from start to end of one file",
        settings: SETTINGS,
        build: |settings| {
            build(
                "seqwrite",
                BlockIoOpKind::Write,
                OffsetPattern::Sequential,
                settings,
            )
        },
    },
];

fn build(
    name: &str,
    kind: BlockIoOpKind,
    offsets: OffsetPattern,
    settings: &SettingValues,
) -> Result<Workload, ClassicsError> {
    let bytes = settings.bytes_within("bs", 1, BLOCK_MAX)?;
    let group = BlockIoGroup {
        workers: settings.count_within("workers", 1, WORKERS_MAX)?,
        depth: settings.count_within("depth", 1, DEPTH_MAX)?,
        extent: BlockIoExtent {
            bytes: settings.bytes_within("size", bytes, 1 << 62)?,
            ..BlockIoExtent::default()
        },
        mix: vec![BlockIoMixEntry::of(
            kind,
            plimsoll_core::num::saturating_u32(bytes),
        )],
        offsets,
        direct: settings.flag("direct"),
        ..BlockIoGroup::default()
    };
    Ok(Workload::Blocks(BlockIoWorkload {
        name: name.into(),
        groups: vec![group],
    }))
}
