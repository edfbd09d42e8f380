// SPDX-License-Identifier: Apache-2.0
//! The label: the first record of every file of an archive.
//!
//! Layout of version 2 (from LOGARCHIVE(5)), all words big-endian, framed by the record's length
//! before and after: magic, process, seconds, microseconds, volume, host\[64\], zone\[40\]. The
//! manual page puts the zone at byte 80; counting the leading length it is at 88.

use super::bytes::{i32_at, text, u32_at, unix_ns};
use crate::error::TraceError;

/// Length of a version 2 label with its framing.
pub(super) const LABEL_BYTES_V2: usize = 132;
const MAGIC: u32 = 0x5005_2600;
const HOST_AT: usize = 24;
const ZONE_AT: usize = 88;

/// Volume number in the label of a `.meta` file.
pub(super) const VOLUME_META: i32 = -1;

/// Versions of the archive format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Version {
    /// Seconds in 32 bits, microseconds; everything PCP wrote from 1998 until version 3 became
    /// the default.
    V2,
}

impl Version {
    /// The number in the label.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Version::V2 => 2,
        }
    }
}

/// What an archive says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Version of the format.
    pub version: Version,
    /// Host that was recorded.
    pub host: String,
    /// Time zone of that host as POSIX writes it, such as `EST-10`.
    pub zone: String,
    /// When the recording began, in nanoseconds since 1970 UTC.
    pub start_unix_ns: u64,
    /// Which volume the label is of; negative for files without data.
    pub(super) volume: i32,
}

impl Label {
    /// Reads the label at the start of `bytes`.
    pub(super) fn read(file: &str, bytes: &[u8]) -> Result<Label, TraceError> {
        let wrong = |offset: u64, what: String| TraceError::Format {
            file: file.into(),
            offset,
            what,
        };
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
            2 => Version::V2,
            other => {
                return Err(TraceError::Version {
                    file: file.into(),
                    version: u8::try_from(other).unwrap_or(u8::MAX),
                });
            }
        };
        let length = u32::try_from(LABEL_BYTES_V2).ok();
        if u32_at(bytes, 0) != length || u32_at(bytes, LABEL_BYTES_V2 - 4) != length {
            let what = format!("the label's length is not {LABEL_BYTES_V2} at both of its ends");
            return Err(wrong(0, what));
        }
        Ok(Label {
            version,
            host: text(&bytes[HOST_AT..ZONE_AT]),
            zone: text(&bytes[ZONE_AT..LABEL_BYTES_V2 - 4]),
            start_unix_ns: unix_ns(bytes, 12).map_err(|what| wrong(12, what))?,
            volume: i32_at(bytes, 20).unwrap_or_default(),
        })
    }
}
