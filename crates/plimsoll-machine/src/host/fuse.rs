// SPDX-License-Identifier: Apache-2.0
//! Ending the connections of FUSE file systems of ours whose servers do not answer any more, so that waiting
//! processes get an error instead of waiting for ever.
//!
//! Invariant: only below a directory that carries the mark of the journal, and only while requests wait
//! without a pause.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::clock::HostTimeSource;
use super::dirs;
use super::mounts::HostMountInfo;

/// Where the kernel shows them, if `fusectl` is mounted there, as systemd does.
pub(super) const FUSE_CONTROL: &str = "/sys/fs/fuse/connections";

/// Time between two looks at the requests that wait.
const LOOK: Duration = Duration::from_millis(50);

/// The step that ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FuseRelease {
    /// Nothing: it is no FUSE file system of ours, or its server answers.
    Nothing,
    /// Its requests waited; it was ended.
    Aborted,
    /// It cannot be ended, since the kernel shows no connections.
    NoControl,
}

impl FuseRelease {
    /// A note for an error about it.
    pub(super) fn note(self) -> String {
        match self {
            FuseRelease::Nothing => String::new(),
            FuseRelease::Aborted => {
                "; its server did not answer, and its connection was ended".into()
            }
            FuseRelease::NoControl => format!(
                "; if its server does not answer: mount -t fusectl none {FUSE_CONTROL}, then plimsoll raze"
            ),
        }
    }
}

/// Ends the connection of a mount of the journal `id`, if requests of it wait for this long.
pub(super) fn release(
    control: &Path,
    id: &str,
    mount: &HostMountInfo,
    (clock, patience): (&dyn HostTimeSource, Duration),
) -> FuseRelease {
    let is_fuse = mount.file_system == "fuse" || mount.file_system.starts_with("fuse.");
    // Never the mount point itself: a look at it would be one more request.
    let above = mount.point.ancestors().skip(1);
    let number = mount.device.strip_prefix("0:");
    let (true, Some(number)) = (is_fuse, number) else {
        return FuseRelease::Nothing;
    };
    if !above.into_iter().any(|dir| dirs::carries_mark(dir, id)) {
        return FuseRelease::Nothing;
    }
    let folder = control.join(number);
    let waiting = || -> Option<u64> {
        let text = fs::read_to_string(folder.join("waiting")).ok()?;
        text.trim().parse().ok()
    };
    if waiting().is_none() {
        return FuseRelease::NoControl;
    }
    let began = clock.now();
    while clock.now().saturating_sub(began) < patience {
        if waiting().is_none_or(|count| count == 0) {
            return FuseRelease::Nothing;
        }
        clock.pause(LOOK);
    }
    let abort = OpenOptions::new().write(true).open(folder.join("abort"));
    match abort.and_then(|mut abort| abort.write_all(b"1")) {
        Ok(()) => FuseRelease::Aborted,
        Err(_) => FuseRelease::NoControl,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::SystemClock;

    #[test]
    fn only_what_is_ours_and_waits_is_aborted() {
        let base = tempfile::tempdir().unwrap();
        let ours = base.path().join("ours");
        dirs::make(&ours, "mine").unwrap();
        let control = base.path().join("connections");
        let folder = control.join("57");
        fs::create_dir_all(&folder).unwrap();
        let mount = |point: &Path, file_system: &str| HostMountInfo {
            device: "0:57".into(),
            point: point.into(),
            options: String::new(),
            file_system: file_system.into(),
            source: "nbdfuse".into(),
        };
        let inside = ours.join("disk");
        let (disk, clock) = (mount(&inside, "fuse.nbdfuse"), SystemClock::new());
        let release = |mount: &HostMountInfo, id: &str, waiting: &str| {
            fs::write(folder.join("waiting"), waiting).unwrap();
            fs::write(folder.join("abort"), "").unwrap();
            let released = release(&control, id, mount, (&clock, Duration::from_millis(100)));
            let aborted = fs::read_to_string(folder.join("abort")).unwrap() == "1";
            assert_eq!(aborted, released == FuseRelease::Aborted);
            released
        };
        assert_eq!(release(&disk, "mine", "3\n"), FuseRelease::Aborted);
        assert_eq!(release(&disk, "mine", "0\n"), FuseRelease::Nothing);
        assert_eq!(release(&disk, "theirs", "3\n"), FuseRelease::Nothing);
        let others = [
            mount(&inside, "ext4"),
            mount(&inside, "fuseblk"),
            mount(&base.path().join("theirs"), "fuse"),
        ];
        for other in others {
            assert_eq!(release(&other, "mine", "3\n"), FuseRelease::Nothing);
        }
        let none = base.path().join("none");
        let patience = (&clock as &dyn HostTimeSource, Duration::ZERO);
        let unseen = super::release(&none, "mine", &disk, patience);
        assert_eq!(unseen, FuseRelease::NoControl);
    }
}
