// SPDX-License-Identifier: Apache-2.0
//! The parts of devices, and which of them are ways to the same disk, as the kernel reports it.
//!
//! Names are those that PCP gives: volumes of the device mapper and arrays by the names their users
//! gave them, a disk that is reached on several ways by its world-wide name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_core::profile::{DeviceComposition, DeviceKind};
use plimsoll_core::recording::{DeviceCounterSample, DiskCounters};

use super::{DEVICES, NO_DISKS};

/// Links to arrays by the names their users gave them.
const ARRAYS: &str = "/dev/md";

/// How the device mapper marks a multipath device, before the disk's world-wide name.
const MULTIPATH: &str = "mpath-";

/// Devices by what they are made of. Looked up when a device comes, and known until it goes.
#[derive(Debug)]
pub struct DeviceLayerCache {
    devices: PathBuf,
    arrays: PathBuf,
    known: BTreeMap<String, DeviceLayerInfo>,
}

/// The layers of a device.
#[derive(Debug, Clone)]
struct DeviceLayerInfo {
    layer: DeviceKind,
    name: String,
    /// Whether it is recorded without having been named.
    is_common: bool,
    /// The disk that it is a way to, by its world-wide name and its size.
    way_to: Option<(String, String)>,
}

impl Default for DeviceLayerCache {
    fn default() -> Self {
        DeviceLayerCache {
            devices: DEVICES.into(),
            arrays: ARRAYS.into(),
            known: BTreeMap::new(),
        }
    }
}

impl DeviceLayerCache {
    /// The devices to record, of those with these counters: the `wanted` ones by the kernel's
    /// names, or all whole disks, their partitions, volumes and arrays; and, where several of them
    /// are ways to the same disk, that disk.
    pub fn found(
        &mut self,
        counted: Vec<(String, DiskCounters)>,
        wanted: &[String],
    ) -> Vec<DeviceCounterSample> {
        self.look_up(&counted);
        let mut found = Vec::new();
        let mut disks: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
        for (name, counted) in counted {
            let known = &self.known[&name];
            let is_wanted = match wanted {
                [] => known.is_common,
                _ => wanted.contains(&name),
            };
            if !is_wanted {
                continue;
            }
            if let Some(disk) = &known.way_to {
                disks.entry(disk.clone()).or_default().push(found.len());
            }
            found.push(DeviceCounterSample {
                name: known.name.clone(),
                made: DeviceComposition::of(known.layer),
                counted,
            });
        }
        for ((wwid, _), ways) in disks {
            if ways.len() > 1 {
                let ways: Vec<&DeviceCounterSample> =
                    ways.iter().map(|place| &found[*place]).collect();
                found.push(one_disk(wwid, &ways));
            }
        }
        found
    }

    fn look_up(&mut self, counted: &[(String, DiskCounters)]) {
        let there: BTreeSet<&str> = counted.iter().map(|(name, _)| &**name).collect();
        let is_same = there.len() == self.known.len()
            && self.known.keys().all(|name| there.contains(&**name));
        if is_same {
            return;
        }
        self.known.retain(|name, _| there.contains(&**name));
        for name in there {
            if !self.known.contains_key(name) {
                self.known.insert(name.into(), self.device(name));
            }
        }
        // Which ways a multipath device has may have changed with what came.
        let volumes: Vec<String> = self.known.keys().cloned().collect();
        for volume in volumes.iter().filter(|name| name.starts_with("dm-")) {
            self.note_ways(volume);
        }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.devices.join(name.replace('/', "!"))
    }

    fn device(&self, name: &str) -> DeviceLayerInfo {
        let folder = self.folder(name);
        let known = |layer, name: String, is_common, way_to| DeviceLayerInfo {
            layer,
            name,
            is_common,
            way_to,
        };
        let is_disk = !NO_DISKS.iter().any(|begin| name.starts_with(begin));
        if folder.join("partition").exists() {
            return known(DeviceKind::Partition, name.into(), is_disk, None);
        }
        if name.starts_with("dm-") {
            // One that has no name is being made or removed.
            let given = line(&folder.join("dm/name"));
            let is_common = given.is_some();
            return known(
                DeviceKind::DeviceMapper,
                given.unwrap_or(name.into()),
                is_common,
                None,
            );
        }
        if name.starts_with("md") {
            return known(DeviceKind::Md, self.array_name(name), true, None);
        }
        let layer = match name.starts_with("loop") {
            true => DeviceKind::Loop,
            false => DeviceKind::Disk,
        };
        let wwid = ["device/wwid", "wwid"].map(|file| line(&folder.join(file)));
        let wwid = wwid.into_iter().flatten().next().filter(|_| is_disk);
        let size = line(&folder.join("size")).unwrap_or_default();
        known(
            layer,
            name.into(),
            is_disk,
            wwid.map(|wwid| (canonical(&wwid), size)),
        )
    }

    /// The name of an array by which its user calls it.
    fn array_name(&self, name: &str) -> String {
        let links = fs::read_dir(&self.arrays).into_iter().flatten().flatten();
        let mut links = links.filter(|link| {
            let target = fs::read_link(link.path()).unwrap_or_default();
            target.file_name().is_some_and(|file| file == name)
        });
        let given = links.find_map(|link| {
            let given = link.file_name().to_string_lossy().into_owned();
            // A mere number is no name.
            (!given.starts_with(|c: char| c.is_ascii_digit())).then_some(given)
        });
        given.unwrap_or_else(|| name.into())
    }

    /// The devices below a multipath device are ways to its disk, whatever they say of themselves.
    fn note_ways(&mut self, volume: &str) {
        let folder = self.folder(volume);
        let Some(uuid) = line(&folder.join("dm/uuid")) else {
            return;
        };
        let Some(wwid) = uuid.strip_prefix(MULTIPATH) else {
            return;
        };
        let size = line(&folder.join("size")).unwrap_or_default();
        let below = fs::read_dir(folder.join("slaves")).into_iter().flatten();
        for way in below.flatten() {
            let name = way.file_name().to_string_lossy().replace('!', "/");
            if let Some(known) = self.known.get_mut(&name) {
                known.way_to = Some((wwid.into(), size.clone()));
            }
        }
    }
}

/// A disk as its ways together.
fn one_disk(wwid: String, ways: &[&DeviceCounterSample]) -> DeviceCounterSample {
    let counted = ways.iter().map(|way| way.counted);
    DeviceCounterSample {
        name: wwid,
        made: DeviceComposition {
            layer: DeviceKind::Multipath,
            paths: ways.iter().map(|way| way.name.clone()).collect(),
        },
        counted: counted.reduce(DiskCounters::plus).unwrap_or_default(),
    }
}

/// A world-wide name as the device mapper writes it: its type as a number before it.
fn canonical(wwid: &str) -> String {
    for (kind, number) in [("t10.", '1'), ("eui.", '2'), ("naa.", '3')] {
        if let Some(rest) = wwid.strip_prefix(kind) {
            return format!("{number}{rest}");
        }
    }
    wwid.into()
}

/// The line of a file of the kernel's, unless it is empty.
fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct SysfsFixture(tempfile::TempDir);

    impl SysfsFixture {
        fn new() -> SysfsFixture {
            SysfsFixture(tempfile::tempdir().unwrap())
        }

        fn put(&self, file: &str, text: &str) {
            let path = self.0.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn layers(&self) -> DeviceLayerCache {
            DeviceLayerCache {
                devices: self.0.path().join("block"),
                arrays: self.0.path().join("md"),
                known: BTreeMap::new(),
            }
        }
    }

    fn counted(names: &[&str]) -> Vec<(String, DiskCounters)> {
        let one = |(n, name): (u64, &&str)| {
            let counters = DiskCounters {
                reads: 1 << n,
                ..DiskCounters::default()
            };
            ((*name).to_owned(), counters)
        };
        (0..).zip(names).map(one).collect()
    }

    fn told(found: &[DeviceCounterSample]) -> Vec<String> {
        let one = |f: &DeviceCounterSample| {
            let paths = f.made.paths.join("+");
            let layer = f.made.layer.name();
            format!("{} {layer} {paths}{}", f.name, f.counted.reads)
        };
        found.iter().map(one).collect()
    }

    #[test]
    fn devices_have_the_names_their_users_gave_them_and_what_is_no_disk_is_left_out() {
        let tree = SysfsFixture::new();
        tree.put("block/sda1/partition", "1\n");
        tree.put("block/loop0p1/partition", "1\n");
        tree.put("block/dm-0/dm/name", "vg-root\n");
        fs::create_dir_all(tree.0.path().join("md")).unwrap();
        symlink("../md127", tree.0.path().join("md/backup")).unwrap();
        symlink("../md1", tree.0.path().join("md/1")).unwrap();
        let all = [
            "sda", "sda1", "dm-0", "dm-1", "md127", "md1", "loop0", "loop0p1", "zram0",
        ];
        let mut layers = tree.layers();
        let found = layers.found(counted(&all), &[]);
        let expect = [
            "sda disk 1",
            "sda1 partition 2",
            "vg-root device mapper 4",
            "backup md 16",
            "md1 md 32",
        ];
        assert_eq!(told(&found), expect);
        let named = ["loop0", "dm-1"].map(Into::into);
        let found = layers.found(counted(&all), &named);
        assert_eq!(told(&found), ["dm-1 device mapper 8", "loop0 loop 64"]);
    }

    #[test]
    fn ways_to_one_disk_are_that_disk_once_more() {
        let tree = SysfsFixture::new();
        for (disk, wwid, size) in [
            ("sda", "naa.6001", "8"),
            ("sdb", "naa.6001", "8"),
            ("sdc", "naa.6002", "8"),
            // Cheap bridges give all disks the same name.
            ("sdd", "naa.6001", "9"),
        ] {
            tree.put(&format!("block/{disk}/device/wwid"), wwid);
            tree.put(&format!("block/{disk}/size"), size);
        }
        let mut layers = tree.layers();
        let found = layers.found(counted(&["sda", "sdb", "sdc", "sdd"]), &[]);
        let disks = told(&found);
        assert_eq!(disks.len(), 5);
        assert_eq!(disks[4], "36001 multipath sda+sdb3");
        // Only one of them is recorded.
        let found = layers.found(counted(&["sda", "sdb"]), &["sda".into()]);
        assert_eq!(told(&found), ["sda disk 1"]);
        // They say nothing, and the device above them does.
        let tree = SysfsFixture::new();
        tree.put("block/dm-0/dm/name", "data");
        tree.put("block/dm-0/dm/uuid", "mpath-3600a");
        for way in ["sda", "sdb"] {
            tree.put(&format!("block/dm-0/slaves/{way}/dev"), "8:0");
        }
        let found = tree.layers().found(counted(&["sda", "sdb", "dm-0"]), &[]);
        assert_eq!(
            told(&found)[2..],
            ["data device mapper 4", "3600a multipath sda+sdb3"]
        );
    }
}
