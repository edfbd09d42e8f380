// SPDX-License-Identifier: Apache-2.0
//! Progress of the requests of an open loop over time: how many were due, and how many had ended.
//!
//! A load above the served rate leaves a backlog that grows. The backlog at the end does not show
//! growth, because a pause just before the end also leaves one. So due and ended requests are counted
//! in steps of time, few enough to be kept with every trial.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// The shortest step.
const STEP_MIN: Nanos = Nanos(50_000_000);

/// Most steps. Twice as long ones take their place when there would be more.
const STEPS_MAX: usize = 64;

/// Requests of an open loop, by step of the measured part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OpenLoad {
    /// The phase it belongs to; empty where there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Length of a step.
    pub step: Nanos,
    /// Planned length of the measured part; none where the work ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Nanos>,
    /// Requests that were due in each step.
    pub due: Vec<u64>,
    /// Requests that ended in each step, before the planned end.
    pub ended: Vec<u64>,
    /// Time that requests waited while as many were in flight as may be: the target's part of the
    /// lag. The rest of it passed while there was room, and is the generator's.
    pub queue_lag_ns: u64,
}

impl OpenLoad {
    /// Nothing, yet, of a measured part of this length.
    pub fn new(length: Option<Nanos>) -> OpenLoad {
        OpenLoad {
            phase: String::new(),
            step: STEP_MIN,
            length,
            due: Vec::new(),
            ended: Vec::new(),
            queue_lag_ns: 0,
        }
    }

    /// Counts requests that were due at `at`, from the start of the measured part.
    #[inline]
    pub fn due_at(&mut self, at: Nanos, requests: u64) {
        // Requests that follow a late operation, such as its sync, are due when it ends, which may
        // be after the planned end. Counting them would lengthen the steps until they hide an
        // overload of a short trial.
        if self.length.is_some_and(|length| at >= length) {
            return;
        }
        let step = self.step_of(at);
        grown(&mut self.due, step)[step] += requests;
    }

    /// Counts requests that ended at `at`.
    #[inline]
    pub fn ended_at(&mut self, at: Nanos, requests: u64) {
        if self.length.is_some_and(|length| at >= length) {
            return;
        }
        let step = self.step_of(at);
        grown(&mut self.ended, step)[step] += requests;
    }

    fn step_of(&mut self, at: Nanos) -> usize {
        // Bounded: a step doubles at most 40 times before it is longer than any time.
        while at.0 / self.step.0 >= STEPS_MAX as u64 {
            self.coarsen();
        }
        crate::num::to_usize(at.0 / self.step.0)
    }

    fn coarsen(&mut self) {
        let halved = |steps: &[u64]| steps.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.step = Nanos(self.step.0.saturating_mul(2));
        (self.due, self.ended) = (halved(&self.due), halved(&self.ended));
    }

    /// Adds what another worker did in the same time.
    pub fn merge(&mut self, other: &OpenLoad) {
        let mut other = other.clone();
        // Steps of both are the shortest one doubled some times; what was read from a file may be
        // anything else, and is not worth an endless loop.
        for _ in 0..u64::BITS {
            match self.step.cmp(&other.step) {
                std::cmp::Ordering::Less => self.coarsen(),
                std::cmp::Ordering::Greater => other.coarsen(),
                std::cmp::Ordering::Equal => break,
            }
        }
        let add = |mine: &mut Vec<u64>, theirs: &[u64]| {
            if let Some(last) = theirs.len().checked_sub(1) {
                let mine = grown(mine, last);
                mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
            }
        };
        add(&mut self.due, &other.due);
        add(&mut self.ended, &other.ended);
        self.length = self.length.max(other.length);
        self.queue_lag_ns = self.queue_lag_ns.saturating_add(other.queue_lag_ns);
    }
}

fn grown(steps: &mut Vec<u64>, last: usize) -> &mut Vec<u64> {
    if steps.len() <= last {
        steps.resize(last + 1, 0);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn steps_grow_with_the_time_and_lose_nothing() {
        let mut load = OpenLoad::new(Some(Nanos(3_600_000 * MS)));
        for second in 0..3_600 {
            load.due_at(Nanos(second * 1_000 * MS), 2);
            load.ended_at(Nanos(second * 1_000 * MS), 1);
        }
        load.ended_at(Nanos(3_600_000 * MS), 7);
        assert!(load.due.len() <= STEPS_MAX && load.due.len() > STEPS_MAX / 2);
        assert_eq!(load.due.iter().sum::<u64>(), 7_200);
        assert_eq!(load.ended.iter().sum::<u64>(), 3_600, "not what ended late");
    }

    #[test]
    fn what_is_due_after_the_planned_end_neither_counts_nor_makes_steps_longer() {
        let mut load = OpenLoad::new(Some(Nanos(2_000_000_000)));
        load.due_at(Nanos(1_900_000_000), 3);
        load.due_at(Nanos(14_000_000_000), 5);
        assert_eq!(load.step, STEP_MIN);
        assert_eq!(load.due.iter().sum::<u64>(), 3);
    }

    #[test]
    fn loads_of_different_steps_add_up() {
        let (mut long, mut short) = (OpenLoad::new(None), OpenLoad::new(None));
        (0..600).for_each(|n| long.due_at(Nanos(n * 100 * MS), 1));
        short.due_at(Nanos(10 * MS), 5);
        short.queue_lag_ns = 3;
        let mut sum = short.clone();
        sum.merge(&long);
        long.merge(&short);
        assert_eq!(sum, long);
        assert_eq!(sum.due.iter().sum::<u64>(), 605);
        assert!(sum.due[0] > 5);
    }
}
