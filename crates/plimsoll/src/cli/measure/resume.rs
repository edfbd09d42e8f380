// SPDX-License-Identifier: Apache-2.0
//! An interrupted run: whether it is one of this command, and what of it need not be done again.
//!
//! Invariant: a run folder may come from anybody, so a run that goes on is planned from the command line as a
//! new one would be. Of the folder are taken results, and numbers that were found by measuring.

use super::{CampaignMeasurement, planned};
use plimsoll_console::failure::{CliError, CliExitCode, failed};
use plimsoll_core::campaign::{CampaignSpec, CampaignStacks, CampaignTrial};
use plimsoll_core::event::{ArmEntry, RunFolderContents, RunManifest, TrialResult, WorkloadEntry};
use plimsoll_core::units::Nanos;
use plimsoll_core::written::WrittenTime;
use plimsoll_run::campaign::{self, CampaignOptions, ResolvedArms};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// Characters of a value that are shown.
const SHOWN: usize = 200;

/// An interrupted run, where the folder holds one; of which experiment it is, [`check`] tells.
///
/// # Errors
/// When it holds anything else.
pub(in crate::cli) fn interrupted(folder: &Path) -> Result<Option<RunFolderContents>, CliError> {
    let Err(occupied) = plimsoll_archive::check_free(folder) else {
        return Ok(None);
    };
    let occupied = failed(CliExitCode::Usage)(occupied);
    match plimsoll_archive::open(folder) {
        Ok(found) if !found.complete => Ok(Some(found)),
        _ => Err(occupied),
    }
}

/// The trials that need not be run again.
pub(super) fn whole_trials(before: &RunFolderContents) -> Vec<TrialResult> {
    let trials = before.trials.iter();
    trials.filter(|trial| !trial.interrupted).cloned().collect()
}

pub(super) fn resuming(before: &RunFolderContents, folder: &Path) -> String {
    format!(
        "resuming the run in {}: {} are done",
        folder.display(),
        trials_done(&before.manifest, whole_trials(before).len())
    )
}

/// `5 of 15 trials`; how many a search will have is not known.
pub(super) fn trials_done(manifest: &RunManifest, done: usize) -> String {
    match manifest.planned_trials() {
        0 => format!("{done} trials"),
        planned => format!("{done} of {planned} trials"),
    }
}

/// Refuses a folder whose plan is not the one that this command has now.
///
/// # Errors
/// With the first difference.
pub(super) fn check(
    job: &CampaignMeasurement<'_>,
    arms: &ResolvedArms,
    settings: &CampaignOptions,
    (found, folder): (&RunManifest, &Path),
) -> Result<(), CliError> {
    let asked = &job.asked[..];
    if found.campaign.is_none() {
        let text = format!(
            "resume the run in {}: an older version began it, which did not record its campaign",
            folder.display()
        );
        return Err(CliError::usage(text)
            .hint("'plimsoll report' shows it; give another directory with -o to measure again"));
    }
    let facts = arms.facts();
    let entries = match job.spec.closed_and_open {
        true => campaign::twin_entries_again(asked, &facts.arms, settings, &found.entries)?,
        false => campaign::entries_again(asked, settings, &found.entries)?,
    };
    let mut plan = planned(job, facts, entries, settings, &found.id);
    adopt(&mut plan, found);
    let has_stacks = arms.has_stacks();
    let difference = difference(&plan, found, has_stacks).or_else(|| in_places(&plan, found));
    let Some(difference) = difference else {
        return Ok(());
    };
    let text = format!("resume the run in {}: {difference}", folder.display());
    Err(CliError::usage(text).hint(
        "it holds an interrupted run of other settings, or it or a file that the command names was changed \
         since; give another directory with -o",
    ))
}

/// The first system that has the name of the run's and is another one: a directory of that name elsewhere, or
/// with another file system. Stacks are made anew from their settings, and remote disks attached anew.
fn in_places(plan: &RunManifest, found: &RunManifest) -> Option<String> {
    let place = |arm: &ArmEntry| {
        arm.facts.as_ref().map(|facts| {
            serde_json::json!({ "path": facts.path, "file_system": facts.file_system,
                "size_bytes": facts.size_bytes })
        })
    };
    let differs = |(at, (now, before)): (usize, (&ArmEntry, &ArmEntry))| {
        let (now, before) = place(now).zip(place(before))?;
        in_part(&format!("arms[{at}].facts"), &now, &before)
    };
    let mut both = plan.arms.iter().zip(&found.arms).enumerate();
    both.find_map(differs)
}

/// Findings of the run since the plan was made: a pilot's design, conditioning that was done,
/// stacks that cannot have a fault.
fn adopt(plan: &mut RunManifest, found: &RunManifest) {
    if let (Some(planned), Some(design)) = (&plan.design, &found.design)
        && planned.awaits_pilot()
        && let Some(result) = &design.found
    {
        plan.adopt(result.clone());
    }
    // The rest of a run has the budget that it began with.
    if let (Some(planned), Some(design)) = (&mut plan.design, &found.design) {
        planned.budget = design.budget;
    }
    if let Some(ended) = found.design.as_ref().and_then(|design| design.ended) {
        plan.end(ended);
    }
    if let (Some(planned), Some(done)) = (&mut plan.conditioning, &found.conditioning) {
        planned.done.clone_from(&done.done);
    }
    for (entry, before) in plan.entries.iter_mut().zip(&found.entries) {
        if let (Some(fault), Some(before)) = (&mut entry.inject, &before.inject) {
            fault.refused.clone_from(&before.refused);
        }
        if let (Some(goal), Some(before)) = (&mut entry.load_line, &before.load_line) {
            goal.budget = before.budget;
        }
    }
}

/// The first difference of two plans, in words.
fn difference(plan: &RunManifest, found: &RunManifest, stacks: bool) -> Option<String> {
    in_part("seed", &plan.seed, &found.seed)
        .or_else(|| in_part("arms", &systems(plan), &systems(found)))
        .or_else(|| in_entries(&plan.entries, &found.entries))
        .or_else(|| in_part("blocks", &plan.blocks, &found.blocks))
        .or_else(|| in_part("policy", &plan.policy, &found.policy))
        .or_else(|| in_part("design", &plan.design, &found.design))
        .or_else(|| in_part("balanced", &plan.balanced, &found.balanced))
        .or_else(|| in_part("ladder", &plan.ladder, &found.ladder))
        .or_else(|| in_part("conditioning", &plan.conditioning, &found.conditioning))
        .or_else(|| in_part("trial_bytes", &plan.trial_bytes, &found.trial_bytes))
        .or_else(|| in_rest(&rest(plan, stacks)?, &rest(found, stacks)?))
}

/// The first difference of two campaigns, in words.
pub(in crate::cli) fn differing(
    spec: &CampaignSpec,
    found: Option<&CampaignSpec>,
) -> Option<String> {
    let found = found.cloned().map(|found| CampaignSpec {
        directory: spec.directory.clone(),
        ..found
    });
    in_part("campaign", &Some(spec), &found.as_ref())
}

/// The parts of a campaign that [`rest`] has.
fn in_rest(plan: &CampaignSpec, found: &CampaignSpec) -> Option<String> {
    in_part("campaign.trial", &plan.trial, &found.trial)
        .or_else(|| in_part("campaign.clients", &plan.clients, &found.clients))
        .or_else(|| in_part("campaign.stacks", &plan.stacks, &found.stacks))
}

/// Keys of the campaign that no other part of a plan holds; how its words are written is not among them.
fn rest(manifest: &RunManifest, makes_stacks: bool) -> Option<CampaignSpec> {
    let spec = manifest.campaign.as_ref()?;
    let length = spec.trial.length.map_or(Nanos::MAX, |time| time.0);
    let warmup = spec.trial.warmup.map(|time| time.0);
    let warmup = warmup.unwrap_or_else(|| campaign::usual_warmup(length));
    Some(CampaignSpec {
        trial: CampaignTrial {
            warmup: Some(WrittenTime(warmup)),
            length: None,
            bytes: None,
            record: true,
            ..spec.trial.clone()
        },
        clients: spec.clients.clone(),
        stacks: match makes_stacks || spec.clients.is_some() {
            true => spec.stacks.clone(),
            false => CampaignStacks::default(),
        },
        ..CampaignSpec::default()
    })
}

/// Systems without what is only known once they are up.
fn systems(manifest: &RunManifest) -> Vec<ArmEntry> {
    let told = |arm: &ArmEntry| ArmEntry {
        description: String::new(),
        facts: None,
        ..arm.clone()
    };
    manifest.arms.iter().map(told).collect()
}

/// One workload after another: models are large.
fn in_entries(plan: &[WorkloadEntry], found: &[WorkloadEntry]) -> Option<String> {
    let labels = |entries: &[WorkloadEntry]| -> Vec<String> {
        entries.iter().map(|entry| entry.label.clone()).collect()
    };
    in_part("workloads", &labels(plan), &labels(found)).or_else(|| {
        let mut both = plan.iter().zip(found).enumerate();
        both.find_map(|(at, (plan, found))| in_part(&format!("entries[{at}]"), plan, found))
    })
}

fn in_part<T: PartialEq + Serialize>(name: &str, plan: &T, found: &T) -> Option<String> {
    if plan == found {
        return None;
    }
    // Neither a plan nor what was read from JSON holds what JSON cannot.
    let value = |part: &T| serde_json::to_value(part).unwrap_or_default();
    let (plan, found) = (value(plan), value(found));
    let (place, plan, found) = first_difference(name.into(), Some(&plan), Some(&found))?;
    let shown = |value: Option<&Value>| match value {
        None => "nothing".into(),
        Some(value) => value.to_string().chars().take(SHOWN).collect::<String>(),
    };
    Some(format!(
        "{place} is {} there, and {} by this command",
        shown(found),
        shown(plan)
    ))
}

/// Where two values differ first, in the order of the plan, and what stands there.
type ValueDifference<'a> = (String, Option<&'a Value>, Option<&'a Value>);

fn first_difference<'a>(
    place: String,
    plan: Option<&'a Value>,
    found: Option<&'a Value>,
) -> Option<ValueDifference<'a>> {
    match (plan, found) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            keys.into_iter()
                .find_map(|key| first_difference(format!("{place}.{key}"), a.get(key), b.get(key)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => (0..a.len().max(b.len()))
            .find_map(|at| first_difference(format!("{place}[{at}]"), a.get(at), b.get(at))),
        (Some(a), Some(b)) if is_same(a, b) => None,
        (None, None) => None,
        _ => Some((place, plan, found)),
    }
}

/// Whether two values are one, but for the last digit that reading a fraction may change.
fn is_same(a: &Value, b: &Value) -> bool {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| close(a, b))
        }
        _ => a == b,
    }
}
