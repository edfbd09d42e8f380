// SPDX-License-Identifier: Apache-2.0
//! One dot per block: what the verdict rests on, with the axes from 0 so that nothing looks larger
//! than it is.

use super::scale::{AxisScale, linear_ticks};
use super::{Anchor, Canvas, WIDTH, fit, ink_class};
use crate::model::{DotChart, DotPanel};

const LEFT: f64 = 150.0;
const ROW: f64 = 24.0;
const TOP: f64 = 24.0;
/// Right part of a panel, for the middle as a number.
const NUMBER: f64 = 84.0;

pub(super) fn draw(dots: &DotChart) -> Canvas {
    let mut canvas = Canvas::new();
    let height = ROW * dots.arms.len() as f64;
    for (i, ink) in dots.arms.iter().enumerate() {
        let y = TOP + ROW * (i as f64 + 0.5);
        let label = fit(&ink.label(), LEFT - 14.0);
        canvas.text(
            (0.0, y + 4.0),
            Anchor::Start,
            &format!("ink {}", ink_class(ink)),
            &label,
        );
    }
    let width = (WIDTH - LEFT) / dots.panels.len().max(1) as f64;
    for (i, panel) in dots.panels.iter().enumerate() {
        draw_panel(&mut canvas, (dots, panel), LEFT + width * i as f64, width);
    }
    canvas.finish(TOP + height + 26.0)
}

fn draw_panel(canvas: &mut Canvas, (dots, panel): (&DotChart, &DotPanel), left: f64, width: f64) {
    let arms = &dots.arms;
    let all = panel.values.iter().flatten().map(|(_, v)| *v);
    let max = all.fold(0.0, f64::max);
    let scale = AxisScale::new(
        [0.0, if max > 0.0 { max * 1.04 } else { 1.0 }],
        [left + 8.0, left + width - NUMBER],
        false,
    );
    let bottom = TOP + ROW * arms.len() as f64;
    let (ticks, unit) = linear_ticks(scale.to, panel.quantity, 3.0);
    for (value, label) in ticks {
        let x = scale.at(value);
        canvas.line((x, TOP), (x, bottom), "grid");
        canvas.text((x, bottom + 16.0), Anchor::Middle, "", &label);
    }
    let title = format!("{}, {unit}", panel.title);
    canvas.text((left + 8.0, TOP - 10.0), Anchor::Start, "muted", &title);
    canvas.text(
        (left + width - 6.0, TOP - 10.0),
        Anchor::End,
        "muted",
        dots.middle.name(),
    );
    for (i, (values, ink)) in panel.values.iter().zip(arms).enumerate() {
        let y = TOP + ROW * (i as f64 + 0.5);
        let class = ink_class(ink);
        let Some(middle) = dots.middle.of(values.iter().map(|(_, v)| *v)) else {
            continue;
        };
        canvas.begin_series(&ink.label());
        let x = scale.at(middle);
        canvas.line((x, y - 8.0), (x, y + 8.0), &format!("mean {class}"));
        let shape = if ink.control { "hollow" } else { "dot" };
        for (number, value) in values {
            let title = format!(
                "{}, {} {}: {}",
                ink.label(),
                dots.each,
                number + 1,
                panel.quantity.show(*value)
            );
            canvas.dot(
                (scale.at(*value), y),
                3.5,
                &format!("{shape} {class}"),
                &title,
            );
        }
        let middle = panel.quantity.show_short(middle);
        canvas.text(
            (left + width - 6.0, y + 4.0),
            Anchor::End,
            "number",
            &middle,
        );
        canvas.end_series();
    }
}
