// SPDX-License-Identifier: Apache-2.0
//! Workloads: which operations, when. Data only; the engine turns it into requests.
//!
//! Those that are known by name are made in `plimsoll-classics` from the settings of the programs
//! they come from.

pub mod blocks;
pub mod commands;
pub mod files;
pub mod loops;
pub mod multiple;
mod precondition;
pub mod series;

pub use blocks::BlockIoWorkload;
pub use commands::CommandWorkload;
pub use files::FileLoop;
pub use multiple::WorkloadMultiple;
pub use series::PhaseSeries;

use serde::{Deserialize, Serialize};

use crate::comparison::ComparisonMetric;
use crate::format::FormatVersion;
use crate::model::WorkloadModel;

/// A workload file: the version of the format and one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    /// [`FormatVersion::WORKLOAD`] of the program that wrote it.
    pub format: FormatVersion,
    /// The workload.
    pub workload: Workload,
}

/// A workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Fitted from a recording: open loop, one file.
    Model(Box<WorkloadModel>),
    /// Block I/O by groups of workers.
    Blocks(BlockIoWorkload),
    /// Threads that repeat lists of file operations: closed loop, trees of files.
    Files(FileLoop),
    /// Phases one after another.
    Series(PhaseSeries),
    /// Programs that are run and timed.
    Commands(CommandWorkload),
}

impl Workload {
    /// One that plays nothing: what is measured beside it is all there is.
    pub fn idle(name: impl Into<String>) -> Self {
        Workload::Series(PhaseSeries {
            name: name.into(),
            classic: None,
            phases: Vec::new(),
        })
    }

    /// Whether it plays nothing.
    pub fn is_idle(&self) -> bool {
        matches!(self, Workload::Series(series) if series.phases.is_empty())
    }

    /// Name in reports.
    pub fn name(&self) -> &str {
        match self {
            Workload::Model(model) => &model.name,
            Workload::Blocks(blocks) => &blocks.name,
            Workload::Files(files) => &files.name,
            Workload::Series(series) => &series.name,
            Workload::Commands(commands) => &commands.name,
        }
    }

    /// Gives it another name.
    pub fn rename(&mut self, name: String) {
        match self {
            Workload::Model(model) => model.name = name,
            Workload::Blocks(blocks) => blocks.name = name,
            Workload::Files(files) => files.name = name,
            Workload::Series(series) => series.name = name,
            Workload::Commands(commands) => commands.name = name,
        }
    }

    /// The one metric on which systems are compared under this workload: the mean response time
    /// where the load is given (open loop), operations per second where the system sets the pace.
    /// `None` where each phase has its own.
    pub fn metric(&self) -> Option<ComparisonMetric> {
        match self {
            Workload::Model(model) if model.requests.as_ref().is_some_and(|r| r.is_closed()) => {
                Some(ComparisonMetric::OpsPerSecond)
            }
            Workload::Model(_) => Some(ComparisonMetric::MeanResponse),
            Workload::Blocks(blocks) if blocks.is_open_loop() => {
                Some(ComparisonMetric::MeanResponse)
            }
            Workload::Blocks(_) | Workload::Files(_) => Some(ComparisonMetric::OpsPerSecond),
            Workload::Series(_) | Workload::Commands(_) => None,
        }
    }

    /// Bytes the workload keeps on its target while it runs.
    pub fn data_set_bytes(&self) -> u64 {
        match self {
            Workload::Model(model) => model.facts.working_set_bytes.value,
            Workload::Blocks(blocks) => blocks.data_set_bytes(),
            Workload::Files(files) => files.data_set_bytes(),
            Workload::Series(series) => series.data_set_bytes(),
            Workload::Commands(commands) => commands.data_bytes,
        }
    }

    /// Whether the page cache of this machine is bypassed by all of its operations.
    pub fn is_direct(&self) -> bool {
        match self {
            Workload::Model(_) => true,
            Workload::Blocks(blocks) => blocks.groups.iter().all(|group| group.direct),
            Workload::Files(files) => files.groups.iter().all(|group| group.direct),
            Workload::Series(series) => series.phases.iter().all(|phase| match &phase.body {
                series::PhaseWorkload::Blocks(blocks) => {
                    blocks.groups.iter().all(|group| group.direct)
                }
                series::PhaseWorkload::Files(files) => {
                    files.groups.iter().all(|group| group.direct)
                }
            }),
            Workload::Commands(_) => false,
        }
    }

    /// Whether it works on more than one file, so that it cannot be run on a single file or a
    /// device.
    pub fn needs_directory(&self) -> bool {
        let files = |blocks: &BlockIoWorkload| {
            let extents = || blocks.groups.iter().map(|group| &group.extent);
            let first = extents().next().map(|extent| &extent.file);
            extents().any(|extent| !extent.shared || Some(&extent.file) != first)
        };
        match self {
            Workload::Model(_) => false,
            Workload::Blocks(blocks) => files(blocks),
            Workload::Files(_) | Workload::Commands(_) => true,
            Workload::Series(series) => series.phases.iter().any(|phase| match &phase.body {
                series::PhaseWorkload::Blocks(blocks) => files(blocks),
                series::PhaseWorkload::Files(_) => true,
            }),
        }
    }

    /// Whether it ends when its work is done, so that no length of time is needed.
    pub fn ends_by_itself(&self) -> bool {
        match self {
            Workload::Model(_) => false,
            Workload::Blocks(blocks) => blocks.ends_by_itself(),
            Workload::Files(files) => files.ends_by_itself(),
            Workload::Series(_) => !self.is_idle(),
            Workload::Commands(_) => true,
        }
    }

    /// Whether instants, not the storage, set the pace.
    pub fn is_open_loop(&self) -> bool {
        match self {
            Workload::Model(_) => true,
            Workload::Blocks(blocks) => blocks.is_open_loop(),
            _ => false,
        }
    }

    /// Whether requests wait for one of a number of threads that is part of the load: what starts
    /// late then was not held back by the generator.
    pub fn waits_for_threads(&self) -> bool {
        matches!(self, Workload::Model(model) if model.facts.threads.is_some())
    }
}

#[cfg(test)]
mod tests;
