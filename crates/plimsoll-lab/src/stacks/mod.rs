// SPDX-License-Identifier: Apache-2.0
//! Stacks: recipes that make a directory to measure on. One folder per stack.
//!
//! Invariants: a recipe is a pure function from options and facts to a plan; everything it makes
//! lies in one marked directory of the base directory, carries the identifier of its journal in
//! its marks and names, and has an undo. How plans are carried out is in [`crate::raise`]; how a
//! stack is brought up and down, with all checks before it, is in [`manage`].

pub mod iscsi;
pub mod local;
pub mod manage;
mod needs;
mod node;
pub mod raid1;
#[cfg(test)]
mod snapshot;

pub use manage::{DownError, Status, Up, UpError, down, hold, status, up};
pub use needs::Needs;

use plimsoll_core::plan::Plan;
use std::fmt;
use std::path::PathBuf;

/// All stacks, in the order in which they are listed.
pub const ALL: [&dyn Stack; 3] = [&local::Local, &iscsi::Iscsi, &raid1::Raid1];

/// A stack by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Stack> {
    ALL.into_iter().find(|stack| stack.name() == name)
}

/// Smallest size of a node: btrfs needs about 110 MiB on each of two devices, and below this the
/// file systems change their layout.
pub const MIN_SIZE_BYTES: u64 = 256 << 20;

/// Room left over in the base directory: a full disk harms others and changes the measurement.
const SPARE_BYTES: u64 = 512 << 20;

/// What the user may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where the image files lie: this disk is what is measured in the end.
    pub base_dir: PathBuf,
    /// Size of each node's disk.
    pub size_bytes: u64,
    /// First TCP port of the loopback address; `iscsi` uses it, `raid1` the two after it.
    pub first_port: u16,
}

impl Options {
    /// 2 GiB per node, ports from 13260.
    #[must_use]
    pub fn new(base_dir: PathBuf) -> Self {
        Options {
            base_dir,
            size_bytes: 2 << 30,
            first_port: 13_260,
        }
    }
}

/// What a recipe must know of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Identifier of the journal: lower-case letters, digits and `-`.
    pub id: String,
    /// Free room in the base directory.
    pub free_bytes: u64,
    /// Alignment direct I/O needs in the base directory; 0 when it does not work there.
    pub direct_align_bytes: u32,
}

/// Why a stack cannot be made here: everything that is missing, each with what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet(pub Vec<String>);

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for Unmet {}

/// A recipe.
pub trait Stack: fmt::Debug + Sync {
    /// Its name: lower-case letters and digits.
    fn name(&self) -> &'static str;

    /// What it is made of, in one line, for reports.
    fn description(&self) -> &'static str;

    /// What must be there before it can be planned.
    fn needs(&self) -> Needs;

    /// The directory to measure on.
    fn mount_dir(&self, options: &Options) -> PathBuf;

    /// The steps.
    ///
    /// # Errors
    /// When the options and the machine do not allow it.
    fn plan(&self, options: &Options, facts: &Facts) -> Result<Plan, Unmet>;
}

/// The marked directory of a stack.
fn stack_dir(name: &str, options: &Options) -> PathBuf {
    options.base_dir.join(format!("plimsoll-{name}"))
}
