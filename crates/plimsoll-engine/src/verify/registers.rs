// SPDX-License-Identifier: Apache-2.0
//! Verification of a whole run: one register for each file, kept by all workers of that file, and the
//! read-back when they have ended.
//!
//! Data that the run is not asked to verify cost it nothing: their sources are not wrapped at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_core::num::saturating_u32;
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::op::OpKind;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoContent, BlockIoGroup, BlockIoPacing, BlockIoWorkload,
};
use plimsoll_core::workload::series::PhaseWorkload;

use super::DataCheckRegister;
use super::stamp::SECTOR_BYTES;
use crate::error::EngineError;
use crate::ground::OpenTarget;
use crate::memory;
use crate::outcome::RunOptions;
use plimsoll_core::data_check::DataCheck;

/// Says whether what `workload` writes can be verified.
///
/// # Errors
/// When it is not of blocks, writes nothing, or what it writes must not be stamped.
pub fn can_check_data(workload: &Workload) -> Result<(), EngineError> {
    let refuse = |why: String| {
        let name = workload.name();
        let text = format!("'{name}': its data cannot be verified: {why}");
        Err(EngineError::Workload(text))
    };
    let what = match workload {
        Workload::Blocks(blocks) => {
            return match fault_of(blocks) {
                Some(why) => refuse(why),
                None if !blocks.groups.iter().any(writes) => refuse("it writes nothing".into()),
                None => Ok(()),
            };
        }
        Workload::Series(series) => {
            let mut any_writes = false;
            for phase in &series.phases {
                let why = match &phase.body {
                    PhaseWorkload::Blocks(blocks) => {
                        any_writes |= blocks.groups.iter().any(writes);
                        fault_of(blocks)
                    }
                    PhaseWorkload::Files(_) => Some("file operations are not stamped".into()),
                };
                if let Some(why) = why {
                    return refuse(format!("phase '{}': {why}", phase.name));
                }
            }
            if any_writes {
                return Ok(());
            }
            "it writes nothing"
        }
        Workload::Files(_) => "file operations are not stamped, only block I/O is",
        Workload::Model(_) => "models are not stamped, only block I/O is",
        Workload::Commands(_) => "programs write their own contents",
    };
    refuse(what.into())
}

/// Why what `blocks` writes cannot be verified.
fn fault_of(blocks: &BlockIoWorkload) -> Option<String> {
    blocks.groups.iter().find_map(|group| {
        let name = &group.name;
        let sector = SECTOR_BYTES as u64;
        if writes(group) && group.content != BlockIoContent::default() {
            return Some(format!(
                "group '{name}' asks for contents (date, compressible, duplicate) that a stamp in \
                 every sector would replace"
            ));
        }
        if kinds(group).any(|kind| kind == OpKind::Append) {
            return Some(format!(
                "group '{name}' appends, and where appended data go is not known"
            ));
        }
        let bytes = grain_bytes(group);
        (!bytes.is_multiple_of(sector)).then(|| {
            format!(
                "group '{name}' has blocks or offsets that are not a multiple of {sector} bytes"
            )
        })
    })
}

fn traced(group: &BlockIoGroup) -> &[plimsoll_core::op::TraceAccess] {
    match &group.pace {
        BlockIoPacing::Open(ArrivalProcess::Trace(traced)) => traced,
        _ => &[],
    }
}

fn kinds(group: &BlockIoGroup) -> impl Iterator<Item = OpKind> + '_ {
    let mix = group.mix.iter().flat_map(|turn| turn.kind.operations());
    mix.copied().chain(traced(group).iter().map(|op| op.kind))
}

fn writes(group: &BlockIoGroup) -> bool {
    kinds(group).any(|kind| kind == OpKind::Write)
}

/// The largest size that divides all sizes and offsets of the group; 0: it has none.
fn grain_bytes(group: &BlockIoGroup) -> u64 {
    let mix = group.mix.iter().map(|turn| u64::from(turn.bytes));
    let traced = traced(group).iter();
    let traced = traced.flat_map(|op| [op.offset, u64::from(op.bytes)]);
    let stride = match group.offsets {
        OffsetPattern::Strided { stride_bytes } => stride_bytes,
        _ => 0,
    };
    mix.chain(traced).fold(stride, common_divisor)
}

/// The largest number that divides both (Euclid); 0 is divided by all.
fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The registers of a run of one block workload.
#[derive(Debug)]
pub(crate) struct DataCheckRegisterSet {
    pub(crate) by_path: BTreeMap<PathBuf, Arc<DataCheckRegister>>,
    check_reads: bool,
}

impl DataCheckRegisterSet {
    /// One for each file that `blocks` works on.
    pub(crate) fn new(
        ground: &OpenTarget,
        blocks: &BlockIoWorkload,
        options: &RunOptions,
    ) -> Result<Self, EngineError> {
        let mut grains: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for group in &blocks.groups {
            for path in (0..group.workers).filter_map(|worker| ground.file_of(group, worker)) {
                let grain = grains.entry(path).or_default();
                *grain = common_divisor(*grain, grain_bytes(group));
            }
        }
        let device_bytes = ground.device().map_or(u64::MAX, |device| device.bytes);
        let mut needs = Vec::new();
        for (path, file) in ground.files_of(blocks) {
            let grain = grains.get(&path).copied().unwrap_or_default();
            needs.push((path, file.bytes.min(device_bytes), saturating_u32(grain)));
        }
        let count = needs
            .iter()
            .map(|(_, bytes, grain)| bytes / u64::from((*grain).max(1)));
        memory::check_registers(&blocks.name, count.fold(0, u64::saturating_add))?;
        let mut by_path = BTreeMap::new();
        for (number, (path, bytes, grain)) in (0..).zip(needs) {
            let register = DataCheckRegister::new(options.stamp_seed, number, bytes, grain)?;
            by_path.insert(path, Arc::new(register));
        }
        Ok(DataCheckRegisterSet {
            by_path,
            check_reads: options.data_check == DataCheck::Always,
        })
    }

    /// The register of a file, and whether reads are held against it.
    pub(crate) fn of(&self, path: &Path) -> Option<(Arc<DataCheckRegister>, bool)> {
        let register = self.by_path.get(path)?;
        Some((Arc::clone(register), self.check_reads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::op::TraceAccess;
    use plimsoll_core::units::Nanos;
    use plimsoll_core::workload::blocks::{BlockIoMixEntry, BlockIoOpKind};

    fn group(turns: &[(BlockIoOpKind, u32)]) -> BlockIoGroup {
        BlockIoGroup {
            mix: turns
                .iter()
                .map(|(k, b)| BlockIoMixEntry::of(*k, *b))
                .collect(),
            ..BlockIoGroup::default()
        }
    }

    #[test]
    fn blocks_are_as_large_as_all_sizes_and_offsets_allow() {
        let traced = |offset, bytes| TraceAccess {
            at: Nanos(0),
            kind: OpKind::Write,
            offset,
            bytes,
        };
        let with = |offsets| BlockIoGroup {
            offsets,
            ..group(&[(BlockIoOpKind::Write, 8192)])
        };
        let trace = BlockIoGroup {
            pace: BlockIoPacing::Open(ArrivalProcess::Trace(vec![
                traced(1 << 20, 8192),
                traced(12_288, 4096),
            ])),
            mix: Vec::new(),
            ..BlockIoGroup::default()
        };
        for (group, expect) in [
            (group(&[(BlockIoOpKind::Write, 4096)]), 4096),
            (
                group(&[
                    (BlockIoOpKind::Write, 65_536),
                    (BlockIoOpKind::Read, 12_288),
                ]),
                4096,
            ),
            (
                group(&[(BlockIoOpKind::Update, 700), (BlockIoOpKind::Read, 512)]),
                4,
            ),
            (
                with(OffsetPattern::Strided {
                    stride_bytes: 10_240,
                }),
                2048,
            ),
            (with(OffsetPattern::Uniform), 8192),
            (trace, 4096),
        ] {
            assert_eq!(grain_bytes(&group), expect, "{group:?}");
        }
    }

    #[test]
    fn what_cannot_be_verified_is_refused_with_its_reason() {
        let write = || group(&[(BlockIoOpKind::Write, 4096)]);
        let content = BlockIoContent {
            date: true,
            ..BlockIoContent::default()
        };
        let dated = BlockIoGroup { content, ..write() };
        for (group, expect) in [
            (write(), None),
            (group(&[(BlockIoOpKind::Update, 512)]), None),
            (
                group(&[(BlockIoOpKind::Read, 4096)]),
                Some("writes nothing"),
            ),
            (group(&[(BlockIoOpKind::Append, 4096)]), Some("appends")),
            (
                group(&[(BlockIoOpKind::Write, 700)]),
                Some("multiple of 512"),
            ),
            (dated, Some("contents (date")),
        ] {
            let blocks = BlockIoWorkload {
                name: "w".into(),
                groups: vec![group],
            };
            let refused = can_check_data(&Workload::Blocks(blocks)).err();
            match (refused, expect) {
                (None, None) => {}
                (Some(error), Some(words)) => {
                    assert!(error.to_string().contains(words), "{error}");
                }
                (other, expect) => panic!("{other:?} {expect:?}"),
            }
        }
    }
}
