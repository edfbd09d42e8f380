// SPDX-License-Identifier: Apache-2.0
//! Workloads whose data are verified, on targets that lie in a known way and on one that does not.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::faulty::{FaultyEffect, FaultyEngine, FaultyRule, FaultySchedule, FaultyTrigger};
use plimsoll_core::op::{OpKind, OpRequest, OpSample};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_engine::drive::{DriverLimits, drive};
use plimsoll_engine::engine::IoEngine;
use plimsoll_engine::pool::ThreadPoolEngine;
use plimsoll_engine::recorder::SampleRecorder;
use plimsoll_engine::source::{NextRequest, RequestSource};
use plimsoll_engine::sync::SyncEngine;
use plimsoll_engine::sys::clock::HostClock;
use plimsoll_engine::target::RequestTarget;
use plimsoll_engine::{DataCheckRegister, DataCheckSource, DataFlaw, VerifyReport, read_back};

const LEN: u32 = 4096;
const BLOCKS: u64 = 256;
const BYTES: u64 = BLOCKS * LEN as u64;

/// Reads, writes of one to four blocks, and now and then a discard, at random.
struct Mixed {
    rng: Rng,
    left: u64,
    discards: bool,
}

impl RequestSource for Mixed {
    fn next(&mut self, now: Nanos, _: u32) -> Result<NextRequest, plimsoll_engine::EngineError> {
        if self.left == 0 {
            return Ok(NextRequest::End);
        }
        self.left -= 1;
        let len = LEN * (1 << self.rng.below(3));
        let kind = match self.rng.below(20) {
            0 if self.discards => OpKind::Discard,
            0..10 => OpKind::Read,
            _ => OpKind::Write,
        };
        let places = BLOCKS - u64::from(len / LEN) + 1;
        Ok(NextRequest::Request(OpRequest {
            kind,
            file: 0,
            offset: self.rng.below(places) * u64::from(LEN),
            len,
            intended_at: now,
        }))
    }

    fn completed(&mut self, _: u32, _: &OpSample) {}
}

struct Bed {
    _directory: tempfile::TempDir,
    file: Arc<OwnedFd>,
    register: Arc<DataCheckRegister>,
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
            register: Arc::new(DataCheckRegister::new(Seed(7), 3, BYTES, LEN).unwrap()),
        }
    }

    fn plain(&self) -> Box<dyn IoEngine> {
        let target = RequestTarget::File(Arc::clone(&self.file));
        Box::new(SyncEngine::new(target, 4 * LEN, Seed(1)))
    }

    /// Runs operations of `seed` on `engine`; how many operations were harmed by `plan`.
    fn run(
        &self,
        engine: Box<dyn IoEngine>,
        plan: &FaultySchedule,
        seed: u64,
        always: bool,
    ) -> u64 {
        let clock = HostClock::start();
        let slots = engine.slots();
        let mut engine = FaultyEngine::new(engine, clock, plan.clone(), Seed(seed));
        let mixed = Mixed {
            rng: Rng::new(Seed(seed)),
            left: 1_500,
            discards: plan.rules.is_empty(),
        };
        let mut source = DataCheckSource::new(mixed, Arc::clone(&self.register), slots, always);
        let mut recorder = SampleRecorder::new(Nanos(0), ());
        let (limits, stop) = (DriverLimits::real(Nanos::MAX), AtomicBool::new(false));
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

fn plan(kind: OpKind, when: FaultyTrigger, harm: FaultyEffect) -> FaultySchedule {
    let rules = vec![FaultyRule { kind, when, harm }];
    FaultySchedule {
        rules,
        ..FaultySchedule::default()
    }
}

#[test]
fn an_honest_target_passes_however_its_writes_meet() {
    for seed in 0..5 {
        let bed = Bed::new();
        let pool =
            || Box::new(ThreadPoolEngine::new(Arc::clone(&bed.file), 8, 4 * LEN, Seed(1)).unwrap());
        // Workers of the same file do not know of each other.
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let (bed, pool) = (&bed, &pool);
                scope.spawn(move || {
                    bed.run(pool(), &FaultySchedule::default(), seed * 3 + worker, true)
                });
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
    let misplaced = FaultyEffect::Misplaced {
        within_bytes: BYTES,
    };
    for (kind, harm, expect) in [
        (OpKind::Write, FaultyEffect::Lost, "stale"),
        (OpKind::Write, FaultyEffect::Torn, "torn"),
        (OpKind::Write, FaultyEffect::Corrupt, "wrong"),
        (OpKind::Write, misplaced, "misplaced"),
        (OpKind::Read, FaultyEffect::Lost, "wrong"),
        (OpKind::Read, misplaced, "misplaced"),
    ] {
        for always in [true, false] {
            let bed = Bed::new();
            let harm_plan = plan(kind, FaultyTrigger::Every(9), harm);
            let harmed = bed.run(bed.plain(), &harm_plan, 5, always);
            assert!(harmed > 10, "{harm:?}: {harmed}");
            let during = bed.register.report();
            assert_eq!(
                during.bad.total() > 0,
                always,
                "{kind} {harm:?}: {during:?}"
            );
            let report = bed.read_back();
            if kind == OpKind::Read && !always {
                assert!(report.passed(), "what was not looked at did no harm");
                continue;
            }
            assert!(!report.passed(), "{kind} {harm:?}");
            let named = report.findings.iter().any(|finding| {
                if let DataFlaw::Misplaced { belongs_at } = finding.flaw {
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
    let failing = plan(
        OpKind::Write,
        FaultyTrigger::Share(0.2),
        FaultyEffect::Errno(5),
    );
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
    bed.run(bed.plain(), &FaultySchedule::default(), 1, false);
    let failing = plan(
        OpKind::Read,
        FaultyTrigger::Every(10),
        FaultyEffect::Errno(5),
    );
    let clock = HostClock::start();
    let mut engine = FaultyEngine::new(bed.plain(), clock, failing, Seed(1));
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
    let named = |finding: &plimsoll_engine::VerifyFinding| finding.flaw == DataFlaw::Unreadable;
    assert!(report.findings.iter().all(named), "{report:?}");
    assert!(!report.passed() && !report.interrupted);
}

#[test]
fn data_of_another_run_or_target_do_not_pass() {
    for (run, target) in [(Seed(8), 3), (Seed(7), 4)] {
        let bed = Bed::new();
        let everything = FaultySchedule::default();
        bed.run(bed.plain(), &everything, 1, false);
        // The same writes are entered for another run or target, but the file is not written.
        let other = Bed {
            _directory: tempfile::tempdir().unwrap(),
            file: Arc::clone(&bed.file),
            register: Arc::new(DataCheckRegister::new(run, target, BYTES, LEN).unwrap()),
        };
        let lost = plan(OpKind::Write, FaultyTrigger::Every(1), FaultyEffect::Lost);
        other.run(other.plain(), &lost, 1, false);
        let report = other.read_back();
        assert!(report.checked > 100, "{report:?}");
        assert!(report.bad.total() * 10 > report.checked * 9, "{report:?}");
    }
}

#[test]
fn blocks_that_cannot_be_stamped_are_refused() {
    for (bytes, block) in [(BYTES, 0), (BYTES, 700), (u64::MAX, 512)] {
        assert!(
            DataCheckRegister::new(Seed(1), 0, bytes, block).is_err(),
            "{block}"
        );
    }
}
