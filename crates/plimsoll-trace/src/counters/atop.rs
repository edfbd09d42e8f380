// SPDX-License-Identifier: Apache-2.0
//! Output of atop for programs: `atop -P DSK 2`, or of its file `atop -r FILE -P DSK` (`LVM`,
//! `MDD`, too).
//!
//! Source: its manual page, and its output of version 2.8. A line is the label, host, seconds since 1970,
//! date, time, length of the interval in seconds, name, milliseconds busy, reads, their sectors, writes,
//! their sectors; newer versions add discards, their sectors, requests in flight, and the mean queue of the
//! time busy. `SEP` ends a report; `RESET` says that the next is since the machine was started: it is left
//! out.

use DiskMetric::{
    Active, DiscardBytes, Discards, InFlight, QueueTime, ReadBytes, Reads, WriteBytes, Writes,
};
use plimsoll_core::profile::DeviceKind;
use plimsoll_core::units::Nanos;

use super::meaning::{ColumnMeaning, DiskRowValues, number};
use super::{CounterFormat, CounterScan};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::series::DiskMetric;
use crate::text::{lines, whole, words};

/// Recognised by a line of a device.
pub(super) const FORMAT: CounterFormat = CounterFormat {
    name: "atop text (-P DSK)",
    resolution: Nanos::SECOND,
    is: |head| lines(head).any(|line| AtopRow::of(line).is_some()),
    scan,
};

const LABELS: [(&[u8], DeviceKind); 3] = [
    (b"DSK", DeviceKind::Disk),
    (b"LVM", DeviceKind::DeviceMapper),
    (b"MDD", DeviceKind::Md),
];
/// Numbers behind the name: the figure, and base units of one.
const FIGURES: [(DiskMetric, f64); 8] = [
    (Active, 0.001),
    (Reads, 1.0),
    (ReadBytes, 512.0),
    (Writes, 1.0),
    (WriteBytes, 512.0),
    (Discards, 1.0),
    (DiscardBytes, 512.0),
    (InFlight, 1.0),
];
/// The least: those without discards.
const FIGURES_MIN: usize = 5;

struct AtopRow<'a> {
    kind: DeviceKind,
    host: &'a [u8],
    at_s: u64,
    length_s: u64,
    disk: &'a [u8],
    values: DiskRowValues,
}

impl AtopRow<'_> {
    fn of(line: &[u8]) -> Option<AtopRow<'_>> {
        let mut words = words(line);
        let label = words.next()?;
        let (_, kind) = LABELS.iter().find(|(known, _)| *known == label)?;
        let (host, at_s) = (words.next()?, whole(words.next()?)?);
        let length_s = words.nth(2).and_then(whole).filter(|length| *length > 0)?;
        let disk = words.next()?;
        let numbers: Vec<f64> = words.map(number).collect::<Option<_>>()?;
        let per_s = |(value, (metric, unit)): (&f64, (DiskMetric, f64))| {
            let unit = match metric.is_counter() {
                true => unit / length_s as f64,
                false => unit,
            };
            // Discards that the device does not know are -1.
            (ColumnMeaning::Rate(metric, unit), *value)
        };
        let mut values: DiskRowValues = numbers.iter().zip(FIGURES).map(per_s).collect();
        if let (Some(busy_ms), Some(queue)) = (numbers.first(), numbers.get(FIGURES.len())) {
            let seconds = busy_ms * 0.001 / length_s as f64;
            values.push((ColumnMeaning::Rate(QueueTime, seconds), *queue));
        }
        (numbers.len() >= FIGURES_MIN).then_some(AtopRow {
            kind: *kind,
            host,
            at_s,
            length_s,
            disk,
            values,
        })
    }

    fn span(&self) -> Option<(u64, u64)> {
        let at = self.at_s.checked_mul(Nanos::SECOND.0)?;
        let length = self.length_s.checked_mul(Nanos::SECOND.0)?;
        Some((at.checked_sub(length)?, at))
    }
}

fn scan(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    let mut is_since_start = false;
    // As many as its version prints.
    let mut columns = None;
    scan.lines(input, RecordingInput::line, |scan, _, line| {
        match line.trim_ascii() {
            b"RESET" => {
                is_since_start = true;
                scan.gap();
            }
            b"SEP" => is_since_start = false,
            _ => {}
        }
        // Lines of other labels stand between.
        if !LABELS.iter().any(|(label, _)| line.starts_with(label)) {
            return Ok(());
        }
        let count = words(line).count();
        let is_whole = *columns.get_or_insert(count) == count;
        let row = AtopRow::of(line).filter(|_| is_whole);
        let row = row.and_then(|row| row.span().map(|span| (row, span)));
        let (row, span) = row.ok_or("it has not the columns of a device")?;
        scan.right();
        scan.told.host = String::from_utf8_lossy(row.host).into_owned();
        if row.kind != DeviceKind::Disk {
            let name = String::from_utf8_lossy(row.disk).into_owned();
            scan.told.layers.insert(name, row.kind);
        }
        if !is_since_start {
            scan.rates(row.disk, span, &row.values);
        }
        Ok::<(), &str>(())
    })
}
