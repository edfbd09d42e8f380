// SPDX-License-Identifier: Apache-2.0
//! Sectors that say what they are: where they belong, which run wrote them, and when.
//!
//! Layout of a sector, little endian, with 8 bytes per field unless noted: magic, run, target and file
//! (4 bytes each), offset, version, writer and epoch (4 bytes each), operation, intended time, seed of the
//! filler, the filler drawn from that seed (all remaining bytes), checksum of all before it (4 bytes).
//!
//! The checksum is a CRC32C, turned and shifted. As it comes out of the calculation it would give every
//! sector the same CRC32C as a whole, and storage that keeps that sum of its blocks, as btrfs and Ceph
//! do, could not distinguish stamped blocks: a stale mirror would pass for a good one.

use crc32c::crc32c;
use plimsoll_core::num::saturating_u32;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

use crate::engine::fill_random;

/// Bytes of a sector: the smallest unit that any storage writes at once.
pub const SECTOR_BYTES: usize = 512;

/// First bytes of every stamped sector: `PLIMSECT`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"PLIMSECT");

/// Where the filler begins.
const FILLER_AT: usize = 72;

/// The checksum of the bytes of a sector before it. Turned and shifted as LevelDB does it ("masked",
/// `util/crc32c.h`), for the same reason.
fn sum_of(body: &[u8]) -> [u8; 4] {
    let sum = crc32c(body).rotate_right(15).wrapping_add(0xa282_ead8);
    sum.to_le_bytes()
}

/// The stamp of a sector: where it belongs, and which write wrote it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataCheckStamp {
    /// The run that wrote it.
    pub run: u64,
    /// The storage system it was written to, by its number in that run.
    pub target: u32,
    /// The file or device there.
    pub file: u32,
    /// Where it belongs, in bytes.
    pub offset: u64,
    /// The write that wrote it; 0 is never used.
    pub version: u64,
    /// Who wrote it, and when.
    pub origin: DataCheckStampOrigin,
}

/// Writer of a sector, and the time of the write; all 0 where no ledger is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataCheckStampOrigin {
    /// The session that wrote it.
    pub writer: u32,
    /// How often that had opened its file or device before.
    pub epoch: u32,
    /// Number of the operation in the session.
    pub op: u64,
    /// Time of day at which it was meant to start, since 1970.
    pub intended_at: Nanos,
}

/// The contents found in a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataCheckSectorState {
    /// Zeros: never written.
    Empty,
    /// A whole stamp.
    Stamped(DataCheckStamp),
    /// Anything else.
    Garbage,
}

/// Stamps every sector of `block`, whose first one is to get `first`.
pub(crate) fn stamp_block(block: &mut [u8], first: DataCheckStamp) {
    let offsets = (first.offset..).step_by(SECTOR_BYTES);
    for (sector, offset) in block.chunks_exact_mut(SECTOR_BYTES).zip(offsets) {
        stamp_sector(sector, DataCheckStamp { offset, ..first });
    }
}

fn stamp_sector(sector: &mut [u8], stamp: DataCheckStamp) {
    let body = SECTOR_BYTES - 4;
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let filler = Seed(stamp.run).derive("filler", stamp.offset ^ stamp.version.rotate_left(40));
    let words = [
        MAGIC,
        stamp.run,
        pair(stamp.target, stamp.file),
        stamp.offset,
        stamp.version,
        pair(stamp.origin.writer, stamp.origin.epoch),
        stamp.origin.op,
        stamp.origin.intended_at.0,
        filler.0,
    ];
    for (place, word) in sector.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    fill_random(&mut sector[FILLER_AT..body], &mut Rng::new(filler));
    let sum = sum_of(&sector[..body]);
    sector[body..].copy_from_slice(&sum);
}

/// Reads a sector.
pub fn read_sector(sector: &[u8]) -> DataCheckSectorState {
    if sector.iter().all(|byte| *byte == 0) {
        return DataCheckSectorState::Empty;
    }
    let (body, sum) = sector.split_at(SECTOR_BYTES - 4);
    let word = |index: usize| {
        let bytes = body[index * 8..][..8].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes are eight bytes"))
    };
    if sum_of(body) != sum || word(0) != MAGIC {
        return DataCheckSectorState::Garbage;
    }
    let (low, high) = (
        |index: usize| saturating_u32(word(index) & u64::from(u32::MAX)),
        |index: usize| saturating_u32(word(index) >> 32),
    );
    DataCheckSectorState::Stamped(DataCheckStamp {
        run: word(1),
        target: low(2),
        file: high(2),
        offset: word(3),
        version: word(4),
        origin: DataCheckStampOrigin {
            writer: low(5),
            epoch: high(5),
            op: word(6),
            intended_at: Nanos(word(7)),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_sector_says_what_was_stamped_and_any_flipped_bit_shows() {
        let mut block = vec![0; 2 * SECTOR_BYTES];
        assert_eq!(
            read_sector(&block[..SECTOR_BYTES]),
            DataCheckSectorState::Empty
        );
        let first = DataCheckStamp {
            run: 7,
            target: 2,
            file: 9,
            offset: 4096,
            version: 3,
            origin: DataCheckStampOrigin {
                writer: 4,
                epoch: 5,
                op: 6,
                intended_at: Nanos(8),
            },
        };
        stamp_block(&mut block, first);
        let second = &mut block[SECTOR_BYTES..];
        let stamp = DataCheckStamp {
            offset: 4096 + 512,
            ..first
        };
        assert_eq!(read_sector(second), DataCheckSectorState::Stamped(stamp));
        for byte in 0..SECTOR_BYTES {
            second[byte] ^= 0x10;
            assert_eq!(
                read_sector(second),
                DataCheckSectorState::Garbage,
                "byte {byte}"
            );
            second[byte] ^= 0x10;
        }
    }

    #[test]
    fn storage_that_keeps_the_same_checksum_can_tell_blocks_apart() {
        let mut sums = BTreeSet::new();
        for version in 1..=1000 {
            let mut block = [0; 8 * SECTOR_BYTES];
            let first = DataCheckStamp {
                version,
                ..DataCheckStamp::default()
            };
            stamp_block(&mut block, first);
            sums.insert(crc32c(&block));
        }
        assert_eq!(sums.len(), 1000);
    }
}
