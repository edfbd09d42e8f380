// SPDX-License-Identifier: Apache-2.0
//! The block traces of Alibaba Cloud of 2020.
//!
//! Five columns without a header: volume, `R` or `W`, offset in bytes, length in bytes, time in
//! microseconds since 1970. Source: the description that is published with the traces. The
//! requests of a thousand volumes stand between each other in one file.

use plimsoll_core::units::Nanos;

use super::rows::{RowFormat, TraceRow, TraceRowReader};
use super::{TraceFormat, UNTIMED, first_row_is};
use crate::recording::RecordingCapabilities;
use crate::text::{direction, fields, whole, whole_u32};

/// Recognised by five columns, the second being a direction.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "Alibaba block trace CSV",
    is: |head| first_row_is(head, parse),
    open: |input| TraceRowReader::open(input, ROWS, parse),
};

const MICROS: u64 = 1_000;

const ROWS: RowFormat = RowFormat {
    name: FORMAT.name,
    carries: RecordingCapabilities {
        resolution: Nanos(MICROS),
        ..UNTIMED
    },
    zero_unix_ns: Some(0),
};

fn parse(line: &[u8]) -> Result<Option<TraceRow<'_>>, &'static str> {
    let [volume, way, offset, length, time] = fields(line).ok_or("it has not five columns")?;
    let kind = direction(way).ok_or("its second column is neither R nor W")?;
    let at_ns = whole(time).and_then(|us| us.checked_mul(MICROS));
    Ok(Some(TraceRow {
        at_ns: at_ns.ok_or("its time is not a number of microseconds")?,
        took: None,
        kind,
        target: volume.into(),
        bytes: whole_u32(length).ok_or("its length is not a number below 4 GiB")?,
        offset: whole(offset).ok_or("its offset is not a number")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{ALIBABA, read};
    use super::*;
    use plimsoll_core::op::OpKind;

    #[test]
    fn volumes_are_told_apart() {
        let (rows, found) = read(&FORMAT, ALIBABA);
        let expect = [
            (0, None, OpKind::Write, 0, 16_384, 8_792_731_648),
            (29_000, None, OpKind::Read, 1, 4_096, 126_703_616),
        ];
        assert_eq!(found, expect);
        assert_eq!(rows.targets(), ["419", "725"]);
        assert_eq!(rows.origin_unix_ns(), Some(1_577_808_144_360_767_000));
    }
}
