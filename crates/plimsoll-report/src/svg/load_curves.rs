// SPDX-License-Identifier: Apache-2.0
//! Response against offered load: a dot per trial, a band around each load line, the limit across.

use super::scale::{AxisScale, linear_ticks, log_ticks, number_ticks};
use super::{Anchor, Canvas, WIDTH, fit, ink_class};
use crate::model::{ChartQuantity, LoadCurve, LoadCurveChart};
use plimsoll_core::units;

const LEFT: f64 = 64.0;
const RIGHT: f64 = 780.0;
const TOP: f64 = 12.0;
/// Height of the plot, and on a first screen.
const HEIGHTS: (f64, f64) = (308.0, 210.0);

/// Radius of the dot of a trial of ten seconds, and of the longest.
const RADIUS: (f64, f64) = (2.5, 6.0);

pub(super) fn draw(chart: &LoadCurveChart, compact: bool) -> Canvas {
    let mut canvas = Canvas::new();
    let bottom = TOP + if compact { HEIGHTS.1 } else { HEIGHTS.0 };
    let (x, y) = axes(chart, bottom);
    frame(&mut canvas, chart, &x, &y);
    for curve in &chart.curves {
        canvas.begin_series(&curve.ink.label());
        edge(&mut canvas, (chart, curve), &x, &y);
        band(&mut canvas, curve, &x, &y);
        dots(&mut canvas, (chart, curve), &x, &y);
        canvas.end_series();
    }
    labels(&mut canvas, chart, &y);
    canvas.finish(bottom + 44.0)
}

fn axes(chart: &LoadCurveChart, bottom: f64) -> (AxisScale, AxisScale) {
    let points = || chart.curves.iter().flat_map(|curve| &curve.points);
    let edges = || chart.curves.iter().filter_map(|curve| curve.edge);
    let loads = points()
        .map(|point| point.load)
        .chain(edges().flat_map(|e| [e.0, e.1, e.2]))
        // An interval may begin at no client at all, which a logarithmic axis has no place for.
        .filter(|load| *load > 0.0);
    let (from, to) = loads.fold((f64::INFINITY, 0.0f64), |(a, b), load| {
        (a.min(load), b.max(load))
    });
    let values = points().map(|point| point.value).chain([chart.limit.1]);
    let kept = values.filter(|value| *value > 0.0);
    let (low, high) = kept.fold((f64::INFINITY, 0.0f64), |(a, b), v| (a.min(v), b.max(v)));
    let is_log = chart.quantity == ChartQuantity::Duration;
    let (from, to) = if from < to {
        (from, to)
    } else {
        (to / 2.0, to.max(1.0) * 2.0)
    };
    (
        AxisScale::new([from / 1.1, to * 1.1], [LEFT, RIGHT], true),
        AxisScale::new(
            [if is_log { low / 1.3 } else { 0.0 }, high * 1.3],
            [bottom, TOP],
            is_log,
        ),
    )
}

fn frame(canvas: &mut Canvas, chart: &LoadCurveChart, x: &AxisScale, y: &AxisScale) {
    let ticks = match y.log {
        true => log_ticks(y.from, y.to),
        false => linear_ticks(y.to, chart.quantity, 4.0).0,
    };
    for (value, label) in ticks {
        canvas.line((LEFT, y.at(value)), (RIGHT, y.at(value)), "grid");
        canvas.text((LEFT - 8.0, y.at(value) + 4.0), Anchor::End, "", &label);
    }
    let bottom = y.start;
    for (value, label) in number_ticks(x.from, x.to) {
        canvas.line((x.at(value), TOP), (x.at(value), bottom), "grid");
        canvas.text((x.at(value), bottom + 18.0), Anchor::Middle, "", &label);
    }
    canvas.line((LEFT, bottom), (RIGHT, bottom), "axis");
    let middle = f64::midpoint(LEFT, RIGHT);
    let title = format!("{}, logarithmic; larger dots are longer trials", chart.load);
    canvas.text((middle, bottom + 38.0), Anchor::Middle, "muted", &title);
    let (name, limit) = &chart.limit;
    canvas.line((LEFT, y.at(*limit)), (RIGHT, y.at(*limit)), "limit");
    let name = fit(name, 200.0);
    canvas.text(
        (LEFT + 6.0, y.at(*limit) - 5.0),
        Anchor::Start,
        "muted",
        &name,
    );
}

/// The interval of a load line, from top to bottom.
fn edge(
    canvas: &mut Canvas,
    (chart, curve): (&LoadCurveChart, &LoadCurve),
    x: &AxisScale,
    y: &AxisScale,
) {
    let Some((low, point, high)) = curve.edge else {
        return;
    };
    let class = ink_class(&curve.ink);
    let left = x.at(low.max(x.from));
    let width = (x.at(high) - left).max(1.0);
    let [low_text, point_text, high_text] = [low, point, high].map(units::three_digits);
    let tip = format!(
        "{}: load line {point_text} ({low_text} to {high_text}) {}",
        curve.ink.label(),
        chart.load
    );
    let place = (left, TOP);
    canvas.bar(
        place,
        (width, y.start - TOP),
        &format!("shade {class}"),
        &tip,
    );
    canvas.line(
        (x.at(point), TOP),
        (x.at(point), y.start),
        &format!("mark {class}"),
    );
}

fn band(canvas: &mut Canvas, curve: &LoadCurve, x: &AxisScale, y: &AxisScale) {
    let class = ink_class(&curve.ink);
    let inside = curve
        .band
        .iter()
        .filter(|at| at.load >= x.from && at.load <= x.to);
    let band: Vec<_> = inside.collect();
    let upper = band.iter().map(|at| (x.at(at.load), y.at(at.high)));
    let lower = band.iter().rev().map(|at| (x.at(at.load), y.at(at.low)));
    let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
    canvas.path(&outline, &format!("area {class}"), "");
    let middle: Vec<(f64, f64)> = band
        .iter()
        .map(|at| (x.at(at.load), y.at(at.middle)))
        .collect();
    canvas.path(&middle, &format!("curve {class}"), "");
}

fn dots(
    canvas: &mut Canvas,
    (chart, curve): (&LoadCurveChart, &LoadCurve),
    x: &AxisScale,
    y: &AxisScale,
) {
    let class = ink_class(&curve.ink);
    for point in &curve.points {
        let radius = (RADIUS.0 * (point.length_s / 10.0).sqrt()).clamp(RADIUS.0, RADIUS.1);
        let (shape, backlog) = match point.kept_up {
            true => ("solid", ""),
            false => ("hollow", ", the backlog grew"),
        };
        let title = format!(
            "{}: {} at {} {}{backlog}",
            curve.ink.label(),
            chart.quantity.show(point.value),
            units::three_digits(point.load),
            chart.load
        );
        let at = (x.at(point.load), y.at(point.value));
        canvas.dot(at, radius, &format!("{shape} {class}"), &title);
    }
}

/// Names at the right, each at the height of its system's highest dot, pushed apart where they collide.
fn labels(canvas: &mut Canvas, chart: &LoadCurveChart, y: &AxisScale) {
    const APART: f64 = 16.0;
    let place = |curve: &LoadCurve| {
        let highest = curve.points.iter().max_by(|a, b| a.load.total_cmp(&b.load));
        highest.map_or(TOP, |point| y.at(point.value))
    };
    let mut order: Vec<(&LoadCurve, f64)> = chart.curves.iter().map(|c| (c, place(c))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut next = TOP + 8.0;
    for (curve, at) in order {
        let at = at.max(next);
        next = at + APART;
        let class = ink_class(&curve.ink);
        canvas.begin_series(&curve.ink.label());
        let text = fit(&curve.ink.label(), WIDTH - RIGHT - 26.0);
        let place = (RIGHT + 12.0, at + 4.0);
        canvas.text(place, Anchor::Start, &format!("ink {class}"), &text);
        canvas.end_series();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ChartSeriesStyle, LoadCurvePoint};

    #[test]
    fn an_interval_that_begins_at_nothing_leaves_the_axis_finite() {
        let point = |load| LoadCurvePoint {
            load,
            value: 5e6,
            kept_up: true,
            length_s: 4.0,
        };
        let chart = LoadCurveChart {
            load: "clients".into(),
            quantity: ChartQuantity::Duration,
            limit: ("p99 < 20.0 ms".into(), 20e6),
            curves: vec![LoadCurve {
                ink: ChartSeriesStyle::default(),
                points: vec![point(1.0), point(16.0)],
                band: Vec::new(),
                edge: Some((0.0, 4.0, 38.0)),
            }],
        };
        let (x, _) = axes(&chart, 200.0);
        assert!(x.from > 0.5 && x.at(1.0) > LEFT && x.at(38.0) < RIGHT);
        let drawn = draw(&chart, true).finished("t");
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}
