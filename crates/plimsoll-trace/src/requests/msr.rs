// SPDX-License-Identifier: Apache-2.0
//! The traces of MSR Cambridge as SNIA publishes them.
//!
//! Seven columns without a header: time (Windows file time, 100 ns since 1601), host, disk number,
//! `Read` or `Write`, offset in bytes, size in bytes, response time in 100 ns. Source: the page of
//! the traces at SNIA IOTTA, checked against a sample of `hm_0`. Rows are in the order in which the
//! tracer got them, which is not always that of the times.

use std::borrow::Cow;

use plimsoll_core::units::Nanos;

use super::rows::{RowFormat, TraceRow, TraceRowReader};
use super::{TIMED, TraceFormat, first_row_is};
use crate::recording::{RecordingCapabilities, TraceOrder};
use crate::text::{direction, fields, whole, whole_u32};

/// Recognised by seven columns of the right kinds in the first row.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "MSR Cambridge CSV",
    is: |head| first_row_is(head, parse),
    open: |input| TraceRowReader::open(input, ROWS, parse),
};

/// 1601 to 1970 in nanoseconds.
const FILE_TIME_ZERO: i128 = -11_644_473_600_000_000_000;
const TICK_NS: u64 = 100;

const ROWS: RowFormat = RowFormat {
    name: FORMAT.name,
    carries: RecordingCapabilities {
        resolution: Nanos(TICK_NS),
        order: TraceOrder::Mixed,
        ..TIMED
    },
    zero_unix_ns: Some(FILE_TIME_ZERO),
};

fn parse(line: &[u8]) -> Result<Option<TraceRow<'_>>, &'static str> {
    let [time, host, disk, way, offset, size, response] =
        fields(line).ok_or("it has not seven columns")?;
    let kind = direction(way).ok_or("its fourth column is neither Read nor Write")?;
    // Host and disk with a comma between them, as they mostly stand.
    let begin = host.as_ptr() as usize - line.as_ptr() as usize;
    let target = match line.get(begin..begin + host.len() + 1 + disk.len()) {
        Some(both) if both.ends_with(disk) && both[host.len()] == b',' => Cow::Borrowed(both),
        _ => Cow::Owned([host, b",", disk].concat()),
    };
    let ticks = |text| whole(text).and_then(|ticks| ticks.checked_mul(TICK_NS));
    // File times of this century have 18 digits: 1.3e17 ticks are 1.3e19 ns, which 64 bits hold.
    Ok(Some(TraceRow {
        at_ns: ticks(time).ok_or("its time is no Windows file time")?,
        took: Some(Nanos(
            ticks(response).ok_or("its response time is not a number")?,
        )),
        kind,
        target,
        bytes: whole_u32(size).ok_or("its size is not a number below 4 GiB")?,
        offset: whole(offset).ok_or("its offset is not a number")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::read;
    use super::*;
    use crate::input::RecordingInput;
    use plimsoll_core::op::OpKind;

    const TEXT: &str = "\
128166385295514663,hm,0,Write,9056014336,2048,2833\n\
128166385295514878,hm,1,Read,11855351808,512,2617\r\n\
nonsense\n\
128166385295514600,hm,0,Read,512,4096,10\n";

    #[test]
    fn rows_become_requests_and_what_is_no_row_is_counted() {
        assert!((FORMAT.is)(TEXT.as_bytes()));
        assert!(!(FORMAT.is)(b"1,2,3\n"));
        let (rows, found) = read(&FORMAT, TEXT.as_bytes());
        let (read, write) = (OpKind::Read, OpKind::Write);
        // The earliest of the first rows is the origin, wherever it stands.
        let expect = [
            (6_300, Some(283_300), write, 0, 2048, 9_056_014_336),
            (27_800, Some(261_700), read, 1, 512, 11_855_351_808),
            (0, Some(1_000), read, 0, 4096, 512),
        ];
        assert_eq!(found, expect);
        assert_eq!(rows.targets(), ["hm,0", "hm,1"]);
        assert_eq!(rows.origin_unix_ns(), Some(1_172_164_929_551_460_000));
        let told = rows.warnings().join("\n");
        for part in ["1 lines", "at byte 102", "nonsense"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn what_people_make_of_the_rows_is_read_all_the_same() {
        let (_, expect) = read(&FORMAT, TEXT.replace("nonsense\n", "").as_bytes());
        let rows: Vec<&str> = TEXT.lines().filter(|line| line.contains(',')).collect();
        let each = |change: &dyn Fn(&str) -> String| -> String {
            rows.iter().map(|row| change(row) + "\n").collect()
        };
        let heading = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
        for text in [
            heading.to_owned() + &each(&|row| row.into()),
            each(&|row| row.replace(',', ", ")),
            each(&|row| row.replace(',', "\t")),
            each(&|row| format!("\"{}\"", row.replace(',', "\",\""))),
            each(&|row| row.to_lowercase()),
            each(&|row| row.to_uppercase().replace("HM", "hm")),
        ] {
            let (rows, found) = read(&FORMAT, text.as_bytes());
            assert_eq!(found, expect, "{text}");
            assert_eq!(rows.targets(), ["hm,0", "hm,1"], "{text}");
            assert_eq!(rows.warnings(), [""; 0], "{text}");
        }
    }

    #[test]
    fn requests_before_the_origin_are_counted() {
        let mut text = "128166385295514663,hm,0,Write,0,2048,2833\n".repeat(1 << 16);
        text += "128166385295514600,hm,0,Write,0,2048,2833\n";
        let (rows, found) = read(&FORMAT, text.as_bytes());
        assert_eq!(found.last().unwrap().0, 0);
        let told = rows.warnings().join("\n");
        assert!(told.starts_with("1 requests started before"), "{told}");
    }

    #[test]
    fn a_file_without_a_row_is_refused_with_its_first_line() {
        let input = RecordingInput::new("x".into(), Box::new(&b"a\nb\n"[..])).unwrap();
        let mut rows = TraceRowReader::open(input, ROWS, parse).unwrap();
        let error = rows.read(&mut Vec::new()).err().unwrap().to_string();
        assert!(error.contains("no line of it is understood"), "{error}");
    }
}
