// SPDX-License-Identifier: Apache-2.0
//! The directory that holds journals and, unless told otherwise, the files of stacks.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::host::{Owner, is_alive};

/// Where this program keeps what must survive it. Which place that is, the caller decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// The state directory at `path`, created when it is first written to.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        StateDir(path.into())
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where stacks keep their files by default.
    #[must_use]
    pub fn stacks(&self) -> PathBuf {
        self.0.join("stacks")
    }

    /// Where journals are.
    #[must_use]
    pub fn journals(&self) -> PathBuf {
        self.0.join("journals")
    }

    /// Files of all journals, sorted. An absent directory has none.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn journal_files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = self.files()?;
        files.retain(|path| path.extension().is_some_and(|ext| ext == "jsonl"));
        Ok(files)
    }

    /// The name under which `owner` prepares a journal.
    pub(super) fn temporary(&self, owner: &Owner) -> PathBuf {
        let Owner {
            pid,
            started_ticks,
            boot,
        } = owner;
        self.journals()
            .join(format!("{pid}_{started_ticks}_{boot}.tmp"))
    }

    /// Removes what processes that are gone were preparing when they ended.
    pub(crate) fn remove_abandoned_temporaries(&self) -> io::Result<()> {
        for path in self.files()? {
            if path.extension().is_none_or(|ext| ext != "tmp") {
                continue;
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let mut parts = name.splitn(3, '_');
            let mut part = || parts.next().unwrap_or_default().to_string();
            let owner = Owner {
                pid: part().parse().unwrap_or(0),
                started_ticks: part().parse().unwrap_or(0),
                boot: part(),
            };
            if !is_alive(&owner) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(self.journals()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut files = Vec::new();
        for entry in entries {
            files.push(entry?.path());
        }
        files.sort();
        Ok(files)
    }
}

/// Creates a directory (and its parents) that only we can write.
pub(super) fn create_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(dir)
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
