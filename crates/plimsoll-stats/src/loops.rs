// SPDX-License-Identifier: Apache-2.0
//! The same throughput on one system in both loops: by how much the closed one understates the tail.
//!
//! A closed loop asks a slow system less often, so what would have waited is not in its response times
//! (coordinated omission). The factor is that of the 99th percentiles within blocks, tested as two systems
//! are.

use plimsoll_core::comparison::{
    ComparisonMetric, ComparisonVerdict, LoadLoopComparison, LoadLoopKind, VerdictPolicy,
};
use plimsoll_core::event::{ArmEntry, RunManifest, TrialResult, WorkloadEntry};
use plimsoll_core::num::{ratio, saturating_u32};
use std::collections::BTreeSet;

use crate::arrangement::BlockLogValues;
use crate::compare::{clamped, question};
use crate::contrast::ArmContrast;
use crate::family::holm;
use crate::overload::carried;
use crate::summary::{SummaryStats, geometric_mean, is_usable};

/// Throughputs further apart are named: then the factor is not one of equal throughput.
const APART_MAX: f64 = 0.1;

/// Both loops of every workload that was played in both, on every system; controls are counted to theirs.
pub fn compare_loops(manifest: &RunManifest, trials: &[TrialResult]) -> Vec<LoadLoopComparison> {
    let policy = clamped(&manifest.policy);
    let of_kind = |kind: LoadLoopKind| {
        move |entry: &&WorkloadEntry| entry.load_loop.as_ref().is_some_and(|it| it.kind == kind)
    };
    let closed = manifest
        .entries
        .iter()
        .filter(of_kind(LoadLoopKind::Closed));
    let mut rows = Vec::new();
    for closed in closed {
        let of = closed.load_loop.as_ref().map(|twin| &twin.of);
        let mut open = manifest.entries.iter().filter(of_kind(LoadLoopKind::Open));
        let open = open.find(|entry| entry.load_loop.as_ref().map(|twin| &twin.of) == of);
        let Some(open) = open else { continue };
        let systems = manifest.arms.iter().filter(|arm| arm.control_of.is_none());
        let twins: Vec<LoopTwins<'_>> = systems
            .map(|arm| LoopTwins::of((closed, open), arm, manifest, trials))
            .collect();
        rows.extend(judged(&twins, &policy));
    }
    rows
}

/// The trials of one system in both loops.
struct LoopTwins<'a> {
    of: &'a str,
    arm: &'a str,
    asked_per_s: f64,
    closed: Vec<&'a TrialResult>,
    open: Vec<&'a TrialResult>,
    blocks: Vec<BlockLogValues>,
    is_overloaded: bool,
}

impl<'a> LoopTwins<'a> {
    fn of(
        (closed, open): (&'a WorkloadEntry, &'a WorkloadEntry),
        arm: &'a ArmEntry,
        manifest: &RunManifest,
        trials: &'a [TrialResult],
    ) -> LoopTwins<'a> {
        let is_own = |name: &str| {
            let mut arms = manifest.arms.iter();
            arms.any(|a| {
                a.name == name && (a.name == arm.name || a.control_of.as_ref() == Some(&arm.name))
            })
        };
        let under = |entry: &WorkloadEntry| -> Vec<&TrialResult> {
            let mine = trials.iter().filter(|t| t.trial.workload == entry.label);
            mine.filter(|t| t.is_comparable() && is_own(&t.trial.arm))
                .collect()
        };
        let (of_closed, of_open) = (under(closed), under(open));
        let logs = |trials: &[&TrialResult], block: u32| -> Vec<f64> {
            let here = trials.iter().filter(|t| t.trial.block == block);
            let p99 = here.map(|t| t.value(ComparisonMetric::P99Response));
            p99.filter(|value| is_usable(*value)).map(f64::ln).collect()
        };
        let block = |block: u32| BlockLogValues {
            base: logs(&of_closed, block),
            arm: logs(&of_open, block),
        };
        let counted = manifest.counted_blocks();
        let both = of_closed.iter().chain(&of_open);
        let blocks: BTreeSet<u32> = both.map(|t| t.trial.block).collect();
        let blocks = blocks.into_iter().filter(|block| counted.contains(block));
        let load = carried(of_open.iter().copied(), None);
        LoopTwins {
            of: open.load_loop.as_ref().map_or("", |twin| &twin.of),
            arm: &arm.name,
            asked_per_s: (open.load_loop.as_ref())
                .and_then(|twin| twin.paces.get(&arm.name))
                .map_or(0.0, |pace| pace.per_s),
            blocks: blocks
                .map(block)
                .filter(|block| !block.base.is_empty() && !block.arm.is_empty())
                .collect(),
            closed: of_closed,
            open: of_open,
            is_overloaded: load.is_some_and(|load| load.is_overloaded()),
        }
    }

    fn undecided(&self) -> LoadLoopComparison {
        let rate = |trials: &[&TrialResult]| {
            let values = trials
                .iter()
                .map(|t| t.value(ComparisonMetric::OpsPerSecond));
            SummaryStats::of(values).map_or(0.0, |summary| summary.mean)
        };
        let p99 = |trials: &[&TrialResult]| {
            geometric_mean(
                trials
                    .iter()
                    .map(|t| t.value(ComparisonMetric::P99Response)),
            )
        };
        LoadLoopComparison {
            workload: self.of.into(),
            arm: self.arm.into(),
            blocks: saturating_u32(self.blocks.len() as u64),
            asked_per_s: self.asked_per_s,
            closed_ops_per_s: rate(&self.closed),
            open_ops_per_s: rate(&self.open),
            closed_p99_ns: p99(&self.closed),
            open_p99_ns: p99(&self.open),
            factor: None,
            verdict: ComparisonVerdict::Inconclusive,
            reason: "needs at least two blocks with 299 operations in both loops".into(),
        }
    }
}

fn judged(twins: &[LoopTwins<'_>], policy: &VerdictPolicy) -> Vec<LoadLoopComparison> {
    let family = twins.iter().filter(|one| one.blocks.len() >= 2).count();
    let question = question(policy, family);
    let contrasts: Vec<Option<ArmContrast>> = (twins.iter())
        .map(|one| ArmContrast::of(&one.blocks, &question))
        .collect();
    let p_values: Vec<f64> = contrasts.iter().flatten().map(|c| c.p_value).collect();
    let mut corrected = holm(&p_values).into_iter();
    let alpha = 1.0 - policy.confidence;
    let mut rows = Vec::new();
    for (one, contrast) in twins.iter().zip(&contrasts) {
        let mut row = one.undecided();
        if let Some(contrast) = contrast {
            let p_value = corrected.next().unwrap_or(1.0);
            row.factor = Some(contrast.ratio());
            row.verdict = match (contrast.margin_p_value <= alpha, p_value <= alpha) {
                (true, _) => ComparisonVerdict::Equivalent,
                (false, true) => ComparisonVerdict::Different,
                (false, false) => ComparisonVerdict::Inconclusive,
            };
            row.reason = apart(&row);
        }
        if one.is_overloaded {
            // Its tail has no upper limit: the factor grows with the length of the trial.
            (row.verdict, row.factor) = (ComparisonVerdict::CannotCarry, None);
            row.reason = "requests at this rate pile up: the closed loop hid an overload".into();
        }
        rows.push(row);
    }
    rows
}

/// The sentence for throughputs that are not the same after all.
fn apart(row: &LoadLoopComparison) -> String {
    let times = ratio(row.open_ops_per_s, row.closed_ops_per_s);
    match (times - 1.0).abs() > APART_MAX {
        false => String::new(),
        true => format!(
            "the open loop reached {times:.2} times the throughput of the closed one, so the factor is not of \
             the loop alone"
        ),
    }
}
