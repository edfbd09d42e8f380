// SPDX-License-Identifier: Apache-2.0
//! The page: one file that needs no network, no script and no font of its own.
//!
//! Invariant: every text goes through `escape`; the data block cannot close its element. What is
//! said is not decided here.

use std::collections::BTreeSet;

use crate::model::{ReportDocument, ReportItem, ReportSection, ReportTable, ReportTableCell};
use crate::put::put;
use crate::svg::{draw, escape};

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

/// The pieces that [`html`] puts together.
#[must_use]
pub fn page_parts(report: &ReportDocument) -> ReportPageParts {
    let mut taken = BTreeSet::new();
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
    ReportPageParts {
        sections: sections.collect(),
        answer: answer(report),
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
#[must_use]
pub fn html(report: &ReportDocument) -> String {
    let parts = page_parts(report);
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n");
    let title = escape(&report.title);
    put!(
        out,
        "<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{title} – Plimsoll</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
    put!(
        out,
        "<header>\n<h1>{title}</h1>\n<p class=\"subtitle\">{}</p>\n",
        escape(&report.subtitle)
    );
    out.push_str(&parts.answer);
    contents(&mut out, &parts.sections);
    out.push_str("</header>\n");
    parts
        .sections
        .iter()
        .for_each(|part| out.push_str(&part.html));
    // In JSON a `<` can only stand within a string, where its escape means the same: so no name can
    // end the element or open a comment in it.
    let data = report.data.replace('<', "\\u003c");
    put!(
        out,
        "</main>\n<script type=\"application/json\" id=\"plimsoll-data\">{data}</script>\n\
         </body>\n</html>\n"
    );
    out
}

/// The first screen.
fn answer(report: &ReportDocument) -> String {
    let mut out = String::new();
    if report.headline.is_empty() {
        return out;
    }
    out.push_str("<ul class=\"headline\">\n");
    for s in &report.headline {
        put!(
            out,
            "<li><span class=\"chip {}\">{}</span><div><p>{}</p><p class=\"detail\">{}</p>\
             </div></li>\n",
            s.tone.class(),
            escape(&s.mark),
            prose(&s.text),
            prose(&s.detail)
        );
    }
    out.push_str("</ul>\n");
    out
}

/// Running text: escaped, and with percentages that do not break across lines.
fn prose(text: &str) -> String {
    escape(text).replace(" %", "\u{a0}%")
}

fn contents(out: &mut String, parts: &[ReportPagePart]) {
    out.push_str("<nav>");
    for part in parts {
        put!(*out, "<a href=\"#{}\">{}</a>", part.id, escape(&part.title));
    }
    out.push_str("</nav>\n");
}

fn section(out: &mut String, id: &str, part: &ReportSection) {
    put!(
        *out,
        "<section id=\"{id}\">\n<h2>{}</h2>\n",
        escape(&part.title)
    );
    if !part.lead.is_empty() {
        put!(*out, "<p class=\"lead\">{}</p>\n", escape(&part.lead));
    }
    for item in &part.items {
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
            ReportItem::Chart(chart) => out.push_str(&draw(chart)),
        }
    }
    out.push_str("</section>\n");
}

fn table(out: &mut String, table: &ReportTable) {
    put!(
        *out,
        "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>",
        escape(&table.caption)
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
        for (column, value) in table.columns.iter().zip(row) {
            cell(out, value, column.numeric);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    for note in &table.notes {
        put!(*out, "<p class=\"note\">{}</p>\n", prose(note));
    }
}

fn cell(out: &mut String, cell: &ReportTableCell, numeric: bool) {
    let class = if numeric { " class=\"n\"" } else { "" };
    put!(*out, "<td{class}>");
    let how = cell.tone.class();
    if how.is_empty() {
        out.push_str(&escape(&cell.text));
    } else {
        put!(*out, "<span class=\"{how}\">{}</span>", escape(&cell.text));
    }
    if !cell.detail.is_empty() {
        put!(*out, "<small>{}</small>", escape(&cell.detail));
    }
    out.push_str("</td>");
}
