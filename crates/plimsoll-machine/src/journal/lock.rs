// SPDX-License-Identifier: Apache-2.0
//! Locks on journals: exclusive for who makes or undoes what is in them, shared for who uses
//! what they made. The kernel drops them when the last holder ends, however it ends.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::host::{HostTimeSource, all_processes, is_ended};

/// How long to wait for a lock that is only left over from a starting process: that takes milliseconds. A
/// process that holds it longer is undoing or using the same journal.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(2);

/// The same where none but such a process has it: it may need long where others use the disk and the
/// processors.
const LEFT_OVER_WAIT: Duration = Duration::from_secs(30);

/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(5);

/// Locks a journal against everyone else.
///
/// A process the owner had just forked when it was killed shares the lock until it becomes another
/// program. So having the lock also proves that every process of the owner carries its mark by
/// now: waiting for it is what makes undoing complete after a kill at any moment.
pub(super) fn exclusive(
    file: &File,
    path: &Path,
    clock: &dyn HostTimeSource,
    patience: Duration,
) -> bool {
    let operation = FlockOperation::NonBlockingLockExclusive;
    within(file, operation, clock, patience)
        || (patience > Duration::ZERO
            && is_left_over(path)
            && within(file, operation, clock, LEFT_OVER_WAIT))
}

fn within(
    file: &File,
    operation: FlockOperation,
    clock: &dyn HostTimeSource,
    patience: Duration,
) -> bool {
    let began = clock.now();
    loop {
        if flock(file, operation).is_ok() {
            return true;
        }
        if clock.now().saturating_sub(began) >= patience {
            return false;
        }
        clock.pause(LOOK);
    }
}

/// Locks a journal against undoing, together with others who do the same.
pub(super) fn shared(file: &File, clock: &dyn HostTimeSource, patience: Duration) -> bool {
    within(file, FlockOperation::NonBlockingLockShared, clock, patience)
}

/// Makes a shared lock exclusive. The kernel gives up the shared lock before it tries, so that nothing is
/// locked where this fails.
pub(super) fn alone(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Fails with "not found" when the path leads to another file by now: the last holder of the lock may have
/// removed the journal, and others may have begun a new one.
pub(super) fn check_same(file: &File, path: &Path) -> io::Result<()> {
    let (ours, there) = (file.metadata()?, path.symlink_metadata()?);
    if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
        Ok(())
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// A living process that has the file at this path locked, where the kernel reports it.
///
/// Asked of the open files of each process: the kernel's table of all locks is read in pieces, and
/// a lock taken or dropped elsewhere between two of them makes it skip others.
pub(crate) fn holder(path: &Path) -> Option<u32> {
    holders(path).next().map(|(_, taken_by)| taken_by)
}

/// Whether only killed processes hold a file locked, whose threads wait in the kernel for storage that does
/// not answer. They do nothing any more, and may be gone only when that storage is taken down.
pub(super) fn is_of_the_killed(path: &Path) -> bool {
    let mut holders = holders(path).peekable();
    holders.peek().is_some() && holders.all(|(process, _)| is_ended(process))
}

/// Whether the owner of the lock has ended: the file is unlocked by now, or children that a killed owner had
/// just forked still share the lock.
fn is_left_over(path: &Path) -> bool {
    !is_of_the_killed(path) && holders(path).all(|(_, taken_by)| is_ended(taken_by))
}

/// Processes that have a file locked, each with the one that took the lock.
fn holders(path: &Path) -> impl Iterator<Item = (u32, u32)> {
    let path = path.canonicalize().ok();
    all_processes().into_iter().filter_map(move |pid| {
        let process = format!("/proc/{pid}");
        let path = path.as_deref()?;
        let of_threads = || {
            let threads = fs::read_dir(format!("{process}/task")).ok()?.flatten();
            threads
                .into_iter()
                .find_map(|thread| lock_of(&thread.path(), path))
        };
        // The first thread, which the process has its name from, may be gone before the others.
        let taken_by = lock_of(Path::new(&process), path).or_else(of_threads)?;
        Some((pid, taken_by))
    })
}

/// Who took the lock that a process or a thread (its folder in `/proc`) has on a file.
fn lock_of(process: &Path, path: &Path) -> Option<u32> {
    let open = fs::read_dir(process.join("fd")).ok()?.flatten();
    let ours = open.filter(|link| fs::read_link(link.path()).is_ok_and(|open| open == path));
    ours.filter_map(|link| fs::read_to_string(process.join("fdinfo").join(link.file_name())).ok())
        .find_map(|about| about.lines().find_map(pid_of))
}

/// Locks a file beside the lock that the killed still have, against others who do the same.
pub(super) fn beside_the_killed(file: &File) -> bool {
    rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// The process in a line of `fdinfo` when it shows a lock such as ours.
fn pid_of(line: &str) -> Option<u32> {
    // lock: number: FLOCK ADVISORY WRITE pid major:minor:inode first last
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["lock:", _, "FLOCK", _, _, pid, ..] => pid.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_locks_are_understood() {
        for (line, expect) in [
            (
                "lock:\t1: FLOCK  ADVISORY  READ 27 fe:00:613 0 EOF",
                Some(27),
            ),
            ("lock:\t1: POSIX  ADVISORY  READ 27 fe:00:613 0 EOF", None),
            ("lock:\t1: FLOCK  ADVISORY  READ -1 fe:00:613 0 EOF", None),
            ("flags:\t02100002", None),
            ("", None),
        ] {
            assert_eq!(pid_of(line), expect, "{line}");
        }
    }
}
