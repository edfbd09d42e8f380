// SPDX-License-Identifier: Apache-2.0
//! The mount table of this process. Reads only.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMountInfo {
    /// Device number, as `major:minor`.
    pub device: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Options of the mount and of the file system.
    pub options: String,
    /// Type of file system.
    pub file_system: String,
    /// The device or file system that is mounted.
    pub source: String,
}

/// All mounts, in the order of mounting.
pub(crate) fn mounts() -> io::Result<Vec<HostMountInfo>> {
    // Foreign mount points may contain bytes that are not UTF-8; ours are ASCII.
    let bytes = fs::read("/proc/self/mountinfo")?;
    Ok(String::from_utf8_lossy(&bytes)
        .lines()
        .filter_map(parse_line)
        .collect())
}

/// Processes in whose view of the machine this is mounted: a view of its own keeps what was mounted when it
/// was made.
pub fn processes_with(path: &Path) -> Vec<u32> {
    let Some(text) = path.to_str() else {
        return Vec::new();
    };
    let sees = |pid: &u32| {
        let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let mut mounts = table.lines().filter_map(parse_line);
        mounts.any(|mount| mount.point.to_str() == Some(text))
    };
    super::processes::all().into_iter().filter(sees).collect()
}

/// Whether there is something at this path. A mount point stays one when the program that served it has
/// ended, although the kernel then tells nothing else about it.
pub(crate) fn exists(path: &Path) -> bool {
    let ended = rustix::io::Errno::NOTCONN.raw_os_error();
    path.try_exists()
        .unwrap_or_else(|error| error.raw_os_error() == Some(ended))
}

/// Whether the kernel can mount this type: it has it already, or a module that brings it.
pub(crate) fn knows_file_system(name: &str) -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known
        .lines()
        .any(|line| line.split_whitespace().last() == Some(name))
    {
        return true;
    }
    has_module(name)
}

/// Whether the kernel in use has a module of this name, wherever it came from: those that are built
/// outside of the kernel lie in other folders than its own.
pub(crate) fn has_module(name: &str) -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let list = fs::read_to_string(format!("/lib/modules/{release}/modules.dep"));
    lists_module(&list.unwrap_or_default(), name)
}

/// Whether a list of modules (`modules.dep`: a file in each line, and behind a colon those it needs)
/// has one of this name.
fn lists_module(list: &str, name: &str) -> bool {
    let file = |line: &str| {
        let path = line.split(':').next().unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        file.split_once(".ko").is_some_and(|(stem, _)| stem == name)
    };
    list.lines().any(file)
}

/// Whether something is mounted exactly at `path`.
pub(crate) fn is_mounted(path: &Path) -> io::Result<bool> {
    Ok(mounts()?.iter().any(|mount| mount.point == path))
}

/// Mounts at `path` or below it.
pub(crate) fn below(path: &Path) -> io::Result<Vec<HostMountInfo>> {
    let mut found = mounts()?;
    found.retain(|mount| mount.point.starts_with(path));
    Ok(found)
}

/// The mount that `path` (absolute, without links) lies on: the last one with the longest point.
///
/// # Errors
/// When the table cannot be read.
pub fn containing(path: &Path) -> io::Result<Option<HostMountInfo>> {
    let length = |mount: &HostMountInfo| mount.point.components().count();
    Ok(mounts()?
        .into_iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(length))
}

fn parse_line(line: &str) -> Option<HostMountInfo> {
    // id parent major:minor root point options [optional …] - type source super-options
    let (front, back) = line.split_once(" - ")?;
    let front: Vec<&str> = front.split(' ').collect();
    let mut back = back.split(' ');
    let file_system = back.next()?.to_string();
    let source = unescape(back.next()?);
    let super_options = back.next().unwrap_or("");
    Some(HostMountInfo {
        device: (*front.get(2)?).to_string(),
        point: unescape(front.get(4)?).into(),
        options: merge_options(front.get(5)?, super_options),
        file_system,
        source,
    })
}

/// Both lists repeat `rw`; each option is kept once.
fn merge_options(mount: &str, file_system: &str) -> String {
    let mut all: Vec<&str> = mount.split(',').collect();
    for option in file_system.split(',') {
        if !option.is_empty() && !all.contains(&option) {
            all.push(option);
        }
    }
    all.join(",")
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
pub(crate) fn unescape(text: &str) -> String {
    let mut plain = text.to_string();
    for (code, char) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        plain = plain.replace(code, char);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_mount_table_is_understood() {
        let line =
            "36 35 98:0 /m /a\\040b rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=ro";
        let mount = parse_line(line).unwrap();
        assert_eq!(mount.device, "98:0");
        assert_eq!(mount.point, Path::new("/a b"));
        assert_eq!(mount.options, "rw,noatime,errors=ro");
        assert_eq!(mount.file_system, "ext3");
        assert_eq!(mount.source, "/dev/root");
        assert_eq!(parse_line("nonsense"), None);
    }

    #[test]
    fn a_module_is_found_in_any_folder_by_its_whole_name() {
        let list = "kernel/fs/nfs/nfs.ko: kernel/net/sunrpc/sunrpc.ko\n\
            updates/dkms/lustre.ko.xz: updates/dkms/lnet.ko.xz\n";
        for (name, expect) in [
            ("nfs", true),
            ("lustre", true),
            ("lnet", false),
            ("fs", false),
            ("", false),
        ] {
            assert_eq!(lists_module(list, name), expect, "{name}");
        }
    }

    #[test]
    fn the_root_contains_everything() {
        assert!(containing(Path::new("/")).unwrap().is_some());
        assert!(!is_mounted(Path::new("/no/such/place")).unwrap());
    }
}
