// SPDX-License-Identifier: Apache-2.0
//! The load of a trial, and whether it was the load intended.

use plimsoll_core::event::WorkloadEntry;
use plimsoll_core::model::{
    DirectionLoad, FidelityCheck, IoDirection, ModelExcerpt, ModelInterval, ModelSliceSelection,
    WorkloadModel,
};
use plimsoll_core::num::saturating_u32;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;

/// The load of a trial.
#[derive(Debug)]
pub(crate) enum TrialLoad {
    /// As fast as the storage lets it.
    Closed,
    /// All recorded intervals.
    Whole(ModelExcerpt),
    /// One-second slices of it.
    Slices(ModelExcerpt, ModelSliceSelection),
    /// Recorded requests, all or a stretch of them.
    Requests(ModelExcerpt),
}

impl TrialLoad {
    /// The load of `entry` in `block`: the same for every arm of the block.
    pub(crate) fn of(entry: &WorkloadEntry, whole: bool, seed: Seed, block: u32) -> TrialLoad {
        let Workload::Model(model) = &entry.workload else {
            return TrialLoad::Closed;
        };
        if whole {
            let excerpt = model.whole(entry.scale);
            return match model.requests {
                Some(_) => TrialLoad::Requests(excerpt),
                None => TrialLoad::Whole(excerpt),
            };
        }
        let seconds = saturating_u32(entry.length.0 / Nanos::SECOND.0).max(1);
        let seed = block_seed(seed, block);
        if let Some(excerpt) = model.stretch(seconds, entry.scale, seed) {
            return TrialLoad::Requests(excerpt);
        }
        let selection = model.play_slices(seconds, entry.scale, seed);
        TrialLoad::Slices(ModelExcerpt::cells(selection.cells.clone()), selection)
    }

    pub(crate) fn excerpt(&self) -> Option<&ModelExcerpt> {
        match self {
            TrialLoad::Closed => None,
            TrialLoad::Whole(excerpt)
            | TrialLoad::Slices(excerpt, _)
            | TrialLoad::Requests(excerpt) => Some(excerpt),
        }
    }

    /// The submitted load, compared with the recording.
    pub(crate) fn fidelity(
        &self,
        model: &WorkloadModel,
        scale: f64,
        submitted: &[ModelInterval],
    ) -> Vec<FidelityCheck> {
        match self {
            TrialLoad::Closed => Vec::new(),
            // How much is submitted depends on how fast the storage answers.
            TrialLoad::Requests(_) if model.waits() => Vec::new(),
            TrialLoad::Whole(excerpt) => {
                plimsoll_fit::fidelity(&excerpt.cells, submitted, &model.bursts)
            }
            TrialLoad::Requests(excerpt) => requests_fidelity(&excerpt.cells, submitted),
            TrialLoad::Slices(_, selection) => {
                model.slice_fidelity(submitted, &selection.picked, scale)
            }
        }
    }
}

/// The largest error of the totals of recorded requests.
const REQUESTS_GATE: f64 = 0.02;

/// Requests submitted, compared with the recorded ones of that part. Submission delay is another figure.
fn requests_fidelity(asked: &[ModelInterval], submitted: &[ModelInterval]) -> Vec<FidelityCheck> {
    let lines = IoDirection::BOTH.map(|direction| {
        let total = |cells: &[ModelInterval]| {
            let mut sum = DirectionLoad::default();
            for load in cells.iter().map(|cell| cell.load(direction)) {
                sum.ops += load.ops;
                sum.bytes += load.bytes;
            }
            sum
        };
        let (asked, submitted) = (total(asked), total(submitted));
        let line = |what: &str, asked: u64, submitted: u64| {
            let name = format!("{} {what} submitted", direction.name());
            FidelityCheck::relative(name, asked as f64, submitted as f64, REQUESTS_GATE)
        };
        [
            line("operations", asked.ops, submitted.ops),
            line("bytes", asked.bytes, submitted.bytes),
        ]
    });
    lines.concat()
}

/// Arms of one block share slices, offsets and file sizes, so that only the storage differs.
pub fn block_seed(seed: Seed, block: u32) -> Seed {
    seed.derive("block", u64::from(block))
}
