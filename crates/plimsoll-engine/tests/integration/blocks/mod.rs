// SPDX-License-Identifier: Apache-2.0
//! Block I/O and phases, whole: on files, on a device, in virtual time.

mod device;
mod phases;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use plimsoll_core::event::TrialInterval;
use plimsoll_core::op::OpKind;
use plimsoll_core::rng::Seed;
use plimsoll_core::syncs::SyncKind;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoExtent, BlockIoFileCreation, BlockIoFinalOp, BlockIoGroup,
    BlockIoMixEntry, BlockIoOpKind, BlockIoPacing, BlockIoStopCondition, BlockIoWorkload,
};
use plimsoll_engine::OpenTarget;
use plimsoll_engine::{EngineChoice, PreparedWorkload, SimQueueSpec, prepare};
use plimsoll_engine::{RunOptions, RunResult};
use rustix::fs::{CWD, FileType, Mode};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) static GO: AtomicBool = AtomicBool::new(false);

pub(crate) fn ready(place: OpenTarget, workload: &Workload) -> PreparedWorkload {
    prepare(place, workload, None, Seed(1), EngineChoice::Auto, &GO).unwrap()
}

pub(crate) fn buffered(path: &Path) -> OpenTarget {
    OpenTarget::in_directory(path, 0).unwrap()
}

pub(crate) fn group(name: &str, change: impl FnOnce(&mut BlockIoGroup)) -> BlockIoGroup {
    let mut group = BlockIoGroup {
        name: name.into(),
        extent: BlockIoExtent {
            file: name.into(),
            bytes: MIB,
            ..BlockIoExtent::default()
        },
        work: BlockIoStopCondition::Pass,
        ..BlockIoGroup::default()
    };
    change(&mut group);
    group
}

pub(crate) fn blocks(groups: Vec<BlockIoGroup>) -> Workload {
    Workload::Blocks(BlockIoWorkload {
        name: "test".into(),
        groups,
    })
}

fn unlimited() -> RunOptions {
    RunOptions {
        length: Nanos::MAX,
        ..RunOptions::default()
    }
}

fn run(prepared: &mut PreparedWorkload, options: &RunOptions) -> (RunResult, Vec<TrialInterval>) {
    let mut intervals = Vec::new();
    let outcome = prepared
        .run(options, &GO, &mut |interval| intervals.push(interval))
        .unwrap();
    let ops: u64 = intervals.iter().map(|i| i.stats.ops()).sum();
    assert_eq!(ops, outcome.stats.ops(), "the intervals add up");
    (outcome, intervals)
}

fn ops(outcome: &RunResult, kind: OpKind) -> u64 {
    outcome.stats.0.get(&kind).map_or(0, |stats| stats.ops())
}

#[test]
fn what_would_never_begin_or_never_end_is_refused_beforehand() {
    let directory = tempfile::tempdir().unwrap();
    let second = RunOptions::default().length;
    let with = |change: &dyn Fn(&mut BlockIoGroup)| blocks(vec![group("a", change)]);
    let twice = blocks(vec![group("a", |_| {}), group("a", |_| {})]);
    for (workload, expect) in [
        (with(&|_| {}), ""),
        (
            with(&|g| g.work = BlockIoStopCondition::Each(0)),
            "0 operations",
        ),
        (
            with(&|g| g.work = BlockIoStopCondition::Together(0)),
            "0 operations",
        ),
        (with(&|g| g.delay = second), "its delay is"),
        (twice, "two groups are called 'a'"),
    ] {
        let place = buffered(directory.path());
        let checked = plimsoll_engine::check(&place, &workload, &RunOptions::default());
        match checked {
            Ok(()) => assert_eq!(expect, ""),
            Err(error) => {
                let error = error.to_string();
                assert!(!expect.is_empty() && error.contains(expect), "{error}");
            }
        }
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 0, "a check makes nothing");
    }
}

#[test]
fn groups_work_side_by_side_on_files_of_their_own_and_shared() {
    let directory = tempfile::tempdir().unwrap();
    let write = |kind| vec![BlockIoMixEntry::of(kind, 4096)];
    let workload = blocks(vec![
        group("own", |g| {
            (g.workers, g.depth, g.extent.shared) = (2, 4, false);
            g.mix = write(BlockIoOpKind::Write);
            g.syncs.every = 64;
            g.finish = vec![BlockIoFinalOp::Fsync, BlockIoFinalOp::Close];
        }),
        group("shared", |g| {
            (g.workers, g.depth) = (3, 2);
            g.work = BlockIoStopCondition::Together(1_000);
            g.mix = write(BlockIoOpKind::Update);
        }),
        group("log", |g| {
            (g.workers, g.extent.made) = (2, BlockIoFileCreation::During);
            g.mix = write(BlockIoOpKind::Append);
            (g.work, g.syncs.every, g.syncs.with) =
                (BlockIoStopCondition::Each(100), 10, SyncKind::Fdatasync);
        }),
    ]);
    let mut prepared = ready(buffered(directory.path()), &workload);
    for _ in 0..2 {
        let (outcome, _) = run(&mut prepared, &unlimited());
        assert_eq!(outcome.stats.errors(), 0);
        assert_eq!(outcome.failed, None);
        assert_eq!(ops(&outcome, OpKind::Read), 1_000);
        assert_eq!(ops(&outcome, OpKind::Write), 2 * 256 + 1_000);
        assert_eq!(ops(&outcome, OpKind::Fsync), 2 * (4 + 1));
        assert_eq!(ops(&outcome, OpKind::Close), 2);
        assert_eq!(ops(&outcome, OpKind::Append), 200);
        assert_eq!(ops(&outcome, OpKind::Fdatasync), 20);
        let workers: Vec<u64> = outcome.workers.iter().map(|worker| worker.ops).collect();
        assert_eq!(workers.len(), 7);
        assert_eq!((workers[0], workers[1]), (256, 256));
        assert_eq!(workers[2..5].iter().sum::<u64>(), 1_000);
        assert_eq!((workers[5], workers[6]), (100, 100));
        let last = outcome.workers.iter().map(|worker| worker.ended).max();
        assert_eq!(last, Some(outcome.length));
        // Appends of both workers are all there, none over another; and a run begins anew.
        let log = std::fs::metadata(directory.path().join("plimsoll.log")).unwrap();
        assert_eq!(log.len(), 200 * 4096);
    }
    let mut names: Vec<String> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    let expect = [
        "plimsoll.log",
        "plimsoll.own.0",
        "plimsoll.own.1",
        "plimsoll.shared",
    ];
    assert_eq!(names, expect);
    prepared.remove().unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_full_target_ends_the_run_and_what_was_measured_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    // The kernel's full device under the name of the file: links are not followed.
    let full = directory.path().join("plimsoll.full");
    let (kind, mode) = (FileType::CharacterDevice, Mode::from_raw_mode(0o600));
    if let Err(error) = rustix::fs::mknodat(CWD, &full, kind, mode, rustix::fs::makedev(1, 7)) {
        let text = format!("SKIPPED: a full target: cannot make a device file: {error}\n");
        return std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).unwrap();
    }
    let workload = blocks(vec![
        group("fine", |g| g.work = BlockIoStopCondition::Time),
        group("full", |g| {
            g.extent.made = BlockIoFileCreation::During;
            g.mix = vec![BlockIoMixEntry::of(BlockIoOpKind::Write, 4096)];
            (g.work, g.delay) = (BlockIoStopCondition::Time, Nanos(1_200_000_000));
        }),
    ]);
    let mut prepared = ready(buffered(directory.path()), &workload);
    let options = RunOptions {
        length: Nanos(600_000_000_000),
        ..RunOptions::default()
    };
    let (outcome, intervals) = run(&mut prepared, &options);
    let failed = outcome.failed.as_deref().unwrap();
    assert!(failed.contains("by write at offset"), "{failed}");
    assert!(failed.contains("No space left"), "{failed}");
    assert!(!outcome.interrupted);
    assert!(ops(&outcome, OpKind::Read) > 0 && intervals.len() >= 2);
    assert_eq!(outcome.stats.errors(), 1);
    // How soon behind 1.2 s depends on how busy the machine is; it is not the end that was asked for.
    assert!((1.1..300.0).contains(&outcome.length.as_secs_f64()));
}

#[test]
fn a_target_that_only_fails_any_more_ends_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let workload = blocks(vec![group("short", |g| {
        g.offsets = plimsoll_core::offsets::OffsetPattern::Sequential;
        g.work = BlockIoStopCondition::Each(100_000);
    })]);
    let mut prepared = ready(buffered(directory.path()), &workload);
    // The second half of the file is gone: reads there come out short.
    let path = directory.path().join("plimsoll.short");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(MIB / 2).unwrap();
    let (outcome, _) = run(&mut prepared, &unlimited());
    let failed = outcome.failed.unwrap();
    assert!(failed.contains("100 failures in a row"), "{failed}");
    assert_eq!(outcome.stats.errors(), 100);
    assert_eq!(outcome.stats.ops(), 128 + 100);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let place = buffered(directory.path());
    let with = |change: &dyn Fn(&mut BlockIoGroup)| blocks(vec![group("g", |g| change(g))]);
    let zipf = |exponent| plimsoll_core::offsets::OffsetPattern::Zipf { exponent };
    for (workload, expect) in [
        (with(&|g| g.workers = 0), "needs a worker"),
        (with(&|g| g.mix.clear()), "needs something to do"),
        (
            with(&|g| g.extent.file = "../x".into()),
            "cannot name a file",
        ),
        (with(&|g| g.offsets = zipf(f64::NAN)), "within 0 and 10"),
        (with(&|g| g.content.duplicate = 1.1), "within 0 and 1"),
        (
            with(&|g| g.pace = BlockIoPacing::Open(ArrivalProcess::Poisson { per_s: 0.0 })),
            "rate must be above 0",
        ),
        (
            with(&|g| g.mix = vec![BlockIoMixEntry::of(BlockIoOpKind::Append, 4096)]),
            "it appends to a file",
        ),
        (with(&|g| g.workers = 20_000), "at most 16384"),
        (
            with(&|g| {
                (g.workers, g.depth, g.mix[0].bytes) = (10_000, 64, 1 << 20);
            }),
            "are available (MemAvailable)",
        ),
        (
            Workload::Files(crate::common::varmail(|_, _| {})),
            "needs a directory",
        ),
        (
            with(&|g| (g.workers, g.extent.shared) = (2, false)),
            "needs a directory",
        ),
    ] {
        let file = directory.path().join("one");
        let place = match expect {
            "needs a directory" => OpenTarget::of(&NodeTarget::File {
                path: file,
                direct_align_bytes: 0,
            })
            .unwrap(),
            _ => place.clone(),
        };
        let prepared = prepare(place, &workload, None, Seed(1), EngineChoice::Auto, &GO);
        let error = prepared.unwrap_err().to_string();
        assert!(error.contains(expect), "{expect}: {error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

/// Groups on a disk whose truth is known: 100 µs for each operation, four at a time.
#[test]
fn workers_share_one_simulated_disk() {
    let disk = SimQueueSpec {
        service: Nanos(100_000),
        ns_per_byte: 0.0,
        servers: 4,
        ..SimQueueSpec::default()
    };
    let second = RunOptions {
        length: Nanos::SECOND,
        ..RunOptions::default()
    };
    let closed = |name, depth| {
        group(name, |g| {
            (g.workers, g.depth, g.work) = (2, depth, BlockIoStopCondition::Time);
        })
    };
    // Eight in flight on four servers: 40 000 a second, whichever group submits them.
    let workload = blocks(vec![closed("a", 3), closed("b", 1)]);
    let (outcome, _) = run(&mut ready(OpenTarget::Sim(disk.into()), &workload), &second);
    assert!(outcome.stats.ops().abs_diff(40_000) <= 8);
    let each: Vec<u64> = outcome.workers.iter().map(|worker| worker.ops).collect();
    assert!(
        each[0].abs_diff(15_000) < 10 && each[2].abs_diff(5_000) < 10,
        "{each:?}"
    );
    // An open loop beside a closed one of depth 1: neither waits for the other's next turn.
    let open = group("open", |g| {
        (g.workers, g.depth, g.work) = (2, 8, BlockIoStopCondition::Time);
        g.pace = BlockIoPacing::Open(ArrivalProcess::Paced { per_s: 1_000.0 });
        g.mix = vec![BlockIoMixEntry::of(BlockIoOpKind::Write, 4096)];
    });
    let workload = blocks(vec![
        open,
        group("closed", |g| g.work = BlockIoStopCondition::Time),
    ]);
    let (outcome, _) = run(&mut ready(OpenTarget::Sim(disk.into()), &workload), &second);
    assert_eq!(ops(&outcome, OpKind::Write), 1_000);
    assert!(ops(&outcome, OpKind::Read).abs_diff(10_000) < 3);
    let response = outcome.stats.0[&OpKind::Write].response.mean_ns();
    assert!((response / 100_000.0 - 1.0).abs() < 0.02, "{response}");
}

#[test]
fn rates_on_the_null_engine_are_those_that_were_asked_for() {
    for arrival in [
        ArrivalProcess::Poisson { per_s: 30_000.0 },
        ArrivalProcess::Paced { per_s: 30_000.0 },
    ] {
        let workload = blocks(vec![group("open", |g| {
            (g.workers, g.depth, g.work) = (2, 64, BlockIoStopCondition::Time);
            g.pace = BlockIoPacing::Open(arrival.clone());
        })]);
        let second = RunOptions {
            length: Nanos::SECOND,
            ..RunOptions::default()
        };
        let (outcome, _) = run(&mut ready(OpenTarget::Null, &workload), &second);
        // However busy the machine is: what is due is submitted late, or counted as not.
        let due = outcome.stats.ops() + outcome.generator.not_submitted;
        assert!(due.abs_diff(30_000) < 750, "{arrival:?}: {due}");
    }
}
