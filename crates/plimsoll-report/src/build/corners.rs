// SPDX-License-Identifier: Apache-2.0
//! What a recording does not contain, as a band: the model's figures between those of its corners.

use plimsoll_core::comparison::ArmComparison;
use plimsoll_core::event::WorkloadEntry;
use plimsoll_core::histogram::Histogram;

use super::view::{ArmTrials, ResultsView, grouped};
use crate::model::{ChartQuantity, ReportFinding, ReportSeverity, ReportTable, ReportTableCell};
use crate::words;

/// What is given as a band: of the tail, if there are enough operations to speak of it everywhere.
fn figure(pools: &[&ArmTrials<'_>]) -> (&'static str, fn(&Histogram) -> f64) {
    let supported = |pool: &&ArmTrials<'_>| pool.stats.response().supports_quantile(0.99);
    match pools.iter().all(supported) {
        true => ("p99", |times| times.quantile_ns(0.99) as f64),
        false => ("mean response time", Histogram::mean_ns),
    }
}

/// An arm's figure under a workload and at its sensitivity bounds, in words; `None` where none was played.
pub(super) fn band(view: &ResultsView<'_>, entry: &WorkloadEntry, arm: &str) -> Option<String> {
    let of_arm = |entry: &WorkloadEntry| view.pools(entry).into_iter().find(|p| p.ink.name == arm);
    let here = of_arm(entry)?;
    let corners: Vec<ArmTrials<'_>> = view.corners_of(entry).filter_map(of_arm).collect();
    if corners.is_empty() {
        return None;
    }
    let all: Vec<&ArmTrials<'_>> = corners.iter().chain([&here]).collect();
    let (name, value) = figure(&all);
    let values = all.iter().map(|pool| value(&pool.stats.response()));
    let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let show = |value: f64| ChartQuantity::Duration.show(value);
    Some(format!(
        "{arm}: {name} {}, sensitivity bounds {} to {}",
        show(value(&here.stats.response())),
        show(low),
        show(high),
    ))
}

/// The model and its sensitivity bounds side by side.
pub(super) fn table(view: &ResultsView<'_>, entry: &WorkloadEntry) -> Option<ReportTable> {
    let corners: Vec<&WorkloadEntry> = view.corners_of(entry).collect();
    if corners.is_empty() {
        return None;
    }
    let mut table = ReportTable::new(
        "Sensitivity bounds",
        &[
            "System",
            "Load",
            "#Operations",
            "#mean",
            "#p50",
            "#p99",
            "Ratio",
        ],
    );
    for arm in &view.arms {
        let mut name = arm.ink.label();
        for load in std::iter::once(entry).chain(corners.iter().copied()) {
            let pools = view.pools(load);
            let Some(pool) = pools.iter().find(|p| p.ink.name == arm.ink.name) else {
                continue;
            };
            let response = pool.stats.response();
            let mut row = vec![
                ReportTableCell::new(std::mem::take(&mut name)),
                ReportTableCell::new(load_name(entry, load)),
                ReportTableCell::new(grouped(response.count())),
                ReportTableCell::new(ChartQuantity::Duration.show(response.mean_ns())),
            ];
            row.extend([0.5, 0.99].map(|q| match response.supports_quantile(q) {
                true => ReportTableCell::new(
                    ChartQuantity::Duration.show(response.quantile_ns(q) as f64),
                ),
                false => words::dash(),
            }));
            row.push(ratio(view.comparison(load, &arm.arm.name)));
            table.rows.push(row);
        }
    }
    table.notes.push(
        "Response times, all blocks together. Only assumptions of the model differ: how arrivals \
         are spread within an interval, and which offsets they access. What was declared when the \
         model was fitted has no bounds."
            .into(),
    );
    Some(table)
}

fn ratio(row: Option<&ArmComparison>) -> ReportTableCell {
    let ratio = row.and_then(|row| row.ratio.as_ref());
    ratio.map_or_else(words::dash, |ratio| {
        ReportTableCell::new(words::estimate(ratio)).detail(words::interval(ratio))
    })
}

/// What distinguishes a sensitivity bound, without the name of the model.
fn load_name(centre: &WorkloadEntry, load: &WorkloadEntry) -> String {
    if load.label == centre.label {
        return "the model".into();
    }
    let name = load.workload.name();
    let inside = name.rsplit_once(" (").map(|(_, inside)| inside);
    inside
        .map_or(name, |inside| inside.trim_end_matches(')'))
        .into()
}

/// Where the sensitivity bounds disagree on who is better, beyond the margin.
pub(super) fn doubts(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let rows = view.comparisons.iter().filter(|row| !row.is_control);
    rows.filter_map(|row| doubt(view, row)).collect()
}

fn doubt(view: &ResultsView<'_>, row: &ArmComparison) -> Option<ReportFinding> {
    let mut entries = view.entries();
    let entry = entries.find(|entry| entry.label == row.workload)?;
    let loads = std::iter::once(entry).chain(view.corners_of(entry));
    let ratios: Vec<(String, f64)> = loads
        .filter_map(|load| {
            let ratio = view.comparison(load, &row.arm)?.ratio?;
            Some((load_name(entry, load), ratio.estimate))
        })
        .collect();
    let factor = 1.0 + view.results.manifest.policy.margin;
    let is_less = ratios.iter().any(|(_, ratio)| *ratio < 1.0 / factor);
    let is_more = ratios.iter().any(|(_, ratio)| *ratio > factor);
    if !(is_less && is_more) {
        return None;
    }
    let each: Vec<String> = ratios
        .iter()
        .map(|(name, ratio)| format!("{name}: {ratio:.2}×"))
        .collect();
    Some(ReportFinding {
        mark: "depends".into(),
        tone: ReportSeverity::Care,
        text: format!(
            "Whether {} or {} is better on {} depends on assumptions of the model",
            row.arm, row.base, row.workload
        ),
        detail: format!(
            "Ratio of the {} to {}: {}. Declare what you know when fitting the model.",
            row.metric.name(),
            row.base,
            each.join("; ")
        ),
    })
}
