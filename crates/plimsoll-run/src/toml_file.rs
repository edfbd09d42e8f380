// SPDX-License-Identifier: Apache-2.0
//! Files of TOML that users write, and places in them: errors name the file, the line and the key.

use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_core::nearest::nearest;
use plimsoll_core::text::is_unprintable;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Place of an entry in a file.
#[derive(Debug, Clone)]
pub struct TomlFilePlace {
    kind: &'static str,
    file: PathBuf,
    line: usize,
    key: String,
}

impl TomlFilePlace {
    /// The failure with the place before it.
    pub fn about(&self, failure: &CliError) -> CliError {
        let text = format!("{self}: {}", failure.text());
        CliError {
            hint: failure.hint.clone(),
            ..CliError::sentence(failure.code, text)
        }
    }

    /// A mistake at this place.
    pub fn invalid(&self, reason: impl std::fmt::Display) -> CliError {
        CliError::sentence(CliExitCode::Usage, format!("{self}: {reason}"))
    }
}

impl std::fmt::Display for TomlFilePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {}, line {}, {}",
            self.kind,
            self.file.display(),
            self.line,
            self.key
        )
    }
}

/// Reads the text of a file of this kind.
///
/// # Errors
/// When it cannot be read, is too large or has characters that no such file has.
pub fn read(kind: &str, file: &Path) -> Result<String, CliError> {
    let about = |error: std::io::Error| about(kind, file, &error);
    let facts = std::fs::metadata(file).map_err(about)?;
    if !facts.is_file() {
        return Err(about(std::io::Error::other("it is not a regular file")));
    }
    read_from(kind, file, std::fs::File::open(file).map_err(about)?)
}

/// Reads what is not too large, and would act on no terminal. `file` is its name in errors.
///
/// # Errors
/// When it cannot be read, or is none.
pub(crate) fn read_from(kind: &str, file: &Path, from: impl Read) -> Result<String, CliError> {
    let mut text = String::new();
    let read = from.take(MAX_BYTES + 1).read_to_string(&mut text);
    let read = read.map_err(|error| about(kind, file, &error))?;
    let reason = match read as u64 > MAX_BYTES {
        true => Some(format!("it has more than {MAX_BYTES} bytes")),
        false => control_character(&text),
    };
    match reason {
        Some(reason) => Err(about(kind, file, &reason)),
        None => Ok(text),
    }
}

fn about(kind: &str, file: &Path, reason: &dyn std::fmt::Display) -> CliError {
    CliError::usage(format!("read {kind} {}: {reason}", file.display()))
}

/// A step on the way to a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TomlFileStep<'a> {
    /// A key of a table.
    Key(&'a str),
    /// A place in an array.
    Item(usize),
}

/// The text of a file, in which places are found again.
pub(crate) struct TomlFileText<'a> {
    /// Name of such a file in errors.
    pub(crate) kind: &'static str,
    /// Where it is.
    pub(crate) file: &'a Path,
    /// Contents of the file.
    pub(crate) text: &'a str,
}

impl TomlFileText<'_> {
    /// Where a value stands, or the nearest value around it.
    pub(crate) fn at(&self, steps: &[TomlFileStep<'_>]) -> TomlFilePlace {
        TomlFilePlace {
            kind: self.kind,
            file: self.file.into(),
            line: self.line_of(self.offset_of(steps).unwrap_or(0)),
            key: key(steps),
        }
    }

    /// The same of a key as one text: `workload[0].settings.depth`.
    pub(crate) fn at_key(&self, key: &str) -> TomlFilePlace {
        let mut steps = Vec::new();
        for part in key.split('.') {
            let (name, items) = part.split_once('[').unwrap_or((part, ""));
            steps.push(TomlFileStep::Key(name));
            let items = items.split(['[', ']']).filter_map(|item| item.parse().ok());
            steps.extend(items.map(TomlFileStep::Item));
        }
        self.at(&steps)
    }

    fn line_of(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    fn offset_of(&self, steps: &[TomlFileStep<'_>]) -> Option<usize> {
        let table = DeTable::parse(self.text).ok()?;
        let (TomlFileStep::Key(first), rest) = (steps.first()?, &steps[1..]) else {
            return None;
        };
        let top = table.get_ref().iter();
        let (_, mut found) = top.into_iter().find(|(key, _)| key.get_ref() == first)?;
        for step in rest {
            let inside: &DeValue<'_> = found.get_ref();
            let next = match step {
                TomlFileStep::Key(key) => inside.get(*key),
                TomlFileStep::Item(number) => inside.get(*number),
            };
            let Some(next) = next else { break };
            found = next;
        }
        Some(found.span().start)
    }

    /// Error in the form of the file: the reader's words name the key and what was expected.
    pub(crate) fn misread(&self, error: &toml::de::Error) -> CliError {
        let offset = error.span().map_or(0, |span| span.start);
        let (kind, file, line) = (self.kind, self.file.display(), self.line_of(offset));
        // A key that is missing has no place of its own.
        let key = match self.key_at(offset).filter(|_| offset > 0) {
            Some(key) if !key.is_empty() => format!(", {key}"),
            _ => String::new(),
        };
        let message = with_nearest(error.message());
        let text = format!("{kind} {file}, line {line}{key}: {message}");
        CliError::sentence(CliExitCode::Usage, text)
    }

    /// The key of the innermost value that holds this byte of the text.
    fn key_at(&self, offset: usize) -> Option<String> {
        let table = DeTable::parse(self.text).ok()?;
        let mut steps = Vec::new();
        find_in(table.get_ref(), offset, &mut steps);
        Some(key(&steps))
    }
}

/// The reader's words on an unknown name (`blokc`, expected one of `blocks`, …), with the known one that is
/// nearest to it.
fn with_nearest(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let is_name = message.starts_with("unknown ");
    let near = names.next().and_then(|name| nearest(name, names));
    let near = near.filter(|_| is_name);
    near.map_or_else(
        || message.to_owned(),
        |near| format!("{message}; did you mean `{near}`?"),
    )
}

/// Adds the steps to the innermost value below `table` that holds a byte. Spans of tables with a header end
/// with that, so each is looked into.
fn find_in<'a>(table: &'a DeTable<'_>, offset: usize, steps: &mut Vec<TomlFileStep<'a>>) -> bool {
    table.iter().any(|(name, value)| {
        steps.push(TomlFileStep::Key(name.get_ref()));
        let is_here = is_in(value.get_ref(), offset, steps) || value.span().contains(&offset);
        if !is_here {
            steps.pop();
        }
        is_here
    })
}

fn is_in<'a>(value: &'a DeValue<'_>, offset: usize, steps: &mut Vec<TomlFileStep<'a>>) -> bool {
    match value {
        DeValue::Table(table) => find_in(table, offset, steps),
        DeValue::Array(items) => items.iter().enumerate().any(|(at, item)| {
            steps.push(TomlFileStep::Item(at));
            let is_here = is_in(item.get_ref(), offset, steps) || item.span().contains(&offset);
            if !is_here {
                steps.pop();
            }
            is_here
        }),
        _ => false,
    }
}

/// `workload 2, settings.depth`.
fn key(steps: &[TomlFileStep<'_>]) -> String {
    let mut key = String::new();
    for (place, step) in steps.iter().enumerate() {
        match step {
            TomlFileStep::Item(number) => {
                key.push(' ');
                key.push_str(&(number + 1).to_string());
            }
            TomlFileStep::Key(name) => {
                let is_below_item = matches!(
                    steps.get(place.wrapping_sub(1)),
                    Some(TomlFileStep::Item(_))
                );
                let before = match (place, is_below_item) {
                    (0, _) => "",
                    (_, true) => ", ",
                    (_, false) => ".",
                };
                key.push_str(before);
                key.push_str(name);
            }
        }
    }
    key
}
/// Why a file is refused whose names would act on a terminal or on a file that another program reads; `None`
/// also where it is no TOML, which its reader tells.
pub(crate) fn control_character(text: &str) -> Option<String> {
    // Such a character stands there as it is, is written with a backslash, or is the end of a line in a
    // text of several.
    let is_plain = |c| c != '\\' && (!is_unprintable(c) || matches!(c, '\n' | '\r' | '\t'));
    let has_lines = text.contains("\"\"\"") || text.contains("'''");
    if !has_lines && text.chars().all(is_plain) {
        return None;
    }
    let table: toml::Table = toml::from_str(text).ok()?;
    let found = unprintable_in(&toml::Value::Table(table))?;
    Some(format!(
        "'{}' has a control character",
        found.escape_debug()
    ))
}

/// A key or a text with a character in it that is not shown but does something.
fn unprintable_in(value: &toml::Value) -> Option<String> {
    let bad = |text: &str| text.contains(is_unprintable).then(|| text.to_owned());
    match value {
        toml::Value::String(text) => bad(text),
        toml::Value::Array(values) => values.iter().find_map(unprintable_in),
        toml::Value::Table(table) => table
            .iter()
            .find_map(|(key, value)| bad(key).or_else(|| unprintable_in(value))),
        _ => None,
    }
}
