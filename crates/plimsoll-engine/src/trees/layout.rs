// SPDX-License-Identifier: Apache-2.0
//! Lays out file sets: directories, then random contents, made durable before anything is measured.
//!
//! The files of a set are written in random order, by as many threads as the load has, as filebench does, or
//! their places on the medium would follow their numbers, by which they are picked. One sync of the file
//! system at the end lets it put many files into one transaction. Afterwards nothing of them is in the page
//! cache, as far as the system takes that advice; filebench neither syncs its files nor drops them from the
//! cache.
//!
//! Creates files and directories below the given directory only, and never touches a file it did not
//! name.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use plimsoll_core::num::to_usize;
use plimsoll_core::rng::{Rng, Seed};
use rustix::fs::{Advice, FileType, OFlags};

use crate::engine::fill_random;
use crate::error::EngineError;
use crate::held::TargetHandle;
use crate::layout::{PIECE_BYTES, write_random};
use crate::trees::{FileSetState, FileSetsByName};

/// Bytes between syncs: bounds the dirty memory, and thereby how long a stop takes.
const BYTES_PER_SYNC: u64 = 256 << 20;

/// More threads than this gain nothing.
const THREADS_MAX: u32 = 16;

/// Makes the directories and the existing files of `sets` in a directory.
pub(crate) fn lay_out(
    held: &TargetHandle,
    sets: &FileSetsByName,
    (seed, threads): (Seed, u32),
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    for grove in sets.values() {
        make_directories(held, grove)?;
        write_files(held, grove, (seed, threads), stop)?;
    }
    held.sync_all()?;
    for grove in sets.values() {
        drop_from_cache(held, grove, stop)?;
    }
    Ok(())
}

/// The directories of a set.
fn directories(
    held: &TargetHandle,
    grove: &FileSetState,
) -> impl DoubleEndedIterator<Item = PathBuf> {
    let below = grove.shape.directories().iter();
    below.map(move |below| held.path().join(format!("{}{below}", grove.name)))
}

fn make_directories(held: &TargetHandle, grove: &FileSetState) -> Result<(), EngineError> {
    const VERB: &str = "create a directory of the file set; is the target empty?";
    for path in directories(held, grove) {
        let made = held.make_directory(&path);
        made.map_err(|e| EngineError::at(VERB, &path, e))?;
    }
    Ok(())
}

pub(crate) fn stopped(stop: &AtomicBool) -> Result<(), EngineError> {
    if stop.load(Ordering::Relaxed) {
        return Err(EngineError::Stopped("lay out the file set".into()));
    }
    Ok(())
}

/// The existing files of a set in the order of their layout.
pub(crate) fn order(grove: &FileSetState, seed: Seed) -> Vec<u32> {
    let mut order: Vec<u32> = existing(grove).collect();
    Rng::new(seed.derive("layout order", 0)).shuffle(&mut order);
    order
}

fn existing(grove: &FileSetState) -> impl Iterator<Item = u32> {
    (0..grove.slots.entries()).filter(|file| grove.slots.exists(*file))
}

/// Calls `work` for each of these files on `threads` threads. Each thread takes the next file in order and
/// has its own buffer. The first failure ends all threads.
fn by_threads(
    threads: u32,
    files: &[u32],
    work: impl Fn(u32, &mut Vec<u8>) -> Result<(), EngineError> + Sync,
) -> Result<(), EngineError> {
    let next = AtomicUsize::new(0);
    let has_failed = AtomicBool::new(false);
    let one = || {
        let mut buffer = Vec::new();
        while !has_failed.load(Ordering::Relaxed)
            && let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed))
        {
            work(*file, &mut buffer).inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    let threads = to_usize(threads.clamp(1, THREADS_MAX).into()).min(files.len().max(1));
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one)).collect();
        let own = one();
        let ended = others.into_iter().map(|other| {
            let lost = |_| {
                Err(EngineError::Workload(
                    "a thread of the layout was lost".into(),
                ))
            };
            other.join().unwrap_or_else(lost)
        });
        ended.fold(own, Result::and)
    })
}

fn write_files(
    held: &TargetHandle,
    grove: &FileSetState,
    (seed, threads): (Seed, u32),
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    let unsynced = AtomicU64::new(0);
    by_threads(threads, &order(grove, seed), |file, piece| {
        stopped(stop)?;
        let bytes = write_file(held, (grove, file), seed, piece, stop)?;
        let before = unsynced.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes >= BYTES_PER_SYNC {
            unsynced.store(0, Ordering::Relaxed);
            held.sync_all()?;
        }
        Ok(())
    })
}

/// The bytes of one file of a set.
fn write_file(
    held: &TargetHandle,
    (grove, file): (&FileSetState, u32),
    seed: Seed,
    piece: &mut Vec<u8>,
    stop: &AtomicBool,
) -> Result<u64, EngineError> {
    let mut name = String::new();
    grove.push_path(file, &mut name);
    let path = held.path().join(&name);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let verb = "create a file of the set; is the directory empty?";
    let made = held.open(&path, flags);
    let mut made = made.map_err(|e| EngineError::at(verb, &path, e))?;
    let bytes = grove.slots.designated_bytes(file);
    let mut rng = contents(seed, file);
    if bytes <= PIECE_BYTES as u64 {
        piece.resize(to_usize(bytes), 0);
        fill_random(piece, &mut rng);
        std::io::Write::write_all(&mut made, piece)
            .map_err(|e| EngineError::at("write the contents of", &path, e))?;
    } else {
        write_random(&mut made, &path, bytes, &mut rng, stop)?;
    }
    Ok(bytes)
}

/// The random numbers that the contents of a file are drawn from: the same for every writer.
pub(crate) fn contents(seed: Seed, file: u32) -> Rng {
    Rng::new(seed.derive("contents", file.into()))
}

/// Clean pages of the layout must not serve the reads of the run. Advice only: where it is not
/// taken, a buffered workload begins with a warm cache.
fn drop_from_cache(
    held: &TargetHandle,
    grove: &FileSetState,
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    let mut name = String::new();
    for file in existing(grove).filter(|file| grove.slots.size_bytes(*file) > 0) {
        stopped(stop)?;
        name.clear();
        grove.push_path(file, &mut name);
        if let Ok(open) = held.open(&held.path().join(&name), OFlags::RDONLY) {
            let _ = rustix::fs::fadvise(&open, 0, None, Advice::DontNeed);
        }
    }
    Ok(())
}

/// The files of a set in the order in which its directories list them.
pub(crate) fn listing(held: &TargetHandle, grove: &FileSetState) -> Result<Vec<u32>, EngineError> {
    let mut files = Vec::new();
    for path in directories(held, grove) {
        let listed = held.list(&path);
        for (name, kind) in listed.map_err(|e| EngineError::at("list the directory", &path, e))? {
            // Directories have names of digits too.
            if kind == FileType::RegularFile {
                files.extend(name.to_str().and_then(|name| grove.number_of(name)));
            }
        }
    }
    Ok(files)
}

/// Removes every file and directory of `sets` that the layout or a run may have made; those that are
/// gone already are fine.
pub(crate) fn remove(
    held: &TargetHandle,
    sets: &FileSetsByName,
    threads: u32,
) -> Result<(), EngineError> {
    for grove in sets.values() {
        let files: Vec<u32> = (0..grove.slots.entries()).collect();
        by_threads(threads, &files, |file, _| {
            let mut name = String::new();
            grove.push_path(file, &mut name);
            let path = held.path().join(&name);
            let removed = held.remove_file(&path);
            removed.map_err(|e| EngineError::at("remove", &path, e))
        })?;
        for path in directories(held, grove).rev() {
            let removed = held.remove_directory(&path);
            removed.map_err(|e| EngineError::at("remove", &path, e))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::workload::files::{
        FileNameScheme, FileSet, FileSizeDistribution, FileTreeLayout,
    };
    use std::sync::Arc;

    fn grove(tree: FileTreeLayout, names: FileNameScheme) -> FileSetState {
        let set = FileSet {
            prealloc: 0.8,
            tree,
            names,
            ..FileSet::flat("set", 1_000, 2_000, FileSizeDistribution::Gamma(1.5))
        };
        FileSetState::new(&set, Seed(1))
    }

    #[test]
    fn files_are_laid_out_in_another_order_for_every_seed() {
        let grove = grove(FileTreeLayout::Flat, FileNameScheme::Digits);
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
        let random = FileTreeLayout::Random {
            width: 20.0,
            shape: 1.5,
        };
        for (tree, names) in [
            (FileTreeLayout::Flat, FileNameScheme::Digits),
            (FileTreeLayout::Even(7), FileNameScheme::NumberFirst),
            (random, FileNameScheme::NumberLast),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let held = TargetHandle::directory(directory.path()).unwrap();
            let sets: FileSetsByName = [("set".to_owned(), Arc::new(grove(tree, names)))].into();
            lay_out(&held, &sets, (Seed(1), 3), &AtomicBool::new(false)).unwrap();
            let grove = &sets["set"];
            let mut listed = listing(&held, grove).unwrap();
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
            remove(&held, &sets, 3).unwrap();
            remove(&held, &sets, 3).unwrap();
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_stop_ends_the_layout() {
        let directory = tempfile::tempdir().unwrap();
        let held = TargetHandle::directory(directory.path()).unwrap();
        let sets: FileSetsByName = [(
            "set".to_owned(),
            Arc::new(grove(FileTreeLayout::Flat, FileNameScheme::Digits)),
        )]
        .into();
        let error = lay_out(&held, &sets, (Seed(1), 3), &AtomicBool::new(true)).unwrap_err();
        assert!(
            error.to_string().ends_with("stopped by the user"),
            "{error}"
        );
    }
}
