// SPDX-License-Identifier: Apache-2.0
//! A run as Markdown for a pull request: the answer first, then the verdicts, what to doubt, the command, and
//! the tables of the report folded below.
//!
//! In the dialect of forges (GFM). Names are escaped, so that none becomes markup, a mention or a link.

use plimsoll_core::comparison::ArmComparison;
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::text::{printable, shell_word};

use super::comparisons;
use crate::build::build;
use crate::model::{ReportFinding, ReportItem, ReportSection, ReportTable};
use crate::put::put;
use crate::words;

/// Longest text: forges refuse comments of more than 65,536 characters.
const CHARS_MAX: usize = 60_000;

/// The text.
pub(super) fn markdown(results: &RunFolderContents) -> String {
    let report = build(results);
    let mut out = format!("## {}\n\n", escaped(&report.title));
    let answer = &report.answer;
    if !answer.text.is_empty() {
        put!(out, "**{}**\n\n", escaped(&answer.text));
    }
    for (name, value) in &answer.facts {
        put!(out, "- {}: {}\n", escaped(name), escaped(value));
    }
    put!(out, "\n{}\n\n", escaped(&report.subtitle));
    put_verdicts(&mut out, results);
    if !answer.doubts.is_empty() {
        out.push_str("### What to doubt\n\n");
        for doubt in &answer.doubts {
            put!(out, "- {}\n", escaped(&doubt.text));
        }
        out.push('\n');
    }
    if !report.headline.is_empty() {
        out.push_str("### All findings\n\n");
        report
            .headline
            .iter()
            .for_each(|found| put_finding(&mut out, found));
        out.push('\n');
    }
    put_command(&mut out, &results.manifest.command);
    let mut left_out = 0;
    for section in &report.sections {
        let folded = folded(section);
        match out.chars().count() + folded.chars().count() > CHARS_MAX {
            true => left_out += 1,
            false => out.push_str(&folded),
        }
    }
    if left_out > 0 {
        let sections = words::count(left_out, "section");
        put!(
            out,
            "\n{sections} found no room here; the report holds them.\n"
        );
    }
    out
}

fn put_finding(out: &mut String, found: &ReportFinding) {
    let (mark, text) = (escaped(&found.mark), escaped(&found.text));
    put!(*out, "- **{mark}**: {text}");
    if !found.detail.is_empty() {
        put!(*out, "  \n  {}", escaped(&found.detail));
    }
    out.push('\n');
}

fn put_verdicts(out: &mut String, results: &RunFolderContents) {
    let rows = comparisons(results);
    if rows.is_empty() {
        return;
    }
    let confidence = words::percent_whole(results.manifest.policy.confidence);
    put!(
        *out,
        "| workload | system | base | metric | ratio ({confidence} CI) | verdict | blocks |\n\
         | --- | --- | --- | --- | ---: | --- | ---: |\n"
    );
    for row in rows.iter() {
        let cells = [
            words::workload(row).to_owned(),
            words::arm(row),
            row.base.clone(),
            row.metric.name().to_owned(),
            ratio(row),
            words::verdict(row),
            row.blocks.to_string(),
        ];
        put_row(out, cells.iter().map(String::as_str));
    }
    out.push('\n');
}

fn ratio(row: &ArmComparison) -> String {
    match &row.ratio {
        Some(ratio) => format!("{}× ({})", words::estimate(ratio), words::interval(ratio)),
        None => "–".into(),
    }
}

pub(super) fn put_row<'a>(out: &mut String, cells: impl Iterator<Item = &'a str>) {
    out.push('|');
    cells.for_each(|cell| put!(*out, " {} |", escaped(cell)));
    out.push('\n');
}

pub(super) fn put_command(out: &mut String, command: &[String]) {
    let words: Vec<String> = command
        .iter()
        .map(|word| shell_word(&printable(word)))
        .collect();
    put_code(out, &words.join(" "));
}

/// A command in a fence that is longer than any in it.
fn put_code(out: &mut String, command: &str) {
    let line = printable(command);
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    put!(*out, "{fence}sh\n{line}\n{fence}\n\n");
}

/// A section that opens when it is wanted.
fn folded(section: &ReportSection) -> String {
    let mut out = format!(
        "<details>\n<summary>{}</summary>\n\n",
        escaped(&section.title)
    );
    if !section.lead.is_empty() {
        put!(out, "{}\n\n", escaped(&section.lead));
    }
    for item in &section.items {
        match item {
            ReportItem::Text(text) | ReportItem::Notice(_, text) => {
                put!(out, "{}\n\n", escaped(text));
            }
            ReportItem::Facts(facts) => {
                for (name, value) in facts {
                    put!(out, "- {}: {}\n", escaped(name), escaped(value));
                }
                out.push('\n');
            }
            ReportItem::Table(table) | ReportItem::Folded(_, table) => put_table(&mut out, table),
            ReportItem::Command(command) => put_code(&mut out, command),
            ReportItem::Link { text, to } => {
                put!(out, "{}: {}\n\n", escaped(text), escaped(to));
            }
            // Pictures are what the page is for; each has its table.
            ReportItem::Chart(_) => {}
        }
    }
    out.push_str("</details>\n\n");
    out
}

fn put_table(out: &mut String, table: &ReportTable) {
    put!(*out, "{}\n\n", escaped(&table.caption));
    put_row(
        out,
        table.columns.iter().map(|column| column.title.as_str()),
    );
    out.push('|');
    for column in &table.columns {
        out.push_str(if column.numeric { " ---: |" } else { " --- |" });
    }
    out.push('\n');
    for row in &table.rows {
        let texts: Vec<String> = row
            .iter()
            .map(|cell| match cell.detail.is_empty() {
                true => cell.text.clone(),
                false => format!("{} ({})", cell.text, cell.detail),
            })
            .collect();
        put_row(out, texts.iter().map(String::as_str));
    }
    out.push('\n');
    for note in &table.notes {
        put!(*out, "{}\n\n", escaped(note));
    }
}

/// Text in one line that is shown as it is. An empty comment breaks what forges would link by themselves:
/// mentions, numbers of issues, addresses.
pub(super) fn escaped(text: &str) -> String {
    let text = printable(text);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_word_next = chars.peek().is_some_and(|next| !next.is_whitespace());
        // Of an address or of the name of a picture, not of a time of day.
        let is_name_next = (chars.peek()).is_some_and(|next| *next == '/' || next.is_alphabetic());
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '!' => out.extend(['\\', c]),
            '@' | '#' if is_word_next => out.extend([&*c.to_string(), "<!-- -->"]),
            ':' if is_name_next => out.push_str(":<!-- -->"),
            other => out.push(other),
        }
        if out.eq_ignore_ascii_case("www") || out.to_ascii_lowercase().ends_with(" www") {
            out.push_str("<!-- -->");
        }
    }
    // Text that begins a line of its own may not begin a list or a heading.
    if out.starts_with(['#', '+', '-', '=']) || out.starts_with(|c: char| c.is_ascii_digit()) {
        out = lead(&out);
    }
    out
}

fn lead(text: &str) -> String {
    let number = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut after = text[number..].chars();
    let is_list = number > 0
        && matches!(after.next(), Some('.' | ')'))
        && after.next().is_none_or(char::is_whitespace);
    match (number, is_list) {
        (0, _) => format!("\\{text}"),
        (_, true) => format!("{}\\{}", &text[..number], &text[number..]),
        _ => text.to_owned(),
    }
}
