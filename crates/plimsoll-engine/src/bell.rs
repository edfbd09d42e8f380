// SPDX-License-Identifier: Apache-2.0
//! Wake-ups between threads: a futex, and no lock.
//!
//! A thread that changes something rings after the change. A thread that waits registers as a
//! listener, checks once more, and only then sleeps. One of the two sees the other, so no change is
//! missed. A ring without a listener costs a fence.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use plimsoll_core::units::Nanos;
use rustix::thread::{Timespec, futex};

/// A place for threads to sleep, and the bell that wakes them.
#[derive(Debug, Default)]
pub(crate) struct WakeNotifier {
    /// How often it was rung while a thread listened; wraps.
    rings: AtomicU32,
    listeners: AtomicU32,
}

impl WakeNotifier {
    /// Sleeps until the bell is rung, for `at_most`, unless `is_over` says that there is nothing to
    /// wait for any more. May end early.
    pub(crate) fn wait(&self, at_most: Nanos, is_over: impl FnOnce() -> bool) {
        self.listeners.fetch_add(1, Ordering::SeqCst);
        let heard = self.rings.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !is_over() {
            let time = Timespec {
                tv_sec: i64::try_from(at_most.0 / Nanos::SECOND.0).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(at_most.0 % Nanos::SECOND.0).unwrap_or(0),
            };
            // Too late, too early or interrupted: the caller looks again anyway.
            let _ = futex::wait(&self.rings, futex::Flags::PRIVATE, heard, Some(&time));
        }
        self.listeners.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes one of those who wait.
    pub(crate) fn ring(&self) {
        self.wake(1);
    }

    /// Wakes all who wait.
    pub(crate) fn ring_for_all(&self) {
        // The kernel takes the number as a signed one.
        self.wake(i32::MAX.unsigned_abs());
    }

    #[inline]
    fn wake(&self, sleepers: u32) {
        fence(Ordering::SeqCst);
        if self.listeners.load(Ordering::SeqCst) > 0 {
            self.rings.fetch_add(1, Ordering::SeqCst);
            let _ = futex::wake(&self.rings, futex::Flags::PRIVATE, sleepers);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    const LONG: Nanos = Nanos(600 * Nanos::SECOND.0);

    #[test]
    fn nobody_sleeps_for_what_has_come_and_a_sleep_ends_in_time() {
        let bell = WakeNotifier::default();
        bell.wait(LONG, || true);
        bell.ring();
        bell.wait(Nanos(1_000), || false);
        assert_eq!(bell.listeners.load(Ordering::SeqCst), 0);
    }

    /// Each of two threads waits for the other one a thousand times. A ring that is missed would
    /// cost ten minutes.
    #[test]
    fn no_ring_is_missed_and_none_is_needed_twice() {
        const TURNS: u64 = 1_000;
        let (turn, looks) = (AtomicU64::new(0), AtomicU64::new(0));
        let bells = [WakeNotifier::default(), WakeNotifier::default()];
        let play = |me: u64| {
            let is_mine = || turn.load(Ordering::Acquire) % 2 == me;
            let own = &bells[usize::from(me == 1)];
            let other = &bells[usize::from(me == 0)];
            for _ in 0..TURNS {
                while !is_mine() {
                    looks.fetch_add(1, Ordering::Relaxed);
                    own.wait(LONG, is_mine);
                }
                turn.fetch_add(1, Ordering::AcqRel);
                other.ring();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| play(0));
            scope.spawn(|| play(1));
        });
        assert_eq!(turn.load(Ordering::Relaxed), 2 * TURNS);
        let looks = looks.load(Ordering::Relaxed);
        assert!(looks <= 4 * TURNS, "{looks} looks for {TURNS} turns");
    }
}
