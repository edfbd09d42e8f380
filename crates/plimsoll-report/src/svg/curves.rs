// SPDX-License-Identifier: Apache-2.0
//! Percentile curves: the share of operations beyond, from all to one in a million, against time.

use super::scale::{AxisScale, log_ticks};
use super::{Anchor, Canvas, WIDTH, fit, ink_class};
use crate::model::{ChartQuantity, PercentileChart, PercentileLine};
use crate::words;

const LEFT: f64 = 64.0;
const RIGHT: f64 = 780.0;
const TOP: f64 = 12.0;
/// Height of the plot, and on a first screen.
const HEIGHTS: (f64, f64) = (288.0, 200.0);

/// Percentiles worth a tick.
const PERCENTILES: [(f64, &str); 7] = [
    (0.0, "0"),
    (0.5, "50"),
    (0.9, "90"),
    (0.99, "99"),
    (0.999, "99.9"),
    (0.9999, "99.99"),
    (0.99999, "99.999"),
];

/// Nines of a percentile: 0.99 → 2.
fn nines(q: f64) -> f64 {
    -(1.0 - q).max(1e-9).log10()
}

pub(super) fn draw(curves: &PercentileChart, compact: bool) -> Canvas {
    let mut canvas = Canvas::new();
    let bottom = TOP + if compact { HEIGHTS.1 } else { HEIGHTS.0 };
    let (x, y, widest) = axes(curves, bottom);
    frame(&mut canvas, widest, &x, &y);
    let placed = labels(curves, &y);
    for (line, label_y) in curves.lines.iter().zip(placed) {
        canvas.begin_series(&line.ink.label());
        draw_line(&mut canvas, line, (&x, &y), label_y);
        canvas.end_series();
    }
    canvas.finish(bottom + 44.0)
}

/// Both axes, and how many nines the first has.
fn axes(curves: &PercentileChart, bottom: f64) -> (AxisScale, AxisScale, f64) {
    let points = || curves.lines.iter().flat_map(|line| &line.points);
    let bands = || curves.lines.iter().flat_map(|line| &line.band);
    let widest = points().map(|(q, _)| nines(*q)).fold(1.0, f64::max);
    let highest = points()
        .map(|(_, ns)| *ns)
        .chain(bands().map(|(.., high)| *high));
    let top = highest.fold(2.0, f64::max);
    let lowest = points()
        .map(|(_, ns)| *ns)
        .chain(bands().map(|(_, low, _)| *low));
    let low = lowest.map(|ns| ns.max(1.0)).fold(top / 2.0, f64::min);
    let x = AxisScale::new([0.0, widest], [LEFT, RIGHT], false);
    let y = AxisScale::new([low / 1.15, top * 1.15], [bottom, TOP], true);
    (x, y, widest)
}

/// A curve with its band, its label and a mark at each percentile that has a tick.
fn draw_line(
    canvas: &mut Canvas,
    line: &PercentileLine,
    (x, y): (&AxisScale, &AxisScale),
    label_y: f64,
) {
    let (ink, points) = (&line.ink, &line.points);
    let class = ink_class(ink);
    let at = |q: f64, ns: f64| (x.at(nines(q)), y.at(ns));
    let upper = line.band.iter().map(|(q, _, high)| at(*q, *high));
    let lower = line.band.iter().rev().map(|(q, low, _)| at(*q, *low));
    let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
    canvas.path(&outline, &format!("area {class}"), "");
    let path: Vec<(f64, f64)> = points.iter().map(|(q, ns)| at(*q, *ns)).collect();
    canvas.path(&path, &format!("curve {class}"), "");
    if let Some(end) = path.last() {
        canvas.line(*end, (RIGHT + 8.0, label_y), &format!("leader {class}"));
    }
    let text = fit(&ink.label(), WIDTH - RIGHT - 14.0);
    let place = (RIGHT + 12.0, label_y + 4.0);
    canvas.text(place, Anchor::Start, &format!("ink {class}"), &text);
    for (q, name) in PERCENTILES.into_iter().skip(1) {
        let is_it = |(at, _): &&(f64, f64)| (nines(*at) - nines(q)).abs() < 0.013;
        let Some((_, ns)) = points.iter().find(is_it) else {
            continue;
        };
        let of_blocks = line
            .band
            .iter()
            .find(|(at, ..)| (nines(*at) - nines(q)).abs() < 0.05);
        let range = of_blocks.map_or(String::new(), |(_, low, high)| {
            let range = words::between(*low, *high, ChartQuantity::Duration);
            format!(" ({range} over blocks)")
        });
        let shown = ChartQuantity::Duration.show(*ns);
        let tip = format!("{}: p{name} {shown}{range}", ink.label());
        canvas.dot(at(q, *ns), 3.0, &format!("solid {class}"), &tip);
    }
}

/// Grid, ticks and the title of the percentile axis.
fn frame(canvas: &mut Canvas, widest: f64, x: &AxisScale, y: &AxisScale) {
    for (value, label) in log_ticks(y.from, y.to) {
        canvas.line((LEFT, y.at(value)), (RIGHT, y.at(value)), "grid");
        canvas.text((LEFT - 8.0, y.at(value) + 4.0), Anchor::End, "", &label);
    }
    let bottom = y.start;
    for (q, label) in PERCENTILES.into_iter().filter(|(q, _)| nines(*q) <= widest) {
        let at = x.at(nines(q));
        canvas.line((at, TOP), (at, bottom), "grid");
        canvas.text((at, bottom + 18.0), Anchor::Middle, "", label);
    }
    canvas.line((LEFT, bottom), (RIGHT, bottom), "axis");
    let middle = f64::midpoint(LEFT, RIGHT);
    let title = "percentile of operations, %: each step right is ten times rarer";
    canvas.text((middle, bottom + 38.0), Anchor::Middle, "muted", title);
}

/// Heights of the labels: at the ends of their lines, pushed apart where they would collide.
fn labels(curves: &PercentileChart, y: &AxisScale) -> Vec<f64> {
    const APART: f64 = 16.0;
    let ends = curves
        .lines
        .iter()
        .map(|line| line.points.last().map_or(y.start, |p| y.at(p.1)));
    let mut order: Vec<(usize, f64)> = ends.enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut next = TOP;
    for (_, at) in &mut order {
        *at = at.max(next);
        next = *at + APART;
    }
    let mut last = y.start;
    for (_, at) in order.iter_mut().rev() {
        *at = at.min(last);
        last = *at - APART;
    }
    order.sort_by_key(|(i, _)| *i);
    order.into_iter().map(|(_, at)| at).collect()
}
