// SPDX-License-Identifier: Apache-2.0
//! The file of a ledger: appended to by all sessions, read entry by entry.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_core::ledger::{
    ENTRY_BYTES_MAX, LedgerDecodeResult, LedgerEntry, LedgerFormatError, LedgerHeader, decode,
    encode,
};
use plimsoll_core::units::Nanos;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use plimsoll_engine::EngineError;
use plimsoll_engine::clock::RunClock;
use plimsoll_engine::held::TargetHandle;
use plimsoll_engine::sys::clock::HostClock;

/// Where entries become durable.
pub(super) trait LedgerSink: Send {
    /// Appends bytes, and returns when they are durable.
    fn append_durably(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl LedgerSink for File {
    fn append_durably(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)?;
        self.sync_data()
    }
}

/// A ledger that is being written. Shared by all sessions: what one of them waits for makes the
/// entries of all durable.
pub(super) struct LedgerWriter {
    waiting: Mutex<Waiting>,
    durable: Mutex<Durable>,
    clock: HostClock,
    doing: String,
    new: Option<NewFile>,
    /// The file, when room was reserved behind its end.
    reserved: Option<File>,
}

impl Drop for LedgerWriter {
    fn drop(&mut self) {
        if let Some(file) = &self.reserved {
            // Gives back what was not needed; a file that keeps it is none the worse.
            let _ = file.metadata().and_then(|facts| file.set_len(facts.len()));
        }
    }
}

/// A file that was made, and goes again unless it is to be kept: nothing was promised yet that it is needed
/// for, and it would be in the way of the next try.
pub(super) struct NewFile {
    held: TargetHandle,
    path: Mutex<Option<PathBuf>>,
}

impl NewFile {
    pub(super) fn of(held: TargetHandle, path: &Path) -> NewFile {
        let path = Mutex::new(Some(path.into()));
        NewFile { held, path }
    }

    pub(super) fn keep(&self) {
        locked(&self.path).take();
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(path) = locked(&self.path).take() {
            // The failure itself was reported already.
            let _ = self.held.remove_file(&path);
        }
    }
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Bytes appended in all.
    appended: u64,
}

struct Durable {
    sink: Box<dyn LedgerSink>,
    /// Bytes durable in all.
    bytes: u64,
    sync_max: Nanos,
    /// Why entries were lost: nothing may count any more.
    broken: Option<io::Error>,
}

impl LedgerWriter {
    /// A new ledger at `path`, which is removed with the writer unless it is to be kept. Room for `bytes`
    /// bytes is reserved where the file system can do that, so that a full disk is found before anything
    /// is promised.
    ///
    /// # Errors
    /// When it exists, or cannot be made.
    pub(super) fn create(path: &Path, bytes: u64) -> Result<Self, EngineError> {
        let mut options = OpenOptions::new();
        // Only the owner may read how the storage failed.
        let file = options.append(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|e| EngineError::at("create the ledger", path, e))?;
        let held = TargetHandle::directory_of(path)?;
        let new = Some(NewFile::of(held.clone(), path));
        claim(&file, path)?;
        held.sync_names()?;
        let fault = |e| EngineError::at("reserve room for the ledger", path, e);
        let reserved = match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes.max(1)) {
            Ok(()) => Some(file.try_clone().map_err(fault)?),
            Err(Errno::NOSPC | Errno::DQUOT) => return Err(fault(Errno::NOSPC.into())),
            Err(_) => None,
        };
        let mut writer = Self::on(Box::new(file), path);
        (writer.new, writer.reserved) = (new, reserved);
        Ok(writer)
    }

    /// From here on it stays, however it ends.
    pub(super) fn keep(&self) {
        self.new.iter().for_each(NewFile::keep);
    }

    /// A ledger that is there, to be appended to behind its last whole entry, which ends at
    /// `end_bytes`.
    ///
    /// # Errors
    /// When it cannot be opened or cut there.
    pub(super) fn extend(path: &Path, end_bytes: u64) -> Result<Self, EngineError> {
        let fault = |e| EngineError::at("append to the ledger", path, e);
        let file = OpenOptions::new().append(true).open(path).map_err(fault)?;
        claim(&file, path)?;
        file.set_len(end_bytes).map_err(fault)?;
        Ok(Self::on(Box::new(file), path))
    }

    pub(super) fn on(sink: Box<dyn LedgerSink>, path: &Path) -> Self {
        LedgerWriter {
            waiting: Mutex::default(),
            durable: Mutex::new(Durable {
                sink,
                bytes: 0,
                sync_max: Nanos(0),
                broken: None,
            }),
            clock: HostClock::start(),
            doing: format!("append to the ledger '{}'", path.display()),
            new: None,
            reserved: None,
        }
    }

    /// Appends an entry, to become durable with the next [`LedgerWriter::sync`].
    pub(super) fn append(&self, entry: &LedgerEntry) {
        let mut waiting = locked(&self.waiting);
        let before = waiting.bytes.len();
        encode(entry, &mut waiting.bytes);
        waiting.appended += (waiting.bytes.len() - before) as u64;
    }

    /// Returns when everything appended before is durable.
    ///
    /// # Errors
    /// When the ledger cannot be written: nothing may be submitted then.
    pub(super) fn sync(&self) -> Result<(), EngineError> {
        let wanted = locked(&self.waiting).appended;
        let mut durable = locked(&self.durable);
        let fault = |source| EngineError::Io {
            doing: self.doing.clone(),
            source,
        };
        if let Some(why) = &durable.broken {
            return Err(fault(alike(why)));
        }
        if durable.bytes >= wanted {
            return Ok(());
        }
        let (bytes, appended) = {
            let mut waiting = locked(&self.waiting);
            (std::mem::take(&mut waiting.bytes), waiting.appended)
        };
        let began = self.clock.now();
        let done = durable.sink.append_durably(&bytes);
        durable.broken = done.as_ref().err().map(alike);
        done.map_err(fault)?;
        durable.sync_max = durable.sync_max.max(self.clock.now().since(began));
        durable.bytes = appended;
        Ok(())
    }

    /// Longest time that entries took to become durable.
    pub(super) fn sync_max(&self) -> Nanos {
        locked(&self.durable).sync_max
    }
}

/// The same error for later callers.
fn alike(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// One program at a time appends.
fn claim(file: &File, path: &Path) -> Result<(), EngineError> {
    use rustix::fs::FlockOperation;
    let claimed = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    let verb = "lock (is it still being written?) the ledger";
    claimed.map_err(|e| EngineError::at(verb, path, e))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked leaves the data behind a lock valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a ledger ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LedgerTail {
    /// Where the last whole entry ends.
    pub(super) whole_bytes: u64,
    /// Bytes behind the last whole record.
    pub(super) unread_bytes: u64,
}

/// How far behind bytes that are no entry the next whole one is looked for: many times the longest.
const SEARCH_BYTES: u64 = 128 * ENTRY_BYTES_MAX as u64;

/// Whether a whole entry begins anywhere behind `at`: then what is there is no end that was being
/// appended when the writer was ended, but damage.
fn goes_on_behind(file: &mut File, at: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(at.saturating_add(1)))?;
    let mut bytes = Vec::new();
    file.take(SEARCH_BYTES).read_to_end(&mut bytes)?;
    let is_entry = |from: usize| matches!(decode(&bytes[from..]), LedgerDecodeResult::Entry(..));
    Ok((0..bytes.len()).any(is_entry))
}

fn damaged_at(path: &Path, at: u64) -> EngineError {
    EngineError::LedgerDamaged(format!(
        "the ledger '{}' is damaged at byte {at}, and has more entries after it",
        path.display()
    ))
}

/// Reads a ledger to its last whole entry, and gives every entry to `take`.
///
/// # Errors
/// When the file cannot be read, is no ledger of a version that is known, or is damaged before its
/// last entry.
pub(super) fn read(
    path: &Path,
    mut take: impl FnMut(LedgerEntry),
) -> Result<(LedgerHeader, LedgerTail), EngineError> {
    let mut file = File::open(path).map_err(|e| EngineError::at("open the ledger", path, e))?;
    let fault = |e| EngineError::at("read the ledger", path, e);
    let total = file.metadata().map_err(fault)?.len();
    // Records appended during this read are left out.
    let campaign = read_from((&mut file).take(total), &mut take).map_err(fault)?;
    let (campaign, whole_bytes) = match campaign {
        Ok(first) => first,
        Err(LedgerFormatError::Other) if goes_on_behind(&mut file, 0).map_err(fault)? => {
            return Err(damaged_at(path, 0));
        }
        Err(why) => {
            let text = format!("'{}' cannot be used: {why}", path.display());
            return Err(EngineError::Ledger(text));
        }
    };
    if whole_bytes < total && goes_on_behind(&mut file, whole_bytes).map_err(fault)? {
        return Err(damaged_at(path, whole_bytes));
    }
    let end = LedgerTail {
        whole_bytes,
        unread_bytes: total - whole_bytes,
    };
    Ok((campaign, end))
}

type First = Result<(LedgerHeader, u64), LedgerFormatError>;

/// The campaign, and where the last whole entry ends.
fn read_from(mut file: impl Read, take: &mut dyn FnMut(LedgerEntry)) -> io::Result<First> {
    let mut piece = vec![0u8; 64 * ENTRY_BYTES_MAX];
    let (mut held, mut whole) = (0, 0);
    let mut campaign = None;
    // Ends at the end of the file, or at the first bytes that are no entry.
    loop {
        let moved = file.read(&mut piece[held..])?;
        held += moved;
        let mut at = 0;
        let mut bad = false;
        // Each turn takes some bytes of a piece.
        loop {
            match decode(&piece[at..held]) {
                LedgerDecodeResult::Entry(entry, len) => {
                    if campaign.is_none() {
                        match LedgerHeader::first(Some(&entry)) {
                            Ok(found) => campaign = Some(found),
                            Err(why) => return Ok(Err(why)),
                        }
                    }
                    take(entry);
                    at += len;
                    whole += len as u64;
                }
                LedgerDecodeResult::Short => break,
                LedgerDecodeResult::Bad => {
                    bad = true;
                    break;
                }
            }
        }
        piece.copy_within(at..held, 0);
        held -= at;
        if moved == 0 || bad {
            let first = campaign.map_or_else(|| LedgerHeader::first(None), Ok);
            return Ok(first.map(|campaign| (campaign, whole)));
        }
    }
}
