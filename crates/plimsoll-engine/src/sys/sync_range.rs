// SPDX-License-Identifier: Apache-2.0
//! `sync_file_range`, which the safe bindings leave out: it starts the write-back of a part of a
//! file and waits for it, without making it durable.
#![expect(unsafe_code, reason = "a system call without a safe binding")]

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;

/// Wait for write-back under way, start it for what is dirty, wait for that.
pub(crate) const SYNC_RANGE_FLAGS: u32 = libc::SYNC_FILE_RANGE_WAIT_BEFORE
    | libc::SYNC_FILE_RANGE_WRITE
    | libc::SYNC_FILE_RANGE_WAIT_AFTER;

/// Writes back the pages of `len` bytes at `offset`; with `len` 0, up to the end of the file.
///
/// # Errors
/// The system's error; `EINVAL` when the range does not fit.
pub(crate) fn sync_file_range(file: &OwnedFd, offset: u64, len: u64) -> Result<(), Errno> {
    let offset = i64::try_from(offset).map_err(|_| Errno::INVAL)?;
    let len = i64::try_from(len).map_err(|_| Errno::INVAL)?;
    // SAFETY: the call touches no memory of this process, and the descriptor is open.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, SYNC_RANGE_FLAGS) };
    match result {
        0 => Ok(()),
        _ => {
            let error = std::io::Error::last_os_error();
            Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
    }
}
