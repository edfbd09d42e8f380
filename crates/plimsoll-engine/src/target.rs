// SPDX-License-Identifier: Apache-2.0
//! Carries out one request with plain system calls: on one file, or in a directory of files.
//!
//! Nothing here queues, stamps or counts; see [`crate::sync`] and [`crate::pool`].

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use plimsoll_core::op::{Kind, Request};
use plimsoll_core::units::Nanos;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::error::Error;
use crate::sys::sync_range::sync_file_range;

/// What requests act on.
#[derive(Debug)]
pub enum Target {
    /// One open file; requests name their offset.
    File(Arc<OwnedFd>),
    /// Files with 8-digit names in one directory, at most one of them open at a time.
    Tree {
        /// The directory.
        directory: OwnedFd,
        /// The open file.
        open: Option<OwnedFd>,
    },
}

impl Target {
    /// The files of a directory.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub fn tree(path: &Path) -> Result<Self, Error> {
        let directory = open_directory(path)?;
        Ok(Target::Tree {
            directory,
            open: None,
        })
    }

    /// A second handle on the same target, for another thread; `None` where state is per thread.
    #[must_use]
    pub fn share(&self) -> Option<Target> {
        match self {
            Target::File(file) => Some(Target::File(Arc::clone(file))),
            Target::Tree { .. } => None,
        }
    }

    /// Whether `kind` means something here.
    #[must_use]
    pub fn supports(&self, kind: Kind) -> bool {
        match self {
            Target::File(_) => matches!(
                kind,
                Kind::Read
                    | Kind::Write
                    | Kind::Append
                    | Kind::Fsync
                    | Kind::ReadWhole
                    | Kind::Fdatasync
                    | Kind::SyncRange
                    | Kind::Discard
                    | Kind::SyncAll
            ),
            Target::Tree { .. } => true,
        }
    }

    /// Carries out `request` with `buffer`, and waits for its end. The error is the system's
    /// number.
    ///
    /// # Errors
    /// What the system said; `EBADF` when a file should be open and none is.
    pub fn perform(&mut self, request: &Request, buffer: &mut [u8]) -> Result<u64, i32> {
        let moved = match self {
            Target::File(file) => on_file(file, request, buffer),
            Target::Tree { directory, open } => in_tree(directory, open, request, buffer),
        };
        moved.map_err(Errno::raw_os_error)
    }
}

/// The name of a file of a set.
#[must_use]
pub fn file_name(file: u32) -> String {
    format!("{file:08}")
}

pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .map_err(|e| Error::at("open the directory", path, e))
}

fn on_file(file: &OwnedFd, request: &Request, buffer: &mut [u8]) -> Result<u64, Errno> {
    let len = request.len as usize;
    match request.kind {
        Kind::Read => Ok(rustix::io::pread(file, &mut buffer[..len], request.offset)? as u64),
        Kind::Write => Ok(rustix::io::pwrite(file, &buffer[..len], request.offset)? as u64),
        Kind::Append => {
            rustix::fs::seek(file, SeekFrom::End(0))?;
            Ok(rustix::io::write(file, &buffer[..len])? as u64)
        }
        Kind::Fsync => rustix::fs::fsync(file).map(|()| 0),
        Kind::ReadWhole => read_whole(file, &mut buffer[..len]),
        Kind::Fdatasync => rustix::fs::fdatasync(file).map(|()| 0),
        Kind::SyncRange => {
            sync_file_range(file, request.offset, u64::from(request.len)).map(|()| 0)
        }
        Kind::Discard => {
            // Block devices take it too, as a discard.
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let len = u64::from(request.len);
            rustix::fs::fallocate(file, mode, request.offset, len).map(|()| 0)
        }
        Kind::SyncAll => {
            rustix::fs::sync();
            Ok(0)
        }
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// Reads to the end, the empty read included: that is how a program learns where the end is.
fn read_whole(file: &OwnedFd, piece: &mut [u8]) -> Result<u64, Errno> {
    let mut offset = 0;
    // Ends at the end of the file; nobody appends faster than this reads without end, since the
    // threads of a loop append at most once per turn.
    loop {
        let moved = rustix::io::pread(file, &mut *piece, offset)? as u64;
        if moved == 0 {
            return Ok(offset);
        }
        offset += moved;
    }
}

fn in_tree(
    directory: &OwnedFd,
    open: &mut Option<OwnedFd>,
    request: &Request,
    buffer: &mut [u8],
) -> Result<u64, Errno> {
    let name = || file_name(request.file);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match request.kind {
        Kind::Open => {
            *open = Some(rustix::fs::openat(directory, name(), flags, Mode::empty())?);
            Ok(0)
        }
        Kind::Create => {
            let (flags, mode) = (flags | OFlags::CREATE, Mode::from_raw_mode(0o666));
            *open = Some(rustix::fs::openat(directory, name(), flags, mode)?);
            Ok(0)
        }
        Kind::Close => {
            // What close itself reports is not seen; a failed write-back shows at the fsync.
            drop(open.take().ok_or(Errno::BADF)?);
            Ok(0)
        }
        Kind::Delete => rustix::fs::unlinkat(directory, name(), AtFlags::empty()).map(|()| 0),
        Kind::Stat => rustix::fs::statat(directory, name(), AtFlags::empty()).map(|_| 0),
        _ => on_file(open.as_ref().ok_or(Errno::BADF)?, request, buffer),
    }
}

/// Sleeps, or less when a signal arrives.
pub(crate) fn nap(time: Nanos) {
    let (seconds, rest) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
    let request = rustix::thread::Timespec {
        tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(rest).expect("less than a second"),
    };
    // An early end is allowed: the driver looks at its clock anyway.
    let _ = rustix::thread::nanosleep(&request);
}
