// SPDX-License-Identifier: Apache-2.0
//! The traces of MSR Cambridge as SNIA publishes them.
//!
//! Seven columns without a header: time (Windows file time, 100 ns since 1601), host, disk number,
//! `Read` or `Write`, offset in bytes, size in bytes, response time in 100 ns. Source: the page of
//! the traces at SNIA IOTTA, checked against a sample of `hm_0`. Rows are in the order in which the
//! tracer got them, which is not always that of the times.

use plimsoll_core::op::Kind;
use plimsoll_core::units::Nanos;

use super::Format;
use super::rows::{Row, RowFormat, Rows, whole};
use crate::recording::{Carries, Detail, Order, Scope};

/// Recognised by seven columns of the right kinds in the first row.
pub(super) const FORMAT: Format = Format {
    name: "MSR Cambridge CSV",
    is: |head| first_line(head).is_some_and(|line| matches!(parse(line), Ok(Some(_)))),
    open: |input| Rows::open(input, ROWS),
};

/// 1601 to 1970 in nanoseconds.
const FILE_TIME_ZERO: i128 = -11_644_473_600_000_000_000;
const TICK_NS: u64 = 100;

const ROWS: RowFormat = RowFormat {
    name: "MSR Cambridge CSV",
    carries: Carries {
        arrivals: Detail::Each,
        resolution: Nanos(TICK_NS),
        direction: true,
        sizes: Detail::Each,
        offsets: true,
        service: Detail::Each,
        queue: Detail::Each,
        order: Order::Mixed,
        scope: Scope::Device,
    },
    zero_unix_ns: Some(FILE_TIME_ZERO),
    parse,
};

fn first_line(head: &[u8]) -> Option<&[u8]> {
    let line = head.split(|byte| *byte == b'\n').next()?;
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

fn parse(line: &[u8]) -> Result<Option<Row<'_>>, &'static str> {
    if line.is_empty() {
        return Ok(None);
    }
    let mut columns = line.split(|byte| *byte == b',');
    let mut next = || columns.next().ok_or("it has fewer than seven columns");
    let (time, host, disk, way) = (next()?, next()?, next()?, next()?);
    let (offset, size, response) = (next()?, next()?, next()?);
    let kind = match way {
        b"Read" => Kind::Read,
        b"Write" => Kind::Write,
        _ => return Err("its fourth column is neither Read nor Write"),
    };
    // Host and disk as they stand, with the comma between them.
    let target = &line[time.len() + 1..][..host.len() + 1 + disk.len()];
    let ticks = |text| whole(text).and_then(|ticks| ticks.checked_mul(TICK_NS));
    // File times of this century have 18 digits: 1.3e17 ticks are 1.3e19 ns, which 64 bits hold.
    Ok(Some(Row {
        at_ns: ticks(time).ok_or("its time is no Windows file time")?,
        took: Some(Nanos(
            ticks(response).ok_or("its response time is no number")?,
        )),
        kind,
        target,
        bytes: whole(size)
            .and_then(|bytes| u32::try_from(bytes).ok())
            .ok_or("its size is no number below 4 GiB")?,
        offset: whole(offset).ok_or("its offset is no number")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::input::Input;
    use super::*;

    const TEXT: &str = "\
128166385295514663,hm,0,Write,9056014336,2048,2833\n\
128166385295514878,hm,1,Read,11855351808,512,2617\r\n\
nonsense\n\
128166385295514600,hm,0,Read,512,4096,10\n";

    #[test]
    fn rows_become_requests_and_what_is_no_row_is_counted() {
        assert!((FORMAT.is)(TEXT.as_bytes()));
        assert!(!(FORMAT.is)(b"1,2,3\n"));
        let input = Input::new("hm.csv".into(), Box::new(TEXT.as_bytes())).unwrap();
        let mut rows = (FORMAT.open)(input).unwrap();
        let mut found = Vec::new();
        while rows.read(&mut found).unwrap() {}
        let told: Vec<_> = found
            .iter()
            .map(|r| {
                (
                    r.at.0,
                    r.took.map(|t| t.0),
                    r.kind,
                    r.target,
                    r.bytes,
                    r.offset,
                )
            })
            .collect();
        let (read, write) = (Kind::Read, Kind::Write);
        let expect = [
            (0, Some(283_300), write, 0, 2048, 9_056_014_336),
            (21_500, Some(261_700), read, 1, 512, 11_855_351_808),
            (0, Some(1_000), read, 0, 4096, 512),
        ];
        assert_eq!(told, expect);
        assert_eq!(rows.targets(), ["hm,0", "hm,1"]);
        assert_eq!(rows.origin_unix_ns(), Some(1_172_164_929_551_466_300));
        let told = rows.warnings().join("\n");
        for part in ["1 lines", "at byte 102", "nonsense", "1 requests are older"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn a_file_without_a_row_is_refused_with_its_first_line() {
        let input = Input::new("x".into(), Box::new(&b"a\nb\n"[..])).unwrap();
        let mut rows = Rows::open(input, ROWS).unwrap();
        let error = rows.read(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("no line of it is understood"), "{error}");
    }
}
