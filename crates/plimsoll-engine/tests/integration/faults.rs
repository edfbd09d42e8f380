// SPDX-License-Identifier: Apache-2.0
//! The driver keeps its books right whatever a target does: every operation submitted is counted
//! once, as ended or as given up, and a stall shows in full.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::faulty::{
    FaultyEffect, FaultyEngine, FaultyRule, FaultySchedule, FaultyStall, FaultyTrigger,
};
use plimsoll_core::event::OpStats;
use plimsoll_core::op::{OpKind, OpRequest, OpSample};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_engine::SimQueueSpec;
use plimsoll_engine::clock::{RunClock, SimClock};
use plimsoll_engine::drive::{DriverLimits, DriverResult, drive};
use plimsoll_engine::engine::IoEngine;
use plimsoll_engine::pool::ThreadPoolEngine;
use plimsoll_engine::recorder::SampleRecorder;
use plimsoll_engine::source::{NextRequest, RequestSource};
use plimsoll_engine::sync::SyncEngine;
use plimsoll_engine::sys::clock::HostClock;
use plimsoll_engine::sys::uring::UringEngine;
use plimsoll_engine::target::RequestTarget;

const MS: u64 = 1_000_000;
const LEN: u32 = 4096;
const BLOCKS: u64 = 64;
const EIO: i32 = 5;

/// A fixed number of reads and writes, one after the other in every slot, or due at a fixed pace.
struct Counted {
    left: u64,
    gap: Nanos,
    due: Nanos,
    rng: Rng,
    handed_over: u64,
    completed: u64,
}

impl Counted {
    fn new(ops: u64, gap: Nanos) -> Self {
        Counted {
            left: ops,
            gap,
            due: Nanos(0),
            rng: Rng::new(Seed(9)),
            handed_over: 0,
            completed: 0,
        }
    }
}

impl RequestSource for Counted {
    fn next(&mut self, now: Nanos, _: u32) -> Result<NextRequest, plimsoll_engine::EngineError> {
        if self.left == 0 {
            return Ok(NextRequest::End);
        }
        self.left -= 1;
        let paced = self.gap > Nanos(0);
        let intended_at = if paced { self.due } else { now };
        self.due = self.due + self.gap;
        let is_read = self.rng.unit() < 0.5;
        Ok(NextRequest::Request(OpRequest {
            kind: if is_read { OpKind::Read } else { OpKind::Write },
            file: 0,
            offset: self.rng.below(BLOCKS) * u64::from(LEN),
            len: LEN,
            intended_at,
        }))
    }

    fn handed_over(&mut self, _: &OpRequest, _: Nanos) {
        self.handed_over += 1;
    }

    fn completed(&mut self, _: u32, _: &OpSample) {
        self.completed += 1;
    }

    fn left_before(&mut self, time: Nanos, _: &mut dyn FnMut(Nanos)) -> u64 {
        let due = (0..self.left).take_while(|n| self.due + Nanos(n * self.gap.0) < time);
        due.count() as u64
    }
}

fn rules(list: &[(OpKind, FaultyTrigger, FaultyEffect)]) -> FaultySchedule {
    let rule = |(kind, when, harm): &(OpKind, FaultyTrigger, FaultyEffect)| FaultyRule {
        kind: *kind,
        when: *when,
        harm: *harm,
    };
    FaultySchedule {
        rules: list.iter().map(rule).collect(),
        ..FaultySchedule::default()
    }
}

/// Every fault that an engine can show, and whether it shows as failed operations.
fn plans() -> Vec<(&'static str, FaultySchedule, bool)> {
    let stall = |from, length| FaultyStall {
        from: Nanos(from * MS),
        length: Nanos(length * MS),
    };
    let both = |when, harm| rules(&[(OpKind::Read, when, harm), (OpKind::Write, when, harm)]);
    vec![
        ("nothing", FaultySchedule::default(), false),
        (
            "stalls",
            FaultySchedule {
                stalls: vec![stall(1, 30), stall(40, 5)],
                ..FaultySchedule::default()
            },
            false,
        ),
        (
            "interrupted calls",
            FaultySchedule {
                interrupted: 0.4,
                ..FaultySchedule::default()
            },
            false,
        ),
        (
            "an error",
            both(FaultyTrigger::Nth(7), FaultyEffect::Errno(EIO)),
            true,
        ),
        (
            "errors",
            both(FaultyTrigger::Share(0.2), FaultyEffect::Errno(EIO)),
            true,
        ),
        (
            "short transfers",
            both(FaultyTrigger::Every(5), FaultyEffect::Short),
            true,
        ),
        (
            "lost operations",
            both(FaultyTrigger::Every(5), FaultyEffect::Lost),
            false,
        ),
        (
            "everything at once",
            FaultySchedule {
                stalls: vec![stall(2, 20)],
                interrupted: 0.3,
                ..both(FaultyTrigger::Share(0.3), FaultyEffect::Errno(EIO))
            },
            true,
        ),
        (
            "a full disk",
            FaultySchedule {
                space_bytes: Some(100 * u64::from(LEN)),
                ..FaultySchedule::default()
            },
            true,
        ),
    ]
}

struct Books {
    source: Counted,
    stats: OpStats,
    end: DriverResult,
    unfinished: u64,
    errnos: BTreeMap<i32, u64>,
    n_harmed: u64,
}

fn run<C: RunClock + Clone>(
    inner: Box<dyn IoEngine>,
    clock: &C,
    plan: &FaultySchedule,
    mut source: Counted,
    deadline: Nanos,
) -> Books {
    let mut engine = FaultyEngine::new(inner, clock.clone(), plan.clone(), Seed(4));
    let mut recorder = SampleRecorder::new(Nanos(0), ());
    let limits = DriverLimits {
        deadline,
        spin: false,
        batch: None,
        bytes: None,
    };
    let stop = AtomicBool::new(false);
    let end = drive(
        &mut engine,
        clock,
        &mut source,
        &mut recorder,
        limits,
        &stop,
    )
    .unwrap();
    let mut stats = OpStats::default();
    recorder.tally.merge_into(&mut stats);
    Books {
        source,
        stats,
        end,
        unfinished: recorder.marks.unfinished,
        errnos: recorder.marks.errnos,
        n_harmed: engine.n_harmed(),
    }
}

fn check(name: &str, ops: u64, fails: bool, books: &Books) {
    let Books {
        source, stats, end, ..
    } = books;
    // A full target ends the drive; what was submitted until then is counted all the same.
    let is_full = name.starts_with("a full disk");
    assert_eq!(end.gave_up.is_some(), is_full, "{name}: {end:?}");
    let ops = if is_full { source.handed_over } else { ops };
    assert_eq!(source.handed_over, ops, "{name}");
    assert_eq!(source.completed, ops, "{name}: all came back");
    assert_eq!(stats.ops(), ops, "{name}: each is recorded once");
    let failed = if fails { books.n_harmed } else { 0 };
    assert_eq!(stats.errors(), failed, "{name}: {}", books.n_harmed);
    let with_number: u64 = books.errnos.values().sum();
    assert_eq!(with_number, failed, "{name}: {:?}", books.errnos);
    assert_eq!(stats.bytes(), (ops - failed) * u64::from(LEN), "{name}");
    assert!(end.not_submitted == 0 || is_full, "{name}");
}

#[test]
fn the_books_are_right_with_every_fault_in_virtual_time() {
    for (name, plan, fails) in plans() {
        for (slots, gap) in [(1, Nanos(0)), (16, Nanos(0)), (16, Nanos(50_000))] {
            let clock = SimClock::new();
            let inner = SimQueueSpec::default().engine(slots, clock.clone(), Seed(1));
            let source = Counted::new(1_000, gap);
            let books = run(Box::new(inner), &clock, &plan, source, Nanos::MAX);
            check(name, 1_000, fails, &books);
            let harms = !plan.rules.is_empty() || plan.space_bytes.is_some();
            assert_eq!(
                books.n_harmed > 0,
                harms,
                "{name}: the plan was carried out"
            );
        }
    }
}

#[test]
fn the_books_are_right_with_every_fault_on_real_engines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    std::fs::write(&path, vec![1; 64 * LEN as usize]).unwrap();
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).open(&path).unwrap();
    let file = Arc::new(std::os::fd::OwnedFd::from(file));
    let engine = |which: u32| -> Option<Box<dyn IoEngine>> {
        let target = RequestTarget::File(Arc::clone(&file));
        match which {
            0 => Some(Box::new(SyncEngine::new(target, LEN, Seed(1)))),
            1 => Some(Box::new(
                ThreadPoolEngine::new(Arc::clone(&file), 4, LEN, Seed(1)).unwrap(),
            )),
            _ => match UringEngine::new(Arc::clone(&file), 16, LEN, Seed(1)) {
                Ok(engine) => Some(Box::new(engine)),
                Err(error) => {
                    let mut screen = std::io::stderr();
                    writeln!(screen, "SKIPPED: io_uring is not available here: {error}").unwrap();
                    None
                }
            },
        }
    };
    for (name, plan, fails) in plans() {
        for inner in (0..3).filter_map(engine) {
            let name = format!("{name} on {}", inner.describe());
            let source = Counted::new(300, Nanos(0));
            let books = run(inner, &HostClock::start(), &plan, source, Nanos::MAX);
            check(&name, 300, fails, &books);
        }
    }
}

#[test]
fn what_never_comes_back_is_unfinished_and_no_error() {
    let clock = SimClock::new();
    let inner = SimQueueSpec::default().engine(8, clock.clone(), Seed(1));
    let plan = FaultySchedule {
        stalls: vec![FaultyStall {
            from: Nanos(50 * MS),
            length: Nanos::MAX,
        }],
        ..FaultySchedule::default()
    };
    let source = Counted::new(1_000, Nanos(MS));
    let books = run(Box::new(inner), &clock, &plan, source, Nanos(2_000 * MS));
    let Books { source, stats, .. } = &books;
    let given_up = source.handed_over - source.completed;
    assert_eq!(given_up, 8, "as many as there are slots");
    assert_eq!(stats.ops(), source.handed_over);
    assert_eq!((books.unfinished, stats.errors()), (given_up, 0));
    assert_eq!(source.handed_over + books.end.not_submitted, 1_000);
}

#[test]
fn a_frozen_target_shows_in_the_99th_percentile_of_the_response() {
    // 1,000 a second for 10 s, nothing ends from 4 s to 6 s: of 10,000 operations 2,000 wait, those
    // that came first 2 s. The hundredth longest waits 2 s - 100 ms.
    let plan = FaultySchedule {
        stalls: vec![FaultyStall {
            from: Nanos(4_000 * MS),
            length: Nanos(2_000 * MS),
        }],
        ..FaultySchedule::default()
    };
    for slots in [1, 32, 4096] {
        let clock = SimClock::new();
        let inner = SimQueueSpec::default().engine(slots, clock.clone(), Seed(1));
        let source = Counted::new(10_000, Nanos(MS));
        let books = run(Box::new(inner), &clock, &plan, source, Nanos::MAX);
        let response = books.stats.response();
        assert_eq!(response.count(), 10_000);
        let p99_s = response.quantile_ns(0.99) as f64 / 1e9;
        // However few were in flight: what was due and could not be submitted counts too.
        assert!((p99_s / 1.9 - 1.0).abs() < 0.05, "{slots}: {p99_s}");
        let stalled = response.buckets().filter(|(upper, _)| *upper > 10 * MS);
        let stalled: u64 = stalled.map(|(_, count)| count).sum();
        // With one slot the backlog takes its time too: 2,000 / (1 - 0.104).
        let expect = if slots == 1 { 2_232 } else { 2_000 };
        assert!(stalled.abs_diff(expect) < 60, "{slots}: {stalled}");
    }
}
