// SPDX-License-Identifier: Apache-2.0
//! Two runs of one campaign: what changed around them and in their results, as data and as a report.

use plimsoll_core::comparison::{ComparisonVerdict, VerdictPolicy};
use plimsoll_core::event::{RunFolderContents, RunManifest};
use plimsoll_core::run_diff::{RunDiff, RunDiffBasis, RunDiffFact, RunDiffRow, RunDiffSide};
use plimsoll_stats::compare_runs;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::model::{
    ReportAnswer, ReportDocument, ReportFinding, ReportItem, ReportSection, ReportSeverity,
    ReportTable, ReportTableCell,
};
use crate::words;

/// Manifest keys that two runs never share, or share without being the same campaign.
const OF_A_RUN: [&str; 5] = ["id", "began_at", "command", "seed", "format"];

/// A value that is longer says only that it changed.
const VALUE_MAX: usize = 80;

/// Changes that are named one by one.
const CHANGES_MAX: usize = 60;

/// Compares two runs, the earlier one first.
pub fn run_diff(
    before: (&str, &RunFolderContents),
    after: (&str, &RunFolderContents),
    policy: &VerdictPolicy,
) -> RunDiff {
    let side = |(folder, run): (&str, &RunFolderContents)| RunDiffSide {
        folder: folder.into(),
        id: run.manifest.id.clone(),
        began_at: run.manifest.began_at.clone(),
        complete: run.complete,
    };
    let (old, new) = (before.1, after.1);
    let first = (&old.manifest, &*old.trials);
    let results = compare_runs(first, (&new.manifest, &new.trials), policy);
    RunDiff {
        before: side(before),
        after: side(after),
        surroundings: surroundings(&old.manifest, &new.manifest),
        unmatched: unmatched(&old.manifest, &new.manifest),
        results,
    }
}

/// Manifest values that only one of both runs has, or that differ.
fn surroundings(before: &RunManifest, after: &RunManifest) -> Vec<RunDiffFact> {
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    flatten(&manifest_value(before), "", &mut old);
    flatten(&manifest_value(after), "", &mut new);
    let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let is_other = |key: &&String| old.get(*key) != new.get(*key);
    let changes = keys.into_iter().filter(is_other).map(|key| {
        let shown = |of: &BTreeMap<String, String>| shortened(of.get(key));
        RunDiffFact {
            what: key.clone(),
            before: shown(&old),
            after: shown(&new),
        }
    });
    let mut changes: Vec<RunDiffFact> = changes.collect();
    if changes.len() > CHANGES_MAX {
        let more = changes.len() - CHANGES_MAX;
        changes.truncate(CHANGES_MAX);
        changes.push(RunDiffFact {
            what: format!("{more} more"),
            before: String::new(),
            after: String::new(),
        });
    }
    changes
}

/// A manifest whose arms and entries have their names as keys.
fn manifest_value(manifest: &RunManifest) -> Value {
    let mut value = serde_json::to_value(manifest).unwrap_or_default();
    let Some(object) = value.as_object_mut() else {
        return value;
    };
    OF_A_RUN.iter().for_each(|key| drop(object.remove(*key)));
    for (list, name) in [
        ("arms", "name"),
        ("entries", "label"),
        ("load_nodes", "name"),
    ] {
        let items = object.remove(list).unwrap_or_default();
        let named = items.as_array().into_iter().flatten().map(|item| {
            let key = item[name].as_str().unwrap_or_default().to_owned();
            (key, item.clone())
        });
        object.insert(list.into(), Value::Object(named.collect()));
    }
    value
}

/// Every leaf with the way to it; long lists of numbers as one leaf.
fn flatten(value: &Value, path: &str, leaves: &mut BTreeMap<String, String>) {
    let below = |key: &str| match path.is_empty() {
        true => key.to_owned(),
        false => format!("{path}.{key}"),
    };
    match value {
        Value::Object(keys) => {
            for (key, value) in keys {
                flatten(value, &below(key), leaves);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (place, item) in items.iter().enumerate() {
                flatten(item, &below(&(place + 1).to_string()), leaves);
            }
        }
        Value::Null => {}
        Value::String(text) => drop(leaves.insert(path.into(), text.clone())),
        other => drop(leaves.insert(path.into(), other.to_string())),
    }
}

fn shortened(value: Option<&String>) -> String {
    let value = value.map_or("", String::as_str);
    match value.chars().count() > VALUE_MAX {
        false => value.into(),
        true => {
            let start: String = value.chars().take(VALUE_MAX).collect();
            format!("{start}…")
        }
    }
}

/// Systems and workloads that only one of both has.
fn unmatched(before: &RunManifest, after: &RunManifest) -> Vec<String> {
    let arms = |run: &RunManifest| -> Vec<String> {
        let systems = run.arms.iter().filter(|arm| arm.control_of.is_none());
        systems.map(|arm| arm.name.clone()).collect()
    };
    let workloads = |run: &RunManifest| -> Vec<String> {
        run.entries
            .iter()
            .map(|entry| entry.label.clone())
            .collect()
    };
    let mut lines = Vec::new();
    for (noun, old, new) in [
        ("system", arms(before), arms(after)),
        ("workload", workloads(before), workloads(after)),
    ] {
        let only = |some: &[String], others: &[String]| -> Vec<String> {
            let lone = some.iter().filter(|name| !others.contains(name));
            lone.cloned().collect()
        };
        let told = |names: Vec<String>, run: &'static str| {
            names
                .into_iter()
                .map(move |name| format!("{noun} {name} is only in the {run} run"))
        };
        lines.extend(told(only(&old, &new), "earlier"));
        lines.extend(told(only(&new, &old), "later"));
    }
    lines
}

/// The difference as a report.
pub fn run_diff_report(diff: &RunDiff, policy: &VerdictPolicy) -> ReportDocument {
    let sections = [results_section(diff, policy), surroundings_section(diff)];
    ReportDocument {
        title: format!("{} against {}", diff.after.id, diff.before.id),
        subtitle: format!(
            "began {} · and {}",
            diff.before.began_at, diff.after.began_at
        ),
        answer: answer(diff, policy),
        headline: diff
            .results
            .iter()
            .map(|row| finding(row, policy))
            .collect(),
        sections: sections.into_iter().flatten().collect(),
        data: serde_json::json!(diff).to_string(),
    }
}

/// Changes, in a sentence.
fn answer(diff: &RunDiff, policy: &VerdictPolicy) -> ReportAnswer {
    let of = |verdict| {
        diff.results
            .iter()
            .filter(move |row| row.verdict == verdict)
    };
    let changed: Vec<&RunDiffRow> = (of(ComparisonVerdict::Different))
        .chain(of(ComparisonVerdict::CannotCarry))
        .collect();
    let total = words::count(diff.results.len(), "result");
    let (tone, text) = match changed.first() {
        None if diff.results.is_empty() => (
            ReportSeverity::Care,
            "The runs have no result in common.".into(),
        ),
        None => {
            let same = of(ComparisonVerdict::Equivalent).count();
            let open = diff.results.len() - same;
            let text = format!(
                "Of {total} none is shown to have changed: {same} equivalent, {open} inconclusive."
            );
            (ReportSeverity::Same, text)
        }
        Some(row) => {
            let first = finding(row, policy);
            let text = format!("{} of {total} changed: {}.", changed.len(), first.text);
            (first.tone, text)
        }
    };
    ReportAnswer {
        text,
        tone,
        ..ReportAnswer::default()
    }
}

fn finding(row: &RunDiffRow, policy: &VerdictPolicy) -> ReportFinding {
    let metric = row.metric.name();
    let (workload, arm) = (&row.workload, &row.arm);
    let measured = match &row.basis {
        RunDiffBasis::BaseOfBlocks(base) => format!("{metric} of {arm} relative to {base}"),
        RunDiffBasis::TimeBetween => format!("{metric} of {arm}"),
    };
    let text = match &row.ratio {
        None => format!("Not enough data: {measured} on {workload}"),
        Some(ratio) => format!(
            "{measured} on {workload}: {}× that of before",
            words::estimate(ratio)
        ),
    };
    let confidence = words::percent_whole(policy.confidence);
    let interval = match &row.ratio {
        Some(ratio) => format!("{confidence} CI {}", words::interval(ratio)),
        None => "no interval".into(),
    };
    let [old, new] = row.blocks;
    let mut detail = format!("{interval}; {old} and {new} blocks; {}", basis(row));
    if !row.reason.is_empty() {
        detail.push_str("; ");
        detail.push_str(&row.reason);
    }
    detail.push('.');
    ReportFinding::new(verdict(row), text)
        .tone(tone(row))
        .detail(detail)
}

fn basis(row: &RunDiffRow) -> String {
    match &row.basis {
        RunDiffBasis::BaseOfBlocks(base) => {
            format!("{base} was measured in the same blocks of both runs")
        }
        RunDiffBasis::TimeBetween => "not interleaved".into(),
    }
}

fn verdict(row: &RunDiffRow) -> String {
    match row.verdict {
        ComparisonVerdict::Different if row.is_better() => "different: better".into(),
        ComparisonVerdict::Different => "different: worse".into(),
        other => other.name().into(),
    }
}

fn tone(row: &RunDiffRow) -> ReportSeverity {
    match row.verdict {
        ComparisonVerdict::Different if row.is_better() => ReportSeverity::Good,
        ComparisonVerdict::Different | ComparisonVerdict::CannotCarry => ReportSeverity::Bad,
        ComparisonVerdict::Equivalent => ReportSeverity::Same,
        ComparisonVerdict::Inconclusive => ReportSeverity::Muted,
    }
}

fn results_section(diff: &RunDiff, policy: &VerdictPolicy) -> Option<ReportSection> {
    let mut section = ReportSection::new(
        "Results",
        format!(
            "The later run against the earlier one. Equivalent: within ±{}.",
            words::percent_whole(policy.margin)
        ),
    );
    let columns = [
        "Workload",
        "System",
        "Relative to",
        "~#Before",
        "~#After",
        "#Ratio",
        "Verdict",
    ];
    let mut table = ReportTable::new("Results of both runs", &columns);
    for row in &diff.results {
        let base = match &row.basis {
            RunDiffBasis::BaseOfBlocks(base) => base.clone(),
            RunDiffBasis::TimeBetween => "–".into(),
        };
        let value = |value: f64| match &row.basis {
            RunDiffBasis::BaseOfBlocks(_) => {
                ReportTableCell::new(format!("{}×", plimsoll_core::units::three_digits(value)))
            }
            RunDiffBasis::TimeBetween => ReportTableCell::new(row.metric.show(value)),
        };
        table.rows.push(vec![
            ReportTableCell::new(row.workload.clone()).detail(row.metric.name()),
            ReportTableCell::new(row.arm.clone()),
            ReportTableCell::new(base),
            value(row.before),
            value(row.after),
            row.ratio.as_ref().map_or_else(words::dash, |ratio| {
                let (times, interval) = (words::estimate(ratio), words::interval(ratio));
                ReportTableCell::new(format!("{times} ({interval})"))
            }),
            ReportTableCell::new(verdict(row)).tone(tone(row)),
        ]);
    }
    table.notes.push(
        "Between the runs nothing was interleaved. Relative to a system that both runs measured in the same \
         blocks, what changed for both systems alike cancels; else it is in the ratio, and not in its interval."
            .into(),
    );
    for line in &diff.unmatched {
        section
            .items
            .push(ReportItem::Notice(ReportSeverity::Care, format!("{line}.")));
    }
    for side in [&diff.before, &diff.after]
        .into_iter()
        .filter(|side| !side.complete)
    {
        let text = format!("The run {} was cut short.", side.id);
        section
            .items
            .push(ReportItem::Notice(ReportSeverity::Care, text));
    }
    let none = "No workload was measured on the same system in both runs.";
    section.items.push(match table.rows.is_empty() {
        false => ReportItem::Table(table),
        true => ReportItem::Notice(ReportSeverity::Care, none.into()),
    });
    Some(section)
}

fn surroundings_section(diff: &RunDiff) -> Option<ReportSection> {
    let mut section = ReportSection::new("What changed around the runs", "");
    if diff.surroundings.is_empty() {
        let same = "Program, machine, versions, systems and workloads are the same.";
        section.items.push(ReportItem::Text(same.into()));
        return Some(section);
    }
    let mut table = ReportTable::new("Facts that differ", &["What", "Before", "After"]);
    for change in &diff.surroundings {
        let cell = |text: &str| match text.is_empty() {
            true => words::dash(),
            false => ReportTableCell::new(text),
        };
        table.rows.push(vec![
            ReportTableCell::new(change.what.clone()),
            cell(&change.before),
            cell(&change.after),
        ]);
    }
    section.items.push(ReportItem::Table(table));
    Some(section)
}
