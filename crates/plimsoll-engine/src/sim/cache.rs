// SPDX-License-Identifier: Apache-2.0
//! A cache that keeps what was written, before a device: as a controller with a battery has it.
//!
//! Writes end when they are in the cache, flushes at once. What is dirty is written to the device
//! when that has nothing to do, in the order of places as an elevator goes, neighbours together. Not
//! more than half of the cache may be dirty: a write that finds it so waits until there is room, and
//! the device then does what many small writes together cost it, not what each would. What was read
//! or written last is read from the cache (least recently used goes first).

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::num::to_usize;
use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_core::units::Nanos;

use super::{SimDeviceModel, SimOpKind, address, part_of};

/// Page size of the cache.
const PAGE_BYTES: u64 = 4096;
/// Most pages that are written to the device together: 1 MiB.
const RUN_PAGES: u64 = 256;

/// A cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SimCacheSpec {
    /// Its size, bytes; at least two pages of 4 KiB.
    pub(super) size_bytes: u64,
    /// Time of a request that needs only the cache.
    pub(super) hit: Nanos,
}

/// A cache at work.
pub(super) struct SimCache<D> {
    cache: SimCacheSpec,
    inner: D,
    /// Pages that are there, with when they were used last, counted in uses.
    pages: BTreeMap<u64, u64>,
    /// Pages whose contents are also on the device, by their last use.
    clean: BTreeMap<u64, u64>,
    dirty: BTreeSet<u64>,
    uses: u64,
    /// Where the elevator is.
    cursor: u64,
    /// When the last request came: everything was dirty by then.
    last_at: Nanos,
}

impl<D: SimDeviceModel> SimCache<D> {
    pub(super) fn new(cache: SimCacheSpec, inner: D) -> Self {
        SimCache {
            cache,
            inner,
            pages: BTreeMap::new(),
            clean: BTreeMap::new(),
            dirty: BTreeSet::new(),
            uses: 0,
            cursor: 0,
            last_at: Nanos(0),
        }
    }

    fn pages_max(&self) -> usize {
        to_usize(self.cache.size_bytes / PAGE_BYTES)
    }

    /// Notes a use of a page, which is dirty from now on or as it was.
    fn use_page(&mut self, page: u64, dirties: bool) {
        self.uses += 1;
        if let Some(used) = self.pages.insert(page, self.uses) {
            self.clean.remove(&used);
        }
        if dirties {
            self.dirty.insert(page);
        }
        if !self.dirty.contains(&page) {
            self.clean.insert(self.uses, page);
        }
        while self.pages.len() > self.pages_max() {
            let Some((_, oldest)) = self.clean.pop_first() else {
                break;
            };
            self.pages.remove(&oldest);
        }
    }

    /// Writes the next dirty pages to the device; when that is done.
    fn write_back(&mut self, at: Nanos, like: &OpRequest) -> Nanos {
        let ahead = self.dirty.range(self.cursor..).next();
        let Some(first) = ahead.or_else(|| self.dirty.first()).copied() else {
            return at;
        };
        let mut next = first;
        while next < first + RUN_PAGES && self.dirty.remove(&next) {
            if let Some(used) = self.pages.get(&next) {
                self.clean.insert(*used, next);
            }
            next += 1;
        }
        self.cursor = next;
        let bytes = (next - first) * PAGE_BYTES;
        let run = part_of(like, OpKind::Write, first * PAGE_BYTES, bytes);
        self.inner.serve(at, &run)
    }

    /// Writes of the device until now, while no request came.
    fn write_back_idle(&mut self, now: Nanos, like: &OpRequest) {
        while !self.dirty.is_empty() {
            let start = self.inner.free_at().max(self.last_at);
            if start >= now {
                break;
            }
            self.write_back(start, like);
        }
        self.last_at = now;
    }

    fn read(&mut self, at: Nanos, request: &OpRequest, pages: std::ops::Range<u64>) -> Nanos {
        let is_here = pages.clone().all(|page| self.pages.contains_key(&page));
        pages.for_each(|page| self.use_page(page, false));
        match is_here {
            true => at + self.cache.hit,
            false => self.inner.serve(at, request) + self.cache.hit,
        }
    }

    fn write(&mut self, at: Nanos, request: &OpRequest, pages: std::ops::Range<u64>) -> Nanos {
        pages.for_each(|page| self.use_page(page, true));
        let mut room = at;
        while self.dirty.len() > (self.pages_max() / 2).max(1) {
            room = self.write_back(at, request);
        }
        room.max(at) + self.cache.hit
    }
}

impl<D: SimDeviceModel> SimDeviceModel for SimCache<D> {
    fn serve(&mut self, at: Nanos, request: &OpRequest) -> Nanos {
        self.write_back_idle(at, request);
        let begin = address(request);
        let end = begin.saturating_add(request.len.into());
        let pages = begin / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        match SimOpKind::of(request) {
            SimOpKind::Read => self.read(at, request, pages),
            SimOpKind::Write => self.write(at, request, pages),
            SimOpKind::Flush => at + self.cache.hit,
            SimOpKind::Nothing => at,
        }
    }

    fn free_at(&self) -> Nanos {
        self.inner.free_at()
    }
}
