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

/// The disk below a load.
#[derive(Clone, Copy)]
pub struct WitnessDisk<'a> {
    /// The instant of it now.
    pub now: &'a (dyn Fn() -> AckInstant + Sync),
    /// Whether it refuses writes since its log is full.
    pub is_full: &'a (dyn Fn() -> bool + Sync),
}

/// A load: how long, how many acknowledgements at most, and its disk.
#[derive(Debug)]
pub struct WitnessLoad<'a> {
    /// Root of all that is drawn.
    pub seed: u64,
    /// Longest time.
    pub length: Duration,
    /// Most acknowledgements.
    pub acks_max: usize,
    /// The disk that it is written to.
    pub disk: WitnessDisk<'a>,
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

impl std::fmt::Debug for WitnessDisk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WitnessDisk").finish_non_exhaustive()
    }
}
