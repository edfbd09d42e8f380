// SPDX-License-Identifier: Apache-2.0
//! Does the target store what it is given, at the right place, under concurrency?
//!
//! Blocks of stamped sectors are written at random places, as many at a time as there are slots.
//! Every acknowledged write is read back before its block is written again; at the end everything
//! is made durable and every block is read, also those never written, where a misplaced write
//! would lie. Buffers are overwritten before they are read into, so that a read that moves nothing
//! cannot find an answer from before. At most one operation per block is in flight, so what a read
//! must find is always known.
//!
//! Speed is not measured, and a target that lies only after a power cut is not found out.

mod check;
mod checked;
mod register;
mod registers;
mod stamp;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::data_check::BadBlocks;
pub use plimsoll_core::data_check::DataFlaw;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_nfs::NfsAddress;

use crate::choice::open_engine;
use crate::clock::RunClock;
use crate::drive::{DriverLimits, drive};
use crate::engine::IoEngine;
use crate::error::EngineError;
use crate::held::TargetHandle;
use crate::layout;
use crate::nfs::NfsExportDir;
use crate::recorder::SampleRecorder;
use crate::sys::clock::HostClock;
use check::VerifySource;
pub use checked::{DataCheckSource, read_back};
use plimsoll_core::op::EngineChoice;
pub use register::DataCheckRegister;
pub use register::DataCheckSnapshot;
pub(crate) use registers::DataCheckRegisterSet;
pub use registers::can_check_data;
pub use stamp::{
    DataCheckSectorState, DataCheckStamp, DataCheckStampOrigin, MAGIC, SECTOR_BYTES, read_sector,
};

/// Name of the file that is written in the directory and removed afterwards.
const VERIFY_FILE: &str = "plimsoll.verify";

/// Smallest block: what most file systems write at once.
const BLOCK_BYTES_MIN: u32 = 4096;

/// A target that is not done by then is reported as not verified.
const TIME_MAX: Nanos = Nanos(120_000_000_000);

/// How much to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Size of the file; at least one block per slot, rounded up.
    pub bytes: u64,
    /// Writes and reads before the final pass over all blocks.
    pub operations: u64,
    /// Operations in flight.
    pub depth: u32,
    /// Seed of places and contents. Use a new one for each run, or blocks of an earlier run could
    /// pass for those of this one.
    pub seed: Seed,
}

impl Default for VerifyOptions {
    /// 16 MiB, 8192 operations, depth 16: well below a second on a disk.
    fn default() -> Self {
        VerifyOptions {
            bytes: 16 << 20,
            operations: 8192,
            depth: 16,
            seed: Seed(0),
        }
    }
}

/// A block that did not read back as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyFinding {
    /// Byte offset of the block's first bad sector.
    pub offset: u64,
    /// The flaw in it.
    pub flaw: DataFlaw,
}

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Blocks written and acknowledged.
    pub written: u64,
    /// Blocks read and compared.
    pub checked: u64,
    /// Operations that failed with an error of the system.
    pub errors: u64,
    /// Blocks that were bad, counted at each read.
    pub bad: BadBlocks,
    /// The first 20 of them.
    pub findings: Vec<VerifyFinding>,
    /// The engine it was done with.
    pub engine: String,
    /// Whether `stop` or the time limit ended it early: then not everything was read.
    pub interrupted: bool,
}

impl VerifyReport {
    /// Whether everything was read back and was right.
    pub fn passed(&self) -> bool {
        self.bad.total() == 0 && self.errors == 0 && !self.interrupted && self.checked > 0
    }
}

/// Verifies the storage below the directory `path`, in a file that is removed afterwards, with
/// direct I/O unless `direct_align` is 0. Without direct I/O reads may be answered by the page
/// cache of this machine, which makes the verification weaker.
///
/// # Errors
/// When the file cannot be made, opened or removed, or the first 100 operations all fail. Bad
/// blocks are not an error but in the report.
pub fn verify(
    path: &Path,
    direct_align: u32,
    options: &VerifyOptions,
    stop: &AtomicBool,
) -> Result<VerifyReport, EngineError> {
    let held = TargetHandle::directory(path)?;
    let file = path.join(VERIFY_FILE);
    let report = verify_file((&held, &file), direct_align, options, stop);
    layout::remove(&held, std::iter::once(file))?;
    report
}

/// As [`verify`], in the directory `directory` of an NFS export that this program speaks with
/// itself: every read is answered by the server.
///
/// # Errors
/// As [`verify`]; when the export cannot be mounted.
pub fn verify_export(
    address: &NfsAddress,
    directory: &Path,
    options: &VerifyOptions,
    stop: &AtomicBool,
) -> Result<VerifyReport, EngineError> {
    let export = NfsExportDir::mount(address, directory)?;
    let path = directory.join(VERIFY_FILE);
    let block = BLOCK_BYTES_MIN;
    let report = export
        .empty_file(&path, size_bytes(options, block))
        .and_then(|()| export.open(&path, false, (options.depth, block), options.seed))
        .and_then(|(mut engine, name)| {
            let mut report = verify_engine(engine.as_mut(), block, options, stop)?;
            report.engine = name;
            Ok(report)
        });
    export.remove(std::iter::once(path))?;
    report
}

fn verify_file(
    (held, path): (&TargetHandle, &Path),
    direct_align: u32,
    options: &VerifyOptions,
    stop: &AtomicBool,
) -> Result<VerifyReport, EngineError> {
    let block = BLOCK_BYTES_MIN.max(direct_align);
    let fresh = held.create(path);
    let fresh = fresh.map_err(|e| EngineError::at("create", path, e))?;
    // A fresh file of holes reads as zeros, so what was never written is known too.
    fresh
        .set_len(size_bytes(options, block))
        .map_err(|e| EngineError::at("set the size of", path, e))?;
    drop(fresh);
    let opening = layout::DataFileOpenOptions {
        direct: direct_align > 0,
        durable: false,
    };
    let data = Arc::new(layout::open_data(held, path, opening)?);
    let choice = EngineChoice::Auto;
    let (mut engine, name) = open_engine(choice, &data, options.depth, block, options.seed)?;
    let mut report = verify_engine(engine.as_mut(), block, options, stop)?;
    report.engine = name;
    if direct_align == 0 {
        report.engine.push_str("; through the page cache");
    }
    Ok(report)
}

fn size_bytes(options: &VerifyOptions, block: u32) -> u64 {
    // Fewer blocks than slots would leave slots without work.
    let least = u64::from(block) * u64::from(options.depth.max(1)) * 2;
    options.bytes.max(least).next_multiple_of(u64::from(block))
}

/// Verifies with an engine on a file that holds only zeros, in blocks of `block_bytes` (a
/// multiple of 512).
///
/// # Errors
/// As [`verify`].
pub fn verify_engine(
    engine: &mut dyn IoEngine,
    block_bytes: u32,
    options: &VerifyOptions,
    stop: &AtomicBool,
) -> Result<VerifyReport, EngineError> {
    let clock = HostClock::start();
    let bytes = size_bytes(options, block_bytes);
    let mut source = VerifySource::new(engine.slots(), block_bytes, bytes, options);
    let limits = DriverLimits::real(clock.now() + TIME_MAX);
    let mut recorder = SampleRecorder::new(Nanos::MAX, ());
    let end = drive(engine, &clock, &mut source, &mut recorder, limits, stop)?;
    let finished = source.is_finished();
    let mut report = source.report;
    report.engine = engine.describe();
    report.interrupted = end.interrupted || !finished;
    Ok(report)
}

#[cfg(test)]
mod tests;
