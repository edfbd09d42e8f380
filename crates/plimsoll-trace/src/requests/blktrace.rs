// SPDX-License-Identifier: Apache-2.0
//! The binary files of `blktrace`: one for each processor, `NAME.blktrace.0` and so on.
//!
//! Source: the kernel's `blktrace_api.h`. A record of version 7 has 48 bytes: magic and version
//! u32, number u32, time u64 in nanoseconds, sector u64, bytes u32, action u32, process u32, device
//! u32, processor u32, error u16, length u16 of what follows it. Version 8 (newer kernels) has 64
//! bytes: process before action, action u64, twelve bytes at the end that are not used. Words are in
//! the order of the recorded machine, which the magic shows. The low byte of an action says what
//! happened, from bit 16 on stand the flags of the request. The records of a file are numbered, so
//! gaps show how many were lost; notes (names of processes, the time of day) are not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::{Path, PathBuf};

use plimsoll_core::op::OpKind;

use super::blkparse::{CARRIES, ONLY_ENDS};
use super::pairs::{BlockEvent, BlockEventAction, BlockEventPairer};
use super::{TraceFormat, TraceRequest};
use crate::error::{RecordingDamage, TraceError};
use crate::input::RecordingInput;
use crate::recording::{TraceReadState, TraceSource};

/// Recognised by the magic of the first record.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "blktrace",
    is: |head| BlktraceLayout::of(head).is_some(),
    open,
};

const MAGIC: u32 = 0x6561_7400;
/// Records of one call.
const BATCH: usize = 4096;
/// Files of one recording: processors of a large machine.
const FILES_MAX: usize = 1024;
/// Processors of devices whose records are numbered, in one file.
const NUMBERED_MAX: usize = 1 << 16;

const ACT_SPLIT: u64 = 13;
const ACT_QUEUE: u64 = 1;
const ACT_ISSUE: u64 = 7;
const ACT_COMPLETE: u64 = 8;
const NOTE_TIME: u64 = 1;
const FLAG_WRITE: u64 = 1 << 17;
const FLAG_FLUSH: u64 = 1 << 18;
/// A command of a user that is passed through: it has no sector.
const FLAG_COMMAND: u64 = 1 << 25;
const FLAG_NOTE: u64 = 1 << 26;
const FLAG_DISCARD: u64 = 1 << 29;

/// How the records of a file are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlktraceLayout {
    is_big_endian: bool,
    version: u8,
}

impl BlktraceLayout {
    fn of(head: &[u8]) -> Option<BlktraceLayout> {
        let magic: [u8; 4] = head.get(..4)?.try_into().ok()?;
        let little = u32::from_le_bytes(magic);
        let big = u32::from_be_bytes(magic);
        let is_big_endian = big & !0xff == MAGIC;
        if !is_big_endian && little & !0xff != MAGIC {
            return None;
        }
        let version = if is_big_endian { magic[3] } else { magic[0] };
        matches!(version, 7 | 8).then_some(BlktraceLayout {
            is_big_endian,
            version,
        })
    }

    fn record_bytes(self) -> usize {
        if self.version == 7 { 48 } else { 64 }
    }

    /// The bytes of a number, the highest first.
    fn number<const BYTES: usize>(self, record: &[u8], at: usize) -> [u8; BYTES] {
        let mut number = [0; BYTES];
        number.copy_from_slice(&record[at..at + BYTES]);
        if !self.is_big_endian {
            number.reverse();
        }
        number
    }

    fn u64_at(self, record: &[u8], at: usize) -> u64 {
        u64::from_be_bytes(self.number(record, at))
    }

    fn u32_at(self, record: &[u8], at: usize) -> u32 {
        u32::from_be_bytes(self.number(record, at))
    }

    fn u16_at(self, record: &[u8], at: usize) -> u16 {
        u16::from_be_bytes(self.number(record, at))
    }

    fn record(self, bytes: &[u8]) -> BlktraceRecord {
        let (action, device, payload) = if self.version == 7 {
            (u64::from(self.u32_at(bytes, 28)), 36, 46)
        } else {
            (self.u64_at(bytes, 32), 40, 50)
        };
        let processor = device + 4;
        BlktraceRecord {
            number: self.u32_at(bytes, 4),
            processor: self.u32_at(bytes, processor),
            at_ns: self.u64_at(bytes, 8),
            sector: self.u64_at(bytes, 16),
            bytes: self.u32_at(bytes, 24),
            action,
            device: self.u32_at(bytes, device),
            payload_bytes: self.u16_at(bytes, payload),
            payload: 0,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct BlktraceRecord {
    number: u32,
    processor: u32,
    at_ns: u64,
    sector: u64,
    bytes: u32,
    action: u64,
    device: u32,
    payload_bytes: u16,
    /// The last eight bytes of what followed it, for a cut and a time of day.
    payload: u64,
}

/// The file of one processor, with the record that is next.
struct BlktraceFile {
    input: RecordingInput,
    layout: BlktraceLayout,
    next: Option<BlktraceRecord>,
    /// Number of the last record that has one, of each processor of each device: the files of several
    /// may have been merged into one.
    last_numbers: BTreeMap<(u32, u32), u32>,
    /// Events that were lost just before the next record.
    lost: u64,
}

impl BlktraceFile {
    /// Makes the next record ready; `Err` says what is wrong with it, and nothing follows.
    fn advance(&mut self) -> Result<Result<(), RecordingDamage>, TraceError> {
        self.next = None;
        let offset = self.input.offset();
        let size = self.layout.record_bytes();
        let bytes = self.input.take(size)?;
        if bytes.is_empty() {
            return Ok(Ok(()));
        }
        if bytes.len() < size {
            return Ok(Err(self
                .input
                .damage(offset, "the last record is cut short")));
        }
        if BlktraceLayout::of(bytes) != Some(self.layout) {
            return Ok(Err(self
                .input
                .damage(offset, "here a record should begin, but none does")));
        }
        let mut record = self.layout.record(bytes);
        if record.payload_bytes > 0 {
            let payload = self.input.take(usize::from(record.payload_bytes))?;
            if payload.len() < usize::from(record.payload_bytes) {
                let what = "what belongs to the last record is cut short";
                return Ok(Err(self.input.damage(offset, what)));
            }
            record.payload = Self::payload(self.layout, &record, payload);
        }
        if record.action & FLAG_NOTE == 0 {
            self.count(&record);
        }
        self.next = Some(record);
        Ok(Ok(()))
    }

    /// Counts what was lost before a record.
    fn count(&mut self, record: &BlktraceRecord) {
        let of = (record.device, record.processor);
        let known = self.last_numbers.get(&of).copied();
        if known.is_none() && self.last_numbers.len() >= NUMBERED_MAX {
            return;
        }
        let step = known.map_or(1, |last| record.number.wrapping_sub(last));
        // A step backwards is another trace behind the first, not a loss.
        if (2..1 << 31).contains(&step) {
            self.lost = u64::from(step - 1);
        }
        self.last_numbers.insert(of, record.number);
    }

    /// A cut's sector is big endian on every machine; a time of day is two words of this one.
    fn payload(layout: BlktraceLayout, record: &BlktraceRecord, payload: &[u8]) -> u64 {
        let Some(last) = payload.last_chunk::<8>() else {
            return 0;
        };
        if record.action & FLAG_NOTE == 0 {
            return u64::from_be_bytes(*last);
        }
        let (seconds, nanos) = (layout.u32_at(last, 0), layout.u32_at(last, 4));
        u64::from(seconds) * 1_000_000_000 + u64::from(nanos)
    }
}

struct BlktraceReader {
    state: TraceReadState,
    files: Vec<BlktraceFile>,
    /// Times of the next records of the files.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    pairs: BlockEventPairer,
    /// The device that was met last, with its number among the targets.
    last_device: Option<(u32, u16)>,
    /// From the trace's clock to nanoseconds since 1970.
    clock_zero_unix_ns: Option<i128>,
    too_many: u64,
    is_done: bool,
}

/// The file that was found, and its neighbours of the other processors.
fn open(input: RecordingInput) -> Result<Box<dyn TraceSource>, TraceError> {
    let mut name = input.name().to_owned();
    let mut paths = Vec::new();
    if let Some(path) = input.path()
        && let Some(base) = base_of(path)
    {
        name = base.display().to_string();
        paths = files_of(&base);
        paths.retain(|other| other != path);
    }
    let mut inputs = vec![input];
    for path in paths {
        inputs.push(RecordingInput::open(&path)?);
    }
    let mut trace = BlktraceReader {
        state: TraceReadState::new(&name, "", CARRIES),
        files: Vec::new(),
        heads: BinaryHeap::new(),
        pairs: BlockEventPairer::default(),
        last_device: None,
        clock_zero_unix_ns: None,
        too_many: 0,
        is_done: false,
    };
    for input in inputs {
        trace.add(input)?;
    }
    Ok(Box::new(trace))
}

/// `sda.blktrace.3` is of the recording `sda`.
fn base_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (base, processor) = name.rsplit_once(".blktrace.")?;
    processor.parse::<u32>().ok()?;
    Some(path.with_file_name(base))
}

/// The files of all processors of a recording, by one of them.
pub(super) fn neighbours(path: &Path) -> Vec<PathBuf> {
    base_of(path).map_or_else(Vec::new, |base| files_of(&base))
}

/// The files of all processors of a recording, by its base name.
pub(super) fn files_of(base: &Path) -> Vec<PathBuf> {
    let folder = match base.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| base.with_file_name(entry.file_name()))
        .filter(|path| base_of(path).as_deref() == Some(base))
        .collect();
    found.sort();
    found.truncate(FILES_MAX);
    found
}

impl BlktraceReader {
    fn add(&mut self, input: RecordingInput) -> Result<(), TraceError> {
        let Some(layout) = BlktraceLayout::of(input.head()) else {
            // A processor on which nothing happened has an empty file.
            if !input.head().is_empty() {
                let damage = input.damage(0, "it does not begin with a record of blktrace");
                self.state.damage.get_or_insert(damage);
            }
            return Ok(());
        };
        self.state.about.format = format!("blktrace, version {}", layout.version);
        self.files.push(BlktraceFile {
            input,
            layout,
            next: None,
            last_numbers: BTreeMap::new(),
            lost: 0,
        });
        self.advance(self.files.len() - 1)
    }

    /// Makes the next record of a file ready.
    fn turn(&mut self, place: usize) -> Result<(), TraceError> {
        let file = &mut self.files[place];
        if let Err(damage) = file.advance()? {
            self.state.damage.get_or_insert(damage);
        }
        let lost = std::mem::take(&mut file.lost);
        self.state.lost += lost;
        // Known before what other processors did meanwhile is looked at.
        if let Some(next) = file.next.filter(|_| lost > 0) {
            self.pairs.lose(next.at_ns);
        }
        Ok(())
    }

    fn advance(&mut self, place: usize) -> Result<(), TraceError> {
        self.turn(place)?;
        if let Some(next) = self.files[place].next {
            self.heads.push(Reverse((next.at_ns, place)));
        }
        Ok(())
    }

    fn take(&mut self, record: &BlktraceRecord, into: &mut Vec<TraceRequest>) {
        if record.action & FLAG_NOTE != 0 {
            if record.action & 0xff == NOTE_TIME && record.payload > 0 {
                let zero = i128::from(record.payload) - i128::from(record.at_ns);
                self.clock_zero_unix_ns.get_or_insert(zero);
            }
            return;
        }
        let what = match record.action & 0xff {
            ACT_QUEUE => BlockEventAction::Queued,
            ACT_ISSUE => BlockEventAction::Issued,
            ACT_COMPLETE => BlockEventAction::Completed,
            ACT_SPLIT => BlockEventAction::Split(record.payload),
            _ => return,
        };
        let Some(kind) = kind(record.action, record.bytes > 0) else {
            return;
        };
        let Some(target) = self.target(record.device) else {
            self.too_many += 1;
            return;
        };
        let event = BlockEvent {
            at_ns: record.at_ns,
            what,
            kind,
            target,
            sector: record.sector,
            bytes: record.bytes,
        };
        self.pairs.push(&event, into);
    }

    fn target(&mut self, device: u32) -> Option<u16> {
        match self.last_device {
            Some((known, target)) if known == device => Some(target),
            _ => {
                let name = format!("{},{}", device >> 20, device & 0xf_ffff);
                let target = self.state.targets.place(name.as_bytes())?;
                self.last_device = Some((device, target));
                Some(target)
            }
        }
    }

    fn finish(&mut self, into: &mut Vec<TraceRequest>) -> Result<(), TraceError> {
        self.is_done = true;
        self.state.warnings.extend(self.pairs.finish(into));
        if self.too_many > 0 {
            self.state.warnings.push(format!(
                "{} events are of one device too many",
                self.too_many
            ));
        }
        let nothing = "no request was queued, issued or completed in it";
        match (&self.state.damage, self.pairs.origin_ns()) {
            (Some(damage), None) => Err(damage.clone().into()),
            (_, Some(_)) if !self.pairs.has_starts() => Err(self.state.refused(ONLY_ENDS)),
            (None, None) => Err(self.state.refused(nothing)),
            _ => Ok(()),
        }
    }
}

fn kind(action: u64, has_data: bool) -> Option<OpKind> {
    if action & FLAG_COMMAND != 0 {
        None
    } else if !has_data {
        (action & FLAG_FLUSH != 0).then_some(OpKind::Fsync)
    } else if action & FLAG_DISCARD != 0 {
        Some(OpKind::Discard)
    } else if action & FLAG_WRITE != 0 {
        Some(OpKind::Write)
    } else {
        Some(OpKind::Read)
    }
}

impl TraceSource for BlktraceReader {
    fn state(&self) -> &TraceReadState {
        &self.state
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        let unix_ns = self.clock_zero_unix_ns? + i128::from(self.pairs.origin_ns()?);
        u64::try_from(unix_ns).ok()
    }

    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        if self.is_done {
            return Ok(false);
        }
        let mut left = BATCH;
        while left > 0 {
            let Some(Reverse((_, place))) = self.heads.pop() else {
                self.finish(into)?;
                return Ok(false);
            };
            // As long as no other file has an earlier record, this one's follow each other.
            let until_ns = self.heads.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            while let Some(record) = self.files[place].next {
                if record.at_ns > until_ns || left == 0 {
                    self.heads.push(Reverse((record.at_ns, place)));
                    break;
                }
                left -= 1;
                self.take(&record, into);
                self.turn(place)?;
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{blktrace, read};
    use super::*;

    #[test]
    fn both_versions_and_byte_orders_tell_the_same() {
        let expect = [
            (0, Some(3_000), OpKind::Write, 0, 4_096, 512 * 100),
            (1_000, Some(3_000), OpKind::Fsync, 0, 0, 0),
            (2_000, Some(4_000), OpKind::Read, 1, 131_072, 512 * 8),
            (2_500, Some(7_500), OpKind::Discard, 0, 1 << 20, 0),
        ];
        for version in [7, 8] {
            for is_big_endian in [false, true] {
                let bytes = blktrace(version, is_big_endian);
                let (trace, found) = read(&FORMAT, &bytes);
                assert_eq!(found, expect, "{version} {is_big_endian}");
                assert_eq!(trace.about().format, format!("blktrace, version {version}"));
                assert_eq!(trace.targets(), ["8,16", "259,0"]);
                assert_eq!(trace.lost(), 2);
                assert_eq!(trace.origin_unix_ns(), Some(1_700_000_000_000_001_000));
                assert_eq!((trace.damage(), trace.warnings()), (None, &[][..]));
            }
        }
    }

    /// The records of a file with these changes: number of processor and of the record.
    fn changed(bytes: &[u8], change: impl Fn(usize, &mut [u8])) -> Vec<u8> {
        let head = 48 + 8;
        let mut all = bytes[..head].to_vec();
        for (place, record) in split_records(&bytes[head..]).into_iter().enumerate() {
            let mut record = record.to_vec();
            change(place, &mut record);
            all.extend(record);
        }
        all
    }

    #[test]
    fn records_of_several_processors_in_one_file_are_numbered_apart() {
        let merged = changed(&blktrace(7, false), |place, record| {
            let processor = u32::from(place % 2 == 1);
            let number = u32::try_from(place / 2).unwrap() + processor * 14_649_026;
            record[4..8].copy_from_slice(&number.to_le_bytes());
            record[40..44].copy_from_slice(&processor.to_le_bytes());
            // One device only, so that each processor has one row of numbers.
            record[36..40].copy_from_slice(&(8u32 << 20).to_le_bytes());
        });
        let (trace, found) = read(&FORMAT, &merged);
        assert_eq!((trace.lost(), found.len()), (0, 4));
    }

    #[test]
    fn a_file_of_ends_alone_says_what_is_missing() {
        let ends = changed(&blktrace(7, false), |_, record| record[28] = 8);
        let input = RecordingInput::new("f".into(), Box::new(std::io::Cursor::new(ends))).unwrap();
        let error = open(input).unwrap().read(&mut Vec::new()).unwrap_err();
        assert!(
            error.to_string().contains("only the ends of requests"),
            "{error}"
        );
    }

    #[test]
    fn damage_ends_a_file_and_what_was_before_is_kept() {
        let whole = blktrace(7, false);
        let (trace, found) = read(&FORMAT, &whole[..whole.len() - 10]);
        assert_eq!(found.len(), 4);
        assert_eq!(trace.damage().unwrap().offset, whole.len() as u64 - 48);
        let mut torn = whole.clone();
        torn[56 + 4 * 48 + 3] ^= 1;
        let (trace, _) = read(&FORMAT, &torn);
        assert!(trace.damage().unwrap().what.contains("should begin"));
    }

    #[test]
    fn the_files_of_all_processors_are_merged_by_time() {
        let folder = tempfile::tempdir().unwrap();
        let whole = blktrace(7, false);
        // The time of day belongs to what follows it; every other record is of another processor.
        let (mut even, mut odd) = (Vec::new(), Vec::new());
        let head = 48 + 8;
        even.extend_from_slice(&whole[..head]);
        for (place, record) in split_records(&whole[head..]).into_iter().enumerate() {
            if place % 2 == 0 { &mut even } else { &mut odd }.extend_from_slice(record);
        }
        let path = |suffix| folder.path().join(format!("sdb.blktrace.{suffix}"));
        std::fs::write(path("0"), even).unwrap();
        std::fs::write(path("11"), odd).unwrap();
        std::fs::write(path("2"), []).unwrap();
        std::fs::write(path("x"), b"not one of them").unwrap();
        for name in ["sdb", "sdb.blktrace.0", "sdb.blktrace.11"] {
            let mut trace = super::super::open(&folder.path().join(name)).unwrap();
            let mut found = Vec::new();
            while trace.read(&mut found).unwrap() {}
            assert_eq!(found.len(), 4, "{name}");
            assert!(found.iter().all(|request| request.took.is_some()), "{name}");
            assert!(trace.about().name.ends_with("sdb"), "{name}");
        }
    }

    fn split_records(mut bytes: &[u8]) -> Vec<&[u8]> {
        let mut records = Vec::new();
        while bytes.len() >= 48 {
            let length = 48 + usize::from(u16::from_le_bytes([bytes[46], bytes[47]]));
            let (record, rest) = bytes.split_at(length);
            records.push(record);
            bytes = rest;
        }
        records
    }
}
