// SPDX-License-Identifier: Apache-2.0
//! Requests while they are recorded: a file that is only appended to, so that a killed recorder
//! leaves what it had. It is read like every other recording, and made into a Parquet file.
//!
//! Layout: lines `plimsoll requests 1`, `origin N` (nanoseconds since 1970), `device NAME` for each
//! device, an empty line; then records of 32 bytes, numbers in little endian: start and time taken
//! in nanoseconds (2^64 - 1: not known), first byte on the device, bytes (32 bits), place of the
//! device (16 bits), kind (8 bits), nothing (8 bits). A record of kind 255 holds the number of lost
//! events so far in its first field.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::{TIMED, TraceFormat, TraceRequest};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::recording::{TraceReadState, TraceSource};
use crate::targets::TARGETS_MAX;
use crate::text::{whole, words};

const MAGIC: &[u8] = b"plimsoll requests 1\n";
const RECORD_BYTES: usize = 32;
const UNKNOWN: u64 = u64::MAX;
/// The kind of a record that says how many events were lost.
const LOST: u8 = 255;
/// Kinds of records: the kind in a record is a place in this list.
pub(super) const KINDS: [(OpKind, &str); 4] = [
    (OpKind::Read, "read"),
    (OpKind::Write, "write"),
    (OpKind::Discard, "discard"),
    (OpKind::Fsync, "flush"),
];
/// Records of one call.
const BATCH: usize = 4096;

/// Recognised by its first line.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "requests that plimsoll record did not finish",
    is: |head| head.starts_with(MAGIC),
    open: |input| Ok(Box::new(Unfinished::open(input)?)),
};

/// A file that requests are appended to.
#[derive(Debug)]
pub struct TraceSpool {
    path: PathBuf,
    file: BufWriter<File>,
    lost: u64,
}

impl TraceSpool {
    /// Makes the file. `origin_unix_ns` is the instant from which starts count.
    ///
    /// # Errors
    /// When it exists or cannot be written, or a device's name is more than one line.
    pub fn create(
        path: &Path,
        origin_unix_ns: u64,
        devices: &[String],
    ) -> Result<TraceSpool, TraceError> {
        let made = crate::new_file::new_file(path);
        let mut spool = TraceSpool {
            path: path.into(),
            file: BufWriter::new(made.map_err(|source| TraceError::unwritten(path, source))?),
            lost: 0,
        };
        let mut head = MAGIC.to_vec();
        head.extend(format!("origin {origin_unix_ns}\n").bytes());
        for device in devices {
            head.extend(format!("device {}\n", device.replace('\n', " ")).bytes());
        }
        head.push(b'\n');
        spool
            .file
            .write_all(&head)
            .map_err(|source| TraceError::unwritten(path, source))?;
        spool.flush()?;
        Ok(spool)
    }

    /// Appends requests, and how many events were lost so far; when it returns, the kernel has
    /// them.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&mut self, requests: &[TraceRequest], lost: u64) -> Result<(), TraceError> {
        let record = |request: &TraceRequest| {
            let kind = KINDS.iter().position(|(kind, _)| *kind == request.kind);
            let kind = kind.and_then(|kind| u8::try_from(kind).ok()).unwrap_or(0);
            let took_ns = request.took.map_or(UNKNOWN, |took| took.0);
            let mut bytes = [0; RECORD_BYTES];
            bytes[..8].copy_from_slice(&request.at.0.to_le_bytes());
            bytes[8..16].copy_from_slice(&took_ns.to_le_bytes());
            bytes[16..24].copy_from_slice(&request.offset.to_le_bytes());
            bytes[24..28].copy_from_slice(&request.bytes.to_le_bytes());
            bytes[28..30].copy_from_slice(&request.target.to_le_bytes());
            bytes[30] = kind;
            bytes
        };
        let mut written = Ok(());
        for request in requests {
            written = written.and_then(|()| self.file.write_all(&record(request)));
        }
        if lost > self.lost {
            let mut bytes = [0; RECORD_BYTES];
            bytes[..8].copy_from_slice(&lost.to_le_bytes());
            bytes[30] = LOST;
            written = written.and_then(|()| self.file.write_all(&bytes));
            self.lost = lost;
        }
        written.map_err(|source| TraceError::unwritten(&self.path, source))?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        self.file
            .flush()
            .map_err(|source| TraceError::unwritten(&self.path, source))
    }
}

struct Unfinished {
    state: TraceReadState,
    input: RecordingInput,
    origin_unix_ns: Option<u64>,
    is_done: bool,
}

impl Unfinished {
    fn open(mut input: RecordingInput) -> Result<Unfinished, TraceError> {
        let mut state = TraceReadState::new(input.name(), FORMAT.name, TIMED);
        let (mut origin_unix_ns, mut is_whole) = (None, false);
        // One line more than there may be devices ends the loop.
        for _ in 0..TARGETS_MAX + 3 {
            let Some((_, line)) = input.line()? else {
                break;
            };
            if line.is_empty() {
                is_whole = true;
                break;
            }
            if let Some(name) = line.strip_prefix(b"device ") {
                state.targets.place(name);
            } else if line.starts_with(b"origin ") {
                origin_unix_ns = words(line).nth(1).and_then(whole);
            }
        }
        let is_cut = || input.damage(input.offset(), "its heading is cut");
        state.damage = (!is_whole).then(is_cut);
        Ok(Unfinished {
            state,
            input,
            origin_unix_ns,
            is_done: false,
        })
    }

    /// Reads one record; `false` at the end.
    fn step(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        let offset = self.input.offset();
        let bytes = self.input.take(RECORD_BYTES)?;
        let Ok(record) = <[u8; RECORD_BYTES]>::try_from(bytes) else {
            let rest = bytes.len();
            if rest > 0 {
                self.state.damage = Some(self.input.damage(offset, "its last record is cut"));
            }
            return Ok(false);
        };
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| record[at + byte]));
        if record[30] == LOST {
            self.state.lost = long(0);
            return Ok(true);
        }
        let target = u16::from_le_bytes([record[28], record[29]]);
        let kind = KINDS.get(usize::from(record[30]));
        let is_known = usize::from(target) < self.state.targets.names().len();
        let Some((kind, _)) = kind.filter(|_| is_known) else {
            self.state.damage = Some(self.input.damage(offset, "it is not a record of a request"));
            return Ok(false);
        };
        into.push(TraceRequest {
            at: Nanos(long(0)),
            took: Some(Nanos(long(8))).filter(|took| took.0 != UNKNOWN),
            kind: *kind,
            target,
            bytes: u32::from_le_bytes([record[24], record[25], record[26], record[27]]),
            offset: long(16),
        });
        Ok(true)
    }
}

impl TraceSource for Unfinished {
    fn state(&self) -> &TraceReadState {
        &self.state
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        self.origin_unix_ns
    }

    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        for _ in 0..BATCH {
            if self.is_done || !self.step(into)? {
                self.is_done = true;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(n: u64) -> TraceRequest {
        TraceRequest {
            at: Nanos(n * 1000),
            took: (!n.is_multiple_of(3)).then_some(Nanos(n)),
            kind: KINDS[usize::try_from(n % 4).unwrap()].0,
            target: u16::try_from(n % 2).unwrap(),
            bytes: 512,
            offset: n << 40,
        }
    }

    #[test]
    fn what_was_appended_is_read_back_wherever_the_file_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let devices = ["sda".to_owned(), "sdb".to_owned()];
        let mut spool = TraceSpool::create(&path, 77, &devices).unwrap();
        let start = path.metadata().unwrap().len();
        let all: Vec<TraceRequest> = (0..9).map(request).collect();
        spool.append(&all[..4], 0).unwrap();
        spool.append(&all[4..], 5).unwrap();
        drop(spool);
        assert!(TraceSpool::create(&path, 0, &devices).is_err(), "it exists");
        let whole = std::fs::read(&path).unwrap();
        for length in usize::try_from(start).unwrap()..=whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let mut reader = super::super::open(&path).unwrap();
            let mut found = Vec::new();
            while reader.read(&mut found).unwrap() {}
            let records = (length - usize::try_from(start).unwrap()) / RECORD_BYTES;
            assert_eq!(found, all[..records.min(9)]);
            assert_eq!(reader.origin_unix_ns(), Some(77));
            assert_eq!(reader.targets(), devices);
            assert_eq!(reader.lost(), if records == 10 { 5 } else { 0 });
            let rest = (length - usize::try_from(start).unwrap()) % RECORD_BYTES;
            assert_eq!(reader.damage().is_some(), rest > 0);
        }
    }
}
