// SPDX-License-Identifier: Apache-2.0
//! Cost of each layer: a bar from the value of the layer below to its own, on an axis from 0.

use super::scale::{AxisScale, linear_ticks};
use super::{Anchor, Canvas, WIDTH, fit};
use crate::model::{WaterfallChart, WaterfallPanel, WaterfallStep};

const LEFT: f64 = 170.0;
const RIGHT: f64 = 700.0;
const ROW: f64 = 28.0;
const TITLE: f64 = 26.0;

pub(super) fn draw(chart: &WaterfallChart) -> Canvas {
    let mut canvas = Canvas::new();
    let mut y = 0.0;
    for panel in &chart.panels {
        y = draw_panel(&mut canvas, panel, y);
    }
    canvas.finish(y)
}

fn draw_panel(canvas: &mut Canvas, panel: &WaterfallPanel, top: f64) -> f64 {
    let first = top + TITLE;
    let bottom = first + ROW * panel.steps.len() as f64;
    let ends = panel
        .steps
        .iter()
        .filter_map(|step| step.interval.map(|(_, high)| high));
    let values = panel.steps.iter().map(|step| step.value);
    let highest = values.fold(0.0, f64::max);
    // Ends that noise throws far beyond every value would leave no room for these.
    let max = ends.fold(highest, f64::max).min(highest * 1.5);
    let scale = AxisScale::new(
        [0.0, if max > 0.0 { max * 1.04 } else { 1.0 }],
        [LEFT, RIGHT],
        false,
    );
    let (ticks, unit) = linear_ticks(scale.to, panel.quantity, 5.0);
    for (value, label) in ticks {
        let x = scale.at(value);
        canvas.line((x, first), (x, bottom), "grid");
        canvas.text((x, bottom + 16.0), Anchor::Middle, "", &label);
    }
    canvas.text(
        (0.0, top + 14.0),
        Anchor::Start,
        "strong",
        &fit(&panel.title, LEFT + 200.0),
    );
    let title = format!("{}, {unit}", panel.metric);
    canvas.text((RIGHT, top + 14.0), Anchor::End, "muted", &title);
    let mut before = 0.0;
    for (i, step) in panel.steps.iter().enumerate() {
        let y = first + ROW * (i as f64 + 0.5);
        draw_step(canvas, (panel, step), &scale, (before, y));
        if i + 1 < panel.steps.len() {
            let x = scale.at(step.value);
            canvas.line((x, y), (x, y + ROW), "leader");
        }
        before = step.value;
    }
    canvas.line((LEFT, bottom), (RIGHT, bottom), "axis");
    bottom + 30.0
}

fn draw_step(
    canvas: &mut Canvas,
    (panel, step): (&WaterfallPanel, &WaterfallStep),
    scale: &AxisScale,
    (before, y): (f64, f64),
) {
    let tone = step.tone.class();
    let label = fit(&step.label, LEFT - 14.0);
    canvas.text((0.0, y + 4.0), Anchor::Start, "strong", &label);
    let (low, high) = (before.min(step.value), before.max(step.value));
    let shown = panel.quantity.show(step.value);
    let tip = format!("{}: {shown}, {}", step.label, step.text);
    let place = (scale.at(low), y - 8.0);
    let width = scale.at(high) - scale.at(low);
    canvas.bar(place, (width, 16.0), &format!("step {tone}"), &tip);
    if let Some((low, high)) = step.interval {
        let (low, high) = (scale.at(low), scale.at(high));
        canvas.line((low, y), (high, y), "whisker");
        for end in [low, high] {
            canvas.line((end, y - 4.5), (end, y + 4.5), "cap");
        }
    }
    let text = match step.interval {
        Some(_) => format!("{shown} · {}", step.text),
        None => shown,
    };
    canvas.text((WIDTH, y + 4.0), Anchor::End, "number", &text);
}
