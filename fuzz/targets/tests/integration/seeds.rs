// SPDX-License-Identifier: Apache-2.0
//! Contents of `fuzz/`: seeds and programs.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn fuzz() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap().to_owned()
}

/// The seeds of a target with their names, always in the same order.
pub(crate) fn of(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = fuzz().join("seeds").join(target);
    let read = |name: String| (name.clone(), fs::read(folder.join(name)).unwrap());
    names(&folder).into_iter().map(read).collect()
}

pub(crate) fn folders() -> Vec<String> {
    names(&fuzz().join("seeds"))
}

pub(crate) fn programs() -> Vec<String> {
    let names = names(&fuzz().join("fuzz_targets"));
    let stem = |name: String| name.trim_end_matches(".rs").to_owned();
    names.into_iter().map(stem).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}
