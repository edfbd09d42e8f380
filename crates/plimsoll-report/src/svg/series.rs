// SPDX-License-Identifier: Apache-2.0
//! Small multiples over the time of a trial: a thin line per block, a strong one at their median.

use super::scale::{AxisScale, linear_ticks, log_ticks};
use super::{Anchor, Canvas, WIDTH, fit, ink_class};
use crate::model::{SeriesPanel, TimeSeriesChart};

const LEFT: f64 = 64.0;
const GAP: f64 = 18.0;
const HEIGHT: f64 = 110.0;
const TITLE: f64 = 22.0;
/// Most panels side by side: more would be too narrow to read.
const ACROSS: usize = 4;

/// The axes that all panels share.
struct Axes {
    seconds: f64,
    from: f64,
    to: f64,
    ticks: Vec<(f64, String)>,
}

pub(super) fn draw(series: &TimeSeriesChart) -> Canvas {
    let mut canvas = Canvas::new();
    let (axes, unit) = axes(series);
    let across = series.panels.len().clamp(1, ACROSS);
    let width = (WIDTH - LEFT - GAP * (across as f64 - 1.0)) / across as f64;
    let below = TITLE + HEIGHT + 22.0;
    for (i, panel) in series.panels.iter().enumerate() {
        let left = LEFT + (width + GAP) * (i % across) as f64;
        let top = below * (i / across) as f64 + TITLE;
        draw_panel(&mut canvas, series, panel, &axes, (left, top, width));
        if i % across == 0 {
            let y = y_scale(series, &axes, top);
            for (value, label) in &axes.ticks {
                canvas.text((LEFT - 8.0, y.at(*value) + 4.0), Anchor::End, "", label);
            }
            canvas.text((LEFT - 8.0, top - 10.0), Anchor::End, "muted", unit);
        }
    }
    let rows = series.panels.len().div_ceil(across);
    let height = below * rows as f64;
    let several = series.panels.iter().any(|p| p.blocks.len() > 1);
    let note = if several {
        "seconds into the trial; thin lines: blocks; strong line: their median"
    } else {
        "seconds into the trial"
    };
    canvas.text((WIDTH, height + 14.0), Anchor::End, "muted", note);
    canvas.finish(height + 20.0)
}

fn axes(series: &TimeSeriesChart) -> (Axes, &'static str) {
    let points = || {
        let lines = series.panels.iter().flat_map(|p| &p.blocks);
        lines.flat_map(|(_, line)| line)
    };
    let seconds = points().map(|p| p.0).fold(1.0, f64::max);
    let max = points().map(|p| p.1).fold(0.0, f64::max).max(1e-9);
    let min = points().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let (from, to, (ticks, unit)) = if series.log {
        let (from, to) = (min.clamp(1.0, max.max(2.0) / 1.5) / 1.1, max.max(2.0) * 1.1);
        (from, to, (log_ticks(from, to), ""))
    } else {
        (
            0.0,
            max * 1.05,
            linear_ticks(max * 1.05, series.quantity, 3.0),
        )
    };
    let axes = Axes {
        seconds: seconds * 1.01,
        from,
        to,
        ticks: thinned(ticks, from, to, series.log),
    };
    (axes, unit)
}

/// The ticks whose labels do not touch, lowest first.
fn thinned(ticks: Vec<(f64, String)>, from: f64, to: f64, log: bool) -> Vec<(f64, String)> {
    let scale = AxisScale::new([from, to], [0.0, HEIGHT], log);
    let mut last = f64::NEG_INFINITY;
    let apart = |(value, _): &(f64, String)| {
        let clear = scale.at(*value) - last >= 15.0;
        if clear {
            last = scale.at(*value);
        }
        clear
    };
    ticks.into_iter().filter(apart).collect()
}

fn y_scale(series: &TimeSeriesChart, axes: &Axes, top: f64) -> AxisScale {
    AxisScale::new([axes.from, axes.to], [top + HEIGHT, top], series.log)
}

fn draw_panel(
    canvas: &mut Canvas,
    series: &TimeSeriesChart,
    panel: &SeriesPanel,
    axes: &Axes,
    (left, top, width): (f64, f64, f64),
) {
    let class = ink_class(&panel.ink);
    let y = y_scale(series, axes, top);
    let x = AxisScale::new([0.0, axes.seconds], [left, left + width], false);
    canvas.begin_series(&panel.ink.label());
    let title = fit(&panel.ink.label(), width);
    canvas.text(
        (left, top - 10.0),
        Anchor::Start,
        &format!("ink {class}"),
        &title,
    );
    for (value, _) in &axes.ticks {
        canvas.line((left, y.at(*value)), (left + width, y.at(*value)), "grid");
    }
    canvas.line((left, top + HEIGHT), (left + width, top + HEIGHT), "axis");
    // Seconds are dimensionless here, so that 1500 s are not relabelled.
    let (ticks, _) = linear_ticks(axes.seconds, crate::model::ChartQuantity::Rate, 4.0);
    for (value, label) in ticks {
        // Labels at the ends stay inside, or those of neighbours would touch.
        let anchor = if value <= 0.0 {
            Anchor::Start
        } else if value > axes.seconds * 0.95 {
            Anchor::End
        } else {
            Anchor::Middle
        };
        let at = (x.at(value), top + HEIGHT + 15.0);
        canvas.text(at, anchor, "", &label);
    }
    let at = |line: &[(f64, f64)]| -> Vec<(f64, f64)> {
        line.iter().map(|(s, v)| (x.at(*s), y.at(*v))).collect()
    };
    let thin = if panel.blocks.len() > 1 {
        "thin"
    } else {
        "middle"
    };
    for (block, line) in &panel.blocks {
        let title = match line_range(line) {
            Some((low, high)) => format!(
                "{}, block {}: {}",
                panel.ink.label(),
                block + 1,
                crate::words::between(low, high, series.quantity)
            ),
            None => String::new(),
        };
        canvas.path(&at(line), &format!("{thin} {class}"), &title);
    }
    let title = format!("{}, median of the blocks", panel.ink.label());
    canvas.path(&at(&panel.middle), &format!("middle {class}"), &title);
    canvas.end_series();
}

/// Lowest and highest value of a line.
fn line_range(line: &[(f64, f64)]) -> Option<(f64, f64)> {
    let values = line.iter().map(|point| point.1);
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    (low <= high).then_some((low, high))
}
