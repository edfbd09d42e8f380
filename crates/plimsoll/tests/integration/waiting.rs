// SPDX-License-Identifier: Apache-2.0
//! Requests that waited for others are played so: on a faster device as many are done as their source
//! would have done there. Independent ones stay where they were.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use plimsoll_core::model::WorkloadModel;
use plimsoll_core::num::round_u64;
use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_engine::OpenTarget;
use plimsoll_engine::RunOptions;
use plimsoll_engine::sim::SimDeviceModel as _;
use plimsoll_engine::{EngineChoice, SimDeviceSpec};
use plimsoll_fit::TraceFitOptions;
use plimsoll_trace::requests::{self, TraceSorter};

const SLOW: &str = "sim(queue,service=2ms,servers=4,law=exponential)";
const FAST: &str = "sim(queue,service=1ms,servers=4,law=exponential)";
/// How long is recorded, and how much of it is played.
const RECORDED: Nanos = Nanos(20 * Nanos::SECOND.0);
const PLAYED: Nanos = Nanos(8 * Nanos::SECOND.0);

/// Who sends requests.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// This number of lanes, each of which thinks for 4 ms on average after a request.
    Lanes(u32),
    /// Requests at this rate per second, independent of everything.
    Independent(f64),
    /// Chains at this rate per second, each of five requests with 500 µs between an end and the next start.
    Chains(f64),
}

/// Starts and times taken of what a source sends to a device until `end`.
fn sent(source: Source, device: &str, end: Nanos, seed: Seed) -> Vec<(Nanos, Nanos)> {
    let device: SimDeviceSpec = device.parse().unwrap();
    let mut device = device.device(seed);
    let mut rng = Rng::new(seed);
    let mut think = |mean_ns: f64| Nanos(round_u64(rng.exponential(mean_ns)));
    // When, and how many follow.
    let mut due = BinaryHeap::new();
    match source {
        Source::Lanes(lanes) => {
            due.extend((0..lanes).map(|_| Reverse((think(4e6), u64::MAX))));
        }
        Source::Independent(per_s) | Source::Chains(per_s) => {
            let mut at = Nanos(0);
            while at < end {
                at = at + think(1e9 / per_s);
                let follow = if matches!(source, Source::Chains(_)) {
                    4
                } else {
                    0
                };
                due.push(Reverse((at, follow)));
            }
        }
    }
    let mut sent = Vec::new();
    while let Some(Reverse((at, follow))) = due.pop() {
        if at >= end {
            break;
        }
        let request = OpRequest {
            kind: OpKind::Read,
            file: 0,
            offset: 0,
            len: 4_096,
            intended_at: at,
        };
        let done = device.serve(at, &request);
        sent.push((at, done.since(at)));
        if follow > 0 {
            let pause = match source {
                Source::Chains(_) => Nanos(500_000),
                _ => think(4e6),
            };
            due.push(Reverse((done + pause, follow - 1)));
        }
    }
    sent
}

/// Model fitted to a recording of the source, in the format of MSR.
fn fitted(source: Source, seed: Seed) -> WorkloadModel {
    let mut text = String::new();
    for (at, took) in sent(source, SLOW, RECORDED, seed) {
        let (at, took) = (128_166_372_000_000_000 + at.0 / 100, took.0 / 100);
        let _ = writeln!(text, "{at},h,0,Read,{},4096,{took}", at % 1_000 * 4_096);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("waiting.csv");
    std::fs::write(&path, text).unwrap();
    let survey = plimsoll_fit::survey(&mut *requests::open(&path).unwrap()).unwrap();
    let mut reader = TraceSorter::new(requests::open(&path).unwrap());
    let disk = survey.devices[0].name.clone();
    let fitted =
        plimsoll_fit::fit_requests(&mut reader, &survey, &disk, "m", TraceFitOptions::default())
            .unwrap();
    fitted.model
}

/// How many requests of a model are done on a device.
fn done(model: &WorkloadModel, device: &str) -> f64 {
    let workload = Workload::Model(Box::new(model.clone()));
    let place = OpenTarget::Sim(device.parse().unwrap());
    let go = AtomicBool::new(false);
    let mut prepared =
        plimsoll_engine::prepare(place, &workload, None, Seed(1), EngineChoice::Auto, &go).unwrap();
    let options = RunOptions {
        length: PLAYED,
        warmup: Nanos(0),
        depth_max: 256,
        seed: Seed(1),
        ..RunOptions::default()
    };
    let outcome = prepared.run(&options, &go, &mut |_| {}).unwrap();
    outcome.stats.ops() as f64
}

#[test]
fn a_faster_device_does_as_many_as_the_source_would_send_it() {
    for (source, faster) in [
        (Source::Lanes(8), 1.1..2.0),
        (Source::Lanes(1), 1.1..2.0),
        (Source::Chains(60.0), 0.9..1.1),
        (Source::Independent(1_000.0), 0.9..1.1),
    ] {
        let model = fitted(source, Seed(7));
        let is_open = matches!(source, Source::Independent(_));
        assert_eq!(model.waits(), !is_open, "{source:?}");
        let would = sent(source, FAST, PLAYED, Seed(8)).len() as f64;
        let (slow, fast) = (done(&model, SLOW), done(&model, FAST));
        assert!(
            (fast / would - 1.0).abs() < 0.06,
            "{source:?}: {fast} {would}"
        );
        assert!(faster.contains(&(fast / slow)), "{source:?}: {slow} {fast}");
    }
}

#[test]
fn of_a_closed_loop_the_rate_counts() {
    let lanes = Workload::Model(Box::new(fitted(Source::Lanes(8), Seed(3))));
    let chains = Workload::Model(Box::new(fitted(Source::Chains(60.0), Seed(3))));
    let metric = |workload: &Workload| workload.metric().map(|metric| format!("{metric:?}"));
    assert_eq!(metric(&lanes).as_deref(), Some("OpsPerSecond"));
    assert_eq!(metric(&chains).as_deref(), Some("MeanResponse"));
}
