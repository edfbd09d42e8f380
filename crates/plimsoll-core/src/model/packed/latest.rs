// SPDX-License-Identifier: Apache-2.0
//! The last places and what was done at each, the latest first.
//!
//! Looked into for every request, so what moves when the order changes are bytes: the number of each
//! place's slot, and a byte of its hash by which it is looked for.

use crate::op::OpKind;

/// Places that are remembered.
pub(super) const RECENT: usize = 64;
/// Bytes in a row between which none is moved when a place is added.
const ROOM: usize = 8 * RECENT;
/// No place of any device: places that have not been seen are there.
pub(super) const NOWHERE: u64 = u64::MAX;

/// The last places, by slot; the order is a window that slides towards the front of its room, so
/// that the others mostly stay where they are when one is added.
#[derive(Debug, Clone)]
pub(super) struct PackedRecencyList {
    places: [u64; RECENT],
    /// Kind and length of what was done there.
    habits: [(OpKind, u32); RECENT],
    /// By rank from `begin` on: the slot, and the tag of the place in it.
    slots: [u8; ROOM],
    tags: [u8; ROOM],
    begin: usize,
}

impl PackedRecencyList {
    pub(super) fn new() -> PackedRecencyList {
        let slot = |rank: usize| u8::try_from(rank % RECENT).unwrap_or_default();
        PackedRecencyList {
            places: [NOWHERE; RECENT],
            habits: [(OpKind::Read, 0); RECENT],
            slots: std::array::from_fn(slot),
            tags: [tag(NOWHERE); ROOM],
            begin: ROOM - RECENT,
        }
    }

    /// How many later ones there are than the latest of this place.
    #[inline]
    pub(super) fn rank(&self, place: u64) -> Option<usize> {
        let wanted = u64::from_le_bytes([tag(place); 8]);
        let (eights, _) = self.tags[self.begin..][..RECENT].as_chunks();
        for (eight, first) in eights.iter().zip((0..).step_by(8)) {
            let mut alike = zero_bytes(u64::from_le_bytes(*eight) ^ wanted);
            while alike != 0 {
                let rank = first + alike.trailing_zeros() as usize / 8;
                if self.place(rank) == place {
                    return Some(rank);
                }
                alike &= alike - 1;
            }
        }
        None
    }

    fn slot(&self, rank: usize) -> usize {
        usize::from(self.slots[self.begin + rank]) % RECENT
    }

    /// The place at this rank: `rank` places are later.
    pub(super) fn place(&self, rank: usize) -> u64 {
        self.places[self.slot(rank)]
    }

    /// Kind and size of the last operation there.
    pub(super) fn habit(&self, rank: usize) -> (OpKind, u32) {
        self.habits[self.slot(rank)]
    }

    /// Puts a place in front, in place of the one at `rank`.
    #[inline]
    pub(super) fn renew(&mut self, rank: usize, place: u64, habit: (OpKind, u32)) {
        let slot = self.slot(rank);
        let moved = self.begin..self.begin + rank;
        self.slots.copy_within(moved.clone(), self.begin + 1);
        self.tags.copy_within(moved, self.begin + 1);
        self.put(slot, place, habit);
    }

    /// Puts a place in front, in place of the oldest.
    #[inline]
    pub(super) fn add(&mut self, place: u64, habit: (OpKind, u32)) {
        let oldest = self.slot(RECENT - 1);
        if self.begin == 0 {
            self.slots.copy_within(..RECENT, ROOM - RECENT);
            self.tags.copy_within(..RECENT, ROOM - RECENT);
            self.begin = ROOM - RECENT;
        }
        self.begin -= 1;
        self.put(oldest, place, habit);
    }

    fn put(&mut self, slot: usize, place: u64, habit: (OpKind, u32)) {
        self.places[slot] = place;
        self.habits[slot] = habit;
        self.slots[self.begin] = u8::try_from(slot).unwrap_or_default();
        self.tags[self.begin] = tag(place);
    }
}

/// A byte of a place's hash.
fn tag(place: u64) -> u8 {
    // Fibonacci hashing; the top bits are the mixed ones.
    place.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]
}

/// The highest bit of every byte of a word that is zero, and perhaps of some behind the first.
fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = u64::from_le_bytes([1; 8]);
    word.wrapping_sub(LOW) & !word & (LOW << 7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Few places, so that many come again while they are remembered, some twice.
        #[test]
        fn ranks_are_those_of_a_plain_list(
            steps in vec((0..90_u64, 0..2_u64, prop::bool::weighted(0.66)), 0..1_500)
        ) {
            let mut latest = PackedRecencyList::new();
            let mut plain = vec![(NOWHERE, (OpKind::Read, 0)); RECENT];
            for (step, (place, further, is_renewed)) in (0..).zip(steps) {
                let place = place * 4096;
                let rank = plain.iter().position(|(known, _)| *known == place);
                prop_assert_eq!(latest.rank(place), rank);
                let habit = (OpKind::Write, step);
                match rank {
                    Some(rank) if is_renewed => {
                        let fresh = place + 4096 * further;
                        plain.remove(rank);
                        plain.insert(0, (fresh, habit));
                        latest.renew(rank, fresh, habit);
                    }
                    _ => {
                        plain.pop();
                        plain.insert(0, (place, habit));
                        latest.add(place, habit);
                    }
                }
                let all = (0..RECENT).map(|rank| (latest.place(rank), latest.habit(rank)));
                prop_assert!(all.eq(plain.iter().copied()), "step {}", step);
            }
        }
    }
}
