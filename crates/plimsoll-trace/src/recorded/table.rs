// SPDX-License-Identifier: Apache-2.0
//! A table by number that is looked into once for every request.
//!
//! Open addressing with linear probing; nothing is ever removed. The standard ordered map took five
//! times as long where it was measured, and its hashed one may not be used, because what it gives
//! out comes in another order in every run.

/// Values by number.
#[derive(Debug)]
pub(crate) struct Table<V> {
    slots: Vec<Option<(u64, V)>>,
    filled: usize,
}

/// Slots of an empty table, a power of two.
const SLOTS_MIN: usize = 64;

impl<V: Copy + Default> Table<V> {
    pub(crate) fn new() -> Table<V> {
        Table {
            slots: vec![None; SLOTS_MIN],
            filled: 0,
        }
    }

    /// The value of a number, which is its default when the number is met for the first time.
    #[inline]
    pub(crate) fn at(&mut self, number: u64) -> &mut V {
        let mut place = self.find(number);
        if self.slots[place].is_none() {
            if 2 * self.filled >= self.slots.len() {
                self.grow();
                place = self.find(number);
            }
            self.filled += 1;
        }
        let slot = self.slots[place].get_or_insert((number, V::default()));
        &mut slot.1
    }

    /// Where a number stands, or would stand. Half of the slots are empty, so it ends soon.
    #[inline]
    fn find(&self, number: u64) -> usize {
        let mask = self.slots.len() - 1;
        // Fibonacci hashing; the top bits are the mixed ones.
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut place = plimsoll_core::num::to_usize(hash) & mask;
        while let Some((other, _)) = self.slots[place] {
            if other == number {
                break;
            }
            place = (place + 1) & mask;
        }
        place
    }

    fn grow(&mut self) {
        let larger = vec![None; 2 * self.slots.len()];
        for slot in std::mem::replace(&mut self.slots, larger)
            .into_iter()
            .flatten()
        {
            let place = self.find(slot.0);
            self.slots[place] = Some(slot);
        }
    }

    /// Everything in it, by number.
    pub(crate) fn sorted(&self) -> Vec<(u64, V)> {
        let mut all: Vec<(u64, V)> = self.slots.iter().flatten().copied().collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all
    }

    /// The value of a number, if it was met.
    pub(crate) fn get(&self, number: u64) -> Option<V> {
        self.slots[self.find(number)].map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_values_however_many_there_are() {
        let mut table = Table::new();
        for round in 1..=3u64 {
            for number in (0..5_000u64).map(|n| n * n * 4096) {
                *table.at(number) += round;
            }
        }
        let all = table.sorted();
        assert_eq!(all.len(), 5_000);
        assert!(all.is_sorted() && all.iter().all(|(_, sum)| *sum == 6));
        assert_eq!((table.get(4096), table.get(1)), (Some(6), None));
    }
}
