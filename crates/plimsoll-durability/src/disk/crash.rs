// SPDX-License-Identifier: Apache-2.0
//! The contents of a disk after a cut: which of the writes that nothing had made durable reached the
//! medium.
//!
//! The model of a volatile cache is the usual promise of disks and no more: what was flushed, or written
//! with FUA, is there; of every other sector any version since may be there, whatever the others have.

use super::SECTOR_BYTES;
use super::log::{DiskLog, DiskLogKind};
use plimsoll_core::durability::DeviceModel;
use plimsoll_core::num::to_usize;
use plimsoll_core::rng::{Rng, Seed};

/// The fate of a write that nothing had made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFate {
    /// It reached the medium.
    Kept,
    /// It did not.
    Dropped,
    /// Some of its sectors did, drawn by this seed.
    Torn(Seed),
}

impl WriteFate {
    /// Whether the sector of this number within the write reached the medium.
    #[must_use]
    pub fn keeps(self, sector: u64) -> bool {
        match self {
            WriteFate::Kept => true,
            WriteFate::Dropped => false,
            WriteFate::Torn(seed) => seed.derive("sector", sector).0.is_multiple_of(2),
        }
    }
}

/// A state of the disk after a cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashState {
    /// Requests that were completed before the cut.
    pub position: usize,
    /// Requests before this one are durable in any case, on all parts of the disk.
    pub durable_until: usize,
    /// The fate of each request from there on, flushes left out of account.
    pub fates: Vec<WriteFate>,
}

/// Ways of losing a cache, one for each state in turn: nothing of it is kept, some writes are, some of each
/// write is, the last writes are. What is hardest to survive comes more often.
const WAYS: u64 = 6;

/// How caches are lost.
#[derive(Debug, Clone, Copy)]
pub struct CacheLoss {
    /// The model of the device.
    pub model: DeviceModel,
    /// The part of the disk that alone loses its cache; all where none.
    pub only: Option<usize>,
    /// Number of the way, counted round.
    pub way: u64,
    /// Root of what is drawn.
    pub seed: Seed,
}

/// The state after a cut at this position whose cache is lost like this.
pub fn crash_state(log: &DiskLog, position: usize, loss: CacheLoss) -> CrashState {
    let of_parts = log.durable_until(position);
    let durable_until = of_parts.iter().copied().min().unwrap_or(0);
    let pending = &log.entries[durable_until..position.min(log.entries.len())];
    let mut rng = Rng::new(loss.seed);
    let half = pending.len() / 2;
    let one = rng.below(pending.len().max(1) as u64);
    let way = loss.way % WAYS;
    let mut fate = |at: usize| {
        let torn = WriteFate::Torn(Seed(rng.next_u64()));
        let drawn = [WriteFate::Kept, WriteFate::Dropped, torn][to_usize(rng.below(3))];
        match way {
            0 => WriteFate::Dropped,
            1 => drawn,
            2 | 4 => torn,
            // The last writes are there, those before them are not.
            3 => [WriteFate::Dropped, WriteFate::Kept][usize::from(at >= half)],
            _ => [WriteFate::Kept, torn][usize::from(at as u64 == one)],
        }
    };
    let of_entry = |(at, entry): (usize, &super::DiskLogEntry)| {
        // Drawn for each, so that one entry more does not change the fates of all others.
        let drawn = fate(at);
        let part = log.part_of(entry);
        let is_flushed = durable_until + at < of_parts[part];
        let is_lost = loss.model == DeviceModel::Volatile
            && loss.only.is_none_or(|only| only == part)
            && !is_flushed
            && !entry.fua
            && entry.kind != DiskLogKind::Flush;
        match is_lost {
            true => drawn,
            false => WriteFate::Kept,
        }
    };
    CrashState {
        position,
        durable_until,
        fates: pending.iter().enumerate().map(of_entry).collect(),
    }
}

/// A sector, or the part of one, that a range of bytes covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct SectorSpan {
    /// Its number within the range.
    pub(super) number: u64,
    /// Its first byte.
    pub(super) begin: u64,
    /// How many bytes.
    pub(super) bytes: u64,
}

/// The sectors of a range of bytes.
pub(super) fn sectors(offset: u64, bytes: u64) -> impl Iterator<Item = SectorSpan> {
    let first = offset / SECTOR_BYTES;
    let last = (offset + bytes).div_ceil(SECTOR_BYTES);
    (first..last).map(move |sector| {
        let begin = (sector * SECTOR_BYTES).max(offset);
        let end = ((sector + 1) * SECTOR_BYTES).min(offset + bytes);
        SectorSpan {
            number: sector - first,
            begin,
            bytes: end - begin,
        }
    })
}
