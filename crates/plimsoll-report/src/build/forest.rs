// SPDX-License-Identifier: Apache-2.0
//! The forest plot of a run: all ratios with their intervals, the control among them.

use plimsoll_core::comparison::{ArmComparison, ComparisonVerdict};

use super::view::ResultsView;
use crate::model::{ForestChart, ForestGroup, ForestRow};
use crate::words;

/// All comparisons, by workload in the order of the plan.
pub(super) fn chart(view: &ResultsView<'_>) -> ForestChart {
    let mut groups: Vec<ForestGroup> = Vec::new();
    for row in &view.comparisons {
        let (title, metric) = (words::workload(row), row.metric.name());
        if groups
            .last()
            .is_none_or(|g| g.title != title || g.metric != metric)
        {
            groups.push(ForestGroup {
                title: title.into(),
                metric: metric.into(),
                more_is_better: row.metric.more_is_better(),
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
        groups,
    }
}

fn forest_row(row: &ArmComparison) -> ForestRow {
    let none = match row.verdict {
        ComparisonVerdict::CannotCarry => words::verdict(row),
        _ => "no ratio yet".into(),
    };
    let text = row.ratio.as_ref().map_or(none, |r| {
        format!("{} ({})", words::estimate(r), words::interval(r))
    });
    ForestRow {
        label: words::arm(row),
        ratio: row.ratio,
        text,
        verdict: words::verdict(row),
        tone: words::tone(row),
        control: row.is_control,
    }
}
