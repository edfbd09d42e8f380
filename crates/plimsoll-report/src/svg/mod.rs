// SPDX-License-Identifier: Apache-2.0
//! Charts as inline SVG: shapes and classes only; colours and fonts belong to the style sheet.
//!
//! Invariant: every text is escaped here, and no attribute carries text from outside except
//! through [`escape`].

mod curves;
mod dots;
mod forest;
mod load_curves;
mod scale;
mod series;
mod timeline;

use crate::model::{ChartSeriesStyle, ReportChart};
use crate::put::put;
use plimsoll_core::text::is_unprintable;

/// Width of every chart in user units; the page scales it to the column.
const WIDTH: f64 = 960.0;

/// Colours of the style sheet; further arms repeat them with another stroke.
const COLOURS: usize = 8;

/// Draws a chart.
pub(crate) fn draw(chart: &ReportChart) -> String {
    match chart {
        ReportChart::Forest(forest) => forest::draw(forest),
        ReportChart::Curves(curves) => curves::draw(curves),
        ReportChart::LoadCurves(chart) => load_curves::draw(chart),
        ReportChart::Dots(dots) => dots::draw(dots),
        ReportChart::Series(series) => series::draw(series),
        ReportChart::Timeline(timeline) => timeline::draw(timeline),
    }
}

/// Makes text safe as content and as a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML and HTML allow no other control characters, and a name is no place for marks
            // that reorder the text around it.
            c if is_unprintable(c) && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Classes of an arm: its colour, and its stroke.
fn ink_class(ink: &ChartSeriesStyle) -> String {
    let again = if ink.colour >= COLOURS { " again" } else { "" };
    let control = if ink.control { " control" } else { "" };
    format!("c{}{again}{control}", ink.colour % COLOURS)
}

/// Where a text is anchored.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing in the making.
struct Canvas {
    body: String,
}

impl Canvas {
    fn new() -> Canvas {
        Canvas {
            body: String::new(),
        }
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        put!(
            self.body,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        );
    }

    fn rect(&mut self, (x, y): (f64, f64), (w, h): (f64, f64), class: &str) {
        put!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" class=\"{class}\"/>"
        );
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        put!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"
        );
    }

    fn dot(&mut self, (x, y): (f64, f64), radius: f64, class: &str, title: &str) {
        let title = escape(title);
        put!(
            self.body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" class=\"{class}\"><title>{title}\
             </title></circle>"
        );
    }

    /// A line through points; nothing below two.
    fn path(&mut self, points: &[(f64, f64)], class: &str, title: &str) {
        if points.len() < 2 {
            return;
        }
        self.body.push_str("<path d=\"");
        for (i, (x, y)) in points.iter().enumerate() {
            let command = if i == 0 { 'M' } else { 'L' };
            put!(self.body, "{command}{x:.1} {y:.1}");
        }
        let title = escape(title);
        put!(
            self.body,
            "\" class=\"{class}\"><title>{title}</title></path>"
        );
    }

    fn finish(self, title: &str, height: f64) -> String {
        let title = escape(title);
        format!(
            "<figure><figcaption>{title}</figcaption><svg xmlns=\"http://www.w3.org/2000/svg\" \
             viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">{}</svg>\
             </figure>\n",
            self.body
        )
    }
}

/// Shortens a text to about this many user units at the charts' type size.
fn fit(text: &str, width: f64) -> String {
    // 12 px sans serif: 6.4 units per character on average.
    let most = plimsoll_core::num::to_usize(plimsoll_core::num::floor_u64(width / 6.4)).max(4);
    if text.chars().count() <= most {
        return text.into();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}
