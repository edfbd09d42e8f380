// SPDX-License-Identifier: Apache-2.0
//! Why a run folder cannot be written or read.

use plimsoll_core::format::FormatVersion;
use std::io;
use std::path::PathBuf;

use crate::layout::MANIFEST;

/// Why a run folder cannot be written or read; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The system refused.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// The step that failed.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder for a new run already holds something.
    #[error("create the run folder {}: it exists and is not empty; choose another with -o", .0.display())]
    Occupied(PathBuf),
    /// The folder is not a run folder.
    #[error("read {}: it contains no {MANIFEST}, so it is not a run folder", .0.display())]
    NotARun(PathBuf),
    /// A newer program wrote it.
    #[error("read {}: its format is {found} and this program reads up to {}; use a newer plimsoll", path.display(), FormatVersion::RUN)]
    Newer {
        /// The folder.
        path: PathBuf,
        /// Its format.
        found: FormatVersion,
    },
    /// The manifest is damaged.
    #[error("read {}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

pub(crate) fn io_error(
    doing: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> ArchiveError {
    let path = path.into();
    move |source| ArchiveError::Io {
        doing,
        path,
        source,
    }
}
