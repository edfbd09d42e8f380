// SPDX-License-Identifier: Apache-2.0
//! The clock of one disk's rows, which people set back now and then.
//!
//! Summer time ends, a clock is corrected, logs are joined in the wrong order: behind such a
//! step rows are placed later by as much, so that an interval stays an interval, with a gap as long
//! as one at the step.

use super::{CounterRow, CounterSemantics};

/// Steps of one disk that are always believed.
const STEPS_MIN: u64 = 8;
/// If more than one row in this number goes back, the clock was not set: the file is unsorted, or
/// several recordings were written into it at once.
const ROWS_MIN: u64 = 20;

/// Where the rows of one disk stand.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RowClock {
    last: Option<u64>,
    /// Of the last interval.
    length: u64,
    shift: u64,
    rows: u64,
    steps: u64,
    /// The first step: when by the clock before, and by how much it went back.
    first_step: Option<(u64, u64)>,
}

/// When a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlacedRow {
    pub(super) from_unix_ns: u64,
    pub(super) at_unix_ns: u64,
    /// Nothing can be said of the time between the row before and this one.
    pub(super) after_step: bool,
}

impl RowClock {
    pub(super) fn place(&mut self, found: &CounterRow<'_>) -> PlacedRow {
        let own = match found.what {
            CounterSemantics::Totals => 0,
            CounterSemantics::Rates { from_unix_ns } | CounterSemantics::Sums { from_unix_ns } => {
                found.at_unix_ns.saturating_sub(from_unix_ns)
            }
        };
        self.rows += 1;
        let mut at = found.at_unix_ns.saturating_add(self.shift);
        let mut after_step = false;
        if let Some(last) = self.last.filter(|last| at < *last) {
            after_step = true;
            self.steps += 1;
            self.first_step = self.first_step.or(Some((last, last - at)));
            // The gap is as long as an interval, and then comes the row's own.
            let gap = if own > 0 { own } else { self.length.max(1) };
            let placed = last.saturating_add(gap).saturating_add(own);
            self.shift = self.shift.saturating_add(placed - at);
            at = placed;
        }
        if let Some(last) = self.last.filter(|last| *last < at) {
            self.length = at - last;
        }
        self.last = Some(at);
        PlacedRow {
            from_unix_ns: at.saturating_sub(own),
            at_unix_ns: at,
            after_step,
        }
    }

    /// Its first step, if it made some.
    pub(super) fn first_step(&self) -> Option<(u64, u64)> {
        self.first_step
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether it goes back too often to be a clock.
    pub(super) fn is_none(&self) -> bool {
        self.steps > STEPS_MIN.max(self.rows / ROWS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn places(rows: &[(u64, CounterSemantics)]) -> (Vec<(u64, u64, bool)>, RowClock) {
        let mut clock = RowClock::default();
        let place = |(at_s, what): &(u64, CounterSemantics)| {
            let placed = clock.place(&CounterRow {
                disk: b"sda",
                at_unix_ns: at_s * S,
                what: *what,
                values: &[],
            });
            let (from, at) = (placed.from_unix_ns / S, placed.at_unix_ns / S);
            (from, at, placed.after_step)
        };
        (rows.iter().map(place).collect(), clock)
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_intervals_as_long_as_they_were() {
        let rate = |at_s| {
            let from_unix_ns = (at_s - 2) * S;
            (at_s, CounterSemantics::Rates { from_unix_ns })
        };
        let (found, clock) = places(&[rate(7_200), rate(7_202), rate(3_604), rate(3_606)]);
        let expect = [
            (7_198, 7_200, false),
            (7_200, 7_202, false),
            (7_204, 7_206, true),
            (7_206, 7_208, false),
        ];
        assert_eq!(found, expect);
        assert_eq!(clock.first_step(), Some((7_202 * S, 3_598 * S)));
        let total = |at_s| (at_s, CounterSemantics::Totals);
        let (found, clock) = places(&[total(50), total(60), total(20), total(30)]);
        assert_eq!(found[2..], [(70, 70, true), (80, 80, false)]);
        assert!(!clock.is_none());
    }

    #[test]
    fn rows_in_no_order_have_no_clock() {
        let rows: Vec<_> = (0..60)
            .map(|i| (100 + i * 37 % 60, CounterSemantics::Totals))
            .collect();
        assert!(places(&rows).1.is_none());
    }
}
