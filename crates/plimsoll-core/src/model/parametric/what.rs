// SPDX-License-Identifier: Apache-2.0
//! What requests ask for, by how busy the time is: whether one goes on where another ended, comes
//! back to a place, or goes to a new one, by how long it came after the last and what that did;
//! kinds and sizes; zones of new places.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::urns::{ConditionalCounts, ConditionalSampler, power, symbol};
use crate::model::ZONE_BYTES;
use crate::num::{saturating_u32, to_usize};
use crate::op::OpKind;
use crate::op::TraceAccess;
use crate::rng::Rng;
use crate::table::IntHashMap;
use crate::units::Nanos;

/// Streams that may go on.
const STREAMS: usize = 64;
/// Zones of new places: they grow until there are no more.
const ZONES_MAX: usize = 4_096;
/// New places are multiples of this at most.
const GRAIN_BITS_MAX: u32 = 12;
/// Attempts to find a place that is as it should be.
const ATTEMPTS: usize = 8;

/// What a request does, as a symbol: its kind times this, and where it goes.
const KINDS: u32 = 128;
/// On where a stream of its kind ended: the power of two of how many of these were used since. Back to
/// where a request of its kind began: the power of two of how many of these came since; …
const AGAIN: u32 = 16;
/// … to where one of another kind began; …
const OTHERS: u32 = 64;
/// … to a new place; or nowhere, as a sync does.
const NEW: u32 = 126;
const NOWHERE: u32 = 127;
/// Ways of which sizes are kept.
const ONWARD: usize = 0;
const BACK: usize = 1;
const FRESH: usize = 2;
/// Situations of one length of gap: what the last request did.
const AFTER: u32 = 12;
/// Lengths of gaps: powers of ten of nanoseconds.
const GAPS: u32 = 20;
/// Kinds in a situation of sizes.
const SIZES: u32 = 16;
/// Jumps forward to new places; backward ones are below.
const FORWARD: u32 = 64;

/// What requests ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ParametricRequestModel {
    /// Bytes of a zone.
    zone_bytes: u64,
    /// New places are multiples of so many bytes.
    grain_bytes: u64,
    /// Nothing ends beyond.
    span_bytes: u64,
    /// What requests do, by how busy it is, the gap, and what the last one did.
    places: ConditionalCounts,
    /// Sizes by how busy it is and by kind, of those that go on, that come back, that go to a new place.
    sizes: [ConditionalCounts; 3],
    /// Whether they were those of the last request there: likewise, of those that go on or come back.
    usual: [ConditionalCounts; 2],
    /// From the end of the last request to a new place, as powers of two, and new places by zone; by how
    /// busy it is.
    jumps: ConditionalCounts,
    zones: ConditionalCounts,
}

/// A stream, and the size of its last request.
#[derive(Debug, Clone, Copy)]
struct ParametricStream {
    kind: OpKind,
    end: u64,
    bytes: u32,
}

/// What is remembered of the requests so far.
#[derive(Debug, Default)]
struct Memory {
    /// The stream that went on last is the last.
    streams: VecDeque<ParametricStream>,
    /// Places and sizes of requests, by kind.
    began: [Vec<(u64, u32)>; OpKind::ALL.len()],
    /// Of the last request that began at a place: one more than its number among those of its kind,
    /// and its kind.
    starts: IntHashMap<(u32, u8)>,
    last: Option<(Nanos, u64)>,
    after: u32,
    /// How busy the time of the next one is.
    busy: u32,
}

impl Memory {
    /// The situation of a request at this instant.
    fn situation(&self, at: Nanos) -> u32 {
        let gap = self.last.map_or(Nanos::SECOND, |(last, _)| at.since(last));
        let gap = gap.0.checked_ilog10().unwrap_or(0);
        (self.busy * GAPS + gap) * AFTER + self.after
    }

    /// The situation of the size of a request.
    fn sizes(&self, kind: OpKind) -> u32 {
        self.busy * SIZES + symbol(kind.index())
    }

    fn last_end(&self) -> u64 {
        self.last.map_or(0, |(_, end)| end)
    }

    /// The streams of a kind by their places, the one that went on last first.
    fn of_kind(&self, kind: OpKind) -> impl Iterator<Item = (usize, ParametricStream)> + '_ {
        let streams = self.streams.iter().copied().enumerate().rev();
        streams.filter(move |(_, stream)| stream.kind == kind)
    }

    /// The kind of the last request that began here, and its number among those.
    fn began_at(&mut self, offset: u64) -> Option<(usize, usize)> {
        let (number, kind) = *self.starts.at(offset);
        Some((usize::from(kind), (number as usize).checked_sub(1)?))
    }

    /// Takes a request over that goes on in the stream at this place, if in any.
    fn remember(&mut self, request: &TraceAccess, place: u32, stream: Option<usize>) {
        let did = match place {
            NOWHERE => 3,
            NEW => 2,
            place if place >= AGAIN => 1,
            _ => 0,
        };
        self.after = 3 * did + symbol(request.kind.index()).min(2);
        if request.bytes == 0 {
            self.last = Some((request.at, self.last_end()));
            return;
        }
        let end = request.offset.saturating_add(request.bytes.into());
        self.last = Some((request.at, end));
        let began = &mut self.began[request.kind.index()];
        began.push((request.offset, request.bytes));
        let kind = u8::try_from(request.kind.index()).unwrap_or(0);
        *self.starts.at(request.offset) = (symbol(began.len()), kind);
        if let Some(place) = stream {
            self.streams.remove(place);
        }
        self.streams.push_back(ParametricStream {
            kind: request.kind,
            end,
            bytes: request.bytes,
        });
        if self.streams.len() > STREAMS {
            self.streams.pop_front();
        }
    }
}

/// The kind of request that others may come back to.
fn other(kind: OpKind) -> OpKind {
    match kind {
        OpKind::Read => OpKind::Write,
        _ => OpKind::Read,
    }
}

/// The jump from the end of a request to a place.
fn jump(from: u64, to: u64) -> u32 {
    if to >= from {
        FORWARD + power(to - from)
    } else {
        power(from - to)
    }
}

impl ParametricRequestModel {
    /// Of requests in the order of their starts; `busy` says how busy the time is.
    pub(super) fn of(
        requests: &[TraceAccess],
        busy: impl Fn(u64) -> u32,
    ) -> ParametricRequestModel {
        let mut content = ParametricRequestModel::default();
        let mut memory = Memory::default();
        let mut fresh = Vec::new();
        for request in requests {
            memory.busy = busy(request.at.0);
            let (place, stream) = content.place(request, &mut memory);
            if place == NEW {
                fresh.push((memory.busy, request.offset));
            }
            let does = symbol(request.kind.index()) * KINDS + place;
            content.places.count(memory.situation(request.at), does);
            let end = request.offset.saturating_add(request.bytes.into());
            content.span_bytes = content.span_bytes.max(end);
            memory.remember(request, place, stream);
        }
        content.divide(&fresh);
        content
    }

    /// Where a request goes, as a symbol, and which stream goes on; its size is counted.
    fn place(&mut self, request: &TraceAccess, memory: &mut Memory) -> (u32, Option<usize>) {
        if request.bytes == 0 {
            return (NOWHERE, None);
        }
        let kind = memory.sizes(request.kind);
        let mut size = |way: usize, usual: u32| {
            self.sizes[way].count(kind, request.bytes);
            self.usual[way].count(kind, u32::from(request.bytes == usual));
        };
        let mut streams = memory.of_kind(request.kind).zip(0u64..);
        let goes_on = streams.find(|((_, stream), _)| stream.end == request.offset);
        if let Some(((place, stream), rank)) = goes_on {
            size(ONWARD, stream.bytes);
            return (power(rank + 1), Some(place));
        }
        drop(streams);
        if let Some((before, number)) = memory.began_at(request.offset) {
            let began = &memory.began[before];
            size(BACK, began[number].1);
            let ago = power((began.len() - number) as u64);
            let is_own = before == request.kind.index();
            return (if is_own { AGAIN } else { OTHERS } + ago, None);
        }
        self.sizes[FRESH].count(kind, request.bytes);
        self.jumps
            .count(memory.busy, jump(memory.last_end(), request.offset));
        (NEW, None)
    }

    /// Divides the space into zones, and puts the new places into them.
    fn divide(&mut self, fresh: &[(u32, u64)]) {
        let bits = fresh
            .iter()
            .map(|(_, offset)| offset.trailing_zeros())
            .min();
        self.grain_bytes = 1 << bits.unwrap_or(0).min(GRAIN_BITS_MAX);
        self.zone_bytes = ZONE_BYTES;
        let zones = |bytes: u64| {
            let mut zones: Vec<u64> = fresh.iter().map(|(_, offset)| offset / bytes).collect();
            zones.sort_unstable();
            zones.dedup();
            zones.last().copied().unwrap_or(0) > u64::from(u32::MAX) || zones.len() > ZONES_MAX
        };
        // Ends when all of space is one zone.
        while zones(self.zone_bytes) && self.zone_bytes < 1 << 62 {
            self.zone_bytes *= 2;
        }
        for (busy, offset) in fresh {
            let zone = saturating_u32(offset / self.zone_bytes);
            self.zones.count(*busy, zone);
        }
    }

    /// What those ask for that come at these instants.
    pub(super) fn draw(
        &self,
        instants: &[u64],
        busy: impl Fn(u64) -> u32,
        rng: &mut Rng,
    ) -> Vec<TraceAccess> {
        let mut drawing = Drawing {
            content: self,
            places: self.places.bags(),
            sizes: self.sizes.each_ref().map(ConditionalCounts::bags),
            usual: self.usual.each_ref().map(ConditionalCounts::bags),
            jumps: self.jumps.bags(),
            zones: BTreeMap::new(),
            memory: Memory::default(),
            drawn: Vec::with_capacity(instants.len()),
            rng,
        };
        for at in instants {
            drawing.memory.busy = busy(*at);
            drawing.next(Nanos(*at));
        }
        drawing.drawn
    }
}

/// A draw under way.
struct Drawing<'a> {
    content: &'a ParametricRequestModel,
    places: ConditionalSampler,
    sizes: [ConditionalSampler; 3],
    usual: [ConditionalSampler; 2],
    jumps: ConditionalSampler,
    /// New places that are left, by how busy it is and by zone.
    zones: BTreeMap<u32, BTreeMap<u32, u32>>,
    memory: Memory,
    drawn: Vec<TraceAccess>,
    rng: &'a mut Rng,
}

/// Where a request goes: its place, its size, and which stream goes on.
type ParametricPlacement = (u64, u32, Option<usize>);

impl Drawing<'_> {
    fn next(&mut self, at: Nanos) {
        let situation = self.memory.situation(at);
        let Some(does) = self.places.draw(situation, self.rng) else {
            return;
        };
        let Some(kind) = OpKind::ALL.get((does / KINDS) as usize).copied() else {
            return;
        };
        let place = does % KINDS;
        let found = match place {
            NOWHERE => Some((0, 0, None)),
            NEW => None,
            place if place >= OTHERS => self.again(kind, other(kind), place - OTHERS),
            place if place >= AGAIN => self.again(kind, kind, place - AGAIN),
            place => self.onward(kind, place),
        };
        // Where there is nothing to go on from or come back to, the place is a new one.
        let (place, found) = match found {
            Some(found) => (place, Some(found)),
            None => (NEW, self.new_place(kind)),
        };
        let Some((offset, bytes, stream)) = found else {
            return;
        };
        let request = TraceAccess {
            at,
            kind,
            offset,
            bytes,
        };
        self.memory.remember(&request, place, stream);
        self.drawn.push(request);
    }

    /// The usual size as often as it was, while there are any left.
    fn size(&mut self, way: usize, kind: OpKind, usual: u32) -> Option<u32> {
        let kind = self.memory.sizes(kind);
        match self.usual[way].draw(kind, self.rng)? {
            0 => self.sizes[way].draw(kind, self.rng),
            _ => self.sizes[way].draw_if(kind, usual, self.rng),
        }
    }

    /// On from where a stream ended, of those that this power of two reaches.
    fn onward(&mut self, kind: OpKind, power: u32) -> Option<ParametricPlacement> {
        let first = (1usize << power.min(16)) - 1;
        let last = 2 * first + 1;
        let streams = self.memory.of_kind(kind).skip(first).take(last - first);
        let reached: Vec<(usize, ParametricStream)> = streams.collect();
        let chosen = to_usize(self.rng.below((reached.len() as u64).max(1)));
        let (place, stream) = *reached.get(chosen)?;
        // Where a stream has come to the end of the device, it goes no further.
        if stream.end >= self.content.span_bytes {
            return None;
        }
        let bytes = self.size(ONWARD, kind, stream.bytes)?;
        Some((stream.end, bytes, Some(place)))
    }

    /// Back to where a request of kind `of` began so many of these ago, to a power of two.
    fn again(&mut self, kind: OpKind, of: OpKind, power: u32) -> Option<ParametricPlacement> {
        let least = 1u64 << power.min(32);
        let mut found = None;
        for _ in 0..ATTEMPTS {
            let ago = least + self.rng.below(least);
            let began = self.memory.began[of.index()].len() as u64;
            let number = match began.checked_sub(ago) {
                Some(number) => number,
                None => self.rng.below(began.max(1)),
            };
            let number = to_usize(number);
            let (offset, bytes) = *self.memory.began[of.index()].get(number)?;
            found = Some((offset, bytes));
            // Where it was come back to since, the place is nearer than it should be.
            if self.memory.began_at(offset) == Some((of.index(), number)) {
                break;
            }
        }
        let (offset, usual) = found?;
        let bytes = self.size(BACK, kind, usual)?;
        Some((offset, bytes, None))
    }

    /// A new place in the zone nearest to where a jump leads that has one left.
    fn new_place(&mut self, kind: OpKind) -> Option<ParametricPlacement> {
        let content = self.content;
        let jump = self.jumps.draw(self.memory.busy, self.rng)?;
        let way = 1u64 << (jump % FORWARD).min(62);
        let way = way + self.rng.below(way);
        let end = self.memory.last_end();
        let to = match jump >= FORWARD {
            true => end.saturating_add(way),
            false => end.saturating_sub(way),
        };
        let aim = saturating_u32(to / content.zone_bytes.max(1));
        let zone = self.nearest(aim)?;
        let bytes = self.sizes[FRESH].draw(self.memory.sizes(kind), self.rng)?;
        let begin = u64::from(zone) * content.zone_bytes;
        let mut offset = to;
        for attempt in 0..=ATTEMPTS {
            if attempt > 0 || zone != aim {
                offset = begin + self.rng.below(content.zone_bytes.max(1));
            }
            offset -= offset % content.grain_bytes.max(1);
            if self.memory.began_at(offset).is_none() {
                break;
            }
        }
        Some((offset, bytes, None))
    }

    /// The nearest zone that has a new place left; it has one less then.
    fn nearest(&mut self, aim: u32) -> Option<u32> {
        let busy = self.content.zones.nearest(self.memory.busy)?;
        let zones = self.zones.entry(busy).or_default();
        if zones.is_empty() {
            zones.extend(self.content.zones.of(busy));
        }
        let above = zones.range(aim..).next().map(|(zone, _)| *zone);
        let below = zones.range(..aim).next_back().map(|(zone, _)| *zone);
        let zone = match (below, above) {
            (Some(below), Some(above)) if aim - below < above - aim => below,
            (Some(below), None) => below,
            (_, above) => above?,
        };
        let left = zones.get_mut(&zone)?;
        *left = left.saturating_sub(1);
        if *left == 0 {
            zones.remove(&zone);
        }
        Some(zone)
    }
}
