// SPDX-License-Identifier: Apache-2.0
//! A recording as a spreadsheet: both averages, the devices, the bursts, and every interval.
//!
//! The first sheet is what people copy out of recordings by hand: component, figure, the average
//! of the intervals' rates, the average over time, unit. Rows of intervals pass through without
//! being kept, so memory does not grow with them.

use std::io::Write;

use plimsoll_core::model::{BurstPattern, ModelPhase};
use plimsoll_core::profile::{DeviceLoad, IntervalRow, RecordingProfile};
use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use crate::describe::{average_rows, zone_s};

/// Most rows of a sheet below its header: what the format allows.
const ROWS_MAX: u32 = 1_048_575;
/// Days from the spreadsheets' first day to 1970.
const DAYS_TO_1970: f64 = 25_569.0;

/// Widths of columns, their headings.
type SheetColumns<'a> = &'a [(f64, &'a str)];

const AVERAGES: SheetColumns<'_> = &[
    (18.0, "component"),
    (22.0, "figure"),
    (24.0, "average of interval rates"),
    (20.0, "average over time"),
    (8.0, "unit"),
];
const DEVICES: SheetColumns<'_> = &[
    (18.0, "device"),
    (16.0, "layer"),
    (16.0, "counted again"),
    (14.0, "operations/s"),
    (12.0, "read share"),
    (16.0, "bytes/s"),
    (10.0, "busy"),
    (12.0, "mean queue"),
    (14.0, "response, ms"),
];
const PATTERNS: SheetColumns<'_> = &[
    (10.0, "kind"),
    (14.0, "of"),
    (10.0, "count"),
    (14.0, "above, 1/s"),
    (12.0, "period, s"),
    (16.0, "autocorrelation"),
    (16.0, "share of time"),
    (20.0, "share of operations"),
    (12.0, "reads/s"),
    (12.0, "writes/s"),
];
const INTERVALS: SheetColumns<'_> = &[
    (22.0, "from"),
    (12.0, "seconds"),
    (12.0, "reads"),
    (12.0, "writes"),
    (14.0, "read bytes"),
    (14.0, "write bytes"),
    (12.0, "reads/s"),
    (12.0, "writes/s"),
    (14.0, "read bytes/s"),
    (14.0, "write bytes/s"),
    (10.0, "busy"),
    (12.0, "mean queue"),
    (18.0, "read response, ms"),
    (18.0, "write response, ms"),
];

/// Writes the spreadsheet of a recording into `out`. `rows` are the intervals of the device that
/// is described in full. Returns how many of them found no room: the format ends at 1,048,575.
///
/// # Errors
/// When `out` does not take it, or the intervals' temporary file cannot be written.
pub fn xlsx(
    description: &RecordingProfile,
    rows: impl Iterator<Item = IntervalRow>,
    out: impl Write + Send,
) -> std::io::Result<u64> {
    let mut book = Workbook::new();
    let left_out = fill(&mut book, description, rows).map_err(std::io::Error::other)?;
    book.save_to_writer(out).map_err(std::io::Error::other)?;
    Ok(left_out)
}

fn fill(
    book: &mut Workbook,
    description: &RecordingProfile,
    rows: impl Iterator<Item = IntervalRow>,
) -> Result<u64, XlsxError> {
    let averages = sheet(book.add_worksheet(), "averages", AVERAGES)?;
    let component = &description.profile.disk;
    for (row, average) in (1..).zip(average_rows(&description.profile)) {
        averages.write(row, 0, component)?;
        averages.write(row, 1, average.figure)?;
        averages.write(row, 2, average.average.stochastic)?;
        averages.write(row, 3, average.average.time)?;
        averages.write(row, 4, average.unit)?;
    }
    let devices = sheet(book.add_worksheet(), "devices", DEVICES)?;
    for (row, load) in (1..).zip(&description.devices.devices) {
        device(devices, row, load)?;
    }
    let patterns = sheet(book.add_worksheet(), "bursts and phases", PATTERNS)?;
    let mut next = 1;
    for burst in &description.profile.bursts {
        burst_row(patterns, next, burst)?;
        next += 1;
    }
    for phase in &description.profile.phases {
        phase_row(patterns, next, phase)?;
        next += 1;
    }
    let left_out = intervals(book, description, rows)?;
    let source = sheet(
        book.add_worksheet(),
        "source",
        &[(18.0, "what"), (60.0, "value")],
    )?;
    let profile = &description.profile;
    let facts = [
        ("recording", &description.recording),
        ("format", &description.format),
        ("host", &description.host),
        ("from", &profile.from),
        ("to", &profile.to),
    ];
    let notes = description.warnings.iter().map(|note| ("note", note));
    for (row, (what, value)) in (1..).zip(facts.into_iter().chain(notes)) {
        source.write(row, 0, what)?;
        source.write(row, 1, value)?;
    }
    Ok(left_out)
}

/// Names a sheet and writes its header, which stays when the rows are scrolled.
fn sheet<'a>(
    sheet: &'a mut Worksheet,
    name: &str,
    columns: SheetColumns<'_>,
) -> Result<&'a mut Worksheet, XlsxError> {
    let header = Format::new().set_bold();
    sheet.set_name(name)?.set_freeze_panes(1, 0)?;
    for (column, (width, title)) in (0..).zip(columns) {
        sheet.set_column_width(column, *width)?;
        sheet.write_with_format(0, column, *title, &header)?;
    }
    Ok(sheet)
}

/// Writes numbers from a column on; what is unknown or no number stays empty.
fn numbers(
    sheet: &mut Worksheet,
    row: u32,
    first: u16,
    values: &[Option<f64>],
) -> Result<(), XlsxError> {
    for (column, value) in (first..).zip(values) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            sheet.write(row, column, value)?;
        }
    }
    Ok(())
}

fn device(sheet: &mut Worksheet, row: u32, load: &DeviceLoad) -> Result<(), XlsxError> {
    sheet.write(row, 0, &load.name)?;
    sheet.write(row, 1, load.layer.name())?;
    sheet.write(row, 2, if load.counted_again { "yes" } else { "no" })?;
    let figures = [
        load.ops_per_s,
        load.read_share,
        load.bytes_per_s,
        load.busy,
        load.queue,
        load.response_ms,
    ];
    numbers(sheet, row, 3, &figures)
}

fn burst_row(sheet: &mut Worksheet, row: u32, burst: &BurstPattern) -> Result<(), XlsxError> {
    sheet.write(row, 0, "bursts")?;
    sheet.write(row, 1, format!("{}s", burst.direction.name()))?;
    let figures = [
        Some(burst.count as f64),
        Some(burst.threshold_per_s),
        burst.period_s,
        burst.autocorrelation,
        Some(burst.duty),
        Some(burst.share),
    ];
    numbers(sheet, row, 2, &figures)
}

fn phase_row(sheet: &mut Worksheet, row: u32, phase: &ModelPhase) -> Result<(), XlsxError> {
    sheet.write(row, 0, "phase")?;
    sheet.write(row, 1, &phase.name)?;
    numbers(sheet, row, 2, &[Some(phase.stretches.len() as f64)])?;
    numbers(sheet, row, 6, &[Some(phase.share)])?;
    let [read, write] = &phase.load;
    numbers(
        sheet,
        row,
        8,
        &[Some(read.ops_per_s), Some(write.ops_per_s)],
    )
}

fn intervals(
    book: &mut Workbook,
    description: &RecordingProfile,
    rows: impl Iterator<Item = IntervalRow>,
) -> Result<u64, XlsxError> {
    let sheet = sheet(
        book.add_worksheet_with_constant_memory()?,
        "intervals",
        INTERVALS,
    )?;
    let zone_s = zone_s(&description.profile.from);
    let clock = Format::new().set_num_format("yyyy-mm-dd hh:mm:ss.000");
    let mut next = 1;
    let mut left_out = 0;
    for row in rows {
        if next > ROWS_MAX {
            left_out += 1;
            continue;
        }
        let from_s = row.from_unix_ns as f64 / 1e9;
        match zone_s {
            Some(zone_s) => {
                let day = (from_s + zone_s) / 86_400.0 + DAYS_TO_1970;
                sheet.write_with_format(next, 0, day, &clock)?;
            }
            // The recording has no date: seconds since its start.
            None => {
                sheet.write(next, 0, from_s)?;
            }
        }
        let seconds = row.seconds();
        let per_s = |value: Option<f64>| value.map(|value| value / seconds);
        let ms = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
        let figures = [
            Some(seconds),
            row.reads,
            row.writes,
            row.read_bytes,
            row.write_bytes,
            per_s(row.reads),
            per_s(row.writes),
            per_s(row.read_bytes),
            per_s(row.write_bytes),
            row.busy,
            row.queue,
            ms(row.read_response_s()),
            ms(row.write_response_s()),
        ];
        numbers(sheet, next, 1, &figures)?;
        next += 1;
    }
    Ok(left_out)
}
