// SPDX-License-Identifier: Apache-2.0
//! The file sets of a loop where they lie: in a directory, or on an export.

use std::sync::atomic::AtomicBool;

use plimsoll_core::rng::Seed;

use crate::error::EngineError;
use crate::held::TargetHandle;
use crate::nfs::{self, NfsExportDir};
use crate::trees::{FileSetState, FileSetsByName, layout};

/// Where the sets of a loop lie.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileSetLocation<'a> {
    /// In a directory.
    Directory(&'a TargetHandle),
    /// On an export that this program speaks with itself.
    Export(&'a NfsExportDir),
}

impl FileSetLocation<'_> {
    /// Makes the directories and the existing files of `sets`. Only a local directory uses all `threads`.
    pub(crate) fn lay_out(
        self,
        sets: &FileSetsByName,
        (seed, threads): (Seed, u32),
        stop: &AtomicBool,
    ) -> Result<(), EngineError> {
        match self {
            FileSetLocation::Directory(directory) => {
                layout::lay_out(directory, sets, (seed, threads), stop)
            }
            FileSetLocation::Export(export) => nfs::trees::lay_out(export, sets, seed, stop),
        }
    }

    /// Removes all that the layout of `sets` or a run may have made.
    pub(crate) fn remove(self, sets: &FileSetsByName, threads: u32) -> Result<(), EngineError> {
        match self {
            FileSetLocation::Directory(directory) => layout::remove(directory, sets, threads),
            FileSetLocation::Export(export) => nfs::trees::remove(export, sets),
        }
    }

    /// The files of a set in the order in which its directories list them.
    pub(crate) fn listing(self, grove: &FileSetState) -> Result<Vec<u32>, EngineError> {
        match self {
            FileSetLocation::Directory(directory) => layout::listing(directory, grove),
            FileSetLocation::Export(export) => nfs::trees::listing(export, grove),
        }
    }
}
