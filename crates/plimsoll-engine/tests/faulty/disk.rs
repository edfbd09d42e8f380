// SPDX-License-Identifier: Apache-2.0
//! A disk in memory with power cuts, for tests of durability checks.
//!
//! It has a cache that does not survive a power cut, and manners of its own: it may lie about
//! flushes, keep some of what was in the cache and not the rest, keep writes in part, answer reads
//! with what was there before, or bring old contents back. Time is virtual: each operation takes a
//! moment.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use plimsoll_core::num::to_usize;
use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

use plimsoll_engine::EngineError;
use plimsoll_engine::clock::{RunClock, SimClock};
use plimsoll_engine::engine::{IoBuffer, IoCompletion, IoEngine, UnsupportedOp, buffers, fits};

/// Service time of an operation.
const SERVICE: Nanos = Nanos(100_000);

const SECTOR_BYTES: usize = 512;

/// The fate of the cache at a power cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum FaultyPowerCut {
    /// It is lost.
    #[default]
    Lost,
    /// Each write is lost or not, by chance.
    Reordered,
    /// Each sector is lost or not, by chance.
    Torn,
}

/// How a disk behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct FaultyDiskOptions {
    /// A flush or a write that must be durable is acknowledged and stays in the cache.
    pub(crate) lies_about_flush: bool,
    /// The fate of the cache at a power cut.
    pub(crate) cut: FaultyPowerCut,
    /// Share of the reads that give what was there before the last write, 0..1.
    pub(crate) stale_reads: f64,
}

struct FaultyDiskState {
    bytes: Vec<u8>,
    /// Writes that are not durable, oldest first.
    cache: Vec<(usize, Vec<u8>)>,
    /// Data replaced by the last write of a place.
    before: BTreeMap<usize, Vec<u8>>,
    manners: FaultyDiskOptions,
    rng: Rng,
    n_stale: u64,
}

/// A disk. Copies are the same one, as two cables lead to it.
#[derive(Clone)]
pub(crate) struct FaultyDisk(Rc<RefCell<FaultyDiskState>>);

impl fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let medium = self.0.borrow();
        let (len, cached) = (medium.bytes.len(), medium.cache.len());
        write!(f, "Disk({len} bytes, {cached} writes in its cache)")
    }
}

impl FaultyDisk {
    /// A disk of `bytes` zeros.
    pub(crate) fn new(bytes: u64, manners: FaultyDiskOptions, seed: Seed) -> Self {
        FaultyDisk(Rc::new(RefCell::new(FaultyDiskState {
            bytes: vec![0; to_usize(bytes)],
            cache: Vec::new(),
            before: BTreeMap::new(),
            manners,
            rng: Rng::new(seed.derive("disk", 0)),
            n_stale: 0,
        })))
    }

    /// An engine on it, every write `durable` (as far as the disk is honest) or not.
    pub(crate) fn engine(
        &self,
        clock: SimClock,
        (slots, len_max): (u32, u32),
        durable: bool,
    ) -> FaultyDiskEngine {
        FaultyDiskEngine {
            disk: self.clone(),
            clock,
            durable,
            buffers: buffers(slots, len_max, Seed(0)),
            queued: Vec::new(),
            done: Vec::new(),
        }
    }

    /// The power goes, and comes back. Gives how many writes were in the cache.
    pub(crate) fn power_cut(&self) -> usize {
        let medium = &mut *self.0.borrow_mut();
        let cache = std::mem::take(&mut medium.cache);
        let n_cached = cache.len();
        for (at, bytes) in cache {
            match medium.manners.cut {
                FaultyPowerCut::Lost => {}
                FaultyPowerCut::Reordered if medium.rng.below(2) == 0 => {}
                FaultyPowerCut::Reordered => {
                    medium.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                FaultyPowerCut::Torn => {
                    for (piece, from) in
                        bytes.chunks(SECTOR_BYTES).zip((at..).step_by(SECTOR_BYTES))
                    {
                        if medium.rng.below(2) == 0 {
                            medium.bytes[from..from + piece.len()].copy_from_slice(piece);
                        }
                    }
                }
            }
        }
        n_cached
    }

    /// At up to `count` places, drawn by chance, brings back the data that the last write replaced. Returns
    /// the number of places.
    pub(crate) fn revive(&self, count: usize) -> usize {
        let medium = &mut *self.0.borrow_mut();
        medium.flush();
        let mut places: Vec<usize> = medium.before.keys().copied().collect();
        medium.rng.shuffle(&mut places);
        places.truncate(count);
        for at in &places {
            let old = &medium.before[at];
            medium.bytes[*at..*at + old.len()].copy_from_slice(old);
        }
        places.len()
    }

    /// Another disk with the same contents.
    pub(crate) fn replica(&self, seed: Seed) -> FaultyDisk {
        let medium = &mut *self.0.borrow_mut();
        medium.flush();
        FaultyDisk(Rc::new(RefCell::new(FaultyDiskState {
            bytes: medium.bytes.clone(),
            cache: Vec::new(),
            before: medium.before.clone(),
            manners: medium.manners,
            rng: Rng::new(seed.derive("replica", 0)),
            n_stale: 0,
        })))
    }

    /// `len` bytes from `offset` on show the data of another disk.
    pub(crate) fn leak_from(&self, other: &FaultyDisk, offset: u64, len: u32) {
        let (at, len) = (to_usize(offset), len as usize);
        let bytes = other.0.borrow().visible(at, len);
        let medium = &mut *self.0.borrow_mut();
        medium.flush();
        medium.bytes[at..at + len].copy_from_slice(&bytes);
    }

    /// Reads that gave what had been there before.
    pub(crate) fn n_stale(&self) -> u64 {
        self.0.borrow().n_stale
    }
}

impl FaultyDiskState {
    fn visible(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = self.bytes[at..at + len].to_vec();
        for (start, cached) in &self.cache {
            let from = (*start).max(at);
            let to = (start + cached.len()).min(at + len);
            if from < to {
                bytes[from - at..to - at].copy_from_slice(&cached[from - start..to - start]);
            }
        }
        bytes
    }

    fn flush(&mut self) {
        for (at, bytes) in self.cache.drain(..) {
            self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }

    fn carry_out(
        &mut self,
        request: &OpRequest,
        buffer: &mut [u8],
        durable: bool,
    ) -> Result<u64, i32> {
        let (at, len) = (to_usize(request.offset), request.len as usize);
        let is_transfer = request.kind.is_read() || request.kind.is_write();
        if is_transfer && at + len > self.bytes.len() {
            return Err(rustix::io::Errno::NOSPC.raw_os_error());
        }
        match request.kind {
            OpKind::Read => {
                let old = self.before.get(&at).filter(|old| old.len() == len);
                let stale = self.manners.stale_reads;
                match old {
                    Some(old) if stale > 0.0 && self.rng.unit() < stale => {
                        buffer[..len].copy_from_slice(old);
                        self.n_stale += 1;
                    }
                    _ => buffer[..len].copy_from_slice(&self.visible(at, len)),
                }
            }
            OpKind::Write => {
                self.before.insert(at, self.visible(at, len));
                self.cache.push((at, buffer[..len].to_vec()));
            }
            _ => {}
        }
        let flushes = request.kind == OpKind::Fsync || (durable && request.kind == OpKind::Write);
        if flushes && !self.manners.lies_about_flush {
            self.flush();
        }
        Ok(if is_transfer {
            u64::from(request.len)
        } else {
            0
        })
    }
}

/// An engine on a [`FaultyDisk`].
#[derive(Debug)]
pub(crate) struct FaultyDiskEngine {
    disk: FaultyDisk,
    clock: SimClock,
    durable: bool,
    buffers: Vec<IoBuffer>,
    queued: Vec<(u32, OpRequest)>,
    done: Vec<IoCompletion>,
}

impl IoEngine for FaultyDiskEngine {
    fn describe(&self) -> String {
        "disk in memory".into()
    }

    fn slots(&self) -> u32 {
        u32::try_from(self.buffers.len()).expect("slots are counted in 32 bits")
    }

    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.buffers[slot as usize].bytes_mut()
    }

    fn queue(&mut self, slot: u32, request: &OpRequest) -> Result<(), UnsupportedOp> {
        if !matches!(request.kind, OpKind::Read | OpKind::Write | OpKind::Fsync) {
            return Err(UnsupportedOp(request.kind));
        }
        let room = self.buffers[slot as usize].bytes().len();
        assert!(fits(request, room), "the request fits its buffer");
        self.queued.push((slot, *request));
        Ok(())
    }

    fn enter(&mut self, wait: Option<Nanos>) -> Result<(), EngineError> {
        let now = self.clock.now();
        if self.queued.is_empty() && self.done.is_empty() {
            self.clock.advance_to(now + wait.unwrap_or_default());
            return Ok(());
        }
        for (slot, request) in std::mem::take(&mut self.queued) {
            let buffer = self.buffers[slot as usize].bytes_mut();
            let medium = &mut *self.disk.0.borrow_mut();
            let result = medium.carry_out(&request, buffer, self.durable);
            self.done.push(IoCompletion { slot, result });
            self.clock.advance_to(self.clock.now() + SERVICE);
        }
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<IoCompletion>) {
        done.append(&mut self.done);
    }
}

mod tests {
    use super::*;

    const LEN: u32 = 1024;

    fn perform(engine: &mut FaultyDiskEngine, kind: OpKind, fill: u8) -> u8 {
        engine.buffer(0)[..LEN as usize].fill(fill);
        let request = OpRequest {
            kind,
            file: 0,
            offset: 2048,
            len: if kind == OpKind::Fsync { 0 } else { LEN },
            intended_at: Nanos(0),
        };
        engine.queue(0, &request).unwrap();
        engine.enter(None).unwrap();
        let mut done = Vec::new();
        engine.reap(&mut done);
        assert!(done[0].result.is_ok());
        engine.buffer(0)[LEN as usize - 1]
    }

    fn disk(manners: FaultyDiskOptions, durable: bool) -> (FaultyDisk, FaultyDiskEngine) {
        let disk = FaultyDisk::new(8192, manners, Seed(1));
        let engine = disk.engine(SimClock::new(), (1, LEN), durable);
        (disk, engine)
    }

    #[test]
    fn what_was_flushed_survives_a_power_cut_and_nothing_else() {
        let lying = FaultyDiskOptions {
            lies_about_flush: true,
            ..FaultyDiskOptions::default()
        };
        for (manners, durable, flush, expect) in [
            (FaultyDiskOptions::default(), false, false, 0),
            (FaultyDiskOptions::default(), false, true, 7),
            (FaultyDiskOptions::default(), true, false, 7),
            (lying, true, true, 0),
        ] {
            let (disk, mut engine) = disk(manners, durable);
            perform(&mut engine, OpKind::Write, 7);
            assert_eq!(
                perform(&mut engine, OpKind::Read, 0),
                7,
                "caches are visible"
            );
            if flush {
                perform(&mut engine, OpKind::Fsync, 0);
            }
            let in_cache = disk.power_cut();
            assert_eq!(in_cache, usize::from(expect == 0));
            assert_eq!(perform(&mut engine, OpKind::Read, 0), expect, "{manners:?}");
        }
    }

    #[test]
    fn old_contents_come_back_when_they_are_asked_to() {
        let (disk, mut engine) = disk(FaultyDiskOptions::default(), true);
        perform(&mut engine, OpKind::Write, 7);
        perform(&mut engine, OpKind::Write, 8);
        let replica = disk.replica(Seed(2));
        assert_eq!(disk.revive(9), 1);
        assert_eq!(perform(&mut engine, OpKind::Read, 0), 7);
        disk.leak_from(&replica, 2048, LEN);
        assert_eq!(perform(&mut engine, OpKind::Read, 0), 8);
    }
}
