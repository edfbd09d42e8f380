// SPDX-License-Identifier: Apache-2.0
//! Which files are copied: names and sizes, drawn from a seed.

use plimsoll_core::num::{floor_u64, round_u64};
use plimsoll_core::rng::{Rng, Seed};

/// Share of the largest and of the second file of a tree: 87 MB and 16 MB of 203 MB.
const LARGEST: f64 = 87.0 / 203.0;
const SECOND: f64 = 16.0 / 203.0;
/// The other files of a tree have from this many bytes …
const SMALL_MIN: u64 = 1_000;
/// … to below this many, every order of magnitude alike.
const SMALL_MAX: u64 = 1_000_000;
/// Files in a directory.
const DIRECTORY_FILES: usize = 32;

/// Shape of the copied files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopySourceKind {
    /// One file.
    Large,
    /// Two large files and many below 1 MB in directories.
    Tree,
}

impl CopySourceKind {
    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            CopySourceKind::Large => "large",
            CopySourceKind::Tree => "tree",
        }
    }

    /// The shape of this name.
    pub fn of(name: &str) -> Option<CopySourceKind> {
        [CopySourceKind::Large, CopySourceKind::Tree]
            .into_iter()
            .find(|shape| shape.name() == name)
    }
}

/// A file to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFile {
    /// Name below the top, with directories.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Where its content comes from.
    pub seed: Seed,
}

/// The files of a shape; together they have exactly `bytes` bytes.
pub fn files(shape: CopySourceKind, bytes: u64, seed: Seed) -> Vec<CopyFile> {
    let sizes = match shape {
        CopySourceKind::Large => vec![bytes],
        CopySourceKind::Tree => sizes(bytes, seed),
    };
    let path = |at: usize| match (shape, at) {
        (CopySourceKind::Large, _) => "large".to_owned(),
        (CopySourceKind::Tree, 0 | 1) => format!("large-{at}"),
        _ => {
            let directory = (at - 2) / DIRECTORY_FILES;
            format!("d{}/d{directory}/f{at}", directory / 8)
        }
    };
    let file = |(at, bytes)| CopyFile {
        path: path(at),
        bytes,
        seed: seed.derive("copy content", at as u64),
    };
    sizes.into_iter().enumerate().map(file).collect()
}

fn sizes(bytes: u64, seed: Seed) -> Vec<u64> {
    let share = |share: f64| round_u64(bytes as f64 * share);
    let mut sizes = vec![share(LARGEST), share(SECOND)];
    let mut left = bytes.saturating_sub(sizes.iter().sum());
    let mut rng = Rng::new(seed.derive("copy sizes", 0));
    let span = (SMALL_MAX as f64 / SMALL_MIN as f64).ln();
    // Each round takes at least `SMALL_MIN` bytes, or all that is left.
    while left > 0 {
        let drawn = floor_u64(SMALL_MIN as f64 * (rng.unit() * span).exp());
        let size = drawn.clamp(SMALL_MIN, SMALL_MAX - 1).min(left);
        sizes.push(size);
        left -= size;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_tree_has_two_large_files_and_many_below_a_megabyte() {
        let tree = files(CopySourceKind::Tree, 203_000_000, Seed(1));
        let total: u64 = tree.iter().map(|file| file.bytes).sum();
        assert_eq!(
            (total, tree[0].bytes, tree[1].bytes),
            (203_000_000, 87_000_000, 16_000_000)
        );
        assert!(tree[2..].iter().all(|file| file.bytes < 1_000_000));
        assert!((500..1_000).contains(&tree.len()), "{}", tree.len());
        let names: BTreeSet<&str> = tree.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names.len(), tree.len());
        assert_eq!(tree, files(CopySourceKind::Tree, 203_000_000, Seed(1)));
        assert_ne!(tree, files(CopySourceKind::Tree, 203_000_000, Seed(2)));
    }

    #[test]
    fn every_size_is_met_exactly() {
        for bytes in [1_024, 99_999, 5_000_000] {
            for shape in [CopySourceKind::Large, CopySourceKind::Tree] {
                let total: u64 = files(shape, bytes, Seed(3))
                    .iter()
                    .map(|file| file.bytes)
                    .sum();
                assert_eq!(total, bytes, "{shape:?}");
            }
        }
    }
}
