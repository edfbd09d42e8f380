// SPDX-License-Identifier: Apache-2.0
//! Files of TOML that users write, and places in them: what is wrong is told with the file, the line and the
//! key.

use plimsoll_console::failure::{CliError, CliExitCode};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

use crate::spec::check_characters;

/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Where something stands in a file.
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
pub(crate) fn read(kind: &str, file: &Path) -> Result<String, CliError> {
    let about =
        |error: std::io::Error| CliError::usage(format!("read {kind} {}: {error}", file.display()));
    let facts = std::fs::metadata(file).map_err(about)?;
    if !facts.is_file() {
        return Err(about(std::io::Error::other("it is not a regular file")));
    }
    let bytes = facts.len();
    if bytes > MAX_BYTES {
        return Err(CliError::usage(format!(
            "read {kind} {}: it has {bytes} bytes, more than any {kind}",
            file.display()
        )));
    }
    let text = std::fs::read_to_string(file).map_err(about)?;
    check_characters(file, &text)?;
    Ok(text)
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
        let text = format!("{kind} {file}, line {line}{key}: {}", error.message());
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
