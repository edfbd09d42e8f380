// SPDX-License-Identifier: Apache-2.0
//! The end of a temporal index, which shows whether the last volumes are there.
//!
//! Layout (LOGARCHIVE(5)): a label, then entries without framing: a time stamp, the volume, and the
//! places in `.meta` and in the volume, words of 32 bits in version 2, of 64 in version 3. An index may
//! lie, so nothing but a warning is made of it.

use std::io::Read;

use super::bytes::u32_at;
use super::label::PcpVersion;

/// Bytes of an index that are read at most: a day of seconds has less than 3 MiB.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// The last entry of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexEnd {
    pub(super) at_unix_ns: u64,
    pub(super) volume: u32,
}

impl IndexEnd {
    /// `None` of what is not whole, or holds no entry.
    pub(super) fn read(index: impl Read, version: PcpVersion) -> Option<IndexEnd> {
        let mut bytes = Vec::new();
        index.take(INDEX_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let entries = bytes.get(version.label_bytes()..)?;
        let places = match version {
            PcpVersion::V2 => 8,
            PcpVersion::V3 => 16,
        };
        let entry_bytes = version.stamp_bytes() + 4 + places;
        let last = entries.chunks_exact(entry_bytes).last()?;
        Some(IndexEnd {
            at_unix_ns: version.unix_ns(last, 0).ok()?,
            volume: u32_at(last, version.stamp_bytes())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_counts_in_either_version() {
        let mut old = vec![0; PcpVersion::V2.label_bytes()];
        for (at, volume) in [(7u32, 0u32), (9, 3)] {
            for word in [at, 5, volume, 100, 200] {
                old.extend(word.to_be_bytes());
            }
        }
        let end = IndexEnd {
            at_unix_ns: 9_000_005_000,
            volume: 3,
        };
        assert_eq!(IndexEnd::read(&old[..], PcpVersion::V2), Some(end));
        old.pop();
        let before = IndexEnd::read(&old[..], PcpVersion::V2).unwrap();
        assert_eq!(before.volume, 0);
        let mut new = vec![0; PcpVersion::V3.label_bytes()];
        for word in [9u32, 0, 5_000, 3, 0, 0, 0, 0] {
            new.extend(word.to_be_bytes());
        }
        assert_eq!(IndexEnd::read(&new[..], PcpVersion::V3), Some(end));
        assert_eq!(IndexEnd::read(&[][..], PcpVersion::V3), None);
    }
}
