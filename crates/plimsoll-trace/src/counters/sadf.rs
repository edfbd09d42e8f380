// SPDX-License-Identifier: Apache-2.0
//! The text of `sadf -d` for databases: `sadf -d -- -d`.
//!
//! Source: its manual page and output. A line that begins with `# hostname;interval;timestamp` names
//! the columns of those that follow; without a column `DEV` they are of something else than disks. A
//! line with `LINUX-RESTART` says that the machine was started again. Reads and writes are not told
//! apart in `tps`.

use plimsoll_core::units::Nanos;

use super::iostat::{SECOND, per_second};
use super::meaning::{Figures, Meaning, number, of_sysstat};
use super::{Event, Format, Give, Told};
use crate::error::TraceError;
use crate::input::Input;
use crate::recording::Scope;

/// Recognised by its first columns.
pub(super) const FORMAT: Format = Format {
    name: "sadf -d text",
    resolution: Nanos(SECOND),
    scope: Scope::Device,
    is: |head| head.starts_with(HEADER),
    scan,
};

const HEADER: &[u8] = b"# hostname;interval;timestamp";
const NO_DISKS: &str = "it has no figures of disks; make it with sadf -d -- -d";

fn scan(input: &mut Input, told: &mut Told, give: &mut Give<'_>) -> Result<(), TraceError> {
    // Meanings of the columns behind the disk; `None` while lines are not of disks.
    let mut header: Option<Vec<Option<Meaning>>> = None;
    let mut has_disks = false;
    while let Some((offset, line)) = input.wide_line()? {
        if line.starts_with(HEADER) {
            header = columns(line);
            has_disks |= header.is_some();
            continue;
        }
        let is_restart = line.windows(RESTART.len()).any(|part| part == RESTART);
        if is_restart {
            give(Event::Gap);
        }
        let Some(columns) = header.as_ref().filter(|_| !line.is_empty() && !is_restart) else {
            continue;
        };
        match row(line, columns, told) {
            Ok((disk, span, row)) => {
                told.wrong.right();
                per_second(disk, span, &row, give);
            }
            Err(what) => {
                if let Some(what) = told.wrong.wrong(offset, what, line) {
                    told.damage = Some(input.damage(offset, what));
                    break;
                }
            }
        }
    }
    if !has_disks {
        told.warn_once(NO_DISKS);
    }
    Ok(())
}

const RESTART: &[u8] = b"LINUX-RESTART";

fn columns(line: &[u8]) -> Option<Vec<Option<Meaning>>> {
    let mut names = line.split(|byte| *byte == b';').skip(3);
    if names.next()? != b"DEV" {
        return None;
    }
    let of = |name: &[u8]| of_sysstat(str::from_utf8(name.trim_ascii()).ok()?);
    Some(names.map(of).collect())
}

/// A disk, the interval, and its figures.
type Row<'a> = (&'a [u8], (u64, u64), Figures);

fn row<'a>(
    line: &'a [u8],
    columns: &[Option<Meaning>],
    told: &mut Told,
) -> Result<Row<'a>, &'static str> {
    let mut parts = line.split(|byte| *byte == b';');
    let mut next = || parts.next().ok_or("it has too few columns");
    let (host, interval, time, disk) = (next()?, next()?, next()?, next()?);
    if told.host.is_empty() {
        told.host = String::from_utf8_lossy(host).into_owned();
    }
    let interval = number(interval).filter(|seconds| *seconds > 0.0);
    let interval = interval.ok_or("its interval is no number of seconds")?;
    let at = told.instant(time).ok_or("its third column is no time")?;
    let from = at.checked_sub(Nanos::from_secs_f64(interval).0);
    let from = from.ok_or("its interval is longer than time itself")?;
    let mut row = Vec::new();
    for meaning in columns {
        let value = number(next()?).ok_or("a column is no number")?;
        row.extend(meaning.map(|meaning| (meaning, value)));
    }
    Ok((disk, (from, at), row))
}
