// SPDX-License-Identifier: Apache-2.0
//! The load lines of a run, computed from its trials. A search is a state machine, so its result follows from
//! the trials alone, for every reader.

use plimsoll_core::event::{RunManifest, TrialResult, WorkloadEntry};
use plimsoll_core::load_line::LoadLineGoal;
use plimsoll_core::num::ratio;
use plimsoll_core::open_load::OpenLoad;
use plimsoll_core::others::NeighbourUse;
use plimsoll_core::workload::WorkloadMultiple;

use super::limit::LoadLineLimit;
use super::outcome::{LoadLineReach, LoadLineResult, LoadLineStop};
use super::search::LoadLineSearch;
use super::trial::{LoadLineOptions, LoadLineTrial};
use crate::overload::backlog;

/// The load line of one arm under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmLoadLine<'a> {
    /// The workload.
    pub entry: &'a WorkloadEntry,
    /// The search.
    pub goal: &'a LoadLineGoal,
    /// The unit of its multiples.
    pub unit: WorkloadMultiple,
    /// Label of the arm.
    pub arm: &'a str,
    /// The result.
    pub result: LoadLineResult,
    /// Its trials in their order.
    pub trials: Vec<&'a TrialResult>,
}

/// Ends of an interval that differ by more than this factor tell little of a line.
const VAGUE: f64 = 4.0;

impl ArmLoadLine<'_> {
    /// The cause, in words, that may have decided in place of the storage.
    pub fn disturbance(&self) -> Option<String> {
        let others = self.trials.iter().filter_map(|trial| trial.others.as_ref());
        NeighbourUse::of_all(others)?.decides()
    }

    /// Whether it has no lower end, or ends far apart: what noise can bring about.
    pub fn is_vague(&self) -> bool {
        let edge = &self.result.sustained;
        match self.result.reach {
            LoadLineReach::AtLeast => false,
            LoadLineReach::Between => edge.high > VAGUE * edge.low,
            LoadLineReach::Below | LoadLineReach::Unknown => true,
        }
    }

    /// Whether it says how much the system carries.
    pub fn is_answered(&self) -> bool {
        let is_known = self.result.trials > 0 && self.result.reach != LoadLineReach::Unknown;
        is_known && !(self.is_vague() && self.disturbance().is_some())
    }
}

/// The options of a search of this entry; `None` where no load line is searched, the workload has no
/// multiples, or the options of the manifest, which may come from another program, allow no search.
pub fn load_line_options(entry: &WorkloadEntry, confidence: f64) -> Option<LoadLineOptions> {
    let goal = entry.load_line.as_ref()?;
    let unit = entry.workload.multiple().ok()?;
    let is_whole = matches!(unit, WorkloadMultiple::Clients(_));
    let smallest = match is_whole {
        true => goal.smallest.max(1.0),
        false => goal.smallest,
    };
    let is_range = smallest > 0.0 && smallest < goal.largest && goal.largest.is_finite();
    let is_search = is_range && goal.width > 0.0 && !goal.limits.is_empty();
    is_search.then(|| LoadLineOptions {
        smallest,
        largest: goal.largest,
        is_whole,
        limits: goal.limits.iter().map(LoadLineLimit::from).collect(),
        confidence,
        width: goal.width,
        short_s: goal.short.as_secs_f64(),
        trial_s: goal.trial.as_secs_f64(),
        sustained_s: goal.sustained.as_secs_f64(),
        budget_s: goal.budget.as_secs_f64(),
    })
}

/// The trial as a search sees it; `None` of one that belongs to none, or was cut short by the user.
pub fn load_line_trial(result: &TrialResult) -> Option<LoadLineTrial> {
    let record = result.load_line.as_ref().filter(|_| !result.interrupted)?;
    let (multiple, seconds) = (record.request.multiple, record.request.seconds);
    let is_trial = multiple > 0.0 && multiple.is_finite() && seconds >= 0.0;
    if !is_trial {
        return None;
    }
    let open = &result.generator.open;
    let grew = |open: &OpenLoad| backlog(open).is_some_and(|left| left.grew);
    let served = open.iter().map(served_late).fold(1.0, f64::min);
    // Storage that gives up under a load does not carry it.
    let lasted = ratio(result.length.as_secs_f64(), seconds);
    let (has_failed, lasted) = (result.failed.is_some(), lasted.min(1.0));
    Some(LoadLineTrial {
        request: record.request,
        readings: record.readings.clone(),
        served: if has_failed {
            served.min(lasted)
        } else {
            served
        },
        backlog_grew: has_failed || open.iter().any(grew),
        is_void: result.was_held_up() || result.lost_node().is_some(),
    })
}

/// Share of what was due in the last half that ended in it.
fn served_late(open: &OpenLoad) -> f64 {
    let late = |counts: &[u64]| -> f64 {
        let steps = open.due.len();
        counts.iter().take(steps).skip(steps / 2).sum::<u64>() as f64
    };
    match late(&open.due) {
        due if due > 0.0 => (late(&open.ended) / due).min(1.0),
        _ => 1.0,
    }
}

/// The load line of one arm under one workload, as these trials of it tell; `None` where none is searched.
pub fn load_line_of(
    entry: &WorkloadEntry,
    confidence: f64,
    trials: impl Iterator<Item = LoadLineTrial>,
) -> Option<LoadLineResult> {
    load_line_options(entry, confidence).map(|options| searched(&options, trials))
}

fn searched(
    options: &LoadLineOptions,
    trials: impl Iterator<Item = LoadLineTrial>,
) -> LoadLineResult {
    let mut search = LoadLineSearch::new(options.clone());
    let is_of_goal = |trial: &LoadLineTrial| trial.readings.len() == options.limits.len();
    trials
        .filter(is_of_goal)
        .for_each(|trial| search.observe(&trial));
    let mut result = search.result();
    // A search whose time was over may have shown already that all of it is carried.
    if result.trials > 0 && result.sustained.low >= options.largest {
        result.stop = Some(LoadLineStop::EverythingCarried);
    }
    result
}

/// Every load line of a run, by workload and arm in the order of the manifest. Those without a trial are
/// among them.
pub fn arm_load_lines<'a>(
    manifest: &'a RunManifest,
    trials: &'a [TrialResult],
) -> Vec<ArmLoadLine<'a>> {
    let mut lines = Vec::new();
    for entry in &manifest.entries {
        let options = load_line_options(entry, manifest.policy.confidence);
        let (Some(goal), Some(options)) = (&entry.load_line, options) else {
            continue;
        };
        let Ok(unit) = entry.workload.multiple() else {
            continue;
        };
        for arm in &manifest.arms {
            let of_this = |t: &&TrialResult| {
                t.trial.workload == entry.label && t.trial.arm == arm.name && t.load_line.is_some()
            };
            let trials: Vec<&TrialResult> = trials.iter().filter(of_this).collect();
            let seen = trials.iter().filter_map(|trial| load_line_trial(trial));
            lines.push(ArmLoadLine {
                entry,
                goal,
                unit,
                arm: &arm.name,
                result: searched(&options, seen),
                trials,
            });
        }
    }
    lines
}
