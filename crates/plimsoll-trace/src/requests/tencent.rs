// SPDX-License-Identifier: Apache-2.0
//! The traces of Tencent's cloud block storage as SNIA publishes them.
//!
//! Five columns without a header: time in whole seconds since 1970, offset and size in sectors of
//! 512 bytes, 0 for a read or 1 for a write, volume. Source: the page of the traces at SNIA IOTTA.
//! How requests arrive inside a second is not in it.

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::rows::{RowFormat, TraceRow, TraceRowReader};
use super::{TraceFormat, UNTIMED, first_row_is};
use crate::recording::RecordingCapabilities;
use crate::text::{fields, is_heading, lines, sectors, sectors_u32, whole};

/// Recognised by five columns of numbers, the fourth being 0 or 1, and by a heading, if it has one,
/// that speaks of offsets: many lists of other things have five such columns.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "Tencent block storage CSV",
    is: |head| {
        let heading = lines(head).next().filter(|line| is_heading(line));
        let words = heading.map(|line| line.to_ascii_lowercase());
        let is_of_blocks = |line: &Vec<u8>| line.windows(6).any(|word| word == b"offset");
        words.as_ref().is_none_or(is_of_blocks) && first_row_is(head, parse)
    },
    open: |input| TraceRowReader::open(input, ROWS, parse),
};

const SECOND: u64 = 1_000_000_000;

const ROWS: RowFormat = RowFormat {
    name: FORMAT.name,
    carries: RecordingCapabilities {
        resolution: Nanos(SECOND),
        ..UNTIMED
    },
    zero_unix_ns: Some(0),
};

fn parse(line: &[u8]) -> Result<Option<TraceRow<'_>>, &'static str> {
    let [time, offset, size, way, volume] = fields(line).ok_or("it has not five columns")?;
    let kind = match way {
        b"0" => OpKind::Read,
        b"1" => OpKind::Write,
        _ => return Err("its fourth column is neither 0 nor 1"),
    };
    let at_ns = whole(time).and_then(|s| s.checked_mul(SECOND));
    Ok(Some(TraceRow {
        at_ns: at_ns.ok_or("its time is not a number of seconds")?,
        took: None,
        kind,
        target: volume.into(),
        bytes: sectors_u32(size).ok_or("its size is not a number of sectors below 4 GiB")?,
        offset: sectors(offset).ok_or("its offset is not a number of sectors")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{TENCENT, read};
    use super::*;

    #[test]
    fn sectors_become_bytes_and_the_second_is_the_finest_time() {
        let (rows, found) = read(&FORMAT, TENCENT);
        let expect = [
            (0, None, OpKind::Write, 0, 24_576, 512 * 12_910_952),
            (0, None, OpKind::Read, 1, 4_096, 512 * 6_735_176),
            (1_000_000_000, None, OpKind::Write, 0, 4_096, 0),
        ];
        assert_eq!(found, expect);
        assert_eq!(rows.targets(), ["1063", "1064"]);
        assert_eq!(rows.about().carries.resolution, Nanos(SECOND));
    }
}
