// SPDX-License-Identifier: Apache-2.0
//! Series of phases on files and in virtual time.

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::PhaseResult;
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    BlockIoExtent, BlockIoFileCreation, BlockIoFinalOp, BlockIoGroup, BlockIoMixEntry,
    BlockIoOpKind, BlockIoStopCondition, BlockIoWorkload,
};
use plimsoll_core::workload::series::{PhaseSeries, PhaseSpec, PhaseWorkload};
use plimsoll_engine::OpenTarget;
use plimsoll_engine::RunOptions;
use plimsoll_engine::SimQueueSpec;

use super::{GO, MIB, buffered, group, ready};

fn phase(name: &str, groups: Vec<BlockIoGroup>) -> PhaseSpec {
    PhaseSpec {
        name: name.into(),
        body: PhaseWorkload::Blocks(BlockIoWorkload {
            name: name.into(),
            groups,
        }),
        metric: ComparisonMetric::BytesPerSecond,
        stonewall: false,
        limit: None,
        cold: false,
    }
}

fn series(phases: Vec<PhaseSpec>) -> Workload {
    Workload::Series(PhaseSeries {
        name: "series".into(),
        classic: None,
        phases,
    })
}

/// One worker over a file that all phases share.
fn over(
    kind: BlockIoOpKind,
    made: BlockIoFileCreation,
    change: impl FnOnce(&mut BlockIoGroup),
) -> BlockIoGroup {
    group("data", |g| {
        g.extent.made = made;
        g.mix = vec![BlockIoMixEntry::of(kind, 8192)];
        g.offsets = OffsetPattern::Sequential;
        g.direct = false;
        change(g);
    })
}

fn ops(phase: &PhaseResult, kind: OpKind) -> u64 {
    phase.stats.0.get(&kind).map_or(0, |stats| stats.ops())
}

/// Writes a file, rewrites it, reads it, and seeks in it, as bonnie++ does.
fn bonnie_like() -> Workload {
    let finish =
        |g: &mut BlockIoGroup| g.finish = vec![BlockIoFinalOp::Fsync, BlockIoFinalOp::Close];
    let seeks = over(BlockIoOpKind::Read, BlockIoFileCreation::Earlier, |g| {
        (g.workers, g.offsets, g.work) = (
            3,
            OffsetPattern::Uniform,
            BlockIoStopCondition::Together(50),
        );
    });
    series(vec![
        phase(
            "write",
            vec![over(
                BlockIoOpKind::Write,
                BlockIoFileCreation::During,
                finish,
            )],
        ),
        phase(
            "rewrite",
            vec![over(
                BlockIoOpKind::Update,
                BlockIoFileCreation::Earlier,
                finish,
            )],
        ),
        PhaseSpec {
            cold: true,
            ..phase(
                "read",
                vec![over(
                    BlockIoOpKind::Read,
                    BlockIoFileCreation::Earlier,
                    |_| {},
                )],
            )
        },
        PhaseSpec {
            metric: ComparisonMetric::OpsPerSecond,
            ..phase("seeks", vec![seeks])
        },
    ])
}

#[test]
fn phases_follow_each_other_on_the_same_files() {
    let directory = tempfile::tempdir().unwrap();
    let workload = bonnie_like();
    let mut prepared = ready(buffered(directory.path()), &workload);
    for _ in 0..2 {
        let mut intervals = Vec::new();
        let outcome = prepared
            .run(&RunOptions::default(), &GO, &mut |i| intervals.push(i))
            .unwrap();
        let names: Vec<&str> = outcome.phases.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["write", "rewrite", "read", "seeks"]);
        let n = MIB / 8192;
        for (phase, kind, expect) in [
            (0, OpKind::Write, n),
            (0, OpKind::Fsync, 1),
            (0, OpKind::Close, 1),
            (1, OpKind::Read, n),
            (1, OpKind::Write, n),
            (2, OpKind::Read, n),
            (3, OpKind::Read, 50),
        ] {
            assert_eq!(ops(&outcome.phases[phase], kind), expect, "{phase} {kind}");
        }
        for phase in &outcome.phases {
            assert!(phase.stats.errors() == 0 && phase.wall > Nanos(0));
            let seconds = phase.wall.as_secs_f64();
            // A rewrite moves its bytes twice and counts them once.
            let expect = match phase.metric {
                ComparisonMetric::OpsPerSecond => 50.0 / seconds,
                _ => MIB as f64 / seconds,
            };
            assert!((phase.value / expect - 1.0).abs() < 1e-9, "{}", phase.name);
            let last = phase.workers.iter().map(|worker| worker.ended).max();
            assert_eq!(last, Some(phase.wall));
        }
        let walls = outcome.phases.iter().map(|phase| phase.wall);
        assert_eq!(outcome.length, walls.fold(Nanos(0), |sum, wall| sum + wall));
        assert!(intervals.is_sorted_by_key(|interval| interval.start));
        let told: u64 = intervals.iter().map(|i| i.stats.ops()).sum();
        assert_eq!(told, outcome.stats.ops());
        let file = std::fs::metadata(directory.path().join("plimsoll.data")).unwrap();
        assert_eq!(file.len(), MIB);
    }
    prepared.remove().unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_phase_without_its_files_says_which_are_missing() {
    let directory = tempfile::tempdir().unwrap();
    let workload = series(vec![phase(
        "read",
        vec![over(
            BlockIoOpKind::Read,
            BlockIoFileCreation::Earlier,
            |_| {},
        )],
    )]);
    let mut prepared = ready(buffered(directory.path()), &workload);
    let run = prepared.run(&RunOptions::default(), &GO, &mut |_| {});
    let error = run.unwrap_err().to_string();
    for part in ["play the phase 'read'", "plimsoll.data", "earlier phase"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn the_stonewall_counts_the_work_until_the_first_is_done() {
    // Two workers at different depths on a disk that serves all at once: one is thrice as fast.
    let disk = SimQueueSpec {
        service: Nanos(100_000),
        ns_per_byte: 0.0,
        servers: 16,
        ..SimQueueSpec::default()
    };
    let worker = |name: &str, depth| {
        group(name, |g| {
            (g.depth, g.offsets) = (depth, OffsetPattern::Sequential);
            g.mix = vec![BlockIoMixEntry::of(BlockIoOpKind::Write, 4096)];
            g.extent = BlockIoExtent {
                file: name.into(),
                bytes: 300 * 4096,
                ..BlockIoExtent::default()
            };
        })
    };
    let both = || vec![worker("fast", 3), worker("slow", 1)];
    let walled = PhaseSpec {
        stonewall: true,
        ..phase("walled", both())
    };
    let workload = series(vec![walled, phase("free", both())]);
    let mut prepared = ready(OpenTarget::Sim(disk.into()), &workload);
    let run = prepared.run(&RunOptions::default(), &GO, &mut |_| {});
    let outcome = run.unwrap();
    let counted = |phase: &PhaseResult| phase.workers.iter().map(|w| w.ops).collect::<Vec<_>>();
    let [walled, free] = &outcome.phases[..] else {
        panic!("{:?}", outcome.phases);
    };
    let found = counted(walled);
    assert!(
        found[0] == 300 && (99..=101).contains(&found[1]),
        "{found:?}"
    );
    assert_eq!(walled.stats.ops(), found.iter().sum::<u64>());
    assert!(walled.wall <= Nanos(10_200_000), "{}", walled.wall);
    assert_eq!(counted(free), [300, 300]);
    assert_eq!(free.wall, Nanos(30_000_000));
}

#[test]
fn a_stonewalled_phase_leaves_whole_files() {
    let directory = tempfile::tempdir().unwrap();
    let write = over(BlockIoOpKind::Write, BlockIoFileCreation::During, |g| {
        (g.workers, g.extent.shared) = (4, false);
    });
    let read = over(BlockIoOpKind::Read, BlockIoFileCreation::Earlier, |g| {
        (g.workers, g.extent.shared) = (4, false);
    });
    let walled = PhaseSpec {
        stonewall: true,
        ..phase("write", vec![write])
    };
    let workload = series(vec![walled, phase("read", vec![read])]);
    let mut prepared = ready(buffered(directory.path()), &workload);
    let run = prepared.run(&RunOptions::default(), &GO, &mut |_| {});
    let outcome = run.unwrap();
    for worker in 0..4 {
        let path = directory.path().join(format!("plimsoll.data.{worker}"));
        assert_eq!(std::fs::metadata(path).unwrap().len(), MIB);
    }
    let write = &outcome.phases[0];
    assert!(write.stats.ops() <= 4 * MIB / 8192);
    assert!(write.workers.iter().any(|worker| worker.bytes == MIB));
    let read = &outcome.phases[1];
    assert!(read.workers.iter().all(|worker| worker.bytes == MIB));
    assert_eq!(read.stats.errors(), 0);
}

#[test]
fn a_limit_ends_a_phase_and_not_the_series() {
    let endless = group("data", |g| g.work = BlockIoStopCondition::Time);
    let limited = PhaseSpec {
        limit: Some(Nanos(50_000_000)),
        metric: ComparisonMetric::OpsPerSecond,
        ..phase("limited", vec![endless])
    };
    let disk = SimQueueSpec::default();
    let workload = series(vec![limited, phase("pass", vec![group("data", |_| {})])]);
    let mut prepared = ready(OpenTarget::Sim(disk.into()), &workload);
    let run = prepared.run(&RunOptions::default(), &GO, &mut |_| {});
    let outcome = run.unwrap();
    let wall = outcome.phases[0].wall;
    let expect = Nanos(50_000_000)..Nanos(51_000_000);
    assert!(expect.contains(&wall), "{wall}");
    assert_eq!(outcome.phases[1].stats.ops(), 256);
}

#[test]
fn a_stop_keeps_the_phases_that_were_measured() {
    let disk = SimQueueSpec {
        service: Nanos(10_000_000),
        ..SimQueueSpec::default()
    };
    // A phase takes 2.56 s, so it reports three intervals: two while it runs, and one at its end.
    let pass = |name| phase(name, vec![group("data", |_| {})]);
    let workload = series(vec![pass("first"), pass("second"), pass("third")]);
    for (stop_at, expect) in [(0, 1), (1, 1), (2, 1), (3, 2)] {
        let stop = AtomicBool::new(false);
        let mut told = 0;
        let mut prepared = ready(OpenTarget::Sim(disk.into()), &workload);
        let run = prepared.run(&RunOptions::default(), &stop, &mut |_| {
            stop.store(told >= stop_at, Ordering::Relaxed);
            told += 1;
        });
        let outcome = run.unwrap();
        assert!(outcome.interrupted, "{stop_at}");
        assert_eq!(outcome.phases.len(), expect, "{stop_at}");
    }
    let mut prepared = ready(OpenTarget::Sim(disk.into()), &workload);
    let run = prepared.run(&RunOptions::default(), &AtomicBool::new(true), &mut |_| {});
    assert!(
        run.unwrap_err()
            .to_string()
            .ends_with("stopped by the user")
    );
}

#[test]
fn phases_start_when_all_are_ready_and_the_wait_is_in_no_phase() {
    let work = |g: &mut BlockIoGroup| g.extent.bytes = 1 << 20;
    let phases = || {
        vec![
            phase("one", vec![group("a", work)]),
            phase("two", vec![group("a", work)]),
        ]
    };
    let mut prepared = ready(OpenTarget::Null, &series(phases()));
    let options = RunOptions {
        length: Nanos(20_000_000),
        ..RunOptions::default()
    };
    let mut starts = Vec::new();
    let mut next = |number| {
        let at = plimsoll_engine::sys::clock::monotonic() + Nanos(150_000_000);
        starts.push((number, at));
        Some(at)
    };
    let outcome = prepared.run_in_step(&options, &GO, &mut |_| {}, &mut next);
    let outcome = outcome.unwrap();
    let [(0, first), (1, second)] = starts[..] else {
        panic!("{starts:?}");
    };
    assert!(outcome.began_at.unwrap() >= first && second > first);
    assert_eq!(outcome.phases.len(), 2);
    for phase in &outcome.phases {
        assert!(phase.wall < Nanos(150_000_000), "{:?}", phase.wall);
    }
    // A run that gets no start for its next phase keeps the phases that it measured.
    let mut prepared = ready(OpenTarget::Null, &series(phases()));
    let mut next = |number| (number == 0).then_some(Nanos(0));
    let outcome = prepared.run_in_step(&options, &GO, &mut |_| {}, &mut next);
    let outcome = outcome.unwrap();
    assert!(outcome.interrupted && outcome.phases.len() == 1);
}
