// SPDX-License-Identifier: Apache-2.0
//! The source of a verification: what to write and read next, and what a read must find.

use std::collections::VecDeque;

use plimsoll_core::num::{saturating_u32, to_usize};
use plimsoll_core::op::{Kind, Request, Sample};
use plimsoll_core::rng::Rng;
use plimsoll_core::units::Nanos;

use super::stamp::{Found, SECTOR_BYTES, Stamp, read_sector, stamp_block};
use super::{Finding, Flaw, VerifyOptions, VerifyReport};
use crate::error::Error;
use crate::source::{Next, Source};

/// Blocks remembered as written lately.
const RECENT_MAX: usize = 32;

/// Most findings that are described; all are counted.
const FINDINGS_MAX: usize = 20;

/// What is known of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Version 0: zeros.
    Version(u64),
    /// A write failed: either version may be there.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// So many operations to go.
    Random(u64),
    /// Everything written; waits for the last ones, then syncs.
    Sync,
    /// The sync is under way.
    Syncing,
    /// The next block to read.
    Sweep(u64),
}

#[derive(Debug)]
pub(super) struct Verifier {
    rng: Rng,
    run: u64,
    block_bytes: u32,
    known: Vec<Known>,
    busy: Vec<bool>,
    /// Blocks written and not read since.
    unread: Vec<bool>,
    /// Some blocks written lately, oldest first.
    recent: VecDeque<u32>,
    next_version: u64,
    /// Version being written, by slot.
    writing: Vec<u64>,
    in_flight: u64,
    phase: Phase,
    pub(super) report: VerifyReport,
}

impl Verifier {
    /// Operations on a file of `bytes` zeros.
    pub(super) fn new(slots: u32, block_bytes: u32, bytes: u64, options: &VerifyOptions) -> Self {
        let blocks = to_usize(bytes / u64::from(block_bytes));
        Verifier {
            rng: Rng::new(options.seed.derive("verify", 0)),
            run: options.seed.derive("verify run", 0).0,
            block_bytes,
            known: vec![Known::Version(0); blocks],
            busy: vec![false; blocks],
            unread: vec![false; blocks],
            recent: VecDeque::with_capacity(RECENT_MAX + 1),
            next_version: 1,
            writing: vec![0; slots as usize],
            in_flight: 0,
            phase: Phase::Random(options.operations),
            report: VerifyReport::default(),
        }
    }

    /// Whether every block was read at the end.
    pub(super) fn is_finished(&self) -> bool {
        let swept = matches!(self.phase, Phase::Sweep(next) if next >= self.known.len() as u64);
        swept && self.in_flight == 0
    }

    fn block_of(&self, request: &Request) -> usize {
        to_usize(request.offset / u64::from(self.block_bytes))
    }

    fn issue(&mut self, kind: Kind, block: usize, now: Nanos) -> Next {
        let is_transfer = kind != Kind::Fsync;
        if is_transfer {
            self.busy[block] = true;
        }
        self.in_flight += 1;
        Next::Request(Request {
            kind,
            file: 0,
            offset: block as u64 * u64::from(self.block_bytes),
            len: if is_transfer { self.block_bytes } else { 0 },
            intended_at: now,
        })
    }

    /// A write of a free block; but a block that was written and not yet read back is read first,
    /// so that no bad write can be covered by a good one. One draw in four goes to a block of
    /// the recent past, to be read soon after it was written.
    fn random(&mut self, now: Nanos) -> Next {
        if self.rng.below(4) == 0 {
            let recent = self.recent.iter().position(|b| !self.busy[*b as usize]);
            if let Some(block) = recent.and_then(|place| self.recent.remove(place)) {
                return self.issue(Kind::Read, block as usize, now);
            }
        }
        let blocks = self.known.len();
        let first = to_usize(self.rng.below(blocks as u64));
        let free = (first..blocks).chain(0..first).find(|b| !self.busy[*b]);
        match free {
            Some(block) if self.unread[block] => self.issue(Kind::Read, block, now),
            Some(block) => self.issue(Kind::Write, block, now),
            None => Next::Wait,
        }
    }

    fn compare(&mut self, block: usize, offset: u64, bytes: &[u8]) {
        let Known::Version(version) = self.known[block] else {
            return;
        };
        self.report.checked += 1;
        let flaw = self.flaw(offset, version, bytes);
        if let Some(finding) = flaw {
            self.report.bad.count(finding.flaw);
            if self.report.findings.len() < FINDINGS_MAX {
                self.report.findings.push(finding);
            }
        }
    }

    fn flaw(&self, offset: u64, version: u64, bytes: &[u8]) -> Option<Finding> {
        let sectors = bytes.chunks_exact(SECTOR_BYTES);
        let judged: Vec<(u64, Option<Flaw>)> = sectors
            .zip((offset..).step_by(SECTOR_BYTES))
            .map(|(sector, at)| (at, self.judge(at, version, read_sector(sector))))
            .collect();
        let (first, flaw) = judged.iter().find_map(|(at, f)| f.map(|f| (*at, f)))?;
        let some_right = judged.iter().any(|(_, flaw)| flaw.is_none());
        let flaw = match flaw {
            Flaw::Stale if some_right => Flaw::Torn,
            other => other,
        };
        Some(Finding {
            offset: first,
            flaw,
        })
    }

    fn judge(&self, offset: u64, version: u64, found: Found) -> Option<Flaw> {
        match found {
            Found::Empty if version == 0 => None,
            Found::Empty => Some(Flaw::Stale),
            Found::Garbage => Some(Flaw::Wrong),
            Found::Stamped(stamp) if stamp.run != self.run => Some(Flaw::Wrong),
            Found::Stamped(stamp) if stamp.offset != offset => Some(Flaw::Misplaced {
                belongs_at: stamp.offset,
            }),
            Found::Stamped(stamp) if stamp.version == version => None,
            Found::Stamped(stamp) if stamp.version < version => Some(Flaw::Stale),
            Found::Stamped(_) => Some(Flaw::Wrong),
        }
    }
}

impl Source for Verifier {
    const CHECKS: bool = true;

    fn next(&mut self, now: Nanos, _slot: u32) -> Result<Next, Error> {
        // Each turn answers or goes on to the next phase.
        loop {
            match self.phase {
                Phase::Random(0) => self.phase = Phase::Sync,
                Phase::Random(left) => {
                    let next = self.random(now);
                    if next != Next::Wait {
                        self.phase = Phase::Random(left - 1);
                    }
                    return Ok(next);
                }
                Phase::Sync if self.in_flight > 0 => return Ok(Next::Wait),
                Phase::Sync => {
                    self.phase = Phase::Syncing;
                    return Ok(self.issue(Kind::Fsync, 0, now));
                }
                Phase::Syncing if self.in_flight > 0 => return Ok(Next::Wait),
                Phase::Syncing => self.phase = Phase::Sweep(0),
                Phase::Sweep(block) if block >= self.known.len() as u64 => return Ok(Next::End),
                Phase::Sweep(block) => {
                    self.phase = Phase::Sweep(block + 1);
                    let block = to_usize(block);
                    return Ok(self.issue(Kind::Read, block, now));
                }
            }
        }
    }

    fn fill(&mut self, slot: u32, request: &Request, bytes: &mut [u8]) {
        let version = self.next_version;
        self.next_version += 1;
        self.writing[slot as usize] = version;
        let first = Stamp {
            run: self.run,
            offset: request.offset,
            version,
            ..Stamp::default()
        };
        stamp_block(bytes, first);
    }

    fn check(&mut self, _slot: u32, sample: &Sample, buffer: &[u8]) {
        if sample.request.kind == Kind::Read && sample.result.is_ok() {
            let block = self.block_of(&sample.request);
            let bytes = &buffer[..sample.request.len as usize];
            self.compare(block, sample.request.offset, bytes);
        }
    }

    fn completed(&mut self, slot: u32, sample: &Sample) {
        self.in_flight -= 1;
        let block = self.block_of(&sample.request);
        let failed = sample.result.is_err();
        self.report.errors += u64::from(failed);
        match sample.request.kind {
            Kind::Write if failed => self.known[block] = Known::Unknown,
            Kind::Write => {
                self.unread[block] = true;
                self.recent.push_back(saturating_u32(block as u64));
                if self.recent.len() > RECENT_MAX {
                    self.recent.pop_front();
                }
                self.known[block] = Known::Version(self.writing[slot as usize]);
                self.report.written += 1;
            }
            Kind::Read => self.unread[block] = failed && self.unread[block],
            _ => {}
        }
        if sample.request.kind != Kind::Fsync {
            self.busy[block] = false;
        }
    }
}
