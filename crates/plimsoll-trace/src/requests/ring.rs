// SPDX-License-Identifier: Apache-2.0
//! Pages of the ring buffer that the kernel's tracer keeps for each processor, and the events of
//! its block layer in them.
//!
//! Source: the kernel's `Documentation/trace/ring-buffer-map.rst`, `include/linux/ring_buffer.h` and
//! the files `header_page`, `header_event` and `events/*/format` of tracefs, of which the last are read
//! from the machine that is recorded: offsets of fields differ between kernels. A page is the time
//! of its first event, how many bytes are in use, and events of {5 bits of type or length in words,
//! 27 bits of time since the event before}. Numbers are in the byte order of this machine.

use super::blkparse::kind;
use super::pairs::{BlockEvent, BlockEventAction};
use crate::text::SECTOR_BYTES;

/// Where a page's data begin, on kernels of 64 bits.
const DATA_AT: usize = 16;
/// How many of the bits behind the time count bytes; above are flags.
const BYTES_MASK: u64 = 0xf_ffff;

/// The kinds of event that are recorded, with their fields. Both ends of a request stand here
/// twice: devices that are made of others end bios, disks end requests.
pub(super) const RECORDED: [(&str, BlockEventAction); 4] = [
    ("block_bio_queue", BlockEventAction::Queued),
    ("block_split", BlockEventAction::Split(0)),
    ("block_rq_complete", BlockEventAction::Completed),
    ("block_bio_complete", BlockEventAction::Completed),
];

/// Where the fields of a kind of event are.
#[derive(Debug, Clone)]
pub(super) struct FtraceEventLayout {
    number: u16,
    what: BlockEventAction,
    device: FtraceField,
    sector: FtraceField,
    /// How many sectors; of a cut, where its second part begins.
    sectors: FtraceField,
    flags: FtraceField,
}

/// Where a field is, and how long.
#[derive(Debug, Clone, Copy)]
struct FtraceField {
    at: usize,
    bytes: usize,
}

impl FtraceEventLayout {
    /// From the text of the kind's file `format`; `None` when something is missing.
    pub(super) fn parse(what: BlockEventAction, format: &str) -> Option<FtraceEventLayout> {
        let number = format.lines().find_map(|line| line.strip_prefix("ID:"))?;
        let field = |name: &str| field(format, name);
        let second = match what {
            BlockEventAction::Split(_) => "new_sector",
            _ => "nr_sector",
        };
        Some(FtraceEventLayout {
            number: number.trim().parse().ok()?,
            what,
            device: field("dev")?,
            sector: field("sector")?,
            sectors: field(second)?,
            flags: field("rwbs")?,
        })
    }

    /// The event in these bytes, its device being the kernel's number.
    fn event(&self, at_ns: u64, bytes: &[u8]) -> Option<(u32, BlockEvent)> {
        let device = u32::try_from(number(bytes, self.device)?).ok()?;
        let second = number(bytes, self.sectors)?;
        let flags_end = self.flags.at.checked_add(self.flags.bytes)?;
        let flags = bytes.get(self.flags.at..flags_end)?;
        let flags = flags.split(|byte| *byte == 0).next()?;
        let (what, sectors) = match self.what {
            BlockEventAction::Split(_) => (BlockEventAction::Split(second), 0),
            what => (what, second),
        };
        let is_cut = matches!(what, BlockEventAction::Split(_));
        let bytes_moved = u32::try_from(sectors.saturating_mul(SECTOR_BYTES)).ok()?;
        let event = BlockEvent {
            at_ns,
            what,
            kind: kind(flags, is_cut || sectors > 0)?,
            target: 0,
            sector: number(bytes, self.sector)?,
            bytes: bytes_moved,
        };
        Some((device, event))
    }
}

/// Finds a field by its name in lines such as `field:sector_t sector; offset:16; size:8; signed:0;`.
fn field(format: &str, name: &str) -> Option<FtraceField> {
    let line = format.lines().find(|line| {
        let declared = line.trim_start().strip_prefix("field:");
        let declared = declared.and_then(|rest| rest.split(';').next());
        let word = declared.and_then(|declared| declared.rsplit(' ').next());
        word.is_some_and(|word| word.split('[').next() == Some(name))
    })?;
    let figure = |key: &str| {
        let rest = line.split(key).nth(1)?;
        rest.split(';').next()?.trim().parse().ok()
    };
    Some(FtraceField {
        at: figure("offset:")?,
        bytes: figure("size:")?,
    })
}

/// Whether pages are laid out as is read here, from the file `header_page`.
pub(super) fn is_known(header_page: &str) -> bool {
    let data = field(header_page, "data");
    let time = field(header_page, "timestamp");
    data.is_some_and(|data| data.at == DATA_AT) && time.is_some_and(|time| time.bytes == 8)
}

fn number(bytes: &[u8], field: FtraceField) -> Option<u64> {
    let part = bytes.get(field.at..field.at.checked_add(field.bytes)?)?;
    Some(match *part {
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    })
}

/// Tells every event of the block layer in a page, in the order of their times, with the kernel's
/// number of its device. A page that is cut or damaged ends at that place.
pub(super) fn events(
    page: &[u8],
    layouts: &[FtraceEventLayout],
    tell: &mut dyn FnMut(u32, BlockEvent),
) {
    let word = |at: usize| number(page, FtraceField { at, bytes: 4 });
    let long = |at: usize| number(page, FtraceField { at, bytes: 8 });
    let (Some(mut now), Some(used)) = (long(0), long(8)) else {
        return;
    };
    let used = usize::try_from(used & BYTES_MASK).unwrap_or(usize::MAX);
    let end = page.len().min(DATA_AT.saturating_add(used));
    let mut at = DATA_AT;
    while at + 4 <= end {
        let Some(head) = word(at) else { return };
        let (kind, delta) = (head & 31, head >> 5);
        let next = word(at + 4).unwrap_or(0);
        let length = match kind {
            // A hole; one without time is the rest of the page.
            29 if delta == 0 => return,
            29 => 4 + next,
            30 | 31 => 8,
            0 => 4 + next,
            words => 4 + 4 * words,
        };
        match kind {
            30 => now = now.wrapping_add(delta | next << 27),
            // An instant, of which the highest bits are those of the time before.
            31 => now = (delta | next << 27) & ((1 << 59) - 1) | now & !((1 << 59) - 1),
            _ => now = now.wrapping_add(delta),
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX).max(4);
        let Some(after) = at.checked_add(length).filter(|after| *after <= end) else {
            return;
        };
        let from = if kind == 0 { at + 8 } else { at + 4 };
        if kind < 29 && from <= after {
            one(now, &page[from..after], layouts, tell);
        }
        at = after;
    }
}

fn one(
    now: u64,
    bytes: &[u8],
    layouts: &[FtraceEventLayout],
    tell: &mut dyn FnMut(u32, BlockEvent),
) {
    let Some(kind) = number(bytes, FtraceField { at: 0, bytes: 2 }) else {
        return;
    };
    let layout = layouts
        .iter()
        .find(|layout| u64::from(layout.number) == kind);
    if let Some((device, event)) = layout.and_then(|layout| layout.event(now, bytes)) {
        tell(device, event);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use plimsoll_core::op::OpKind;

    /// As Linux 6.18 describes it.
    pub(in crate::requests) const QUEUE: &str = "name: block_bio_queue
ID: 2097
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:sector_t sector;	offset:16;	size:8;	signed:0;
	field:unsigned int nr_sector;	offset:24;	size:4;	signed:0;
	field:char rwbs[10];	offset:28;	size:10;	signed:0;
	field:char comm[16];	offset:38;	size:16;	signed:0;
";

    pub(in crate::requests) const HEADER: &str =
        "	field: u64 timestamp;	offset:0;	size:8;	signed:0;
	field: local_t commit;	offset:8;	size:8;	signed:1;
	field: int overwrite;	offset:8;	size:1;	signed:1;
	field: char data;	offset:16;	size:4080;	signed:0;
";

    /// The bytes of a queue event.
    pub(in crate::requests) fn queued(sector: u64, sectors: u32, flags: &str) -> Vec<u8> {
        let mut bytes = vec![0; 56];
        bytes[..2].copy_from_slice(&2097_u16.to_ne_bytes());
        bytes[8..12].copy_from_slice(&(254_u32 << 20).to_ne_bytes());
        bytes[16..24].copy_from_slice(&sector.to_ne_bytes());
        bytes[24..28].copy_from_slice(&sectors.to_ne_bytes());
        bytes[28..28 + flags.len()].copy_from_slice(flags.as_bytes());
        bytes
    }

    fn head(kind: u32, delta: u32) -> [u8; 4] {
        (kind | delta << 5).to_ne_bytes()
    }

    pub(in crate::requests) fn page(time: u64, data: &[u8]) -> Vec<u8> {
        let mut page = time.to_ne_bytes().to_vec();
        page.extend((data.len() as u64).to_ne_bytes());
        page.extend(data);
        page.resize(4096, 0xaa);
        page
    }

    fn found(page: &[u8]) -> Vec<(u64, u64, u32, OpKind)> {
        let layouts = [FtraceEventLayout::parse(BlockEventAction::Queued, QUEUE).unwrap()];
        let mut found = Vec::new();
        events(page, &layouts, &mut |device, event| {
            assert_eq!(device, 254 << 20);
            found.push((event.at_ns, event.sector, event.bytes, event.kind));
        });
        found
    }

    #[test]
    fn events_are_found_behind_every_kind_of_entry() {
        assert!(is_known(HEADER) && !is_known("field: char data;	offset:12;	size:4084;"));
        let event = queued(8, 16, "WS");
        let mut data = Vec::new();
        data.extend([&head(14, 0)[..], &event].concat());
        // A long pause, an event of a length that is written out, a hole, an instant.
        data.extend([head(30, 5), 2_u32.to_ne_bytes()].concat());
        data.extend([&head(0, 7)[..], &60_u32.to_ne_bytes(), &queued(9, 1, "R")].concat());
        data.extend([&head(29, 3)[..], &12_u32.to_ne_bytes(), &[0; 8]].concat());
        data.extend([head(31, 1), 8_u32.to_ne_bytes()].concat());
        data.extend([&head(14, 1)[..], &queued(0, 0, "FF")].concat());
        let base = 1000_u64;
        let later = base + 5 + (2 << 27) + 7;
        let expect = [
            (base, 8, 8192, OpKind::Write),
            (later, 9, 512, OpKind::Read),
            ((8 << 27) + 2, 0, 0, OpKind::Fsync),
        ];
        let whole = page(base, &data);
        assert_eq!(found(&whole), expect);
        // Cut anywhere it gives the events before the cut and does not read beyond.
        for length in 0..whole.len().min(300) {
            let some = found(&whole[..length]);
            assert_eq!(some, expect[..some.len()], "{length}");
        }
        // A length that points behind the page ends it.
        let bad = [&head(0, 0)[..], &u32::MAX.to_ne_bytes(), &event].concat();
        assert_eq!(found(&page(base, &bad)), []);
    }
}
