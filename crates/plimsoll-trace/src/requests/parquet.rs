// SPDX-License-Identifier: Apache-2.0
//! Requests in a Parquet file: what `plimsoll record --requests` makes, and a table that other
//! programs read.
//!
//! Columns: `at_ns` (start, from the origin), `took_ns` (absent where the end is not known), `kind`
//! (`read`, `write`, `discard`, `flush`), `device`, `offset` and `bytes`; all numbers are of 64 bits
//! with a sign. The file's own table of keys holds `plimsoll.origin_unix_ns` and `plimsoll.lost`.
//! Numbers are kept as differences and words in a dictionary, without further compression. Both ways
//! memory is bounded by a group of rows.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, Once};

use parquet::basic::{Compression, Encoding};
use parquet::column::reader::get_typed_column_reader;
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
/// Rows of a group that is written: a reader may skip by groups, and must hold one.
const GROUP_ROWS: usize = 1 << 18;
/// Rows of a group that is read at most: they are held at once.
const GROUP_ROWS_MAX: i64 = 1 << 24;

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
    group: usize,
    rows: std::vec::IntoIter<Request>,
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
            rows: Vec::new().into_iter(),
            targets: Targets::default(),
            origin_unix_ns,
            lost: lost.unwrap_or(0),
            damage: None,
        })
    }

    /// Reads the next group of rows; `false` when there is none.
    fn next_group(&mut self) -> Result<bool, ParquetError> {
        if self.group >= self.file.num_row_groups() {
            return Ok(false);
        }
        let number = self.group;
        self.group += 1;
        let group = self.file.get_row_group(number)?;
        let rows = group.metadata().num_rows();
        if rows > GROUP_ROWS_MAX {
            let what = format!("{rows} rows in one group; {GROUP_ROWS_MAX} can be read");
            return Err(ParquetError::General(what));
        }
        let rows = usize::try_from(rows).unwrap_or(0);
        let [at, took, kind, device, offset, bytes] = self.columns;
        let group = &*group;
        let at = values::<Int64Type>(group, at, rows)?;
        let took = values::<Int64Type>(group, took, rows)?;
        let kind = values::<ByteArrayType>(group, kind, rows)?;
        let device = values::<ByteArrayType>(group, device, rows)?;
        let offset = values::<Int64Type>(group, offset, rows)?;
        let bytes = values::<Int64Type>(group, bytes, rows)?;
        let mut found = Vec::with_capacity(rows);
        for row in 0..rows {
            let bad = || ParquetError::General(format!("row {row} of a group is no request"));
            let number = |value: &Option<i64>| value.and_then(|value| u64::try_from(value).ok());
            let word = kind[row].as_ref().map(ByteArray::data);
            let known = KINDS
                .iter()
                .find(|(_, known)| word == Some(known.as_bytes()));
            let target = device[row]
                .as_ref()
                .and_then(|name| self.targets.place(name.data()));
            let (Some((kind, _)), Some(target)) = (known, target) else {
                return Err(bad());
            };
            found.push(Request {
                at: Nanos(number(&at[row]).ok_or_else(bad)?),
                took: number(&took[row]).map(Nanos),
                kind: *kind,
                target,
                bytes: number(&bytes[row])
                    .and_then(|n| u32::try_from(n).ok())
                    .ok_or_else(bad)?,
                offset: number(&offset[row]).ok_or_else(bad)?,
            });
        }
        self.rows = found.into_iter();
        Ok(true)
    }

    /// Ends at a group that cannot be read; when it is the first, nothing of the file can.
    fn end(&mut self, error: &ParquetError) -> Result<bool, TraceError> {
        let (file, what) = (
            self.about.name.clone(),
            format!("its group {} of rows: {error}", self.group),
        );
        let is_first = self.group <= 1;
        self.group = usize::MAX;
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

/// The values of a column of a group, one for each row.
fn values<T: DataType>(
    group: &dyn RowGroupReader,
    column: usize,
    rows: usize,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let wrong = |what: &str| ParquetError::General(format!("column {column} {what}"));
    let about = group.metadata().column(column);
    let levels_max = about.column_descr().max_def_level();
    if about.column_type() != T::get_physical_type() || levels_max > 1 {
        return Err(wrong("is of another type"));
    }
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(column)?);
    let (mut levels, mut found) = (Vec::new(), Vec::new());
    let (mut there, mut read) = (Vec::new(), 0);
    while read < rows {
        let (records, ..) =
            reader.read_records(rows - read, Some(&mut levels), None, &mut there)?;
        if records == 0 {
            return Err(wrong("is shorter than the others"));
        }
        read += records;
    }
    let mut there = there.into_iter();
    for row in 0..rows {
        let is_there = levels_max == 0 || levels.get(row) == Some(&1);
        found.push(is_there.then(|| there.next()).flatten());
    }
    Ok(found)
}

impl Requests for Table {
    fn about(&self) -> &About {
        &self.about
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        self.origin_unix_ns
    }

    fn read(&mut self, into: &mut Vec<Request>) -> Result<bool, TraceError> {
        if self.rows.len() == 0 {
            let next = guarded(|| self.next_group());
            match next {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => return self.end(&error),
            }
        }
        into.extend(self.rows.by_ref().take(BATCH));
        Ok(true)
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
