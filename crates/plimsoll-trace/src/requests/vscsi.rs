// SPDX-License-Identifier: Apache-2.0
//! Command traces of VMware's vscsiStats in their binary form.
//!
//! Source of the layout: the readers that go with the CloudPhysics traces, checked against such a
//! trace of version 1 with 113,872 commands. A record of version 1 has 32 bytes, little endian:
//! serial number u32, length u32, scatter-gather elements u32, command u16, version u16 (0x0100),
//! block u64 (512 bytes), time u64 in microseconds from an unknown instant. Version 2
//! (0x0200) has command and version in front and, at its end, the response time u64 in microseconds.

use std::collections::BTreeMap;

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::rows::TraceOrigin;
use super::{TIMED, TraceFormat, TraceRequest, UNTIMED};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::recording::{RecordingCapabilities, TraceOrder, TraceReadState, TraceSource};
use crate::text::SECTOR_BYTES;

/// Recognised by the version in the first two records.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "vscsiStats command trace",
    is: |head| VscsiVersion::of(head).is_some(),
    open,
};

const MICROS: u64 = 1_000;
/// Codes of commands that are counted each.
const CODES_MAX: usize = 256;

/// The layout of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct VscsiVersion {
    number: u8,
    record_bytes: usize,
    /// The version is behind the command.
    command_at: usize,
    length_at: usize,
    /// `None`: it has no response times.
    took_at: Option<usize>,
}

const VERSIONS: [VscsiVersion; 2] = [
    VscsiVersion {
        number: 1,
        record_bytes: 32,
        command_at: 12,
        length_at: 4,
        took_at: None,
    },
    VscsiVersion {
        number: 2,
        record_bytes: 40,
        command_at: 0,
        length_at: 8,
        took_at: Some(32),
    },
];

impl VscsiVersion {
    fn of(head: &[u8]) -> Option<VscsiVersion> {
        let is = |version: &VscsiVersion| {
            let mut first_two = head.chunks_exact(version.record_bytes).take(2).peekable();
            first_two.peek().is_some() && first_two.all(|record| version.is_of(record))
        };
        VERSIONS.into_iter().find(is)
    }

    fn is_of(self, record: &[u8]) -> bool {
        record[self.command_at + 2..][..2] == [0, self.number]
    }
}

fn open(input: RecordingInput) -> Result<Box<dyn TraceSource>, TraceError> {
    let version = VscsiVersion::of(input.head()).unwrap_or(VERSIONS[0]);
    let format = format!("vscsiStats command trace, version {}", version.number);
    let base = match version.took_at {
        Some(_) => TIMED,
        None => UNTIMED,
    };
    let carries = RecordingCapabilities {
        resolution: Nanos(MICROS),
        order: TraceOrder::Mixed,
        ..base
    };
    let mut state = TraceReadState::new(input.name(), format, carries);
    state.targets.place(b"disk");
    Ok(Box::new(VscsiReader {
        version,
        input,
        state,
        origin: TraceOrigin::default(),
        passed_over: BTreeMap::new(),
    }))
}

struct VscsiReader {
    version: VscsiVersion,
    input: RecordingInput,
    state: TraceReadState,
    origin: TraceOrigin,
    /// Commands that are no requests here, by their code.
    passed_over: BTreeMap<u16, u64>,
}

/// Content of a record.
enum VscsiRecord {
    /// A request, its start on the source's clock.
    Request(TraceRequest),
    /// A command that is none here, by its code.
    Other(u16),
}

/// A whole record, or why it is none.
fn decode(version: VscsiVersion, record: &[u8]) -> Result<VscsiRecord, &'static str> {
    if record.len() < version.record_bytes {
        return Err("the last record is cut short");
    }
    if !version.is_of(record) {
        return Err("a record is of another version than the first");
    }
    let u64_at = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| record[at + i]));
    let bytes = u32::from_le_bytes([0, 1, 2, 3].map(|i| record[version.length_at + i]));
    let (block, us) = (u64_at(16), u64_at(24));
    let nanos = |us: u64| us.checked_mul(MICROS).map(Nanos);
    let took = version.took_at.map(|at| nanos(u64_at(at)));
    let took = match took {
        Some(took) => Some(took.ok_or("a response time is beyond any wait")?),
        None => None,
    };
    let offset = block
        .checked_mul(SECTOR_BYTES)
        .ok_or("a block number is beyond any disk")?;
    let at = nanos(us).ok_or("a time is beyond any clock")?;
    let command = [0, 1].map(|i| record[version.command_at + i]);
    let command = u16::from_le_bytes(command);
    Ok(match kind(command) {
        Some(kind) => VscsiRecord::Request(TraceRequest {
            at,
            took,
            kind,
            target: 0,
            bytes,
            offset,
        }),
        None => VscsiRecord::Other(command),
    })
}

/// Operation of a SCSI operation code. Source: SBC-4, table of commands.
fn kind(command: u16) -> Option<OpKind> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(OpKind::Read),
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(OpKind::Write),
        0x35 | 0x91 => Some(OpKind::Fsync),
        0x42 => Some(OpKind::Discard),
        _ => None,
    }
}

impl VscsiReader {
    /// Reads one record; `false` at the end.
    fn step(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        let offset = self.input.offset();
        let record = self.input.take(self.version.record_bytes)?;
        if record.is_empty() {
            return Ok(false);
        }
        match decode(self.version, record) {
            Ok(VscsiRecord::Request(request)) => into.push(request),
            Ok(VscsiRecord::Other(command)) => {
                let is_known = self.passed_over.contains_key(&command);
                if is_known || self.passed_over.len() < CODES_MAX {
                    *self.passed_over.entry(command).or_default() += 1;
                }
            }
            Err(what) => {
                self.state.damage = Some(self.input.damage(offset, what));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Says what was left out.
    fn finish(&mut self) {
        let codes = std::mem::take(&mut self.passed_over);
        let count: u64 = codes.values().sum();
        if count > 0 {
            let each = codes.iter().map(|(code, count)| match name(*code) {
                Some(name) => format!("{count} {name} (0x{code:02x})"),
                None => format!("{count} of code 0x{code:02x}"),
            });
            self.state.warnings.push(format!(
                "{count} commands that are not reads, writes, flushes or unmaps were left out: {}",
                each.collect::<Vec<_>>().join(", ")
            ));
        }
        self.state.warnings.extend(self.origin.sentence());
    }
}

/// Names of commands that move or check data and have no counterpart in a play. Source: SBC-4.
fn name(command: u16) -> Option<&'static str> {
    Some(match command {
        0x41 | 0x93 => "WRITE SAME",
        0x89 => "COMPARE AND WRITE",
        0x2f | 0xaf | 0x8f => "VERIFY",
        0x83 => "EXTENDED COPY",
        0x9c => "WRITE ATOMIC",
        0x00 => "TEST UNIT READY",
        _ => return None,
    })
}

impl TraceSource for VscsiReader {
    fn state(&self) -> &TraceReadState {
        &self.state
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        None
    }

    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        if self.state.damage.is_some() {
            return Ok(false);
        }
        let known = into.len();
        let wanted = self.origin.wanted();
        let mut more = true;
        while more && into.len() - known < wanted {
            more = self.step(into)?;
        }
        self.origin.place(&mut into[known..]);
        if !more {
            self.finish();
        }
        Ok(more)
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
                (0, took, OpKind::Write, 0, 4_096, 512 * 800),
                (200_000, took, OpKind::Read, 0, 8_192, 512 * 16),
            ];
            assert_eq!(found, expect);
            assert!(trace.about().format.ends_with(&version.to_string()));
        }
    }

    #[test]
    fn commands_that_are_left_out_are_counted_and_order_is_as_it_comes() {
        let mut bytes = vscsi(1);
        let same = u16::to_le_bytes(0x93);
        let first: Vec<u8> = bytes[..32].into();
        for time_us in [4_999_000u64, 5_000_300] {
            let mut other = first.clone();
            other[24..32].copy_from_slice(&time_us.to_le_bytes());
            bytes.extend_from_slice(&other);
            other[12..14].copy_from_slice(&same);
            bytes.extend_from_slice(&other);
        }
        let (trace, found) = read(&FORMAT, &bytes);
        let starts: Vec<u64> = found.iter().map(|request| request.0 / 1_000).collect();
        assert_eq!(starts, [1_000, 1_200, 0, 1_300]);
        assert_eq!(trace.damage(), None);
        let told = trace.warnings().join("; ");
        for part in ["3 commands", "2 WRITE SAME (0x93)", "1 TEST UNIT READY"] {
            assert!(told.contains(part), "{part}: {told}");
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
