// SPDX-License-Identifier: Apache-2.0
//! The devices of a recording side by side: who carries how much, and whose load is counted twice.
//!
//! Layer by name only: what a recording calls a device is all there is to go by.

use serde::{Deserialize, Serialize};

/// What a device is made of, as far as its name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// A whole disk, or what its name does not tell to be anything else.
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
}

impl Layer {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layer::Disk => "disk",
            Layer::Partition => "partition",
            Layer::DeviceMapper => "device mapper",
            Layer::Multipath => "multipath",
            Layer::Md => "md",
            Layer::Loop => "loop",
            Layer::Volume => "volume",
        }
    }

    /// The layer of the device `name` among all devices of its recording, and the device it is a
    /// part of, for a partition.
    fn of<'a>(name: &'a str, all: &[&str]) -> (Layer, Option<&'a str>) {
        let numbered = |prefix: &str| name.strip_prefix(prefix).is_some_and(is_number);
        if let Some(disk) = parent(name) {
            return (Layer::Partition, Some(disk));
        }
        let lies_on = |disk: &&str| {
            let number = disk.strip_suffix(name).and_then(|n| n.strip_suffix(' '));
            number.is_some_and(is_number)
        };
        let layer = if numbered("dm-") {
            Layer::DeviceMapper
        } else if name.starts_with("mpath") || numbered("emcpower") {
            Layer::Multipath
        } else if numbered("md") || numbered("dev9-") || name.starts_with("md_") {
            Layer::Md
        } else if numbered("loop") || numbered("dev7-") {
            Layer::Loop
        } else if name.ends_with(':') && all.iter().any(lies_on) {
            Layer::Volume
        } else {
            Layer::Disk
        };
        (layer, None)
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The disk of which a name tells a partition: `sda1`, `nvme0n1p2`, sysstat's `dev8-1` (whose disk
/// has a name that this one does not hold, so it stands for itself).
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
    let lettered = ["sd", "vd", "xvd", "hd", "dasd"].iter().any(|kind| {
        let letters = disk.strip_prefix(kind);
        letters.is_some_and(|l| !l.is_empty() && l.bytes().all(|b| b.is_ascii_lowercase()))
    });
    if lettered {
        return Some(disk);
    }
    let whole = disk.strip_suffix('p')?;
    let kinds = ["nvme", "mmcblk", "md", "loop", "nbd", "rbd"];
    let known = kinds.iter().any(|kind| whole.starts_with(kind));
    (known && whole.ends_with(|c: char| c.is_ascii_digit())).then_some(whole)
}

/// What a device is made of, as its recording tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// What it is.
    pub layer: Layer,
    /// Of a disk that is reached on several ways: these, each of them a device of the recording.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

impl Made {
    /// Of this layer, with nothing to be said beyond.
    #[must_use]
    pub fn of(layer: Layer) -> Made {
        Made {
            layer,
            paths: Vec::new(),
        }
    }
}

/// A device beside the others of its recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// What it is made of.
    pub layer: Layer,
    /// Whether its load is that of other devices of the recording, seen again.
    pub counted_again: bool,
}

impl Side {
    /// Of each of the devices of a recording, by what is `told` of it, else by its name.
    #[must_use]
    pub fn of(names: &[String], told: &dyn Fn(&str) -> Option<Made>) -> Vec<Side> {
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let made: Vec<Option<Made>> = all.iter().map(|name| told(name)).collect();
        let layers = all.iter().zip(&made).map(|(name, made)| {
            let (layer, disk) = Layer::of(name, &all);
            (made.as_ref().map_or(layer, |made| made.layer), disk)
        });
        let layers: Vec<(Layer, Option<&str>)> = layers.collect();
        let several = |made: &&Made| made.paths.iter().all(|way| all.contains(&&**way));
        let several = |made: &&Made| made.paths.len() > 1 && several(made);
        let disks: Vec<&Made> = made.iter().flatten().filter(several).collect();
        let is_way = |name: &&str| {
            disks
                .iter()
                .any(|disk| disk.paths.iter().any(|w| w == name))
        };
        let is_disk = |layer: Layer| matches!(layer, Layer::Disk | Layer::Partition);
        let has_disks = layers.iter().any(|(layer, _)| is_disk(*layer));
        let has_whole = layers.iter().any(|(layer, _)| *layer == Layer::Disk);
        let each = all.iter().zip(&made).zip(layers);
        each.map(|((name, made), (layer, disk))| Side {
            layer,
            counted_again: match disk {
                _ if made.as_ref().is_some_and(|made| several(&made)) => false,
                _ if is_way(name) => true,
                Some(disk) if disk == *name => is_scsi_whole_there(disk, &all),
                Some(disk) => all.contains(&disk),
                None if layer == Layer::Partition => has_whole,
                None => layer != Layer::Disk && has_disks,
            },
        })
        .collect()
    }
}

/// What one device did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceLoad {
    /// Its name in the recording.
    pub name: String,
    /// What it is made of.
    pub layer: Layer,
    /// Whether its load is that of other devices of the recording, seen again: it is left out of
    /// the totals.
    pub counted_again: bool,
    /// Operations per second over time.
    pub ops_per_s: f64,
    /// Reads among the operations, 0..=1; `None` when they are not told apart or there are none.
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

/// By what devices are ranked: the first of these that all devices with any load tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankedBy {
    /// The time their operations took together.
    Queue,
    /// The time they were busy.
    Busy,
    /// Their operations.
    Operations,
}

/// All devices of a recording, most loaded first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Devices {
    /// By what they are ranked.
    pub ranked_by: RankedBy,
    /// The devices. What is counted again stands where its load puts it.
    pub devices: Vec<DeviceLoad>,
    /// Operations per second of all devices that are not counted again.
    pub ops_per_s: f64,
    /// Bytes per second of the same.
    pub bytes_per_s: f64,
}

impl Devices {
    /// Ranks devices, and finds out which of them are layers above others, or ways to one: by what
    /// is `told` of them, else by their names. Their `layer` and `counted_again` are set here.
    #[must_use]
    pub fn rank(mut devices: Vec<DeviceLoad>, told: &dyn Fn(&str) -> Option<Made>) -> Devices {
        let names: Vec<String> = devices.iter().map(|d| d.name.clone()).collect();
        let sides = Side::of(&names, told);
        for (device, side) in devices.iter_mut().zip(sides) {
            device.layer = side.layer;
            device.counted_again = side.counted_again;
        }
        let ranked_by = ranked_by(&devices);
        let load = |device: &DeviceLoad| match ranked_by {
            RankedBy::Queue => device.queue.unwrap_or_default(),
            RankedBy::Busy => device.busy.unwrap_or_default(),
            RankedBy::Operations => device.ops_per_s,
        };
        let key = |device: &DeviceLoad| (load(device), device.ops_per_s);
        // Stable: devices without a load keep their recorded order.
        devices.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        let counted = || devices.iter().filter(|device| !device.counted_again);
        let (ops_per_s, bytes_per_s) = (
            counted().map(|d| d.ops_per_s).sum(),
            counted().filter_map(|d| d.bytes_per_s).sum(),
        );
        Devices {
            ranked_by,
            devices,
            ops_per_s,
            bytes_per_s,
        }
    }

    /// The device with the most load, one that is not counted again if there is any.
    #[must_use]
    pub fn busiest(&self) -> Option<&DeviceLoad> {
        let first = self.devices.iter().find(|device| !device.counted_again);
        first.or(self.devices.first())
    }
}

/// Whether the whole disk of sysstat's `dev8-17` is among the devices: `dev8-16`.
fn is_scsi_whole_there(name: &str, all: &[&str]) -> bool {
    let minor = name
        .strip_prefix("dev8-")
        .and_then(|m| m.parse::<u32>().ok());
    minor.is_some_and(|minor| all.contains(&format!("dev8-{}", minor / 16 * 16).as_str()))
}

fn ranked_by(devices: &[DeviceLoad]) -> RankedBy {
    let all_tell = |of: fn(&DeviceLoad) -> Option<f64>| {
        let mut loaded = devices.iter().filter(|d| d.ops_per_s > 0.0);
        loaded.all(|device| of(device).is_some())
    };
    if all_tell(|device| device.queue) {
        RankedBy::Queue
    } else if all_tell(|device| device.busy) {
        RankedBy::Busy
    } else {
        RankedBy::Operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, ops_per_s: f64, busy: Option<f64>) -> DeviceLoad {
        DeviceLoad {
            name: name.into(),
            layer: Layer::Disk,
            counted_again: false,
            ops_per_s,
            read_share: None,
            bytes_per_s: Some(ops_per_s * 4096.0),
            busy,
            queue: None,
            response_ms: None,
        }
    }

    fn again(names: &[&str]) -> Vec<String> {
        let devices = names.iter().map(|name| device(name, 1.0, None)).collect();
        let ranked = Devices::rank(devices, &|_| None);
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
        let ranked = Devices::rank(
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
        assert_eq!(ranked.ranked_by, RankedBy::Busy);
        assert_eq!(ranked.busiest().unwrap().name, "sdb");
        assert!((ranked.ops_per_s - 15.0).abs() < 1e-9);
        let ranked = Devices::rank(
            vec![device("sda", 1.0, None), busy("sdb", 0.5, 0.9)],
            &|_| None,
        );
        assert_eq!(ranked.ranked_by, RankedBy::Operations);
        assert_eq!(ranked.busiest().unwrap().name, "sda");
        assert_eq!(Devices::rank(Vec::new(), &|_| None).busiest(), None);
    }

    #[test]
    fn what_a_recording_tells_goes_before_names_and_ways_to_a_disk_are_set_aside() {
        let names = ["sda", "sdb", "sdc", "36001", "data", "backup", "c1"].map(String::from);
        let told = |name: &str| match name {
            "36001" => Some(Made {
                layer: Layer::Multipath,
                paths: ["sda", "sdb"].map(Into::into).to_vec(),
            }),
            "data" => Some(Made::of(Layer::DeviceMapper)),
            "backup" => Some(Made::of(Layer::Md)),
            "c1" => Some(Made::of(Layer::Partition)),
            _ => None,
        };
        let again = |names: &[String]| -> Vec<String> {
            let sides = Side::of(names, &told);
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
