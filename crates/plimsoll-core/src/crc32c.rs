// SPDX-License-Identifier: Apache-2.0
//! The checksum of stamped sectors and of the entries of ledgers.

/// CRC-32C (Castagnoli), reflected, eight bytes at a time: each table carries a byte past the bytes
/// behind it ("slicing by 8", Kounavis and Berry 2005).
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
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
}
