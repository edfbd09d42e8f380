// SPDX-License-Identifier: Apache-2.0
//! The traces of Florida International University (web, mail, home servers) at SNIA.
//!
//! Nine words: time in nanoseconds, process number, process name, block and size in sectors of 512
//! bytes, `R` or `W`, major and minor number, hash of the content. Source: the page of the traces
//! at SNIA IOTTA. Requests were cut into pieces of 4 KiB, one for each hash, so sizes and the
//! arrivals inside a request are not those that the device got; there are no response times.

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::rows::{RowFormat, TraceRow, TraceRowReader};
use super::{TraceFormat, UNTIMED, first_row_is};
use crate::recording::RecordingCapabilities;
use crate::text::{sectors, sectors_u32, whole, words};

/// Recognised by nine words of the right kinds.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "FIU block trace",
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
    let few = "it has fewer than eight words";
    let mut words = words(line);
    let time = words.next().ok_or(few)?;
    // A process name may hold spaces, so the rest is counted from the end.
    let hash = words.next_back().ok_or(few)?;
    if hash.len() < 16 {
        return Err("its last word is not a hash of content");
    }
    let minor = words.next_back().ok_or(few)?;
    let major = words.next_back().ok_or(few)?;
    let way = words.next_back().ok_or(few)?;
    let size = words.next_back().ok_or(few)?;
    let block = words.next_back().ok_or(few)?;
    let kind = match way {
        b"R" => OpKind::Read,
        b"W" => OpKind::Write,
        _ => return Err("its sixth word is neither R nor W"),
    };
    whole(major)
        .zip(whole(minor))
        .ok_or("its device has no major and minor number")?;
    words
        .next()
        .and_then(whole)
        .ok_or("its second word is not a process number")?;
    Ok(Some(TraceRow {
        at_ns: whole(time).ok_or("its time is not a number of nanoseconds")?,
        took: None,
        kind,
        target: span(line, major, minor).into(),
        bytes: sectors_u32(size).ok_or("its size is not a number of sectors below 4 GiB")?,
        offset: sectors(block).ok_or("its block is not a number of sectors")?,
    }))
}

/// The part of a line from one of its words to the end of a later one.
fn span<'a>(line: &'a [u8], from: &[u8], to: &[u8]) -> &'a [u8] {
    let place = |word: &[u8]| word.as_ptr() as usize - line.as_ptr() as usize;
    &line[place(from)..place(to) + to.len()]
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{FIU, read};
    use super::*;

    #[test]
    fn names_may_hold_spaces_and_devices_are_two_numbers() {
        let (rows, found) = read(&FORMAT, FIU);
        let expect = [
            (0, None, OpKind::Read, 0, 4_096, 512 * 283_193_184),
            (1_000, None, OpKind::Write, 1, 4_096, 512 * 904_265_560),
        ];
        assert_eq!(found, expect);
        assert_eq!(rows.targets(), ["6 0", "8 1"]);
    }
}
