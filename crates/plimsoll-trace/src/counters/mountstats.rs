// SPDX-License-Identifier: Apache-2.0
//! `/proc/self/mountstats`, printed again and again with the time before it: what NFS clients count.
//!
//! Source: the kernel's `net/sunrpc/stats.c` and `fs/nfs/super.c`, and nfsiostat of nfs-utils, which also
//! reads it. After `device SERVER:/PATH mounted on PLACE with fstype nfs4 statvers=1.1` the fifth and sixth
//! number of `bytes:` are the bytes read from and written to the server, and a line of each operation has its
//! number, transmissions, time-outs, bytes sent and received, and milliseconds in the queue, on the way, and
//! in all. A place is a device here. Its times are those in all, as nfsiostat's `avg exe`.

use DiskMetric::{ReadBytes, ReadTime, Reads, WriteBytes, WriteTime, Writes};
use plimsoll_core::units::Nanos;

use super::diskstats::LoopTime;
use super::{CounterFormat, CounterRow, CounterScan, CounterSemantics};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::series::DiskMetric;
use crate::text::{lines, whole, words};

/// Recognised by the line of a mount.
pub(super) const FORMAT: CounterFormat = CounterFormat {
    name: "/proc/self/mountstats series",
    resolution: Nanos(1),
    is: |head| lines(head).any(|line| place_of(line).is_some()),
    scan,
};

const NO_TIME: &str = "no time comes before it; print date +%s.%N before each copy";
const INCOMPLETE: &str = "a copy of a mount lacks counts of reads or writes, or has them twice, and was left out: \
                          parts of the file are missing";
/// Figures that are read: line, place of the number in it, metric, base units of one.
const FIGURES: [(&[u8], usize, DiskMetric, f64); 6] = [
    (b"bytes:", 4, ReadBytes, 1.0),
    (b"bytes:", 5, WriteBytes, 1.0),
    (b"READ:", 0, Reads, 1.0),
    (b"READ:", 7, ReadTime, 0.001),
    (b"WRITE:", 0, Writes, 1.0),
    (b"WRITE:", 7, WriteTime, 0.001),
];

/// Where an NFS export is mounted, of a line that says so.
fn place_of(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_prefix(b"device ")?;
    let find = |text: &[u8], part: &[u8]| text.windows(part.len()).position(|found| found == part);
    let (on, with) = (b" mounted on ", b" with fstype nfs");
    let place = &line[find(line, on)? + on.len()..];
    Some(&place[..find(place, with)?])
}

/// A mount while its lines are read.
#[derive(Default)]
struct MountedExportRow {
    place: Vec<u8>,
    at_unix_ns: u64,
    values: Vec<(DiskMetric, f64, f64)>,
}

impl MountedExportRow {
    fn give(&mut self, scan: &mut CounterScan<'_>) {
        if !self.place.is_empty() && self.values.len() != FIGURES.len() {
            scan.warn_once(INCOMPLETE);
        } else if !self.place.is_empty() {
            scan.row(CounterRow {
                disk: &self.place,
                at_unix_ns: self.at_unix_ns,
                what: CounterSemantics::Totals,
                values: &self.values,
            });
        }
        *self = MountedExportRow::default();
    }
}

fn scan(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    let (mut time, mut mount) = (LoopTime::default(), MountedExportRow::default());
    scan.lines(input, RecordingInput::line, |scan, _, line| {
        let mut what = None;
        let is_inside = line.first().is_some_and(u8::is_ascii_whitespace);
        if line.starts_with(b"device ") {
            mount.give(scan);
            match (place_of(line), time.now()) {
                (Some(place), Some(at_unix_ns)) => {
                    (mount.place, mount.at_unix_ns) = (place.into(), at_unix_ns);
                }
                (Some(_), None) => what = Some(NO_TIME),
                // Other file systems have a line and nothing else.
                (None, _) => {}
            }
        } else if !mount.place.is_empty() {
            what = figures(line, &mut mount.values).err();
        }
        if !is_inside && !line.is_empty() && !line.starts_with(b"device ") {
            mount.give(scan);
            what = time
                .read(line, scan)
                .is_none()
                .then_some("it is neither a mount nor a time");
        }
        what.map_or(Ok(()), Err)?;
        scan.right();
        Ok::<(), &str>(())
    })?;
    mount.give(scan);
    Ok(())
}

fn figures(line: &[u8], values: &mut Vec<(DiskMetric, f64, f64)>) -> Result<(), &'static str> {
    let Some(name) = words(line).next() else {
        return Ok(());
    };
    for (of, place, metric, unit) in FIGURES {
        if of == name {
            let number = words(line).nth(place + 1).and_then(whole);
            let number = number.ok_or("it has not a number in every column")?;
            values.push((metric, number as f64, unit));
        }
    }
    Ok(())
}
