// SPDX-License-Identifier: Apache-2.0
//! Published tables with ours in the same rows and columns.

use plimsoll_core::experiment::{
    ExperimentCell, ExperimentColumn, ExperimentFigure, ExperimentFinding, ExperimentRow,
    ExperimentRowResult, ExperimentTable, ExperimentTableResult, ExperimentUnit, ExperimentValue,
};
use plimsoll_core::units;

use super::find::{ExperimentMaterials, found, mean_of};

/// A table beside its published one.
pub(super) fn beside(
    table: &ExperimentTable,
    parts: &ExperimentMaterials,
) -> ExperimentTableResult {
    let mut rows = Vec::new();
    for (at, row) in table.row.iter().enumerate() {
        rows.push(row_of(table, row, parts));
        let is_group_over = table
            .row
            .get(at + 1)
            .is_none_or(|next| next.run.is_none() || next.labels != row.labels);
        if row.run.is_some() && is_group_over {
            rows.push(mean_row(table, row, parts));
        }
    }
    let mut labels = table.labels.clone();
    if has_runs(table) {
        labels.push("run".into());
    }
    let heading = |column: &ExperimentColumn| match column.unit {
        Some(unit) if !unit.name().is_empty() => format!("{}, {}", column.name, unit.name()),
        _ => column.name.clone(),
    };
    let title = match table.unit.name() {
        "" => table.title.clone(),
        unit => format!("{} ({unit})", table.title),
    };
    let base = table.base_row.as_ref().or(table.base_column.as_ref());
    ExperimentTableResult {
        name: table.name.clone(),
        title,
        labels,
        columns: table.column.iter().map(heading).collect(),
        base: base.cloned().unwrap_or_default(),
        rows,
        notes: table.notes.clone(),
    }
}

fn has_runs(table: &ExperimentTable) -> bool {
    table.row.iter().any(|row| row.run.is_some())
}

fn row_of(
    table: &ExperimentTable,
    row: &ExperimentRow,
    parts: &ExperimentMaterials,
) -> ExperimentRowResult {
    let cell = |(at, text): (usize, &str)| {
        let published = text.parse::<f64>().ok();
        let base = base_of(table, row, at);
        let published_base = base.and_then(|(row, at)| row.figures().nth(at)?.parse::<f64>().ok());
        let ratio = published.zip(published_base);
        ExperimentCell {
            published: text.trim_start_matches('-').into(),
            published_interval: None,
            unit: unit_of(table, row, at),
            ours: ours(table, row, at, parts),
            published_ratio: ratio.and_then(|(value, base)| quotient(value, base)),
            our_ratio: our_ratio(table, (row, at), base, parts),
        }
    };
    let mut labels = row.labels.clone();
    if has_runs(table) {
        labels.push(row.run.map_or(String::new(), |run| run.to_string()));
    }
    ExperimentRowResult {
        labels,
        is_mean: false,
        not_here: row.not_here.clone(),
        cells: row.figures().enumerate().map(cell).collect(),
    }
}

/// The mean of all runs of what a row is a run of.
fn mean_row(
    table: &ExperimentTable,
    last: &ExperimentRow,
    parts: &ExperimentMaterials,
) -> ExperimentRowResult {
    let runs = || {
        let same = |row: &&ExperimentRow| row.labels == last.labels && row.run.is_some();
        table.row.iter().filter(same)
    };
    let published = |at: usize| {
        let figures = runs().filter_map(|row| row.figures().nth(at)?.parse::<f64>().ok());
        mean_of((0..).zip(figures).collect())
    };
    let all = ExperimentRow {
        run: None,
        ..last.clone()
    };
    let cell = |at: usize| {
        let mean = published(at);
        let base = base_of(table, &all, at);
        let published_base = base.map(|(_, at)| published(at).value);
        let is_of_rows = table.base_row.is_some();
        let ratio = published_base.filter(|_| !is_of_rows);
        ExperimentCell {
            published: match mean.blocks.is_empty() {
                true => String::new(),
                false => units::three_digits(mean.value),
            },
            published_interval: mean.interval,
            unit: unit_of(table, &all, at),
            ours: ours(table, &all, at, parts),
            published_ratio: ratio.and_then(|base| quotient(mean.value, base)),
            our_ratio: our_ratio(table, (&all, at), base, parts),
        }
    };
    let mut labels = last.labels.clone();
    labels.push("mean".into());
    ExperimentRowResult {
        labels,
        is_mean: true,
        not_here: last.not_here.clone(),
        cells: (0..table.column.len()).map(cell).collect(),
    }
}

fn quotient(value: f64, base: f64) -> Option<f64> {
    (base.abs() > 0.0).then_some(value / base)
}

fn unit_of(table: &ExperimentTable, row: &ExperimentRow, at: usize) -> ExperimentUnit {
    let column = table.column.get(at).and_then(|column| column.unit);
    row.unit.or(column).unwrap_or(table.unit)
}

/// The cell that a cell is a ratio to, unless it is that itself.
fn base_of<'a>(
    table: &'a ExperimentTable,
    row: &'a ExperimentRow,
    at: usize,
) -> Option<(&'a ExperimentRow, usize)> {
    if let Some(name) = &table.base_row {
        let is_base = |row: &&ExperimentRow| row.labels.first() == Some(name);
        let base = table.row.iter().find(is_base)?;
        return (base.labels != row.labels).then_some((base, at));
    }
    let name = table.base_column.as_ref()?;
    let base = table
        .column
        .iter()
        .position(|column| column.name == *name)?;
    (base != at).then_some((row, base))
}

/// Where ours stands; `Err`: why there is none.
fn figure(
    table: &ExperimentTable,
    row: &ExperimentRow,
    at: usize,
) -> Result<ExperimentFigure, String> {
    let column = table.column.get(at).ok_or("there is no such column")?;
    match row.not_here.as_ref().or(column.not_here.as_ref()) {
        Some(why) => Err(why.clone()),
        None => Ok(table.ours.with(&row.ours).with(&column.ours)),
    }
}

fn ours(
    table: &ExperimentTable,
    row: &ExperimentRow,
    at: usize,
    parts: &ExperimentMaterials,
) -> ExperimentFinding {
    match figure(table, row, at) {
        Ok(figure) => of_run(found(parts, &figure), row.run),
        Err(why) => ExperimentFinding::Missing(why),
    }
}

/// Of a row that is one run, the block of that number.
fn of_run(found: ExperimentFinding, run: Option<u32>) -> ExperimentFinding {
    let (ExperimentFinding::Number(value), Some(run)) = (&found, run) else {
        return found;
    };
    let mut blocks = value.blocks.iter();
    match blocks.find(|(block, _)| block + 1 == run) {
        Some((block, one)) => ExperimentFinding::Number(mean_of(vec![(*block, *one)])),
        None => ExperimentFinding::Missing(format!("{} blocks were run", value.blocks.len())),
    }
}

fn our_ratio(
    table: &ExperimentTable,
    (row, at): (&ExperimentRow, usize),
    base: Option<(&ExperimentRow, usize)>,
    parts: &ExperimentMaterials,
) -> Option<ExperimentValue> {
    let (base_row, base_at) = base?;
    let above = figure(table, row, at).ok()?;
    let below = figure(table, base_row, base_at).ok()?;
    // A cell that is a ratio already has no base.
    if above.over.is_some() || below.over.is_some() {
        return None;
    }
    let whole = ExperimentFigure {
        over: Some(Box::new(below)),
        ..above
    };
    match of_run(found(parts, &whole), row.run) {
        ExperimentFinding::Number(value) => Some(value),
        _ => None,
    }
}
