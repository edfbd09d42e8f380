// SPDX-License-Identifier: Apache-2.0
//! Clocks: what time it is on the run's clock, whose 0 is the start of the run.
//!
//! The clocks of the machine are in [`crate::sys::clock`]; here is the one of simulations.

use std::cell::Cell;
use std::rc::Rc;

use plimsoll_core::units::Nanos;

/// Tells the time of a run. Never goes backwards.
pub trait RunClock {
    /// Time since the start of the run.
    fn now(&self) -> Nanos;
}

/// Time that passes only when it is advanced.
#[derive(Debug, Clone, Default)]
pub struct SimClock(Rc<Cell<u64>>);

impl SimClock {
    /// A clock at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves on to `time`; an earlier time changes nothing.
    pub fn advance_to(&self, time: Nanos) {
        self.0.set(self.0.get().max(time.0));
    }
}

impl RunClock for SimClock {
    #[inline]
    fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_time_is_shared_and_never_goes_back() {
        let clock = SimClock::new();
        let other = clock.clone();
        other.advance_to(Nanos(7));
        other.advance_to(Nanos(3));
        assert_eq!(clock.now(), Nanos(7));
    }
}
