// SPDX-License-Identifier: Apache-2.0
//! Sectors that say what they are: where they belong, which run wrote them, and when.
//!
//! Layout of a sector, little endian: magic, run, target, offset, version (8 bytes each), filler
//! drawn from those, CRC32C of all before it (4 bytes).

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
    /// The file or device it was written to, by its number in that run.
    pub(super) target: u64,
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

/// Stamps every sector of `block`, whose first one is to get `first`.
pub(super) fn stamp_block(block: &mut [u8], first: Stamp) {
    let offsets = (first.offset..).step_by(SECTOR_BYTES);
    for (sector, offset) in block.chunks_exact_mut(SECTOR_BYTES).zip(offsets) {
        stamp_sector(sector, Stamp { offset, ..first });
    }
}

fn stamp_sector(sector: &mut [u8], stamp: Stamp) {
    let body = SECTOR_BYTES - 4;
    let words = [MAGIC, stamp.run, stamp.target, stamp.offset, stamp.version];
    for (place, word) in sector.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let filler = Seed(stamp.run).derive("filler", stamp.offset ^ stamp.version.rotate_left(40));
    fill_random(&mut sector[40..body], &mut Rng::new(filler));
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
        target: word(2),
        offset: word(3),
        version: word(4),
    })
}

/// CRC-32C (Castagnoli), reflected, eight bytes at a time: each table carries a byte past the bytes
/// behind it ("slicing by 8", Kounavis and Berry 2005).
fn crc32c(bytes: &[u8]) -> u32 {
    static TABLES: [[u32; 256]; 8] = tables();
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut crc = u32::MAX;
    for eight in eights {
        let mut mixed = *eight;
        let head = crc.to_le_bytes();
        (0..4).for_each(|place| mixed[place] ^= head[place]);
        let carried = mixed.iter().zip(TABLES.iter().rev());
        crc = carried.fold(0, |crc, (byte, table)| crc ^ table[usize::from(*byte)]);
    }
    for byte in rest {
        let [low, ..] = crc.to_le_bytes();
        crc = (crc >> 8) ^ TABLES[0][usize::from(low ^ byte)];
    }
    !crc
}

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let (mut index, mut seed) = (0, 0u32);
    while index < 256 {
        let (mut crc, mut bit) = (seed, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
            bit += 1;
        }
        tables[0][index] = crc;
        index += 1;
        seed += 1;
    }
    let mut table = 1;
    while table < 8 {
        index = 0;
        while index < 256 {
            let before = tables[table - 1][index];
            tables[table][index] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            index += 1;
        }
        table += 1;
    }
    tables
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
        let first = Stamp {
            run: 7,
            target: 2,
            offset: 4096,
            version: 3,
        };
        stamp_block(&mut block, first);
        let second = &mut block[SECTOR_BYTES..];
        let stamp = Stamp {
            offset: 4096 + 512,
            ..first
        };
        assert_eq!(read_sector(second), Found::Stamped(stamp));
        for byte in 0..SECTOR_BYTES {
            second[byte] ^= 0x10;
            assert_eq!(read_sector(second), Found::Garbage, "byte {byte}");
            second[byte] ^= 0x10;
        }
    }
}
