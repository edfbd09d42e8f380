// SPDX-License-Identifier: Apache-2.0
//! Load over time in steps of one clock for all recordings.

use std::collections::BTreeMap;

use plimsoll_core::model::ModelInterval;
use plimsoll_core::partial::{RecordingSteps, RecordingSummary};

/// Most steps of all recordings together: 38 years of the usual ten minutes.
const STEPS_MAX: usize = 2_000_000;

/// Reads, bytes read, writes, bytes written, nanoseconds of devices.
pub(super) const FIGURES: usize = 5;

/// Figures of one recording in each step.
#[derive(Debug)]
pub(super) struct StepCounter {
    step_ns: u64,
    steps: BTreeMap<u64, [u64; FIGURES]>,
}

impl StepCounter {
    pub(super) fn new(step_s: u64) -> StepCounter {
        StepCounter {
            step_ns: step_s.max(1).saturating_mul(1_000_000_000),
            steps: BTreeMap::new(),
        }
    }

    /// Whether a recording is not too long for such steps.
    pub(super) fn check(&self, from_ns: u64, to_ns: u64) -> Result<(), String> {
        let steps = to_ns.saturating_sub(from_ns) / self.step_ns;
        match steps < STEPS_MAX as u64 {
            true => Ok(()),
            false => Err(format!(
                "it is longer than {STEPS_MAX} steps of {} s: give a longer --step, or --from and --to",
                self.step_ns / 1_000_000_000
            )),
        }
    }

    /// Adds an interval of a device, in proportion to the time in each step. Nothing is lost by
    /// rounding: the parts of a number add up to it.
    pub(super) fn interval(&mut self, from_ns: u64, cell: &ModelInterval) {
        let amounts = [
            cell.read.ops,
            cell.read.bytes,
            cell.write.ops,
            cell.write.bytes,
        ];
        self.spread(from_ns, cell.length.0, amounts);
    }

    /// Adds time without load.
    pub(super) fn time(&mut self, from_ns: u64, length_ns: u64) {
        self.spread(from_ns, length_ns, [0; FIGURES - 1]);
    }

    fn spread(&mut self, from_ns: u64, length_ns: u64, amounts: [u64; FIGURES - 1]) {
        let (to_ns, step_ns) = (from_ns.saturating_add(length_ns), self.step_ns);
        let length_ns = to_ns - from_ns;
        let share = |amount: u64, part_ns: u64| {
            let share = u128::from(amount) * u128::from(part_ns) / u128::from(length_ns.max(1));
            u64::try_from(share).unwrap_or(amount)
        };
        let (mut at, mut given) = (from_ns, [0; FIGURES - 1]);
        while at < to_ns {
            let number = at / step_ns;
            let end = (number + 1).saturating_mul(step_ns).min(to_ns);
            let sums = self.steps.entry(number).or_default();
            for ((sum, amount), given) in sums.iter_mut().zip(amounts).zip(&mut given) {
                let until = share(amount, end - from_ns);
                *sum = sum.saturating_add(until - *given);
                *given = until;
            }
            sums[FIGURES - 1] = sums[FIGURES - 1].saturating_add(end - at);
            at = end;
        }
    }

    /// Adds a request.
    pub(super) fn request(&mut self, at_ns: u64, is_read: bool, bytes: u32) {
        let sums = self.steps.entry(at_ns / self.step_ns).or_default();
        let place = if is_read { 0 } else { 2 };
        sums[place] = sums[place].saturating_add(1);
        sums[place + 1] = sums[place + 1].saturating_add(u64::from(bytes));
    }

    pub(super) fn finish(self) -> RecordingSteps {
        let column = |figure: usize| self.steps.values().map(|sums| sums[figure]).collect();
        RecordingSteps {
            at: self.steps.keys().copied().collect(),
            reads: column(0),
            read_bytes: column(1),
            writes: column(2),
            write_bytes: column(3),
            device_ns: column(4),
        }
    }
}

/// Figures of all recordings in each step.
#[derive(Debug, Default)]
pub(super) struct PoolSteps {
    pub(super) steps: BTreeMap<u64, [u128; FIGURES]>,
    /// First and last instant that is in them.
    pub(super) span: Option<(u64, u64)>,
}

impl PoolSteps {
    pub(super) fn add(&mut self, summary: &RecordingSummary) -> Result<(), String> {
        let more = &summary.steps;
        if more.at.is_empty() {
            return Ok(());
        }
        let (from, to) = (summary.from_unix_ns, summary.to_unix_ns);
        let (first, last) = self.span.unwrap_or((from, to));
        self.span = Some((first.min(from), last.max(to)));
        let columns = [
            &more.reads,
            &more.read_bytes,
            &more.writes,
            &more.write_bytes,
            &more.device_ns,
        ];
        for (row, at) in more.at.iter().enumerate() {
            let sums = self.steps.entry(*at).or_default();
            for (sum, column) in sums.iter_mut().zip(columns) {
                // 2^64 recordings of 2^64 each would not pass it.
                *sum += u128::from(column[row]);
            }
        }
        match self.steps.len() <= STEPS_MAX {
            true => Ok(()),
            false => Err(format!(
                "all recordings together have more than {STEPS_MAX} steps of time; make the partial \
                 results with a longer --step"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::model::DirectionLoad;
    use plimsoll_core::units::Nanos;

    #[test]
    fn an_interval_over_several_steps_is_shared_and_nothing_is_lost() {
        const SECOND: u64 = 1_000_000_000;
        let mut counter = StepCounter::new(60);
        let cell = ModelInterval {
            length: Nanos(100 * SECOND),
            read: DirectionLoad { ops: 7, bytes: 700 },
            write: DirectionLoad { ops: 1, bytes: 9 },
        };
        counter.interval(50 * SECOND, &cell);
        counter.request(55 * SECOND, false, 512);
        let steps = counter.finish();
        assert_eq!(steps.at, [0, 1, 2]);
        assert_eq!(steps.reads, [0, 4, 3]);
        assert_eq!(steps.read_bytes, [70, 420, 210]);
        assert_eq!(steps.writes, [1, 0, 1]);
        assert_eq!(steps.write_bytes, [512, 6, 3]);
        assert_eq!(steps.device_ns, [10 * SECOND, 60 * SECOND, 30 * SECOND]);
    }
}
