// SPDX-License-Identifier: Apache-2.0
//! Recorded requests are played at the instants at which they were recorded: at the end of an hour
//! as at its beginning.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use plimsoll_core::model::{PackedGapPrecision, ReplayAddressSpace, WorkloadModel};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_engine::OpenTarget;
use plimsoll_engine::RunOptions;
use plimsoll_engine::{EngineChoice, SimDeviceSpec};
use plimsoll_fit::TraceFitOptions;
use plimsoll_trace::requests::{self, TraceSorter};

const HOUR_NS: u64 = 3_600 * 1_000_000_000;

/// Requests of an hour, alone and in bursts, as MQSim has its input (ns, device, sector, sectors, 1
/// for a read), and their instants.
fn hour() -> (String, Vec<u64>) {
    let mut rng = Rng::new(Seed(4));
    let (mut text, mut starts) = (String::new(), Vec::new());
    let mut at = 0;
    while at < HOUR_NS {
        let sector = rng.below(1 << 20) * 8;
        let _ = writeln!(text, "{at} 0 {sector} 8 {}", u32::from(rng.below(3) > 0));
        starts.push(at);
        at += match rng.below(20) {
            0 => rng.below(2_000_000_000),
            _ => 1_000 + rng.below(8_000_000),
        };
    }
    (text, starts)
}

fn model(path: &Path, gaps: Option<PackedGapPrecision>) -> WorkloadModel {
    let survey = plimsoll_fit::survey(&mut *requests::open(path).unwrap()).unwrap();
    let disk = survey.devices[0].name.clone();
    let mut reader = TraceSorter::new(requests::open(path).unwrap());
    let keep = TraceFitOptions {
        gaps,
        ..TraceFitOptions::default()
    };
    let fitted = plimsoll_fit::fit_requests(&mut reader, &survey, &disk, "hour", keep);
    fitted.unwrap().model
}

/// How far the instants that are meant are from the recorded ones at most, in the first and the last
/// minute, ns.
fn offsets(model: &WorkloadModel, starts: &[u64]) -> [u64; 2] {
    let played = model.play(
        &model.whole(1.0),
        &ReplayAddressSpace::AsRecorded,
        512,
        Seed(1),
    );
    let meant: Vec<u64> = played.map(|request| request.intended_at.0).collect();
    assert_eq!(meant.len(), starts.len());
    let largest = |from: u64, to: u64| {
        let both = starts.iter().zip(&meant);
        let inside = both.filter(|(start, _)| (from..to).contains(*start));
        inside.map(|(start, at)| start.abs_diff(*at)).max().unwrap()
    };
    let minute = HOUR_NS / 60;
    [largest(0, minute), largest(HOUR_NS - minute, HOUR_NS)]
}

#[test]
fn an_hour_is_played_without_drift() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hour.trace");
    let (text, starts) = hour();
    std::fs::write(&path, text).unwrap();
    let exact = model(&path, Some(PackedGapPrecision::Exact));
    let (at_first, at_last) = (
        offsets(&exact, &starts),
        offsets(&model(&path, None), &starts),
    );
    let told = format!(
        "{} requests of an hour; meant off by at most, first and last minute: {at_first:?} ns \
         exactly packed, {at_last:?} ns as packed by default\n",
        starts.len()
    );
    std::io::stderr().write_all(told.as_bytes()).unwrap();
    assert!(at_first.iter().all(|off| *off <= 1), "{told}");

    // The engine hands them over at these instants, in virtual time, however long it goes on.
    let disk: SimDeviceSpec = "sim".parse().unwrap();
    let workload = Workload::Model(Box::new(exact));
    let go = AtomicBool::new(false);
    let mut prepared = plimsoll_engine::prepare(
        OpenTarget::Sim(disk),
        &workload,
        None,
        Seed(1),
        EngineChoice::Auto,
        &go,
    )
    .unwrap();
    let options = RunOptions {
        length: Nanos(HOUR_NS),
        warmup: Nanos(0),
        depth_max: 256,
        seed: Seed(1),
        ..RunOptions::default()
    };
    let mut lags = Vec::new();
    let outcome = prepared
        .run(&options, &go, &mut |interval| {
            lags.push(interval.stats.lag().max_ns());
        })
        .unwrap();
    assert_eq!(outcome.stats.ops(), starts.len() as u64);
    assert!(lags.len() >= 3_599, "{}", lags.len());
    assert!(lags.iter().all(|lag| *lag == 0), "{lags:?}");
}
