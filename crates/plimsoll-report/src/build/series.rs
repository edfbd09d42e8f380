// SPDX-License-Identifier: Apache-2.0
//! Values over the time of a trial, one panel per arm: a cliff, a warm-up or a periodic stall
//! shows here and nowhere else.

use plimsoll_core::event::TrialTimeBin;
use plimsoll_core::num::{ratio, round_u64};

use super::view::{ArmTrials, ResultsView};
use crate::model::{ChartQuantity, ReportChart, ReportFigure, SeriesPanel, TimeSeriesChart};
use crate::words;

/// Most points of a line; longer trials are drawn in longer steps. Wide enough for the eye, small
/// enough that ten systems and ten blocks stay a small page.
const POINTS_MAX: usize = 150;

/// The line of a block: seconds into the trial and value.
type BlockSeriesPoints = Vec<(f64, f64)>;

/// Operations per second, and the highest percentile of response time that one step supports.
pub(super) fn figures(view: &ResultsView<'_>, pools: &[ArmTrials<'_>]) -> Vec<ReportFigure> {
    let steps: Vec<Vec<(u32, Vec<TrialTimeBin>)>> = pools.iter().map(|p| steps(view, p)).collect();
    if steps.iter().flatten().all(|(_, line)| line.len() < 2) {
        return Vec::new();
    }
    let rates = TimeSeriesChart {
        quantity: ChartQuantity::Rate,
        log: false,
        panels: panels(pools, &steps, |step| {
            let ops = step.response.count();
            Some(ratio(ops as f64, step.length.as_secs_f64()))
        }),
    };
    let mut figures = vec![figure("Does the rate hold over the trial?", rates)];
    // Nine steps in ten must support the percentile, or the line would be mostly holes.
    let all: Vec<&TrialTimeBin> = steps.iter().flatten().flat_map(|(_, l)| l).collect();
    let supported = |q: f64| {
        let supports = |s: &&&TrialTimeBin| s.response.supports_quantile(q);
        all.iter().filter(supports).count() * 10 >= all.len() * 9
    };
    let choice = [(0.99, "p99"), (0.9, "p90"), (0.5, "median")];
    if let Some((q, name)) = choice.into_iter().find(|(q, _)| supported(*q)) {
        let times = TimeSeriesChart {
            quantity: ChartQuantity::Duration,
            log: true,
            panels: panels(pools, &steps, |step| {
                let response = &step.response;
                response
                    .supports_quantile(q)
                    .then(|| response.quantile_ns(q) as f64)
            }),
        };
        let title = format!("Does the response time hold over the trial ({name} of each step)?");
        figures.push(figure(&title, times));
    }
    figures
}

/// The chart with how far the end of the trial differs from its beginning.
fn figure(title: &str, chart: TimeSeriesChart) -> ReportFigure {
    let told = chart.panels.iter().filter_map(|panel| {
        let first = panel.blocks.first().map(|(_, line)| line);
        let line = if panel.middle.is_empty() {
            first?
        } else {
            &panel.middle
        };
        let third = line.len() / 3;
        let mean = |part: &[(f64, f64)]| ratio(part.iter().map(|p| p.1).sum(), part.len() as f64);
        let (begin, end) = (mean(&line[..third]), mean(&line[line.len() - third..]));
        let change = end / begin - 1.0;
        let sign = if change < 0.0 { "−" } else { "+" };
        (begin > 0.0).then(|| {
            let change = words::percent(change.abs());
            format!("{} {sign}{change}", panel.ink.label())
        })
    });
    let told: Vec<String> = told.collect();
    let answer = match told.is_empty() {
        true => "The trials are too short to tell.".into(),
        false => format!("From the first third to the last: {}.", told.join(", ")),
    };
    ReportFigure::new(title, answer, ReportChart::Series(chart))
}

/// The intervals of each trial, joined to at most [`POINTS_MAX`] steps.
pub(super) fn steps(view: &ResultsView<'_>, pool: &ArmTrials<'_>) -> Vec<(u32, Vec<TrialTimeBin>)> {
    let trials = pool.trials.iter();
    let found = trials.filter_map(|t| {
        let intervals = view.results.intervals.get(&t.trial.place)?;
        let each = intervals.len().div_ceil(POINTS_MAX).max(1);
        Some((t.trial.block, intervals.chunks(each).map(joined).collect()))
    });
    found.collect()
}

fn joined(chunk: &[TrialTimeBin]) -> TrialTimeBin {
    let mut whole = chunk[0].clone();
    chunk[1..].iter().for_each(|next| whole.join(next));
    whole
}

fn panels(
    pools: &[ArmTrials<'_>],
    steps: &[Vec<(u32, Vec<TrialTimeBin>)>],
    value: impl Fn(&TrialTimeBin) -> Option<f64>,
) -> Vec<SeriesPanel> {
    let line = |steps: &[TrialTimeBin]| -> BlockSeriesPoints {
        let middle = |s: &TrialTimeBin| s.start.as_secs_f64() + s.length.as_secs_f64() / 2.0;
        steps
            .iter()
            .filter_map(|s| Some((middle(s), value(s)?)))
            .collect()
    };
    let panel = |(pool, steps): (&ArmTrials<'_>, &Vec<(u32, Vec<TrialTimeBin>)>)| {
        let blocks: Vec<(u32, BlockSeriesPoints)> =
            steps.iter().map(|(b, s)| (*b, line(s))).collect();
        SeriesPanel {
            ink: pool.ink.clone(),
            middle: median(&blocks),
            blocks,
        }
    };
    pools.iter().zip(steps).map(panel).collect()
}

/// Median over the blocks, step by step; empty for one block.
fn median(blocks: &[(u32, BlockSeriesPoints)]) -> BlockSeriesPoints {
    if blocks.len() < 2 {
        return Vec::new();
    }
    let longest = blocks
        .iter()
        .map(|(_, line)| line)
        .max_by_key(|line| line.len());
    let Some(grid) = longest else {
        return Vec::new();
    };
    let step = grid
        .get(1)
        .map_or(1.0, |second| second.0 - grid[0].0)
        .max(1e-9);
    let slot = |t: f64| round_u64((t - grid[0].0) / step);
    let at = |t: f64| {
        let values = blocks.iter().filter_map(|(_, line)| {
            let near = line.iter().find(|(x, _)| slot(*x) == slot(t))?;
            Some(near.1)
        });
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let upper = values.len() / 2;
        match values.len() {
            0 => None,
            n if n % 2 == 1 => Some((t, values[upper])),
            _ => Some((t, f64::midpoint(values[upper - 1], values[upper]))),
        }
    };
    grid.iter().filter_map(|(t, _)| at(*t)).collect()
}
