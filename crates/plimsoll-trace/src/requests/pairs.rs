// SPDX-License-Identifier: Apache-2.0
//! What happened to requests, put together to requests with a start and an end.
//!
//! A block layer tells events: a request was queued, cut, given to the device, completed. What was
//! queued as one may complete in pieces, and neighbours that were merged complete as one; so each
//! queued request is kept as *pieces* of its sectors, and a completion takes the pieces that it
//! covers: of those at its place one of its own length, else the oldest. Requests come out in the order of their starts, as soon as
//! everything before them has ended. Invariants: no more than [`OPEN_MAX`] requests and twice as
//! many pieces are held, and one event costs no more than the pieces that it ends.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use plimsoll_core::op::Kind;
use plimsoll_core::units::Nanos;

use super::Request;
use super::text::SECTOR_BYTES;

/// Requests that are held at once: deeper than any queue, so that one that never ends (its
/// completion was lost) delays the others only.
const OPEN_MAX: usize = 1 << 16;
const PIECES_MAX: usize = 2 * OPEN_MAX;
/// Pieces at one place among which one of a wanted length is looked for: two requests of different
/// length at one place are rare, a thousand are an attack.
const LOOKED_AT_MAX: usize = 8;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The block layer got it.
    Queued,
    /// The device got it.
    Issued,
    /// It was cut in two at this sector.
    Split(u64),
    /// It ended.
    Completed,
}

/// What happened to a request or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    /// When, on the source's clock.
    pub(super) at_ns: u64,
    pub(super) what: What,
    pub(super) kind: Kind,
    pub(super) target: u16,
    pub(super) sector: u64,
    pub(super) bytes: u32,
}

/// What must agree for a completion to be that of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    sector: u64,
    target: u16,
    kind: u8,
}

/// Sectors of a request that have not ended.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Number of the request.
    request: u64,
    sectors: u64,
}

/// Pieces with the same key, the oldest first. Mostly there is one.
#[derive(Debug)]
struct Pieces {
    oldest: Piece,
    later: VecDeque<Piece>,
}

#[derive(Debug)]
struct Open {
    request: Request,
    /// Sectors that have not ended.
    sectors: u64,
}

/// Requests that have begun.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    open: VecDeque<Open>,
    /// Number of the first of `open`; they are numbered as they come.
    first: u64,
    pieces: BTreeMap<Key, Pieces>,
    pieces_held: usize,
    /// Whether the source tells when requests are queued; else they start when the device gets them.
    tells_queued: bool,
    origin_ns: Option<u64>,
    /// Completions of what had not begun.
    unbegun: u64,
    /// Requests whose end was not met.
    endless: u64,
}

impl Event {
    fn key(&self) -> Key {
        Key {
            // Flushes have no place; some sources print 0 and some nothing.
            sector: if self.kind == Kind::Fsync {
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

impl Pairs {
    /// The instant of the first event.
    pub(super) fn origin_ns(&self) -> Option<u64> {
        self.origin_ns
    }

    /// Takes an event, and appends the requests that are known by it.
    pub(super) fn push(&mut self, event: &Event, into: &mut Vec<Request>) {
        self.origin_ns.get_or_insert(event.at_ns);
        match event.what {
            What::Queued => {
                self.tells_queued = true;
                self.begin(event, into);
            }
            What::Issued if !self.tells_queued => self.begin(event, into),
            What::Issued => {}
            What::Split(at) => self.split(event, at),
            What::Completed => {
                self.complete(event);
                while let Some(ended) = self.open.pop_front_if(|open| open.sectors == 0) {
                    self.first += 1;
                    into.push(ended.request);
                }
            }
        }
    }

    /// Gives out what has not ended, and says what was odd.
    pub(super) fn finish(&mut self, into: &mut Vec<Request>) -> Vec<String> {
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

    fn begin(&mut self, event: &Event, into: &mut Vec<Request>) {
        let origin_ns = self.origin_ns.unwrap_or(event.at_ns);
        if self.open.len() == OPEN_MAX
            && let Some(oldest) = self.open.pop_front()
        {
            self.first += 1;
            self.endless += u64::from(oldest.sectors > 0);
            into.push(oldest.request);
        }
        let sectors = event.sectors();
        self.open.push_back(Open {
            request: Request {
                at: Nanos(event.at_ns.saturating_sub(origin_ns)),
                took: None,
                kind: event.kind,
                target: event.target,
                bytes: event.bytes,
                offset: event.sector.saturating_mul(SECTOR_BYTES),
            },
            sectors,
        });
        let piece = Piece {
            request: self.first + self.open.len() as u64 - 1,
            sectors,
        };
        self.put(event.key(), piece);
    }

    fn split(&mut self, event: &Event, at: u64) {
        let key = event.key();
        let Some(piece) = self.take(key, event.sectors()) else {
            return;
        };
        let before = at.saturating_sub(event.sector);
        if before == 0 || before >= piece.sectors {
            self.put(key, piece);
            return;
        }
        let part = |sectors| Piece { sectors, ..piece };
        self.put(key, part(before));
        self.put(Key { sector: at, ..key }, part(piece.sectors - before));
    }

    fn complete(&mut self, event: &Event) {
        let mut key = event.key();
        let mut left = event.sectors();
        let mut met = false;
        while left > 0
            && let Some(piece) = self.take(key, left)
        {
            met = true;
            let ended = piece.sectors.min(left);
            left -= ended;
            let next = Key {
                sector: key.sector.saturating_add(ended),
                ..key
            };
            if piece.sectors > ended {
                let rest = piece.sectors - ended;
                self.put(
                    next,
                    Piece {
                        sectors: rest,
                        ..piece
                    },
                );
            }
            key = next;
            let place = usize::try_from(piece.request - self.first);
            if let Some(open) = place.ok().and_then(|place| self.open.get_mut(place)) {
                open.sectors = open.sectors.saturating_sub(ended);
                if open.sectors == 0 {
                    let origin_ns = self.origin_ns.unwrap_or(0);
                    let at_ns = event.at_ns.saturating_sub(origin_ns);
                    open.request.took = Some(Nanos(at_ns.saturating_sub(open.request.at.0)));
                }
            }
        }
        self.unbegun += u64::from(!met);
    }

    fn put(&mut self, key: Key, piece: Piece) {
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
    fn take(&mut self, key: Key, sectors: u64) -> Option<Piece> {
        let Entry::Occupied(mut entry) = self.pieces.entry(key) else {
            return None;
        };
        loop {
            self.pieces_held -= 1;
            let pieces = entry.get_mut();
            let piece = pieces.oldest;
            let is_held = piece.request >= self.first;
            let is_it = |other: &Piece| other.sectors == sectors && other.request >= self.first;
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
    fn event((at_ns, what, kind, sector, sectors): (u64, What, Kind, u64, u32)) -> Event {
        Event {
            at_ns,
            what,
            kind,
            target: 0,
            sector,
            bytes: sectors * 512,
        }
    }

    /// `(at, took, kind, sector, sectors)` of each request, and what was odd.
    type Told = (Vec<(u64, Option<u64>, Kind, u64, u32)>, Vec<String>);

    fn told(events: &[(u64, What, Kind, u64, u32)]) -> Told {
        let mut pairs = Pairs::default();
        let mut found = Vec::new();
        for one in events {
            pairs.push(&event(*one), &mut found);
        }
        let odd = pairs.finish(&mut found);
        let plain = |r: &Request| {
            let took = r.took.map(|took| took.0);
            (r.at.0, took, r.kind, r.offset / 512, r.bytes / 512)
        };
        (found.iter().map(plain).collect(), odd)
    }

    use Kind::{Fsync, Read, Write};
    use What::{Completed, Issued, Queued, Split};

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
        let mut pairs = Pairs::default();
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
