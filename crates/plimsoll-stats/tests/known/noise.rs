// SPDX-License-Identifier: Apache-2.0
//! Campaigns whose truth is known: what the promises of verdicts are held against.
//!
//! A noise law says what disturbs the trials of a campaign; trials come one after another, in
//! blocks of random order. All is drawn from a seed.

use plimsoll_core::num::to_usize;
use plimsoll_core::rng::Rng;
use plimsoll_stats::ArmValues;

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

    /// The state of the machine in each of N trials.
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
pub fn entries(others: usize, has_control: bool) -> Vec<ArmValues> {
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
}
