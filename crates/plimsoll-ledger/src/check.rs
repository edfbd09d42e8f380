// SPDX-License-Identifier: Apache-2.0
//! Reads back everything that a ledger promises, and says of each block what became of it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::data_check::{BadBlock, DataCheckResult, DataFlaw};
use plimsoll_core::ledger::{
    LedgerBadBlock, LedgerCheck, LedgerCompletionStatus, LedgerEntry, LedgerHeader,
    LedgerObservation, LedgerSession,
};
use plimsoll_core::num::to_usize;
use plimsoll_core::op::{OpKind, OpRequest, OpSample};
use plimsoll_core::units::Nanos;

use super::book::{self, LedgerWriter};
use super::history::{
    LedgerBlockCheck, LedgerBlockHistory, LedgerBlockLocation, LedgerBlockVerdict, LedgerHistory,
    LedgerSessionHistory,
};
use super::options::LedgerCheckOptions;
use super::site::LedgerOpenTarget;
use super::witness;
use plimsoll_core::target::NodeTarget;
use plimsoll_engine::EngineError;
use plimsoll_engine::clock::RunClock;
use plimsoll_engine::drive::{DriverLimits, drive};
use plimsoll_engine::engine::IoEngine;
use plimsoll_engine::recorder::SampleRecorder;
use plimsoll_engine::source::{NextRequest, RequestSource};
use plimsoll_engine::sys::clock::HostClock;
use plimsoll_engine::verify::SECTOR_BYTES;

/// Longest time of one pass over the unread blocks. After a pass that reads none, the rest is unreadable.
const PATIENCE: Nanos = Nanos(120_000_000_000);

/// Reads back what the ledger at `path` promises, from `places` in the order of its targets. With
/// `second`, the same is read there, another way to the same storage: a second client, mount, path
/// or copy. What is found is appended to the ledger, so that the next check knows what was there.
///
/// # Errors
/// When the ledger cannot be read or appended to, is damaged or still being written, the places are
/// not as many as its targets, or a target cannot be opened. Bad blocks are not an error but in the
/// account.
pub fn check(
    places: &[(NodeTarget, String)],
    second: &[(NodeTarget, String)],
    path: &Path,
    options: LedgerCheckOptions,
    stop: &AtomicBool,
) -> Result<LedgerCheck, EngineError> {
    let mut history = LedgerHistory::default();
    let (campaign, end) = book::read(path, |entry| history.take(entry))?;
    if campaign.block_bytes == witness::LINE_BYTES {
        return match (places, second) {
            (
                [
                    (
                        NodeTarget::Directory {
                            path: directory, ..
                        },
                        _,
                    ),
                ],
                [],
            ) => witness::check(directory, path, options),
            _ => Err(EngineError::Ledger(
                "it is a ledger of stamped lines: name only the directory that holds them".into(),
            )),
        };
    }
    let history = history.whole()?;
    let book = LedgerWriter::extend(path, end.whole_bytes)?;
    let mut account = LedgerCheck {
        unread_bytes: end.unread_bytes,
        ..LedgerCheck::default()
    };
    let sites = sites_of(places, &history)?;
    let others = match second {
        [] => Vec::new(),
        _ => sites_of(second, &history)?,
    };
    let reader = LedgerBlockReader {
        campaign,
        options,
        stop,
    };
    if history.sessions.is_empty() {
        return Err(cut_off(path, "it has no session"));
    }
    for past in &history.sessions {
        let target = past.session.target as usize;
        let read = |site: &LedgerOpenTarget| {
            reader.read(
                &mut || site.open_again(&past.session, campaign.block_bytes),
                past,
            )
        };
        let first = read(&sites[target])?;
        reader.conclude(past, &first, &book, &mut account);
        if let Some(other) = others.get(target) {
            reader.compare(past, &first, &read(other)?, &book, &mut account);
        }
    }
    if account.unlisted > 0 {
        let blocks = account.unlisted;
        return Err(cut_off(
            path,
            &format!("{blocks} blocks hold writes that it does not list"),
        ));
    }
    book.sync()?;
    Ok(account)
}

fn cut_off(path: &Path, seen: &str) -> EngineError {
    EngineError::LedgerDamaged(format!(
        "the ledger '{}' was cut off, or is an older copy of itself: {seen}",
        path.display()
    ))
}

fn sites_of(
    places: &[(NodeTarget, String)],
    history: &LedgerHistory,
) -> Result<Vec<LedgerOpenTarget>, EngineError> {
    if places.len() != history.targets.len() {
        let names: Vec<&str> = history.targets.iter().map(|t| t.name.as_str()).collect();
        return Err(EngineError::Ledger(format!(
            "the ledger is of {} targets ({}), and {} are given: name each, in this order",
            names.len(),
            names.join(", "),
            places.len()
        )));
    }
    places
        .iter()
        .map(|(place, name)| LedgerOpenTarget::of(place, name))
        .collect()
}

/// Reads and judges.
pub(super) struct LedgerBlockReader<'a> {
    pub(super) campaign: LedgerHeader,
    pub(super) options: LedgerCheckOptions,
    pub(super) stop: &'a AtomicBool,
}

/// A check per block of a session; `None`: not read.
pub(super) type LedgerSessionChecks = Vec<Option<LedgerBlockCheck>>;

impl LedgerBlockReader<'_> {
    /// Reads all blocks of a session, several at a time, for as long as any are read, of a file that is
    /// opened by `open`.
    pub(super) fn read(
        &self,
        open: &mut dyn FnMut() -> Result<Box<dyn IoEngine>, EngineError>,
        past: &LedgerSessionHistory,
    ) -> Result<LedgerSessionChecks, EngineError> {
        let mut sweep = LedgerReadSweep {
            campaign: &self.campaign,
            session: &past.session,
            atomic_bytes: self.options.atomic_bytes,
            blocks: &past.blocks,
            next: 0,
            judged: vec![None; past.blocks.len()],
        };
        let mut engine = match open() {
            Err(error) if self.options.gone_is_lost && error.is_of_what_is_gone() => {
                return Ok(vec![Some(LedgerBlockCheck::UNREADABLE); past.blocks.len()]);
            }
            opened => opened?,
        };
        // Ends when a pass reads no block.
        loop {
            let left = sweep.left();
            self.pass(engine.as_mut(), &mut sweep)?;
            if sweep.left() == 0 || self.is_stopped() {
                return Ok(sweep.judged);
            }
            // Requests still in flight would disturb the next session.
            drop(engine);
            engine = match open() {
                Ok(again) if sweep.left() < left => again,
                // It was there before: that the rest cannot be read is a finding.
                _ => return Ok(sweep.given_up()),
            };
        }
    }

    /// Reads what has not been read yet, until all is, or for [`PATIENCE`].
    fn pass(
        &self,
        engine: &mut dyn IoEngine,
        sweep: &mut LedgerReadSweep<'_>,
    ) -> Result<(), EngineError> {
        let clock = HostClock::start();
        let mut recorder = SampleRecorder::new(Nanos::MAX, ());
        let limits = DriverLimits::real(clock.now() + PATIENCE);
        sweep.next = 0;
        match drive(engine, &clock, sweep, &mut recorder, limits, self.stop) {
            // A file without a readable block is a finding, not an error.
            Ok(_) | Err(EngineError::AllFailed { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Counts what was found, and enters it.
    pub(super) fn conclude(
        &self,
        past: &LedgerSessionHistory,
        read: &LedgerSessionChecks,
        book: &LedgerWriter,
        account: &mut LedgerCheck,
    ) {
        let session = &past.session;
        account.data.written += past.written;
        account.data.errors += past.errors;
        let unread = read.iter().filter(|judged| judged.is_none()).count();
        account.data.interrupted |= unread > 0 || self.is_stopped();
        let judged = read
            .iter()
            .map(|one| one.unwrap_or(LedgerBlockCheck::UNREADABLE));
        let judged: Vec<LedgerBlockCheck> = judged.collect();
        let missing = past.missing(&judged);
        let size = u64::from(self.campaign.block_bytes);
        let offsets = (session.offset..).step_by(to_usize(size));
        for (((block, judged), missing), offset) in
            past.blocks.iter().zip(read).zip(missing).zip(offsets)
        {
            let Some(judged) = judged else {
                continue;
            };
            account.data.checked += 1;
            let is_zombie = judged.version < block.seen
                && matches!(
                    judged.verdict,
                    LedgerBlockVerdict::Fine | LedgerBlockVerdict::Missing
                )
                && !judged.is_legally_torn;
            let flaw = match judged.verdict {
                _ if is_zombie => Some(DataFlaw::Zombie),
                LedgerBlockVerdict::Bad(flaw) => Some(flaw),
                LedgerBlockVerdict::Missing => missing,
                LedgerBlockVerdict::Fine => None,
                LedgerBlockVerdict::Unlisted => {
                    account.unlisted += 1;
                    None
                }
            };
            if let Some(flaw) = flaw {
                let at = offset + judged.bad_at;
                found(past, at, flaw, book, &mut account.data);
            }
            allowed(block, judged, account);
            if judged.version > block.seen {
                book.append(&LedgerEntry::Seen(LedgerObservation {
                    session: session.number,
                    offset,
                    version: judged.version,
                }));
            }
        }
    }

    /// Holds another reading of the same blocks against the first.
    pub(super) fn compare(
        &self,
        past: &LedgerSessionHistory,
        first: &LedgerSessionChecks,
        second: &LedgerSessionChecks,
        book: &LedgerWriter,
        account: &mut LedgerCheck,
    ) {
        let size = to_usize(self.campaign.block_bytes.into());
        let offsets = (past.session.offset..).step_by(size);
        for ((first, second), offset) in first.iter().zip(second).zip(offsets) {
            let (Some(first), Some(second)) = (first, second) else {
                account.data.interrupted = true;
                continue;
            };
            account.data.checked += 1;
            let flaw = match second.verdict {
                LedgerBlockVerdict::Bad(flaw) if second.verdict != first.verdict => flaw,
                _ if first == second => continue,
                _ => DataFlaw::Diverged,
            };
            found(past, offset + second.bad_at, flaw, book, &mut account.data);
        }
    }
}

fn found(
    past: &LedgerSessionHistory,
    offset: u64,
    flaw: DataFlaw,
    book: &LedgerWriter,
    data: &mut DataCheckResult,
) {
    book.append(&LedgerEntry::Found(LedgerBadBlock {
        session: past.session.number,
        offset,
        flaw,
    }));
    data.bad.count(flaw);
    if data.findings.len() < DataCheckResult::FINDINGS_MAX {
        data.findings.push(BadBlock {
            file: past.file.clone(),
            offset,
            flaw,
        });
    }
}

/// Counts what is allowed and worth knowing.
fn allowed(block: &LedgerBlockHistory, judged: &LedgerBlockCheck, account: &mut LedgerCheck) {
    if judged.verdict != LedgerBlockVerdict::Fine {
        return;
    }
    account.legally_torn += u64::from(judged.is_legally_torn);
    match block.outcome_of(judged.version) {
        Some(LedgerCompletionStatus::Error(_)) => account.effects_after_error += 1,
        _ if block.is_indeterminate(judged.version) => account.indeterminate_present += 1,
        _ if block.has_indeterminate() => account.indeterminate_absent += 1,
        _ => {}
    }
}

/// Reads each block once.
struct LedgerReadSweep<'a> {
    campaign: &'a LedgerHeader,
    session: &'a LedgerSession,
    atomic_bytes: u32,
    blocks: &'a [LedgerBlockHistory],
    next: usize,
    judged: LedgerSessionChecks,
}

impl LedgerReadSweep<'_> {
    fn size(&self) -> u64 {
        u64::from(self.campaign.block_bytes)
    }

    fn number(&self, offset: u64) -> usize {
        to_usize((offset - self.session.offset) / self.size())
    }

    /// Blocks that have not been read.
    fn left(&self) -> usize {
        self.judged.iter().filter(|one| one.is_none()).count()
    }

    /// The blocks read so far, when no more can be read.
    fn given_up(self) -> LedgerSessionChecks {
        let judged = self.judged.into_iter();
        judged
            .map(|one| one.or(Some(LedgerBlockCheck::UNREADABLE)))
            .collect()
    }
}

impl RequestSource for LedgerReadSweep<'_> {
    const CHECKS: bool = true;

    fn next(&mut self, now: Nanos, _: u32) -> Result<NextRequest, EngineError> {
        while self.judged.get(self.next).is_some_and(Option::is_some) {
            self.next += 1;
        }
        if self.next == self.blocks.len() {
            return Ok(NextRequest::End);
        }
        let offset = self.session.offset + self.next as u64 * self.size();
        self.next += 1;
        Ok(NextRequest::Request(OpRequest {
            kind: OpKind::Read,
            file: 0,
            offset,
            len: self.campaign.block_bytes,
            intended_at: now,
        }))
    }

    fn check(&mut self, _: u32, sample: &OpSample, buffer: &[u8]) {
        let offset = sample.request.offset;
        let number = self.number(offset);
        let bytes = &buffer[..sample.request.len as usize];
        debug_assert!(bytes.len().is_multiple_of(SECTOR_BYTES));
        let place = LedgerBlockLocation {
            campaign: self.campaign,
            session: self.session,
            offset,
            atomic_bytes: self.atomic_bytes,
        };
        self.judged[number] = Some(match sample.result {
            Ok(_) => self.blocks[number].judge(&place, bytes),
            Err(_) => LedgerBlockCheck::UNREADABLE,
        });
    }

    fn completed(&mut self, _: u32, _: &OpSample) {}
}
