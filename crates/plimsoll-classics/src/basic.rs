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

const READS: SettingDefinition = setting(
    "reads",
    SettingUnit::Count,
    "70",
    "share of reads, in per cent; the rest are writes",
);

/// The settings of all, and the share of reads.
const MIXED_SETTINGS: &[SettingDefinition] = &[
    SETTINGS[0],
    SETTINGS[1],
    SETTINGS[2],
    SETTINGS[3],
    SETTINGS[4],
    READS,
];

pub(crate) const KNOWN: &[WorkloadDefinition] = &[
    WorkloadDefinition {
        name: "randread",
        about: "reads of one size at random offsets of one file",
        settings: SETTINGS,
        build: |settings| build("randread", 100, OffsetPattern::Uniform, settings),
    },
    WorkloadDefinition {
        name: "randwrite",
        about: "writes of one size at random offsets of one file",
        settings: SETTINGS,
        build: |settings| build("randwrite", 0, OffsetPattern::Uniform, settings),
    },
    WorkloadDefinition {
        name: "randrw",
        about: "reads and writes of one size at random offsets of one file",
        settings: MIXED_SETTINGS,
        build: |settings| {
            let reads = settings.count_within("reads", 1, 99)?;
            build("randrw", reads, OffsetPattern::Uniform, settings)
        },
    },
    WorkloadDefinition {
        name: "seqread",
        about: "reads of one size from start to end of one file",
        settings: SETTINGS,
        build: |settings| build("seqread", 100, OffsetPattern::Sequential, settings),
    },
    WorkloadDefinition {
        name: "seqwrite",
        about: "writes of one size from start to end of one file",
        settings: SETTINGS,
        build: |settings| build("seqwrite", 0, OffsetPattern::Sequential, settings),
    },
];

/// Kinds of operations, of which this many in a hundred are reads.
fn mix(reads: u32, bytes: u32) -> Vec<BlockIoMixEntry> {
    let kinds = [
        (BlockIoOpKind::Read, reads),
        (BlockIoOpKind::Write, 100 - reads),
    ];
    let used = kinds.into_iter().filter(|(_, share)| *share > 0);
    used.map(|(kind, share)| BlockIoMixEntry {
        weight: if share == 100 { 1.0 } else { f64::from(share) },
        ..BlockIoMixEntry::of(kind, bytes)
    })
    .collect()
}

fn build(
    name: &str,
    reads: u32,
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
        mix: mix(reads, plimsoll_core::num::saturating_u32(bytes)),
        offsets,
        direct: settings.flag("direct"),
        ..BlockIoGroup::default()
    };
    Ok(Workload::Blocks(BlockIoWorkload {
        name: name.into(),
        groups: vec![group],
    }))
}
