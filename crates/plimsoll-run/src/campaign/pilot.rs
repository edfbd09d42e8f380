// SPDX-License-Identifier: Apache-2.0
//! The first blocks of a designed run: what their seconds tell of the noise, and the design that follows.

use super::BlockDesignGoal;
use plimsoll_core::comparison::{ComparisonMetric, StoppingRule};
use plimsoll_core::design::{BlockDesign, BlockDesignResult};
use plimsoll_core::event::{
    RunEvent, RunListener, RunManifest, TrialId, TrialResult, TrialTimeBin, WorkloadEntry,
};
use plimsoll_core::num::{floor_u64, ratio, saturating_u32, to_usize};
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_stats::design::{BLOCKS_LEAST, DesignGoal, DesignRequest, TrialDesign};
use plimsoll_stats::pilot::{PilotMeasurement, PilotNoise, PilotTrial};
use std::collections::BTreeMap;

/// Length of their trials, where no longer one is asked for.
pub const PILOT_LENGTH: Nanos = Nanos(3 * Nanos::SECOND.0);
/// Steps in which these are reported.
pub(super) const PILOT_STEP: Nanos = Nanos(500_000_000);
/// Blocks after which two stages look at the noise.
pub(super) const FIRST_STAGE: u32 = 6;
/// How many times longer a trial is than what it costs to start and clear away in the pilot: more than two
/// thirds of the time are then measured, and less where later trials cost more.
const LENGTH_PER_COST: f64 = 2.5;
/// No trial is designed shorter: what was simulated had this one at least.
const SHORTEST_S: f64 = 1.0;
/// Most blocks of a run without a budget.
const BLOCKS_MOST: u32 = 400;

/// Results of the trials of a pilot.
#[derive(Debug, Default)]
pub(super) struct PilotRecord {
    /// By place of the trial.
    steps: BTreeMap<u32, Vec<TrialTimeBin>>,
    /// Trials that count, and what their start cost, where that was seen.
    trials: Vec<(TrialId, Option<f64>)>,
    /// Time that passed in virtual trials only.
    virtual_s: f64,
}

impl PilotRecord {
    /// Of a run that is resumed: these steps are recorded already.
    pub(super) fn of(steps: BTreeMap<u32, Vec<TrialTimeBin>>) -> PilotRecord {
        PilotRecord {
            steps,
            ..PilotRecord::default()
        }
    }

    /// Takes the result of a trial that was run before.
    pub(super) fn take(&mut self, result: &TrialResult) {
        if result.is_comparable() {
            let startup = Some(result.prepare.as_secs_f64());
            self.trials.push((result.trial.clone(), startup));
        }
    }

    /// Takes the result of a trial that took so long in all; `None` in virtual time.
    pub(super) fn take_timed(&mut self, result: &TrialResult, warmup: Nanos, took: Option<Nanos>) {
        let measured = warmup + result.length;
        let startup = match took {
            Some(took) => took.since(measured),
            None => {
                self.virtual_s += measured.as_secs_f64();
                Nanos(0)
            }
        };
        if result.is_comparable() {
            self.trials
                .push((result.trial.clone(), Some(startup.as_secs_f64())));
        }
    }

    /// How long the trials of a pilot are after its first block: what a trial costs beside its length is
    /// known then, and shorter trials would spend more than a third of the time on that. There must be time
    /// left for the rest of the pilot and the fewest blocks that promise something, or, where there is none
    /// for these, for one.
    pub(super) fn length(&self, manifest: &RunManifest, left: Option<Nanos>) -> Nanos {
        let cost_s = self.trials.iter().filter_map(|(_, startup)| *startup);
        let cost_s = cost_s.fold(0.0, f64::max);
        let in_block = (manifest.arms.len() * manifest.entries.len()) as f64;
        let room_s = |blocks: usize| {
            let trials = in_block * (f64::from(BlockDesign::PILOT_BLOCKS - 1) + blocks as f64);
            left.map_or(f64::INFINITY, |left| {
                ratio(left.as_secs_f64(), trials) - cost_s
            })
        };
        let shortest_s = PILOT_LENGTH.as_secs_f64();
        let mut rooms = [BLOCKS_LEAST, 1].into_iter().map(room_s);
        let room_s = rooms.find(|room| *room >= shortest_s);
        let wanted_s = LENGTH_PER_COST * cost_s;
        let length_s = wanted_s.min(room_s.unwrap_or(shortest_s)).max(shortest_s);
        Nanos::from_secs_f64(length_s.floor())
    }

    /// The design of the trials that follow, with this time for them, if it is limited.
    pub(super) fn design(
        &self,
        manifest: &RunManifest,
        goal: &BlockDesignGoal,
        left: Option<Nanos>,
    ) -> BlockDesignResult {
        let pilot_blocks = manifest.design.as_ref().map_or(0, |one| one.pilot_blocks);
        let question = DesignQuestion {
            manifest,
            goal,
            pilot_blocks,
            left_s: left.map(|left| (left.as_secs_f64() - self.virtual_s).max(0.0)),
        };
        let noise = self.noise(manifest, goal);
        let request = question.request(noise.as_ref());
        let design = noise.and_then(|noise| {
            let design = TrialDesign::from_pilot(&noise, &request)?;
            Some(question.result(&noise, &design))
        });
        design.unwrap_or_else(|| question.without_forecast(noise.as_ref()))
    }

    /// That of the workload which is the worst in each respect: blocks play all of them.
    fn noise(&self, manifest: &RunManifest, goal: &BlockDesignGoal) -> Option<PilotNoise> {
        let entries = manifest.entries.iter();
        let each = entries.filter_map(|entry| PilotNoise::of(&self.measurement(manifest, entry)));
        let noise = each.reduce(|a, b| PilotNoise {
            startup_s: a.startup_s.max(b.startup_s),
            warmup_s: a.warmup_s.max(b.warmup_s),
            fast: a.fast.max(b.fast),
            per_trial: a.per_trial.max(b.per_trial),
            ..if a.slow >= b.slow { a } else { b }
        })?;
        Some(PilotNoise {
            warmup_s: goal
                .warmup
                .map_or(noise.warmup_s, |given| given.as_secs_f64()),
            ..noise
        })
    }

    fn measurement(&self, manifest: &RunManifest, entry: &WorkloadEntry) -> PilotMeasurement {
        let mut trials = Vec::new();
        for (trial, startup) in &self.trials {
            let own = manifest.arms.iter().find(|arm| arm.name == trial.arm);
            let steps = self.steps.get(&trial.place);
            let (Some(own), Some(steps)) = (own, steps.filter(|_| trial.workload == entry.label))
            else {
                continue;
            };
            let name = own.control_of.as_ref().unwrap_or(&own.name);
            let system = manifest.arms.iter().position(|arm| arm.name == *name);
            trials.push(PilotTrial {
                block: to_usize(trial.block.into()),
                system: system.unwrap_or(0),
                startup_s: startup.unwrap_or(0.0),
                steps: steps_of(entry, steps),
            });
        }
        if matches!(entry.workload, Workload::Model(_)) {
            without_shared_load(&mut trials);
        }
        PilotMeasurement {
            step_s: PILOT_STEP.as_secs_f64(),
            trials,
        }
    }
}

/// The metric of the workload in each whole step. Where bytes are counted, operations stand for them.
fn steps_of(entry: &WorkloadEntry, steps: &[TrialTimeBin]) -> Vec<f64> {
    let whole = steps.iter().filter(|step| step.length >= PILOT_STEP);
    let value = |step: &TrialTimeBin| match entry.workload.metric() {
        Some(ComparisonMetric::MeanResponse) => step.response.mean_ns(),
        _ => ratio(step.response.count() as f64, step.length.as_secs_f64()),
    };
    whole.map(value).collect()
}

/// All trials of a block play the same seconds of a model: what these differ in is no noise.
fn without_shared_load(trials: &mut [PilotTrial]) {
    let blocks: std::collections::BTreeSet<usize> = trials.iter().map(|one| one.block).collect();
    for block in blocks {
        let mut own: Vec<&mut PilotTrial> =
            trials.iter_mut().filter(|one| one.block == block).collect();
        let steps = own.iter().map(|one| one.steps.len()).min().unwrap_or(0);
        let count = own.len() as f64;
        if own.len() < 2 {
            continue;
        }
        // A mean of few takes a part of their own noise with it.
        let widened = (count / (count - 1.0)).sqrt();
        for step in 0..steps {
            let log = |one: &&mut PilotTrial| one.steps[step].max(f64::MIN_POSITIVE).ln();
            let mean = own.iter().map(log).sum::<f64>() / count;
            for one in &mut own {
                let log = one.steps[step].max(f64::MIN_POSITIVE).ln();
                one.steps[step] = ((log - mean) * widened).exp();
            }
        }
    }
}

/// Inputs of a design, beside the noise.
struct DesignQuestion<'a> {
    manifest: &'a RunManifest,
    goal: &'a BlockDesignGoal,
    pilot_blocks: u32,
    left_s: Option<f64>,
}

impl DesignQuestion<'_> {
    /// No trial is shorter than 2.5 times what it costs to start it, and a model's no shorter than holds its
    /// bursts, where there is time for as many blocks as a promise needs.
    fn shortest_s(&self, noise: Option<&PilotNoise>) -> f64 {
        let cost_s = noise.map_or(0.0, |noise| noise.startup_s);
        let wanted_s = self.with_bursts_s().max(LENGTH_PER_COST * cost_s);
        let before_s = noise.map_or(0.0, |noise| noise.startup_s + noise.warmup_s);
        let room_s = self.left_s.map_or(f64::INFINITY, |left_s| {
            ratio(left_s, self.entries() * BLOCKS_LEAST as f64) - before_s
        });
        wanted_s.min(room_s).max(SHORTEST_S)
    }

    /// Seconds that hold a burst of each model.
    fn with_bursts_s(&self) -> f64 {
        let entries = self.manifest.entries.iter();
        let each = entries.map(|entry| match &entry.workload {
            Workload::Model(model) => model.seconds_with_bursts(),
            _ => 0.0,
        });
        each.fold(0.0, f64::max)
    }

    fn request(&self, noise: Option<&PilotNoise>) -> DesignRequest {
        let arms = self.manifest.arms.iter();
        let controls = arms.clone().filter(|arm| arm.control_of.is_some()).count();
        let given = self.goal.length.map(Nanos::as_secs_f64);
        DesignRequest {
            goal: match (self.goal.effect, self.left_s) {
                (Some(effect), None) => DesignGoal::Effect(effect),
                (Some(effect), Some(budget_s)) => DesignGoal::EffectWithin { effect, budget_s },
                (None, left) => DesignGoal::Budget(left.unwrap_or(f64::INFINITY)),
            },
            arms: arms.count().saturating_sub(1 + controls),
            has_control: controls > 0,
            workloads: self.manifest.entries.len(),
            shortest_s: given.unwrap_or_else(|| self.shortest_s(noise)),
            longest_s: given.unwrap_or(f64::INFINITY),
            blocks: self.blocks_given(),
            policy: self.manifest.policy,
        }
    }

    fn blocks_given(&self) -> Option<usize> {
        let given = self.goal.blocks?;
        Some(to_usize(given.saturating_sub(self.pilot_blocks).into()))
    }

    fn entries(&self) -> f64 {
        (self.manifest.arms.len() * self.manifest.entries.len()) as f64
    }

    fn result(&self, noise: &PilotNoise, design: &TrialDesign) -> BlockDesignResult {
        let blocks = saturating_u32(design.blocks as u64);
        let block_s = design.forecast.seconds / f64::from(blocks.max(1));
        let keeps_pilot = self.goal.warmup.is_some() || noise.warmup_s <= 0.0;
        let most = self.most(blocks, block_s);
        let effect = self.goal.effect.or(design.forecast.detectable);
        BlockDesignResult {
            length: Nanos::from_secs_f64(design.length_s),
            warmup: Nanos::from_secs_f64(design.warmup_s),
            blocks: self.pilot_blocks + most,
            expected: self.pilot_blocks + blocks.min(most),
            keeps_pilot,
            effect: effect.unwrap_or(self.manifest.policy.margin),
            block_time: Nanos::from_secs_f64(block_s),
            forecast: self.forecast(design, most, keeps_pilot),
        }
    }

    /// Blocks after the pilot at most: what the rule may take, not what is expected.
    fn most(&self, planned: u32, block_s: f64) -> u32 {
        if self.manifest.policy.stopping.is_fixed() || self.goal.blocks.is_some() {
            return planned;
        }
        let affordable = self.left_s.map_or(BLOCKS_MOST, |left| {
            saturating_u32(floor_u64(ratio(left, block_s)))
        });
        affordable.clamp(planned.min(BLOCKS_MOST), BLOCKS_MOST)
    }

    fn forecast(&self, design: &TrialDesign, most: u32, keeps_pilot: bool) -> String {
        let wanted = self.goal.effect.filter(|_| !design.reaches_goal);
        let missed = wanted.map(|effect| {
            let effect = percent(effect);
            format!("the {effect} that were asked for are out of reach")
        });
        let rule = match self.manifest.policy.stopping {
            StoppingRule::Fixed => None,
            StoppingRule::TwoStage => Some(format!(
                "the noise of the first {FIRST_STAGE} sets their number, {most} at most"
            )),
            StoppingRule::Anytime => Some(format!(
                "they end when every system has a verdict, {most} at most"
            )),
        };
        let pilot = match keeps_pilot {
            true => "the blocks of the pilot count, too",
            false => "the blocks of the pilot do not count, since they warmed up",
        };
        let bursts_s = self.with_bursts_s();
        let bursts = (design.length_s < bursts_s).then(|| {
            format!(
                "trials will miss the gate on bursts, since one holds its share of them from \
                 {bursts_s} s on"
            )
        });
        let parts = [
            Some(design.sentence()),
            missed,
            bursts,
            rule,
            Some(pilot.into()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join("; ")
    }

    /// The shortest trials and as many blocks as there is time for: better than none.
    fn without_forecast(&self, noise: Option<&PilotNoise>) -> BlockDesignResult {
        let given = self.goal.length.map(Nanos::as_secs_f64);
        // Too few blocks for a promise: each is to measure as much as it costs at least.
        let cost_s = noise.map_or(0.0, |noise| noise.startup_s);
        let length_s = given.unwrap_or(cost_s.max(SHORTEST_S));
        let warmup_s = match (self.goal.warmup, noise) {
            (Some(given), _) => given.as_secs_f64(),
            (None, noise) => noise.map_or(0.0, |noise| noise.warmup_s),
        };
        let startup_s = noise.map_or(0.0, |noise| noise.startup_s);
        let block_s = (startup_s + warmup_s + length_s) * self.entries();
        let affordable = self.left_s.map_or(BLOCKS_MOST, |left| {
            saturating_u32(floor_u64(ratio(left, block_s)))
        });
        let blocks = self.goal.blocks.map_or(affordable.max(1), |given| {
            given.saturating_sub(self.pilot_blocks).max(1)
        });
        let why = match noise {
            None => "the pilot told nothing of the noise, so nothing is promised".into(),
            Some(_) => format!(
                "the time that is left allows {affordable} blocks, and a promise needs \
                 {BLOCKS_LEAST}"
            ),
        };
        BlockDesignResult {
            length: Nanos::from_secs_f64(length_s),
            warmup: Nanos::from_secs_f64(warmup_s),
            blocks: self.pilot_blocks + blocks,
            expected: self.pilot_blocks + blocks,
            keeps_pilot: warmup_s <= 0.0 || self.goal.warmup.is_some(),
            effect: self.goal.effect.unwrap_or(self.manifest.policy.margin),
            block_time: Nanos::from_secs_f64(block_s),
            forecast: format!(
                "at most {blocks} blocks of trials of {}: {why}",
                units::duration(Nanos::from_secs_f64(length_s))
            ),
        }
    }
}

fn percent(fraction: f64) -> String {
    let text = format!("{:.2}", fraction * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Keeps the steps of trials that are reported, and passes all on.
pub(super) struct PilotListener<'a> {
    pub(super) record: &'a mut PilotRecord,
    pub(super) listener: &'a mut dyn RunListener,
}

impl RunListener for PilotListener<'_> {
    fn event(&mut self, event: &RunEvent) {
        if let RunEvent::Interval { place, interval } = event {
            let steps = self.record.steps.entry(*place).or_default();
            steps.push(TrialTimeBin::from(interval));
        }
        self.listener.event(event);
    }
}
