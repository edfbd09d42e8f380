// SPDX-License-Identifier: Apache-2.0
//! Time and pauses of the control plane, as an argument. Not for measuring.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells the time and waits.
pub trait HostTimeSource: fmt::Debug {
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;
    /// Time since 1970-01-01 UTC.
    fn unix_time(&self) -> Duration;
    /// Seconds since 1970-01-01 UTC.
    fn unix_seconds(&self) -> u64 {
        self.unix_time().as_secs()
    }
    /// Waits.
    fn pause(&self, length: Duration);
}

/// The clock of this machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// Starts at zero.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock others are given"
    )]
    pub fn new() -> Self {
        SystemClock(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl HostTimeSource for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock others are given"
    )]
    fn unix_time(&self) -> Duration {
        // Before 1970 only when the machine's clock is not set: then any number is as good.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the pause others are given"
    )]
    fn pause(&self, length: Duration) {
        std::thread::sleep(length);
    }
}

/// Seconds since 1970 as `2026-01-31T12:00:00Z`.
pub fn rfc3339(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds)
        .unwrap_or(jiff::Timestamp::MAX)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }
}
