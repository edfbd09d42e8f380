// SPDX-License-Identifier: Apache-2.0
//! The place of a run, held: an open directory, or a device that is recognized again.
//!
//! Names can be led elsewhere while a run works: a directory is renamed and another one put in its
//! place, a disk goes and another one comes under its name. So files are reached from the open
//! directory, never out of it and through no link; and a device is compared with the one that was
//! meant each time it is opened.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, major, minor};
use rustix::io::Errno;

use crate::error::EngineError;
use plimsoll_core::target::DeviceIdentity;

/// Mode of files and directories that are made: what a run writes is for its owner alone.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A directory or a device.
#[derive(Debug, Clone)]
pub struct TargetHandle {
    /// By what name it was found; files are called by paths below it.
    path: PathBuf,
    what: TargetHandleInner,
}

#[derive(Debug, Clone)]
enum TargetHandleInner {
    Directory(Arc<OwnedFd>),
    Device(DeviceIdentity),
}

impl TargetHandle {
    /// Holds a directory.
    pub fn directory(path: &Path) -> Result<TargetHandle, EngineError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = rustix::fs::open(path, flags, Mode::empty());
        let open = open.map_err(|e| EngineError::at("open the directory", path, e))?;
        Ok(TargetHandle {
            path: path.into(),
            what: TargetHandleInner::Directory(Arc::new(open)),
        })
    }

    /// Holds the directory that a file is in.
    pub fn directory_of(file: &Path) -> Result<TargetHandle, EngineError> {
        match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => Self::directory(parent),
            _ => Ok(TargetHandle {
                path: PathBuf::new(),
                ..Self::directory(Path::new("."))?
            }),
        }
    }

    /// Names the device that is meant.
    pub(crate) fn device(path: &Path, identity: &DeviceIdentity) -> TargetHandle {
        TargetHandle {
            path: path.into(),
            what: TargetHandleInner::Device(identity.clone()),
        }
    }

    /// The directory, and the name in it that a path below means.
    fn below<'a>(&self, path: &'a Path) -> io::Result<(&OwnedFd, &'a Path)> {
        let TargetHandleInner::Directory(open) = &self.what else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let outside = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let name = path.strip_prefix(&self.path).map_err(outside)?;
        match name.as_os_str().is_empty() {
            true => Ok((open, Path::new("."))),
            false => Ok((open, name)),
        }
    }

    /// Opens a file below the directory, or the device.
    pub fn open(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        match &self.what {
            TargetHandleInner::Device(identity) => open_device(identity, &self.path, flags),
            TargetHandleInner::Directory(_) => {
                let (open, name) = self.below(path)?;
                match open_beneath(open, name, flags) {
                    // A network file system that was mounted again: by its name it is there.
                    Err(Errno::STALE | Errno::NOTCONN) => {
                        let again = Self::directory(&self.path).map_err(io::Error::other)?;
                        let (open, name) = again.below(path)?;
                        Ok(open_beneath(open, name, flags)?.into())
                    }
                    other => Ok(other?.into()),
                }
            }
        }
    }

    /// A new, empty file, or one that is there emptied.
    pub(crate) fn create(&self, path: &Path) -> io::Result<File> {
        self.open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)
    }

    /// The status of the entry at `path`; a link is not followed.
    pub fn look(&self, path: &Path) -> io::Result<Stat> {
        let (open, name) = self.below(path)?;
        Ok(rustix::fs::statat(open, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Whether a file lies there; neither a link nor anything else.
    pub(crate) fn is_file(&self, path: &Path) -> bool {
        self.look(path)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
    }

    /// Makes a directory below.
    pub(crate) fn make_directory(&self, path: &Path) -> io::Result<()> {
        let (open, name) = self.below(path)?;
        let mode = Mode::from_raw_mode(DIRECTORY_MODE);
        Ok(rustix::fs::mkdirat(open, name, mode)?)
    }

    /// Removes a file; fine when it is not there.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.unlink(path, AtFlags::empty())
    }

    /// Removes an empty directory; fine when it is not there.
    pub(crate) fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.unlink(path, AtFlags::REMOVEDIR)
    }

    fn unlink(&self, path: &Path, flags: AtFlags) -> io::Result<()> {
        let (open, name) = self.below(path)?;
        match rustix::fs::unlinkat(open, name, flags) {
            Err(Errno::NOENT) => Ok(()),
            other => Ok(other?),
        }
    }

    /// The entries of a directory below, each with its type.
    pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<(OsString, FileType)>> {
        let directory = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let look = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(look.st_mode)
                }
                kind => kind,
            };
            found.push((name.to_owned(), kind));
        }
        Ok(found)
    }

    /// A second handle on the directory, for one thread.
    pub(crate) fn again(&self) -> io::Result<OwnedFd> {
        let (open, _) = self.below(&self.path)?;
        Ok(rustix::io::fcntl_dupfd_cloexec(open, 0)?)
    }

    /// Makes the names in the directory durable.
    pub fn sync_names(&self) -> Result<(), EngineError> {
        self.again()
            .and_then(|open| Ok(rustix::fs::fsync(&open)?))
            .map_err(|e| EngineError::at("make durable", &self.path, e))
    }

    /// Makes everything on its file system durable.
    pub(crate) fn sync_all(&self) -> Result<(), EngineError> {
        self.again()
            .and_then(|open| Ok(rustix::fs::syncfs(&open)?))
            .map_err(|e| EngineError::at("make durable", &self.path, e))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens a file by a path below a directory, through no link and never out of it.
pub(crate) fn open_beneath(
    directory: impl AsFd,
    path: impl rustix::path::Arg + Copy,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = match flags.contains(OFlags::CREATE) {
        true => Mode::from_raw_mode(FILE_MODE),
        false => Mode::empty(),
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(&directory, path, flags, mode, resolve) {
        // Kernels before 5.6, and sandboxes that do not know the call; what is below is ours anyway.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(&directory, path, flags, mode),
        other => other,
    }
}

/// Opens what a path leads to.
pub(crate) fn open_path(path: &Path, flags: OFlags) -> io::Result<File> {
    let open = rustix::fs::openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())?;
    Ok(open.into())
}

/// Which block device a path leads to now. Nothing of it is read.
///
/// # Errors
/// When it is no block device, or cannot be opened.
pub fn device_identity(path: &Path) -> Result<DeviceIdentity, EngineError> {
    let at = |error| EngineError::at("look at the device", path, error);
    let open = open_path(path, OFlags::RDONLY | OFlags::NONBLOCK).map_err(at)?;
    identity_of(&open).map_err(at)
}

fn identity_of(device: &File) -> io::Result<DeviceIdentity> {
    let found = rustix::fs::fstat(device.as_fd())?;
    if FileType::from_raw_mode(found.st_mode) != FileType::BlockDevice {
        return Err(io::Error::other("it is not a block device"));
    }
    let number = format!("{}:{}", major(found.st_rdev), minor(found.st_rdev));
    let system = format!("/sys/dev/block/{number}");
    // A partition is of the disk that has it.
    let sequence = ["diskseq", "../diskseq"].iter().find_map(|name| {
        let text = std::fs::read_to_string(format!("{system}/{name}")).ok()?;
        text.trim().parse().ok()
    });
    let mut device = device;
    let bytes = device.seek(SeekFrom::End(0))?;
    device.seek(SeekFrom::Start(0))?;
    Ok(DeviceIdentity {
        number,
        sequence,
        bytes,
    })
}

/// Opens what a path leads to, if it is still the device that is meant.
pub(crate) fn open_device(meant: &DeviceIdentity, path: &Path, flags: OFlags) -> io::Result<File> {
    let open = open_path(path, flags)?;
    let found = identity_of(&open)?;
    if found == *meant {
        return Ok(open);
    }
    Err(io::Error::other(format!(
        "it is another device now than the one that was looked at ({found} instead of {meant}); nothing \
         was written to it"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_put_in_place_of_a_directory_is_not_worked_in() {
        let base = tempfile::tempdir().unwrap();
        let (path, aside) = (base.path().join("arm"), base.path().join("aside"));
        let victim = base.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        fs::create_dir(&path).unwrap();
        let held = TargetHandle::directory(&path).unwrap();
        fs::rename(&path, &aside).unwrap();
        fs::create_dir(&path).unwrap();
        let file = path.join("plimsoll.data");
        symlink(&victim, &file).unwrap();
        held.create(&file).unwrap();
        assert!(held.is_file(&file) && aside.join("plimsoll.data").is_file());
        held.make_directory(&path.join("set")).unwrap();
        assert!(aside.join("set").is_dir() && !path.join("set").exists());
        assert_eq!(held.list(&path).unwrap().len(), 2);
        held.remove_file(&file).unwrap();
        assert!(file.is_symlink());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn nothing_is_reached_through_links_or_out_of_the_directory() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("arm");
        let victim = base.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        fs::create_dir(&path).unwrap();
        symlink(&victim, path.join("link")).unwrap();
        symlink("..", path.join("up")).unwrap();
        let held = TargetHandle::directory(&path).unwrap();
        for name in ["link", "up/victim", "../victim"] {
            assert!(held.create(&path.join(name)).is_err(), "{name}");
            assert!(!held.is_file(&path.join("link")));
        }
        assert!(held.create(&victim).is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }
}
