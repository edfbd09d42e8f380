// SPDX-License-Identifier: Apache-2.0
//! How much is touched within windows of growing length: the working set as Denning defined it,
//! counted in blocks that a hash chooses when there are too many to count all.

use plimsoll_core::num::saturating_u32;
use plimsoll_core::op::TraceAccess;
use plimsoll_core::profile::WorkingSet;
use plimsoll_core::table::IntHashMap;
use plimsoll_core::units::Nanos;

use super::TraceTimeBase;
use super::reuse::{BLOCK_BYTES, TraceBlockSampler};

/// Lengths of windows in seconds; the last is longer than any recording, and counts as it is.
const WINDOWS_S: [u64; 6] = [1, 10, 60, 600, 3_600, WHOLE_S];
const WHOLE_S: u64 = u64::MAX / 1_000_000_000;

/// Fewest whole windows of a length that are shown.
const WINDOWS_MIN: u64 = 2;

/// Blocks in the windows of one length.
#[derive(Debug, Clone, Copy, Default)]
struct TouchWindowCounts {
    window: u32,
    blocks: u64,
    sum: u64,
    most: u64,
}

impl TouchWindowCounts {
    /// Ends the window that is counted in; of `whole` windows, which are all that count.
    fn close(&mut self, whole: u64) {
        if u64::from(self.window) <= whole {
            self.sum += self.blocks;
            self.most = self.most.max(self.blocks);
        }
        self.blocks = 0;
    }
}

/// The blocks that were touched so far, by requests in the order of their starts.
#[derive(Debug)]
pub(super) struct WorkingSetTracker {
    clockwork: TraceTimeBase,
    sample: TraceBlockSampler,
    /// Of each block, the window of each length in which it was touched last, counted from 1.
    last: IntHashMap<[u32; WINDOWS_S.len()]>,
    counts: [TouchWindowCounts; WINDOWS_S.len()],
    span_bytes: u64,
}

impl WorkingSetTracker {
    /// For a recording that moves about `bytes` bytes.
    pub(super) fn new(bytes: u64, clockwork: TraceTimeBase) -> WorkingSetTracker {
        WorkingSetTracker {
            clockwork,
            sample: TraceBlockSampler::new(bytes),
            last: IntHashMap::default(),
            counts: Default::default(),
            span_bytes: 0,
        }
    }

    pub(super) fn add(&mut self, request: &TraceAccess) {
        if request.bytes > 0 {
            let end = request.offset.saturating_add(request.bytes.into());
            self.span_bytes = self.span_bytes.max(end);
        }
        let now = WINDOWS_S.map(|s| saturating_u32(request.at.0 / (s * 1_000_000_000) + 1));
        let whole = self.whole();
        for ((counts, now), whole) in self.counts.iter_mut().zip(now).zip(whole) {
            if counts.window != now {
                counts.close(whole);
                counts.window = now;
            }
        }
        let (last, counts) = (&mut self.last, &mut self.counts);
        self.sample.blocks(request, |block| {
            for ((last, counts), now) in last.at(block).iter_mut().zip(&mut *counts).zip(now) {
                if *last != now {
                    *last = now;
                    counts.blocks += 1;
                }
            }
        });
    }

    /// The end of the last byte that was touched.
    pub(super) fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    /// Whole windows of each length; all of the recording is one.
    fn whole(&self) -> [u64; WINDOWS_S.len()] {
        WINDOWS_S
            .map(|s| (self.clockwork.length.0 / (s * 1_000_000_000)).max(u64::from(s == WHOLE_S)))
    }

    /// The working sets of windows of which the recording has at least two whole ones, and of all of it.
    pub(super) fn working_sets(&self) -> Vec<WorkingSet> {
        let bytes = self.sample.share() * BLOCK_BYTES as f64;
        let told = self.whole().into_iter().zip(self.counts).zip(WINDOWS_S);
        let told = told.filter_map(|((whole, mut counts), s)| {
            let is_all = s == WHOLE_S;
            let is_fine = Nanos(s * 1_000_000_000) >= self.clockwork.resolution;
            counts.close(whole);
            (is_all || is_fine && whole >= WINDOWS_MIN).then(|| WorkingSet {
                window_s: if is_all {
                    self.clockwork.length.as_secs_f64()
                } else {
                    s as f64
                },
                mean_bytes: counts.sum as f64 / whole as f64 * bytes,
                max_bytes: counts.most as f64 * bytes,
            })
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::op::OpKind;

    #[test]
    fn what_comes_back_is_counted_once_in_each_window() {
        let mut touched = WorkingSetTracker::new(0, TraceTimeBase::fine(Nanos(20_000_000_000)));
        // For 20 s, every second ten blocks twice, new ones every ten seconds.
        for i in 0..400u64 {
            touched.add(&TraceAccess {
                at: Nanos(i * 50_000_000),
                kind: OpKind::Read,
                offset: (i / 200 * 10 + i % 10) * BLOCK_BYTES,
                bytes: 4096,
            });
        }
        let found = touched.working_sets();
        let blocks: Vec<(f64, f64)> = found
            .iter()
            .map(|set| (set.window_s, set.mean_bytes / BLOCK_BYTES as f64))
            .collect();
        assert_eq!(blocks, [(1.0, 10.0), (10.0, 10.0), (20.0, 20.0)]);
        assert_eq!(touched.span_bytes(), 20 * BLOCK_BYTES);
    }

    #[test]
    fn a_window_that_is_cut_off_by_the_end_does_not_count() {
        // Ten blocks of their own in every second of 2.05.
        let length = Nanos(2_050_000_000);
        let mut touched = WorkingSetTracker::new(0, TraceTimeBase::fine(length));
        for i in 0..21u64 {
            touched.add(&TraceAccess {
                at: Nanos(i * 100_000_000),
                kind: OpKind::Read,
                offset: i * BLOCK_BYTES,
                bytes: 4096,
            });
        }
        let found = touched.working_sets();
        let blocks = |set: &WorkingSet| (set.window_s, set.mean_bytes / BLOCK_BYTES as f64);
        let blocks: Vec<(f64, f64)> = found.iter().map(blocks).collect();
        assert_eq!(blocks, [(1.0, 10.0), (2.05, 21.0)]);
    }

    #[test]
    fn a_sample_of_the_blocks_stands_for_all() {
        let n = 3_000_000u64;
        let length = Nanos(3_000_000_000);
        let mut touched = WorkingSetTracker::new(n * BLOCK_BYTES, TraceTimeBase::fine(length));
        for i in 0..n {
            touched.add(&TraceAccess {
                at: Nanos(i * 1_000),
                kind: OpKind::Write,
                offset: i * BLOCK_BYTES,
                bytes: 4096,
            });
        }
        let all = touched.working_sets().pop().unwrap();
        let error = all.mean_bytes / (n * BLOCK_BYTES) as f64 - 1.0;
        assert!(error.abs() < 0.02, "{error}");
    }
}
