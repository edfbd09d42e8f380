// SPDX-License-Identifier: Apache-2.0
//! Campaigns whose truth is known: what the promises of verdicts are held against.
//!
//! A noise law says what disturbs the trials of a campaign; trials come one after another, in
//! blocks of random order. A machine is the same in time: a line of steps, on which trials of any
//! length can be placed, drawn from a law or recorded on a real one. All is drawn from a seed.

use plimsoll_core::num::{round_u64, to_usize};
use plimsoll_core::rng::Rng;

use crate::compare::ArmValues;
use crate::pilot::{PilotMeasurement, PilotTrial};

/// Disturbances of trials. Deviations are of logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoiseLaw {
    /// Independent normal noise of 5 %.
    Normal,
    /// 10 % that remember the trial before (autocorrelation 0.7).
    Autoregressive,
    /// A machine that slows down by a half in the course.
    LinearDrift,
    /// Steps of 5 % from trial to trial that stay.
    RandomWalk,
    /// Every seventh trial loses time to another machine, 50 % on average.
    StealBursts,
    /// A machine that begins 60 % slower and warms up.
    WarmUp,
    /// A cliff: from some trial on everything takes 1.8 times as long.
    Cliff,
    /// Lognormal tails: the logarithm itself is lognormal.
    HeavyTails,
    /// Blocks of unequal noise.
    UnequalBlocks,
    /// The arm scatters twice as much as the base: no law of the machine, and a strain on the test.
    NoisyArm,
}

impl NoiseLaw {
    /// All laws under which a verdict keeps its promise.
    pub const ALL: [NoiseLaw; 9] = [
        NoiseLaw::Normal,
        NoiseLaw::Autoregressive,
        NoiseLaw::LinearDrift,
        NoiseLaw::RandomWalk,
        NoiseLaw::StealBursts,
        NoiseLaw::WarmUp,
        NoiseLaw::Cliff,
        NoiseLaw::HeavyTails,
        NoiseLaw::UnequalBlocks,
    ];

    /// The state of the machine in each of so many trials.
    fn course(self, trials: usize, rng: &mut Rng) -> Vec<f64> {
        let cliff = to_usize(rng.below(trials.max(1) as u64));
        let (mut walk, mut memory) = (0.0, 0.1 * rng.normal());
        let mut at = |trial: usize| match self {
            NoiseLaw::LinearDrift => 0.4 * trial as f64 / trials as f64,
            NoiseLaw::WarmUp => 0.5 * (-(trial as f64) / 5.0).exp(),
            NoiseLaw::Cliff if trial >= cliff => 0.6,
            NoiseLaw::RandomWalk => {
                walk += 0.05 * rng.normal();
                walk
            }
            NoiseLaw::Autoregressive => {
                memory = 0.7 * memory + 0.1 * (1.0f64 - 0.49).sqrt() * rng.normal();
                memory
            }
            _ => 0.0,
        };
        (0..trials).map(&mut at).collect()
    }

    /// The share that one trial adds on its own; `unequal` is drawn once for each block.
    fn own(self, unequal: f64, rng: &mut Rng) -> f64 {
        match self {
            NoiseLaw::StealBursts => {
                let hit = rng.below(7) == 0;
                0.04 * rng.normal() + if hit { rng.exponential(0.5) } else { 0.0 }
            }
            NoiseLaw::HeavyTails => 0.05 * rng.normal().exp(),
            NoiseLaw::UnequalBlocks => 0.05 * unequal * rng.normal(),
            _ => 0.05 * rng.normal(),
        }
    }
}

/// A campaign to be drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedCampaign {
    /// Disturbances of its trials.
    pub law: NoiseLaw,
    /// Number of blocks.
    pub blocks: usize,
    /// Systems beside the base.
    pub arms: usize,
    /// Whether the base is entered twice.
    pub has_control: bool,
    /// ln of what each of them takes of what the base takes.
    pub effect: f64,
}

impl SimulatedCampaign {
    /// The values of all arms: the base, the others, the control.
    #[must_use]
    pub fn draw(&self, rng: &mut Rng) -> Vec<ArmValues> {
        let mut arms = entries(self.arms, self.has_control);
        let course = self.law.course(self.blocks * arms.len(), rng);
        for of_block in course.chunks(arms.len()) {
            let mut order: Vec<usize> = (0..arms.len()).collect();
            rng.shuffle(&mut order);
            let unequal = (0.7 * rng.normal()).exp();
            let mut values = vec![None; arms.len()];
            for (shared, entry) in of_block.iter().zip(order) {
                let is_arm = (1..=self.arms).contains(&entry);
                let mut own = self.law.own(unequal, rng);
                if is_arm && self.law == NoiseLaw::NoisyArm {
                    own *= 2.0;
                }
                let effect = if is_arm { self.effect } else { 0.0 };
                values[entry] = Some(1e6 * (shared + own + effect).exp());
            }
            for (arm, value) in arms.iter_mut().zip(values) {
                arm.values.push(value);
            }
        }
        arms
    }
}

/// The base, others and the control, without values.
fn entries(others: usize, has_control: bool) -> Vec<ArmValues> {
    let entry = |name: String, control_of: Option<&str>| ArmValues {
        name,
        control_of: control_of.map(String::from),
        values: Vec::new(),
        places: Vec::new(),
    };
    let mut arms = vec![entry("base".into(), None)];
    arms.extend((1..=others).map(|number| entry(format!("arm {number}"), None)));
    if has_control {
        arms.push(entry("base again".into(), Some("base")));
    }
    arms
}

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
    /// A line of so many seconds, in steps of half a second.
    #[must_use]
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
    #[must_use]
    pub fn until_s(&self) -> f64 {
        self.from_s + 3.0 * self.blocks as f64 * (self.startup_s + self.length_s)
    }

    /// A base, an arm and the control, measured on a machine.
    #[must_use]
    pub fn play(&self, machine: &MachineTimeline, rng: &mut Rng) -> Vec<ArmValues> {
        let mut arms = entries(1, true);
        for (entry, steps) in self.trials(machine, rng) {
            let mean = steps.iter().sum::<f64>() / steps.len().max(1) as f64;
            arms[entry].values.push(Some(mean));
        }
        arms
    }

    /// The same as a pilot.
    #[must_use]
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
    fn campaigns_have_their_shape_and_their_effect() {
        for law in NoiseLaw::ALL {
            let campaign = SimulatedCampaign {
                law,
                blocks: 400,
                arms: 2,
                has_control: true,
                effect: 0.5,
            };
            let arms = campaign.draw(&mut Rng::new(Seed(1)));
            assert_eq!(arms.len(), 4);
            let mean = |arm: &ArmValues| {
                let logs = arm.values.iter().map(|value| value.unwrap().ln());
                logs.sum::<f64>() / 400.0
            };
            let shift = mean(&arms[1]) - mean(&arms[0]);
            assert!((shift - 0.5).abs() < 0.06, "{law:?}: {shift}");
            assert!((mean(&arms[3]) - mean(&arms[0])).abs() < 0.06, "{law:?}");
        }
    }

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
