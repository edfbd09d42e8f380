// SPDX-License-Identifier: Apache-2.0
//! Ratios on a logarithmic axis: a mark per arm, its interval as a line, the margin as a band.

use super::scale::{AxisScale, ratio_ticks};
use super::{Anchor, CHARACTER, Canvas, WIDTH, fit, fit_end};
use crate::model::{ForestChart, ForestGroup, ForestRow};

const LEFT: f64 = 210.0;
const RIGHT: f64 = 640.0;
/// Left end of the column of ratios.
const TEXT: f64 = 664.0;
const ROW: f64 = 26.0;
const HEAD: f64 = 30.0;

pub(super) fn draw(forest: &ForestChart) -> Canvas {
    let scale = axis(forest);
    let mut canvas = Canvas::new();
    let words = forest.words;
    canvas.text((TEXT, 14.0), Anchor::Start, "muted", words.ratio);
    canvas.text((WIDTH, 14.0), Anchor::End, "muted", words.verdict);
    let mut y = 8.0;
    for group in &forest.groups {
        y = draw_group(&mut canvas, forest, group, &scale, y);
    }
    canvas.line((LEFT, y), (RIGHT, y), "axis");
    for (value, label) in ratio_ticks(scale.from, scale.to) {
        let x = scale.at(value);
        canvas.line((x, y), (x, y + 4.0), "axis");
        canvas.text((x, y + 18.0), Anchor::Middle, "", &label);
    }
    let title = format!("{} {}, logarithmic", words.axis, fit(&forest.base, 200.0));
    let middle = f64::midpoint(LEFT, RIGHT);
    canvas.text((middle, y + 38.0), Anchor::Middle, "muted", &title);
    canvas.finish(y + 44.0)
}

/// Wide enough for every interval, but not for ends that two noisy blocks can throw anywhere.
fn axis(forest: &ForestChart) -> AxisScale {
    let margin = 1.0 + forest.margin;
    let (mut from, mut to) = (1.0 / margin.powi(2), margin.powi(2));
    let rows = forest.groups.iter().flat_map(|g| &g.rows);
    for ratio in rows.filter_map(|row| row.ratio) {
        let estimate = ratio.estimate.clamp(0.001, 1_000.0);
        from = from.min(ratio.low.max(estimate / 3.0));
        to = to.max(ratio.high.min(estimate * 3.0));
    }
    let room = (to / from).powf(0.04);
    AxisScale::new([from / room, to * room], [LEFT, RIGHT], true)
}

fn draw_group(
    canvas: &mut Canvas,
    forest: &ForestChart,
    group: &ForestGroup,
    scale: &AxisScale,
    top: f64,
) -> f64 {
    let first = top + HEAD;
    let height = ROW * group.rows.len() as f64;
    canvas.text(
        (0.0, first - 8.0),
        Anchor::Start,
        "strong",
        &fit(&group.title, LEFT - 10.0),
    );
    canvas.text((LEFT, first - 8.0), Anchor::Start, "muted", &group.metric);
    canvas.text(
        (RIGHT, first - 8.0),
        Anchor::End,
        "muted",
        forest.words.right,
    );
    let margin = 1.0 + forest.margin;
    let (from, to) = (scale.at(1.0 / margin), scale.at(margin));
    canvas.rect((from, first), (to - from, height), "band");
    for (value, _) in ratio_ticks(scale.from, scale.to) {
        let x = scale.at(value);
        canvas.line((x, first), (x, first + height), "grid");
    }
    let one = scale.at(1.0);
    canvas.line((one, first), (one, first + height), "axis");
    for (i, row) in group.rows.iter().enumerate() {
        draw_row(canvas, row, scale, first + ROW * (i as f64 + 0.5));
    }
    first + height + 6.0
}

fn draw_row(canvas: &mut Canvas, row: &ForestRow, scale: &AxisScale, y: f64) {
    let tone = row.tone.class();
    canvas.text(
        (12.0, y + 4.0),
        Anchor::Start,
        "",
        &fit(&row.label, LEFT - 24.0),
    );
    let words = row.verdict.split(", ").map(|part| part.chars().count());
    let verdict_width = words.max().unwrap_or(0) as f64 * CHARACTER;
    let text = fit_end(&row.text, WIDTH - TEXT - verdict_width - 12.0);
    canvas.text((TEXT, y + 4.0), Anchor::Start, "number", &text);
    // Details after a verdict's word go below it: beside the ratio there is no room for both.
    let class = format!("{tone} strong");
    match row.verdict.split_once(", ") {
        Some((verdict, more)) => {
            canvas.text((WIDTH, y - 2.0), Anchor::End, &class, verdict);
            canvas.text((WIDTH, y + 10.0), Anchor::End, tone, more);
        }
        None => canvas.text((WIDTH, y + 4.0), Anchor::End, &class, &row.verdict),
    }
    let Some(ratio) = row.ratio else {
        return;
    };
    let (low, high) = (scale.at(ratio.low), scale.at(ratio.high));
    canvas.line((low, y), (high, y), &format!("whisker {tone}"));
    for (end, inside, step) in [
        (low, ratio.low >= scale.from, 5.0),
        (high, ratio.high <= scale.to, -5.0),
    ] {
        let class = format!("cap {tone}");
        if inside {
            canvas.line((end, y - 4.5), (end, y + 4.5), &class);
        } else {
            // The interval goes on beyond the axis: an arrow head says so.
            let head = [(end + step, y - 4.0), (end, y), (end + step, y + 4.0)];
            canvas.path(&head, &class, "");
        }
    }
    let title = format!("{}: {}, {}", row.label, row.text, row.verdict);
    canvas.dot(
        (scale.at(ratio.estimate), y),
        5.0,
        &format!("solid {tone}"),
        &title,
    );
}
