// SPDX-License-Identifier: Apache-2.0
//! A disk that logs every write and flush in its order, and what it would hold after a cut at any instant.

mod crash;
mod image;
mod log;
mod nbd;
#[cfg(test)]
mod tests;

pub use crash::{CacheLoss, CrashState, WriteFate, crash_state};
pub use image::{CrashImages, DiskImageError, copy_sparse};
pub use log::{DataAtRisk, DiskLog, DiskLogEntry, DiskLogKind, DiskPart, DiskShape, LoggedDisk};
pub use nbd::{NbdServer, serve};

/// Bytes that a device writes whole.
pub const SECTOR_BYTES: u64 = 512;
