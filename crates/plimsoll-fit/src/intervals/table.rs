// SPDX-License-Identifier: Apache-2.0
//! Intervals of disks as a Parquet file, for programs that read tables.
//!
//! A group of rows is held at a time; each is of one disk.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use plimsoll_core::profile::IntervalRow;

use plimsoll_trace::TraceError;
use plimsoll_trace::requests::parquet::{column, long};

const SCHEMA: &str = "message intervals {
  required binary device (utf8);
  required int64 from_unix_ns;
  required int64 to_unix_ns;
  optional double ops;
  optional double reads;
  optional double writes;
  optional double read_bytes;
  optional double write_bytes;
  optional double busy;
  optional double queue;
  optional double read_time_s;
  optional double write_time_s;
}";
/// Rows of a group at most.
const GROUP_ROWS: usize = 1 << 16;

/// The figures of a row, in the order of the schema.
const FIGURES: [fn(&IntervalRow) -> Option<f64>; 9] = [
    |row| row.ops,
    |row| row.reads,
    |row| row.writes,
    |row| row.read_bytes,
    |row| row.write_bytes,
    |row| row.busy,
    |row| row.queue,
    |row| row.read_time_s,
    |row| row.write_time_s,
];

/// A table in the making.
pub struct IntervalTable<W: Write + Send> {
    path: String,
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> std::fmt::Debug for IntervalTable<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IntervalTable")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl<W: Write + Send> IntervalTable<W> {
    /// Begins a table in a file, which errors call by `path`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn begin(file: W, path: &Path) -> Result<IntervalTable<W>, TraceError> {
        let name = path.display().to_string();
        let schema = parse_message_type(SCHEMA).map_err(|error| unwritten(&name, error))?;
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties()))
            .map_err(|error| unwritten(&name, error))?;
        Ok(IntervalTable { path: name, writer })
    }

    /// Appends the intervals of a device; how many these were.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn push(
        &mut self,
        device: &str,
        mut rows: impl Iterator<Item = IntervalRow>,
    ) -> Result<u64, TraceError> {
        let mut written = 0;
        loop {
            let group: Vec<IntervalRow> = rows.by_ref().take(GROUP_ROWS).collect();
            if group.is_empty() {
                return Ok(written);
            }
            self.write(device, &group)
                .map_err(|error| unwritten(&self.path, error))?;
            written += group.len() as u64;
        }
    }

    fn write(&mut self, device: &str, rows: &[IntervalRow]) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let name = ByteArray::from(device);
        column::<ByteArrayType, _>(&mut group, rows.iter().map(|_| name.clone()), None)?;
        let ends: [fn(&IntervalRow) -> u64; 2] = [|row| row.from_unix_ns, |row| row.to_unix_ns];
        for end in ends {
            column::<Int64Type, _>(&mut group, rows.iter().map(|row| long(end(row))), None)?;
        }
        for figure in FIGURES {
            let is_known: Vec<i16> = rows
                .iter()
                .map(|row| figure(row).is_some().into())
                .collect();
            let known = rows.iter().filter_map(figure);
            column::<DoubleType, _>(&mut group, known, Some(&is_known))?;
        }
        group.close().map(drop)
    }

    /// Ends the table, without which it cannot be read, and gives the file back.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(self) -> Result<W, TraceError> {
        let ended = self.writer.into_inner();
        ended.map_err(|error| unwritten(&self.path, error))
    }
}

fn unwritten(path: &str, error: ParquetError) -> TraceError {
    let source = match error {
        ParquetError::External(error) => match error.downcast() {
            Ok(source) => *source,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    TraceError::unwritten(path, source)
}

fn properties() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("plimsoll ", env!("CARGO_PKG_VERSION")).into())
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in ["from_unix_ns", "to_unix_ns"] {
        let column = ColumnPath::from(column);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn rows_of_several_devices_come_back_with_their_holes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("intervals");
        let row = |at: u64| IntervalRow {
            from_unix_ns: 1_700_000_000_000_000_000 + at,
            to_unix_ns: 1_700_000_000_000_000_000 + at + 1,
            reads: at.is_multiple_of(2).then_some(at as f64 / 2.0),
            write_time_s: Some(0.25),
            ..IntervalRow::default()
        };
        let mut table = IntervalTable::begin(File::create(&path).unwrap(), &path).unwrap();
        let many = GROUP_ROWS as u64 + 3;
        assert_eq!(table.push("sda", (0..many).map(row)).unwrap(), many);
        assert_eq!(table.push("empty", std::iter::empty()).unwrap(), 0);
        assert_eq!(table.push("sdb", (0..2).map(row)).unwrap(), 2);
        table.finish().unwrap();
        let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(file.num_row_groups(), 3);
        let rows: Vec<_> = file
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows.len() as u64, many + 2);
        assert_eq!(rows[4].get_string(0).unwrap(), "sda");
        assert_eq!(rows[4].get_long(1).unwrap(), 1_700_000_000_000_000_004);
        assert!((rows[4].get_double(4).unwrap() - 2.0).abs() < 1e-12);
        assert!(rows[5].get_double(4).is_err(), "a hole");
        assert!((rows[5].get_double(11).unwrap() - 0.25).abs() < 1e-12);
        assert_eq!(rows.last().unwrap().get_string(0).unwrap(), "sdb");
        let mut full = IntervalTable::begin(File::create("/dev/full").unwrap(), &path).unwrap();
        let pushed = full.push("sda", (0..many).map(row));
        let error = pushed.err().or(full.finish().err()).unwrap().to_string();
        let name = path.display().to_string();
        assert!(
            error.contains(&name) && error.contains("No space left"),
            "{error}"
        );
    }

    /// Readings of two disks, a tenth of a second apart, with a pause and a machine that is started again.
    fn readings() -> String {
        let mut text = String::new();
        for n in 0..60_u64 {
            let at_ms = 1_795_220_132_000 + 100 * n + if n < 30 { 0 } else { 45_000 };
            let since = if n < 45 { n } else { n - 45 };
            let _ = writeln!(text, "{}.{:03}", at_ms / 1_000, at_ms % 1_000);
            for (disk, scale) in [("sda", 1), ("sdb", 3)] {
                let [reads, writes] = [7 * scale * since + since % 5, 3 * scale * since];
                let _ = writeln!(
                    text,
                    "8 0 {disk} {reads} 0 {} {} {writes} 0 {} {} {} {} {}",
                    16 * reads,
                    2 * since,
                    8 * writes,
                    since,
                    n % 4,
                    30 * since,
                    55 * since
                );
            }
        }
        text
    }

    #[test]
    fn a_table_that_was_written_is_read_as_the_recording_it_was_made_of() {
        use plimsoll_trace::{CounterSource, OpenRecording, counters::CounterFile, open};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("intervals");
        let source = CounterFile::from_bytes("source", readings().into()).unwrap();
        let span = source.times().span();
        let mut table = IntervalTable::begin(File::create(&path).unwrap(), &path).unwrap();
        let rows = |counters: &dyn CounterSource, disk: &str| -> Vec<IntervalRow> {
            let series = counters.series(disk, &counters.times().span()).unwrap();
            crate::intervals(&series).collect()
        };
        for disk in source.disks() {
            table.push(&disk, rows(&source, &disk).into_iter()).unwrap();
        }
        table.finish().unwrap();
        let OpenRecording::Counters(again) = open(&path).unwrap() else {
            panic!("it is of counters");
        };
        assert_eq!(again.warnings(), [] as [&str; 0]);
        assert_eq!(
            (again.disks(), again.times().span()),
            (source.disks(), span)
        );
        for disk in source.disks() {
            let (expect, found) = (rows(&source, &disk), rows(&*again, &disk));
            assert_eq!(expect.len(), found.len());
            let unknown = expect.iter().filter(|row| !row.is_known()).count();
            assert!((1..5).contains(&unknown), "the restart is a gap: {unknown}");
            for (expect, found) in expect.iter().zip(&found) {
                let ends = |row: &IntervalRow| (row.from_unix_ns, row.to_unix_ns, row.is_known());
                assert_eq!(ends(expect), ends(found));
                for figure in FIGURES {
                    let (expect, found) = (figure(expect), figure(found));
                    let near = (expect.unwrap_or(0.0) - found.unwrap_or(0.0)).abs() < 1e-9;
                    assert!(
                        near && expect.is_some() == found.is_some(),
                        "{expect:?} {found:?}"
                    );
                }
            }
        }
    }
}
