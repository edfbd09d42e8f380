// SPDX-License-Identifier: Apache-2.0
//! The legal contents of each block by the ledger, and the judgement of the block that was read.
//!
//! Legal in a block is the last write that was acknowledged and durable, and every later one that
//! was submitted, whether it was acknowledged, failed, or never answered. Nothing else is.

use std::collections::BTreeMap;
use std::ops::Range;

use plimsoll_core::data_check::DataFlaw;
use plimsoll_core::ledger::{
    LedgerCompletion, LedgerCompletionStatus, LedgerDurability, LedgerEntry, LedgerHeader,
    LedgerObservation, LedgerSession, LedgerTarget, LedgerWriteIntent,
};
use plimsoll_core::num::to_usize;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::options::BLOCK_BYTES_MAX;
use plimsoll_engine::EngineError;
use plimsoll_engine::verify::{DataCheckSectorState, DataCheckStamp, SECTOR_BYTES, read_sector};

/// Most blocks of all sessions: about 100 bytes of memory each.
const BLOCKS_MAX: u64 = 1 << 24;

/// Most targets and sessions.
const SESSIONS_MAX: usize = 1 << 16;

/// A write that is newer than the last durable one.
#[derive(Debug, Clone, Copy)]
struct Write {
    version: u64,
    /// When it was meant to start or, once that is known, was submitted.
    issued_at: Nanos,
    /// `None`: it has not ended.
    outcome: Option<LedgerCompletionStatus>,
}

/// The writes to a block, as the ledger records them.
#[derive(Debug, Clone, Default)]
pub(super) struct LedgerBlockHistory {
    /// The last durable version; 0: none.
    floor: u64,
    floor_issued_at: Nanos,
    floor_durable_at: Nanos,
    above: Vec<Write>,
    /// Newest version that a check has read.
    pub(super) seen: u64,
}

/// The same for all blocks of a session.
#[derive(Debug)]
pub(super) struct LedgerSessionHistory {
    pub(super) session: LedgerSession,
    /// Name of its file or device in reports.
    pub(super) file: String,
    pub(super) blocks: Vec<LedgerBlockHistory>,
    /// Writes that have not ended, by operation.
    open: BTreeMap<u64, LedgerWriteIntent>,
    /// Writes that were acknowledged and are not yet durable.
    unsynced: Vec<(LedgerWriteIntent, LedgerCompletion)>,
    /// Writes acknowledged, in blocks.
    pub(super) written: u64,
    /// Operations that failed.
    pub(super) errors: u64,
}

/// A ledger, read whole.
#[derive(Debug, Default)]
pub(super) struct LedgerHistory {
    pub(super) campaign: Option<LedgerHeader>,
    pub(super) targets: Vec<LedgerTarget>,
    pub(super) sessions: Vec<LedgerSessionHistory>,
    is_probing: bool,
    /// The first record that contradicts another one.
    fault: Option<String>,
}

impl LedgerHistory {
    /// Takes the next entry.
    pub(super) fn take(&mut self, entry: LedgerEntry) {
        match entry {
            // There is one; what follows cannot change what was said before.
            LedgerEntry::Campaign(campaign) => {
                self.campaign.get_or_insert(campaign);
            }
            LedgerEntry::Target(target) if self.targets.len() < SESSIONS_MAX => {
                self.targets.push(target);
            }
            LedgerEntry::Session(session) => self.session(session),
            LedgerEntry::Probing(..) => self.is_probing = true,
            LedgerEntry::Issued(issued) => self.issued(&issued),
            LedgerEntry::Ended(ended) => self.ended(&ended),
            LedgerEntry::Seen(seen) => self.seen(&seen),
            LedgerEntry::Target(_) => self.fault = Some("it has too many targets".into()),
            LedgerEntry::Opened { .. } | LedgerEntry::Found(_) | LedgerEntry::Closed { .. } => {}
        }
    }

    /// Whether all entries agreed with each other.
    pub(super) fn whole(self) -> Result<Self, EngineError> {
        match self.fault {
            None => Ok(self),
            Some(fault) => Err(EngineError::LedgerDamaged(format!(
                "the ledger is damaged: {fault}"
            ))),
        }
    }

    fn block_bytes(&self) -> u64 {
        let bytes = self.campaign.map_or(0, |campaign| campaign.block_bytes);
        u64::from(bytes.max(1))
    }

    fn session(&mut self, session: LedgerSession) {
        let known = self.targets.len() > session.target as usize;
        let in_order = self.sessions.len() == session.number as usize;
        let held: usize = self.sessions.iter().map(|past| past.blocks.len()).sum();
        let count = session.bytes / self.block_bytes();
        let fits = count + held as u64 <= BLOCKS_MAX && self.sessions.len() < SESSIONS_MAX;
        // A sector at least, or nothing could be judged.
        let size = self.block_bytes();
        let whole = size.is_multiple_of(SECTOR_BYTES as u64)
            && size <= u64::from(BLOCK_BYTES_MAX)
            && session.offset.is_multiple_of(size)
            && session.offset.checked_add(session.bytes).is_some();
        if !(known && in_order && fits && whole) {
            let number = session.number;
            self.fault = Some(format!("session {number} is out of place, or too large"));
            return;
        }
        let file = match session.name.as_str() {
            "" => self.targets[session.target as usize].name.clone(),
            name => name.to_owned(),
        };
        self.sessions.push(LedgerSessionHistory {
            session,
            file,
            blocks: vec![LedgerBlockHistory::default(); to_usize(count)],
            open: BTreeMap::new(),
            unsynced: Vec::new(),
            written: 0,
            errors: 0,
        });
    }

    fn issued(&mut self, issued: &LedgerWriteIntent) {
        let size = self.block_bytes();
        let blocks = self.range(issued.session, issued.offset, issued.len.into(), size);
        let (Some(blocks), Some(past)) = (blocks, self.past(issued.session)) else {
            self.fault = Some("a write is of no session's blocks".into());
            return;
        };
        past.open.insert(issued.op, *issued);
        for block in &mut past.blocks[blocks] {
            block.above.push(Write {
                version: issued.version,
                issued_at: issued.intended_at,
                outcome: None,
            });
        }
    }

    fn ended(&mut self, ended: &LedgerCompletion) {
        let is_durable = self.is_probing
            && self
                .campaign
                .is_some_and(|campaign| campaign.durability == LedgerDurability::EachWrite);
        let size = self.block_bytes();
        let Some(past) = self.past(ended.session) else {
            self.fault = Some("an operation is of no session".into());
            return;
        };
        if matches!(ended.outcome, LedgerCompletionStatus::Error(_)) {
            past.errors += 1;
        }
        match ended.kind {
            OpKind::Write => {}
            OpKind::Fsync if ended.outcome == LedgerCompletionStatus::Ok => {
                return self.synced(ended, size);
            }
            _ => return,
        }
        let Some(issued) = past.open.remove(&ended.op) else {
            self.fault = Some("a write ended that was never submitted".into());
            return;
        };
        let Some(blocks) = self.range(issued.session, issued.offset, issued.len.into(), size)
        else {
            return;
        };
        let Some(past) = self.past(ended.session) else {
            return;
        };
        for block in &mut past.blocks[blocks.clone()] {
            let found = block
                .above
                .iter_mut()
                .rfind(|w| w.version == issued.version);
            if let Some(write) = found {
                write.outcome = Some(ended.outcome);
                write.issued_at = ended.submitted_at;
            }
        }
        if ended.outcome != LedgerCompletionStatus::Ok {
            return;
        }
        past.written += blocks.len() as u64;
        if is_durable {
            past.raise(blocks, &issued, ended, ended.ended_at);
        } else {
            past.unsynced.push((issued, *ended));
        }
    }

    /// An fsync was acknowledged: what had been acknowledged when it began is durable.
    fn synced(&mut self, sync: &LedgerCompletion, size: u64) {
        let Some(past) = self.past(sync.session) else {
            return;
        };
        let (durable, left) = std::mem::take(&mut past.unsynced)
            .into_iter()
            .partition(|(_, ended)| ended.ended_at <= sync.submitted_at);
        past.unsynced = left;
        let durable: Vec<(LedgerWriteIntent, LedgerCompletion)> = durable;
        for (issued, ended) in durable {
            let range = self.range(issued.session, issued.offset, issued.len.into(), size);
            if let (Some(blocks), Some(past)) = (range, self.past(sync.session)) {
                past.raise(blocks, &issued, &ended, sync.ended_at);
            }
        }
    }

    fn seen(&mut self, seen: &LedgerObservation) {
        let size = self.block_bytes();
        let range = self.range(seen.session, seen.offset, size, size);
        if let (Some(blocks), Some(past)) = (range, self.past(seen.session)) {
            for block in &mut past.blocks[blocks] {
                block.seen = block.seen.max(seen.version);
            }
        }
    }

    fn past(&mut self, session: u32) -> Option<&mut LedgerSessionHistory> {
        self.sessions.get_mut(session as usize)
    }

    /// The blocks of a session that `len` bytes at `offset` cover; `None` unless they are whole blocks of it.
    fn range(&self, session: u32, offset: u64, len: u64, size: u64) -> Option<Range<usize>> {
        let past = self.sessions.get(session as usize)?;
        let from = offset.checked_sub(past.session.offset)?;
        let whole = from.is_multiple_of(size) && len.is_multiple_of(size) && len > 0;
        let range = to_usize(from / size)..to_usize(from.checked_add(len)? / size);
        (whole && range.end <= past.blocks.len()).then_some(range)
    }
}

impl LedgerSessionHistory {
    fn raise(
        &mut self,
        blocks: Range<usize>,
        issued: &LedgerWriteIntent,
        ended: &LedgerCompletion,
        at: Nanos,
    ) {
        for block in &mut self.blocks[blocks] {
            if issued.version <= block.floor {
                continue;
            }
            block.floor = issued.version;
            block.floor_issued_at = ended.submitted_at;
            block.floor_durable_at = at;
            block.above.retain(|write| write.version > issued.version);
        }
    }

    /// Says of the missing ones among the blocks whether the writes are a tail or leave holes.
    pub(super) fn missing(&self, judged: &[LedgerBlockCheck]) -> Vec<Option<DataFlaw>> {
        let pairs = || self.blocks.iter().zip(judged);
        let is_missing = |judged: &LedgerBlockCheck| judged.verdict == LedgerBlockVerdict::Missing;
        let missing = pairs().filter(|(_, judged)| is_missing(judged));
        let last = missing.map(|(block, _)| block.floor_issued_at).max();
        // The latest beginning of what is there, and was there before the last missing one began.
        let there = pairs().filter(|(_, judged)| judged.verdict == LedgerBlockVerdict::Fine);
        let there = there.filter_map(|(block, judged)| block.times_of(judged.version));
        let there = there.filter(|(_, durable_at)| Some(*durable_at) < last);
        let latest = there.map(|(issued_at, _)| issued_at).max();
        pairs()
            .map(|(block, judged)| match is_missing(judged) {
                true if latest > Some(block.floor_durable_at) => Some(DataFlaw::Hole),
                true => Some(DataFlaw::Lost),
                false => None,
            })
            .collect()
    }
}

/// The judgement of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LedgerBlockVerdict {
    /// Its contents are legal.
    Fine,
    /// A durable write is missing; the other blocks decide whether it is lost or a hole.
    Missing,
    /// A write of this campaign is there that the ledger does not list. It lists each before it is
    /// submitted, so it has lost entries since, and says nothing of this block.
    Unlisted,
    /// Anything else.
    Bad(DataFlaw),
}

/// A block, judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LedgerBlockCheck {
    pub(super) verdict: LedgerBlockVerdict,
    /// First bad sector, from the beginning of the block.
    pub(super) bad_at: u64,
    /// The version in all of it; 0: there is no such.
    pub(super) version: u64,
    /// A write that was not acknowledged is there in part, which is allowed.
    pub(super) is_legally_torn: bool,
}

impl LedgerBlockCheck {
    /// The check of a block that could not be read.
    pub(super) const UNREADABLE: LedgerBlockCheck = LedgerBlockCheck {
        verdict: LedgerBlockVerdict::Bad(DataFlaw::Unreadable),
        bad_at: 0,
        version: 0,
        is_legally_torn: false,
    };
}

/// Where a block is, and what belongs there.
pub(super) struct LedgerBlockLocation<'a> {
    pub(super) campaign: &'a LedgerHeader,
    pub(super) session: &'a LedgerSession,
    /// First byte of the block.
    pub(super) offset: u64,
    /// Bytes that a target promises to write all or not at all.
    pub(super) atomic_bytes: u32,
}

impl LedgerBlockLocation<'_> {
    /// The version in a sector; 0 when nothing of this campaign was written there.
    fn version(&self, offset: u64, sector: &[u8]) -> Result<u64, DataFlaw> {
        let stamp = match read_sector(sector) {
            DataCheckSectorState::Empty => return Ok(0),
            DataCheckSectorState::Garbage => return Err(DataFlaw::Wrong),
            DataCheckSectorState::Stamped(stamp) => stamp,
        };
        if stamp.run != self.campaign.id {
            return self.stranger(&stamp);
        }
        if stamp.target != self.session.target {
            return Err(DataFlaw::Foreign);
        }
        if stamp.offset != offset || stamp.file != self.session.file {
            let belongs_at = stamp.offset;
            return Err(DataFlaw::Misplaced { belongs_at });
        }
        Ok(stamp.version)
    }

    /// A block that another campaign wrote, before this one or during it.
    fn stranger(&self, stamp: &DataCheckStamp) -> Result<u64, DataFlaw> {
        match stamp.origin.intended_at >= self.campaign.began_at {
            true => Err(DataFlaw::Foreign),
            false => Ok(0),
        }
    }
}

impl LedgerBlockHistory {
    /// When a version began, and when it was durable or else began.
    fn times_of(&self, version: u64) -> Option<(Nanos, Nanos)> {
        if version == self.floor {
            return Some((self.floor_issued_at, self.floor_durable_at));
        }
        let write = self.write(version)?;
        Some((write.issued_at, write.issued_at))
    }

    fn write(&self, version: u64) -> Option<&Write> {
        self.above.iter().find(|write| write.version == version)
    }

    /// How a version that is not durable ended; `None`: it has not, or is unknown.
    pub(super) fn outcome_of(&self, version: u64) -> Option<LedgerCompletionStatus> {
        self.write(version)?.outcome
    }

    /// Whether a version may still come or be there: it was submitted and never answered.
    pub(super) fn is_indeterminate(&self, version: u64) -> bool {
        self.write(version).is_some_and(Write::is_indeterminate)
    }

    /// Whether there is such a write.
    pub(super) fn has_indeterminate(&self) -> bool {
        self.above.iter().any(Write::is_indeterminate)
    }

    fn knows(&self, version: u64) -> bool {
        version == self.floor || self.write(version).is_some()
    }

    /// Judges the bytes of the block.
    pub(super) fn judge(&self, place: &LedgerBlockLocation<'_>, bytes: &[u8]) -> LedgerBlockCheck {
        let mut judged = LedgerBlockCheck {
            verdict: LedgerBlockVerdict::Fine,
            bad_at: 0,
            version: 0,
            is_legally_torn: false,
        };
        let mut versions = Vec::with_capacity(bytes.len() / SECTOR_BYTES);
        let mut is_unlisted = false;
        for (sector, at) in bytes
            .chunks_exact(SECTOR_BYTES)
            .zip((0u64..).step_by(SECTOR_BYTES))
        {
            let version = place.version(place.offset + at, sector);
            match version {
                Ok(version) => {
                    is_unlisted |= version > self.floor && !self.knows(version);
                    versions.push(version);
                }
                Err(flaw) => {
                    (judged.verdict, judged.bad_at) = (LedgerBlockVerdict::Bad(flaw), at);
                    return judged;
                }
            }
        }
        if is_unlisted {
            judged.verdict = LedgerBlockVerdict::Unlisted;
            return judged;
        }
        self.together(place.atomic_bytes, &versions, judged)
    }

    /// The versions of all sectors, each of which may be there by itself or is too old.
    fn together(
        &self,
        atomic_bytes: u32,
        versions: &[u64],
        mut judged: LedgerBlockCheck,
    ) -> LedgerBlockCheck {
        let Some(first) = versions.first() else {
            return judged;
        };
        let old = versions.iter().position(|version| *version < self.floor);
        let all_old = versions.iter().all(|version| *version < self.floor);
        judged.bad_at = (old.unwrap_or(0) * SECTOR_BYTES) as u64;
        if versions.iter().all(|version| version == first) {
            judged.version = *first;
            if old.is_some() {
                judged.verdict = LedgerBlockVerdict::Missing;
            }
            return judged;
        }
        let unit = (atomic_bytes as usize / SECTOR_BYTES).max(1);
        let torn = |unit: &[u64]| unit.iter().any(|version| *version != unit[0]);
        let is_torn = versions.chunks(unit).any(torn);
        judged.verdict = match (all_old, old) {
            (true, _) => LedgerBlockVerdict::Missing,
            (false, Some(_)) => LedgerBlockVerdict::Bad(DataFlaw::Torn),
            (false, None) if is_torn => LedgerBlockVerdict::Bad(DataFlaw::Torn),
            (false, None) => LedgerBlockVerdict::Fine,
        };
        judged.is_legally_torn = judged.verdict == LedgerBlockVerdict::Fine;
        judged
    }
}

impl Write {
    fn is_indeterminate(&self) -> bool {
        matches!(self.outcome, None | Some(LedgerCompletionStatus::GivenUp))
    }
}
