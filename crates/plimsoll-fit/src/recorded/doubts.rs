// SPDX-License-Identifier: Apache-2.0
//! Doubts whether a recording is of the kind that it was taken for: single times far from all others,
//! and figures that no storage reaches, as of a format that looks like another.

use plimsoll_core::num::ratio;
use plimsoll_core::units::{self, Nanos};

/// Starts at either end that are looked at: a wrong date is one of few.
const ENDS: usize = 8;
/// Fewest requests among which few may be called the odd ones.
const REQUESTS_MIN: u64 = 100;
/// How far they are from all others: a day, and `FAR_TIMES` times as long as all others last.
const FAR_MIN: Nanos = Nanos(86_400_000_000_000);
const FAR_TIMES: u64 = 10;

/// Requests in a second above which the times are doubted, and above which nothing is fitted to them.
const RATE_DOUBTED: f64 = 1e6;
const RATE_REFUSED: f64 = 1e7;
/// Fewest requests that have a rate worth doubting.
const RATED_MIN: u64 = 1_000;
/// Bytes from the begin of a device above which the places are doubted.
const REACH_DOUBTED: u64 = 1 << 50;

/// The watch over a recording while it is read.
#[derive(Debug, Default)]
pub(super) struct TraceValidityCheck {
    /// The earliest and the latest starts, rising.
    first: Vec<u64>,
    last: Vec<u64>,
    requests: u64,
    reach: u64,
}

/// The findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TraceValidity {
    /// Warnings for the reader.
    pub(super) told: Vec<String>,
    /// Why nothing is fitted to it.
    pub(super) refused: Option<String>,
}

impl TraceValidityCheck {
    pub(super) fn add(&mut self, at: Nanos, end: u64) {
        self.requests += 1;
        self.reach = self.reach.max(end);
        if self.first.len() < ENDS || self.first.last().is_some_and(|last| at.0 < *last) {
            let place = self.first.partition_point(|known| *known <= at.0);
            self.first.insert(place, at.0);
            self.first.truncate(ENDS);
        }
        if self.last.len() < ENDS || self.last.first().is_some_and(|first| at.0 > *first) {
            let place = self.last.partition_point(|known| *known <= at.0);
            self.last.insert(place, at.0);
            if self.last.len() > ENDS {
                self.last.remove(0);
            }
        }
    }

    /// Oddities of a recording of this length.
    pub(super) fn finish(&self, length: Nanos) -> TraceValidity {
        let mut found = TraceValidity::default();
        if let Some((count, side, apart)) = self.far() {
            let text = format!(
                "{count} of its {} requests start {apart} {side} all others, as with a wrong date: \
                 rates and times are over all of that",
                self.requests
            );
            let way = "leave them out with --from and --to";
            found.told.push(format!("{text}; {way}"));
            found.refused = Some(format!("{text}; {way}"));
        }
        let per_s = ratio(self.requests as f64, length.as_secs_f64());
        if self.requests >= RATED_MIN && per_s > RATE_DOUBTED {
            let text = format!(
                "its requests come at {} a second: its times may be in another unit, or the file in \
                 another format, than assumed",
                units::rate(per_s)
            );
            found.told.push(text.clone());
            if per_s > RATE_REFUSED {
                found.refused.get_or_insert(text);
            }
        }
        if self.reach > REACH_DOUBTED {
            found.told.push(format!(
                "its offsets reach to {}: that column may be something else, or the file in another \
                 format",
                units::size(self.reach as f64)
            ));
        }
        found
    }

    /// How many requests are far from all others, on which side of them, and how far.
    fn far(&self) -> Option<(usize, &'static str, Nanos)> {
        if self.requests < REQUESTS_MIN {
            return None;
        }
        let (earliest, latest) = (*self.first.first()?, *self.last.last()?);
        let is_far = |apart: u64, rest: u64| apart >= FAR_MIN.0 && apart / FAR_TIMES >= rest;
        for (place, pair) in self.first.windows(2).enumerate() {
            let apart = pair[1] - pair[0];
            if is_far(apart, latest - pair[1]) {
                return Some((place + 1, "before", Nanos(apart)));
            }
        }
        for (place, pair) in self.last.windows(2).enumerate().rev() {
            let apart = pair[1] - pair[0];
            if is_far(apart, pair[0].saturating_sub(earliest)) {
                return Some((self.last.len() - 1 - place, "behind", Nanos(apart)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000_000_000;

    fn doubted(at_ns: impl Iterator<Item = u64>) -> TraceValidity {
        let mut doubts = TraceValidityCheck::default();
        let (mut first, mut last) = (u64::MAX, 0);
        for at in at_ns {
            (first, last) = (first.min(at), last.max(at));
            doubts.add(Nanos(at), 4096);
        }
        doubts.finish(Nanos(last - first))
    }

    #[test]
    fn few_times_far_from_all_others_are_told_wherever_they_stand() {
        let load = || (0..5_000u64).map(|n| 50 * 365 * DAY + n * 1_000_000);
        for (odd, count, side) in [
            (vec![0], 1, "before"),
            (vec![51 * 365 * DAY, 51 * 365 * DAY + 7], 2, "behind"),
        ] {
            let found = doubted(odd.iter().copied().chain(load()));
            let refused = found.refused.unwrap_or_default();
            assert!(
                refused.starts_with(&format!("{count} of its")) && refused.contains(side),
                "{refused}"
            );
            let behind = doubted(load().chain(odd));
            assert!(behind.refused.is_some());
        }
        assert_eq!(doubted(load()), TraceValidity::default());
        // A load of weeks with a weekend in it is one.
        let weeks = (0..5_000u64).map(|n| n * DAY / 100 + n / 500 * 2 * DAY);
        assert_eq!(doubted(weeks), TraceValidity::default());
    }

    #[test]
    fn rates_and_places_of_no_storage_are_told() {
        let found = doubted((0..20_000).map(|n| n * 7));
        assert!(found.told[0].contains("a second"), "{found:?}");
        assert!(found.refused.is_some());
        let mut doubts = TraceValidityCheck::default();
        doubts.add(Nanos(0), u64::MAX / 3);
        assert!(doubts.finish(Nanos(9)).told[0].contains("offsets reach"));
    }
}
