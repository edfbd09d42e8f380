// SPDX-License-Identifier: Apache-2.0
//! Requests in a Parquet file: what `plimsoll record --requests` makes, and a table that other
//! programs read.
//!
//! Columns: `at_ns` (start, from the origin), `took_ns` (absent where the end is not known), `kind`
//! (`read`, `write`, `discard`, `flush`), `device`, `offset` and `bytes`; all numbers are of 64 bits
//! with a sign. The file's own table of keys holds `plimsoll.origin_unix_ns` and `plimsoll.lost`.
//! Numbers are kept as differences and words in a dictionary, without further compression. Memory
//! is bounded by a group of rows when it is written, by some pages when it is read.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, Once};

use parquet::basic::{Compression, Encoding};
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use plimsoll_core::op::Kind;
use plimsoll_core::units::Nanos;

use super::spool::KINDS;
use super::{Format, Request, TIMED, Targets};
use crate::error::{Damage, TraceError};
use crate::recording::{About, Order, Requests};

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
pub(super) const FORMAT: Format = Format {
    name: "Parquet, as plimsoll record makes it",
    is: |head| head.starts_with(MAGIC),
    open: |input| {
        let name = input.name().to_owned();
        let wrong = |what: String| TraceError::Format {
            file: name.clone(),
            offset: 0,
            what,
        };
        // The table of what is where stands at the end.
        let Some(path) = input.path() else {
            return Err(wrong("a Parquet file is read from a file only".into()));
        };
        let file = File::open(path).map_err(|source| TraceError::Read {
            file: name.clone(),
            source,
        })?;
        let table = guarded(|| SerializedFileReader::new(file)).map_err(|error| {
            wrong(format!(
                "{error}; a compressed file must be decompressed first"
            ))
        })?;
        Ok(Box::new(Table::open(name.clone(), table)?))
    },
};

/// Writes all of a recording into a new Parquet file; how many requests these were.
///
/// # Errors
/// When the file exists or cannot be written, or the recording cannot be read.
pub fn write(recording: &mut dyn Requests, path: &Path) -> Result<u64, TraceError> {
    let file = File::create_new(path).map_err(|source| TraceError::Write {
        file: path.display().to_string(),
        source,
    })?;
    let failed = |error: ParquetError| TraceError::Write {
        file: path.display().to_string(),
        source: std::io::Error::other(error),
    };
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
    file.sync_all().map_err(|source| TraceError::Write {
        file: path.display().to_string(),
        source,
    })?;
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
    rows: &[Request],
    devices: &[String],
) -> Result<(), ParquetError> {
    let words: Vec<ByteArray> = devices.iter().map(|name| name.as_str().into()).collect();
    let kind = |kind: Kind| {
        let known = KINDS.iter().find(|(known, _)| *known == kind);
        ByteArray::from(known.map_or("other", |(_, word)| *word))
    };
    let took = rows.iter().filter_map(|row| Some(long(row.took?.0)));
    let has_end: Vec<i16> = rows.iter().map(|row| row.took.is_some().into()).collect();
    column::<Int64Type, _>(&mut group, rows.iter().map(|row| long(row.at.0)), None)?;
    column::<Int64Type, _>(&mut group, took, Some(&has_end))?;
    column::<ByteArrayType, _>(&mut group, rows.iter().map(|row| kind(row.kind)), None)?;
    let device = |row: &Request| words[usize::from(row.target)].clone();
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
pub(crate) fn column<T: DataType, W: Write + Send>(
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
pub(crate) fn long(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

struct Table {
    about: About,
    file: SerializedFileReader<File>,
    /// Where each of the columns stands, in the order of the schema.
    columns: [usize; 6],
    /// The next group, what is open of the one before, and its rows that were not yet read.
    group: usize,
    open: Option<Columns>,
    left: usize,
    targets: Targets,
    origin_unix_ns: Option<u64>,
    lost: u64,
    damage: Option<Damage>,
}

/// Rows of one call.
const BATCH: usize = 4096;

impl Table {
    fn open(name: String, file: SerializedFileReader<File>) -> Result<Table, TraceError> {
        let about_file = file.metadata().file_metadata();
        let schema = about_file.schema_descr();
        let names = ["at_ns", "took_ns", "kind", "device", "offset", "bytes"];
        let mut columns = [0; 6];
        for (place, wanted) in columns.iter_mut().zip(names) {
            let found = schema.columns().iter();
            let mut found = found.map(|column| column.path().string());
            let at = found.position(|column| column == wanted);
            *place = at.ok_or_else(|| TraceError::Format {
                file: name.clone(),
                offset: 0,
                what: format!(
                    "it is a Parquet file without the column {wanted}; a table of requests has \
                     the columns {}",
                    names.join(", ")
                ),
            })?;
        }
        let groups = file.metadata().row_groups().iter();
        let codecs = groups.flat_map(|group| group.columns().iter().map(|c| c.compression()));
        if let Some(codec) = codecs.into_iter().find(|c| *c != Compression::UNCOMPRESSED) {
            return Err(TraceError::Format {
                file: name,
                offset: 0,
                what: format!("its columns are compressed ({codec}); write it without compression"),
            });
        }
        let keys = about_file.key_value_metadata();
        let keys: BTreeMap<&str, u64> = keys
            .into_iter()
            .flatten()
            .filter_map(|pair| Some((pair.key.as_str(), pair.value.as_ref()?.parse().ok()?)))
            .collect();
        let (origin_unix_ns, lost) = (keys.get(ORIGIN).copied(), keys.get(LOST).copied());
        let mut carries = TIMED;
        // Another program may have sorted it otherwise.
        carries.order = Order::Mixed;
        Ok(Table {
            about: About {
                name,
                format: "Parquet".into(),
                host: String::new(),
                carries,
            },
            file,
            columns,
            group: 0,
            open: None,
            left: 0,
            targets: Targets::default(),
            origin_unix_ns,
            lost: lost.unwrap_or(0),
            damage: None,
        })
    }

    /// Reads the next rows; `false` when there are none.
    fn next_rows(&mut self, into: &mut Vec<Request>) -> Result<bool, ParquetError> {
        while self.left == 0 {
            if self.group >= self.file.num_row_groups() {
                return Ok(false);
            }
            let group = self.file.get_row_group(self.group)?;
            self.group += 1;
            self.left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            self.open = Some(Columns::of(&*group, self.columns)?);
        }
        if let Some(columns) = &mut self.open {
            let rows = self.left.min(BATCH);
            columns.read(rows, &mut self.targets, into)?;
            self.left -= rows;
        }
        Ok(true)
    }

    /// Ends at rows that cannot be read; when they are the first, nothing of the file can.
    fn end(&mut self, error: &ParquetError) -> Result<bool, TraceError> {
        let (file, what) = (
            self.about.name.clone(),
            format!("its group {} of rows: {error}", self.group),
        );
        let is_first = self.targets.names().is_empty();
        (self.group, self.left) = (usize::MAX, 0);
        let offset = 0;
        if is_first {
            return Err(TraceError::Format { file, offset, what });
        }
        self.damage = Some(Damage { file, offset, what });
        Ok(false)
    }
}

thread_local! {
    /// Whether this thread is at work on foreign bytes, guarded.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Does something with foreign bytes that the library does not always survive: it takes some damage
/// for a mistake of its own. That is said once, as an error, and not where it was found. What it was
/// at work on is not used again.
fn guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let told = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            if !IS_GUARDED.get() {
                told(about);
            }
        }));
    });
    IS_GUARDED.set(true);
    let ended = panic::catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(false);
    ended.unwrap_or_else(|_| Err(ParquetError::General("it is damaged".into())))
}

/// The columns of a group of rows, from which requests are taken.
struct Columns {
    at: Column<Int64Type>,
    took: Column<Int64Type>,
    kind: Column<ByteArrayType>,
    device: Column<ByteArrayType>,
    offset: Column<Int64Type>,
    bytes: Column<Int64Type>,
}

impl Columns {
    /// Those that stand at these places.
    fn of(group: &dyn RowGroupReader, places: [usize; 6]) -> Result<Columns, ParquetError> {
        let [at, took, kind, device, offset, bytes] = places;
        Ok(Columns {
            at: Column::of(group, at)?,
            took: Column::of(group, took)?,
            kind: Column::of(group, kind)?,
            device: Column::of(group, device)?,
            offset: Column::of(group, offset)?,
            bytes: Column::of(group, bytes)?,
        })
    }

    /// Appends the next so many rows; none of them when one is no request.
    fn read(
        &mut self,
        rows: usize,
        targets: &mut Targets,
        into: &mut Vec<Request>,
    ) -> Result<(), ParquetError> {
        let mut at = self.at.read(rows)?;
        let mut took = self.took.read(rows)?;
        let mut kind = self.kind.read(rows)?;
        let mut device = self.device.read(rows)?;
        let mut offset = self.offset.read(rows)?;
        let mut bytes = self.bytes.read(rows)?;
        let mut row = || {
            let took = took.next()?.map(|took| u64::try_from(*took));
            let word = kind.next()??.data();
            let known = |(_, known): &&(Kind, &str)| word == known.as_bytes();
            Some(Request {
                at: Nanos(u64::try_from(*at.next()??).ok()?),
                took: took.and_then(Result::ok).map(Nanos),
                kind: KINDS.iter().find(known)?.0,
                target: targets.place(device.next()??.data())?,
                bytes: u32::try_from(*bytes.next()??).ok()?,
                offset: u64::try_from(*offset.next()??).ok()?,
            })
        };
        let known = into.len();
        for _ in 0..rows {
            let Some(request) = row() else {
                into.truncate(known);
                return Err(ParquetError::General("one of them is no request".into()));
            };
            into.push(request);
        }
        Ok(())
    }
}

/// A column of a group of rows.
struct Column<T: DataType> {
    number: usize,
    reader: ColumnReaderImpl<T>,
    /// Whether some of its values may be absent.
    has_gaps: bool,
    /// Of the last rows: 1 where there is a value, and the values.
    levels: Vec<i16>,
    there: Vec<T::T>,
}

impl<T: DataType> Column<T> {
    fn of(group: &dyn RowGroupReader, number: usize) -> Result<Column<T>, ParquetError> {
        let about = group.metadata().column(number);
        let levels_max = about.column_descr().max_def_level();
        if about.column_type() != T::get_physical_type() || levels_max > 1 {
            let what = format!("column {number} is of another type");
            return Err(ParquetError::General(what));
        }
        Ok(Column {
            number,
            reader: get_typed_column_reader::<T>(group.get_column_reader(number)?),
            has_gaps: levels_max == 1,
            levels: Vec::new(),
            there: Vec::new(),
        })
    }

    /// The values of the next so many rows.
    fn read(&mut self, rows: usize) -> Result<impl Iterator<Item = Option<&T::T>>, ParquetError> {
        self.levels.clear();
        self.there.clear();
        let mut read = 0;
        while read < rows {
            let (levels, there) = (&mut self.levels, &mut self.there);
            let (records, ..) = self
                .reader
                .read_records(rows - read, Some(levels), None, there)?;
            if records == 0 {
                let what = format!("column {} is shorter than the others", self.number);
                return Err(ParquetError::General(what));
            }
            read += records;
        }
        let mut there = self.there.iter();
        let (has_gaps, levels) = (self.has_gaps, &self.levels);
        Ok((0..rows).map(move |row| {
            let is_there = !has_gaps || levels.get(row) == Some(&1);
            if is_there { there.next() } else { None }
        }))
    }
}

impl Requests for Table {
    fn about(&self) -> &About {
        &self.about
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        self.origin_unix_ns
    }

    fn read(&mut self, into: &mut Vec<Request>) -> Result<bool, TraceError> {
        match guarded(|| self.next_rows(into)) {
            Ok(more) => Ok(more),
            Err(error) => self.end(&error),
        }
    }

    fn targets(&self) -> &[String] {
        self.targets.names()
    }

    fn lost(&self) -> u64 {
        self.lost
    }

    fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    fn warnings(&self) -> &[String] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::super::spool::Spool;
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    /// Requests of two disks, more than one group.
    fn all() -> Vec<Request> {
        let count = GROUP_ROWS as u64 + 10;
        let request = |n: u64| Request {
            at: Nanos(n * 1_000_003),
            took: (!n.is_multiple_of(7)).then_some(Nanos(n % 50_000)),
            kind: KINDS[usize::try_from(n % 4).unwrap()].0,
            target: u16::try_from(n % 2).unwrap(),
            bytes: if n % 4 == 3 { 0 } else { 4096 },
            offset: (n * 7919) << 12,
        };
        (0..count).map(request).collect()
    }

    #[test]
    fn a_recording_goes_through_a_parquet_file_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let (spool, table) = (folder.path().join("spool"), folder.path().join("table"));
        let names = ["sda".to_owned(), "sdb".to_owned()];
        let mut written = Spool::create(&spool, 1_700_000_000_000_000_000, &names).unwrap();
        written.append(&all(), 3).unwrap();
        let mut reader = super::super::open(&spool).unwrap();
        assert_eq!(write(&mut *reader, &table).unwrap(), all().len() as u64);
        assert!(write(&mut *reader, &table).is_err(), "it exists");
        let mut reader = super::super::open(&table).unwrap();
        let mut found = Vec::new();
        while reader.read(&mut found).unwrap() {}
        assert!(found == all());
        assert_eq!(reader.targets(), names);
        assert_eq!(reader.lost(), 3);
        assert_eq!(reader.origin_unix_ns(), Some(1_700_000_000_000_000_000));
        assert_eq!(reader.damage(), None);
        let (spool, table) = (spool.metadata().unwrap(), table.metadata().unwrap());
        assert!(
            table.len() * 2 < spool.len(),
            "{} of {}",
            table.len(),
            spool.len()
        );
    }

    #[test]
    fn a_table_that_is_cut_or_of_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (spool, path) = (folder.path().join("spool"), folder.path().join("table"));
        let mut written = Spool::create(&spool, 0, &["sda".into()]).unwrap();
        written
            .append(
                &all()[..8]
                    .iter()
                    .map(|row| Request { target: 0, ..*row })
                    .collect::<Vec<_>>(),
                0,
            )
            .unwrap();
        write(&mut *super::super::open(&spool).unwrap(), &path).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for length in 4..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(super::super::open(&path).is_err(), "{length}");
        }
        let mut rng = Rng::new(Seed(20_261_121));
        for _ in 0..2000 {
            let mut bytes = whole.clone();
            super::super::mutate(&mut bytes, &mut rng);
            std::fs::write(&path, &bytes).unwrap();
            let Ok(mut reader) = super::super::open(&path) else {
                continue;
            };
            let mut found = Vec::new();
            while reader.read(&mut found).unwrap_or(false) {}
            assert!(found.len() <= 8, "{}", found.len());
        }
    }
}
