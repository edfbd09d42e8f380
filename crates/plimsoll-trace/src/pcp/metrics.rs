// SPDX-License-Identifier: Apache-2.0
//! The disk metrics that a Linux host records under PCP: names, numbers, types and units.
//!
//! As the linux agent of PCP 6 describes them in archives (looked up with pmdumplog(1)), so that
//! PCP's tools treat ours and a logger's alike.

use plimsoll_core::profile::DeviceKind;
use plimsoll_core::recording::DiskCounters;

use PcpMetricUnit::{Count, Kib, Ms, MsNarrow, Now};

/// The domain that the linux agent's metrics and instances are of, as the upper bits of a number.
const AGENT: u32 = 60 << 22;
/// The domain of metrics without instances.
pub(super) const NO_DOMAIN: u32 = u32::MAX;

/// Whose figures: PCP keeps whole disks, and what lies on them, apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PcpDeviceKind {
    Disks,
    Partitions,
    /// Volumes of the device mapper.
    Volumes,
    Arrays,
    /// Disks by their world-wide names, whatever the ways to them.
    WorldWide,
    /// All disks together; read where nothing else is there.
    Totals,
}

impl PcpDeviceKind {
    /// Those that have devices.
    pub(super) const ALL: [PcpDeviceKind; 5] = [
        PcpDeviceKind::Disks,
        PcpDeviceKind::Partitions,
        PcpDeviceKind::Volumes,
        PcpDeviceKind::Arrays,
        PcpDeviceKind::WorldWide,
    ];

    /// The family that a device of this layer is recorded in.
    pub(super) fn of(layer: DeviceKind) -> PcpDeviceKind {
        match layer {
            DeviceKind::Partition => PcpDeviceKind::Partitions,
            DeviceKind::DeviceMapper => PcpDeviceKind::Volumes,
            DeviceKind::Md => PcpDeviceKind::Arrays,
            DeviceKind::Multipath => PcpDeviceKind::WorldWide,
            DeviceKind::Disk
            | DeviceKind::Loop
            | DeviceKind::Volume
            | DeviceKind::Cache
            | DeviceKind::Replica
            | DeviceKind::Zvol
            | DeviceKind::Memory
            | DeviceKind::Path
            | DeviceKind::VirtualDisk
            | DeviceKind::Total => PcpDeviceKind::Disks,
        }
    }

    /// The layer of its devices, how the names of its metrics begin, the domain of its devices, and the
    /// agent's cluster of its metrics.
    fn row(self) -> (Option<DeviceKind>, &'static str, u32, u32) {
        use DeviceKind::{DeviceMapper, Md, Multipath, Partition};
        match self {
            PcpDeviceKind::Disks => (None, "disk.dev.", AGENT | 1, 0),
            PcpDeviceKind::Partitions => (Some(Partition), "disk.partitions.", AGENT | 10, 10),
            PcpDeviceKind::Volumes => (Some(DeviceMapper), "disk.dm.", AGENT | 24, 54),
            PcpDeviceKind::Arrays => (Some(Md), "disk.md.", AGENT | 25, 59),
            PcpDeviceKind::WorldWide => (Some(Multipath), "disk.wwid.", AGENT | 42, 92),
            PcpDeviceKind::Totals => (None, "disk.all.", NO_DOMAIN, 0),
        }
    }

    /// The layer of its devices; `None` where it says no more than names do.
    pub(super) fn layer(self) -> Option<DeviceKind> {
        self.row().0
    }

    /// How the names of its metrics begin.
    pub(super) fn prefix(self) -> &'static str {
        self.row().1
    }

    /// The domain of its devices.
    pub(super) fn domain(self) -> u32 {
        self.row().2
    }

    /// The number of a metric by its place in the agent's cluster of this family.
    fn number(self, item: u32) -> u32 {
        AGENT | self.row().3 << 10 | item
    }
}

/// The ways to a disk by the kernel's names, a space between two: name, number.
pub(super) fn ways_metric() -> (&'static str, u32) {
    ("disk.wwid.scsi_paths", PcpDeviceKind::WorldWide.number(3))
}

/// Type of a text in a description, and its semantics: it changes now and then.
pub(super) const TEXT: u32 = 6;
pub(super) const DISCRETE: u32 = 4;

/// Values are 32 or 64 bits wide. A disk's times are as wide as the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PcpValueWidth {
    Narrow,
    Wide,
}

impl PcpValueWidth {
    /// Type in a description.
    pub(super) fn word(self) -> u32 {
        match self {
            PcpValueWidth::Narrow => 1,
            PcpValueWidth::Wide => 3,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum PcpMetricUnit {
    Count,
    Kib,
    Ms,
    /// Milliseconds whose sum over all disks is not wider than that of one.
    MsNarrow,
    /// A number seen at an instant.
    Now,
}

/// A figure, recorded of each device and of all disks together.
#[derive(Debug)]
pub(super) struct PcpMetric {
    /// The name behind `disk.dev.` and its like, and `disk.all.`.
    pub(super) name: &'static str,
    dev: u32,
    /// The place among those of partitions.
    part: u32,
    /// `None`: there is none of all disks together.
    all: Option<u32>,
    unit: PcpMetricUnit,
    pub(super) of_disk: fn(&DiskCounters) -> Option<u64>,
}

impl PcpMetric {
    /// Number of the metric of each device of a family.
    pub(super) fn of_each(&self, family: PcpDeviceKind) -> u32 {
        // Behind the 13th, volumes and arrays have another metric.
        family.number(match family {
            PcpDeviceKind::Disks | PcpDeviceKind::Totals | PcpDeviceKind::WorldWide => self.dev,
            PcpDeviceKind::Partitions => self.part,
            PcpDeviceKind::Volumes | PcpDeviceKind::Arrays => {
                self.part + u32::from(self.part >= 13)
            }
        })
    }

    /// Number of the metric of all disks together.
    pub(super) fn of_all(&self) -> Option<u32> {
        self.all.map(|number| AGENT | number)
    }

    /// How wide the value of a device of a family is.
    pub(super) fn width(&self, family: PcpDeviceKind) -> PcpValueWidth {
        let is_above = matches!(family, PcpDeviceKind::Volumes | PcpDeviceKind::Arrays);
        match self.unit {
            Kib if is_above => PcpValueWidth::Narrow,
            Now if family == PcpDeviceKind::WorldWide => PcpValueWidth::Wide,
            Count | Kib => PcpValueWidth::Wide,
            Ms | MsNarrow | Now => PcpValueWidth::Narrow,
        }
    }

    /// How wide the value of all disks together is.
    pub(super) fn width_of_all(&self) -> PcpValueWidth {
        match self.unit {
            Count | Kib | Ms => PcpValueWidth::Wide,
            MsNarrow | Now => PcpValueWidth::Narrow,
        }
    }

    /// Semantics and units as words of a description.
    pub(super) fn meaning(&self) -> [u32; 2] {
        const COUNTER: u32 = 1;
        const INSTANT: u32 = 3;
        match self.unit {
            Count => [COUNTER, 0x0010_0000],
            Kib => [COUNTER, 0x1001_0000],
            Ms | MsNarrow => [COUNTER, 0x0100_2000],
            Now => [INSTANT, 0],
        }
    }
}

const fn metric(
    name: &'static str,
    [dev, part]: [u32; 2],
    all: Option<u32>,
    unit: PcpMetricUnit,
    of_disk: fn(&DiskCounters) -> Option<u64>,
) -> PcpMetric {
    PcpMetric {
        name,
        dev,
        part,
        all,
        unit,
        of_disk,
    }
}

fn kib(sectors: u64) -> u64 {
    sectors / 2
}

/// Those read and written.
fn sectors(c: &DiskCounters) -> u64 {
    c.read_sectors.wrapping_add(c.write_sectors)
}

/// All metrics that are written, in the order of their numbers.
pub(super) static METRICS: [PcpMetric; 24] = [
    metric("read", [4, 0], Some(24), Count, |c| Some(c.reads)),
    metric("write", [5, 1], Some(25), Count, |c| Some(c.writes)),
    metric("blkread", [6, 3], Some(26), Count, |c| Some(c.read_sectors)),
    metric("blkwrite", [7, 4], Some(27), Count, |c| {
        Some(c.write_sectors)
    }),
    metric("total", [28, 2], Some(29), Count, |c| {
        Some(c.reads.wrapping_add(c.writes))
    }),
    metric("blktotal", [36, 5], Some(37), Count, |c| Some(sectors(c))),
    metric("read_bytes", [38, 6], Some(41), Kib, |c| {
        Some(kib(c.read_sectors))
    }),
    metric("write_bytes", [39, 7], Some(42), Kib, |c| {
        Some(kib(c.write_sectors))
    }),
    metric("total_bytes", [40, 8], Some(43), Kib, |c| {
        Some(kib(sectors(c)))
    }),
    metric("avactive", [46, 11], Some(44), Ms, |c| Some(c.active_ms)),
    metric("aveq", [47, 12], Some(45), Ms, |c| Some(c.queue_ms)),
    metric("read_merge", [49, 9], Some(51), Count, |c| {
        Some(c.read_merges)
    }),
    metric("write_merge", [50, 10], Some(52), Count, |c| {
        Some(c.write_merges)
    }),
    metric("read_rawactive", [72, 13], Some(74), Ms, |c| {
        Some(c.read_ms)
    }),
    metric("write_rawactive", [73, 14], Some(75), Ms, |c| {
        Some(c.write_ms)
    }),
    metric("total_rawactive", [79, 15], Some(80), Ms, |c| {
        Some(c.read_ms.wrapping_add(c.write_ms))
    }),
    metric("discard", [88, 17], Some(96), Count, |c| {
        Some(c.discards?.discards)
    }),
    metric("blkdiscard", [89, 18], Some(97), Count, |c| {
        Some(c.discards?.sectors)
    }),
    metric("discard_bytes", [90, 19], Some(98), Kib, |c| {
        Some(kib(c.discards?.sectors))
    }),
    metric("discard_merge", [91, 20], Some(99), Count, |c| {
        Some(c.discards?.merges)
    }),
    metric("discard_rawactive", [92, 21], Some(100), MsNarrow, |c| {
        Some(c.discards?.ms)
    }),
    metric("flush", [93, 22], Some(101), Count, |c| {
        Some(c.flushes?.flushes)
    }),
    metric("flush_rawactive", [94, 23], Some(102), MsNarrow, |c| {
        Some(c.flushes?.ms)
    }),
    metric("inflight", [95, 24], None, Now, |c| Some(c.in_flight)),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// `cluster.item` as PCP prints it.
    fn shown(number: u32) -> String {
        assert_eq!(number >> 22, 60);
        format!("{}.{}", number >> 10 & 0xfff, number & 0x3ff)
    }

    #[test]
    fn numbers_are_those_of_the_linux_agent() {
        for (name, expect) in [
            ("read", ["0.4", "10.0", "54.0", "59.0", "92.4"]),
            ("aveq", ["0.47", "10.12", "54.12", "59.12", "92.47"]),
            (
                "read_rawactive",
                ["0.72", "10.13", "54.14", "59.14", "92.72"],
            ),
            ("discard", ["0.88", "10.17", "54.18", "59.18", "92.88"]),
            ("inflight", ["0.95", "10.24", "54.25", "59.25", "92.95"]),
        ] {
            let metric = METRICS.iter().find(|metric| metric.name == name).unwrap();
            let found = PcpDeviceKind::ALL.map(|family| shown(metric.of_each(family)));
            assert_eq!(found, expect, "{name}");
        }
        assert_eq!(shown(ways_metric().1), "92.3");
    }
}
