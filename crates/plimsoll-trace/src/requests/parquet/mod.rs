// SPDX-License-Identifier: Apache-2.0
//! Requests in a Parquet file: what `plimsoll record --requests` makes, and a table that other
//! programs read.
//!
//! Columns: `at_ns` (start, from the origin), `took_ns` (absent where the end is not known), `kind`
//! (`read`, `write`, `discard`, `flush`), `device`, `offset` and `bytes`; all numbers are of 64 bits
//! with a sign. The file's own table of keys holds `plimsoll.origin_unix_ns` and `plimsoll.lost`.
//! Numbers are kept as differences and words in a dictionary, without further compression. Memory
//! is bounded by a group of rows when it is written, by some pages when it is read.
//!
//! Tables of other programs may be compressed (snappy, gzip, zstd, LZ4), have numbers and times of other
//! types, which say what they are, words in any case, no `took_ns`, and times since 1970. A row that is no
//! request is left out and counted.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::rows::{TOO_MANY_TARGETS, TraceOrigin};
use super::spool::KINDS;
use super::{TIMED, TraceFormat, TraceRequest};
use crate::error::{RecordingDamage, TraceError};
use crate::parquet_table::{ParquetCellValue, ParquetTable};
use crate::recording::{
    RecordingCapabilities, RecordingDetail, TraceOrder, TraceReadState, TraceSource,
};
use crate::targets::DeviceNameTable;

const MAGIC: &[u8] = b"PAR1";
const SCHEMA: &str = "message requests {
  required int64 at_ns;
  optional int64 took_ns;
  required binary kind (utf8);
  required binary device (utf8);
  required int64 offset;
  required int64 bytes;
}";
const ORIGIN: &str = "plimsoll.origin_unix_ns";
const LOST: &str = "plimsoll.lost";
/// Rows of a group that is written: a reader may skip by groups, and some hold one.
const GROUP_ROWS: usize = 1 << 18;

/// Recognised by its first bytes.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "Parquet, as plimsoll record makes it",
    is: |head| head.starts_with(MAGIC),
    open: |input| {
        let table = ParquetTable::open(&input)?;
        Ok(Box::new(ParquetReader::open(input.name(), table)?))
    },
};

/// Writes all of a recording into a new Parquet file; how many requests these were.
///
/// # Errors
/// When the file exists or cannot be written, or the recording cannot be read.
pub fn write(recording: &mut dyn TraceSource, path: &Path) -> Result<u64, TraceError> {
    let refused = |source| TraceError::unwritten(path, source);
    let failed = |error: ParquetError| refused(std::io::Error::other(error));
    let file = crate::new_file::new_file(path).map_err(refused)?;
    let schema = parse_message_type(SCHEMA).map_err(failed)?;
    let mut writer = SerializedFileWriter::new(&file, Arc::new(schema), Arc::new(properties()))
        .map_err(failed)?;
    let mut rows = Vec::new();
    let mut written = 0;
    loop {
        let more = recording.read(&mut rows)?;
        if rows.len() >= GROUP_ROWS || !more && !rows.is_empty() {
            let group = writer.next_row_group().map_err(failed)?;
            write_group(group, &rows, recording.targets()).map_err(failed)?;
            written += rows.len() as u64;
            rows.clear();
        }
        if !more {
            break;
        }
    }
    let told = [
        (ORIGIN, recording.origin_unix_ns()),
        (LOST, Some(recording.lost())),
    ];
    for (key, value) in told {
        if let Some(value) = value {
            writer.append_key_value_metadata(KeyValue::new(key.into(), value.to_string()));
        }
    }
    writer.close().map_err(failed)?;
    file.sync_all().map_err(refused)?;
    Ok(written)
}

fn properties() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("plimsoll ", env!("CARGO_PKG_VERSION")).into())
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in ["at_ns", "took_ns", "offset"] {
        let column = ColumnPath::from(column);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

fn write_group(
    mut group: SerializedRowGroupWriter<'_, &File>,
    rows: &[TraceRequest],
    devices: &[String],
) -> Result<(), ParquetError> {
    let words: Vec<ByteArray> = devices.iter().map(|name| name.as_str().into()).collect();
    let kind = |kind: OpKind| {
        let known = KINDS.iter().find(|(known, _)| *known == kind);
        ByteArray::from(known.map_or("other", |(_, word)| *word))
    };
    let took = rows.iter().filter_map(|row| Some(long(row.took?.0)));
    let has_end: Vec<i16> = rows.iter().map(|row| row.took.is_some().into()).collect();
    column::<Int64Type, _>(&mut group, rows.iter().map(|row| long(row.at.0)), None)?;
    column::<Int64Type, _>(&mut group, took, Some(&has_end))?;
    column::<ByteArrayType, _>(&mut group, rows.iter().map(|row| kind(row.kind)), None)?;
    let device = |row: &TraceRequest| words[usize::from(row.target)].clone();
    column::<ByteArrayType, _>(&mut group, rows.iter().map(device), None)?;
    column::<Int64Type, _>(&mut group, rows.iter().map(|row| long(row.offset)), None)?;
    column::<Int64Type, _>(
        &mut group,
        rows.iter().map(|row| i64::from(row.bytes)),
        None,
    )?;
    group.close().map(drop)
}

/// Writes the next column of a group; `levels` tell which of its values are there.
///
/// # Errors
/// When it cannot be written.
pub fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: impl Iterator<Item = T::T>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = values.collect();
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General(
            "the schema has too few columns".into(),
        ));
    };
    column.typed::<T>().write_batch(&values, levels, None)?;
    column.close()
}

/// Times and places beyond 2^63 are not of this world.
pub fn long(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

const NO_ZONE: &str = "its times have no time zone and are taken as UTC";
/// The columns, in the order of the schema.
const NAMES: [&str; 6] = ["at_ns", "took_ns", "kind", "device", "offset", "bytes"];
/// The one that a table may do without.
const TOOK: usize = 1;
/// Rows among which the earliest start is looked for.
const FIRST: usize = 1 << 16;
/// Times from here on count from 1970, not from the origin: of March 1973, or after three years.
const ABSOLUTE_MIN: Nanos = Nanos(100_000_000_000_000_000);
/// Rows in a row that are no requests before the rest of a file is given up.
const ODD_IN_A_ROW_MAX: u64 = 1_000;

struct ParquetReader {
    state: TraceReadState,
    /// Of which each of [`NAMES`] is read, if it has it.
    table: ParquetTable,
    /// Origin that the file states, or the earliest start where times count from 1970.
    origin_unix_ns: Option<u64>,
    /// From the times of the file to those of the recording.
    begin: TraceOrigin,
    rows: ParquetRowStats,
}

/// Rows so far.
#[derive(Default)]
struct ParquetRowStats {
    seen: u64,
    odd: u64,
    odd_in_a_row: u64,
    /// The first that is no request, and why.
    first_odd: Option<String>,
}

impl ParquetReader {
    fn open(name: &str, mut table: ParquetTable) -> Result<ParquetReader, TraceError> {
        let wrong = |what: String| TraceError::format(name, what);
        let known = table.names();
        let columns = NAMES.map(|wanted| known.iter().position(|name| name == wanted));
        for (place, wanted) in columns.iter().zip(NAMES) {
            if place.is_none() && wanted != NAMES[TOOK] {
                return Err(wrong(format!(
                    "it is a Parquet file without the column {wanted}; a table of requests has \
                     the columns {}",
                    NAMES.join(", ")
                )));
            }
        }
        let is_utc = columns[0].and_then(|at| table.instants(at));
        table.choose(&columns);
        if columns[2].is_some_and(|kind| !table.is_text(kind)) {
            return Err(wrong("its column kind holds no words".into()));
        }
        let keys = table.about().key_value_metadata();
        let keys: BTreeMap<&str, u64> = keys
            .into_iter()
            .flatten()
            .filter_map(|pair| Some((pair.key.as_str(), pair.value.as_ref()?.parse().ok()?)))
            .collect();
        let carries = carries(columns, &|place| table.unit(place));
        let mut state = TraceReadState::new(name, "Parquet", carries);
        state.lost = keys.get(LOST).copied().unwrap_or(0);
        if is_utc == Some(false) {
            state.warnings.push(NO_ZONE.into());
        }
        Ok(ParquetReader {
            state,
            origin_unix_ns: keys.get(ORIGIN).copied(),
            table,
            begin: TraceOrigin::default(),
            rows: ParquetRowStats::default(),
        })
    }

    /// Reads the next rows; `false` when there are none.
    fn next_rows(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, ParquetError> {
        let (targets, counts) = (&mut self.state.targets, &mut self.rows);
        let more = self
            .table
            .next_rows(&mut |cells| counts.take(cells, targets, into))?;
        if self.rows.odd_in_a_row >= ODD_IN_A_ROW_MAX {
            let what = format!("{ODD_IN_A_ROW_MAX} rows in a row are not requests");
            return Err(ParquetError::General(what));
        }
        Ok(more)
    }

    /// Ends at rows that cannot be read; when they are the first, nothing of the file can.
    fn end(&mut self, error: &ParquetError) -> Result<(), TraceError> {
        let first = self.rows.first_odd.take();
        let first = first.map_or(String::new(), |first| format!("; the first, {first}"));
        let what = format!("its group {} of rows: {error}{first}", self.table.group());
        let damage = RecordingDamage::new(&self.state.about.name, 0, what);
        self.table.end();
        if self.rows.seen == self.rows.odd {
            return Err(damage.into());
        }
        self.state.damage = Some(damage);
        Ok(())
    }

    /// Counts starts from the origin.
    fn place(&mut self, fresh: &mut [TraceRequest]) {
        let Some(earliest) = fresh.iter().map(|request| request.at).min() else {
            return;
        };
        let is_absolute = earliest >= ABSOLUTE_MIN;
        if is_absolute && self.begin.at.is_none() {
            self.origin_unix_ns = Some(earliest.0);
        }
        let begin = if is_absolute { earliest } else { Nanos(0) };
        self.begin.at.get_or_insert(begin);
        self.begin.place(fresh);
    }

    /// Says what was left out; a file of which nothing was understood is an error.
    fn finish(&mut self) -> Result<(), TraceError> {
        let first = self.rows.first_odd.take();
        if self.rows.seen == self.rows.odd {
            return Err(self.state.refused(match first {
                Some(first) => format!("no row of it is a request; the first, {first}"),
                None => "it has no rows".into(),
            }));
        }
        if let Some(first) = first {
            let odd = self.rows.odd;
            let text = format!("{odd} rows are not requests and were left out; the first, {first}");
            self.state.warnings.push(text);
        }
        self.state.warnings.extend(self.begin.sentence());
        Ok(())
    }
}

/// Capabilities of a table with these columns.
fn carries(columns: [Option<usize>; 6], unit: &dyn Fn(usize) -> Nanos) -> RecordingCapabilities {
    let service = match columns[TOOK] {
        Some(_) => RecordingDetail::Each,
        None => RecordingDetail::Absent,
    };
    RecordingCapabilities {
        resolution: columns[0].map_or(Nanos(1), unit),
        service,
        queue: service,
        // Another program may have sorted it otherwise.
        order: TraceOrder::Mixed,
        ..TIMED
    }
}

/// Why a row is no request: the column that is wrong, and the value that it should have.
type Wrong = (usize, &'static str);

impl ParquetRowStats {
    /// Appends the request of a row.
    fn take(
        &mut self,
        cells: &[&ParquetCellValue],
        targets: &mut DeviceNameTable,
        into: &mut Vec<TraceRequest>,
    ) {
        self.seen += 1;
        match request(cells, targets) {
            Ok(request) => {
                self.odd_in_a_row = 0;
                into.push(request);
            }
            Err((column, wanted)) => {
                self.odd += 1;
                self.odd_in_a_row += 1;
                let seen = self.seen;
                self.first_odd.get_or_insert_with(|| {
                    let (name, found) = (NAMES[column], cells[column]);
                    format!("row {seen}: {name} is {found}, not {wanted}")
                });
            }
        }
    }
}

/// The request of a row.
fn request(
    cells: &[&ParquetCellValue],
    targets: &mut DeviceNameTable,
) -> Result<TraceRequest, Wrong> {
    let whole = |column: usize, wanted: &'static str| match cells[column] {
        ParquetCellValue::Whole(value) => u64::try_from(*value).map_err(|_| (column, wanted)),
        _ => Err((column, wanted)),
    };
    let kind = match cells[2] {
        ParquetCellValue::Word(word) => kind_of(word),
        _ => None,
    };
    let took = match cells[TOOK] {
        ParquetCellValue::Nothing => None,
        _ => Some(Nanos(whole(TOOK, "a time in nanoseconds, or nothing")?)),
    };
    let target = match cells[3] {
        ParquetCellValue::Word(word) => targets.place(word),
        ParquetCellValue::Whole(number) => targets.place(number.to_string().as_bytes()),
        _ => return Err((3, "a name")),
    };
    let bytes_wanted = "a number of bytes below 4 GiB";
    Ok(TraceRequest {
        at: Nanos(whole(0, "a time")?),
        took,
        kind: kind.ok_or((2, "one of read, write, discard and flush"))?,
        target: target.ok_or((3, TOO_MANY_TARGETS))?,
        bytes: u32::try_from(whole(5, bytes_wanted)?).map_err(|_| (5, bytes_wanted))?,
        offset: whole(4, "a place in bytes")?,
    })
}

/// Operation that a word names, in upper or lower case.
fn kind_of(word: &[u8]) -> Option<OpKind> {
    const OTHERS: [(OpKind, &str); 8] = [
        (OpKind::Read, "r"),
        (OpKind::Write, "w"),
        (OpKind::Discard, "d"),
        (OpKind::Discard, "trim"),
        (OpKind::Discard, "unmap"),
        (OpKind::Fsync, "f"),
        (OpKind::Fsync, "fsync"),
        (OpKind::Fsync, "sync"),
    ];
    let mut known = KINDS.iter().chain(&OTHERS);
    let found = known.find(|(_, known)| word.eq_ignore_ascii_case(known.as_bytes()));
    found.map(|(kind, _)| *kind)
}

impl TraceSource for ParquetReader {
    fn state(&self) -> &TraceReadState {
        &self.state
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        self.origin_unix_ns
    }

    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        let known = into.len();
        let wanted = if self.begin.at.is_some() { 1 } else { FIRST };
        let mut more = true;
        while more && into.len() - known < wanted {
            let before = into.len();
            more = match self.next_rows(into) {
                Ok(more) => more,
                Err(error) => {
                    into.truncate(before);
                    self.end(&error)?;
                    false
                }
            };
        }
        self.place(&mut into[known..]);
        if !more {
            self.finish()?;
        }
        Ok(more)
    }
}

#[cfg(test)]
mod tests;
