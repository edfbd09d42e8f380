// SPDX-License-Identifier: Apache-2.0
//! Others on the disks that are checked: how much they do, and whether the check makes them slow.

use super::super::measure::RunEnder;
use plimsoll_core::num::ratio;
use plimsoll_core::target::TargetFacts;
use plimsoll_core::units::{self, Nanos};
use plimsoll_machine::host::counters::{DeviceCounters, disks_now};
use plimsoll_machine::host::{HostTimeSource as _, SystemClock};
use plimsoll_machine::set_on_drop::SetOnDrop;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long others are looked at before a check, and where nothing else is done.
const LOOK: Duration = Duration::from_secs(3);
const LONG_LOOK: Duration = Duration::from_secs(10);
/// Requests a second from which on others use a disk: journals and logs of an idle machine make a few.
const USED_PER_S: f64 = 20.0;
/// Times as long as before that requests may take …
const SLOWER: f64 = 2.0;
/// … and the least that they must take longer: below it nothing is felt.
const SLOWER_BY_MS: f64 = 2.0;
/// Slow looks in a row that end a check: a single slow second is no harm.
const LOOKS: u32 = 5;
/// Between two looks.
const STEP: Duration = Duration::from_secs(1);
/// Between two looks at whether the check is over.
const MOMENT: Duration = Duration::from_millis(50);

/// Requests of a disk in a stretch of time.
#[derive(Debug, Clone, Copy, Default)]
struct DiskRate {
    per_s: f64,
    mean_ms: f64,
}

impl DiskRate {
    fn between(before: &DeviceCounters, after: &DeviceCounters, time: Duration) -> DiskRate {
        let requests = after.requests.saturating_sub(before.requests) as f64;
        let spent_ms = after.request_ms.saturating_sub(before.request_ms) as f64;
        DiskRate {
            per_s: ratio(requests, time.as_secs_f64()),
            mean_ms: ratio(spent_ms, requests),
        }
    }

    fn is_used(self) -> bool {
        self.per_s >= USED_PER_S
    }
}

/// Rates of disks before anything of ours is on them, by their names.
#[derive(Debug)]
pub(super) struct DiskNeighbours(BTreeMap<String, DiskRate>);

impl DiskNeighbours {
    /// Looks at the disks below these places.
    pub(super) fn look(
        storage: &[TargetFacts],
        is_all: bool,
        clock: &SystemClock,
    ) -> DiskNeighbours {
        let time = if is_all { LONG_LOOK } else { LOOK };
        let before = disks_now();
        clock.pause(time);
        let after = disks_now();
        let names = storage.iter().flat_map(|one| &one.disks);
        let rate = |name: &String| {
            let both = before.get(name).zip(after.get(name))?;
            Some((name.clone(), DiskRate::between(both.0, both.1, time)))
        };
        DiskNeighbours(names.filter_map(rate).collect())
    }

    /// Requests of others on these disks, in words.
    pub(super) fn describe(&self, disks: &[String]) -> String {
        let known = disks
            .iter()
            .filter_map(|name| Some((name, self.0.get(name)?)));
        let told: Vec<String> = known
            .map(|(name, rate)| match rate.is_used() {
                true => format!(
                    "others make {:.0} requests a second on {name} now, {} each",
                    rate.per_s,
                    milliseconds(rate.mean_ms)
                ),
                false => format!("{name} is idle now"),
            })
            .collect();
        match told.is_empty() {
            true => "its disks are not this machine's".into(),
            false => told.join(", "),
        }
    }
}

fn milliseconds(ms: f64) -> String {
    units::duration(Nanos::from_secs_f64(ms / 1e3))
}

/// Ends a check that makes requests of others slow, or takes too long.
#[derive(Debug)]
pub(super) struct DiskWatch {
    before: DiskNeighbours,
    longest: Duration,
    reason: Mutex<Option<String>>,
}

impl DiskWatch {
    pub(super) fn of(before: DiskNeighbours, longest: Nanos) -> DiskWatch {
        DiskWatch {
            before,
            longest: Duration::from_nanos(longest.0),
            reason: Mutex::new(None),
        }
    }

    /// Does the work, and watches meanwhile.
    pub(super) fn during<T>(
        &self,
        ender: &RunEnder,
        clock: &SystemClock,
        work: impl FnOnce() -> T,
    ) -> T {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| self.watch(ender, clock, &is_over));
            let _over = SetOnDrop(&is_over);
            work()
        })
    }

    /// Why the check was ended, if it was.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.lock().ok()?.clone()
    }

    fn watch(&self, ender: &RunEnder, clock: &SystemClock, is_over: &AtomicBool) {
        let used = self.before.0.iter().filter(|(_, rate)| rate.is_used());
        let mut slow: BTreeMap<&String, u32> = used.map(|(name, _)| (name, 0)).collect();
        let mut last = disks_now();
        let end = clock.now() + self.longest;
        while !is_over.load(Ordering::Relaxed) {
            if clock.now() >= end {
                let why = "ended early: its time was over. Where laying out files took it, the storage is too slow for \
                           this check; --use asks about one use";
                return self.end(ender, why.to_owned());
            }
            let until = clock.now() + STEP;
            while clock.now() < until && !is_over.load(Ordering::Relaxed) {
                clock.pause(MOMENT);
            }
            let now = disks_now();
            for (name, looks) in &mut slow {
                let both = last.get(*name).zip(now.get(*name));
                let Some((then, since)) = both else { continue };
                let before = self.before.0[*name].mean_ms;
                let mean = DiskRate::between(then, since, STEP).mean_ms;
                let is_slow = mean > before * SLOWER && mean > before + SLOWER_BY_MS;
                *looks = if is_slow { *looks + 1 } else { 0 };
                if *looks == LOOKS {
                    return self.end(ender, slow_words(name, before, mean));
                }
            }
            last = now;
        }
    }

    fn end(&self, ender: &RunEnder, why: String) {
        if let Ok(mut reason) = self.reason.lock() {
            *reason = Some(why);
        }
        ender.end();
    }
}

fn slow_words(disk: &str, before_ms: f64, ms: f64) -> String {
    format!(
        "ended early: others use {disk}, and requests there took {} for {LOOKS} seconds, {} before",
        milliseconds(ms),
        milliseconds(before_ms)
    )
}
