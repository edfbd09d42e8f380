// SPDX-License-Identifier: Apache-2.0
//! The log: one entry for each write, in the order in which the disk completed them.

use super::SECTOR_BYTES;
use plimsoll_core::num::to_usize;
use plimsoll_core::units::Nanos;
use plimsoll_machine::host::{HostTimeSource as _, SystemClock};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, PoisonError};

/// The effect of a request on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskLogKind {
    /// Data, which lie in the log's file from this byte on.
    Write {
        /// Where.
        data_at: u64,
    },
    /// Zeros: a discard, or zeros that were asked for as such.
    Zero,
    /// Everything that was completed before in its range, which is a part of the disk, is durable now.
    Flush,
}

/// A request that was completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskLogEntry {
    /// Its effect.
    pub kind: DiskLogKind,
    /// From which byte of the disk on.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Whether it was durable by itself (forced unit access).
    pub fua: bool,
    /// When it was completed, on the clock of the disk.
    pub at: Nanos,
}

/// Data that were written and not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataAtRisk {
    /// When the last request before their flush was completed.
    pub until: Nanos,
    /// How many sectors.
    pub sectors: u64,
}

/// The log of a disk.
#[derive(Debug)]
pub struct DiskLog {
    /// The requests in their order.
    pub entries: Vec<DiskLogEntry>,
    /// The data of all writes.
    pub data: File,
    /// Size of each part, which is flushed by itself.
    pub part_bytes: u64,
}

/// Disks of this program, in use, that lose their power at one instant: parts of one that are served, and
/// flushed, by themselves.
#[derive(Debug)]
pub struct LoggedDisk {
    part_bytes: u64,
    /// Most bytes of data that the log takes.
    data_max: u64,
    clock: SystemClock,
    state: Mutex<LoggedDiskState>,
}

/// The size of a disk in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskShape {
    /// How many.
    pub parts: u64,
    /// Size of each.
    pub part_bytes: u64,
}

/// A part of a disk, which its server takes for the whole.
#[derive(Debug, Clone, Copy)]
pub struct DiskPart<'a> {
    disk: &'a LoggedDisk,
    offset: u64,
}

#[derive(Debug)]
struct LoggedDiskState {
    /// The contents of the disk now.
    live: File,
    log: DiskLog,
    data_end: u64,
    /// Whether a write was refused because the log was full.
    is_full: bool,
    /// The part whose power ends, and when.
    off: Option<PartOff>,
}

/// The end of the power of a part.
#[derive(Debug, Clone, Copy)]
struct PartOff {
    /// Where the part begins.
    offset: u64,
    at: Nanos,
}

impl LoggedDisk {
    /// A disk of `parts` parts of this size that holds what `live` does, and logs the data of writes into
    /// `data`, which is empty, up to `data_max` bytes.
    pub fn new(live: File, data: File, shape: DiskShape, data_max: u64) -> Self {
        let log = DiskLog {
            entries: Vec::new(),
            data,
            part_bytes: shape.part_bytes,
        };
        LoggedDisk {
            part_bytes: shape.part_bytes,
            data_max,
            clock: SystemClock::new(),
            state: Mutex::new(LoggedDiskState {
                live,
                log,
                data_end: 0,
                is_full: false,
                off: None,
            }),
        }
    }

    /// A part, from 0.
    pub fn part(&self, number: u64) -> DiskPart<'_> {
        DiskPart {
            disk: self,
            offset: number * self.part_bytes,
        }
    }

    /// Ends the power of a part at this time: each request to it fails from then on.
    pub fn end_power(&self, part: u64, at: Nanos) {
        let offset = part * self.part_bytes;
        self.lock().off = Some(PartOff { offset, at });
    }

    fn check_power(&self, part_offset: u64) -> io::Result<()> {
        let off = self.lock().off;
        match off.is_some_and(|off| off.offset == part_offset && off.at <= self.now()) {
            true => Err(rustix::io::Errno::IO.into()),
            false => Ok(()),
        }
    }

    /// How many requests are completed: an instant of the disk.
    pub fn position(&self) -> usize {
        self.lock().log.entries.len()
    }

    /// Time since the disk was made.
    pub fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.clock.now().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Whether a write was refused because the log was full.
    pub fn is_full(&self) -> bool {
        self.lock().is_full
    }

    /// The log, when nothing uses the disk any more.
    #[must_use]
    pub fn into_log(self) -> DiskLog {
        let state = self.state.into_inner();
        state.unwrap_or_else(PoisonError::into_inner).log
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.lock().live.read_exact_at(into, offset)
    }

    fn write(&self, data: &[u8], offset: u64, fua: bool) -> io::Result<()> {
        let bytes = data.len() as u64;
        let mut state = self.lock();
        let data_at = state.data_end;
        if data_at.saturating_add(bytes) > self.data_max {
            state.is_full = true;
            return Err(rustix::io::Errno::NOSPC.into());
        }
        state.log.data.write_all_at(data, data_at)?;
        state.live.write_all_at(data, offset)?;
        state.data_end += bytes;
        self.note(
            &mut state,
            DiskLogKind::Write { data_at },
            offset,
            bytes,
            fua,
        );
        Ok(())
    }

    fn zero(&self, offset: u64, bytes: u64, fua: bool) -> io::Result<()> {
        let mut state = self.lock();
        super::image::punch(&state.live, offset, bytes)?;
        self.note(&mut state, DiskLogKind::Zero, offset, bytes, fua);
        Ok(())
    }

    /// Makes durable what was completed before in the part that begins here.
    fn flush(&self, offset: u64) {
        let mut state = self.lock();
        self.note(&mut state, DiskLogKind::Flush, offset, 0, false);
    }

    /// Logs a request that is completed now.
    fn note(
        &self,
        state: &mut LoggedDiskState,
        kind: DiskLogKind,
        offset: u64,
        bytes: u64,
        fua: bool,
    ) {
        state.log.entries.push(DiskLogEntry {
            kind,
            offset,
            bytes,
            fua,
            at: self.now(),
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LoggedDiskState> {
        // A thread that panicked has logged all that it completed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DataAtRisk {
    /// Its share of the cuts: more than in proportion, since a checkpoint is flushed seldom and a log often.
    #[must_use]
    pub fn weight(self) -> u64 {
        self.sectors.saturating_mul(self.sectors)
    }
}

impl DiskPart<'_> {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.disk.part_bytes
    }

    /// Where a range of the part begins on the whole, while the part has power.
    fn begin_of(&self, offset: u64, bytes: u64) -> io::Result<u64> {
        self.disk.check_power(self.offset)?;
        let end = offset.checked_add(bytes);
        match end.is_some_and(|end| end <= self.bytes()) {
            true => Ok(self.offset + offset),
            false => Err(rustix::io::Errno::INVAL.into()),
        }
    }

    /// Reads.
    ///
    /// # Errors
    /// When the range lies outside, or the file fails.
    pub fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let begin = self.begin_of(offset, into.len() as u64)?;
        self.disk.read(into, begin)
    }

    /// Writes, and logs it.
    ///
    /// # Errors
    /// When the range lies outside, the log is full, or a file fails.
    pub fn write(&self, data: &[u8], offset: u64, fua: bool) -> io::Result<()> {
        let begin = self.begin_of(offset, data.len() as u64)?;
        self.disk.write(data, begin, fua)
    }

    /// Writes zeros.
    ///
    /// # Errors
    /// As [`DiskPart::write`].
    pub fn zero(&self, offset: u64, bytes: u64, fua: bool) -> io::Result<()> {
        self.disk.zero(self.begin_of(offset, bytes)?, bytes, fua)
    }

    /// Makes durable what was completed before.
    ///
    /// # Errors
    /// When the part has no power.
    pub fn flush(&self) -> io::Result<()> {
        self.disk.check_power(self.offset)?;
        self.disk.flush(self.offset);
        Ok(())
    }
}

impl DiskShape {
    /// One disk of this size.
    pub fn one(bytes: u64) -> Self {
        DiskShape {
            parts: 1,
            part_bytes: bytes,
        }
    }

    /// The size of all parts together.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.parts * self.part_bytes
    }
}

impl DiskLog {
    /// Reads the data of a write.
    ///
    /// # Errors
    /// When the file fails.
    pub fn data_of(&self, entry: &DiskLogEntry, into: &mut Vec<u8>) -> io::Result<()> {
        into.clear();
        let DiskLogKind::Write { data_at } = entry.kind else {
            return Ok(());
        };
        into.resize(to_usize(entry.bytes), 0);
        self.data.read_exact_at(into, data_at)
    }

    /// Of each part the first request behind its last flush before `position`: what is durable in any case
    /// ends there.
    pub fn durable_until(&self, position: usize) -> Vec<usize> {
        let mut until: Vec<usize> = Vec::new();
        for (at, entry) in self.entries.iter().take(position).enumerate() {
            let part = self.part_of(entry);
            if part >= until.len() {
                until.resize(part + 1, 0);
            }
            if entry.kind == DiskLogKind::Flush {
                until[part] = at + 1;
            }
        }
        until
    }

    /// The number of the part that a request belongs to.
    pub fn part_of(&self, entry: &DiskLogEntry) -> usize {
        to_usize(entry.offset / self.part_bytes)
    }

    /// The data at risk right before each flush among these requests.
    pub fn at_risk(&self, numbers: Range<usize>) -> Vec<DataAtRisk> {
        let mut sectors: BTreeMap<usize, u64> = BTreeMap::new();
        let mut found = Vec::new();
        let mut last = None;
        for entry in self.entries.get(numbers).unwrap_or_default() {
            let of_part = sectors.entry(self.part_of(entry)).or_default();
            match (entry.kind, last) {
                (DiskLogKind::Write { .. }, _) => *of_part += entry.bytes.div_ceil(SECTOR_BYTES),
                (DiskLogKind::Flush, Some(until)) if *of_part > 0 => found.push(DataAtRisk {
                    until,
                    sectors: std::mem::take(of_part),
                }),
                _ => {}
            }
            last = Some(entry.at);
        }
        found
    }

    /// How many requests were completed by this time.
    pub fn position_at(&self, at: Nanos) -> usize {
        self.entries.partition_point(|entry| entry.at <= at)
    }
}
