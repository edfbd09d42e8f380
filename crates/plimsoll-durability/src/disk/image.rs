// SPDX-License-Identifier: Apache-2.0
//! Images of the disk after cuts, made from what it held before the load and from its log.

use super::crash::{CrashState, WriteFate, sectors};
use super::log::{DiskLog, DiskLogEntry, DiskLogKind};
use plimsoll_core::num::to_usize;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Copied at a time.
const PIECE: u64 = 1 << 20;

/// An image could not be made.
#[derive(Debug, thiserror::Error)]
#[error("make the image of a crash state: {0}")]
pub struct DiskImageError(#[from] pub io::Error);

/// Makes a range of a file read as zeros, and gives its room back.
pub(super) fn punch(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, flags, offset, bytes)?)
}

/// Makes one file a copy of another one of `bytes` bytes; what is a hole there is one here.
///
/// # Errors
/// When a file fails.
pub fn copy_sparse(from: &File, to: &File, bytes: u64) -> Result<(), DiskImageError> {
    to.set_len(bytes).map_err(DiskImageError)?;
    punch(to, 0, bytes)?;
    let mut piece = vec![0; to_usize(PIECE)];
    let mut at = 0;
    // Each turn is behind the one before.
    while at < bytes {
        let begin = match seek(from, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            // Nothing but a hole is left.
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            Err(errno) => return Err(DiskImageError(errno.into())),
        };
        let end = seek(from, SeekFrom::Hole(begin)).map_err(io::Error::from)?;
        let end = end.min(bytes);
        at = begin;
        while at < end {
            let now = to_usize((end - at).min(PIECE));
            from.read_exact_at(&mut piece[..now], at)?;
            to.write_all_at(&piece[..now], at)?;
            at += now as u64;
        }
    }
    Ok(())
}

/// Images of one load after its cuts. Those of later instants must come later.
#[derive(Debug)]
pub struct CrashImages<'a> {
    log: &'a DiskLog,
    bytes: u64,
    /// The durable contents before the request of number `applied`.
    durable: &'a File,
    applied: usize,
    buffer: Vec<u8>,
}

impl<'a> CrashImages<'a> {
    /// `durable` holds what the disk did before the log began, and is written to.
    pub fn new(log: &'a DiskLog, durable: &'a File, bytes: u64) -> Self {
        CrashImages {
            log,
            bytes,
            durable,
            applied: 0,
            buffer: Vec::new(),
        }
    }

    /// Writes the image of a state.
    ///
    /// # Errors
    /// When a file fails, or the instant of this state precedes that of the last one.
    pub fn build(&mut self, state: &CrashState, into: &File) -> Result<(), DiskImageError> {
        if state.durable_until < self.applied {
            let text = "the instants of cuts must not go back";
            return Err(DiskImageError(io::Error::other(text)));
        }
        for at in self.applied..state.durable_until {
            self.apply(&self.log.entries[at], WriteFate::Kept, self.durable)?;
        }
        self.applied = state.durable_until;
        copy_sparse(self.durable, into, self.bytes)?;
        let pending = &self.log.entries[state.durable_until..];
        for (entry, fate) in pending.iter().zip(&state.fates) {
            self.apply(entry, *fate, into)?;
        }
        Ok(())
    }

    fn apply(&mut self, entry: &DiskLogEntry, fate: WriteFate, to: &File) -> io::Result<()> {
        if fate == WriteFate::Dropped || entry.kind == DiskLogKind::Flush {
            return Ok(());
        }
        let DiskLogKind::Write { .. } = entry.kind else {
            return match fate {
                WriteFate::Kept => punch(to, entry.offset, entry.bytes),
                torn => zero_some(entry, torn, to),
            };
        };
        self.log.data_of(entry, &mut self.buffer)?;
        if fate == WriteFate::Kept {
            return to.write_all_at(&self.buffer, entry.offset);
        }
        for span in sectors(entry.offset, entry.bytes) {
            if fate.keeps(span.number) {
                let from = to_usize(span.begin - entry.offset);
                let data = &self.buffer[from..from + to_usize(span.bytes)];
                to.write_all_at(data, span.begin)?;
            }
        }
        Ok(())
    }
}

fn zero_some(entry: &DiskLogEntry, fate: WriteFate, to: &File) -> io::Result<()> {
    let kept = sectors(entry.offset, entry.bytes).filter(|span| fate.keeps(span.number));
    for span in kept {
        punch(to, span.begin, span.bytes)?;
    }
    Ok(())
}
