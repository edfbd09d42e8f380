// SPDX-License-Identifier: Apache-2.0
//! Traces in the form of the Storage Performance Council: `Financial` and `WebSearch`, from UMass.
//!
//! Five columns, then perhaps more: application storage unit, block of 512 bytes, size in bytes,
//! `R` or `W` in either case, time in seconds from the start. Source: the trace file format
//! specification of the council, revision 1.0.1. There are no response times.

use plimsoll_core::units::Nanos;

use super::rows::{RowFormat, TraceRow, TraceRowReader};
use super::{TraceFormat, UNTIMED, first_row_is};
use crate::recording::RecordingCapabilities;
use crate::text::{bare, direction, nanos, sectors, whole, whole_u32};

/// Recognised by the direction in its fourth column and a time in its fifth.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "SPC trace (UMass)",
    is: |head| first_row_is(head, parse),
    open: |input| TraceRowReader::open(input, ROWS, parse),
};

const ROWS: RowFormat = RowFormat {
    name: FORMAT.name,
    carries: RecordingCapabilities {
        resolution: Nanos(1_000),
        ..UNTIMED
    },
    zero_unix_ns: None,
};

fn parse(line: &[u8]) -> Result<Option<TraceRow<'_>>, &'static str> {
    let mut columns = line.split(|byte| *byte == b',').map(bare);
    let mut next = || columns.next().ok_or("it has fewer than five columns");
    let (unit, block, size, way, time) = (next()?, next()?, next()?, next()?, next()?);
    let kind = direction(way).ok_or("its fourth column is neither R nor W")?;
    whole(unit).ok_or("its first column is not a number of a storage unit")?;
    Ok(Some(TraceRow {
        at_ns: nanos(time, 1).ok_or("its time is not a number of seconds")?,
        took: None,
        kind,
        target: unit.into(),
        bytes: whole_u32(size).ok_or("its size is not a number below 4 GiB")?,
        offset: sectors(block).ok_or("its block is not a number")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{SPC, read};
    use super::*;
    use plimsoll_core::op::OpKind;

    #[test]
    fn directions_come_in_either_case_and_columns_may_follow() {
        let (rows, found) = read(&FORMAT, SPC);
        let expect = [
            (0, None, OpKind::Write, 0, 8_192, 512 * 20_941_264),
            (3_041_000, None, OpKind::Read, 1, 512, 0),
        ];
        assert_eq!(found, expect);
        assert_eq!(rows.targets(), ["0", "1"]);
    }
}
