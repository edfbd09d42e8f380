// SPDX-License-Identifier: Apache-2.0
//! Plan of a run that is about to start, in words.

use super::CampaignMeasurement;
use plimsoll_console::terminal;
use plimsoll_core::comparison::StoppingRule;
use plimsoll_core::design::BlockDesign;
use plimsoll_core::event::{RunManifest, TrialId, WorkloadEntry};
use plimsoll_core::units::{self, Nanos};
use plimsoll_engine::SimDeviceSpec;
use plimsoll_run::campaign::{self, CampaignOptions, ResolvedArms};
use plimsoll_run::request::WorkloadRequest;
use std::fmt::Write;
use std::path::Path;

/// Seconds a trial costs besides its measured part, for the estimate before the first one.
const OVERHEAD: Nanos = Nanos(1_500_000_000);

/// Time that a fault costs besides its own length, for the same estimate.
const RECOVERY: Nanos = Nanos(20_000_000_000);

/// Announcement of a run, in one paragraph.
pub(super) fn announcement(manifest: &RunManifest, folder: &Path) -> String {
    let goals = || {
        manifest
            .entries
            .iter()
            .filter_map(|entry| entry.load_line.as_ref())
    };
    if let Some(goal) = goals().next() {
        let searches = goals().count() * manifest.arms.len();
        return format!(
            "{searches} load line{} to find, at most {} of trials each; a multiple is carried when it \
             is held for {}; seed {}; recorded in {}",
            if searches == 1 { "" } else { "s" },
            units::clock_duration(goal.budget),
            units::clock_duration(goal.sustained),
            manifest.seed,
            folder.display()
        );
    }
    let trials = manifest.planned_trials();
    let plural = |n: u64| if n == 1 { "" } else { "s" };
    let lasts = lasts(manifest);
    let is_pilot = (manifest.design.as_ref()).is_some_and(BlockDesign::awaits_pilot);
    let is_open = !is_pilot && !manifest.policy.stopping.is_fixed();
    format!(
        "{}{trials} trial{} in {}{} block{}, {lasts}{}; seed {}; recorded in {}",
        if is_pilot { "pilot: " } else { "" },
        plural(trials),
        if is_open { "at most " } else { "" },
        manifest.blocks,
        plural(manifest.blocks.into()),
        designed(manifest),
        manifest.seed,
        folder.display()
    )
}

/// Design of the blocks, as told before the first trial.
fn designed(manifest: &RunManifest) -> String {
    let Some(design) = &manifest.design else {
        return String::new();
    };
    let given = match design.given.as_slice() {
        [] => String::new(),
        given => format!(" ({} as given)", given.join(", ")),
    };
    match (&design.found, design.pilot_blocks) {
        (Some(found), _) => format!("; designed by the pilot: {}", found.forecast),
        (None, 0) if manifest.policy.stopping == StoppingRule::TwoStage => {
            format!(
                "{given}; the noise of the first ones sets their number, to {}",
                design.question()
            )
        }
        (None, 0) => format!("{given}; they end when every system has a verdict"),
        (None, _) => format!(
            "; its noise decides on the blocks that follow{given}, to {}",
            design.question()
        ),
    }
}

/// How long all trials take, in words. On simulated devices time is virtual.
fn lasts(manifest: &RunManifest) -> String {
    let mut entries = manifest.entries.iter();
    if entries.any(|entry| entry.workload.ends_by_itself()) {
        return "as long as the work takes".into();
    }
    let arms = manifest.arms.iter();
    let (simulated, real): (Vec<_>, Vec<_>) =
        arms.partition(|arm| SimDeviceSpec::is_meant(&arm.target));
    if let Some(bytes) = manifest.trial_bytes {
        let longest = manifest.entries.iter().map(|entry| entry.length).max();
        return format!(
            "each until it has moved {}, for {} at most",
            units::size(bytes as f64),
            units::clock_duration(longest.unwrap_or_default())
        );
    }
    let total = |arms: usize, beside: Nanos| {
        let entries = manifest.entries.iter();
        let beside = |entry: &WorkloadEntry| {
            let fault = entry.inject.as_ref().map(|one| one.length + RECOVERY);
            let condition = entry.condition.as_ref().and_then(|one| one.fault);
            beside + fault.or(condition.map(|_| RECOVERY)).unwrap_or_default()
        };
        let each = entries.map(|entry| {
            let length = entry.length + beside(entry);
            length.0.saturating_mul(manifest.blocks.into())
        });
        let once = each.fold(0u64, u64::saturating_add);
        units::clock_duration(Nanos(once.saturating_mul(arms as u64)))
    };
    let real_time = total(real.len(), OVERHEAD);
    let virtual_time = total(simulated.len(), Nanos(0));
    match (real.is_empty(), simulated.is_empty()) {
        (_, true) => format!("about {real_time}"),
        (true, false) => format!("{virtual_time} of virtual time"),
        (false, false) => format!("about {real_time}, and {virtual_time} of virtual time"),
    }
}

/// The searches of a dry run, as labels and arms: their trials follow from what those before them show.
fn searches(
    arms: &[String],
    asked: &[WorkloadRequest],
    settings: &CampaignOptions,
) -> Vec<(String, String)> {
    let labels = asked
        .iter()
        .flat_map(|one| campaign::labels_of(one, settings));
    let on_each = |label: String| arms.iter().map(move |arm| (label.clone(), arm.clone()));
    labels.flat_map(on_each).collect()
}

/// Planned searches of a dry run, in words.
fn searches_text(arms: &[String], asked: &[WorkloadRequest], settings: &CampaignOptions) -> String {
    let mut text = format!("then find load lines (seed {}):\n", settings.seed);
    for one in asked {
        let Some(goal) = &one.goal else {
            continue;
        };
        let limits: Vec<String> = goal.limits.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "  multiples from {} to {} at {}, at most {} of trials each:",
            goal.smallest,
            goal.largest,
            limits.join(" and "),
            units::clock_duration(goal.budget)
        );
        for (label, arm) in searches(arms, std::slice::from_ref(one), settings) {
            let _ = writeln!(text, "    {label} on {arm}");
        }
    }
    text
}

/// The plan of a dry run: what would be made, and the trials in their order.
pub(super) fn show_plan(
    job: &CampaignMeasurement<'_>,
    arms: &ResolvedArms,
    settings: &CampaignOptions,
    id: &str,
) {
    let asked = &job.asked[..];
    let names: Vec<String> = arms.names().map(String::from).collect();
    let of_each = |asked: &WorkloadRequest| match job.spec.closed_and_open {
        true => campaign::twin_labels(asked).into(),
        false => campaign::labels_of(asked, settings),
    };
    let labels: Vec<String> = asked.iter().flat_map(of_each).collect();
    let is_search = job.spec.load_line.is_some();
    let searches = match is_search {
        true => searches(&names, asked, settings),
        false => Vec::new(),
    };
    let is_balanced = job.design.design.is_some() || job.is_balanced();
    let order = match is_search {
        true => Vec::new(),
        false => {
            let blocks = settings.blocks;
            campaign::planned_order(&names, &labels, blocks, settings.seed, is_balanced)
        }
    };
    let mut intentions = arms.intentions(id, asked);
    intentions.extend(campaign::fault_intentions(settings));
    for one in asked {
        let label = campaign::label_of(one);
        let conditioned = arms.probed().flat_map(|(arm, keeps_data)| {
            let goal = &settings.conditioning;
            goal.intentions(&label, (arm, keeps_data), &one.workload)
        });
        intentions.extend(conditioned);
    }
    if let Some(bytes) = settings.bytes {
        let bytes = units::size(bytes as f64);
        intentions.push(format!("end each trial when it has moved {bytes}"));
    }
    if job.attempt.json {
        let plan = serde_json::json!({ "would": intentions, "seed": settings.seed,
            "length_ns": settings.length, "trials": order, "searches": searches });
        return terminal::print_json(&plan);
    }
    let mut text = String::from("Nothing was done. It would:\n");
    for line in intentions {
        let _ = writeln!(text, "  {line}");
    }
    if is_search {
        text.push_str(&searches_text(&names, asked, settings));
        return terminal::print(&text);
    }
    text.push_str(&trials_text(&order, job, settings));
    for note in notes(job, settings) {
        let _ = writeln!(text, "note: {note}");
    }
    terminal::print(&text);
}

/// Planned trials of a dry run, in words.
fn trials_text(
    order: &[TrialId],
    job: &CampaignMeasurement<'_>,
    settings: &CampaignOptions,
) -> String {
    let time = time_of(&job.asked, settings, order.len());
    let n = match order.len() {
        1 => "1 trial".to_owned(),
        many => format!("{many} trials"),
    };
    let pilot = match &job.design.goal {
        None => "",
        Some(_) => ", as a pilot, and design the blocks that follow by them",
    };
    let mut text = format!("then run {n}, {time} (seed {}){pilot}:\n", settings.seed);
    for trial in order {
        let _ = writeln!(
            text,
            "  block {} · {} on {}",
            trial.block + 1,
            trial.workload,
            trial.arm
        );
    }
    text
}

/// How long this number of trials takes, in words.
fn time_of(asked: &[WorkloadRequest], settings: &CampaignOptions, trials: usize) -> String {
    if asked.iter().any(|one| one.workload.ends_by_itself()) {
        return "as long as the work takes".into();
    }
    let lengths = asked.iter().map(|one| campaign::length(one, settings).0);
    let each = lengths.fold(0, u64::saturating_add) / asked.len().max(1) as u64;
    let all = (each + OVERHEAD.0).saturating_mul(trials as u64);
    format!("about {}", units::clock_duration(Nanos(all)))
}

/// Plans that are allowed and tell less than they seem to.
fn notes(job: &CampaignMeasurement<'_>, settings: &CampaignOptions) -> Vec<String> {
    let is_alone = job.targets.len() == 1 && job.spec.control;
    let is_compared = is_alone || job.targets.len() > 1;
    let has_one_block = settings.blocks == 1 && job.design.goal.is_none();
    let mut notes = Vec::new();
    if is_alone {
        notes.push(
            "one target is compared with itself: the result is the noise of this measurement"
                .into(),
        );
    }
    if is_compared && has_one_block && settings.inject.is_empty() {
        notes.push(
            "one block gives no interval and so no verdict: --blocks 5, or --effect 10%".into(),
        );
    }
    notes
}
