// SPDX-License-Identifier: Apache-2.0
//! Two commands for workloads that are programs, hidden because only those call them: one makes
//! the files that are copied, one drops files from the page cache.

use crate::failure::{CliError, CliExitCode, CliResult};
use plimsoll_classics::copy::{CopyFile, CopySourceKind, files};
use plimsoll_core::rng::{Rng, Seed};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes written or read at a time.
const PIECE: usize = 1 << 20;

/// Make a tree of files from a seed; files that are there already are read instead, so that the
/// page cache holds them as well.
#[derive(Debug, clap::Args)]
pub(super) struct TreeMakeArgs {
    directory: PathBuf,
    /// `large` or `tree`.
    shape: String,
    bytes: u64,
    seed: u64,
}

/// Write files back and drop them from the page cache.
#[derive(Debug, clap::Args)]
pub(super) struct TreeForgetArgs {
    directory: PathBuf,
}

pub(super) fn make(args: &TreeMakeArgs) -> CliResult {
    let shape = CopySourceKind::of(&args.shape)
        .ok_or_else(|| CliError::usage(format!("make a tree of shape '{}'", args.shape)))?;
    let failed = |path: &Path| {
        let what = format!("make {}", path.display());
        move |error| CliError::new(CliExitCode::Failed, format!("{what}: {error}"))
    };
    let root = hold(&args.directory).map_err(failed(&args.directory))?;
    for file in files(shape, args.bytes, Seed(args.seed)) {
        place(&root, &file).map_err(failed(&args.directory.join(&file.path)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the directory, made if it is missing. What it lies in is there: made here, it would have no mark.
fn hold(directory: &Path) -> io::Result<OwnedFd> {
    let name = directory.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = directory.parent().unwrap_or(Path::new(""));
    let parent = rustix::fs::open(
        if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        },
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    below(&parent, name)
}

/// Opens a directory in another one, made if it is missing; no link.
fn below(at: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
}

/// Makes or reads a file below the directory, through no link.
fn place(root: &OwnedFd, file: &CopyFile) -> io::Result<()> {
    let path = Path::new(&file.path);
    let mut directory = root.try_clone()?;
    for name in path.parent().into_iter().flat_map(Path::iter) {
        directory = below(&directory, name)?;
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut piece = vec![0; PIECE];
    let there = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if let Ok(old) = rustix::fs::openat(&directory, name, there, Mode::empty()) {
        let mut old = fs::File::from(old);
        let facts = old.metadata()?;
        if facts.is_file() && facts.len() == file.bytes {
            while old.read(&mut piece)? > 0 {}
            return Ok(());
        }
    }
    match rustix::fs::unlinkat(&directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut new = fs::File::from(rustix::fs::openat(
        &directory,
        name,
        new,
        Mode::from_raw_mode(0o666),
    )?);
    let mut rng = Rng::new(file.seed);
    let mut left = file.bytes;
    while left > 0 {
        let length = plimsoll_core::num::to_usize(left.min(PIECE as u64));
        for word in piece[..length].chunks_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
        }
        new.write_all(&piece[..length])?;
        left -= length as u64;
    }
    new.sync_all()
}

pub(super) fn forget(args: &TreeForgetArgs) -> CliResult {
    drop_below(&args.directory).map_err(|error| {
        let what = format!(
            "drop {} from the page cache: {error}",
            args.directory.display()
        );
        CliError::new(CliExitCode::Failed, what)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn drop_below(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            drop_below(&entry.path())?;
        } else if kind.is_file() {
            let file = fs::File::open(entry.path())?;
            // Pages that are not written back stay.
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_made_once_and_the_same_every_time() {
        let place = tempfile::tempdir().unwrap();
        let read = |name: &str| {
            let args = TreeMakeArgs {
                directory: place.path().join(name),
                shape: "tree".into(),
                bytes: 300_000,
                seed: 4,
            };
            make(&args).unwrap();
            let list = files(CopySourceKind::Tree, 300_000, Seed(4)).into_iter();
            list.map(|file| fs::read(args.directory.join(file.path)).unwrap())
                .collect::<Vec<_>>()
        };
        let first = read("a");
        assert_eq!(first.iter().map(Vec::len).sum::<usize>(), 300_000);
        assert_eq!(read("a"), first);
        assert_eq!(read("b"), first);
        forget(&TreeForgetArgs {
            directory: place.path().join("a"),
        })
        .unwrap();
        let gone = TreeForgetArgs {
            directory: place.path().join("c"),
        };
        assert!(forget(&gone).is_err());
    }

    #[test]
    fn links_are_not_followed_and_nothing_is_made_above() {
        let place = tempfile::tempdir().unwrap();
        let victim = place.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let args = |name: &str| TreeMakeArgs {
            directory: place.path().join(name),
            shape: "tree".into(),
            bytes: 300_000,
            seed: 4,
        };
        make(&args("a")).unwrap();
        let first = files(CopySourceKind::Tree, 300_000, Seed(4))
            .into_iter()
            .next()
            .unwrap();
        let path = args("a").directory.join(&first.path);
        let whole = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        make(&args("a")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
        assert!(!path.is_symlink());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        let elsewhere = place.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, place.path().join("b")).unwrap();
        assert!(make(&args("b")).is_err());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        // The directory of a run that another process removed is not made again.
        assert!(make(&args("gone/tree")).is_err());
        assert!(!place.path().join("gone").exists());
    }
}
