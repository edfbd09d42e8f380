// SPDX-License-Identifier: Apache-2.0
//! The simplest observer of a failover: one line with the time, appended and synced, once a second.
//!
//! A person can read the file, and the ledger says which of its lines were acknowledged. The file is
//! opened for every line, as a shell does it that appends the output of `date`.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::data_check::{BadBlock, DataCheckResult, DataFlaw};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::ledger::{
    LedgerAccount, LedgerBadBlock, LedgerCheck, LedgerCompletion, LedgerCompletionStatus,
    LedgerDurability, LedgerEntry, LedgerHeader, LedgerSession, LedgerTarget, LedgerWriteIntent,
};
use plimsoll_core::num::to_usize;
use plimsoll_core::op::OpKind;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use rustix::fs::OFlags;

use super::book::{self, LedgerWriter, NewFile};
use super::options::{ENTRY_BYTES, LedgerCheckOptions, RESERVED_MAX};
use plimsoll_engine::EngineError;
use plimsoll_engine::clock::RunClock;
use plimsoll_engine::held::TargetHandle;
use plimsoll_engine::layout;
use plimsoll_engine::sys::clock::nap;
use plimsoll_engine::sys::clock::{HostClock, steady_wall_clock};

/// Bytes of a line, its end included. No block is so small: a ledger of such is of lines.
pub(super) const LINE_BYTES: u32 = 64;

/// Name of the file in the target's directory.
const FILE: &str = "plimsoll.stamps";

/// Longest sleep: how soon a stop is noticed.
const NAP_MAX: Nanos = Nanos(50_000_000);

/// The line that is written at a time.
fn line(campaign: &LedgerHeader, issued: &LedgerWriteIntent) -> String {
    let at = campaign.began_at + issued.intended_at;
    let (op, seconds, rest) = (issued.op, at.0 / Nanos::SECOND.0, at.0 % Nanos::SECOND.0);
    let text = format!("{op:10} {seconds:10}.{rest:09} {:016x}", campaign.id);
    let width = LINE_BYTES as usize - 1;
    format!("{text:width$}\n")
}

/// Writes a line every `every` into `plimsoll.stamps` in `directory`, for `length`, and what became of
/// each into a new ledger at `path`. `tell` gets the progress, after each.
///
/// # Errors
/// When the file or the ledger exists or cannot be made.
pub fn witness(
    directory: &Path,
    path: &Path,
    (every, length): (Nanos, Nanos),
    seed: Seed,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(LedgerAccount),
) -> Result<LedgerAccount, EngineError> {
    if every.0 == 0 {
        return Err(EngineError::Ledger(
            "expected a time above 0 between lines".into(),
        ));
    }
    let file = directory.join(FILE);
    let held = TargetHandle::directory(directory)?;
    let made = held.open(&file, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL);
    made.map_err(|e| EngineError::at("create", &file, e))?;
    let new = NewFile::of(held.clone(), &file);
    held.sync_names()?;
    let clock = HostClock::start();
    let campaign = LedgerHeader {
        format: FormatVersion::LEDGER,
        id: seed.derive("ledger", 0).0,
        began_at: steady_wall_clock().since(clock.now()),
        block_bytes: LINE_BYTES,
        durability: LedgerDurability::EachWrite,
    };
    let lines = length.0.div_ceil(every.0);
    let book = LedgerWriter::create(path, lines.saturating_mul(ENTRY_BYTES).min(RESERVED_MAX))?;
    let from = clock.now();
    for entry in head(directory, campaign, every, (from, from + length)) {
        book.append(&entry);
    }
    let mut account = LedgerAccount {
        sessions: 1,
        ..LedgerAccount::default()
    };
    for op in 0..lines {
        let issued = LedgerWriteIntent {
            session: 0,
            op,
            offset: op * u64::from(LINE_BYTES),
            len: LINE_BYTES,
            version: op + 1,
            intended_at: from + Nanos(op * every.0),
        };
        if !wait(&clock, issued.intended_at, stop) {
            account.interrupted = true;
            break;
        }
        book.append(&LedgerEntry::Issued(issued));
        book.sync()?;
        new.keep();
        book.keep();
        let submitted_at = clock.now();
        let outcome = match append(&file, &line(&campaign, &issued), issued.offset) {
            Ok(()) => LedgerCompletionStatus::Ok,
            Err(error) => LedgerCompletionStatus::Error(error.raw_os_error().unwrap_or(0)),
        };
        book.append(&LedgerEntry::Ended(ended(
            &issued,
            submitted_at,
            clock.now(),
            outcome,
        )));
        book.sync()?;
        match outcome {
            LedgerCompletionStatus::Ok => account.writes += 1,
            _ => account.errors += 1,
        }
        account.ledger_sync_max = book.sync_max();
        tell(account);
    }
    book.append(&LedgerEntry::Closed { at: clock.now() });
    book.sync()?;
    new.keep();
    book.keep();
    Ok(account)
}

fn head(
    directory: &Path,
    campaign: LedgerHeader,
    every: Nanos,
    (from, until): (Nanos, Nanos),
) -> [LedgerEntry; 5] {
    let session = LedgerSession {
        number: 0,
        target: 0,
        file: 0,
        name: FILE.into(),
        offset: 0,
        bytes: 0,
        write_period: every,
        // It never reads; the outage says so.
        read_period: Nanos(0),
    };
    [
        LedgerEntry::Campaign(campaign),
        LedgerEntry::Target(LedgerTarget {
            number: 0,
            name: directory.display().to_string(),
        }),
        LedgerEntry::Session(session),
        LedgerEntry::Probing(from, until),
        LedgerEntry::Opened {
            session: 0,
            epoch: 0,
            at: from,
        },
    ]
}

fn ended(
    issued: &LedgerWriteIntent,
    submitted_at: Nanos,
    ended_at: Nanos,
    outcome: LedgerCompletionStatus,
) -> LedgerCompletion {
    LedgerCompletion {
        session: 0,
        op: issued.op,
        kind: OpKind::Write,
        offset: issued.offset,
        version: issued.version,
        intended_at: issued.intended_at,
        submitted_at,
        ended_at,
        outcome,
    }
}

/// Whether the time came before a stop.
fn wait(clock: &HostClock, at: Nanos, stop: &AtomicBool) -> bool {
    // Ends when the time has come.
    while !stop.load(Ordering::Relaxed) {
        match at.since(clock.now()) {
            Nanos(0) => return true,
            left => nap(left.min(NAP_MAX)),
        }
    }
    false
}

/// In its own place, or a line that is there although an error was said would move all behind it.
fn append(path: &Path, line: &str, offset: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.write_all_at(line.as_bytes(), offset)?;
    file.sync_data()
}

/// Holds the lines that are there against the ledger at `path`.
pub(super) fn check(
    directory: &Path,
    path: &Path,
    options: LedgerCheckOptions,
) -> Result<LedgerCheck, EngineError> {
    let mut lines: BTreeMap<u64, (LedgerWriteIntent, Option<LedgerCompletionStatus>)> =
        BTreeMap::new();
    let (campaign, end) = book::read(path, |entry| match entry {
        LedgerEntry::Issued(issued) => {
            lines.insert(issued.op, (issued, None));
        }
        LedgerEntry::Ended(ended) => {
            if let Some((_, outcome)) = lines.get_mut(&ended.op) {
                *outcome = Some(ended.outcome);
            }
        }
        _ => {}
    })?;
    let file = directory.join(FILE);
    let read = TargetHandle::directory(directory)
        .and_then(|held| layout::go_cold(&held, &file))
        .and_then(|()| std::fs::read(&file).map_err(|e| EngineError::at("read", &file, e)));
    let bytes = match read {
        Err(error) if options.gone_is_lost && error.is_of_what_is_gone() => Vec::new(),
        read => read?,
    };
    let book = LedgerWriter::extend(path, end.whole_bytes)?;
    let mut account = LedgerCheck {
        unread_bytes: end.unread_bytes,
        ..LedgerCheck::default()
    };
    for (issued, outcome) in lines.values() {
        let from = to_usize(issued.offset);
        let found = bytes.get(from..).unwrap_or_default();
        let found = &found[..found.len().min(LINE_BYTES as usize)];
        let is_there = found == line(&campaign, issued).as_bytes();
        account.data.checked += 1;
        match outcome {
            Some(LedgerCompletionStatus::Ok) => account.data.written += 1,
            Some(LedgerCompletionStatus::Error(_)) => account.data.errors += 1,
            _ => {}
        }
        match (is_there, outcome) {
            (true, Some(LedgerCompletionStatus::Ok)) => {}
            (true, Some(LedgerCompletionStatus::Error(_))) => account.effects_after_error += 1,
            (true, _) => account.indeterminate_present += 1,
            (false, Some(LedgerCompletionStatus::Ok)) => {
                missing(issued, found, &book, &mut account.data);
            }
            (false, Some(LedgerCompletionStatus::Error(_))) => {}
            (false, _) => account.indeterminate_absent += 1,
        }
    }
    book.sync()?;
    Ok(account)
}

fn missing(
    issued: &LedgerWriteIntent,
    found: &[u8],
    book: &LedgerWriter,
    data: &mut DataCheckResult,
) {
    let is_empty = found.iter().all(|byte| *byte == 0);
    let flaw = if is_empty {
        DataFlaw::Lost
    } else {
        DataFlaw::Wrong
    };
    book.append(&LedgerEntry::Found(LedgerBadBlock {
        session: issued.session,
        offset: issued.offset,
        flaw,
    }));
    data.bad.count(flaw);
    if data.findings.len() < DataCheckResult::FINDINGS_MAX {
        data.findings.push(BadBlock {
            file: format!("{FILE} (line {})", issued.op + 1),
            offset: issued.offset,
            flaw,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn lines_that_were_acknowledged_and_are_gone_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (target, ledger) = (folder.path().join("t"), folder.path().join("l"));
        std::fs::create_dir(&target).unwrap();
        let stop = AtomicBool::new(false);
        let times = (Nanos(2_000_000), Nanos(40_000_000));
        let mut told = 0;
        let account = witness(&target, &ledger, times, Seed(1), &stop, &mut |_| told += 1).unwrap();
        assert_eq!((account.writes, account.errors, told), (20, 0, 20));
        let clean = check(&target, &ledger, LedgerCheckOptions::default()).unwrap();
        assert!(clean.passed() && clean.data.checked == 20, "{clean}");
        // The last three are cut off, and one is another.
        let file = OpenOptions::new()
            .write(true)
            .open(target.join(FILE))
            .unwrap();
        file.set_len(17 * u64::from(LINE_BYTES)).unwrap();
        file.write_all_at(b"x", 5 * u64::from(LINE_BYTES)).unwrap();
        drop(file);
        for _ in 0..2 {
            let bad = check(&target, &ledger, LedgerCheckOptions::default())
                .unwrap()
                .data;
            assert_eq!((bad.bad.total(), bad.bad.lost, bad.bad.wrong), (4, 3, 1));
            let words = bad.first_words(2);
            assert!(
                words.starts_with("wrong at byte 320 of plimsoll.stamps (line 6)"),
                "{words}"
            );
        }
        std::fs::remove_file(target.join(FILE)).unwrap();
        assert!(check(&target, &ledger, LedgerCheckOptions::default()).is_err());
        let options = LedgerCheckOptions {
            gone_is_lost: true,
            ..LedgerCheckOptions::default()
        };
        let gone = check(&target, &ledger, options).unwrap().data;
        assert_eq!(gone.bad.lost, 20, "all of it");
        File::create(target.join(FILE)).unwrap();
        let again = witness(&target, &ledger, times, Seed(1), &stop, &mut |_| {});
        assert!(again.is_err(), "nothing is written over");
    }
}
