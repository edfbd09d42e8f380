// SPDX-License-Identifier: Apache-2.0
//! Reports of a worker to the controller, and its result at the end.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

use plimsoll_core::event::WorkerResult;
use plimsoll_core::model::ModelInterval;
use plimsoll_core::units::Nanos;

use crate::cpu::{self, ThreadCpuTimes};
use crate::drive::DriverResult;
use crate::pool::thread_id;
use crate::recorder::{
    IntervalListener, IntervalStats, RequestMarks, SampleRecorder, WorkerOverhead,
};

/// Operations that have ended in a worker since its previous report.
#[derive(Debug)]
pub(crate) struct WorkerReport {
    /// Which worker.
    pub(crate) worker: u32,
    /// The second of the measured part it belongs to.
    pub(crate) index: u64,
    /// The second the worker is in now; `u64::MAX` when it has ended.
    pub(crate) next: u64,
    /// The operations.
    pub(crate) tally: IntervalStats,
}

/// A worker's means to report.
#[derive(Debug)]
pub(crate) struct WorkerReportChannel {
    /// Number of the worker, from 0.
    pub(crate) number: u32,
    /// To the controller.
    pub(crate) reports: SyncSender<WorkerReport>,
    /// Tallies that come back cleared, so that none is allocated once the run goes.
    pub(crate) spares: Receiver<IntervalStats>,
    /// Whether waiting for the controller costs nothing.
    pub(crate) virtual_time: bool,
    /// Length of the warm-up.
    pub(crate) warmup: Nanos,
    /// Length of the intervals that are reported.
    pub(crate) step: Nanos,
    /// For an open loop, the length of the measured part, where that is known.
    pub(crate) open: Option<Option<Nanos>>,
}

impl WorkerReportChannel {
    /// The messenger of this worker, whose engine has `helpers` threads and, when `in_kernel`,
    /// threads that the kernel makes and ends as it likes.
    pub(crate) fn messenger(self, mut helpers: Vec<u32>, in_kernel: bool) -> WorkerReportSender {
        helpers.push(thread_id());
        WorkerReportSender {
            desk: self,
            threads: helpers,
            in_kernel,
            cpu_before: None,
        }
    }
}

/// Carries reports to the controller.
#[derive(Debug)]
pub(crate) struct WorkerReportSender {
    desk: WorkerReportChannel,
    threads: Vec<u32>,
    in_kernel: bool,
    cpu_before: Option<ThreadCpuTimes>,
}

impl WorkerReportSender {
    fn cpu_times(&self) -> ThreadCpuTimes {
        if self.in_kernel {
            cpu::of_threads(&cpu::with_kernel_threads(&self.threads))
        } else {
            cpu::of_threads(&self.threads)
        }
    }
}

impl IntervalListener for WorkerReportSender {
    fn measured_part_began(&mut self) {
        self.cpu_before = Some(self.cpu_times());
    }

    fn passed(&mut self, index: u64, next: u64, tally: &mut IntervalStats) {
        let spare = self.desk.spares.try_recv().unwrap_or_default();
        let report = WorkerReport {
            worker: self.desk.number,
            index,
            next,
            tally: std::mem::replace(tally, spare),
        };
        if self.desk.virtual_time {
            // An error means that the controller has ended and needs no report.
            let _ = self.desk.reports.send(report);
            return;
        }
        if let Err(TrySendError::Full(report)) = self.desk.reports.try_send(report) {
            *tally = report.tally;
        }
    }
}

/// A worker's account.
#[derive(Debug)]
pub(crate) struct WorkerRunResult {
    pub(crate) end: DriverResult,
    pub(crate) engine: String,
    /// User and system time of the measured part; that of kernel threads that ended in it is
    /// missed.
    pub(crate) cpu_ns: (u64, u64),
    /// The generator's own time outside the engine.
    pub(crate) own: WorkerOverhead,
    /// Facts about its operations besides their times.
    pub(crate) marks: RequestMarks,
    /// When the last recorded operation ended.
    pub(crate) last_end: Nanos,
    pub(crate) submitted: Vec<ModelInterval>,
    /// The workers it played: one, or all in virtual time.
    pub(crate) workers: Vec<WorkerResult>,
}

/// Sends what is left and closes the account.
pub(crate) fn finish(
    mut recorder: SampleRecorder<WorkerReportSender>,
    end: DriverResult,
    engine: String,
    workers: Vec<WorkerResult>,
) -> WorkerRunResult {
    let (index, last_end, own) = (recorder.second(), recorder.last_end(), recorder.own());
    let marks = std::mem::take(&mut recorder.marks);
    let messenger = &mut recorder.boundary;
    let now = messenger.cpu_times();
    let report = WorkerReport {
        worker: messenger.desk.number,
        index,
        next: u64::MAX,
        tally: std::mem::take(&mut recorder.tally),
    };
    let _ = messenger.desk.reports.send(report);
    WorkerRunResult {
        end,
        engine,
        cpu_ns: messenger
            .cpu_before
            .take()
            .map_or((0, 0), |before| now.since(&before)),
        own,
        marks,
        last_end,
        submitted: Vec::new(),
        workers,
    }
}
