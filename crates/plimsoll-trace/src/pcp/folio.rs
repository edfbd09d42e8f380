// SPDX-License-Identifier: Apache-2.0
//! Several archives under one name: a folio (a text file that lists them) or a folder of them.
//!
//! A folio (from mkaf(1)) begins with `PCPFolio` and `Version: 1`; each line `Archive: HOST BASE`
//! names an archive, from the folio's own folder. What else it says is for people.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::files::{COMPRESSED, PcpArchiveFiles};
use crate::error::{RecordingDamage, TraceError};

const MAGIC: &[u8] = b"PCPFolio";
/// Longest folio read; a year of days takes 30 KiB.
const FOLIO_BYTES_MAX: u64 = 1 << 20;
/// Most archives opened as one recording.
const ARCHIVES_MAX: usize = 4_000;

/// The files of all archives that `path` names: an archive, a folio, or a folder.
pub(super) fn find(path: &Path) -> Result<Vec<PcpArchiveFiles>, TraceError> {
    let unknown = match PcpArchiveFiles::find(path) {
        Err(unknown @ TraceError::NoArchive { .. }) => unknown,
        found => return Ok(vec![found?]),
    };
    let bases = if path.is_dir() {
        of_folder(path)?
    } else {
        let Some(text) = folio_text(path)? else {
            return Err(unknown);
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        let names = archives_of_folio(&path.display().to_string(), &text)?;
        names.iter().map(|name| folder.join(name)).collect()
    };
    if bases.is_empty() {
        return Err(unknown);
    }
    if bases.len() > ARCHIVES_MAX {
        let what = format!("it holds more than {ARCHIVES_MAX} archives; open fewer");
        return Err(TraceError::format(&path.display().to_string(), what));
    }
    bases
        .iter()
        .map(|base| PcpArchiveFiles::find(base))
        .collect()
}

/// The archives that the text of a folio names, as it writes them. `file` is for messages.
///
/// # Errors
/// When the text is not that of a folio of version 1, or a line names no archive.
pub fn archives_of_folio(file: &str, text: &[u8]) -> Result<Vec<String>, TraceError> {
    let mut offset = 0;
    let mut names = Vec::new();
    let mut version = None;
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let wrong = |what| TraceError::from(RecordingDamage::new(file, offset, what));
        let words = String::from_utf8_lossy(line);
        let words = words.trim();
        if number == 0 && words.as_bytes() != MAGIC {
            return Err(wrong("it does not begin with a line 'PCPFolio'"));
        }
        if let Some(given) = words.strip_prefix("Version:") {
            version = Some(given.trim() == "1");
        }
        if let Some(entry) = words.strip_prefix("Archive:") {
            // The base name goes to the end of the line: it may hold spaces.
            let base = entry.trim_start().split_once(char::is_whitespace);
            let Some((_, base)) = base else {
                return Err(wrong("a line 'Archive:' lacks a host or a base name"));
            };
            names.push(base.trim().to_owned());
        }
        offset += line.len() as u64 + 1;
    }
    if version != Some(true) {
        let place = MAGIC.len() as u64 + 1;
        return Err(RecordingDamage::new(file, place, "the folio is not of version 1").into());
    }
    Ok(names)
}

/// The text of a folio; `None` when the file is no folio.
fn folio_text(path: &Path) -> Result<Option<Vec<u8>>, TraceError> {
    let Ok(file) = fs::File::open(path) else {
        // Nothing has this name: that is what the reader of the message has to know.
        return Ok(None);
    };
    let mut text = Vec::new();
    let read = file.take(FOLIO_BYTES_MAX).read_to_end(&mut text);
    read.map_err(|source| TraceError::unread(path, source))?;
    Ok(text.starts_with(MAGIC).then_some(text))
}

/// Base names of the archives in a folder.
fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let failed = |source| TraceError::unread(folder, source);
    let mut bases = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let suffix = path.extension().and_then(|suffix| suffix.to_str());
        let meta = match suffix.filter(|suffix| COMPRESSED.contains(suffix)) {
            Some(_) => path.with_extension(""),
            None => path,
        };
        if meta.extension().is_some_and(|suffix| suffix == "meta") {
            bases.push(meta.with_extension(""));
        }
    }
    bases.sort();
    bases.dedup();
    Ok(bases)
}
