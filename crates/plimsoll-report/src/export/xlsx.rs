// SPDX-License-Identifier: Apache-2.0
//! A run as a spreadsheet: the answer, the verdicts, the trials, and the seconds as far as a sheet goes.

use plimsoll_core::comparison::{ComparisonMetric, ComparisonUnit};
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::text::printable;
use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use super::comparisons;
use super::table::{self, ExportTable, ExportValue};
use crate::build::build;
use crate::words;

/// Most rows of a sheet below its header: what the format allows.
const ROWS_MAX: u32 = 1_048_575;
/// Longest text of a cell.
const CELL_CHARS_MAX: usize = 32_767;

/// The file.
pub(super) fn xlsx(results: &RunFolderContents) -> Result<Vec<u8>, XlsxError> {
    let mut book = Workbook::new();
    book.add_worksheet().set_name("answer")?;
    verdicts(book.add_worksheet(), results)?;
    let trials = fill(book.add_worksheet(), table::trials(results))?;
    let intervals = book.add_worksheet_with_constant_memory()?;
    let seconds = fill(intervals, table::intervals(results))?;
    let cut: Vec<String> = [("trials", trials), ("intervals", seconds)]
        .into_iter()
        .filter(|(_, left_out)| *left_out > 0)
        .map(|(sheet, left_out)| {
            format!("Sheet {sheet} ends at its last possible row: {left_out} rows are left out. CSV and Parquet hold all.")
        })
        .collect();
    answer(book.worksheet_from_name("answer")?, results, &cut)?;
    book.save_to_buffer()
}

fn answer(
    sheet: &mut Worksheet,
    results: &RunFolderContents,
    cut: &[String],
) -> Result<(), XlsxError> {
    let report = build(results);
    for (column, width) in [(0, 22.0), (1, 90.0), (2, 90.0)] {
        sheet.set_column_width(column, width)?;
    }
    header(sheet, &["verdict", "answer", "how sure"])?;
    let findings = report.headline.iter();
    let findings = findings.map(|found| [&*found.mark, &*found.text, &*found.detail]);
    let notes = cut.iter().map(|text| ["note", text, ""]);
    let facts = [
        ["run", &results.manifest.id, &report.subtitle],
        ["command", &results.manifest.command.join(" "), ""],
    ];
    let warnings = results.warnings.iter();
    let warnings = warnings.map(|warning| ["note", &*warning.text, &*warning.about]);
    let rows = findings
        .chain(notes)
        .chain(warnings)
        .chain(facts.iter().copied());
    for (row, texts) in (1..).zip(rows) {
        for (column, words) in (0..).zip(texts) {
            text(sheet, row, column, words)?;
        }
    }
    Ok(())
}

fn verdicts(sheet: &mut Worksheet, results: &RunFolderContents) -> Result<(), XlsxError> {
    sheet.set_name("verdicts")?;
    header(
        sheet,
        &[
            "workload",
            "arm",
            "base",
            "metric",
            "unit",
            "base_value",
            "arm_value",
            "ratio",
            "ratio_low",
            "ratio_high",
            "verdict",
            "blocks",
            "noise_floor",
            "detectable",
            "reason",
        ],
    )?;
    for (row, of) in (1..).zip(comparisons(results).iter()) {
        let (unit, divisor) = unit(of.metric);
        let texts = [
            &*of.workload,
            &words::arm(of),
            &of.base,
            of.metric.name(),
            unit,
        ];
        for (column, words) in (0..).zip(texts) {
            text(sheet, row, column, words)?;
        }
        let value = |value: f64| (value > 0.0).then_some(value / divisor);
        let ratio = of.ratio.as_ref();
        let figures = [
            (5, value(of.base_value)),
            (6, value(of.arm_value)),
            (7, ratio.map(|ratio| ratio.estimate)),
            (8, ratio.map(|ratio| ratio.low)),
            (9, ratio.map(|ratio| ratio.high)),
            (11, Some(f64::from(of.blocks))),
            (12, of.noise_floor),
            (13, of.detectable),
        ];
        for (column, figure) in figures {
            number(sheet, row, column, figure)?;
        }
        text(sheet, row, 10, &words::verdict(of))?;
        text(sheet, row, 14, &of.reason)?;
    }
    Ok(())
}

/// Writes a table; how many of its rows found no room.
fn fill(sheet: &mut Worksheet, table: ExportTable<'_>) -> Result<u64, XlsxError> {
    sheet.set_name(table.name)?;
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    header(sheet, &names)?;
    let (mut next, mut left_out) = (1, 0);
    for row in table.rows {
        if next > ROWS_MAX {
            left_out += 1;
            continue;
        }
        for (column, value) in (0..).zip(&row) {
            match value {
                ExportValue::Text(words) => text(sheet, next, column, words)?,
                ExportValue::Whole(count) => number(sheet, next, column, Some(*count as f64))?,
                ExportValue::Real(figure) => number(sheet, next, column, *figure)?,
                ExportValue::Truth(is_so) => {
                    sheet.write_boolean(next, column, *is_so)?;
                }
            }
        }
        next += 1;
    }
    Ok(left_out)
}

/// Headings that stay when the rows are scrolled.
fn header(sheet: &mut Worksheet, names: &[&str]) -> Result<(), XlsxError> {
    let bold = Format::new().set_bold();
    sheet.set_freeze_panes(1, 0)?;
    for (column, name) in (0..).zip(names) {
        sheet.write_string_with_format(0, column, *name, &bold)?;
    }
    Ok(())
}

/// Text as text, never as a formula or a link.
fn text(sheet: &mut Worksheet, row: u32, column: u16, text: &str) -> Result<(), XlsxError> {
    // XML cannot hold the last two characters of the first plane.
    let shown = printable(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    let shown: String = shown.chars().take(CELL_CHARS_MAX).collect();
    sheet.write_string(row, column, shown).map(drop)
}

/// Figures that are unknown or not finite leave the cell empty.
fn number(
    sheet: &mut Worksheet,
    row: u32,
    column: u16,
    figure: Option<f64>,
) -> Result<(), XlsxError> {
    match figure.filter(|figure| figure.is_finite()) {
        Some(figure) => sheet.write_number(row, column, figure).map(drop),
        None => Ok(()),
    }
}

/// The unit of a metric in a sheet, and the divisor that converts its values.
fn unit(metric: ComparisonMetric) -> (&'static str, f64) {
    match metric.unit() {
        ComparisonUnit::Time => ("s", 1e9),
        ComparisonUnit::Rate => ("ops/s", 1.0),
        ComparisonUnit::Throughput => ("bytes/s", 1.0),
        ComparisonUnit::Bytes => ("bytes", 1.0),
        ComparisonUnit::Index | ComparisonUnit::LogRatio => ("1", 1.0),
    }
}
