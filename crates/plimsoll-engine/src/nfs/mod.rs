// SPDX-License-Identifier: Apache-2.0
//! Workloads on the export of an NFS server that no kernel has mounted.
//!
//! Block I/O goes through [`pipe`], many calls in flight; file loops through [`tree`], one call per
//! thread, as a program's system calls would. Names and attributes are `plimsoll-nfs`'s.
//! There is no page cache and no direct I/O here: every read is a call, and every write too.

mod calls;
mod kept;
mod pipe;
mod tree;
pub(crate) mod trees;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::num::to_usize;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_nfs::{NfsAddress, NfsFileHandle, NfsMount, NfsSession, StableHow};

use crate::engine::{IoEngine, POOL_BYTES_MAX, affordable_slots, fill_random};
use crate::error::EngineError;
use crate::layout::PIECE_BYTES;
use calls::NfsDataClient;
use pipe::{NfsEngine, NfsTimeouts};
pub use tree::NfsFileLoopFiles;

/// Memory that a connection of a worker takes besides its buffers, at most, for each byte of these:
/// what is about to be sent, and what is kept until it is durable.
pub(crate) const COPIES: u64 = 4;

/// Most bytes that a worker keeps until they are durable, besides copies of its buffers.
pub(crate) const KEPT_BYTES_ALL: u64 = 2 * pipe::KEPT_BYTES as u64;

/// Most calls in flight on one connection.
const CALLS_MAX: u32 = 1024;

/// Files are written again so often when the server is restarted under them.
const LAYOUTS_MAX: u32 = 3;

/// A directory of ours on an export.
#[derive(Debug, Clone)]
pub struct NfsExportDir {
    share: Arc<NfsMount>,
    /// Below the export's root.
    directory: PathBuf,
}

impl NfsExportDir {
    /// Mounts the export.
    pub(crate) fn mount(address: &NfsAddress, directory: &Path) -> Result<Self, EngineError> {
        let share =
            NfsMount::mount(address).map_err(EngineError::doing(format!("mount {address}")))?;
        Ok(NfsExportDir {
            share: Arc::new(share),
            directory: directory.into(),
        })
    }

    /// Where our files lie, below the export's root.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A connection for names below the directory.
    pub(crate) fn names(&self) -> Result<NfsNameClient, EngineError> {
        let fault = EngineError::doing(format!("connect to {}", self.share.address()));
        let mut session = self.share.session().map_err(&fault)?;
        let root = session.walk(&self.directory);
        let (root, _) =
            root.map_err(|e| EngineError::at("find the directory", &self.directory, e))?;
        Ok(NfsNameClient {
            session,
            calls: NfsDataClient::new(Arc::clone(&self.share)),
            root,
        })
    }

    /// A thread's view of the file sets of a loop.
    pub(crate) fn tree(
        &self,
        trees: Arc<crate::trees::FileLoopSets>,
        durable: bool,
    ) -> Result<NfsFileLoopFiles, EngineError> {
        let names = self.names()?;
        let stable = if durable || self.share.address().sync {
            StableHow::File
        } else {
            StableHow::Unstable
        };
        Ok(NfsFileLoopFiles::new(
            names,
            trees,
            stable,
            Arc::clone(&self.share),
        ))
    }

    /// Opens an engine on a file, every write `durable` or not, with its description.
    pub(crate) fn open(
        &self,
        path: &Path,
        durable: bool,
        (depth, len_max): (u32, u32),
        seed: Seed,
    ) -> Result<(Box<dyn IoEngine>, String), EngineError> {
        let file = self.handle(path)?;
        let slots = affordable_slots(depth, len_max).min(CALLS_MAX);
        // The data of a write are durable with what is needed to read them: what O_DSYNC asks.
        let stable = if durable || self.share.address().sync {
            StableHow::Data
        } else {
            StableHow::Unstable
        };
        let share = Arc::clone(&self.share);
        let pipe = NfsEngine::open(
            share,
            file,
            (slots, len_max),
            stable,
            seed,
            NfsTimeouts::USUAL,
        );
        let pipe = pipe.map_err(EngineError::doing(format!(
            "connect to {}",
            self.share.address()
        )))?;
        let mut name = pipe.describe();
        if slots < depth {
            let mib = POOL_BYTES_MAX >> 20;
            name = format!(
                "{name}; depth {slots} instead of {depth} (at most {CALLS_MAX} calls, buffers of {mib} MiB)"
            );
        }
        Ok((Box::new(pipe), name))
    }

    fn handle(&self, path: &Path) -> Result<NfsFileHandle, EngineError> {
        let mut session = self
            .share
            .session()
            .map_err(|e| EngineError::at("reach", path, e))?;
        let found = session
            .walk(path)
            .map_err(|e| EngineError::at("open", path, e))?;
        Ok(found.0)
    }

    /// As [`crate::layout::data_file`].
    pub(crate) fn data_file(
        &self,
        path: &Path,
        bytes: u64,
        seed: Seed,
        stop: &AtomicBool,
    ) -> Result<(), EngineError> {
        let mut names = self.names()?;
        let name = file_name(path)?;
        if names.is_whole(name, bytes) {
            return Ok(());
        }
        let made = names.new_file(name, false, path)?;
        let resized = names.session.resize(&made, 0);
        resized.map_err(|e| EngineError::at("empty", path, e))?;
        let mut rng = Rng::new(seed.derive("contents", 0));
        let written = names.write_random(&made, path, bytes, &mut rng, stop);
        if written.is_err() {
            // The error that is reported is the one that began it.
            let _ = names.session.remove(&names.root, name);
        }
        written
    }

    /// As [`crate::layout::empty_file`], of `bytes` zeros.
    pub fn empty_file(&self, path: &Path, bytes: u64) -> Result<(), EngineError> {
        let mut names = self.names()?;
        let made = names.new_file(file_name(path)?, false, path)?;
        for size in [0, bytes] {
            let resized = names.session.resize(&made, size);
            resized.map_err(|e| EngineError::at("set the size of", path, e))?;
        }
        Ok(())
    }

    /// As [`crate::layout::expect_file`].
    pub fn expect_file(&self, path: &Path) -> Result<(), EngineError> {
        let mut names = self.names()?;
        let found = names.session.find(&names.root, file_name(path)?);
        if found.is_ok_and(|(_, attributes)| attributes.is_file) {
            return Ok(());
        }
        Err(crate::layout::missing(path))
    }

    /// As [`crate::layout::remove`].
    pub fn remove(&self, paths: impl Iterator<Item = PathBuf>) -> Result<(), EngineError> {
        let mut names = self.names()?;
        for path in paths {
            let removed = names.session.remove(&names.root, file_name(&path)?);
            gone(removed).map_err(|e| EngineError::at("remove", &path, e))?;
        }
        Ok(())
    }
}

/// An entry that is gone already is no error.
pub(crate) fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOENT.raw_os_error()) => {
            Ok(())
        }
        other => other,
    }
}

fn file_name(path: &Path) -> Result<&str, EngineError> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.ok_or_else(|| EngineError::Workload(format!("'{}' names no file", path.display())))
}

/// A connection for names and contents below a directory.
#[derive(Debug)]
pub(crate) struct NfsNameClient {
    pub(crate) session: NfsSession,
    calls: NfsDataClient,
    /// The directory.
    pub(crate) root: NfsFileHandle,
}

impl NfsNameClient {
    /// Makes a file, or gives the one that is there unless it must be made `anew`.
    pub(crate) fn new_file(
        &mut self,
        name: &str,
        anew: bool,
        path: &Path,
    ) -> Result<NfsFileHandle, EngineError> {
        let made = self.session.create(&self.root, name, anew);
        let (made, _) = made.map_err(|e| EngineError::at("create", path, e))?;
        Ok(made)
    }

    /// Whether a file has this size, and blocks below all of it.
    fn is_whole(&mut self, name: &str, bytes: u64) -> bool {
        let found = self.session.find(&self.root, name);
        found.is_ok_and(|(_, found)| {
            found.is_file && found.size_bytes == bytes && found.held_bytes >= bytes
        })
    }

    /// Writes `bytes` random bytes from the start of a file, and makes them durable. When the server
    /// is restarted meanwhile it is done again.
    pub(crate) fn write_random(
        &mut self,
        file: &NfsFileHandle,
        path: &Path,
        bytes: u64,
        rng: &mut Rng,
        stop: &AtomicBool,
    ) -> Result<(), EngineError> {
        let mut attempt = 1;
        // Bounded by `LAYOUTS_MAX` attempts.
        loop {
            match self.write_random_once(file, path, bytes, rng, stop) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) if attempt == LAYOUTS_MAX => {
                    return Err(EngineError::at("make durable", path, error));
                }
                Ok(Err(_)) => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// The inner error is of data that were answered and may be lost.
    fn write_random_once(
        &mut self,
        file: &NfsFileHandle,
        path: &Path,
        bytes: u64,
        rng: &mut Rng,
        stop: &AtomicBool,
    ) -> Result<io::Result<()>, EngineError> {
        let mut piece = vec![0; PIECE_BYTES.min(to_usize(bytes))];
        let (mut offset, mut verifier) = (0, None);
        while offset < bytes {
            if stop.load(Ordering::Relaxed) {
                return Err(EngineError::Stopped(format!(
                    "lay out '{}'",
                    path.display()
                )));
            }
            let len = piece.len().min(to_usize(bytes - offset));
            fill_random(&mut piece[..len], rng);
            let written = self
                .calls
                .write_all(file, offset, &piece[..len], StableHow::Unstable)
                .map_err(|e| EngineError::at("write the contents of", path, e))?;
            verifier = match calls::agree(verifier, written) {
                Ok(verifier) => verifier,
                Err(error) => return Ok(Err(error)),
            };
            offset += len as u64;
        }
        Ok(self.calls.commit(file, verifier))
    }
}
