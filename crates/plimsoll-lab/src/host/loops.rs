// SPDX-License-Identifier: Apache-2.0
//! Loop devices, known by the file behind them and never by their number.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::HostError;
use super::mounts::{Mount, mounts};

const BLOCK: &str = "/sys/block";

/// Loop devices (such as `/dev/loop3`) backed by this file.
pub(crate) fn loops_of(file: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(BLOCK)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with("loop")) else {
            continue;
        };
        if backing_file(name).is_some_and(|backing| backing == file) {
            found.push(Path::new("/dev").join(name));
        }
    }
    found.sort();
    Ok(found)
}

/// The file behind a loop device (`loop3`); none when it is not attached, or is no loop device.
fn backing_file(name: &str) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("{BLOCK}/{name}/loop/backing_file")).ok()?;
    let file = text.trim_end_matches('\n');
    Some(file.strip_suffix(" (deleted)").unwrap_or(file).into())
}

/// RAID arrays of the kernel (such as `/dev/md127`) that loop devices backed by these files are
/// members of.
pub(crate) fn arrays_of(files: &[String]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for file in files {
        for device in loops_of(Path::new(file))? {
            let name = device.file_name().unwrap_or_default();
            let holders = Path::new(BLOCK).join(name).join("holders");
            // A loop device that nobody holds has an empty list.
            for holder in fs::read_dir(holders).into_iter().flatten().flatten() {
                let holder = holder.file_name();
                if holder.to_str().is_some_and(|name| name.starts_with("md")) {
                    found.push(Path::new("/dev").join(holder));
                }
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// What `mkfs.btrfs` and `btrfs` say when they cannot find out where something is mounted.
const REFUSED: &str = "cannot check mount status";

/// Names what is in the way of a command that could not look at the disks of all mounts: it says only
/// that, and of no disk of its own. The others are loop devices whose file is served by a program (FUSE)
/// that is gone.
pub(crate) fn naming_dead(error: HostError) -> HostError {
    let HostError::Failed {
        command,
        status,
        output,
    } = error
    else {
        return error;
    };
    let mut output = output;
    if output.contains(REFUSED) {
        let mounts = mounts().unwrap_or_default();
        let dead = mounts.iter().filter_map(|mount| {
            let file = backing_file(mount.source.strip_prefix("/dev/")?)?;
            is_dead(&file).then(|| in_the_way(mount, &file))
        });
        dead.for_each(|text| output += &text);
    }
    HostError::Failed {
        command,
        status,
        output,
    }
}

/// Whether the program that served this file is gone.
fn is_dead(file: &Path) -> bool {
    let not_connected = rustix::io::Errno::NOTCONN.raw_os_error();
    fs::metadata(file).is_err_and(|error| error.raw_os_error() == Some(not_connected))
}

fn in_the_way(mount: &Mount, file: &Path) -> String {
    let (device, point) = (&mount.source, mount.point.display());
    format!(
        "\n{device}, mounted at {point}, is in the way: nobody serves its file {} any more. Take it away \
         with 'plimsoll raze' if plimsoll made it, else with \
         'umount --lazy {point} && losetup --detach {device}'",
        file.display()
    )
}

/// Whether the loop device passes I/O around the page cache.
pub(crate) fn is_direct(device: &Path) -> bool {
    let name = device.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        fs::read_to_string(format!("{BLOCK}/{name}/loop/dio")).is_ok_and(|text| text.trim() == "1")
    })
}
