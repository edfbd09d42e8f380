// SPDX-License-Identifier: Apache-2.0
//! Input traces of the flash simulator MQSim.
//!
//! Five words: arrival in nanoseconds, device, first sector and number of sectors of 512 bytes, 1
//! for a read or 0 for a write. Source: the description that comes with the simulator. There are no
//! response times.

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::rows::{RowFormat, TraceRow, TraceRowReader};
use super::{TraceFormat, UNTIMED, first_row_is};
use crate::recording::RecordingCapabilities;
use crate::text::{sectors, sectors_u32, whole, words};

/// Recognised by five words that are numbers, the last being 0 or 1.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "MQSim trace",
    is: |head| first_row_is(head, parse),
    open: |input| TraceRowReader::open(input, ROWS, parse),
};

const ROWS: RowFormat = RowFormat {
    name: FORMAT.name,
    carries: RecordingCapabilities {
        resolution: Nanos(1),
        ..UNTIMED
    },
    zero_unix_ns: None,
};

fn parse(line: &[u8]) -> Result<Option<TraceRow<'_>>, &'static str> {
    let mut words = words(line);
    let Some(time) = words.next() else {
        return Ok(None);
    };
    let mut next = || words.next().ok_or("it has fewer than five words");
    let (device, sector, size, way) = (next()?, next()?, next()?, next()?);
    let kind = match way {
        b"0" => OpKind::Write,
        b"1" => OpKind::Read,
        _ => return Err("its fifth word is neither 0 nor 1"),
    };
    if words.next().is_some() {
        return Err("it has more than five words");
    }
    whole(device).ok_or("its device is not a number")?;
    Ok(Some(TraceRow {
        at_ns: whole(time).ok_or("its time is not a number of nanoseconds")?,
        took: None,
        kind,
        target: device.into(),
        bytes: sectors_u32(size).ok_or("its size is not a number of sectors below 4 GiB")?,
        offset: sectors(sector).ok_or("its first sector is not a number")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{MQSIM, read};
    use super::*;

    #[test]
    fn one_is_a_read() {
        let (rows, found) = read(&FORMAT, MQSIM);
        let expect = [
            (0, None, OpKind::Write, 0, 8_192, 512 * 264_719_034),
            (315_000, None, OpKind::Read, 1, 8_192, 512 * 197_570_570),
        ];
        assert_eq!(found, expect);
        assert_eq!(rows.targets(), ["4", "3"]);
    }
}
