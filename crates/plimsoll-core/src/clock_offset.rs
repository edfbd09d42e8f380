// SPDX-License-Identifier: Apache-2.0
//! How far the clocks of other machines are from ours, found from round trips.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// How far the clock of another machine is ahead of ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClockOffset {
    /// Nanoseconds to add to our time for its time.
    pub ns: i64,
    /// How wrong that can be at most either way: half of the shortest round trip.
    pub uncertainty: Nanos,
}

/// One round trip: when a question was sent and when its answer came, on our clock, and what the
/// other clock showed in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Sent.
    pub sent: Nanos,
    /// Time that the other clock showed.
    pub theirs: Nanos,
    /// Answered.
    pub came: Nanos,
}

impl ClockOffset {
    /// From round trips: the shortest bounds the offset best. `None` without any.
    pub fn of(trips: &[RoundTrip]) -> Option<ClockOffset> {
        let best = trips.iter().min_by_key(|trip| trip.came.since(trip.sent))?;
        let half = Nanos(best.came.since(best.sent).0.div_ceil(2));
        Some(ClockOffset {
            ns: difference(best.theirs, best.sent + half),
            uncertainty: half,
        })
    }

    /// An instant of ours on the other clock.
    pub fn theirs(&self, ours: Nanos) -> Nanos {
        Nanos(ours.0.saturating_add_signed(self.ns))
    }
}

/// `a - b` of two instants.
pub fn difference(a: Nanos, b: Nanos) -> i64 {
    let size = i64::try_from(a.0.abs_diff(b.0)).unwrap_or(i64::MAX);
    if a < b { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_tells_the_offset() {
        let trip = |sent, theirs, came| RoundTrip {
            sent: Nanos(sent),
            theirs: Nanos(theirs),
            came: Nanos(came),
        };
        let trips = [
            trip(0, 7_000, 900),
            trip(1_000, 6_060, 1_100),
            trip(2_000, 9_000, 2_800),
        ];
        let offset = ClockOffset::of(&trips).unwrap();
        assert_eq!((offset.ns, offset.uncertainty), (5_010, Nanos(50)));
        assert_eq!(offset.theirs(Nanos(10)), Nanos(5_020));
        // A clock that is behind, so far that it had not begun.
        let offset = ClockOffset::of(&[trip(1_000, 20, 1_020)]).unwrap();
        assert_eq!((offset.ns, offset.theirs(Nanos(100))), (-990, Nanos(0)));
        assert_eq!(ClockOffset::of(&[]), None);
    }
}
