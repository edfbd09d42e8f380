// SPDX-License-Identifier: Apache-2.0
//! Two commands for workloads that are programs, hidden because only those call them: one makes
//! the files that are copied, one drops files from the page cache.

use crate::failure::{Code, Failure, Outcome};
use plimsoll_classics::copy::{File, Shape, files};
use plimsoll_core::rng::{Rng, Seed};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes written or read at a time.
const PIECE: usize = 1 << 20;

/// Make a tree of files from a seed; files that are there already are read instead, so that the
/// page cache holds them as well.
#[derive(Debug, clap::Args)]
pub(super) struct MakeArgs {
    directory: PathBuf,
    /// `large` or `tree`.
    shape: String,
    bytes: u64,
    seed: u64,
}

/// Write files back and drop them from the page cache.
#[derive(Debug, clap::Args)]
pub(super) struct ForgetArgs {
    directory: PathBuf,
}

pub(super) fn make(args: &MakeArgs) -> Outcome {
    let shape = Shape::of(&args.shape)
        .ok_or_else(|| Failure::usage(format!("make a tree of shape '{}'", args.shape)))?;
    for file in files(shape, args.bytes, Seed(args.seed)) {
        let path = args.directory.join(&file.path);
        place(&path, &file).map_err(|error| {
            Failure::new(Code::Failed, format!("make {}: {error}", path.display()))
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn place(path: &Path, file: &File) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE];
    if fs::metadata(path).is_ok_and(|facts| facts.len() == file.bytes) {
        let mut old = fs::File::open(path)?;
        while old.read(&mut piece)? > 0 {}
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut rng = Rng::new(file.seed);
    let mut new = fs::File::create(path)?;
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

pub(super) fn forget(args: &ForgetArgs) -> Outcome {
    drop_below(&args.directory).map_err(|error| {
        let what = format!(
            "drop {} from the page cache: {error}",
            args.directory.display()
        );
        Failure::new(Code::Failed, what)
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
            let args = MakeArgs {
                directory: place.path().join(name),
                shape: "tree".into(),
                bytes: 300_000,
                seed: 4,
            };
            make(&args).unwrap();
            let list = files(Shape::Tree, 300_000, Seed(4)).into_iter();
            list.map(|file| fs::read(args.directory.join(file.path)).unwrap())
                .collect::<Vec<_>>()
        };
        let first = read("a");
        assert_eq!(first.iter().map(Vec::len).sum::<usize>(), 300_000);
        assert_eq!(read("a"), first);
        assert_eq!(read("b"), first);
        forget(&ForgetArgs {
            directory: place.path().join("a"),
        })
        .unwrap();
        let gone = ForgetArgs {
            directory: place.path().join("c"),
        };
        assert!(forget(&gone).is_err());
    }
}
