// SPDX-License-Identifier: Apache-2.0
//! The ledger of acknowledged writes: what a client of storage was promised, entry by entry.
//!
//! It is appended to, away from the storage under test, before each write is submitted and before
//! each acknowledgement counts, so that whatever becomes of the storage and of the client, it can
//! be said what must be there. The format of the file is in [`codec`] and in `docs/ledger.md`.

mod codec;
mod cut;

pub use codec::{ENTRY_BYTES_MAX, LedgerDecodeResult, LedgerFormatError, decode, encode, entries};
pub use cut::{CutDisk, LedgerCertificate, LedgerCut};

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::data_check::{BadBlocks, DataCheckResult, DataFlaw};
use crate::format::FormatVersion;
use crate::op::OpKind;
use crate::outage::{OutageProbe, OutageProbeSession};
use crate::units::Nanos;

/// When an acknowledged write must survive whatever befalls the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LedgerDurability {
    /// At once (`O_DSYNC`).
    EachWrite,
    /// Once an fsync that began after its acknowledgement is acknowledged as well. Each session calls
    /// fsync after this number of writes.
    Fsync(u32),
    /// Never, but for what is made durable before the first and after the last probe.
    None,
}

impl LedgerDurability {
    /// Reads `dsync`, `fsync:N` or `none`.
    ///
    /// # Errors
    /// A sentence that names what was wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not dsync, fsync:N or none");
        match (text, text.strip_prefix("fsync:")) {
            ("dsync", _) => Ok(LedgerDurability::EachWrite),
            ("none", _) => Ok(LedgerDurability::None),
            (_, Some(count)) => match count.parse() {
                Ok(count) if count > 0 => Ok(LedgerDurability::Fsync(count)),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for LedgerDurability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LedgerDurability::EachWrite => f.write_str("dsync"),
            LedgerDurability::Fsync(count) => write!(f, "fsync:{count}"),
            LedgerDurability::None => f.write_str("none"),
        }
    }
}

/// Header of a ledger: its first entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerHeader {
    /// Of the file.
    pub format: FormatVersion,
    /// In every stamp: what has another is not of this campaign.
    pub id: u64,
    /// Time of day at the 0 of the clock that all times of the ledger are on, since 1970.
    pub began_at: Nanos,
    /// Bytes of a block: what is written and read at once.
    pub block_bytes: u32,
    /// When a write counts as durable.
    pub durability: LedgerDurability,
}

/// A storage system that is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerTarget {
    /// Its number in stamps.
    pub number: u32,
    /// Name that the user gave it.
    pub name: String,
}

/// A client that writes and reads, and the blocks that are its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerSession {
    /// Its number; sessions are entered in this order, from 0.
    pub number: u32,
    /// The target it writes to.
    pub target: u32,
    /// The file or device of the target, by its number in stamps.
    pub file: u32,
    /// Name of the file in the target's directory; empty: the target itself.
    pub name: String,
    /// First byte that is its own.
    pub offset: u64,
    /// Bytes from there.
    pub bytes: u64,
    /// Time between its writes; 0: it does not write.
    pub write_period: Nanos,
    /// Time between its reads; 0: it does not read.
    pub read_period: Nanos,
}

/// A write that is about to be submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerWriteIntent {
    /// Who writes.
    pub session: u32,
    /// Number of the operation in its session.
    pub op: u64,
    /// First byte.
    pub offset: u64,
    /// Whole blocks.
    pub len: u32,
    /// Version of all its blocks; grows with every write of a file.
    pub version: u64,
    /// When it is meant to start.
    pub intended_at: Nanos,
}

/// Outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerCompletionStatus {
    /// Acknowledged.
    Ok,
    /// Failed, with this number of the system. A write may be there nevertheless.
    Error(i32),
    /// Waited for no longer. A write may be there, or come later.
    GivenUp,
}

/// The end of a read, a write or a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerCompletion {
    /// Whose.
    pub session: u32,
    /// Number of the operation in its session.
    pub op: u64,
    /// A read, a write or an fsync.
    pub kind: OpKind,
    /// First byte of a read or a write.
    pub offset: u64,
    /// Of a write, its version.
    pub version: u64,
    /// When it was meant to start.
    pub intended_at: Nanos,
    /// When it was submitted.
    pub submitted_at: Nanos,
    /// When its end was seen.
    pub ended_at: Nanos,
    /// How it ended.
    pub outcome: LedgerCompletionStatus,
}

/// A bad block that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerBadBlock {
    /// Whose block it is.
    pub session: u32,
    /// Its first bad sector.
    pub offset: u64,
    /// Its flaw.
    pub flaw: DataFlaw,
}

/// Version that a check read, so that the next check knows when an older version is back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerObservation {
    /// Whose block it is.
    pub session: u32,
    /// First byte of the block.
    pub offset: u64,
    /// The version in all of it.
    pub version: u64,
}

/// A line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerEntry {
    /// The header.
    Campaign(LedgerHeader),
    /// A target.
    Target(LedgerTarget),
    /// A session.
    Session(LedgerSession),
    /// The probes are meant to start from the first time on, before the second.
    Probing(Nanos, Nanos),
    /// A session has opened its file or device; 0 is the first time.
    Opened {
        /// Whose.
        session: u32,
        /// How often it had been opened before.
        epoch: u32,
        /// When.
        at: Nanos,
    },
    /// A write is about to be submitted.
    Issued(LedgerWriteIntent),
    /// An operation has ended.
    Ended(LedgerCompletion),
    /// A bad block was found.
    Found(LedgerBadBlock),
    /// A check has read a block.
    Seen(LedgerObservation),
    /// The writer ended in good order.
    Closed {
        /// When.
        at: Nanos,
    },
}

/// Account of the work of a writer of a ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LedgerAccount {
    /// Clients that wrote and read.
    pub sessions: u32,
    /// Writes acknowledged, and in the ledger as such.
    pub writes: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Operations of any kind that failed.
    pub errors: u64,
    /// Operations that were waited for no longer.
    pub given_up: u64,
    /// How often a session had to open its file or device again.
    pub reopened: u64,
    /// Bad blocks read while it ran.
    pub bad: BadBlocks,
    /// Longest time that it took to make entries of the ledger durable: outages cannot be measured more
    /// exactly.
    pub ledger_sync_max: Nanos,
    /// Time for which this program was suspended: outages in it are its own.
    #[serde(default)]
    pub held_up: Nanos,
    /// Whether the user stopped it before its time.
    pub interrupted: bool,
}

impl fmt::Display for LedgerAccount {
    /// `1200 writes acknowledged, 1198 reads, 0 errors, 0 bad`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (writes, reads, errors, bad) = (self.writes, self.reads, self.errors, self.bad);
        write!(
            f,
            "{writes} writes acknowledged, {reads} reads, {errors} errors, {bad}"
        )?;
        if self.given_up > 0 {
            write!(f, "; {} never answered", self.given_up)?;
        }
        if self.reopened > 0 {
            write!(f, "; opened again {} times", self.reopened)?;
        }
        if self.held_up > Nanos(0) {
            write!(
                f,
                "; plimsoll itself was suspended for {}, which is no outage of the storage",
                self.held_up
            )?;
        }
        Ok(())
    }
}

/// Result of a check of everything in a ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LedgerCheck {
    /// Blocks read, and the bad ones among them.
    pub data: DataCheckResult,
    /// Blocks that hold a write which had ended with an error: allowed, and worth knowing.
    pub effects_after_error: u64,
    /// Blocks that hold a write which was neither acknowledged nor refused: allowed.
    pub indeterminate_present: u64,
    /// Blocks that do not hold such a write, although one was on its way: allowed.
    pub indeterminate_absent: u64,
    /// Unacknowledged writes that are there in part, in pieces no smaller than what is promised to
    /// be written at once: allowed.
    pub legally_torn: u64,
    /// Blocks that hold writes which the ledger does not list: it has lost entries, and does not say
    /// what belongs there.
    #[serde(default)]
    pub unlisted: u64,
    /// Bytes at the end of the ledger that are no whole entry: what was being appended when the
    /// writer was ended.
    pub unread_bytes: u64,
}

impl LedgerCheck {
    /// Whether nothing was wrong, and everything was read.
    pub fn passed(&self) -> bool {
        self.data.bad.total() == 0 && !self.data.interrupted && self.unlisted == 0
    }
}

impl fmt::Display for LedgerCheck {
    /// `12 blocks written, 9 read back, 0 bad`, and what is allowed but worth knowing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.data)?;
        for (count, what) in [
            (
                self.effects_after_error,
                "written although an error was returned",
            ),
            (self.indeterminate_present, "written and never answered"),
            (self.indeterminate_absent, "never answered and not written"),
            (self.legally_torn, "unacknowledged and there in part"),
        ] {
            if count > 0 {
                write!(f, "; {count} {what} (allowed)")?;
            }
        }
        if self.unread_bytes > 0 {
            write!(
                f,
                "; the last {} bytes of the ledger are not a whole entry",
                self.unread_bytes
            )?;
        }
        Ok(())
    }
}

/// A writer that was stopped by its user ends within this time.
const STOPPING: Nanos = Nanos(500_000_000);

/// The probes of a ledger, for [`crate::outage::OutageResult::of`]: once finished, with times that count
/// from the intended start of the first.
#[derive(Debug, Default)]
pub struct LedgerProbes {
    /// Who probed.
    pub sessions: Vec<OutageProbeSession>,
    /// Outcome of each probe that was submitted.
    pub probes: Vec<OutageProbe>,
    /// Intended start of the first probe, on the clock of the ledger.
    pub first_at: Nanos,
    /// Time in which probes were meant to start; 0 where the writer never got so far.
    pub length: Nanos,
    /// Latest end that was seen, on the clock of the ledger.
    last_at: Nanos,
    /// Writes that have not ended, by session and number.
    open: std::collections::BTreeMap<(u32, u64), Nanos>,
    closed_at: Option<Nanos>,
}

impl LedgerProbes {
    /// Takes the next entry of the ledger.
    pub fn take(&mut self, entry: &LedgerEntry) {
        match entry {
            LedgerEntry::Session(session) => self.sessions.push(OutageProbeSession {
                name: format!("session {}", session.number),
                write_period: Some(session.write_period).filter(|period| period.0 > 0),
                read_period: Some(session.read_period).filter(|period| period.0 > 0),
                reopened: 0,
            }),
            LedgerEntry::Probing(from, until) => {
                // Earlier writes filled the blocks and were no probes.
                (self.first_at, self.length) = (*from, until.since(*from));
                self.probes.clear();
                self.open.clear();
            }
            LedgerEntry::Opened { session, epoch, .. } => {
                if let Some(session) = self.sessions.get_mut(*session as usize) {
                    session.reopened = u64::from(*epoch);
                }
            }
            LedgerEntry::Issued(issued) => {
                let key = (issued.session, issued.op);
                self.open.insert(key, issued.intended_at);
            }
            LedgerEntry::Ended(ended) => self.ended(ended),
            LedgerEntry::Closed { at } => self.closed_at = Some(*at),
            LedgerEntry::Campaign(_)
            | LedgerEntry::Target(_)
            | LedgerEntry::Found(_)
            | LedgerEntry::Seen(_) => {}
        }
    }

    fn ended(&mut self, ended: &LedgerCompletion) {
        self.open.remove(&(ended.session, ended.op));
        self.last_at = self.last_at.max(ended.ended_at);
        let result = match ended.outcome {
            LedgerCompletionStatus::Ok => Some((ended.ended_at, Ok(()))),
            LedgerCompletionStatus::Error(errno) => Some((ended.ended_at, Err(errno))),
            LedgerCompletionStatus::GivenUp => None,
        };
        self.probes.push(OutageProbe {
            session: ended.session,
            kind: ended.kind,
            intended_at: ended.intended_at,
            ended: result,
        });
    }

    /// When no probe was meant to start any more, of a writer that may have ended before its time.
    /// One that was killed probed until the last end that it saw; so did one that was stopped, unless
    /// nothing had been answered for longer than it takes to stop.
    fn until(&self) -> Nanos {
        match self.closed_at {
            Some(at) if at.since(self.last_at) > STOPPING => at,
            _ => self.last_at,
        }
    }

    /// Completes the record after the last entry: writes that were submitted and never ended also become
    /// probes. Writes intended for a time after the writer stopped were not submitted and are left out.
    pub fn finish(&mut self) {
        for ((session, _), intended_at) in std::mem::take(&mut self.open) {
            if self.closed_at.is_some_and(|at| intended_at > at) {
                continue;
            }
            self.probes.push(OutageProbe {
                session,
                kind: OpKind::Write,
                intended_at,
                ended: None,
            });
        }
        let is_whole = self.closed_at >= Some(self.first_at + self.length);
        if !is_whole {
            self.length = self.length.min(self.until().since(self.first_at));
        }
        let first = self.first_at;
        for probe in &mut self.probes {
            probe.intended_at = probe.intended_at.since(first);
            probe.ended = probe.ended.map(|(at, result)| (at.since(first), result));
        }
    }
}

#[cfg(test)]
mod tests;
