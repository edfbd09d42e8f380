// SPDX-License-Identifier: Apache-2.0
//! Sectors that say what they are: where they belong, which run wrote them, and when.
//!
//! Layout of a sector, little endian: magic, run, offset, version (8 bytes each), filler drawn
//! from those, CRC32C of all before it (4 bytes).

use plimsoll_core::rng::{Rng, Seed};

use crate::engine::fill_random;

/// Bytes of a sector: the smallest unit that any storage writes at once.
pub(super) const SECTOR_BYTES: usize = 512;

/// First bytes of every stamped sector: `PLIMSECT`.
const MAGIC: u64 = u64::from_le_bytes(*b"PLIMSECT");

/// What a sector says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The run that wrote it.
    pub(super) run: u64,
    /// Where it belongs, in bytes.
    pub(super) offset: u64,
    /// The write that wrote it; 0 is never used.
    pub(super) version: u64,
}

/// What was found in a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Zeros: never written.
    Empty,
    /// A whole stamp.
    Stamped(Stamp),
    /// Anything else.
    Garbage,
}

/// Stamps every sector of `block`, which begins at `offset`.
pub(super) fn stamp_block(block: &mut [u8], run: u64, offset: u64, version: u64) {
    let offsets = (offset..).step_by(SECTOR_BYTES);
    for (sector, offset) in block.chunks_exact_mut(SECTOR_BYTES).zip(offsets) {
        let stamp = Stamp {
            run,
            offset,
            version,
        };
        stamp_sector(sector, stamp);
    }
}

fn stamp_sector(sector: &mut [u8], stamp: Stamp) {
    let body = SECTOR_BYTES - 4;
    let words = [MAGIC, stamp.run, stamp.offset, stamp.version];
    for (place, word) in sector.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let filler = Seed(stamp.run).derive("filler", stamp.offset ^ stamp.version.rotate_left(40));
    fill_random(&mut sector[32..body], &mut Rng::new(filler));
    let sum = crc32c(&sector[..body]);
    sector[body..].copy_from_slice(&sum.to_le_bytes());
}

/// Reads a sector.
pub(super) fn read_sector(sector: &[u8]) -> Found {
    if sector.iter().all(|byte| *byte == 0) {
        return Found::Empty;
    }
    let (body, sum) = sector.split_at(SECTOR_BYTES - 4);
    let word = |index: usize| {
        let bytes = body[index * 8..][..8].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes are eight bytes"))
    };
    if crc32c(body).to_le_bytes() != sum || word(0) != MAGIC {
        return Found::Garbage;
    }
    Found::Stamped(Stamp {
        run: word(1),
        offset: word(2),
        version: word(3),
    })
}

/// CRC-32C (Castagnoli), reflected, one byte at a time.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let step = |crc: u32, byte: &u8| {
        let [low, ..] = crc.to_le_bytes();
        (crc >> 8) ^ TABLE[usize::from(low ^ byte)]
    };
    !bytes.iter().fold(u32::MAX, step)
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let (mut index, mut seed) = (0, 0u32);
    while index < 256 {
        let (mut crc, mut bit) = (seed, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
            bit += 1;
        }
        table[index] = crc;
        index += 1;
        seed += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_published_one() {
        // Check value of CRC-32C, and the 32-byte vectors of RFC 3720, appendix B.4.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn a_sector_says_what_was_stamped_and_any_flipped_bit_shows() {
        let mut block = vec![0; 2 * SECTOR_BYTES];
        assert_eq!(read_sector(&block[..SECTOR_BYTES]), Found::Empty);
        stamp_block(&mut block, 7, 4096, 3);
        let second = &mut block[SECTOR_BYTES..];
        let stamp = Stamp {
            run: 7,
            offset: 4096 + 512,
            version: 3,
        };
        assert_eq!(read_sector(second), Found::Stamped(stamp));
        for byte in 0..SECTOR_BYTES {
            second[byte] ^= 0x10;
            assert_eq!(read_sector(second), Found::Garbage, "byte {byte}");
            second[byte] ^= 0x10;
        }
    }
}
