// SPDX-License-Identifier: Apache-2.0
//! A figure of an experiment, found in the results of its parts.

use plimsoll_core::event::{ArmEntry, RunFolderContents, TrialResult, WorkloadEntry};
use plimsoll_core::experiment::{
    ExperimentFigure, ExperimentFinding, ExperimentMetric, ExperimentValue,
};
use plimsoll_core::explanation::{CauseExplanation, ExplanationCause};
use plimsoll_stats::explain::{ArmEvidence, explain_arm};
use plimsoll_stats::load_line::{ArmLoadLine, LoadLineReach, arm_load_lines};
use plimsoll_stats::paired::PairedLogRatioStats;
use plimsoll_stats::{SummaryStats, student};
use serde_json::Value;
use std::collections::BTreeMap;

use super::trial_value::trial_value;

/// Confidence of all intervals.
const CONFIDENCE: f64 = 0.95;

/// Results that a part left.
#[derive(Debug, Default)]
pub struct ExperimentMaterial {
    /// Its run folder, where it has one.
    pub run: Option<RunFolderContents>,
    /// Output of the part with `--json`.
    pub printed: Option<Value>,
    /// Why there is nothing, or less than there should be.
    pub missing: Option<String>,
}

/// The parts by their names.
pub type ExperimentMaterials = BTreeMap<String, ExperimentMaterial>;

/// The figure, or its ratio to another where it asks for that.
pub(super) fn found(parts: &ExperimentMaterials, figure: &ExperimentFigure) -> ExperimentFinding {
    let Some(divisor) = figure.divisor() else {
        return plain(parts, figure).unwrap_or_else(ExperimentFinding::Missing);
    };
    let both = plain(parts, figure).and_then(|above| Ok((above, plain(parts, &divisor)?)));
    match both {
        Ok((ExperimentFinding::Number(above), ExperimentFinding::Number(below))) => {
            let is_same_part = figure.part == divisor.part;
            match ratio_of(&above, &below, is_same_part) {
                Some(ratio) => ExperimentFinding::Number(ratio),
                None => ExperimentFinding::Missing("one of both figures is 0".into()),
            }
        }
        Ok(_) => ExperimentFinding::Missing("these are not two numbers".into()),
        Err(why) => ExperimentFinding::Missing(why),
    }
}

fn plain(
    parts: &ExperimentMaterials,
    figure: &ExperimentFigure,
) -> Result<ExperimentFinding, String> {
    let found = single(parts, figure)?;
    Ok(match (found, figure.times) {
        (ExperimentFinding::Number(number), Some(times)) => {
            ExperimentFinding::Number(multiplied(number, times))
        }
        (found, _) => found,
    })
}

fn multiplied(number: ExperimentValue, times: f64) -> ExperimentValue {
    let ends = |(low, high): (f64, f64)| (low * times, high * times);
    let blocks = number.blocks.into_iter();
    ExperimentValue {
        value: number.value * times,
        interval: number.interval.map(ends),
        blocks: blocks
            .map(|(block, value)| (block, value * times))
            .collect(),
    }
}

fn single(
    parts: &ExperimentMaterials,
    figure: &ExperimentFigure,
) -> Result<ExperimentFinding, String> {
    let name = figure
        .part
        .as_deref()
        .ok_or("the experiment names no part for it")?;
    let part = parts
        .get(name)
        .ok_or_else(|| format!("part {name} was not carried out"))?;
    // Of a part that failed in the middle, what there is counts.
    let why = |missing: String| match &part.missing {
        Some(reason) if part.run.is_none() => format!("part {name}: {reason}"),
        _ => format!("part {name}: {missing}"),
    };
    if let Some(pointer) = &figure.json {
        return pointed(part.printed.as_ref(), pointer).map_err(why);
    }
    let run = part.run.as_ref();
    let run = run.ok_or_else(|| why("it left no results".into()))?;
    in_run(run, figure).map_err(why)
}

/// A value in what a command printed.
fn pointed(printed: Option<&Value>, pointer: &str) -> Result<ExperimentFinding, String> {
    let printed = printed.ok_or("its command printed nothing")?;
    match printed.pointer(pointer) {
        Some(Value::Number(number)) => {
            let value = number.as_f64().ok_or("a number that is too large")?;
            Ok(ExperimentFinding::Number(ExperimentValue {
                value,
                ..ExperimentValue::default()
            }))
        }
        Some(Value::String(text)) => Ok(ExperimentFinding::Text(text.clone())),
        Some(Value::Bool(yes)) => Ok(ExperimentFinding::Text(yes.to_string())),
        Some(Value::Array(all)) => Ok(ExperimentFinding::Number(ExperimentValue {
            value: all.len() as f64,
            ..ExperimentValue::default()
        })),
        _ => Err(format!("its results have no {pointer}")),
    }
}

fn in_run(run: &RunFolderContents, figure: &ExperimentFigure) -> Result<ExperimentFinding, String> {
    let entry = entry_of(run, figure.workload.as_deref())?;
    let arm = arm_of(run, figure.system.as_deref())?;
    if let Some(cause) = figure.cause {
        let arm = run.manifest.arms.iter().find(|one| one.name == arm);
        let arm = arm.ok_or("its system is gone")?;
        return of_cause(&ArmEvidence::of(run, entry, arm), cause);
    }
    let metric = figure.metric.unwrap_or(ExperimentMetric::Own);
    if metric == ExperimentMetric::LoadLine {
        return load_line(run, entry, arm);
    }
    let blocks = of_blocks(run, entry, arm, figure)?;
    if metric == ExperimentMetric::Variation {
        let summary = SummaryStats::of(blocks.iter().map(|(_, value)| *value));
        let variation = summary.and_then(|summary| summary.variation);
        let value = variation.ok_or("one trial has no variation")?;
        return Ok(ExperimentFinding::Number(ExperimentValue {
            value,
            ..ExperimentValue::default()
        }));
    }
    Ok(ExperimentFinding::Number(mean_of(blocks)))
}

fn listed(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn entry_of<'a>(
    run: &'a RunFolderContents,
    label: Option<&str>,
) -> Result<&'a WorkloadEntry, String> {
    let entries = &run.manifest.entries;
    // A label tells settings, which profiles may have others of.
    let only = |label: &str| {
        let is_of = |entry: &&WorkloadEntry| {
            let behind = entry.label.strip_prefix(label);
            behind.is_some_and(|behind| behind.starts_with(' '))
        };
        let mut of_name = entries.iter().filter(is_of);
        of_name.next().filter(|_| of_name.next().is_none())
    };
    let found = match label {
        Some(label) => {
            let exact = entries.iter().find(|entry| entry.label == label);
            exact.or_else(|| only(label))
        }
        None if entries.len() == 1 => entries.first(),
        None => None,
    };
    found.ok_or_else(|| {
        let known = listed(entries.iter().map(|entry| entry.label.clone()));
        match label {
            Some(label) => format!("no workload '{label}'; it has {known}"),
            None => {
                format!("it has several workloads, of which the experiment names none: {known}")
            }
        }
    })
}

fn arm_of<'a>(run: &'a RunFolderContents, name: Option<&str>) -> Result<&'a str, String> {
    let own = || {
        run.manifest
            .arms
            .iter()
            .filter(|arm| arm.control_of.is_none())
    };
    let found = match name {
        // A control goes by its whole name only; settings of a system may be others in each profile.
        Some(name) => own()
            .find(|arm| arm.name == name || arm.target == name)
            .or_else(|| run.manifest.arms.iter().find(|arm| arm.name == name))
            .or_else(|| {
                let is_of = |arm: &&ArmEntry| {
                    let behind = arm.name.strip_prefix(name);
                    behind.is_some_and(|behind| behind.starts_with('('))
                };
                let mut of_name = own().filter(is_of);
                of_name.next().filter(|_| of_name.next().is_none())
            }),
        None if own().count() == 1 => own().next(),
        None => None,
    };
    let found = found.ok_or_else(|| {
        let known = listed(own().map(|arm| arm.name.clone()));
        match name {
            Some(name) => format!("no system '{name}'; it has {known}"),
            None => format!("it has several systems, of which the experiment names none: {known}"),
        }
    });
    found.map(|arm| arm.name.as_str())
}

/// The figure of each block.
fn of_blocks(
    run: &RunFolderContents,
    entry: &WorkloadEntry,
    arm: &str,
    figure: &ExperimentFigure,
) -> Result<Vec<(u32, f64)>, String> {
    let of_this =
        |trial: &&TrialResult| trial.trial.workload == entry.label && trial.trial.arm == arm;
    let trials: Vec<&TrialResult> = run.trials.iter().filter(of_this).collect();
    let metric = match figure.metric {
        None | Some(ExperimentMetric::Variation) => ExperimentMetric::Own,
        Some(metric) => metric,
    };
    let mut blocks: BTreeMap<u32, f64> = BTreeMap::new();
    let mut reason = match trials.is_empty() {
        true => "it has no trial of this system and workload".to_owned(),
        false => "none of its trials has this figure".to_owned(),
    };
    for trial in trials {
        if !(trial.is_comparable() || trial.fault.is_some()) {
            if let Some(failed) = &trial.failed {
                reason = format!("its trial failed: {failed}");
            } else {
                reason = "its trials cannot be compared: operations failed, or they were cut short"
                    .into();
            }
            continue;
        }
        let phase = match &figure.phase {
            None => None,
            Some(name) => {
                let Some(phase) = trial.phases.iter().find(|phase| phase.name == *name) else {
                    let known = listed(trial.phases.iter().map(|phase| phase.name.clone()));
                    reason = format!("no phase '{name}'; it has {known}");
                    continue;
                };
                Some(phase)
            }
        };
        // Of a trial that was repeated the last result counts.
        if let Some(value) = trial_value(trial, entry, phase, (metric, figure)) {
            blocks.insert(trial.trial.block, value);
        }
    }
    match blocks.is_empty() {
        true => Err(reason),
        false => Ok(blocks.into_iter().collect()),
    }
}

/// Their mean with its interval: the geometric one, on logarithms, where all are above 0, as everywhere else.
pub(super) fn mean_of(blocks: Vec<(u32, f64)>) -> ExperimentValue {
    let values: Vec<f64> = blocks.iter().map(|(_, value)| *value).collect();
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let is_positive = logs.iter().all(|log| log.is_finite());
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (value, interval) = match is_positive {
        true => {
            let ends = mean_interval(&logs).map(|(low, high)| (low.exp(), high.exp()));
            (mean(&logs).exp(), ends)
        }
        false => (mean(&values), mean_interval(&values)),
    };
    ExperimentValue {
        value,
        interval,
        blocks,
    }
}

/// The t interval of a mean; none below two values.
fn mean_interval(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / (n - 1.0)).sqrt() / n.sqrt();
    let half = student::two_sided(CONFIDENCE, values.len() - 1) * error;
    Some((mean - half, mean + half))
}

/// One over the other: within blocks where both are of one part, else of the means. `None` where one of
/// them has no logarithm.
pub(super) fn ratio_of(
    above: &ExperimentValue,
    below: &ExperimentValue,
    is_same_part: bool,
) -> Option<ExperimentValue> {
    let is_usable = |value: f64| value.is_finite() && value > 0.0;
    let bases: BTreeMap<u32, f64> = below.blocks.iter().copied().collect();
    let pair = |(block, value): &(u32, f64)| {
        let base = bases.get(block).copied()?;
        (is_usable(*value) && is_usable(base)).then(|| (*block, value / base))
    };
    let blocks: Vec<(u32, f64)> = match is_same_part {
        true => above.blocks.iter().filter_map(pair).collect(),
        false => Vec::new(),
    };
    let logs: Vec<f64> = blocks.iter().map(|(_, ratio)| ratio.ln()).collect();
    if let Some(stats) = PairedLogRatioStats::of(&logs) {
        let ratio = stats.ratio(CONFIDENCE);
        return Some(ExperimentValue {
            value: ratio.estimate,
            interval: Some((ratio.low, ratio.high)),
            blocks,
        });
    }
    (is_usable(above.value) && is_usable(below.value)).then(|| ExperimentValue {
        value: above.value / below.value,
        interval: None,
        blocks,
    })
}

fn of_cause(
    evidence: &ArmEvidence<'_>,
    cause: ExplanationCause,
) -> Result<ExperimentFinding, String> {
    if evidence.trials.is_empty() {
        return Err("it has no trial of this system and workload".into());
    }
    let told = explain_arm(evidence);
    if let Some(found) = told.found.iter().find(|found| found.cause == cause) {
        return Ok(ExperimentFinding::Found(shown_cause(found)));
    }
    if told.excluded.contains(&cause) {
        return Ok(ExperimentFinding::Excluded);
    }
    let unknown = told.unknown.iter().find(|unknown| unknown.cause == cause);
    Err(match unknown {
        Some(unknown) => format!("{} could not be looked at: {}", cause.name(), unknown.why),
        None => format!("{} cannot be there", cause.name()),
    })
}

/// A cause with its figures, in words.
pub(super) fn shown_cause(found: &CauseExplanation) -> String {
    let figures = found.evidence.iter();
    let figures = figures.map(|figure| format!("{} {}", figure.figure, figure.shown()));
    let figures = listed(figures);
    let about = match found.about.is_empty() {
        true => String::new(),
        false => format!(" of {}", found.about),
    };
    format!("{}{about} ({figures})", found.cause.name())
}

/// Bound on a line that trials do not lie on both sides of.
pub(super) fn beyond(line: &ArmLoadLine<'_>) -> Option<String> {
    let shown = plimsoll_core::units::three_digits;
    let edge = line.result.sustained;
    match line.result.reach {
        LoadLineReach::Between => None,
        LoadLineReach::AtLeast => Some(format!("at least {}", shown(edge.low))),
        LoadLineReach::Below => Some(format!("less than {}", shown(edge.high))),
        LoadLineReach::Unknown => Some("not known".into()),
    }
}

fn load_line(
    run: &RunFolderContents,
    entry: &WorkloadEntry,
    arm: &str,
) -> Result<ExperimentFinding, String> {
    let lines = arm_load_lines(&run.manifest, &run.trials);
    let mut lines = lines.iter().filter(|line| line.entry.label == entry.label);
    let line = lines.find(|line| line.arm == arm);
    let line = line.ok_or("it is no search of a load line")?;
    if let Some(beyond) = beyond(line) {
        return Err(format!("its load line is {beyond}"));
    }
    let edge = line.result.sustained;
    match edge.point.is_finite() && line.result.trials > 0 {
        true => Ok(ExperimentFinding::Number(ExperimentValue {
            value: edge.point,
            interval: Some((edge.low, edge.high)),
            blocks: Vec::new(),
        })),
        false => Err("its search found no load line".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(blocks: &[(u32, f64)]) -> ExperimentValue {
        mean_of(blocks.to_vec())
    }

    #[test]
    fn ratios_of_one_part_are_within_its_blocks() {
        let above = value(&[(0, 2.0), (1, 40.0), (2, 8.0)]);
        let below = value(&[(0, 1.0), (1, 20.0), (2, 4.0)]);
        let paired = ratio_of(&above, &below, true).unwrap();
        assert!((paired.value - 2.0).abs() < 1e-9);
        let (low, high) = paired.interval.unwrap();
        assert!(low > 1.99 && high < 2.01, "{low} {high}");
        let apart = ratio_of(&above, &below, false).unwrap();
        assert_eq!((apart.interval, apart.blocks.len()), (None, 0));
        assert!((apart.value - 2.0).abs() < 1e-9);
        assert_eq!(ratio_of(&above, &value(&[(0, 0.0)]), true), None);
    }

    #[test]
    fn a_mean_has_an_interval_from_two_blocks_on() {
        assert_eq!(value(&[(0, 3.0)]).interval, None);
        // t(0.975, 1) = 12.706; deviation √2, error 1.
        let (low, high) = value(&[(0, 0.0), (1, 2.0)]).interval.unwrap();
        assert!((low + 11.706).abs() < 1e-3 && (high - 13.706).abs() < 1e-3);
        let positive = value(&[(0, 1.0), (1, 4.0)]);
        let (low, high) = positive.interval.unwrap();
        assert!((positive.value - 2.0).abs() < 1e-9 && low > 0.0);
        assert!((low * high / 4.0 - 1.0).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn what_a_command_printed_is_pointed_at() {
        let printed = serde_json::json!({ "a": [{ "b": 2.5 }], "c": "words", "d": null });
        let number = pointed(Some(&printed), "/a/0/b").unwrap();
        assert!(matches!(number, ExperimentFinding::Number(v) if (v.value - 2.5).abs() < 1e-9));
        let text = pointed(Some(&printed), "/c").unwrap();
        assert_eq!(text, ExperimentFinding::Text("words".into()));
        for (printed, pointer) in [(Some(&printed), "/d"), (Some(&printed), "/e"), (None, "/a")] {
            assert!(pointed(printed, pointer).is_err(), "{pointer}");
        }
    }
}
