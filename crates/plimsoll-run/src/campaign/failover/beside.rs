// SPDX-License-Identifier: Apache-2.0
//! What uses a stack beside the sessions while faults are done to it: workloads of any kind, and
//! witnesses: a line a second, and a file that is copied.

use super::super::nodes::ClientLoadGenerators;
use super::super::trial::trial_task;
use super::super::{ArmSet, CampaignOptions};
use super::copies::{ScpCopier, ScpCopyResult};
use super::sessions::AFTERWARDS;
use super::under::TrialLoadSwitch;
use plimsoll_agent::failure::{CliError, CliExitCode, doing};
use plimsoll_core::event::{TrialId, TrialInterval, WorkloadEntry};
use plimsoll_core::failover::BackgroundLoadResult;
use plimsoll_core::load::AgentTrialTask;
use plimsoll_core::num::saturating_u32;
use plimsoll_core::op::OpKind;
use plimsoll_core::outage::{OutageProbeWindow, OutageResult};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_engine::TargetLocation;
use plimsoll_ledger as ledger;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

/// Time between two lines of a witness.
const EVERY: Nanos = Nanos::SECOND;

/// Longer than any fault is looked at: they are ended by the flag.
const LENGTH: Nanos = Nanos(24 * 3600 * Nanos::SECOND.0);

/// What is wanted of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct BackgroundLoadOptions<'a> {
    pub(super) entries: &'a [WorkloadEntry],
    pub(super) settings: &'a CampaignOptions,
    /// Whether a witness writes its lines.
    pub(super) stamp: bool,
    /// What a witness copies with.
    pub(super) scp: Option<&'a ScpCopier>,
    /// The stack.
    pub(super) name: &'a str,
    pub(super) arms: &'a ArmSet,
    pub(super) target: &'a NodeTarget,
}

/// Them at work.
pub(super) struct BackgroundLoadRun<'scope> {
    stop: Arc<AtomicBool>,
    begun: Arc<AtomicUsize>,
    workers: Vec<ScopedJoinHandle<'scope, Result<Worked<'scope>, CliError>>>,
    ended: Vec<Result<Worked<'scope>, CliError>>,
    name: &'scope str,
    /// The load of a trial, which is played and told elsewhere.
    trial: Option<&'scope TrialLoadSwitch>,
}

/// What one of them did, and what must be there of it.
type Worked<'a> = (BackgroundLoadResult, Option<Promise<'a>>);

/// What a witness was promised.
enum Promise<'a> {
    /// The lines in this directory that this ledger has.
    Lines { directory: PathBuf, ledger: PathBuf },
    /// These copies.
    Copies(&'a ScpCopier, ScpCopyResult),
}

impl<'a> BackgroundLoadOptions<'a> {
    /// Refuses what cannot work there.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let refuse = |what: &str, why: &str| {
            Err(CliError::usage(format!(
                "run {what} besides the sessions of {}: {why}",
                self.name
            )))
        };
        for entry in self.entries {
            if matches!(entry.workload, Workload::Commands(_)) {
                let why =
                    "programs of others are not ended in the middle; take a workload of plimsoll";
                return refuse(&entry.label, why);
            }
        }
        match self.target {
            NodeTarget::Directory { .. } => Ok(()),
            _ if self.stamp || self.scp.is_some() => {
                refuse("a witness", "it needs a mounted directory")
            }
            _ => Ok(()),
        }
    }

    /// Begins them; `ledger` is that of the sessions, beside which the witness has its own.
    pub(super) fn begin<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        (ledger, seed): (&Path, Seed),
        number: u64,
    ) -> Result<BackgroundLoadRun<'scope>, CliError>
    where
        'a: 'scope,
    {
        let mut all = BackgroundLoadRun {
            stop: Arc::default(),
            begun: Arc::default(),
            workers: Vec::new(),
            ended: Vec::new(),
            name: self.name,
            trial: None,
        };
        for entry in self.entries {
            let (stop, begun) = (Arc::clone(&all.stop), Arc::clone(&all.begun));
            let task = self.task(entry, number);
            let work = move || Ok((play(&task, &stop, &begun)?, None));
            all.workers.push(scope.spawn(work));
        }
        let NodeTarget::Directory { path, .. } = self.target else {
            return Ok(all);
        };
        if self.stamp {
            let directory = made(path.join(format!("witness-{number}")))?;
            all.begin_lines(scope, (directory, ledger.with_extension("witness")), seed);
        }
        if let Some(copier) = self.scp {
            all.begin_copies(scope, copier, made(path.join(format!("copies-{number}")))?);
        }
        Ok(all)
    }

    /// What is asked of this machine for one workload.
    fn task(&self, entry: &WorkloadEntry, number: u64) -> AgentTrialTask {
        let trial = TrialId {
            block: 0,
            place: saturating_u32(number),
            arm: self.name.into(),
            workload: entry.label.clone(),
        };
        trial_task(&trial, self.arms, (entry, self.settings), 0)
    }
}

/// One workload, from the layout of its files until it is told to end.
fn play(
    task: &AgentTrialTask,
    stop: &AtomicBool,
    begun: &AtomicUsize,
) -> Result<BackgroundLoadResult, CliError> {
    let here = ClientLoadGenerators::here();
    let mut hosts = here.hosts();
    let mut sessions = here.prepare(&mut hosts, |_| task.clone(), stop)?;
    begun.fetch_add(1, Ordering::Relaxed);
    let mut still = Still::default();
    let is_over = || stop.load(Ordering::Relaxed);
    let start_at = sessions.play(&is_over, &mut |interval| still.take(&interval));
    let (result, _) = sessions.result(&task.trial, start_at)?;
    let by_itself = (!result.interrupted).then(|| "it completed before the end".to_owned());
    Ok(BackgroundLoadResult {
        name: task.entry.label.clone(),
        ops: result.done(),
        errors: result.stats.errors(),
        still: Some(still.longest),
        missing: 0,
        ended: result.failed.or(by_itself),
    })
}

impl<'scope> BackgroundLoadRun<'scope> {
    /// The load of a trial alone.
    pub(super) fn of_trial(trial: &'scope TrialLoadSwitch, name: &'scope str) -> Self {
        BackgroundLoadRun {
            stop: Arc::default(),
            begun: Arc::default(),
            workers: Vec::new(),
            ended: Vec::new(),
            name,
            trial: Some(trial),
        }
    }

    fn begin_lines(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        (directory, ledger): (PathBuf, PathBuf),
        seed: Seed,
    ) {
        let (stop, begun) = (Arc::clone(&self.stop), Arc::clone(&self.begun));
        self.workers.push(scope.spawn(move || {
            begun.fetch_add(1, Ordering::Relaxed);
            let times = (EVERY, LENGTH);
            let account = ledger::witness(&directory, &ledger, times, seed, &stop, &mut |_| {})
                .map_err(doing(CliExitCode::Failed, "write what a witness checks"))?;
            let company = BackgroundLoadResult {
                name: "stamp".into(),
                ops: account.writes,
                errors: account.errors,
                ..BackgroundLoadResult::default()
            };
            Ok((company, Some(Promise::Lines { directory, ledger })))
        }));
    }

    fn begin_copies(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        copier: &'scope ScpCopier,
        directory: PathBuf,
    ) {
        let (stop, begun) = (Arc::clone(&self.stop), Arc::clone(&self.begun));
        self.workers.push(scope.spawn(move || {
            begun.fetch_add(1, Ordering::Relaxed);
            let copied = copier.work(&directory, &stop);
            let company = BackgroundLoadResult {
                name: "scp".into(),
                ops: copied.done,
                errors: copied.errors,
                still: Some(copied.still),
                ..BackgroundLoadResult::default()
            };
            Ok((company, Some(Promise::Copies(copier, copied))))
        }));
    }

    /// Whether all have laid out their files and work, or one never will.
    pub(super) fn are_ready(&self) -> bool {
        let mut workers = self.workers.iter();
        self.begun.load(Ordering::Relaxed) == self.workers.len()
            || workers.any(ScopedJoinHandle::is_finished)
    }

    /// Ends them.
    pub(super) fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(trial) = self.trial {
            trial.end();
        }
        let broken = || {
            CliError::sentence(
                CliExitCode::Failed,
                "a background workload panicked: this is a bug of plimsoll",
            )
        };
        for worker in self.workers.drain(..) {
            let ended = worker.join().unwrap_or_else(|_| Err(broken()));
            self.ended.push(ended);
        }
    }

    /// Ends them, and says what each did and what became of what the witnesses were promised.
    pub(super) fn told(mut self, stop: &AtomicBool) -> Result<Vec<BackgroundLoadResult>, CliError> {
        // That of a trial has a length of its own.
        self.trial = None;
        self.end();
        let ended = std::mem::take(&mut self.ended);
        let all = ended.into_iter().collect::<Result<Vec<_>, _>>()?;
        let told = all.into_iter().map(|(mut company, promise)| {
            match promise {
                None => {}
                Some(Promise::Lines { directory, ledger }) => {
                    self.check_lines(&mut company, (&directory, &ledger), stop)?;
                }
                Some(Promise::Copies(copier, copied)) => {
                    company.missing = copier.missing(&copied);
                }
            }
            Ok(company)
        });
        told.collect()
    }

    fn check_lines(
        &self,
        company: &mut BackgroundLoadResult,
        (directory, ledger): (&Path, &Path),
        stop: &AtomicBool,
    ) -> Result<(), CliError> {
        let failed = || {
            doing(
                CliExitCode::Failed,
                format!("check the lines on {}", self.name),
            )
        };
        let place = TargetLocation::Directory {
            path: directory,
            direct_align: 0,
        };
        let places = [(place, self.name.to_owned())];
        let check = ledger::check(&places, &[], ledger, AFTERWARDS, stop);
        company.missing = check.map_err(failed())?.data.bad.total();
        let (_, probes) = ledger::probes(ledger).map_err(failed())?;
        let window = OutageProbeWindow {
            from: Nanos(0),
            until: probes.length,
            fault_at: None,
        };
        let outage = OutageResult::of(&probes.sessions, &probes.probes, window);
        company.still = outage.worst(OpKind::Write).map(|stall| stall.length);
        Ok(())
    }
}

/// Makes a directory for a witness on the stack.
fn made(directory: PathBuf) -> Result<PathBuf, CliError> {
    std::fs::create_dir(&directory).map_err(|error| {
        let text = format!("make {}: {error}", directory.display());
        CliError::new(CliExitCode::Failed, text)
    })?;
    Ok(directory)
}

impl Drop for BackgroundLoadRun<'_> {
    /// An error of the fault must not leave them at work: the scope would wait for them.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The longest time without an operation that ended, in whole intervals.
#[derive(Debug, Default)]
struct Still {
    now: Nanos,
    longest: Nanos,
}

impl Still {
    fn take(&mut self, interval: &TrialInterval) {
        // Failed ones are counted as operations, too.
        self.now = match interval.stats.ops() - interval.stats.errors() {
            0 => self.now + interval.length,
            _ => Nanos(0),
        };
        self.longest = self.longest.max(self.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::event::{KindStats, OpStats};

    #[test]
    fn seconds_without_an_operation_count_when_they_follow_each_other() {
        let mut still = Still::default();
        let mut busy = OpStats::default();
        let mut stats = KindStats::default();
        stats.service.record(Nanos(1));
        busy.0.insert(OpKind::Write, stats);
        assert_eq!(busy.ops(), 1);
        for idle in [true, false, true, true, true, false, true] {
            still.take(&TrialInterval {
                start: Nanos(0),
                length: Nanos::SECOND,
                stats: if idle {
                    OpStats::default()
                } else {
                    busy.clone()
                },
            });
        }
        assert_eq!(still.longest, Nanos(3 * Nanos::SECOND.0));
    }
}
