// SPDX-License-Identifier: Apache-2.0
//! A set of files shared by threads, with the rules of filebench's filesets.
//!
//! * Every slot has a size, drawn once from its distribution; each exists before the run with an
//!   independent probability.
//! * Existing files are picked in turn: a rotor shared by all threads goes over the slot numbers.
//!   Another one goes over the files that do not exist. Busy slots are skipped.
//! * Busy means: being created, opened or deleted. An open file is not busy but counts its
//!   openers, and deleting it is left out.
//!
//! One deliberate difference: contents are random bytes, where filebench writes whatever fresh
//! memory holds (zeros in practice), which compressing or deduplicating storage makes vanish.
//!
//! There are no locks: a slot is one atomic word, changed by compare-and-swap. Designated sizes are
//! drawn anew each time they are asked for, so that ten million slots cost twelve bytes each.

mod index;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use index::FileSlotIndex;
use plimsoll_core::num::{floor_u64, saturating_u32};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::files::{FileSet, FileSizeDistribution};

use crate::bell::WakeNotifier;
use crate::error::{EngineError, FileShortage};

const EXISTS: u32 = 1 << 31;
const BUSY: u32 = 1 << 30;

/// The kind of file to pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilePickKind {
    /// A file that exists.
    Existing,
    /// A file that does not exist.
    Missing,
}

impl FilePickKind {
    fn wanted(self) -> u32 {
        match self {
            FilePickKind::Existing => EXISTS,
            FilePickKind::Missing => 0,
        }
    }

    /// Where those who want it wait.
    fn place(self) -> usize {
        match self {
            FilePickKind::Existing => 0,
            FilePickKind::Missing => 1,
        }
    }

    /// Its name in error messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FilePickKind::Existing => "an existing file",
            FilePickKind::Missing => "a file to create",
        }
    }
}

/// The slots of a file set.
#[derive(Debug)]
pub struct FileSlotTable {
    slots: Vec<AtomicU32>,
    /// Current size of each file, as far as its writers know.
    sizes: Vec<AtomicU64>,
    existing: FileSlotIndex,
    missing: FileSlotIndex,
    existing_rotor: AtomicU32,
    missing_rotor: AtomicU32,
    /// Rung for each file of the kind that is not busy any more.
    freed: [WakeNotifier; 2],
    mean_bytes: u64,
    spread: FileSizeDistribution,
    seed: Seed,
}

impl FileSlotTable {
    /// Draws sizes and existence for every slot of `set`. The same seed gives the same set.
    pub fn new(set: &FileSet, seed: Seed) -> Self {
        let mut existence = Rng::new(seed.derive("file existence", 0));
        let mut fileset = FileSlotTable {
            slots: Vec::with_capacity(set.entries as usize),
            sizes: Vec::with_capacity(set.entries as usize),
            existing: FileSlotIndex::new(set.entries),
            missing: FileSlotIndex::new(set.entries),
            existing_rotor: AtomicU32::new(0),
            missing_rotor: AtomicU32::new(0),
            freed: Default::default(),
            mean_bytes: set.mean_bytes,
            spread: set.sizes,
            seed: seed.derive("file sizes", 0),
        };
        for file in 0..set.entries {
            let exists = !set.made_earlier && existence.unit() < set.prealloc;
            let (state, size) = if exists {
                fileset.existing.insert(file);
                (EXISTS, fileset.designated_bytes(file))
            } else {
                fileset.missing.insert(file);
                (0, 0)
            };
            fileset.slots.push(AtomicU32::new(state));
            fileset.sizes.push(AtomicU64::new(size));
        }
        fileset
    }

    /// Number of slots.
    pub fn entries(&self) -> u32 {
        saturating_u32(self.slots.len() as u64)
    }

    /// Whether the file exists, as far as the set knows.
    pub fn exists(&self, file: u32) -> bool {
        self.state(file) & EXISTS != 0
    }

    /// How many have it open.
    pub fn open_count(&self, file: u32) -> u32 {
        self.state(file) & !(EXISTS | BUSY)
    }

    /// The size that the slot was given, in bytes: what is laid out, and what writing a whole
    /// file makes of it.
    pub fn designated_bytes(&self, file: u32) -> u64 {
        let mean = self.mean_bytes;
        let rng = || Rng::new(self.seed.derive("slot", u64::from(file)));
        match self.spread {
            FileSizeDistribution::Constant => mean,
            FileSizeDistribution::Gamma(shape) => floor_u64(rng().gamma(shape, mean as f64)),
            FileSizeDistribution::UniformFrom(least) => {
                let least = least.min(mean);
                least + rng().below((mean - least).saturating_mul(2).saturating_add(1))
            }
        }
    }

    /// Current size in bytes.
    pub fn size_bytes(&self, file: u32) -> u64 {
        self.sizes[file as usize].load(Ordering::Relaxed)
    }

    /// Notes that the file has grown.
    pub fn grew(&self, file: u32, bytes: u64) {
        self.sizes[file as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that the file reaches at least to `end`.
    pub fn reaches(&self, file: u32, end: u64) {
        self.sizes[file as usize].fetch_max(end, Ordering::Relaxed);
    }

    fn state(&self, file: u32) -> u32 {
        self.slots[file as usize].load(Ordering::Acquire)
    }

    /// Picks the next file in turn and marks it busy; `None` while all that qualify are busy. To be
    /// released by one of the methods below.
    ///
    /// # Errors
    /// [`EngineError::NoFile`] when no slot qualifies, busy or not.
    pub fn pick(&self, pick: FilePickKind) -> Result<Option<u32>, EngineError> {
        let (rotor, index) = match pick {
            FilePickKind::Existing => (&self.existing_rotor, &self.existing),
            FilePickKind::Missing => (&self.missing_rotor, &self.missing),
        };
        let start = rotor.load(Ordering::Relaxed);
        for (mut from, to) in [(start, self.entries()), (0, start)] {
            while let Some(file) = index.at_or_after(from).filter(|file| *file < to) {
                if self.take(file, pick) {
                    rotor.store(file + 1, Ordering::Relaxed);
                    return Ok(Some(file));
                }
                from = file + 1;
            }
        }
        // The index may lag behind; the slots do not.
        let mut all = 0..self.entries();
        if all.any(|file| self.state(file) & EXISTS == pick.wanted()) {
            return Ok(None);
        }
        Err(EngineError::NoFile(FileShortage {
            wanted: pick.name(),
            entries: self.entries(),
            busy_for: None,
        }))
    }

    /// Marks this file busy, if it qualifies and is not busy. To be released like one that was
    /// picked.
    pub fn take(&self, file: u32, pick: FilePickKind) -> bool {
        let state = self.state(file);
        if state & EXISTS != pick.wanted() || state & BUSY != 0 {
            return false;
        }
        let slot = &self.slots[file as usize];
        slot.compare_exchange(state, state | BUSY, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Sleeps until a file that qualifies is not busy any more, for `at_most`. May end early.
    pub(crate) fn wait_for(&self, pick: FilePickKind, at_most: Nanos) {
        let is_idle = |file: &u32| self.state(*file) & (EXISTS | BUSY) == pick.wanted();
        let index = match pick {
            FilePickKind::Existing => &self.existing,
            FilePickKind::Missing => &self.missing,
        };
        let first = index.at_or_after(0);
        let mut all = std::iter::successors(first, |file| index.at_or_after(file + 1));
        self.freed[pick.place()].wait(at_most, || all.any(|file| is_idle(&file)));
    }

    /// Wakes all who wait for a file.
    pub(crate) fn wake_all(&self) {
        for bell in &self.freed {
            bell.ring_for_all();
        }
    }

    /// A file of this kind is free: a thread may be waiting for one.
    fn ring(&self, pick: FilePickKind) {
        self.freed[pick.place()].ring();
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
        self.ring(match before & EXISTS {
            0 => FilePickKind::Missing,
            _ => FilePickKind::Existing,
        });
    }

    /// A picked file was opened (and created, if it was missing).
    pub fn opened(&self, file: u32) {
        if !self.exists(file) {
            self.missing.remove(file);
            self.existing.insert(file);
        }
        let before = self.change(file, |state| ((state & !BUSY) | EXISTS) + 1);
        debug_assert!(before & BUSY != 0, "only picked files are opened");
        self.ring(FilePickKind::Existing);
    }

    /// An open file was closed.
    pub fn closed(&self, file: u32) {
        let before = self.change(file, |state| state - 1);
        debug_assert!(before & !(EXISTS | BUSY) > 0, "only open files are closed");
    }

    /// A picked file was deleted.
    pub fn deleted(&self, file: u32) {
        self.sizes[file as usize].store(0, Ordering::Relaxed);
        self.existing.remove(file);
        self.missing.insert(file);
        let before = self.change(file, |state| state & !(BUSY | EXISTS));
        debug_assert!(before & BUSY != 0, "only picked files are deleted");
        self.ring(FilePickKind::Missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(entries: u32, prealloc: f64) -> FileSlotTable {
        let files = FileSet {
            prealloc,
            ..FileSet::flat("set", entries, 16_384, FileSizeDistribution::Gamma(1.5))
        };
        FileSlotTable::new(&files, Seed(1))
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
    fn designated_sizes_stay_and_keep_to_their_spread() {
        for (sizes, range) in [
            (FileSizeDistribution::Constant, 1_000..=1_000),
            (FileSizeDistribution::UniformFrom(500), 500..=1_500),
            (FileSizeDistribution::UniformFrom(0), 0..=2_000),
        ] {
            let set = FileSlotTable::new(&FileSet::flat("set", 20_000, 1_000, sizes), Seed(1));
            let all: Vec<u64> = (0..20_000).map(|f| set.designated_bytes(f)).collect();
            assert!(all.iter().all(|size| range.contains(size)), "{sizes:?}");
            let mean = all.iter().sum::<u64>() as f64 / 20_000.0;
            assert!((mean - 1_000.0).abs() < 20.0, "{sizes:?} {mean}");
            assert!((0..20_000).all(|f| set.designated_bytes(f) == set.size_bytes(f)));
        }
    }

    #[test]
    fn the_only_file_that_qualifies_is_found_without_looking_at_the_others() {
        let set = set(1_000_000, 1.0);
        for _ in 0..50_000 {
            let file = set.pick(FilePickKind::Existing).unwrap().unwrap();
            set.deleted(file);
            assert_eq!(set.pick(FilePickKind::Missing).unwrap(), Some(file));
            set.release(file);
            assert!(
                set.take(file, FilePickKind::Missing) && !set.take(file, FilePickKind::Missing)
            );
            set.opened(file);
            set.closed(file);
        }
        assert!(set.pick(FilePickKind::Missing).is_err());
    }

    #[test]
    fn picks_go_round_in_order_and_skip_busy_ones() {
        let set = set(4, 1.0);
        let pick = || set.pick(FilePickKind::Existing).unwrap();
        let picked: Vec<_> = (0..3).filter_map(|_| pick()).collect();
        assert_eq!(picked, [0, 1, 2]);
        set.release(1);
        assert_eq!((pick(), pick(), pick()), (Some(3), Some(1), None));
    }

    #[test]
    fn no_file_is_a_clear_error() {
        let error = set(3, 1.0)
            .pick(FilePickKind::Missing)
            .unwrap_err()
            .to_string();
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
            let file = pick(FilePickKind::Existing);
            hold(file);
            if set.open_count(file) > 0 {
                set.release(file);
            } else {
                set.deleted(file);
                let file = pick(FilePickKind::Missing);
                hold(file);
                set.opened(file);
                set.closed(file);
            }
            let file = pick(FilePickKind::Existing);
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
