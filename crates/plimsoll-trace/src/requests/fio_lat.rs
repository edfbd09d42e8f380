// SPDX-License-Identifier: Apache-2.0
//! Logs of fio of each operation's time, with its place: `write_lat_log` with `log_offset=1`.
//!
//! Six columns, in newer versions a seventh: milliseconds from the start at which it ended, how long it
//! took in nanoseconds, 0 for a read, 1 for a write or 2 for a trim, bytes, offset, priority. Source:
//! fio's manual, checked against fio 3.33. Starts are recorded to the millisecond, as ends are; that the
//! end lies in the middle of its millisecond is the least wrong.

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::rows::{RowFormat, TraceRow, TraceRowReader};
use super::{TIMED, TraceFormat, first_row_is};
use crate::error::TraceError;
use crate::recording::{RecordingCapabilities, TraceOrder};
use crate::text::{fields, whole, whole_u32};

/// Recognised by six or seven columns of numbers, the third being 0, 1 or 2.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "fio latency log with offsets",
    is: |head| first_row_is(head, parse),
    open: |input| match other_log(input.name()) {
        Some(what) => Err(TraceError::format(
            input.name(),
            format!(
                "by its name it is fio's log of {what}; give the one of latencies (_lat, _clat)"
            ),
        )),
        None => TraceRowReader::open(input, ROWS, parse),
    },
};

/// Quantity in a log of the same columns, by the name that fio gave it.
fn other_log(name: &str) -> Option<&'static str> {
    const OTHERS: [(&str, &str); 3] = [
        ("_bw.", "bandwidth"),
        ("_iops.", "operations per second"),
        ("_slat.", "times of submission"),
    ];
    let file = name.rsplit('/').next().unwrap_or(name);
    OTHERS
        .iter()
        .find(|(part, _)| file.contains(part))
        .map(|(_, what)| *what)
}

const MILLIS: u64 = 1_000_000;
/// The clock begins here, a whole number of milliseconds, so that what had begun before it lies behind
/// its zero.
const ZERO_NS: u64 = 4_000_000_000_000_000_000;

const ROWS: RowFormat = RowFormat {
    name: FORMAT.name,
    carries: RecordingCapabilities {
        resolution: Nanos(MILLIS),
        order: TraceOrder::Ended,
        ..TIMED
    },
    zero_unix_ns: None,
};

fn parse(line: &[u8]) -> Result<Option<TraceRow<'_>>, &'static str> {
    let six = fields::<6>(line);
    let seven = || fields::<7>(line).map(|[a, b, c, d, e, f, _]| [a, b, c, d, e, f]);
    let found = six
        .or_else(seven)
        .ok_or("it has neither six nor seven columns")?;
    let [ended, took, way, bytes, offset, priority] = found;
    let kind = match way {
        b"0" => OpKind::Read,
        b"1" => OpKind::Write,
        b"2" => OpKind::Discard,
        _ => return Err("its third column is not 0, 1 or 2"),
    };
    let digits = priority.strip_prefix(b"0x").unwrap_or(priority);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err("its sixth column is not a priority");
    }
    let took_ns = whole(took).ok_or("its second column is not a time in nanoseconds")?;
    let ended_ns = whole(ended).and_then(|ms| ms.checked_mul(MILLIS)?.checked_add(ZERO_NS));
    let ended_ns = ended_ns.ok_or("its first column is not a number of milliseconds")?;
    let at_ns = (ended_ns + MILLIS / 2).saturating_sub(took_ns);
    Ok(Some(TraceRow {
        at_ns: at_ns - at_ns % MILLIS,
        took: Some(Nanos(took_ns)),
        kind,
        target: b"file".into(),
        bytes: whole_u32(bytes)
            .filter(|bytes| *bytes > 0)
            .ok_or("its fourth column is not a number of bytes below 4 GiB")?,
        offset: whole(offset).ok_or("its fifth column is not an offset")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{FIO_LAT, read};
    use super::*;
    use crate::input::RecordingInput;

    #[test]
    fn logs_of_other_figures_are_known_by_name() {
        for (name, of) in [
            ("job_bw.1.log", Some("bandwidth")),
            ("/tmp/a_lat.b/job_iops.2.log", Some("operations")),
            ("job_slat.1.log.gz", Some("submission")),
            ("job_clat.1.log", None),
            ("/tmp/x_bw.d/job_lat.1.log", None),
        ] {
            let log = Box::new(std::io::Cursor::new(FIO_LAT.to_vec()));
            let input = RecordingInput::new(name.into(), log).unwrap();
            let error = (FORMAT.open)(input).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), of.is_some(), "{name}");
            assert!(
                error.unwrap_or_default().contains(of.unwrap_or_default()),
                "{name}"
            );
        }
    }

    #[test]
    fn starts_are_ends_less_latencies_to_the_millisecond() {
        let (rows, found) = read(&FORMAT, FIO_LAT);
        let expect = [
            (0, Some(3_400_000), OpKind::Read, 0, 4_096, 8_192),
            (5_000_000, Some(100_000), OpKind::Write, 0, 65_536, 0),
            (5_000_000, Some(900_000), OpKind::Discard, 0, 4_096, 512),
        ];
        assert_eq!(found, expect);
        assert_eq!(rows.about().carries.resolution, Nanos(MILLIS));
    }
}
