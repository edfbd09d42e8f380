// SPDX-License-Identifier: Apache-2.0
//! The answer: one sentence per arm and workload, then the same as a table and a forest plot.

use plimsoll_core::comparison::{
    ArmComparison, ComparisonMetric, ComparisonUnit, ComparisonVerdict,
};
use plimsoll_core::event::{PhaseResult, TrialResult, WorkloadEntry};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::ratio;
use plimsoll_core::units;
use plimsoll_stats::SummaryStats;
use plimsoll_stats::paired::PairedLogRatioStats;
use std::collections::BTreeSet;

use super::phases::transfers;
use super::view::{ArmTrials, ResultsView};
use super::{forest, overload};
use crate::model::{
    ChartQuantity, ReportFinding, ReportItem, ReportSection, ReportSeverity, ReportTable,
    ReportTableCell,
};
use crate::words;

/// The sentences a reader came for.
pub(super) fn headline(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let rows = view.comparisons.iter();
    let mut sentences: Vec<ReportFinding> = rows
        .clone()
        .filter(|row| !row.is_control)
        .map(|row| sentence(view, row))
        .collect();
    if !view.is_comparison() {
        let entries = view.entries().filter(|entry| !entry.workload.is_idle());
        sentences.extend(entries.flat_map(|entry| measured(view, entry)));
    }
    // There is no clearer answer than that a load cannot be carried.
    sentences.sort_by_key(|sentence| !sentence.mark.contains(CANNOT_CARRY));
    sentences
}

/// In the mark of what cannot be carried.
const CANNOT_CARRY: &str = "carry";

fn sentence(view: &ResultsView<'_>, row: &ArmComparison) -> ReportFinding {
    if row.verdict == ComparisonVerdict::CannotCarry
        && let Some(sentence) = overload::sentence(view, row)
    {
        return sentence;
    }
    let confidence = words::percent_whole(view.results.manifest.policy.confidence);
    let interval = match &row.ratio {
        // That of the figure in the sentence.
        Some(ratio) if row.verdict == ComparisonVerdict::Equivalent => {
            format!("{confidence} CI {}", words::interval(ratio))
        }
        Some(_) => format!("{confidence} CI {}", words::lead_interval(row)),
        None => "no interval".into(),
    };
    let floor = match row.noise_floor {
        Some(floor) => format!("A/A bound {}", words::percent(floor)),
        None => "A/A bound unknown".into(),
    };
    let blocks = words::count(row.blocks as usize, "block");
    let mut detail = format!("{interval}; {blocks}; {floor}");
    if !row.reason.is_empty() {
        detail.push_str(". ");
        detail.push_str(&words::capital(&row.reason));
        detail.push('.');
    }
    let tails = tails(view, row);
    if !tails.is_empty() && !detail.ends_with('.') {
        detail.push('.');
    }
    detail.push_str(&tails);
    ReportFinding::new(words::verdict(row), statement(row))
        .tone(words::tone(row))
        .detail(detail)
}

/// The quantile that is reported beside the mean: for information, the verdict rests on the mean alone.
const TAIL: f64 = 0.99;

/// The ratio of the 99th percentiles, where response times are compared.
fn tails(view: &ResultsView<'_>, row: &ArmComparison) -> String {
    let trials = &view.results.trials;
    let of = |arm: &str, block: u32| {
        let mut mine = trials.iter().rev().filter(|t| t.is_comparable());
        let trial = mine.find(|t| {
            t.trial.arm == arm && t.trial.block == block && t.trial.workload == row.workload
        })?;
        let response = trial.stats.response();
        let usable = response.supports_quantile(TAIL) && response.quantile_ns(TAIL) > 0;
        usable.then(|| response.quantile_ns(TAIL) as f64)
    };
    let counted = view.results.manifest.counted_blocks();
    let blocks: BTreeSet<u32> = trials.iter().map(|t| t.trial.block).collect();
    let blocks = blocks.into_iter().filter(|block| counted.contains(block));
    let ratios = blocks.filter_map(|block| Some(of(&row.arm, block)? / of(&row.base, block)?));
    let logs: Vec<f64> = ratios.map(f64::ln).collect();
    let confidence = view.results.manifest.policy.confidence;
    let paired =
        PairedLogRatioStats::of(&logs).filter(|_| row.metric == ComparisonMetric::MeanResponse);
    let told = paired.map(|paired| paired.ratio(confidence)).map(|ratio| {
        let (times, interval) = (words::estimate(&ratio), words::interval(&ratio));
        format!(" For information: {times}× the p99 response time ({interval}).")
    });
    told.unwrap_or_default()
}

fn statement(row: &ArmComparison) -> String {
    let (base, workload) = (&row.base, words::workload(row));
    let (arm, metric) = (words::arm(row), row.metric.name());
    let Some(ratio) = &row.ratio else {
        return format!("Not enough data: {metric} of {arm} against {base} on {workload}");
    };
    let times = words::estimate(ratio);
    match row.verdict {
        ComparisonVerdict::CannotCarry => format!("The load of {workload} cannot be carried"),
        ComparisonVerdict::Inconclusive => {
            let lead = words::lead_in_words(row).unwrap_or_default();
            format!("Observed on {workload}: {lead}")
        }
        ComparisonVerdict::Equivalent => {
            format!("{arm} is equivalent to {base} on {workload}: {times}× the {metric}")
        }
        ComparisonVerdict::Different => {
            let lead = words::lead_in_words(row).unwrap_or_default();
            format!("{lead} on {workload}")
        }
    }
}

/// Phases have results of their own, in their table; here stands how many there are.
fn phases_measured(pool: &ArmTrials<'_>, entry: &WorkloadEntry) -> ReportFinding {
    let count = pool.trials.first().map_or(0, |trial| trial.phases.len());
    let text = format!("{}: {}", entry.label, words::count(count, "phase"));
    ReportFinding::new("measured", text).detail("Their results are in the table of the workload.")
}

/// The one phase there is.
fn phase_measured(pool: &ArmTrials<'_>, entry: &WorkloadEntry) -> Option<ReportFinding> {
    let phase = pool.trials.first()?.phases.first()?;
    let quantity = quantity_of(phase.metric);
    let result = spread_in_words(pool, quantity, |trial| trial.phases[0].value)?;
    let mut parts = vec![result];
    if phase.metric != ComparisonMetric::BytesPerSecond {
        let per_s = |trial: &TrialResult| {
            let phase = &trial.phases[0];
            ratio(phase.stats.bytes() as f64, phase.wall.as_secs_f64())
        };
        let mean = SummaryStats::of(pool.values(per_s)).map(|summary| summary.mean);
        parts.extend(mean.filter(|mean| *mean > 0.0).map(units::throughput));
    }
    let times: Vec<_> = pool
        .trials
        .iter()
        .map(|trial| transfers(&trial.phases[0]))
        .collect();
    let of = |value: &dyn Fn(&Histogram) -> f64| {
        let each: Vec<f64> = times.iter().map(value).collect();
        ChartQuantity::Duration.show(ratio(each.iter().sum(), each.len() as f64))
    };
    if times.iter().all(|times| times.count() > 0) {
        parts.push(format!("mean {}", of(&Histogram::mean_ns)));
    }
    if times.iter().all(|times| times.supports_quantile(0.99)) {
        parts.push(format!(
            "p99 {}",
            of(&|times| times.quantile_ns(0.99) as f64)
        ));
    }
    let text = format!("{} on {}: {}", pool.ink.name, entry.label, parts.join(", "));
    let detail = format!(
        "{}; one system, so no verdict.",
        words::capital(&words::count(pool.trials.len(), "block"))
    );
    Some(ReportFinding::new("measured", text).detail(detail))
}

fn measured(view: &ResultsView<'_>, entry: &WorkloadEntry) -> Option<ReportFinding> {
    let pools = view.pools(entry);
    let pool = pools.first()?;
    if let Some(sentence) = overload::alone(view, entry, pool) {
        return Some(sentence);
    }
    if pool.trials.iter().any(|trial| !trial.phases.is_empty()) {
        let single = pool.trials.iter().all(|trial| trial.phases.len() == 1);
        return match single {
            true => phase_measured(pool, entry),
            false => Some(phases_measured(pool, entry)),
        };
    }
    let rate = spread_in_words(pool, ChartQuantity::Rate, super::view::ops_per_s)?;
    let response = spread_in_words(pool, ChartQuantity::Duration, |t| {
        t.value(ComparisonMetric::MeanResponse)
    })?;
    let text = format!("{} on {}: {rate}", pool.ink.name, entry.label);
    let detail = format!(
        "Mean response time {response}. {}; one system, so no verdict.",
        words::capital(&words::count(pool.trials.len(), "block")),
    );
    Some(ReportFinding::new("measured", text).detail(detail))
}

fn spread_in_words(
    pool: &ArmTrials<'_>,
    quantity: ChartQuantity,
    value: impl Fn(&TrialResult) -> f64,
) -> Option<String> {
    let summary = SummaryStats::of(pool.values(value))?;
    let range = words::range(&summary, quantity);
    let mean = quantity.show(summary.mean);
    Some(if range.is_empty() {
        mean
    } else {
        format!("{mean} ({range} over blocks)")
    })
}

/// The same as a table and a plot.
pub(super) fn section(view: &ResultsView<'_>) -> Option<ReportSection> {
    let first = view.comparisons.first()?;
    let policy = &view.results.manifest.policy;
    let mut section = ReportSection::new(
        "Verdicts",
        format!(
            "Every system is compared with {} within blocks. Equivalent: within ±{}.",
            first.base,
            words::percent_whole(policy.margin)
        ),
    );
    section.is_answer = true;
    let confidence = words::percent_whole(policy.confidence);
    let ratio = format!("#Better by ({confidence} CI)");
    let base = format!("~#{}", first.base);
    let mut table = ReportTable::new(
        "Verdict by workload and system",
        &[
            "Workload",
            "System",
            &base,
            "~#System’s value",
            &ratio,
            "Verdict",
            "#A/A bound",
            "#MDE",
            "#Blocks",
        ],
    );
    let mut above = "";
    for row in view.judged() {
        table.rows.push(table_row(view, row, above != row.workload));
        above = &row.workload;
    }
    table.notes = notes(view);
    let figure = forest::figure(view).beside_its_table();
    section.items = vec![ReportItem::Chart(figure), ReportItem::Table(table)];
    Some(section)
}

fn table_row(view: &ResultsView<'_>, row: &ArmComparison, first: bool) -> Vec<ReportTableCell> {
    let tone = words::tone(row);
    let dash = || ReportTableCell::new("–").tone(ReportSeverity::Muted);
    let fraction =
        |f: Option<f64>| f.map_or_else(dash, |f| ReportTableCell::new(words::percent(f)));
    let value = |mean: f64, arm: &str| {
        let load = if arm == row.base {
            row.base_carried
        } else {
            row.arm_carried
        };
        if let Some(load) = load.filter(|load| load.is_overloaded()) {
            overload::cell(&load)
        } else if mean > 0.0 {
            ReportTableCell::new(row.metric.show(mean)).detail(range(view, row, arm))
        } else {
            dash()
        }
    };
    let name = ReportTableCell::new(words::arm(row));
    let needed = match (row.verdict, row.blocks_needed) {
        (ComparisonVerdict::Inconclusive, Some(n)) => format!("needs {n}"),
        _ => String::new(),
    };
    let workload = if first { words::workload(row) } else { "" };
    vec![
        ReportTableCell::new(workload).detail(if first { row.metric.name() } else { "" }),
        name,
        value(row.base_value, &row.base),
        value(row.arm_value, &row.arm),
        words::lead_in_short(row).map_or_else(dash, ReportTableCell::new),
        ReportTableCell::new(words::verdict(row)).tone(tone),
        fraction(row.noise_floor),
        fraction(row.detectable),
        ReportTableCell::new(row.blocks.to_string()).detail(needed),
    ]
}

/// Range of the arm's values over the blocks that were not cut short.
fn range(view: &ResultsView<'_>, row: &ArmComparison, arm: &str) -> String {
    let quantity = quantity_of(row.metric);
    let trials = view.results.trials.iter();
    let values = trials
        .filter(|t| !t.interrupted && t.trial.arm == arm)
        .filter_map(|t| value_for(t, row));
    SummaryStats::of(values).map_or(String::new(), |s| words::range(&s, quantity))
}

/// Value of a trial that a row compares: the metric of the trial, or that of one of its phases.
fn value_for(trial: &TrialResult, row: &ArmComparison) -> Option<f64> {
    if trial.trial.workload == row.workload {
        return Some(trial.value(row.metric));
    }
    if [ComparisonMetric::WriteOutage, ComparisonMetric::BrownOut].contains(&row.metric) {
        let label = plimsoll_stats::phase_label(&trial.trial.workload, row.metric.name());
        return (label == row.workload).then(|| trial.value(row.metric));
    }
    let is_it = |phase: &&PhaseResult| {
        plimsoll_stats::phase_label(&trial.trial.workload, &phase.name) == row.workload
    };
    trial.phases.iter().find(is_it).map(|phase| phase.value)
}

pub(crate) fn quantity_of(metric: ComparisonMetric) -> ChartQuantity {
    match metric.unit() {
        ComparisonUnit::Time => ChartQuantity::Duration,
        ComparisonUnit::Rate => ChartQuantity::Rate,
        ComparisonUnit::Throughput => ChartQuantity::Throughput,
        ComparisonUnit::Bytes | ComparisonUnit::Index | ComparisonUnit::LogRatio => {
            ChartQuantity::Number
        }
    }
}

fn notes(view: &ResultsView<'_>) -> Vec<String> {
    let mut notes = vec![
        "Values are geometric means over blocks, with the range over blocks below; better by: how many \
         times as good the better of both is, from ordinary trials within blocks, both entries of the base \
         counted. A/A bound: the \
         largest difference within the interval of the A/A control, which measures one system \
         twice; it limits a verdict only where the control itself differs. MDE: the minimum \
         detectable effect, the smallest true effect that these blocks detect with a power of \
         80 %."
            .into(),
    ];
    if !view.comparisons.iter().any(|c| c.is_control) {
        notes.push(
            "There is no A/A control (the same system measured twice), so the A/A bound is unknown."
                .into(),
        );
    }
    for row in view.comparisons.iter().filter(|row| !row.reason.is_empty()) {
        notes.push(format!(
            "{} on {}: {}.",
            words::arm(row),
            row.workload,
            row.reason
        ));
    }
    notes
}
