// SPDX-License-Identifier: Apache-2.0
//! Command traces of VMware's vscsiStats in their binary form.
//!
//! Source of the layout: the readers that go with the CloudPhysics traces, checked against such a
//! trace of version 1 with 113,872 commands. A record of version 1 has 32 bytes, little endian:
//! serial number u32, length u32, scatter-gather elements u32, command u16, version u16 (0x0100),
//! block u64 (512 bytes), time u64 in microseconds from an instant that is not told. Version 2
//! (0x0200) has command and version in front and, at its end, the response time u64 in microseconds.

use plimsoll_core::op::Kind;
use plimsoll_core::units::Nanos;

use super::text::SECTOR_BYTES;
use super::{Format, Request, TIMED, UNTIMED};
use crate::error::{Damage, TraceError};
use crate::input::Input;
use crate::recording::{About, Carries, Requests};

/// Recognised by the version in the first two records.
pub(super) const FORMAT: Format = Format {
    name: "vscsiStats command trace",
    is: |head| Version::of(head).is_some(),
    open,
};

const MICROS: u64 = 1_000;
/// Records of one call.
const BATCH: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn of(head: &[u8]) -> Option<Version> {
        let is = |version: Version| {
            let mut first_two = head.chunks_exact(version.record_bytes()).take(2).peekable();
            first_two.peek().is_some() && first_two.all(|record| version.is_of(record))
        };
        [Version::One, Version::Two].into_iter().find(|v| is(*v))
    }

    fn record_bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    /// Where the command stands; the version is behind it.
    fn command_at(self) -> usize {
        match self {
            Version::One => 12,
            Version::Two => 0,
        }
    }

    /// Where the length stands.
    fn length_at(self) -> usize {
        match self {
            Version::One => 4,
            Version::Two => 8,
        }
    }

    fn is_of(self, record: &[u8]) -> bool {
        let number = match self {
            Version::One => 1,
            Version::Two => 2,
        };
        record[self.command_at() + 2..][..2] == [0, number]
    }
}

fn open(input: Input) -> Result<Box<dyn Requests>, TraceError> {
    let version = Version::of(input.head()).unwrap_or(Version::One);
    let (format, base) = match version {
        Version::One => ("vscsiStats command trace, version 1", UNTIMED),
        Version::Two => ("vscsiStats command trace, version 2", TIMED),
    };
    let about = About {
        name: input.name().into(),
        format: format.into(),
        host: String::new(),
        carries: Carries {
            resolution: Nanos(MICROS),
            ..base
        },
    };
    Ok(Box::new(Trace {
        version,
        input,
        about,
        targets: ["disk".into()],
        first_us: None,
        damage: None,
    }))
}

struct Trace {
    version: Version,
    input: Input,
    about: About,
    targets: [String; 1],
    first_us: Option<u64>,
    damage: Option<Damage>,
}

/// A whole record, or why it is none.
fn decode(
    version: Version,
    first_us: &mut Option<u64>,
    record: &[u8],
) -> Result<Option<Request>, &'static str> {
    if record.len() < version.record_bytes() {
        return Err("the last record is cut short");
    }
    if !version.is_of(record) {
        return Err("a record is of another version than the first");
    }
    let u64_at = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| record[at + i]));
    let length_at = version.length_at();
    let bytes = u32::from_le_bytes([0, 1, 2, 3].map(|i| record[length_at + i]));
    let (block, us) = (u64_at(16), u64_at(24));
    let nanos = |us: u64| us.checked_mul(MICROS).map(Nanos);
    let took = match version {
        Version::One => None,
        Version::Two => Some(nanos(u64_at(32)).ok_or("a response time is beyond any wait")?),
    };
    let offset = block
        .checked_mul(SECTOR_BYTES)
        .ok_or("a block number is beyond any disk")?;
    let first_us = *first_us.get_or_insert(us);
    let at = us.checked_sub(first_us).and_then(nanos);
    let at = at.ok_or("a time lies before the first")?;
    let command_at = version.command_at();
    let command = u16::from_le_bytes([record[command_at], record[command_at + 1]]);
    // A command that moves no data, such as one that asks whether the disk is there, is none.
    Ok(kind(command).map(|kind| Request {
        at,
        took,
        kind,
        target: 0,
        bytes,
        offset,
    }))
}

/// What a SCSI operation code does. Source: SBC-4, table of commands.
fn kind(command: u16) -> Option<Kind> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Kind::Read),
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Kind::Write),
        0x35 | 0x91 => Some(Kind::Fsync),
        0x42 => Some(Kind::Discard),
        _ => None,
    }
}

impl Requests for Trace {
    fn about(&self) -> &About {
        &self.about
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        None
    }

    fn read(&mut self, into: &mut Vec<Request>) -> Result<bool, TraceError> {
        if self.damage.is_some() {
            return Ok(false);
        }
        for _ in 0..BATCH {
            let offset = self.input.offset();
            let record = self.input.take(self.version.record_bytes())?;
            if record.is_empty() {
                return Ok(false);
            }
            let decoded = decode(self.version, &mut self.first_us, record);
            match decoded {
                Ok(request) => into.extend(request),
                Err(what) => {
                    self.damage = Some(self.input.damage(offset, what));
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn targets(&self) -> &[String] {
        &self.targets
    }

    fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    fn warnings(&self) -> &[String] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{read, vscsi};
    use super::*;

    #[test]
    fn version_2_tells_response_times() {
        for (version, took) in [(1, None), (2, Some(300_000))] {
            let (trace, found) = read(&FORMAT, &vscsi(version));
            let expect = [
                (0, took, Kind::Write, 0, 4_096, 512 * 800),
                (200_000, took, Kind::Read, 0, 8_192, 512 * 16),
            ];
            assert_eq!(found, expect);
            assert!(trace.about().format.ends_with(&version.to_string()));
        }
    }

    #[test]
    fn a_record_that_is_cut_short_is_damage() {
        let bytes = vscsi(1);
        let (trace, found) = read(&FORMAT, &bytes[..bytes.len() - 1]);
        assert_eq!(found.len(), 1);
        assert_eq!(trace.damage().unwrap().offset, 64);
    }
}
