// SPDX-License-Identifier: Apache-2.0
//! How a workload is to be run, and what came of it.

use plimsoll_core::data_check::DataCheckResult;
use plimsoll_core::event::{GeneratorStats, OpStats, PhaseResult, WorkerResult};
use plimsoll_core::model::ModelInterval;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;

use plimsoll_core::data_check::DataCheck;

/// How to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// Length of the measured part. A model ends with its play, if that is shorter; work that ends
    /// by itself ends then, and this is its upper limit ([`Nanos::MAX`]: none). Phases of a series
    /// whose work ends by itself have their own limits only.
    pub length: Nanos,
    /// Time before the measured part. A model's play includes it. Phases have none.
    pub warmup: Nanos,
    /// Most operations of a model in flight; more are due but wait, which shows as lag.
    pub depth_max: u32,
    /// Seed of arrivals, sizes and offsets.
    pub seed: Seed,
    /// Whether what it writes is verified. That takes processor time and memory: such a run shows
    /// whether data are kept, not how fast.
    pub data_check: DataCheck,
    /// Marks what is written where that is verified. To be new for each run, or what an earlier
    /// one left could pass for what this one wrote.
    pub stamp_seed: Seed,
    /// When the clock of the run starts, on the machine's clock ([`crate::sys::clock::monotonic`]);
    /// at once, if that is past. Has no meaning in virtual time.
    pub start_at: Nanos,
    /// Length of the intervals that are reported while it runs.
    pub step: Nanos,
    /// Bytes of the measured part after which it ends, if that is before its time. Not of series.
    pub bytes: Option<u64>,
}

impl Default for RunOptions {
    /// 10 s, no warm-up, at most 256 in flight.
    fn default() -> Self {
        RunOptions {
            length: Nanos(10_000_000_000),
            warmup: Nanos(0),
            depth_max: 256,
            seed: Seed(0),
            data_check: DataCheck::Off,
            stamp_seed: Seed(0),
            start_at: Nanos(0),
            step: Nanos::SECOND,
            bytes: None,
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunResult {
    /// The measured operations: all whose intended start lies in the measured part.
    pub stats: OpStats,
    /// The time that operations per second are to be counted over. For open loops, from the end of
    /// the warm-up to the planned end or the end of the last operation, whichever is later. For
    /// closed loops the planned length (or until an interruption): the operations counted are those
    /// that were meant to start in it, and the slowest one that ends after it must not stretch it.
    /// For work that ends by itself, to the end of its last counted operation. For a series, the
    /// phases together. The intervals cover everything either way.
    pub length: Nanos,
    /// The generator's own account.
    pub generator: GeneratorStats,
    /// For models, the load submitted by cell of the play, warm-up included; what was
    /// submitted after the last cell is in the last. Empty for other workloads.
    pub submitted: Vec<ModelInterval>,
    /// By worker, groups in order, on the clock of the run. Empty for a series.
    pub workers: Vec<WorkerResult>,
    /// The phases of a series.
    pub phases: Vec<PhaseResult>,
    /// Whether `stop` ended it.
    pub interrupted: bool,
    /// Why the target ended it before its time, if it did: it was full, or failed all the time.
    /// The results until then are here.
    pub failed: Option<String>,
    /// The result of the data check, where data were verified.
    pub data_check: Option<DataCheckResult>,
    /// When the clock of the run started, on the machine's clock; of a series, that of its first
    /// phase. None in virtual time.
    pub began_at: Option<Nanos>,
}
