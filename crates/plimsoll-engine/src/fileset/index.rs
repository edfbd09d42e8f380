// SPDX-License-Identifier: Apache-2.0
//! Which slots of a set qualify: a bit for each, and a bit for each word that has one.
//!
//! Finding the next one costs the same when one slot in a million qualifies as when all do. The
//! upper bits may lag behind the lower ones while threads change both, so that a slot that has
//! just come to qualify may be passed over: "none" is to be checked by other means.

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_core::num::saturating_u32;

const WORD: u32 = u64::BITS;

/// A set of slot numbers, changed by many threads.
#[derive(Debug)]
pub(super) struct FileSlotIndex {
    words: Vec<AtomicU64>,
    /// A bit for each word that is not empty.
    groups: Vec<AtomicU64>,
}

impl FileSlotIndex {
    /// An empty index for `slots` slots.
    pub(super) fn new(slots: u32) -> Self {
        let n_words = slots.div_ceil(WORD);
        let empty = |n: u32| (0..n).map(|_| AtomicU64::new(0)).collect();
        FileSlotIndex {
            words: empty(n_words),
            groups: empty(n_words.div_ceil(WORD)),
        }
    }

    pub(super) fn insert(&self, slot: u32) {
        let word = slot / WORD;
        self.words[word as usize].fetch_or(1 << (slot % WORD), Ordering::AcqRel);
        self.groups[(word / WORD) as usize].fetch_or(1 << (word % WORD), Ordering::AcqRel);
    }

    pub(super) fn remove(&self, slot: u32) {
        let (word, bit) = (slot / WORD, 1u64 << (slot % WORD));
        let left = self.words[word as usize].fetch_and(!bit, Ordering::AcqRel) & !bit;
        if left == 0 {
            let group = &self.groups[(word / WORD) as usize];
            group.fetch_and(!(1 << (word % WORD)), Ordering::AcqRel);
            if self.words[word as usize].load(Ordering::Acquire) != 0 {
                group.fetch_or(1 << (word % WORD), Ordering::AcqRel);
            }
        }
    }

    /// The first slot in it that is not below `slot`.
    pub(super) fn at_or_after(&self, slot: u32) -> Option<u32> {
        let mut word = slot / WORD;
        // The rest of this word, then whole words.
        let mut mask = u64::MAX << (slot % WORD);
        loop {
            let bits = self.words.get(word as usize)?.load(Ordering::Acquire) & mask;
            if bits != 0 {
                return Some(word * WORD + bits.trailing_zeros());
            }
            mask = u64::MAX;
            word = next_bit(&self.groups, word + 1)?;
        }
    }
}

/// The first bit that is set and not below `from`.
fn next_bit(words: &[AtomicU64], from: u32) -> Option<u32> {
    let mut mask = u64::MAX << (from % WORD);
    for (index, word) in words.iter().enumerate().skip((from / WORD) as usize) {
        let bits = word.load(Ordering::Acquire) & mask;
        if bits != 0 {
            return Some(saturating_u32(index as u64) * WORD + bits.trailing_zeros());
        }
        mask = u64::MAX;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};
    use std::collections::BTreeSet;

    #[test]
    fn it_finds_what_a_sorted_set_finds() {
        let mut rng = Rng::new(Seed(1));
        for slots in [1u32, 64, 65, 5_000, 300_000] {
            let (index, mut truth) = (FileSlotIndex::new(slots), BTreeSet::new());
            for _ in 0..2_000 {
                let mut draw = || saturating_u32(rng.below(u64::from(slots)));
                let (slot, from) = (draw(), draw());
                if truth.insert(slot) {
                    index.insert(slot);
                } else {
                    truth.remove(&slot);
                    index.remove(slot);
                }
                let expect = truth.range(from..).next().copied();
                assert_eq!(index.at_or_after(from), expect, "{slots} {from}");
            }
            assert_eq!(index.at_or_after(slots), None);
        }
    }
}
