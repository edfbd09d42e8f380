// SPDX-License-Identifier: Apache-2.0
//! What `web/dist` was built from, in one number: written beside it, compared by a test and by the build
//! script of the crate that embeds it, which includes this file: so it uses the standard library alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a difference says, wherever it is found.
pub(crate) const STALE: &str = "web/dist is older than web/src: run cargo xtask web";
/// Where the number is kept.
pub(crate) const STAMP: &str = "web/dist/stamp.txt";
/// Everything that decides what is built: folders and files.
pub(crate) const SOURCES: [&str; 6] = [
    "web/src",
    "web/public",
    "web/package.json",
    "web/package-lock.json",
    "web/tsconfig.json",
    "web/vite.config.ts",
];

/// Whether the stamp differs from the sources.
pub(crate) fn is_stale(root: &Path) -> io::Result<bool> {
    let written = fs::read_to_string(root.join(STAMP))?;
    Ok(written.trim() != of(root)?)
}

/// The stamp of the sources as they are: names and bytes, in the order of names.
pub(crate) fn of(root: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(&root.join(source), &mut files)?;
    }
    files.sort();
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file);
        let bytes = fs::read(&file)?;
        hash.add(name.to_string_lossy().as_bytes());
        hash.add(&(bytes.len() as u64).to_le_bytes());
        hash.add(&bytes);
    }
    Ok(format!("{:016x}", hash.0))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_file() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    if !path.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}

/// FNV-1a: it has to notice a change, not to withstand somebody who wants to hide one.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
