// SPDX-License-Identifier: Apache-2.0
//! Think time of a whole worker: after a number of turns it begins nothing more, waits for operations
//! in flight, and thinks once.
//!
//! As fio has it: the turns are counted when the worker looks, which is after each turn that it
//! begins; those that end while it waits count towards the next thought. So at depth 4 with a thought
//! after each turn there is one turn for each thought, not four; and a queue far deeper than the
//! turns of a thought is filled for every second one only.

use plimsoll_core::units::Nanos;

/// When a worker may begin its next turn.
#[derive(Debug)]
pub(super) struct BlockIoThinkTime {
    think: Nanos,
    every: u64,
    /// Turns that have ended, and how many had when the last thought was decided on.
    ended: u64,
    mark: u64,
    in_flight: u64,
    last_end: Nanos,
    /// Since when turns may begin.
    awake_since: Nanos,
    stage: BlockIoThinkState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockIoThinkState {
    /// The next turn begins without a look.
    Woken,
    Working,
    /// Operations in flight are waited for.
    Emptying,
}

impl BlockIoThinkTime {
    /// The first turn may begin after `delay`.
    pub(super) fn new(think: Nanos, every: u32, delay: Nanos) -> Self {
        BlockIoThinkTime {
            think,
            every: u64::from(every.max(1)),
            ended: 0,
            mark: 0,
            in_flight: 0,
            last_end: delay,
            awake_since: delay,
            stage: BlockIoThinkState::Woken,
        }
    }

    /// When a turn may begin in a slot that is free since `free_since`; `None`: when what is in
    /// flight has ended.
    pub(super) fn due(&mut self, free_since: Nanos) -> Option<Nanos> {
        if self.stage == BlockIoThinkState::Working && self.ended >= self.mark + self.every {
            self.mark = self.ended;
            self.stage = BlockIoThinkState::Emptying;
        }
        if self.stage == BlockIoThinkState::Emptying {
            if self.in_flight > 0 {
                return None;
            }
            self.awake_since = self.last_end + self.think;
            self.stage = BlockIoThinkState::Woken;
        }
        Some(free_since.max(self.awake_since))
    }

    pub(super) fn begun(&mut self) {
        self.in_flight += 1;
        self.stage = BlockIoThinkState::Working;
    }

    pub(super) fn ended(&mut self, at: Nanos) {
        self.in_flight -= 1;
        self.ended += 1;
        self.last_end = self.last_end.max(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a queue of `depth` slots, each operation 1 ns, for `thoughts` thoughts. Returns the turns
    /// begun in all.
    fn turns(depth: u64, every: u32, thoughts: u64) -> u64 {
        let mut it = BlockIoThinkTime::new(Nanos(1_000), every, Nanos(0));
        let (mut now, mut begun, mut thought, mut in_flight) = (Nanos(0), 0, 0, 0);
        while thought < thoughts {
            match it.due(Nanos(0)) {
                Some(at) if at > now => {
                    assert_eq!(in_flight, 0, "nothing is in flight while it thinks");
                    (now, thought) = (at, thought + 1);
                }
                Some(_) if in_flight < depth => {
                    it.begun();
                    (begun, in_flight) = (begun + 1, in_flight + 1);
                }
                _ => {
                    now = now + Nanos(1);
                    it.ended(now);
                    in_flight -= 1;
                }
            }
        }
        begun
    }

    #[test]
    fn so_many_turns_come_between_two_thoughts() {
        // As fio 3.33 does: in the last three 1 and 4, 1 and 17, 8 and 15 by turns.
        for (depth, every, expect) in [
            (1, 1, 100),
            (1, 8, 800),
            (4, 1, 100),
            (4, 8, 800),
            (4, 2, 250),
            (16, 3, 900),
            (16, 8, 1_150),
        ] {
            let begun = turns(depth, every, 100);
            assert!(
                (expect..=expect + 2 * depth).contains(&begun),
                "{depth} {every}: {begun}"
            );
        }
    }
}
