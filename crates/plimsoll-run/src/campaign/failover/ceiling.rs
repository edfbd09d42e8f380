// SPDX-License-Identifier: Apache-2.0
//! The most that the sessions get out of a stack: what a share of it is taken of.

use super::sessions::SessionLoadOptions;
use plimsoll_agent::located;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::ledger::{LedgerAccount, LedgerDurability};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::Nanos;
use plimsoll_engine::sys::clock::steady_wall_clock;
use plimsoll_ledger::{self as ledger, LedgerWriteOptions};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// More than any storage with synced writes carries, so that operations follow each other at once.
const ASKED_PER_S: f64 = 100_000.0;

/// How long that is looked at, after a moment in which it settles.
const LOOKED_AT: Nanos = Nanos(5 * Nanos::SECOND.0);
const SETTLING: Nanos = Nanos::SECOND;

/// Reads, and as many writes, of each session per second, when none waits for its time.
pub(super) fn per_session(
    (target, name): (&NodeTarget, &str),
    load: &SessionLoadOptions,
    ledger: &Path,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<f64, CliError> {
    let options = LedgerWriteOptions {
        sessions: load.sessions,
        ops_per_s: ASKED_PER_S,
        bytes: load.file_bytes,
        block_bytes: load.block_bytes,
        length: Nanos(2 * (LOOKED_AT.0 + SETTLING.0)),
        durability: LedgerDurability::EachWrite,
        destroy: true,
        seed,
    };
    let enough = AtomicBool::new(false);
    let mut seen = ThroughputMeter::default();
    let mut watch = |account: LedgerAccount, _: &[u64]| {
        seen.take(steady_wall_clock(), account.writes + account.reads);
        if seen.is_enough() || stop.load(Ordering::Relaxed) {
            enough.store(true, Ordering::Relaxed);
        }
    };
    let what = || format!("find what {name} carries");
    let places = [(located(target), name.to_owned())];
    ledger::write(&places, ledger, &options, &enough, &mut watch)
        .map_err(doing(CliExitCode::Failed, what()))?;
    let per_s = seen.per_s().filter(|rate| *rate > 0.0);
    let per_s = per_s.ok_or_else(|| {
        let text = format!("{}: it answered nothing", what());
        CliError::new(CliExitCode::Failed, text)
    })?;
    Ok(per_s / 2.0 / f64::from(load.sessions))
}

/// Operations at two times.
#[derive(Debug, Default)]
struct ThroughputMeter {
    began_at: Option<Nanos>,
    first: Option<(Nanos, u64)>,
    last: Option<(Nanos, u64)>,
}

impl ThroughputMeter {
    fn take(&mut self, now: Nanos, done: u64) {
        let began_at = *self.began_at.get_or_insert(now);
        if now.since(began_at).0 >= SETTLING.0 {
            self.first.get_or_insert((now, done));
            self.last = Some((now, done));
        }
    }

    fn time(&self) -> Nanos {
        match (self.first, self.last) {
            (Some((from, _)), Some((until, _))) => until.since(from),
            _ => Nanos(0),
        }
    }

    fn is_enough(&self) -> bool {
        self.time().0 >= LOOKED_AT.0
    }

    fn per_s(&self) -> Option<f64> {
        let ((_, before), (_, after)) = (self.first?, self.last?);
        let ops = after.saturating_sub(before);
        (self.time().0 > 0).then(|| ops as f64 / self.time().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_it_settles_does_not_count() {
        let mut seen = ThroughputMeter::default();
        for tenth in 0..=65_u64 {
            // The first second is ten times as fast.
            let done = 1000 * tenth.min(10) + 100 * tenth.saturating_sub(10);
            assert!(!seen.is_enough());
            seen.take(Nanos(tenth * Nanos::SECOND.0 / 10), done);
            if tenth == 60 {
                break;
            }
        }
        assert!(seen.is_enough());
        assert_eq!(seen.per_s(), Some(1000.0));
    }
}
