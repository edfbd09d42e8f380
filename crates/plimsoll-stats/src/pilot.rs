// SPDX-License-Identifier: Apache-2.0
//! The noise that a few trials show: how it is spread over time scales, and what a trial costs.
//!
//! The noise of a step of a trial (half a second, a second) has a part that is new in every step, a
//! part that remembers for some seconds, as what neighbours do lasts, and a part that belongs to the
//! whole trial, such as where its files came to lie. Which of them is large decides how long trials
//! should be: the first averages out within a trial, the second is cancelled by a neighbour that is
//! near in time, the third wants many trials. The first two are read from differences of steps of
//! one trial, by their lag (a variogram, in the robust form of Cressie and Hawkins, 1980: bursts
//! do not swamp it), the third is what trials of a block differ beyond that.

use crate::events::median;
use crate::paired::PairedLogRatioStats;

/// Lags that are looked at, in steps, at most.
const LAGS_MAX: usize = 40;

/// The largest rest of a warm-up in the mean of a trial: it is in all of them alike.
const WARMUP_ERROR: f64 = 0.005;

/// Confidence that there is a warm-up before time is spent on it.
const WARMUP_CONFIDENCE: f64 = 0.99;

/// Times, in steps, for which noise may last, in the search of the best.
const MEMORIES: [f64; 9] = [1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0];

/// The median distance of two normal values times this is the deviation of one.
const DISTANCE_TO_DEVIATION: f64 = 1.048_4;

/// One trial of a pilot.
#[derive(Debug, Clone, PartialEq)]
pub struct PilotTrial {
    /// Number of its block.
    pub block: usize,
    /// Number of the system that it measured; a control has that of its base.
    pub system: usize,
    /// Time before anything was measured: layout, mounts.
    pub startup_s: f64,
    /// The metric in each step from the first second on, warm-up included.
    pub steps: Vec<f64>,
}

/// The trials of a pilot, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct PilotMeasurement {
    /// Length of a step.
    pub step_s: f64,
    /// The trials.
    pub trials: Vec<PilotTrial>,
}

/// The noise that they show. Variances are of logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PilotNoise {
    /// Time before a trial can measure.
    pub startup_s: f64,
    /// Time after which the values of a trial no longer depend on its beginning.
    pub warmup_s: f64,
    /// Length of a step.
    pub step_s: f64,
    /// Variance of a step that the next one does not share.
    pub fast: f64,
    /// Variance that lasts for a while.
    pub slow: f64,
    /// How long: the time in which it is forgotten to a third.
    pub memory_s: f64,
    /// Variance of whole trials of a block.
    pub per_trial: f64,
}

impl PilotNoise {
    /// `None` below two trials in one block, or where trials have fewer than four steps.
    pub fn of(pilot: &PilotMeasurement) -> Option<PilotNoise> {
        let logs: Vec<Vec<f64>> = pilot.trials.iter().map(log_steps).collect();
        let shortest = logs.iter().map(Vec::len).min().filter(|n| *n >= 4)?;
        let cut = warmup_steps(&logs, shortest);
        let steady: Vec<&[f64]> = logs.iter().map(|steps| &steps[cut..]).collect();
        let fitted = fit(&variogram(&steady));
        let mut noise = PilotNoise {
            startup_s: median(pilot.trials.iter().map(|trial| trial.startup_s))?,
            warmup_s: cut as f64 * pilot.step_s,
            step_s: pilot.step_s,
            fast: fitted.fast,
            slow: fitted.slow,
            memory_s: fitted.memory * pilot.step_s,
            per_trial: 0.0,
        };
        let length_s = (shortest - cut) as f64 * pilot.step_s;
        let seen = spread_in_blocks(pilot, &steady)?;
        let explained = noise.trial_variance(length_s, pilot.trials.len().min(3));
        noise.per_trial = (seen - explained).max(0.0);
        Some(noise)
    }

    /// The variance, within a block of `entries` entries, of the logarithm of a trial of this length. It
    /// leaves out the noise that neighbours in time share.
    pub fn trial_variance(&self, length_s: f64, entries: usize) -> f64 {
        let length = length_s.max(self.step_s);
        let relative = length / self.memory_s.max(1e-9);
        let own = 2.0 * (relative - 1.0 + (-relative).exp()) / (relative * relative);
        let front = (1.0 - (-relative).exp()) / relative;
        let distance = self.startup_s + self.warmup_s + length;
        let shared = |apart: usize| {
            let gap = distance * apart as f64 - length;
            (-gap / self.memory_s.max(1e-9)).exp() * front * front
        };
        // Pairs of a block by how many trials they are apart.
        let (mut sum, mut pairs) = (0.0, 0.0);
        for apart in 1..entries.max(2) {
            let count = (entries.max(2) - apart) as f64;
            sum += count * shared(apart);
            pairs += count;
        }
        self.fast * self.step_s / length + self.slow * (own - sum / pairs).max(0.0) + self.per_trial
    }
}

fn log_steps(trial: &PilotTrial) -> Vec<f64> {
    // A step in which nothing ended has no logarithm: it is as the one before.
    let mut last = trial
        .steps
        .iter()
        .copied()
        .find(|value| *value > 0.0)
        .unwrap_or(1.0);
    let mut logs = Vec::new();
    for value in &trial.steps {
        if value.is_finite() && *value > 0.0 {
            last = *value;
        }
        logs.push(last.ln());
    }
    logs
}

/// Steps to leave out (MSER, White 1997): the cut, in the first half, that leaves the mean of the rest
/// most certain; of the medians over trials, so that one disturbed trial does not decide.
fn warmup_steps(logs: &[Vec<f64>], shortest: usize) -> usize {
    let at = |step: usize| {
        let relative = logs.iter().filter_map(|steps| {
            let level = median(steps[shortest / 2..].iter().copied())?;
            Some(steps[step] - level)
        });
        median(relative).unwrap_or(0.0)
    };
    let curve: Vec<f64> = (0..shortest).map(at).collect();
    let uncertainty = |cut: &usize| {
        let rest = &curve[*cut..];
        let n = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / n;
        rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n * n)
    };
    let cuts = 0..=shortest / 2;
    let least = cuts
        .clone()
        .map(|cut| uncertainty(&cut))
        .fold(f64::INFINITY, f64::min);
    // Noise that lasts looks like a warm-up in one trial, not in all of them.
    if least > 0.5 * uncertainty(&0) || !begins_apart(logs, shortest) {
        return 0;
    }
    let enough = (1.25 * least).max(WARMUP_ERROR * WARMUP_ERROR);
    let mut good = cuts.filter(|cut| uncertainty(cut) <= enough);
    good.next().unwrap_or(0)
}

/// Whether trials begin elsewhere than they go on, beyond what trials differ in that.
fn begins_apart(logs: &[Vec<f64>], shortest: usize) -> bool {
    let mean = |steps: &[f64]| steps.iter().sum::<f64>() / steps.len() as f64;
    let first = (shortest / 6).max(1);
    let change = |steps: &Vec<f64>| mean(&steps[..first]) - mean(&steps[shortest / 2..]);
    let changes: Vec<f64> = logs.iter().map(change).collect();
    let all = PairedLogRatioStats::of(&changes);
    all.is_some_and(|all| all.mean.abs() > all.half_width(WARMUP_CONFIDENCE))
}

/// Half the mean square of differences by their lag, robustly, from lag 1 on.
fn variogram(trials: &[&[f64]]) -> Vec<f64> {
    let longest = trials.iter().map(|steps| steps.len()).max().unwrap_or(0);
    let at = |lag: usize| {
        let pairs = trials.iter().flat_map(|steps| {
            let later = steps.iter().skip(lag);
            later.zip(steps.iter()).map(|(a, b)| (a - b).abs().sqrt())
        });
        let roots: Vec<f64> = pairs.collect();
        let n = roots.len() as f64;
        let mean = roots.iter().sum::<f64>() / n.max(1.0);
        mean.powi(4) / (2.0 * (0.457 + 0.494 / n.max(1.0)))
    };
    (1..(longest / 2 + 1).min(LAGS_MAX)).map(at).collect()
}

/// Parts of a variogram; memory in steps.
#[derive(Debug, Clone, Copy)]
struct VariogramParts {
    fast: f64,
    slow: f64,
    memory: f64,
    misfit: f64,
}

/// The parts that explain it best, by least squares, none below 0.
fn fit(variogram: &[f64]) -> VariogramParts {
    let parts = MEMORIES.iter().map(|memory| fit_with(variogram, *memory));
    let best = parts.min_by(|a, b| a.misfit.total_cmp(&b.misfit));
    best.expect("there are memories")
}

fn fit_with(variogram: &[f64], memory: f64) -> VariogramParts {
    let grown: Vec<f64> = (1..=variogram.len())
        .map(|lag| 1.0 - (-(lag as f64) / memory).exp())
        .collect();
    let n = variogram.len().max(1) as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
    let (x, y) = (mean(&grown), mean(variogram));
    let both = grown.iter().zip(variogram);
    let along: f64 = both.map(|(g, v)| (g - x) * (v - y)).sum();
    let square: f64 = grown.iter().map(|g| (g - x).powi(2)).sum();
    let mut slow = if square > 0.0 {
        (along / square).max(0.0)
    } else {
        0.0
    };
    let mut fast = y - slow * x;
    if fast < 0.0 {
        fast = 0.0;
        let squares: f64 = grown.iter().map(|g| g * g).sum();
        let products: f64 = grown.iter().zip(variogram).map(|(g, v)| g * v).sum();
        slow = products / squares;
    }
    let error = |(g, v): (&f64, &f64)| (fast + slow * g - v).powi(2);
    VariogramParts {
        fast,
        slow,
        memory,
        misfit: grown.iter().zip(variogram).map(error).sum(),
    }
}

/// The variance of trials within blocks, robustly, systems apart from each other not counted.
fn spread_in_blocks(pilot: &PilotMeasurement, steady: &[&[f64]]) -> Option<f64> {
    let level = |steps: &&[f64]| {
        let sum: f64 = steps.iter().map(|log| log.exp()).sum();
        (sum / steps.len() as f64).ln()
    };
    let levels: Vec<f64> = steady.iter().map(level).collect();
    let of_system = |system: usize| {
        let both = pilot.trials.iter().zip(&levels);
        let own = both.filter(|(trial, _)| trial.system == system);
        median(own.map(|(_, level)| *level)).unwrap_or(0.0)
    };
    let each = pilot.trials.iter().zip(&levels);
    let relative: Vec<(usize, f64)> = each
        .map(|(trial, level)| (trial.block, level - of_system(trial.system)))
        .collect();
    let mut distances = Vec::new();
    for (index, (block, level)) in relative.iter().enumerate() {
        let later = relative[index + 1..].iter();
        let same = later.filter(|(other, _)| other == block);
        distances.extend(same.map(|(_, other)| (level - other).abs()));
    }
    let deviation = DISTANCE_TO_DEVIATION * median(distances)?;
    Some(deviation * deviation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    /// Nine trials of `steps` half seconds, whose noise remembers with the factor `kept` per step.
    fn pilot(steps: usize, fast: f64, slow: f64, kept: f64) -> PilotMeasurement {
        let mut rng = Rng::new(Seed(5));
        let mut state = slow * rng.normal();
        let mut trials = Vec::new();
        for number in 0..9 {
            let mut values = Vec::new();
            for _ in 0..steps {
                state = kept * state + slow * (1.0 - kept * kept).sqrt() * rng.normal();
                values.push((state + fast * rng.normal()).exp());
            }
            trials.push(PilotTrial {
                block: number / 3,
                system: usize::from(number % 3 == 2),
                startup_s: 1.0,
                steps: values,
            });
        }
        PilotMeasurement {
            step_s: 0.5,
            trials,
        }
    }

    #[test]
    fn noise_without_memory_averages_out() {
        let noise = PilotNoise::of(&pilot(60, 0.1, 0.0, 0.0)).unwrap();
        let deviation = (noise.fast + noise.slow).sqrt();
        assert!((0.08..0.12).contains(&deviation), "{noise:?}");
        let halved = noise.trial_variance(16.0, 3) / noise.trial_variance(8.0, 3);
        assert!((0.4..0.75).contains(&halved), "{halved} {noise:?}");
    }

    #[test]
    fn noise_that_lasts_is_found_and_short_neighbours_cancel_it() {
        let noise = PilotNoise::of(&pilot(80, 0.02, 0.2, 0.95)).unwrap();
        assert!(noise.slow > 5.0 * noise.fast, "{noise:?}");
        assert!((2.0..20.0).contains(&noise.memory_s), "{noise:?}");
        let (short, long) = (noise.trial_variance(1.0, 3), noise.trial_variance(10.0, 3));
        assert!(short < long, "{short} {long} {noise:?}");
    }

    #[test]
    fn a_warm_up_is_cut_off_and_a_steady_trial_is_not() {
        let mut warm = pilot(40, 0.02, 0.0, 0.0);
        for trial in &mut warm.trials {
            for (step, value) in trial.steps.iter_mut().enumerate() {
                *value *= (0.8 * (-(step as f64) / 3.0).exp()).exp();
            }
        }
        let noise = PilotNoise::of(&warm).unwrap();
        assert!((3.0..=8.0).contains(&noise.warmup_s), "{noise:?}");
        let steady = PilotNoise::of(&pilot(40, 0.02, 0.0, 0.0)).unwrap();
        assert!(steady.warmup_s < 0.1, "{steady:?}");
    }

    #[test]
    fn what_belongs_to_a_trial_is_told_apart() {
        let mut placed = pilot(40, 0.02, 0.0, 0.0);
        let mut rng = Rng::new(Seed(6));
        for trial in &mut placed.trials {
            let place = (0.2 * rng.normal()).exp();
            trial.steps.iter_mut().for_each(|value| *value *= place);
        }
        let noise = PilotNoise::of(&placed).unwrap();
        assert!(noise.per_trial.sqrt() > 0.08, "{noise:?}");
        assert!(noise.slow < 0.01, "{noise:?}");
    }

    #[test]
    fn too_little_is_no_pilot() {
        let mut short = pilot(40, 0.1, 0.0, 0.0);
        short.trials.truncate(1);
        assert!(PilotNoise::of(&short).is_none());
        assert!(PilotNoise::of(&pilot(3, 0.1, 0.0, 0.0)).is_none());
    }
}
