// SPDX-License-Identifier: Apache-2.0
//! Figures over the time of a recording: panels one under the other on one axis of clock times.

use super::scale::{AxisScale, linear_ticks};
use super::{Anchor, Canvas, WIDTH, fit, ink_class};
use crate::model::{TimelineChart, TimelinePanel};

const LEFT: f64 = 64.0;
const HEIGHT: f64 = 84.0;
const TITLE: f64 = 24.0;
const BETWEEN: f64 = 14.0;
/// Room for the names of marked stretches.
const MARKS: f64 = 20.0;
/// Fewest user units between two labels of the axis of time.
const APART: f64 = 70.0;

/// Steps between ticks, seconds.
const STEPS_S: [f64; 26] = [
    1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0,
    120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 10_800.0, 21_600.0, 43_200.0,
];
const DAY_S: f64 = 86_400.0;

pub(super) fn draw(timeline: &TimelineChart) -> Canvas {
    let mut canvas = Canvas::new();
    let x = AxisScale::new([0.0, timeline.length_s.max(1e-9)], [LEFT, WIDTH], false);
    let marks = if timeline.marks.is_empty() {
        0.0
    } else {
        MARKS
    };
    let below = TITLE + HEIGHT + BETWEEN;
    let height = marks + below * timeline.panels.len() as f64;
    for (name, from, to) in &timeline.marks {
        let (left, right) = (x.at(*from), x.at(*to));
        canvas.rect((left, 0.0), ((right - left).max(1.0), height), "band");
        let text = fit(name, right - left);
        // A name that does not fit would cover its neighbour's.
        if text == *name {
            canvas.text((left + 4.0, 13.0), Anchor::Start, "muted", &text);
        }
    }
    let ticks = time_ticks(&timeline.from, timeline.length_s);
    for (i, panel) in timeline.panels.iter().enumerate() {
        let top = marks + below * i as f64 + TITLE;
        draw_panel(&mut canvas, panel, &x, top, &ticks);
    }
    for (value, label) in &ticks {
        let at = x.at(*value);
        let anchor = match at {
            at if at < LEFT + 20.0 => Anchor::Start,
            at if at > WIDTH - 20.0 => Anchor::End,
            _ => Anchor::Middle,
        };
        canvas.text((at, height + 4.0), anchor, "", label);
    }
    canvas.finish(height + 10.0)
}

fn draw_panel(
    canvas: &mut Canvas,
    panel: &TimelinePanel,
    x: &AxisScale,
    top: f64,
    times: &[(f64, String)],
) {
    let all = panel
        .lines
        .iter()
        .flat_map(|l| l.steps.iter().chain(&l.peaks));
    let max = all.map(|(_, _, value)| *value).fold(0.0, f64::max);
    let y = AxisScale::new(
        [0.0, if max > 0.0 { max * 1.05 } else { 1.0 }],
        [top + HEIGHT, top],
        false,
    );
    let (ticks, unit) = linear_ticks(y.to, panel.quantity, 3.0);
    for (value, label) in ticks {
        canvas.line((LEFT, y.at(value)), (WIDTH, y.at(value)), "grid");
        canvas.text((LEFT - 8.0, y.at(value) + 4.0), Anchor::End, "", &label);
    }
    for (value, _) in times {
        canvas.line((x.at(*value), top), (x.at(*value), top + HEIGHT), "grid");
    }
    canvas.line((LEFT, top + HEIGHT), (WIDTH, top + HEIGHT), "axis");
    canvas.text((LEFT - 8.0, top - 9.0), Anchor::End, "muted", unit);
    canvas.text((LEFT, top - 9.0), Anchor::Start, "strong", &panel.title);
    let mut right = WIDTH;
    for line in panel.lines.iter().rev().filter(|_| panel.lines.len() > 1) {
        let label = line.ink.label();
        let class = format!("ink {}", ink_class(&line.ink));
        canvas.text((right, top - 9.0), Anchor::End, &class, &label);
        right -= 7.0 * label.chars().count() as f64 + 18.0;
    }
    for line in &panel.lines {
        canvas.begin_series(&line.ink.label());
        let class = ink_class(&line.ink);
        let peaks = format!("{}, busiest interval", line.ink.label());
        steps(
            canvas,
            &line.peaks,
            (x, &y),
            &format!("thin {class}"),
            &peaks,
        );
        let title = format!("{}, {}", panel.title, line.ink.label());
        steps(
            canvas,
            &line.steps,
            (x, &y),
            &format!("middle {class}"),
            &title,
        );
        canvas.end_series();
    }
}

/// A line of steps with holes where nothing is known.
fn steps(
    canvas: &mut Canvas,
    steps: &[(f64, f64, f64)],
    (x, y): (&AxisScale, &AxisScale),
    class: &str,
    title: &str,
) {
    let mut run: Vec<(f64, f64)> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for (from, to, value) in steps {
        // Intervals follow each other to the millisecond.
        if *from > last + 1e-3 {
            canvas.path(&run, class, title);
            run.clear();
        }
        run.extend([(x.at(*from), y.at(*value)), (x.at(*to), y.at(*value))]);
        last = *to;
    }
    canvas.path(&run, class, title);
}

/// Seconds since midnight of `2010-07-14T11:00:02+10:00`.
fn clock_s(from: &str) -> Option<f64> {
    let (_, time) = from.split_once('T')?;
    let mut parts = time.get(..8)?.split(':').map(str::parse::<u32>);
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    Some(f64::from(
        hours.ok()? * 3_600 + minutes.ok()? * 60 + seconds.ok()?,
    ))
}

/// Round instants of the axis with their labels: of the clock where there is one, else since the
/// start.
fn time_ticks(from: &str, length_s: f64) -> Vec<(f64, String)> {
    let most = (WIDTH - LEFT) / APART;
    let wide_enough = |step: &f64| length_s / step <= most;
    let days = (length_s / DAY_S / most).ceil().max(1.0) * DAY_S;
    let step = STEPS_S.into_iter().find(wide_enough).unwrap_or(days);
    let clock = clock_s(from);
    let start = clock.unwrap_or(0.0);
    let mut ticks = Vec::new();
    let mut at = (start / step).ceil() * step;
    // At most `most` rounds, since the steps were chosen so.
    while at - start <= length_s && ticks.len() < 64 {
        let label = match clock {
            Some(_) if step >= 1.0 => clock_label(at, step),
            _ => plimsoll_core::units::duration(plimsoll_core::units::Nanos::from_secs_f64(
                at - start,
            )),
        };
        ticks.push((at - start, label));
        at += step;
    }
    ticks
}

/// `11:05`, `11:05:30`; at a later midnight how many days it is after the first.
fn clock_label(at_s: f64, step_s: f64) -> String {
    let at = plimsoll_core::num::round_u64(at_s);
    let (day, second) = (at / 86_400, at % 86_400);
    let (hours, minutes, seconds) = (second / 3_600, second / 60 % 60, second % 60);
    if day > 0 && second == 0 {
        format!("+{day} d")
    } else if step_s < 60.0 {
        format!("{hours:02}:{minutes:02}:{seconds:02}")
    } else {
        format!("{hours:02}:{minutes:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_round_times_of_the_clock() {
        let labels = |from: &str, length_s: f64| -> Vec<String> {
            let ticks = time_ticks(from, length_s);
            assert!(ticks.iter().all(|(at, _)| (0.0..=length_s).contains(at)));
            ticks.into_iter().map(|tick| tick.1).collect()
        };
        let hour = labels("2010-07-14T11:00:02+10:00", 3_585.0);
        assert_eq!(
            (hour.len(), hour[0].as_str(), hour[1].as_str()),
            (11, "11:05", "11:10")
        );
        let minute = labels("2010-07-14T23:59:30+10:00", 60.0);
        assert!(minute.contains(&"23:59:40".into()) && minute.contains(&"+1 d".into()));
        assert_eq!(labels("2010-07-14T00:00:00Z", 40.0 * DAY_S)[1], "+4 d");
        assert_eq!(labels("its start", 0.14)[2], "40.0 ms");
        assert!(labels("", 0.0).len() <= 1);
    }
}
