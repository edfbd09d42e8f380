// SPDX-License-Identifier: Apache-2.0
//! The tool held against disks whose truth is known.

mod freeze;

use std::sync::atomic::AtomicBool;

use crate::common::{cell, model, ops, random, varmail};
use plimsoll_core::event::{OpStats, TrialInterval};
use plimsoll_core::model::{ModelArrivals, ModelExcerpt, ModelInterval, ModelReplay};
use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::files::FileOp;
use plimsoll_engine::OpenTarget;
use plimsoll_engine::clock::SimClock;
use plimsoll_engine::drive::{DriverLimits, drive};
use plimsoll_engine::recorder::SampleRecorder;
use plimsoll_engine::sim::{SimEngine, SimQueue};
use plimsoll_engine::source::OpenLoopSource;
use plimsoll_engine::{EngineChoice, SimDeviceSpec, SimQueueSpec, prepare};
use plimsoll_engine::{RunOptions, RunResult};

const MS: u64 = 1_000_000;

/// Plays `cells` open loop on a simulated disk with `law`, at most `slots` in flight.
fn play(
    cells: &[ModelInterval],
    slots: u32,
    warmup: Nanos,
    law: impl FnMut(Nanos, &OpRequest) -> Nanos,
) -> (OpStats, Vec<ModelInterval>, u64) {
    let facts = model(cells.to_vec()).facts;
    let end = cells.iter().fold(Nanos(0), |sum, c| sum + c.length);
    let arrivals = ModelArrivals::new(cells.to_vec(), &facts, 512, Seed(3));
    let excerpt = ModelExcerpt::cells(cells.to_vec());
    let mut source = OpenLoopSource::new(ModelReplay::Drawn(Box::new(arrivals)), &excerpt, end);
    let clock = SimClock::new();
    let mut engine = SimEngine::new("law".into(), slots, clock.clone(), SimQueue::new(1, law));
    let mut recorder = SampleRecorder::new(warmup, ());
    let stop = AtomicBool::new(false);
    let limits = DriverLimits::simulated(end);
    let ended = drive(
        &mut engine,
        &clock,
        &mut source,
        &mut recorder,
        limits,
        &stop,
    )
    .unwrap();
    let mut stats = OpStats::default();
    recorder.tally.merge_into(&mut stats);
    (stats, source.into_submitted(), ended.not_submitted)
}

fn run(
    workload: &Workload,
    disk: SimQueueSpec,
    options: &RunOptions,
) -> (RunResult, Vec<TrialInterval>) {
    let stop = AtomicBool::new(false);
    let choice = EngineChoice::Auto;
    let mut prepared = prepare(
        OpenTarget::Sim(disk.into()),
        workload,
        None,
        Seed(1),
        choice,
        &stop,
    )
    .unwrap();
    let mut intervals = Vec::new();
    let outcome = prepared
        .run(options, &stop, &mut |interval| intervals.push(interval))
        .unwrap();
    prepared.remove().unwrap();
    (outcome, intervals)
}

#[test]
fn a_stall_shows_in_response_time_though_service_time_hides_it() {
    // 10 s at 1 kHz; from 4 s to 5 s the disk does nothing.
    let stall = |start: Nanos, _: &OpRequest| {
        let stalled = Nanos(4_000 * MS) <= start && start < Nanos(5_000 * MS);
        let until = if stalled { Nanos(5_000 * MS) } else { start };
        until.since(start) + Nanos(MS / 10)
    };
    let (stats, _, not_submitted) = play(&[cell(10, 10_000, 0)], 1, Nanos(0), stall);
    assert_eq!((stats.ops(), not_submitted), (10_000, 0));
    let service = stats.service().quantile_ns(0.99);
    assert!((MS / 10..MS / 9).contains(&service), "{service}");
    let response = stats.response().quantile_ns(0.99);
    assert!(response > 800 * MS, "{response}");
    // The rest of the response time is lag: the requests were due and not submitted.
    let lag = stats.lag().quantile_ns(0.99);
    assert!(response - lag < 20 * MS, "{response} {lag}");
}

#[test]
fn mean_response_is_that_of_an_m_d_1_queue() {
    let service = MS as f64;
    for load in [0.3, 0.6, 0.8] {
        let seconds = 400;
        let arrivals = plimsoll_core::num::round_u64(load * 1_000.0) * seconds;
        let law = |_: Nanos, _: &OpRequest| Nanos(MS);
        let cells = [cell(seconds, arrivals, 0)];
        let (stats, ..) = play(&cells, 4_096, Nanos(0), law);
        // Pollaczek and Khinchine, with no variance in the service time.
        let theory = service + load * service / (2.0 * (1.0 - load));
        let found = stats.response().mean_ns();
        assert!(
            (found / theory - 1.0).abs() < 0.03,
            "{load}: {found} {theory}"
        );
        assert_eq!(stats.lag().max_ns(), 0, "virtual hand-over is on time");
    }
}

#[test]
fn a_whole_play_submits_exactly_its_cells() {
    let cells: Vec<ModelInterval> = (0..60)
        .map(|i| cell(15, 400 + i * 7, i % 5 * 300))
        .collect();
    let workload = Workload::Model(Box::new(model(cells.clone())));
    let options = RunOptions {
        length: Nanos(900 * Nanos::SECOND.0),
        ..RunOptions::default()
    };
    let (outcome, intervals) = run(&workload, SimQueueSpec::default(), &options);
    assert_eq!(outcome.submitted, cells);
    assert_eq!(outcome.generator.not_submitted, 0);
    let ops: u64 = cells.iter().map(|c| c.read.ops + c.write.ops).sum();
    assert_eq!(outcome.stats.ops(), ops);
    assert_eq!(intervals.iter().map(|i| i.stats.ops()).sum::<u64>(), ops);
    assert_eq!(intervals.len(), 900);
    assert!(intervals.iter().all(|i| i.length == Nanos::SECOND));
    assert!(intervals.is_sorted_by_key(|i| i.start));
}

#[test]
fn what_an_overloaded_disk_never_got_is_counted() {
    // 10 s at twice the rate the disk can do; 10 s more are not enough to catch up.
    let law = |_: Nanos, _: &OpRequest| Nanos(10 * MS);
    let (stats, submitted, not_submitted) = play(&[cell(10, 3_000, 0)], 4, Nanos(0), law);
    let handed_over = submitted[0].read.ops;
    assert_eq!(handed_over + not_submitted, 3_000);
    assert!((990..1_010).contains(&not_submitted), "{not_submitted}");
    assert_eq!(
        stats.ops(),
        handed_over,
        "those in flight at the end are recorded, and no errors"
    );
    assert_eq!(stats.errors(), 0);
}

#[test]
fn operations_meant_for_the_warm_up_are_not_recorded() {
    let law = |start: Nanos, _: &OpRequest| {
        let slow = start < Nanos(2_000 * MS);
        Nanos(if slow { 3 * MS } else { MS / 10 })
    };
    let cells = [cell(4, 800, 0)];
    let (all, ..) = play(&cells, 64, Nanos(0), law);
    let (measured, ..) = play(&cells, 64, Nanos(2_100 * MS), law);
    assert_eq!(all.ops(), 800);
    assert!((330..430).contains(&measured.ops()), "{}", measured.ops());
    assert!(all.service().max_ns() >= 3 * MS);
    assert!(measured.service().max_ns() < 2 * MS);
}

#[test]
fn a_closed_loop_does_what_its_depth_and_the_servers_allow() {
    let disk = SimQueueSpec {
        service: Nanos(MS),
        ns_per_byte: 0.0,
        servers: 4,
        ..SimQueueSpec::default()
    };
    let options = RunOptions {
        length: Nanos(5_000 * MS),
        warmup: Nanos(1_000 * MS),
        ..RunOptions::default()
    };
    for (depth, per_s, service) in [(1, 1_000.0, MS), (4, 4_000.0, MS), (32, 4_000.0, 8 * MS)] {
        let random = random("r", 0.5, |group| group.depth = depth);
        let (outcome, intervals) = run(&random, disk, &options);
        let found = outcome.stats.ops() as f64 / outcome.length.as_secs_f64();
        assert!((found / per_s - 1.0).abs() < 0.01, "{depth}: {found}");
        let mean = outcome.stats.service().mean_ns();
        assert!(
            (mean / service as f64 - 1.0).abs() < 0.02,
            "{depth}: {mean}"
        );
        let reads = outcome.stats.0[&OpKind::Read].ops() as f64;
        let share = reads / outcome.stats.ops() as f64;
        assert!((share - 0.5).abs() < 0.03, "{share}");
        assert!((5..=6).contains(&intervals.len()), "{}", intervals.len());
        assert_eq!(outcome.stats.lag().max_ns(), 0);
    }
}

#[test]
fn the_slowest_last_operation_does_not_stretch_a_closed_loop() {
    let disk = SimQueueSpec {
        service: Nanos(3_000 * MS),
        ns_per_byte: 0.0,
        servers: 1,
        ..SimQueueSpec::default()
    };
    let options = RunOptions {
        length: Nanos(4_000 * MS),
        ..RunOptions::default()
    };
    let random = random("r", 1.0, |group| group.depth = 1);
    // Operations start at 0 s and 3 s; the second ends at 6 s.
    let (outcome, intervals) = run(&random, disk, &options);
    assert_eq!(outcome.stats.ops(), 2);
    assert_eq!(outcome.length, options.length);
    let covered = intervals.iter().fold(Nanos(0), |sum, i| sum + i.length);
    assert_eq!(covered, Nanos(6_000 * MS), "the intervals have the rest");
    assert_eq!(intervals.iter().map(|i| i.stats.ops()).sum::<u64>(), 2);
    // A model is as long as its last operation.
    let model = Workload::Model(Box::new(model(vec![cell(4, 2, 0)])));
    let (outcome, _) = run(&model, disk, &options);
    assert!(outcome.length > options.length, "{}", outcome.length);
}

#[test]
fn what_ends_just_behind_the_end_is_in_the_last_interval() {
    let disk = SimQueueSpec {
        service: Nanos(3 * MS),
        ns_per_byte: 0.0,
        servers: 4,
        ..SimQueueSpec::default()
    };
    for (length, n_intervals) in [(1_000, 1), (2_000, 2), (2_010, 2), (2_100, 3)] {
        let options = RunOptions {
            length: Nanos(length * MS),
            ..RunOptions::default()
        };
        let random = random("r", 1.0, |_| ());
        let (outcome, intervals) = run(&random, disk, &options);
        assert_eq!(intervals.len(), n_intervals, "{length} ms");
        let mut sum = OpStats::default();
        intervals.iter().for_each(|i| sum.merge(&i.stats));
        assert_eq!(sum, outcome.stats, "{length} ms");
        let covered = intervals.iter().fold(Nanos(0), |sum, i| sum + i.length);
        let behind = covered.since(options.length);
        assert!(Nanos(0) < behind && behind < Nanos(30 * MS), "{behind}");
    }
}

#[test]
fn threads_that_want_the_same_file_wait_for_each_other() {
    let files = varmail(|set, group| {
        (set.entries, set.prealloc) = (1, 1.0);
        group.threads = 8;
        group.ops = ops(&[FileOp::Open, FileOp::Close]);
    });
    let options = RunOptions {
        length: Nanos(1_000 * MS),
        ..RunOptions::default()
    };
    let (outcome, _) = run(&Workload::Files(files), SimQueueSpec::default(), &options);
    // Only one can be opening the file at a time, for 100 us.
    let opens = outcome.stats.0[&OpKind::Open].ops();
    assert!((9_000..=10_001).contains(&opens), "{opens}");
}

#[test]
fn the_same_seed_simulates_the_same_run() {
    let files = varmail(|_, _| {});
    let options = RunOptions {
        length: Nanos(2_000 * MS),
        ..RunOptions::default()
    };
    let once = || {
        run(
            &Workload::Files(files.clone()),
            SimQueueSpec::default(),
            &options,
        )
        .0
    };
    let (a, b) = (once(), once());
    assert!(a.stats.ops() > 10_000);
    assert_eq!((a.stats, a.length), (b.stats, b.length));
}

#[test]
fn the_generator_says_what_it_took() {
    let stop = AtomicBool::new(false);
    let closed = random("closed", 1.0, |group| group.depth = 8);
    let open = Workload::Model(Box::new(model(vec![cell(1, 2_000, 0)])));
    for (workload, paces) in [(closed, false), (open, true)] {
        for place in [OpenTarget::Null, OpenTarget::Sim(SimDeviceSpec::default())] {
            let choice = EngineChoice::Auto;
            let is_virtual = matches!(place, OpenTarget::Sim(_));
            let mut prepared = prepare(place, &workload, None, Seed(1), choice, &stop).unwrap();
            let options = RunOptions {
                length: Nanos(300 * MS),
                warmup: Nanos(100 * MS),
                ..RunOptions::default()
            };
            let outcome = prepared.run(&options, &stop, &mut |_| {}).unwrap();
            let generator = outcome.generator;
            // Operations that were intended for the warm-up and ended after it also cost time.
            assert!(generator.ops >= outcome.stats.ops() && outcome.stats.ops() > 100);
            let own_ns = generator.outside_ns + generator.pacing_ns;
            if is_virtual {
                assert_eq!(own_ns, 0, "virtual time stands still meanwhile");
            } else {
                assert!(generator.outside_ns > 0);
                // The counters of two processors may differ by some ticks.
                assert!(paces || generator.pacing_ns < 1_000_000);
                assert!(!paces || generator.pacing_ns > 0);
                assert!(
                    own_ns <= outcome.length.0 + DriverLimits::DRAIN.0,
                    "{own_ns}"
                );
            }
        }
    }
}
