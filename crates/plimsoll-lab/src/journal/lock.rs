// SPDX-License-Identifier: Apache-2.0
//! Locks on journals: exclusive for who makes or undoes what is in them, shared for who uses what
//! they made. The kernel drops them when the last holder ends, however it ends.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::host::Clock;

/// How long to wait for a lock that is only left over from a starting process: that takes
/// milliseconds; whoever holds it longer is undoing or using the same journal.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(5);

/// Locks a journal against everyone else.
///
/// A process the owner had just forked when it was killed shares the lock until it becomes another
/// program. So having the lock also proves that every process of the owner carries its mark by
/// now: waiting for it is what makes undoing complete after a kill at any moment.
pub(super) fn exclusive(file: &File, clock: &dyn Clock, patience: Duration) -> bool {
    let began = clock.now();
    loop {
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if clock.now().saturating_sub(began) >= patience {
            return false;
        }
        clock.pause(LOOK);
    }
}

/// Locks a journal against undoing, together with others who do the same.
pub(super) fn shared(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared).is_ok()
}

/// Fails with "not found" when the path leads to another file by now: whoever had the lock before
/// us may have removed the journal, and others may have begun a new one.
pub(super) fn check_same(file: &File, path: &Path) -> io::Result<()> {
    let (ours, there) = (file.metadata()?, path.metadata()?);
    if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
        Ok(())
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// A living process that has this file locked, where the kernel tells.
pub(super) fn holder(file: &File, path: &Path) -> Option<u32> {
    let inode = file.metadata().ok()?.ino();
    let path = path.canonicalize().ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pids = locks.lines().filter_map(|line| pid_of(line, inode));
    // Inodes of several file systems have the same number: the process must have the file open.
    let has_open = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd"));
        let mut links = files.into_iter().flatten().flatten();
        links.any(|link| fs::read_link(link.path()).is_ok_and(|open| open == path))
    };
    pids.into_iter().find(has_open)
}

/// The process in a line of `/proc/locks` when it has this inode locked as we lock.
fn pid_of(line: &str, inode: u64) -> Option<u32> {
    // number: FLOCK ADVISORY WRITE pid major:minor:inode first last; "->" marks who waits.
    let fields: Vec<&str> = line.split_whitespace().collect();
    let ["FLOCK", _, _, pid, place, ..] = fields.get(1..)? else {
        return None;
    };
    let (_, number) = place.rsplit_once(':')?;
    (number.parse() == Ok(inode)).then(|| pid.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_lock_table_are_understood() {
        for (line, expect) in [
            ("1: FLOCK  ADVISORY  READ 27 fe:00:613 0 EOF", Some(27)),
            ("1: FLOCK  ADVISORY  READ 27 fe:00:614 0 EOF", None),
            ("1: POSIX  ADVISORY  READ 27 fe:00:613 0 EOF", None),
            ("1: -> FLOCK  ADVISORY  READ 27 fe:00:613 0 EOF", None),
            ("1: FLOCK  ADVISORY  READ -1 fe:00:613 0 EOF", None),
            ("nonsense", None),
        ] {
            assert_eq!(pid_of(line, 613), expect, "{line}");
        }
    }
}
