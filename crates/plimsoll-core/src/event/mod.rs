// SPDX-License-Identifier: Apache-2.0
//! The events of a run: terminal, run folder and report all listen to this one stream.

mod manifest;
mod stats;
mod trial;

pub use manifest::{ArmEntry, ClientCondition, LoadLoopEntry, RunManifest, WorkloadEntry};
pub use stats::{KindStats, OpStats};
pub use trial::{
    ClientLoadNode, ClientLoadNodeLoss, ClientLoadNodeResult, DeviceUse, EnergyUse, GeneratorStats,
    PHASES_MAX, PhaseResult, ServerUse, TransferTotals, TrialResult, WorkerResult,
};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::comparison::ArmComparison;
use crate::conditioning::{SystemConditioningResult, SystemConditioningStart};
use crate::design::{BlockDesignResult, BlocksEnd};
use crate::histogram::Histogram;
use crate::op::OpKind;

use crate::units::Nanos;

/// Which trial of an experiment: one arm under one workload in one block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrialId {
    /// Block number, from 0.
    pub block: u32,
    /// Place in the whole order, from 0.
    pub place: u32,
    /// Label of the arm.
    pub arm: String,
    /// Label of the workload.
    pub workload: String,
}

/// About one second of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrialInterval {
    /// Start, on the trial's clock.
    pub start: Nanos,
    /// Length.
    pub length: Nanos,
    /// Operations that ended in it.
    pub stats: OpStats,
}

/// A stretch of a trial as a report draws it: one interval, or several that were joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialTimeBin {
    /// Start, on the trial's clock.
    pub start: Nanos,
    /// Length.
    pub length: Nanos,
    /// Response times of all operations that ended in it, and with them their number.
    pub response: Histogram,
    /// The same by kind of operation; kinds without operations are absent.
    pub kinds: BTreeMap<OpKind, TrialTimeBinKind>,
}

/// One kind of operation in a stretch of a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrialTimeBinKind {
    /// Bytes moved by operations that succeeded.
    pub bytes: u64,
    /// Operations that failed; they are in the histogram too.
    pub errors: u64,
    /// Response times, and with them the number of operations.
    pub response: Histogram,
}

impl TrialTimeBinKind {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &TrialTimeBinKind) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.errors = self.errors.saturating_add(other.errors);
        self.response.merge(&other.response);
    }
}

impl From<&KindStats> for TrialTimeBinKind {
    fn from(stats: &KindStats) -> Self {
        TrialTimeBinKind {
            bytes: stats.bytes,
            errors: stats.errors,
            response: stats.response.clone(),
        }
    }
}

impl TrialTimeBin {
    /// Adds the stretch that follows.
    pub fn join(&mut self, next: &TrialTimeBin) {
        self.length = self.length + next.length;
        self.response.merge(&next.response);
        for (kind, stats) in &next.kinds {
            self.kinds.entry(*kind).or_default().merge(stats);
        }
    }
}

impl From<&TrialInterval> for TrialTimeBin {
    fn from(interval: &TrialInterval) -> Self {
        TrialTimeBin {
            start: interval.start,
            length: interval.length,
            response: interval.stats.response(),
            kinds: (interval.stats.0.iter())
                .map(|(kind, stats)| (*kind, stats.into()))
                .collect(),
        }
    }
}

/// Something a reader of the results should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunWarning {
    /// Subject of the warning: an arm, a workload or a trial; empty for the whole run.
    pub about: String,
    /// The sentence.
    pub text: String,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunEvent {
    /// Before the first block, a system is written to or played on.
    ConditioningBegan(SystemConditioningStart),
    /// Result of that conditioning step.
    Conditioned(SystemConditioningResult),
    /// A trial begins.
    TrialBegan(TrialId),
    /// The files of the trial are laid out and the measured part begins.
    Prepared {
        /// Which trial.
        trial: TrialId,
        /// How long it took.
        took: Nanos,
    },
    /// A second of a trial has passed.
    Interval {
        /// Place of the trial in the order.
        place: u32,
        /// Figures of that second.
        interval: TrialInterval,
    },
    /// A trial has ended.
    TrialEnded(Box<TrialResult>),
    /// A reader should know.
    Warning(RunWarning),
    /// The pilot is over and has led to this design of the other blocks.
    Designed(BlockDesignResult),
    /// The blocks have ended as they were to end, or as the user wished.
    BlocksEnded(BlocksEnd),
    /// All trials are done, or the user stopped.
    Finished {
        /// Whether the plan was cut short.
        interrupted: bool,
        /// The comparisons.
        comparisons: Vec<ArmComparison>,
    },
}

/// Hears events.
pub trait RunListener {
    /// Something happened. Must not fail the run: a listener that cannot record says so itself.
    fn event(&mut self, event: &RunEvent);
}

/// The contents of a run folder, in memory: the input of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFolderContents {
    /// The plan.
    pub manifest: RunManifest,
    /// Trials that ended, in the order they ran.
    pub trials: Vec<TrialResult>,
    /// The seconds of every trial that began, by place in the order; a trial that was cut off has
    /// seconds but no result. Those of long trials and of long runs are joined to fewer steps.
    pub intervals: BTreeMap<u32, Vec<TrialTimeBin>>,
    /// Warnings for a reader.
    pub warnings: Vec<RunWarning>,
    /// The comparisons.
    pub comparisons: Vec<ArmComparison>,
    /// Whether the plan was carried out to its end.
    pub complete: bool,
    /// The files that all of it was read from, in the order of reading.
    pub files: Vec<RunFileDigest>,
}

/// A file of a run folder, as far as it was read: events are appended, so that what was read stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFileDigest {
    /// Its name.
    pub name: String,
    /// How many of its first bytes were read.
    pub bytes: u64,
    /// SHA-256 of these bytes, in hexadecimal digits.
    pub sha256: String,
}
