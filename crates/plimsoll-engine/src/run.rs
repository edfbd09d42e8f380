// SPDX-License-Identifier: Apache-2.0
//! Runs what was prepared: one act, or the phases of a series one after another.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::data_check::DataCheckResult;
use plimsoll_core::event::{Generator, Interval, OpStats, PhaseResult, WorkerResult};
use plimsoll_core::model::Cell;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;

use crate::act::{Act, Body};
use crate::check::check_delays;
use crate::error::Error;
use crate::file_loop::Play;
use crate::prepare::{Ground, Place, Prepared};
use crate::verify::{DataCheck, can_check_data};

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
        }
    }
}

/// What a run gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// The measured operations: all whose intended start lies in the measured part.
    pub stats: OpStats,
    /// What operations per second are to be counted over. For open loops, from the end of the
    /// warm-up to the planned end or the end of the last operation, whichever is later. For closed
    /// loops the planned length (or until an interruption): the operations counted are those that
    /// were meant to start in it, and the slowest one that ends after it must not stretch it. For
    /// work that ends by itself, to the end of its last counted operation. For a series, the
    /// phases together. The intervals cover everything either way.
    pub length: Nanos,
    /// The generator's own account.
    pub generator: Generator,
    /// For models, the load handed over by cell of the play, warm-up included; what was handed
    /// over after the last cell is in the last. Empty for other workloads.
    pub submitted: Vec<Cell>,
    /// By worker, groups in order, on the clock of the run. Empty for a series.
    pub workers: Vec<WorkerResult>,
    /// The phases of a series.
    pub phases: Vec<PhaseResult>,
    /// Whether `stop` ended it.
    pub interrupted: bool,
    /// Why the target ended it before its time, if it did: it was full, or failed all the time.
    /// What was measured until then is here.
    pub failed: Option<String>,
    /// What became of the data, where that was verified.
    pub data_check: Option<DataCheckResult>,
    /// When the clock of the run started, on the machine's clock; of a series, that of its first
    /// phase. None in virtual time.
    pub began_at: Option<Nanos>,
}

/// Whether everything that is to begin begins in the time there is.
fn check_length(workload: &Workload, options: &RunOptions) -> Result<(), Error> {
    match workload {
        // The limits of phases were checked with them.
        Workload::Blocks(blocks) => check_delays(blocks, options.warmup + options.length),
        _ => Ok(()),
    }
}

/// Says whether `workload` can be run in `place` as `options` want it, without doing anything: what
/// [`prepare`](crate::prepare) and [`Prepared::run`] would refuse. A device is claimed for a moment.
///
/// # Errors
/// The first thing that does not fit, or that the device cannot be claimed.
pub fn check(place: Place<'_>, workload: &Workload, options: &RunOptions) -> Result<(), Error> {
    let ground = Ground::of(place)?;
    ground.check(workload)?;
    check_options(&ground, workload, options)?;
    check_length(workload, options)
}

fn check_options(ground: &Ground, workload: &Workload, options: &RunOptions) -> Result<(), Error> {
    if options.data_check == DataCheck::Off {
        return Ok(());
    }
    can_check_data(workload)?;
    if matches!(ground, Ground::Storage { .. } | Ground::Nfs(_)) {
        return Ok(());
    }
    let name = workload.name();
    Err(Error::Workload(format!(
        "'{name}': there is nothing to verify where no data are kept; use a directory, a file or a \
         device"
    )))
}

impl Prepared {
    /// Runs the workload. `on_interval` hears of every second of the measured part about when it
    /// ends, from the calling thread, and of the last ones when everything has ended; they add up
    /// to the outcome. The phases of a series follow each other without a gap on the clock of the
    /// intervals. Data that are to be verified are read back after the measured part (after that of
    /// each phase). When `stop` is set the run ends within about 100 ms (a plain system call that
    /// hangs is waited for) and the outcome is what was measured so far.
    ///
    /// # Errors
    /// When a thread cannot be started, an engine cannot be opened or breaks, the file set runs out
    /// of files, its data are to be verified and cannot be, the files of a phase cannot be laid out, or the first 100 operations of a worker
    /// all fail.
    pub fn run(
        &mut self,
        options: &RunOptions,
        stop: &AtomicBool,
        on_interval: &mut dyn FnMut(Interval),
    ) -> Result<Outcome, Error> {
        check_options(&self.ground, &self.workload, options)?;
        check_length(&self.workload, options)?;
        let play;
        let body = match (&self.workload, &self.trees) {
            (Workload::Series(_), _) => return self.run_series(options, stop, on_interval),
            (Workload::Model(model), _) => Body::Model(model, &self.excerpt, &self.space),
            (Workload::Blocks(blocks), _) => {
                self.ground.begin(blocks)?;
                Body::Blocks(blocks)
            }
            (Workload::Files(files), Some(trees)) => {
                play = Arc::new(Play::new(files, Arc::clone(trees)));
                Body::Files(files, &play)
            }
            (workload, _) => {
                let text = format!("'{}' was not prepared", workload.name());
                return Err(Error::Workload(text));
            }
        };
        let act = Act {
            ground: &self.ground,
            body,
            choice: self.choice,
            options,
            stonewall: false,
            registers: None,
        };
        act.run_verified(stop, on_interval)
    }
}
