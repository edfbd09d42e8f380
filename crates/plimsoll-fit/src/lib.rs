// SPDX-License-Identifier: Apache-2.0
//! From recordings to fitted models and profiles.
//!
//! [`fit`] makes a model and a profile of one disk of counters, [`fit_requests`] a model of recorded
//! requests; [`describe`] only describes, with all disks side by side. [`RecordingPool`]
//! puts many recordings together. [`fidelity`] holds a submitted load
//! against the recorded one. Not here: readers (`plimsoll-trace`), how a model is played
//! (`plimsoll-engine`), and statistics of runs (`plimsoll-stats`).
#![forbid(unsafe_code)]

mod binned;
mod bursts;
mod cells;
mod describe;
mod fidelity;
mod fit;
mod intervals;
mod kept;
mod periods;
mod phases;
mod pool;
mod profile;
mod recorded;
mod verify;

pub use describe::describe;
pub use fidelity::fidelity;
pub use fit::{FitOptions, FitResult, check_play, fit};
#[cfg(feature = "parquet")]
pub use intervals::IntervalTable;
pub use intervals::{DiskIntervalRows, intervals};
pub use pool::{PoolAddition, RecordingPool, summarise};
pub use recorded::{
    TraceDevice, TraceFitOptions, TraceShuffle, TraceSurvey, check_packed, count_requests,
    describe_requests, fit_requests, survey, survey_part,
};
pub use verify::{
    ConstantRate, ConstantRateLoad, FidelityLoad, FidelityReference, RecordingSelection,
    verify_requests,
};
