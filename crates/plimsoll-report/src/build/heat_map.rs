// SPDX-License-Identifier: Apache-2.0
//! Response times over the trial, as counts: several levels, and stalls that come in turns, show here
//! where lines of percentiles hide them.

use plimsoll_core::event::TrialTimeBin;
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::{floor_u64, ratio, to_usize};
use plimsoll_core::units::{self, Nanos};

use super::series::steps;
use super::view::{ArmTrials, ResultsView};
use crate::model::{HeatMapChart, HeatMapPanel, ReportChart, ReportFigure};
use crate::words;

/// Most columns and rows of a panel: small enough for a page, wide enough for the eye.
const COLUMNS_MAX: usize = 60;
const ROWS: usize = 24;
/// Fewest columns that show anything of time.
const COLUMNS_MIN: usize = 4;

/// Quantile from which an operation counts as slow: the slowest 1 %.
const SLOW: f64 = 0.99;

/// All blocks of an arm in one panel, second on second; none where trials are too short.
pub(super) fn figure(view: &ResultsView<'_>, pools: &[ArmTrials<'_>]) -> Option<ReportFigure> {
    let bins = pools.iter().map(|pool| steps(view, pool).into_iter());
    let bins = bins.map(|trials| trials.flat_map(|(_, bins)| bins).collect());
    let bins: Vec<Vec<TrialTimeBin>> = bins.collect();
    let all = || bins.iter().flatten();
    let end = all().map(|bin| bin.start + bin.length).max()?.as_secs_f64();
    // A column narrower than the steps would be a hole between two of them.
    let step = all().map(|bin| bin.length).max()?.as_secs_f64();
    let part = step.max(end / COLUMNS_MAX as f64);
    let last = all().map(|bin| column(bin, part)).max()?;
    let (columns, length_s) = (last + 1, part * (last + 1) as f64);
    let low = all().filter(|bin| !bin.response.is_empty());
    let low = low.map(|bin| bin.response.min_ns()).min()?.max(1) as f64;
    let high = all().map(|bin| bin.response.max_ns()).max()? as f64;
    if columns < COLUMNS_MIN {
        return None;
    }
    let edges_ns = edges(low, high.max(low * 2.0));
    let mut told = Vec::new();
    let mut panels = Vec::new();
    for (pool, bins) in pools.iter().zip(&bins).filter(|(_, bins)| !bins.is_empty()) {
        let joined = joined(bins, columns, part);
        told.extend(slow_times(&joined, length_s).map(|text| format!("{} {text}", pool.name())));
        panels.push(HeatMapPanel {
            ink: pool.ink.clone(),
            columns: joined.iter().map(|times| rows(times, &edges_ns)).collect(),
        });
    }
    let chart = HeatMapChart {
        length_s,
        edges_ns,
        panels,
    };
    let answer = match told.is_empty() {
        true => "Too few operations to say where the slow ones are.".into(),
        false => format!(
            "The slowest 1 %: {}. Darker: more operations.",
            told.join("; ")
        ),
    };
    let title = "When are operations slow, and is there more than one level?";
    Some(ReportFigure::new(
        title,
        answer,
        ReportChart::HeatMap(chart),
    ))
}

/// The column in which the middle of a step lies.
fn column(bin: &TrialTimeBin, part: f64) -> usize {
    let middle = bin.start.as_secs_f64() + bin.length.as_secs_f64() / 2.0;
    to_usize(floor_u64(ratio(middle, part)))
}

/// The steps in columns of equal length.
fn joined(bins: &[TrialTimeBin], columns: usize, part: f64) -> Vec<Histogram> {
    let mut joined = vec![Histogram::default(); columns];
    for bin in bins {
        joined[column(bin, part).min(columns - 1)].merge(&bin.response);
    }
    joined
}

/// Edges of the rows, equally far apart on a logarithmic axis.
fn edges(low: f64, high: f64) -> Vec<f64> {
    let step = (high / low).powf(1.0 / ROWS as f64);
    let edge = |row: usize| low * step.powi(i32::try_from(row).unwrap_or(0));
    (0..=ROWS).map(edge).collect()
}

fn rows(times: &Histogram, edges_ns: &[f64]) -> Vec<u64> {
    let mut rows = vec![0; ROWS];
    for (upper, count) in times.buckets() {
        let above = edges_ns.partition_point(|edge| *edge < upper as f64);
        rows[above.saturating_sub(1).min(ROWS - 1)] += count;
    }
    rows
}

/// Where the slowest operations fall: spread over the trial, or into one part of it.
fn slow_times(columns: &[Histogram], length_s: f64) -> Option<String> {
    let mut all = Histogram::default();
    columns.iter().for_each(|column| all.merge(column));
    if !all.supports_quantile(SLOW) {
        return None;
    }
    let limit = all.quantile_ns(SLOW);
    let slow = |times: &Histogram| -> u64 {
        let beyond = times.buckets().filter(|(upper, _)| *upper > limit);
        beyond.map(|(_, count)| count).sum()
    };
    let each: Vec<u64> = columns.iter().map(slow).collect();
    let total: u64 = each.iter().sum();
    let (at, most) = each.iter().enumerate().max_by_key(|(_, count)| **count)?;
    let share = ratio(*most as f64, total as f64);
    // Of as many as there are, three times its part is more than chance gives a column.
    let is_even = share < 3.0 / columns.len() as f64 || *most < 10;
    let part = length_s / columns.len() as f64;
    let clock = |seconds: f64| units::clock_duration(Nanos::from_secs_f64(seconds));
    Some(match is_even {
        true => "spread over the whole trial".into(),
        false => format!(
            "{} of them from {} to {}",
            words::percent(share),
            clock(part * at as f64),
            clock(part * (at + 1) as f64)
        ),
    })
}
