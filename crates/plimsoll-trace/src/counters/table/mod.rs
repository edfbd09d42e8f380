// SPDX-License-Identifier: Apache-2.0
//! Tables of counters whose columns have names: CSV, JSON and Parquet, as people and monitoring write them.
//!
//! One reader takes rows of cells from files of any format ([`reader`]). The names of the columns
//! ([`names`]) or a mapping file ([`mapped`]) define their meaning. A table is recognised by a column of
//! times and one of operations or bytes; a name that leaves something open is an error. What clouds print
//! is read as such a table ([`cloud`]).

mod cloud;
mod columns;
mod figures;
mod json;
mod mapped;
#[cfg(test)]
mod mapped_tests;
mod names;
#[cfg(feature = "parquet")]
mod parquet;
mod reader;
#[cfg(test)]
mod tests;

use std::path::Path;

use plimsoll_core::mapping::MappingFile;
use plimsoll_core::units::Nanos;

use self::columns::TableColumns;
use self::reader::{TableCell, TableReader};
use super::{CounterFormat, CounterScan};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::text::{cells, first_line, lines};

pub use self::mapped::begun;
pub(crate) use self::mapped::recording_of;

/// Recognised by the names in its first line.
pub(super) const CSV: CounterFormat = CounterFormat {
    name: "CSV with columns by name",
    resolution: Nanos(1),
    is: |head| CsvHeading::of(head).is_some_and(|heading| is_table(&heading.names)),
    scan: |input, scan| csv(input, None, scan),
};
/// Recognised by the keys of its first object.
pub(super) const JSON: CounterFormat = CounterFormat {
    name: "JSON with keys by name (lines, lists, CloudWatch)",
    resolution: Nanos(1),
    is: json::is_one,
    scan: |input, scan| json::scan(input, None, scan),
};
/// Recognised by its first bytes, where it is not of requests.
#[cfg(feature = "parquet")]
pub(super) const PARQUET: CounterFormat = CounterFormat {
    name: "Parquet with columns by name",
    resolution: Nanos(1),
    is: |head| head.starts_with(b"PAR1"),
    scan: |input, scan| parquet::scan(input, None, scan),
};
/// Recognised by its first key.
pub(super) const MAPPED: CounterFormat = CounterFormat {
    name: "mapping file of plimsoll new mapping",
    resolution: Nanos(1),
    is: mapped::is_one,
    scan: mapped::scan,
};

#[cfg(feature = "parquet")]
pub(crate) use self::parquet::is_of_counters;

/// Whether columns of these names are a table of disks, also one whose names leave something open.
fn is_table(names: &[String]) -> bool {
    match TableColumns::of_names(names) {
        Ok(columns) => columns.is_some(),
        Err(_) => true,
    }
}

/// Meaning of the columns of these names, as a mapping file says if there is one.
fn columns(
    names: &[String],
    mapping: Option<&MappingFile>,
    input: &RecordingInput,
) -> Result<TableColumns, TraceError> {
    let found = match mapping {
        Some(mapping) => TableColumns::of_mapping(names, mapping).map(Some),
        None => TableColumns::of_names(names),
    };
    let found = found.and_then(|found| {
        found.ok_or_else(|| {
            format!(
                "none of its columns is known to be of a disk; it has {}; say what they are in a mapping \
                 file, which plimsoll new mapping FILE begins",
                names.join(", ")
            )
        })
    });
    found.map_err(|what| wrong(input, what))
}

fn wrong(input: &RecordingInput, what: impl Into<String>) -> TraceError {
    TraceError::format(input.name(), what)
}

/// Name of a disk that its table does not name: that of the file.
fn disk_name(input: &RecordingInput) -> String {
    let name = Path::new(input.name()).file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let bare = name.split('.').next().filter(|bare| !bare.is_empty());
    bare.unwrap_or("disk").into()
}

/// The first line of a CSV.
#[derive(Debug)]
pub(super) struct CsvHeading {
    pub(super) separator: u8,
    pub(super) names: Vec<String>,
    /// Bytes before its end.
    length: usize,
}

impl CsvHeading {
    /// That of a file that begins so; `sep=;`, which Excel wants, may stand before it.
    fn of(head: &[u8]) -> Option<CsvHeading> {
        let line = first_line(head)?;
        let place = line.as_ptr() as usize - head.as_ptr() as usize;
        let end = place + line.len();
        if let [b's', b'e', b'p', b'=', _] = line {
            let heading = CsvHeading::of(head.get(end..)?)?;
            return Some(CsvHeading {
                length: heading.length + end,
                ..heading
            });
        }
        let count = |separator: &u8| cells(line, *separator).count();
        let separator = *b",;\t"
            .iter()
            .rev()
            .max_by_key(|separator| count(separator))?;
        CsvHeading::parted(line, separator, end)
    }

    fn parted(line: &[u8], separator: u8, length: usize) -> Option<CsvHeading> {
        let names: Vec<String> = cells(line, separator).map(name).collect();
        let is_text = str::from_utf8(line).is_ok() && !line.contains(&0);
        (names.len() > 1 && is_text).then_some(CsvHeading {
            separator,
            names,
            length,
        })
    }
}

/// The name in a cell.
fn name(cell: &[u8]) -> String {
    String::from_utf8_lossy(cell)
        .replace("\"\"", "\"")
        .trim()
        .into()
}

/// Whether some number at the beginning of a CSV can only have its fraction behind its comma: `0,125`,
/// `12,5`.
fn has_decimal_commas(head: &[u8], separator: u8) -> bool {
    let is_one = |cell: &[u8]| {
        let Some([whole, fraction]) = crate::text::columns::<2>(cell, b',') else {
            return false;
        };
        let is_digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        is_digits(whole) && is_digits(fraction) && (fraction.len() != 3 || whole == b"0")
    };
    lines(head).any(|line| cells(line, separator).any(is_one))
}

fn csv(
    input: &mut RecordingInput,
    mapping: Option<&MappingFile>,
    scan: &mut CounterScan<'_>,
) -> Result<(), TraceError> {
    let separator = mapping
        .and_then(|mapping| mapping.separator)
        .map(mapped::separator);
    let head = input.head().to_vec();
    let mut heading = None;
    while let Some((_, line)) = input.wide_line()? {
        let found = match separator {
            Some(separator) => CsvHeading::parted(line, separator, 0),
            None => CsvHeading::of(line),
        };
        if !line.trim_ascii().is_empty() && !line.starts_with(b"sep=") {
            heading = found;
            break;
        }
    }
    let Some(heading) = heading else {
        let what = "its first line is none of the names of columns";
        return Err(wrong(input, what));
    };
    let mut columns = columns(&heading.names, mapping, input)?;
    columns.has_decimal_commas |= has_decimal_commas(&head, heading.separator);
    let mut reader = TableReader::new(columns, &disk_name(input), scan);
    scan.lines(input, RecordingInput::wide_line, |scan, _, line| {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let row: Vec<&[u8]> = cells(line, heading.separator).collect();
        if row.len() != heading.names.len() {
            return Err("it has not as many columns as the first line".to_owned());
        }
        let is_heading = || {
            row.iter()
                .map(|cell| name(cell))
                .eq(heading.names.iter().cloned())
        };
        if row[0].first().is_some_and(u8::is_ascii_alphabetic) && is_heading() {
            // Another file was put behind the first.
            scan.gap();
            return Ok(());
        }
        let row: Vec<TableCell<'_>> = row.into_iter().map(TableCell::Text).collect();
        reader.row(&row, scan)?;
        scan.right();
        Ok(())
    })?;
    if !input.ended_by_line() {
        scan.warn_once("its last line has no end, so it may be cut off");
    }
    reader.finish(scan).map_err(|what| wrong(input, what))
}
