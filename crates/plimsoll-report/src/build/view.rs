// SPDX-License-Identifier: Apache-2.0
//! The results seen by workload and arm, which is how a report walks through them.
//!
//! Trials cut short by the user stay out of the view unless an arm has nothing else to show.

use plimsoll_core::comparison::{ArmComparison, LoadLoopComparison};
use plimsoll_core::data_check::DataCheckResult;
use plimsoll_core::event::{
    ArmEntry, KindStats, OpStats, RunFolderContents, TrialResult, WorkloadEntry,
};
use plimsoll_core::explanation::{ArmExplanations, ThroughputCliff};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::load_line::SloResult;
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;
use plimsoll_stats::load_line::{ArmLoadLine, arm_load_lines};
use plimsoll_stats::{compare_all, compare_loops, compare_secondary, compare_steps};

use crate::model::{ChartQuantity, ChartSeriesStyle};
use crate::words;
pub(crate) use crate::words::{grouped, number};

/// Results with what every section needs of them.
pub(crate) struct ResultsView<'a> {
    pub(crate) results: &'a RunFolderContents,
    pub(crate) arms: Vec<ArmView<'a>>,
    pub(crate) comparisons: Vec<ArmComparison>,
    /// The metrics beside the one that was fixed beforehand.
    pub(crate) secondary: Vec<ArmComparison>,
    /// Comparisons of workloads that were played in both loops.
    pub(crate) loops: Vec<LoadLoopComparison>,
    /// Every rung of a ladder against the one below; empty unless the run climbs one.
    pub(crate) steps: Vec<ArmComparison>,
    /// The load lines that were searched.
    pub(crate) load_lines: Vec<ArmLoadLine<'a>>,
    /// Limits of the trials, and whether they were kept.
    pub(crate) slos: Vec<SloResult>,
    /// Possible limits of each arm under each workload.
    pub(crate) explanations: Vec<ArmExplanations>,
    /// Throughputs that fell within a trial and stayed there.
    pub(crate) cliffs: Vec<ThroughputCliff>,
    /// Whether more results are still to come.
    pub(crate) goes_on: bool,
}

/// An arm and how it is drawn.
pub(crate) struct ArmView<'a> {
    pub(crate) arm: &'a ArmEntry,
    pub(crate) ink: ChartSeriesStyle,
}

impl<'a> ResultsView<'a> {
    pub(crate) fn of(results: &'a RunFolderContents) -> ResultsView<'a> {
        let manifest = &results.manifest;
        let systems: Vec<&str> = manifest
            .arms
            .iter()
            .filter(|arm| arm.control_of.is_none())
            .map(|arm| arm.name.as_str())
            .collect();
        let ink = |arm: &ArmEntry| {
            let drawn_as = arm.control_of.as_deref().unwrap_or(&arm.name);
            ChartSeriesStyle {
                name: match &arm.control_of {
                    Some(of) => words::control(of),
                    None => arm.name.clone(),
                },
                colour: systems.iter().position(|n| *n == drawn_as).unwrap_or(0),
                control: arm.control_of.is_some(),
            }
        };
        let arms = manifest.arms.iter();
        let comparisons = if results.comparisons.is_empty() {
            compare_all(manifest, &results.trials)
        } else {
            results.comparisons.clone()
        };
        ResultsView {
            results,
            steps: if manifest.ladder.is_empty() {
                Vec::new()
            } else {
                compare_steps(manifest, &results.trials)
            },
            arms: arms.map(|arm| ArmView { arm, ink: ink(arm) }).collect(),
            comparisons,
            secondary: compare_secondary(manifest, &results.trials),
            loops: compare_loops(manifest, &results.trials),
            load_lines: arm_load_lines(manifest, &results.trials),
            slos: plimsoll_stats::slo::slo_results(manifest, &results.trials),
            explanations: plimsoll_stats::explain::explain(results),
            cliffs: plimsoll_stats::cliff::throughput_cliffs(results),
            goes_on: false,
        }
    }

    /// An arm as it is named in a report.
    pub(crate) fn name_of(&self, arm: &str) -> String {
        let view = self.arms.iter().find(|view| view.arm.name == arm);
        view.map_or_else(|| arm.to_owned(), |view| view.ink.name.clone())
    }

    /// The workloads that were asked for and are played in blocks.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &'a WorkloadEntry> {
        let entries = self.results.manifest.entries.iter();
        entries.filter(|entry| entry.load_line.is_none())
    }

    /// The workloads whose load lines are searched.
    pub(crate) fn load_entries(&self) -> impl Iterator<Item = &'a WorkloadEntry> {
        let entries = self.results.manifest.entries.iter();
        entries.filter(|entry| entry.load_line.is_some())
    }

    /// The comparisons of systems; those of the A/A control only where there is nothing else.
    pub(crate) fn judged(&self) -> impl Iterator<Item = &ArmComparison> {
        let is_alone = self.comparisons.iter().all(|row| row.is_control);
        let rows = self.comparisons.iter();
        rows.filter(move |row| is_alone || !row.is_control)
    }

    /// Whether there is more than one arm.
    pub(crate) fn is_comparison(&self) -> bool {
        self.arms.len() > 1
    }

    /// Memory of the machine that the load comes from; of several, the smallest.
    pub(crate) fn load_ram_bytes(&self) -> u64 {
        let manifest = &self.results.manifest;
        let nodes = manifest.load_nodes.iter();
        let smallest = nodes.map(|node| node.machine.ram_bytes).min();
        smallest.unwrap_or(manifest.machine.ram_bytes)
    }

    /// The arms that have trials under a workload, with these trials.
    pub(crate) fn pools(&self, entry: &WorkloadEntry) -> Vec<ArmTrials<'a>> {
        let pools = self.arms.iter().map(|a| self.pool(entry, a));
        pools.filter(|pool| !pool.trials.is_empty()).collect()
    }

    fn pool(&self, entry: &WorkloadEntry, view: &ArmView<'a>) -> ArmTrials<'a> {
        let trials = self.results.trials.iter();
        let all: Vec<&TrialResult> = trials
            .filter(|t| t.trial.workload == entry.label && t.trial.arm == view.arm.name)
            .collect();
        let whole: Vec<&TrialResult> = all.iter().copied().filter(|t| !t.interrupted).collect();
        let trials = if whole.is_empty() { all } else { whole };
        let mut stats = OpStats::default();
        trials.iter().for_each(|t| stats.merge(&t.stats));
        ArmTrials {
            ink: view.ink.clone(),
            trials,
            stats,
        }
    }
}

/// The trials of one arm under one workload.
pub(crate) struct ArmTrials<'a> {
    pub(crate) ink: ChartSeriesStyle,
    pub(crate) trials: Vec<&'a TrialResult>,
    /// Of all its trials together.
    pub(crate) stats: OpStats,
}

impl ArmTrials<'_> {
    /// Data check of all trials together; `None` where data were not verified.
    pub(crate) fn data_check(&self) -> Option<DataCheckResult> {
        let checks = self.trials.iter().filter_map(|t| t.data_check.clone());
        checks.reduce(|mut whole, one| {
            whole.merge(one);
            whole
        })
    }

    /// One value per trial.
    pub(crate) fn values(&self, value: impl Fn(&TrialResult) -> f64) -> Vec<f64> {
        self.trials.iter().map(|t| value(t)).collect()
    }

    /// (block, value) per trial.
    pub(crate) fn by_block(&self, value: impl Fn(&TrialResult) -> f64) -> Vec<(u32, f64)> {
        let dot = |t: &&TrialResult| (t.trial.block, value(t));
        self.trials.iter().map(dot).collect()
    }

    /// One value per trial that has operations of the kind.
    pub(crate) fn of_kind(&self, kind: OpKind, value: impl Fn(&KindStats, f64) -> f64) -> Vec<f64> {
        let of = |t: &&TrialResult| Some(value(t.stats.0.get(&kind)?, t.length.as_secs_f64()));
        self.trials.iter().filter_map(of).collect()
    }

    /// How the arm is named in a table.
    pub(crate) fn name(&self) -> String {
        self.ink.label()
    }

    /// Range of a quantile over the trials that support it.
    pub(crate) fn quantile_range(&self, q: f64, of: fn(&OpStats) -> Histogram) -> String {
        let each: Vec<f64> = self
            .trials
            .iter()
            .map(|t| of(&t.stats))
            .filter(|h| h.supports_quantile(q))
            .map(|h| h.quantile_ns(q) as f64)
            .collect();
        plimsoll_stats::SummaryStats::of(each)
            .map(|s| words::range(&s, ChartQuantity::Duration))
            .unwrap_or_default()
    }
}

/// Operations per second of a trial.
pub(crate) fn ops_per_s(trial: &TrialResult) -> f64 {
    ratio(trial.stats.ops() as f64, trial.length.as_secs_f64())
}

/// Bytes per second of a trial.
pub(crate) fn bytes_per_s(trial: &TrialResult) -> f64 {
    ratio(trial.stats.bytes() as f64, trial.length.as_secs_f64())
}
