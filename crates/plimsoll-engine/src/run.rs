// SPDX-License-Identifier: Apache-2.0
//! Runs what was prepared: one act, or the phases of a series one after another.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::event::TrialInterval;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;

use crate::act::{PhaseRun, PhaseRunWorkload};
use crate::check::{check_delays, check_workload};
use crate::error::EngineError;
use crate::file_loop::FileLoopRun;
use crate::ground::OpenTarget;
use crate::outcome::{RunOptions, RunResult};
use crate::prepare::PreparedWorkload;
use crate::verify::can_check_data;
use plimsoll_core::data_check::DataCheck;

/// Whether everything that is to begin begins in the time there is.
fn check_length(workload: &Workload, options: &RunOptions) -> Result<(), EngineError> {
    match workload {
        // The limits of phases were checked with them.
        Workload::Blocks(blocks) => check_delays(blocks, options.warmup + options.length),
        _ => Ok(()),
    }
}

/// Says whether `workload` can be run on `ground` as `options` want it, without doing anything: what
/// [`prepare`](crate::prepare) and [`PreparedWorkload::run`] would refuse.
///
/// # Errors
/// The first thing that does not fit.
pub fn check(
    ground: &OpenTarget,
    workload: &Workload,
    options: &RunOptions,
) -> Result<(), EngineError> {
    check_workload(ground, workload)?;
    check_options(ground, workload, options)?;
    check_length(workload, options)
}

fn check_options(
    ground: &OpenTarget,
    workload: &Workload,
    options: &RunOptions,
) -> Result<(), EngineError> {
    if options.data_check == DataCheck::Off {
        return Ok(());
    }
    can_check_data(workload)?;
    if matches!(ground, OpenTarget::Storage { .. } | OpenTarget::Nfs(_)) {
        return Ok(());
    }
    let name = workload.name();
    Err(EngineError::Workload(format!(
        "'{name}': this target keeps no data to verify; use a directory, a file or a device"
    )))
}

impl PreparedWorkload {
    /// Runs the workload. `on_interval` hears of every second of the measured part about when it
    /// ends, from the calling thread, and of the last ones when everything has ended; they add up
    /// to the outcome. The phases of a series follow each other without a gap on the clock of the
    /// intervals. Data that are to be verified are read back after the measured part (after that of
    /// each phase). When `stop` is set the run ends within about 100 ms (a plain system call that
    /// hangs is waited for) and the outcome is what was measured so far.
    ///
    /// # Errors
    /// When a thread cannot be started, an engine cannot be opened or breaks, the file set runs out
    /// of files, its data are to be verified and cannot be, the files of a phase cannot be laid
    /// out, or the first 100 operations of a worker all fail.
    pub fn run(
        &mut self,
        options: &RunOptions,
        stop: &AtomicBool,
        on_interval: &mut dyn FnMut(TrialInterval),
    ) -> Result<RunResult, EngineError> {
        self.run_in_step(options, stop, on_interval, &mut |_| Some(Nanos(0)))
    }

    /// The same, in step with others that run the same series: each phase is laid out, then `next` is
    /// given its number, from 0, and says when it starts on the machine's clock; `None` ends the run.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_in_step(
        &mut self,
        options: &RunOptions,
        stop: &AtomicBool,
        on_interval: &mut dyn FnMut(TrialInterval),
        next: &mut dyn FnMut(u32) -> Option<Nanos>,
    ) -> Result<RunResult, EngineError> {
        check_options(&self.ground, &self.workload, options)?;
        check_length(&self.workload, options)?;
        let play;
        let body = match (&self.workload, &self.trees) {
            (Workload::Series(_), _) => return self.run_series(options, stop, on_interval, next),
            (Workload::Model(model), _) => {
                PhaseRunWorkload::Model(model, &self.excerpt, &self.space)
            }
            (Workload::Blocks(blocks), _) => {
                self.ground.begin(blocks)?;
                PhaseRunWorkload::Blocks(blocks)
            }
            (Workload::Files(files), Some(trees)) => {
                play = Arc::new(FileLoopRun::new(files, Arc::clone(trees)));
                PhaseRunWorkload::Files(files, &play)
            }
            (workload, _) => {
                let text = format!("'{}' was not prepared", workload.name());
                return Err(EngineError::Workload(text));
            }
        };
        let act = PhaseRun {
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
