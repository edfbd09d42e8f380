// SPDX-License-Identifier: Apache-2.0
//! The page: one file that needs no network, no script and no font of its own. The script that it carries
//! adds pointing, sorting and copying to what is there.
//!
//! Invariant: every text goes through `escape`; the data block cannot close its element. What is
//! said is not decided here.

use std::collections::BTreeSet;

use crate::chart_tables;
use crate::model::{
    ReportAnswer, ReportDocument, ReportDoubt, ReportFigure, ReportItem, ReportNextStep,
    ReportSection, ReportTable, ReportTableCell,
};
use crate::put::put;
use crate::script::{SCRIPT, policy};
use crate::svg::{draw, escape, legend};

/// The style sheet of every page that shows a report.
pub const STYLE: &str = include_str!("page.css");

/// A report in pieces, for a page that shows more than it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportPageParts {
    /// The first screen, as HTML.
    pub answer: String,
    /// The rest.
    pub sections: Vec<ReportPagePart>,
}

/// A section of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportPagePart {
    /// Name of its place, unique in the page.
    pub id: String,
    /// Its heading, as text.
    pub title: String,
    /// The whole `<section>`, as HTML.
    pub html: String,
}

/// Where all findings stand.
const FINDINGS: &str = "findings";
/// Names of places that no section may take.
const TAKEN: [&str; 5] = [
    "answer",
    "content",
    "answer-chart",
    FINDINGS,
    "plimsoll-data",
];

/// The pieces that [`html`] puts together.
pub fn page_parts(report: &ReportDocument) -> ReportPageParts {
    let mut taken: BTreeSet<String> = TAKEN.map(Into::into).into();
    let sections = report.sections.iter().map(|part| {
        let id = unique(&part.id, &mut taken);
        let mut html = String::new();
        section(&mut html, &id, part);
        ReportPagePart {
            id,
            title: part.title.clone(),
            html,
        }
    });
    let mut sections: Vec<ReportPagePart> = sections.collect();
    // Below what is missing and what answers, above the evidence.
    let answers = report.sections.iter().take_while(|part| part.is_answer);
    let place = answers.count();
    if let Some(findings) = findings(report) {
        sections.insert(place, findings);
    }
    ReportPageParts {
        answer: answer(report, &sections),
        sections,
    }
}

/// The name, with a number where it is taken.
fn unique(id: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|n: u32| format!("{id}-{n}"));
    let mut names = std::iter::once(id.to_owned()).chain(numbered);
    let free = names.find(|name| taken.insert(name.clone()));
    free.unwrap_or_default()
}

/// A complete HTML document.
pub fn html(report: &ReportDocument) -> String {
    let parts = page_parts(report);
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n");
    let title = escape(&report.title);
    put!(
        out,
        "<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{title} – Plimsoll</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#content\">Skip to the evidence</a>\n",
        policy()
    );
    put!(
        out,
        "<header>\n<h1>{title}</h1>\n<p class=\"subtitle\">{}</p>\n</header>\n<main>\n{}",
        escape(&report.subtitle),
        parts.answer
    );
    contents(&mut out, &parts.sections);
    out.push_str("<div id=\"content\">\n");
    parts
        .sections
        .iter()
        .for_each(|part| out.push_str(&part.html));
    // In JSON a `<` can only stand within a string, where its escape means the same: so no name can
    // end the element or open a comment in it.
    let data = report.data.replace('<', "\\u003c");
    put!(
        out,
        "</div>\n</main>\n<script type=\"application/json\" id=\"plimsoll-data\">{data}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n"
    );
    out
}

/// The first screen: the sentence, what else is asked at once, the picture, what to do and what to doubt.
fn answer(report: &ReportDocument, sections: &[ReportPagePart]) -> String {
    let ReportAnswer {
        text,
        tone,
        facts,
        figure,
        next,
        doubts,
    } = &report.answer;
    let mut out = String::new();
    if text.is_empty() {
        return out;
    }
    put!(
        out,
        "<section id=\"answer\" class=\"answer\" aria-labelledby=\"answer-title\">\n\
         <h2 id=\"answer-title\" class=\"aside\">Answer</h2>\n<p class=\"said {}\">{}</p>\n",
        tone.class(),
        prose(text)
    );
    if !facts.is_empty() {
        out.push_str("<dl class=\"short\">\n");
        for (name, value) in facts {
            put!(
                out,
                "<div><dt>{}</dt><dd>{}</dd></div>\n",
                escape(name),
                prose(value)
            );
        }
        out.push_str("</dl>\n");
    }
    if let Some(figure) = figure {
        chart(&mut out, "answer-chart", figure);
    }
    if !next.is_empty() || !doubts.is_empty() {
        out.push_str("<div class=\"two\">\n");
        steps(&mut out, next);
        doubted(&mut out, doubts, sections);
        out.push_str("</div>\n");
    }
    out.push_str("</section>\n");
    out
}

fn steps(out: &mut String, next: &[ReportNextStep]) {
    if next.is_empty() {
        return;
    }
    out.push_str("<div>\n<h3>What to do next</h3>\n");
    for step in next {
        put!(*out, "<p>{}</p>\n", prose(&step.text));
        command(out, &step.command);
    }
    out.push_str("</div>\n");
}

fn doubted(out: &mut String, doubts: &[ReportDoubt], sections: &[ReportPagePart]) {
    out.push_str("<div>\n<h3>What to doubt</h3>\n");
    if doubts.is_empty() {
        out.push_str("<p>Nothing raised a doubt.</p>\n");
    } else {
        out.push_str("<ul>\n");
        for doubt in doubts {
            let is_there = sections.iter().any(|part| part.id == doubt.section);
            let more = match is_there {
                true => format!(" <a href=\"#{}\">More</a>", doubt.section),
                false => String::new(),
            };
            put!(*out, "<li>{}{more}</li>\n", prose(&doubt.text));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</div>\n");
}

/// Command to type, where there is one.
fn command(out: &mut String, text: &str) {
    if !text.is_empty() {
        put!(
            *out,
            "<pre class=\"command\" tabindex=\"0\" role=\"group\" aria-label=\"Command\">{}</pre>\n",
            escape(text)
        );
    }
}

/// All that was found, one by one.
fn findings(report: &ReportDocument) -> Option<ReportPagePart> {
    if report.headline.is_empty() {
        return None;
    }
    let mut html = String::new();
    open_section(&mut html, FINDINGS, "All findings");
    html.push_str("<ul class=\"headline\">\n");
    for s in &report.headline {
        put!(
            html,
            "<li><span class=\"chip {}\">{}</span><div><p>{}</p><p class=\"detail\">{}</p>\
             </div></li>\n",
            s.tone.class(),
            escape(&s.mark),
            prose(&s.text),
            prose(&s.detail)
        );
    }
    html.push_str("</ul>\n</section>\n");
    Some(ReportPagePart {
        id: FINDINGS.into(),
        title: "All findings".into(),
        html,
    })
}

/// Running text: escaped, and with percentages that do not break across lines.
fn prose(text: &str) -> String {
    escape(text).replace(" %", "\u{a0}%")
}

fn contents(out: &mut String, parts: &[ReportPagePart]) {
    out.push_str("<nav aria-label=\"Sections\">");
    for part in parts {
        put!(*out, "<a href=\"#{}\">{}</a>", part.id, escape(&part.title));
    }
    out.push_str("</nav>\n");
}

/// A heading with a link to itself, so that a reader can copy its address.
fn open_section(out: &mut String, id: &str, title: &str) {
    let title = escape(title);
    put!(
        *out,
        "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\" data-has-link=\"\">\
         {title}<a class=\"here\" href=\"#{id}\" aria-label=\"Link to this section: {title}\">#</a></h2>\n"
    );
}

fn section(out: &mut String, id: &str, part: &ReportSection) {
    open_section(out, id, &part.title);
    if !part.lead.is_empty() {
        put!(*out, "<p class=\"lead\">{}</p>\n", escape(&part.lead));
    }
    for (place, item) in part.items.iter().enumerate() {
        match item {
            ReportItem::Text(text) => put!(*out, "<p>{}</p>\n", prose(text)),
            ReportItem::Notice(how, text) => put!(
                *out,
                "<p class=\"notice {}\">{}</p>\n",
                how.class(),
                prose(text)
            ),
            ReportItem::Facts(facts) => {
                out.push_str("<dl>\n");
                for (name, value) in facts {
                    put!(
                        *out,
                        "<dt>{}</dt><dd>{}</dd>\n",
                        escape(name),
                        escape(value)
                    );
                }
                out.push_str("</dl>\n");
            }
            ReportItem::Table(rows) => table(out, rows),
            ReportItem::Folded(line, rows) => {
                put!(*out, "<details><summary>{}</summary>\n", prose(line));
                table(out, rows);
                out.push_str("</details>\n");
            }
            ReportItem::Chart(figure) => chart(out, &format!("{id}-chart-{place}"), figure),
            ReportItem::Command(text) => command(out, text),
            ReportItem::Link { text, to } => put!(
                *out,
                "<p><a href=\"{}\">{}</a></p>\n",
                escape(to),
                escape(text)
            ),
        }
    }
    out.push_str("</section>\n");
}

/// The question, the answer, the drawing, its legend and its table.
fn chart(out: &mut String, id: &str, figure: &ReportFigure) {
    let title = escape(&figure.title);
    put!(
        *out,
        "<figure id=\"{id}\">\n<figcaption><strong id=\"{id}-title\">{title}</strong>\
         <span>{}</span></figcaption>\n",
        prose(&figure.answer)
    );
    let entries = legend(&figure.chart);
    if !entries.is_empty() {
        out.push_str("<ul class=\"legend\">");
        for (name, class) in entries {
            let name = escape(&name);
            put!(
                *out,
                "<li class=\"{class}\" data-legend=\"{name}\">{name}</li>"
            );
        }
        out.push_str("</ul>\n");
    }
    put!(
        *out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Chart: {title}\">{}</div>\n",
        draw(figure, &format!("{id}-title"))
    );
    if let Some(rows) = chart_tables::table(figure) {
        out.push_str("<details><summary>The chart as a table</summary>\n");
        table(out, &rows);
        out.push_str("</details>\n");
    }
    out.push_str("</figure>\n");
}

/// Most rows of a table that a narrow screen shows row below row, each cell with the title of its column.
const CARD_ROWS_MAX: usize = 12;
/// Fewest columns of one: a table with fewer fits beside each other.
const CARD_COLUMNS_MIN: usize = 4;

fn table(out: &mut String, table: &ReportTable) {
    let caption = escape(&table.caption);
    let is_cards = table.rows.len() <= CARD_ROWS_MAX && table.columns.len() >= CARD_COLUMNS_MIN;
    let class = if is_cards { " class=\"cards\"" } else { "" };
    put!(
        *out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table: {caption}\"><table{class}>\n\
         <caption>{caption}</caption>\n<thead><tr>"
    );
    for column in &table.columns {
        let class = if column.numeric { " class=\"n\"" } else { "" };
        put!(
            *out,
            "<th scope=\"col\"{class}>{}</th>",
            escape(&column.title)
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        let first = row.first().is_some_and(|c| !c.text.is_empty());
        out.push_str(if first {
            "<tr class=\"first\">"
        } else {
            "<tr>"
        });
        for (place, (column, value)) in table.columns.iter().zip(row).enumerate() {
            let is_head = place == 0 && first && !column.numeric;
            let label = if is_cards { &*column.title } else { "" };
            cell(out, value, column.numeric, is_head, label);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    for note in &table.notes {
        put!(*out, "<p class=\"note\">{}</p>\n", prose(note));
    }
}

/// `label`: the title of its column, where a narrow screen shows it beside the cell.
fn cell(out: &mut String, cell: &ReportTableCell, numeric: bool, is_head: bool, label: &str) {
    let class = if numeric { " class=\"n\"" } else { "" };
    let label = match label {
        "" => String::new(),
        title => format!(" data-c=\"{}\"", escape(title)),
    };
    let value = cell.value.or_else(|| plain_number(&cell.text));
    let value = value.filter(|value| numeric && value.is_finite());
    let sorted = value.map_or(String::new(), |value| format!(" data-n=\"{value}\""));
    let (tag, scope) = match is_head {
        true => ("th", " scope=\"row\""),
        false => ("td", ""),
    };
    put!(*out, "<{tag}{scope}{class}{label}{sorted}>");
    let how = cell.tone.class();
    if how.is_empty() {
        out.push_str(&escape(&cell.text));
    } else {
        put!(*out, "<span class=\"{how}\">{}</span>", escape(&cell.text));
    }
    if !cell.detail.is_empty() {
        put!(*out, "<small>{}</small>", escape(&cell.detail));
    }
    put!(*out, "</{tag}>");
}

/// The number that a cell is by itself: `1 234`, `4.2 %`, `3.1×`, `3.12 (2.8 to 3.5)`. Not of one with a
/// unit, which differs from cell to cell.
fn plain_number(text: &str) -> Option<f64> {
    let digits = |c: &char| c.is_ascii_digit() || ['.', '\u{202f}', '-', '+'].contains(c);
    let number: String = text
        .chars()
        .take_while(digits)
        .filter(|c| *c != '\u{202f}')
        .collect();
    let rest = text.trim_start_matches(|c| digits(&c)).trim_start();
    let is_bare = rest.is_empty() || rest.starts_with(['%', '×', '(']);
    number.parse().ok().filter(|_| is_bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_lets_the_script_run_that_the_page_carries() {
        let report = ReportDocument {
            title: "none".into(),
            subtitle: String::new(),
            answer: ReportAnswer::default(),
            headline: Vec::new(),
            sections: Vec::new(),
            data: "{}".into(),
        };
        let page = html(&report);
        assert!(page.contains(&format!("<script>{SCRIPT}</script>")));
        assert!(page.contains(&policy()));
        let parts = [
            "script-src 'sha256-",
            "base-uri 'none'",
            "form-action 'none'",
        ];
        assert!(parts.into_iter().all(|part| page.contains(part)));
        assert_eq!(
            page.matches("<script").count(),
            2,
            "the data and the script"
        );
    }

    #[test]
    fn a_cell_that_is_a_number_is_sorted_by_it() {
        for (text, expect) in [
            ("1\u{202f}234", Some(1234.0)),
            ("4.2 %", Some(4.2)),
            ("3.12 (2.80 to 3.48)", Some(3.12)),
            ("12 ms", None),
            ("–", None),
            ("> 1000 (2 to 3)", None),
            ("", None),
        ] {
            assert_eq!(plain_number(text), expect, "{text}");
        }
    }
}
