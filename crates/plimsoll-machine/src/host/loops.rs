// SPDX-License-Identifier: Apache-2.0
//! Loop devices, known by the file behind them and never by their number.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const BLOCK: &str = "/sys/block";

/// Begin of the names of files of ours that a program serves (FUSE); their journal follows.
const SERVED: &str = "plimsoll-";

/// Loop devices (such as `/dev/loop3`) backed by this file. Those come last whose file had this name in a
/// file system that was unmounted: the file may be there again, with another device.
pub fn loops_of(file: &Path) -> io::Result<Vec<PathBuf>> {
    let all = all()?;
    // Asked only where it matters: of a file that a program serves, that program has to answer.
    let is_there = || file.symlink_metadata().is_ok();
    let now = all
        .iter()
        .filter(|(_, backing)| is_backed(backing, file, is_there));
    let once = all.iter().filter(|(_, backing)| {
        unmounted(backing).is_some_and(|name| Some(OsStr::new(name)) == file.file_name())
    });
    Ok(now.chain(once).map(|(device, _)| device.clone()).collect())
}

/// Loop devices over files that this journal had served and that are mounted nowhere any more.
pub(crate) fn unmounted_of(id: &str) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let begin = format!("{SERVED}{id}-");
    let mut all = all()?;
    all.retain(|(_, file)| unmounted(file).is_some_and(|name| name.starts_with(&begin)));
    Ok(all)
}

/// All loop devices that are attached, each with its file as the kernel reports it.
pub(crate) fn all() -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(BLOCK)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with("loop")) else {
            continue;
        };
        if let Some(backing) = backing_file(name) {
            found.push((Path::new("/dev").join(name), backing));
        }
    }
    found.sort();
    Ok(found)
}

/// Loop devices over files below a directory, with these files.
pub(crate) fn below(dir: &Path) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let real = |(device, file): (PathBuf, PathBuf)| (device, removed(&file).unwrap_or(file));
    let all = all()?.into_iter().map(real);
    Ok(all.filter(|(_, file)| file.starts_with(dir)).collect())
}

/// Whether what the kernel says of a loop device means this file. Of one that was removed it says so: then
/// it is this file as long as no other one has come to its place.
fn is_backed(backing: &Path, file: &Path, is_there: impl Fn() -> bool) -> bool {
    backing == file || (removed(backing).is_some_and(|former| former == file) && !is_there())
}

/// Where a file was that was removed, as the kernel reports it.
fn removed(backing: &Path) -> Option<PathBuf> {
    Some(backing.to_str()?.strip_suffix(" (deleted)")?.into())
}

/// The name of a file of ours whose file system is unmounted: the kernel reports its path within that.
fn unmounted(backing: &Path) -> Option<&str> {
    let name = backing.to_str()?.strip_prefix('/')?;
    let is_served = name.starts_with(SERVED) && !name.contains('/');
    (is_served && backing.symlink_metadata().is_err()).then_some(name)
}

/// The file behind a loop device (`loop3`); none when it is not attached, or is no loop device.
fn backing_file(name: &str) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("{BLOCK}/{name}/loop/backing_file")).ok()?;
    Some(text.trim_end_matches('\n').into())
}

/// RAID arrays of the kernel (such as `/dev/md127`) that loop devices backed by these files are
/// members of.
pub(crate) fn arrays_of(files: &[String]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for file in files {
        for device in loops_of(Path::new(file))? {
            let name = device.file_name().unwrap_or_default();
            let holders = Path::new(BLOCK).join(name).join("holders");
            // The list of a loop device without holders is empty.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_over_a_former_file_of_the_same_name_is_another_one() {
        let file = Path::new("/base/disk.img");
        let deleted = Path::new("/base/disk.img (deleted)");
        let nobody_asks = || panic!("whether the file is there does not matter");
        assert!(is_backed(file, file, nobody_asks));
        assert!(is_backed(deleted, file, || false));
        assert!(!is_backed(deleted, file, || true));
        assert!(!is_backed(Path::new("/base/other.img"), file, nobody_asks));
        // A file may have such a name.
        assert!(is_backed(deleted, deleted, nobody_asks));
    }

    #[test]
    fn only_a_file_of_ours_is_known_by_its_name_alone() {
        assert_eq!(
            unmounted(Path::new("/plimsoll-a-disk0")),
            Some("plimsoll-a-disk0")
        );
        for other in [
            "/",
            "/disk.img",
            "/base/plimsoll-a-disk0",
            "plimsoll-a-disk0",
        ] {
            assert_eq!(unmounted(Path::new(other)), None, "{other}");
        }
    }
}
