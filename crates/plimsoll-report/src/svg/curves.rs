// SPDX-License-Identifier: Apache-2.0
//! Percentile curves: the share of operations beyond, from all to one in a million, against time.

use super::scale::{AxisScale, log_ticks};
use super::{Anchor, Canvas, WIDTH, fit, ink_class};
use crate::model::{ChartQuantity, PercentileChart};

const LEFT: f64 = 64.0;
const RIGHT: f64 = 780.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 300.0;

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

pub(super) fn draw(curves: &PercentileChart) -> String {
    let mut canvas = Canvas::new();
    let points = || curves.lines.iter().flat_map(|(_, line)| line);
    let widest = points().map(|(q, _)| nines(*q)).fold(1.0, f64::max);
    let top = points().map(|(_, ns)| *ns).fold(2.0, f64::max);
    let bottom = points()
        .map(|(_, ns)| ns.max(1.0))
        .fold(top / 2.0, f64::min);
    let x = AxisScale {
        from: 0.0,
        to: widest,
        start: LEFT,
        end: RIGHT,
        log: false,
    };
    let y = AxisScale {
        from: bottom / 1.15,
        to: top * 1.15,
        start: BOTTOM,
        end: TOP,
        log: true,
    };
    frame(&mut canvas, widest, &x, &y);
    let placed = labels(curves, &y);
    for ((ink, line), label_y) in curves.lines.iter().zip(placed) {
        let class = ink_class(ink);
        let path: Vec<(f64, f64)> = line
            .iter()
            .map(|(q, ns)| (x.at(nines(*q)), y.at(*ns)))
            .collect();
        canvas.path(&path, &format!("curve {class}"), &ink.label());
        if let Some(end) = path.last() {
            canvas.line(*end, (RIGHT + 8.0, label_y), &format!("leader {class}"));
        }
        let text = fit(&ink.label(), WIDTH - RIGHT - 14.0);
        canvas.text(
            (RIGHT + 12.0, label_y + 4.0),
            Anchor::Start,
            &format!("ink {class}"),
            &text,
        );
        for (q, name) in PERCENTILES.into_iter().skip(1) {
            if let Some((_, ns)) = line
                .iter()
                .find(|(at, _)| (nines(*at) - nines(q)).abs() < 0.013)
            {
                let title = format!(
                    "{}: p{name} {}",
                    ink.label(),
                    ChartQuantity::Duration.show(*ns)
                );
                canvas.dot(
                    (x.at(nines(q)), y.at(*ns)),
                    3.0,
                    &format!("solid {class}"),
                    &title,
                );
            }
        }
    }
    canvas.finish(&curves.title, BOTTOM + 44.0)
}

/// Grid, ticks and the title of the percentile axis.
fn frame(canvas: &mut Canvas, widest: f64, x: &AxisScale, y: &AxisScale) {
    for (value, label) in log_ticks(y.from, y.to) {
        canvas.line((LEFT, y.at(value)), (RIGHT, y.at(value)), "grid");
        canvas.text((LEFT - 8.0, y.at(value) + 4.0), Anchor::End, "", &label);
    }
    for (q, label) in PERCENTILES.into_iter().filter(|(q, _)| nines(*q) <= widest) {
        let at = x.at(nines(q));
        canvas.line((at, TOP), (at, BOTTOM), "grid");
        canvas.text((at, BOTTOM + 18.0), Anchor::Middle, "", label);
    }
    canvas.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "axis");
    let middle = f64::midpoint(LEFT, RIGHT);
    let title = "percentile of operations, each step right ten times rarer";
    canvas.text((middle, BOTTOM + 38.0), Anchor::Middle, "muted", title);
}

/// Heights of the labels: at the ends of their lines, pushed apart where they would collide.
fn labels(curves: &PercentileChart, y: &AxisScale) -> Vec<f64> {
    const APART: f64 = 16.0;
    let ends = curves
        .lines
        .iter()
        .map(|(_, line)| line.last().map_or(BOTTOM, |p| y.at(p.1)));
    let mut order: Vec<(usize, f64)> = ends.enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut next = TOP;
    for (_, at) in &mut order {
        *at = at.max(next);
        next = *at + APART;
    }
    let mut last = BOTTOM;
    for (_, at) in order.iter_mut().rev() {
        *at = at.min(last);
        last = *at - APART;
    }
    order.sort_by_key(|(i, _)| *i);
    order.into_iter().map(|(_, at)| at).collect()
}
