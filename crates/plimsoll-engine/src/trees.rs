// SPDX-License-Identifier: Apache-2.0
//! The file sets of a loop: which file a number means, and where it lies.
//!
//! Requests name files by one number, counted through all sets. Each set lives in a directory of
//! its own name; how its files lie below that is in [`shape`].

pub(crate) mod layout;
mod shape;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use plimsoll_core::num::saturating_u32;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::workload::FileLoop;
use plimsoll_core::workload::files::{FileLoopSelection, FileNameScheme, FileSet};

use crate::fileset::FileSlotTable;
use shape::FileSetDirTree;

/// A set of files and where they lie.
#[derive(Debug)]
pub(crate) struct FileSetState {
    pub(crate) name: String,
    pub(crate) slots: FileSlotTable,
    pub(crate) shape: FileSetDirTree,
    names: FileNameScheme,
    seed: Seed,
}

/// Sets by name: those of a series that have the same name are the same files.
pub(crate) type FileSetsByName = BTreeMap<String, Arc<FileSetState>>;

/// The sets of one loop.
#[derive(Debug)]
pub struct FileLoopSets {
    groves: Vec<Arc<FileSetState>>,
    /// Number of the first file of each set, and behind the last one.
    first: Vec<u32>,
    read_only: Vec<bool>,
    /// Whether creating a file begins with a look at its directory, as in filebench.
    looks_at_parents: bool,
}

impl FileLoopSets {
    /// The sets of `files`; those that are in `known` by name are shared, the others are drawn from
    /// `seed` and added to it. The loop must have been checked.
    pub(crate) fn new(files: &FileLoop, seed: Seed, known: &mut FileSetsByName) -> Self {
        let mut trees = FileLoopSets {
            groves: Vec::new(),
            first: vec![0],
            read_only: files.sets.iter().map(|set| set.read_only).collect(),
            looks_at_parents: files.over == FileLoopSelection::Rotor,
        };
        let mut end = 0u32;
        for (index, set) in files.sets.iter().enumerate() {
            let seed = seed.derive("file set", index as u64);
            let grove = known
                .entry(set.name.clone())
                .or_insert_with(|| Arc::new(FileSetState::new(set, seed)));
            end += grove.slots.entries();
            trees.groves.push(Arc::clone(grove));
            trees.first.push(end);
        }
        trees
    }

    /// Slots of all sets.
    pub(crate) fn entries(&self) -> u32 {
        self.first.last().copied().unwrap_or(0)
    }

    /// The slots of a set.
    pub(crate) fn set(&self, set: u32) -> &FileSlotTable {
        &self.groves[set as usize].slots
    }

    /// The number that requests use for a file of a set.
    pub(crate) fn number(&self, set: u32, file: u32) -> u32 {
        self.first[set as usize] + file
    }

    /// Which set and which of its slots a number means.
    pub(crate) fn find(&self, number: u32) -> (u32, u32) {
        let set = self.first.partition_point(|first| *first <= number) - 1;
        (saturating_u32(set as u64), number - self.first[set])
    }

    /// Whether the file is opened for reading only.
    pub(crate) fn is_read_only(&self, number: u32) -> bool {
        self.read_only[self.find(number).0 as usize]
    }

    /// Whether creating a file begins with the attributes of its directory.
    pub(crate) fn looks_at_parents(&self) -> bool {
        self.looks_at_parents
    }

    /// Designated size of a file, in bytes.
    pub(crate) fn designated_bytes(&self, number: u32) -> u64 {
        let (set, file) = self.find(number);
        self.set(set).designated_bytes(file)
    }

    /// Present size of a file, in bytes, as far as its writers know.
    pub(crate) fn size_bytes(&self, number: u32) -> u64 {
        let (set, file) = self.find(number);
        self.set(set).size_bytes(file)
    }

    /// Writes the path of a file below the directory of the sets over what `path` holds.
    pub(crate) fn write_path(&self, number: u32, path: &mut String) {
        let (set, file) = self.find(number);
        path.clear();
        self.groves[set as usize].push_path(file, path);
    }

    /// The path of a file below the directory of the sets.
    pub(crate) fn path(&self, number: u32) -> String {
        let mut path = String::new();
        self.write_path(number, &mut path);
        path
    }

    /// A set by its number.
    pub(crate) fn grove(&self, set: u32) -> &FileSetState {
        &self.groves[set as usize]
    }
}

impl FileSetState {
    fn new(set: &FileSet, seed: Seed) -> Self {
        FileSetState {
            name: set.name.clone(),
            slots: FileSlotTable::new(set, seed),
            shape: FileSetDirTree::new(set.tree, set.entries, seed),
            names: set.names,
            seed: seed.derive("file names", 0),
        }
    }

    pub(crate) fn push_path(&self, file: u32, path: &mut String) {
        path.push_str(&self.name);
        path.push_str(self.shape.directory_of(file));
        path.push('/');
        self.push_name(file, path);
    }

    fn push_name(&self, file: u32, path: &mut String) {
        let written = match self.names {
            FileNameScheme::Digits => write!(path, "{file:08}"),
            FileNameScheme::NumberFirst => {
                let number = write!(path, "{file:010x}");
                self.push_random(file, path);
                number
            }
            FileNameScheme::NumberLast => {
                self.push_random(file, path);
                write!(path, "{file:010x}")
            }
        };
        written.expect("writing to a string does not fail");
    }

    /// Up to twelve letters and digits.
    fn push_random(&self, file: u32, path: &mut String) {
        const SYMBOLS: &[u8; 62] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let mut rng = Rng::new(self.seed.derive("name", u64::from(file)));
        for _ in 0..rng.below(13) {
            let symbol = plimsoll_core::num::to_usize(rng.below(SYMBOLS.len() as u64));
            path.push(char::from(SYMBOLS[symbol]));
        }
    }

    /// The number in a name that [`FileSetState::push_name`] made; `None` for other names.
    pub(crate) fn number_of(&self, name: &str) -> Option<u32> {
        let number = match self.names {
            FileNameScheme::Digits => name.parse().ok()?,
            FileNameScheme::NumberFirst => u32::from_str_radix(name.get(..10)?, 16).ok()?,
            FileNameScheme::NumberLast => {
                let start = name.len().checked_sub(10)?;
                u32::from_str_radix(name.get(start..)?, 16).ok()?
            }
        };
        (number < self.slots.entries()).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::workload::files::{
        FileLoopNoFilePolicy, FileSizeDistribution, FileTreeLayout,
    };

    fn trees(sets: Vec<FileSet>) -> FileLoopSets {
        let files = FileLoop {
            name: "test".into(),
            sets,
            groups: Vec::new(),
            over: plimsoll_core::workload::files::FileLoopSelection::Rotor,
            events_per_s: None,
            sync_at_end: false,
            without_file: FileLoopNoFilePolicy::Fail,
        };
        FileLoopSets::new(&files, Seed(1), &mut FileSetsByName::new())
    }

    #[test]
    fn numbers_run_through_all_sets() {
        let set =
            |name: &str, entries| FileSet::flat(name, entries, 0, FileSizeDistribution::Constant);
        let trees = trees(vec![set("a", 3), set("log", 1), set("b", 2)]);
        for (place, number, path) in [
            ((0, 2), 2, "a/00000002"),
            ((1, 0), 3, "log/00000000"),
            ((2, 1), 5, "b/00000001"),
        ] {
            assert_eq!(trees.number(place.0, place.1), number);
            assert_eq!(trees.find(number), place);
            assert_eq!(trees.path(number), path);
        }
    }

    #[test]
    fn names_hold_their_number_and_are_all_different() {
        for names in [
            FileNameScheme::Digits,
            FileNameScheme::NumberFirst,
            FileNameScheme::NumberLast,
        ] {
            let set = FileSet {
                names,
                tree: FileTreeLayout::Even(3),
                ..FileSet::flat("set", 1_000, 0, FileSizeDistribution::Constant)
            };
            let trees = trees(vec![set]);
            let grove = &trees.groves[0];
            let mut lengths = std::collections::BTreeSet::new();
            for file in 0..1_000 {
                let path = trees.path(file);
                let name = path.rsplit('/').next().unwrap();
                assert_eq!(grove.number_of(name), Some(file), "{path}");
                assert_eq!(path, trees.path(file), "the same each time");
                lengths.insert(name.len());
            }
            let expect: Vec<usize> = match names {
                FileNameScheme::Digits => vec![8],
                _ => (10..=22).collect(),
            };
            assert!(lengths.into_iter().eq(expect), "{names:?}");
            assert_eq!(grove.number_of("lost+found"), None);
            assert_eq!(
                grove.number_of("00000003e8"),
                None,
                "1000 is beyond the set"
            );
        }
    }
}
