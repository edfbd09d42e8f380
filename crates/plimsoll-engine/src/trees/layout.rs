// SPDX-License-Identifier: Apache-2.0
//! Lays out file sets: directories, then random contents, made durable before anything is measured.
//!
//! The files of a set are written in random order, as filebench does, or their places on the medium
//! would follow their numbers, by which they are picked. One sync of the file system at the end lets
//! it put many files into one transaction. Afterwards nothing of them is in the page cache, as far as the
//! system takes that advice; filebench neither syncs its files nor drops them from the cache.
//!
//! Creates files and directories below the given directory only, and never touches a file it did not
//! name.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::num::to_usize;
use plimsoll_core::rng::{Rng, Seed};
use rustix::fs::{Advice, Mode, OFlags};

use crate::engine::fill_random;
use crate::error::Error;
use crate::layout::{PIECE_BYTES, write_random};
use crate::target::open_directory;
use crate::trees::{Grove, Known};

/// Bytes between syncs: bounds the dirty memory, and thereby how long a stop takes.
const BYTES_PER_SYNC: u64 = 256 << 20;

/// Makes the directories and the existing files of `sets` in `directory`.
pub(crate) fn lay_out(
    directory: &Path,
    sets: &Known,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let root = open_directory(directory)?;
    for grove in sets.values() {
        make_directories(directory, grove)?;
        write_files(&root, directory, grove, seed, stop)?;
    }
    sync(&root, directory)?;
    for grove in sets.values() {
        drop_from_cache(&root, grove, stop)?;
    }
    Ok(())
}

fn make_directories(directory: &Path, grove: &Grove) -> Result<(), Error> {
    for below in grove.shape.directories() {
        let path = directory.join(format!("{}{below}", grove.name));
        std::fs::create_dir(&path).map_err(|e| {
            Error::at(
                "create a directory of the file set; is the target empty?",
                &path,
                e,
            )
        })?;
    }
    Ok(())
}

fn sync(root: &OwnedFd, directory: &Path) -> Result<(), Error> {
    rustix::fs::syncfs(root).map_err(|e| Error::at("make durable", directory, e))
}

pub(super) fn stopped(stop: &AtomicBool) -> Result<(), Error> {
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Stopped("lay out the file set".into()));
    }
    Ok(())
}

/// The existing files of a set in the order of their layout.
pub(super) fn order(grove: &Grove, seed: Seed) -> Vec<u32> {
    let mut order: Vec<u32> = existing(grove).collect();
    Rng::new(seed.derive("layout order", 0)).shuffle(&mut order);
    order
}

fn existing(grove: &Grove) -> impl Iterator<Item = u32> {
    (0..grove.slots.entries()).filter(|file| grove.slots.exists(*file))
}

fn write_files(
    root: &OwnedFd,
    directory: &Path,
    grove: &Grove,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let (mut name, mut piece, mut unsynced) = (String::new(), vec![0; PIECE_BYTES], 0);
    let mut rng = Rng::new(seed.derive("contents", 0));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    for file in order(grove, seed) {
        stopped(stop)?;
        name.clear();
        grove.push_path(file, &mut name);
        let path = || directory.join(&name);
        let made = rustix::fs::openat(root, name.as_str(), flags, Mode::from_raw_mode(0o666));
        let made = made.map_err(|e| {
            Error::at(
                "create a file of the set; is the directory empty?",
                &path(),
                e,
            )
        })?;
        let bytes = grove.slots.designated_bytes(file);
        let mut made = File::from(made);
        if bytes <= PIECE_BYTES as u64 {
            let contents = &mut piece[..to_usize(bytes)];
            fill_random(contents, &mut rng);
            std::io::Write::write_all(&mut made, contents)
                .map_err(|e| Error::at("write the contents of", &path(), e))?;
        } else {
            write_random(&mut made, &path(), bytes, &mut rng, stop)?;
        }
        unsynced += bytes;
        if unsynced >= BYTES_PER_SYNC {
            sync(root, directory)?;
            unsynced = 0;
        }
    }
    Ok(())
}

/// Clean pages of the layout must not serve the reads of the run. Advice only: where it is not
/// taken, a buffered workload begins with a warm cache.
fn drop_from_cache(root: &OwnedFd, grove: &Grove, stop: &AtomicBool) -> Result<(), Error> {
    let mut name = String::new();
    for file in existing(grove).filter(|file| grove.slots.size_bytes(*file) > 0) {
        stopped(stop)?;
        name.clear();
        grove.push_path(file, &mut name);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        if let Ok(open) = rustix::fs::openat(root, name.as_str(), flags, Mode::empty()) {
            let _ = rustix::fs::fadvise(&open, 0, None, Advice::DontNeed);
        }
    }
    Ok(())
}

/// The files of a set in the order in which its directories list them.
pub(crate) fn listing(directory: &Path, grove: &Grove) -> Result<Vec<u32>, Error> {
    let mut files = Vec::new();
    for below in grove.shape.directories() {
        let path = directory.join(format!("{}{below}", grove.name));
        let failed = |e| Error::at("list the directory", &path, e);
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Directories have names of digits too.
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                let name = entry.file_name();
                files.extend(name.to_str().and_then(|name| grove.number_of(name)));
            }
        }
    }
    Ok(files)
}

/// Removes every file and directory of `sets` that the layout or a run may have made; those that are
/// gone already are fine.
pub(crate) fn remove(directory: &Path, sets: &Known) -> Result<(), Error> {
    let root = open_directory(directory)?;
    let gone = |result: std::io::Result<()>, path: &Path| match result {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::at("remove", path, error)),
        _ => Ok(()),
    };
    let mut name = String::new();
    for grove in sets.values() {
        for file in 0..grove.slots.entries() {
            name.clear();
            grove.push_path(file, &mut name);
            let flags = rustix::fs::AtFlags::empty();
            let removed = rustix::fs::unlinkat(&root, name.as_str(), flags);
            gone(removed.map_err(Into::into), &directory.join(&name))?;
        }
        for below in grove.shape.directories().iter().rev() {
            let path = directory.join(format!("{}{below}", grove.name));
            gone(std::fs::remove_dir(&path), &path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::workload::files::{FileSet, Names, Sizes, Tree};
    use std::sync::Arc;

    fn grove(tree: Tree, names: Names) -> Grove {
        let set = FileSet {
            prealloc: 0.8,
            tree,
            names,
            ..FileSet::flat("set", 1_000, 2_000, Sizes::Gamma(1.5))
        };
        Grove::new(&set, Seed(1))
    }

    #[test]
    fn files_are_laid_out_in_another_order_for_every_seed() {
        let grove = grove(Tree::Flat, Names::Digits);
        let order = |seed| order(&grove, Seed(seed));
        assert!(!order(1).is_sorted());
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(1);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(existing(&grove)));
    }

    #[test]
    fn what_is_laid_out_is_listed_with_its_sizes_and_removed_without_a_trace() {
        let random = Tree::Random {
            width: 20.0,
            shape: 1.5,
        };
        for (tree, names) in [
            (Tree::Flat, Names::Digits),
            (Tree::Even(7), Names::NumberFirst),
            (random, Names::NumberLast),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let sets: Known = [("set".to_owned(), Arc::new(grove(tree, names)))].into();
            lay_out(directory.path(), &sets, Seed(1), &AtomicBool::new(false)).unwrap();
            let grove = &sets["set"];
            let mut listed = listing(directory.path(), grove).unwrap();
            listed.sort_unstable();
            assert!(listed.iter().copied().eq(existing(grove)), "{tree:?}");
            for file in listed {
                let mut path = String::new();
                grove.push_path(file, &mut path);
                let found = std::fs::metadata(directory.path().join(path))
                    .unwrap()
                    .len();
                assert_eq!(found, grove.slots.designated_bytes(file));
            }
            remove(directory.path(), &sets).unwrap();
            remove(directory.path(), &sets).unwrap();
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_stop_ends_the_layout() {
        let directory = tempfile::tempdir().unwrap();
        let sets: Known = [("set".to_owned(), Arc::new(grove(Tree::Flat, Names::Digits)))].into();
        let error = lay_out(directory.path(), &sets, Seed(1), &AtomicBool::new(true)).unwrap_err();
        assert!(
            error.to_string().ends_with("stopped by the user"),
            "{error}"
        );
    }
}
