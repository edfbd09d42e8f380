// SPDX-License-Identifier: Apache-2.0
//! Facts about block devices, first of all what would be lost by writing to one. Looks only.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::{HostError, LocalHost, mounts};

/// How long the program that looks for signatures may take: a disk that sleeps needs seconds.
const LOOK_LIMIT: Duration = Duration::from_secs(30);

/// Sector of the kernel's size files, whatever the device has.
const SIZE_SECTOR_BYTES: u64 = 512;

/// What is known of a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The device itself, links followed.
    pub path: PathBuf,
    /// `major:minor`.
    pub number: String,
    /// Size.
    pub bytes: u64,
    /// Logical block: what direct I/O is aligned to.
    pub block_bytes: u32,
    /// Maker's name of the disk, where it has one.
    pub model: Option<String>,
    /// Why writing to it would destroy something or disturb somebody, each a clause such as
    /// "it carries ext4".
    pub holds: Vec<String>,
    /// Whether somebody uses it now: it is mounted, or a part of something else.
    pub in_use: bool,
}

/// Looks at a block device.
///
/// # Errors
/// When it does not exist, is no block device, or the kernel tells nothing of it.
pub fn device(path: &Path, host: &LocalHost) -> Result<DeviceFacts, HostError> {
    let path = path.canonicalize().map_err(look(path))?;
    let number = crate::facts::device_of(&path)
        .filter(|_| crate::facts::is_block_device(&path))
        .ok_or_else(|| HostError::State(format!("{} is no block device", path.display())))?;
    let system = PathBuf::from(format!("/sys/dev/block/{number}"));
    let read =
        |name: &str| fs::read_to_string(system.join(name)).map(|text| text.trim().to_owned());
    let figure = |name: &str| -> Result<u64, HostError> {
        let text = read(name).map_err(look(&system.join(name)))?;
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        text.parse()
            .map_err(|_| look(&system.join(name))(invalid()))
    };
    let users = users(&path, &number, &system).map_err(look(&path))?;
    let mut holds = signatures(&path, host);
    let in_use = !users.is_empty();
    holds.extend(users);
    // A partition has its queue's facts in the disk that it is a part of.
    let block = figure("queue/logical_block_size")
        .or_else(|_| figure("../queue/logical_block_size"))
        .unwrap_or(SIZE_SECTOR_BYTES);
    Ok(DeviceFacts {
        bytes: figure("size")?.saturating_mul(SIZE_SECTOR_BYTES),
        block_bytes: plimsoll_core::num::saturating_u32(block),
        model: read("device/model").ok().filter(|text| !text.is_empty()),
        path,
        number,
        holds,
        in_use,
    })
}

fn look(at: &Path) -> impl FnOnce(io::Error) -> HostError {
    HostError::io("look at", at)
}

/// What the device carries, as far as its signatures tell.
fn signatures(path: &Path, host: &LocalHost) -> Vec<String> {
    let Some(shown) = path.to_str() else {
        return vec!["its name is not valid UTF-8, so nobody could look at it".into()];
    };
    // Without an option that says so, wipefs only lists what it knows.
    let args = ["--noheadings", "--output", "TYPE", shown];
    match host.output("wipefs", &args, LOOK_LIMIT) {
        Ok(text) => {
            let mut kinds: Vec<&str> = text.lines().map(str::trim).collect();
            kinds.retain(|kind| !kind.is_empty());
            kinds.dedup();
            kinds
                .into_iter()
                .map(|kind| format!("it carries {kind}"))
                .collect()
        }
        // What could not be looked at may hold anything.
        Err(error) => vec![format!("what it carries is unknown ({error})")],
    }
}

/// Who uses it: mounts, swap, and devices made of it or in it.
fn users(path: &Path, number: &str, system: &Path) -> io::Result<Vec<String>> {
    let mut users = Vec::new();
    let is_it = |mount: &mounts::Mount| {
        mount.device == number
            || Path::new(&mount.source)
                .canonicalize()
                .is_ok_and(|p| p == path)
    };
    for mount in mounts::mounts()?.iter().filter(|mount| is_it(mount)) {
        users.push(format!("it is mounted on {}", mount.point.display()));
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let is_swap = |line: &str| {
        line.split_whitespace()
            .next()
            .is_some_and(|p| Path::new(p) == path)
    };
    if swaps.lines().any(is_swap) {
        users.push("it is swap space".into());
    }
    for holder in names(&system.join("holders")) {
        users.push(format!("{holder} is made of it"));
    }
    for part in names(system) {
        if system.join(&part).join("partition").exists() {
            users.push(format!("it has the partition {part}"));
        }
    }
    Ok(users)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Whether two paths lead to the same block device.
#[must_use]
pub fn is_same(one: &Path, other: &Path) -> bool {
    let number = |path: &Path| fs::metadata(path).ok().map(|data| data.rdev());
    crate::facts::is_block_device(one)
        && crate::facts::is_block_device(other)
        && number(one) == number(other)
}
