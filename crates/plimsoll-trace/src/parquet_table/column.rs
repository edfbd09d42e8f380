// SPDX-License-Identifier: Apache-2.0
//! The columns of a table, of whatever type a program wrote them: numbers of any width, with
//! or without a sign, times of any unit, words.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{
    ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type, Int96, Int96Type,
};
use parquet::errors::Result;
use parquet::file::metadata::RowGroupMetaData;
use parquet::schema::types::ColumnDescriptor;
use plimsoll_core::units::Nanos;
use std::sync::Arc;

use super::bounded::{BoundedFile, BoundedPages, damaged};

/// Value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ParquetCellValue {
    Nothing,
    Whole(i128),
    /// A number with a fraction, or none at all.
    Odd(f64),
    Word(Vec<u8>),
}

impl std::fmt::Display for ParquetCellValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 40;
        match self {
            ParquetCellValue::Nothing => f.write_str("absent"),
            ParquetCellValue::Whole(value) => write!(f, "{value}"),
            ParquetCellValue::Odd(value) => write!(f, "{value}"),
            ParquetCellValue::Word(word) => {
                let shown = &word[..word.len().min(SHOWN)];
                write!(f, "'{}'", String::from_utf8_lossy(shown))
            }
        }
    }
}

/// Nanoseconds of a unit of the times in a column; 1 of plain numbers.
pub(super) fn unit(column: &ColumnDescriptor) -> Nanos {
    let of = |unit: &TimeUnit| match unit {
        TimeUnit::MILLIS => Nanos(1_000_000),
        TimeUnit::MICROS => Nanos(1_000),
        TimeUnit::NANOS => Nanos(1),
    };
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Timestamp(time) | LogicalType::Time(time)), _) => of(&time.unit),
        (None, ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIME_MILLIS) => Nanos(1_000_000),
        (None, ConvertedType::TIMESTAMP_MICROS | ConvertedType::TIME_MICROS) => Nanos(1_000),
        _ => Nanos(1),
    }
}

/// Whether a column holds instants; `Some(false)` where they are those of a clock whose zone is not said.
pub(super) fn instants(column: &ColumnDescriptor) -> Option<bool> {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Timestamp(time)), _) => Some(time.is_adjusted_to_u_t_c),
        (None, ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS) => Some(true),
        // Spark and Hive write instants of UTC so.
        (None, _) if column.physical_type() == Type::INT96 => Some(true),
        _ => None,
    }
}

/// Whether a column holds words.
pub(super) fn is_text(column: &ColumnDescriptor) -> bool {
    column.physical_type() == Type::BYTE_ARRAY
}

/// Whether the numbers of a column have no sign.
fn is_unsigned(column: &ColumnDescriptor) -> bool {
    match column.logical_type_ref() {
        Some(LogicalType::Integer(int)) => !int.is_signed,
        _ => matches!(
            column.converted_type(),
            ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64
        ),
    }
}

/// A column of a group of rows.
pub(super) struct TableColumn {
    number: usize,
    unit: i128,
    is_unsigned: bool,
    /// Whether some of its values may be absent.
    has_gaps: bool,
    reader: ParquetColumnReader,
    told: Vec<ParquetCellValue>,
}

enum ParquetColumnReader {
    Int32(ParquetValueBuffer<Int32Type>),
    Int64(ParquetValueBuffer<Int64Type>),
    Int96(ParquetValueBuffer<Int96Type>),
    Float(ParquetValueBuffer<FloatType>),
    Double(ParquetValueBuffer<DoubleType>),
    Words(ParquetValueBuffer<ByteArrayType>),
}

/// A reader of values of one type, and what it read last: 1 where there is a value, and the values.
struct ParquetValueBuffer<T: DataType> {
    reader: ColumnReaderImpl<T>,
    levels: Vec<i16>,
    there: Vec<T::T>,
}

impl<T: DataType> ParquetValueBuffer<T> {
    fn of(reader: ColumnReaderImpl<T>) -> ParquetValueBuffer<T> {
        ParquetValueBuffer {
            reader,
            levels: Vec::new(),
            there: Vec::new(),
        }
    }

    /// The values of the next `rows` rows, each converted by `tell`.
    fn read(
        &mut self,
        (rows, number, has_gaps): (usize, usize, bool),
        told: &mut Vec<ParquetCellValue>,
        tell: impl Fn(&T::T) -> ParquetCellValue,
    ) -> Result<()> {
        self.levels.clear();
        self.there.clear();
        let mut read = 0;
        while read < rows {
            let (levels, there) = (&mut self.levels, &mut self.there);
            let left = rows - read;
            let (records, ..) = self.reader.read_records(left, Some(levels), None, there)?;
            if records == 0 {
                return Err(damaged(&format!(
                    "column {number} is shorter than the others"
                )));
            }
            read += records;
        }
        let mut there = self.there.iter();
        told.clear();
        told.extend((0..rows).map(|row| {
            let is_there = !has_gaps || self.levels.get(row) == Some(&1);
            let value = if is_there { there.next() } else { None };
            value.map_or(ParquetCellValue::Nothing, &tell)
        }));
        Ok(())
    }
}

impl TableColumn {
    pub(super) fn of(
        file: &Arc<BoundedFile>,
        group: &RowGroupMetaData,
        number: usize,
    ) -> Result<TableColumn> {
        let chunk = group.column(number);
        let column = chunk.column_descr_ptr();
        let kind = column.physical_type();
        if column.max_def_level() > 1 || column.max_rep_level() > 0 {
            return Err(damaged(&format!("column {} holds lists", column.name())));
        }
        let decimal = matches!(column.logical_type_ref(), Some(LogicalType::Decimal(_)));
        if decimal || column.converted_type() == ConvertedType::DECIMAL {
            let name = column.name();
            let text = format!("column {name} holds decimals; write it as floating-point numbers");
            return Err(damaged(&text));
        }
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let pages = BoundedPages::of(file, chunk, rows)?;
        let reader = match get_column_reader(column.clone(), Box::new(pages)) {
            ColumnReader::Int32ColumnReader(reader) => {
                ParquetColumnReader::Int32(ParquetValueBuffer::of(reader))
            }
            ColumnReader::Int64ColumnReader(reader) => {
                ParquetColumnReader::Int64(ParquetValueBuffer::of(reader))
            }
            ColumnReader::Int96ColumnReader(reader) => {
                ParquetColumnReader::Int96(ParquetValueBuffer::of(reader))
            }
            ColumnReader::FloatColumnReader(reader) => {
                ParquetColumnReader::Float(ParquetValueBuffer::of(reader))
            }
            ColumnReader::DoubleColumnReader(reader) => {
                ParquetColumnReader::Double(ParquetValueBuffer::of(reader))
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                ParquetColumnReader::Words(ParquetValueBuffer::of(reader))
            }
            _ => {
                let name = column.name();
                return Err(damaged(&format!(
                    "column {name} is of type {kind}, which is not read"
                )));
            }
        };
        Ok(TableColumn {
            number,
            unit: unit(&column).0.into(),
            is_unsigned: is_unsigned(&column),
            has_gaps: column.max_def_level() == 1,
            reader,
            told: Vec::new(),
        })
    }

    /// Values of the next `rows` rows. Times are in nanoseconds.
    pub(super) fn read(&mut self, rows: usize) -> Result<&[ParquetCellValue]> {
        let how = (rows, self.number, self.has_gaps);
        let (unit, told) = (self.unit, &mut self.told);
        match &mut self.reader {
            ParquetColumnReader::Int32(values) if self.is_unsigned => {
                values.read(how, told, |v| {
                    ParquetCellValue::Whole(i128::from(v.cast_unsigned()) * unit)
                })?;
            }
            ParquetColumnReader::Int32(values) => {
                values.read(how, told, |v| {
                    ParquetCellValue::Whole(i128::from(*v) * unit)
                })?;
            }
            ParquetColumnReader::Int64(values) if self.is_unsigned => {
                values.read(how, told, |v| {
                    ParquetCellValue::Whole(i128::from(v.cast_unsigned()) * unit)
                })?;
            }
            ParquetColumnReader::Int64(values) => {
                values.read(how, told, |v| {
                    ParquetCellValue::Whole(i128::from(*v) * unit)
                })?;
            }
            ParquetColumnReader::Int96(values) => {
                values.read(how, told, |v| ParquetCellValue::Whole(instant(v)))?;
            }
            ParquetColumnReader::Float(values) => {
                values.read(how, told, |v| whole(f64::from(*v)))?;
            }
            ParquetColumnReader::Double(values) => values.read(how, told, |v| whole(*v))?,
            ParquetColumnReader::Words(values) => {
                values.read(how, told, |v| ParquetCellValue::Word(v.data().into()))?;
            }
        }
        Ok(&self.told)
    }
}

/// Nanoseconds since 1970 of an instant as old programs write it: nanoseconds of a Julian day.
fn instant(value: &Int96) -> i128 {
    const DAY_NS: i128 = 86_400_000_000_000;
    const JULIAN_DAY_OF_1970: i128 = 2_440_588;
    let [low, high, day] = [0, 1, 2].map(|at| value.data().get(at).copied().unwrap_or(0));
    let of_day = i128::from(u64::from(high) << 32 | u64::from(low));
    (i128::from(day) - JULIAN_DAY_OF_1970) * DAY_NS + of_day
}

/// A number with a fraction, if it is a whole one and all its digits are kept.
fn whole(value: f64) -> ParquetCellValue {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract().abs() > 0.0 || value.is_nan() || value.abs() > EXACT_MAX {
        return ParquetCellValue::Odd(value);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is whole and below 2^53"
    )]
    let whole = value as i64;
    ParquetCellValue::Whole(whole.into())
}
