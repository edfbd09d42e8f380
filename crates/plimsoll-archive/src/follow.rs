// SPDX-License-Identifier: Apache-2.0
//! Reading a run folder while another program writes it.

use crate::error::{ArchiveError, io_error};
use crate::layout::{EVENTS, MANIFEST, read_own};
use crate::read::{self, EventLineReader, begin};
use crate::sealed::{NONE_BEFORE, unseal};
use plimsoll_core::event::{RunEvent, RunManifest};
use plimsoll_core::format::FormatVersion;
use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Longest line that is waited for, in bytes; the rest of a longer one is passed over.
const LINE_MAX: u64 = 64 << 20;

/// Most bytes of the last line, which holds all comparisons, that are read to see how a run ended.
const LAST_MAX: u64 = 16 << 20;

/// Whether a folder holds a run: a directory with a manifest and events, none of which is a link to somewhere
/// else.
pub fn holds_run(folder: &Path) -> bool {
    let kind = |path: &Path| path.symlink_metadata().map(|facts| facts.file_type());
    let is_file = |name| kind(&folder.join(name)).is_ok_and(|kind| kind.is_file());
    kind(folder).is_ok_and(|kind| kind.is_dir()) && is_file(MANIFEST) && is_file(EVENTS)
}

/// Bytes of the events that are there: what was read of them is out of date when it is another number.
pub fn events_bytes(folder: &Path) -> u64 {
    folder
        .join(EVENTS)
        .metadata()
        .map_or(0, |facts| facts.len())
}

/// Whether a program is writing events into the folder now. Its lock ends with it, however it ends.
///
/// # Errors
/// When there is no such folder, or it cannot be read.
pub fn is_being_written(folder: &Path) -> Result<bool, ArchiveError> {
    let path = folder.join(EVENTS);
    let events = read_own(&path).map_err(io_error("read", &path))?;
    // A file system without locks tells nothing: such a run counts as ended.
    Ok(matches!(
        events.try_lock_shared(),
        Err(TryLockError::WouldBlock)
    ))
}

/// Whether the last event of a run says that its plan was carried out to its end, without a look at the
/// others. `format` is that of its manifest.
pub fn has_completed(folder: &Path, format: FormatVersion) -> bool {
    let last = || -> std::io::Result<Vec<u8>> {
        let mut events = read_own(&folder.join(EVENTS))?;
        let len = events.metadata()?.len();
        events.seek(SeekFrom::Start(len.saturating_sub(LAST_MAX)))?;
        let mut bytes = Vec::new();
        events.take(LAST_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = last().unwrap_or_default();
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let (last, before) = (lines.next_back(), lines.next_back());
    let manifest = || manifest_begin(folder).unwrap_or_default();
    let before = before.map_or_else(manifest, <[u8]>::to_vec);
    let before = match format >= FormatVersion::RUN_WITH_CHAIN {
        true => unseal(&before, NONE_BEFORE).1,
        false => NONE_BEFORE,
    };
    let event = last.and_then(|line| read::event(line, format, before).0.ok());
    matches!(
        event,
        Some(RunEvent::Finished {
            interrupted: false,
            ..
        })
    )
}

/// The first bytes of a manifest, which have its checksum.
fn manifest_begin(folder: &Path) -> std::io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    let manifest = read_own(&folder.join(MANIFEST))?;
    manifest.take(64).read_to_end(&mut begin)?;
    Ok(begin)
}

/// Gives the events of a run folder bit by bit, from the first one on and as they are written.
#[derive(Debug)]
pub struct RunFolderFollower {
    folder: PathBuf,
    manifest: RunManifest,
    lines: EventLineReader,
    events: File,
    /// Where the first line begins that was not read.
    at: u64,
    /// Bytes to read at least, for a line that is longer than a look.
    wanted: u64,
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
        let (manifest, lines) = begin(folder, &mut Vec::new())?;
        let path = folder.join(EVENTS);
        let events = read_own(&path).map_err(io_error("read", &path))?;
        Ok(RunFolderFollower {
            folder: folder.into(),
            lines,
            manifest,
            events,
            at: 0,
            wanted: 0,
            is_passing: false,
            damaged: 0,
        })
    }

    /// The plan of the run, written when it began.
    pub fn manifest(&self) -> &RunManifest {
        &self.manifest
    }

    /// Lines that were damaged and are left out.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The share of the file that was read: 1 when nothing is left for now.
    pub fn share_read(&self) -> f64 {
        match self.events.metadata() {
            Ok(facts) if facts.len() > 0 => (self.at as f64 / facts.len() as f64).min(1.0),
            _ => 1.0,
        }
    }

    /// The events of about `bytes_max` bytes more; `None` when there is no whole line that was not read. A
    /// line whose end is not there yet waits: who resumes the run takes it away.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn look(&mut self, bytes_max: u64) -> Result<Option<Vec<RunEvent>>, ArchiveError> {
        let path = self.folder.join(EVENTS);
        let wanted = bytes_max.max(self.wanted);
        let bytes = self.read(wanted).map_err(io_error("read", &path))?;
        let is_cut = bytes.len() as u64 == wanted;
        let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(is_cut.then(|| self.want_more(bytes.len() as u64)));
        };
        self.wanted = 0;
        self.at += last as u64 + 1;
        let mut events = Vec::new();
        for line in bytes[..=last].split_inclusive(|byte| *byte == b'\n') {
            if std::mem::take(&mut self.is_passing) {
                continue;
            }
            match self.lines.event(line) {
                Ok(event) => events.extend(event),
                Err(_) => self.damaged += 1,
            }
        }
        Ok(Some(events))
    }

    /// A line is longer than what was read of it.
    fn want_more(&mut self, read: u64) -> Vec<RunEvent> {
        if self.is_passing || read >= LINE_MAX {
            self.damaged += u64::from(!self.is_passing);
            self.is_passing = true;
            self.at += read;
        } else {
            self.wanted = 2 * read;
        }
        Vec::new()
    }

    fn read(&mut self, bytes_max: u64) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.events.seek(SeekFrom::Start(self.at))?;
        (&self.events).take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
