// SPDX-License-Identifier: Apache-2.0
//! The picture of load lines: response times over the load, with the band around each line.

use plimsoll_core::load_line::{LoadLineQuantity, LoadLineSlo};
use plimsoll_core::workload::WorkloadMultiple;
use plimsoll_stats::load_line::{ArmLoadLine, LoadLineCurvePoint, LoadLineLimit, load_line_trial};

use super::{has_edge, in_short};
use crate::build::view::ResultsView;
use crate::model::{
    ChartQuantity, LoadCurve, LoadCurveBand, LoadCurveChart, LoadCurvePoint, ReportChart,
    ReportFigure,
};

/// The limit that is drawn: the one that most lines reach first.
fn drawn(lines: &[&ArmLoadLine<'_>]) -> (usize, LoadLineSlo) {
    let goal = lines[0].goal;
    let binding = |at: usize| {
        let name = goal.limits[at].to_string();
        lines
            .iter()
            .filter(|line| line.result.binding.as_ref() == Some(&name))
            .count()
    };
    let most = (0..goal.limits.len()).rev().max_by_key(|at| binding(*at));
    let at = most.unwrap_or(0);
    (at, goal.limits[at])
}

/// The curves of the first workload whose load line was searched, for a first screen.
pub(in crate::build) fn first_figure(view: &ResultsView<'_>) -> Option<ReportFigure> {
    let entry = view.load_entries().next()?;
    let lines = of_entry(view, &entry.label);
    lines.first()?;
    Some(figure(view, &lines).compact())
}

/// The lines of a workload that were searched.
pub(super) fn of_entry<'v, 'a>(view: &'v ResultsView<'a>, label: &str) -> Vec<&'v ArmLoadLine<'a>> {
    let lines = view.load_lines.iter();
    lines
        .filter(|line| line.entry.label == label && line.result.trials > 0)
        .collect()
}

/// The curves of a workload, with the lines in a sentence.
pub(super) fn figure(view: &ResultsView<'_>, lines: &[&ArmLoadLine<'_>]) -> ReportFigure {
    let (_, limit) = drawn(lines);
    let title = format!(
        "How does {} of {} grow with the load?",
        limit.subject(),
        lines[0].entry.label
    );
    let told = |line: &&ArmLoadLine<'_>| format!("{} {}", view.name_of(line.arm), in_short(line));
    let told: Vec<String> = lines.iter().map(told).collect();
    let answer = format!("Load within {limit}: {}.", told.join("; "));
    ReportFigure::new(title, answer, ReportChart::LoadCurves(chart(view, lines)))
}

fn chart(view: &ResultsView<'_>, lines: &[&ArmLoadLine<'_>]) -> LoadCurveChart {
    let (at, limit) = drawn(lines);
    let label = &lines[0].entry.label;
    LoadCurveChart {
        load: match lines[0].unit {
            WorkloadMultiple::Rate => format!("times {label}"),
            WorkloadMultiple::Clients(_) => format!("clients of {label}"),
        },
        quantity: match limit.quantity {
            LoadLineQuantity::Errors => ChartQuantity::Share,
            _ => ChartQuantity::Duration,
        },
        limit: (limit.to_string(), limit.at_most),
        curves: lines
            .iter()
            .map(|line| curve(view, line, (at, &limit)))
            .collect(),
    }
}

fn curve(
    view: &ResultsView<'_>,
    line: &ArmLoadLine<'_>,
    (at, limit): (usize, &LoadLineSlo),
) -> LoadCurve {
    let arm = view.arms.iter().find(|view| view.arm.name == line.arm);
    let points = line.trials.iter().filter_map(|trial| {
        let record = trial.load_line.as_ref()?;
        let seen = load_line_trial(trial)?;
        Some(LoadCurvePoint {
            load: record.request.multiple,
            value: trial.stats.limited(limit),
            kept_up: !seen.backlog_grew,
            length_s: record.request.seconds,
        })
    });
    let edge = &line.result.sustained;
    LoadCurve {
        ink: arm.map(|view| view.ink.clone()).unwrap_or_default(),
        points: points.filter(|point| point.value > 0.0).collect(),
        band: band(line, at, limit),
        edge: has_edge(line).then_some((edge.low, edge.point, edge.high)),
    }
}

/// The band of the response around the line: margins, turned back into what is limited. For a quantile the
/// scale of the response times comes from the trials themselves.
fn band(line: &ArmLoadLine<'_>, at: usize, slo: &LoadLineSlo) -> Vec<LoadCurveBand> {
    let is_binding = line.result.binding.as_ref() == Some(&slo.to_string());
    let scale = match slo.quantity {
        LoadLineQuantity::Mean => Some(0.5),
        LoadLineQuantity::Quantile(_) => scale(line, at, slo),
        LoadLineQuantity::Errors => None,
    };
    let Some(scale) = scale.filter(|_| is_binding && has_edge(line)) else {
        return Vec::new();
    };
    let value = |margin: f64| slo.at_most * (-margin * scale).exp();
    let inside = |point: &&LoadLineCurvePoint| {
        (line.goal.smallest..=line.goal.largest).contains(&point.multiple)
    };
    let points = line.result.curve.iter().filter(inside);
    let band = points.map(|point| LoadCurveBand {
        load: point.multiple,
        low: value(point.high),
        middle: value(point.margin),
        high: value(point.low),
    });
    band.collect()
}

/// By how much ln of the quantile falls per unit of margin: least squares through the origin.
fn scale(line: &ArmLoadLine<'_>, at: usize, slo: &LoadLineSlo) -> Option<f64> {
    let limit = LoadLineLimit::from(slo);
    let (mut both, mut squares) = (0.0, 0.0);
    for trial in &line.trials {
        let reading = trial
            .load_line
            .as_ref()
            .and_then(|one| one.readings.get(at));
        let value = trial.stats.limited(slo);
        let Some(reading) = reading.filter(|_| value > 0.0) else {
            continue;
        };
        let margin = limit.margin(&reading.batches);
        // Beyond, a margin says no more than its sign.
        if margin.abs() < 2.0 {
            both += margin * (slo.at_most / value).ln();
            squares += margin * margin;
        }
    }
    (squares > 0.0 && both > 0.0).then(|| both / squares)
}
