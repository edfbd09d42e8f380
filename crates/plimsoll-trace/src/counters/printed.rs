// SPDX-License-Identifier: Apache-2.0
//! Columns under a line of their names: what iostat, sar, zpool and others print of devices.
//!
//! The names decide, not the places: they differ between versions. One of them is that of the devices,
//! at the front or at the end.

use super::meaning::{ColumnMeaning, DiskRowValues, human, of_printed};
use crate::text::words;

/// Names of the column of devices in the output of programs.
const DEVICES: [&[u8]; 6] = [b"Device", b"Device:", b"device", b"pool", b"Name", b"#Name"];
/// Name of the column of devices in sar, behind a time.
const OF_SAR: [&[u8]; 1] = [b"DEV"];
/// Columns before the device where every line has its time (collectl).
const TIMES: [&[u8]; 3] = [b"#Date", b"#Time", b"Time"];
/// The columns of `zpool iostat -H`, which names none.
const POOL: &[u8] = b"pool alloc free read write read write";

/// The names of columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TableHeader {
    /// Words of the time before the device.
    times: usize,
    /// Without that of the device.
    columns: Vec<Option<ColumnMeaning>>,
    is_device_last: bool,
    /// Whether the first report is also of an interval, and not since the machine was started.
    omits_boot: bool,
}

/// A line under a header.
pub(super) struct TableRow<'a> {
    /// As it stands before the device; empty for most programs.
    pub(super) time: &'a [u8],
    /// With a blank before it where it is a group of devices or a part of one.
    pub(super) device: &'a [u8],
    /// Empty where dashes stand for them.
    pub(super) values: DiskRowValues,
}

impl TableHeader {
    /// Of a line that names devices and something that is known of them.
    pub(super) fn of(line: &[u8]) -> Option<TableHeader> {
        TableHeader::naming(&DEVICES, line)
    }

    /// Of a line of sar without its time.
    pub(super) fn of_sar(line: &[u8]) -> Option<TableHeader> {
        TableHeader::naming(&OF_SAR, line)
    }

    fn naming(devices: &[&[u8]], line: &[u8]) -> Option<TableHeader> {
        let mut names: Vec<&[u8]> = words(line).collect();
        let place = names.iter().position(|name| devices.contains(name))?;
        let is_timed = names[..place].iter().all(|name| TIMES.contains(name));
        if !is_timed && place + 1 != names.len() {
            return None;
        }
        let omits_boot = names[place].ends_with(b"Name");
        names.remove(place);
        let times = if is_timed { place } else { 0 };
        let names = &names[times..];
        let of = |(at, name): (usize, &&[u8])| {
            // Some print the same names for reads and writes, or for operations and bytes.
            let before = names[..at].iter().filter(|other| other == &name).count();
            of_printed(str::from_utf8(name).ok()?, before)
        };
        let columns: Vec<_> = names.iter().enumerate().map(of).collect();
        let knows = columns.iter().any(Option::is_some);
        knows.then_some(TableHeader {
            times,
            columns,
            is_device_last: !is_timed,
            omits_boot,
        })
    }

    /// The header that a line without one has: a name and six numbers between tabs.
    pub(super) fn of_pool(line: &[u8]) -> Option<TableHeader> {
        let [name, values @ ..] = crate::text::columns::<7>(line, b'\t')?;
        let is_number = |value: &[u8]| human(value, None).is_some();
        let is_row = !is_number(name) && values.iter().all(|value| is_number(value));
        is_row.then(|| TableHeader::of(POOL)).flatten()
    }

    /// Whether figures are rounded for people.
    pub(super) fn is_device_last(&self) -> bool {
        self.is_device_last
    }

    pub(super) fn omits_boot(&self) -> bool {
        self.omits_boot
    }

    /// Whether every line has its time.
    pub(super) fn is_timed(&self) -> bool {
        self.times > 0
    }

    pub(super) fn row<'a>(&self, line: &'a [u8]) -> Option<TableRow<'a>> {
        let mut words = words(line);
        for _ in 0..self.times {
            words.next()?;
        }
        let (device, blanks) = match self.is_device_last {
            true => (words.next_back()?, 2),
            false => (words.next()?, 1),
        };
        let at = device.as_ptr() as usize - line.as_ptr() as usize;
        let is_part = self.times == 0
            && at >= blanks
            && line[at - blanks..at].iter().all(|byte| *byte == b' ');
        let mut values = Vec::new();
        for meaning in &self.columns {
            let word = words.next()?;
            if word == b"-" {
                continue;
            }
            let value = human(word, *meaning)?;
            values.extend(meaning.map(|meaning| (meaning, value)));
        }
        words.next().is_none().then_some(TableRow {
            time: if self.times > 0 {
                line[..at].trim_ascii()
            } else {
                b""
            },
            device: &line[at - usize::from(is_part)..at + device.len()],
            values,
        })
    }
}
