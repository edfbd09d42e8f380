// SPDX-License-Identifier: Apache-2.0
//! A table as comma-separated values (RFC 4180, lines end with a line feed), with a header line.

use super::table::{ExportTable, ExportValue};
use crate::put::put;

/// The table.
pub(super) fn csv(table: ExportTable<'_>) -> String {
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    let mut out = names.join(",");
    out.push('\n');
    for row in table.rows {
        for (number, value) in row.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            match value {
                ExportValue::Text(text) => out.push_str(&field(text)),
                ExportValue::Whole(number) => put!(out, "{number}"),
                ExportValue::Real(Some(number)) if number.is_finite() => put!(out, "{number}"),
                ExportValue::Real(_) => {}
                ExportValue::Truth(is_so) => put!(out, "{is_so}"),
            }
        }
        out.push('\n');
    }
    out
}

/// A name as a field. A spreadsheet takes a field that begins like a formula for one, from any
/// source, so an apostrophe goes before it (OWASP, CSV injection).
fn field(text: &str) -> String {
    let guard = match text.starts_with(['=', '+', '-', '@']) {
        true => "'",
        false => "",
    };
    if text.contains(['"', ',']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{guard}{text}")
    }
}
