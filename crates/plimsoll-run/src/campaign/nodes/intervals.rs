// SPDX-License-Identifier: Apache-2.0
//! The seconds of several nodes as one series: each second is passed on when every node that still
//! plays is past it.

use plimsoll_core::event::TrialInterval;
use plimsoll_core::units::Nanos;
use std::collections::BTreeMap;

/// Adds the seconds of nodes up.
pub(super) struct NodeIntervalMerger<'a> {
    on_interval: &'a mut dyn FnMut(TrialInterval),
    /// Not yet passed on, by their start.
    waiting: BTreeMap<u64, TrialInterval>,
    /// How far each node is.
    reached: Vec<u64>,
    /// Intervals that start before this were passed on; late ones count in the next one.
    passed: u64,
}

impl<'a> NodeIntervalMerger<'a> {
    pub(super) fn new(nodes: usize, on_interval: &'a mut dyn FnMut(TrialInterval)) -> Self {
        NodeIntervalMerger {
            on_interval,
            waiting: BTreeMap::new(),
            reached: vec![0; nodes],
            passed: 0,
        }
    }

    /// A second of this node.
    pub(super) fn add(&mut self, node: usize, interval: &TrialInterval) {
        let end = (interval.start + interval.length).0;
        self.reached[node] = self.reached[node].max(end);
        let start = interval.start.0.max(self.passed);
        let sum = self.waiting.entry(start).or_insert_with(|| TrialInterval {
            start: Nanos(start),
            length: Nanos(0),
            stats: plimsoll_core::event::OpStats::default(),
        });
        sum.length = sum.length.max(Nanos(end).since(sum.start)).max(Nanos(1));
        sum.stats.merge(&interval.stats);
        self.pass_on();
    }

    /// This node reports no more seconds.
    pub(super) fn end(&mut self, node: usize) {
        self.reached[node] = u64::MAX;
        self.pass_on();
    }

    /// Passes on all that is left.
    pub(super) fn finish(mut self) {
        self.reached.fill(u64::MAX);
        self.pass_on();
    }

    fn pass_on(&mut self) {
        let reached = self.reached.iter().copied().min().unwrap_or(u64::MAX);
        while let Some(first) = self.waiting.first_entry() {
            if *first.key() >= reached {
                return;
            }
            let interval = first.remove();
            self.passed = self.passed.max(interval.start.0 + 1);
            (self.on_interval)(interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::event::OpStats;
    use plimsoll_core::op::OpKind;

    fn second(start_s: u64, ops: u64) -> TrialInterval {
        let mut stats = OpStats::default();
        let kind = stats.0.entry(OpKind::Read).or_default();
        kind.service.record_many(Nanos(5), ops);
        TrialInterval {
            start: Nanos(start_s * Nanos::SECOND.0),
            length: Nanos::SECOND,
            stats,
        }
    }

    #[test]
    fn a_second_is_passed_on_once_all_nodes_are_past_it() {
        let mut passed = Vec::new();
        let mut on_interval =
            |interval: TrialInterval| passed.push((interval.start, interval.stats.ops()));
        let mut seconds = NodeIntervalMerger::new(2, &mut on_interval);
        seconds.add(0, &second(0, 1));
        seconds.add(0, &second(1, 2));
        seconds.add(1, &second(0, 10));
        // The second node is lost: its report of this second counts, and later seconds do not wait for it.
        seconds.add(1, &second(1, 20));
        seconds.end(1);
        seconds.add(0, &second(2, 4));
        seconds.add(0, &second(3, 8));
        seconds.finish();
        let expect = [(0, 11), (1, 22), (2, 4), (3, 8)];
        let expect = expect.map(|(s, ops)| (Nanos(s * Nanos::SECOND.0), ops));
        assert_eq!(passed, expect);
    }

    #[test]
    fn nothing_is_lost_of_what_comes_late() {
        let mut ops = 0;
        let mut on_interval = |interval: TrialInterval| ops += interval.stats.ops();
        let mut seconds = NodeIntervalMerger::new(1, &mut on_interval);
        seconds.add(0, &second(1, 1));
        seconds.add(0, &second(0, 1));
        seconds.finish();
        assert_eq!(ops, 2);
    }
}
