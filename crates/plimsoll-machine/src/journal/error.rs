// SPDX-License-Identifier: Apache-2.0
//! Why a journal cannot be used, for the person at the terminal.

use std::io;
use std::path::{Path, PathBuf};

use super::JournalScope;
use crate::host::PlaceError;

/// A journal that cannot be used; the text completes "failed to …: ".
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The undertaking is under way or standing already.
    #[error("there is a journal of {kind} already at {}", path.display())]
    Exists {
        /// Its kind.
        kind: JournalScope,
        /// Its file.
        path: PathBuf,
    },
    /// Another process works with it, or with what it made, at this moment.
    #[error("{kind} is in use by another plimsoll{}; wait for it or end it", process(*pid))]
    InUse {
        /// Its kind.
        kind: JournalScope,
        /// Its file.
        path: PathBuf,
        /// The process that uses it, where that can be found out.
        pid: Option<u32>,
    },
    /// It is to be used, and not all of it is there.
    #[error("{kind} is not up: it was taken down or left unfinished; see: plimsoll stack status")]
    NotStanding {
        /// Its kind.
        kind: JournalScope,
    },
    /// The directory it is in is not ours.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// It is not a journal of ours.
    #[error("{} {why}", path.display())]
    Unreadable {
        /// Its file.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// It was one, and not all of it can be read any more.
    #[error(
        "{} {why}; what carries its marks on this machine is removed anyway: check what else it \
         names, then remove it", path.display()
    )]
    Damaged {
        /// Its file.
        path: PathBuf,
        /// Where.
        why: String,
    },
    /// The system said no.
    #[error("could not {verb} {}: {source}", path.display())]
    Io {
        /// The action.
        verb: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl JournalError {
    pub(super) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
        let path = path.to_path_buf();
        move |source| JournalError::Io { verb, path, source }
    }

    /// Whether there is no such journal (any more).
    pub fn is_absent(&self) -> bool {
        matches!(self, JournalError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}
