// SPDX-License-Identifier: Apache-2.0
//! The one way directories are removed with all that is in them.
//!
//! Everything is reached from directories that are held open: no link is followed, whatever is renamed
//! meanwhile. No mount is crossed, so that a foreign file system that is mounted below is not emptied. The
//! caller has made sure that the directory is ours.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, unlinkat};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::HostError;
use super::{mounts, places};

/// How often a directory is gone through: once more for what appears there meanwhile, not for ever.
const PASSES: usize = 16;

/// Removes the directory `name` in `parent`, which is the one that is open as `inside`, with all that is in
/// it. What is called `last` in it goes last.
pub(super) fn tree(
    parent: &OwnedFd,
    name: &OsStr,
    inside: &OwnedFd,
    last: Option<&str>,
) -> Result<(), Errno> {
    empty(inside, last)?;
    if let Some(last) = last {
        absent_is_fine(unlinkat(inside, last, AtFlags::empty()))?;
    }
    // Another one that was put there meanwhile is not ours.
    if !is_same(parent, name, inside)? {
        return Ok(());
    }
    absent_is_fine(unlinkat(parent, name, AtFlags::REMOVEDIR))
}

/// Whether `name` in `parent` is what is open as `inside`.
pub(super) fn is_same(parent: &OwnedFd, name: &OsStr, inside: &OwnedFd) -> Result<bool, Errno> {
    let there = match places::look(parent, name) {
        Err(Errno::NOENT) => return Ok(false),
        other => other?,
    };
    let ours = rustix::fs::fstat(inside)?;
    Ok((there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino))
}

/// Removes all that is in a directory but what is called `last`.
fn empty(directory: &OwnedFd, last: Option<&str>) -> Result<(), Errno> {
    for _ in 0..PASSES {
        let mut found = false;
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_last = last.is_some_and(|last| last.as_bytes() == name.to_bytes());
            if is_last || matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            found = true;
            remove_entry(directory, name, entry.file_type())?;
        }
        if !found {
            return Ok(());
        }
    }
    Err(Errno::NOTEMPTY)
}

fn remove_entry(directory: &OwnedFd, name: &CStr, kind: FileType) -> Result<(), Errno> {
    let is_directory = match kind {
        // Some file systems do not say.
        FileType::Unknown => places::look(directory, name)
            .is_ok_and(|found| places::kind(&found) == FileType::Directory),
        kind => kind == FileType::Directory,
    };
    if !is_directory {
        return absent_is_fine(unlinkat(directory, name, AtFlags::empty()));
    }
    let below = match open_below(directory, name) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    empty(&below, None)?;
    absent_is_fine(unlinkat(directory, name, AtFlags::REMOVEDIR))
}

/// Opens a directory in another one, unless it is a link or something is mounted there.
fn open_below(directory: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve) {
        // Kernels before 5.6, and sandboxes that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {}
        other => return other,
    }
    let below = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    if rustix::fs::fstat(&below)?.st_dev != rustix::fs::fstat(directory)?.st_dev {
        return Err(Errno::XDEV);
    }
    Ok(below)
}

fn absent_is_fine(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// The directory that a path lies in, held, and its name there.
pub(super) fn parent_of(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let no_name = || io::Error::from(io::ErrorKind::InvalidInput);
    let name = path.file_name().ok_or_else(no_name)?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((rustix::fs::open(parent, flags, Mode::empty())?, name))
}

/// Refuses a directory below which something is mounted, with its name: the removal itself would stop
/// there, when all before it is gone.
pub(super) fn check_no_mounts(dir: &Path) -> Result<(), HostError> {
    // The kernel's table has real paths.
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    let below = mounts::below(&real).map_err(HostError::io("read the mounts below", dir))?;
    match below.first() {
        None => Ok(()),
        Some(mount) => Err(HostError::Refused {
            what: format!("remove {}", dir.display()),
            why: format!(
                "{} is still mounted at {}; unmount it, then try again",
                mount.source,
                mount.point.display()
            ),
        }),
    }
}

/// Removes a directory that lies in one that is ours alone, with all that is in it.
pub fn below_ours(path: &Path) -> io::Result<()> {
    let above = path.parent().unwrap_or(Path::new("/"));
    let Some(parent) = places::hold(above)? else {
        return Ok(());
    };
    let name = path.file_name().unwrap_or_default();
    let inside = places::open_directory(&parent, name)?;
    check_no_mounts(path).map_err(io::Error::other)?;
    Ok(tree(&parent, name, &inside, None)?)
}

/// A directory that this process made, held open: it alone is removed, whatever has its name then.
#[derive(Debug)]
pub struct MadeDir {
    path: PathBuf,
    parent: OwnedFd,
    name: CString,
    inside: OwnedFd,
}

impl MadeDir {
    /// Makes it where nothing may be, for its owner alone.
    ///
    /// # Errors
    /// When it exists, or cannot be made.
    pub fn make(path: &Path) -> io::Result<MadeDir> {
        let (parent, name) = parent_of(path)?;
        rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o700))?;
        let inside = places::open_directory(&parent, name)?;
        Ok(MadeDir {
            path: path.into(),
            name: CString::new(name.as_bytes())?,
            parent,
            inside,
        })
    }

    /// Where it was made.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with all that is in it; fine when it is gone.
    ///
    /// # Errors
    /// When something is mounted in it, or cannot be removed.
    pub fn remove(&self) -> Result<(), HostError> {
        let name = OsStr::from_bytes(self.name.to_bytes());
        let failed = HostError::sys("remove", &self.path);
        match is_same(&self.parent, name, &self.inside) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(errno) => return Err(failed(errno)),
        }
        check_no_mounts(&self.path)?;
        tree(&self.parent, name, &self.inside, None).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_links_lead_to_stays_and_all_else_goes() {
        let base = tempfile::tempdir().unwrap();
        let precious = base.path().join("precious");
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("file"), "x").unwrap();
        let made = MadeDir::make(&base.path().join("made")).unwrap();
        assert!(MadeDir::make(made.path()).is_err());
        fs::create_dir_all(made.path().join("deep/deeper")).unwrap();
        fs::write(made.path().join("deep/deeper/file"), "x").unwrap();
        symlink(&precious, made.path().join("deep/link")).unwrap();
        symlink(precious.join("file"), made.path().join("link")).unwrap();
        made.remove().unwrap();
        made.remove().unwrap();
        assert!(!made.path().exists() && precious.join("file").exists());
    }

    /// Mounts one directory over another until it is dropped; `None` where that is not allowed.
    struct Bound(std::path::PathBuf);

    fn host() -> crate::host::LocalHost {
        crate::host::LocalHost::new(crate::host::SearchPath::new("".as_ref()))
    }

    impl Bound {
        fn new(from: &Path, to: &Path) -> Option<Bound> {
            let words = ["--bind", from.to_str()?, to.to_str()?];
            let minute = std::time::Duration::from_secs(60);
            host().output("mount", &words, minute).ok()?;
            Some(Bound(to.into()))
        }
    }

    impl Drop for Bound {
        fn drop(&mut self) {
            let minute = std::time::Duration::from_secs(60);
            let _ = host().output("umount", &[self.0.to_str().unwrap()], minute);
        }
    }

    #[test]
    fn what_is_mounted_below_is_not_emptied() {
        let base = tempfile::tempdir().unwrap();
        let precious = base.path().join("precious");
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("file"), "x").unwrap();
        let made = MadeDir::make(&base.path().join("made")).unwrap();
        let point = made.path().join("deep/mnt");
        fs::create_dir_all(&point).unwrap();
        let Some(bound) = Bound::new(&precious, &point) else {
            println!("SKIPPED: nothing can be mounted here");
            return;
        };
        let error = made.remove().unwrap_err().to_string();
        assert!(error.contains("mounted"), "{error}");
        // Also when the look at the table of mounts misses it.
        let name = made.path().file_name().unwrap();
        let (parent, _) = parent_of(made.path()).unwrap();
        let inside = places::open_directory(&parent, name).unwrap();
        assert_eq!(tree(&parent, name, &inside, None), Err(Errno::XDEV));
        assert!(precious.join("file").exists());
        drop(bound);
        made.remove().unwrap();
        assert!(!made.path().exists() && precious.join("file").exists());
    }

    #[test]
    fn another_one_of_the_same_name_stays() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("made");
        let made = MadeDir::make(&path).unwrap();
        for theirs in [true, false] {
            let aside = base.path().join(format!("aside-{theirs}"));
            fs::rename(&path, &aside).unwrap();
            if theirs {
                fs::create_dir(&path).unwrap();
                fs::write(path.join("file"), "theirs").unwrap();
            } else {
                symlink(&aside, &path).unwrap();
            }
            made.remove().unwrap();
            assert!(path.exists() && aside.exists());
        }
    }
}
