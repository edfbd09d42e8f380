// SPDX-License-Identifier: Apache-2.0
//! Faults one below the other: the outages of writes and reads, until when the rate was low, and when the
//! fault was recovered. 0 is the injection.

use super::scale::{AxisScale, linear_ticks};
use super::{Anchor, CHARACTER, Canvas, WIDTH, fit};
use crate::model::{ChartQuantity, OutageChart, OutageRow};
use plimsoll_core::units::{Nanos, duration};

const LEFT: f64 = 150.0;
const RIGHT: f64 = 850.0;
const ROW: f64 = 30.0;
const TOP: f64 = 26.0;

/// Marks of the chart, each with its class and its words.
const KEYS: [(&str, &str); 4] = [
    ("out c1", "write outage"),
    ("out c0", "read outage"),
    ("low", "degraded rate"),
    ("mark", "fault recovered"),
];

pub(super) fn draw(chart: &OutageChart) -> Canvas {
    let mut canvas = Canvas::new();
    let bottom = TOP + ROW * chart.rows.len() as f64;
    let x = AxisScale::new(
        [0.0, (chart.length_s * 1.02).max(1e-3)],
        [LEFT, RIGHT],
        false,
    );
    key(&mut canvas);
    let (ticks, unit) = linear_ticks(x.to * 1e9, ChartQuantity::Duration, 6.0);
    for (value, label) in ticks {
        let at = x.at(value / 1e9);
        canvas.line((at, TOP), (at, bottom), "grid");
        canvas.text((at, bottom + 16.0), Anchor::Middle, "", &label);
    }
    for (i, row) in chart.rows.iter().enumerate() {
        draw_row(&mut canvas, row, &x, TOP + ROW * i as f64);
    }
    canvas.line((LEFT, TOP), (LEFT, bottom), "axis");
    let more = match chart.left_out {
        0 => String::new(),
        more => format!("; {more} more faults in the table"),
    };
    let note = format!("{unit} after the fault{more}");
    canvas.text((RIGHT, bottom + 34.0), Anchor::End, "muted", &note);
    canvas.finish(bottom + 40.0)
}

fn key(canvas: &mut Canvas) {
    let mut at = LEFT;
    for (class, words) in KEYS {
        match class {
            "mark" => canvas.line((at + 6.0, 4.0), (at + 6.0, 16.0), class),
            _ => canvas.rect((at, 5.0), (14.0, 10.0), class),
        }
        canvas.text((at + 20.0, 14.0), Anchor::Start, "muted", words);
        at += 34.0 + 6.6 * words.len() as f64;
    }
}

fn draw_row(canvas: &mut Canvas, row: &OutageRow, x: &AxisScale, top: f64) {
    let seconds = |s: f64| duration(Nanos::from_secs_f64(s.max(0.0)));
    let label = fit_label(&row.label, LEFT - 14.0);
    canvas.text((0.0, top + 18.0), Anchor::Start, "", &label);
    if let Some((until, is_over)) = row.degraded {
        let more = if is_over { "" } else { "at least " };
        let tip = format!("{}: rate low for {more}{}", row.about, seconds(until));
        let place = (x.at(0.0), top + 4.0);
        canvas.bar(place, (x.at(until) - x.at(0.0), ROW - 8.0), "low", &tip);
    }
    for (span, name, class, y) in [
        (row.writes, "write", "out c1", 6.0),
        (row.reads, "read", "out c0", 16.0),
    ] {
        let Some((from, to, is_over)) = span else {
            continue;
        };
        let more = if is_over { "" } else { "at least " };
        let tip = format!(
            "{}: {name} outage of {more}{}",
            row.about,
            seconds(to - from)
        );
        // The last operation before the fault may have ended some time before it.
        let left = x.at(from.max(0.0));
        canvas.bar((left, top + y), (x.at(to) - left, 8.0), class, &tip);
        if name == "write" {
            let shown = format!("{}{}", if is_over { "" } else { "> " }, seconds(to - from));
            canvas.text((WIDTH, top + 18.0), Anchor::End, "number", &shown);
        }
    }
    // Beyond the axis it says nothing of the outage.
    if row.ended_s <= x.to {
        let at = x.at(row.ended_s);
        canvas.line((at, top + 2.0), (at, top + ROW - 2.0), "mark");
    }
}

/// A label that fits: of a long name its end is cut, which fault it is stays.
fn fit_label(label: &str, width: f64) -> String {
    match label.rsplit_once(": ") {
        Some((arm, which)) => {
            let kept = which.chars().count() as f64 + 2.0;
            format!("{}: {which}", fit(arm, width - kept * CHARACTER))
        }
        None => fit(label, width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_and_its_fault_stays() {
        let label = fit_label("gluster(volume=replicate): 1 kill", LEFT - 14.0);
        assert!(
            label.starts_with("gluster") && label.ends_with("…: 1 kill"),
            "{label}"
        );
        assert_eq!(fit_label("nbd: 2 slow", LEFT - 14.0), "nbd: 2 slow");
    }
}
