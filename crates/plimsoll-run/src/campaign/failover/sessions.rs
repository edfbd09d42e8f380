// SPDX-License-Identifier: Apache-2.0
//! The sessions that use a stack while faults are injected into it: the writer of a ledger in a thread of
//! its own, and what its ledger says in the end.

use plimsoll_agent::located;
use plimsoll_console::failure::{CliError, CliExitCode, doing, failed};
use plimsoll_core::data_check::BadBlocks;
use plimsoll_core::failover::FaultInjection;
use plimsoll_core::ledger::{LedgerAccount, LedgerCheck, LedgerDurability};
use plimsoll_core::outage::{OutageProbeWindow, OutageResult};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::Nanos;
use plimsoll_engine::sys::clock::steady_wall_clock;
use plimsoll_ledger::{self as ledger, LedgerCheckOptions, LedgerWriteOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

/// Longer than any fault is looked at: the sessions are ended by the flag.
const LENGTH: Nanos = Nanos(24 * 3600 * Nanos::SECOND.0);

/// The sessions work again when each completes this share of its intended operations in [`LOOKED_AT`].
const GOING: f64 = 0.5;

/// Time between two measurements of the progress of the sessions.
const LOOKED_AT: Nanos = Nanos::SECOND;

/// How all is read back. The stack is up and its directory mounted then.
pub(super) const AFTERWARDS: LedgerCheckOptions = LedgerCheckOptions {
    atomic_bytes: 512,
    gone_is_lost: true,
};

/// Load of the sessions.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionLoadOptions {
    pub(super) sessions: u32,
    /// Reads of each, and as many writes, per second.
    pub(super) rate: f64,
    pub(super) block_bytes: u32,
    pub(super) file_bytes: u64,
}

impl SessionLoadOptions {
    /// The load of an injection; `ceiling` is the highest rate that each session gets out of the system.
    pub(super) fn of(injection: &FaultInjection, ceiling: Option<f64>) -> Self {
        SessionLoadOptions {
            sessions: injection.sessions,
            rate: injection.rate_below(ceiling),
            block_bytes: injection.block_bytes,
            file_bytes: injection.file_bytes,
        }
    }
}

/// Progress of the sessions so far, taken now and then.
#[derive(Debug, Default)]
struct SessionProgress {
    /// At most a second apart: when, and writes and reads of each until then.
    last: Option<(Nanos, Vec<u64>)>,
    /// Whether each did enough between the last two.
    go_on: bool,
}

/// Sessions at work.
pub(super) struct FailoverSessions<'scope> {
    worker: Option<ScopedJoinHandle<'scope, Result<LedgerAccount, CliError>>>,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<SessionProgress>>,
    /// Bad blocks that were read while the sessions worked.
    bad: BadBlocks,
    target: &'scope NodeTarget,
    name: String,
    ledger: PathBuf,
}

impl<'scope> FailoverSessions<'scope> {
    /// Begins to use a place; the ledger must not exist.
    pub(super) fn begin(
        scope: &'scope Scope<'scope, '_>,
        (target, name): (&'scope NodeTarget, &str),
        load: &SessionLoadOptions,
        ledger: &Path,
        seed: Seed,
    ) -> Self {
        let options = LedgerWriteOptions {
            sessions: load.sessions,
            ops_per_s: 2.0 * load.rate,
            bytes: load.file_bytes,
            block_bytes: load.block_bytes,
            length: LENGTH,
            durability: LedgerDurability::EachWrite,
            destroy: true,
            seed,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let seen: Arc<Mutex<SessionProgress>> = Arc::default();
        let expected = GOING * 2.0 * load.rate;
        let (progress, ended, path) = (Arc::clone(&seen), Arc::clone(&stop), ledger.to_path_buf());
        let called = name.to_owned();
        let worker = scope.spawn(move || {
            let mut tell = |_: LedgerAccount, done: &[u64]| {
                let mut seen = progress.lock().unwrap_or_else(PoisonError::into_inner);
                seen.take(steady_wall_clock(), done, expected);
            };
            let places = [(located(target), called)];
            ledger::write(&places, &path, &options, &ended, &mut tell)
                .map_err(failed(CliExitCode::Failed))
        });
        FailoverSessions {
            worker: Some(worker),
            stop,
            seen,
            bad: BadBlocks::default(),
            target,
            name: name.into(),
            ledger: ledger.into(),
        }
    }

    /// Time of day, as the ledger keeps it.
    pub(super) fn now() -> Nanos {
        steady_wall_clock()
    }

    /// Whether each session worked in the last second, most of what it should.
    pub(super) fn go_on(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |(at, _): &(Nanos, _)| steady_wall_clock().since(*at).0 < 3 * LOOKED_AT.0;
        seen.go_on && seen.last.as_ref().is_some_and(is_fresh)
    }

    /// Whether they ended by themselves, which only a mistake makes them do.
    pub(super) fn is_over(&self) -> bool {
        self.worker
            .as_ref()
            .is_none_or(ScopedJoinHandle::is_finished)
    }

    /// Ends them.
    pub(super) fn end(&mut self) -> Result<(), CliError> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(worker) = self.worker.take() else {
            return Ok(());
        };
        let what = format!("use {}", self.name);
        let panicked = || CliError::sentence(CliExitCode::Failed, "the sessions panicked");
        let ended = worker.join().unwrap_or_else(|_| Err(panicked()));
        let account = ended.map_err(|failure| doing(failure.code, what)(failure.text()))?;
        self.bad = account.bad;
        Ok(())
    }

    /// Ends them and says what they felt of a fault injected at this time of day, what they read that should
    /// not have been there, and what became of what they wrote.
    pub(super) fn result(
        mut self,
        fault_at: Nanos,
        stop: &AtomicBool,
    ) -> Result<(OutageResult, LedgerCheck), CliError> {
        self.end()?;
        let unchecked = || {
            doing(
                CliExitCode::Failed,
                format!("check what {} keeps", self.name),
            )
        };
        let check = |target: &NodeTarget| {
            let places = [(located(target), self.name.clone())];
            ledger::check(&places, &[], &self.ledger, AFTERWARDS, stop).map_err(unchecked())
        };
        let mut check = match self.target {
            NodeTarget::Directory {
                path,
                direct_align_bytes,
            } if matches!(path.try_exists(), Ok(false)) => {
                let empty =
                    EmptyDirectory::beside(&self.ledger).map_err(failed(CliExitCode::Failed))?;
                check(&NodeTarget::Directory {
                    path: empty.0.clone(),
                    direct_align_bytes: *direct_align_bytes,
                })
            }
            target => check(target),
        }?;
        check.data.bad.merge(&self.bad);
        let (campaign, probes) = ledger::probes(&self.ledger).map_err(unchecked())?;
        let first_at = campaign.began_at + probes.first_at;
        let window = OutageProbeWindow {
            from: Nanos(0),
            until: probes.length,
            fault_at: Some(fault_at.since(first_at).min(probes.length)),
        };
        Ok((
            OutageResult::of(&probes.sessions, &probes.probes, window),
            check,
        ))
    }
}

/// Empty directory in place of one that is gone with its file system, or from it: nothing that was
/// written is there. Removed in the end.
struct EmptyDirectory(PathBuf);

impl EmptyDirectory {
    fn beside(ledger: &Path) -> std::io::Result<Self> {
        let path = ledger.with_extension("gone");
        std::fs::create_dir(&path)?;
        Ok(EmptyDirectory(path))
    }
}

impl Drop for EmptyDirectory {
    fn drop(&mut self) {
        // Empty, and in the run folder: if it stays, it does no harm.
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl Drop for FailoverSessions<'_> {
    /// An error of the fault must not leave them at work: the scope would wait for them.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl SessionProgress {
    fn take(&mut self, now: Nanos, done: &[u64], expected: f64) {
        let Some((at, before)) = &self.last else {
            self.last = Some((now, done.to_vec()));
            return;
        };
        let time = now.since(*at);
        if time.0 >= LOOKED_AT.0 {
            let per_s = |(done, before): (&u64, &u64)| {
                done.saturating_sub(*before) as f64 / time.as_secs_f64()
            };
            self.go_on = done
                .iter()
                .zip(before)
                .map(per_s)
                .all(|one| one >= expected);
            self.last = Some((now, done.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_go_on_when_each_of_them_does() {
        let mut seen = SessionProgress::default();
        let mut at = |second: u64, done: [u64; 2]| {
            seen.take(Nanos(second * Nanos::SECOND.0), &done, 100.0);
            seen.go_on
        };
        assert!(!at(0, [0, 0]));
        assert!(at(1, [100, 150]));
        // One does the work of three.
        assert!(!at(2, [150, 450]));
        assert!(at(3, [250, 550]));
    }
}
