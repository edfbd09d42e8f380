// SPDX-License-Identifier: Apache-2.0
//! Performance counters as CSV: of Windows (perfmon, `relog -f CSV`, typeperf) and of `esxtop -b`.
//!
//! Source: Microsoft's description of PDH logs and VMware's of esxtop's batch mode. The first line
//! names the columns: `(PDH-CSV 4.0) (zone)(minutes west of Greenwich)`, then
//! `\\host\object(instance)\counter`. A line follows for each sample, everything in quotes, blank
//! where there is no value; numbers have a decimal comma in some locales, and semicolons or tabs then
//! part them. Names come in any case. Counters that people see in their own language are so in the
//! file, too; only the English names are known here. Rates are those since the sample before.

use std::collections::BTreeMap;

use plimsoll_core::units::Nanos;

use super::meaning::{ColumnMeaning, DiskRowValues, number, of_pdh};
use super::reports::per_second;
use super::{CounterFormat, CounterScanEvent, CounterScanSummary, Give};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::recording::RecordingScope;
use crate::text::{cells, first_line};
use plimsoll_core::profile::DeviceKind;

/// Recognised by how its first column begins.
pub(super) const FORMAT: CounterFormat = CounterFormat {
    name: "perfmon or esxtop CSV (PDH 4.0)",
    resolution: Nanos(1_000_000),
    scope: RecordingScope::Device,
    is: |head| first_line(head).is_some_and(is_header),
    scan,
};

const NO_DISKS: &str = "it has no column of a disk by its English name, such as \
                        \\\\HOST\\PhysicalDisk(0 C:)\\Disk Reads/sec";
/// Objects whose instances are disks, and what these are beside disks of another object.
const OBJECTS: [(&str, DeviceKind); 6] = [
    ("PhysicalDisk", DeviceKind::Disk),
    ("LogicalDisk", DeviceKind::Volume),
    ("Physical Disk SCSI Device", DeviceKind::Disk),
    ("Physical Disk", DeviceKind::Path),
    ("Physical Disk Path", DeviceKind::Path),
    ("Virtual Disk", DeviceKind::VirtualDisk),
];

/// Whether a line names the columns of such a file.
fn is_header(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"\"").unwrap_or(line);
    let is = |mark: &[u8]| {
        line.get(..mark.len())
            .is_some_and(|m| m.eq_ignore_ascii_case(mark))
    };
    is(b"(PDH-CSV 4.0)") || is(b"(PDH-TSV 4.0)")
}

/// What parts the columns: what stands behind the first, whose name is in brackets.
fn separator(header: &[u8]) -> u8 {
    let is_one = |byte: &&u8| b"\t;,".contains(byte);
    *header.iter().find(is_one).unwrap_or(&b',')
}

/// The columns that are wanted.
#[derive(Debug, Default)]
struct PdhHeader {
    separator: u8,
    columns: usize,
    disks: Vec<String>,
    /// Column, disk, meaning; by column.
    wanted: Vec<(usize, usize, ColumnMeaning)>,
    /// From the file's clock to UTC.
    west_s: i64,
}

impl PdhHeader {
    fn of(line: &[u8], told: &mut CounterScanSummary) -> PdhHeader {
        let mut header = PdhHeader {
            separator: separator(line),
            ..PdhHeader::default()
        };
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (place, cell) in cells(line, header.separator).enumerate() {
            header.columns = place + 1;
            let cell = String::from_utf8_lossy(cell);
            if place == 0 {
                header.west_s = west_s(&cell);
                continue;
            }
            let Some((host, disk, layer, meaning)) = column(&cell) else {
                continue;
            };
            if told.host.is_empty() {
                told.host = host.into();
            }
            // A log may be of several hosts; the disks of the first go by their own names.
            let name = if told.host.eq_ignore_ascii_case(host) {
                disk.to_owned()
            } else {
                format!("{host}:{disk}")
            };
            if layer != DeviceKind::Disk {
                told.layers.insert(name.clone(), layer);
            }
            let next = header.disks.len();
            let disk = *places.entry(name.clone()).or_insert(next);
            if disk == next {
                header.disks.push(name);
            }
            header.wanted.push((place, disk, meaning));
        }
        told.zone = posix_zone(header.west_s);
        header
    }

    /// The figures of a line by disk.
    fn row(&self, line: &[u8]) -> Option<Vec<DiskRowValues>> {
        let mut rows = vec![Vec::new(); self.disks.len()];
        let mut wanted = self.wanted.iter().peekable();
        let mut columns = 0;
        for (place, cell) in cells(line, self.separator).enumerate() {
            columns = place + 1;
            if let Some((_, disk, meaning)) = wanted.next_if(|(wanted, ..)| *wanted == place)
                && let Some(value) = number(cell)
            {
                rows[*disk].push((*meaning, value));
            }
        }
        (columns == self.columns).then_some(rows)
    }
}

/// Host, disk, its layer and the meaning of `\\host\object(instance)\counter`.
fn column(path: &str) -> Option<(&str, &str, DeviceKind, ColumnMeaning)> {
    let (host, path) = path.trim().strip_prefix("\\\\")?.split_once('\\')?;
    // Instances hold brackets and slashes themselves.
    let (object, counter) = path.rsplit_once(")\\")?;
    let (object, instance) = object.split_once('(')?;
    let mut objects = OBJECTS.iter();
    let (_, layer) = objects.find(|(known, _)| known.eq_ignore_ascii_case(object))?;
    // What adds several of them up is left out.
    if instance.eq_ignore_ascii_case("_Total") {
        return None;
    }
    Some((host, instance, *layer, of_pdh(counter)?))
}

/// The minutes in `(PDH-CSV 4.0) (Eastern Standard Time)(300)`, as seconds.
fn west_s(cell: &str) -> i64 {
    let minutes = cell
        .rsplit_once('(')
        .and_then(|(_, last)| last.trim_end_matches(')').parse().ok());
    minutes.filter(|m: &i64| m.abs() <= 24 * 60).unwrap_or(0) * 60
}

fn posix_zone(west_s: i64) -> String {
    if west_s == 0 {
        return String::new();
    }
    let (sign, s) = (if west_s < 0 { "-" } else { "" }, west_s.abs());
    format!("LOG{sign}{}:{:02}", s / 3600, s / 60 % 60)
}

fn scan(
    input: &mut RecordingInput,
    told: &mut CounterScanSummary,
    give: &mut Give<'_>,
) -> Result<(), TraceError> {
    let mut header = PdhHeader::default();
    let mut from = None;
    while let Some((offset, line)) = input.wide_line()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        // Logs may stand one behind the other.
        if is_header(line) {
            header = PdhHeader::of(line, told);
            from = None;
            give(CounterScanEvent::Gap);
            continue;
        }
        let time = cells(line, header.separator).next().unwrap_or(b"");
        // The zone stands in the header.
        let local = told.local(time);
        let at = local.and_then(|ns| ns.checked_add_signed(header.west_s * 1_000_000_000));
        let (Some(at), Some(rows)) = (at, header.row(line)) else {
            let what = "it has no time, or not as many columns as the first line";
            if let Some(what) = told.wrong.wrong(offset, what, line) {
                told.damage = Some(input.damage(offset, what));
                break;
            }
            continue;
        };
        told.wrong.right();
        if let Some(from) = from.filter(|from| *from < at) {
            for (disk, row) in header.disks.iter().zip(&rows) {
                if !row.is_empty() {
                    per_second(disk.as_bytes(), (from, at), row, give);
                }
            }
        }
        from = Some(at);
    }
    if header.wanted.is_empty() {
        told.warn_once(NO_DISKS);
    }
    Ok(())
}
