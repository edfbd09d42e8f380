// SPDX-License-Identifier: Apache-2.0
//! Loop devices, arrays and mounts of this machine.

use plimsoll_core::plan::PlanCommandArg;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{COMMAND_LIMIT, LOOK, LocalHost};
use crate::host::clock::HostTimeSource;
use crate::host::error::HostError;
use crate::host::fuse::{self, FUSE_CONTROL, FuseRelease};
use crate::host::{command, command_mark, loops, mounts};

/// How long an unmount may hang: it writes back what is dirty. When the server below is dead it
/// hangs for ever, and only ending the rest of the chain lets it go.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(20);

/// How long something may stay busy (a scanner having a look, a last reference being dropped).
const BUSY_LIMIT: Duration = Duration::from_secs(5);

impl LocalHost {
    pub(super) fn attach_loop(&self, id: &str, file: &Path) -> Result<(), HostError> {
        let args = ["--find", "--show", "--direct-io=on"].map(String::from);
        let mut args = args.to_vec();
        args.push(file.display().to_string());
        self.helper("losetup", args, &command_mark(id), COMMAND_LIMIT)?;
        let found = loops_of(file)?;
        match found.first() {
            Some(device) if loops::is_direct(device) => Ok(()),
            Some(device) => Err(HostError::State(format!(
                "{} over {} runs without direct I/O, so this machine's page cache would be \
                 measured; put the files on another file system",
                device.display(),
                file.display()
            ))),
            None => Err(HostError::State(format!(
                "losetup attached no device to {}",
                file.display()
            ))),
        }
    }

    pub(super) fn detach_loop(&self, id: &str, file: &Path) -> Result<(), HostError> {
        for device in loops_of(file)? {
            let args = vec!["--detach".into(), device.display().to_string()];
            self.helper("losetup", args, &command_mark(id), COMMAND_LIMIT)?;
        }
        let began = self.clock.now();
        loop {
            // While it is in use the kernel only notes that it is to be detached later.
            let Some(device) = loops_of(file)?.into_iter().next() else {
                return Ok(());
            };
            if self.clock.now().saturating_sub(began) > BUSY_LIMIT {
                return Err(HostError::State(format!(
                    "{} over {} is still in use; it is removed when its last user ends",
                    device.display(),
                    file.display()
                )));
            }
            self.clock.pause(LOOK);
        }
    }

    pub(super) fn stop_arrays(&self, id: &str, files: &[String]) -> Result<(), HostError> {
        for device in arrays_of(files)? {
            let args = vec!["--stop".into(), device.display().to_string()];
            self.helper("mdadm", args, &command_mark(id), COMMAND_LIMIT)?;
        }
        Ok(())
    }

    pub(super) fn unmount(&self, id: &str, path: &Path) -> Result<(), HostError> {
        if !command::is_real(path) {
            return Err(HostError::State(format!(
                "{} leads through a symbolic link; name the real path",
                path.display()
            )));
        }
        let began = self.clock.now();
        let mut last_error = None;
        // Bounded by the time; several mounts may lie on top of each other.
        while is_mounted(path)? {
            if self.clock.now().saturating_sub(began) > BUSY_LIMIT {
                return self.unmount_lazily(id, path, last_error);
            }
            match self.umount(id, &[], path) {
                Ok(()) => {}
                Err(error @ HostError::Failed { .. }) => {
                    // Detached all the same, its file would have no path any more.
                    let attached = loops::below(path);
                    let attached = attached.map_err(HostError::io("find loop devices of", path))?;
                    if let Some((device, _)) = attached.first() {
                        return Err(HostError::State(format!(
                            "{} is still attached to {}{}",
                            device.display(),
                            path.display(),
                            self.release(id, path)?.note()
                        )));
                    }
                    last_error = Some(error);
                    self.clock.pause(LOOK);
                }
                Err(error @ HostError::TimedOut { .. }) => match self.release(id, path)? {
                    FuseRelease::Aborted => last_error = Some(error),
                    FuseRelease::Nothing => return Err(error),
                    none @ FuseRelease::NoControl => {
                        return Err(HostError::State(format!("{error}{}", none.note())));
                    }
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the requests that wait for a server of ours that does not answer, if its mount is here.
    fn release(&self, id: &str, path: &Path) -> Result<FuseRelease, HostError> {
        let mounts = mounts::mounts().map_err(HostError::io("read the mounts for", path))?;
        let mount = mounts.iter().rfind(|mount| mount.point == path);
        let how = (&*self.clock as &dyn HostTimeSource, BUSY_LIMIT);
        Ok(mount.map_or(FuseRelease::Nothing, |mount| {
            fuse::release(Path::new(FUSE_CONTROL), id, mount, how)
        }))
    }

    fn umount(&self, id: &str, options: &[&str], path: &Path) -> Result<(), HostError> {
        // No helpers and no resolving of the path: a FUSE mount whose server died answers nothing.
        let mut args = vec!["--internal-only".into(), "--no-canonicalize".into()];
        args.extend(options.iter().map(ToString::to_string));
        args.push(path.display().to_string());
        self.helper("umount", args, &command_mark(id), UNMOUNT_LIMIT)
            .map(|_| ())
    }

    fn unmount_lazily(
        &self,
        id: &str,
        path: &Path,
        why: Option<HostError>,
    ) -> Result<(), HostError> {
        self.umount(id, &["--lazy"], path)?;
        let why = why.map_or_else(String::new, |error| format!(" ({error})"));
        Err(HostError::State(format!(
            "{} stayed busy for {} s{why}; it was detached and goes when its last user ends",
            path.display(),
            BUSY_LIMIT.as_secs()
        )))
    }
}

/// An argument of a command as it is on this machine now.
pub(super) fn resolve(arg: &PlanCommandArg) -> Result<String, HostError> {
    match arg {
        PlanCommandArg::Text(text) => Ok(text.clone()),
        PlanCommandArg::LoopOf(file) => match loops_of(Path::new(file))?.first() {
            Some(device) => Ok(device.display().to_string()),
            None => Err(HostError::State(format!(
                "no loop device is backed by {file}"
            ))),
        },
        PlanCommandArg::ArrayOf(files) => match arrays_of(files)?.first() {
            Some(device) => Ok(device.display().to_string()),
            None => Err(HostError::State(format!(
                "no array has a member that is backed by {}",
                files.join(" or ")
            ))),
        },
    }
}

fn loops_of(file: &Path) -> Result<Vec<PathBuf>, HostError> {
    loops::loops_of(file).map_err(HostError::io("find the loop device of", file))
}

fn arrays_of(files: &[String]) -> Result<Vec<PathBuf>, HostError> {
    let shown = files.join(", ");
    loops::arrays_of(files).map_err(HostError::io("find the array of", Path::new(&shown)))
}

pub(super) fn is_mounted(path: &Path) -> Result<bool, HostError> {
    mounts::is_mounted(path).map_err(HostError::io("read the mounts at", path))
}

/// Two witnesses: the device number differs from the parent's, and the mount table agrees. A
/// directory that looks mounted but is not would send the load to the local disk, and another file
/// system over it, even one of the same type, to another disk.
pub(super) fn mount_is(
    path: &Path,
    file_system: &str,
    sources: &[PlanCommandArg],
) -> Result<(), HostError> {
    let device = |path: &Path| {
        fs::metadata(path)
            .map(|data| data.dev())
            .map_err(HostError::io("look at", path))
    };
    let parent = path.parent().unwrap_or(Path::new("/"));
    let mounts = mounts::mounts().map_err(HostError::io("read the mounts at", path))?;
    let top = mounts.iter().rev().find(|mount| mount.point == path);
    match top {
        Some(mount) if mount.file_system != file_system => Err(HostError::State(format!(
            "{} is a mounted {}, not {file_system}",
            path.display(),
            mount.file_system
        ))),
        Some(mount) if !is_of(mount, sources) => Err(HostError::State(format!(
            "{} is hidden by a mount of {} from outside this stack; unmount it",
            path.display(),
            mount.source
        ))),
        Some(_) if device(path)? != device(parent)? => Ok(()),
        _ => Err(HostError::State(format!(
            "{} is not mounted, so the load would hit the disk below it",
            path.display()
        ))),
    }
}

/// Whether one of these is what is mounted; what is gone by now is not.
fn is_of(mount: &mounts::HostMountInfo, sources: &[PlanCommandArg]) -> bool {
    let is_it = |source: &PlanCommandArg| {
        resolve(source).is_ok_and(|name| {
            let real = Path::new(&name).canonicalize();
            name == mount.source || real.is_ok_and(|real| real == Path::new(&mount.source))
        })
    };
    sources.is_empty() || sources.iter().any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_something_else_of_the_same_type_is_not_the_one_that_is_meant() {
        let mounts = mounts::mounts().unwrap();
        let root = mounts.iter().rfind(|mount| mount.point == Path::new("/"));
        let root = root.unwrap();
        assert!(is_of(root, &[]));
        assert!(is_of(root, &[PlanCommandArg::Text(root.source.clone())]));
        assert!(!is_of(root, &[PlanCommandArg::from("/dev/no-such-disk")]));
        assert!(!is_of(
            root,
            &[PlanCommandArg::LoopOf("/base/disk0.img".into())]
        ));
    }
}
