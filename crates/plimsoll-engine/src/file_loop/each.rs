// SPDX-License-Identifier: Apache-2.0
//! The share of a thread in a set that is gone over once.

use plimsoll_core::num::{saturating_u32, to_usize};
use plimsoll_core::rng::{Rng, Seed};

use crate::fileset::{FilePickKind, FileSlotTable};

/// Files a thread has to do, in order.
#[derive(Debug)]
pub(super) enum FileLoopShare {
    /// Consecutive numbers.
    Numbered(std::ops::Range<u32>),
    /// Any.
    Listed(std::vec::IntoIter<u32>),
}

/// Where part `which` of `parts` equal parts of `count` begins and ends.
pub(super) fn bounds(count: u64, (which, parts): (u32, u32)) -> (u64, u64) {
    let edge = |part: u32| {
        // No overflow: a product of two 32-bit numbers.
        count * u64::from(part) / u64::from(parts.max(1))
    };
    (edge(which), edge(which + 1))
}

impl FileLoopShare {
    pub(super) fn numbered(entries: u32, part: (u32, u32)) -> Self {
        let (start, end) = bounds(u64::from(entries), part);
        FileLoopShare::Numbered(saturating_u32(start)..saturating_u32(end))
    }

    pub(super) fn shuffled(entries: u32, part: (u32, u32), seed: Seed) -> Self {
        let (start, end) = bounds(u64::from(entries), part);
        let mut files: Vec<u32> = (saturating_u32(start)..saturating_u32(end)).collect();
        Rng::new(seed).shuffle(&mut files);
        FileLoopShare::Listed(files.into_iter())
    }

    pub(super) fn of_list(files: &[u32], part: (u32, u32)) -> Self {
        let (start, end) = bounds(files.len() as u64, part);
        let mine = files[to_usize(start)..to_usize(end)].to_vec();
        FileLoopShare::Listed(mine.into_iter())
    }

    /// The next file that is there, or is not, as `pick` wants it; others are passed over: an
    /// earlier phase was cut short.
    pub(super) fn next(&mut self, set: &FileSlotTable, pick: FilePickKind) -> Option<u32> {
        let fits = |file: &u32| set.exists(*file) == (pick == FilePickKind::Existing);
        match self {
            FileLoopShare::Numbered(files) => files.find(fits),
            FileLoopShare::Listed(files) => files.find(fits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::workload::files::{FileSet, FileSizeDistribution};

    #[test]
    fn the_shares_are_equal_and_together_they_are_the_set() {
        let set = FileSlotTable::new(
            &FileSet::flat("set", 1_003, 0, FileSizeDistribution::Constant),
            Seed(1),
        );
        let backwards: Vec<u32> = (0..1_003).rev().collect();
        for kind in 0..3 {
            let mut all = Vec::new();
            for thread in 0..4 {
                let mut share = match kind {
                    0 => FileLoopShare::numbered(1_003, (thread, 4)),
                    1 => FileLoopShare::shuffled(1_003, (thread, 4), Seed(u64::from(thread))),
                    _ => FileLoopShare::of_list(&backwards, (thread, 4)),
                };
                let before = all.len();
                while let Some(file) = share.next(&set, FilePickKind::Existing) {
                    all.push(file);
                }
                assert!((250..=251).contains(&(all.len() - before)));
            }
            assert_eq!(all.is_sorted(), kind == 0);
            all.sort_unstable();
            assert!(all.into_iter().eq(0..1_003), "{kind}");
        }
        let mut share = FileLoopShare::numbered(1_003, (0, 1));
        assert_eq!(share.next(&set, FilePickKind::Missing), None);
    }
}
