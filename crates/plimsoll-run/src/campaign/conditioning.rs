// SPDX-License-Identifier: Apache-2.0
//! Before the first block: the working set is written to every system the given number of times, then the
//! workload is played on it until the system is steady.
//!
//! Systems come in turn, so each rests while others are brought there, as it will between its trials.
//! Where a system had a beginning, all of them have a second turn: how long they need from there is the
//! warm-up of all trials.

use super::scale::{LENGTH_MAX, probe_of};
use super::trial::{WARMUP_MAX, trial_task};
use super::{ArmSet, CampaignEndKind, CampaignOptions, TimeBudget, is_out_of_time};
use plimsoll_console::failure::{CliError, CliExitCode, stopped};
use plimsoll_core::conditioning::{
    PreconditioningResult, SteadyStateResult, SystemConditioning, SystemConditioningResult,
    SystemConditioningStart, SystemConditioningStep,
};
use plimsoll_core::data_check::DataCheck;
use plimsoll_core::event::{
    ArmEntry, RunEvent, RunListener, RunManifest, RunWarning, TrialId, TrialInterval, TrialResult,
    WorkloadEntry,
};
use plimsoll_core::load::AgentTrialTask;
use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_stats::steady::SteadyStateSearch;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Steps in which it is seen whether a system is steady.
const STEP: Nanos = Nanos(500_000_000);

/// Write rates that most disks are between, for the estimate of how long a pass takes.
const SPEEDS: [(f64, &str); 2] = [(200e6, "200 MB/s"), (2e9, "2 GB/s")];

/// Conditioning to be done, and whether the given warm-up stays.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ConditioningGoal {
    /// How many times the working set is written.
    pub passes: Option<f64>,
    /// The longest time in which each system is to become steady.
    pub steady_within: Option<Nanos>,
    /// Whether the warm-up of trials was given, and stays.
    pub keeps_warmup: bool,
}

impl ConditioningGoal {
    /// Manifest entry of the conditioning; `None` where nothing is asked.
    pub fn asked(&self) -> Option<SystemConditioning> {
        let asked = SystemConditioning {
            passes: self.passes,
            steady_within: self.steady_within,
            done: Vec::new(),
        };
        asked.is_asked().then_some(asked)
    }

    /// Planned steps for one system under a workload, in words.
    pub fn intentions(
        &self,
        label: &str,
        (arm, keeps_data): (&str, bool),
        workload: &Workload,
    ) -> Vec<String> {
        let passes = self.passes.filter(|_| keeps_data);
        let written = passes.map(|passes| {
            let bytes = passes * workload.data_set_bytes() as f64;
            let own = match own_pattern(workload) {
                Some(_) => " in order, and as much again by the workload itself",
                None => " in order",
            };
            let [slow, fast] = SPEEDS.map(|(per_s, name)| {
                let took = Nanos::from_secs_f64(bytes / per_s);
                format!("{} at {name}", units::clock_duration(took))
            });
            let bytes = units::size(bytes);
            format!("write {bytes}{own} to {arm} for {label} (each {slow}, {fast})")
        });
        let steady = self.steady_within.map(|limit| {
            let limit = units::clock_duration(limit);
            format!("play {label} on {arm} until it is steady, for {limit} at most, twice if it has a beginning")
        });
        written.into_iter().chain(steady).collect()
    }
}

/// The workload itself where it writes, as fast as the storage lets it.
fn own_pattern(workload: &Workload) -> Option<Workload> {
    match workload {
        Workload::Blocks(blocks) => blocks.unpaced().map(Workload::Blocks),
        Workload::Model(model) => probe_of(model).unpaced().map(Workload::Blocks),
        Workload::Files(_) | Workload::Series(_) | Workload::Commands(_) => None,
    }
}

/// Does what is asked, and gives the settings of the trials that follow.
pub(super) fn condition_all(
    manifest: &RunManifest,
    arms: &ArmSet,
    settings: &CampaignOptions,
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<(CampaignOptions, CampaignEndKind), CliError> {
    let mut followed = settings.clone();
    let goal = settings.conditioning;
    let Some(before) = manifest
        .conditioning
        .as_ref()
        .filter(|_| goal.asked().is_some())
    else {
        return Ok((followed, CampaignEndKind::Whole));
    };
    let mut round = ConditioningRound {
        arms,
        settings,
        stop,
        listener,
        done: before.clone(),
    };
    let places = places(manifest, arms);
    let end = round.all(&places, goal, before.done.is_empty());
    let least = settings.warmup.unwrap_or(WARMUP_MAX);
    let warmup = round.done.warmup(least);
    if !goal.keeps_warmup && warmup > least {
        followed.warmup = Some(warmup);
        if let Some(design) = &mut followed.design {
            design.warmup = Some(warmup);
        }
    }
    match end {
        // A stop while something is written is no failure.
        Err(failure) if failure.code != CliExitCode::NotCleaned && stop.load(Ordering::Relaxed) => {
            Ok((followed, CampaignEndKind::Whole))
        }
        end => Ok((followed, end?)),
    }
}

/// Systems under workloads, each pair once: under a fault or with other processors of the client a
/// workload is the same, and so is a control that works on what its base works on. One with a directory
/// of its own is not.
fn places(manifest: &RunManifest, arms: &ArmSet) -> Vec<(WorkloadEntry, String)> {
    let mut entries: Vec<WorkloadEntry> = Vec::new();
    for entry in manifest
        .entries
        .iter()
        .filter(|entry| !entry.is_open_twin())
    {
        if !entries.iter().any(|known| known.workload == entry.workload) {
            entries.push(WorkloadEntry {
                inject: None,
                condition: None,
                client: None,
                ..entry.clone()
            });
        }
    }
    let is_apart = |arm: &&ArmEntry| match &arm.control_of {
        None => true,
        Some(base) => arms.target(&arm.name).reach() != arms.target(base).reach(),
    };
    let names: Vec<&String> = manifest
        .arms
        .iter()
        .filter(is_apart)
        .map(|arm| &arm.name)
        .collect();
    let on_each = |entry: WorkloadEntry| {
        let all = names.iter();
        all.map(move |arm| (entry.clone(), (*arm).clone()))
    };
    entries.into_iter().flat_map(on_each).collect()
}

/// Conditioning of all systems in turn.
struct ConditioningRound<'a> {
    arms: &'a ArmSet,
    settings: &'a CampaignOptions,
    stop: &'a AtomicBool,
    listener: &'a mut dyn RunListener,
    done: SystemConditioning,
}

impl ConditioningRound<'_> {
    fn all(
        &mut self,
        places: &[(WorkloadEntry, String)],
        goal: ConditioningGoal,
        is_first: bool,
    ) -> Result<CampaignEndKind, CliError> {
        if let Some(passes) = goal.passes {
            for (entry, arm) in places {
                if self.is_over() {
                    return Ok(CampaignEndKind::OutOfTime);
                }
                self.write(entry, arm, passes)?;
            }
        }
        let Some(limit) = goal.steady_within else {
            return Ok(CampaignEndKind::Whole);
        };
        let mut has_beginning = false;
        // In a run that goes on the warm-up is known.
        let turns = if is_first && !goal.keeps_warmup { 2 } else { 1 };
        for turn in 0..turns {
            if turn > 0 && !has_beginning {
                break;
            }
            for (entry, arm) in places {
                if self.is_over() {
                    return Ok(CampaignEndKind::OutOfTime);
                }
                let steady = self.become_steady(entry, arm, limit)?;
                has_beginning |= steady.is_some_and(|steady| steady.begins > Nanos(0));
                let step = steady.map(|steady| match turn {
                    0 => SystemConditioningStep::Steady(steady),
                    _ => SystemConditioningStep::SteadyAgain(steady),
                });
                self.tell(entry, arm, step);
            }
        }
        Ok(CampaignEndKind::Whole)
    }

    fn is_over(&mut self) -> bool {
        is_out_of_time(self.settings, self.listener)
    }

    fn begin(&mut self, entry: &WorkloadEntry, arm: &str, what: String) {
        let start = SystemConditioningStart {
            arm: arm.into(),
            workload: entry.label.clone(),
            what,
        };
        self.listener.event(&RunEvent::ConditioningBegan(start));
    }

    fn tell(&mut self, entry: &WorkloadEntry, arm: &str, step: Option<SystemConditioningStep>) {
        let Some(step) = step else {
            let text = format!("{arm} completed too little to tell whether it is steady");
            return self.warn(entry, text);
        };
        let result = SystemConditioningResult {
            arm: arm.into(),
            workload: entry.label.clone(),
            step,
        };
        self.done.done.push(result.clone());
        self.listener.event(&RunEvent::Conditioned(result));
    }

    fn warn(&mut self, entry: &WorkloadEntry, text: String) {
        let about = entry.label.clone();
        let warning = RunWarning { about, text };
        self.listener.event(&RunEvent::Warning(warning));
    }

    /// Writes the working set in order, then by the workload itself.
    fn write(&mut self, entry: &WorkloadEntry, arm: &str, passes: f64) -> Result<(), CliError> {
        if !self.arms.target(arm).is_real() {
            let text = format!("{arm} keeps nothing, so it was not preconditioned");
            self.warn(entry, text);
            return Ok(());
        }
        let Ok(ordered) = entry.workload.ordered_writes(passes) else {
            return Ok(());
        };
        let bytes = passes * entry.workload.data_set_bytes() as f64;
        self.begin(entry, arm, format!("write {} in order", units::size(bytes)));
        let ordered = self.play(
            &of(entry, Workload::Blocks(ordered)),
            arm,
            None,
            &mut |_| false,
        )?;
        let own = match own_pattern(&entry.workload) {
            None => None,
            Some(own) => {
                let what = format!("move {} as the workload does it", units::size(bytes));
                self.begin(entry, arm, what);
                let own = of(entry, own);
                Some(self.play(&own, arm, Some(round_u64(bytes)), &mut |_| false)?)
            }
        };
        let written = PreconditioningResult {
            ordered_bytes: ordered.stats.bytes(),
            ordered: ordered.length,
            own_bytes: own.as_ref().map_or(0, |own| own.stats.bytes()),
            own: own.map_or(Nanos(0), |own| own.length),
        };
        self.tell(entry, arm, Some(SystemConditioningStep::Written(written)));
        Ok(())
    }

    /// Plays the workload until the system is steady, for at most `limit` and the rest of the budget.
    fn become_steady(
        &mut self,
        entry: &WorkloadEntry,
        arm: &str,
        limit: Nanos,
    ) -> Result<Option<SteadyStateResult>, CliError> {
        let left = self.settings.budget.map(TimeBudget::left);
        let limit = left.map_or(limit, |left| limit.min(left.max(Nanos::SECOND)));
        let what = format!(
            "play until it is steady, for {} at most",
            units::clock_duration(limit)
        );
        self.begin(entry, arm, what);
        let entry = WorkloadEntry {
            length: limit,
            ..entry.on_arm(arm)
        };
        let is_response = entry.workload.is_open_loop();
        let mut search = SteadyStateSearch::new(STEP.as_secs_f64());
        let mut is_steady = false;
        self.play(&entry, arm, None, &mut |interval| {
            if !is_steady && let Some(value) = level(interval, is_response) {
                is_steady = search.push(value);
            }
            is_steady
        })?;
        Ok(search.result(is_response))
    }

    /// Plays something that is no trial, until it ends or `is_over` says so.
    fn play(
        &self,
        entry: &WorkloadEntry,
        arm: &str,
        bytes: Option<u64>,
        is_over: &mut dyn FnMut(&TrialInterval) -> bool,
    ) -> Result<TrialResult, CliError> {
        let trial = TrialId {
            block: 0,
            place: 0,
            arm: arm.into(),
            workload: entry.label.clone(),
        };
        let load = self.arms.load();
        let nodes = load.nodes().len().max(1) as u64;
        let task = |n: usize| AgentTrialTask {
            warmup: Nanos(0),
            step: STEP,
            bytes: bytes.map(|bytes| bytes.div_ceil(nodes)),
            data_check: DataCheck::Off,
            seed: self.settings.seed.derive("conditioning", 0),
            ..trial_task(&trial, self.arms, (entry, self.settings), n)
        };
        let mut hosts = load.hosts();
        let mut sessions = load.prepare(&mut hosts, task, self.stop)?;
        let is_enough = Cell::new(false);
        let ended = || self.stop.load(Ordering::Relaxed) || is_enough.get();
        let mut on_interval = |interval| {
            let enough = is_over(&interval);
            is_enough.set(is_enough.get() || enough);
        };
        let start_at = sessions.play(&ended, &mut on_interval, &mut || ());
        let (result, _) = sessions.result(&trial, start_at)?;
        match self.stop.load(Ordering::Relaxed) {
            true => Err(stopped()),
            false => Ok(result),
        }
    }
}

/// Another workload in the place of an entry's own, for as long as it takes.
fn of(entry: &WorkloadEntry, workload: Workload) -> WorkloadEntry {
    WorkloadEntry {
        length: LENGTH_MAX,
        scale: 1.0,
        load_loop: None,
        workload,
        ..entry.clone()
    }
}

/// Mean response time or rate of a system in a whole step; `None` of a piece of one.
fn level(interval: &TrialInterval, is_response: bool) -> Option<f64> {
    if interval.length < STEP {
        return None;
    }
    Some(match is_response {
        true => interval.stats.response().mean_ns(),
        false => ratio(interval.stats.ops() as f64, interval.length.as_secs_f64()),
    })
}
