// SPDX-License-Identifier: Apache-2.0
//! The text of `sadf -d` for databases: `sadf -d -- -d`.
//!
//! Source: its manual page and output. A line that begins with `# hostname;interval;timestamp` names
//! the columns of those that follow; without a column `DEV` they are of something else than disks. A
//! line with `LINUX-RESTART` says that the machine was started again. Reads and writes are not kept
//! apart in `tps`. With `-h` all disks of a report stand on one line, and the header of their columns
//! ends in `[...]`.

use plimsoll_core::units::Nanos;

use super::meaning::{ColumnMeaning, DiskRowValues, number, of_sysstat};
use super::{CounterFormat, CounterScan};
use crate::error::TraceError;
use crate::input::RecordingInput;

/// Recognised by its first columns.
pub(super) const FORMAT: CounterFormat = CounterFormat {
    name: "sadf -d text",
    resolution: Nanos::SECOND,
    is: |head| head.starts_with(HEADER),
    scan,
};

const HEADER: &[u8] = b"# hostname;interval;timestamp";
const NO_DISKS: &str = "it has no figures of disks; make it with sadf -d -- -d";
const SEVERAL: &str = "it has figures of several kinds on one line (sadf -h), which cannot be \
                       separated; make it with sadf -d -- -d";
/// Behind the last of the columns that come again for each device.
const AGAIN: &[u8] = b"[...]";
const RESTART: &[u8] = b"LINUX-RESTART";

fn scan(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    // `None` while lines are not of disks.
    let mut header: Option<SadfHeader> = None;
    let mut has_disks = false;
    scan.lines(input, RecordingInput::wide_line, |scan, _, line| {
        if line.starts_with(HEADER) {
            header = SadfHeader::of(line).unwrap_or_else(|what| {
                scan.warn_once(what);
                None
            });
            has_disks |= header.is_some();
            return Ok(());
        }
        let is_restart = line.windows(RESTART.len()).any(|part| part == RESTART);
        if is_restart {
            scan.gap();
        }
        let Some(header) = header.as_ref().filter(|_| !line.is_empty() && !is_restart) else {
            return Ok(());
        };
        header.row(line, scan).map(|()| scan.right())
    })?;
    if !has_disks && scan.told.warnings.is_empty() {
        scan.warn_once(NO_DISKS);
    }
    Ok(())
}

/// The columns of lines of disks.
struct SadfHeader {
    /// Columns between the time and the disk.
    before: usize,
    /// Meanings of the columns behind the disk.
    columns: Vec<Option<ColumnMeaning>>,
    /// Whether disk and columns come again for each disk.
    is_again: bool,
}

impl SadfHeader {
    /// `None` when it is not of disks.
    fn of(line: &[u8]) -> Result<Option<SadfHeader>, &'static str> {
        let names: Vec<&[u8]> = line.split(|byte| *byte == b';').skip(3).collect();
        let Some(before) = names.iter().position(|name| *name == b"DEV") else {
            return Ok(None);
        };
        let behind = &names[before + 1..];
        let is_last = |name: &&[u8]| name.ends_with(AGAIN);
        if names[..before].iter().any(is_last) {
            return Err(SEVERAL);
        }
        let end = behind.iter().position(|name| name.ends_with(AGAIN));
        if end.is_some_and(|end| end + 1 < behind.len()) || (end.is_none() && before > 0) {
            return Err(SEVERAL);
        }
        let of = |name: &&[u8]| {
            let name = name.strip_suffix(AGAIN).unwrap_or(name);
            of_sysstat(str::from_utf8(name.trim_ascii()).ok()?)
        };
        Ok(Some(SadfHeader {
            before,
            columns: behind.iter().map(of).collect(),
            is_again: end.is_some(),
        }))
    }

    fn row(&self, line: &[u8], scan: &mut CounterScan<'_>) -> Result<(), &'static str> {
        const TOO_FEW: &str = "it has too few columns";
        let mut parts = line.split(|byte| *byte == b';');
        let mut next = || parts.next().ok_or(TOO_FEW);
        let (host, interval, time) = (next()?, next()?, next()?);
        if scan.told.host.is_empty() {
            scan.told.host = String::from_utf8_lossy(host).into_owned();
        }
        let interval = number(interval).filter(|seconds| *seconds > 0.0);
        let interval = interval.ok_or("its interval is not a number of seconds")?;
        let at = scan.instant(time).ok_or("its third column is not a time")?;
        let from = at.checked_sub(Nanos::from_secs_f64(interval).0);
        let from = from.ok_or("its interval is longer than time itself")?;
        for _ in 0..self.before {
            parts.next().ok_or(TOO_FEW)?;
        }
        let mut is_first = true;
        // Each round takes a part.
        while let Some(disk) = parts.next() {
            if !is_first && !self.is_again {
                return Err("it has too many columns");
            }
            is_first = false;
            let row = self.figures(&mut parts)?;
            scan.rates(disk, (from, at), &row);
        }
        if is_first { Err(TOO_FEW) } else { Ok(()) }
    }

    fn figures<'a>(
        &self,
        parts: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Result<DiskRowValues, &'static str> {
        let mut row = Vec::new();
        for meaning in &self.columns {
            let value = parts.next().ok_or("it has too few columns")?;
            let value = number(value).ok_or("a column is not a number")?;
            row.extend(meaning.map(|meaning| (meaning, value)));
        }
        Ok(row)
    }
}
