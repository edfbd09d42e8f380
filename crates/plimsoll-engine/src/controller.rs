// SPDX-License-Identifier: Apache-2.0
//! The controlling side of a run: merges what the workers report, passes on every second, and
//! says what the run gave.
//!
//! A second is passed on when every worker is past it. All reports are in the total, and each is
//! in exactly one interval. From the planned end on one second is held back, so that what ends just
//! behind it has an interval to be in.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use plimsoll_core::event::{GeneratorStats, OpStats, TrialInterval};
use plimsoll_core::units::Nanos;

use crate::heartbeat::FreezeDetector;
use crate::outcome::RunResult;
use crate::recorder::{IntervalStats, RequestMarks};
use crate::worker::{WorkerReport, WorkerRunResult};

/// How often the controller looks at `stop` when nothing else happens.
const POLL: Duration = Duration::from_millis(20);

/// A second is passed on this long after its end, without the workers that have not reported it: they
/// hang in a system call. Their operations count in a later second.
const PATIENCE: Nanos = Nanos(1_500_000_000);

/// The last piece of a run is an interval of its own only if it is at least this long; else it
/// belongs to the second before it, which is then longer.
const SLIVER: Nanos = Nanos(50_000_000);

/// Up to when operations per second are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThroughputWindow {
    /// The planned end: of closed loops.
    AsPlanned,
    /// The planned end or the end of the last operation, whichever is later.
    ToLastEnd,
}

/// The planned times of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunSchedule {
    pub(crate) warmup: Nanos,
    pub(crate) length: Nanos,
    /// Length of what is called a second here.
    pub(crate) step: Nanos,
    pub(crate) count: ThroughputWindow,
    /// Whether the work may be done before the planned end; then it counts up to its own.
    pub(crate) may_end_early: bool,
}

/// Merges what the workers report.
pub(crate) struct RunController<'a> {
    plan: RunSchedule,
    on_interval: &'a mut dyn FnMut(TrialInterval),
    /// By worker, where cleared tallies go.
    pub(crate) spares: Vec<Sender<IntervalStats>>,
    total: OpStats,
    /// Seconds not yet passed on.
    seconds: BTreeMap<u64, OpStats>,
    /// The second each worker is in.
    progress: Vec<u64>,
    /// The second to be passed on next.
    next: u64,
    /// For how long this program was suspended.
    held_up: Nanos,
}

impl<'a> RunController<'a> {
    pub(crate) fn new(
        plan: RunSchedule,
        workers: u32,
        on_interval: &'a mut dyn FnMut(TrialInterval),
    ) -> Self {
        RunController {
            plan,
            on_interval,
            spares: Vec::new(),
            total: OpStats::default(),
            seconds: BTreeMap::new(),
            progress: vec![0; workers as usize],
            next: 0,
            held_up: Nanos(0),
        }
    }

    /// Attends to the workers until all have ended. `now` is the run's clock where it is a real
    /// one and has started; `halt` stops the workers.
    pub(crate) fn attend(
        &mut self,
        reports: &Receiver<WorkerReport>,
        now: impl Fn() -> Option<Nanos>,
        stop: &AtomicBool,
        halt: &AtomicBool,
    ) {
        let mut heart: Option<FreezeDetector> = None;
        loop {
            let wait = || reports.recv_timeout(POLL);
            let poll = Nanos::from_secs_f64(POLL.as_secs_f64());
            let report = match &mut heart {
                Some(heart) => heart.wait(poll, wait),
                None => wait(),
            };
            match report {
                Ok(report) => self.take(report),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if heart.is_none() && now().is_some() {
                heart = Some(FreezeDetector::begin());
            }
            if stop.load(Ordering::Relaxed) {
                halt.store(true, Ordering::Relaxed);
            }
            self.emit_seconds(now());
        }
        self.held_up = heart.map_or(Nanos(0), |heart| heart.held_up());
    }

    fn take(&mut self, mut report: WorkerReport) {
        let second = report.index.max(self.next);
        report
            .tally
            .merge_into(self.seconds.entry(second).or_default());
        report.tally.merge_into(&mut self.total);
        self.progress[report.worker as usize] = report.next;
        report.tally.clear();
        // A worker that has ended needs no spare.
        let _ = self.spares[report.worker as usize].send(report.tally);
    }

    fn emit_seconds(&mut self, now: Option<Nanos>) {
        let reached = self.progress.iter().copied().min().unwrap_or(0);
        let measured = now.map_or(Nanos(0), |now| now.since(self.plan.warmup).since(PATIENCE));
        let overdue = measured.0 / self.plan.step.0;
        // Workers that have ended stand at the end of time.
        let last = self
            .seconds
            .last_key_value()
            .map_or(0, |(second, _)| *second);
        let until = if reached == u64::MAX {
            last
        } else {
            reached.max(overdue)
        };
        let held = self.plan.length.since(SLIVER).0 / self.plan.step.0;
        let until = until.min(held.max(until.saturating_sub(1)));
        while self.next < until {
            self.emit_second();
        }
    }

    fn emit_second(&mut self) {
        let stats = self.seconds.remove(&self.next).unwrap_or_default();
        (self.on_interval)(TrialInterval {
            start: Nanos(self.next * self.plan.step.0),
            length: self.plan.step,
            stats,
        });
        self.next += 1;
    }

    /// Passes on all that is left of a measured part of `length`.
    fn emit_rest(&mut self, length: Nanos) {
        let step = self.plan.step;
        let left = |next: u64| length.since(Nanos(next * step.0));
        while left(self.next) >= step + SLIVER {
            self.emit_second();
        }
        let mut stats = OpStats::default();
        for second in std::mem::take(&mut self.seconds).into_values() {
            stats.merge(&second);
        }
        let left = left(self.next);
        if left >= SLIVER || stats.ops() > 0 {
            (self.on_interval)(TrialInterval {
                start: Nanos(self.next * step.0),
                // Operations of a second that was passed on without them are reported later.
                length: left.max(Nanos(1)),
                stats,
            });
        }
    }

    /// The result of the run, given the workers' accounts and whether it was asked to stop.
    pub(crate) fn outcome(mut self, ended: Vec<WorkerRunResult>, stopped: bool) -> RunResult {
        let RunSchedule {
            warmup,
            length,
            count,
            may_end_early,
            ..
        } = self.plan;
        let interrupted = stopped && ended.iter().any(|worker| worker.end.interrupted);
        let gave_up = ended.iter().filter_map(|worker| worker.end.gave_up);
        let failed = gave_up.min_by_key(|gave_up| gave_up.at);
        let finished_at = ended.iter().map(|worker| worker.end.at).max();
        let finished_at = finished_at.unwrap_or_default();
        let last_end = ended.iter().map(|worker| worker.last_end).max();
        let last_end = last_end.unwrap_or_default();
        let planned = if interrupted || failed.is_some() {
            finished_at
        } else if may_end_early && finished_at < warmup + length {
            last_end
        } else {
            warmup + length
        };
        let whole = planned.max(last_end);
        let counted = match count {
            ThroughputWindow::AsPlanned => planned.min(warmup + length),
            ThroughputWindow::ToLastEnd => whole,
        };
        self.emit_rest(whole.max(finished_at).since(warmup));
        let mut outcome = RunResult {
            stats: self.total,
            length: counted.since(warmup),
            interrupted,
            failed: failed.map(|gave_up| gave_up.to_string()),
            ..RunResult::default()
        };
        outcome.generator.held_up = self.held_up;
        let mut engines: Vec<String> = Vec::new();
        for worker in ended {
            if !engines.contains(&worker.engine) {
                engines.push(worker.engine);
            }
            let generator = &mut outcome.generator;
            generator.user_cpu_ns += worker.cpu_ns.0;
            generator.system_cpu_ns += worker.cpu_ns.1;
            generator.not_submitted += worker.end.not_submitted;
            generator.outside_ns += worker.own.outside.0;
            generator.pacing_ns += worker.own.pacing.0;
            generator.ops += worker.own.ops;
            add_marks(generator, worker.marks);
            outcome.submitted.extend(worker.submitted);
            outcome.workers.extend(worker.workers);
        }
        outcome.generator.engine = engines.join(" / ");
        outcome
    }
}

/// Adds what one worker knows of its operations beside their times.
fn add_marks(generator: &mut GeneratorStats, marks: RequestMarks) {
    generator.unfinished += marks.unfinished;
    for (errno, operations) in marks.errnos {
        *generator.errnos.entry(errno).or_default() += operations;
    }
    if let Some(open) = &marks.open {
        generator.add_open(open);
    }
}
