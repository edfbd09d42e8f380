// SPDX-License-Identifier: Apache-2.0
//! Errors that can end a run. Every text is a fragment that completes "failed to …".
//!
//! Failures of single operations are not here: they are counted in the statistics.

use std::io;
use std::path::Path;

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

/// Why the data plane gave up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A system call outside the measured operations failed.
    #[error("{doing}: {source}")]
    Io {
        /// The action that failed, with the path in it.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// The workload or the options cannot be carried out as given.
    #[error("run the workload: {0}")]
    Workload(String),
    /// A ledger cannot be kept or checked as it was asked for.
    #[error("use the ledger: {0}")]
    Ledger(String),
    /// A ledger is damaged: nothing can be said of the storage by it.
    #[error("judge what was written: {0}")]
    LedgerDamaged(String),
    /// The engine cannot do an operation of this workload.
    #[error(
        "run the workload: the engine {engine} has no operation '{kind}'; choose another engine"
    )]
    Unsupported {
        /// The operation.
        kind: OpKind,
        /// The engine's own name.
        engine: String,
    },
    /// A file set has no file that the next operation could use.
    #[error("find {0}")]
    NoFile(FileShortage),
    /// The first operations of a run all failed: nothing would be measured.
    #[error(
        "run the workload: the first {count} operations all failed, the last ({kind}): {source}"
    )]
    AllFailed {
        /// How many.
        count: u64,
        /// The last one's kind.
        kind: OpKind,
        /// The last one's error.
        source: io::Error,
    },
    /// A phase of a series could not be played.
    #[error("play the phase '{phase}': {source}")]
    Phase {
        /// Its name.
        phase: String,
        /// Why.
        source: Box<EngineError>,
    },
    /// The user stopped the program before anything was measured.
    #[error("{0}: stopped by the user")]
    Stopped(String),
}

/// A shortage of usable files in a file set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileShortage {
    /// The kind of file that was looked for.
    pub(crate) wanted: &'static str,
    /// Size of the file set.
    pub(crate) entries: u32,
    /// How long all that there are had been in use; `None` where there are none.
    pub(crate) busy_for: Option<Nanos>,
}

impl std::fmt::Display for FileShortage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FileShortage {
            wanted, entries, ..
        } = self;
        write!(f, "{wanted} in the file set of {entries} entries: ")?;
        match self.busy_for {
            None => f.write_str(
                "the system under test creates or deletes faster than the loop balances; use \
                 more entries or fewer threads",
            ),
            Some(time) => write!(
                f,
                "all have been in use for {time}: the system under test hangs, or the set needs \
                 more entries"
            ),
        }
    }
}

impl EngineError {
    /// The error with its phase. A stop by the user is no failure of a phase, so it is returned unchanged.
    pub(crate) fn in_phase(self, phase: &str) -> EngineError {
        match self {
            EngineError::Stopped(_) => self,
            error => EngineError::Phase {
                phase: phase.into(),
                source: Box::new(error),
            },
        }
    }

    /// Whether a file, or the directory it was in, is not there any more.
    pub fn is_of_what_is_gone(&self) -> bool {
        matches!(self, EngineError::Io { source, .. } if matches!(
            source.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::StaleNetworkFileHandle
        ))
    }

    /// A function for `map_err` that says what was being done.
    pub(crate) fn doing(doing: impl Into<String>) -> impl Fn(io::Error) -> EngineError {
        let doing = doing.into();
        move |source| EngineError::Io {
            doing: doing.clone(),
            source,
        }
    }

    /// An [`EngineError::Io`] about `path`.
    pub fn at(verb: &str, path: &Path, source: impl Into<io::Error>) -> EngineError {
        EngineError::Io {
            doing: format!("{verb} '{}'", path.display()),
            source: source.into(),
        }
    }
}
