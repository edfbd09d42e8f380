// SPDX-License-Identifier: Apache-2.0
//! Lays out the data files of a workload: random contents, made durable before anything is measured.
//!
//! Afterwards nothing of them is in the page cache, as far as the system takes that advice, so that
//! every run begins alike: with a new file or one that is used again. Sets of files are laid out in
//! [`crate::trees`].
//!
//! Creates files in the given directory only, and never touches one it did not name.

use std::fs::File;
use std::io::{IoSliceMut, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::num::to_usize;
use plimsoll_core::rng::{Rng, Seed};
use rustix::fs::{Advice, FileType, OFlags, Stat};
use rustix::io::{ReadWriteFlags, preadv2};

use crate::engine::fill_random;
use crate::error::EngineError;
use crate::held::TargetHandle;

/// Name of a data file in a directory: of all workers, or of one.
pub(crate) fn data_file_name(base: &str, worker: Option<u32>) -> String {
    match worker {
        None => format!("plimsoll.{base}"),
        Some(worker) => format!("plimsoll.{base}.{worker}"),
    }
}

/// Base name of the one file of models.
pub(crate) const DATA_FILE: &str = "data";

/// Bytes per write of the layout.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
/// Pieces between syncs: bounds the dirty memory, and thereby how long a stop takes.
const PIECES_PER_SYNC: u64 = 64;

/// Makes sure that the data file at `path` has `bytes` random bytes, reusing one of that size that
/// has no holes: reads of holes, which discards leave, never reach the medium. One that could not
/// be finished is removed: its size would make it look whole.
pub(crate) fn data_file(
    held: &TargetHandle,
    path: &Path,
    bytes: u64,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    if held.look(path).is_ok_and(|found| is_whole(&found, bytes)) {
        let file = held.open(path, OFlags::RDONLY);
        let file = file.map_err(|e| EngineError::at("open", path, e))?;
        return sync(&file, path);
    }
    let laid_out = new_data_file(held, path, bytes, seed, stop);
    if laid_out.is_err() && held.is_file(path) {
        // The error that is reported is the one that began it.
        let _ = held.remove_file(path);
    }
    laid_out
}

/// Whether a file has this size, and blocks below all of it.
fn is_whole(found: &Stat, bytes: u64) -> bool {
    let blocks = u64::try_from(found.st_blocks).unwrap_or(0);
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && u64::try_from(found.st_size) == Ok(bytes)
        && blocks.saturating_mul(512) >= bytes
}

fn new_data_file(
    held: &TargetHandle,
    path: &Path,
    bytes: u64,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    let mut file = held
        .create(path)
        .map_err(|e| EngineError::at("create the data file", path, e))?;
    let mut rng = Rng::new(seed.derive("contents", 0));
    write_random(&mut file, path, bytes, &mut rng, stop)?;
    sync(&file, path)?;
    held.sync_names()
}

/// Appends `bytes` random bytes to `file`, which is at `path`.
pub(crate) fn write_random(
    file: &mut File,
    path: &Path,
    bytes: u64,
    rng: &mut Rng,
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    let mut piece = vec![0; PIECE_BYTES.min(to_usize(bytes))];
    let (mut left, mut n_pieces) = (bytes, 0u64);
    while left > 0 {
        if stop.load(Ordering::Relaxed) {
            return Err(EngineError::Stopped(format!(
                "lay out '{}'",
                path.display()
            )));
        }
        let len = piece.len().min(to_usize(left));
        fill_random(&mut piece[..len], rng);
        file.write_all(&piece[..len])
            .map_err(|e| EngineError::at("write the contents of", path, e))?;
        left -= len as u64;
        n_pieces += 1;
        if n_pieces.is_multiple_of(PIECES_PER_SYNC) {
            sync(file, path)?;
        }
    }
    Ok(())
}

fn sync(file: &File, path: &Path) -> Result<(), EngineError> {
    file.sync_all()
        .map_err(|e| EngineError::at("make durable", path, e))?;
    drop_pages(file);
    Ok(())
}

/// Most times that dropping pages is asked for.
const DROPS_MAX: u32 = 8;
/// Pages that are looked at to see whether a file is cached.
const LOOKS: u64 = 64;

/// Clean pages of the layout must not serve the reads of the run. Advice only: where it is not taken, a
/// buffered workload begins with a warm cache. Pages that the kernel holds at that moment (it moves them,
/// or frees memory) stay without a word, so this looks, and asks again.
fn drop_pages(file: &File) {
    for _ in 0..DROPS_MAX {
        let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        if !is_cached(file) {
            return;
        }
    }
}

/// Whether one of some pages of a file is in the page cache. Where that cannot be seen, it is not.
fn is_cached(file: &File) -> bool {
    let bytes = file.metadata().map_or(0, |found| found.len());
    let mut byte = [0];
    (0..LOOKS).any(|look| {
        let mut pieces = [IoSliceMut::new(&mut byte)];
        let at = bytes / LOOKS * look;
        preadv2(file, &mut pieces, at, ReadWriteFlags::NOWAIT).is_ok_and(|read| read > 0)
    })
}

/// Makes an empty file, for a run that fills it.
pub(crate) fn empty_file(held: &TargetHandle, path: &Path) -> Result<(), EngineError> {
    let made = held
        .create(path)
        .map_err(|e| EngineError::at("create", path, e));
    made.map(drop)
}

/// Makes sure that an earlier phase left a file here.
pub(crate) fn expect_file(held: &TargetHandle, path: &Path) -> Result<(), EngineError> {
    if held.is_file(path) {
        return Ok(());
    }
    Err(missing(path))
}

/// An earlier phase was to leave a file, and has not.
pub(crate) fn missing(path: &Path) -> EngineError {
    let text = format!(
        "'{}' was to be left by an earlier phase, and is not there; run the phase that writes it first",
        path.display()
    );
    EngineError::Workload(text)
}

/// Makes a file durable and drops its clean pages from the page cache, where the system takes that
/// advice.
pub fn go_cold(held: &TargetHandle, path: &Path) -> Result<(), EngineError> {
    let file = held.open(path, OFlags::RDONLY);
    sync(&file.map_err(|e| EngineError::at("open", path, e))?, path)
}

/// As [`go_cold`] for every file in the directory.
pub(crate) fn go_cold_below(held: &TargetHandle) -> Result<(), EngineError> {
    // One for all: many files would each wait for the journal.
    held.sync_all()?;
    let mut left = vec![held.path().to_path_buf()];
    while let Some(directory) = left.pop() {
        let listed = held.list(&directory);
        for (name, kind) in listed.map_err(|e| EngineError::at("list", &directory, e))? {
            let path = directory.join(name);
            if kind == FileType::Directory {
                left.push(path);
            } else if kind == FileType::RegularFile {
                let file = held.open(&path, OFlags::RDONLY);
                let file = file.map_err(|e| EngineError::at("open", &path, e))?;
                let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
            }
        }
    }
    Ok(())
}

/// How a data file is opened for a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DataFileOpenOptions {
    /// Around the page cache.
    pub(crate) direct: bool,
    /// Every write is durable when it ends.
    pub(crate) durable: bool,
}

/// Opens the data file for the run.
pub(crate) fn open_data(
    held: &TargetHandle,
    path: &Path,
    opening: DataFileOpenOptions,
) -> Result<OwnedFd, EngineError> {
    let DataFileOpenOptions { direct, durable } = opening;
    let mut flags = OFlags::RDWR;
    flags.set(OFlags::DIRECT, direct);
    flags.set(OFlags::DSYNC, durable);
    let verb = if direct {
        "open for direct I/O (does the file system allow it?)"
    } else {
        "open"
    };
    let file = held
        .open(path, flags)
        .map_err(|e| EngineError::at(verb, path, e))?;
    Ok(file.into())
}

/// Removes the files this module or a run may have made; those that are gone already are fine.
pub(crate) fn remove(
    held: &TargetHandle,
    paths: impl Iterator<Item = PathBuf>,
) -> Result<(), EngineError> {
    for path in paths {
        held.remove_file(&path)
            .map_err(|e| EngineError::at("remove", &path, e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_that_fails_leaves_no_file_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(data_file_name(DATA_FILE, None));
        let held = TargetHandle::directory(directory.path()).unwrap();
        let lay_out = |stop| data_file(&held, &path, 1 << 20, Seed(1), &AtomicBool::new(stop));
        assert!(lay_out(true).is_err() && !path.exists());
        lay_out(false).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 1 << 20);
        // One that is used again was whole, and stays.
        lay_out(true).unwrap();
        assert!(path.exists());
        // One with holes is not.
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        lay_out(false).unwrap();
        assert!(std::fs::read(&path).unwrap().iter().any(|byte| *byte != 0));
    }
}
