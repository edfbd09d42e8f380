// SPDX-License-Identifier: Apache-2.0
//! The resolution of the starts in a recording, and what follows from that.
//!
//! A format promises a resolution; a recording may be coarser than its format, which its own starts
//! say: all of them are multiples of one unit. What lies below the resolution is not recorded: no
//! figure of it is shown, and where such requests are played they are spread over their tick, said so.

use plimsoll_core::op::TraceAccess;
use plimsoll_core::units::Nanos;

use super::TraceDevice;

/// How long requests were recorded, and the resolution of their starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceTimeBase {
    /// From the first start to the end of the last tick, and to the last end where ends are recorded.
    pub(crate) length: Nanos,
    /// The finest difference of two starts.
    pub(crate) resolution: Nanos,
}

/// From here on requests of one instant are not there together but of one tick of a clock. A
/// microsecond is what most tracers record, and what is submitted together has one instant there.
const TICK_MIN: Nanos = Nanos(10_000);

impl TraceTimeBase {
    /// Of starts with the finest resolution.
    pub(crate) fn fine(length: Nanos) -> TraceTimeBase {
        let resolution = Nanos(1);
        TraceTimeBase { length, resolution }
    }

    /// Whether starts are those of ticks.
    pub(crate) fn is_coarse(&self) -> bool {
        self.resolution >= TICK_MIN
    }

    /// Whether the mean of this number of gaps is at least a tick.
    pub(crate) fn tells_gaps(&self, gaps: u64) -> bool {
        u128::from(gaps) * u128::from(self.resolution.0) <= u128::from(self.length.0)
    }

    /// An interval of at least this length that no tick lies across.
    pub(crate) fn whole_ticks(&self, interval: Nanos) -> Nanos {
        match self.is_coarse() {
            true => Nanos(interval.0.max(1).next_multiple_of(self.resolution.0)),
            false => interval,
        }
    }

    /// A warning where starts have a coarse resolution.
    pub(crate) fn sentence(&self) -> Option<String> {
        self.is_coarse().then(|| {
            format!(
                "its clock has a resolution of {}: arrivals within that are not recorded, so no \
                 shorter times are shown",
                plimsoll_core::units::duration(self.resolution)
            )
        })
    }
}

/// Units that clocks count in, coarse before fine.
const UNITS_NS: [u64; 8] = [
    60_000_000_000,
    10_000_000_000,
    1_000_000_000,
    100_000_000,
    10_000_000,
    1_000_000,
    100_000,
    10_000,
];
/// Fewest requests, and steps from one instant to another, by which a unit is believed: round times
/// come about by chance where there are few.
const SEEN_MIN: u64 = 100;
const STEPS_MIN: u64 = 8;

/// Finds the coarsest unit of which all starts are multiples, counted from the first.
#[derive(Debug, Default)]
pub(super) struct TraceTickFinder {
    first: Option<Nanos>,
    last: Nanos,
    /// Place of the unit that still divides all.
    unit: usize,
    seen: u64,
    steps: u64,
}

impl TraceTickFinder {
    pub(super) fn add(&mut self, at: Nanos) {
        let first = *self.first.get_or_insert(at);
        self.seen += 1;
        if at == self.last && self.seen > 1 {
            return;
        }
        self.steps += 1;
        self.last = at;
        let apart = at.0.abs_diff(first.0);
        while UNITS_NS
            .get(self.unit)
            .is_some_and(|unit| !apart.is_multiple_of(*unit))
        {
            self.unit += 1;
        }
    }

    /// The resolution of a recording whose format promises one.
    pub(super) fn resolution(&self, promised: Nanos) -> Nanos {
        let is_sure = self.seen >= SEEN_MIN && self.steps > STEPS_MIN;
        let found = UNITS_NS.get(self.unit).filter(|_| is_sure);
        Nanos(found.copied().unwrap_or(0).max(promised.0).max(1))
    }
}

/// Most requests of one tick that are held to be spread over it.
const HELD_MAX: usize = 1 << 22;

/// Spreads the requests of one device over the ticks of their starts.
pub(crate) struct TraceTickSpreader {
    clockwork: TraceTimeBase,
    held: Vec<(TraceAccess, Option<Nanos>)>,
    /// Requests that share their tick with others.
    pub(super) shared: u64,
    /// Ticks that hold any.
    pub(super) ticks: u64,
    /// Whether a tick holds more than can be spread.
    pub(super) is_full: bool,
}

impl TraceTickSpreader {
    pub(crate) fn new(clockwork: TraceTimeBase) -> TraceTickSpreader {
        TraceTickSpreader {
            clockwork,
            held: Vec::new(),
            shared: 0,
            ticks: 0,
            is_full: false,
        }
    }

    /// Takes a request, in the order of their starts, and gives those of a tick that is over.
    pub(crate) fn push(
        &mut self,
        request: TraceAccess,
        took: Option<Nanos>,
        mut give: impl FnMut(&TraceAccess, Option<Nanos>),
    ) {
        if !self.clockwork.is_coarse() {
            give(&request, took);
            return;
        }
        let is_other = |(held, _): &(TraceAccess, _)| held.at != request.at;
        if self.held.first().is_some_and(is_other) {
            self.release(&mut give);
        }
        if self.held.len() >= HELD_MAX {
            self.is_full = true;
            return;
        }
        self.held.push((request, took));
    }

    /// Gives what is held: the first at the begin of the tick, all equally far apart.
    pub(crate) fn release(&mut self, mut give: impl FnMut(&TraceAccess, Option<Nanos>)) {
        let count = self.held.len() as u128;
        if count == 0 {
            return;
        }
        self.ticks += 1;
        if count > 1 {
            self.shared += self.held.len() as u64;
        }
        for (number, (request, took)) in (0u128..).zip(self.held.drain(..)) {
            let late = u128::from(self.clockwork.resolution.0) * number / count;
            let at = request.at + Nanos(u64::try_from(late).unwrap_or(0));
            give(&TraceAccess { at, ..request }, took);
        }
    }

    /// Whether what was spread over its ticks is a load.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(
        &self,
        device: &TraceDevice,
        clockwork: TraceTimeBase,
    ) -> Result<(), String> {
        let tick = plimsoll_core::units::duration(clockwork.resolution);
        if self.is_full {
            return Err(format!(
                "the clock has a resolution of {tick}, and more than {HELD_MAX} requests have one start"
            ));
        }
        if self.ticks == 1 && device.requests > 1 {
            return Err(format!(
                "all {} requests of '{}' have one start, at a resolution of {tick}: there is no \
                 load over time in it",
                device.requests, device.name
            ));
        }
        Ok(())
    }

    /// A warning of times that were spread.
    pub(super) fn sentence(&self) -> Option<String> {
        (self.shared > 0).then(|| {
            format!(
                "the clock has a resolution of {}: {} requests share their start with others and are \
                 spread evenly over it; shorter times were not checked, and bursts within it are not \
                 played",
                plimsoll_core::units::duration(self.clockwork.resolution),
                self.shared
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::op::OpKind;

    fn resolution(at_ns: impl Iterator<Item = u64>) -> u64 {
        let mut ticks = TraceTickFinder::default();
        at_ns.for_each(|at| ticks.add(Nanos(at)));
        ticks.resolution(Nanos(100)).0
    }

    #[test]
    fn the_unit_of_a_clock_is_found_in_its_times() {
        for unit in UNITS_NS {
            // Unsorted, and with many of one tick; not all are multiples of the next unit.
            let times = (0..500u64).map(|n| 7 + (n / 3 * 7 % 101) * unit);
            assert_eq!(resolution(times), unit);
        }
        assert_eq!(resolution((0..500).map(|n| n * 1_234_500)), 100);
        // One instant, and few of them, prove nothing.
        assert_eq!(resolution((0..500).map(|_| 9)), 100);
        assert_eq!(resolution((0..50).map(|n| n * 1_000_000_000)), 100);
        assert_eq!(resolution((0..500).map(|n| n / 250 * 60_000_000_000)), 100);
    }

    #[test]
    fn requests_of_one_tick_are_spread_over_it_and_counted() {
        let clockwork = TraceTimeBase {
            length: Nanos(3_000),
            resolution: Nanos::SECOND,
        };
        let mut spread = TraceTickSpreader::new(clockwork);
        let mut found = Vec::new();
        for at_s in [5, 5, 5, 5, 6, 8, 8] {
            let request = TraceAccess {
                at: Nanos(at_s * 1_000_000_000),
                kind: OpKind::Read,
                offset: 0,
                bytes: 512,
            };
            spread.push(request, None, |given, _| found.push(given.at.0 / 1_000_000));
        }
        spread.release(|given, _| found.push(given.at.0 / 1_000_000));
        assert_eq!(found, [5_000, 5_250, 5_500, 5_750, 6_000, 8_000, 8_500]);
        assert_eq!((spread.shared, spread.ticks), (6, 3));
        assert!(
            spread
                .sentence()
                .is_some_and(|told| told.contains("6 requests"))
        );
    }
}
