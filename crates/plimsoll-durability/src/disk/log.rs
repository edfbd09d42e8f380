// SPDX-License-Identifier: Apache-2.0
//! The log: one entry for each write, in the order in which the disk completed them.

use plimsoll_core::num::to_usize;
use plimsoll_core::units::Nanos;
use plimsoll_machine::host::{HostTimeSource as _, SystemClock};
use std::fs::File;
use std::io;
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
    /// Everything that was completed before is durable now.
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

/// The log of a disk.
#[derive(Debug)]
pub struct DiskLog {
    /// The requests in their order.
    pub entries: Vec<DiskLogEntry>,
    /// The data of all writes.
    pub data: File,
}

/// A disk of this program, in use.
#[derive(Debug)]
pub struct LoggedDisk {
    bytes: u64,
    /// Most bytes of data that the log takes.
    data_max: u64,
    clock: SystemClock,
    state: Mutex<LoggedDiskState>,
}

#[derive(Debug)]
struct LoggedDiskState {
    /// The contents of the disk now.
    live: File,
    log: DiskLog,
    data_end: u64,
    /// Whether a write was refused because the log was full.
    is_full: bool,
}

impl LoggedDisk {
    /// A disk of this size that holds what `live` does, and logs the data of writes into `data`, which is
    /// empty, up to `data_max` bytes.
    #[must_use]
    pub fn new(live: File, data: File, bytes: u64, data_max: u64) -> Self {
        let log = DiskLog {
            entries: Vec::new(),
            data,
        };
        LoggedDisk {
            bytes,
            data_max,
            clock: SystemClock::new(),
            state: Mutex::new(LoggedDiskState {
                live,
                log,
                data_end: 0,
                is_full: false,
            }),
        }
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many requests are completed: an instant of the disk.
    #[must_use]
    pub fn position(&self) -> usize {
        self.lock().log.entries.len()
    }

    /// Time since the disk was made.
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.clock.now().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Whether a write was refused because the log was full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lock().is_full
    }

    /// The log, when nothing uses the disk any more.
    #[must_use]
    pub fn into_log(self) -> DiskLog {
        let state = self.state.into_inner();
        state.unwrap_or_else(PoisonError::into_inner).log
    }

    /// Reads.
    ///
    /// # Errors
    /// When the range lies outside, or the file fails.
    pub fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.check(offset, into.len() as u64)?;
        self.lock().live.read_exact_at(into, offset)
    }

    /// Writes, and logs it.
    ///
    /// # Errors
    /// When the range lies outside, the log is full, or a file fails.
    pub fn write(&self, data: &[u8], offset: u64, fua: bool) -> io::Result<()> {
        let bytes = data.len() as u64;
        self.check(offset, bytes)?;
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

    /// Writes zeros.
    ///
    /// # Errors
    /// As [`LoggedDisk::write`].
    pub fn zero(&self, offset: u64, bytes: u64, fua: bool) -> io::Result<()> {
        self.check(offset, bytes)?;
        let mut state = self.lock();
        super::image::punch(&state.live, offset, bytes)?;
        self.note(&mut state, DiskLogKind::Zero, offset, bytes, fua);
        Ok(())
    }

    /// Makes durable what was completed before.
    pub fn flush(&self) {
        let mut state = self.lock();
        self.note(&mut state, DiskLogKind::Flush, 0, 0, false);
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

    fn check(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let end = offset.checked_add(bytes);
        match end.is_some_and(|end| end <= self.bytes) {
            true => Ok(()),
            false => Err(rustix::io::Errno::INVAL.into()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LoggedDiskState> {
        // A thread that panicked has logged all that it completed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The first request behind the last flush before `position`: what is durable in any case ends there.
    #[must_use]
    pub fn durable_until(&self, position: usize) -> usize {
        let before = &self.entries[..position.min(self.entries.len())];
        let flush = before
            .iter()
            .rposition(|entry| entry.kind == DiskLogKind::Flush);
        flush.map_or(0, |at| at + 1)
    }

    /// How many requests were completed by this time.
    #[must_use]
    pub fn position_at(&self, at: Nanos) -> usize {
        self.entries.partition_point(|entry| entry.at <= at)
    }
}
