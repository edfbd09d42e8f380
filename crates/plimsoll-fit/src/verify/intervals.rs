// SPDX-License-Identifier: Apache-2.0
//! Requests counted by intervals, so that the checks of counters apply to requests as well: the distribution
//! of rates, periods, and the means of phases.

use plimsoll_core::model::{FidelityCheck, ModelInterval};
use plimsoll_core::num::to_usize;
use plimsoll_core::op::{OpKind, TraceAccess};
use plimsoll_core::units::Nanos;

use super::{INTERVALS, of_phases};
use crate::cells::IntervalGrid;
use crate::fidelity::{at_bursts, distribution};
use crate::fit::no_load;
use crate::phases::PhaseDetection;

/// Rates are compared by the second, or by several seconds in long recordings.
const RATES: Nanos = Nanos::SECOND;
/// Most intervals of rates in a recording: a longer one has intervals of several seconds.
const RATES_MAX: u64 = 1 << 18;
/// Most intervals of a load that is much longer than the recording: of it the first part counts.
const CELLS_MAX: u64 = 1 << 20;
/// Fewest intervals whose distribution is compared: the gate is five of them, as one request that
/// moves across an edge moves two.
pub(super) const RATES_MIN: u64 = 100;

/// Intervals of one length, from the start of the recording to its end.
struct FixedIntervals {
    length: Nanos,
    cells: Vec<ModelInterval>,
}

impl FixedIntervals {
    fn new(length: Nanos, whole: Nanos) -> FixedIntervals {
        let length = Nanos(length.0.max(1));
        // A last one that is cut short would count as a quiet one; the whole has one at least.
        let n = to_usize((whole.0 / length.0).clamp(1, CELLS_MAX));
        FixedIntervals {
            length,
            cells: no_load(std::iter::repeat_n(length, n)),
        }
    }

    fn add(&mut self, request: &TraceAccess) {
        let Some(cell) = self.cells.get_mut(to_usize(request.at.0 / self.length.0)) else {
            return;
        };
        let load = match request.kind {
            OpKind::Read => &mut cell.read,
            OpKind::Write => &mut cell.write,
            _ => return,
        };
        load.ops += 1;
        load.bytes += u64::from(request.bytes);
    }
}

/// Counts of a stream of requests by intervals.
pub(super) struct TraceIntervals {
    /// By the second; `None` where there are too few.
    rates: Option<FixedIntervals>,
    /// As many as a fit describes a recording by.
    described: FixedIntervals,
}

impl TraceIntervals {
    /// Of what lasts so long, in the intervals of a recording that lasted `recorded`.
    pub(super) fn new(recorded: Nanos, length: Nanos) -> TraceIntervals {
        let seconds = (recorded.0 / RATES.0).div_ceil(RATES_MAX).max(1);
        let by = Nanos(RATES.0 * seconds);
        let tells = recorded.0.min(length.0) / by.0 >= RATES_MIN;
        TraceIntervals {
            rates: tells.then(|| FixedIntervals::new(by, length)),
            described: FixedIntervals::new(Nanos(recorded.0 / INTERVALS), length),
        }
    }

    pub(super) fn add(&mut self, request: &TraceAccess) {
        if let Some(rates) = &mut self.rates {
            rates.add(request);
        }
        self.described.add(request);
    }

    /// Whether there are enough to have a distribution.
    pub(super) fn tells_rates(&self) -> bool {
        self.rates.is_some()
    }

    /// How far `other` is from this, gate by gate.
    pub(super) fn compare(&self, other: &TraceIntervals) -> Vec<FidelityCheck> {
        let mut lines = Vec::new();
        if let (Some(recorded), Some(submitted)) = (&self.rates, &other.rates) {
            lines.extend(distribution(&recorded.cells, &submitted.cells));
        }
        let found = self.found();
        let (recorded, submitted) = (&self.described.cells, &other.described.cells);
        let seen = PhaseDetection::of(&found);
        lines.extend(at_bursts(recorded, submitted, &seen.bursts));
        let phases = seen.phases(&found, &|at| Nanos(at).to_string());
        lines.extend(of_phases(&phases, recorded, submitted));
        lines
    }

    /// Counted from the start of the recording.
    fn found(&self) -> IntervalGrid {
        let FixedIntervals { length, cells } = &self.described;
        let starts = (0..cells.len() as u64).map(|i| i * length.0);
        IntervalGrid {
            cells: cells.clone(),
            starts_unix_ns: starts.collect(),
            ..IntervalGrid::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `reads` reads of 4 KiB in each of `length_s` seconds, and ten times as many in every tenth second from
    /// 200 on.
    fn counted(reads: u64, length_s: u64) -> TraceIntervals {
        let mut intervals = TraceIntervals::new(Nanos(400 * RATES.0), Nanos(length_s * RATES.0));
        for second in 0..length_s {
            let is_burst = second >= 200 && second % 10 == 0;
            let n = if is_burst { 10 * reads } else { reads };
            for i in 0..n {
                intervals.add(&TraceAccess {
                    at: Nanos(second * RATES.0 + i * RATES.0 / n),
                    kind: OpKind::Read,
                    offset: 0,
                    bytes: 4_096,
                });
            }
        }
        intervals
    }

    #[test]
    fn rates_by_the_second_periods_and_phases_are_held_against_each_other() {
        let (recorded, same) = (counted(50, 400), counted(50, 400));
        let lines = recorded.compare(&same);
        assert!(lines.iter().all(FidelityCheck::passed), "{lines:?}");
        assert!(
            lines.iter().any(|line| line.metric.contains("KS")),
            "{lines:?}"
        );
        let more = recorded.compare(&counted(60, 400));
        let missed = more.iter().filter(|line| !line.passed()).count();
        assert!(missed >= 3, "{more:?}");
        // A stream that is too short for a distribution has none.
        assert!(!counted(50, 10).tells_rates());
    }
}
