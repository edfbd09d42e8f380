// SPDX-License-Identifier: Apache-2.0
//! Ledgers held against a disk that does wrong in a known way: each wrong is found and named, every
//! time, and a disk that does none is never blamed.

#[expect(dead_code, reason = "tests of the engine use the rest")]
#[path = "../../plimsoll-engine/tests/faulty/mod.rs"]
mod faulty;
#[path = "../../plimsoll-engine/tests/faulty/disk.rs"]
mod faulty_disk;

use std::io;
use std::sync::{Mutex, PoisonError};

use plimsoll_core::data_check::DataFlaw;
use plimsoll_core::ledger::{LedgerCheck, LedgerSession, LedgerTarget, entries};
use plimsoll_core::op::OpKind;
use plimsoll_core::outage::{OutageProbeWindow, OutageResult};

use super::book::LedgerSink;
use super::check::LedgerBlockReader;
use super::history::LedgerHistory;
use super::options::{DEPTH, FILL_BYTES};
use super::*;
use faulty::{FaultyEffect, FaultyEngine, FaultyRule, FaultySchedule, FaultyStall, FaultyTrigger};
use faulty_disk::{FaultyDisk, FaultyDiskOptions, FaultyPowerCut};
use plimsoll_core::rng::Seed;
use plimsoll_engine::clock::SimClock;
use plimsoll_engine::engine::IoEngine;
use plimsoll_engine::verify::DataCheckRegister;
use proptest::prelude::*;

const BLOCK: u32 = 4096;
const BLOCKS: u64 = 64;
const BYTES: u64 = BLOCKS * BLOCK as u64;
const SEEDS: u64 = 12;

/// A ledger in memory.
#[derive(Clone, Default)]
struct Pages(Arc<Mutex<Vec<u8>>>);

impl LedgerSink for Pages {
    fn append_durably(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.extend_from_slice(bytes);
        Ok(())
    }
}

/// One session on one disk, in virtual time.
struct Bench {
    disk: FaultyDisk,
    pages: Pages,
    campaign: LedgerHeader,
    target: u32,
    seed: Seed,
    clock: SimClock,
    bad: plimsoll_core::data_check::BadBlocks,
}

impl Bench {
    fn new(seed: u64, durability: LedgerDurability, manners: FaultyDiskOptions) -> Self {
        let seed = Seed(seed);
        Bench {
            disk: FaultyDisk::new(BYTES, manners, seed),
            pages: Pages::default(),
            campaign: LedgerHeader {
                format: FormatVersion::LEDGER,
                id: 77,
                began_at: Nanos(1 << 60),
                block_bytes: BLOCK,
                durability,
            },
            target: 0,
            seed,
            clock: SimClock::new(),
            bad: plimsoll_core::data_check::BadBlocks::default(),
        }
    }

    fn session(&self) -> LedgerSession {
        let period = Nanos(4_000_000);
        LedgerSession {
            number: 0,
            target: self.target,
            file: 0,
            name: String::new(),
            offset: 0,
            bytes: BYTES,
            write_period: period,
            read_period: period,
        }
    }

    fn book(&self) -> LedgerWriter {
        LedgerWriter::on(Box::new(self.pages.clone()), Path::new("pages"))
    }

    fn engine(&self, durable: bool, plan: &FaultySchedule) -> Box<dyn IoEngine> {
        let inner = self
            .disk
            .engine(self.clock.clone(), (DEPTH, FILL_BYTES), durable);
        let (clock, plan) = (self.clock.clone(), plan.clone());
        Box::new(FaultyEngine::new(Box::new(inner), clock, plan, self.seed))
    }

    /// Fills the disk, then probes it for some milliseconds while `plan` harms it.
    fn write(&mut self, plan: &FaultySchedule, milliseconds: u64) {
        let book = self.book();
        book.append(&LedgerEntry::Campaign(self.campaign));
        for number in 0..=self.target {
            let name = format!("disk {number}");
            book.append(&LedgerEntry::Target(LedgerTarget { number, name }));
        }
        book.append(&LedgerEntry::Session(self.session()));
        let known =
            DataCheckRegister::of(self.campaign.id, (self.target, 0), BYTES, BLOCK).unwrap();
        let (known, counters) = (Arc::new(known), Arc::default());
        let session = self.session();
        let mut prober = LedgerProber::new(&book, known, self.campaign, session, counters);
        self.carry_out(
            &mut prober,
            (false, &FaultySchedule::default()),
            Nanos::SECOND,
        );
        assert!(prober.is_finished(), "it is full");
        let from = self.clock.now();
        let until = from + Nanos(milliseconds * 1_000_000);
        book.append(&LedgerEntry::Probing(from, until));
        prober.probe(from, until);
        let durable = self.campaign.durability == LedgerDurability::EachWrite;
        self.carry_out(&mut prober, (durable, plan), until);
        book.append(&LedgerEntry::Closed {
            at: self.clock.now(),
        });
        book.sync().unwrap();
        self.bad = prober.bad();
    }

    fn carry_out(
        &self,
        prober: &mut LedgerProber<'_>,
        (durable, plan): (bool, &FaultySchedule),
        until: Nanos,
    ) {
        let stop = AtomicBool::new(false);
        let mut world = LedgerSessionContext {
            clock: &self.clock,
            open: &mut || Ok(self.engine(durable, plan)),
            pause: &mut |time| self.clock.advance_to(self.clock.now() + time),
            limits: DriverLimits::simulated(until),
            stop: &stop,
        };
        carry_out(prober, &mut world).unwrap();
    }

    fn history(&self) -> LedgerHistory {
        let pages = self.pages.0.lock().unwrap();
        let (mut history, mut whole) = (LedgerHistory::default(), 0);
        for (entry, len) in entries(&pages) {
            history.take(entry);
            whole += len;
        }
        assert_eq!(whole, pages.len(), "every entry is whole");
        history.whole().unwrap()
    }

    fn check(&self) -> LedgerCheck {
        self.check_with(None, LedgerCheckOptions::default())
    }

    fn check_with(&self, second: Option<&FaultyDisk>, options: LedgerCheckOptions) -> LedgerCheck {
        let history = self.history();
        let stop = AtomicBool::new(false);
        let reader = LedgerBlockReader {
            campaign: self.campaign,
            options,
            stop: &stop,
        };
        let book = self.book();
        let mut account = LedgerCheck::default();
        let past = &history.sessions[0];
        let read = |disk: &FaultyDisk| {
            let mut open = || -> Result<Box<dyn IoEngine>, EngineError> {
                let clock = self.clock.clone();
                Ok(Box::new(disk.engine(clock, (DEPTH, BLOCK), false)))
            };
            reader.read(&mut open, past).unwrap()
        };
        let first = read(&self.disk);
        reader.conclude(past, &first, &book, &mut account);
        if let Some(second) = second {
            reader.compare(past, &first, &read(second), &book, &mut account);
        }
        book.sync().unwrap();
        account
    }
}

fn harmed(kind: OpKind, when: FaultyTrigger, harm: FaultyEffect) -> FaultySchedule {
    FaultySchedule {
        rules: vec![FaultyRule { kind, when, harm }],
        ..FaultySchedule::default()
    }
}

/// Runs a bench for every seed, and wants the flaw to be found in each.
fn every_time(flaw: DataFlaw, bench: impl Fn(u64) -> LedgerCheck) {
    for seed in 0..SEEDS {
        let account = bench(seed);
        let found = account.data.bad.of(flaw);
        assert!(found > 0, "{} of seed {seed}: {account}", flaw.name());
        assert!(!account.passed());
    }
}

fn durability() -> impl Strategy<Value = LedgerDurability> {
    prop_oneof![
        Just(LedgerDurability::None),
        Just(LedgerDurability::EachWrite),
        (1..=16_u32).prop_map(LedgerDurability::Fsync),
    ]
}

fn power_cut() -> impl Strategy<Value = FaultyPowerCut> {
    let cuts = &[
        FaultyPowerCut::Lost,
        FaultyPowerCut::Reordered,
        FaultyPowerCut::Torn,
    ];
    prop::sample::select(&cuts[..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_clean_disk_is_never_blamed(
        durability in durability(),
        cut in power_cut(),
        milliseconds in 20..600_u64,
        seed: u64,
    ) {
        let manners = FaultyDiskOptions { cut, ..FaultyDiskOptions::default() };
        let mut bench = Bench::new(seed, durability, manners);
        bench.write(&FaultySchedule::default(), milliseconds);
        prop_assert_eq!(bench.bad.total(), 0);
        // An honest disk keeps its promises also when the power goes; twice.
        for is_cut in [false, true, true] {
            if is_cut {
                bench.disk.power_cut();
            }
            let account = bench.check();
            prop_assert!(account.passed(), "{}", account);
            prop_assert_eq!(account.data.checked, BLOCKS);
            prop_assert!(account.data.written > BLOCKS + milliseconds / 5, "{}", account);
        }
    }

    /// Every fsync of the probes fails, so none of their writes counts as durable when the power goes.
    #[test]
    fn a_clean_disk_whose_power_goes_in_the_middle_is_never_blamed(
        undurable in 1..=16_u32,
        cut in power_cut(),
        milliseconds in 20..100_u64,
        seed: u64,
    ) {
        let manners = FaultyDiskOptions { cut, ..FaultyDiskOptions::default() };
        let mut bench = Bench::new(seed, LedgerDurability::Fsync(undurable), manners);
        let dead = harmed(OpKind::Fsync, FaultyTrigger::Every(1), FaultyEffect::Errno(5));
        bench.write(&dead, milliseconds);
        bench.disk.power_cut();
        let account = bench.check();
        prop_assert!(account.passed(), "{}", account);
    }

    #[test]
    fn stale_reads_are_found_while_they_happen(share in 0.02..0.5_f64, seed: u64) {
        let manners = FaultyDiskOptions { stale_reads: share, ..FaultyDiskOptions::default() };
        let mut bench = Bench::new(seed, LedgerDurability::EachWrite, manners);
        bench.write(&FaultySchedule::default(), 500);
        let stale = bench.disk.n_stale();
        prop_assert!(stale > 0 || share < 0.1);
        prop_assert_eq!(bench.bad.of(DataFlaw::Stale), stale);
        prop_assert_eq!(bench.bad.total(), stale);
    }
}

#[test]
fn a_disk_that_lies_about_flushes_loses_its_tail() {
    for durability in [LedgerDurability::EachWrite, LedgerDurability::Fsync(4)] {
        every_time(DataFlaw::Lost, |seed| {
            let lying = FaultyDiskOptions {
                lies_about_flush: true,
                ..FaultyDiskOptions::default()
            };
            let mut bench = Bench::new(seed, durability, lying);
            bench.write(&FaultySchedule::default(), 300);
            assert_eq!(bench.bad.total(), 0, "caches are visible");
            assert!(bench.disk.power_cut() > 0);
            let account = bench.check();
            assert_eq!(account.data.bad.hole, 0, "{account}");
            account
        });
    }
}

#[test]
fn a_disk_that_reorders_leaves_holes() {
    every_time(DataFlaw::Hole, |seed| {
        let manners = FaultyDiskOptions {
            lies_about_flush: true,
            cut: FaultyPowerCut::Reordered,
            ..FaultyDiskOptions::default()
        };
        let mut bench = Bench::new(seed, LedgerDurability::EachWrite, manners);
        bench.write(&FaultySchedule::default(), 500);
        bench.disk.power_cut();
        bench.check()
    });
}

#[test]
fn a_dropped_write_is_lost() {
    // The last of 63 writes, and one of those before it.
    for nth in [63, 60] {
        every_time(DataFlaw::Lost, |seed| {
            let mut bench = Bench::new(
                seed,
                LedgerDurability::EachWrite,
                FaultyDiskOptions::default(),
            );
            bench.write(
                &harmed(OpKind::Write, FaultyTrigger::Nth(nth), FaultyEffect::Lost),
                250,
            );
            let account = bench.check();
            assert_eq!(account.data.bad.total(), 1, "{account}");
            account
        });
    }
}

#[test]
fn torn_misplaced_and_corrupt_writes_are_named() {
    let within_bytes = BYTES;
    for (harm, flaw) in [
        (FaultyEffect::Torn, DataFlaw::Torn),
        (
            FaultyEffect::Misplaced { within_bytes },
            DataFlaw::Misplaced { belongs_at: 0 },
        ),
        (FaultyEffect::Corrupt, DataFlaw::Wrong),
    ] {
        every_time(flaw, |seed| {
            let mut bench = Bench::new(
                seed,
                LedgerDurability::EachWrite,
                FaultyDiskOptions::default(),
            );
            bench.write(&harmed(OpKind::Write, FaultyTrigger::Every(7), harm), 300);
            bench.check()
        });
    }
}

#[test]
fn a_torn_write_is_allowed_where_it_was_not_acknowledged_and_no_more_is_promised() {
    let mut seen = 0;
    for seed in 0..SEEDS {
        let manners = FaultyDiskOptions {
            lies_about_flush: false,
            cut: FaultyPowerCut::Torn,
            ..FaultyDiskOptions::default()
        };
        let mut bench = Bench::new(seed, LedgerDurability::Fsync(1000), manners);
        let dead = harmed(
            OpKind::Fsync,
            FaultyTrigger::Every(1),
            FaultyEffect::Errno(5),
        );
        bench.write(&dead, 300);
        bench.disk.power_cut();
        let account = bench.check();
        assert!(account.passed(), "{account}");
        seen += account.legally_torn;
        // The same is a flaw of storage that promises to write blocks at once.
        let options = LedgerCheckOptions {
            atomic_bytes: BLOCK,
            ..LedgerCheckOptions::default()
        };
        let strict = bench.check_with(None, options);
        assert_eq!(strict.data.bad.torn, account.legally_torn, "{strict}");
    }
    assert!(seen > SEEDS * 10, "{seen}");
}

#[test]
fn an_old_version_that_comes_back_after_a_check_is_a_zombie() {
    every_time(DataFlaw::Zombie, |seed| {
        let mut bench = Bench::new(
            seed,
            LedgerDurability::EachWrite,
            FaultyDiskOptions::default(),
        );
        bench.write(&FaultySchedule::default(), 300);
        let first = bench.check();
        assert!(first.passed(), "{first}");
        let revived = bench.disk.revive(3);
        let second = bench.check();
        assert_eq!(second.data.bad.zombie, revived as u64);
        second
    });
}

#[test]
fn effects_after_errors_are_allowed_and_counted() {
    for seed in 0..SEEDS {
        let mut bench = Bench::new(
            seed,
            LedgerDurability::EachWrite,
            FaultyDiskOptions::default(),
        );
        let after = harmed(
            OpKind::Write,
            FaultyTrigger::Every(5),
            FaultyEffect::ErrnoAfter(5),
        );
        bench.write(&after, 300);
        let account = bench.check();
        assert!(account.passed(), "{account}");
        assert!(account.effects_after_error > 0 && account.data.errors > 10);
        let mut bench = Bench::new(
            seed,
            LedgerDurability::EachWrite,
            FaultyDiskOptions::default(),
        );
        bench.write(
            &harmed(
                OpKind::Write,
                FaultyTrigger::Every(5),
                FaultyEffect::Errno(5),
            ),
            300,
        );
        let account = bench.check();
        assert!(account.passed() && account.effects_after_error == 0);
        assert!(account.data.errors > 10);
    }
}

#[test]
fn a_copy_that_differs_has_diverged() {
    every_time(DataFlaw::Diverged, |seed| {
        let mut bench = Bench::new(
            seed,
            LedgerDurability::EachWrite,
            FaultyDiskOptions::default(),
        );
        bench.write(&FaultySchedule::default(), 300);
        let copy = bench.disk.replica(bench.seed);
        let alike = bench.check_with(Some(&copy), LedgerCheckOptions::default());
        assert!(alike.passed(), "{alike}");
        let old = copy.revive(4);
        let account = bench.check_with(Some(&copy), LedgerCheckOptions::default());
        assert_eq!(account.data.bad.diverged, old as u64, "{account}");
        account
    });
}

#[test]
fn what_another_tenant_wrote_is_foreign() {
    every_time(DataFlaw::Foreign, |seed| {
        let mut own = Bench::new(
            seed,
            LedgerDurability::EachWrite,
            FaultyDiskOptions::default(),
        );
        own.write(&FaultySchedule::default(), 300);
        let mut other = Bench::new(
            seed + 1,
            LedgerDurability::EachWrite,
            FaultyDiskOptions::default(),
        );
        // Another target of the same campaign, or another campaign that ran meanwhile.
        match seed % 2 {
            0 => other.target = 1,
            _ => other.campaign.id = 78,
        }
        other.write(&FaultySchedule::default(), 300);
        assert!(other.check().passed());
        own.disk
            .leak_from(&other.disk, seed * u64::from(BLOCK), BLOCK);
        own.check()
    });
}

#[test]
fn what_was_left_from_an_earlier_campaign_is_a_lost_write_and_not_foreign() {
    let mut own = Bench::new(1, LedgerDurability::EachWrite, FaultyDiskOptions::default());
    own.write(&FaultySchedule::default(), 300);
    let mut earlier = Bench::new(2, LedgerDurability::EachWrite, FaultyDiskOptions::default());
    earlier.campaign.id = 78;
    earlier.campaign.began_at = Nanos(1 << 50);
    earlier.write(&FaultySchedule::default(), 300);
    own.disk.leak_from(&earlier.disk, 8192, BLOCK);
    let account = own.check();
    assert_eq!((account.data.bad.total(), account.data.bad.lost), (1, 1));
}

#[test]
fn what_cannot_be_read_is_a_finding_however_much_it_is() {
    // More than a run goes on failing for.
    let bytes = 250 * u64::from(BLOCK);
    let mut bench = Bench::new(1, LedgerDurability::EachWrite, FaultyDiskOptions::default());
    bench.disk = FaultyDisk::new(bytes, FaultyDiskOptions::default(), bench.seed);
    let mut history = LedgerHistory::default();
    let session = LedgerSession {
        bytes,
        ..bench.session()
    };
    let target = LedgerTarget {
        number: 0,
        name: "disk".into(),
    };
    history.take(LedgerEntry::Campaign(bench.campaign));
    history.take(LedgerEntry::Target(target));
    history.take(LedgerEntry::Session(session));
    let past = &history.whole().unwrap().sessions[0];
    let stop = AtomicBool::new(false);
    let reader = LedgerBlockReader {
        campaign: bench.campaign,
        options: LedgerCheckOptions::default(),
        stop: &stop,
    };
    let broken = harmed(
        OpKind::Read,
        FaultyTrigger::Every(1),
        FaultyEffect::Errno(5),
    );
    let mut opened = 0;
    let mut open = || {
        opened += 1;
        Ok(bench.engine(false, &broken))
    };
    let read = reader.read(&mut open, past).unwrap();
    assert_eq!(opened, 3, "a hundred each time");
    let mut account = LedgerCheck::default();
    reader.conclude(past, &read, &bench.book(), &mut account);
    assert_eq!(account.data.bad.unreadable, 250);
    assert!(!account.data.interrupted, "nobody stopped it");
}

#[test]
fn an_outage_and_lost_sessions_are_read_from_the_ledger() {
    let stall = FaultyStall {
        from: Nanos(2 * Nanos::SECOND.0),
        length: Nanos(1_300_000_000),
    };
    let mut bench = Bench::new(3, LedgerDurability::EachWrite, FaultyDiskOptions::default());
    let plan = FaultySchedule {
        stalls: vec![stall],
        ..FaultySchedule::default()
    };
    bench.write(&plan, 5_000);
    assert!(bench.check().passed());
    let outage = bench.outage();
    for kind in [OpKind::Write, OpKind::Read] {
        let found = outage.worst(kind).unwrap();
        assert!(
            found.length.0.abs_diff(stall.length.0) < 10_000_000,
            "{outage}"
        );
    }
    assert!(outage.survived(), "{outage}");
    // Errors for a second: the session has to open again, and goes on.
    let mut bench = Bench::new(4, LedgerDurability::EachWrite, FaultyDiskOptions::default());
    let rules = [OpKind::Write, OpKind::Read].map(|kind| FaultyRule {
        kind,
        when: FaultyTrigger::Share(0.98),
        harm: FaultyEffect::Errno(5),
    });
    let plan = FaultySchedule {
        rules: rules.to_vec(),
        ..FaultySchedule::default()
    };
    bench.write(&plan, 3_000);
    let account = bench.check();
    assert!(account.passed(), "{account}");
    let outage = bench.outage();
    assert!(
        !outage.survived() && outage.sessions[0].reopened > 0,
        "{outage}"
    );
    assert!(outage.errors() > 500, "{outage}");
}

impl Bench {
    fn outage(&self) -> OutageResult {
        let pages = self.pages.0.lock().unwrap();
        let mut probes = LedgerProbes::default();
        entries(&pages).for_each(|(entry, _)| probes.take(&entry));
        probes.finish();
        let window = OutageProbeWindow {
            from: Nanos(0),
            until: probes.length,
            fault_at: None,
        };
        OutageResult::of(&probes.sessions, &probes.probes, window)
    }
}
