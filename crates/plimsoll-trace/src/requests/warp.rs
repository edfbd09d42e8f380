// SPDX-License-Identifier: Apache-2.0
//! Operations on objects as MinIO's `warp` writes them (`--full`; `warp-….csv.zst`).
//!
//! Columns between tabs, named by the first line: `idx thread op [client_id] n_objects bytes endpoint file
//! error start first_byte [last_byte] end duration_ns [cat]`; times as in RFC 3339, to the nanosecond;
//! lines that begin with `#` are remarks. Source: warp's own writer (`pkg/bench/ops.go`), whose columns were
//! added to over the years, so they are taken by their names. Objects have no place on a device.

use jiff::Timestamp;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::rows::{RowFormat, TraceRow, TraceRowParser, TraceRowReader};
use super::{TIMED, TraceFormat};
use crate::recording::{RecordingCapabilities, TraceOrder};
use crate::text::{bare, first_line, whole, whole_u32};

/// Recognised by its first line.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "warp operations (CSV)",
    is: |head| first_line(head).and_then(WarpColumns::of).is_some(),
    open: |input| TraceRowReader::open(input, ROWS, WarpRows::default()),
};

const ROWS: RowFormat = RowFormat {
    name: FORMAT.name,
    carries: RecordingCapabilities {
        offsets: false,
        order: TraceOrder::Ended,
        ..TIMED
    },
    zero_unix_ns: Some(0),
};

/// Where the columns stand that are read.
#[derive(Debug, Clone, Copy)]
struct WarpColumns {
    op: usize,
    bytes: usize,
    /// Of versions since 2020.
    endpoint: Option<usize>,
    error: usize,
    start: usize,
    took: usize,
    number: usize,
}

impl WarpColumns {
    fn of(heading: &[u8]) -> Option<WarpColumns> {
        if !heading.starts_with(b"idx\tthread\t") {
            return None;
        }
        let place = |name: &str| {
            let mut columns = heading.split(|byte| *byte == b'\t');
            columns.position(|column| column == name.as_bytes())
        };
        Some(WarpColumns {
            op: place("op")?,
            bytes: place("bytes")?,
            endpoint: place("endpoint"),
            error: place("error")?,
            start: place("start")?,
            took: place("duration_ns")?,
            number: heading.split(|byte| *byte == b'\t').count(),
        })
    }
}

#[derive(Default)]
struct WarpRows {
    /// Known once the first line was met.
    columns: Option<WarpColumns>,
    failed: u64,
    /// Operations that move no data: listing, deleting, asking for attributes.
    others: u64,
}

impl TraceRowParser for WarpRows {
    fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Option<TraceRow<'a>>, &'static str> {
        if line.starts_with(b"#") {
            return Ok(None);
        }
        if let Some(columns) = WarpColumns::of(line) {
            // Files that were put together have it several times.
            self.columns = Some(columns);
            return Ok(None);
        }
        let columns = self.columns.ok_or("no names of columns stand before it")?;
        let mut fields = [&b""[..]; 24];
        let mut number = 0;
        let mut is_quoted = false;
        // Names and errors are in quotation marks where they hold tabs.
        let is_end = |byte: &u8| {
            is_quoted ^= *byte == b'"';
            *byte == b'\t' && !is_quoted
        };
        for field in line.split(is_end) {
            if let Some(place) = fields.get_mut(number) {
                *place = bare(field);
            }
            number += 1;
        }
        if number != columns.number {
            return Err("it has not as many columns as there are names");
        }
        let field = |place: usize| fields.get(place).copied().unwrap_or_default();
        if !field(columns.error).is_empty() {
            self.failed += 1;
            return Ok(None);
        }
        let kind = match field(columns.op) {
            b"GET" => OpKind::Read,
            b"PUT" | b"PUTPART" | b"APPEND" => OpKind::Write,
            _ => {
                self.others += 1;
                return Ok(None);
            }
        };
        let start = std::str::from_utf8(field(columns.start)).ok();
        let start = start.and_then(|text| text.parse::<Timestamp>().ok());
        let at_ns = start.and_then(|at| u64::try_from(at.as_nanosecond()).ok());
        let endpoint = columns.endpoint.map(field).unwrap_or_default();
        Ok(Some(TraceRow {
            at_ns: at_ns.ok_or("its start is not a time since 1970")?,
            took: Some(Nanos(
                whole(field(columns.took)).ok_or("its duration is not a number of nanoseconds")?,
            )),
            kind,
            target: if endpoint.is_empty() {
                b"objects".into()
            } else {
                endpoint.into()
            },
            bytes: whole_u32(field(columns.bytes))
                .ok_or("its bytes are not a number below 4 GiB")?,
            offset: 0,
        }))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (count, what) in [
            (self.failed, "failed"),
            (self.others, "move no data (neither GET nor PUT)"),
        ] {
            if count > 0 {
                notes.push(format!("{count} operations {what} and were left out"));
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{WARP, read};
    use super::*;

    #[test]
    fn objects_have_times_and_sizes_but_no_places() {
        let (rows, found) = read(&FORMAT, WARP);
        let expect = [
            (0, Some(12_000_000), OpKind::Write, 0, 1_048_576, 0),
            (
                1_500_000_000,
                Some(3_000_001),
                OpKind::Read,
                1,
                1_048_576,
                0,
            ),
        ];
        assert_eq!(found, expect);
        assert_eq!(
            rows.targets(),
            ["http://10.0.0.1:9000", "http://10.0.0.2:9000"]
        );
        assert_eq!(rows.origin_unix_ns(), Some(1_580_983_200_250_000_000));
        assert!(!rows.about().carries.offsets);
        assert_eq!(
            rows.warnings(),
            [
                "2 operations failed and were left out",
                "1 operations move no data (neither GET nor PUT) and were left out"
            ]
        );
    }

    #[test]
    fn columns_are_taken_by_their_names() {
        let early = b"idx\tthread\top\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\tend\t\
            duration_ns\n0\t0\tGET\t1\t10\t\tx\t\t2020-02-06T10:00:00Z\t\t2020-02-06T10:00:01Z\t7\n";
        let (rows, found) = read(&FORMAT, early);
        assert_eq!(found, [(0, Some(7), OpKind::Read, 0, 10, 0)]);
        assert_eq!(rows.targets(), ["objects"]);
        // As its own test file of 2019 has them.
        let first = b"idx\tthread\top\tn_objects\tbytes\tfile\terror\tstart\tfirst_byte\tend\tduration_ns\n\
            0\t0\tGET\t1\t10\tx\t\t2019-11-06T10:00:00Z\t\t2019-11-06T10:00:01Z\t7\n";
        let (rows, found) = read(&FORMAT, first);
        assert_eq!(found, [(0, Some(7), OpKind::Read, 0, 10, 0)]);
        assert_eq!(rows.targets(), ["objects"]);
        for (line, what) in [
            (&b"idx\tthread\top\n"[..], false),
            (
                b"thread\tidx\top\tbytes\tendpoint\terror\tstart\tduration_ns\n",
                false,
            ),
            (
                b"idx\tthread\top\tbytes\tendpoint\terror\tstart\tduration_ns\n",
                true,
            ),
        ] {
            assert_eq!((FORMAT.is)(line), what);
        }
    }
}
