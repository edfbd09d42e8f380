// SPDX-License-Identifier: Apache-2.0
//! Command traces of VMware's vscsiStats in their binary form.
//!
//! Source of the layout: the readers that go with the CloudPhysics traces, checked against such a
//! trace of 113,872 commands. A record of version 1 has 32 bytes, little endian: serial number u32,
//! length u32, scatter-gather elements u32, command u16, version u16 (0x0100), block u64 (512
//! bytes), time u64 in microseconds from an instant that is not told. It holds no response times.

use plimsoll_core::op::Kind;
use plimsoll_core::units::Nanos;

use super::input::Input;
use super::{Format, Request};
use crate::error::{Damage, TraceError};
use crate::recording::{About, Carries, Detail, Order, Requests, Scope};

/// Recognised by the version in the first record.
pub(super) const FORMAT: Format = Format {
    name: "vscsiStats command trace",
    is,
    open,
};

const RECORD_BYTES: usize = 32;
const VERSION_1: [u8; 2] = [0x00, 0x01];
const BLOCK_BYTES: u64 = 512;
/// Records of one call.
const BATCH: usize = 4096;

fn is(head: &[u8]) -> bool {
    let first_two = head.chunks_exact(RECORD_BYTES).take(2);
    head.len() >= RECORD_BYTES && first_two.clone().all(|record| record[14..16] == VERSION_1)
}

fn open(input: Input) -> Result<Box<dyn Requests>, TraceError> {
    let about = About {
        name: input.name().into(),
        format: "vscsiStats command trace, version 1".into(),
        host: String::new(),
        carries: Carries {
            arrivals: Detail::Each,
            resolution: Nanos(1_000),
            direction: true,
            sizes: Detail::Each,
            offsets: true,
            service: Detail::Absent,
            queue: Detail::Absent,
            order: Order::Started,
            scope: Scope::Device,
        },
    };
    Ok(Box::new(Trace {
        input,
        about,
        targets: ["disk".into()],
        first_us: None,
        damage: None,
    }))
}

struct Trace {
    input: Input,
    about: About,
    targets: [String; 1],
    first_us: Option<u64>,
    damage: Option<Damage>,
}

impl Trace {
    fn decode(&mut self, record: &[u8; RECORD_BYTES]) -> Result<Option<Request>, String> {
        let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| record[at + i]));
        let u64_at =
            |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| record[at + i]));
        if record[14..16] != VERSION_1 {
            return Err("a record is of another version than 1".into());
        }
        let (bytes, block, us) = (u32_at(4), u64_at(16), u64_at(24));
        let offset = block
            .checked_mul(BLOCK_BYTES)
            .ok_or("a block number is beyond any disk")?;
        let first_us = *self.first_us.get_or_insert(us);
        let at = us
            .checked_sub(first_us)
            .and_then(|us| us.checked_mul(1_000))
            .ok_or("a time lies before the first")?;
        let command = u16::from_le_bytes([record[12], record[13]]);
        let Some(kind) = kind(command) else {
            // A command that moves no data, such as one that asks whether the disk is there.
            return Ok(None);
        };
        Ok(Some(Request {
            at: Nanos(at),
            took: None,
            kind,
            target: 0,
            bytes,
            offset,
        }))
    }
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
            let found = self.input.take(RECORD_BYTES)?;
            let decoded = match <[u8; RECORD_BYTES]>::try_from(found) {
                Ok(record) => self.decode(&record),
                Err(_) if found.is_empty() => return Ok(false),
                Err(_) => Err("the last record is cut short".into()),
            };
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
