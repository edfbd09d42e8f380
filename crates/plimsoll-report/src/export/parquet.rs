// SPDX-License-Identifier: Apache-2.0
//! A table as a Parquet file. A group of rows is held at a time.

use std::io::Write;
use std::sync::Arc;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::table::{ExportColumnType, ExportTable, ExportValue};
use crate::put::put;

/// Rows of a group at most.
const GROUP_ROWS: usize = 1 << 16;

type ParquetGroup<'a, W> = SerializedRowGroupWriter<'a, W>;

/// The file, in memory.
pub(super) fn parquet(table: ExportTable<'_>) -> Result<Vec<u8>, ParquetError> {
    let mut file = Vec::new();
    written(table, &mut file)?;
    Ok(file)
}

/// The file, written as its rows come.
pub(super) fn written(
    mut table: ExportTable<'_>,
    file: &mut (impl Write + Send),
) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(&schema(&table))?);
    let properties = WriterProperties::builder()
        .set_created_by(concat!("plimsoll ", env!("CARGO_PKG_VERSION")).into())
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    loop {
        let rows: Vec<_> = table.rows.by_ref().take(GROUP_ROWS).collect();
        if rows.is_empty() {
            return writer.into_inner().map(drop);
        }
        let mut group = writer.next_row_group()?;
        for (number, (_, holds)) in table.columns.iter().enumerate() {
            let cells = rows.iter().map(|row| &row[number]);
            column(&mut group, *holds, cells)?;
        }
        group.close()?;
    }
}

fn schema(table: &ExportTable<'_>) -> String {
    let mut schema = format!("message {} {{\n", table.name);
    for (name, holds) in &table.columns {
        match holds {
            ExportColumnType::Text => put!(schema, "  required binary {name} (utf8);\n"),
            ExportColumnType::Whole => put!(schema, "  required int64 {name};\n"),
            ExportColumnType::Real => put!(schema, "  optional double {name};\n"),
            ExportColumnType::Truth => put!(schema, "  required boolean {name};\n"),
        }
    }
    schema + "}"
}

fn column<'a, W: Write + Send>(
    group: &mut ParquetGroup<'_, W>,
    holds: ExportColumnType,
    cells: impl Iterator<Item = &'a ExportValue> + Clone,
) -> Result<(), ParquetError> {
    match holds {
        ExportColumnType::Text => write::<ByteArrayType, _>(
            group,
            cells.filter_map(|cell| match cell {
                ExportValue::Text(text) => Some(ByteArray::from(text.as_str())),
                _ => None,
            }),
            None,
        ),
        ExportColumnType::Whole => write::<Int64Type, _>(
            group,
            cells.filter_map(|cell| match cell {
                // Counts beyond 2^63 are not of this world.
                ExportValue::Whole(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
                _ => None,
            }),
            None,
        ),
        ExportColumnType::Truth => write::<BoolType, _>(
            group,
            cells.filter_map(|cell| match cell {
                ExportValue::Truth(is_so) => Some(*is_so),
                _ => None,
            }),
            None,
        ),
        ExportColumnType::Real => {
            let known = |cell: &ExportValue| match cell {
                ExportValue::Real(number) => number.filter(|number| number.is_finite()),
                _ => None,
            };
            let levels: Vec<i16> = cells.clone().map(|c| known(c).is_some().into()).collect();
            write::<DoubleType, _>(group, cells.filter_map(known), Some(&levels))
        }
    }
}

fn write<T: DataType, W: Write + Send>(
    group: &mut ParquetGroup<'_, W>,
    values: impl Iterator<Item = T::T>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = values.collect();
    let Some(mut column) = group.next_column()? else {
        let text = "the schema has too few columns".into();
        return Err(ParquetError::General(text));
    };
    column.typed::<T>().write_batch(&values, levels, None)?;
    column.close()
}
