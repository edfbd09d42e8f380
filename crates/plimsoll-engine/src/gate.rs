// SPDX-License-Identifier: Apache-2.0
//! How workers start together, and how none waits for one that will never come.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::sys::clock::HostClock;

/// A barrier that one failure opens for all.
#[derive(Debug)]
pub(crate) struct Gate {
    workers: u32,
    state: Mutex<State>,
    changed: Condvar,
    origin: OnceLock<HostClock>,
}

#[derive(Debug, Default)]
struct State {
    ready: u32,
    failed: bool,
}

impl Gate {
    /// A gate for so many workers.
    pub(crate) fn new(workers: u32) -> Self {
        Gate {
            workers,
            state: Mutex::default(),
            changed: Condvar::new(),
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
        (!failed).then(|| *self.origin.get_or_init(HostClock::start))
    }

    /// Says that a worker will not come, and sends the others home.
    pub(crate) fn fail(&self) {
        self.lock().failed = true;
        self.changed.notify_all();
    }

    /// The clock of the run, once it has started.
    pub(crate) fn clock(&self) -> Option<HostClock> {
        self.origin.get().copied()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nobody panics with the lock held, and the state is right at every moment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(n: u32, fails: bool) -> Vec<bool> {
        let gate = Gate::new(n);
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
}
