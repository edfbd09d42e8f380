// SPDX-License-Identifier: Apache-2.0
//! Response times over the trial: time to the right, response time upwards on a logarithmic axis, the
//! number of operations as shade. Cells of a shade that touch upwards are one shape.

use super::scale::{AxisScale, linear_ticks, log_ticks};
use super::{Anchor, Canvas, WIDTH, fit, ink_class};
use crate::model::{ChartQuantity, HeatMapChart, HeatMapPanel};
use crate::put::put;
use plimsoll_core::num::{round_u64, to_usize};

const LEFT: f64 = 64.0;
const GAP: f64 = 18.0;
const TITLE: f64 = 22.0;
const HEIGHT: f64 = 150.0;
/// Most panels side by side.
const ACROSS: usize = 3;
/// Shades between no operation and the most.
const SHADES: usize = 5;

pub(super) fn draw(chart: &HeatMapChart) -> Canvas {
    let mut canvas = Canvas::new();
    let across = chart.panels.len().clamp(1, ACROSS);
    let width = (WIDTH - LEFT - GAP * (across as f64 - 1.0)) / across as f64;
    let below = TITLE + HEIGHT + 24.0;
    let all = chart
        .panels
        .iter()
        .flat_map(|panel| panel.columns.iter().flatten());
    let most = all.copied().max().unwrap_or(1).max(1);
    for (i, panel) in chart.panels.iter().enumerate() {
        let left = LEFT + (width + GAP) * (i % across) as f64;
        let top = below * (i / across) as f64 + TITLE;
        draw_panel(&mut canvas, (chart, panel), (left, top, width), most);
        if i % across == 0 {
            let y = scale(chart, top);
            for (value, label) in log_ticks(y.from, y.to) {
                canvas.text((LEFT - 8.0, y.at(value) + 4.0), Anchor::End, "", &label);
            }
        }
    }
    let height = below * chart.panels.len().div_ceil(across) as f64;
    let note = "seconds into the trial, all blocks together; darker: more operations";
    canvas.text((WIDTH, height + 14.0), Anchor::End, "muted", note);
    canvas.finish(height + 20.0)
}

fn scale(chart: &HeatMapChart, top: f64) -> AxisScale {
    AxisScale::new(
        [
            chart.edges_ns.first().copied().unwrap_or(1.0),
            chart.edges_ns.last().copied().unwrap_or(2.0),
        ],
        [top + HEIGHT, top],
        true,
    )
}

fn draw_panel(
    canvas: &mut Canvas,
    (chart, panel): (&HeatMapChart, &HeatMapPanel),
    (left, top, width): (f64, f64, f64),
    most: u64,
) {
    let class = ink_class(&panel.ink);
    let y = scale(chart, top);
    canvas.begin_series(&panel.ink.label());
    let title = fit(&panel.ink.label(), width);
    canvas.text(
        (left, top - 8.0),
        Anchor::Start,
        &format!("ink {class}"),
        &title,
    );
    let each = width / panel.columns.len().max(1) as f64;
    for shade in 1..=SHADES {
        let mut d = String::new();
        for (column, counts) in panel.columns.iter().enumerate() {
            let x = left + each * column as f64;
            for (from, to) in runs(counts, shade, most) {
                let (low, high) = (y.at(chart.edges_ns[from]), y.at(chart.edges_ns[to]));
                put!(d, "M{x:.1} {low:.1}V{high:.1}h{each:.2}V{low:.1}z");
            }
        }
        if !d.is_empty() {
            let tip = format!("{}: {} a cell", panel.ink.label(), of_shade(shade, most));
            canvas.shape(&d, &format!("heat h{shade} {class}"), &tip);
        }
    }
    canvas.end_series();
    let bottom = top + HEIGHT;
    canvas.line((left, bottom), (left + width, bottom), "axis");
    let x = AxisScale::new([0.0, chart.length_s], [left, left + width], false);
    for (value, label) in linear_ticks(chart.length_s, ChartQuantity::Number, 4.0).0 {
        let anchor = match value {
            first if first <= 0.0 => Anchor::Start,
            last if last > chart.length_s * 0.95 => Anchor::End,
            _ => Anchor::Middle,
        };
        canvas.text((x.at(value), bottom + 15.0), anchor, "", &label);
    }
}

/// Rows of a column that have this shade, as runs of neighbours.
fn runs(counts: &[u64], shade: usize, most: u64) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (row, _) in counts
        .iter()
        .enumerate()
        .filter(|(_, n)| shade_of(**n, most) == shade)
    {
        match runs.last_mut() {
            Some((_, end)) if *end == row => *end = row + 1,
            _ => runs.push((row, row + 1)),
        }
    }
    runs
}

/// 0 of nothing, else 1 to [`SHADES`] on a logarithmic scale: the few slow ones must be seen.
fn shade_of(count: u64, most: u64) -> usize {
    if count == 0 {
        return 0;
    }
    let share = (count as f64).ln_1p() / (most as f64).ln_1p();
    to_usize(round_u64((share * SHADES as f64).ceil())).clamp(1, SHADES)
}

/// The numbers that a shade stands for: `10 to 99 operations`.
fn of_shade(shade: usize, most: u64) -> String {
    let end = |shade: usize| ((most as f64).ln_1p() * shade as f64 / SHADES as f64).exp_m1();
    let from = round_u64(end(shade - 1).floor()) + 1;
    let to = round_u64(end(shade).floor()).max(from).min(most.max(from));
    match from == to {
        true => format!("operations: {from}"),
        false => format!("operations: {from} to {to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_cover_all_counts_and_meet() {
        for most in [1, 2, 7, 100, 1_000_000] {
            assert_eq!((shade_of(0, most), shade_of(most, most)), (0, SHADES));
            let shades: Vec<usize> = (1..=most.min(2_000)).map(|n| shade_of(n, most)).collect();
            assert!(shades.is_sorted() && shades.iter().all(|s| (1..=SHADES).contains(s)));
        }
        assert_eq!(of_shade(SHADES, 1), "operations: 1");
        assert_eq!(runs(&[0, 5, 5, 0, 5], shade_of(5, 5), 5), [(1, 3), (4, 5)]);
    }
}
