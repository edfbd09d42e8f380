// SPDX-License-Identifier: Apache-2.0
//! What each layer of a stack costs: every rung against the one below it.

use plimsoll_core::comparison::{Comparison, Metric, Verdict};
use plimsoll_core::event::Arm;

use super::view::View;
use crate::model::{Cell, Item, Section, Sentence, Table};
use crate::words;

/// One sentence per layer and workload: what it adds, and what that costs.
pub(super) fn headline(view: &View<'_>) -> Vec<Sentence> {
    let confidence = words::percent_whole(view.results.manifest.policy.confidence);
    let sentence = |row: &Comparison| {
        let interval = row.ratio.as_ref().map_or_else(
            || "no interval".into(),
            |ratio| format!("{confidence} CI {}", words::interval(ratio)),
        );
        let blocks = words::count(row.blocks as usize, "block");
        Sentence {
            mark: words::verdict(row),
            tone: words::tone(row),
            text: format!(
                "+{}: {} on {}",
                adds(view, &row.arm),
                cost(row),
                row.workload
            ),
            detail: format!("{} against {}: {interval}; {blocks}.", row.arm, row.base),
        }
    };
    view.steps.iter().map(sentence).collect()
}

/// What a layer costs, in words.
fn cost(row: &Comparison) -> String {
    if row.verdict == Verdict::CannotCarry {
        return match (row.base_is_overloaded(), row.arm_is_overloaded()) {
            (true, true) => "it cannot carry the load, nor can the layer below".into(),
            (true, false) => "it carries the load, the layer below cannot".into(),
            _ => "it cannot carry the load".into(),
        };
    }
    let Some(ratio) = &row.ratio else {
        return "nothing can be said yet".into();
    };
    let widest = (ratio.high - 1.0).abs().max((1.0 - ratio.low).abs());
    match row.verdict {
        Verdict::Equivalent => format!("within noise, ±{}", words::percent(widest)),
        Verdict::Different => format!("{}× the {}", words::estimate(ratio), row.metric.name()),
        Verdict::Inconclusive | Verdict::CannotCarry => format!(
            "no verdict, {}× the {} as far as seen",
            words::estimate(ratio),
            row.metric.name()
        ),
    }
}

/// What the arm of this name adds.
fn adds<'a>(view: &View<'a>, name: &str) -> &'a str {
    let manifest = &view.results.manifest;
    let rungs = manifest.arms.iter().filter(|arm| arm.control_of.is_none());
    let found = rungs
        .zip(&manifest.ladder)
        .find(|(arm, _)| arm.name == name);
    found.map_or("", |(_, adds)| adds.as_str())
}

/// The waterfall: one table per workload or phase, one row per rung.
pub(super) fn section(view: &View<'_>) -> Option<Section> {
    if view.steps.is_empty() {
        return None;
    }
    let mut section = Section::new(
        "What does each layer cost?",
        "The stack raised layer by layer, all rungs measured within the same blocks. Each is held \
         against the one below it.",
    );
    section.is_answer = true;
    let mut labels: Vec<&str> = Vec::new();
    for row in &view.steps {
        if !labels.contains(&row.workload.as_str()) {
            labels.push(&row.workload);
        }
    }
    let tables = labels
        .into_iter()
        .map(|label| Item::Table(table(view, label)));
    section.items.extend(tables);
    Some(section)
}

fn table(view: &View<'_>, label: &str) -> Table {
    let manifest = &view.results.manifest;
    let confidence = words::percent_whole(manifest.policy.confidence);
    let below = format!("#Of the layer below ({confidence} CI)");
    let whole = format!("~#Of the lowest ({confidence} CI)");
    let mut table = Table::new(
        format!("{label}: layer by layer"),
        &["Layer", "System", "#Value", &below, &whole, "Verdict"],
    );
    let steps: Vec<&Comparison> = view.steps.iter().filter(|r| r.workload == label).collect();
    let rungs = manifest.arms.iter().filter(|arm| arm.control_of.is_none());
    for (n, arm) in rungs.enumerate() {
        let step = n.checked_sub(1).and_then(|n| steps.get(n)).copied();
        table
            .rows
            .push(row(view, arm, label, step, steps.first().copied()));
    }
    table.notes.push(
        "Values are geometric means over blocks. A layer whose interval lies within the margin is \
         within noise; without a verdict more blocks are needed."
            .into(),
    );
    table
}

fn row(
    view: &View<'_>,
    arm: &Arm,
    label: &str,
    step: Option<&Comparison>,
    first: Option<&Comparison>,
) -> Vec<Cell> {
    let ratio = |row: Option<&Comparison>| {
        let ratio = row.and_then(|row| row.ratio.as_ref());
        ratio.map_or_else(words::dash, |r| {
            Cell::new(format!("{}×", words::estimate(r))).detail(words::interval(r))
        })
    };
    let value = match (step, first) {
        (Some(step), _) => shown(step.metric, step.arm_value),
        (None, Some(first)) => shown(first.metric, first.base_value),
        (None, None) => words::dash(),
    };
    let is_it = |row: &&Comparison| row.workload == label && row.arm == arm.name;
    let of_lowest = view.comparisons.iter().find(is_it);
    let verdict = step.map_or_else(words::dash, |step| {
        Cell::new(words::verdict(step)).tone(words::tone(step))
    });
    vec![
        Cell::new(adds(view, &arm.name)),
        Cell::new(arm.name.clone()),
        value,
        ratio(step),
        ratio(of_lowest),
        verdict,
    ]
}

fn shown(metric: Metric, value: f64) -> Cell {
    if value > 0.0 {
        Cell::new(metric.show(value))
    } else {
        words::dash()
    }
}
