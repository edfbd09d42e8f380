// SPDX-License-Identifier: Apache-2.0
//! Cost of each layer of a stack: every rung against the one below it.

use plimsoll_core::comparison::{ArmComparison, ComparisonMetric, ComparisonVerdict};
use plimsoll_core::event::ArmEntry;

use super::quantity_of;
use super::view::ResultsView;
use crate::model::{
    ReportChart, ReportFigure, ReportFinding, ReportItem, ReportSection, ReportSeverity,
    ReportTable, ReportTableCell, WaterfallChart, WaterfallPanel, WaterfallStep,
};
use crate::words;

/// One sentence per layer and workload: what it adds, and what that costs.
pub(super) fn headline(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let confidence = words::percent_whole(view.results.manifest.policy.confidence);
    let sentence = |row: &ArmComparison| {
        let interval = row.ratio.as_ref().map_or_else(
            || "no interval".into(),
            |ratio| format!("{confidence} CI {}", words::interval(ratio)),
        );
        let blocks = words::count(row.blocks as usize, "block");
        let text = format!(
            "+{}: {} on {}",
            adds(view, &row.arm),
            cost(row),
            row.workload
        );
        let detail = format!("{} against {}: {interval}; {blocks}.", row.arm, row.base);
        ReportFinding::new(words::verdict(row), text)
            .tone(words::tone(row))
            .detail(detail)
    };
    view.steps.iter().map(sentence).collect()
}

/// Cost of the whole stack, and its dearest layer.
pub(super) fn answer(view: &ResultsView<'_>) -> Option<(ReportSeverity, String)> {
    let dearest = dearest(view);
    let workload = &dearest.or(view.steps.first())?.workload;
    let top = view.steps.iter().rfind(|row| row.workload == *workload)?;
    let mut all = view.comparisons.iter();
    let whole = all.find(|row| row.workload == *workload && row.arm == top.arm);
    let whole = whole.and_then(|row| {
        let ratio = row.ratio.as_ref()?;
        let (times, interval) = (words::estimate(ratio), words::interval(ratio));
        let metric = row.metric.name();
        Some(format!(
            "{times}× the {metric} of {} ({interval})",
            row.base
        ))
    });
    let whole = whole.unwrap_or_else(|| "too few data for a ratio".into());
    let dear = match dearest {
        Some(row) => {
            let interval = row.ratio.as_ref().map(words::interval).unwrap_or_default();
            let adds = adds(view, &row.arm);
            format!("its dearest layer is +{adds}: {} ({interval})", cost(row))
        }
        None => "no layer is shown to cost anything".into(),
    };
    let text = format!("On {workload} the whole stack has {whole}; {dear}.");
    Some((ReportSeverity::Plain, text))
}

/// Cost of a layer, in words.
fn cost(row: &ArmComparison) -> String {
    if row.verdict == ComparisonVerdict::CannotCarry {
        return match (row.base_is_overloaded(), row.arm_is_overloaded()) {
            (true, true) => "it cannot carry the load, nor can the layer below".into(),
            (true, false) => "it carries the load, the layer below cannot".into(),
            _ => "it cannot carry the load".into(),
        };
    }
    let Some(ratio) = &row.ratio else {
        return "not enough data".into();
    };
    let widest = (ratio.high - 1.0).abs().max((1.0 - ratio.low).abs());
    match row.verdict {
        ComparisonVerdict::Equivalent => format!("within noise, ±{}", words::percent(widest)),
        ComparisonVerdict::Different => {
            format!("{}× the {}", words::estimate(ratio), row.metric.name())
        }
        ComparisonVerdict::Inconclusive | ComparisonVerdict::CannotCarry => format!(
            "inconclusive, observed {}× the {}",
            words::estimate(ratio),
            row.metric.name()
        ),
    }
}

/// Layer that the arm of this name adds.
fn adds<'a>(view: &ResultsView<'a>, name: &str) -> &'a str {
    let manifest = &view.results.manifest;
    let rungs = manifest.arms.iter().filter(|arm| arm.control_of.is_none());
    let found = rungs
        .zip(&manifest.ladder)
        .find(|(arm, _)| arm.name == name);
    found.map_or("", |(_, adds)| adds.as_str())
}

/// The waterfall: one table per workload or phase, one row per rung.
pub(super) fn section(view: &ResultsView<'_>) -> Option<ReportSection> {
    if view.steps.is_empty() {
        return None;
    }
    let mut section = ReportSection::new(
        "What does each layer cost?",
        "The stack is built layer by layer, and all steps are measured within the same blocks. \
         Each step is compared with the one below it.",
    )
    .at("layers");
    section.is_answer = true;
    let mut labels: Vec<&str> = Vec::new();
    for row in &view.steps {
        if !labels.contains(&row.workload.as_str()) {
            labels.push(&row.workload);
        }
    }
    let figure = figure(view, &labels).beside_its_table();
    section.items.push(ReportItem::Chart(figure));
    let tables = labels
        .into_iter()
        .map(|label| ReportItem::Table(table(view, label)));
    section.items.extend(tables);
    Some(section)
}

/// The waterfall of the first workload, for a first screen.
pub(super) fn first_figure(view: &ResultsView<'_>) -> Option<ReportFigure> {
    let shown = dearest(view).or(view.steps.first())?;
    Some(figure(view, &[shown.workload.as_str()]).compact())
}

/// The step that changes the value most, among those that differ.
pub(super) fn dearest<'v>(view: &'v ResultsView<'_>) -> Option<&'v ArmComparison> {
    let worse = |row: &ArmComparison| {
        let ratio = row.ratio.map_or(1.0, |ratio| ratio.estimate);
        match row.metric.more_is_better() {
            true => 1.0 / ratio,
            false => ratio,
        }
    };
    let steps = view.steps.iter();
    let costly = steps.filter(|row| row.verdict == ComparisonVerdict::Different);
    let costly = costly.filter(|row| worse(row) > 1.0);
    costly.max_by(|a, b| worse(a).total_cmp(&worse(b)))
}

/// A step in words: `+iscsi: 2.1× the mean response time of disk (1.9 to 2.3)`.
pub(super) fn told(view: &ResultsView<'_>, row: &ArmComparison) -> String {
    let interval = row.ratio.as_ref().map(words::interval).unwrap_or_default();
    let adds = adds(view, &row.arm);
    format!("+{adds} on {}: {} ({interval})", row.workload, cost(row))
}

fn figure(view: &ResultsView<'_>, labels: &[&str]) -> ReportFigure {
    let answer = match dearest(view) {
        Some(row) => format!("The dearest layer is {}.", told(view, row)),
        None => "No layer costs more than the noise of the trials.".into(),
    };
    let panels = labels.iter().filter_map(|label| panel(view, label));
    let chart = WaterfallChart {
        panels: panels.collect(),
    };
    let title = "How much does each layer add?";
    ReportFigure::new(title, answer, ReportChart::Waterfall(chart))
}

fn panel(view: &ResultsView<'_>, label: &str) -> Option<WaterfallPanel> {
    let steps: Vec<&ArmComparison> = view.steps.iter().filter(|r| r.workload == label).collect();
    let first = steps.first()?;
    let lowest = WaterfallStep {
        label: adds(view, &first.base).into(),
        value: first.base_value,
        interval: None,
        text: first.metric.show(first.base_value),
        tone: ReportSeverity::Plain,
    };
    let step = |row: &&ArmComparison| WaterfallStep {
        label: format!("+{}", adds(view, &row.arm)),
        value: row.arm_value,
        interval: row.ratio.map(|ratio| {
            let at = |end: f64| row.arm_value * end / ratio.estimate;
            (at(ratio.low), at(ratio.high))
        }),
        text: match &row.ratio {
            Some(ratio) => format!("{}× ({})", words::estimate(ratio), words::interval(ratio)),
            None => cost(row),
        },
        tone: words::tone(row),
    };
    let usable = |step: &WaterfallStep| step.value > 0.0;
    Some(WaterfallPanel {
        title: label.into(),
        metric: first.metric.name().into(),
        quantity: quantity_of(first.metric),
        steps: std::iter::once(lowest)
            .chain(steps.iter().map(step))
            .filter(usable)
            .collect(),
    })
}

fn table(view: &ResultsView<'_>, label: &str) -> ReportTable {
    let manifest = &view.results.manifest;
    let confidence = words::percent_whole(manifest.policy.confidence);
    let below = format!("#Of the layer below ({confidence} CI)");
    let whole = format!("~#Of the lowest ({confidence} CI)");
    let mut table = ReportTable::new(
        format!("{label}: layer by layer"),
        &["Layer", "System", "#Value", &below, &whole, "Verdict"],
    );
    let steps: Vec<&ArmComparison> = view.steps.iter().filter(|r| r.workload == label).collect();
    let rungs = manifest.arms.iter().filter(|arm| arm.control_of.is_none());
    for (n, arm) in rungs.enumerate() {
        let step = n.checked_sub(1).and_then(|n| steps.get(n)).copied();
        table
            .rows
            .push(row(view, arm, label, step, steps.first().copied()));
    }
    table.notes.push(
        "Values are geometric means over blocks. A layer whose interval lies within the margin is \
         within noise; an inconclusive one needs more blocks."
            .into(),
    );
    table
}

fn row(
    view: &ResultsView<'_>,
    arm: &ArmEntry,
    label: &str,
    step: Option<&ArmComparison>,
    first: Option<&ArmComparison>,
) -> Vec<ReportTableCell> {
    let ratio = |row: Option<&ArmComparison>| {
        let ratio = row.and_then(|row| row.ratio.as_ref());
        ratio.map_or_else(words::dash, |r| {
            ReportTableCell::new(format!("{}×", words::estimate(r))).detail(words::interval(r))
        })
    };
    let value = match (step, first) {
        (Some(step), _) => shown(step.metric, step.arm_value),
        (None, Some(first)) => shown(first.metric, first.base_value),
        (None, None) => words::dash(),
    };
    let is_it = |row: &&ArmComparison| row.workload == label && row.arm == arm.name;
    let of_lowest = view.comparisons.iter().find(is_it);
    let verdict = step.map_or_else(words::dash, |step| {
        ReportTableCell::new(words::verdict(step)).tone(words::tone(step))
    });
    vec![
        ReportTableCell::new(adds(view, &arm.name)),
        ReportTableCell::new(arm.name.clone()),
        value,
        ratio(step),
        ratio(of_lowest),
        verdict,
    ]
}

fn shown(metric: ComparisonMetric, value: f64) -> ReportTableCell {
    if value > 0.0 {
        ReportTableCell::new(metric.show(value))
    } else {
        words::dash()
    }
}
