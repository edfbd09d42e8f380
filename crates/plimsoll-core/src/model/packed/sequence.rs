// SPDX-License-Identifier: Apache-2.0
//! How a request is encoded, given those before it: the common part of packing and unpacking.
//!
//! A request mostly goes on where one of the last streams ended, repeats a recent place, or goes
//! where a request went after the last place the time before; else its place is encoded by its
//! distance or as it is. Kind and length are mostly those of the stream's last request.

use super::PackedGapPrecision;
use super::coder::PackedSymbolCoder;
use super::latest::{NOWHERE, PackedRecencyList, RECENT};
use crate::num::{round_u64, saturating_u32, to_usize};
use crate::op::OpKind;
use crate::op::TraceAccess;
use crate::units::Nanos;

/// Places of which the following one is remembered, a power of two.
const FOLLOWERS: usize = 1 << 16;
/// Pairs of kind and length that have a symbol of their own, and the symbols of others.
const TRANSFERS_MAX: usize = 254;
const HABIT: u8 = 0;
const OTHER: u8 = 255;
/// Bits behind the first of a number that are learned; the rest is encoded verbatim.
const LEARNED: u32 = 5;
/// Sizes of blocks in which places may be encoded, largest first.
const GRAINS: [u32; 3] = [12, 9, 0];
/// A distance is encoded instead of a place when it is shorter by more bits than this.
const NEAR_BITS: u32 = 6;

/// How a place is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PackedOffsetCode {
    /// Where a stream ended.
    Continues(usize),
    /// Where a recent request started.
    Again(usize),
    /// Where the request after the last place went the time before.
    Follows,
    /// By its distance from the end of the last request.
    Near,
    /// As it is.
    Far,
}

impl PackedOffsetCode {
    fn symbol(self) -> u8 {
        match self {
            PackedOffsetCode::Continues(rank) => small(rank),
            PackedOffsetCode::Again(rank) => small(RECENT + rank),
            PackedOffsetCode::Follows => small(2 * RECENT),
            PackedOffsetCode::Near => small(2 * RECENT + 1),
            PackedOffsetCode::Far => small(2 * RECENT + 2),
        }
    }

    fn of(symbol: u8) -> PackedOffsetCode {
        match usize::from(symbol) {
            rank if rank < RECENT => PackedOffsetCode::Continues(rank),
            rank if rank < 2 * RECENT => PackedOffsetCode::Again(rank - RECENT),
            rank if rank == 2 * RECENT => PackedOffsetCode::Follows,
            rank if rank == 2 * RECENT + 1 => PackedOffsetCode::Near,
            _ => PackedOffsetCode::Far,
        }
    }

    /// Situation that predicts the next code.
    fn situation(self) -> usize {
        match self {
            PackedOffsetCode::Continues(0) => 0,
            PackedOffsetCode::Continues(_) => 1,
            PackedOffsetCode::Again(_) => 2,
            PackedOffsetCode::Follows => 3,
            PackedOffsetCode::Near => 4,
            PackedOffsetCode::Far => 5,
        }
    }
}

/// Where the tables of each figure begin.
mod table {
    use super::LENGTHS;

    /// Classes of gaps, by the class before in steps of 16.
    pub(super) const GAP: usize = 0;
    /// How a place is encoded, given how the last was.
    pub(super) const PLACE: usize = GAP + 16 * 6;
    /// Kind and length, given how the place is encoded.
    pub(super) const TRANSFER: usize = PLACE + 6;
    /// Kinds of pairs that are met for the first time.
    pub(super) const KIND: usize = TRANSFER + 6;
    /// Numbers: their length in bits with their grain, then their first bits by their length.
    pub(super) const EXACT_GAP: usize = KIND + 1;
    pub(super) const BYTES: usize = EXACT_GAP + 1 + LENGTHS;
    pub(super) const NEAR: usize = BYTES + 1 + LENGTHS;
    pub(super) const FAR: usize = NEAR + 1 + LENGTHS;
    pub(super) const COUNT: usize = FAR + 1 + LENGTHS;
}

/// Tables of all figures.
pub(super) const TABLES: usize = table::COUNT;
/// Lengths of a number in bits.
const LENGTHS: usize = 65;

/// Codes a number in its grain by its length in bits and its first bits. `table` is the first of
/// its tables.
fn code_number(coder: &mut impl PackedSymbolCoder, table: usize, number: u64) -> u64 {
    let grain = GRAINS
        .iter()
        .position(|bits| number.trailing_zeros() >= *bits);
    // The last grain is a byte, of which everything is a multiple.
    let grain = grain.unwrap_or(GRAINS.len() - 1);
    let value = number >> GRAINS[grain];
    let length = 64 - value.leading_zeros() as usize;
    let symbol = usize::from(coder.symbol(table, || small(grain * LENGTHS + length)));
    let (grain, length) = (symbol / LENGTHS, symbol % LENGTHS);
    let Some(behind) = length.checked_sub(1) else {
        return 0;
    };
    let behind = saturating_u32(behind as u64);
    let learned = behind.min(LEARNED);
    let plain = behind - learned;
    let first = (value >> plain) & ((1 << learned) - 1);
    let first = coder.symbol(table + 1 + length, || first.to_le_bytes()[0]);
    // At most 32 bits are coded at once.
    let low = plain.min(32);
    let rest = coder.plain(low, value);
    let high = coder.plain(plain - low, value >> low);
    let value = 1 << behind | u64::from(first) << plain | high << low | rest;
    value << GRAINS.get(grain).copied().unwrap_or_default()
}

/// Everything that is remembered on the way.
#[derive(Debug, Clone)]
pub(super) struct PackedCoderContext {
    /// `None` where gaps are kept exactly.
    steps: Option<Steps>,
    /// Class of the last gap in steps of 16.
    last_gap: usize,
    last_place: PackedOffsetCode,
    /// Where streams ended and requests started, with kind and length of the last there.
    ends: PackedRecencyList,
    starts: PackedRecencyList,
    /// Start, kind and length of the request that followed a place.
    followers: Vec<(u64, (OpKind, u32))>,
    last_start: u64,
    last_end: u64,
    /// Pairs of kind and length by their symbol less one.
    transfers: Vec<(OpKind, u32)>,
    /// Where in `transfers` a pair was found last, by a hash of it.
    found: [u8; 256],
}

impl PackedCoderContext {
    pub(super) fn new(gaps: PackedGapPrecision) -> PackedCoderContext {
        PackedCoderContext {
            steps: step_bits(gaps).map(Steps::new),
            last_gap: 0,
            last_place: PackedOffsetCode::Far,
            ends: PackedRecencyList::new(),
            starts: PackedRecencyList::new(),
            followers: vec![(NOWHERE, (OpKind::Read, 0)); FOLLOWERS],
            found: [0; 256],
            last_start: 0,
            last_end: 0,
            transfers: Vec::with_capacity(TRANSFERS_MAX),
        }
    }

    /// Codes one request; `gap` is the time since the one before. Gives back what is written, or
    /// what was read: the gap as it will be played, the rest as it is.
    pub(super) fn code(
        &mut self,
        coder: &mut impl PackedSymbolCoder,
        gap: Nanos,
        given: &TraceAccess,
    ) -> TraceAccess {
        let place = self.code_place(coder, given.offset);
        let at = self.code_gap(coder, place, gap);
        let (kind, bytes) = self.code_transfer(coder, place, (given.kind, given.bytes));
        let offset = match place {
            PackedOffsetCode::Continues(rank) => self.ends.place(rank),
            PackedOffsetCode::Again(rank) => self.starts.place(rank),
            PackedOffsetCode::Follows => self.follower().0,
            PackedOffsetCode::Near => self.code_near(coder, given.offset),
            PackedOffsetCode::Far => code_number(coder, table::FAR, given.offset),
        };
        self.remember(place, offset, (kind, bytes));
        TraceAccess {
            at,
            kind,
            offset,
            bytes,
        }
    }

    /// Request that followed the last start the time before: its place, kind and size.
    fn follower(&self) -> (u64, (OpKind, u32)) {
        self.followers[slot(self.last_start)]
    }

    /// Has what followed these places brought from memory, which takes its time for each alone and
    /// hardly more for many at once.
    pub(super) fn expect(&self, requests: &[TraceAccess]) {
        let places = requests.iter();
        let all = places.map(|request| self.followers[slot(request.offset)].0);
        std::hint::black_box(all.fold(0, |all, one| all ^ one));
    }

    fn code_gap(
        &mut self,
        coder: &mut impl PackedSymbolCoder,
        place: PackedOffsetCode,
        gap: Nanos,
    ) -> Nanos {
        let Some(steps) = &self.steps else {
            return Nanos(code_number(coder, table::EXACT_GAP, gap.0));
        };
        let table = table::GAP + 6 * self.last_gap + place.situation();
        let (class, step) = steps.of(gap);
        let class = coder.symbol(table, || class);
        self.last_gap = usize::from(class / 16);
        // Where in its class a gap lies is as good as random, so it stands as it is.
        let step = match class {
            0 => 0,
            _ => coder.plain(steps.bits, step),
        };
        steps.gap(class, step)
    }

    fn code_place(&mut self, coder: &mut impl PackedSymbolCoder, offset: u64) -> PackedOffsetCode {
        let table = table::PLACE + self.last_place.situation();
        PackedOffsetCode::of(coder.symbol(table, || self.find(offset).symbol()))
    }

    /// The shortest encoding of an offset.
    fn find(&self, offset: u64) -> PackedOffsetCode {
        if let Some(rank) = self.ends.rank(offset) {
            return PackedOffsetCode::Continues(rank);
        }
        if let Some(rank) = self.starts.rank(offset) {
            return PackedOffsetCode::Again(rank);
        }
        if self.follower().0 == offset {
            return PackedOffsetCode::Follows;
        }
        let bits = |value: u64| 64 - value.leading_zeros();
        if bits(offset.abs_diff(self.last_end)) + NEAR_BITS < bits(offset) {
            PackedOffsetCode::Near
        } else {
            PackedOffsetCode::Far
        }
    }

    fn code_near(&self, coder: &mut impl PackedSymbolCoder, offset: u64) -> u64 {
        let is_back = coder.plain(1, u64::from(offset < self.last_end)) == 1;
        let distance = code_number(coder, table::NEAR, offset.abs_diff(self.last_end));
        if is_back {
            self.last_end.wrapping_sub(distance)
        } else {
            self.last_end.wrapping_add(distance)
        }
    }

    fn code_transfer(
        &mut self,
        coder: &mut impl PackedSymbolCoder,
        place: PackedOffsetCode,
        given: (OpKind, u32),
    ) -> (OpKind, u32) {
        let habit = match place {
            PackedOffsetCode::Continues(rank) => self.ends.habit(rank),
            PackedOffsetCode::Again(rank) => self.starts.habit(rank),
            PackedOffsetCode::Follows => self.follower().1,
            PackedOffsetCode::Near | PackedOffsetCode::Far => self.ends.habit(0),
        };
        let symbol = || match given == habit {
            true => HABIT,
            false => self.known(given).map_or(OTHER, |number| small(number + 1)),
        };
        match coder.symbol(table::TRANSFER + place.situation(), symbol) {
            HABIT => habit,
            OTHER => self.code_other(coder, given),
            number => {
                let pair = self.transfers.get(usize::from(number) - 1);
                pair.copied().unwrap_or(habit)
            }
        }
    }

    /// The place of a pair among those that were met.
    fn known(&mut self, given: (OpKind, u32)) -> Option<usize> {
        let hash = (given.1 ^ (given.0 as u32) << 20).wrapping_mul(0x9e37_79b9) >> 24;
        let found = &mut self.found[hash as usize];
        let guess = usize::from(*found);
        if self.transfers.get(guess) == Some(&given) {
            return Some(guess);
        }
        let number = self.transfers.iter().position(|pair| *pair == given)?;
        *found = small(number);
        Some(number)
    }

    /// Codes a pair of kind and length that has no symbol; from now on it has one, while there
    /// are any.
    fn code_other(
        &mut self,
        coder: &mut impl PackedSymbolCoder,
        given: (OpKind, u32),
    ) -> (OpKind, u32) {
        let kind = coder.symbol(table::KIND, || small(given.0.index()));
        let kind = OpKind::ALL[usize::from(kind).min(OpKind::ALL.len() - 1)];
        // Cut short in nonsense only.
        let bytes = saturating_u32(code_number(coder, table::BYTES, given.1.into()));
        if self.transfers.len() < TRANSFERS_MAX {
            self.transfers.push((kind, bytes));
        }
        (kind, bytes)
    }

    fn remember(&mut self, place: PackedOffsetCode, offset: u64, transfer: (OpKind, u32)) {
        let end = offset.wrapping_add(transfer.1.into());
        if let PackedOffsetCode::Continues(rank) = place {
            self.ends.renew(rank, end, transfer);
        } else {
            self.ends.add(end, transfer);
            if let PackedOffsetCode::Again(rank) = place {
                self.starts.renew(rank, offset, transfer);
            } else {
                self.starts.add(offset, transfer);
            }
            self.followers[slot(self.last_start)] = (offset, transfer);
            self.last_start = offset;
        }
        self.last_end = end;
        self.last_place = place;
    }
}

/// A symbol; there are fewer than 256 of any figure.
fn small(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// Where the follower of a place is remembered.
fn slot(start: u64) -> usize {
    // Fibonacci hashing; the top bits are the mixed ones.
    to_usize(start.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FOLLOWERS.trailing_zeros()))
}

/// Classes for each power of ten.
const CLASSES_PER_DECADE: f64 = 10.0;

/// Bits of a gap's step within its class; `None` where gaps are kept exactly.
fn step_bits(gaps: PackedGapPrecision) -> Option<u32> {
    match gaps {
        PackedGapPrecision::Classes => Some(0),
        PackedGapPrecision::Fine => Some(2),
        PackedGapPrecision::Exact => None,
    }
}

/// Classes of gaps: the first is of no time at all, the second begins at a nanosecond, ten more for
/// each power of ten. Each has as many steps as these bits can number.
#[derive(Debug, Clone)]
struct Steps {
    bits: u32,
    /// The gap of each step.
    gaps: Vec<Nanos>,
    /// Where each step ends, ns.
    ends: Vec<u64>,
    /// By number of bits: the first step that may hold a gap of this length.
    first: [usize; LENGTHS],
}

impl Steps {
    fn new(bits: u32) -> Steps {
        let per_decade = CLASSES_PER_DECADE * f64::from(1u32 << bits);
        let at = |step: f64| round_u64(10f64.powf(step / per_decade));
        let steps = 0..u32::from(u8::MAX - 1) << bits;
        let ends: Vec<u64> = steps
            .clone()
            .map(|step| at(f64::from(step) + 0.5))
            .collect();
        let least = |bits: usize| 1u64.checked_shl(saturating_u32(bits as u64) - 1);
        Steps {
            bits,
            gaps: steps.map(|step| Nanos(at(f64::from(step)))).collect(),
            first: std::array::from_fn(|bits| match bits {
                0 => 0,
                _ => ends.partition_point(|end| Some(*end) <= least(bits)),
            }),
            ends,
        }
    }

    /// The class of a gap, and its step within the class.
    fn of(&self, gap: Nanos) -> (u8, u64) {
        if gap.0 == 0 {
            return (0, 0);
        }
        let first = self.first[64 - gap.0.leading_zeros() as usize];
        let behind = self.ends[first..].iter().position(|end| gap.0 < *end);
        let step = behind.map_or(self.ends.len() - 1, |more| first + more);
        (
            small((step >> self.bits) + 1),
            step as u64 & ((1 << self.bits) - 1),
        )
    }

    /// The gap of a step of a class.
    fn gap(&self, class: u8, step: u64) -> Nanos {
        let Some(class) = class.checked_sub(1) else {
            return Nanos(0);
        };
        let step = (usize::from(class) << self.bits) + to_usize(step);
        self.gaps.get(step).copied().unwrap_or_default()
    }
}
