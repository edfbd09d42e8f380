// SPDX-License-Identifier: Apache-2.0
//! The label: the first record of every file of an archive.
//!
//! Layout (from LOGARCHIVE(5)), all words big-endian, framed by the record's length before and
//! after. Version 2: magic, process, seconds, microseconds, volume, host\[64\], zone\[40\].
//! Version 3: magic, process, seconds (64 bits), nanoseconds, volume, features, reserved,
//! host\[256\], zone\[256\], zone name\[256\]. For version 2 the manual page puts the zone at byte
//! 80; counting the leading length it is at 88. The 64-bit seconds of version 3 are stored low
//! word first (measured; the page draws one number).

use plimsoll_core::units::Nanos;

use super::bytes::{i32_at, text, u32_at};
use crate::error::{RecordingDamage, TraceError};

const MAGIC: u32 = 0x5005_2600;
/// Bytes of a label that are enough to know its version, and so its length.
pub(super) const LABEL_BYTES_MAX: usize = 808;

/// Volume number in the label of a `.meta` file.
pub(super) const VOLUME_META: i32 = -1;

/// Versions of the archive format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PcpVersion {
    /// Seconds in 32 bits, microseconds; everything PCP wrote from 1998 until version 3 became
    /// the default.
    V2,
    /// Seconds in 64 bits, nanoseconds, changes of instances; the default since PCP 6.
    V3,
}

impl PcpVersion {
    /// The number in the label.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            PcpVersion::V2 => 2,
            PcpVersion::V3 => 3,
        }
    }

    /// The finest difference of two time stamps.
    pub(super) fn resolution(self) -> Nanos {
        match self {
            PcpVersion::V2 => Nanos(1_000),
            PcpVersion::V3 => Nanos(1),
        }
    }

    /// Length of a label with its framing.
    pub(super) fn label_bytes(self) -> usize {
        match self {
            PcpVersion::V2 => 132,
            PcpVersion::V3 => LABEL_BYTES_MAX,
        }
    }

    /// Length of a time stamp.
    pub(super) fn stamp_bytes(self) -> usize {
        match self {
            PcpVersion::V2 => 8,
            PcpVersion::V3 => 12,
        }
    }

    /// The time stamp at a byte position as nanoseconds since 1970, or why it is none.
    pub(super) fn unix_ns(self, bytes: &[u8], at: usize) -> Result<u64, String> {
        const CUT: &str = "a time stamp is cut short";
        let word = |n: usize| u32_at(bytes, at.saturating_add(4 * n)).ok_or(CUT);
        let (seconds, part, per_second, unit) = match self {
            PcpVersion::V2 => (u64::from(word(0)?), word(1)?, 1_000_000, "microseconds"),
            PcpVersion::V3 => {
                let seconds = u64::from(word(1)?) << 32 | u64::from(word(0)?);
                (seconds, word(2)?, 1_000_000_000, "nanoseconds")
            }
        };
        if part >= per_second {
            return Err(format!("a time stamp has {part} {unit}"));
        }
        let part_ns = u64::from(part) * u64::from(1_000_000_000 / per_second);
        seconds
            .checked_mul(1_000_000_000)
            .and_then(|ns| ns.checked_add(part_ns))
            .ok_or_else(|| format!("a time stamp of {seconds} seconds is after 2554"))
    }

    /// Bytes in front of, between and behind the texts of a label: volume number, host, zone, end.
    fn label_places(self) -> [usize; 4] {
        match self {
            PcpVersion::V2 => [20, 24, 88, 128],
            PcpVersion::V3 => [24, 36, 292, 548],
        }
    }
}

/// Properties of an archive in its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PcpLabel {
    /// Version of the format.
    pub version: PcpVersion,
    /// Host that was recorded.
    pub host: String,
    /// Time zone of that host as POSIX writes it, such as `EST-10`.
    pub zone: String,
    /// When the recording began, in nanoseconds since 1970 UTC.
    pub start_unix_ns: u64,
    /// Which volume the label is of; negative for files without data.
    pub(super) volume: i32,
}

impl PcpLabel {
    /// Reads the label at the start of `bytes`.
    pub(super) fn read(file: &str, bytes: &[u8]) -> Result<PcpLabel, TraceError> {
        let wrong = |at: u64, what: String| TraceError::from(RecordingDamage::new(file, at, what));
        if bytes.is_empty() {
            return Err(wrong(0, "the file is empty".into()));
        }
        let version = match u32_at(bytes, 4) {
            Some(magic) if (MAGIC + 1..=MAGIC + 3).contains(&magic) => magic - MAGIC,
            Some(magic) => {
                let what = format!("this is no PCP archive (it starts with {magic:#010x})");
                return Err(wrong(4, what));
            }
            None => return Err(wrong(0, "the label is cut short".into())),
        };
        let version = match version {
            2 => PcpVersion::V2,
            3 => PcpVersion::V3,
            _ => return Err(TraceError::Version { file: file.into() }),
        };
        let bytes_wanted = version.label_bytes();
        let length = u32::try_from(bytes_wanted).ok();
        if u32_at(bytes, 0) != length || u32_at(bytes, bytes_wanted - 4) != length {
            let what = format!("the label's length is not {bytes_wanted} at both of its ends");
            return Err(wrong(0, what));
        }
        let [volume_at, host_at, zone_at, zone_end] = version.label_places();
        let start = version.unix_ns(bytes, 12);
        Ok(PcpLabel {
            version,
            host: text(&bytes[host_at..zone_at]),
            zone: text(&bytes[zone_at..zone_end]),
            start_unix_ns: start.map_err(|what| wrong(12, what))?,
            volume: i32_at(bytes, volume_at).unwrap_or_default(),
        })
    }
}
