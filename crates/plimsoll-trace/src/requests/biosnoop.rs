// SPDX-License-Identifier: Apache-2.0
//! The output of `biosnoop`, from bcc (or libbpf-tools) and from bpftrace.
//!
//! bcc prints a line when a request ends: `TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)`,
//! with further columns by its options; bpftrace `TIME(ms) DISK COMM PID LAT(ms)`. Source: both
//! programs' formats as they print them. The start is time - latency, less the time in the
//! queue where that is printed. The columns are taken from the header; the name of a process may
//! hold spaces, so those behind it are counted from the line's end.

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::rows::{RowFormat, TraceRow, TraceRowParser, TraceRowReader};
use super::{TIMED, TraceFormat, blkparse};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::recording::{RecordingCapabilities, RecordingDetail, TraceOrder, TraceSource};
use crate::text::{lines, nanos, sectors, whole, whole_u32, words};

/// Recognised by its header, which may follow what the tracer says first.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "biosnoop output (bcc, bpftrace)",
    is: |head| {
        lines(head)
            .take(PREAMBLE_LINES)
            .any(|line| BiosnoopLayout::of(line).is_some())
    },
    open,
};

/// Lines that may stand before the header.
const PREAMBLE_LINES: usize = 20;
/// The clock begins at the first request's end, so that the first start lies before it.
const ZERO_NS: u64 = 1 << 62;
const MILLIS: u64 = 1_000_000;

/// The layout of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BiosnoopLayout {
    /// Everything is recorded. Columns are counted from the end.
    Bcc {
        disk: usize,
        way: usize,
        sector: usize,
        bytes: usize,
        queued: Option<usize>,
        columns: usize,
    },
    /// Only the disk and how long a request took.
    Bpftrace,
}

impl BiosnoopLayout {
    fn of(header: &[u8]) -> Option<BiosnoopLayout> {
        let mut names = words(header);
        match names.next()? {
            b"TIME(ms)" => {
                let rest: [&[u8]; 4] = [b"DISK", b"COMM", b"PID", b"LAT(ms)"];
                names.eq(rest).then_some(BiosnoopLayout::Bpftrace)
            }
            b"TIME(s)" => {
                let names: Vec<&[u8]> = names.collect();
                let place = |name: &[u8]| {
                    let from_front = names.iter().position(|known| *known == name)?;
                    Some(names.len() - 1 - from_front)
                };
                // The last is always the latency; in front of the disk come name and number.
                let is_bcc = place(b"LAT(ms)") == Some(0) && names.first() == Some(&&b"COMM"[..]);
                is_bcc.then_some(BiosnoopLayout::Bcc {
                    disk: place(b"DISK")?,
                    way: place(b"T")?,
                    sector: place(b"SECTOR")?,
                    bytes: place(b"BYTES")?,
                    queued: place(b"QUE(ms)"),
                    columns: names.len(),
                })
            }
            _ => None,
        }
    }
}

fn open(input: RecordingInput) -> Result<Box<dyn TraceSource>, TraceError> {
    let layout = lines(input.head()).find_map(BiosnoopLayout::of);
    let bcc = RowFormat {
        name: "biosnoop output of bcc",
        carries: RecordingCapabilities {
            resolution: Nanos(1_000),
            order: TraceOrder::Ended,
            ..TIMED
        },
        zero_unix_ns: None,
    };
    let format = match layout {
        Some(BiosnoopLayout::Bpftrace) => RowFormat {
            name: "biosnoop output of bpftrace",
            carries: RecordingCapabilities {
                resolution: Nanos(MILLIS),
                direction: false,
                sizes: RecordingDetail::Absent,
                offsets: false,
                ..bcc.carries
            },
            ..bcc
        },
        _ => bcc,
    };
    TraceRowReader::open(input, format, Snoop { layout: None })
}

struct Snoop {
    /// Known once the header was met.
    layout: Option<BiosnoopLayout>,
}

impl TraceRowParser for Snoop {
    fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Option<TraceRow<'a>>, &'static str> {
        let Some(layout) = self.layout else {
            // Lines before the header are messages of the tracer.
            self.layout = BiosnoopLayout::of(line);
            return Ok(None);
        };
        match layout {
            BiosnoopLayout::Bpftrace => bpftrace(line),
            BiosnoopLayout::Bcc {
                disk,
                way,
                sector,
                bytes,
                queued,
                columns,
            } => {
                // Nine words at most are wanted from the end.
                let mut last: [&[u8]; 12] = [b""; 12];
                let mut words = words(line);
                let time = words.next().ok_or("it is empty")?;
                let wanted = last.iter_mut().take(columns - 1);
                for place in wanted {
                    *place = words.next_back().ok_or("it has too few words")?;
                }
                let at = |place: usize| last.get(place).copied().unwrap_or(b"");
                let millis = |text| nanos(text, 1_000).ok_or("its latency is not a number");
                let mut took_ns = millis(at(0))?;
                if let Some(queued) = queued {
                    // Requests that were never queued have -1 there.
                    took_ns = match at(queued) {
                        text if text.starts_with(b"-1") => took_ns,
                        text => took_ns.saturating_add(millis(text)?),
                    };
                }
                if whole(at(disk + 1)).is_none() {
                    return Err("its process is not a number");
                }
                let ended_ns = nanos(time, 1).ok_or("its time is not a number of seconds")?;
                let bytes = whole_u32(at(bytes)).ok_or("its bytes are not a number below 4 GiB")?;
                let kind =
                    blkparse::kind(at(way), bytes > 0).ok_or("its direction is not known")?;
                Ok(Some(TraceRow {
                    at_ns: start_ns(ended_ns, took_ns),
                    took: Some(Nanos(took_ns)),
                    kind,
                    target: at(disk).into(),
                    bytes,
                    // A flush has sector -1 or 0.
                    offset: match sectors(at(sector)) {
                        Some(offset) => offset,
                        None if bytes == 0 => 0,
                        None => return Err("its sector is not a number"),
                    },
                }))
            }
        }
    }
}

fn bpftrace(line: &[u8]) -> Result<Option<TraceRow<'_>>, &'static str> {
    let mut words = words(line);
    let Some(time) = words.next() else {
        return Ok(None);
    };
    let disk = words.next().ok_or("it has fewer than five words")?;
    let latency = words.next_back().ok_or("it has fewer than five words")?;
    if words.next_back().and_then(whole).is_none() {
        return Err("its process is not a number");
    }
    let millis = |text| nanos(text, 1_000);
    let took_ns = millis(latency).ok_or("its latency is not a number of milliseconds")?;
    let ended_ns = millis(time).ok_or("its time is not a number of milliseconds")?;
    Ok(Some(TraceRow {
        at_ns: start_ns(ended_ns, took_ns),
        took: Some(Nanos(took_ns)),
        // Which it was is not recorded, and said so by `RecordingCapabilities::direction`.
        kind: OpKind::Read,
        target: disk.into(),
        bytes: 0,
        offset: 0,
    }))
}

fn start_ns(ended_ns: u64, took_ns: u64) -> u64 {
    ZERO_NS.saturating_add(ended_ns).saturating_sub(took_ns)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{BIOSNOOP, BIOSNOOP_BT, BIOSNOOP_QUEUED, read};
    use super::*;

    #[test]
    fn starts_are_ends_less_latencies() {
        let (rows, found) = read(&FORMAT, BIOSNOOP);
        let expect = [
            (
                0,
                Some(1_230_000),
                OpKind::Write,
                0,
                4_096,
                512 * 13_192_496,
            ),
            (2_230_000, Some(500_000), OpKind::Read, 0, 131_072, 512 * 8),
            (2_430_000, Some(800_000), OpKind::Fsync, 1, 0, 0),
        ];
        assert_eq!(found, expect);
        assert_eq!(rows.targets(), ["vda", "nvme0n1"]);
        assert!(rows.warnings().is_empty(), "{:?}", rows.warnings());
    }

    #[test]
    fn time_in_the_queue_counts_and_columns_may_be_more() {
        let (_, found) = read(&FORMAT, BIOSNOOP_QUEUED);
        let expect = [
            (0, Some(1_330_000), OpKind::Write, 0, 4_096, 512 * 8),
            (2_230_000, Some(600_000), OpKind::Read, 0, 4_096, 512 * 16),
        ];
        assert_eq!(found, expect);
    }

    #[test]
    fn bpftrace_tells_times_only() {
        let (rows, found) = read(&FORMAT, BIOSNOOP_BT);
        let expect = [
            (0, Some(1_000_000), OpKind::Read, 0, 0, 0),
            (305_000_000, Some(0), OpKind::Read, 1, 0, 0),
        ];
        assert_eq!(found, expect);
        let carries = rows.about().carries;
        assert_eq!((carries.direction, carries.offsets), (false, false));
        assert_eq!(carries.sizes, RecordingDetail::Absent);
    }
}
