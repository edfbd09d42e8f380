// SPDX-License-Identifier: Apache-2.0
//! `/proc/diskstats`, printed again and again with the time in between.
//!
//! Source: the kernel's `Documentation/admin-guide/iostats.rst`. A line is major, minor, name and 11 numbers,
//! 15 from Linux 4.18 and 17 from 5.5 (discards, flushes). Sectors have 512 bytes whatever the disk;
//! milliseconds are counted in 32 bits and wrap. The time has a line of its own before the disks, as `date`
//! prints it in any form, or comes first on every line. A time of day alone and the contents of
//! `/proc/uptime` also count as times, without a date.
//!
//! `vmstat -d` prints a part of them, the name first, with the time behind (`-t`) or on a line before.
//! Source: procps 4.0. Its `sec` counts whole seconds, too coarse for an interval, and its `cur` is in
//! thousands.

use DiskMetric::{
    Active, DiscardBytes, Discards, Flushes, InFlight, QueueTime, ReadBytes, ReadMerges, ReadTime,
    Reads, WriteBytes, WriteMerges, WriteTime, Writes,
};
use plimsoll_core::recording::{DiscardCounters, DiskCounters, FlushCounters};
use plimsoll_core::units::Nanos;

use super::{CounterFormat, CounterRow, CounterScan, CounterSemantics, clock};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::series::DiskMetric;
use crate::text::{lines, nanos, whole, words};

/// Recognised by a line of a disk among the first.
pub(super) const FORMAT: CounterFormat = CounterFormat {
    name: "/proc/diskstats series",
    resolution: Nanos(1),
    is: |head| lines(head).take(4).any(|line| row(line).is_some()),
    scan,
};

/// Recognised by the names of its columns.
pub(super) const VMSTAT: CounterFormat = CounterFormat {
    name: "vmstat -d series",
    is: |head| lines(head).take(4).any(is_vmstat_heading),
    ..FORMAT
};

/// Either line of names above what vmstat prints.
fn is_vmstat_heading(line: &[u8]) -> bool {
    let mut words = words(line);
    match words.next() {
        Some(b"disk-") => true,
        Some(b"total") => words.next() == Some(b"merged") && words.next() == Some(b"sectors"),
        _ => false,
    }
}

/// Numbers of vmstat behind the name: eight are the kernel's, two are left out.
const VMSTAT_NUMBERS: usize = 8;

/// A line of `vmstat -d`, of which the last two words may be its time.
fn vmstat_row(line: &[u8]) -> Option<DiskstatsRow<'_>> {
    let mut found = words(line);
    let disk = found.next()?;
    let mut numbers = [0; NUMBERS_MAX];
    for number in &mut numbers[..VMSTAT_NUMBERS] {
        *number = whole(found.next()?)?;
    }
    whole(found.next()?)?;
    let last = found.next()?;
    whole(last)?;
    let rest = &line[last.as_ptr() as usize - line.as_ptr() as usize + last.len()..];
    let time = rest.trim_ascii();
    let is_time = time.is_empty() || words(time).count() == 2;
    (is_time && whole(disk).is_none()).then_some(DiskstatsRow {
        time: (!time.is_empty()).then_some(time),
        disk,
        numbers,
        count: VMSTAT_NUMBERS,
    })
}

/// Device, its name and the eleven numbers that every kernel prints.
const WORDS_MIN: usize = 14;
const NUMBERS_MAX: usize = 17;
/// As many as kernels print: of the first, with discards, with flushes.
const NUMBERS: [usize; 3] = [11, 15, NUMBERS_MAX];

/// Numbers behind the name: place, figure, base units of one.
const FIGURES: [(usize, DiskMetric, f64); 14] = [
    (0, Reads, 1.0),
    (1, ReadMerges, 1.0),
    (2, ReadBytes, 512.0),
    (3, ReadTime, 0.001),
    (4, Writes, 1.0),
    (5, WriteMerges, 1.0),
    (6, WriteBytes, 512.0),
    (7, WriteTime, 0.001),
    (8, InFlight, 1.0),
    (9, Active, 0.001),
    (10, QueueTime, 0.001),
    (11, Discards, 1.0),
    (13, DiscardBytes, 512.0),
    (15, Flushes, 1.0),
];

/// Counters of every device in one reading of `/proc/diskstats`, in the kernel's order; `None` for
/// a text with a line that is not of a device.
pub fn devices_counted(text: &[u8]) -> Option<Vec<(String, DiskCounters)>> {
    let found = lines(text).filter(|line| !line.trim_ascii().is_empty());
    found
        .map(|line| {
            let row = row(line).filter(|row| row.time.is_none())?;
            let name = String::from_utf8_lossy(row.disk).into_owned();
            Some((name, counters(&row)))
        })
        .collect()
}

fn counters(row: &DiskstatsRow<'_>) -> DiskCounters {
    let n = &row.numbers;
    DiskCounters {
        reads: n[0],
        read_merges: n[1],
        read_sectors: n[2],
        read_ms: n[3],
        writes: n[4],
        write_merges: n[5],
        write_sectors: n[6],
        write_ms: n[7],
        in_flight: n[8],
        active_ms: n[9],
        queue_ms: n[10],
        discards: (row.count >= 15).then_some(DiscardCounters {
            discards: n[11],
            merges: n[12],
            sectors: n[13],
            ms: n[14],
        }),
        flushes: (row.count >= 17).then_some(FlushCounters {
            flushes: n[15],
            ms: n[16],
        }),
    }
}

/// A disk's name and numbers, and the time where the line begins with one.
struct DiskstatsRow<'a> {
    time: Option<&'a [u8]>,
    disk: &'a [u8],
    numbers: [u64; NUMBERS_MAX],
    count: usize,
}

fn row(line: &[u8]) -> Option<DiskstatsRow<'_>> {
    let count = words(line).count();
    if !(WORDS_MIN..=WORDS_MIN + 8).contains(&count) {
        return None;
    }
    // The name is the third word that does not belong to the time.
    for skipped in 0..=2 {
        let mut rest = words(line).skip(skipped);
        let (major, minor, disk) = (rest.next()?, rest.next()?, rest.next()?);
        let is_device = |word| whole(word).is_some_and(|number| number < 1 << 20);
        if !is_device(major) || !is_device(minor) || whole(disk).is_some() {
            continue;
        }
        let time = (skipped > 0).then(|| {
            let end = major.as_ptr() as usize - line.as_ptr() as usize;
            &line[..end]
        });
        let mut numbers = [0; NUMBERS_MAX];
        let mut count = 0;
        for word in rest {
            *numbers.get_mut(count)? = whole(word)?;
            count += 1;
        }
        return NUMBERS.contains(&count).then_some(DiskstatsRow {
            time,
            disk,
            numbers,
            count,
        });
    }
    None
}

const NO_TIME: &str =
    "no time comes before it; print date +%s.%N before each copy, or vmstat -d -t";

/// The time in which the next disks were read.
#[derive(Debug, Default)]
pub(super) struct LoopTime {
    now: Option<u64>,
    /// Midnights that passed while there were only times of day.
    days: u64,
}

const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;

impl LoopTime {
    /// The last that was read.
    pub(super) fn now(&self) -> Option<u64> {
        self.now
    }

    pub(super) fn read(&mut self, text: &[u8], scan: &mut CounterScan<'_>) -> Option<u64> {
        if let Some(at) = scan.instant(text) {
            self.now = Some(at);
        } else if let Some(at) = clock::time_of_day_ns(text) {
            scan.told.lacks_date = true;
            let last = self.now.unwrap_or(0) % DAY_NS;
            // Less than half a day back is a clock that was set.
            self.days += u64::from(at + DAY_NS / 2 < last);
            self.now = Some(self.days.saturating_mul(DAY_NS).saturating_add(at));
        } else {
            self.now = Some(uptime_ns(text)?);
            scan.told.lacks_date = true;
        }
        self.now
    }
}

/// `12345.67 23456.78`: since the machine was started, and what its processors were idle of that.
fn uptime_ns(text: &[u8]) -> Option<u64> {
    let mut words = words(text);
    let (up, idle) = (words.next()?, words.next()?);
    let is_decimal = |word: &[u8]| word.contains(&b'.');
    let is_uptime = words.next().is_none() && is_decimal(up) && is_decimal(idle);
    nanos(idle, 1)?;
    nanos(up, 1).filter(|_| is_uptime)
}

fn scan(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    let mut time = LoopTime::default();
    let (mut values, mut zone) = (Vec::new(), Vec::new());
    scan.lines(input, RecordingInput::line, |scan, _, line| {
        if let Some(row) = row(line).or_else(|| vmstat_row(line)) {
            let at = match row.time {
                Some(text) => time.read(&[text, &zone].join(&b' '), scan),
                None => time.now,
            };
            figures(&row, &mut values);
            scan.row(CounterRow {
                disk: row.disk,
                at_unix_ns: at.ok_or(NO_TIME)?,
                what: CounterSemantics::Totals,
                values: &values,
            });
        } else if line.trim_ascii().is_empty() {
            return Ok(());
        } else if is_vmstat_heading(line) {
            // Behind the names of the columns of a time is its zone.
            if let Some(word) = words(line).nth(10) {
                zone = word.to_vec();
            }
            return Ok(());
        } else if time.read(line, scan).is_none() {
            return Err("it is neither a disk nor a time");
        }
        scan.right();
        Ok(())
    })
}

fn figures(row: &DiskstatsRow<'_>, values: &mut Vec<(DiskMetric, f64, f64)>) {
    values.clear();
    for (place, metric, unit) in FIGURES {
        if place < row.count {
            values.push((metric, row.numbers[place] as f64, unit));
        }
    }
}
