// SPDX-License-Identifier: Apache-2.0
//! The start barrier of workers; none waits for a worker that failed.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use plimsoll_core::units::Nanos;

use crate::sys::clock::{self, HostClock};

/// A barrier that one failure opens for all.
#[derive(Debug)]
pub(crate) struct StartBarrier {
    workers: u32,
    state: Mutex<StartBarrierState>,
    changed: Condvar,
    /// When the clock is to start, on the machine's clock; at once when that is past.
    start_at: Nanos,
    origin: OnceLock<StartBarrierOrigin>,
}

/// The start of a run.
#[derive(Debug, Clone, Copy)]
struct StartBarrierOrigin {
    clock: HostClock,
    /// On the machine's clock.
    at: Nanos,
}

#[derive(Debug, Default)]
struct StartBarrierState {
    ready: u32,
    failed: bool,
}

impl StartBarrier {
    /// A barrier for `workers` workers that opens at `start_at` on the machine's clock, or as soon as
    /// all are there if that is later.
    pub(crate) fn new(workers: u32, start_at: Nanos) -> Self {
        StartBarrier {
            workers,
            state: Mutex::default(),
            changed: Condvar::new(),
            start_at,
            origin: OnceLock::new(),
        }
    }

    /// Waits until all workers are ready; the clock of the run, which starts then, or `None` when
    /// one of them cannot come.
    pub(crate) fn wait(&self) -> Option<HostClock> {
        let mut state = self.lock();
        state.ready += 1;
        self.changed.notify_all();
        while state.ready < self.workers && !state.failed {
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        let failed = state.failed;
        drop(state);
        // The first one waits for the start; the others wait for the first one.
        let origin = || {
            let at = clock::wait_until(self.start_at);
            let clock = HostClock::start();
            StartBarrierOrigin { clock, at }
        };
        (!failed).then(|| self.origin.get_or_init(origin).clock)
    }

    /// Says that a worker will not come, and sends the others home.
    pub(crate) fn fail(&self) {
        self.lock().failed = true;
        self.changed.notify_all();
    }

    /// The clock of the run, once it has started.
    pub(crate) fn clock(&self) -> Option<HostClock> {
        self.origin.get().map(|origin| origin.clock)
    }

    /// When that was, on the machine's clock.
    pub(crate) fn started_at(&self) -> Option<Nanos> {
        self.origin.get().map(|origin| origin.at)
    }

    fn lock(&self) -> MutexGuard<'_, StartBarrierState> {
        // A poisoned lock is usable: no code panics while it holds the lock, and the state is always valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(n: u32, fails: bool) -> Vec<bool> {
        let gate = StartBarrier::new(n, Nanos(0));
        std::thread::scope(|scope| {
            let comes = if fails { n - 1 } else { n };
            let workers: Vec<_> = (0..comes)
                .map(|_| scope.spawn(|| gate.wait().is_some()))
                .collect();
            if fails {
                gate.fail();
            }
            workers.into_iter().map(|w| w.join().unwrap()).collect()
        })
    }

    #[test]
    fn all_start_together_or_none_does_and_nobody_waits_for_ever() {
        assert_eq!(started(8, false), [true; 8]);
        assert_eq!(started(8, true), [false; 7]);
    }

    #[test]
    fn no_clock_starts_before_its_instant_and_the_start_is_known() {
        let start_at = clock::monotonic() + Nanos(20_000_000);
        let gate = StartBarrier::new(1, start_at);
        assert_eq!(gate.started_at(), None);
        gate.wait().unwrap();
        let started_at = gate.started_at().unwrap();
        assert!(started_at >= start_at && clock::monotonic() >= started_at);
    }
}
