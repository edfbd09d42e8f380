// SPDX-License-Identifier: Apache-2.0
//! The seconds of a run as they are read: joined to steps, so that those of a day fit into memory.
//!
//! Invariant: unless every second is asked for, at most [`STEPS_MAX`] steps of a trial and, while trials have more than one, at most
//! [`TOTAL_MAX`] of all trials are held.

use plimsoll_core::event::{TrialInterval, TrialTimeBin};
use std::collections::BTreeMap;

/// Most steps that are held of one trial: more than a chart draws.
pub(crate) const STEPS_MAX: usize = 300;
/// Most steps that are held of all trials.
pub(crate) const TOTAL_MAX: usize = 20_000;

/// The steps of one trial.
#[derive(Debug)]
struct Strip {
    /// Intervals that make a step.
    each: u64,
    /// Intervals in the last step.
    held: u64,
    steps: Vec<TrialTimeBin>,
}

impl Strip {
    /// Takes an interval; returns the number of steps that are held more than before.
    fn push(&mut self, next: &TrialTimeBin) -> usize {
        if self.held < self.each
            && let Some(last) = self.steps.last_mut()
        {
            last.join(next);
            self.held += 1;
            return 0;
        }
        self.steps.push(next.clone());
        self.held = 1;
        1
    }

    /// Joins steps by twos.
    fn halve(&mut self) {
        let is_even = self.steps.len().is_multiple_of(2);
        let pairs = self.steps.chunks(2).map(|pair| {
            let mut first = pair[0].clone();
            pair[1..].iter().for_each(|next| first.join(next));
            first
        });
        self.steps = pairs.collect();
        self.held += if is_even { self.each } else { 0 };
        self.each *= 2;
    }
}

/// The steps of all trials, by place.
#[derive(Debug)]
pub(crate) struct TrialDownsampler {
    /// Intervals that make a step of a trial that begins.
    each: u64,
    total: usize,
    /// Whether nothing is joined.
    is_whole: bool,
    trials: BTreeMap<u32, Strip>,
}

impl TrialDownsampler {
    pub(crate) fn new() -> Self {
        TrialDownsampler {
            is_whole: false,
            each: 1,
            total: 0,
            trials: BTreeMap::new(),
        }
    }

    /// One that joins nothing, for who needs every second.
    pub(crate) fn whole() -> Self {
        TrialDownsampler {
            is_whole: true,
            ..TrialDownsampler::new()
        }
    }

    /// Says that a trial has begun.
    pub(crate) fn begin(&mut self, place: u32) {
        self.strip(place);
    }

    fn strip(&mut self, place: u32) -> &mut Strip {
        let each = self.each;
        self.trials.entry(place).or_insert_with(|| Strip {
            each,
            held: 0,
            steps: Vec::new(),
        })
    }

    /// Takes an interval of a trial.
    pub(crate) fn push(&mut self, place: u32, interval: &TrialInterval) {
        let is_whole = self.is_whole;
        let strip = self.strip(place);
        let more = strip.push(&TrialTimeBin::from(interval));
        if is_whole {
            return;
        }
        if strip.steps.len() > STEPS_MAX {
            strip.halve();
        }
        self.total += more;
        if self.total > TOTAL_MAX {
            self.count();
        }
        if self.total > TOTAL_MAX {
            self.trials.values_mut().for_each(Strip::halve);
            self.each *= 2;
            self.count();
        }
    }

    fn count(&mut self) {
        self.total = self.trials.values().map(|strip| strip.steps.len()).sum();
    }

    /// The steps by place of their trial.
    pub(crate) fn into_steps(self) -> BTreeMap<u32, Vec<TrialTimeBin>> {
        let trials = self.trials.into_iter();
        trials.map(|(place, strip)| (place, strip.steps)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::event::OpStats;
    use plimsoll_core::op::OpKind;
    use plimsoll_core::units::Nanos;

    fn interval(second: u64) -> TrialInterval {
        let mut stats = OpStats::default();
        let kind = stats.0.entry(OpKind::Read).or_default();
        kind.response.record(Nanos(1000 + second));
        kind.service.record(Nanos(1000));
        TrialInterval {
            start: Nanos(second * Nanos::SECOND.0),
            length: Nanos::SECOND,
            stats,
        }
    }

    #[test]
    fn a_long_trial_is_joined_and_nothing_of_it_is_lost() {
        let mut strips = TrialDownsampler::new();
        (0..10_000).for_each(|second| strips.push(0, &interval(second)));
        let steps = &strips.into_steps()[&0];
        assert!((STEPS_MAX / 2..=STEPS_MAX).contains(&steps.len()));
        let length: u64 = steps.iter().map(|step| step.length.0).sum();
        let ops: u64 = steps.iter().map(|step| step.response.count()).sum();
        assert_eq!((length, ops), (10_000 * Nanos::SECOND.0, 10_000));
        let ends = |step: &TrialTimeBin| step.start + step.length;
        assert!(steps.windows(2).all(|two| ends(&two[0]) == two[1].start));
        let (last, whole) = steps.split_last().unwrap();
        assert!(whole.iter().all(|step| step.length == steps[0].length));
        assert!(last.length <= steps[0].length);
    }

    #[test]
    fn who_needs_every_second_gets_it() {
        let mut strips = TrialDownsampler::whole();
        (0..5_000).for_each(|second| strips.push(7, &interval(second)));
        let steps = &strips.into_steps()[&7];
        assert_eq!(steps.len(), 5_000);
        let read = &steps[4_999].kinds[&OpKind::Read];
        assert_eq!(read.response.max_ns(), 5_999);
    }

    #[test]
    fn many_trials_share_what_is_held() {
        let mut strips = TrialDownsampler::new();
        for place in 0..4000 {
            strips.begin(place);
            (0..8).for_each(|second| strips.push(place, &interval(second)));
        }
        let trials = strips.into_steps();
        let held: usize = trials.values().map(Vec::len).sum();
        assert!(trials.len() == 4000 && held <= TOTAL_MAX, "{held}");
        for steps in trials.values() {
            let ops: u64 = steps.iter().map(|step| step.response.count()).sum();
            assert_eq!(ops, 8);
        }
    }
}
