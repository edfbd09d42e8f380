// SPDX-License-Identifier: Apache-2.0
//! The one way a result is written to a file: under a new name, made durable, then renamed. So it is there
//! whole or not at all, and whatever had the name before is replaced: a link that another user put there is
//! never followed.

use crate::layout::read_own;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Mode of results, whatever the umask: whom they are shown to, their owner decides.
pub(crate) const MODE: u32 = 0o600;
/// Mode of directories with results.
const DIRECTORY_MODE: u32 = 0o700;

/// As many early names are tried: others are left over from programs that were killed.
const NAMES_MAX: u32 = 100;

/// How early names end.
const EARLY_END: &str = ".tmp";

/// Whether a name is one that the result `of` has while it is written.
pub(crate) fn is_early(name: &str, of: &str) -> bool {
    let rest = name
        .strip_prefix('.')
        .and_then(|name| name.strip_prefix(of));
    rest.is_some_and(|rest| rest.starts_with('.') && rest.ends_with(EARLY_END))
}

/// A file that is being written. Dropped before its end it leaves nothing, and nothing either, where the
/// file system can do that, when the program is killed meanwhile.
#[derive(Debug)]
pub struct ResultFile {
    path: PathBuf,
    early: EarlyResultName,
    file: File,
}

/// The name of a result until it is whole.
#[derive(Debug)]
enum EarlyResultName {
    /// Nothing: it has no name yet.
    None,
    /// This, beside its own name.
    Beside(PathBuf),
    /// Its own name: there is nothing to rename, as with a pipe.
    Own,
}

impl ResultFile {
    /// Begins a file. Pipes and devices for text, such as `/dev/stdout`, are written to as they are.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path) -> io::Result<ResultFile> {
        let there = path.symlink_metadata().ok();
        // A link that the kernel or a shell put there is meant to be followed.
        let is_named = there.as_ref().is_some_and(fs::Metadata::is_symlink)
            && ["/dev", "/proc"].iter().any(|of| path.starts_with(of));
        let is_other = there
            .as_ref()
            .is_some_and(|there| !there.is_file() && !there.is_symlink() && !there.is_dir());
        let made = |early, file| ResultFile {
            path: path.into(),
            early,
            file,
        };
        if is_named || is_other {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(made(EarlyResultName::Own, file));
        }
        // One that is there keeps who may read it.
        let kept = there.filter(fs::Metadata::is_file);
        let kept = kept.map(|there| fs::Permissions::from_mode(there.mode() & 0o666));
        let (early, file) = match nameless(path) {
            Some(file) => (EarlyResultName::None, file),
            None => {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(MODE);
                let (name, file) = named_beside(path, |early| options.open(early))?;
                (EarlyResultName::Beside(name), file)
            }
        };
        if let Some(kept) = kept {
            file.set_permissions(kept)?;
        }
        Ok(made(early, file))
    }

    /// Makes durable what was written so far, so that nothing but a name is missing afterwards.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn settle(&mut self) -> io::Result<()> {
        self.file.flush()?;
        match self.early {
            EarlyResultName::Own => Ok(()),
            _ => self.file.sync_all(),
        }
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// When it cannot be made durable or renamed.
    pub fn finish(mut self) -> io::Result<()> {
        self.settle()?;
        if let EarlyResultName::None = self.early {
            // A name is only given to what has none: what is there already is replaced by renaming.
            let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let link = |early: &Path| linkat(CWD, &open, CWD, early, AtFlags::SYMLINK_FOLLOW);
            let (early, ()) = named_beside(&self.path, |early| Ok(link(early)?))?;
            self.early = EarlyResultName::Beside(early);
        }
        if let EarlyResultName::Beside(early) = &self.early {
            fs::rename(early, &self.path)?;
            self.early = EarlyResultName::Own;
        }
        Ok(())
    }
}

/// A file without a name in the directory of this path; none where the file system has no such files.
fn nameless(path: &Path) -> Option<File> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    path.file_name()?;
    // That is the way to its name.
    Path::new("/proc/self/fd").exists().then_some(())?;
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let made = rustix::fs::open(directory, flags, Mode::from_raw_mode(MODE));
    made.ok().map(File::from)
}

/// Makes something under the first free one of the early names of this path.
fn named_beside<T>(path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    let name = path.file_name().ok_or(ErrorKind::IsADirectory)?;
    let (name, process) = (name.to_string_lossy(), std::process::id());
    for number in 0..NAMES_MAX {
        let early = path.with_file_name(format!(".{name}.{process}-{number}{EARLY_END}"));
        match make(&early) {
            Ok(made) => return Ok((early, made)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
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
        if let EarlyResultName::Beside(early) = &self.early {
            let _ = fs::remove_file(early);
        }
    }
}

/// Makes a directory for results, and those that it is in, for their owner alone; fine when it is there.
///
/// # Errors
/// When it cannot be made.
pub fn make_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Reads a result that another user may have made: a regular file of text with at most `most` bytes.
///
/// # Errors
/// When it cannot be read, or is something else.
pub fn read_result(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = read_own(path)?.take(most + 1).read_to_string(&mut text)?;
    match read as u64 > most {
        true => Err(io::Error::other(format!("it has more than {most} bytes"))),
        false => Ok(text),
    }
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
    fn results_are_their_owners_and_stay_shown_to_whom_they_are_shown() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/b/report");
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        make_directory(path.parent().unwrap()).unwrap();
        write_result(&path, "first").unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(
            (
                mode(&place.path().join("a")),
                mode(&place.path().join("a/b"))
            ),
            (0o700, 0o700)
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        write_result(&path, "second").unwrap();
        assert_eq!(mode(&path), 0o664);
    }

    #[test]
    fn what_is_not_finished_leaves_what_was_there() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("report");
        write_result(&path, "first").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut file = ResultFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        if let EarlyResultName::None = file.early {
            // As a program that is killed now leaves it.
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        }
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        write_result(&path, "second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        assert!(write_result(place.path(), "x").is_err());
    }

    #[test]
    fn a_file_system_without_nameless_files_has_early_names_that_go() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("report");
        let begun = || {
            let (name, file) = named_beside(&path, |early| File::create_new(early)).unwrap();
            let early = EarlyResultName::Beside(name);
            let path = path.clone();
            ResultFile { path, early, file }
        };
        let (first, mut second) = (begun(), begun());
        second.write_all(b"text").unwrap();
        let names = fs::read_dir(place.path()).unwrap().flatten();
        let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        assert_eq!(names.len(), 2);
        let is_ours = |name: &std::ffi::OsString| is_early(&name.to_string_lossy(), "report");
        assert!(names.iter().all(is_ours), "{names:?}");
        second.finish().unwrap();
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn devices_for_text_are_written_to_as_they_are() {
        write_result(Path::new("/dev/null"), "text").unwrap();
        let kind = fs::symlink_metadata("/dev/null").unwrap();
        assert!(!kind.is_file());
    }
}
