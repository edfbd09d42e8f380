// SPDX-License-Identifier: Apache-2.0
//! The devices of a recording: the load of each, and whose load is counted twice.
//!
//! Layer by name only: what a recording calls a device is all there is to go by. [`NAMES`] is the one
//! table of what names imply.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Kind of device, as far as its name implies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A whole disk, or anything whose name implies nothing else.
    Disk,
    /// A part of a disk.
    Partition,
    /// A volume of the device mapper (LVM, encryption).
    DeviceMapper,
    /// A multipath device: several ways to the same disk.
    Multipath,
    /// A software RAID.
    Md,
    /// A file that is used as a disk.
    Loop,
    /// A volume with a drive letter, beside the disk it lies on (Windows).
    Volume,
    /// A disk with a cache in front of it (bcache).
    Cache,
    /// A disk that is copied to another machine (DRBD).
    Replica,
    /// A volume of ZFS.
    Zvol,
    /// Memory that is used as a disk, mostly to swap to (zram).
    Memory,
    /// One way to a disk of several ways (NVMe, esxtop's adapters and LUNs).
    Path,
    /// A disk of a virtual machine.
    VirtualDisk,
    /// The sum of others: a virtual machine, an adapter.
    Total,
}

impl DeviceKind {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Disk => "disk",
            DeviceKind::Partition => "partition",
            DeviceKind::DeviceMapper => "device mapper",
            DeviceKind::Multipath => "multipath",
            DeviceKind::Md => "md",
            DeviceKind::Loop => "loop",
            DeviceKind::Volume => "volume",
            DeviceKind::Cache => "bcache",
            DeviceKind::Replica => "drbd",
            DeviceKind::Zvol => "zvol",
            DeviceKind::Memory => "memory",
            DeviceKind::Path => "path",
            DeviceKind::VirtualDisk => "virtual disk",
            DeviceKind::Total => "total",
        }
    }

    /// The layer of the device `name` among all devices of its recording, and the device it is a
    /// part of, for a partition.
    fn of<'a>(name: &'a str, all: &DeviceNames<'_>) -> (DeviceKind, Option<&'a str>) {
        if let Some(disk) = parent(name) {
            return (DeviceKind::Partition, Some(disk));
        }
        let known = NAMES.iter().find(|(prefix, rest, _)| {
            let behind = name.strip_prefix(prefix);
            behind.is_some_and(|behind| rest.fits(behind))
        });
        let layer = match known {
            Some((.., layer)) => *layer,
            None if is_nvme_path(name) => DeviceKind::Path,
            None if all.is_letter_of_a_disk(name) => DeviceKind::Volume,
            None if all.has_parts_of(name) => DeviceKind::Total,
            // Names that iostat -N gives to volumes of the device mapper.
            None if name.contains('-') && !name.starts_with("dev") && all.has_hardware => {
                DeviceKind::DeviceMapper
            }
            None => DeviceKind::Disk,
        };
        (layer, None)
    }
}

/// Characters behind the prefix of a name.
#[derive(Debug, Clone, Copy)]
enum Rest {
    Number,
    Letters,
    Anything,
}

impl Rest {
    fn fits(self, rest: &str) -> bool {
        match self {
            Rest::Number => is_number(rest),
            Rest::Letters => !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_lowercase()),
            Rest::Anything => true,
        }
    }
}

/// Names of layers above disks.
const NAMES: [(&str, Rest, DeviceKind); 18] = [
    ("dm-", Rest::Number, DeviceKind::DeviceMapper),
    ("VxVM", Rest::Number, DeviceKind::DeviceMapper),
    ("mpath", Rest::Anything, DeviceKind::Multipath),
    ("emcpower", Rest::Number, DeviceKind::Multipath),
    ("emcpower", Rest::Letters, DeviceKind::Multipath),
    ("hdiskpower", Rest::Number, DeviceKind::Multipath),
    ("VxDMP", Rest::Number, DeviceKind::Multipath),
    ("md", Rest::Number, DeviceKind::Md),
    ("dev9-", Rest::Number, DeviceKind::Md),
    ("md_", Rest::Anything, DeviceKind::Md),
    ("loop", Rest::Number, DeviceKind::Loop),
    ("dev7-", Rest::Number, DeviceKind::Loop),
    ("bcache", Rest::Number, DeviceKind::Cache),
    ("drbd", Rest::Number, DeviceKind::Replica),
    ("dev147-", Rest::Number, DeviceKind::Replica),
    ("zd", Rest::Number, DeviceKind::Zvol),
    ("zram", Rest::Number, DeviceKind::Memory),
    ("ram", Rest::Number, DeviceKind::Memory),
];

/// Kinds of disks that have letters, and numbers for their parts.
const LETTERED: [&str; 6] = ["sd", "vd", "xvd", "hd", "dasd", "ubd"];
/// Kinds of disks that have numbers, and a `p` before that of a part.
const NUMBERED: [&str; 14] = [
    "nvme", "mmcblk", "md", "loop", "nbd", "rbd", "bcache", "drbd", "zd", "pmem", "cciss/c",
    "cciss!c", "ida/c", "rd/c",
];

/// `nvme0c1n1`, a way to `nvme0n1`.
fn is_nvme_path(name: &str) -> bool {
    let numbers = name.strip_prefix("nvme").map(|rest| rest.split(['c', 'n']));
    let is_way = name.contains('c') && name.contains('n');
    is_way
        && numbers.is_some_and(|mut numbers| numbers.clone().count() == 3 && numbers.all(is_number))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a name is that of hardware, or of what a virtual machine takes for it.
fn is_hardware(name: &str) -> bool {
    let is = |kinds: &[&str], fits: fn(&str) -> bool| {
        let mut kinds = kinds.iter();
        kinds.any(|kind| name.strip_prefix(kind).is_some_and(fits))
    };
    let starts_with_digit = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    is(&LETTERED, |rest| Rest::Letters.fits(rest))
        || is(&["nvme", "mmcblk", "cciss/c"], starts_with_digit)
}

/// The names of all devices of a recording, and what they imply together.
struct DeviceNames<'a> {
    all: BTreeSet<&'a str>,
    /// The names that others begin with, up to a colon.
    totals: BTreeSet<&'a str>,
    /// The drive letters of disks such as `0 C: D:`.
    letters: BTreeSet<&'a str>,
    has_hardware: bool,
}

impl<'a> DeviceNames<'a> {
    fn of(names: &[&'a str]) -> DeviceNames<'a> {
        let before_colon = |name: &&'a str| {
            let (before, behind) = name.split_once(':')?;
            (!behind.is_empty()).then_some(before)
        };
        let letters = |name: &&'a str| {
            let (number, letters) = name.split_once(' ')?;
            is_number(number).then(|| letters.split(' '))
        };
        DeviceNames {
            all: names.iter().copied().collect(),
            totals: names.iter().filter_map(before_colon).collect(),
            letters: names.iter().filter_map(letters).flatten().collect(),
            has_hardware: names.iter().any(|name| is_hardware(name)),
        }
    }

    fn contains(&self, name: &str) -> bool {
        self.all.contains(name)
    }

    /// `C:` beside `0 C: D:`.
    fn is_letter_of_a_disk(&self, name: &str) -> bool {
        name.ends_with(':') && self.letters.contains(name)
    }

    /// `vm1` beside `vm1:scsi0:0`.
    fn has_parts_of(&self, name: &str) -> bool {
        self.totals.contains(name)
    }
}

/// The disk whose partition a name denotes: `sda1`, `nvme0n1p2`, `cciss/c0d0p1`, sysstat's
/// `dev8-1` (whose disk has a name that this one does not hold, so it stands for itself).
fn parent(name: &str) -> Option<&str> {
    let disk = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &name[disk.len()..];
    if number.is_empty() || disk.is_empty() {
        return None;
    }
    if let Some(major) = disk.strip_prefix("dev").and_then(|d| d.strip_suffix('-')) {
        // Disks of SCSI have sixteen numbers each, the first for the whole.
        let minor: u32 = number.parse().ok()?;
        return (major == "8" && !minor.is_multiple_of(16)).then_some(name);
    }
    let lettered = LETTERED.iter().any(|kind| {
        let letters = disk.strip_prefix(kind);
        letters.is_some_and(|letters| Rest::Letters.fits(letters))
    });
    if lettered {
        return Some(disk);
    }
    let whole = disk.strip_suffix('p')?;
    let known = NUMBERED.iter().any(|kind| whole.starts_with(kind));
    (known && whole.ends_with(|c: char| c.is_ascii_digit())).then_some(whole)
}

/// Composition of a device, as its recording says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceComposition {
    /// Kind of device.
    pub layer: DeviceKind,
    /// Of a disk that is reached on several ways: these, each of them a device of the recording.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

impl DeviceComposition {
    /// Of this layer, with nothing to be said beyond.
    pub fn of(layer: DeviceKind) -> DeviceComposition {
        DeviceComposition {
            layer,
            paths: Vec::new(),
        }
    }
}

/// A device beside the others of its recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceClassification {
    /// Kind of device.
    pub layer: DeviceKind,
    /// Whether its load is that of other devices of the recording, seen again.
    pub counted_again: bool,
}

impl DeviceClassification {
    /// Of each of the devices of a recording, by what is recorded of it (`told`), else by its name.
    pub fn of(
        names: &[String],
        told: &dyn Fn(&str) -> Option<DeviceComposition>,
    ) -> Vec<DeviceClassification> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all = DeviceNames::of(&names);
        let made: Vec<Option<DeviceComposition>> = names.iter().map(|name| told(name)).collect();
        let layers = names.iter().zip(&made).map(|(name, made)| {
            let (layer, disk) = DeviceKind::of(name, &all);
            let told = made.as_ref().map(|made| made.layer);
            // That it is the sum of others its name knows best.
            (
                told.filter(|_| layer != DeviceKind::Total).unwrap_or(layer),
                disk,
            )
        });
        let layers: Vec<(DeviceKind, Option<&str>)> = layers.collect();
        let several = |made: &&DeviceComposition| made.paths.iter().all(|way| all.contains(way));
        let several = |made: &&DeviceComposition| made.paths.len() > 1 && several(made);
        let ways: BTreeSet<&str> = (made.iter().flatten().filter(several))
            .flat_map(|disk| disk.paths.iter().map(String::as_str))
            .collect();
        let is_disk = |layer: DeviceKind| matches!(layer, DeviceKind::Disk | DeviceKind::Partition);
        let has_disks = layers.iter().any(|(layer, _)| is_disk(*layer));
        let has_whole = layers.iter().any(|(layer, _)| *layer == DeviceKind::Disk);
        let each = names.iter().zip(&made).zip(layers);
        each.map(|((name, made), (layer, disk))| DeviceClassification {
            layer,
            counted_again: match disk {
                _ if made.as_ref().is_some_and(|made| several(&made)) => false,
                _ if ways.contains(name) => true,
                Some(disk) if disk == *name => is_scsi_whole_there(disk, &all),
                Some(disk) => all.contains(disk),
                None if layer == DeviceKind::Total => true,
                None if layer == DeviceKind::Partition => has_whole,
                None => layer != DeviceKind::Disk && has_disks,
            },
        })
        .collect()
    }
}

/// Load of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceLoad {
    /// Its name in the recording.
    pub name: String,
    /// Kind of device.
    pub layer: DeviceKind,
    /// Whether its load is that of other devices of the recording, seen again: it is left out of
    /// the totals.
    pub counted_again: bool,
    /// Operations per second over time; `None` when they were not recorded.
    pub ops_per_s: Option<f64>,
    /// Reads among the operations, 0..=1; `None` when they are not distinguished or there are none.
    pub read_share: Option<f64>,
    /// Bytes per second over time, read and written; `None` when they were not recorded.
    pub bytes_per_s: Option<f64>,
    /// Share of the time with something in flight, 0..=1.
    pub busy: Option<f64>,
    /// Mean operations waiting or being served: integrated, or the time of all operations by
    /// Little's law; never sampled.
    pub queue: Option<f64>,
    /// Mean response time in milliseconds: the time of all operations over their number; without
    /// such times `queue` over the rate (Little's law).
    pub response_ms: Option<f64>,
}

/// By what devices are ranked: the first of these that all devices with any load have; where there is none
/// such, the last one that some have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceRankingKey {
    /// The time their operations took together.
    Queue,
    /// The time they were busy.
    Busy,
    /// Their operations.
    Operations,
    /// Their bytes, read and written.
    Bytes,
}

/// All devices of a recording, most loaded first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRanking {
    /// By what they are ranked.
    pub ranked_by: DeviceRankingKey,
    /// The devices. What is counted again stands where its load puts it.
    pub devices: Vec<DeviceLoad>,
    /// Operations per second of all devices that are not counted again; `None` when none has them.
    pub ops_per_s: Option<f64>,
    /// Bytes per second of the same.
    pub bytes_per_s: Option<f64>,
}

impl DeviceRanking {
    /// Ranks devices, and finds out which of them are layers above others, or ways to one: by what
    /// is recorded of them (`told`), else by their names. Their `layer` and `counted_again` are set here.
    pub fn rank(
        mut devices: Vec<DeviceLoad>,
        told: &dyn Fn(&str) -> Option<DeviceComposition>,
    ) -> DeviceRanking {
        let names: Vec<String> = devices.iter().map(|d| d.name.clone()).collect();
        let sides = DeviceClassification::of(&names, told);
        for (device, side) in devices.iter_mut().zip(sides) {
            device.layer = side.layer;
            device.counted_again = side.counted_again;
        }
        let ranked_by = ranked_by(&devices);
        let known = |figure: Option<f64>| figure.unwrap_or_default();
        let key = |device: &DeviceLoad| {
            let by = known(ranked_by.figure(device));
            [by, known(device.ops_per_s), known(device.bytes_per_s)]
        };
        // Stable: devices without a load keep their recorded order.
        devices.sort_by(|a, b| {
            let pairs = key(b).into_iter().zip(key(a));
            pairs.fold(Ordering::Equal, |order, (b, a)| order.then(b.total_cmp(&a)))
        });
        let sum = |of: fn(&DeviceLoad) -> Option<f64>| {
            let counted = devices.iter().filter(|device| !device.counted_again);
            counted.filter_map(of).reduce(|a, b| a + b)
        };
        let (ops_per_s, bytes_per_s) = (sum(|d| d.ops_per_s), sum(|d| d.bytes_per_s));
        DeviceRanking {
            ranked_by,
            devices,
            ops_per_s,
            bytes_per_s,
        }
    }

    /// The device with the most load, one that is not counted again if there is any.
    pub fn busiest(&self) -> Option<&DeviceLoad> {
        let first = self.devices.iter().find(|device| !device.counted_again);
        first.or(self.devices.first())
    }
}

/// Whether the whole disk of sysstat's `dev8-17` is among the devices: `dev8-16`.
fn is_scsi_whole_there(name: &str, all: &DeviceNames<'_>) -> bool {
    let minor = name
        .strip_prefix("dev8-")
        .and_then(|m| m.parse::<u32>().ok());
    minor.is_some_and(|minor| all.contains(&format!("dev8-{}", minor / 16 * 16)))
}

impl DeviceRankingKey {
    const ALL: [DeviceRankingKey; 4] = [
        DeviceRankingKey::Queue,
        DeviceRankingKey::Busy,
        DeviceRankingKey::Operations,
        DeviceRankingKey::Bytes,
    ];

    fn figure(self, device: &DeviceLoad) -> Option<f64> {
        match self {
            DeviceRankingKey::Queue => device.queue,
            DeviceRankingKey::Busy => device.busy,
            DeviceRankingKey::Operations => device.ops_per_s,
            DeviceRankingKey::Bytes => device.bytes_per_s,
        }
    }
}

fn ranked_by(devices: &[DeviceLoad]) -> DeviceRankingKey {
    let has_load = |device: &&DeviceLoad| {
        let figures = DeviceRankingKey::ALL.map(|by| by.figure(device));
        figures.into_iter().flatten().any(|figure| figure > 0.0)
    };
    let loaded: Vec<&DeviceLoad> = devices.iter().filter(has_load).collect();
    let tells = |by: &DeviceRankingKey, all: bool| match all {
        true => loaded.iter().all(|device| by.figure(device).is_some()),
        false => loaded.iter().any(|device| by.figure(device).is_some()),
    };
    let by_all = DeviceRankingKey::ALL.into_iter().find(|by| tells(by, true));
    let by_some = || {
        DeviceRankingKey::ALL
            .into_iter()
            .rfind(|by| tells(by, false))
    };
    by_all
        .or_else(by_some)
        .unwrap_or(DeviceRankingKey::Operations)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, ops_per_s: f64, busy: Option<f64>) -> DeviceLoad {
        DeviceLoad {
            name: name.into(),
            layer: DeviceKind::Disk,
            counted_again: false,
            ops_per_s: Some(ops_per_s),
            read_share: None,
            bytes_per_s: Some(ops_per_s * 4096.0),
            busy,
            queue: None,
            response_ms: None,
        }
    }

    fn again(names: &[&str]) -> Vec<String> {
        let devices = names.iter().map(|name| device(name, 1.0, None)).collect();
        let ranked = DeviceRanking::rank(devices, &|_| None);
        let again = ranked.devices.into_iter().filter(|d| d.counted_again);
        again
            .map(|d| format!("{} {}", d.name, d.layer.name()))
            .collect()
    }

    #[test]
    fn layers_above_recorded_disks_are_counted_again() {
        let linux = [
            "sda", "sda1", "dm-0", "md127", "loop3", "sdb1", "vdaa", "sr0",
        ];
        let expect = [
            "sda1 partition",
            "dm-0 device mapper",
            "md127 md",
            "loop3 loop",
        ];
        assert_eq!(again(&linux), expect);
        let others = [
            "nvme0n1",
            "nvme0n1p2",
            "nvme1n1",
            "mmcblk0p1",
            "mpatha",
            "hdisk0",
        ];
        assert_eq!(again(&others), ["nvme0n1p2 partition", "mpatha multipath"]);
        let sysstat = ["dev8-0", "dev8-1", "dev8-16", "dev8-33", "dev9-0"];
        assert_eq!(again(&sysstat), ["dev8-1 partition", "dev9-0 md"]);
        let windows = ["0 C:", "C:", "D:"];
        assert_eq!(again(&windows), ["C: volume"]);
    }

    #[test]
    fn layers_without_their_disks_are_all_there_is() {
        assert_eq!(again(&["dm-0", "dm-1"]), Vec::<String>::new());
        assert_eq!(again(&["F:", "D:_C:_H:"]), Vec::<String>::new());
        assert_eq!(again(&["", "7", "p1", "dev8-"]), Vec::<String>::new());
    }

    #[test]
    fn devices_are_ranked_by_what_all_of_them_tell_and_summed_once() {
        let busy = |name: &str, ops, busy| device(name, ops, Some(busy));
        let ranked = DeviceRanking::rank(
            vec![
                busy("sda", 10.0, 0.2),
                busy("sdb", 5.0, 0.9),
                busy("dm-0", 15.0, 0.95),
                device("sdc", 0.0, None),
            ],
            &|_| None,
        );
        let order: Vec<&str> = ranked.devices.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(order, ["dm-0", "sdb", "sda", "sdc"]);
        assert_eq!(ranked.ranked_by, DeviceRankingKey::Busy);
        assert_eq!(ranked.busiest().unwrap().name, "sdb");
        assert!((ranked.ops_per_s.unwrap() - 15.0).abs() < 1e-9);
        let ranked = DeviceRanking::rank(
            vec![device("sda", 1.0, None), busy("sdb", 0.5, 0.9)],
            &|_| None,
        );
        assert_eq!(ranked.ranked_by, DeviceRankingKey::Operations);
        assert_eq!(ranked.busiest().unwrap().name, "sda");
        let none = DeviceRanking::rank(Vec::new(), &|_| None);
        assert_eq!((none.busiest(), none.bytes_per_s), (None, None));
    }

    #[test]
    fn what_no_device_tells_ranks_none_and_is_no_sum() {
        let bytes = |name: &str, bytes_per_s| DeviceLoad {
            ops_per_s: None,
            bytes_per_s: Some(bytes_per_s),
            ..device(name, 0.0, None)
        };
        let ranked = DeviceRanking::rank(
            vec![bytes("sda", 84.0), bytes("sdb", 0.0), bytes("sdr", 1005.0)],
            &|_| None,
        );
        assert_eq!(ranked.ranked_by, DeviceRankingKey::Bytes);
        assert_eq!(ranked.busiest().unwrap().name, "sdr");
        assert_eq!((ranked.ops_per_s, ranked.bytes_per_s), (None, Some(1089.0)));
    }

    #[test]
    fn every_way_to_name_a_layer_is_set_aside() {
        let linux = [
            "sda",
            "nvme0n1",
            "nvme0c0n1",
            "nvme0c1n1",
            "bcache0",
            "drbd0",
            "drbd0p1",
            "zd0",
            "zd16p1",
            "cciss/c0d0",
            "cciss/c0d0p1",
            "emcpowera",
            "vg-root",
            "nbd0",
            "zram0",
        ];
        let expect = [
            "nvme0c0n1 path",
            "nvme0c1n1 path",
            "bcache0 bcache",
            "drbd0 drbd",
            "drbd0p1 partition",
            "zd0 zvol",
            "cciss/c0d0p1 partition",
            "emcpowera multipath",
            "vg-root device mapper",
            "zram0 memory",
        ];
        assert_eq!(again(&linux), expect);
        let vmware = ["vmhba1", "vmhba1:0:0", "vm1", "vm1:scsi0:0", "naa.6000-c29"];
        assert_eq!(again(&vmware), ["vmhba1 total", "vm1 total"]);
        assert_eq!(again(&["0 C: D:", "C:", "D:"]), ["C: volume", "D: volume"]);
        // Nothing below them was recorded.
        assert_eq!(again(&["nvme0c0n1", "nvme0c1n1"]), Vec::<String>::new());
    }

    #[test]
    fn what_a_recording_tells_goes_before_names_and_ways_to_a_disk_are_set_aside() {
        let names = ["sda", "sdb", "sdc", "36001", "data", "backup", "c1"].map(String::from);
        let told = |name: &str| match name {
            "36001" => Some(DeviceComposition {
                layer: DeviceKind::Multipath,
                paths: ["sda", "sdb"].map(Into::into).to_vec(),
            }),
            "data" => Some(DeviceComposition::of(DeviceKind::DeviceMapper)),
            "backup" => Some(DeviceComposition::of(DeviceKind::Md)),
            "c1" => Some(DeviceComposition::of(DeviceKind::Partition)),
            _ => None,
        };
        let again = |names: &[String]| -> Vec<String> {
            let sides = DeviceClassification::of(names, &told);
            let both = names.iter().zip(sides);
            let again = both.filter(|(_, side)| side.counted_again);
            again.map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(again(&names), ["sda", "sdb", "data", "backup", "c1"]);
        // One of the ways was not recorded: the other stands for itself.
        let some = ["sda", "sdc", "36001"].map(String::from);
        assert_eq!(again(&some), ["36001"]);
        // Nothing below was recorded.
        let above = ["data", "backup"].map(String::from);
        assert_eq!(again(&above), Vec::<String>::new());
    }
}
