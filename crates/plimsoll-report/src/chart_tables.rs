// SPDX-License-Identifier: Apache-2.0
//! Charts as tables: what a drawing shows, for those who cannot see it and those who want the figures.
//!
//! Long lines are thinned; exports hold every value.

use plimsoll_core::num::ratio;
use plimsoll_core::units;
use std::collections::BTreeSet;

use crate::model::{
    ChartQuantity, DotChart, HeatMapChart, LoadCurveChart, OutageChart, PercentileChart,
    ReportChart, ReportFigure, ReportTable, ReportTableCell, TimeSeriesChart, TimelineChart,
    WaterfallChart,
};
use crate::words;

/// Most rows for one arm.
const ROWS_MAX: usize = 24;
/// Percentiles that curves are read at.
const PERCENTILES: [(f64, &str); 5] = [
    (0.5, "#p50"),
    (0.9, "#p90"),
    (0.99, "#p99"),
    (0.999, "#p99.9"),
    (0.9999, "#p99.99"),
];

/// The table of a figure; none where another one beside it says the same.
pub(crate) fn table(figure: &ReportFigure) -> Option<ReportTable> {
    if figure.has_table_beside {
        return None;
    }
    let mut table = match &figure.chart {
        // These stand beside the tables that they are drawn from.
        ReportChart::Forest(_) => return None,
        ReportChart::Waterfall(chart) => waterfall(chart),
        ReportChart::HeatMap(chart) => heat_map(chart),
        ReportChart::Outages(chart) => outages(chart),
        ReportChart::Curves(chart) => percentiles(chart),
        ReportChart::LoadCurves(chart) => load_curves(chart),
        ReportChart::Dots(chart) => dots(chart),
        ReportChart::Series(chart) => series(chart),
        ReportChart::Timeline(chart) => timeline(chart),
    };
    table.caption.clone_from(&figure.title);
    (!table.rows.is_empty()).then_some(table)
}

fn seconds(value: f64) -> ReportTableCell {
    ReportTableCell::new(units::three_digits(value)).value(value)
}

fn whole(value: u64) -> ReportTableCell {
    ReportTableCell::new(value.to_string()).value(value as f64)
}

/// Step between the rows that are kept of `count`, so that no more than [`ROWS_MAX`] remain.
fn stride(count: usize) -> usize {
    count.div_ceil(ROWS_MAX).max(1)
}

fn thinned(count: usize) -> Vec<String> {
    match stride(count) {
        1 => Vec::new(),
        each => vec![format!(
            "One value of every {each}; plimsoll report --csv and the other exports have all."
        )],
    }
}

fn waterfall(chart: &WaterfallChart) -> ReportTable {
    let mut table = ReportTable::new("", &["Workload", "Layer", "#Value", "Of the layer below"]);
    for panel in &chart.panels {
        for step in &panel.steps {
            table.rows.push(vec![
                ReportTableCell::new(panel.title.clone()),
                ReportTableCell::new(step.label.clone()),
                ReportTableCell::number(panel.quantity, step.value),
                ReportTableCell::new(step.text.clone()).tone(step.tone),
            ]);
        }
    }
    table
}

/// Columns joined, each with its operations and how they lie.
fn heat_map(chart: &HeatMapChart) -> ReportTable {
    let columns = [
        "System",
        "#From, s",
        "#Operations",
        "#p50 at most",
        "#p99 at most",
    ];
    let mut table = ReportTable::new("", &columns);
    for panel in &chart.panels {
        let part = ratio(chart.length_s, panel.columns.len() as f64);
        let each = panel.columns.len().div_ceil(ROWS_MAX / 2).max(1);
        for (i, columns) in panel.columns.chunks(each).enumerate() {
            let mut counts = vec![0_u64; chart.edges_ns.len().saturating_sub(1)];
            for column in columns {
                counts
                    .iter_mut()
                    .zip(column)
                    .for_each(|(sum, count)| *sum += count);
            }
            let total: u64 = counts.iter().sum();
            let mut row = vec![
                ReportTableCell::new(panel.ink.label()),
                seconds(part * (i * each) as f64),
                whole(total),
            ];
            row.extend([0.5, 0.99].map(|q| edge_of(&counts, &chart.edges_ns, q)));
            table.rows.push(row);
        }
    }
    table
}

/// The upper edge of the row in which a quantile lies.
fn edge_of(counts: &[u64], edges_ns: &[f64], q: f64) -> ReportTableCell {
    let total: u64 = counts.iter().sum();
    let mut below = 0;
    let row = counts.iter().position(|count| {
        below += count;
        below as f64 >= total as f64 * q && below > 0
    });
    match row.and_then(|row| edges_ns.get(row + 1)) {
        Some(edge) => ReportTableCell::number(ChartQuantity::Duration, *edge),
        None => words::dash(),
    }
}

fn outages(chart: &OutageChart) -> ReportTable {
    let mut table = ReportTable::new("", &["Fault", "#Writes still, s", "#Reads still, s"]);
    let cell = |span: Option<(f64, f64, bool)>| {
        span.map_or_else(words::dash, |(from, to, _)| seconds(to - from))
    };
    for row in &chart.rows {
        let name = ReportTableCell::new(row.label.clone());
        table
            .rows
            .push(vec![name, cell(row.writes), cell(row.reads)]);
    }
    table
}

fn percentiles(chart: &PercentileChart) -> ReportTable {
    let mut columns = vec!["System"];
    columns.extend(PERCENTILES.map(|(_, name)| name));
    let mut table = ReportTable::new("", &columns);
    for line in &chart.lines {
        let at = |(q, _): (f64, &str)| {
            let found = line.points.iter().find(|(at, _)| *at >= q - 1e-6);
            let cell = found.map(|(_, ns)| ReportTableCell::number(ChartQuantity::Duration, *ns));
            let band = line.band.iter().find(|(at, ..)| *at >= q - 1e-6);
            let range = band.map_or(String::new(), |(_, low, high)| {
                words::between(*low, *high, ChartQuantity::Duration)
            });
            cell.map_or_else(words::dash, |cell| cell.detail(range))
        };
        let mut row = vec![ReportTableCell::new(line.ink.label())];
        row.extend(PERCENTILES.map(at));
        table.rows.push(row);
    }
    table
}

fn load_curves(chart: &LoadCurveChart) -> ReportTable {
    let load = format!("#Load, {}", chart.load);
    let value = format!("#{}", chart.limit.0.split(" < ").next().unwrap_or("value"));
    let columns = ["System", &load, &value, "#Length, s", "Backlog"];
    let mut table = ReportTable::new("", &columns);
    for curve in &chart.curves {
        for point in &curve.points {
            table.rows.push(vec![
                ReportTableCell::new(curve.ink.label()),
                seconds(point.load),
                ReportTableCell::number(chart.quantity, point.value),
                seconds(point.length_s),
                ReportTableCell::new(if point.kept_up { "steady" } else { "grew" }),
            ]);
        }
    }
    table
}

fn dots(chart: &DotChart) -> ReportTable {
    let each = format!("#{}", chart.each);
    let panels: Vec<String> = chart
        .panels
        .iter()
        .map(|panel| format!("#{}", panel.title))
        .collect();
    let mut columns = vec![chart.row, each.as_str()];
    columns.extend(panels.iter().map(String::as_str));
    let mut table = ReportTable::new("", &columns);
    for (i, ink) in chart.arms.iter().enumerate() {
        let numbers = chart.panels.iter().filter_map(|panel| panel.values.get(i));
        let numbers = numbers.flatten().map(|(number, _)| *number);
        for number in numbers.collect::<BTreeSet<_>>() {
            let mut row = vec![
                ReportTableCell::new(ink.label()),
                whole(u64::from(number) + 1),
            ];
            row.extend(chart.panels.iter().map(|panel| {
                let mut values = panel.values.get(i).into_iter().flatten();
                let found = values.find(|(of, _)| *of == number);
                found.map_or_else(words::dash, |(_, value)| {
                    ReportTableCell::number(panel.quantity, *value)
                })
            }));
            // A block in which this arm has no trial.
            if row.iter().skip(2).any(|cell| cell.value.is_some()) {
                table.rows.push(row);
            }
        }
    }
    table
}

fn series(chart: &TimeSeriesChart) -> ReportTable {
    let columns = [
        "System",
        "#Second",
        "#Median of blocks",
        "#Lowest",
        "#Highest",
    ];
    let mut table = ReportTable::new("", &columns);
    let mut longest = 0;
    for panel in &chart.panels {
        let middle: Vec<(f64, f64)> = match panel.middle.is_empty() {
            true => panel
                .blocks
                .first()
                .map(|(_, line)| line.clone())
                .unwrap_or_default(),
            false => panel.middle.clone(),
        };
        longest = longest.max(middle.len());
        for (second, value) in middle.iter().step_by(stride(middle.len())) {
            let near = panel.blocks.iter().filter_map(|(_, line)| {
                let at = line.iter().find(|(at, _)| (at - second).abs() < 0.5)?;
                Some(at.1)
            });
            let near: Vec<f64> = near.chain([*value]).collect();
            let low = near.iter().copied().fold(f64::INFINITY, f64::min);
            let high = near.iter().copied().fold(0.0, f64::max);
            table.rows.push(vec![
                ReportTableCell::new(panel.ink.label()),
                seconds(*second),
                ReportTableCell::number(chart.quantity, *value),
                ReportTableCell::number(chart.quantity, low),
                ReportTableCell::number(chart.quantity, high),
            ]);
        }
    }
    table.notes = thinned(longest);
    table
}

fn timeline(chart: &TimelineChart) -> ReportTable {
    let columns = ["Figure", "#From, s", "#To, s", "#Value"];
    let mut table = ReportTable::new("", &columns);
    let mut longest = 0;
    for panel in &chart.panels {
        for line in &panel.lines {
            longest = longest.max(line.steps.len());
            for (from, to, value) in line.steps.iter().step_by(stride(line.steps.len())) {
                let name = match panel.lines.len() {
                    1 => panel.title.clone(),
                    _ => format!("{}, {}", panel.title, line.ink.label()),
                };
                table.rows.push(vec![
                    ReportTableCell::new(name),
                    seconds(*from),
                    seconds(*to),
                    ReportTableCell::number(panel.quantity, *value),
                ]);
            }
        }
    }
    table.notes = thinned(longest);
    table
}
