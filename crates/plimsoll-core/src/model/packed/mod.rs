// SPDX-License-Identifier: Apache-2.0
//! Recorded requests in their order, packed to a byte or a few each.
//!
//! Order, places, kinds and lengths are kept exactly: which streams run into one another within a
//! second, and what is read again, is what caches and seeking disks feel. Gaps are kept to a
//! tenth of a power of ten (12 %) or a fortieth (3 %) unless asked for exactly; what is lost by that
//! is given back at the next gaps, so that the play keeps time with the recording.

mod coder;
mod latest;
mod links;
mod sequence;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::coder::{PackedSymbolReader, PackedSymbolWriter};
pub use self::links::{PackedDependency, PackedDependencyReader};
use self::sequence::{PackedCoderContext, TABLES};
use crate::num::to_usize;
use crate::op::OpKind;
use crate::op::TraceAccess;
use crate::table::IntHashMap;
use crate::units::Nanos;

/// How the times between requests are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PackedGapPrecision {
    /// In ten classes for each power of ten.
    #[default]
    Classes,
    /// In forty classes for each power of ten.
    Fine,
    /// To the nanosecond.
    Exact,
}

/// Requests of a block, each with its own frequencies.
const BLOCK: u64 = 1 << 18;
/// Requests that are packed one after the other once their places were asked for together.
const TOGETHER: usize = 64;

/// Share of the requests that wait for an earlier one in a closed loop, at least.
const CLOSED_SHARE: f64 = 0.9;

/// Zones of the device, by which the touched parts are described.
pub const ZONE_BYTES: u64 = 1 << 20;

/// Packed requests of one device. In a model's file stands what is known of them; the bytes are in
/// a file of their own beside it, which its owner reads and attaches.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PackedRequests {
    /// Name of the file with the bytes, in the folder of the model.
    pub file: String,
    gaps: PackedGapPrecision,
    /// Length of the windows in which runs of requests were put into a drawn order, if they were.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "shuffled_ns"
    )]
    pub shuffled: Option<Nanos>,
    requests: u64,
    length_ns: u64,
    /// Bytes of the longest request.
    largest_bytes: u32,
    /// Where the last byte that was touched ends.
    span_bytes: u64,
    /// Zones that were touched.
    zones: u64,
    packed_bytes: u64,
    /// Requests that start when an earlier one has ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    linked: u64,
    /// Length of the end of the bytes that encodes them.
    #[serde(default, skip_serializing_if = "is_zero")]
    links_bytes: u64,
    /// FNV-1a of the bytes, in 16 hexadecimal digits.
    digest: String,
    #[serde(skip)]
    bytes: Option<Arc<[u8]>>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serialisation asks for a reference"
)]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl PartialEq for PackedRequests {
    /// By what is known of the bytes, which holds their digest.
    fn eq(&self, other: &PackedRequests) -> bool {
        (&self.digest, self.requests, self.length_ns, self.gaps)
            == (&other.digest, other.requests, other.length_ns, other.gaps)
    }
}

impl PackedRequests {
    /// How many requests there are.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// How long they take, from the start of the recording to its end.
    pub fn length(&self) -> Nanos {
        Nanos(self.length_ns)
    }

    /// How the times between them are kept.
    pub fn gaps(&self) -> PackedGapPrecision {
        self.gaps
    }

    /// Bytes of the longest request.
    pub fn largest_bytes(&self) -> u32 {
        self.largest_bytes
    }

    /// Where the last byte that was touched ends, as recorded.
    pub fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    /// Bytes of all zones that were touched: the room they need when they are moved together.
    pub fn footprint_bytes(&self) -> u64 {
        self.zones.saturating_mul(ZONE_BYTES)
    }

    /// Bytes that they are packed into.
    pub fn packed_bytes(&self) -> u64 {
        self.packed_bytes
    }

    /// The bytes, when they are attached.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    /// Attaches the bytes of the file.
    ///
    /// # Errors
    /// When they are not the ones that were packed.
    pub fn attach(&mut self, bytes: Vec<u8>) -> Result<(), String> {
        if bytes.len() as u64 != self.packed_bytes || digest(&bytes) != self.digest {
            return Err(format!(
                "its {} bytes belong to another model, or are damaged",
                bytes.len()
            ));
        }
        self.bytes = Some(bytes.into());
        Ok(())
    }

    /// How many of the requests start when an earlier one has ended.
    pub fn linked(&self) -> u64 {
        self.linked
    }

    /// Whether nearly all requests wait for an earlier one, so that the storage sets the pace.
    pub fn is_closed(&self) -> bool {
        self.linked > 0 && self.linked as f64 >= CLOSED_SHARE * self.requests as f64
    }

    /// Attaches the dependencies: for each request, in order, the request that starts when it ends. They
    /// replace earlier ones. Without the attached bytes, nothing changes.
    #[must_use]
    pub fn with_links(
        mut self,
        links: impl Iterator<Item = Option<PackedDependency>>,
    ) -> PackedRequests {
        let Some(bytes) = &self.bytes else {
            return self;
        };
        let requests = bytes.len() - to_usize(self.links_bytes).min(bytes.len());
        let mut bytes = bytes[..requests].to_vec();
        self.linked = links::write(links, &mut bytes);
        if self.linked == 0 {
            bytes.truncate(requests);
        }
        self.links_bytes = (bytes.len() - requests) as u64;
        self.packed_bytes = bytes.len() as u64;
        self.digest = digest(&bytes);
        self.bytes = Some(bytes.into());
        self
    }

    /// Request that starts when each request has ended, in the order of [`PackedRequests::unpack`].
    pub fn links(&self) -> PackedDependencyReader {
        let bytes = self.bytes.clone().unwrap_or_default();
        let at = bytes.len() - to_usize(self.links_bytes).min(bytes.len());
        match self.linked {
            0 => PackedDependencyReader::new(Arc::default(), 0),
            _ => PackedDependencyReader::new(bytes, at),
        }
    }

    /// The requests in their order; none as long as the bytes are not attached.
    pub fn unpack(&self) -> PackedRequestsReader {
        let bytes = self.bytes.clone();
        PackedRequestsReader {
            reader: PackedSymbolReader::new(TABLES),
            left: bytes.as_ref().map_or(0, |_| self.requests),
            bytes: bytes.unwrap_or_default(),
            sequence: PackedCoderContext::new(self.gaps),
            left_of_block: 0,
            at: Nanos(0),
        }
    }

    /// The zones that were touched, by number, in order.
    pub fn zones(&self) -> Vec<u64> {
        let mut zones = PackedZoneSet::default();
        self.unpack().for_each(|request| zones.touch(&request));
        zones.sorted()
    }
}

/// FNV-1a of 64 bits (Fowler, Noll and Vo), against damage, not against anybody.
fn digest(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Zones that were touched.
#[derive(Debug, Clone, Default)]
struct PackedZoneSet {
    /// A bit for each zone, 64 to a word.
    touched: IntHashMap<u64>,
    /// The last one.
    last: Option<u64>,
}

impl PackedZoneSet {
    fn touch(&mut self, request: &TraceAccess) {
        let Some(last) = u64::from(request.bytes).checked_sub(1) else {
            return;
        };
        let first = request.offset / ZONE_BYTES;
        let last = request.offset.saturating_add(last) / ZONE_BYTES;
        // Neighbours mostly are in the same zone.
        if self.last == Some(first) && last == first {
            return;
        }
        for zone in first..=last {
            *self.touched.at(zone / 64) |= 1 << (zone % 64);
        }
        self.last = Some(last);
    }

    fn count(&self) -> u64 {
        self.touched
            .iter()
            .map(|(_, bits)| u64::from(bits.count_ones()))
            .sum()
    }

    /// Their numbers, in order.
    fn sorted(&self) -> Vec<u64> {
        let words = self.touched.sorted().into_iter();
        let zones = words.flat_map(|(word, bits)| {
            let is_set = move |bit: &u64| bits >> bit & 1 == 1;
            (0..64).filter(is_set).map(move |bit| 64 * word + bit)
        });
        zones.collect()
    }
}

/// Packs requests, one after the other.
#[derive(Debug)]
pub struct PackedRequestsWriter {
    gaps: PackedGapPrecision,
    /// Requests that are not packed yet.
    fresh: Vec<TraceAccess>,
    writer: PackedSymbolWriter,
    bytes: Vec<u8>,
    sequence: PackedCoderContext,
    requests: u64,
    largest_bytes: u32,
    span_bytes: u64,
    zones: PackedZoneSet,
    /// When the last request was recorded, and when it will be played.
    recorded_at: Nanos,
    played_at: Nanos,
}

impl PackedRequestsWriter {
    /// A packer of requests that come in the order of their starts.
    pub fn new(gaps: PackedGapPrecision) -> PackedRequestsWriter {
        PackedRequestsWriter {
            gaps,
            fresh: Vec::with_capacity(TOGETHER),
            writer: PackedSymbolWriter::new(TABLES),
            bytes: Vec::new(),
            sequence: PackedCoderContext::new(gaps),
            requests: 0,
            largest_bytes: 0,
            span_bytes: 0,
            zones: PackedZoneSet::default(),
            recorded_at: Nanos(0),
            played_at: Nanos(0),
        }
    }

    /// Adds a request, whose time counts from the start of the recording. One that starts before
    /// the last counts as of the last's time.
    #[inline]
    pub fn push(&mut self, request: &TraceAccess) {
        self.fresh.push(*request);
        if self.fresh.len() == TOGETHER {
            self.pack_fresh();
        }
    }

    fn pack_fresh(&mut self) {
        let mut fresh = std::mem::take(&mut self.fresh);
        self.sequence.expect(&fresh);
        fresh.iter().for_each(|request| self.zones.touch(request));
        fresh.drain(..).for_each(|request| self.pack(&request));
        self.fresh = fresh;
    }

    fn pack(&mut self, request: &TraceAccess) {
        let at = request.at.max(self.recorded_at);
        let gap = self.gap(at);
        let coded = self.sequence.code(&mut self.writer, gap, request);
        self.recorded_at = at;
        self.played_at = self.played_at + coded.at;
        self.requests += 1;
        self.largest_bytes = self.largest_bytes.max(request.bytes);
        let end = request.offset.saturating_add(request.bytes.into());
        self.span_bytes = self.span_bytes.max(end);
        if self.requests.is_multiple_of(BLOCK) {
            self.writer.flush(&mut self.bytes);
        }
    }

    /// The gap to be coded: the recorded one, changed by an eighth at most to make up for what
    /// earlier gaps gained or lost.
    fn gap(&self, at: Nanos) -> Nanos {
        let gap = at.since(self.recorded_at);
        if self.gaps == PackedGapPrecision::Exact {
            return gap;
        }
        let most = gap.0 / 8;
        if self.played_at > self.recorded_at {
            let ahead = self.played_at.since(self.recorded_at).0;
            Nanos(gap.0 - ahead.min(most))
        } else {
            let behind = self.recorded_at.since(self.played_at).0;
            Nanos(gap.0 + behind.min(most))
        }
    }

    /// All requests, of a recording that lasted so long (at least until the last request).
    #[must_use]
    pub fn finish(mut self, length: Nanos) -> PackedRequests {
        self.pack_fresh();
        if !self.requests.is_multiple_of(BLOCK) {
            self.writer.flush(&mut self.bytes);
        }
        PackedRequests {
            file: String::new(),
            gaps: self.gaps,
            shuffled: None,
            requests: self.requests,
            length_ns: length.max(self.played_at).max(self.recorded_at).0,
            largest_bytes: self.largest_bytes,
            span_bytes: self.span_bytes,
            zones: self.zones.count(),
            packed_bytes: self.bytes.len() as u64,
            linked: 0,
            links_bytes: 0,
            digest: digest(&self.bytes),
            bytes: Some(self.bytes.into()),
        }
    }
}

/// Requests as they are unpacked: an iterator with fixed memory (some MiB).
#[derive(Debug, Clone)]
pub struct PackedRequestsReader {
    reader: PackedSymbolReader,
    bytes: Arc<[u8]>,
    sequence: PackedCoderContext,
    left: u64,
    left_of_block: u64,
    at: Nanos,
}

impl Iterator for PackedRequestsReader {
    type Item = TraceAccess;

    fn next(&mut self) -> Option<TraceAccess> {
        self.left = self.left.checked_sub(1)?;
        if self.left_of_block == 0 {
            self.left_of_block = BLOCK;
            self.reader.block(&self.bytes);
        }
        self.left_of_block -= 1;
        let blank = TraceAccess {
            at: Nanos(0),
            kind: OpKind::Read,
            offset: 0,
            bytes: 0,
        };
        let mut reading = self.reader.over(&self.bytes);
        let coded = self.sequence.code(&mut reading, Nanos(0), &blank);
        if !self.reader.is_sound() {
            self.left = 0;
            return None;
        }
        self.at = Nanos(self.at.0.saturating_add(coded.at.0));
        Some(TraceAccess {
            at: self.at,
            ..coded
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::saturating_u32;
    use crate::rng::{Rng, Seed};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Four streams that run into one another, a block that is written again and again, and jumps.
    fn recorded(n: u64) -> Vec<TraceAccess> {
        let mut rng = Rng::new(Seed(5));
        let mut streams = [0u64, 1 << 30, 5 << 30, 77 << 30];
        let mut at = Nanos(0);
        let request = |_| {
            at = at + Nanos(rng.below(3) * rng.below(2_000_000));
            let (kind, offset, bytes) = match rng.below(20) {
                0 => (
                    OpKind::Read,
                    rng.below(1 << 28) * 512,
                    saturating_u32(512 * (1 + rng.below(3))),
                ),
                1 => (OpKind::Fsync, 0, 0),
                2..5 => (OpKind::Write, 9 << 30, 4096),
                which => {
                    let stream = &mut streams[to_usize(which % 4)];
                    let offset = *stream;
                    *stream += 65_536;
                    (OpKind::Read, offset, 65_536)
                }
            };
            TraceAccess {
                at,
                kind,
                offset,
                bytes,
            }
        };
        (0..n).map(request).collect()
    }

    fn packed(requests: &[TraceAccess], gaps: PackedGapPrecision) -> PackedRequests {
        let mut packer = PackedRequestsWriter::new(gaps);
        requests.iter().for_each(|request| packer.push(request));
        packer.finish(Nanos(0))
    }

    #[test]
    fn links_stand_behind_the_requests_and_change_none_of_them() {
        let mut packer = PackedRequestsWriter::new(PackedGapPrecision::Exact);
        for number in 0..1_000_u64 {
            packer.push(&TraceAccess {
                at: Nanos(number * 1_000),
                kind: OpKind::Read,
                offset: number * 4_096,
                bytes: 4_096,
            });
        }
        let plain = packer.finish(Nanos(1_000_000));
        let link = |number: u64| {
            (!number.is_multiple_of(3)).then(|| PackedDependency {
                distance: 1 + saturating_u32(number % 5),
                think: Nanos(number),
            })
        };
        let linked = plain.clone().with_links((0..1_000).map(link));
        assert_eq!((plain.linked(), linked.linked()), (0, 666));
        assert!(linked.unpack().eq(plain.unpack()) && linked != plain);
        let mut read = linked.links();
        assert!((0..1_000).all(|number| read.next_link() == link(number)));
        assert_eq!(plain.links().next_link(), None);
        // Said again, and taken back.
        let again = linked.clone().with_links((0..1_000).map(link));
        assert_eq!(again.bytes(), linked.bytes());
        let none = linked.with_links((0..1_000).map(|_| None));
        assert_eq!((none.bytes(), none.is_closed()), (plain.bytes(), false));
    }

    /// Requests in the order of time: near the last one, at a place that comes again, or anywhere.
    fn requests() -> impl Strategy<Value = Vec<TraceAccess>> {
        let kind = prop_oneof![Just(OpKind::Read), Just(OpKind::Write), Just(OpKind::Fsync)];
        let sectors = prop_oneof![0..100_u64, Just(9_u64 << 21), 0..1_u64 << 40];
        let bytes = prop_oneof![
            Just(65_536_u32),
            (0..9_u32).prop_map(|sectors| sectors * 512)
        ];
        let gap = prop_oneof![0..3_u64, 0..2_000_000_u64, 0..1_u64 << 40];
        vec((gap, kind, sectors, bytes), 0..400).prop_map(|given| {
            let mut at = Nanos(0);
            let access = |(gap, kind, sectors, bytes)| {
                at = at + Nanos(gap);
                TraceAccess {
                    at,
                    kind,
                    offset: sectors * 512,
                    bytes,
                }
            };
            given.into_iter().map(access).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn exact_gaps_give_back_what_was_packed(given in requests()) {
            let packed = packed(&given, PackedGapPrecision::Exact);
            prop_assert_eq!(packed.unpack().collect::<Vec<_>>(), &given[..]);
            prop_assert_eq!(packed.length(), given.last().map_or(Nanos(0), |last| last.at));
        }
    }

    #[test]
    fn classes_of_gaps_keep_all_but_the_gaps_and_keep_time() {
        // Gaps are 1 ms in the mean and 4 ms at most.
        classes_keep_time(PackedGapPrecision::Classes, 4_000_000, 3.0);
        classes_keep_time(PackedGapPrecision::Fine, 400_000, 3.25);
    }

    fn classes_keep_time(gaps: PackedGapPrecision, worst_ns: u64, bytes_each: f64) {
        let requests = recorded(20_000);
        let packed = packed(&requests, gaps);
        let mut worst = 0;
        for (found, given) in packed.unpack().zip(&requests) {
            assert_eq!(
                TraceAccess {
                    at: given.at,
                    ..found
                },
                *given
            );
            worst = worst.max(found.at.0.abs_diff(given.at.0));
        }
        assert!(worst < worst_ns, "{gaps:?}: {worst} ns off");
        let bytes = packed.packed_bytes() as f64 / 20_000.0;
        assert!(bytes < bytes_each, "{gaps:?}: {bytes} bytes for a request");
    }

    #[test]
    fn bytes_come_back_from_a_file_of_their_own_and_damage_is_seen() {
        let packed = packed(&recorded(1_000), PackedGapPrecision::Classes);
        let text = toml::to_string(&packed).unwrap();
        let mut read: PackedRequests = toml::from_str(&text).unwrap();
        assert_eq!(read, packed);
        assert_eq!(read.unpack().count(), 0);
        let bytes = packed.bytes().unwrap().to_vec();
        let mut damaged = bytes.clone();
        damaged[100] ^= 1;
        assert!(read.attach(damaged).is_err());
        read.attach(bytes).unwrap();
        assert!(read.unpack().eq(packed.unpack()));
    }

    #[test]
    fn nonsense_ends() {
        let packed = packed(&recorded(1_000), PackedGapPrecision::Classes);
        let whole = packed.bytes().unwrap().to_vec();
        proptest!(ProptestConfig::with_cases(300), |(at in 0..whole.len(), bit in 0..8)| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1_u8 << bit;
            let nonsense = PackedRequests {
                bytes: Some(bytes.into()),
                ..packed.clone()
            };
            prop_assert!(nonsense.unpack().count() <= 1_000);
        });
    }

    #[test]
    fn span_and_footprint_are_those_of_the_requests() {
        let at = |offset, bytes| TraceAccess {
            at: Nanos(0),
            kind: OpKind::Read,
            offset,
            bytes,
        };
        let requests = [
            at(0, 4096),
            at(ZONE_BYTES - 512, 1024),
            at(9 * ZONE_BYTES, 512),
        ];
        let packed = packed(&requests, PackedGapPrecision::Classes);
        assert_eq!(packed.span_bytes(), 9 * ZONE_BYTES + 512);
        assert_eq!(packed.zones(), [0, 1, 9]);
        assert_eq!(packed.footprint_bytes(), 3 * ZONE_BYTES);
        assert_eq!(packed.largest_bytes(), 4096);
    }
}
