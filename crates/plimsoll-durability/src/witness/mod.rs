// SPDX-License-Identifier: Apache-2.0
//! Witnesses: who writes, notes what was acknowledged, and afterwards tells what is there.

mod files;
pub mod lines;
mod programs;

pub use files::FilesWitness;
pub use programs::ProgramsWitness;

use crate::error::DurabilityError;
use crate::judge::{AckAccount, AckInstant, FoundKeys};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A load: how long, how many acknowledgements at most, and the clock of the disk.
pub struct WitnessLoad<'a> {
    /// Root of all that is drawn.
    pub seed: u64,
    /// Longest time.
    pub length: Duration,
    /// Most acknowledgements.
    pub acks_max: usize,
    /// The instant of the disk now.
    pub now: &'a (dyn Fn() -> AckInstant + Sync),
    /// Set when all is to end.
    pub stop: &'a AtomicBool,
}

/// Writes, and asks.
pub trait DurabilityWitness {
    /// Writes into the data directory, or to the server above it, until the load is over.
    ///
    /// # Errors
    /// When the witness is wrong, or cannot run.
    fn write(&self, data: &Path, load: &WitnessLoad<'_>) -> Result<AckAccount, DurabilityError>;

    /// Tells what is there.
    ///
    /// # Errors
    /// When it cannot tell: then nothing can be asked.
    fn read(&self, data: &Path, stop: &AtomicBool) -> Result<FoundKeys, DurabilityError>;
}

impl std::fmt::Debug for WitnessLoad<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WitnessLoad")
            .field("seed", &self.seed)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}
