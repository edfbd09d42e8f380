// SPDX-License-Identifier: Apache-2.0
//! The report for a terminal: the same sentences and tables, charts as far as characters go.
//!
//! Invariant: without colour, nothing but printable characters and line feeds is written, so that
//! a name from outside cannot steer the terminal. Drawings that characters cannot give are left to the
//! page; tables have their values.

mod charts;
mod table;

use plimsoll_core::text::printable;

use crate::model::{
    ReportAnswer, ReportChart, ReportDocument, ReportFigure, ReportFinding, ReportItem,
    ReportNextStep, ReportSection, ReportSeverity,
};

/// The report as text for a terminal of this width (40 at least), ended by a line feed. With
/// `answer_only`, the answer and what casts doubt on it; the rest is left to the page.
pub fn terminal(report: &ReportDocument, width: usize, color: bool, answer_only: bool) -> String {
    let mut page = Page {
        out: String::new(),
        width: width.max(40),
        color,
    };
    let title = page.paint(ReportSeverity::Plain, true, &report.title);
    page.line(&title);
    page.wrapped(ReportSeverity::Muted, "", &report.subtitle);
    if !report.answer.text.is_empty() {
        page.answer(&report.answer);
    }
    if !report.headline.is_empty() {
        page.line("");
        report.headline.iter().for_each(|s| page.sentence(s));
    }
    let wanted = |s: &&ReportSection| !s.page_only && (s.is_answer || !answer_only);
    for section in report.sections.iter().filter(wanted) {
        page.section(section);
    }
    page.next(&report.answer.next);
    page.out
}

/// Most lines of a screen, with one for the line behind it and one for the prompt.
const SCREEN_LINES: usize = 22;

/// The answer on one screen of a terminal of this width: the picture where it fits, and below it the
/// sentence and the next step, where the reader looks.
pub fn terminal_screen(report: &ReportDocument, width: usize, color: bool) -> String {
    let text = |draws: bool, steps: usize| {
        let mut page = Page {
            out: String::new(),
            width: width.max(40),
            color,
        };
        let title = page.paint(ReportSeverity::Plain, true, &report.title);
        page.line(&title);
        let figure = report.answer.figure.as_ref().filter(|_| draws);
        if let Some(figure) = figure {
            page.line("");
            page.figure(figure);
        }
        page.answer(&report.answer);
        for doubt in &report.answer.doubts {
            let text = format!("In doubt: {}", doubt.text);
            page.wrapped(ReportSeverity::Care, "  ", &text);
        }
        page.next(&report.answer.next[..steps.min(report.answer.next.len())]);
        page.out
    };
    let all = report.answer.next.len();
    let forms = [(true, all), (true, 1), (false, 1)];
    let mut forms = forms.map(|(draws, steps)| text(draws, steps)).into_iter();
    let fits = |text: &String| text.lines().count() <= SCREEN_LINES;
    forms.find(fits).unwrap_or_else(|| text(false, 0))
}

/// Text in the making.
struct Page {
    out: String,
    width: usize,
    color: bool,
}

impl Page {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// A word in its tone.
    fn paint(&self, tone: ReportSeverity, bold: bool, text: &str) -> String {
        let text = printable(text);
        let code = match (bold, tone) {
            (true, ReportSeverity::Plain) => "1",
            (_, ReportSeverity::Good) => "34",
            (_, ReportSeverity::Bad) => "31",
            (_, ReportSeverity::Same) => "32",
            (_, ReportSeverity::Care) => "33",
            (_, ReportSeverity::Muted) => "2",
            (false, ReportSeverity::Plain) => "",
        };
        if self.color && !code.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text
        }
    }

    /// A paragraph, every line after `indent`.
    fn wrapped(&mut self, tone: ReportSeverity, indent: &str, text: &str) {
        let room = self.width.saturating_sub(indent.chars().count()).max(20);
        for line in wrap(text, room) {
            let painted = self.paint(tone, false, &line);
            self.line(&format!("{indent}{painted}"));
        }
    }

    fn sentence(&mut self, sentence: &ReportFinding) {
        let mark = self.paint(sentence.tone, false, &format!("[{}]", sentence.mark));
        self.line(&mark);
        self.wrapped(ReportSeverity::Plain, "  ", &sentence.text);
        if !sentence.detail.is_empty() {
            self.wrapped(ReportSeverity::Muted, "  ", &sentence.detail);
        }
    }

    fn section(&mut self, section: &ReportSection) {
        let title = printable(&section.title);
        let rule = "─".repeat(self.width.saturating_sub(title.chars().count() + 4));
        let title = self.paint(ReportSeverity::Plain, true, &title);
        self.line("");
        self.line(&format!("── {title} {rule}"));
        if !section.lead.is_empty() {
            self.wrapped(ReportSeverity::Muted, "", &section.lead);
        }
        for item in &section.items {
            self.item(item);
        }
    }

    fn item(&mut self, item: &ReportItem) {
        match item {
            ReportItem::Text(text) | ReportItem::Folded(text, _) => {
                self.wrapped(ReportSeverity::Plain, "", text);
            }
            ReportItem::Notice(tone, text) => {
                let mark = match tone {
                    ReportSeverity::Bad | ReportSeverity::Care => "! ",
                    _ => "",
                };
                self.wrapped(*tone, "", &format!("{mark}{text}"));
            }
            ReportItem::Facts(facts) => {
                let names = facts.iter().map(|(name, _)| name.chars().count());
                let name_width = names.max().unwrap_or(0);
                for (name, value) in facts {
                    let text = format!("{name:name_width$}  {value}");
                    self.wrapped(ReportSeverity::Plain, "", &text);
                }
            }
            ReportItem::Table(table) => self.table(table),
            ReportItem::Chart(figure) => self.figure(figure),
            ReportItem::Command(command) => self.command(command),
            ReportItem::Link { text, to } => {
                self.wrapped(ReportSeverity::Plain, "", &format!("{text}: {to}"));
            }
        }
    }

    fn figure(&mut self, figure: &ReportFigure) {
        match &figure.chart {
            ReportChart::Forest(forest) => self.forest(forest),
            ReportChart::Dots(dots) => self.dots(dots),
            ReportChart::Series(series) => self.series(&figure.title, series),
            ReportChart::Timeline(timeline) => self.timeline(&figure.title, timeline),
            ReportChart::Curves(_)
            | ReportChart::LoadCurves(_)
            | ReportChart::Waterfall(_)
            | ReportChart::HeatMap(_)
            | ReportChart::Outages(_) => {}
        }
    }

    /// On a line of its own, whole: it is to be copied.
    fn command(&mut self, command: &str) {
        let command = printable(command);
        self.line(&format!("  {command}"));
    }

    /// Answer, above everything else.
    fn answer(&mut self, answer: &ReportAnswer) {
        self.line("");
        let text: Vec<String> = wrap(&answer.text, self.width);
        for line in text {
            let line = self.paint(answer.tone, answer.tone == ReportSeverity::Plain, &line);
            self.line(&line);
        }
        for (name, value) in &answer.facts {
            self.wrapped(ReportSeverity::Muted, "  ", &format!("{name}: {value}"));
        }
    }

    /// Next steps, below everything else, where the reader ends.
    fn next(&mut self, steps: &[ReportNextStep]) {
        if steps.is_empty() {
            return;
        }
        self.line("");
        for step in steps {
            self.wrapped(ReportSeverity::Plain, "", &format!("Next: {}", step.text));
            self.command(&step.command);
        }
    }
}

/// Words in lines of at most `width` characters; a longer word gets a line of its own.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    // Several spaces are kept: they align the values of facts.
    for word in text.split(' ') {
        let length = line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && length > width {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() || !lines.is_empty() || word.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    let unindented = |l: String| l.trim_start().to_owned();
    lines.into_iter().map(unindented).collect()
}
