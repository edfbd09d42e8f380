// SPDX-License-Identifier: Apache-2.0
//! Reading a run folder while somebody else writes it.

use crate::error::{ArchiveError, io_error};
use crate::layout::EVENTS;
use crate::read::{EventLineReader, manifest};
use plimsoll_core::event::{RunEvent, RunManifest};
use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Longest line that is waited for, in bytes; the rest of a longer one is passed over.
const LINE_MAX: usize = 64 << 20;

/// Whether a program is writing events into the folder now. Its lock ends with it, however it ends.
///
/// # Errors
/// When there is no such folder, or it cannot be read.
pub fn is_being_written(folder: &Path) -> Result<bool, ArchiveError> {
    let path = folder.join(EVENTS);
    let events = File::open(&path).map_err(io_error("read", &path))?;
    // A file system without locks tells nothing: such a run counts as ended.
    Ok(matches!(
        events.try_lock_shared(),
        Err(TryLockError::WouldBlock)
    ))
}

/// Gives the events of a run folder bit by bit, from the first one on and as they are written.
#[derive(Debug)]
pub struct RunFolderFollower {
    folder: PathBuf,
    manifest: RunManifest,
    lines: EventLineReader,
    events: File,
    /// Bytes that were read from the file.
    read_bytes: u64,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
    /// Whether the rest of a line that is too long is being passed over.
    is_passing: bool,
    damaged: u64,
}

impl RunFolderFollower {
    /// Begins with the first event of the run in `folder`.
    ///
    /// # Errors
    /// When it is no run folder, was written in a newer format, or its manifest is damaged.
    pub fn open(folder: &Path) -> Result<RunFolderFollower, ArchiveError> {
        let manifest = manifest(folder)?;
        let path = folder.join(EVENTS);
        let events = File::open(&path).map_err(io_error("read", &path))?;
        Ok(RunFolderFollower {
            folder: folder.into(),
            lines: EventLineReader::of(&manifest),
            manifest,
            events,
            read_bytes: 0,
            begun: Vec::new(),
            is_passing: false,
            damaged: 0,
        })
    }

    /// What was planned when the run began.
    #[must_use]
    pub fn manifest(&self) -> &RunManifest {
        &self.manifest
    }

    /// Lines that were damaged and are left out.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The share of the file that was read: 1 when nothing is left for now.
    #[must_use]
    pub fn share_read(&self) -> f64 {
        match self.events.metadata() {
            Ok(facts) if facts.len() > 0 => (self.read_bytes as f64 / facts.len() as f64).min(1.0),
            _ => 1.0,
        }
    }

    /// The events of at most about `bytes_max` bytes more; `None` when nothing was written since the last
    /// look. A line whose end is not there yet waits for the next look.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn look(&mut self, bytes_max: u64) -> Result<Option<Vec<RunEvent>>, ArchiveError> {
        let mut bytes = Vec::new();
        let path = self.folder.join(EVENTS);
        let read = self.read(bytes_max, &mut bytes);
        if read.map_err(io_error("read", &path))? == 0 {
            return Ok(None);
        }
        let mut events = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.add(line, &mut events);
        }
        Ok(Some(events))
    }

    fn read(&mut self, bytes_max: u64, bytes: &mut Vec<u8>) -> std::io::Result<usize> {
        // A run that is resumed loses a torn last line: then the file is shorter than what was read.
        let len = self.events.metadata()?.len();
        if len < self.read_bytes {
            self.read_bytes -= self.begun.len() as u64;
            self.begun.clear();
        }
        self.events.seek(SeekFrom::Start(self.read_bytes))?;
        let read = (&self.events).take(bytes_max).read_to_end(bytes)?;
        self.read_bytes += read as u64;
        Ok(read)
    }

    /// Takes a line, or a part of one.
    fn add(&mut self, part: &[u8], events: &mut Vec<RunEvent>) {
        let is_end = part.last() == Some(&b'\n');
        if !self.is_passing && self.begun.len() + part.len() > LINE_MAX {
            self.is_passing = true;
            self.damaged += 1;
            self.begun = Vec::new();
        }
        if self.is_passing {
            self.is_passing = !is_end;
            return;
        }
        if !is_end {
            return self.begun.extend_from_slice(part);
        }
        let read = if self.begun.is_empty() {
            self.lines.event(part)
        } else {
            self.begun.extend_from_slice(part);
            self.lines.event(&std::mem::take(&mut self.begun))
        };
        match read {
            Ok(event) => events.push(event),
            Err(_) => self.damaged += 1,
        }
    }
}
