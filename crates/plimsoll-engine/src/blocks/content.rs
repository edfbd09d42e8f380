// SPDX-License-Identifier: Apache-2.0
//! Contents of block writes: random bytes, of which a share can be compressed or deduplicated away.

use plimsoll_core::num::{floor_u64, to_usize};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::blocks::BlockIoContent;

use crate::engine::fill_random;
use crate::source::scramble;
use crate::sys::clock::wall_clock;

/// The unit of compression and deduplication.
const PIECE: usize = 4096;
/// Blocks that duplicates repeat: more than one, so that they do not compress against each other
/// in every window, few enough for a cache.
const LIBRARY: usize = 16;

/// Fills the buffers of one worker.
#[derive(Debug)]
pub(crate) struct BlockIoFiller {
    way: BlockIoFillMode,
    rng: Rng,
}

#[derive(Debug)]
enum BlockIoFillMode {
    /// Random bytes stay random when a few of each sector change.
    Scramble,
    Pieces {
        /// Of each piece, before the zeros.
        random_bytes: usize,
        duplicate: f64,
        library: Vec<u8>,
        /// Whether every piece is drawn anew: the buffer may hold anything, or must not hold a
        /// block that is in the library.
        anew: bool,
    },
    Date {
        next: u64,
    },
}

impl BlockIoFiller {
    /// Contents for the worker of this seed; duplicates repeat what `shared` gives. With
    /// `read_into` the buffers may hold what was read from a file that was not laid out.
    pub(crate) fn new(content: &BlockIoContent, read_into: bool, seed: Seed, shared: Seed) -> Self {
        let rng = Rng::new(seed.derive("contents", 0));
        if content.date {
            let way = BlockIoFillMode::Date { next: 0 };
            return BlockIoFiller { way, rng };
        }
        let plain = content.compressible <= 0.0 && content.duplicate <= 0.0;
        if plain && !read_into {
            let way = BlockIoFillMode::Scramble;
            return BlockIoFiller { way, rng };
        }
        let share = (1.0 - content.compressible).clamp(0.0, 1.0);
        let random_bytes = to_usize(floor_u64((PIECE as f64 * share).round()));
        let mut library = vec![0; PIECE * LIBRARY];
        let mut fixed = Rng::new(shared.derive("duplicates", 0));
        for piece in library.chunks_mut(PIECE) {
            fill_random(&mut piece[..random_bytes], &mut fixed);
        }
        let way = BlockIoFillMode::Pieces {
            random_bytes,
            duplicate: content.duplicate,
            library,
            anew: read_into || content.duplicate > 0.0,
        };
        BlockIoFiller { way, rng }
    }

    /// Fills the bytes of a write.
    #[inline]
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        match &mut self.way {
            BlockIoFillMode::Scramble => scramble(bytes),
            BlockIoFillMode::Pieces {
                random_bytes,
                duplicate,
                library,
                anew,
            } => {
                for piece in bytes.chunks_mut(PIECE) {
                    if *duplicate > 0.0 && self.rng.unit() < *duplicate {
                        let start = to_usize(self.rng.below(LIBRARY as u64)) * PIECE;
                        piece.copy_from_slice(&library[start..start + piece.len()]);
                        continue;
                    }
                    let random = (*random_bytes).min(piece.len());
                    let (head, zeros) = piece.split_at_mut(random);
                    if *anew {
                        fill_random(head, &mut self.rng);
                    } else {
                        scramble(head);
                    }
                    zeros.fill(0);
                }
            }
            BlockIoFillMode::Date { next } => {
                date_line(wall_clock(), *next, bytes);
                *next += 1;
            }
        }
    }
}

/// `YYYY-MM-DDTHH:MM:SS.mmmZ <seq>`, then spaces, and a line feed as the last byte; cut off where
/// there is no room. `now` counts from 1970.
fn date_line(now: Nanos, number: u64, bytes: &mut [u8]) {
    let (seconds, ms) = (now.0 / 1_000_000_000, now.0 / 1_000_000 % 1_000);
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let line = format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z {number}"
    );
    bytes.fill(b' ');
    let Some((last, room)) = bytes.split_last_mut() else {
        return;
    };
    *last = b'\n';
    let shown = line.len().min(room.len());
    room[..shown].copy_from_slice(&line.as_bytes()[..shown]);
}

/// Year, month and day of a day counted from 1970-01-01 (Gregorian calendar; the years are
/// reckoned from March, so that the leap day comes last).
fn civil(day: u64) -> (u64, u64, u64) {
    // Days from 0000-03-01 to 1970-01-01, and in 400 years.
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let (month, later) = if from_march < 10 {
        (from_march + 3, 0)
    } else {
        (from_march - 9, 1)
    };
    (era * 400 + year_of_era + later, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// `n` blocks of 4 KiB as they would be written.
    fn written(content: BlockIoContent, read_into: bool, n: usize) -> Vec<Vec<u8>> {
        let mut contents = BlockIoFiller::new(&content, read_into, Seed(1), Seed(2));
        let mut buffer = vec![0; PIECE];
        fill_random(&mut buffer, &mut Rng::new(Seed(3)));
        let mut fill = |_| {
            if read_into {
                buffer.fill(7);
            }
            contents.fill(&mut buffer);
            buffer.clone()
        };
        (0..n).map(&mut fill).collect()
    }

    fn zeros(block: &[u8]) -> usize {
        block.iter().rev().take_while(|b| **b == 0).count()
    }

    #[test]
    fn plain_contents_neither_compress_nor_repeat() {
        for read_into in [false, true] {
            let blocks = written(BlockIoContent::default(), read_into, 50);
            for (i, block) in blocks.iter().enumerate() {
                assert!(zeros(block) < 16 && !blocks[..i].contains(block));
                let sevens = block.iter().filter(|b| **b == 7).count();
                assert!(sevens < 64, "{sevens} bytes of what was read");
            }
        }
    }

    #[test]
    fn the_shares_are_those_that_were_asked_for() {
        for (compressible, duplicate) in [(0.5, 0.0), (0.25, 0.3), (0.0, 0.6), (1.0, 0.0)] {
            let content = BlockIoContent {
                compressible,
                duplicate,
                date: false,
            };
            let n = 4_000;
            let blocks = written(content, false, n);
            let found: usize = blocks.iter().map(|block| zeros(block)).sum();
            let share = found as f64 / (n * PIECE) as f64;
            assert!((share - compressible).abs() < 0.003, "{share}");
            if compressible < 1.0 {
                let mut times: BTreeMap<&[u8], usize> = BTreeMap::new();
                blocks
                    .iter()
                    .for_each(|b| *times.entry(b).or_default() += 1);
                let again = (n - times.len()) as f64 / n as f64;
                // Standard deviation 0.008, and the first of each is no duplicate.
                assert!((again - duplicate).abs() < 0.035, "{again} {duplicate}");
            }
        }
    }

    #[test]
    fn a_date_line_is_as_long_as_asked() {
        for (seconds, expect) in [
            (0, "1970-01-01T00:00:00.000Z 7"),
            (951_782_399, "2000-02-28T23:59:59.000Z 7"),
            (951_782_400, "2000-02-29T00:00:00.000Z 7"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z 7"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z 7"),
        ] {
            let mut bytes = [0; 64];
            date_line(Nanos(seconds * 1_000_000_000), 7, &mut bytes);
            let text = std::str::from_utf8(&bytes).unwrap();
            assert_eq!(text, format!("{expect:<63}\n"));
        }
        for (len, expect) in [(0, ""), (1, "\n"), (5, "1970\n")] {
            let mut bytes = vec![0; len];
            date_line(Nanos(0), 1, &mut bytes);
            assert_eq!(bytes, expect.as_bytes());
        }
        let mut contents = BlockIoFiller::new(
            &BlockIoContent {
                date: true,
                ..BlockIoContent::default()
            },
            false,
            Seed(1),
            Seed(2),
        );
        let mut line = [0; 40];
        let numbers = (0..3).map(|_| {
            contents.fill(&mut line);
            String::from_utf8(line.to_vec()).unwrap()[25..]
                .trim()
                .to_string()
        });
        assert!(numbers.eq(["0", "1", "2"]));
    }
}
