// SPDX-License-Identifier: Apache-2.0
//! The directory that holds journals and, by default, the files of stacks.

use rustix::fs::{AtFlags, Dir, FileType, unlinkat};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::host::places::{self, PlaceError};
use crate::host::{HostProcessId, is_alive};

/// Others may see what is there: virtual machines of all users begin with the same image.
const STATE_MODE: u32 = 0o755;

/// Journals contain commands, options of ssh and marks: no other user may read them.
const JOURNALS_MODE: u32 = 0o700;

/// Where this program keeps what must survive it. Which place that is, the caller decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// The state directory at `path`, created when it is first written to.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        StateDir(path.into())
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where stacks keep their files by default.
    pub fn stacks(&self) -> PathBuf {
        self.0.join("stacks")
    }

    /// Where journals are.
    pub fn journals(&self) -> PathBuf {
        self.0.join("journals")
    }

    /// Files of all journals, sorted. An absent directory has none.
    ///
    /// # Errors
    /// When the directory is not ours alone, or cannot be read.
    pub fn journal_files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = self.files()?;
        files.retain(|path| path.extension().is_some_and(|ext| ext == "jsonl"));
        Ok(files)
    }

    /// The directory of journals, held open; `None` when it is not there.
    ///
    /// A user who can put a file there decides what undoing carries out, so it is used only when it and the
    /// way to it are ours.
    fn hold(&self) -> Result<Option<OwnedFd>, PlaceError> {
        match places::hold(&self.0)? {
            Some(_) => places::hold(&self.journals()),
            None => Ok(None),
        }
    }

    /// The same, made when it is missing.
    pub(super) fn hold_made(&self) -> Result<OwnedFd, PlaceError> {
        places::hold_made(&self.0, STATE_MODE)?;
        places::hold_made(&self.journals(), JOURNALS_MODE)
    }

    /// The name under which `owner` prepares a journal.
    pub(super) fn temporary(&self, owner: &HostProcessId) -> PathBuf {
        let HostProcessId {
            pid,
            started_ticks,
            boot,
        } = owner;
        self.journals()
            .join(format!("{pid}_{started_ticks}_{boot}.tmp"))
    }

    /// Files that processes which are gone were preparing. Files that only look like them are
    /// not ours.
    ///
    /// # Errors
    /// As [`StateDir::journal_files`].
    pub fn abandoned(&self) -> io::Result<Vec<PathBuf>> {
        let Some(held) = self.hold()? else {
            return Ok(Vec::new());
        };
        let mut files = self.files()?;
        files.retain(|path| {
            let name = path.file_name().unwrap_or_default();
            let is_ours = places::look(&held, name).is_ok_and(|found| {
                places::kind(&found) == FileType::RegularFile && places::is_ours(&found)
            });
            is_ours && preparing(name).is_some_and(|owner| !is_alive(&owner))
        });
        Ok(files)
    }

    /// Removes [`StateDir::abandoned`].
    pub(crate) fn remove_abandoned(&self) -> io::Result<()> {
        let Some(held) = self.hold()? else {
            return Ok(());
        };
        for path in self.abandoned()? {
            let name = path.file_name().unwrap_or_default();
            match unlinkat(&held, name, AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let Some(held) = self.hold()? else {
            return Ok(Vec::new());
        };
        let mut files = Vec::new();
        for entry in Dir::read_from(&held)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                files.push(self.journals().join(OsStr::from_bytes(name)));
            }
        }
        files.sort();
        Ok(files)
    }
}

/// Who prepares a journal under this name, which is whole only as we make it: number of the process, its
/// start, the boot.
fn preparing(name: &OsStr) -> Option<HostProcessId> {
    let mut parts = name.to_str()?.strip_suffix(".tmp")?.split('_');
    let owner = HostProcessId {
        pid: parts.next()?.parse().ok().filter(|pid| *pid > 0)?,
        started_ticks: parts.next()?.parse().ok()?,
        boot: parts.next()?.into(),
    };
    // As the kernel writes an identifier: 8-4-4-4-12 hexadecimal digits.
    let lengths = owner.boot.split('-').map(str::len);
    let is_boot = lengths.eq([8, 4, 4, 4, 12])
        && owner
            .boot
            .chars()
            .all(|c| c == '-' || c.is_ascii_hexdigit());
    (parts.next().is_none() && is_boot).then_some(owner)
}
