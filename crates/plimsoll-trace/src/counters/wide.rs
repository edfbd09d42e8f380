// SPDX-License-Identifier: Apache-2.0
//! Tables with a line for each sample, whose columns are named by disk and figure: performance counters of
//! Windows and esxtop, the plot format of collectl, and the CSV of dstat and dool.
//!
//! * PDH CSV (perfmon, `relog -f CSV`, typeperf, `esxtop -b`). Source: Microsoft's description of PDH logs
//!   and VMware's of esxtop's batch mode. The first line names the columns: `(PDH-CSV 4.0) (zone)(minutes
//!   west of Greenwich)`, then `\\\\host\object(instance)\counter`. Everything is in quotes, blank where
//!   there is no value; numbers have a decimal comma in some locales, and semicolons or tabs then part them.
//!   Names come in any case, English or German (those of the list `perfc007.dat`), in any encoding.
//! * collectl (`collectl -sD -P -oD`, or `-oUm`). Source: its manual page and output of version 4.3. A line
//!   `#Date Time [DSK:sda]Name [DSK:sda]Reads …` names the columns, which blanks part.
//! * dstat and dool (`--output FILE`, with `-d -r -D sda`). Source: the output of dstat 0.8 and dool 1.3. A
//!   line of groups (`dsk/sda`, `io/sda`) stands above the names; the first row is since the machine was
//!   started. Times have no year, which the line of the command has. dool counts bits, unless that line has
//!   `--bytes` or `--dstat`.
//!
//! Rates are those since the sample before.

use std::collections::BTreeMap;

use plimsoll_core::units::Nanos;

use super::meaning::{
    ColumnMeaning, DiskRowValues, is_named, number, of_collectl, of_dstat, of_pdh,
};
use super::{CounterFormat, CounterScan, clock};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::text::{bare, cells, first_line, lines, whole, words};
use plimsoll_core::profile::DeviceKind;

/// Recognised by how its first column begins.
pub(super) const PDH: CounterFormat = CounterFormat {
    name: "perfmon or esxtop CSV (PDH 4.0)",
    resolution: Nanos(1_000_000),
    is: |head| first_line(head).is_some_and(is_pdh),
    scan: |input, scan| scan_wide(pdh, input, scan),
};

/// Recognised by a column of a disk behind the time.
pub(super) const COLLECTL: CounterFormat = CounterFormat {
    name: "collectl plot text (-P)",
    resolution: Nanos::SECOND,
    is: |head| lines(head).any(is_collectl),
    scan: |input, scan| scan_wide(collectl, input, scan),
};

/// Recognised by its first line.
pub(super) const DSTAT: CounterFormat = CounterFormat {
    name: "dstat or dool CSV",
    resolution: Nanos::SECOND,
    is: |head| first_line(head).is_some_and(|line| bare(line).ends_with(b" CSV output")),
    scan: |input, scan| scan_wide(dstat, input, scan),
};

const NO_DISKS: &str = "it has no column of a disk, such as \
                        \\\\HOST\\PhysicalDisk(0 C:)\\Disk Reads/sec (perfmon; names in English or German), \
                        [DSK:sda]Reads (collectl -sD -P) or dsk/sda (dstat -d -r -D sda)";
/// Objects whose instances are disks, and what these are beside disks of another object.
const OBJECTS: [(&str, DeviceKind); 8] = [
    ("PhysicalDisk", DeviceKind::Disk),
    ("LogicalDisk", DeviceKind::Volume),
    ("Physical Disk SCSI Device", DeviceKind::Disk),
    ("Physical Disk", DeviceKind::Path),
    ("Physical Disk Path", DeviceKind::Path),
    ("Virtual Disk", DeviceKind::VirtualDisk),
    ("Physikalischer Datenträger", DeviceKind::Disk),
    ("Logischer Datenträger", DeviceKind::Volume),
];

/// Whether a line names the columns of such a file.
fn is_pdh(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"\"").unwrap_or(line);
    let is = |mark: &[u8]| {
        line.get(..mark.len())
            .is_some_and(|m| m.eq_ignore_ascii_case(mark))
    };
    is(b"(PDH-CSV 4.0)") || is(b"(PDH-TSV 4.0)")
}

/// Separator of the columns: the character behind the first column, whose name is in brackets.
fn separator(header: &[u8]) -> u8 {
    let is_one = |byte: &&u8| b"\t;,".contains(byte);
    *header.iter().find(is_one).unwrap_or(&b',')
}

/// The columns that are wanted.
#[derive(Debug, Default)]
struct WideHeader {
    separator: u8,
    columns: usize,
    /// The first columns, which hold the time.
    times: usize,
    disks: Vec<String>,
    places: BTreeMap<String, usize>,
    /// Column, disk, meaning; by column.
    wanted: Vec<(usize, usize, ColumnMeaning)>,
    /// From the file's clock to UTC.
    west_s: i64,
    /// Of dstat: the line of groups, and what the line of the command says.
    groups: Vec<u8>,
    date: Vec<u8>,
    is_of_bits: bool,
}

/// Whether a cell holds no figure by intent: it is empty, a sign, or a word for that.
fn is_absent(cell: &[u8]) -> bool {
    let cell = cell.trim_ascii();
    let words: [&[u8]; 3] = [b"n/a", b"nan", b"null"];
    let is_word = words.iter().any(|word| cell.eq_ignore_ascii_case(word));
    is_word || !cell.iter().any(u8::is_ascii_alphanumeric)
}

impl WideHeader {
    fn want(&mut self, place: usize, disk: &str, meaning: ColumnMeaning) {
        let next = self.disks.len();
        let disk_place = *self.places.entry(disk.to_owned()).or_insert(next);
        if disk_place == next {
            self.disks.push(disk.to_owned());
        }
        self.wanted.push((place, disk_place, meaning));
    }

    /// The figures of a line by disk.
    fn row(&self, line: &[u8]) -> Option<Vec<DiskRowValues>> {
        let mut rows = vec![Vec::new(); self.disks.len()];
        let mut wanted = self.wanted.iter().peekable();
        let mut columns = 0;
        for (place, cell) in cells(line, self.separator).enumerate() {
            columns = place + 1;
            let Some((_, disk, meaning)) = wanted.next_if(|(wanted, ..)| *wanted == place) else {
                continue;
            };
            match number(cell) {
                Some(value) => rows[*disk].push((*meaning, value)),
                None if is_absent(cell) => {}
                None => return None,
            }
        }
        (columns == self.columns).then_some(rows)
    }

    fn time(&self, line: &[u8], scan: &mut CounterScan<'_>) -> Option<u64> {
        let words: Vec<&[u8]> = cells(line, self.separator).take(self.times).collect();
        let text = words.join(&b' ');
        if self.date.is_empty() {
            // Where the header gives the zone, a time without one lacks nothing.
            let at = match scan.told.zone_is_told {
                true => scan.local(&text)?,
                false => scan.instant(&text)?,
            };
            return at.checked_add_signed(self.west_s * 1_000_000_000);
        }
        scan.instant(&dated(&text, &self.date)?)
    }
}

/// A time of dstat (`27-11 13:34:05`) or dool (`Nov-27 13:34:05`), or seconds since 1970, with the year and
/// the zone of the day on which the program was started, `27 Nov 2026 13:34:01 UTC`.
fn dated(time: &[u8], start: &[u8]) -> Option<Vec<u8>> {
    let Some(blank) = time.iter().position(|byte| *byte == b' ') else {
        return Some(time.into());
    };
    let (date, of_day) = (&time[..blank], &time[blank + 1..]);
    let mut parts = date.split(|byte| *byte == b'-');
    let (first, second) = (parts.next()?, parts.next()?);
    let started: Vec<&[u8]> = words(start).collect();
    let [_, started_month, year, .., zone] = started[..] else {
        return None;
    };
    let month_of = |name: &[u8]| clock::month(name).or(whole(name));
    let (day, month) = match clock::month(first) {
        Some(month) => (whole(second)?, month),
        None => (whole(first)?, month_of(second)?),
    };
    // A recording that goes on in January does not go back to the last one.
    let is_next = month < clock::month(started_month)?;
    let year = whole(year)? + u64::from(is_next);
    let date = format!("{year:04}-{month:02}-{day:02} ");
    Some([date.as_bytes(), of_day, b" ", zone].concat())
}

/// Host, disk, its layer and the meaning of `\\host\object(instance)\counter`.
fn column(path: &str) -> Option<(&str, &str, DeviceKind, ColumnMeaning)> {
    let (host, path) = path.trim().strip_prefix("\\\\")?.split_once('\\')?;
    // Instances hold brackets and slashes themselves.
    let (object, counter) = path.rsplit_once(")\\")?;
    let (object, instance) = object.split_once('(')?;
    let mut objects = OBJECTS.iter();
    let (_, layer) = objects.find(|(known, _)| is_named(known, object))?;
    // Totals of several instances are left out.
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

/// Takes a line about the columns in: `true`, or leaves one of values: `false`.
type TakeHeader = fn(&mut WideHeader, &[u8], &mut CounterScan<'_>) -> bool;

fn pdh(header: &mut WideHeader, line: &[u8], scan: &mut CounterScan<'_>) -> bool {
    if !is_pdh(line) {
        return false;
    }
    *header = WideHeader {
        separator: separator(line),
        times: 1,
        ..WideHeader::default()
    };
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
        if scan.told.host.is_empty() {
            scan.told.host = host.into();
        }
        // A log may be of several hosts; the disks of the first go by their own names.
        let name = if scan.told.host.eq_ignore_ascii_case(host) {
            disk.to_owned()
        } else {
            format!("{host}:{disk}")
        };
        if layer != DeviceKind::Disk {
            scan.told.layers.insert(name.clone(), layer);
        }
        header.want(place, &name, meaning);
    }
    scan.told.zone = posix_zone(header.west_s);
    scan.told.zone_is_told = true;
    true
}

fn is_collectl(line: &[u8]) -> bool {
    line.starts_with(b"#") && line.windows(5).any(|part| part == b"[DSK:")
}

fn collectl(header: &mut WideHeader, line: &[u8], _scan: &mut CounterScan<'_>) -> bool {
    if !is_collectl(line) {
        // Remarks, and what it says before the first sample.
        return line.starts_with(b"#") || header.columns == 0;
    }
    let separator = *line
        .iter()
        .find(|byte| b" \t,;|".contains(byte))
        .unwrap_or(&b' ');
    *header = WideHeader {
        separator,
        ..WideHeader::default()
    };
    for (place, cell) in cells(line, separator).enumerate() {
        header.columns = place + 1;
        let Some(named) = cell.strip_prefix(b"[") else {
            header.times += usize::from(header.times == place);
            continue;
        };
        let named = String::from_utf8_lossy(named);
        let column = named
            .strip_prefix("DSK:")
            .and_then(|named| named.split_once(']'));
        if let Some((disk, name)) = column
            && let Some(meaning) = of_collectl(name)
        {
            header.want(place, disk, meaning);
        }
    }
    true
}

fn dstat(header: &mut WideHeader, line: &[u8], scan: &mut CounterScan<'_>) -> bool {
    let first = cells(line, b',').next().unwrap_or(b"");
    let cell =
        |place| String::from_utf8_lossy(cells(line, b',').nth(place).unwrap_or(b"")).into_owned();
    match first {
        _ if first.ends_with(b" CSV output") => {
            *header = WideHeader {
                is_of_bits: first.starts_with(b"dool"),
                ..WideHeader::default()
            };
        }
        b"Author:" => {}
        b"Host:" => scan.told.host = cell(1),
        b"Cmdline:" => {
            let command = cell(1);
            let is = |option: &str| command.split(' ').any(|word| word == option);
            header.is_of_bits &= !is("--bytes") && !is("--dstat");
            header.date = cell(6).into_bytes();
        }
        b"system" | b"epoch" if header.groups.is_empty() => header.groups = line.into(),
        b"time" | b"epoch" => dstat_columns(header, line, scan),
        _ => return header.groups.is_empty(),
    }
    true
}

fn dstat_columns(header: &mut WideHeader, line: &[u8], scan: &mut CounterScan<'_>) {
    (header.separator, header.times) = (b',', 1);
    let groups = header.groups.clone();
    let mut groups_left = cells(&groups, b',');
    let mut group = String::new();
    for (place, name) in cells(line, b',').enumerate() {
        header.columns = place + 1;
        // A group stands above its first column.
        if let Some(next) = groups_left.next().filter(|next| !next.is_empty()) {
            group = String::from_utf8_lossy(next).into_owned();
        }
        let name = String::from_utf8_lossy(name);
        let name = name.rsplit(':').next().unwrap_or(&name);
        let Some((kind, disk)) = group.split_once('/') else {
            continue;
        };
        if let Some(meaning) = of_dstat(kind, name, header.is_of_bits) {
            if disk == "total" {
                scan.told.layers.insert(disk.to_owned(), DeviceKind::Total);
            }
            header.want(place, disk, meaning);
        }
    }
}

fn scan_wide(
    take_header: TakeHeader,
    input: &mut RecordingInput,
    scan: &mut CounterScan<'_>,
) -> Result<(), TraceError> {
    let mut header = WideHeader::default();
    let mut from = None;
    scan.lines(input, RecordingInput::wide_line, |scan, _, line| {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        // Logs may stand one behind the other.
        if take_header(&mut header, line, scan) {
            if from.take().is_some() {
                scan.gap();
            }
            return Ok(());
        }
        let (Some(at), Some(rows)) = (header.time(line, scan), header.row(line)) else {
            return Err("it has no time, or not as many columns as the line of their names");
        };
        scan.right();
        if let Some(from) = from.filter(|from| *from < at) {
            for (disk, row) in header.disks.iter().zip(&rows) {
                if !row.is_empty() {
                    scan.rates(disk.as_bytes(), (from, at), row);
                }
            }
        }
        from = Some(at);
        Ok(())
    })?;
    if header.wanted.is_empty() {
        scan.warn_once(NO_DISKS);
    }
    Ok(())
}
