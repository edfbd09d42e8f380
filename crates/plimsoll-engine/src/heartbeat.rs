// SPDX-License-Identifier: Apache-2.0
//! Notices when this program was suspended: stopped by a signal, frozen, or kept from the
//! processors. Whatever was measured meanwhile speaks of that, not of the storage.
//!
//! A wait with a time limit ends much later only if this program could not run. The time that the
//! machine slept is the difference between two clocks: one counts it, the other does not.

use plimsoll_core::units::Nanos;

use crate::sys::clock::{asleep, monotonic};

/// A wait that ends later than this was held up: a thread that sleeps is woken before those that
/// compute, within some ten milliseconds even on a machine that has much to do.
pub(crate) const HELD_UP_MIN: Nanos = Nanos(300_000_000);

/// Times in which this program was suspended.
#[derive(Debug)]
pub struct FreezeDetector {
    held_up: Nanos,
    /// Time the machine had slept when this began.
    slept: Nanos,
}

impl FreezeDetector {
    /// Begins to watch.
    pub fn begin() -> FreezeDetector {
        FreezeDetector {
            held_up: Nanos(0),
            slept: asleep(),
        }
    }

    /// Does what takes `length` at most: waiting.
    pub fn wait<T>(&mut self, length: Nanos, wait: impl FnOnce() -> T) -> T {
        let began = monotonic();
        let waited = wait();
        self.took(monotonic().since(began), length);
        waited
    }

    fn took(&mut self, took: Nanos, length: Nanos) {
        let late = took.since(length);
        if late >= HELD_UP_MIN {
            self.held_up = self.held_up + late;
        }
    }

    /// For how long it was not let run, in all.
    pub fn held_up(&self) -> Nanos {
        let slept = asleep().since(self.slept);
        let slept = if slept >= HELD_UP_MIN {
            slept
        } else {
            Nanos(0)
        };
        self.held_up + slept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_that_are_much_too_long_count() {
        let mut heart = FreezeDetector::begin();
        heart.took(Nanos(20_000_000), Nanos(20_000_000));
        heart.took(Nanos(250_000_000), Nanos(20_000_000));
        assert_eq!(heart.held_up, Nanos(0));
        heart.took(Nanos(5_020_000_000), Nanos(20_000_000));
        heart.took(Nanos(1_020_000_000), Nanos(20_000_000));
        assert_eq!(heart.held_up, Nanos(6_000_000_000));
    }
}
