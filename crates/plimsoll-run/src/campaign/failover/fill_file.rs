// SPDX-License-Identifier: Apache-2.0
//! A file that fills the file system of a stack to a share of it, and goes when it is no longer needed.

use plimsoll_core::num::{round_u64, to_usize};
use plimsoll_core::units;
use rustix::fs::{FallocateFlags, StatVfs, fallocate, fstatvfs, syncfs};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Its name, in the directory that is measured.
const FILL_FILE: &str = "plimsoll.fill";

/// File that keeps room for the files of the workload meanwhile.
const RESERVE_FILE: &str = "plimsoll.reserve";

/// How far from the share it may be.
const TOLERANCE: f64 = 0.01;

/// Smallest piece that is tried where larger ones do not fit.
const PIECE_MIN: u64 = 1 << 20;

/// How often its size is corrected: a file system may use more or less than it is asked for.
const CORRECTIONS: usize = 12;

/// The file.
#[derive(Debug)]
pub(super) struct FillFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Drop for FillFile {
    fn drop(&mut self) {
        // A file that stays is removed with the stack.
        let _ = fs::remove_file(&self.path);
    }
}

impl FillFile {
    /// Fills the file system of a directory to a share of it, with what is going to be written there.
    pub(super) fn fill(dir: &Path, share: f64, data_bytes: u64) -> io::Result<FillFile> {
        let filled = FillFile::create(dir, FILL_FILE)?;
        // Allocated and given back: what a file system calls free is not always there for a file.
        let mut reserve = FillFile::create(dir, RESERVE_FILE)?;
        let coming = data_bytes.saturating_sub(allocated(dir)?);
        if reserve.grow(coming)? < coming {
            return Err(no_room(data_bytes));
        }
        filled.grow_to(share, data_bytes)
    }

    /// A new file; one of a run that was killed goes.
    fn create(dir: &Path, name: &str) -> io::Result<FillFile> {
        let path = dir.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = File::create_new(&path)?;
        Ok(FillFile {
            path,
            file,
            length: 0,
        })
    }

    /// Allocates until `share` of the file system is used, or no more space can be allocated.
    fn grow_to(mut self, share: f64, data_bytes: u64) -> io::Result<FillFile> {
        for _ in 0..CORRECTIONS {
            // Before that some file systems have not counted what was allocated.
            syncfs(&self.file)?;
            let room = FileSystemRoom::of(&fstatvfs(&self.file)?);
            let lacking = room.bytes * share - room.used;
            if lacking.abs() <= TOLERANCE * room.bytes {
                return Ok(self);
            }
            if lacking < 0.0 {
                if self.length == 0 {
                    return Err(no_room(data_bytes));
                }
                self.length = round_u64((self.length as f64 + lacking).max(0.0));
                self.file.set_len(self.length)?;
            } else if self.grow(round_u64(lacking))? == 0 {
                return Ok(self);
            }
        }
        let room = FileSystemRoom::of(&fstatvfs(&self.file)?);
        Err(io::Error::other(format!(
            "with a file of {} it reports {} of {} as used",
            units::size(self.length as f64),
            units::size(room.used),
            units::size(room.bytes)
        )))
    }

    /// Allocates `bytes` more bytes, or as many as the file system has; gives the number allocated.
    fn grow(&mut self, bytes: u64) -> io::Result<u64> {
        let (mut left, mut piece) = (bytes, bytes);
        while left > 0 {
            match allocate(&self.file, self.length, piece.min(left)) {
                Ok(()) => {
                    self.length += piece.min(left);
                    left -= piece.min(left);
                }
                // It may not have it in one piece.
                Err(error) if error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => {
                    piece /= 2;
                    if piece < PIECE_MIN {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(bytes - left)
    }
}

fn no_room(data_bytes: u64) -> io::Error {
    io::Error::other(format!(
        "it is fuller already, or will be with the {} of the workload",
        units::size(data_bytes as f64)
    ))
}

fn allocate(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), from, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_on(file, from, bytes),
        done => Ok(done?),
    }
}

/// Bytes of a file system that users may have, and how many of them are used.
struct FileSystemRoom {
    bytes: f64,
    used: f64,
}

impl FileSystemRoom {
    fn of(room: &StatVfs) -> FileSystemRoom {
        let size = room.f_frsize as f64;
        let used = room.f_blocks.saturating_sub(room.f_bfree) as f64 * size;
        FileSystemRoom {
            bytes: used + room.f_bavail as f64 * size,
            used,
        }
    }
}

/// For file systems that cannot allocate what is not written.
fn write_on(mut file: &File, from: u64, mut bytes: u64) -> io::Result<()> {
    let piece = vec![0x5a; 1 << 20];
    file.seek(SeekFrom::Start(from))?;
    while bytes > 0 {
        let next = to_usize(bytes).min(piece.len());
        file.write_all(&piece[..next])?;
        bytes -= next as u64;
    }
    Ok(())
}

/// Bytes that the files below a directory take.
fn allocated(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let facts = entry.metadata()?;
            match facts.is_dir() {
                true => folders.push(entry.path()),
                false => bytes += facts.blocks() * 512,
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_grows_by_what_is_asked_for_and_goes_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join(FILL_FILE);
        fs::write(&old, "of a run that was killed").unwrap();
        let mut file = FillFile::create(dir.path(), FILL_FILE).unwrap();
        assert_eq!(file.grow(3 << 20).unwrap(), 3 << 20);
        assert_eq!(file.grow(1 << 20).unwrap(), 1 << 20);
        let facts = fs::metadata(&old).unwrap();
        assert_eq!(
            (facts.len(), facts.blocks() * 512 >= 4 << 20),
            (4 << 20, true)
        );
        drop(file);
        assert!(!old.exists());
    }

    #[test]
    fn no_file_system_is_filled_that_is_fuller_already() {
        let dir = tempfile::tempdir().unwrap();
        let error = FillFile::fill(dir.path(), 1e-9, 4096).unwrap_err();
        assert!(error.to_string().contains("fuller already"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_below_a_directory_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), vec![1; 100_000]).unwrap();
        let found = allocated(dir.path()).unwrap();
        assert!((100_000..200_000).contains(&found), "{found}");
    }
}
