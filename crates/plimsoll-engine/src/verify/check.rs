// SPDX-License-Identifier: Apache-2.0
//! The source of a verification: what to write and read next, and what a read must find.

use std::collections::VecDeque;

use plimsoll_core::num::{saturating_u32, to_usize};
use plimsoll_core::op::{OpKind, OpRequest, OpSample};
use plimsoll_core::rng::Rng;
use plimsoll_core::units::Nanos;

use super::stamp::{DataCheckSectorState, DataCheckStamp, SECTOR_BYTES, read_sector, stamp_block};
use super::{DataFlaw, VerifyFinding, VerifyOptions, VerifyReport};
use crate::error::EngineError;
use crate::source::{NextRequest, RequestSource};

/// Blocks remembered as written lately.
const RECENT_MAX: usize = 32;

/// Most findings that are described; all are counted.
const FINDINGS_MAX: usize = 20;

/// The known state of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VerifyBlockState {
    /// Version 0: zeros.
    Version(u64),
    /// A write failed: either version may be there.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VerifyPhase {
    /// Random operations; this number is left.
    Random(u64),
    /// Everything written; waits for the last ones, then syncs.
    Sync,
    /// The sync is under way.
    Syncing,
    /// The next block to read.
    Sweep(u64),
}

#[derive(Debug)]
pub(super) struct VerifySource {
    rng: Rng,
    run: u64,
    block_bytes: u32,
    known: Vec<VerifyBlockState>,
    busy: Vec<bool>,
    /// Blocks written and not read since.
    unread: Vec<bool>,
    /// Some blocks written lately, oldest first.
    recent: VecDeque<u32>,
    next_version: u64,
    /// Version being written, by slot.
    writing: Vec<u64>,
    in_flight: u64,
    phase: VerifyPhase,
    pub(super) report: VerifyReport,
}

impl VerifySource {
    /// Operations on a file of `bytes` zeros.
    pub(super) fn new(slots: u32, block_bytes: u32, bytes: u64, options: &VerifyOptions) -> Self {
        let blocks = to_usize(bytes / u64::from(block_bytes));
        VerifySource {
            rng: Rng::new(options.seed.derive("verify", 0)),
            run: options.seed.derive("verify run", 0).0,
            block_bytes,
            known: vec![VerifyBlockState::Version(0); blocks],
            busy: vec![false; blocks],
            unread: vec![false; blocks],
            recent: VecDeque::with_capacity(RECENT_MAX + 1),
            next_version: 1,
            writing: vec![0; slots as usize],
            in_flight: 0,
            phase: VerifyPhase::Random(options.operations),
            report: VerifyReport::default(),
        }
    }

    /// Whether every block was read at the end.
    pub(super) fn is_finished(&self) -> bool {
        let swept =
            matches!(self.phase, VerifyPhase::Sweep(next) if next >= self.known.len() as u64);
        swept && self.in_flight == 0
    }

    fn block_of(&self, request: &OpRequest) -> usize {
        to_usize(request.offset / u64::from(self.block_bytes))
    }

    fn issue(&mut self, kind: OpKind, block: usize, now: Nanos) -> NextRequest {
        let is_transfer = kind != OpKind::Fsync;
        if is_transfer {
            self.busy[block] = true;
        }
        self.in_flight += 1;
        NextRequest::Request(OpRequest {
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
    fn random(&mut self, now: Nanos) -> NextRequest {
        if self.rng.below(4) == 0 {
            let recent = self.recent.iter().position(|b| !self.busy[*b as usize]);
            if let Some(block) = recent.and_then(|place| self.recent.remove(place)) {
                return self.issue(OpKind::Read, block as usize, now);
            }
        }
        let blocks = self.known.len();
        let first = to_usize(self.rng.below(blocks as u64));
        let free = (first..blocks).chain(0..first).find(|b| !self.busy[*b]);
        match free {
            Some(block) if self.unread[block] => self.issue(OpKind::Read, block, now),
            Some(block) => self.issue(OpKind::Write, block, now),
            None => NextRequest::Wait,
        }
    }

    fn compare(&mut self, block: usize, offset: u64, bytes: &[u8]) {
        let VerifyBlockState::Version(version) = self.known[block] else {
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

    fn flaw(&self, offset: u64, version: u64, bytes: &[u8]) -> Option<VerifyFinding> {
        let sectors = bytes.chunks_exact(SECTOR_BYTES);
        let judged: Vec<(u64, Option<DataFlaw>)> = sectors
            .zip((offset..).step_by(SECTOR_BYTES))
            .map(|(sector, at)| (at, self.judge(at, version, read_sector(sector))))
            .collect();
        let (first, flaw) = judged.iter().find_map(|(at, f)| f.map(|f| (*at, f)))?;
        let some_right = judged.iter().any(|(_, flaw)| flaw.is_none());
        let flaw = match flaw {
            DataFlaw::Stale if some_right => DataFlaw::Torn,
            other => other,
        };
        Some(VerifyFinding {
            offset: first,
            flaw,
        })
    }

    fn judge(&self, offset: u64, version: u64, found: DataCheckSectorState) -> Option<DataFlaw> {
        match found {
            DataCheckSectorState::Empty if version == 0 => None,
            DataCheckSectorState::Empty => Some(DataFlaw::Stale),
            DataCheckSectorState::Garbage => Some(DataFlaw::Wrong),
            DataCheckSectorState::Stamped(stamp) if stamp.run != self.run => Some(DataFlaw::Wrong),
            DataCheckSectorState::Stamped(stamp) if stamp.offset != offset => {
                Some(DataFlaw::Misplaced {
                    belongs_at: stamp.offset,
                })
            }
            DataCheckSectorState::Stamped(stamp) if stamp.version == version => None,
            DataCheckSectorState::Stamped(stamp) if stamp.version < version => {
                Some(DataFlaw::Stale)
            }
            DataCheckSectorState::Stamped(_) => Some(DataFlaw::Wrong),
        }
    }
}

impl RequestSource for VerifySource {
    const CHECKS: bool = true;

    fn next(&mut self, now: Nanos, _slot: u32) -> Result<NextRequest, EngineError> {
        // Each turn answers or goes on to the next phase.
        loop {
            match self.phase {
                VerifyPhase::Random(0) => self.phase = VerifyPhase::Sync,
                VerifyPhase::Random(left) => {
                    let next = self.random(now);
                    if next != NextRequest::Wait {
                        self.phase = VerifyPhase::Random(left - 1);
                    }
                    return Ok(next);
                }
                VerifyPhase::Sync if self.in_flight > 0 => return Ok(NextRequest::Wait),
                VerifyPhase::Sync => {
                    self.phase = VerifyPhase::Syncing;
                    return Ok(self.issue(OpKind::Fsync, 0, now));
                }
                VerifyPhase::Syncing if self.in_flight > 0 => return Ok(NextRequest::Wait),
                VerifyPhase::Syncing => self.phase = VerifyPhase::Sweep(0),
                VerifyPhase::Sweep(block) if block >= self.known.len() as u64 => {
                    return Ok(NextRequest::End);
                }
                VerifyPhase::Sweep(block) => {
                    self.phase = VerifyPhase::Sweep(block + 1);
                    let block = to_usize(block);
                    return Ok(self.issue(OpKind::Read, block, now));
                }
            }
        }
    }

    fn fill(&mut self, slot: u32, request: &OpRequest, bytes: &mut [u8]) {
        let version = self.next_version;
        self.next_version += 1;
        self.writing[slot as usize] = version;
        let first = DataCheckStamp {
            run: self.run,
            offset: request.offset,
            version,
            ..DataCheckStamp::default()
        };
        stamp_block(bytes, first);
    }

    fn check(&mut self, _slot: u32, sample: &OpSample, buffer: &[u8]) {
        if sample.request.kind == OpKind::Read && sample.result.is_ok() {
            let block = self.block_of(&sample.request);
            let bytes = &buffer[..sample.request.len as usize];
            self.compare(block, sample.request.offset, bytes);
        }
    }

    fn completed(&mut self, slot: u32, sample: &OpSample) {
        self.in_flight -= 1;
        let block = self.block_of(&sample.request);
        let failed = sample.result.is_err();
        self.report.errors += u64::from(failed);
        match sample.request.kind {
            OpKind::Write if failed => self.known[block] = VerifyBlockState::Unknown,
            OpKind::Write => {
                self.unread[block] = true;
                self.recent.push_back(saturating_u32(block as u64));
                if self.recent.len() > RECENT_MAX {
                    self.recent.pop_front();
                }
                self.known[block] = VerifyBlockState::Version(self.writing[slot as usize]);
                self.report.written += 1;
            }
            OpKind::Read => self.unread[block] = failed && self.unread[block],
            _ => {}
        }
        if sample.request.kind != OpKind::Fsync {
            self.busy[block] = false;
        }
    }
}
