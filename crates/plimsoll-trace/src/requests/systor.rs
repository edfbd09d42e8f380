// SPDX-License-Identifier: Apache-2.0
//! The traces of SYSTOR '17 (virtual desktops on an array) as SNIA publishes them.
//!
//! Six columns under a header: time of the request in seconds since 1970, response time in seconds, `R` or
//! `W`, logical unit, offset in bytes, size in bytes. Source: the page of the traces at SNIA IOTTA. In a
//! sample the rows are sorted by time *plus* response: so the time is the start, and the order is that of the
//! ends. Some rows have no response time.

use plimsoll_core::units::Nanos;

use super::rows::{RowFormat, TraceRow, TraceRowReader};
use super::{TIMED, TraceFormat, first_row_is};
use crate::recording::{RecordingCapabilities, TraceOrder};
use crate::text::{direction, fields, nanos, whole, whole_u32};

/// Recognised by its header, or by six columns of the right kinds.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "SYSTOR '17 CSV",
    is: |head| first_row_is(head, parse),
    open: |input| TraceRowReader::open(input, ROWS, parse),
};

const ROWS: RowFormat = RowFormat {
    name: FORMAT.name,
    carries: RecordingCapabilities {
        resolution: Nanos(1_000),
        order: TraceOrder::Ended,
        ..TIMED
    },
    zero_unix_ns: Some(0),
};

fn parse(line: &[u8]) -> Result<Option<TraceRow<'_>>, &'static str> {
    let [time, response, way, unit, offset, size] = fields(line).ok_or("it has not six columns")?;
    let kind = direction(way).ok_or("its third column is neither R nor W")?;
    let took = match response {
        b"" => None,
        text => Some(Nanos(
            nanos(text, 1).ok_or("its response time is not a number")?,
        )),
    };
    Ok(Some(TraceRow {
        at_ns: nanos(time, 1).ok_or("its time is not a number of seconds")?,
        took,
        kind,
        target: unit.into(),
        bytes: whole_u32(size).ok_or("its size is not a number below 4 GiB")?,
        offset: whole(offset).ok_or("its offset is not a number")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{SYSTOR, read};
    use super::*;
    use plimsoll_core::op::OpKind;

    #[test]
    fn the_time_is_the_start_and_a_response_may_be_absent() {
        let (rows, found) = read(&FORMAT, SYSTOR);
        let expect = [
            (6_848_000, Some(806_000), OpKind::Read, 0, 131_072, 899_056),
            (0, Some(8_044_000), OpKind::Write, 1, 122_880, 42_560),
            (1_112_000, None, OpKind::Read, 0, 58_368, 37_722),
        ];
        assert_eq!(found, expect);
        assert_eq!(rows.targets(), ["0", "4"]);
        assert_eq!(rows.origin_unix_ns(), Some(1_456_095_145_126_285_000));
    }
}
