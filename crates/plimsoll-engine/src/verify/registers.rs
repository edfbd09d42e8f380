// SPDX-License-Identifier: Apache-2.0
//! Verification of a whole run: one register for each file, kept by all workers of that file, and the
//! read-back when they have ended.
//!
//! What the run has not been asked to verify costs it nothing: its sources are not wrapped at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_core::num::saturating_u32;
use plimsoll_core::offsets::Offsets;
use plimsoll_core::op::Kind;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{Arrival, Blocks, Content, Group, Pace};
use plimsoll_core::workload::series::Body as PhaseBody;

use super::Register;
use super::stamp::SECTOR_BYTES;
use crate::choice::DataCheck;
use crate::error::Error;
use crate::ground::Ground;
use crate::memory;
use crate::outcome::RunOptions;

/// Says whether what `workload` writes can be verified.
///
/// # Errors
/// When it is not of blocks, writes nothing, or what it writes must not be stamped.
pub fn can_check_data(workload: &Workload) -> Result<(), Error> {
    let refuse = |why: String| {
        let name = workload.name();
        let text = format!("'{name}': its data cannot be verified: {why}");
        Err(Error::Workload(text))
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
                    PhaseBody::Blocks(blocks) => {
                        any_writes |= blocks.groups.iter().any(writes);
                        fault_of(blocks)
                    }
                    PhaseBody::Files(_) => Some("file operations are not stamped".into()),
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
fn fault_of(blocks: &Blocks) -> Option<String> {
    blocks.groups.iter().find_map(|group| {
        let name = &group.name;
        let sector = SECTOR_BYTES as u64;
        if writes(group) && group.content != Content::default() {
            return Some(format!(
                "group '{name}' asks for contents (date, compressible, duplicate) that a stamp in \
                 every sector would replace"
            ));
        }
        if kinds(group).any(|kind| kind == Kind::Append) {
            return Some(format!(
                "group '{name}' appends, and where appended data go is not known"
            ));
        }
        let bytes = grain_bytes(group);
        (!bytes.is_multiple_of(sector)).then(|| {
            format!("group '{name}' has blocks or offsets that are no multiple of {sector} bytes")
        })
    })
}

fn traced(group: &Group) -> &[plimsoll_core::op::Traced] {
    match &group.pace {
        Pace::Open(Arrival::Trace(traced)) => traced,
        _ => &[],
    }
}

fn kinds(group: &Group) -> impl Iterator<Item = Kind> + '_ {
    let mix = group.mix.iter().flat_map(|turn| turn.kind.operations());
    mix.copied().chain(traced(group).iter().map(|op| op.kind))
}

fn writes(group: &Group) -> bool {
    kinds(group).any(|kind| kind == Kind::Write)
}

/// The largest size that divides all sizes and offsets of the group; 0: it has none.
fn grain_bytes(group: &Group) -> u64 {
    let mix = group.mix.iter().map(|turn| u64::from(turn.bytes));
    let traced = traced(group).iter();
    let traced = traced.flat_map(|op| [op.offset, u64::from(op.bytes)]);
    let stride = match group.offsets {
        Offsets::Strided { stride_bytes } => stride_bytes,
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
pub(crate) struct Registers {
    pub(crate) by_path: BTreeMap<PathBuf, Arc<Register>>,
    check_reads: bool,
}

impl Registers {
    /// One for each file that `blocks` works on.
    pub(crate) fn new(
        ground: &Ground,
        blocks: &Blocks,
        options: &RunOptions,
    ) -> Result<Self, Error> {
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
            let register = Register::new(options.stamp_seed, number, bytes, grain)?;
            by_path.insert(path, Arc::new(register));
        }
        Ok(Registers {
            by_path,
            check_reads: options.data_check == DataCheck::Always,
        })
    }

    /// The register of a file, and whether reads are held against it.
    pub(crate) fn of(&self, path: &Path) -> Option<(Arc<Register>, bool)> {
        let register = self.by_path.get(path)?;
        Some((Arc::clone(register), self.check_reads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::op::Traced;
    use plimsoll_core::units::Nanos;
    use plimsoll_core::workload::blocks::{Turn, TurnKind};

    fn group(turns: &[(TurnKind, u32)]) -> Group {
        Group {
            mix: turns.iter().map(|(k, b)| Turn::of(*k, *b)).collect(),
            ..Group::default()
        }
    }

    #[test]
    fn blocks_are_as_large_as_all_sizes_and_offsets_allow() {
        let traced = |offset, bytes| Traced {
            at: Nanos(0),
            kind: Kind::Write,
            offset,
            bytes,
        };
        let with = |offsets| Group {
            offsets,
            ..group(&[(TurnKind::Write, 8192)])
        };
        let trace = Group {
            pace: Pace::Open(Arrival::Trace(vec![
                traced(1 << 20, 8192),
                traced(12_288, 4096),
            ])),
            mix: Vec::new(),
            ..Group::default()
        };
        for (group, expect) in [
            (group(&[(TurnKind::Write, 4096)]), 4096),
            (
                group(&[(TurnKind::Write, 65_536), (TurnKind::Read, 12_288)]),
                4096,
            ),
            (group(&[(TurnKind::Update, 700), (TurnKind::Read, 512)]), 4),
            (
                with(Offsets::Strided {
                    stride_bytes: 10_240,
                }),
                2048,
            ),
            (with(Offsets::Uniform), 8192),
            (trace, 4096),
        ] {
            assert_eq!(grain_bytes(&group), expect, "{group:?}");
        }
    }

    #[test]
    fn what_cannot_be_verified_is_refused_with_its_reason() {
        let write = || group(&[(TurnKind::Write, 4096)]);
        let content = Content {
            date: true,
            ..Content::default()
        };
        let dated = Group { content, ..write() };
        for (group, expect) in [
            (write(), None),
            (group(&[(TurnKind::Update, 512)]), None),
            (group(&[(TurnKind::Read, 4096)]), Some("writes nothing")),
            (group(&[(TurnKind::Append, 4096)]), Some("appends")),
            (group(&[(TurnKind::Write, 700)]), Some("multiple of 512")),
            (dated, Some("contents (date")),
        ] {
            let blocks = Blocks {
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
