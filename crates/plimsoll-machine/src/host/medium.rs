// SPDX-License-Identifier: Apache-2.0
//! The medium below a target: which disks, how they are attached, and whether it is memory.
//! Looks only.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_core::ledger::CutDisk;
use plimsoll_core::text;

use crate::host::facts;
use crate::host::mounts::{self, HostMountInfo};

/// File systems that keep files in memory.
const MEMORY: [&str; 4] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];

/// Devices of memory, by how their names begin.
const MEMORY_DEVICES: [(&str, &str); 3] = [
    ("zram", "compressed memory"),
    ("ram", "memory"),
    (
        "nullb",
        "the kernel's test device, which keeps data in memory or not at all",
    ),
];

/// How a disk is attached, by a part of its path in sysfs.
const ATTACHMENTS: [(&str, &str); 9] = [
    ("/virtio", "virtio"),
    ("/nvme", "nvme"),
    ("/usb", "usb"),
    ("/session", "iscsi"),
    ("/ata", "sata"),
    ("/nbd", "nbd"),
    ("/mmc_host", "mmc"),
    ("/vbd-", "xen"),
    ("/host", "scsi"),
];

/// The kernel's word for a cache that a flush must empty.
const WRITE_BACK: &str = "write back";

/// Most layers that are followed: real systems have fewer.
const LAYERS_MAX: usize = 8;

/// The medium below a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorageMedium {
    /// How its disk is attached, or what it is made of: `virtio`, `loop device over /x`.
    pub words: String,
    /// Why it is memory, where it is: `tmpfs`, `loop0 over /dev/shm/x on tmpfs`.
    pub in_memory: Option<String>,
    /// The kernel's names of the whole disks at the bottom, sorted.
    pub disks: Vec<String>,
}

/// The medium below a directory, a file or a block device.
pub fn below(path: &Path) -> StorageMedium {
    let mut medium = StorageMedium::default();
    of_path(path, &mut medium, 0);
    medium.disks.sort();
    medium.disks.dedup();
    medium
}

/// Caches of disks by their own account: `write back` where one has such; empty where none tells.
pub fn write_cache(disks: &[String]) -> String {
    let told: Vec<String> = disks
        .iter()
        .map(|disk| disk_identity(disk).write_cache)
        .collect();
    let is_back = told.iter().any(|cache| cache == WRITE_BACK);
    match is_back {
        true => WRITE_BACK.to_owned(),
        false => told.into_iter().next().unwrap_or_default(),
    }
}

/// A disk by its name, as the kernel tells it.
pub fn disk_identity(name: &str) -> CutDisk {
    let folder = Path::new("/sys/class/block").join(name.replace('/', "!"));
    let first = |files: &[&str]| {
        let texts = files
            .iter()
            .filter_map(|file| fs::read_to_string(folder.join(file)).ok());
        let mut texts = texts.map(|text| text::printable(text.trim()));
        texts.find(|text| !text.is_empty()).unwrap_or_default()
    };
    let model = first(&["device/model"]);
    CutDisk {
        model: if model.is_empty() { name.into() } else { model },
        serial: first(&["device/serial", "serial"]),
        firmware: first(&["device/firmware_rev", "device/rev"]),
        write_cache: first(&["queue/write_cache"]),
    }
}

/// Whether files of this kind of file system are in memory.
pub fn is_memory(file_system: &str) -> bool {
    MEMORY.contains(&file_system)
}

fn of_path(path: &Path, medium: &mut StorageMedium, layer: usize) {
    if layer > LAYERS_MAX {
        return;
    }
    let is_device = facts::is_block_device(path);
    let mount = path
        .canonicalize()
        .ok()
        .and_then(|path| mounts::containing(&path).ok().flatten());
    if let Some(mount) = mount.filter(|_| !is_device) {
        if is_memory(&mount.file_system) {
            medium.in_memory.get_or_insert(mount.file_system);
            return;
        }
        if let Some(upper) = upper_of(&mount) {
            medium.words = format!("overlay over {}", upper.display());
            return of_path(&upper, medium, layer + 1);
        }
    }
    let several = mount_members(path, is_device);
    if !several.is_empty() {
        say(medium, format!("btrfs over {}", several.join(", ")));
        return several
            .iter()
            .for_each(|name| of_device(name, medium, layer + 1));
    }
    let name =
        facts::device_of(path).and_then(|number| crate::host::disks::name_of_number(&number));
    if let Some(name) = name {
        of_device(&name, medium, layer);
    }
}

/// The devices of a btrfs of several, whose files have a device number that no device has.
fn mount_members(path: &Path, is_device: bool) -> Vec<String> {
    let mount = path
        .canonicalize()
        .ok()
        .filter(|_| !is_device)
        .and_then(|path| mounts::containing(&path).ok().flatten());
    let Some(mount) = mount.filter(|mount| mount.file_system == "btrfs") else {
        return Vec::new();
    };
    let source = Path::new(&mount.source).file_name().unwrap_or_default();
    let systems = fs::read_dir("/sys/fs/btrfs")
        .into_iter()
        .flatten()
        .flatten();
    let folders = systems.map(|entry| entry.path().join("devices"));
    let of = |folder: PathBuf| -> Vec<String> {
        let members = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = members
            .map(|entry| entry.file_name().to_string_lossy().replace('!', "/"))
            .collect();
        names.sort();
        names
    };
    let mut all = folders.map(of);
    let found = all.find(|names| {
        names
            .iter()
            .any(|name| Path::new(name).as_os_str() == source)
    });
    found.unwrap_or_default()
}

/// Where what is written to an overlay goes.
fn upper_of(mount: &HostMountInfo) -> Option<PathBuf> {
    let is_overlay = mount.file_system == "overlay";
    let mut options = mount.options.split(',').filter(|_| is_overlay);
    options
        .find_map(|option| option.strip_prefix("upperdir="))
        .map(PathBuf::from)
}

fn of_device(name: &str, medium: &mut StorageMedium, layer: usize) {
    if let Some(why) = memory_device(name) {
        medium.in_memory.get_or_insert(format!("{name}, {why}"));
        return;
    }
    let link = Path::new("/sys/class/block").join(name.replace('/', "!"));
    let Ok(mut folder) = link.canonicalize() else {
        return;
    };
    if folder.join("partition").exists() {
        folder.pop();
    }
    let whole = folder.file_name().unwrap_or_default().to_string_lossy();
    let whole = whole.replace('!', "/");
    if let Ok(file) = fs::read_to_string(folder.join("loop/backing_file")) {
        let file = file.trim();
        say(medium, format!("loop device over {file}"));
        let was_disk = medium.in_memory.is_none();
        let disks = medium.disks.len();
        of_path(Path::new(file), medium, layer + 1);
        // Below a file of another machine or of a program this machine counts nothing.
        if medium.disks.len() == disks && medium.in_memory.is_none() {
            medium.disks.push(whole.clone());
        }
        if was_disk && let Some(why) = &medium.in_memory {
            medium.in_memory = Some(format!("{whole} over {file} on {why}"));
        }
        return;
    }
    let slaves = fs::read_dir(folder.join("slaves"));
    let slaves: Vec<String> = slaves
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().replace('!', "/"))
        .collect();
    if slaves.is_empty() {
        say(medium, attachment(&folder.to_string_lossy()).to_owned());
        medium.disks.push(whole);
        return;
    }
    say(medium, format!("{whole} over {}", slaves.join(", ")));
    if layer < LAYERS_MAX {
        slaves
            .iter()
            .for_each(|slave| of_device(slave, medium, layer + 1));
    }
}

/// The uppermost layer has the word.
fn say(medium: &mut StorageMedium, words: String) {
    if medium.words.is_empty() {
        medium.words = words;
    }
}

/// The kind of memory of a device of this name, if it is memory.
fn memory_device(name: &str) -> Option<&'static str> {
    let numbered = |begin: &str| {
        let rest = name.strip_prefix(begin);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let found = MEMORY_DEVICES.iter().find(|(begin, _)| numbered(begin));
    found.map(|(_, why)| *why)
}

/// How a disk is attached, by its folder in sysfs; empty where that says nothing.
fn attachment(folder: &str) -> &'static str {
    let found = ATTACHMENTS.iter().find(|(part, _)| folder.contains(part));
    found.map_or("", |(_, word)| word)
}

/// The mount point that a table of file systems (`/etc/fstab`) names and that a directory lies in
/// while nothing is mounted there: what is written to it goes to the file system around it.
pub fn unmounted(directory: &Path) -> Option<PathBuf> {
    let table = fs::read_to_string("/etc/fstab").unwrap_or_default();
    let mounts = mounts::mounts().unwrap_or_default();
    let mounted: Vec<PathBuf> = mounts.into_iter().map(|mount| mount.point).collect();
    unmounted_in(&table, &mounted, &directory.canonicalize().ok()?)
}

fn unmounted_in(table: &str, mounted: &[PathBuf], directory: &Path) -> Option<PathBuf> {
    let lines = table.lines().map(str::trim);
    let points = lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().nth(1))
        .filter(|point| point.starts_with('/'))
        .map(|point| PathBuf::from(mounts::unescape(point)));
    let around = points.filter(|point| directory.starts_with(point));
    let nearest = around.max_by_key(|point| point.components().count())?;
    // Writes go to the mount at or below the point, around the directory.
    let is_there = |point: &PathBuf| point.starts_with(&nearest) && directory.starts_with(point);
    (!mounted.iter().any(is_there)).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_of_the_table_where_nothing_is_mounted_is_found() {
        let table = "# comment /mnt/c\n/dev/vda1 / ext4 rw 0 1\n\
            nas:/x /mnt/nas nfs noauto 0 0\nUUID=1 /mnt/a\\040b xfs rw 0 2\n/dev/vdb none swap sw 0 0\n";
        let mounted = |extra: &[&str]| -> Vec<PathBuf> {
            ["/", "/proc"]
                .iter()
                .chain(extra)
                .map(PathBuf::from)
                .collect()
        };
        for (extra, directory, expect) in [
            (&[][..], "/mnt/nas", Some("/mnt/nas")),
            (&[], "/mnt/nas/deep", Some("/mnt/nas")),
            (&["/mnt/nas"], "/mnt/nas", None),
            (&["/mnt/nas"], "/mnt/nas/deep", None),
            (&["/mnt/nas/deep"], "/mnt/nas/deep/er", None),
            (&[], "/mnt/a b", Some("/mnt/a b")),
            (&[], "/mnt/nasty", None),
            (&[], "/mnt/c", None),
            (&[], "/home", None),
        ] {
            let found = unmounted_in(table, &mounted(extra), Path::new(directory));
            assert_eq!(found, expect.map(PathBuf::from), "{directory}");
        }
        assert_eq!(unmounted_in("", &[], Path::new("/")), None);
    }

    #[test]
    fn memory_is_known_by_its_name_and_disks_by_their_way() {
        for (name, expect) in [
            ("zram0", true),
            ("ram15", true),
            ("nullb0", true),
            ("ramdisk", false),
            ("vda", false),
            ("nvme0n1", false),
        ] {
            assert_eq!(memory_device(name).is_some(), expect, "{name}");
        }
        for (folder, expect) in [
            (
                "/sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda",
                "virtio",
            ),
            (
                "/sys/devices/pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0/nvme0n1",
                "nvme",
            ),
            (
                "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda",
                "sata",
            ),
            (
                "/sys/devices/platform/host2/session1/target2:0:0/2:0:0:1/block/sdb",
                "iscsi",
            ),
            ("/sys/devices/virtual/block/nbd0", "nbd"),
            ("/sys/devices/virtual/block/zzz", ""),
        ] {
            assert_eq!(attachment(folder), expect, "{folder}");
        }
    }

    #[test]
    fn files_in_memory_are_said_to_be() {
        let is_tmpfs = mounts::containing(Path::new("/dev/shm"))
            .ok()
            .flatten()
            .is_some_and(|mount| mount.file_system == "tmpfs");
        if !is_tmpfs {
            eprintln!("SKIPPED: /dev/shm is no tmpfs");
            return;
        }
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let medium = below(dir.path());
        assert_eq!(medium.in_memory.as_deref(), Some("tmpfs"));
        assert!(medium.disks.is_empty());
    }
}
