// SPDX-License-Identifier: Apache-2.0
//! From what was asked (`nas.toml@auto`) to the entries of a manifest, measuring how much the
//! systems carry where a factor has to be found.

use super::trial::trial_task;
use super::{ArmSet, CampaignOptions};
use crate::request::{LENGTH, WorkloadRequest};
use plimsoll_console::failure::CliError;
use plimsoll_console::failure::stopped;
use plimsoll_core::data_check::DataCheck;
use plimsoll_core::event::{ClientCondition, RunWarning, TrialId, TrialResult, WorkloadEntry};
use plimsoll_core::failover::{FaultInjection, StackCondition};
use plimsoll_core::load::AgentTrialTask;
use plimsoll_core::model::{IoDirection, WorkloadModel};
use plimsoll_core::num::{floor_u64, ratio, round_u64, saturating_u32};
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::BlockIoWorkload;
use plimsoll_machine::host::{counters, facts};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest time for work that ends by itself.
pub(super) const LENGTH_MAX: Nanos = Nanos(7 * 86_400 * Nanos::SECOND.0);
/// Default for the longest time of a trial that ends after a number of bytes.
const BYTES_LENGTH: Nanos = Nanos(3_600 * Nanos::SECOND.0);
/// Length of the capacity probe of each system: long enough for a steady rate on a cold queue.
const PROBE: Nanos = Nanos(2_000_000_000);
/// Operations in flight during the probe: a busy disk queue.
const PROBE_DEPTH: u32 = 16;
/// The busy seconds of the multiple ask for this share of what the slowest system carried.
const SHARE: f64 = 0.6;
/// Steps a factor is rounded down to, per decade.
const STEPS: [f64; 10] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];

/// Resolves what was asked; notes say how a factor was found.
pub fn entries(
    asked: &[WorkloadRequest],
    arms: &ArmSet,
    settings: &CampaignOptions,
    stop: &AtomicBool,
    notes: &mut Vec<RunWarning>,
) -> Result<Vec<WorkloadEntry>, CliError> {
    let mut found = |model: &WorkloadModel, _: &[WorkloadEntry], notes: &mut Vec<RunWarning>| {
        find(model, arms, settings, stop, notes)
    };
    resolved(asked, settings, notes, &mut found)
}

/// The entries of the same command once more. Only factors that were found are taken from those before;
/// whatever is played is what the command asks for.
///
/// # Errors
/// As [`entries`].
pub fn entries_again(
    asked: &[WorkloadRequest],
    settings: &CampaignOptions,
    before: &[WorkloadEntry],
) -> Result<Vec<WorkloadEntry>, CliError> {
    let fixed = asked.iter().filter(|one| one.scale.is_some());
    let fixed: Vec<String> = fixed.map(label_of).collect();
    let mut found = |model: &WorkloadModel, so_far: &[WorkloadEntry], _: &mut Vec<RunWarning>| {
        let is_factor = |entry: &&WorkloadEntry| {
            let (scale, name) = (entry.scale, entry.workload.name());
            name == model.name
                && !fixed.contains(&label(name, scale))
                && (round_down(scale) - scale).abs() < 1e-9 * scale
        };
        let here = before.get(so_far.len()).filter(is_factor);
        // One that was left out is that of an entry before it.
        let earlier = || {
            so_far
                .iter()
                .rev()
                .find(|entry| entry.workload.name() == model.name)
        };
        Ok(here.or_else(earlier).map_or(1.0, |entry| entry.scale))
    };
    resolved(asked, settings, &mut Vec::new(), &mut found)
}

/// Function that gives the factor of a model, knowing the entries before it.
type FindFactor<'a> =
    dyn FnMut(&WorkloadModel, &[WorkloadEntry], &mut Vec<RunWarning>) -> Result<f64, CliError> + 'a;

fn resolved(
    asked: &[WorkloadRequest],
    settings: &CampaignOptions,
    notes: &mut Vec<RunWarning>,
    find: &mut FindFactor<'_>,
) -> Result<Vec<WorkloadEntry>, CliError> {
    let mut entries: Vec<WorkloadEntry> = Vec::new();
    for one in asked {
        let scale = match (&one.workload, one.scale) {
            (_, Some(scale)) => scale,
            (Workload::Model(model), None) => find(model, &entries, notes)?,
            _ => 1.0,
        };
        let entry = entry(one, scale, settings);
        let labels = labels_under(&entry.label, settings);
        let taken = entries.iter().any(|other| labels.contains(&other.label));
        if taken && one.scale.is_none() {
            let text = "the factor found is already in the run, so it was not added again";
            notes.push(RunWarning {
                about: entry.label,
                text: text.into(),
            });
            continue;
        }
        if taken {
            return Err(CliError::invalid(format!(
                "workload '{}' is given twice: give each workload once",
                entry.label
            )));
        }
        notes.extend(one.notes.iter().map(|text| RunWarning {
            about: entry.label.clone(),
            text: text.clone(),
        }));
        entries.extend(under_faults(&entry, settings));
    }
    notes.extend(not_doubled(settings));
    Ok(entries)
}

pub(super) fn entry(
    asked: &WorkloadRequest,
    scale: f64,
    settings: &CampaignOptions,
) -> WorkloadEntry {
    WorkloadEntry {
        label: label(asked.workload.name(), scale),
        scale,
        length: length(asked, settings),
        workload: asked.workload.clone(),
        inject: None,
        condition: None,
        load_line: asked.goal.clone(),
        client: None,
        load_loop: None,
    }
}

/// A workload under every fault that is injected, or while the systems are as they are asked to be; as it
/// is where nothing of that is asked.
fn under_faults(entry: &WorkloadEntry, settings: &CampaignOptions) -> Vec<WorkloadEntry> {
    let label = entry.label.clone();
    let under = |injection: &FaultInjection| WorkloadEntry {
        label: label_under(&label, injection),
        inject: Some(injection.clone()),
        ..entry.clone()
    };
    let whilst = |condition: &StackCondition| WorkloadEntry {
        label: label_while(&label, condition),
        condition: Some(condition.clone()),
        ..entry.clone()
    };
    let all = match (&*settings.inject, &*settings.conditions) {
        ([], []) => vec![entry.clone()],
        ([], conditions) => conditions.iter().map(whilst).collect(),
        (all, _) => all.iter().map(under).collect(),
    };
    all.into_iter()
        .flat_map(|entry| with_client_cpus(entry, settings))
        .collect()
}

/// A workload, and the same with other numbers of the client's processors.
fn with_client_cpus(entry: WorkloadEntry, settings: &CampaignOptions) -> Vec<WorkloadEntry> {
    let other = |cpus: &u32| WorkloadEntry {
        label: label_with_cpus(&entry.label, *cpus),
        client: Some(ClientCondition {
            of: entry.label.clone(),
            cpus: *cpus,
        }),
        ..entry.clone()
    };
    let others: Vec<WorkloadEntry> = settings.client_cpus.iter().map(other).collect();
    std::iter::once(entry).chain(others).collect()
}

fn label_with_cpus(label: &str, cpus: u32) -> String {
    match cpus {
        1 => format!("{label} with 1 client CPU"),
        more => format!("{label} with {more} client CPUs"),
    }
}

/// Half of the processors that this program may use, and double that number where the machine has as
/// many.
pub fn other_client_cpus() -> Vec<u32> {
    other_cpus(facts::machine().cpus, counters::cpu_count())
}

fn other_cpus(usual: u32, all: u32) -> Vec<u32> {
    let half = Some(usual / 2).filter(|half| *half > 0);
    let double = Some(usual.saturating_mul(2)).filter(|double| *double <= all);
    half.into_iter().chain(double).collect()
}

/// Warning that the client's CPUs could not be doubled, or not halved.
fn not_doubled(settings: &CampaignOptions) -> Option<RunWarning> {
    let usual = facts::machine().cpus;
    let (least, most) = (
        settings.client_cpus.iter().min()?,
        settings.client_cpus.iter().max()?,
    );
    let text = match (*least < usual, *most > usual) {
        (true, true) => return None,
        (false, _) => "the client has one CPU, which cannot be halved".into(),
        (_, false) => format!(
            "the client’s {usual} CPUs could not be doubled: the machine has no more; start it with \
             'taskset' on half of them to have both"
        ),
    };
    Some(RunWarning {
        about: "--prove-client".into(),
        text,
    })
}

fn label_under(label: &str, injection: &FaultInjection) -> String {
    format!("{label} under {}", injection.fault)
}

fn label_while(label: &str, condition: &StackCondition) -> String {
    format!("{label} while {}", condition.name())
}

/// Labels of the entries of a workload.
pub fn labels_of(asked: &WorkloadRequest, settings: &CampaignOptions) -> Vec<String> {
    labels_under(&label_of(asked), settings)
}

fn labels_under(label: &str, settings: &CampaignOptions) -> Vec<String> {
    let all: Vec<String> = match (&*settings.inject, &*settings.conditions) {
        ([], []) => vec![label.into()],
        ([], conditions) => (conditions.iter().map(|one| label_while(label, one))).collect(),
        (all, _) => all.iter().map(|one| label_under(label, one)).collect(),
    };
    let with_cpus = |label: String| {
        let others = settings.client_cpus.iter();
        let others: Vec<String> = others.map(|cpus| label_with_cpus(&label, *cpus)).collect();
        std::iter::once(label).chain(others)
    };
    all.into_iter().flat_map(with_cpus).collect()
}

/// Label of a workload, as far as that is known before anything is measured.
pub fn label_of(asked: &WorkloadRequest) -> String {
    match asked.scale {
        Some(scale) => label(asked.workload.name(), scale),
        None => format!("{} ×auto", asked.workload.name()),
    }
}

/// How long a trial of it lasts, at most.
pub fn length(asked: &WorkloadRequest, settings: &CampaignOptions) -> Nanos {
    let told = settings.length.or(asked.length);
    let faults = settings.inject.iter().map(super::failover::length_under);
    let usual = match settings.bytes {
        Some(_) => BYTES_LENGTH,
        None => LENGTH,
    };
    let wanted = told.unwrap_or_else(|| faults.max().unwrap_or(usual));
    match &asked.workload {
        Workload::Model(model) if settings.whole => model.length(),
        // Slices are whole seconds.
        Workload::Model(_) => Nanos((wanted.0 / Nanos::SECOND.0).max(1) * Nanos::SECOND.0),
        workload if workload.ends_by_itself() => told.unwrap_or(LENGTH_MAX),
        _ => wanted,
    }
}

/// `nas`, `nas ×12`, `nas ×0.5`.
fn label(name: &str, scale: f64) -> String {
    if (scale - 1.0).abs() < 1e-9 {
        return name.into();
    }
    let text = format!("{scale:.3}");
    format!(
        "{name} ×{}",
        text.trim_end_matches('0').trim_end_matches('.')
    )
}

/// The factor at which the recording's busy seconds ask for [`SHARE`] of what the slowest system
/// carries at a fixed depth.
fn find(
    model: &WorkloadModel,
    arms: &ArmSet,
    settings: &CampaignOptions,
    stop: &AtomicBool,
    notes: &mut Vec<RunWarning>,
) -> Result<f64, CliError> {
    let mut slowest = (f64::INFINITY, String::new());
    for (name, _) in arms.probed() {
        let rate = sustained(model, name, arms, settings, stop)?;
        if rate < slowest.0 {
            slowest = (rate, name.to_owned());
        }
    }
    let busy = busy_rate(model);
    let factor = round_down(SHARE * slowest.0 / busy);
    let text = format!(
        "scale ×{factor}: {} sustains {} IOPS at queue depth {PROBE_DEPTH}; busy seconds of the \
         recording need {}; ×{factor} keeps them at {:.0} % of that at most",
        slowest.1,
        units::rate(slowest.0),
        units::rate(busy),
        SHARE * 100.0
    );
    notes.push(RunWarning {
        about: label(&model.name, factor),
        text,
    });
    Ok(factor)
}

/// Rate that each node reaches on a system with the model's mix, in operations per second.
fn sustained(
    model: &WorkloadModel,
    arm: &str,
    arms: &ArmSet,
    settings: &CampaignOptions,
    stop: &AtomicBool,
) -> Result<f64, CliError> {
    let probe = WorkloadEntry {
        label: "probe".into(),
        scale: 1.0,
        length: PROBE,
        workload: Workload::Blocks(probe_of(model)),
        inject: None,
        condition: None,
        load_line: None,
        client: None,
        load_loop: None,
    };
    let result = probed(&probe, arm, arms, settings, stop)?;
    let lost = result.stats.errors() + result.generator.unfinished;
    let done = result.stats.ops().saturating_sub(lost) as f64;
    Ok(ratio(done, result.length.as_secs_f64()) / arms.load().nodes().len().max(1) as f64)
}

/// Result of a system in a trial that is no part of the campaign.
pub(super) fn probed(
    probe: &WorkloadEntry,
    arm: &str,
    arms: &ArmSet,
    settings: &CampaignOptions,
    stop: &AtomicBool,
) -> Result<TrialResult, CliError> {
    let trial = TrialId {
        block: 0,
        place: 0,
        arm: arm.into(),
        workload: probe.label.clone(),
    };
    let task = |n: usize| AgentTrialTask {
        warmup: Nanos::SECOND,
        bytes: None,
        data_check: DataCheck::Off,
        seed: settings.seed.derive("probe", 0),
        ..trial_task(&trial, arms, (probe, settings), n)
    };
    let load = arms.load();
    let mut hosts = load.hosts();
    let mut sessions = load.prepare(&mut hosts, task, stop)?;
    let start_at = sessions.play(&|| stop.load(Ordering::Relaxed), &mut |_| (), &mut || ());
    let (result, _) = sessions.result(&trial, start_at)?;
    if result.interrupted {
        return Err(stopped());
    }
    Ok(result)
}

/// The same mix as fast as the storage lets it: mean size, share of reads, working set.
pub(super) fn probe_of(model: &WorkloadModel) -> BlockIoWorkload {
    let [(reads, read_bytes), (writes, write_bytes)] =
        IoDirection::BOTH.map(|direction| model.mean_per_s(direction));
    let mean = ratio(read_bytes + write_bytes, reads + writes);
    let bytes = saturating_u32(round_u64(mean).next_power_of_two().clamp(4_096, 1 << 20));
    let mut probe = BlockIoWorkload::random("probe", ratio(reads, reads + writes));
    for group in &mut probe.groups {
        group.depth = PROBE_DEPTH;
        group.extent.bytes = model.facts.working_set_bytes.value;
        group.syncs = model.facts.syncs();
        group.mix.iter_mut().for_each(|turn| turn.bytes = bytes);
    }
    probe
}

/// Operations per second that 95 % of the recorded time stays below.
fn busy_rate(model: &WorkloadModel) -> f64 {
    let rate = |cell| {
        IoDirection::BOTH
            .iter()
            .map(|d| plimsoll_core::model::ModelInterval::ops_per_s(cell, *d))
            .sum::<f64>()
    };
    let mut rates: Vec<(f64, u64)> = model
        .envelope
        .cells()
        .iter()
        .map(|cell| (rate(cell), cell.length.0))
        .collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let limit = floor_u64(model.length().0 as f64 * 0.95);
    let mut passed = 0;
    for (rate, length) in &rates {
        passed += length;
        if passed >= limit {
            return rate.max(f64::MIN_POSITIVE);
        }
    }
    1.0
}

fn round_down(factor: f64) -> f64 {
    if !factor.is_finite() || factor <= 0.0 {
        return 1.0;
    }
    let decade = 10f64.powf(factor.log10().floor());
    let step = STEPS
        .iter()
        .rev()
        .find(|step| *step * decade <= factor * (1.0 + 1e-9));
    // Two decimals are enough, and keep 3 × 0.1 from showing as 0.30000000000000004.
    (step.unwrap_or(&1.0) * decade * 100.0 + 1e-6)
        .floor()
        .max(1.0)
        / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_round_and_never_above_what_is_carried() {
        for (factor, expect) in [
            (0.97, 0.8),
            (1.0, 1.0),
            (7.9, 6.0),
            (12.4, 12.0),
            (140.0, 120.0),
            (0.33, 0.3),
        ] {
            let found = round_down(factor);
            assert!((found - expect).abs() < 1e-9, "{factor}: {found}");
        }
        assert!((round_down(f64::NAN) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_client_is_halved_and_doubled_as_far_as_it_can_be() {
        for (usual, all, expect) in [
            (1, 1, &[][..]),
            (2, 2, &[1]),
            (1, 2, &[2]),
            (4, 8, &[2, 8]),
            (3, 4, &[1]),
        ] {
            assert_eq!(other_cpus(usual, all), expect, "{usual} of {all}");
        }
    }

    #[test]
    fn labels_say_the_factor_where_there_is_one() {
        for (scale, expect) in [
            (1.0, "nas"),
            (12.0, "nas ×12"),
            (0.5, "nas ×0.5"),
            (1.25, "nas ×1.25"),
        ] {
            assert_eq!(label("nas", scale), expect);
        }
    }
}
