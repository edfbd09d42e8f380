// SPDX-License-Identifier: Apache-2.0
//! Requests out of what the kernel's tracer reports for each processor, while it is recorded.
//!
//! Every processor reports its events in order, but one may be read later than another: events are
//! held until the caller knows that nothing earlier can come, and put together in the order of
//! their times.

use std::collections::BTreeMap;
use std::mem;

use super::TraceRequest;
use super::pairs::{BlockEvent, BlockEventPairer};
use super::ring::{self, FtraceEventLayout, RECORDED};
use crate::error::TraceError;

/// A recording by the kernel's tracer, going on.
#[derive(Debug)]
pub struct FtraceParser {
    layouts: Vec<FtraceEventLayout>,
    /// The place of a device among those that are recorded, by the kernel's number.
    places: BTreeMap<u32, u16>,
    waiting: Vec<BlockEvent>,
    pairs: BlockEventPairer,
    /// Instant of the tracer's clock from which times count.
    began_ns: u64,
}

/// The kinds of event of the kernel's block layer that are to be recorded (folders in tracefs).
pub fn recorded_events() -> impl Iterator<Item = &'static str> {
    RECORDED.iter().map(|(name, _)| *name)
}

impl FtraceParser {
    /// Begins. `format` gives the text of a file of tracefs: `events/header_page`, and
    /// `events/block/NAME/format` for each of [`recorded_events`]. `devices` are the kernel's
    /// numbers (major << 20 | minor) of each recorded device and its partitions, with its place.
    ///
    /// # Errors
    /// When the kernel describes its events in a way that is not known.
    pub fn new(
        format: &mut dyn FnMut(&str) -> Result<String, TraceError>,
        devices: &[(u32, u16)],
        began_ns: u64,
    ) -> Result<FtraceParser, TraceError> {
        let what = "this kernel describes its events in a way that is not known here";
        let unknown = |file: &str| TraceError::format(file, what);
        let header = "events/header_page";
        if !ring::is_known(&format(header)?) {
            return Err(unknown(header));
        }
        let mut layouts = Vec::new();
        for (name, action) in RECORDED {
            let file = format!("events/block/{name}/format");
            let layout = FtraceEventLayout::parse(action, &format(&file)?);
            layouts.push(layout.ok_or_else(|| unknown(&file))?);
        }
        Ok(FtraceParser {
            layouts,
            places: devices.iter().copied().collect(),
            waiting: Vec::new(),
            pairs: BlockEventPairer::default(),
            began_ns,
        })
    }

    /// Takes a page of a processor's buffer, as `trace_pipe_raw` gives it.
    pub fn page(&mut self, page: &[u8]) {
        let (places, waiting) = (&self.places, &mut self.waiting);
        ring::events(page, &self.layouts, &mut |device, event| {
            if let Some(&target) = places.get(&device) {
                waiting.push(BlockEvent { target, ..event });
            }
        });
    }

    /// Appends the requests that are known when nothing before this instant of the tracer's clock
    /// can come any more.
    pub fn settle(&mut self, before_ns: u64, into: &mut Vec<TraceRequest>) {
        // Stable: what one processor reports of one instant stays in its order.
        self.waiting.sort_by_key(|event| event.at_ns);
        let known = self
            .waiting
            .partition_point(|event| event.at_ns < before_ns);
        let rest = self.waiting.split_off(known);
        let from = into.len();
        for event in mem::replace(&mut self.waiting, rest) {
            self.pairs.push(&event, into);
        }
        self.place(&mut into[from..]);
    }

    /// Gives out what has not ended, and says what was odd.
    pub fn finish(&mut self, into: &mut Vec<TraceRequest>) -> Vec<String> {
        self.settle(u64::MAX, into);
        let from = into.len();
        let odd = self.pairs.finish(into);
        self.place(&mut into[from..]);
        odd
    }

    /// Times count from the beginning, not from the first event.
    fn place(&self, requests: &mut [TraceRequest]) {
        let origin_ns = self.pairs.origin_ns().unwrap_or(self.began_ns);
        let late = origin_ns.saturating_sub(self.began_ns);
        for request in requests {
            request.at.0 = request.at.0.saturating_add(late);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ring::tests::{HEADER, QUEUE, page, queued};
    use super::*;
    use plimsoll_core::op::OpKind;
    use plimsoll_core::units::Nanos;

    /// The same description under another number, with the field of a cut.
    fn described(file: &str) -> String {
        if file == "events/header_page" {
            return HEADER.into();
        }
        let numbers = recorded_events().zip(2097..);
        let mut found = numbers.filter(|(name, _)| file.contains(name));
        let (name, number) = found.next().expect("a kind that is recorded");
        let text = QUEUE.replace("2097", &number.to_string());
        match name {
            "block_split" => text.replace("unsigned int nr_sector", "unsigned int new_sector"),
            _ => text,
        }
    }

    fn event(number: u16, sector: u64, sectors: u32) -> Vec<u8> {
        let mut bytes = (14_u32).to_ne_bytes().to_vec();
        bytes.extend(queued(sector, sectors, "R"));
        bytes[4..6].copy_from_slice(&number.to_ne_bytes());
        bytes
    }

    #[test]
    fn processors_that_are_read_one_after_another_give_requests_in_order() {
        let mut capture =
            FtraceParser::new(&mut |file| Ok(described(file)), &[(254 << 20, 0)], 1000).unwrap();
        // Begun on one processor, ended on the other, which is read first.
        capture.page(&page(1900, &event(2099, 8, 4)));
        capture.page(&page(1500, &event(2097, 8, 4)));
        // Cut in two, whose parts end one after another.
        capture.page(&page(1600, &event(2097, 64, 8)));
        capture.page(&page(1601, &event(2098, 64, 68)));
        capture.page(&page(1700, &event(2099, 68, 4)));
        let mut found = Vec::new();
        capture.settle(1800, &mut found);
        assert_eq!(found, [], "the first has not ended by then");
        capture.page(&page(2000, &event(2099, 64, 4)));
        assert_eq!(capture.finish(&mut found), [""; 0]);
        let request = |at, took, offset, bytes| TraceRequest {
            at: Nanos(at),
            took: Some(Nanos(took)),
            kind: OpKind::Read,
            target: 0,
            bytes,
            offset,
        };
        let expect = [
            request(500, 400, 4096, 2048),
            request(600, 400, 32768, 4096),
        ];
        assert_eq!(found, expect);
    }

    #[test]
    fn a_kernel_that_describes_too_little_is_refused() {
        for missing in ["dev", "rwbs", "nr_sector", "timestamp"] {
            let mut told = |file: &str| Ok(described(file).replace(missing, "other"));
            let error = FtraceParser::new(&mut told, &[], 0)
                .unwrap_err()
                .to_string();
            assert!(error.contains("not known here"), "{missing}: {error}");
        }
    }
}
