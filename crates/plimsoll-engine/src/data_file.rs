// SPDX-License-Identifier: Apache-2.0
//! Operations of workers on one file that is their own or shared, and not one of a tree.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, ReadWriteFlags};

/// Writes at the end, as it is when the kernel has the file locked: workers that append to one file
/// must not overwrite each other.
pub(crate) fn append(file: &OwnedFd, bytes: &[u8]) -> Result<u64, Errno> {
    let pieces = [IoSlice::new(bytes)];
    Ok(rustix::io::pwritev2(file, &pieces, 0, ReadWriteFlags::APPEND)? as u64)
}

/// Closes a second descriptor of the file. Every close makes a network file system write back
/// what it holds; the file itself stays open for those who work on it still.
pub(crate) fn close(file: &OwnedFd) -> Result<u64, Errno> {
    let second = rustix::io::dup(file)?;
    // Errors of close itself are not seen; a failed write-back shows at the fsync.
    drop(second);
    Ok(0)
}
