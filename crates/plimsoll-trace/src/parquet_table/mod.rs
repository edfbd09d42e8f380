// SPDX-License-Identifier: Apache-2.0
//! Rows of some columns of a Parquet file, whatever they mean.

mod bounded;
mod column;

use std::cell::Cell;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Once};

use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataReader};
use plimsoll_core::units::Nanos;

use self::bounded::{BoundedFile, is_read};
pub(crate) use self::column::ParquetCellValue;
use self::column::{TableColumn, instants, is_text, unit};
use crate::error::TraceError;
use crate::input::RecordingInput;

/// Rows that are read at once.
const BATCH: usize = 4096;

/// A Parquet file, of which some columns are read, row by row.
pub(crate) struct ParquetTable {
    file: Arc<BoundedFile>,
    about: ParquetMetaData,
    /// Where the columns that are read stand.
    chosen: Vec<Option<usize>>,
    /// The next group of rows, the columns of the one before, and its rows that were not yet read.
    group: usize,
    open: Vec<Option<TableColumn>>,
    left: usize,
}

impl ParquetTable {
    /// Opens the file of an input.
    ///
    /// # Errors
    /// When it cannot be read, is damaged or compressed by a method that is not known.
    pub(crate) fn open(input: &RecordingInput) -> Result<ParquetTable, TraceError> {
        let name = input.name();
        let wrong = |what: String| TraceError::format(name, what);
        // The table of what is where stands at the end.
        let Some(path) = input.path() else {
            return Err(wrong("a Parquet file is read from a file only".into()));
        };
        let file = File::open(path).and_then(BoundedFile::new);
        let file = file.map_err(|source| TraceError::unread(path, source))?;
        let about = guarded(|| ParquetMetaDataReader::new().parse_and_finish(&file));
        let about = about
            .map_err(|error| wrong(format!("{error}; it is damaged, or compressed as a whole")))?;
        let groups = about.row_groups().iter();
        let mut methods = groups.flat_map(|group| group.columns().iter().map(|c| c.compression()));
        if let Some(method) = methods.find(|method| !is_read(*method)) {
            return Err(wrong(format!(
                "its columns are compressed by {method}, which is not read; write it with snappy, gzip, \
                 zstd, LZ4_RAW or without compression"
            )));
        }
        Ok(ParquetTable {
            file: Arc::new(file),
            about,
            chosen: Vec::new(),
            group: 0,
            open: Vec::new(),
            left: 0,
        })
    }

    /// Metadata of the file.
    pub(crate) fn about(&self) -> &FileMetaData {
        self.about.file_metadata()
    }

    /// The names of its columns.
    pub(crate) fn names(&self) -> Vec<String> {
        let columns = self.about().schema_descr().columns().iter();
        columns.map(|column| column.path().string()).collect()
    }

    /// Whether a column holds instants; `Some(false)` where they are those of a clock whose zone is not said.
    pub(crate) fn instants(&self, column: usize) -> Option<bool> {
        instants(&self.about().schema_descr().column(column))
    }

    /// Nanoseconds of a unit of the times in a column; 1 of plain numbers.
    pub(crate) fn unit(&self, column: usize) -> Nanos {
        unit(&self.about().schema_descr().column(column))
    }

    /// Whether a column holds words.
    pub(crate) fn is_text(&self, column: usize) -> bool {
        is_text(&self.about().schema_descr().column(column))
    }

    /// The first row of all columns, as it is shown; nothing where it cannot be read.
    pub(crate) fn first_row(&mut self) -> Vec<String> {
        let columns = self.names().len();
        self.choose(&(0..columns).map(Some).collect::<Vec<_>>());
        let mut first: Vec<String> = Vec::new();
        let read = self.next_rows(&mut |cells| {
            if first.is_empty() {
                first.extend(cells.iter().map(ToString::to_string));
            }
        });
        if read.is_err() {
            first.clear();
        }
        first.resize(columns, String::new());
        first
    }

    /// From now on rows consist of these columns.
    pub(crate) fn choose(&mut self, columns: &[Option<usize>]) {
        self.chosen = columns.to_vec();
    }

    /// Which group of rows is read, counted from 1.
    pub(crate) fn group(&self) -> usize {
        self.group
    }

    /// Reads no more.
    pub(crate) fn end(&mut self) {
        (self.group, self.left) = (self.about.num_row_groups(), 0);
    }

    /// Gives the next rows away, each by its cells in the order of the columns that were chosen; `false`
    /// when there are none.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn next_rows(
        &mut self,
        give: &mut dyn FnMut(&[&ParquetCellValue]),
    ) -> Result<bool, ParquetError> {
        guarded(|| self.next_batch(give))
    }

    fn next_batch(
        &mut self,
        give: &mut dyn FnMut(&[&ParquetCellValue]),
    ) -> Result<bool, ParquetError> {
        while self.left == 0 {
            if self.group >= self.about.num_row_groups() {
                return Ok(false);
            }
            let group = self.about.row_group(self.group);
            self.group += 1;
            self.left = usize::try_from(group.num_rows()).unwrap_or(0);
            let column = |place: usize| TableColumn::of(&self.file, group, place);
            let open = self
                .chosen
                .iter()
                .map(|place| place.map(column).transpose());
            self.open = open.collect::<Result<_, _>>()?;
        }
        let rows = self.left.min(BATCH);
        let mut columns: Vec<&[ParquetCellValue]> = Vec::with_capacity(self.open.len());
        for column in &mut self.open {
            columns.push(match column {
                Some(column) => column.read(rows)?,
                None => &[],
            });
        }
        let mut cells = Vec::with_capacity(columns.len());
        for row in 0..rows {
            cells.clear();
            cells.extend(
                columns
                    .iter()
                    .map(|column| column.get(row).unwrap_or(&ParquetCellValue::Nothing)),
            );
            give(&cells);
        }
        self.left -= rows;
        Ok(true)
    }
}

thread_local! {
    /// Whether this thread is at work on foreign bytes, guarded.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Does something with foreign bytes that the library does not always survive: it takes some damage for a
/// mistake of its own, and panics. The caller gets that as an error, and the panic itself prints nothing.
/// Objects that were in use then are not used again.
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
