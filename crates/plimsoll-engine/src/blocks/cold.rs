// SPDX-License-Identifier: Apache-2.0
//! Passes through a file, each of which finds nothing of it in the page cache.

use std::os::fd::OwnedFd;

use plimsoll_core::units::Nanos;
use rustix::fs::Advice;

/// The part of a file that a worker drops from the page cache between two passes.
#[derive(Debug)]
pub(crate) struct CachedPart {
    pub(crate) file: OwnedFd,
    pub(crate) start: u64,
    pub bytes: u64,
    /// Dirty pages of a device are written first: dropping them is what its users wait for.
    pub(crate) is_device: bool,
}

/// The passes of one worker.
#[derive(Debug)]
pub(crate) struct BlockIoColdPasses {
    every_bytes: u64,
    left: u64,
    cached: Option<CachedPart>,
    /// A pass has begun, and the clock has not been looked at since.
    fresh: bool,
    began: Nanos,
}

impl BlockIoColdPasses {
    /// One that never ends.
    pub(super) fn none() -> Self {
        BlockIoColdPasses::new(u64::MAX, None)
    }

    /// Passes of `every_bytes` bytes.
    pub(crate) fn new(every_bytes: u64, cached: Option<CachedPart>) -> Self {
        BlockIoColdPasses {
            every_bytes,
            left: every_bytes,
            cached,
            fresh: false,
            began: Nanos(0),
        }
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    #[inline]
    pub(super) fn begun(&mut self, bytes: u32) {
        if self.left < u64::MAX {
            self.left = self.left.saturating_sub(bytes.into());
        }
    }

    /// Drops the pages; the next pass begins.
    pub(super) fn begin(&mut self) {
        self.left = self.every_bytes;
        self.fresh = true;
        let Some(part) = &self.cached else { return };
        if part.is_device {
            let _ = rustix::fs::fdatasync(&part.file);
        }
        // Advice: a file system that keeps its pages is no reason to end a run.
        let length = std::num::NonZeroU64::new(part.bytes);
        let _ = rustix::fs::fadvise(&part.file, part.start, length, Advice::DontNeed);
    }

    /// Since when a slot is free: not before the pass began.
    #[inline]
    pub(super) fn free_since(&mut self, since: Nanos, now: Nanos) -> Nanos {
        if self.fresh {
            (self.fresh, self.began) = (false, now);
        }
        since.max(self.began)
    }
}
