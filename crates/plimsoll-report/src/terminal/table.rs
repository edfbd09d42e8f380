// SPDX-License-Identifier: Apache-2.0
//! Tables in characters: with ranges where they fit, without where they do not and the table can do without,
//! else as records.

use plimsoll_core::text::printable;

use super::Page;
use crate::model::{ReportSeverity, ReportTable, ReportTableCell};

const GAP: usize = 2;

impl Page {
    pub(super) fn table(&mut self, table: &ReportTable) {
        self.line("");
        let caption = self.paint(ReportSeverity::Plain, true, &table.caption);
        self.line(&caption);
        let full = |cell: &ReportTableCell| match cell.detail.as_str() {
            "" => printable(&cell.text),
            detail => printable(&format!("{} ({detail})", cell.text)),
        };
        let short = |cell: &ReportTableCell| printable(&cell.text);
        let few = without_secondary(table);
        if fits(table, &full, self.width) {
            self.rows(table, &full);
        } else if table.keeps_ranges {
            match fits(&few, &full, self.width) {
                true => self.rows(&few, &full),
                false => self.records(table, &full),
            }
        } else if fits(table, &short, self.width) {
            self.rows(table, &short);
        } else if fits(&few, &short, self.width) {
            self.rows(&few, &short);
        } else {
            self.records(table, &full);
        }
        for note in &table.notes {
            self.wrapped(ReportSeverity::Muted, "", note);
        }
    }

    fn rows(&mut self, table: &ReportTable, text: &dyn Fn(&ReportTableCell) -> String) {
        let widths = widths(table, text);
        let pad = |text: &str, width: usize, numeric: bool| {
            let fill = " ".repeat(width.saturating_sub(text.chars().count()));
            if numeric {
                format!("{fill}{text}")
            } else {
                format!("{text}{fill}")
            }
        };
        let mut head = Vec::new();
        for (column, width) in table.columns.iter().zip(&widths) {
            let padded = pad(&printable(&column.title), *width, column.numeric);
            head.push(self.paint(ReportSeverity::Muted, false, &padded));
        }
        self.line(&head.join(&" ".repeat(GAP)));
        for row in &table.rows {
            let mut line = Vec::new();
            for ((cell, column), width) in row.iter().zip(&table.columns).zip(&widths) {
                let padded = pad(&text(cell), *width, column.numeric);
                line.push(self.paint(cell.tone, false, &padded));
            }
            self.line(&line.join(&" ".repeat(GAP)));
        }
    }

    fn records(&mut self, table: &ReportTable, text: &dyn Fn(&ReportTableCell) -> String) {
        let names = table.columns.iter().map(|c| c.title.chars().count());
        let name_width = names.max().unwrap_or(0);
        for row in &table.rows {
            for (cell, column) in row.iter().zip(&table.columns) {
                let value = text(cell);
                if !value.is_empty() {
                    let value = self.paint(cell.tone, false, &value);
                    self.line(&format!("  {:name_width$}  {value}", column.title));
                }
            }
            self.line("");
        }
    }
}

/// The table with the columns that matter most.
fn without_secondary(table: &ReportTable) -> ReportTable {
    let mut few = table.clone();
    let mut keep = table.columns.iter().map(|c| !c.secondary).cycle();
    let mut kept = |_: &ReportTableCell| keep.next().unwrap_or(true);
    // Every row is as long as `columns`, so the cycle starts anew with each.
    few.rows.iter_mut().for_each(|row| row.retain(&mut kept));
    few.columns.retain(|c| !c.secondary);
    few
}

fn widths(table: &ReportTable, text: &dyn Fn(&ReportTableCell) -> String) -> Vec<usize> {
    let column = |(i, title): (usize, &str)| {
        let cells = table.rows.iter().filter_map(|row| row.get(i));
        let widest = cells.map(|cell| text(cell).chars().count()).max();
        widest.unwrap_or(0).max(title.chars().count())
    };
    let titles = table.columns.iter().map(|c| c.title.as_str());
    titles.enumerate().map(column).collect()
}

fn fits(table: &ReportTable, text: &dyn Fn(&ReportTableCell) -> String, width: usize) -> bool {
    let widths = widths(table, text);
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1) <= width
}
