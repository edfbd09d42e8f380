// SPDX-License-Identifier: Apache-2.0
//! Prepares a workload at a place: checks, files, nothing measured.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::model::{ModelExcerpt, ReplayAddressSpace};
use plimsoll_core::rng::Seed;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoMixEntry, BlockIoOpKind, BlockIoPacing, BlockIoWorkload,
};
use plimsoll_core::workload::series::PhaseWorkload;

use crate::check::check_workload;
use crate::device;
use crate::error::EngineError;
use crate::ground::{OpenTarget, threads};
use crate::trees::{FileLoopSets, FileSetsByName};
use plimsoll_core::op::EngineChoice;

/// A workload with its files laid out. May be run more than once.
#[derive(Debug)]
pub struct PreparedWorkload {
    pub(crate) ground: OpenTarget,
    pub(crate) workload: Workload,
    /// The part of a model that is played; empty for other workloads.
    pub(crate) excerpt: ModelExcerpt,
    /// Where the recorded requests of a model go.
    pub(crate) space: ReplayAddressSpace,
    /// The file sets by name, and those of a file loop.
    pub(crate) sets: FileSetsByName,
    pub(crate) trees: Option<Arc<FileLoopSets>>,
    pub(crate) choice: EngineChoice,
}

/// Checks `workload` and lays out its files on `ground`: random data, made durable. A data file
/// that already has the right size is used as it is, with nothing of it in the page cache; so is a
/// device whose samples hold data. `excerpt` is what of a model is played (`None`: the whole
/// recording once, unscaled), ignored for other workloads. The files of a series are laid out as its phases
/// need them.
///
/// # Errors
/// When the workload does not fit the target or the memory, a file cannot be written, or `stop` was
/// set. A data file that was not finished is removed; files of a set are left to the owner of the
/// directory.
pub fn prepare(
    ground: OpenTarget,
    workload: &Workload,
    excerpt: Option<&ModelExcerpt>,
    seed: Seed,
    choice: EngineChoice,
    stop: &AtomicBool,
) -> Result<PreparedWorkload, EngineError> {
    check_workload(&ground, workload)?;
    let excerpt = match (workload, excerpt) {
        (Workload::Model(_), Some(excerpt)) => excerpt.clone(),
        (Workload::Model(model), None) => model.whole(1.0),
        _ => ModelExcerpt::cells(Vec::new()),
    };
    let space = ground.space(workload);
    let mut prepared = PreparedWorkload {
        ground,
        workload: workload.clone(),
        excerpt,
        space,
        sets: FileSetsByName::new(),
        trees: None,
        choice,
    };
    prepared.lay_out(seed, stop)?;
    Ok(prepared)
}

impl PreparedWorkload {
    fn lay_out(&mut self, seed: Seed, stop: &AtomicBool) -> Result<(), EngineError> {
        match &self.workload {
            Workload::Files(files) => {
                let trees = self
                    .ground
                    .lay_out_sets(files, &mut self.sets, seed, stop)?;
                self.trees = Some(trees);
                Ok(())
            }
            Workload::Blocks(blocks) => self.ground.lay_out(blocks, seed, stop),
            Workload::Model(model) => {
                let Some(data) = self.ground.data() else {
                    return Ok(());
                };
                let bytes = match (&model.requests, &self.space) {
                    (Some(packed), ReplayAddressSpace::AsRecorded) => packed.span_bytes(),
                    (Some(packed), ReplayAddressSpace::Compact(_)) => packed.footprint_bytes(),
                    (None, _) => model.facts.working_set_bytes.value,
                };
                let bytes = bytes.next_multiple_of(4096);
                match self.ground.device() {
                    Some(device) => {
                        let bytes = bytes.min(device.bytes);
                        device::fill(self.ground.held()?, &data, bytes, seed, stop)
                    }
                    None => self.ground.data_file(&data, bytes, seed, stop),
                }
            }
            Workload::Series(_) | Workload::Commands(_) => Ok(()),
        }
    }

    /// Whether blocks that were full may be empty afterwards. What recorded requests hold is not looked at.
    fn may_discard(&self) -> bool {
        let discards = |turn: &BlockIoMixEntry| turn.kind == BlockIoOpKind::Discard;
        match &self.workload {
            Workload::Blocks(blocks) => {
                let mut groups = blocks.groups.iter();
                groups.any(|group| {
                    matches!(group.pace, BlockIoPacing::Open(ArrivalProcess::Trace(_)))
                        || group.mix.iter().any(discards)
                })
            }
            Workload::Model(model) => model.requests.is_some(),
            Workload::Series(_) => true,
            Workload::Files(_) | Workload::Commands(_) => false,
        }
    }

    /// How many threads work on files at the same time at most.
    fn file_threads(&self) -> u32 {
        match &self.workload {
            Workload::Files(files) => threads(files),
            Workload::Series(series) => {
                let phases = series.phases.iter().map(|phase| match &phase.body {
                    PhaseWorkload::Files(files) => threads(files),
                    PhaseWorkload::Blocks(_) => 1,
                });
                phases.max().unwrap_or(1)
            }
            Workload::Blocks(_) | Workload::Model(_) | Workload::Commands(_) => 1,
        }
    }

    /// Removes every file that was laid out or created by a run. A device stays.
    ///
    /// # Errors
    /// When a file cannot be removed; the others may or may not be gone.
    pub fn remove(self) -> Result<(), EngineError> {
        if self.may_discard() {
            device::forget_full();
        }
        let (Some(data), None) = (self.ground.data(), self.ground.device()) else {
            return Ok(());
        };
        if let Some(place) = self.ground.sets() {
            place.remove(&self.sets, self.file_threads())?;
        }
        let of_blocks = |blocks: &BlockIoWorkload| self.ground.files_of(blocks).into_keys();
        match &self.workload {
            Workload::Model(_) => self.ground.remove(std::iter::once(data)),
            Workload::Blocks(blocks) => self.ground.remove(of_blocks(blocks)),
            Workload::Series(series) => {
                for phase in &series.phases {
                    if let PhaseWorkload::Blocks(blocks) = &phase.body {
                        self.ground.remove(of_blocks(blocks))?;
                    }
                }
                Ok(())
            }
            Workload::Files(_) | Workload::Commands(_) => Ok(()),
        }
    }
}
