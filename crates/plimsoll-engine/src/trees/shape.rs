// SPDX-License-Identifier: Apache-2.0
//! How the files of a set lie in directories.
//!
//! Consecutive files share a directory, so a set remembers where each leaf begins and nothing per
//! file.

use plimsoll_core::num::{floor_u64, saturating_u32};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::workload::files::FileTreeLayout;

/// Deeper than any tree that is drawn in earnest; bounds the length of paths.
const DEPTH_MAX: u32 = 64;

/// The directories of a set.
#[derive(Debug)]
pub(crate) struct FileSetDirTree {
    /// Paths below the directory of the set, each with a slash before it; parents come before
    /// their children. The first is that directory itself, the empty path.
    directories: Vec<String>,
    /// The first file of each directory that has files, and which directory that is.
    leaves: Vec<(u32, u32)>,
}

impl FileSetDirTree {
    pub(crate) fn new(tree: FileTreeLayout, entries: u32, seed: Seed) -> Self {
        match tree {
            FileTreeLayout::Flat => FileSetDirTree {
                directories: vec![String::new()],
                leaves: vec![(0, 0)],
            },
            FileTreeLayout::Even(count) => FileSetDirTree::even(count.max(1), entries),
            FileTreeLayout::Random { width, shape } => {
                FileSetDirTreeDraw::new(width, shape, entries, seed).all()
            }
        }
    }

    fn even(count: u32, entries: u32) -> Self {
        let first =
            |index: u32| saturating_u32(u64::from(entries) * u64::from(index) / u64::from(count));
        let names = (0..count).map(|index| format!("/{index:08}"));
        FileSetDirTree {
            directories: std::iter::once(String::new()).chain(names).collect(),
            leaves: (0..count).map(|index| (first(index), index + 1)).collect(),
        }
    }

    /// Path of the directory of a file below that of the set.
    pub(crate) fn directory_of(&self, file: u32) -> &str {
        let leaf = self.leaves.partition_point(|(first, _)| *first <= file) - 1;
        &self.directories[self.leaves[leaf].1 as usize]
    }

    /// All directories, parents first.
    pub(crate) fn directories(&self) -> &[String] {
        &self.directories
    }
}

/// Draws a tree as filebench 1.5 does: see [`FileTreeLayout::Random`].
struct FileSetDirTreeDraw {
    rng: Rng,
    width: f64,
    depth: f64,
    shape: f64,
    entries: u32,
    /// Files that have a place.
    placed: u32,
    tree: FileSetDirTree,
}

impl FileSetDirTreeDraw {
    fn new(width: f64, shape: f64, entries: u32, seed: Seed) -> Self {
        FileSetDirTreeDraw {
            rng: Rng::new(seed.derive("tree", 0)),
            width,
            depth: f64::from(entries.max(1)).ln() / width.ln(),
            shape,
            entries,
            placed: 0,
            tree: FileSetDirTree {
                directories: vec![String::new()],
                leaves: Vec::new(),
            },
        }
    }

    fn all(mut self) -> FileSetDirTree {
        // The root has no files, and as many directories as it takes.
        let mut serial = 1;
        while self.placed < self.entries {
            self.directory(0, serial, 2);
            serial += 1;
        }
        self.tree
    }

    /// Makes a directory at `level` (the root is at 1) with all that is in it.
    fn directory(&mut self, parent: usize, serial: u32, level: u32) {
        let path = format!("{}/{serial:08}", self.tree.directories[parent]);
        let this = self.tree.directories.len();
        self.tree.directories.push(path);
        let leaf = self.is_leaf(level);
        let width = self.draw(self.width);
        if leaf {
            let index = saturating_u32(this as u64);
            self.tree.leaves.push((self.placed, index));
            self.placed = self.placed.saturating_add(width).min(self.entries);
            return;
        }
        for serial in 1..=width {
            if self.placed == self.entries {
                break;
            }
            self.directory(this, serial, level + 1);
        }
    }

    fn is_leaf(&mut self, level: u32) -> bool {
        level >= self.draw(self.depth).min(DEPTH_MAX)
    }

    /// Whole and at least 1.
    fn draw(&mut self, mean: f64) -> u32 {
        let value = if self.shape == 0.0 {
            mean
        } else {
            self.rng.gamma(self.shape, mean)
        };
        saturating_u32(floor_u64(value)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn files_by_directory(shape: &FileSetDirTree, entries: u32) -> BTreeMap<&str, u32> {
        let mut counts = BTreeMap::new();
        for file in 0..entries {
            *counts.entry(shape.directory_of(file)).or_insert(0) += 1;
        }
        counts
    }

    #[test]
    fn files_are_spread_evenly_and_neighbours_stay_together() {
        for (count, entries) in [(1, 5), (4, 100), (7, 100), (16, 1_000)] {
            let shape = FileSetDirTree::new(FileTreeLayout::Even(count), entries, Seed(1));
            let counts = files_by_directory(&shape, entries);
            assert_eq!(counts.len(), count as usize);
            let spread = counts.values().max().unwrap() - counts.values().min().unwrap();
            assert!(spread <= 1, "{counts:?}");
            let order: Vec<&str> = (0..entries).map(|file| shape.directory_of(file)).collect();
            assert!(order.is_sorted());
        }
    }

    #[test]
    fn a_drawn_tree_has_about_the_width_that_was_asked_for() {
        for shape in [0.0, 1.5] {
            let tree = FileTreeLayout::Random { width: 20.0, shape };
            let (mut files_per_leaf, mut leaves) = (0.0, 0);
            for seed in 0..20 {
                let shape = FileSetDirTree::new(tree, 10_000, Seed(seed));
                let counts = files_by_directory(&shape, 10_000);
                files_per_leaf += 10_000.0;
                leaves += counts.len();
                for path in shape.directories() {
                    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                    assert!(shape.directories().iter().any(|other| other == parent));
                }
            }
            let mean = files_per_leaf / leaves as f64;
            assert!((15.0..25.0).contains(&mean), "{shape}: {mean}");
        }
    }

    #[test]
    fn a_width_beyond_all_files_is_one_directory_below_the_root() {
        let tree = FileTreeLayout::Random {
            width: 1e6,
            shape: 0.0,
        };
        let shape = FileSetDirTree::new(tree, 1_000, Seed(3));
        let expect = BTreeMap::from([("/00000001", 1_000)]);
        assert_eq!(files_by_directory(&shape, 1_000), expect);
    }
}
