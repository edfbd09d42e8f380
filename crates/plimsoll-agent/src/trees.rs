// SPDX-License-Identifier: Apache-2.0
//! Helpers of workloads that are programs: one makes the files that are copied, one drops files from
//! the page cache.

use plimsoll_classics::copy::{CopyFile, CopySourceKind, files};
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_core::rng::{Rng, Seed};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Bytes written or read at a time.
const PIECE: usize = 1 << 20;

/// The helper that these arguments of a program ask for, done; nothing where they ask for none.
pub fn helper(words: &[&str]) -> Option<Result<(), CliError>> {
    match words {
        ["__make-tree", directory, shape, bytes, seed] => {
            let number = |text: &str| {
                text.parse().map_err(|_| {
                    CliError::invalid(format!("invalid value '{text}': expected an integer"))
                })
            };
            let numbers = number(bytes).and_then(|bytes| Ok((bytes, number(seed)?)));
            Some(numbers.and_then(|(bytes, seed)| make(Path::new(directory), shape, bytes, seed)))
        }
        ["__forget", directory] => Some(forget(Path::new(directory))),
        _ => None,
    }
}

/// Makes a tree of files from a seed. Files that are there already are read instead, so that the page
/// cache holds them as well. `shape` is `large` or `tree`.
///
/// # Errors
/// When `shape` is neither, or a file cannot be made.
fn make(directory: &Path, shape: &str, bytes: u64, seed: u64) -> Result<(), CliError> {
    let shape = CopySourceKind::of(shape)
        .ok_or_else(|| CliError::usage(format!("make a tree of shape '{shape}'")))?;
    let failed = |path: &Path| {
        let what = format!("make {}", path.display());
        move |error| CliError::new(CliExitCode::Failed, format!("{what}: {error}"))
    };
    let root = hold(directory).map_err(failed(directory))?;
    for file in files(shape, bytes, Seed(seed)) {
        place(&root, &file).map_err(failed(&directory.join(&file.path)))?;
    }
    Ok(())
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

/// Writes the files below a directory back and drops them from the page cache.
///
/// # Errors
/// When one of them cannot be read.
fn forget(directory: &Path) -> Result<(), CliError> {
    drop_below(directory).map_err(|error| {
        let what = format!("drop {} from the page cache: {error}", directory.display());
        CliError::new(CliExitCode::Failed, what)
    })
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
            let directory = place.path().join(name);
            make(&directory, "tree", 300_000, 4).unwrap();
            let list = files(CopySourceKind::Tree, 300_000, Seed(4)).into_iter();
            list.map(|file| fs::read(directory.join(file.path)).unwrap())
                .collect::<Vec<_>>()
        };
        let first = read("a");
        assert_eq!(first.iter().map(Vec::len).sum::<usize>(), 300_000);
        assert_eq!(read("a"), first);
        assert_eq!(read("b"), first);
        forget(&place.path().join("a")).unwrap();
        assert!(forget(&place.path().join("c")).is_err());
    }

    #[test]
    fn links_are_not_followed_and_nothing_is_made_above() {
        let place = tempfile::tempdir().unwrap();
        let victim = place.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let make_tree = |name: &str| make(&place.path().join(name), "tree", 300_000, 4);
        make_tree("a").unwrap();
        let first = files(CopySourceKind::Tree, 300_000, Seed(4))
            .into_iter()
            .next()
            .unwrap();
        let path = place.path().join("a").join(&first.path);
        let whole = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        make_tree("a").unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
        assert!(!path.is_symlink());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        let elsewhere = place.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, place.path().join("b")).unwrap();
        assert!(make_tree("b").is_err());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        // The directory of a run is not made again after its removal.
        assert!(make_tree("gone/tree").is_err());
        assert!(!place.path().join("gone").exists());
    }
}
