// SPDX-License-Identifier: Apache-2.0
//! Run folders: one folder per run, append-only, readable up to the last whole line after a crash.
//!
//! ```text
//! FOLDER/manifest.json   what was planned, where, with what; written before the first trial
//! FOLDER/events.jsonl    one event per line, in order, appended as it happens
//! FOLDER/disks.meta, .index, .0, …   what the disks of this machine counted, a PCP archive
//! FOLDER/report.html     the report; derived, can be made again at any time
//! ```
//! Since format 2.2 the manifest and every event begin with a checksum: `{"crc32c":"89abcdef",`, CRC-32C
//! of all bytes behind that comma. A damaged event is left out with a warning; a damaged manifest is
//! refused. Reading keeps the results of all trials and joins their seconds; it takes at most
//! sixteen times the bytes of the folder, and far less of one that this program wrote.
//!
//! Only this crate knows that layout. Recording never stops a measurement: a writer that cannot
//! write remembers the first failure and says so at the end. Nothing here interprets results.
#![forbid(unsafe_code)]

mod cells;
mod read;
mod result_file;
mod sealed;
mod strip;
mod write;

pub use cells::Cells;
pub use read::open;
pub use result_file::{ResultFile, write_result};
pub use write::{Writer, check_free, write_report};

use plimsoll_core::format::FormatVersion;
use std::io;
use std::path::PathBuf;

const MANIFEST: &str = "manifest.json";
const EVENTS: &str = "events.jsonl";
const DISKS: &str = "disks";
/// Name of the report inside a run folder.
pub const REPORT: &str = "report.html";

/// Why a run folder cannot be written or read; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The system refused.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder for a new run already holds something.
    #[error("create the run folder {}: it exists and is not empty; choose another with -o", .0.display())]
    Occupied(PathBuf),
    /// The folder is not a run folder.
    #[error("read {}: it holds no {MANIFEST}, so it is not a run folder", .0.display())]
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
        /// What is wrong with it.
        reason: String,
    },
}

fn io_error(
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
