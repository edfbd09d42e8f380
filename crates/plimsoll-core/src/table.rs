// SPDX-License-Identifier: Apache-2.0
//! A hash table by number, for one lookup per request.
//!
//! Open addressing with linear probing; nothing is ever removed. The standard ordered map took five
//! times as long where it was measured, and its hashed one may not be used, because what it gives
//! out comes in another order in every run.

use crate::num::to_usize;

/// Values by number.
#[derive(Debug, Clone)]
pub struct IntHashMap<V> {
    /// Numbers and their values, or [`EMPTY`]: a tag beside each would cost half as much memory
    /// again, and waiting for memory is what a look into a large table costs.
    slots: Vec<(u64, V)>,
    filled: usize,
}

/// In a slot of no number.
const EMPTY: u64 = u64::MAX;
/// Slots of an empty table, a power of two.
const SLOTS_MIN: usize = 64;

impl<V: Copy + Default> Default for IntHashMap<V> {
    fn default() -> IntHashMap<V> {
        IntHashMap {
            slots: vec![(EMPTY, V::default()); SLOTS_MIN],
            filled: 0,
        }
    }
}

impl<V: Copy + Default> IntHashMap<V> {
    /// The value of a number (below 2^64 - 1), which is its default when the number is met for the
    /// first time.
    #[inline]
    pub fn at(&mut self, number: u64) -> &mut V {
        debug_assert!(number != EMPTY, "it stands for no number");
        let mut place = self.find(number);
        if self.slots[place].0 == EMPTY {
            if 2 * self.filled >= self.slots.len() {
                self.grow();
                place = self.find(number);
            }
            self.filled += 1;
            self.slots[place].0 = number;
        }
        &mut self.slots[place].1
    }

    /// Where a number stands, or would stand. Half of the slots are empty, so it ends soon.
    #[inline]
    fn find(&self, number: u64) -> usize {
        let mask = self.slots.len() - 1;
        // Fibonacci hashing; the top bits are the mixed ones.
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut place = to_usize(hash) & mask;
        while self.slots[place].0 != number && self.slots[place].0 != EMPTY {
            place = (place + 1) & mask;
        }
        place
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![(EMPTY, V::default()); 2 * self.slots.len()];
        for slot in std::mem::replace(&mut self.slots, larger) {
            if slot.0 != EMPTY {
                let place = self.find(slot.0);
                self.slots[place] = slot;
            }
        }
    }

    /// Numbers and their values, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (u64, V)> {
        self.slots.iter().copied().filter(|slot| slot.0 != EMPTY)
    }

    /// Everything in it, by number.
    pub fn sorted(&self) -> Vec<(u64, V)> {
        let mut all: Vec<(u64, V)> = self.iter().collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_values_however_many_there_are() {
        let mut table = IntHashMap::<u64>::default();
        for round in 1..=3u64 {
            for number in (0..5_000u64).map(|n| n * n * 4096) {
                *table.at(number) += round;
            }
        }
        let all = table.sorted();
        assert_eq!(all.len(), 5_000);
        assert!(all.is_sorted() && all.iter().all(|(_, sum)| *sum == 6));
    }
}
