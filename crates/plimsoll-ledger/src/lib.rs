// SPDX-License-Identifier: Apache-2.0
//! The ledger of acknowledged writes: written under load and faults, checked afterwards.
//!
//! `write` probes storage at a steady rate and enters in the ledger, before each write and before
//! each acknowledgement counts, what it was promised; `check` reads everything back and says of
//! each block what became of it. What is legal to be found is in [`history`], what is found
//! otherwise has a name in [`plimsoll_core::data_check::DataFlaw`].
//!
//! Speed is not measured: the entries take time.
#![forbid(unsafe_code)]

mod book;
mod check;
mod history;
mod options;
mod prober;
mod seek;
mod session;
mod site;
#[cfg(test)]
mod tests;
mod witness;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;

use plimsoll_core::format::FormatVersion;
use plimsoll_core::ledger::{
    LedgerAccount, LedgerCompletionStatus, LedgerDurability, LedgerEntry, LedgerHeader,
    LedgerProbes,
};
use plimsoll_core::units::Nanos;

use book::LedgerWriter;
pub use check::check;
pub use options::{LedgerCheckOptions, LedgerWriteOptions};
use plimsoll_core::target::NodeTarget;
use plimsoll_engine::EngineError;
use plimsoll_engine::clock::RunClock;
use plimsoll_engine::drive::DriverLimits;
use plimsoll_engine::heartbeat::FreezeDetector;
use plimsoll_engine::sys::clock::nap;
use plimsoll_engine::sys::clock::{HostClock, steady_wall_clock};
use prober::{LedgerProber, LedgerSessionCounters};
pub use seek::seek;
use session::{LedgerSessionContext, carry_out};
use site::{LedgerOpenTarget, LedgerSessionTarget};
pub use witness::witness;

/// Filling the blocks stops here, full or not.
const FILL_MAX: Nanos = Nanos(600_000_000_000);

/// How often progress is reported.
const TELL: Nanos = Nanos(100_000_000);

/// Writes a new ledger at `path` while sessions probe the storage at `places`, each with the name
/// that reports give it. What is read is compared with the ledger meanwhile. `tell` gets what
/// has been done so far, and how many operations of each session ended well, ten times a second.
/// Failures of the storage do not end it. When it ends before the first probe nothing stays that was made,
/// so that the same can be tried again; a ledger that ends later says what was promised until then.
///
/// # Errors
/// When the options make no sense, the ledger exists or cannot be written, or the storage cannot
/// even be filled.
pub fn write(
    places: &[(NodeTarget, String)],
    path: &Path,
    options: &LedgerWriteOptions,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(LedgerAccount, &[u64]),
) -> Result<LedgerAccount, EngineError> {
    options.check()?;
    let sites = places
        .iter()
        .map(|(place, name)| LedgerOpenTarget::of(place, name));
    let sites = sites.collect::<Result<Vec<_>, _>>()?;
    for site in &sites {
        site.check(options)?;
    }
    let clock = HostClock::start();
    let campaign = LedgerHeader {
        format: FormatVersion::LEDGER,
        id: options.seed.derive("ledger", 0).0,
        began_at: steady_wall_clock().since(clock.now()),
        block_bytes: options.block_bytes,
        durability: options.durability,
    };
    let mut stations = Vec::new();
    for (number, site) in (0..).zip(&sites) {
        stations.extend(site.make(number, stations.len(), campaign.id, options)?);
    }
    let book = LedgerWriter::create(path, options.ledger_bytes(stations.len()))?;
    book.append(&LedgerEntry::Campaign(campaign));
    for (number, site) in (0..).zip(&sites) {
        book.append(&LedgerEntry::Target(site.target(number)));
    }
    for station in &stations {
        book.append(&LedgerEntry::Session(station.session.clone()));
    }
    book.sync()?;
    let desk = LedgerSharedState {
        clock,
        stop,
        counters: stations.iter().map(|_| Arc::default()).collect(),
        held_up_ns: AtomicU64::new(0),
    };
    let mut probers: Vec<LedgerProber<'_>> = stations
        .iter()
        .zip(&desk.counters)
        .map(|(station, counters)| {
            let (known, counters) = (Arc::clone(&station.known), Arc::clone(counters));
            LedgerProber::new(&book, known, campaign, station.session.clone(), counters)
        })
        .collect();
    desk.fill(&stations, &mut probers, options)?;
    let from = clock.now() + TELL;
    let until = from + options.length;
    book.append(&LedgerEntry::Probing(from, until));
    book.sync()?;
    book.keep();
    sites.iter().for_each(LedgerOpenTarget::keep);
    desk.counters.iter().for_each(|one| one.start());
    desk.held_up_ns.store(0, Ordering::Relaxed);
    for prober in &mut probers {
        prober.probe(from, until);
    }
    let opening = options.durability == LedgerDurability::EachWrite;
    let limits = DriverLimits::real(until);
    desk.all(&stations, &mut probers, (opening, limits), &mut |desk| {
        tell(desk.account(&book, &[]), &desk.done());
    })?;
    book.append(&LedgerEntry::Closed { at: clock.now() });
    book.sync()?;
    Ok(desk.account(&book, &probers))
}

/// State shared by all sessions.
struct LedgerSharedState<'a> {
    clock: HostClock,
    stop: &'a AtomicBool,
    /// Of each session.
    counters: Vec<Arc<LedgerSessionCounters>>,
    /// Time for which this program was suspended.
    held_up_ns: AtomicU64,
}

impl LedgerSessionCounters {
    /// Counts from here: filling the blocks is no probe.
    fn start(&self) {
        for counter in [&self.writes, &self.reads, &self.errors, &self.given_up] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

impl LedgerSharedState<'_> {
    fn fill(
        &self,
        stations: &[LedgerSessionTarget<'_>],
        probers: &mut [LedgerProber<'_>],
        options: &LedgerWriteOptions,
    ) -> Result<(), EngineError> {
        let limits = DriverLimits::real(self.clock.now() + FILL_MAX);
        self.all(stations, probers, (false, limits), &mut |_| {})?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(EngineError::Stopped("fill the blocks of the ledger".into()));
        }
        let errors = self.sum(|one| &one.errors);
        let is_full = probers.iter().all(LedgerProber::is_finished);
        if errors > 0 || !is_full {
            return Err(EngineError::Ledger(format!(
                "the {} bytes of each session could not be filled ({errors} errors): check the \
                 target before it is tested",
                options.bytes
            )));
        }
        Ok(())
    }

    /// Carries out what each session has to do, each on a thread of its own.
    fn all(
        &self,
        stations: &[LedgerSessionTarget<'_>],
        probers: &mut [LedgerProber<'_>],
        (durable, limits): (bool, DriverLimits<'_>),
        tell: &mut dyn FnMut(&Self),
    ) -> Result<(), EngineError> {
        std::thread::scope(|scope| {
            let work = stations.iter().zip(probers);
            let threads: Vec<ScopedJoinHandle<'_, Result<(), EngineError>>> = work
                .map(|(station, prober)| {
                    scope.spawn(move || self.one(station, prober, durable, limits))
                })
                .collect();
            // Each thread ends by its limits.
            let mut heart = FreezeDetector::begin();
            while !threads.iter().all(ScopedJoinHandle::is_finished) {
                heart.wait(TELL, || nap(TELL));
                tell(self);
            }
            let held_up = heart.held_up().0;
            self.held_up_ns.fetch_add(held_up, Ordering::Relaxed);
            threads.into_iter().try_for_each(|thread| {
                let ended = thread.join();
                ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })
    }

    fn one(
        &self,
        station: &LedgerSessionTarget<'_>,
        prober: &mut LedgerProber<'_>,
        durable: bool,
        limits: DriverLimits<'_>,
    ) -> Result<(), EngineError> {
        let mut world = LedgerSessionContext {
            clock: &self.clock,
            open: &mut || station.open(durable),
            pause: &mut |time| nap(time),
            limits,
            stop: self.stop,
        };
        carry_out(prober, &mut world)
    }

    fn sum(&self, counter: fn(&LedgerSessionCounters) -> &AtomicU64) -> u64 {
        let counters = self.counters.iter();
        counters
            .map(|one| counter(one).load(Ordering::Relaxed))
            .sum()
    }

    /// Operations of each session that ended well.
    fn done(&self) -> Vec<u64> {
        let of = |one: &Arc<LedgerSessionCounters>| {
            one.writes.load(Ordering::Relaxed) + one.reads.load(Ordering::Relaxed)
        };
        self.counters.iter().map(of).collect()
    }

    fn account(&self, book: &LedgerWriter, probers: &[LedgerProber<'_>]) -> LedgerAccount {
        let mut account = LedgerAccount {
            sessions: u32::try_from(self.counters.len()).unwrap_or(u32::MAX),
            writes: self.sum(|one| &one.writes),
            reads: self.sum(|one| &one.reads),
            errors: self.sum(|one| &one.errors),
            given_up: self.sum(|one| &one.given_up),
            reopened: self.sum(|one| &one.reopened),
            ledger_sync_max: book.sync_max(),
            held_up: Nanos(self.held_up_ns.load(Ordering::Relaxed)),
            interrupted: self.stop.load(Ordering::Relaxed),
            ..LedgerAccount::default()
        };
        for prober in probers {
            account.bad.merge(&prober.bad());
        }
        account
    }
}

/// The campaign of a ledger, and whether its writer or its storage was cut off: it did not end in good
/// order, or its last operation was not answered.
///
/// # Errors
/// When the file cannot be read, or is no ledger.
pub fn ending(path: &Path) -> Result<(LedgerHeader, bool), EngineError> {
    let (mut is_closed, mut is_answered) = (false, false);
    let (campaign, _) = book::read(path, |entry| match entry {
        LedgerEntry::Ended(ended) => is_answered = ended.outcome == LedgerCompletionStatus::Ok,
        LedgerEntry::Closed { .. } => is_closed = true,
        _ => {}
    })?;
    Ok((campaign, !(is_closed && is_answered)))
}

/// The probes in a ledger, for [`plimsoll_core::outage::OutageResult::of`], and the campaign.
///
/// # Errors
/// When the file cannot be read, or is no ledger.
pub fn probes(path: &Path) -> Result<(LedgerHeader, LedgerProbes), EngineError> {
    let mut probes = LedgerProbes::default();
    let (campaign, _) = book::read(path, |entry| probes.take(&entry))?;
    probes.finish();
    Ok((campaign, probes))
}
