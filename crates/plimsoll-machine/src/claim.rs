// SPDX-License-Identifier: Apache-2.0
//! Claims: runs on one directory or on one disk detect each other, whichever user started them and wherever
//! they keep their state.
//!
//! A claim is a lock (flock) on what everybody sees: the directory itself, or the file in which the
//! kernel counts what a disk does. Nothing is made for it, and it ends with its process.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::journal::holder;

/// Whether something could be claimed.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// It is ours as long as the file is open.
    Ours(File),
    /// Another process has it; its number where the kernel reports it.
    Others(Option<u32>),
    /// It cannot be locked: a file system without locks, or it cannot be opened.
    Unknown,
}

/// Claims a directory.
pub fn directory(path: &Path) -> ClaimOutcome {
    claim(path)
}

/// Claims a disk by the kernel's name of it.
pub fn disk(name: &str) -> ClaimOutcome {
    let folder = PathBuf::from("/sys/class/block").join(name.replace('/', "!"));
    claim(&folder.join("stat"))
}

fn claim(path: &Path) -> ClaimOutcome {
    let Ok(file) = File::open(path) else {
        return ClaimOutcome::Unknown;
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => ClaimOutcome::Ours(file),
        Err(Errno::WOULDBLOCK) => ClaimOutcome::Others(holder(path).or_else(|| listed(&file))),
        Err(_) => ClaimOutcome::Unknown,
    }
}

/// Who has the lock by the kernel's table, which names also what other users' processes hold.
fn listed(file: &File) -> Option<u32> {
    let data = file.metadata().ok()?;
    let table = fs::read_to_string("/proc/locks").ok()?;
    let (major, minor) = crate::host::facts::device_numbers(data.dev());
    holder_in(&table, &format!("{major:02x}:{minor:02x}:{}", data.ino()))
}

fn holder_in(table: &str, file: &str) -> Option<u32> {
    let words = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut holders = words.filter_map(|words| match words[..] {
        // number: FLOCK ADVISORY WRITE pid major:minor:inode first last
        [_, "FLOCK", _, _, pid, about, ..] if about == file => pid.parse().ok(),
        _ => None,
    });
    holders.next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{HostTimeSource as _, SystemClock};
    use std::time::Duration;

    #[test]
    fn what_one_has_another_sees_until_it_is_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let first = directory(dir.path());
        assert!(matches!(first, ClaimOutcome::Ours(_)));
        // A lock belongs to an open file, so that the same process stands for another one.
        let ClaimOutcome::Others(pid) = directory(dir.path()) else {
            panic!("it was claimed twice")
        };
        assert_eq!(pid, Some(std::process::id()));
        drop(first);
        // A process that a test beside this one is starting may share the lock for a moment.
        let clock = SystemClock::new();
        while !matches!(directory(dir.path()), ClaimOutcome::Ours(_)) {
            assert!(clock.now() < Duration::from_secs(60), "it was let go");
            clock.pause(Duration::from_millis(5));
        }
        assert!(matches!(
            directory(&dir.path().join("absent")),
            ClaimOutcome::Unknown
        ));
    }

    #[test]
    fn disks_can_be_claimed_by_what_the_kernel_counts_of_them() {
        let Some(entry) = fs::read_dir("/sys/class/block").unwrap().flatten().next() else {
            eprintln!("SKIPPED: this machine has no block device");
            return;
        };
        let name = entry.file_name().to_string_lossy().into_owned();
        match disk(&name) {
            ClaimOutcome::Ours(_held) => {
                assert!(matches!(disk(&name), ClaimOutcome::Others(_)));
            }
            // Another run on this machine has it, and may let go of it at any moment.
            ClaimOutcome::Others(_) => {}
            ClaimOutcome::Unknown => panic!("{name} cannot be locked"),
        }
    }

    #[test]
    fn a_holder_is_found_in_the_table() {
        let table = "1: POSIX  ADVISORY  WRITE 7 fe:00:613 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 27 fe:00:613 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 28 fe:00:613 0 EOF\n";
        assert_eq!(holder_in(table, "fe:00:613"), Some(27));
        assert_eq!(holder_in(table, "fe:00:614"), None);
    }
}
