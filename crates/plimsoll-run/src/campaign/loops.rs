// SPDX-License-Identifier: Apache-2.0
//! A workload in both loops at one throughput: what the closed loop reaches on each system is measured before
//! the first block, and the open one is paced at it.

use super::scale::{entry, label_of, length, probed};
use super::{ArmSet, CampaignOptions};
use crate::request::WorkloadRequest;
use plimsoll_console::failure::CliError;
use plimsoll_core::comparison::LoadLoopKind;
use plimsoll_core::event::{ArmEntry, LoadLoopEntry, RunWarning, TrialResult, WorkloadEntry};
use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::op::OpKind;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::BlockIoWorkload;
use plimsoll_core::workload::loops::{LoadLoopPace, LoadLoopTwins};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Length of a probe: as long as a trial, within these bounds.
const PROBE: (u64, u64) = (2 * Nanos::SECOND.0, 10 * Nanos::SECOND.0);

/// Both entries of each workload; notes say what the closed loops reached.
pub fn twin_entries(
    asked: &[WorkloadRequest],
    arms: &ArmSet,
    settings: &CampaignOptions,
    stop: &AtomicBool,
    notes: &mut Vec<RunWarning>,
) -> Result<Vec<WorkloadEntry>, CliError> {
    let mut entries = Vec::new();
    for one in asked {
        entries.extend(twins_of(one, arms, settings, stop, notes)?);
    }
    Ok(entries)
}

/// The entries of the same command once more. Only what closed loops reached is taken from those before, for
/// the systems of this command.
///
/// # Errors
/// As [`twin_entries`], and where that is not there or cannot be.
pub fn twin_entries_again(
    asked: &[WorkloadRequest],
    arms: &[ArmEntry],
    settings: &CampaignOptions,
    before: &[WorkloadEntry],
) -> Result<Vec<WorkloadEntry>, CliError> {
    let mut entries = Vec::new();
    for one in asked {
        let twins = check_both_loops(one)?;
        let found = before
            .get(entries.len())
            .and_then(|entry| entry.load_loop.as_ref());
        let found = found.map(|found| &found.paces);
        let paces = arms.iter().map(|arm| {
            let pace = found.and_then(|paces| paces.get(&arm.name)).copied();
            pace.filter(|pace| twins.allows(pace))
                .map(|pace| (arm.name.clone(), pace))
        });
        let paces: Option<BTreeMap<String, LoadLoopPace>> = paces.collect();
        let paces = paces.ok_or_else(|| {
            let name = one.workload.name();
            CliError::invalid(format!(
                "workload '{name}': what its closed loop reached is not in the run folder"
            ))
        })?;
        entries.extend(twins_at(&twins, &entry(one, 1.0, settings), &paces));
    }
    Ok(entries)
}

/// Labels of a workload's closed-loop and open-loop entries.
pub fn twin_labels(asked: &WorkloadRequest) -> [String; 2] {
    labels(&label_of(asked))
}

/// The closed one first.
fn labels(label: &str) -> [String; 2] {
    [LoadLoopKind::Closed, LoadLoopKind::Open].map(|kind| format!("{label}, {}", kind.name()))
}

/// Looks at whether a workload can be played in both loops.
///
/// # Errors
/// When it cannot, with the reason.
pub fn check_both_loops(asked: &WorkloadRequest) -> Result<LoadLoopTwins, CliError> {
    asked.workload.in_both_loops().map_err(|why| {
        CliError::invalid(format!(
            "workload '{}' cannot be played in both loops: it {why}",
            asked.workload.name()
        ))
    })
}

fn twins_of(
    asked: &WorkloadRequest,
    arms: &ArmSet,
    settings: &CampaignOptions,
    stop: &AtomicBool,
    notes: &mut Vec<RunWarning>,
) -> Result<[WorkloadEntry; 2], CliError> {
    let twins = check_both_loops(asked)?;
    let whole = entry(asked, 1.0, settings);
    let probe_length = Nanos(length(asked, settings).0.clamp(PROBE.0, PROBE.1));
    let probe = |blocks: &BlockIoWorkload, arm: &str| {
        let probe = WorkloadEntry {
            label: "probe".into(),
            length: probe_length,
            workload: Workload::Blocks(blocks.clone()),
            ..whole.clone()
        };
        probed(&probe, arm, arms, settings, stop)
    };
    let nodes = arms.load().nodes().len().max(1) as f64;
    let mut paces = BTreeMap::new();
    for (arm, _) in arms.probed() {
        let mut closed = twins.closed.clone();
        let mut pace = match twins.asked_per_s {
            None => twins.closed_pace(Nanos(0)),
            Some(_) => twins.closed_pace(alone(&probe(&closed, arm)?)),
        };
        closed.pace_as(LoadLoopKind::Closed, &pace);
        pace.per_s = turns_per_s(&probe(&closed, arm)?, &twins) / nodes;
        if pace.per_s <= 0.0 {
            return Err(CliError::invalid(format!(
                "workload '{}' cannot be played in both loops: the closed one completed nothing on {arm}",
                asked.workload.name()
            )));
        }
        notes.push(RunWarning {
            about: label_of(asked),
            text: told(arm, &pace),
        });
        paces.insert(arm.to_owned(), pace);
    }
    // A control is the same system once more.
    for (control, base) in arms.controls() {
        if let Some(pace) = paces.get(base).copied() {
            paces.insert(control.to_owned(), pace);
        }
    }
    Ok(twins_at(&twins, &whole, &paces))
}

/// Both entries at these paces.
fn twins_at(
    twins: &LoadLoopTwins,
    whole: &WorkloadEntry,
    paces: &BTreeMap<String, LoadLoopPace>,
) -> [WorkloadEntry; 2] {
    let [closed, open] = labels(&whole.label);
    let twin = |label: String, kind, blocks: &BlockIoWorkload| WorkloadEntry {
        label,
        workload: Workload::Blocks(blocks.clone()),
        load_loop: Some(LoadLoopEntry {
            kind,
            of: whole.label.clone(),
            paces: paces.clone(),
        }),
        ..whole.clone()
    };
    [
        twin(closed, LoadLoopKind::Closed, &twins.closed),
        twin(open, LoadLoopKind::Open, &twins.open),
    ]
}

fn told(arm: &str, pace: &LoadLoopPace) -> String {
    let clients = match pace.clients {
        None => String::new(),
        Some(1) => format!(
            " with one client that thinks for {}",
            units::duration(pace.think)
        ),
        Some(clients) => format!(
            " with {clients} clients that think for {}",
            units::duration(pace.think)
        ),
    };
    format!(
        "the closed loop reached {} turns/s on {arm}{clients}; the open loop is paced at that",
        units::rate(pace.per_s)
    )
}

/// Mean response time of one client alone.
fn alone(result: &TrialResult) -> Nanos {
    Nanos(round_u64(result.stats.response().mean_ns()))
}

/// Turns a second; what makes writes durable is a part of turns.
fn turns_per_s(result: &TrialResult, twins: &LoadLoopTwins) -> f64 {
    let kinds = [OpKind::Read, OpKind::Write, OpKind::Append, OpKind::Discard];
    let of = kinds.iter().filter_map(|kind| result.stats.0.get(kind));
    let operations: u64 = of
        .map(|stats| stats.ops().saturating_sub(stats.errors))
        .sum();
    let per_s = ratio(operations as f64, result.length.as_secs_f64());
    per_s / twins.operations_per_turn()
}
