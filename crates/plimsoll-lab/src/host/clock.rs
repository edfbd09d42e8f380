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
    #[must_use]
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
#[must_use]
pub fn rfc3339(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Years are counted from 1 March, so that the leap day is the last of its year, and from the
    // year 0 of a 400-year cycle, so that all numbers stay positive.
    let shifted = days + 719_468;
    let (cycle, day_of_cycle) = (shifted / 146_097, shifted % 146_097);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = cycle * 400 + year_of_cycle + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
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
