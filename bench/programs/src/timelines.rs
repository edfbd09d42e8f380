// SPDX-License-Identifier: Apache-2.0
//! Machines in time whose truth is known: what the lengths of trials are designed for.
//!
//! A machine is a line of steps, on which trials of any length can be placed, drawn from a law or
//! recorded on a real one. All is drawn from a seed.

use plimsoll_core::num::{round_u64, to_usize};
use plimsoll_core::rng::Rng;
use plimsoll_stats::ArmValues;
use plimsoll_stats::pilot::{PilotMeasurement, PilotTrial};

use crate::noise::entries;

/// A machine in time: the mean response time in every step, in no particular unit.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineTimeline {
    /// Length of a step.
    pub step_s: f64,
    /// The values, all above 0.
    pub steps: Vec<f64>,
}

/// Disturbances of a machine in time. Deviations are of logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineNoise {
    /// Deviation of half a second that the next one does not share.
    pub fast: f64,
    /// Deviation that lasts.
    pub slow: f64,
    /// For how long, in seconds.
    pub memory_s: f64,
    /// Bursts a minute.
    pub bursts_per_min: f64,
    /// How long they last on average, in seconds.
    pub burst_s: f64,
    /// ln of how many times as long things take meanwhile, on average.
    pub burst_height: f64,
}

impl MachineNoise {
    /// A line of N seconds, in steps of half a second.
    pub fn timeline(&self, seconds: f64, rng: &mut Rng) -> MachineTimeline {
        let step_s = 0.5;
        let kept = (-step_s / self.memory_s).exp();
        let fresh = self.slow * (1.0 - kept * kept).sqrt();
        let mut slow = self.slow * rng.normal();
        let (mut height, mut left) = (0.0, 0.0);
        let count = to_usize(round_u64(seconds / step_s)) + 1;
        let mut steps = Vec::with_capacity(count);
        for _ in 0..count {
            slow = kept * slow + fresh * rng.normal();
            if left <= 0.0 && rng.unit() < self.bursts_per_min * step_s / 60.0 {
                left = rng.exponential(self.burst_s);
                height = rng.exponential(self.burst_height);
            }
            let burst = if left > 0.0 { height } else { 0.0 };
            left -= step_s;
            steps.push((slow + burst + self.fast * rng.normal()).exp());
        }
        MachineTimeline { step_s, steps }
    }
}

/// Trials that are placed on a line, one after another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimelineSchedule {
    /// Time before each trial measures, warm-up included.
    pub startup_s: f64,
    /// Length of a trial.
    pub length_s: f64,
    /// Number of blocks.
    pub blocks: usize,
    /// When the first begins.
    pub from_s: f64,
    /// ln of what the arm takes of what the base takes.
    pub effect: f64,
}

impl TimelineSchedule {
    /// When the last trial ends.
    pub fn until_s(&self) -> f64 {
        self.from_s + 3.0 * self.blocks as f64 * (self.startup_s + self.length_s)
    }

    /// A base, an arm and the control, measured on a machine.
    pub fn play(&self, machine: &MachineTimeline, rng: &mut Rng) -> Vec<ArmValues> {
        let mut arms = entries(1, true);
        for (entry, steps) in self.trials(machine, rng) {
            let mean = steps.iter().sum::<f64>() / steps.len().max(1) as f64;
            arms[entry].values.push(Some(mean));
        }
        arms
    }

    /// The same as a pilot.
    pub fn pilot(&self, machine: &MachineTimeline, rng: &mut Rng) -> PilotMeasurement {
        let trials = self.trials(machine, rng).into_iter().enumerate();
        let trials = trials.map(|(number, (entry, steps))| PilotTrial {
            block: number / 3,
            system: usize::from(entry == 1),
            startup_s: self.startup_s,
            steps,
        });
        PilotMeasurement {
            step_s: machine.step_s,
            trials: trials.collect(),
        }
    }

    /// The steps of all trials in their order, each with the number of its entry.
    fn trials(&self, machine: &MachineTimeline, rng: &mut Rng) -> Vec<(usize, Vec<f64>)> {
        let mut trials = Vec::new();
        let mut now = self.from_s;
        let step = |seconds: f64| to_usize(round_u64(seconds / machine.step_s));
        for _ in 0..self.blocks {
            let mut order = [0, 1, 2];
            rng.shuffle(&mut order);
            for entry in order {
                now += self.startup_s;
                let steps = machine
                    .steps
                    .iter()
                    .skip(step(now))
                    .take(step(self.length_s).max(1));
                let times = if entry == 1 { self.effect.exp() } else { 1.0 };
                trials.push((entry, steps.map(|value| value * times).collect()));
                now += self.length_s;
            }
        }
        trials
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::Seed;

    #[test]
    fn trials_lie_on_the_line_one_after_another() {
        let machine = MachineTimeline {
            step_s: 0.5,
            steps: (1..=200).map(f64::from).collect(),
        };
        let schedule = TimelineSchedule {
            startup_s: 1.0,
            length_s: 2.0,
            blocks: 3,
            from_s: 0.0,
            effect: 0.0,
        };
        let mut rng = Rng::new(Seed(2));
        let trials = schedule.trials(&machine, &mut rng);
        assert_eq!(trials[0].1, [3.0, 4.0, 5.0, 6.0]);
        assert_eq!(trials[1].1, [9.0, 10.0, 11.0, 12.0]);
        assert!((schedule.until_s() - 27.0).abs() < 1e-9);
        let arms = schedule.play(&machine, &mut rng);
        assert!(arms.iter().all(|arm| arm.values.len() == 3));
        assert_eq!(schedule.pilot(&machine, &mut rng).trials.len(), 9);
    }
}
