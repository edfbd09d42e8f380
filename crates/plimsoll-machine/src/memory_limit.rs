// SPDX-License-Identifier: Apache-2.0
//! A limit on the memory of this program and of everything that it starts from then on, page cache included:
//! a control group of the kernel, of version 2 where that has the controller of memory, else of version 1.
//!
//! A group that an end without warning left holds no processes; `raze` removes it with the other things that
//! carry our mark.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::host::memory_group;

/// How groups of ours are called, before the number of the process that made them.
const PREFIX: &str = "plimsoll-memory-";

/// A limit that holds until it is dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    group: PathBuf,
    own: PathBuf,
}

impl MemoryLimit {
    /// Moves this program into a new control group that may use `bytes` bytes of memory.
    ///
    /// # Errors
    /// When this machine has no such groups, or this user may not make one.
    pub fn set(bytes: u64) -> io::Result<MemoryLimit> {
        let hierarchy = memory_group::hierarchy()?;
        let group = hierarchy
            .parent
            .join(format!("{PREFIX}{}", std::process::id()));
        match fs::create_dir(&group) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let limit = MemoryLimit {
            group: group.clone(),
            own: hierarchy.own,
        };
        fs::write(group.join(hierarchy.limit), bytes.to_string())?;
        enter(&group)?;
        Ok(limit)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Where it fails the group stays, empty as soon as this program has ended; raze removes it.
        if enter(&self.own).is_ok() {
            let _ = fs::remove_dir(&self.group);
        }
    }
}

fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

/// Groups of ours that hold no process and whose maker has ended.
pub(crate) fn abandoned() -> Vec<PathBuf> {
    let Ok(hierarchy) = memory_group::hierarchy() else {
        return Vec::new();
    };
    let Ok(inside) = fs::read_dir(&hierarchy.parent) else {
        return Vec::new();
    };
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Who made it may be about to enter it.
        let maker = name.strip_prefix(PREFIX);
        let is_gone = maker.is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        is_gone
            && fs::read_to_string(path.join("cgroup.procs"))
                .is_ok_and(|text| text.trim().is_empty())
    };
    inside
        .flatten()
        .map(|entry| entry.path())
        .filter(is_ours)
        .collect()
}
