// SPDX-License-Identifier: Apache-2.0
//! Whether what was recorded looks like a closed loop: a number in flight that is never exceeded and
//! mostly there.
//!
//! Independent users know no such number: the more are in flight, the less often. A program that
//! keeps a fixed number in flight, or a queue of fixed length, stays at its limit.

use plimsoll_core::model::ModelFactValue;
use plimsoll_core::num::ratio;
use plimsoll_core::units::Nanos;

use super::in_flight::InFlightTracker;

/// Least share of the busy time at the largest number.
const SHARE_MIN: f64 = 0.2;
/// Least largest number: one at a time proves nothing, as few users look the same.
const CEILING_MIN: usize = 2;
/// Fewest requests that allow a conclusion.
const REQUESTS_MIN: u64 = 100;

/// A limit on what was in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct InFlightLimit {
    /// The largest number in flight.
    pub(super) in_flight: usize,
    /// Share of the time with anything in flight that it was there.
    pub(super) share: f64,
}

impl InFlightLimit {
    /// It as a fact of a model.
    pub(super) fn threads(self) -> ModelFactValue<u32> {
        ModelFactValue::derived(u32::try_from(self.in_flight).unwrap_or(u32::MAX))
    }

    /// Warnings of it for the reader.
    pub(super) fn sentence(self, open_loop: bool) -> String {
        let played = match open_loop {
            true => "they are played open loop, as requested: a slower device gets more in flight",
            false => {
                "the model never has more in flight; requests beyond that wait, and the wait \
                 counts"
            }
        };
        format!(
            "{} were in flight for {:.0} % of the busy time and never more, as in a closed loop: \
             {played}",
            self.in_flight,
            self.share * 100.0
        )
    }
}

/// Watches requests in the order of their starts.
#[derive(Debug, Default)]
pub(super) struct InFlightLimitFinder {
    in_flight: InFlightTracker,
    requests: u64,
}

impl InFlightLimitFinder {
    /// A request that started and took so long, if that is recorded.
    pub(super) fn add(&mut self, at: Nanos, took: Option<Nanos>) {
        let Some(took) = took else {
            return;
        };
        self.requests += 1;
        self.in_flight.add(at, took);
    }

    /// The limit, if there is a hard one.
    pub(super) fn finish(self) -> Option<InFlightLimit> {
        let busy = self.in_flight.busy();
        let last = busy.iter().rposition(|time| *time > 0)?;
        let most = busy.iter().max()?;
        let sum: f64 = busy.iter().map(|time| *time as f64).sum();
        let found = InFlightLimit {
            in_flight: last + 1,
            share: ratio(busy[last] as f64, sum),
        };
        let is_hard = busy[last] == *most
            && found.share >= SHARE_MIN
            && found.in_flight >= CEILING_MIN
            && self.requests >= REQUESTS_MIN;
        is_hard.then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::num::round_u64;
    use plimsoll_core::rng::{Rng, Seed};

    #[test]
    fn a_closed_loop_stands_at_its_limit() {
        // Eight at a time, each followed at once by the next; with pauses in which all have ended.
        let mut rng = Rng::new(Seed(1));
        let mut watch = InFlightLimitFinder::default();
        let mut slots = [Nanos(0); 8];
        for request in 0..4_000 {
            if request % 1_000 == 0 {
                let last = slots.iter().max().copied().unwrap_or_default();
                slots = [last + Nanos::SECOND; 8];
            }
            let slot = slots.iter_mut().min().unwrap();
            let took = Nanos(50_000 + rng.below(100_000));
            watch.add(*slot, Some(took));
            *slot = *slot + took;
        }
        let found = watch.finish().unwrap();
        assert_eq!(found.in_flight, 8);
        assert!(found.share > 0.9, "{found:?}");
        assert!(found.sentence(false).starts_with("8 were in flight for 9"));
        assert_eq!(found.threads(), ModelFactValue::derived(8));
    }

    #[test]
    fn independent_users_have_no_limit() {
        for load in [0.3, 0.9, 8.0] {
            let mut rng = Rng::new(Seed(2));
            let mut watch = InFlightLimitFinder::default();
            let mut at = 0.0;
            for _ in 0..20_000 {
                at += rng.exponential(100_000.0 / load);
                let took = Nanos(round_u64(rng.exponential(100_000.0)));
                watch.add(Nanos(round_u64(at)), Some(took));
            }
            assert_eq!(watch.finish(), None, "{load}");
        }
        // No conclusion from one at a time.
        let mut watch = InFlightLimitFinder::default();
        for request in 0..1_000 {
            watch.add(Nanos(request * 100), Some(Nanos(100)));
        }
        assert_eq!(watch.finish(), None);
    }
}
