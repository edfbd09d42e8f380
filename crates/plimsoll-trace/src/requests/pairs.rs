// SPDX-License-Identifier: Apache-2.0
//! Events of requests, put together to requests with a start and an end.
//!
//! A block layer reports events: a request was queued, cut, given to the device, completed. What was
//! queued as one may complete in pieces, and neighbours that were merged complete as one; so each
//! queued request is kept as *pieces* of its sectors, and a completion takes the pieces that it
//! covers: of those at its place one of its own length, else the oldest. Requests come out in the order
//! of their starts, as soon as everything before them has ended.
//!
//! Where events were lost, an end may be that of a request whose start was lost, and a request may wait
//! for an end that was lost; the next one at its place would get that of the one after it, and so on for
//! ever. So an end that more than one request may claim since events were lost, or that makes a
//! request last far longer than others do, is given to none of them, and they get none.
//!
//! Invariants: no more than [`OPEN_MAX`] requests and twice as many pieces are held, and one event
//! costs no more than the pieces that it ends.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::TraceRequest;
use crate::text::SECTOR_BYTES;

/// Requests that are held at once: deeper than any queue, so that one that never ends (its
/// completion was lost) delays the others only.
const OPEN_MAX: usize = 1 << 16;
const PIECES_MAX: usize = 2 * OPEN_MAX;
/// Pieces at one place among which one of a wanted length is looked for: two requests of different
/// length at one place are rare, a thousand are an attack.
const LOOKED_AT_MAX: usize = 8;

/// A request lasts far longer than others if it takes more than this many times their mean, and longer
/// than any device takes that works.
const LONG_TIMES: u64 = 32;
const LONG_MIN_NS: u64 = 20_000_000;
/// Weight of the mean over the next time.
const MEAN_WEIGHT: u64 = 64;

/// Action of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockEventAction {
    /// The block layer got it.
    Queued,
    /// The device got it.
    Issued,
    /// It was cut in two at this sector.
    Split(u64),
    /// It ended.
    Completed,
}

/// Event of a request or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockEvent {
    /// When, on the source's clock.
    pub(super) at_ns: u64,
    pub(super) what: BlockEventAction,
    pub(super) kind: OpKind,
    pub(super) target: u16,
    pub(super) sector: u64,
    pub(super) bytes: u32,
}

/// Key that must agree for a completion to be that of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    sector: u64,
    target: u16,
    kind: u8,
}

/// Sectors of a request that have not ended.
#[derive(Debug, Clone, Copy)]
struct TraceRequestPiece {
    /// Number of the request.
    request: u64,
    sectors: u64,
}

/// Pieces with the same key, the oldest first. Mostly there is one.
#[derive(Debug)]
struct Pieces {
    oldest: TraceRequestPiece,
    later: VecDeque<TraceRequestPiece>,
}

#[derive(Debug)]
struct TracePendingRequest {
    request: TraceRequest,
    /// Sectors that have not ended.
    sectors: u64,
    /// Whether all its ends so far were its own.
    is_sure: bool,
}

/// Requests that have begun.
#[derive(Debug, Default)]
pub(super) struct BlockEventPairer {
    open: VecDeque<TracePendingRequest>,
    /// Number of the first of `open`; they are numbered as they come.
    first: u64,
    pieces: BTreeMap<Key, Pieces>,
    pieces_held: usize,
    /// Whether the source records when requests are queued; else they start when the device gets them.
    tells_queued: bool,
    origin_ns: Option<u64>,
    /// Flushes that were queued and not yet given to the device. One that the device gets beyond these
    /// was made by the block layer, for a write that asks for one, and starts then.
    flushes_queued: BTreeMap<u16, u64>,
    /// When events were lost last, since the origin.
    lost_at: Option<Nanos>,
    /// How long requests take, about, nanoseconds.
    mean_ns: u64,
    /// Ends that were given to no request, because they may be those of others.
    doubtful: u64,
    ended: u64,
    /// Events that began something.
    begun: u64,
    /// Completions of what had not begun.
    unbegun: u64,
    /// Requests whose end was not met.
    endless: u64,
}

impl BlockEvent {
    fn key(&self) -> Key {
        Key {
            // Flushes have no place; some sources print 0 and some nothing.
            sector: if self.kind == OpKind::Fsync {
                u64::MAX
            } else {
                self.sector
            },
            target: self.target,
            kind: self.kind as u8,
        }
    }

    /// A flush counts as one.
    fn sectors(&self) -> u64 {
        u64::from(self.bytes).div_ceil(SECTOR_BYTES).max(1)
    }
}

impl BlockEventPairer {
    /// The instant of the first event.
    pub(super) fn origin_ns(&self) -> Option<u64> {
        self.origin_ns
    }

    /// Says that events were lost before this instant of the source's clock: no end of what has begun
    /// by then is sure any more.
    pub(super) fn lose(&mut self, before_ns: u64) {
        let at = Nanos(before_ns.saturating_sub(self.origin_ns.unwrap_or(before_ns)));
        self.lost_at = Some(self.lost_at.map_or(at, |known| known.max(at)));
    }

    /// Whether something began; else there are only ends.
    pub(super) fn has_starts(&self) -> bool {
        self.begun > 0
    }

    /// Takes an event, and appends the requests that are known by it.
    pub(super) fn push(&mut self, event: &BlockEvent, into: &mut Vec<TraceRequest>) {
        self.origin_ns.get_or_insert(event.at_ns);
        match event.what {
            BlockEventAction::Queued => {
                self.tells_queued = true;
                if event.kind == OpKind::Fsync {
                    *self.flushes_queued.entry(event.target).or_default() += 1;
                }
                self.begin(event, into);
            }
            BlockEventAction::Issued if event.kind == OpKind::Fsync => {
                let queued = self.flushes_queued.entry(event.target).or_default();
                match queued.checked_sub(1) {
                    Some(left) => *queued = left,
                    None => self.begin(event, into),
                }
            }
            BlockEventAction::Issued if !self.tells_queued => self.begin(event, into),
            BlockEventAction::Issued => {}
            BlockEventAction::Split(at) => self.split(event, at),
            BlockEventAction::Completed => {
                self.complete(event);
                while let Some(ended) = self.open.pop_front_if(|open| open.sectors == 0) {
                    self.first += 1;
                    into.push(ended.request);
                }
            }
        }
    }

    /// Gives out what has not ended, and says what was odd.
    pub(super) fn finish(&mut self, into: &mut Vec<TraceRequest>) -> Vec<String> {
        for open in self.open.drain(..) {
            self.first += 1;
            self.endless += u64::from(open.sectors > 0);
            into.push(open.request);
        }
        self.pieces.clear();
        self.pieces_held = 0;
        let mut told = Vec::new();
        if !self.tells_queued && self.origin_ns.is_some() {
            told.push("it has no queue events: requests start when the device gets them".into());
        }
        if self.doubtful > 0 {
            told.push(format!(
                "{} ends may be those of other requests, as events were lost, and count for none; times \
                 of requests are those of the other {}",
                self.doubtful, self.ended
            ));
        }
        let counts = [
            (&mut self.endless, "requests have no end in it"),
            (&mut self.unbegun, "ends have no start in it"),
        ];
        for (count, what) in counts {
            if *count > 0 {
                told.push(format!("{count} {what}"));
            }
            *count = 0;
        }
        told
    }

    fn begin(&mut self, event: &BlockEvent, into: &mut Vec<TraceRequest>) {
        self.begun += 1;
        let origin_ns = self.origin_ns.unwrap_or(event.at_ns);
        if self.open.len() == OPEN_MAX
            && let Some(oldest) = self.open.pop_front()
        {
            self.first += 1;
            self.endless += u64::from(oldest.sectors > 0);
            into.push(oldest.request);
        }
        let sectors = event.sectors();
        self.open.push_back(TracePendingRequest {
            request: TraceRequest {
                at: Nanos(event.at_ns.saturating_sub(origin_ns)),
                took: None,
                kind: event.kind,
                target: event.target,
                bytes: event.bytes,
                offset: event.sector.saturating_mul(SECTOR_BYTES),
            },
            sectors,
            is_sure: true,
        });
        let piece = TraceRequestPiece {
            request: self.first + self.open.len() as u64 - 1,
            sectors,
        };
        self.put(event.key(), piece);
    }

    fn split(&mut self, event: &BlockEvent, at: u64) {
        let key = event.key();
        let Some(piece) = self.take(key, event.sectors()) else {
            return;
        };
        let before = at.saturating_sub(event.sector);
        if before == 0 || before >= piece.sectors {
            self.put(key, piece);
            return;
        }
        let part = |sectors| TraceRequestPiece { sectors, ..piece };
        self.put(key, part(before));
        self.put(Key { sector: at, ..key }, part(piece.sectors - before));
    }

    fn complete(&mut self, event: &BlockEvent) {
        let origin_ns = self.origin_ns.unwrap_or(0);
        let now = Nanos(event.at_ns.saturating_sub(origin_ns));
        let mut key = event.key();
        let mut left = event.sectors();
        let (mut met, mut doubted) = (false, false);
        while left > 0
            && let Some(piece) = self.take(key, left)
        {
            met = true;
            let is_doubtful = self.is_doubtful(key, piece, now);
            if is_doubtful {
                self.disown(key, piece);
                doubted = true;
            }
            let ended = piece.sectors.min(left);
            left -= ended;
            let next = Key {
                sector: key.sector.saturating_add(ended),
                ..key
            };
            if piece.sectors > ended && !is_doubtful {
                let sectors = piece.sectors - ended;
                self.put(next, TraceRequestPiece { sectors, ..piece });
            }
            key = next;
            if !is_doubtful {
                self.end(piece, ended, now);
            }
        }
        self.doubtful += u64::from(doubted);
        self.unbegun += u64::from(!met);
    }

    /// Ends sectors of a request, and the request with the last of them.
    fn end(&mut self, piece: TraceRequestPiece, sectors: u64, now: Nanos) {
        let Some(open) = self.open_of(piece) else {
            return;
        };
        open.sectors = open.sectors.saturating_sub(sectors);
        if open.sectors > 0 || !open.is_sure {
            return;
        }
        let took = now.since(open.request.at);
        open.request.took = Some(took);
        self.ended += 1;
        let mean_ns = self.mean_ns;
        self.mean_ns = match mean_ns {
            0 => took.0,
            mean => mean - mean / MEAN_WEIGHT + took.0 / MEAN_WEIGHT,
        };
    }

    fn open_of(&mut self, piece: TraceRequestPiece) -> Option<&mut TracePendingRequest> {
        let place = usize::try_from(piece.request.checked_sub(self.first)?).ok()?;
        self.open.get_mut(place)
    }

    /// Whether an end that came now may be that of another request than this piece's.
    fn is_doubtful(&mut self, key: Key, piece: TraceRequestPiece, now: Nanos) -> bool {
        let Some(at) = self.open_of(piece).map(|open| open.request.at) else {
            return false;
        };
        let took_ns = now.since(at).0;
        let others = self.pieces.contains_key(&key);
        let long_ns = LONG_MIN_NS.max(self.mean_ns.saturating_mul(LONG_TIMES));
        let is_long = self.mean_ns > 0 && took_ns > long_ns;
        match self.lost_at.is_some_and(|lost| lost >= at) {
            true => others || is_long,
            // Not every source reports what it lost.
            false => others && is_long,
        }
    }

    /// Gives no end to a piece, nor to the others at its place: the next end may be that of any of them.
    fn disown(&mut self, key: Key, piece: TraceRequestPiece) {
        let pieces = self.pieces.remove(&key);
        let others = pieces.into_iter().flat_map(|pieces| {
            let later = pieces.later.into_iter();
            std::iter::once(pieces.oldest).chain(later)
        });
        let others: Vec<TraceRequestPiece> = others.collect();
        self.pieces_held -= others.len();
        for piece in others.into_iter().chain([piece]) {
            if let Some(open) = self.open_of(piece) {
                open.sectors = open.sectors.saturating_sub(piece.sectors);
                open.is_sure = false;
            }
        }
    }

    fn put(&mut self, key: Key, piece: TraceRequestPiece) {
        if self.pieces_held >= PIECES_MAX {
            self.sweep();
        }
        self.pieces_held += 1;
        let fresh = || Pieces {
            oldest: piece,
            later: VecDeque::new(),
        };
        self.pieces
            .entry(key)
            .and_modify(|pieces| pieces.later.push_back(piece))
            .or_insert_with(fresh);
    }

    /// Of the pieces with a key whose request is still held, one of this length, else the oldest.
    fn take(&mut self, key: Key, sectors: u64) -> Option<TraceRequestPiece> {
        let Entry::Occupied(mut entry) = self.pieces.entry(key) else {
            return None;
        };
        loop {
            self.pieces_held -= 1;
            let pieces = entry.get_mut();
            let piece = pieces.oldest;
            let is_held = piece.request >= self.first;
            let is_it =
                |other: &TraceRequestPiece| other.sectors == sectors && other.request >= self.first;
            if is_held
                && piece.sectors != sectors
                && let Some(place) = pieces.later.iter().take(LOOKED_AT_MAX).position(is_it)
                && let Some(other) = pieces.later.remove(place)
            {
                return Some(other);
            }
            match pieces.later.pop_front() {
                Some(next) => pieces.oldest = next,
                None => {
                    entry.remove();
                    return is_held.then_some(piece);
                }
            }
            if is_held {
                return Some(piece);
            }
        }
    }

    /// Forgets the pieces of requests that were given out without an end; if that is not half of
    /// them, requests were cut finer than any device does, and all are forgotten.
    fn sweep(&mut self) {
        let first = self.first;
        let mut held = 0;
        self.pieces.retain(|_, pieces| {
            pieces.later.retain(|piece| piece.request >= first);
            if pieces.oldest.request < first {
                match pieces.later.pop_front() {
                    Some(next) => pieces.oldest = next,
                    None => return false,
                }
            }
            held += 1 + pieces.later.len();
            true
        });
        if held > PIECES_MAX / 2 {
            self.pieces.clear();
            held = 0;
        }
        self.pieces_held = held;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(at, what, kind, sector, sectors)` as an event of one device.
    fn event(
        (at_ns, what, kind, sector, sectors): (u64, BlockEventAction, OpKind, u64, u32),
    ) -> BlockEvent {
        BlockEvent {
            at_ns,
            what,
            kind,
            target: 0,
            sector,
            bytes: sectors * 512,
        }
    }

    /// `(at, took, kind, sector, sectors)` of each request, and what was odd.
    type PairingTestResult = (Vec<(u64, Option<u64>, OpKind, u64, u32)>, Vec<String>);

    fn told(events: &[(u64, BlockEventAction, OpKind, u64, u32)]) -> PairingTestResult {
        let mut pairs = BlockEventPairer::default();
        let mut found = Vec::new();
        for one in events {
            pairs.push(&event(*one), &mut found);
        }
        let odd = pairs.finish(&mut found);
        let plain = |r: &TraceRequest| {
            let took = r.took.map(|took| took.0);
            (r.at.0, took, r.kind, r.offset / 512, r.bytes / 512)
        };
        (found.iter().map(plain).collect(), odd)
    }

    use BlockEventAction::{Completed, Issued, Queued, Split};
    use OpKind::{Fsync, Read, Write};

    #[test]
    fn of_equal_requests_the_oldest_ends_first() {
        let (found, odd) = told(&[
            (10, Queued, Read, 100, 8),
            (11, Queued, Read, 100, 8),
            (12, Queued, Write, 100, 8),
            (20, Issued, Read, 100, 8),
            (30, Completed, Read, 100, 8),
            (40, Completed, Read, 100, 8),
            (50, Completed, Write, 100, 8),
        ]);
        let expect = [
            (0, Some(20), Read, 100, 8),
            (1, Some(29), Read, 100, 8),
            (2, Some(38), Write, 100, 8),
        ];
        assert_eq!(found, expect);
        assert!(odd.is_empty(), "{odd:?}");
        let (found, odd) = told(&[
            (0, Queued, Read, 100, 8),
            (1, Queued, Read, 100, 16),
            (2, Completed, Read, 100, 16),
            (3, Completed, Read, 100, 8),
        ]);
        assert_eq!(
            found,
            [(0, Some(3), Read, 100, 8), (1, Some(1), Read, 100, 16)]
        );
        assert!(odd.is_empty(), "{odd:?}");
    }

    #[test]
    fn merged_neighbours_end_together_and_the_cut_piece_by_piece() {
        let (found, odd) = told(&[
            (0, Queued, Write, 100, 8),
            (1, Queued, Write, 108, 8),
            (2, Queued, Write, 92, 8),
            (9, Completed, Write, 92, 24),
            (10, Queued, Read, 0, 100),
            (11, Split(60), Read, 0, 100),
            (12, Completed, Read, 60, 40),
            (13, Completed, Read, 0, 50),
            (14, Completed, Read, 50, 10),
        ]);
        let expect = [
            (0, Some(9), Write, 100, 8),
            (1, Some(8), Write, 108, 8),
            (2, Some(7), Write, 92, 8),
            (10, Some(4), Read, 0, 100),
        ];
        assert_eq!(found, expect);
        assert!(odd.is_empty(), "{odd:?}");
    }

    #[test]
    fn flushes_match_wherever_they_are_said_to_be() {
        let (found, _) = told(&[(0, Queued, Fsync, 77, 0), (5, Completed, Fsync, 0, 0)]);
        assert_eq!(found, [(0, Some(5), Fsync, 77, 0)]);
    }

    #[test]
    fn a_flush_of_the_block_layer_starts_when_the_device_gets_it() {
        let (found, odd) = told(&[
            (0, Queued, Write, 8, 8),
            (1, Issued, Fsync, 0, 0),
            (3, Completed, Fsync, 0, 0),
            (4, Issued, Write, 8, 8),
            (5, Queued, Fsync, 0, 0),
            (6, Issued, Fsync, 0, 0),
            (7, Completed, Write, 8, 8),
            (8, Completed, Fsync, 0, 0),
        ]);
        let expect = [
            (0, Some(7), Write, 8, 8),
            (1, Some(2), Fsync, 0, 0),
            (5, Some(3), Fsync, 0, 0),
        ];
        assert_eq!(found, expect);
        assert!(odd.is_empty(), "{odd:?}");
    }

    const MS: u64 = 1_000_000;

    /// Requests of 1 ms at one of ten places in turn, of which an event each of some is lost: true
    /// times, or none. Whether the losses are reported.
    fn lossy(
        is_lost: impl Fn(u64, BlockEventAction) -> bool,
        is_told: bool,
    ) -> (Vec<TraceRequest>, Vec<String>) {
        let mut pairs = BlockEventPairer::default();
        let mut found = Vec::new();
        for n in 0..5_000u64 {
            let sector = n % 10 * 64;
            for (what, at) in [(Queued, 10 * n), (Issued, 10 * n), (Completed, 10 * n + 1)] {
                let at_ns = at * MS;
                if !is_lost(n, what) {
                    pairs.push(&event((at_ns, what, Read, sector, 8)), &mut found);
                } else if is_told {
                    pairs.lose(at_ns);
                }
            }
        }
        let odd = pairs.finish(&mut found);
        (found, odd)
    }

    #[test]
    fn lost_events_shift_no_end_to_another_request() {
        for lost in [Queued, Completed] {
            for is_told in [true, false] {
                // Single requests lose an event, or two in a row, but never two in a row at one place.
                for every in [47, 50, 70] {
                    let is_lost =
                        |n: u64, what| what == lost && n > 100 && n % every < 1 + every % 2;
                    let (found, odd) = lossy(is_lost, is_told);
                    let wrong = found.iter().filter_map(|request| request.took);
                    let wrong: Vec<u64> = wrong.map(|t| t.0 / MS).filter(|ms| *ms != 1).collect();
                    assert_eq!(wrong, [0; 0], "{lost:?} {is_told} {every}: {odd:?}");
                    let sure = found
                        .iter()
                        .filter(|request| request.took.is_some())
                        .count();
                    assert!(
                        sure > 4_500,
                        "{lost:?} {is_told} {every}: {sure} of {}",
                        found.len()
                    );
                }
            }
        }
    }

    #[test]
    fn without_queue_events_the_issue_is_the_start() {
        let (found, odd) = told(&[
            (0, Issued, Read, 1, 1),
            (4, Completed, Read, 1, 1),
            (5, Completed, Read, 9, 1),
            (6, Issued, Read, 2, 1),
        ]);
        assert_eq!(found, [(0, Some(4), Read, 1, 1), (6, None, Read, 2, 1)]);
        let odd = odd.join("; ");
        for part in [
            "no queue events",
            "1 requests have no end",
            "1 ends have no start",
        ] {
            assert!(odd.contains(part), "{part}: {odd}");
        }
    }

    #[test]
    fn what_never_ends_is_bounded() {
        let mut pairs = BlockEventPairer::default();
        let mut found = Vec::new();
        let all = 5 * OPEN_MAX as u64;
        for at in 0..all {
            // Half at one place, half each at its own, some cut.
            let sector = if at % 2 == 0 { 0 } else { at * 64 };
            pairs.push(&event((at, Queued, Read, sector, 64)), &mut found);
            pairs.push(
                &event((at, Split(sector + 8), Read, sector, 64)),
                &mut found,
            );
            assert!(pairs.open.len() <= OPEN_MAX && pairs.pieces_held <= PIECES_MAX);
        }
        pairs.finish(&mut found);
        assert_eq!(found.len() as u64, all);
        assert!(found.is_sorted_by_key(|request| request.at));
    }
}
