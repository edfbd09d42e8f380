// SPDX-License-Identifier: Apache-2.0
//! Objects of JSON as rows: one a line, a list of them, or what clouds and monitoring answer.

use std::borrow::Cow;

use plimsoll_core::mapping::MappingFile;
use serde_json::{Map, Value};

use super::super::{CounterScanSummary, Give};
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
    told: &mut CounterScanSummary,
    give: &mut Give<'_>,
) -> Result<(), TraceError> {
    let line = first_line(input.head()).unwrap_or_default();
    let is_line = serde_json::from_slice::<Map<String, Value>>(line);
    let is_row = |object: Map<String, Value>| {
        !cloud::is_answer(&object) && !object.get(LIST).is_some_and(Value::is_array)
    };
    match is_line.is_ok_and(is_row) {
        true => lines(input, mapping, told, give),
        false => documents(input, mapping, told, give),
    }
}

/// Rows of one object a line.
fn lines(
    input: &mut RecordingInput,
    mapping: Option<&MappingFile>,
    told: &mut CounterScanSummary,
    give: &mut Give<'_>,
) -> Result<(), TraceError> {
    let mut rows: Option<JsonRows> = None;
    while let Some((offset, line)) = input.wide_line()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let object = serde_json::from_slice::<Map<String, Value>>(line);
        let object = object.map_err(|error| format!("it is no object of JSON ({error})"));
        let shown: Vec<u8> = line.iter().copied().take(80).collect();
        let taken = match (object, &mut rows) {
            (Ok(object), Some(rows)) => rows.take(&object, told, give),
            (Ok(object), none) => {
                let rows = none.insert(JsonRows::of(&object, mapping, input, told)?);
                rows.take(&object, told, give)
            }
            (Err(what), _) => Err(what),
        };
        let Err(what) = taken else {
            told.wrong.right();
            continue;
        };
        if let Some(what) = told.wrong.wrong(offset, &what, &shown) {
            told.damage = Some(input.damage(offset, what));
            break;
        }
    }
    match rows {
        Some(rows) => rows
            .reader
            .finish(told, give)
            .map_err(|what| wrong(input, what)),
        None => Ok(()),
    }
}

/// Rows of whole documents, one behind the other.
fn documents(
    input: &mut RecordingInput,
    mapping: Option<&MappingFile>,
    told: &mut CounterScanSummary,
    give: &mut Give<'_>,
) -> Result<(), TraceError> {
    let mut text = Vec::new();
    while let piece @ [_, ..] = input.take(64 << 10)? {
        text.extend_from_slice(piece);
        if text.len() > DOCUMENT_BYTES_MAX {
            let what =
                "its JSON has more than 64 MiB in one piece; print one object a line (jq -c '.[]')";
            return Err(wrong(input, what.into()));
        }
    }
    let mut objects = Vec::new();
    let mut answers = Vec::new();
    let mut found = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
    loop {
        let document = match found.next() {
            None => break,
            Some(Ok(document)) => document,
            Some(Err(error)) => {
                let what = format!("here the JSON is broken, or cut off ({error})");
                told.damage = Some(input.damage(found.byte_offset() as u64, what));
                break;
            }
        };
        match document {
            Value::Object(answer) if cloud::is_answer(&answer) => answers.push(answer),
            Value::Object(mut answer) => match answer.remove(LIST) {
                Some(Value::Array(list)) => objects.extend(list),
                _ => objects.push(Value::Object(answer)),
            },
            Value::Array(list) => objects.extend(list),
            _ => told
                .warn_once("a value of its JSON is neither an object nor a list and was left out"),
        }
    }
    if !answers.is_empty() {
        return cloud::scan(&answers, input, told, give);
    }
    let mut rows: Option<JsonRows> = None;
    for (number, object) in objects.iter().enumerate() {
        let taken = match (object, &mut rows) {
            (Value::Object(object), Some(rows)) => rows.take(object, told, give),
            (Value::Object(object), none) => {
                let rows = none.insert(JsonRows::of(object, mapping, input, told)?);
                rows.take(object, told, give)
            }
            _ => Err("it is no object".into()),
        };
        match taken {
            Ok(()) => told.wrong.right(),
            Err(what) => {
                let what = format!("object {}: {what}", number + 1);
                if let Some(what) = told.wrong.wrong(0, &what, object.to_string().as_bytes()) {
                    told.damage = Some(input.damage(0, what));
                    break;
                }
            }
        }
    }
    match rows {
        Some(rows) => rows
            .reader
            .finish(told, give)
            .map_err(|what| wrong(input, what)),
        None => Ok(()),
    }
}

/// Objects with the keys of the first.
struct JsonRows {
    reader: TableReader,
}

impl JsonRows {
    fn of(
        first: &Map<String, Value>,
        mapping: Option<&MappingFile>,
        input: &RecordingInput,
        told: &mut CounterScanSummary,
    ) -> Result<JsonRows, TraceError> {
        let columns = columns(&names(first), mapping, input)?;
        Ok(JsonRows {
            reader: TableReader::new(columns, &disk_name(input), told),
        })
    }

    fn take(
        &mut self,
        object: &Map<String, Value>,
        told: &mut CounterScanSummary,
        give: &mut Give<'_>,
    ) -> Result<(), String> {
        let known = &self.reader.columns.names;
        if object.keys().any(|key| !known.contains(key)) {
            told.warn_once("keys that the first object lacks are left out");
        }
        let texts: Vec<Option<Cow<'_, str>>> =
            known.iter().map(|name| text(object.get(name)?)).collect();
        let cells: Vec<TableCell<'_>> = texts
            .iter()
            .map(|text| match text {
                Some(text) => TableCell::Text(text.as_bytes()),
                None => TableCell::Nothing,
            })
            .collect();
        self.reader.row(&cells, told, give)
    }
}

/// A value as a cell of text.
pub(super) fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        Value::String(text) => Some(Cow::Borrowed(text)),
        other => Some(Cow::Owned(other.to_string())),
    }
}
