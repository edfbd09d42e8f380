// SPDX-License-Identifier: Apache-2.0
//! Observers beside the sessions while a fault is injected: a line a second, and a file that is copied.

use super::copies::{ScpCopier, ScpCopyResult};
use super::sessions::AFTERWARDS;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::failover::{FaultObserver, ObserverResult};
use plimsoll_core::op::OpKind;
use plimsoll_core::outage::{OutageProbeWindow, OutageResult};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::Nanos;
use plimsoll_ledger as ledger;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

/// Time between two lines of an observer.
const EVERY: Nanos = Nanos::SECOND;

/// Longer than any fault is looked at: they are ended by the flag.
const LENGTH: Nanos = Nanos(24 * 3600 * Nanos::SECOND.0);

/// Those that are wanted in a trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObserverOptions<'a> {
    pub(super) observers: &'a [FaultObserver],
    /// Copier that `scp` uses.
    pub(super) copier: Option<&'a ScpCopier>,
    /// The stack.
    pub(super) name: &'a str,
    pub(super) target: &'a NodeTarget,
    /// Of the trial, from 1.
    pub(super) number: u32,
}

/// Observers at work.
pub(super) struct ObserverRun<'scope> {
    stop: Arc<AtomicBool>,
    workers: Vec<ScopedJoinHandle<'scope, Result<ObserverPromise<'scope>, CliError>>>,
    ended: Vec<Result<ObserverPromise<'scope>, CliError>>,
    name: &'scope str,
}

/// Result of an observer, and the lines or copies that must be there afterwards.
enum ObserverPromise<'a> {
    /// The lines in this directory that this ledger has.
    Lines(ObserverResult, PathBuf, PathBuf),
    /// These copies.
    Copies(&'a ScpCopier, ScpCopyResult),
}

impl<'a> ObserverOptions<'a> {
    /// Begins them; `ledger` is that of the sessions, beside which `stamp` has its own.
    pub(super) fn begin<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        (ledger, seed): (&Path, Seed),
    ) -> Result<ObserverRun<'scope>, CliError>
    where
        'a: 'scope,
    {
        let mut all = ObserverRun {
            stop: Arc::default(),
            workers: Vec::new(),
            ended: Vec::new(),
            name: self.name,
        };
        for observer in self.observers {
            let NodeTarget::Directory { path, .. } = self.target else {
                continue;
            };
            match (observer, self.copier) {
                (FaultObserver::Stamp, _) => {
                    let directory = made(path.join(format!("stamp-{}", self.number)))?;
                    all.begin_lines(scope, (directory, ledger.with_extension("stamp")), seed);
                }
                (FaultObserver::Scp, Some(copier)) => {
                    let directory = made(path.join(format!("scp-{}", self.number)))?;
                    all.begin_copies(scope, copier, directory);
                }
                (FaultObserver::Scp, None) => {}
            }
        }
        Ok(all)
    }
}

impl<'scope> ObserverRun<'scope> {
    fn begin_lines(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        (directory, ledger): (PathBuf, PathBuf),
        seed: Seed,
    ) {
        let stop = Arc::clone(&self.stop);
        self.workers.push(scope.spawn(move || {
            let times = (EVERY, LENGTH);
            let account = ledger::witness(&directory, &ledger, times, seed, &stop, &mut |_| {})
                .map_err(doing(CliExitCode::Failed, "write the lines of an observer"))?;
            let seen = ObserverResult {
                name: "stamp".into(),
                ops: account.writes,
                errors: account.errors,
                ..ObserverResult::default()
            };
            Ok(ObserverPromise::Lines(seen, directory, ledger))
        }));
    }

    fn begin_copies(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        copier: &'scope ScpCopier,
        directory: PathBuf,
    ) {
        let stop = Arc::clone(&self.stop);
        self.workers.push(scope.spawn(move || {
            let copied = copier.work(&directory, &stop);
            Ok(ObserverPromise::Copies(copier, copied))
        }));
    }

    /// Ends them.
    pub(super) fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = || CliError::sentence(CliExitCode::Failed, "an observer panicked");
        for worker in self.workers.drain(..) {
            let ended = worker.join().unwrap_or_else(|_| Err(panicked()));
            self.ended.push(ended);
        }
    }

    /// Ends them, and gives what each saw and what became of what it was promised.
    pub(super) fn result(mut self, stop: &AtomicBool) -> Result<Vec<ObserverResult>, CliError> {
        self.end();
        let ended = std::mem::take(&mut self.ended);
        let all = ended.into_iter().map(|promise| match promise? {
            ObserverPromise::Lines(seen, directory, ledger) => {
                self.check_lines(seen, (&directory, &ledger), stop)
            }
            ObserverPromise::Copies(copier, copied) => Ok(ObserverResult {
                name: "scp".into(),
                ops: copied.done,
                errors: copied.errors,
                still: Some(copied.still),
                missing: copier.missing(&copied),
            }),
        });
        all.collect()
    }

    fn check_lines(
        &self,
        seen: ObserverResult,
        (directory, ledger): (&Path, &Path),
        stop: &AtomicBool,
    ) -> Result<ObserverResult, CliError> {
        let failed = || {
            doing(
                CliExitCode::Failed,
                format!("check the lines on {}", self.name),
            )
        };
        let place = NodeTarget::Directory {
            path: directory.into(),
            direct_align_bytes: 0,
        };
        let places = [(place, self.name.to_owned())];
        let check = ledger::check(&places, &[], ledger, AFTERWARDS, stop).map_err(failed())?;
        let (_, probes) = ledger::probes(ledger).map_err(failed())?;
        let window = OutageProbeWindow {
            from: Nanos(0),
            until: probes.length,
            fault_at: None,
        };
        let outage = OutageResult::of(&probes.sessions, &probes.probes, window);
        Ok(ObserverResult {
            missing: check.data.bad.total(),
            still: outage.worst(OpKind::Write).map(|stall| stall.length),
            ..seen
        })
    }
}

/// Makes a directory for an observer on the stack.
fn made(directory: PathBuf) -> Result<PathBuf, CliError> {
    let what = format!("make {}", directory.display());
    std::fs::create_dir(&directory).map_err(doing(CliExitCode::Failed, what))?;
    Ok(directory)
}

impl Drop for ObserverRun<'_> {
    /// An error of the fault must not leave them at work: the scope would wait for them.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
