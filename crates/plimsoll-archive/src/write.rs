// SPDX-License-Identifier: Apache-2.0
//! Writing a run folder while the run goes on.

use crate::error::{ArchiveError, io_error};
use crate::layout::{DISKS, EVENTS, LEDGERS, MANIFEST, REPORT, open_own};
use crate::read::begin;
use crate::result_file::{MODE, is_early, make_directory, write_result};
use crate::sealed::seal;
use plimsoll_core::event::{RunEvent, RunListener, RunManifest};
use plimsoll_core::format::FormatVersion;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Appends events to a run folder.
#[derive(Debug)]
pub struct RunFolderWriter {
    folder: PathBuf,
    events: File,
    /// Bytes of the events that are there whole.
    whole: u64,
    /// Checksum that the next line goes on from, where lines are bound to each other.
    before: Option<u32>,
    failure: Option<ArchiveError>,
}

impl RunFolderWriter {
    /// Creates the folder (it may exist when empty) and writes the manifest to disk, which comes last and
    /// whole: a folder without one is that of a run that never began, and can be begun again.
    ///
    /// # Errors
    /// When the folder holds something already or cannot be written; then it is as it was.
    pub fn create(folder: &Path, manifest: &RunManifest) -> Result<RunFolderWriter, ArchiveError> {
        check_free(folder)?;
        let is_new = !folder.exists();
        make_directory(folder).map_err(io_error("create the run folder", folder))?;
        let path = folder.join(MANIFEST);
        let text = serde_json::to_vec_pretty(manifest).expect("a manifest has only plain data");
        let (text, sum) = seal(&text, 0);
        let write = || -> std::io::Result<File> {
            let mut options = OpenOptions::new();
            options.create(true).append(true).mode(MODE);
            let events = open_own(&options, &folder.join(EVENTS))?;
            claim(&events)?;
            if path.exists() {
                // Another program created it between the check and the lock.
                return Err(ErrorKind::AlreadyExists.into());
            }
            let begun = write_result(&path, &text).and_then(|()| File::open(folder)?.sync_all());
            if let Err(error) = begun {
                for name in [MANIFEST, EVENTS] {
                    let _ = fs::remove_file(folder.join(name));
                }
                return Err(error);
            }
            remove_early(folder);
            Ok(events)
        };
        let events = write().inspect_err(|_| {
            if is_new {
                let _ = fs::remove_dir(folder);
            }
        });
        let events = events.map_err(io_error("write", &path))?;
        Ok(RunFolderWriter {
            folder: folder.into(),
            events,
            whole: 0,
            before: (manifest.format >= FormatVersion::RUN_WITH_CHAIN).then_some(sum),
            failure: None,
        })
    }

    /// Goes on with the folder of a run that was cut off: what is there stands, a torn last line goes.
    ///
    /// # Errors
    /// When it is no such folder, cannot be written, or is being written by another program.
    pub fn resume(folder: &Path) -> Result<RunFolderWriter, ArchiveError> {
        let (_, lines) = begin(folder, &mut Vec::new())?;
        let path = folder.join(EVENTS);
        let open = || -> std::io::Result<(File, u64, Vec<u8>)> {
            let mut file = open_own(OpenOptions::new().read(true).append(true), &path)?;
            claim(&file)?;
            let whole = whole_lines(&mut file, u64::MAX)?;
            file.set_len(whole)?;
            let last = whole_lines(&mut file, whole.saturating_sub(1))?;
            let mut line = Vec::new();
            file.seek(SeekFrom::Start(last))?;
            file.read_to_end(&mut line)?;
            Ok((file, whole, line))
        };
        let (events, whole, last) = open().map_err(io_error("go on with", &path))?;
        let last = (!last.is_empty()).then_some(&*last);
        Ok(RunFolderWriter {
            folder: folder.into(),
            events,
            whole,
            before: lines.sum_behind(last),
            failure: None,
        })
    }

    /// Begins once more with the folder of a run that was cut off, whose events can all be had again.
    ///
    /// # Errors
    /// As [`RunFolderWriter::resume`].
    pub fn restart(folder: &Path) -> Result<RunFolderWriter, ArchiveError> {
        let mut writer = RunFolderWriter::resume(folder)?;
        let path = folder.join(EVENTS);
        writer.events.set_len(0).map_err(io_error("empty", &path))?;
        writer.whole = 0;
        let (_, lines) = begin(folder, &mut Vec::new())?;
        writer.before = lines.sum_behind(None);
        Ok(writer)
    }

    /// Base name of the PCP archive of what the disks of this machine count meanwhile; a new one each
    /// time that the run goes on.
    pub fn disks(&self) -> PathBuf {
        let taken = |base: &Path| base.with_added_extension("meta").exists();
        let named = |n: u32| match n {
            1 => self.folder.join(DISKS),
            n => self.folder.join(format!("{DISKS}-{n}")),
        };
        let mut all = (1..=u32::MAX).map(named);
        all.find(|base| !taken(base)).unwrap_or_else(|| named(1))
    }

    /// Where the ledgers of sessions are kept that feel faults; it is made.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn ledgers(&self) -> Result<PathBuf, ArchiveError> {
        let path = self.folder.join(LEDGERS);
        make_directory(&path).map_err(io_error("make", &path))?;
        Ok(path)
    }

    /// Whether something could not be recorded: nothing is from then on.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The first thing that could not be recorded, if any.
    pub fn take_failure(&mut self) -> Option<ArchiveError> {
        self.failure.take()
    }

    fn append(&mut self, event: &RunEvent) -> std::io::Result<()> {
        let before = self.before.unwrap_or(0);
        let (mut line, sum) = seal(&serde_json::to_vec(event)?, before);
        line.push(b'\n');
        // One write per line: after a crash at most the last line is torn.
        self.events.write_all(&line)?;
        if is_kept_at_once(event) {
            self.events.sync_data()?;
        }
        self.whole += line.len() as u64;
        self.before = self.before.map(|_| sum);
        Ok(())
    }

    fn fail(&mut self, source: std::io::Error) {
        // Earlier lines are whole, and stay readable without a damaged end.
        let _ = self.events.set_len(self.whole);
        self.failure = Some(ArchiveError::Io {
            doing: "record into",
            path: self.folder.join(EVENTS),
            source,
        });
    }
}

/// How often, and after what pause, a lock is looked at before it counts as that of another writer: who only
/// asks whether there is one holds it for an instant.
const LOOKS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// Marks events as being written, until the file is closed or the program ends.
#[expect(
    clippy::disallowed_methods,
    reason = "a lock of the kernel is waited for, which no clock of ours can hurry"
)]
fn claim(events: &File) -> std::io::Result<()> {
    for _ in 0..LOOKS {
        match events.try_lock() {
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(PAUSE);
            }
            // Without locks in the file system another writer cannot be detected; the run goes on without
            // that check.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(()),
        }
    }
    Err(std::io::Error::other("another program is writing it"))
}

/// Whether an event must outlive a power cut that follows it.
fn is_kept_at_once(event: &RunEvent) -> bool {
    matches!(
        event,
        RunEvent::TrialEnded(_)
            | RunEvent::Conditioned(_)
            | RunEvent::Designed(_)
            | RunEvent::BlocksEnded(_)
            | RunEvent::Finished { .. }
    )
}

/// The length of all lines that end within the first `most` bytes.
fn whole_lines(file: &mut File, most: u64) -> std::io::Result<u64> {
    const PIECE: u64 = 64 << 10;
    let mut end = file.seek(SeekFrom::End(0))?.min(most);
    while end > 0 {
        let from = end.saturating_sub(PIECE);
        let mut bytes = vec![0; usize::try_from(end - from).unwrap_or(0)];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut bytes)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

/// Checks that a run may be recorded in `folder`: it does not exist, or is an empty directory, or holds what
/// a program leaves that is killed before its run begins.
///
/// # Errors
/// When it holds something already or cannot be listed.
pub fn check_free(folder: &Path) -> Result<(), ArchiveError> {
    let is_kept = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let is_begun = is_early(&name.to_string_lossy(), MANIFEST) || name == EVENTS;
        // Of events nothing is written before the manifest is there.
        let is_empty = || {
            entry
                .metadata()
                .is_ok_and(|data| data.is_file() && data.len() == 0)
        };
        !(is_begun && (name != EVENTS || is_empty()))
    };
    match fs::read_dir(folder).map(|entries| entries.flatten().any(is_kept)) {
        Ok(true) => Err(ArchiveError::Occupied(folder.into())),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io_error("list", folder)(error))
        }
        _ => Ok(()),
    }
}

/// Removes manifests that an interrupted writer left unfinished.
fn remove_early(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_early(&entry.file_name().to_string_lossy(), MANIFEST) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Puts a rendered report into the run folder `folder` and returns its path.
///
/// # Errors
/// When it cannot be written.
pub fn write_report(folder: &Path, html: &str) -> Result<PathBuf, ArchiveError> {
    let path = folder.join(REPORT);
    write_result(&path, html).map_err(io_error("write", &path))?;
    Ok(path)
}

impl RunListener for RunFolderWriter {
    fn event(&mut self, event: &RunEvent) {
        if self.failure.is_none()
            && let Err(source) = self.append(event)
        {
            self.fail(source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::event::RunWarning;

    #[test]
    fn what_does_not_fit_is_a_failure_and_leaves_what_was_there() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(EVENTS);
        let warning = |text: &str| {
            RunEvent::Warning(RunWarning {
                about: "x".into(),
                text: text.into(),
            })
        };
        let open = OpenOptions::new().create_new(true).append(true).open(&path);
        let mut writer = RunFolderWriter {
            folder: place.path().into(),
            events: open.unwrap(),
            whole: 0,
            before: None,
            failure: None,
        };
        writer.event(&warning("first"));
        assert!(!writer.has_failed());
        let first = fs::read(&path).unwrap();
        // Half of a line, as a disk that is full leaves it.
        writer.events.write_all(b"{\"crc\"").unwrap();
        writer.fail(std::io::ErrorKind::StorageFull.into());
        writer.event(&warning("second"));
        assert_eq!(fs::read(&path).unwrap(), first);
        assert!(writer.has_failed());
        let told = writer.take_failure().unwrap().to_string();
        assert!(told.contains(EVENTS), "{told}");
    }
}
