// SPDX-License-Identifier: Apache-2.0
//! Loop devices, known by the file behind them and never by their number.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
        // Devices that are not attached have no such file.
        let backing = fs::read_to_string(entry.path().join("loop/backing_file"));
        let backing = backing.unwrap_or_default();
        let backing = backing.trim_end_matches('\n');
        let backing = backing.strip_suffix(" (deleted)").unwrap_or(backing);
        if Path::new(backing) == file {
            found.push(Path::new("/dev").join(name));
        }
    }
    found.sort();
    Ok(found)
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

/// Whether the loop device passes I/O around the page cache.
pub(crate) fn is_direct(device: &Path) -> bool {
    let name = device.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        fs::read_to_string(format!("{BLOCK}/{name}/loop/dio")).is_ok_and(|text| text.trim() == "1")
    })
}
