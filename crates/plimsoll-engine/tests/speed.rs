// SPDX-License-Identifier: Apache-2.0
//! What the generator itself costs: on the engine that does nothing, and per direct read.

mod common;

use std::sync::atomic::AtomicBool;

use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::{FileLoop, RandomIo, Workload};
use plimsoll_engine::{EngineChoice, Place, RunOptions, prepare};

#[test]
#[ignore = "a measurement: run with --release --ignored --nocapture on an idle core"]
fn null_operations_per_second() {
    for depth in [1, 32] {
        let random = RandomIo {
            depth,
            ..RandomIo::new("null", 1.0)
        };
        let stop = AtomicBool::new(false);
        let workload = Workload::Random(random);
        let choice = EngineChoice::Auto;
        let mut prepared = prepare(Place::Null, &workload, None, Seed(1), choice, &stop).unwrap();
        let options = RunOptions {
            length: Nanos(2_000_000_000),
            warmup: Nanos(200_000_000),
            ..RunOptions::default()
        };
        let outcome = prepared.run(&options, &stop, &mut |_| {}).unwrap();
        let per_s = outcome.stats.ops() as f64 / outcome.length.as_secs_f64();
        let cpu = outcome.generator.user_cpu_ns + outcome.generator.system_cpu_ns;
        let ns = cpu as f64 / outcome.stats.ops() as f64;
        println!(
            "depth {depth}: {:.1} M/s, {ns:.1} ns per operation",
            per_s / 1e6
        );
        assert!(per_s > 1e6, "{per_s}");
    }
}

#[test]
#[ignore = "a measurement: run with --release --ignored --nocapture on an idle core"]
fn direct_reads_cpu_per_operation() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = Place::Directory {
        path: directory.path(),
        direct_align: 512,
    };
    let stop = AtomicBool::new(false);
    let workload = Workload::Random(RandomIo {
        file_bytes: 256 << 20,
        ..RandomIo::new("direct", 1.0)
    });
    for choice in [EngineChoice::Auto, EngineChoice::Sync] {
        let mut prepared = prepare(place, &workload, None, Seed(1), choice, &stop).unwrap();
        let options = RunOptions {
            length: Nanos(2_000_000_000),
            warmup: Nanos(200_000_000),
            ..RunOptions::default()
        };
        let outcome = prepared.run(&options, &stop, &mut |_| {}).unwrap();
        let per_s = outcome.stats.ops() as f64 / outcome.length.as_secs_f64();
        let ops = outcome.stats.ops() as f64;
        let user = outcome.generator.user_cpu_ns as f64 / ops / 1e3;
        let system = outcome.generator.system_cpu_ns as f64 / ops / 1e3;
        let engine = outcome.generator.engine;
        println!("{engine}: {per_s:.0}/s, user {user:.2} us, system {system:.2} us");
        assert_eq!(outcome.stats.errors(), 0);
    }
}

#[test]
#[ignore = "a measurement: run with --release --ignored --nocapture on an idle core"]
fn lag_of_an_open_loop_and_operations_of_varmail() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = Place::Directory {
        path: directory.path(),
        direct_align: 512,
    };
    let stop = AtomicBool::new(false);
    let model = Workload::Model(common::model(vec![common::cell(3, 30_000, 0)]));
    let varmail = Workload::Files(FileLoop::varmail());
    for workload in [model, varmail] {
        let choice = EngineChoice::Auto;
        let mut prepared = prepare(place, &workload, None, Seed(1), choice, &stop).unwrap();
        let options = RunOptions {
            length: Nanos(3_000_000_000),
            ..RunOptions::default()
        };
        let outcome = prepared.run(&options, &stop, &mut |_| {}).unwrap();
        let (lag, ops) = (outcome.stats.lag(), outcome.stats.ops());
        let at = |q| plimsoll_core::units::duration(Nanos(lag.quantile_ns(q)));
        let (p50, p99) = (at(0.5), at(0.99));
        println!(
            "{}: {ops} operations, lag {p50}, p99 {p99}",
            workload.name()
        );
        assert_eq!(outcome.stats.errors(), 0);
        prepared.remove().unwrap();
    }
}
