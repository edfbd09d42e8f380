// SPDX-License-Identifier: Apache-2.0
//! The part of a run that becomes history: a fact for each trial and figure, and for each figure of an arm
//! the ratio to the reference arm within the same blocks. The folder is read event by event: of a trial only
//! its figures are kept.

use crate::error::HistoryError;
use crate::secret::hexadecimal;
use plimsoll_archive::RunFolderFollower;
use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::{ArmEntry, RunEvent, RunManifest, TrialResult, WorkloadEntry};
use plimsoll_core::failover::StackCondition;
use plimsoll_core::text::printable;
use plimsoll_stats::arrangement::BlockLogValues;
use plimsoll_stats::contrast::{ArmContrast, ContrastQuestion};
use plimsoll_stats::load_line::{
    LoadLineRatio, LoadLineResult, LoadLineTrial, load_line_of, load_line_trial,
};
use plimsoll_stats::phase_label;
use plimsoll_stats::summary::is_usable;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

/// Most facts of one run.
pub const FACTS_MAX: usize = 1_000_000;
/// Longest name of a system, a workload or a phase.
const NAME_MAX: usize = 400;
/// Bytes of a look into a folder.
const LOOK_BYTES: u64 = 4 << 20;

/// Most trials of a search that are followed again: each costs a posterior, and real ones have some tens.
const SEARCH_MAX: usize = 500;

/// The figures that a trial has beside those of its phases.
const METRICS: [ComparisonMetric; 10] = [
    ComparisonMetric::MeanResponse,
    ComparisonMetric::OpsPerSecond,
    ComparisonMetric::BytesPerSecond,
    ComparisonMetric::P99Response,
    ComparisonMetric::P999Response,
    ComparisonMetric::CpuPerOperation,
    ComparisonMetric::PreparationTime,
    ComparisonMetric::ClientEvenness,
    ComparisonMetric::WriteOutage,
    ComparisonMetric::BrownOut,
];

/// A figure: a metric of a system under a workload in a condition.
pub(crate) type FigureKey = (String, String, String, String);

/// A figure of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryFact {
    pub(crate) figure: FigureKey,
    pub(crate) settings: usize,
    pub(crate) block: u32,
    pub(crate) place: u32,
    /// Its value.
    pub value: f64,
    /// To that of the reference in the same block.
    pub ratio: Option<f64>,
}

/// A figure of an arm over the blocks of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryPointDraft {
    pub(crate) figure: FigureKey,
    pub(crate) reference: String,
    /// Whether it is the reference itself, entered a second time.
    pub is_control: bool,
    pub(crate) settings: usize,
    /// Blocks in which both have a value.
    pub blocks: u32,
    /// The ratio.
    pub estimate: f64,
    /// Its interval, from two blocks on.
    pub interval: Option<(f64, f64)>,
    pub(crate) value: f64,
    pub(crate) reference_value: f64,
}

/// A run folder, as the history keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFigures {
    /// Identifier of the run.
    pub name: String,
    /// Version of the program.
    pub program: String,
    /// Versions of programs and packages, as JSON.
    pub versions: String,
    /// The command line, as JSON.
    pub command: String,
    /// The arm that all others are divided by.
    pub reference: String,
    /// When it began.
    pub began_ms: i64,
    /// Whether its plan was carried out to its end.
    pub is_complete: bool,
    /// Settings of its workloads: digest and text.
    pub(crate) settings: Vec<(String, String)>,
    /// Every figure of every trial.
    pub facts: Vec<HistoryFact>,
    /// Every ratio.
    pub points: Vec<HistoryPointDraft>,
}

/// The figures of one trial that can be compared.
struct TrialFigures {
    arm: String,
    workload: String,
    block: u32,
    place: u32,
    /// Label (with the phase) and metric.
    values: Vec<(String, ComparisonMetric, f64)>,
    /// The trial, as the search of a load line sees it.
    load_line: Option<LoadLineTrial>,
}

fn json(value: &impl Serialize) -> String {
    printable(&serde_json::to_string(value).unwrap_or_default())
}

fn refused(text: impl Into<String>) -> HistoryError {
    HistoryError::Run(text.into())
}

impl RunFigures {
    /// Reads a folder. `reference` names the arm that the others are divided by; else it is the first.
    ///
    /// # Errors
    /// When the folder is no run, is damaged, or has no such arm.
    pub fn read(folder: &Path, reference: Option<&str>) -> Result<RunFigures, HistoryError> {
        let wrong = |error| refused(format!("failed to {error}"));
        let mut follower = RunFolderFollower::open(folder).map_err(wrong)?;
        let (mut trials, mut manifest) = (Vec::new(), follower.manifest().clone());
        let (mut facts, mut is_complete) = (0, false);
        while let Some(events) = follower.look(LOOK_BYTES).map_err(wrong)? {
            for event in events {
                match event {
                    RunEvent::TrialEnded(result) => {
                        let figures = TrialFigures::of(&result);
                        facts += figures.values.len();
                        trials.push(figures);
                    }
                    RunEvent::Designed(found) => manifest.adopt(found),
                    RunEvent::BlocksEnded(ended) => manifest.end(ended),
                    RunEvent::Finished { interrupted, .. } => is_complete = !interrupted,
                    _ => {}
                }
                if facts > FACTS_MAX {
                    return Err(refused(format!(
                        "the run has more than {FACTS_MAX} figures"
                    )));
                }
            }
        }
        match follower.damaged() {
            0 => RunFigures::of(&manifest, &trials, is_complete, reference),
            n => Err(refused(format!(
                "the events of the run are damaged: {n} of their lines cannot be read"
            ))),
        }
    }

    fn of(
        manifest: &RunManifest,
        trials: &[TrialFigures],
        is_complete: bool,
        reference: Option<&str>,
    ) -> Result<RunFigures, HistoryError> {
        check_names(manifest)?;
        let began = manifest.began_at.parse::<jiff::Timestamp>();
        let began =
            began.map_err(|_| refused("the manifest of the run says no time of its start"))?;
        let reference = reference_arm(manifest, reference)?;
        let settings = manifest.entries.iter().map(settings_of).collect();
        let mut all = RunFigures {
            name: printable(&manifest.id),
            program: printable(&manifest.program),
            versions: json(&manifest.versions),
            command: json(&manifest.command),
            reference: reference.clone(),
            began_ms: began.as_millisecond(),
            is_complete,
            settings,
            facts: Vec::new(),
            points: Vec::new(),
        };
        for (number, entry) in manifest.entries.iter().enumerate() {
            all.add_entry(manifest, (number, entry), trials);
        }
        Ok(all)
    }

    fn add_entry(
        &mut self,
        manifest: &RunManifest,
        (number, entry): (usize, &WorkloadEntry),
        trials: &[TrialFigures],
    ) {
        // Trials of a load line have loads of their own each, and an open twin has another load on each arm:
        // nothing of them is compared in blocks. Of load lines the lines themselves are.
        let is_in_blocks = entry.load_line.is_none() && !entry.is_open_twin();
        let condition = condition_of(entry);
        let mine = || trials.iter().filter(|trial| trial.workload == entry.label);
        let values = EntryValues::of(manifest, &self.reference, mine());
        let key = |arm: &str, label: &str, metric: ComparisonName| -> FigureKey {
            (arm.into(), label.into(), condition.clone(), metric.0.into())
        };
        for trial in mine() {
            for (label, metric, value) in &trial.values {
                let metric = ComparisonName::of(*metric);
                let base = values.of_reference(label, metric, trial.block);
                self.facts.push(HistoryFact {
                    figure: key(&trial.arm, label, metric),
                    settings: number,
                    block: trial.block,
                    place: trial.place,
                    value: *value,
                    ratio: base
                        .filter(|_| is_in_blocks)
                        .map(|base| (value.ln() - base).exp()),
                });
            }
        }
        let arms = || {
            manifest
                .arms
                .iter()
                .filter(|arm| arm.name != self.reference)
        };
        for (label, metric) in values.figures().into_iter().filter(|_| is_in_blocks) {
            for arm in arms() {
                let pairs = values.pairs(label, metric, arm);
                let Some(point) = point(&pairs, manifest) else {
                    continue;
                };
                self.points.push(HistoryPointDraft {
                    figure: key(&arm.name, label, metric),
                    reference: self.reference.clone(),
                    is_control: arm.control_of.as_ref() == Some(&self.reference),
                    settings: number,
                    ..point
                });
            }
        }
        let line = |arm: &str| found_line(entry, manifest, mine().filter(|one| one.arm == arm));
        let Some(base) = line(&self.reference) else {
            return;
        };
        let systems = arms().filter(|arm| arm.control_of.is_none());
        let lines = systems.filter_map(|arm| {
            let other = line(&arm.name)?;
            let point = line_point(&base, &other, manifest)?;
            Some(HistoryPointDraft {
                figure: key(&arm.name, &entry.label, LOAD_LINE),
                reference: self.reference.clone(),
                settings: number,
                ..point
            })
        });
        self.points.extend(lines);
    }
}

/// The load line that the trials of one arm tell.
fn found_line<'a>(
    entry: &WorkloadEntry,
    manifest: &RunManifest,
    trials: impl Iterator<Item = &'a TrialFigures>,
) -> Option<LoadLineResult> {
    let seen: Vec<LoadLineTrial> = trials.filter_map(|one| one.load_line.clone()).collect();
    let is_search = (1..=SEARCH_MAX).contains(&seen.len());
    let confidence = manifest.policy.confidence.clamp(0.5, 0.9999);
    is_search
        .then(|| load_line_of(entry, confidence, seen.into_iter()))
        .flatten()
}

/// The ratio of two load lines, where both were found; whose it is comes later. Its trials stand for blocks.
fn line_point(
    base: &LoadLineResult,
    other: &LoadLineResult,
    manifest: &RunManifest,
) -> Option<HistoryPointDraft> {
    let found = LoadLineRatio::of(base, other, &manifest.policy)?.ratio;
    let is_interval = found.low.is_finite() && found.high.is_finite();
    Some(HistoryPointDraft {
        blocks: u32::try_from(other.trials).unwrap_or(u32::MAX),
        estimate: found.estimate,
        interval: is_interval.then_some((found.low, found.high)),
        value: other.sustained.point,
        reference_value: base.sustained.point,
        ..HistoryPointDraft::unnamed()
    })
    .filter(|point| is_usable(point.estimate) && is_usable(point.reference_value))
}

impl HistoryPointDraft {
    /// One that does not say yet what it is of.
    fn unnamed() -> HistoryPointDraft {
        HistoryPointDraft {
            figure: FigureKey::default(),
            reference: String::new(),
            is_control: false,
            settings: 0,
            blocks: 0,
            estimate: f64::NAN,
            interval: None,
            value: f64::NAN,
            reference_value: f64::NAN,
        }
    }
}

/// The values of the trials of one workload: the last result of an arm in a block counts.
struct EntryValues<'a> {
    manifest: &'a RunManifest,
    reference: String,
    blocks: BTreeMap<(&'a str, ComparisonName, u32, &'a str), f64>,
}

impl<'a> EntryValues<'a> {
    fn of(
        manifest: &'a RunManifest,
        reference: &str,
        trials: impl Iterator<Item = &'a TrialFigures>,
    ) -> EntryValues<'a> {
        let values = trials.flat_map(|trial| {
            trial.values.iter().map(|(label, metric, value)| {
                let metric = ComparisonName::of(*metric);
                ((&**label, metric, trial.block, &*trial.arm), *value)
            })
        });
        EntryValues {
            manifest,
            reference: reference.to_owned(),
            blocks: values.collect(),
        }
    }

    fn log(&self, label: &str, metric: ComparisonName, block: u32, arm: &str) -> Option<f64> {
        let found = self.blocks.get(&(label, metric, block, arm));
        found.map(|value| value.ln())
    }

    /// Mean of the logarithms of the reference and its controls.
    fn of_reference(&self, label: &str, metric: ComparisonName, block: u32) -> Option<f64> {
        let logs: Vec<f64> = entries_of(self.manifest, &self.reference)
            .filter_map(|arm| self.log(label, metric, block, arm))
            .collect();
        (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
    }

    /// Labels and metrics, each once.
    fn figures(&self) -> Vec<(&'a str, ComparisonName)> {
        let all = self.blocks.keys();
        let mut figures: Vec<_> = all.map(|(label, metric, ..)| (*label, *metric)).collect();
        figures.dedup();
        figures
    }

    /// The blocks in which both the arm and the reference have a value. A control is compared with its arm
    /// alone, as in a report.
    fn pairs(&self, label: &'a str, metric: ComparisonName, arm: &ArmEntry) -> Vec<BlockLogValues> {
        let logs = |block: u32, entries: Vec<&str>| -> Vec<f64> {
            let found = entries.into_iter();
            found
                .filter_map(|of| self.log(label, metric, block, of))
                .collect()
        };
        let with_controls = |of| entries_of(self.manifest, of).collect::<Vec<_>>();
        let pair = |block: u32| match arm.control_of {
            Some(_) => BlockLogValues {
                base: logs(block, vec![&self.reference]),
                arm: logs(block, vec![&arm.name]),
            },
            None => BlockLogValues {
                base: logs(block, with_controls(&self.reference)),
                arm: logs(block, with_controls(&arm.name)),
            },
        };
        let counted = self.manifest.counted_blocks();
        let (from, to) = (
            (label, metric, counted.start, ""),
            (label, metric, counted.end, ""),
        );
        let mut blocks: Vec<u32> = self.blocks.range(from..to).map(|(key, _)| key.2).collect();
        blocks.dedup();
        let all = blocks.into_iter().map(pair);
        all.filter(|pair| !pair.base.is_empty() && !pair.arm.is_empty())
            .collect()
    }
}

/// The ratio over blocks; whose it is comes later.
fn point(pairs: &[BlockLogValues], manifest: &RunManifest) -> Option<HistoryPointDraft> {
    let question = ContrastQuestion {
        confidence: manifest.policy.confidence.clamp(0.5, 0.9999),
        margin: manifest.policy.margin.max(0.0).ln_1p(),
        stopping: manifest.policy.stopping,
        family: 1,
    };
    let contrast = ArmContrast::of(pairs, &question);
    let first = pairs.first()?.difference();
    let estimate = contrast.map_or(first, |contrast| contrast.estimate).exp();
    let interval = contrast.map(|contrast| contrast.ratio());
    let middle = |of: fn(&BlockLogValues) -> &Vec<f64>| {
        let logs: Vec<f64> = pairs.iter().flat_map(of).copied().collect();
        (logs.iter().sum::<f64>() / logs.len() as f64).exp()
    };
    Some(HistoryPointDraft {
        blocks: u32::try_from(pairs.len()).unwrap_or(u32::MAX),
        estimate,
        interval: interval
            .map(|of| (of.low, of.high))
            .filter(|(low, high)| low.is_finite() && high.is_finite()),
        value: middle(|pair| &pair.arm),
        reference_value: middle(|pair| &pair.base),
        ..HistoryPointDraft::unnamed()
    })
    .filter(|point| is_usable(point.estimate))
}

/// An arm and its controls.
fn entries_of<'a>(manifest: &'a RunManifest, arm: &'a str) -> impl Iterator<Item = &'a str> {
    let is_own =
        move |other: &&ArmEntry| other.name == arm || other.control_of.as_deref() == Some(arm);
    manifest.arms.iter().filter(is_own).map(|arm| &*arm.name)
}

/// A metric as the database names it: `mean_response`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ComparisonName(&'static str);

/// The load line, which is no metric of a trial.
const LOAD_LINE: ComparisonName = ComparisonName("load_line");

impl ComparisonName {
    fn of(metric: ComparisonMetric) -> ComparisonName {
        ComparisonName(metric.stored_name())
    }
}

impl TrialFigures {
    fn of(result: &TrialResult) -> TrialFigures {
        let label = &result.trial.workload;
        let is_whole = result.is_comparable();
        let felt = |metric| {
            matches!(
                metric,
                ComparisonMetric::WriteOutage | ComparisonMetric::BrownOut
            )
        };
        let whole = METRICS
            .into_iter()
            // Faults may end a load, and what was felt of them counts all the same.
            .filter(|metric| is_whole || felt(*metric))
            .map(|metric| (label.clone(), metric, result.value(metric)));
        let phases = result.phases.iter().filter(|_| is_whole).map(|phase| {
            let label = phase_label(label, &phase.name);
            (label, phase.metric, phase.value)
        });
        TrialFigures {
            arm: result.trial.arm.clone(),
            workload: label.clone(),
            block: result.trial.block,
            place: result.trial.place,
            values: whole
                .chain(phases)
                .filter(|(label, _, value)| is_usable(*value) && label.len() <= 2 * NAME_MAX)
                .collect(),
            load_line: load_line_trial(result),
        }
    }
}

fn check_names(manifest: &RunManifest) -> Result<(), HistoryError> {
    let arms = manifest.arms.iter().map(|arm| &arm.name);
    let mut names = arms.chain(manifest.entries.iter().map(|entry| &entry.label));
    let is_bad = |name: &&String| name.len() > NAME_MAX || **name != printable(name);
    match names.find(is_bad) {
        None => Ok(()),
        Some(name) => Err(refused(format!(
            "a name in the manifest of the run cannot be kept: '{}'",
            printable(&name.chars().take(60).collect::<String>())
        ))),
    }
}

fn reference_arm(manifest: &RunManifest, wanted: Option<&str>) -> Result<String, HistoryError> {
    let mut systems = manifest.arms.iter().filter(|arm| arm.control_of.is_none());
    let found = match wanted {
        None => systems.next(),
        Some(name) => systems.find(|arm| arm.name == name),
    };
    match (found, wanted) {
        (Some(arm), _) => Ok(arm.name.clone()),
        (None, Some(name)) => Err(refused(format!(
            "the run has no system '{}' that could be its reference",
            printable(name)
        ))),
        (None, None) => Err(refused("the run has no systems")),
    }
}

/// The settings of a workload, with a digest that is the same for the same settings.
fn settings_of(entry: &WorkloadEntry) -> (String, String) {
    let told = serde_json::json!({
        "workload": serde_json::to_value(&entry.workload).unwrap_or_default(),
        "scale": entry.scale,
        "length_ns": entry.length.0,
    });
    let text = told.to_string();
    let digest = hexadecimal(&Sha256::digest(text.as_bytes()));
    // Packed requests of a recording may be megabytes: the folder has them.
    let text = match text.len() {
        0..=20_000 => printable(&text),
        _ => serde_json::json!({ "sha256": digest, "bytes": text.len() }).to_string(),
    };
    (digest, text)
}

fn condition_of(entry: &WorkloadEntry) -> String {
    let state = |condition: &StackCondition| match condition.is_healthy() {
        true => String::new(),
        false => condition.name().to_owned(),
    };
    let injected = entry.inject.as_ref();
    let injected = injected.map(|inject| format!("fault {}", inject.fault.name()));
    let parts = [entry.condition.as_ref().map(state), injected];
    let parts: Vec<String> = parts
        .into_iter()
        .flatten()
        .filter(|p| !p.is_empty())
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests;
