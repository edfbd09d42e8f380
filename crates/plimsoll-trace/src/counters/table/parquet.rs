// SPDX-License-Identifier: Apache-2.0
//! Rows of a Parquet file.

use plimsoll_core::mapping::MappingFile;

use super::super::CounterScan;
use super::reader::{TableCell, TableReader};
use super::{columns, disk_name, wrong};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::parquet_table::{ParquetCellValue, ParquetTable};

/// A column without which a table is none of requests.
const OF_REQUESTS: [&str; 2] = ["at_ns", "offset"];

/// Whether a file is a Parquet table of something else than requests.
pub(crate) fn is_of_counters(input: &RecordingInput) -> bool {
    input.head().starts_with(b"PAR1")
        && ParquetTable::open(input).is_ok_and(|table| {
            let names = table.names();
            !OF_REQUESTS
                .iter()
                .any(|wanted| names.iter().any(|name| name == wanted))
        })
}

pub(super) fn scan(
    input: &mut RecordingInput,
    mapping: Option<&MappingFile>,
    scan: &mut CounterScan<'_>,
) -> Result<(), TraceError> {
    let mut table = ParquetTable::open(input)?;
    let columns = columns(&table.names(), mapping, input)?;
    let all = 0..columns.names.len();
    let time = &columns.time;
    let is_read = |place: &usize| {
        let others = [time.until, columns.device, columns.host];
        let long = columns
            .long
            .map_or([None; 2], |(metric, value)| [Some(metric), Some(value)]);
        *place == time.place
            || others.contains(&Some(*place))
            || long.contains(&Some(*place))
            || columns.figures.iter().any(|column| column.place == *place)
    };
    let chosen: Vec<Option<usize>> = all.map(|place| Some(place).filter(is_read)).collect();
    let instants: Vec<Option<bool>> = chosen
        .iter()
        .map(|place| place.and_then(|place| table.instants(place)))
        .collect();
    table.choose(&chosen);
    let mut reader = TableReader::new(columns, &disk_name(input), scan);
    let mut seen = 0_u64;
    let mut given_up = None;
    let ended = loop {
        let more = table.next_rows(&mut |cells| {
            seen += 1;
            let row: Vec<TableCell<'_>> = cells
                .iter()
                .zip(&instants)
                .map(|(cell, instants)| cell_of(cell, *instants))
                .collect();
            match reader.row(&row, scan) {
                Ok(()) => scan.right(),
                Err(what) => {
                    let what = format!("row {seen}: {what}");
                    given_up = given_up.take().or(scan.told.wrong.wrong(0, &what, b""));
                }
            }
        });
        match more {
            Ok(true) if given_up.is_none() => {}
            Ok(_) => break given_up,
            Err(error) => break Some(format!("its group {} of rows: {error}", table.group())),
        }
    };
    if let Some(what) = ended {
        scan.told.damage = Some(input.damage(0, what));
    }
    reader.finish(scan).map_err(|what| wrong(input, what))
}

fn cell_of(cell: &ParquetCellValue, instants: Option<bool>) -> TableCell<'_> {
    match (cell, instants) {
        (ParquetCellValue::Nothing, _) => TableCell::Nothing,
        (ParquetCellValue::Whole(ns), Some(has_zone)) => TableCell::Instant { ns: *ns, has_zone },
        (ParquetCellValue::Whole(value), None) => TableCell::Whole(*value),
        (ParquetCellValue::Odd(value), _) => TableCell::Number(*value),
        (ParquetCellValue::Word(word), _) => TableCell::Text(word),
    }
}
