// SPDX-License-Identifier: Apache-2.0
//! Charts as inline SVG: shapes and classes only; colours and fonts belong to the style sheet.
//!
//! Invariant: every text is escaped here, and no attribute carries text from outside except
//! through [`escape`].

mod curves;
mod dots;
mod forest;
mod heat_map;
mod load_curves;
mod outages;
mod scale;
mod series;
mod timeline;
mod waterfall;

use crate::model::{ChartSeriesStyle, ReportChart, ReportFigure};
use crate::put::put;
use plimsoll_core::text::is_unprintable;

/// Width of every chart in user units; the page scales it to the column.
const WIDTH: f64 = 960.0;

/// Colours of the style sheet; further arms repeat them with another stroke.
const COLOURS: usize = 8;

/// Draws a chart; `named_by` is the id of the element that names it.
pub(crate) fn draw(figure: &ReportFigure, named_by: &str) -> String {
    let compact = figure.is_compact;
    let canvas = match &figure.chart {
        ReportChart::Forest(forest) => forest::draw(forest),
        ReportChart::Waterfall(chart) => waterfall::draw(chart),
        ReportChart::HeatMap(chart) => heat_map::draw(chart),
        ReportChart::Outages(chart) => outages::draw(chart),
        ReportChart::Curves(curves) => curves::draw(curves, compact),
        ReportChart::LoadCurves(chart) => load_curves::draw(chart, compact),
        ReportChart::Dots(dots) => dots::draw(dots),
        ReportChart::Series(series) => series::draw(series),
        ReportChart::Timeline(timeline) => timeline::draw(timeline),
    };
    canvas.finished(named_by)
}

/// Whose marks a chart has, once each: the entries of its legend, with their classes. None where rows or
/// panels name them already and nothing overlaps.
pub(crate) fn legend(chart: &ReportChart) -> Vec<(String, String)> {
    let inks: Vec<&ChartSeriesStyle> = match chart {
        ReportChart::Curves(curves) => curves.lines.iter().map(|line| &line.ink).collect(),
        ReportChart::LoadCurves(chart) => chart.curves.iter().map(|curve| &curve.ink).collect(),
        ReportChart::Dots(dots) => dots.arms.iter().collect(),
        ReportChart::Timeline(timeline) => {
            let panels = timeline.panels.iter();
            panels
                .flat_map(|panel| &panel.lines)
                .map(|line| &line.ink)
                .collect()
        }
        _ => Vec::new(),
    };
    let mut entries: Vec<(String, String)> = Vec::new();
    for ink in inks {
        let entry = (ink.label(), ink_class(ink));
        if !entries.iter().any(|(name, _)| *name == entry.0) {
            entries.push(entry);
        }
    }
    match entries.len() {
        0 | 1 => Vec::new(),
        _ => entries,
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
    height: f64,
}

impl Canvas {
    fn new() -> Canvas {
        Canvas {
            body: String::new(),
            height: 0.0,
        }
    }

    /// All that is drawn until [`Self::end_series`] is of this arm.
    fn begin_series(&mut self, name: &str) {
        put!(self.body, "<g data-series=\"{}\">", escape(name));
    }

    fn end_series(&mut self) {
        self.body.push_str("</g>");
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

    /// A mark that says something when it is pointed at, and to who hears the page.
    fn dot(&mut self, (x, y): (f64, f64), radius: f64, class: &str, tip: &str) {
        let tip = escape(tip);
        put!(
            self.body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" class=\"{class}\" data-tip=\"{tip}\">\
             <title>{tip}</title></circle>"
        );
    }

    /// A bar that says something.
    fn bar(&mut self, (x, y): (f64, f64), (w, h): (f64, f64), class: &str, tip: &str) {
        let (w, tip) = (w.max(1.0), escape(tip));
        put!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" class=\"{class}\" \
             data-tip=\"{tip}\"><title>{tip}</title></rect>"
        );
    }

    /// A line through points; nothing below two.
    fn path(&mut self, points: &[(f64, f64)], class: &str, tip: &str) {
        if points.len() < 2 {
            return;
        }
        let mut d = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let command = if i == 0 { 'M' } else { 'L' };
            put!(d, "{command}{x:.1} {y:.1}");
        }
        self.shape(&d, class, tip);
    }

    /// A shape by its path, which says something unless `tip` is empty.
    fn shape(&mut self, d: &str, class: &str, tip: &str) {
        if tip.is_empty() {
            put!(self.body, "<path d=\"{d}\" class=\"{class}\"/>");
        } else {
            let tip = escape(tip);
            put!(
                self.body,
                "<path d=\"{d}\" class=\"{class}\" data-tip=\"{tip}\"><title>{tip}</title></path>"
            );
        }
    }

    /// Says how high the drawing is.
    fn finish(mut self, height: f64) -> Canvas {
        self.height = height;
        self
    }

    fn finished(self, named_by: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" \
             aria-labelledby=\"{named_by}\">{}</svg>\n",
            self.height, self.body
        )
    }
}

/// Mean width of a character in user units: 12 px sans serif.
const CHARACTER: f64 = 6.4;

/// Shortens a text to about this many user units at the charts' type size.
fn fit(text: &str, width: f64) -> String {
    let most = characters_in(width);
    if text.chars().count() <= most {
        return text.into();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}

/// The same where the end is what matters: a figure behind a name.
fn fit_end(text: &str, width: f64) -> String {
    let (most, length) = (characters_in(width), text.chars().count());
    if length <= most {
        return text.into();
    }
    let end: String = text.chars().skip(length + 1 - most).collect();
    format!("…{end}")
}

/// How many characters of text this width has room for.
fn characters_in(width: f64) -> usize {
    plimsoll_core::num::to_usize(plimsoll_core::num::floor_u64(width / CHARACTER)).max(4)
}
