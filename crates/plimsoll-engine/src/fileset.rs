// SPDX-License-Identifier: Apache-2.0
//! A set of files shared by threads, with the rules of filebench's filesets.
//!
//! * Every slot has a size, drawn once from a gamma distribution; each exists before the run with
//!   an independent probability.
//! * Existing files are picked in turn: a rotor shared by all threads goes over the slot numbers.
//!   Another one goes over the files that do not exist. Busy slots are skipped.
//! * Busy means: being created, opened or deleted. An open file is not busy but counts its
//!   openers, and deleting it is left out.
//!
//! One deliberate difference: contents are random bytes, where filebench writes whatever fresh
//! memory holds (zeros in practice), which compressing or deduplicating storage makes vanish.
//!
//! There are no locks: a slot is one atomic word, changed by compare-and-swap.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use plimsoll_core::num::floor_u64;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::workload::files::{FileSet, Sizes};

use crate::error::Error;

const EXISTS: u32 = 1 << 31;
const BUSY: u32 = 1 << 30;

/// What to pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// A file that exists.
    Existing,
    /// A file that does not exist.
    Missing,
}

impl Pick {
    /// What error messages call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Pick::Existing => "an existing file",
            Pick::Missing => "a file to create",
        }
    }
}

/// The slots of a file set.
#[derive(Debug)]
pub struct Fileset {
    slots: Vec<AtomicU32>,
    /// Current size of each file, as far as its writers know.
    sizes: Vec<AtomicU64>,
    existing_rotor: AtomicU32,
    missing_rotor: AtomicU32,
}

impl Fileset {
    /// Draws sizes and existence for every slot of `set`. The same seed gives the same set.
    #[must_use]
    pub fn new(set: &FileSet, seed: Seed) -> Self {
        let mut sizes = Rng::new(seed.derive("file sizes", 0));
        let mut existence = Rng::new(seed.derive("file existence", 0));
        let mut fileset = Fileset {
            slots: Vec::new(),
            sizes: Vec::new(),
            existing_rotor: AtomicU32::new(0),
            missing_rotor: AtomicU32::new(0),
        };
        for _ in 0..set.entries {
            let size = match set.sizes {
                Sizes::Gamma(shape) => floor_u64(sizes.gamma(shape, set.mean_bytes as f64)),
                _ => set.mean_bytes,
            };
            let exists = existence.unit() < set.prealloc;
            let state = if exists { EXISTS } else { 0 };
            fileset.slots.push(AtomicU32::new(state));
            let size = if exists { size } else { 0 };
            fileset.sizes.push(AtomicU64::new(size));
        }
        fileset
    }

    /// Number of slots.
    #[must_use]
    pub fn entries(&self) -> u32 {
        plimsoll_core::num::saturating_u32(self.slots.len() as u64)
    }

    /// Whether the file exists, as far as the set knows.
    #[must_use]
    pub fn exists(&self, file: u32) -> bool {
        self.state(file) & EXISTS != 0
    }

    /// How many have it open.
    #[must_use]
    pub fn open_count(&self, file: u32) -> u32 {
        self.state(file) & !(EXISTS | BUSY)
    }

    /// Current size in bytes.
    #[must_use]
    pub fn size_bytes(&self, file: u32) -> u64 {
        self.sizes[file as usize].load(Ordering::Relaxed)
    }

    /// Notes that the file has grown.
    pub fn grew(&self, file: u32, bytes: u64) {
        self.sizes[file as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    fn state(&self, file: u32) -> u32 {
        self.slots[file as usize].load(Ordering::Acquire)
    }

    /// Picks the next file in turn and marks it busy; `None` while all that qualify are busy. To be
    /// released by one of the methods below.
    ///
    /// # Errors
    /// [`Error::NoFile`] when no slot qualifies, busy or not.
    pub fn pick(&self, pick: Pick) -> Result<Option<u32>, Error> {
        let (rotor, wanted) = match pick {
            Pick::Existing => (&self.existing_rotor, EXISTS),
            Pick::Missing => (&self.missing_rotor, 0),
        };
        let mut candidates = 0;
        let from = rotor.load(Ordering::Relaxed);
        for file in (from..self.entries()).chain(0..from.min(self.entries())) {
            let state = self.state(file);
            if state & EXISTS != wanted {
                continue;
            }
            candidates += 1;
            if state & BUSY == 0 && self.swap(file, state, state | BUSY) {
                rotor.store(file + 1, Ordering::Relaxed);
                return Ok(Some(file));
            }
        }
        if candidates > 0 {
            return Ok(None);
        }
        Err(Error::NoFile {
            wanted: pick.name(),
            entries: self.entries(),
        })
    }

    fn swap(&self, file: u32, from: u32, to: u32) -> bool {
        let slot = &self.slots[file as usize];
        slot.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn change(&self, file: u32, change: impl Fn(u32) -> u32) -> u32 {
        let slot = &self.slots[file as usize];
        let update = |state| Some(change(state));
        slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, update)
            .expect("the change is always made")
    }

    /// Gives a picked file back unchanged.
    pub fn release(&self, file: u32) {
        let before = self.change(file, |state| state & !BUSY);
        debug_assert!(before & BUSY != 0, "only picked files are released");
    }

    /// A picked file was opened (and created, if it was missing).
    pub fn opened(&self, file: u32) {
        let before = self.change(file, |state| ((state & !BUSY) | EXISTS) + 1);
        debug_assert!(before & BUSY != 0, "only picked files are opened");
    }

    /// An open file was closed.
    pub fn closed(&self, file: u32) {
        let before = self.change(file, |state| state - 1);
        debug_assert!(before & !(EXISTS | BUSY) > 0, "only open files are closed");
    }

    /// A picked file was deleted.
    pub fn deleted(&self, file: u32) {
        self.sizes[file as usize].store(0, Ordering::Relaxed);
        let before = self.change(file, |state| state & !(BUSY | EXISTS));
        debug_assert!(before & BUSY != 0, "only picked files are deleted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::workload::FileLoop;

    fn set(entries: u32, prealloc: f64) -> Fileset {
        let files = FileSet {
            entries,
            prealloc,
            ..FileLoop::varmail().files
        };
        Fileset::new(&files, Seed(1))
    }

    #[test]
    fn sizes_and_existence_follow_their_distributions() {
        let set = set(100_000, 0.8);
        let existing: Vec<u32> = (0..set.entries()).filter(|f| set.exists(*f)).collect();
        let share = existing.len() as f64 / 1e5;
        assert!((share - 0.8).abs() < 0.005, "{share}");
        let total: u64 = existing.iter().map(|f| set.size_bytes(*f)).sum();
        let mean = total as f64 / existing.len() as f64;
        assert!((mean / 16_384.0 - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn picks_go_round_in_order_and_skip_busy_ones() {
        let set = set(4, 1.0);
        let pick = || set.pick(Pick::Existing).unwrap();
        let picked: Vec<_> = (0..3).filter_map(|_| pick()).collect();
        assert_eq!(picked, [0, 1, 2]);
        set.release(1);
        assert_eq!((pick(), pick(), pick()), (Some(3), Some(1), None));
    }

    #[test]
    fn no_file_is_a_clear_error() {
        let error = set(3, 1.0).pick(Pick::Missing).unwrap_err().to_string();
        assert!(error.contains("a file to create"), "{error}");
        assert!(error.contains("3 entries"), "{error}");
    }

    #[test]
    fn threads_never_hold_the_same_file_and_counts_stay_right() {
        let set = set(50, 0.5);
        let holders: Vec<AtomicU32> = (0..50).map(|_| AtomicU32::new(0)).collect();
        let hold = |file: u32| {
            assert_eq!(holders[file as usize].fetch_add(1, Ordering::SeqCst), 0);
            holders[file as usize].fetch_sub(1, Ordering::SeqCst);
        };
        let pick = |what| loop {
            match set.pick(what).unwrap() {
                Some(file) => return file,
                None => std::thread::yield_now(),
            }
        };
        let turn = || {
            let file = pick(Pick::Existing);
            hold(file);
            if set.open_count(file) > 0 {
                set.release(file);
            } else {
                set.deleted(file);
                let file = pick(Pick::Missing);
                hold(file);
                set.opened(file);
                set.closed(file);
            }
            let file = pick(Pick::Existing);
            hold(file);
            set.opened(file);
            set.closed(file);
        };
        let before = (0..50).filter(|f| set.exists(*f)).count();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5_000).for_each(|_| turn()));
            }
        });
        assert_eq!((0..50).filter(|f| set.exists(*f)).count(), before);
        assert!((0..50).all(|f| set.open_count(f) == 0));
        assert!((0..50).all(|f| set.state(f) & BUSY == 0));
    }
}
