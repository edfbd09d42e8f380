// SPDX-License-Identifier: Apache-2.0
//! Cells of a table of faults that are done, kept so that nothing is done twice after an interruption.
//!
//! ```text
//! FOLDER/cells.jsonl   first what was asked for, then a cell per line, appended as each is done
//! ```

use plimsoll_core::failover::FailoverResult;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{ArchiveError, io_error};

const CELLS: &str = "cells.jsonl";

/// What a folder holds of them.
#[derive(Debug)]
pub struct FailoverCheckpoint {
    path: PathBuf,
    file: File,
    kept: Vec<FailoverResult>,
}

impl FailoverCheckpoint {
    /// Opens a folder, which is made when it is not there. `asked` is what all cells have in common.
    ///
    /// # Errors
    /// When the folder cannot be written or read, its cells were made with something else than
    /// `asked`, or it holds something else.
    pub fn open(folder: &Path, asked: &Value) -> Result<FailoverCheckpoint, ArchiveError> {
        fs::create_dir_all(folder).map_err(io_error("create", folder))?;
        let path = folder.join(CELLS);
        if path.is_symlink() {
            return Err(ArchiveError::Damaged {
                path,
                reason: "it is a link, and cells are kept in no file elsewhere".into(),
            });
        }
        let mut options = File::options();
        let options = options.create(true).truncate(false).read(true).write(true);
        let opened = options.open(&path);
        let mut file = opened.map_err(io_error("open", &path))?;
        let mut text = String::new();
        let read = file.read_to_string(&mut text);
        read.map_err(io_error("read", &path))?;
        // A line that was being written when its writer ended is written over.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let damaged = |reason: String| ArchiveError::Damaged {
            path: path.clone(),
            reason,
        };
        if let Some(first) = lines.next() {
            let found: Value =
                serde_json::from_str(first).map_err(|error| damaged(error.to_string()))?;
            if found != *asked {
                return Err(damaged(format!(
                    "its cells were made with {found}, and {asked} is asked for; ask for the same, or \
                     name another folder"
                )));
            }
        }
        let cell = |line| serde_json::from_str(line).map_err(|error| damaged(error.to_string()));
        let kept = lines
            .map(cell)
            .collect::<Result<Vec<FailoverResult>, _>>()?;
        let mut cells = FailoverCheckpoint {
            kept,
            file,
            path: path.clone(),
        };
        let cut = cells.file.set_len(whole as u64);
        cut.and_then(|()| cells.file.seek(SeekFrom::End(0)))
            .map_err(io_error("write", &path))?;
        if whole == 0 {
            cells.append(&asked.to_string())?;
        }
        Ok(cells)
    }

    /// The cells that are done.
    #[must_use]
    pub fn kept(&self) -> &[FailoverResult] {
        &self.kept
    }

    /// Keeps a cell, durably.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&mut self, cell: FailoverResult) -> Result<(), ArchiveError> {
        let line = serde_json::to_string(&cell).map_err(|error| ArchiveError::Damaged {
            path: self.path.clone(),
            reason: error.to_string(),
        })?;
        self.append(&line)?;
        self.kept.push(cell);
        Ok(())
    }

    fn append(&mut self, line: &str) -> Result<(), ArchiveError> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written
            .and_then(|()| self.file.sync_data())
            .map_err(io_error("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cell(name: &str) -> FailoverResult {
        FailoverResult {
            name: name.into(),
            description: "two disks".into(),
            sessions: 2,
            rate: 100.0,
            most: None,
            block_bytes: 4096,
            seed: 7,
            strikes: Vec::new(),
        }
    }

    #[test]
    fn what_was_done_is_there_again_and_half_a_line_is_not() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("cells");
        let asked = json!({ "repeat": 2 });
        let mut cells = FailoverCheckpoint::open(&folder, &asked).unwrap();
        cells.keep(cell("raid1")).unwrap();
        drop(cells);
        let path = folder.join(CELLS);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}{{\"name\": \"rai")).unwrap();
        let mut cells = FailoverCheckpoint::open(&folder, &asked).unwrap();
        assert_eq!(cells.kept(), [cell("raid1")]);
        cells.keep(cell("raid5")).unwrap();
        let cells = FailoverCheckpoint::open(&folder, &asked).unwrap();
        assert_eq!(cells.kept(), [cell("raid1"), cell("raid5")]);
        let error = FailoverCheckpoint::open(&folder, &json!({ "repeat": 3 })).unwrap_err();
        assert!(error.to_string().contains("name another folder"), "{error}");
        fs::write(&path, "something else\n").unwrap();
        assert!(FailoverCheckpoint::open(&folder, &asked).is_err());
    }
}
