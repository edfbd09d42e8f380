// SPDX-License-Identifier: Apache-2.0
//! Workloads whose data are verified, on targets that lie in a known way and on one that does not.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::op::{Kind, Request, Sample};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_engine::drive::{Limits, drive};
use plimsoll_engine::engine::Engine;
use plimsoll_engine::faulty::{Faulty, Harm, Plan, Rule, When};
use plimsoll_engine::pool::Pool;
use plimsoll_engine::recorder::Recorder;
use plimsoll_engine::source::{Next, Source};
use plimsoll_engine::sync::Sync;
use plimsoll_engine::sys::clock::HostClock;
use plimsoll_engine::target::Target;
use plimsoll_engine::{Checked, Flaw, Register, VerifyReport, read_back};

const LEN: u32 = 4096;
const BLOCKS: u64 = 256;
const BYTES: u64 = BLOCKS * LEN as u64;

/// Reads, writes of one to four blocks, and now and then a discard, at random.
struct Mixed {
    rng: Rng,
    left: u64,
    discards: bool,
}

impl Source for Mixed {
    fn next(&mut self, now: Nanos, _: u32) -> Result<Next, plimsoll_engine::Error> {
        if self.left == 0 {
            return Ok(Next::End);
        }
        self.left -= 1;
        let len = LEN * (1 << self.rng.below(3));
        let kind = match self.rng.below(20) {
            0 if self.discards => Kind::Discard,
            0..10 => Kind::Read,
            _ => Kind::Write,
        };
        let places = BLOCKS - u64::from(len / LEN) + 1;
        Ok(Next::Request(Request {
            kind,
            file: 0,
            offset: self.rng.below(places) * u64::from(LEN),
            len,
            intended_at: now,
        }))
    }

    fn completed(&mut self, _: u32, _: &Sample) {}
}

struct Bed {
    _directory: tempfile::TempDir,
    file: Arc<OwnedFd>,
    register: Arc<Register>,
}

impl Bed {
    /// A file of zeros.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        std::fs::write(&path, vec![0; 256 * LEN as usize]).unwrap();
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).open(&path).unwrap();
        Bed {
            _directory: directory,
            file: Arc::new(file.into()),
            register: Arc::new(Register::new(Seed(7), 3, BYTES, LEN).unwrap()),
        }
    }

    fn plain(&self) -> Box<dyn Engine> {
        let target = Target::File(Arc::clone(&self.file));
        Box::new(Sync::new(target, 4 * LEN, Seed(1)))
    }

    /// Runs operations of `seed` on `engine`; how many operations were harmed by `plan`.
    fn run(&self, engine: Box<dyn Engine>, plan: &Plan, seed: u64, always: bool) -> u64 {
        let clock = HostClock::start();
        let slots = engine.slots();
        let mut engine = Faulty::new(engine, clock, plan.clone(), Seed(seed));
        let mixed = Mixed {
            rng: Rng::new(Seed(seed)),
            left: 1_500,
            discards: plan.rules.is_empty(),
        };
        let mut source = Checked::new(mixed, Arc::clone(&self.register), slots, always);
        let mut recorder = Recorder::new(Nanos(0), ());
        let (limits, stop) = (Limits::real(Nanos::MAX), AtomicBool::new(false));
        drive(
            &mut engine,
            &clock,
            &mut source,
            &mut recorder,
            limits,
            &stop,
        )
        .unwrap();
        engine.n_harmed()
    }

    fn read_back(&self) -> VerifyReport {
        let stop = AtomicBool::new(false);
        read_back(self.plain().as_mut(), &self.register, &stop).unwrap()
    }
}

fn plan(kind: Kind, when: When, harm: Harm) -> Plan {
    let rules = vec![Rule { kind, when, harm }];
    Plan {
        rules,
        ..Plan::default()
    }
}

#[test]
fn an_honest_target_passes_however_its_writes_meet() {
    for seed in 0..5 {
        let bed = Bed::new();
        let pool = || Box::new(Pool::new(Arc::clone(&bed.file), 8, 4 * LEN, Seed(1)).unwrap());
        // Workers of the same file do not know of each other.
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let (bed, pool) = (&bed, &pool);
                scope.spawn(move || bed.run(pool(), &Plan::default(), seed * 3 + worker, true));
            }
        });
        let during = bed.register.report();
        assert_eq!(during.bad.total(), 0, "{during:?}");
        assert!(
            during.written > 1_000 && during.checked > 1_000,
            "{during:?}"
        );
        let report = bed.read_back();
        assert!(report.passed(), "{report:?}");
        assert!(report.checked > during.checked, "blocks were read back");
    }
}

#[test]
fn every_kind_of_damage_is_found_and_named_at_once_and_at_the_end() {
    let misplaced = Harm::Misplaced {
        within_bytes: BYTES,
    };
    for (kind, harm, expect) in [
        (Kind::Write, Harm::Lost, "stale"),
        (Kind::Write, Harm::Torn, "torn"),
        (Kind::Write, Harm::Corrupt, "wrong"),
        (Kind::Write, misplaced, "misplaced"),
        (Kind::Read, Harm::Lost, "wrong"),
        (Kind::Read, misplaced, "misplaced"),
    ] {
        for always in [true, false] {
            let bed = Bed::new();
            let harm_plan = plan(kind, When::Every(9), harm);
            let harmed = bed.run(bed.plain(), &harm_plan, 5, always);
            assert!(harmed > 10, "{harm:?}: {harmed}");
            let during = bed.register.report();
            assert_eq!(
                during.bad.total() > 0,
                always,
                "{kind} {harm:?}: {during:?}"
            );
            let report = bed.read_back();
            if kind == Kind::Read && !always {
                assert!(report.passed(), "what was not looked at did no harm");
                continue;
            }
            assert!(!report.passed(), "{kind} {harm:?}");
            let named = report.findings.iter().any(|finding| {
                if let Flaw::Misplaced { belongs_at } = finding.flaw {
                    assert_ne!(belongs_at, finding.offset);
                }
                finding.flaw.name() == expect
            });
            assert!(named, "{kind} {harm:?}: {:?}", report.findings);
        }
    }
}

#[test]
fn a_failed_write_is_an_error_and_leaves_no_doubt_about_the_target() {
    let bed = Bed::new();
    let failing = plan(Kind::Write, When::Share(0.2), Harm::Errno(5));
    let harmed = bed.run(bed.plain(), &failing, 1, true);
    let report = bed.read_back();
    assert_eq!(
        (report.errors, report.bad.total()),
        (harmed, 0),
        "{report:?}"
    );
    assert!(!report.passed(), "errors are not passed over");
}

#[test]
fn what_cannot_be_read_back_is_bad_in_a_way_of_its_own() {
    let bed = Bed::new();
    bed.run(bed.plain(), &Plan::default(), 1, false);
    let failing = plan(Kind::Read, When::Every(10), Harm::Errno(5));
    let clock = HostClock::start();
    let mut engine = Faulty::new(bed.plain(), clock, failing, Seed(1));
    let stop = AtomicBool::new(false);
    let report = read_back(&mut engine, &bed.register, &stop).unwrap();
    let unreadable = report.bad.unreadable;
    assert!(
        unreadable > 10 && unreadable == engine.n_harmed(),
        "{report:?}"
    );
    assert_eq!(
        (report.bad.total(), report.errors),
        (unreadable, unreadable)
    );
    let named = |finding: &plimsoll_engine::Finding| finding.flaw == Flaw::Unreadable;
    assert!(report.findings.iter().all(named), "{report:?}");
    assert!(!report.passed() && !report.interrupted);
}

#[test]
fn data_of_another_run_or_target_do_not_pass() {
    for (run, target) in [(Seed(8), 3), (Seed(7), 4)] {
        let bed = Bed::new();
        let everything = Plan::default();
        bed.run(bed.plain(), &everything, 1, false);
        // The same writes are entered for another run or target, but the file is not written.
        let other = Bed {
            _directory: tempfile::tempdir().unwrap(),
            file: Arc::clone(&bed.file),
            register: Arc::new(Register::new(run, target, BYTES, LEN).unwrap()),
        };
        let lost = plan(Kind::Write, When::Every(1), Harm::Lost);
        other.run(other.plain(), &lost, 1, false);
        let report = other.read_back();
        assert!(report.checked > 100, "{report:?}");
        assert!(report.bad.total() * 10 > report.checked * 9, "{report:?}");
    }
}

#[test]
fn blocks_that_cannot_be_stamped_are_refused() {
    for (bytes, block) in [(BYTES, 0), (BYTES, 700), (u64::MAX, 512)] {
        assert!(Register::new(Seed(1), 0, bytes, block).is_err(), "{block}");
    }
}
