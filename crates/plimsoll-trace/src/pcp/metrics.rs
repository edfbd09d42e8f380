// SPDX-License-Identifier: Apache-2.0
//! The disk metrics that a Linux host records under PCP: names, numbers, types and units.
//!
//! As the linux agent of PCP 6 describes them in archives (looked up with pmdumplog(1)), so that
//! PCP's tools treat ours and a logger's alike.

use plimsoll_core::recording::DiskCounters;

/// The domain that the linux agent's metrics and instances are of, as the upper bits of a number.
const AGENT: u32 = 60 << 22;
/// The domain of disks.
pub(super) const DISKS: u32 = AGENT | 1;

/// Values are 32 or 64 bits wide. A disk's times are as wide as the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Narrow,
    Wide,
}

impl Width {
    /// Type in a description.
    pub(super) fn word(self) -> u32 {
        match self {
            Width::Narrow => 1,
            Width::Wide => 3,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Count,
    Kib,
    Ms,
    /// Milliseconds whose sum over all disks is not wider than that of one.
    MsNarrow,
    /// A number seen at an instant.
    Now,
}

/// A figure, recorded of each disk and of all together.
#[derive(Debug)]
pub(super) struct Metric {
    /// The name behind `disk.dev.` and `disk.all.`.
    pub(super) name: &'static str,
    dev: u32,
    /// `None`: there is none of all disks together.
    all: Option<u32>,
    unit: Unit,
    pub(super) of_disk: fn(&DiskCounters) -> Option<u64>,
}

impl Metric {
    /// Number of the metric of each disk.
    pub(super) fn of_each(&self) -> u32 {
        AGENT | self.dev
    }

    /// Number of the metric of all disks together.
    pub(super) fn of_all(&self) -> Option<u32> {
        self.all.map(|number| AGENT | number)
    }

    /// How wide the value of a disk is.
    pub(super) fn width(&self) -> Width {
        match self.unit {
            Unit::Count | Unit::Kib => Width::Wide,
            Unit::Ms | Unit::MsNarrow | Unit::Now => Width::Narrow,
        }
    }

    /// How wide the value of all disks together is.
    pub(super) fn width_of_all(&self) -> Width {
        match self.unit {
            Unit::Count | Unit::Kib | Unit::Ms => Width::Wide,
            Unit::MsNarrow | Unit::Now => Width::Narrow,
        }
    }

    /// Semantics and units as words of a description.
    pub(super) fn meaning(&self) -> [u32; 2] {
        const COUNTER: u32 = 1;
        const INSTANT: u32 = 3;
        match self.unit {
            Unit::Count => [COUNTER, 0x0010_0000],
            Unit::Kib => [COUNTER, 0x1001_0000],
            Unit::Ms | Unit::MsNarrow => [COUNTER, 0x0100_2000],
            Unit::Now => [INSTANT, 0],
        }
    }
}

/// {name, number of each disk's, number of all disks', unit, value}.
type Row = (
    &'static str,
    u32,
    Option<u32>,
    Unit,
    fn(&DiskCounters) -> Option<u64>,
);

const fn metric((name, dev, all, unit, of_disk): Row) -> Metric {
    Metric {
        name,
        dev,
        all,
        unit,
        of_disk,
    }
}

fn kib(sectors: u64) -> u64 {
    sectors / 2
}

/// All metrics that are written, in the order of their numbers.
pub(super) static METRICS: [Metric; 24] = [
    metric(("read", 4, Some(24), Unit::Count, |c| Some(c.reads))),
    metric(("write", 5, Some(25), Unit::Count, |c| Some(c.writes))),
    metric(("blkread", 6, Some(26), Unit::Count, |c| {
        Some(c.read_sectors)
    })),
    metric(("blkwrite", 7, Some(27), Unit::Count, |c| {
        Some(c.write_sectors)
    })),
    metric(("total", 28, Some(29), Unit::Count, |c| {
        Some(c.reads.wrapping_add(c.writes))
    })),
    metric(("blktotal", 36, Some(37), Unit::Count, |c| {
        Some(c.read_sectors.wrapping_add(c.write_sectors))
    })),
    metric(("read_bytes", 38, Some(41), Unit::Kib, |c| {
        Some(kib(c.read_sectors))
    })),
    metric(("write_bytes", 39, Some(42), Unit::Kib, |c| {
        Some(kib(c.write_sectors))
    })),
    metric(("total_bytes", 40, Some(43), Unit::Kib, |c| {
        Some(kib(c.read_sectors.wrapping_add(c.write_sectors)))
    })),
    metric(("avactive", 46, Some(44), Unit::Ms, |c| Some(c.active_ms))),
    metric(("aveq", 47, Some(45), Unit::Ms, |c| Some(c.queue_ms))),
    metric(("read_merge", 49, Some(51), Unit::Count, |c| {
        Some(c.read_merges)
    })),
    metric(("write_merge", 50, Some(52), Unit::Count, |c| {
        Some(c.write_merges)
    })),
    metric(("read_rawactive", 72, Some(74), Unit::Ms, |c| {
        Some(c.read_ms)
    })),
    metric(("write_rawactive", 73, Some(75), Unit::Ms, |c| {
        Some(c.write_ms)
    })),
    metric(("total_rawactive", 79, Some(80), Unit::Ms, |c| {
        Some(c.read_ms.wrapping_add(c.write_ms))
    })),
    metric(("discard", 88, Some(96), Unit::Count, |c| {
        Some(c.discards?.discards)
    })),
    metric(("blkdiscard", 89, Some(97), Unit::Count, |c| {
        Some(c.discards?.sectors)
    })),
    metric(("discard_bytes", 90, Some(98), Unit::Kib, |c| {
        Some(kib(c.discards?.sectors))
    })),
    metric(("discard_merge", 91, Some(99), Unit::Count, |c| {
        Some(c.discards?.merges)
    })),
    metric(("discard_rawactive", 92, Some(100), Unit::MsNarrow, |c| {
        Some(c.discards?.ms)
    })),
    metric(("flush", 93, Some(101), Unit::Count, |c| {
        Some(c.flushes?.flushes)
    })),
    metric(("flush_rawactive", 94, Some(102), Unit::MsNarrow, |c| {
        Some(c.flushes?.ms)
    })),
    metric(("inflight", 95, None, Unit::Now, |c| Some(c.in_flight))),
];
