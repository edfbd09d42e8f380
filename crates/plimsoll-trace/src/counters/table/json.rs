// SPDX-License-Identifier: Apache-2.0
//! Objects of JSON as rows: one a line, a list of them, or what clouds and monitoring answer.

use std::borrow::Cow;

use plimsoll_core::mapping::MappingFile;
use serde_json::{Map, Value};

use super::super::CounterScan;
use super::reader::{TableCell, TableReader};
use super::{cloud, columns, disk_name, is_table, wrong};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::text::first_line;

/// Longest document that is read as one: its values take several times as much.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// Where answers of Zabbix have their rows.
const LIST: &str = "result";

/// Whether a file that begins so has objects with keys that are known.
pub(super) fn is_one(head: &[u8]) -> bool {
    if cloud::is_one(head) {
        return true;
    }
    let names = first_object(head).map(|object| names(&object));
    names.is_some_and(|names| is_table(&names))
}

/// The first object of a text that is one, or a list, or has one.
pub(super) fn first_object(head: &[u8]) -> Option<Map<String, Value>> {
    let mut text = head.trim_ascii_start();
    let list = b"\"result\":[";
    if let Some(at) = text.windows(list.len()).position(|found| found == list) {
        text = &text[at + list.len() - 1..];
    }
    let text = text.strip_prefix(b"[").unwrap_or(text).trim_ascii_start();
    if !text.starts_with(b"{") {
        return None;
    }
    let mut objects = serde_json::Deserializer::from_slice(text).into_iter::<Map<String, Value>>();
    objects.next()?.ok()
}

pub(super) fn names(object: &Map<String, Value>) -> Vec<String> {
    object.keys().cloned().collect()
}

pub(super) fn scan(
    input: &mut RecordingInput,
    mapping: Option<&MappingFile>,
    scan: &mut CounterScan<'_>,
) -> Result<(), TraceError> {
    let line = first_line(input.head()).unwrap_or_default();
    let is_line = serde_json::from_slice::<Map<String, Value>>(line);
    let is_row = |object: Map<String, Value>| {
        !cloud::is_answer(&object) && !object.get(LIST).is_some_and(Value::is_array)
    };
    match is_line.is_ok_and(is_row) {
        true => lines(input, mapping, scan),
        false => documents(input, mapping, scan),
    }
}

/// Rows of one object a line.
fn lines(
    input: &mut RecordingInput,
    mapping: Option<&MappingFile>,
    scan: &mut CounterScan<'_>,
) -> Result<(), TraceError> {
    let mut reader = None;
    while let Some((offset, line)) = input.wide_line()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let row = JsonRow {
            object: serde_json::from_slice(line).ok(),
            offset,
            shown: line.iter().copied().take(SHOWN).collect(),
        };
        if !row.take(&mut reader, (mapping, input), scan)? {
            break;
        }
    }
    finish(reader, input, scan)
}

/// Rows of whole documents, one behind the other.
fn documents(
    input: &mut RecordingInput,
    mapping: Option<&MappingFile>,
    scan: &mut CounterScan<'_>,
) -> Result<(), TraceError> {
    let mut text = Vec::new();
    while let piece @ [_, ..] = input.take(64 << 10)? {
        text.extend_from_slice(piece);
        if text.len() > DOCUMENT_BYTES_MAX {
            let what =
                "its JSON has more than 64 MiB in one piece; print one object a line (jq -c '.[]')";
            return Err(wrong(input, what));
        }
    }
    let (mut values, mut answers) = (Vec::new(), Vec::new());
    let mut found = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
    while let Some(document) = found.next() {
        match document {
            Ok(Value::Object(answer)) if cloud::is_answer(&answer) => answers.push(answer),
            Ok(Value::Object(mut answer)) if answer.get(LIST).is_some_and(Value::is_array) => {
                values.extend(
                    answer
                        .remove(LIST)
                        .and_then(|list| list.as_array().cloned())
                        .into_iter()
                        .flatten(),
                );
            }
            Ok(Value::Array(list)) => values.extend(list),
            Ok(other) => values.push(other),
            Err(error) => {
                let what = format!("here the JSON is broken, or cut off ({error})");
                scan.told.damage = Some(input.damage(found.byte_offset() as u64, what));
                break;
            }
        }
    }
    if !answers.is_empty() {
        return cloud::scan(&answers, input, scan);
    }
    let mut reader = None;
    for (number, value) in (0..).zip(values) {
        let row = JsonRow {
            shown: value.to_string().bytes().take(SHOWN).collect(),
            object: match value {
                Value::Object(object) => Some(object),
                _ => None,
            },
            offset: number,
        };
        if !row.take(&mut reader, (mapping, input), scan)? {
            break;
        }
    }
    finish(reader, input, scan)
}

/// Bytes of a row that is wrong.
const SHOWN: usize = 80;

/// A row, if it is an object.
struct JsonRow {
    object: Option<Map<String, Value>>,
    /// Its byte, or its number in a list.
    offset: u64,
    shown: Vec<u8>,
}

impl JsonRow {
    /// Takes the figures of a row by the keys of the first; `false` where the rest is given up.
    fn take(
        &self,
        reader: &mut Option<TableReader>,
        (mapping, input): (Option<&MappingFile>, &RecordingInput),
        scan: &mut CounterScan<'_>,
    ) -> Result<bool, TraceError> {
        let taken = match &self.object {
            None => Err("it is no object of JSON".into()),
            Some(object) => {
                if reader.is_none() {
                    let columns = columns(&names(object), mapping, input)?;
                    *reader = Some(TableReader::new(columns, &disk_name(input), scan));
                }
                reader
                    .as_mut()
                    .map_or(Ok(()), |reader| take(reader, object, scan))
            }
        };
        let Err(what) = taken else {
            scan.right();
            return Ok(true);
        };
        let given_up = scan.told.wrong.wrong(self.offset, &what, &self.shown);
        let goes_on = given_up.is_none();
        if let Some(what) = given_up {
            scan.told.damage = Some(input.damage(self.offset, what));
        }
        Ok(goes_on)
    }
}

fn finish(
    reader: Option<TableReader>,
    input: &RecordingInput,
    scan: &mut CounterScan<'_>,
) -> Result<(), TraceError> {
    let ended = reader.map_or(Ok(()), |reader| reader.finish(scan));
    ended.map_err(|what| wrong(input, what))
}

/// Takes an object as a row.
fn take(
    reader: &mut TableReader,
    object: &Map<String, Value>,
    scan: &mut CounterScan<'_>,
) -> Result<(), String> {
    let known = &reader.columns.names;
    if object.keys().any(|key| !known.contains(key)) {
        scan.warn_once("keys that the first object lacks are left out");
    }
    let texts: Vec<Option<Cow<'_, str>>> =
        known.iter().map(|name| text(object.get(name)?)).collect();
    let mut cells = Vec::with_capacity(texts.len());
    for text in &texts {
        cells.push(
            text.as_ref()
                .map_or(TableCell::Nothing, |text| TableCell::Text(text.as_bytes())),
        );
    }
    reader.row(&cells, scan)
}

/// A value as a cell of text.
pub(super) fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        Value::String(text) => Some(Cow::Borrowed(text)),
        other => Some(Cow::Owned(other.to_string())),
    }
}
