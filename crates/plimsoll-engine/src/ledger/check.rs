// SPDX-License-Identifier: Apache-2.0
//! Reads back everything that a ledger promises, and says of each block what became of it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::data_check::{BadBlock, DataCheckResult, Flaw};
use plimsoll_core::ledger::{Campaign, Entry, Found, LedgerCheck, Outcome, Seen, Session};
use plimsoll_core::num::to_usize;
use plimsoll_core::op::{Kind, Request, Sample};
use plimsoll_core::units::Nanos;

use super::book::{self, Book};
use super::history::{Block, History, Judged, Past, Place as BlockPlace, Verdict};
use super::site::Site;
use super::witness;
use crate::clock::Clock;
use crate::drive::{Limits, drive};
use crate::engine::Engine;
use crate::error::Error;
use crate::ground::Place;
use crate::recorder::Recorder;
use crate::source::{Next, Source};
use crate::sys::clock::HostClock;
use crate::verify::SECTOR_BYTES;

/// When nothing could be read for so long, what is left cannot be read.
const PATIENCE: Nanos = Nanos(120_000_000_000);

/// How what was read is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckOptions {
    /// Bytes that the storage promises to write at once: a power of two, at least 512. A write that
    /// was not acknowledged may be there in pieces of this size.
    pub atomic_bytes: u32,
    /// Whether files that are not there any more were lost with all that is in them. Else that is an
    /// error: they may be elsewhere.
    pub gone_is_lost: bool,
}

impl Default for CheckOptions {
    /// A sector: nothing more is promised.
    fn default() -> Self {
        CheckOptions {
            atomic_bytes: 512,
            gone_is_lost: false,
        }
    }
}

/// Reads back what the ledger at `path` promises, from `places` in the order of its targets. With
/// `second`, the same is read there, another way to the same storage: a second client, mount, path
/// or copy. What is found is appended to the ledger, so that the next check knows what was there.
///
/// # Errors
/// When the ledger cannot be read or appended to, is damaged or still being written, the places are
/// not as many as its targets, or a target cannot be opened. Bad blocks are not an error but in the
/// account.
pub fn check(
    places: &[(Place<'_>, String)],
    second: &[(Place<'_>, String)],
    path: &Path,
    options: CheckOptions,
    stop: &AtomicBool,
) -> Result<LedgerCheck, Error> {
    let mut history = History::default();
    let (campaign, end) = book::read(path, |entry| history.take(entry))?;
    if campaign.block_bytes == witness::LINE_BYTES {
        return match (places, second) {
            (
                [
                    (
                        Place::Directory {
                            path: directory, ..
                        },
                        _,
                    ),
                ],
                [],
            ) => witness::check(directory, path, options),
            _ => Err(Error::Ledger(
                "it is of lines in one directory: name that, and nothing else".into(),
            )),
        };
    }
    let history = history.whole()?;
    let book = Book::extend(path, end.whole_bytes)?;
    let mut account = LedgerCheck {
        unread_bytes: end.unread_bytes,
        ..LedgerCheck::default()
    };
    let sites = sites_of(places, &history)?;
    let others = match second {
        [] => Vec::new(),
        _ => sites_of(second, &history)?,
    };
    let reader = Reader {
        campaign,
        options,
        stop,
    };
    if history.sessions.is_empty() {
        return Err(cut_off(path, "it has no session"));
    }
    for past in &history.sessions {
        let target = past.session.target as usize;
        let read = |site: &Site| {
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

fn cut_off(path: &Path, seen: &str) -> Error {
    Error::LedgerDamaged(format!(
        "the ledger '{}' was cut off, or is an older copy of itself: {seen}",
        path.display()
    ))
}

fn sites_of(places: &[(Place<'_>, String)], history: &History) -> Result<Vec<Site>, Error> {
    if places.len() != history.targets.len() {
        let names: Vec<&str> = history.targets.iter().map(|t| t.name.as_str()).collect();
        return Err(Error::Ledger(format!(
            "the ledger is of {} targets ({}), and {} are given: name each, in this order",
            names.len(),
            names.join(", "),
            places.len()
        )));
    }
    places
        .iter()
        .map(|(place, name)| Site::of(*place, name))
        .collect()
}

/// Reads and judges.
pub(super) struct Reader<'a> {
    pub(super) campaign: Campaign,
    pub(super) options: CheckOptions,
    pub(super) stop: &'a AtomicBool,
}

/// What was read of a session's blocks; `None`: not read.
pub(super) type Read = Vec<Option<Judged>>;

impl Reader<'_> {
    /// Reads all blocks of a session, several at a time, for as long as any are read, of a file that is
    /// opened by `open`.
    pub(super) fn read(
        &self,
        open: &mut dyn FnMut() -> Result<Box<dyn Engine>, Error>,
        past: &Past,
    ) -> Result<Read, Error> {
        let mut sweep = Sweep {
            campaign: &self.campaign,
            session: &past.session,
            atomic_bytes: self.options.atomic_bytes,
            blocks: &past.blocks,
            next: 0,
            judged: vec![None; past.blocks.len()],
        };
        let mut engine = match open() {
            Err(error) if self.options.gone_is_lost && error.is_of_what_is_gone() => {
                return Ok(vec![Some(Judged::UNREADABLE); past.blocks.len()]);
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
            // What it still has in flight would get into the way of the next one.
            drop(engine);
            engine = match open() {
                Ok(again) if sweep.left() < left => again,
                // It was there before: that the rest cannot be read is a finding.
                _ => return Ok(sweep.given_up()),
            };
        }
    }

    /// Reads what has not been read yet, until all is, or for [`PATIENCE`].
    fn pass(&self, engine: &mut dyn Engine, sweep: &mut Sweep<'_>) -> Result<(), Error> {
        let clock = HostClock::start();
        let mut recorder = Recorder::new(Nanos::MAX, ());
        let limits = Limits::real(clock.now() + PATIENCE);
        sweep.next = 0;
        match drive(engine, &clock, sweep, &mut recorder, limits, self.stop) {
            // That nothing can be read is a finding, too.
            Ok(_) | Err(Error::AllFailed { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Counts what was found, and enters it.
    pub(super) fn conclude(
        &self,
        past: &Past,
        read: &Read,
        book: &Book,
        account: &mut LedgerCheck,
    ) {
        let session = &past.session;
        account.data.written += past.written;
        account.data.errors += past.errors;
        let unread = read.iter().filter(|judged| judged.is_none()).count();
        account.data.interrupted |= unread > 0 || self.is_stopped();
        let judged = read.iter().map(|one| one.unwrap_or(Judged::UNREADABLE));
        let judged: Vec<Judged> = judged.collect();
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
                && matches!(judged.verdict, Verdict::Fine | Verdict::Missing)
                && !judged.is_legally_torn;
            let flaw = match judged.verdict {
                _ if is_zombie => Some(Flaw::Zombie),
                Verdict::Bad(flaw) => Some(flaw),
                Verdict::Missing => missing,
                Verdict::Fine => None,
                Verdict::Unlisted => {
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
                book.append(&Entry::Seen(Seen {
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
        past: &Past,
        first: &Read,
        second: &Read,
        book: &Book,
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
                Verdict::Bad(flaw) if second.verdict != first.verdict => flaw,
                _ if first == second => continue,
                _ => Flaw::Diverged,
            };
            found(past, offset + second.bad_at, flaw, book, &mut account.data);
        }
    }
}

fn found(past: &Past, offset: u64, flaw: Flaw, book: &Book, data: &mut DataCheckResult) {
    book.append(&Entry::Found(Found {
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
fn allowed(block: &Block, judged: &Judged, account: &mut LedgerCheck) {
    if judged.verdict != Verdict::Fine {
        return;
    }
    account.legally_torn += u64::from(judged.is_legally_torn);
    match block.outcome_of(judged.version) {
        Some(Outcome::Error(_)) => account.effects_after_error += 1,
        _ if block.is_indeterminate(judged.version) => account.indeterminate_present += 1,
        _ if block.has_indeterminate() => account.indeterminate_absent += 1,
        _ => {}
    }
}

/// Reads each block once.
struct Sweep<'a> {
    campaign: &'a Campaign,
    session: &'a Session,
    atomic_bytes: u32,
    blocks: &'a [Block],
    next: usize,
    judged: Read,
}

impl Sweep<'_> {
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

    /// What was read, when no more can be.
    fn given_up(self) -> Read {
        let judged = self.judged.into_iter();
        judged.map(|one| one.or(Some(Judged::UNREADABLE))).collect()
    }
}

impl Source for Sweep<'_> {
    const CHECKS: bool = true;

    fn next(&mut self, now: Nanos, _: u32) -> Result<Next, Error> {
        while self.judged.get(self.next).is_some_and(Option::is_some) {
            self.next += 1;
        }
        if self.next == self.blocks.len() {
            return Ok(Next::End);
        }
        let offset = self.session.offset + self.next as u64 * self.size();
        self.next += 1;
        Ok(Next::Request(Request {
            kind: Kind::Read,
            file: 0,
            offset,
            len: self.campaign.block_bytes,
            intended_at: now,
        }))
    }

    fn check(&mut self, _: u32, sample: &Sample, buffer: &[u8]) {
        let offset = sample.request.offset;
        let number = self.number(offset);
        let bytes = &buffer[..sample.request.len as usize];
        debug_assert!(bytes.len().is_multiple_of(SECTOR_BYTES));
        let place = BlockPlace {
            campaign: self.campaign,
            session: self.session,
            offset,
            atomic_bytes: self.atomic_bytes,
        };
        self.judged[number] = Some(match sample.result {
            Ok(_) => self.blocks[number].judge(&place, bytes),
            Err(_) => Judged::UNREADABLE,
        });
    }

    fn completed(&mut self, _: u32, _: &Sample) {}
}
