// SPDX-License-Identifier: Apache-2.0
//! The files of a run folder, on both sides of a push: which there are, and their digests.

use crate::listing::hexadecimal;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// All that is below a folder but folders, links among it.
///
/// # Errors
/// When a folder cannot be read.
pub fn walk(folder: &Path, below: &str, found: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => walk(&entry.path(), &format!("{name}/"), found)?,
            false => found.push((name, entry.path())),
        }
    }
    Ok(())
}

/// A plain file, opened without waiting and without following a link.
///
/// # Errors
/// When it cannot be opened, or is something else.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let mut options = std::fs::OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no plain file")),
    }
}

/// The length and the digest of a plain file.
///
/// # Errors
/// When it cannot be read, or is something else.
pub fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut file = open(path)?;
    let (mut digest, mut bytes, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok((bytes, hexadecimal(&digest.finalize())));
        }
        digest.update(&piece[..read]);
        bytes += read as u64;
    }
}
