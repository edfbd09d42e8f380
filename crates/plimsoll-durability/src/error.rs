// SPDX-License-Identifier: Apache-2.0
//! Why durability could not be judged. A loss is no error.

use crate::disk::DiskImageError;
use plimsoll_machine::host::HostError;
use plimsoll_machine::journal::JournalError;
use plimsoll_machine::raise::RaiseError;
use std::io;

/// Why it could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum DurabilityError {
    /// This machine did not do what it was to.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The bench could not be raised.
    #[error("{0}")]
    Raise(Box<RaiseError>),
    /// A journal could not be begun.
    #[error(transparent)]
    Journal(JournalError),
    /// A file of this program failed.
    #[error("{what}: {source}")]
    File {
        /// The action, with the file.
        what: String,
        /// Why it was not.
        source: io::Error,
    },
    /// An image failed.
    #[error(transparent)]
    Image(#[from] DiskImageError),
    /// The witness is wrong: nothing is known of the server.
    #[error("the witness of {server} is wrong: {why}")]
    Witness {
        /// Name of the server.
        server: String,
        /// In which way.
        why: String,
    },
    /// The server does not work before any cut.
    #[error("{server} does not work before any cut: {why}")]
    Server {
        /// Name of the server.
        server: String,
        /// In which way.
        why: String,
    },
    /// The user stopped it.
    #[error("stopped")]
    Stopped,
}

impl DurabilityError {
    /// An error of a file.
    pub(crate) fn file(what: impl Into<String>) -> impl FnOnce(io::Error) -> DurabilityError {
        let what = what.into();
        move |source| DurabilityError::File { what, source }
    }
}
