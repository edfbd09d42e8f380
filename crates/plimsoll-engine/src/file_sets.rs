// SPDX-License-Identifier: Apache-2.0
//! The file sets of a loop where they lie: in a directory, or on an export.

use std::sync::atomic::AtomicBool;

use plimsoll_core::rng::Seed;

use crate::error::Error;
use crate::held::Held;
use crate::nfs::{self, Export};
use crate::trees::{Grove, Known, layout};

/// Where the sets of a loop lie.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Where<'a> {
    /// In a directory.
    Directory(&'a Held),
    /// On an export that this program speaks with itself.
    Export(&'a Export),
}

impl Where<'_> {
    /// Makes the directories and the existing files of `sets`.
    pub(crate) fn lay_out(self, sets: &Known, seed: Seed, stop: &AtomicBool) -> Result<(), Error> {
        match self {
            Where::Directory(directory) => layout::lay_out(directory, sets, seed, stop),
            Where::Export(export) => nfs::trees::lay_out(export, sets, seed, stop),
        }
    }

    /// Removes all that the layout of `sets` or a run may have made.
    pub(crate) fn remove(self, sets: &Known) -> Result<(), Error> {
        match self {
            Where::Directory(directory) => layout::remove(directory, sets),
            Where::Export(export) => nfs::trees::remove(export, sets),
        }
    }

    /// The files of a set in the order in which its directories list them.
    pub(crate) fn listing(self, grove: &Grove) -> Result<Vec<u32>, Error> {
        match self {
            Where::Directory(directory) => layout::listing(directory, grove),
            Where::Export(export) => nfs::trees::listing(export, grove),
        }
    }
}
