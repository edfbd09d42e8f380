// SPDX-License-Identifier: Apache-2.0
//! The file of nmon (`nmon -f -s 1 -c 60`), as it writes it.
//!
//! Source: its documentation, and the file of version 16 for Linux. `DISKREAD,Disk Read KB/s HOST,sda,sdb`
//! names the disks of a figure, more of them in `DISKREAD1`; `DISKREAD,T0001,…` holds their values since
//! the snapshot before; `ZZZZ,T0001,13:26:21,27-NOV-2026` stands before the values of a snapshot and says
//! when it was. Reads and writes are not kept apart in `DISKXFER`. A file that was sorted, as some
//! spreadsheets want it, has its times at the end and is refused.

use plimsoll_core::units::Nanos;

use super::meaning::{ColumnMeaning, DiskRowValues, number, of_nmon};
use super::{CounterFormat, CounterScan};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::text::{bare, first_line};
use std::collections::BTreeMap;

/// Recognised by its first line.
pub(super) const FORMAT: CounterFormat = CounterFormat {
    name: "nmon file",
    resolution: Nanos::SECOND,
    is: |head| first_line(head).is_some_and(|line| line.starts_with(b"AAA,progname,")),
    scan,
};

const NO_TIME: &str =
    "no time comes before it: a sorted file of nmon cannot be read, only one as nmon wrote it";
const NO_DISKS: &str = "it has no figures of disks (DISKREAD, DISKWRITE, DISKXFER)";

#[derive(Default)]
struct NmonFile {
    /// By section: its disks.
    disks: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    interval_ns: u64,
    /// The snapshot before, and the one that is read.
    from: Option<u64>,
    now: Option<u64>,
    /// Its mark, and by disk what it says.
    snapshot: Vec<u8>,
    rows: BTreeMap<Vec<u8>, DiskRowValues>,
}

fn scan(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    let mut file = NmonFile::default();
    scan.lines(input, RecordingInput::wide_line, |scan, _, line| {
        file.line(line, scan)
    })?;
    file.give(scan);
    if file.disks.is_empty() {
        scan.warn_once(NO_DISKS);
    }
    Ok(())
}

impl NmonFile {
    fn line(&mut self, line: &[u8], scan: &mut CounterScan<'_>) -> Result<(), &'static str> {
        let mut cells = line.split(|byte| *byte == b',').map(bare);
        let (section, second) = (cells.next().unwrap_or(b""), cells.next().unwrap_or(b""));
        let is_snapshot = second
            .strip_prefix(b"T")
            .is_some_and(|n| n.iter().all(u8::is_ascii_digit));
        let column = of_nmon(section);
        match (section, second, column) {
            (b"AAA", b"host", _) => {
                scan.told.host = String::from_utf8_lossy(cells.next().unwrap_or(b"")).into_owned();
            }
            (b"AAA", b"interval", _) => {
                let seconds = cells.next().and_then(number).unwrap_or(0.0);
                self.interval_ns = Nanos::from_secs_f64(seconds.max(0.0)).0;
            }
            (b"ZZZZ", ..) => {
                self.give(scan);
                let (time, date) = (cells.next().unwrap_or(b""), cells.next().unwrap_or(b""));
                let date: Vec<u8> = date
                    .iter()
                    .map(|b| if *b == b'-' { b' ' } else { *b })
                    .collect();
                let at = scan.instant(&[&date[..], time].join(&b' '));
                let at = at.ok_or("its time or date is none")?;
                self.snapshot = second.to_vec();
                self.from = self.now.or(at.checked_sub(self.interval_ns));
                self.now = Some(at);
            }
            (_, _, Some(_)) if is_snapshot && second != self.snapshot => return Err(NO_TIME),
            (_, _, Some(meaning)) if is_snapshot => {
                return self.values(section, meaning, cells, scan);
            }
            (_, _, Some(_)) => {
                let disks = cells.map(<[u8]>::to_vec).collect();
                self.disks.insert(section.to_vec(), disks);
            }
            _ => {}
        }
        Ok(())
    }

    fn values<'a>(
        &mut self,
        section: &[u8],
        meaning: ColumnMeaning,
        cells: impl Iterator<Item = &'a [u8]>,
        scan: &mut CounterScan<'_>,
    ) -> Result<(), &'static str> {
        let disks = self
            .disks
            .get(section)
            .ok_or("no line before it names its disks")?;
        let values: Vec<Option<f64>> = cells.map(number).collect();
        if values.len() != disks.len() || values.contains(&None) {
            return Err("it has not a number for every disk");
        }
        for (disk, value) in disks.iter().zip(values) {
            let row = self.rows.entry(disk.clone()).or_default();
            row.extend(value.map(|value| (meaning, value)));
        }
        scan.right();
        Ok(())
    }

    fn give(&mut self, scan: &mut CounterScan<'_>) {
        let span = self.from.zip(self.now).filter(|(from, now)| from < now);
        for (disk, row) in std::mem::take(&mut self.rows) {
            if let Some(span) = span {
                scan.rates(&disk, span, &row);
            }
        }
    }
}
