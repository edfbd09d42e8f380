// SPDX-License-Identifier: Apache-2.0
//! Mapping files: a table that is read as one of them says, and the beginning of one for a table.

use std::path::{Path, PathBuf};

use plimsoll_core::mapping::{MappingFile, MappingSeparator};

use super::super::CounterScan;
use super::names::{ColumnRole, named, role};
use super::{CsvHeading, cells, csv, json, wrong};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::text::lines;

/// More than any mapping has.
const MAPPING_BYTES_MAX: usize = 1 << 20;

/// Whether a file that begins so is a mapping: its first key is `recording`.
pub(super) fn is_one(head: &[u8]) -> bool {
    let mut keys = lines(head).map(<[u8]>::trim_ascii);
    let first = keys.find(|line| !line.is_empty() && !line.starts_with(b"#"));
    let rest = first.and_then(|line| line.strip_prefix(b"recording"));
    rest.is_some_and(|rest| rest.trim_ascii_start().starts_with(b"="))
}

pub(super) fn separator(named: MappingSeparator) -> u8 {
    match named {
        MappingSeparator::Comma => b',',
        MappingSeparator::Semicolon => b';',
        MappingSeparator::Tab => b'\t',
    }
}

/// Where the recording of a mapping file lies; `None` of a file that is none.
///
/// # Errors
/// When the mapping cannot be read.
pub(crate) fn recording_of(input: &mut RecordingInput) -> Result<Option<PathBuf>, TraceError> {
    match is_one(input.head()) {
        true => read(input).map(|(_, path)| Some(path)),
        false => Ok(None),
    }
}

/// A mapping, and the file that it names.
fn read(input: &mut RecordingInput) -> Result<(MappingFile, PathBuf), TraceError> {
    let mut text = Vec::new();
    while let piece @ [_, ..] = input.take(64 << 10)? {
        text.extend_from_slice(piece);
        if text.len() > MAPPING_BYTES_MAX {
            return Err(wrong(input, "it is longer than any mapping"));
        }
    }
    let text = String::from_utf8_lossy(&text);
    let mapping: MappingFile = toml::from_str(&text).map_err(|error| {
        let text = error.to_string();
        wrong(input, format!("it is no mapping: {}", text.trim_end()))
    })?;
    let Some(path) = input.path() else {
        return Err(wrong(input, "a mapping is read from a file only"));
    };
    let recording = path
        .parent()
        .unwrap_or(Path::new(""))
        .join(&mapping.recording);
    Ok((mapping, recording))
}

pub(super) fn scan(
    input: &mut RecordingInput,
    scan: &mut CounterScan<'_>,
) -> Result<(), TraceError> {
    let (mapping, path) = read(input)?;
    if !path.is_file() {
        let what = format!("its recording {} is no file", path.display());
        return Err(wrong(input, what));
    }
    let mut table = RecordingInput::open(&path)?;
    match table.head().trim_ascii_start() {
        #[cfg(feature = "parquet")]
        [b'P', b'A', b'R', b'1', ..] => super::parquet::scan(&mut table, Some(&mapping), scan),
        [b'{' | b'[', ..] => json::scan(&mut table, Some(&mapping), scan),
        _ => csv(&mut table, Some(&mapping), scan),
    }
}

/// A mapping file for a table: what its names say filled in, the rest as comments with the first values.
///
/// # Errors
/// When the table cannot be read, or has no columns with names.
pub fn begun(path: &Path, recording: &str) -> Result<String, TraceError> {
    let input = RecordingInput::open(path)?;
    let Some(glimpse) = TableGlimpse::of(&input)? else {
        let what = "it has no columns with names: it is no CSV, JSON or Parquet; give one of these";
        return Err(wrong(&input, what));
    };
    let columns = glimpse.columns;
    let has_intervals = [ColumnRole::Begin, ColumnRole::End].iter().all(|wanted| {
        columns
            .iter()
            .any(|(name, _)| role(name).is_some_and(|(role, _)| role == *wanted))
    });
    let mut parts = MappingText::default();
    for (name, value) in &columns {
        parts.add(name, value, has_intervals);
    }
    Ok(parts.text(recording, glimpse.separator))
}

/// Columns of a table with their first values, and their separator.
struct TableGlimpse {
    /// Separator of the columns, of a CSV.
    separator: Option<u8>,
    /// The names of its columns, each with its first value.
    columns: Vec<(String, String)>,
}

impl TableGlimpse {
    fn of(input: &RecordingInput) -> Result<Option<TableGlimpse>, TraceError> {
        let head = input.head();
        #[cfg(feature = "parquet")]
        if head.starts_with(b"PAR1") {
            let mut table = crate::parquet_table::ParquetTable::open(input)?;
            let first = table.first_row();
            let columns = table.names().into_iter().zip(first).collect();
            return Ok(Some(TableGlimpse {
                separator: None,
                columns,
            }));
        }
        if let Some(object) = json::first_object(head) {
            let columns = object
                .iter()
                .map(|(name, value)| (name.clone(), value.to_string()));
            return Ok(Some(TableGlimpse {
                separator: None,
                columns: columns.collect(),
            }));
        }
        Ok(CsvHeading::of(head).map(|heading| {
            let rest = head.get(heading.length..).unwrap_or_default();
            let row = lines(rest).find(|line| !line.is_empty());
            let values = cells(row.unwrap_or_default(), heading.separator);
            let values = values.map(|value| String::from_utf8_lossy(value).into_owned());
            let values = values.chain(std::iter::repeat(String::new()));
            TableGlimpse {
                separator: Some(heading.separator),
                columns: heading.names.into_iter().zip(values).collect(),
            }
        }))
    }
}

/// The parts of a mapping file.
#[derive(Debug, Default)]
struct MappingText {
    time: Option<String>,
    until: Option<String>,
    device: Option<String>,
    metric: Option<String>,
    value: Option<String>,
    columns: String,
}

impl MappingText {
    fn add(&mut self, name: &str, value: &str, has_intervals: bool) {
        let quoted = quoted(name);
        match role(name).map(|(role, _)| role) {
            Some(ColumnRole::Time | ColumnRole::Begin) if self.time.is_none() => {
                self.time = Some(quoted);
            }
            Some(ColumnRole::End) if has_intervals => self.until = Some(quoted),
            Some(ColumnRole::Device) if self.device.is_none() => self.device = Some(quoted),
            Some(ColumnRole::Metric) => self.metric = Some(quoted),
            Some(ColumnRole::Value) => self.value = Some(quoted),
            _ => self.column(name, value, has_intervals),
        }
    }

    /// A column as it is understood, else as a comment to be filled in.
    fn column(&mut self, name: &str, value: &str, has_intervals: bool) {
        let found = named(name, has_intervals);
        let device = found.as_ref().and_then(|found| found.device.clone());
        let device = device.map_or(String::new(), |device| {
            format!("device = {}\n", quoted(&device))
        });
        let body = match found.as_ref().map(|found| &found.figure) {
            Some(Ok(figure)) => format!(
                "{device}metric = {}\nkind = {}\nunit = {}\n",
                word(figure.metric),
                word(figure.kind),
                word(figure.unit)
            ),
            Some(Err(open)) => format!(
                "{device}# its name does not say {open}\nmetric = \"\"\nkind = \"\"\nunit = \"\"\n"
            ),
            None => format!("{device}metric = \"\"\nkind = \"\"\n"),
        };
        let text = format!(
            "\n# first value: {}\n[[column]]\nname = {}\n{body}",
            shown(value),
            quoted(name)
        );
        match found.is_some_and(|found| found.figure.is_ok()) {
            true => self.columns.push_str(&text),
            false => {
                for line in text.lines() {
                    let comment = if line.is_empty() || line.starts_with('#') {
                        ""
                    } else {
                        "# "
                    };
                    self.columns.push_str(comment);
                    self.columns.push_str(line);
                    self.columns.push('\n');
                }
            }
        }
    }

    fn text(&self, recording: &str, separator: Option<u8>) -> String {
        let key = |name: &str, value: &Option<String>| match value {
            Some(value) => format!("{name} = {value}\n"),
            None => String::new(),
        };
        let separator = match separator {
            Some(b'\t') => "separator = \"tab\"\n".to_owned(),
            Some(other) => format!("separator = \"{}\"\n", char::from(other)),
            None => String::new(),
        };
        let time = self.time.clone().unwrap_or_else(|| "\"\"".into());
        let long = match (&self.metric, &self.value) {
            (Some(metric), Some(value)) => {
                format!("\n[long]\nmetric = {metric}\nvalue = {value}\n")
            }
            _ => String::new(),
        };
        let device = match &self.device {
            Some(device) => format!("column = {device}\n"),
            None => "# name = \"sda\"\n".into(),
        };
        format!(
            "recording = {}\n{separator}# decimal = \",\"\n\n[time]\ncolumn = {time}\n{}# unit = \"s\"  # ms, \
             us, ns\n# zone = \"Europe/Berlin\"\n# marks = \"begin\"\n# interval_s = 60\n\n[device]\n{device}{long}{}",
            quoted(recording),
            key("until", &self.until),
            self.columns
        )
    }
}

/// A choice as a mapping file writes it.
fn word(choice: impl serde::Serialize) -> String {
    toml::Value::try_from(choice).map_or_else(|_| quoted(""), |value| value.to_string())
}

/// A text in TOML.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A value as a comment shows it.
fn shown(value: &str) -> String {
    let plain: String = value
        .chars()
        .take(60)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    plain
}
