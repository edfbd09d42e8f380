// SPDX-License-Identifier: Apache-2.0
//! The one way a result is written to a file: under a new name, made durable, then renamed. So it is there
//! whole or not at all, and whatever had the name before is replaced: a link that another user put there is
//! never followed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Mode of results, whatever the umask (which can take more away): they are there to be shown.
const MODE: u32 = 0o644;

/// As many early names are tried: others are left over from programs that were killed.
const NAMES_MAX: u32 = 100;

/// A file that is being written. Dropped before its end it leaves nothing.
#[derive(Debug)]
pub struct ResultFile {
    path: PathBuf,
    /// Where it is until then; none where there is nothing to rename, as with a pipe.
    early: Option<PathBuf>,
    file: File,
}

impl ResultFile {
    /// Begins a file. Pipes and devices for text, such as `/dev/stdout`, are written to as they are.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path) -> io::Result<ResultFile> {
        let there = path.symlink_metadata().ok();
        // What the kernel or a shell put there is meant to be followed.
        let is_named = there.as_ref().is_some_and(fs::Metadata::is_symlink)
            && ["/dev", "/proc"].iter().any(|of| path.starts_with(of));
        let is_other = there
            .as_ref()
            .is_some_and(|there| !there.is_file() && !there.is_symlink() && !there.is_dir());
        if is_named || is_other {
            return Ok(ResultFile {
                path: path.into(),
                early: None,
                file: OpenOptions::new().write(true).open(path)?,
            });
        }
        // One that is there keeps who may read it.
        let kept = there.filter(fs::Metadata::is_file);
        let mode = kept.map_or(MODE, |there| there.mode() & 0o666);
        let name = path.file_name().ok_or(ErrorKind::IsADirectory)?;
        for number in 0..NAMES_MAX {
            let (name, process) = (name.to_string_lossy(), std::process::id());
            let early = path.with_file_name(format!(".{name}.{process}-{number}.tmp"));
            let mut options = OpenOptions::new();
            match options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&early)
            {
                Ok(file) => {
                    file.set_permissions(fs::Permissions::from_mode(mode & !umask()))?;
                    return Ok(ResultFile {
                        path: path.into(),
                        early: Some(early),
                        file,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Where it is while it is written, for those who open it themselves.
    #[must_use]
    pub fn early(&self) -> &Path {
        self.early.as_deref().unwrap_or(&self.path)
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// When it cannot be made durable or renamed.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if let Some(early) = &self.early {
            self.file.sync_all()?;
            fs::rename(early, &self.path)?;
            self.early = None;
        }
        Ok(())
    }
}

impl Write for ResultFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for ResultFile {
    fn drop(&mut self) {
        if let Some(early) = &self.early {
            let _ = fs::remove_file(early);
        }
    }
}

/// What the user's mask takes away, as the kernel reports it; else the usual one.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok())
        .unwrap_or(0o022)
}

/// Writes a whole result.
///
/// # Errors
/// As [`ResultFile::create`] and [`ResultFile::finish`], and when it cannot be written.
pub fn write_result(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = ResultFile::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_is_replaced_and_never_followed() {
        let place = tempfile::tempdir().unwrap();
        let (victim, path) = (place.path().join("victim"), place.path().join("report"));
        fs::write(&victim, "precious").unwrap();
        for target in [victim.as_path(), &place.path().join("nowhere")] {
            let _ = fs::remove_file(&path);
            symlink(target, &path).unwrap();
            write_result(&path, "text").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "text");
            assert!(!path.is_symlink());
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_not_finished_leaves_what_was_there() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("report");
        write_result(&path, "first").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut file = ResultFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        write_result(&path, "second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        assert!(write_result(place.path(), "x").is_err());
    }

    #[test]
    fn devices_for_text_are_written_to_as_they_are() {
        write_result(Path::new("/dev/null"), "text").unwrap();
        let kind = fs::symlink_metadata("/dev/null").unwrap();
        assert!(!kind.is_file());
    }
}
