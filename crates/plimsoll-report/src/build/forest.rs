// SPDX-License-Identifier: Apache-2.0
//! The forest plot of a run: how many times as good as the base every system is, with its interval. Better is
//! on the right for every metric. The A/A control is no system: the text of the figure reports it.

use plimsoll_core::comparison::{ArmComparison, ComparisonVerdict};

use super::view::ResultsView;
use crate::model::{ForestChart, ForestGroup, ForestRow, ForestWords, ReportChart, ReportFigure};
use crate::words;

/// Most rows of a first screen.
const ROWS_FIRST: usize = 8;

/// The plot with the question that it answers.
pub(super) fn figure(view: &ResultsView<'_>) -> ReportFigure {
    let chart = chart(view);
    let title = format!(
        "Which systems are better than {}, and how many times?",
        chart.base
    );
    let rows = || view.comparisons.iter().filter(|row| !row.is_control);
    let count = |verdict| rows().filter(|row| row.verdict == verdict).count();
    let told = [
        (ComparisonVerdict::Different, "different"),
        (ComparisonVerdict::Equivalent, "equivalent"),
        (
            ComparisonVerdict::CannotCarry,
            "without a ratio, since a load was too much",
        ),
        (ComparisonVerdict::Inconclusive, "inconclusive"),
    ];
    let told = told.map(|(verdict, word)| (count(verdict), word));
    let told: Vec<String> = told
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let (title, told) = match rows().count() {
        // One system, whose control is all there is.
        0 => (
            format!("How far does {} differ from itself?", chart.base),
            "It was measured twice".to_owned(),
        ),
        count => {
            let count = words::count(count, "comparison");
            (title, format!("Of {count}: {}", told.join(", ")))
        }
    };
    let answer = format!(
        "{told}. The band is ±{}, within which systems count as equivalent; lines are {} \
         confidence intervals.",
        words::percent_whole(chart.margin),
        words::percent_whole(view.results.manifest.policy.confidence)
    ) + &control(view);
    ReportFigure::new(title, answer, ReportChart::Forest(chart))
}

/// Result of the A/A control, as a sentence after the others; empty without one.
pub(super) fn control(view: &ResultsView<'_>) -> String {
    let rows = view.comparisons.iter().filter(|row| row.is_control);
    let floor = rows.filter_map(|row| Some((row.noise_floor?, row.base.as_str())));
    let most = floor.max_by(|a, b| a.0.total_cmp(&b.0));
    most.map_or_else(String::new, |(floor, base)| {
        format!(
            " Measured twice, {base} may differ from itself by {}.",
            words::apart(floor)
        )
    })
}

/// As much of it as a first screen has room for.
pub(super) fn first_figure(view: &ResultsView<'_>) -> ReportFigure {
    let mut figure = figure(view).compact();
    if let ReportChart::Forest(chart) = &mut figure.chart {
        let mut room = ROWS_FIRST;
        let all: usize = chart.groups.iter().map(|group| group.rows.len()).sum();
        if all > room {
            let more = words::count(all - room, "more row");
            figure.answer = format!("{} {more} in the section on verdicts.", figure.answer);
        }
        for group in &mut chart.groups {
            group.rows.truncate(room);
            room -= group.rows.len();
        }
        chart.groups.retain(|group| !group.rows.is_empty());
    }
    figure
}

/// All comparisons, by workload in the order of the plan.
pub(super) fn chart(view: &ResultsView<'_>) -> ForestChart {
    let mut groups: Vec<ForestGroup> = Vec::new();
    for row in view.judged() {
        let (title, metric) = (words::workload(row), row.metric.name());
        if groups
            .last()
            .is_none_or(|g| g.title != title || g.metric != metric)
        {
            groups.push(ForestGroup {
                title: title.into(),
                metric: metric.into(),
                rows: Vec::new(),
            });
        }
        if let Some(group) = groups.last_mut() {
            group.rows.push(forest_row(row));
        }
    }
    let base = view.comparisons.first().map(|c| c.base.clone());
    ForestChart {
        base: base.unwrap_or_default(),
        margin: view.results.manifest.policy.margin,
        words: ForestWords::BETTER,
        groups,
    }
}

fn forest_row(row: &ArmComparison) -> ForestRow {
    let none = match row.verdict {
        ComparisonVerdict::CannotCarry => words::verdict(row),
        _ => "no ratio yet".into(),
    };
    ForestRow {
        label: words::arm(row),
        ratio: words::times_as_good(row),
        text: words::lead_in_short(row).unwrap_or(none),
        verdict: words::verdict(row),
        tone: words::tone(row),
    }
}
