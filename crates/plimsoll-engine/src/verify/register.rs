// SPDX-License-Identifier: Apache-2.0
//! The known state of every block of a target while workers write to it, all at the same time.
//!
//! The rule, which never blames a target wrongly: versions grow in the order in which writes begin.
//! A write that ended well, and met no other write of its block on the way, sets the oldest version
//! that may be found there from then on. When writes of one block overlapped, or one failed, any
//! of them may be there, also in part; what may be found is then anything from the version before
//! them. Blocks not written in this run may hold anything but data of this run that belongs
//! elsewhere.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_core::data_check::BadBlocks;
use plimsoll_core::num::to_usize;
use plimsoll_core::rng::Seed;

use super::stamp::{
    DataCheckSectorState, DataCheckStamp, DataCheckStampOrigin, SECTOR_BYTES, read_sector,
    stamp_block,
};
use super::{DataFlaw, VerifyFinding, VerifyReport};
use crate::error::EngineError;

/// Most findings that are described; all are counted.
const FINDINGS_MAX: usize = 20;

/// Most blocks: 32 bytes of memory each.
const BLOCKS_MAX: u64 = 1 << 27;

/// The version of what leaves no stamps.
const UNKNOWN: u64 = u64::MAX;

/// The known state of one block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct DataCheckBlock {
    /// Oldest version that may be found; 0: anything.
    floor: u64,
    /// Beginnings and ends of writes, to see whether there were any.
    events: u32,
    /// Those among them that leave no stamps.
    unknowns: u32,
    /// Writes in flight.
    writers: u16,
    /// Whether those met.
    overlap: bool,
    /// Whether one of those leaves no stamps.
    unsure: bool,
    /// Whether more than one version may be there.
    uncertain: bool,
}

/// The register of writes to one target. Shared by all of its workers.
#[derive(Debug)]
pub struct DataCheckRegister {
    run: u64,
    target: u32,
    file: u32,
    block_bytes: u32,
    /// A lock each: a verified run is not a measured one.
    blocks: Vec<Mutex<DataCheckBlock>>,
    versions: AtomicU64,
    written: AtomicU64,
    checked: AtomicU64,
    errors: AtomicU64,
    flawed: Mutex<Flawed>,
}

/// The bad blocks that were found.
#[derive(Debug, Default)]
struct Flawed {
    bad: BadBlocks,
    findings: Vec<VerifyFinding>,
}

/// The known state of a block when a read of it began.
#[derive(Debug, Clone, Copy)]
pub struct DataCheckSnapshot(DataCheckBlock);

/// The versions that may be found in a block.
#[derive(Debug, Clone, Copy)]
struct Expect {
    /// Oldest version; 0: anything.
    floor: u64,
    /// Whether it was written to meanwhile.
    moving: bool,
    /// Whether more than one version may be there.
    uncertain: bool,
}

impl DataCheckRegister {
    /// Of the first `bytes` of a target, in blocks of `block_bytes`: the largest size that divides
    /// all sizes and offsets of the workload. `run` is new for each run, or data of an earlier one
    /// could pass for those of this one; `target` is the number of the file or device in it.
    ///
    /// # Errors
    /// When blocks are not whole sectors of 512 bytes, or there are too many of them.
    pub fn new(run: Seed, target: u32, bytes: u64, block_bytes: u32) -> Result<Self, EngineError> {
        let run = run.derive("verify run", 0).0;
        Self::of(run, (0, target), bytes, block_bytes)
    }

    /// The same of a file of a target, in a run whose number is known.
    pub fn of(
        run: u64,
        (target, file): (u32, u32),
        bytes: u64,
        block_bytes: u32,
    ) -> Result<Self, EngineError> {
        let whole = block_bytes > 0 && (block_bytes as usize).is_multiple_of(SECTOR_BYTES);
        if !whole {
            return Err(EngineError::Workload(format!(
                "data can be verified in blocks of whole sectors of 512 bytes, not of {block_bytes}"
            )));
        }
        let count = bytes / u64::from(block_bytes);
        if count > BLOCKS_MAX {
            return Err(EngineError::Workload(format!(
                "{count} blocks are too many to verify: use larger blocks or less data"
            )));
        }
        Ok(DataCheckRegister {
            run,
            target,
            file,
            block_bytes,
            blocks: (0..count).map(|_| Mutex::default()).collect(),
            versions: AtomicU64::new(0),
            written: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            flawed: Mutex::default(),
        })
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// The findings so far.
    pub fn report(&self) -> VerifyReport {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let flawed = locked(&self.flawed);
        VerifyReport {
            written: count(&self.written),
            checked: count(&self.checked),
            errors: count(&self.errors),
            bad: flawed.bad,
            findings: flawed.findings.clone(),
            ..VerifyReport::default()
        }
    }

    /// Numbers of the blocks that hold something of this run, with what is known of each.
    pub(super) fn written_blocks(&self) -> impl Iterator<Item = u64> + '_ {
        let written = |(_, block): &(u64, &Mutex<DataCheckBlock>)| locked(block).floor > 0;
        (0..).zip(&self.blocks).filter(written).map(|(n, _)| n)
    }

    /// The blocks of a request, when it is made of whole ones that are watched.
    pub fn blocks_of(&self, offset: u64, len: u32) -> Option<Range<usize>> {
        let size = u64::from(self.block_bytes);
        let whole = offset.is_multiple_of(size) && u64::from(len).is_multiple_of(size);
        let (from, count) = (to_usize(offset / size), to_usize(u64::from(len) / size));
        (whole && count > 0 && from + count <= self.blocks.len()).then_some(from..from + count)
    }

    /// A write of these blocks begins: stamps `bytes` and returns the version.
    pub(super) fn begin_write(&self, blocks: Range<usize>, offset: u64, bytes: &mut [u8]) -> u64 {
        let version = self.begin(blocks);
        self.stamp(offset, version, DataCheckStampOrigin::default(), bytes);
        version
    }

    /// A write of these blocks is about to begin, and will have this version.
    pub fn begin(&self, blocks: Range<usize>) -> u64 {
        self.mark(blocks);
        // Behind the mark: of two writes without overlap the one that began later has the later
        // version.
        self.versions.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Stamps what is written at `offset`.
    pub fn stamp(&self, offset: u64, version: u64, origin: DataCheckStampOrigin, bytes: &mut [u8]) {
        let first = DataCheckStamp {
            run: self.run,
            target: self.target,
            file: self.file,
            offset,
            version,
            origin,
        };
        stamp_block(bytes, first);
    }

    /// Begins an operation that leaves unknown contents in these blocks; returns its version.
    pub(super) fn begin_unknown(&self, blocks: Range<usize>) -> u64 {
        self.mark(blocks.clone());
        for block in &self.blocks[blocks] {
            let mut block = locked(block);
            (block.floor, block.unsure) = (0, true);
            block.unknowns = block.unknowns.wrapping_add(1);
        }
        UNKNOWN
    }

    fn mark(&self, blocks: Range<usize>) {
        for block in &self.blocks[blocks] {
            let mut block = locked(block);
            block.overlap |= block.writers > 0;
            block.writers += 1;
            block.events = block.events.wrapping_add(1);
        }
    }

    /// The operation that began with this version has ended.
    pub fn end_write(&self, blocks: Range<usize>, version: u64, ok: bool) {
        let is_known = ok && version != UNKNOWN;
        let count = blocks.len() as u64;
        for block in &self.blocks[blocks] {
            let mut block = locked(block);
            let is_alone = !block.overlap;
            if is_alone && is_known {
                block.floor = version;
            }
            if version == UNKNOWN {
                block.floor = 0;
                block.unknowns = block.unknowns.wrapping_add(1);
            }
            block.uncertain = !(is_alone && is_known);
            block.events = block.events.wrapping_add(1);
            block.writers -= 1;
            if block.writers == 0 {
                (block.overlap, block.unsure) = (false, false);
            }
        }
        match (ok, version) {
            (false, _) => self.failed(),
            (true, UNKNOWN) => {}
            (true, _) => {
                self.written.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// The blocks that a request touches, whole or in part.
    pub(super) fn touched_by(&self, offset: u64, len: u32) -> Range<usize> {
        let size = u64::from(self.block_bytes);
        let end = offset.saturating_add(u64::from(len)).div_ceil(size);
        let count = self.blocks.len() as u64;
        to_usize((offset / size).min(count))..to_usize(end.min(count))
    }

    /// An operation has failed.
    pub(super) fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// The known state of the blocks when a read of them begins.
    pub fn before(&self, blocks: Range<usize>, known: &mut Vec<DataCheckSnapshot>) {
        known.clear();
        let blocks = self.blocks[blocks].iter();
        known.extend(blocks.map(|block| DataCheckSnapshot(*locked(block))));
    }

    /// Holds what was read against what may be there, and gives the first flaw. `known` is from the
    /// beginning of the read.
    pub fn check(
        &self,
        first: usize,
        known: &[DataCheckSnapshot],
        bytes: &[u8],
    ) -> Option<VerifyFinding> {
        let mut first_fault = None;
        let size = self.block_bytes as usize;
        let pieces = bytes.chunks_exact(size).zip(known).zip(first..);
        for ((piece, DataCheckSnapshot(before)), number) in pieces {
            let offset = number as u64 * u64::from(self.block_bytes);
            let after = *locked(&self.blocks[number]);
            let unsure = before.unsure || after.unsure || before.unknowns != after.unknowns;
            let expect = Expect {
                floor: if unsure { 0 } else { before.floor },
                moving: after.events != before.events || before.writers > 0,
                uncertain: before.uncertain,
            };
            self.checked.fetch_add(1, Ordering::Relaxed);
            if let Some(finding) = self.flaw(offset, expect, piece) {
                self.report_flaw(finding);
                first_fault = first_fault.or(Some(finding));
            }
        }
        first_fault
    }

    pub(super) fn report_flaw(&self, finding: VerifyFinding) {
        let mut flawed = locked(&self.flawed);
        flawed.bad.count(finding.flaw);
        if flawed.findings.len() < FINDINGS_MAX {
            flawed.findings.push(finding);
        }
    }

    /// The first flaw of a block.
    fn flaw(&self, offset: u64, expect: Expect, bytes: &[u8]) -> Option<VerifyFinding> {
        let (mut first, mut some_right) = (None, false);
        for (sector, at) in bytes
            .chunks_exact(SECTOR_BYTES)
            .zip((offset..).step_by(SECTOR_BYTES))
        {
            match self.judge(at, expect, read_sector(sector)) {
                Some(flaw) => first = first.or(Some((at, flaw))),
                None => some_right = true,
            }
        }
        let (offset, flaw) = first?;
        let torn = flaw == DataFlaw::Stale && some_right;
        let flaw = if torn { DataFlaw::Torn } else { flaw };
        Some(VerifyFinding { offset, flaw })
    }

    fn judge(&self, offset: u64, expect: Expect, found: DataCheckSectorState) -> Option<DataFlaw> {
        let floor = expect.floor;
        let stamp = match found {
            DataCheckSectorState::Stamped(stamp) if stamp.run == self.run => stamp,
            // Data from before this run.
            _ if floor == 0 => return None,
            DataCheckSectorState::Stamped(_) | DataCheckSectorState::Empty => {
                return Some(DataFlaw::Stale);
            }
            // Half a sector old, half new: a page that was being written.
            DataCheckSectorState::Garbage if expect.moving => return None,
            DataCheckSectorState::Garbage => return Some(DataFlaw::Wrong),
        };
        if stamp.target != self.target {
            return Some(DataFlaw::Foreign);
        }
        if stamp.offset != offset || stamp.file != self.file {
            let belongs_at = stamp.offset;
            return Some(DataFlaw::Misplaced { belongs_at });
        }
        let is_known = floor > 0 && !expect.moving && !expect.uncertain;
        if stamp.version < floor {
            Some(DataFlaw::Stale)
        } else if is_known && stamp.version != floor {
            Some(DataFlaw::Wrong)
        } else {
            None
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is usable: no code panics while it holds a lock, and its contents are always valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
