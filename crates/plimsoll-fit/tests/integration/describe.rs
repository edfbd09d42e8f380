// SPDX-License-Identifier: Apache-2.0
//! Descriptions held against what was measured of real recordings by other means.
//!
//! The recordings may not be distributed with this program. Set `PLIMSOLL_TEST_DATA` to a folder
//! that holds `pcp/` and `traces/`; without it every test here says that it was skipped.

use std::io::Write;
use std::path::PathBuf;

use plimsoll_core::model::IoDirection;
use plimsoll_core::profile::{DeviceRankingKey, RecordingProfile, RequestsProfile};
use plimsoll_fit::{describe, describe_requests, intervals, survey};
use plimsoll_trace::requests::TraceSorter;
use plimsoll_trace::{OpenRecording, open};

const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

fn data(file: &str, probe: &str) -> Option<PathBuf> {
    let root = std::env::var_os("PLIMSOLL_TEST_DATA").map_or(PathBuf::from(DEFAULT), PathBuf::from);
    if root.join(probe).exists() {
        return Some(root.join(file));
    }
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: {} is absent; set PLIMSOLL_TEST_DATA",
        root.join(probe).display()
    );
    None
}

fn of_counters(name: &str, disk: Option<&str>) -> Option<RecordingProfile> {
    let path = data(name, &format!("{name}.0"))?;
    let OpenRecording::Counters(counters) = open(&path).unwrap() else {
        panic!("{name} is of counters");
    };
    let window = counters
        .times()
        .window(Some("11:00"), Some("12:00"))
        .unwrap();
    Some(describe(&*counters, disk, &window).unwrap())
}

fn of_requests(name: &str) -> Option<RequestsProfile> {
    let path = data(name, name)?;
    let read = || match open(&path).unwrap() {
        OpenRecording::Requests(requests) => requests,
        OpenRecording::Counters(_) => panic!("{name} is of requests"),
    };
    let found = survey(&mut *read()).unwrap();
    let mut sorted = TraceSorter::new(read());
    let (description, series) = describe_requests(&mut sorted, &found, None).unwrap();
    // Every request of the device is in one of the intervals.
    let rows: f64 = intervals(&series).filter_map(|row| row.ops).sum();
    let requests = description.profile.requests.unwrap();
    let told: u64 = requests.kinds.iter().map(|kind| kind.requests).sum();
    assert!((rows - told as f64).abs() < 0.5, "{rows} {told}");
    Some(requests)
}

#[test]
fn the_file_server_is_told_without_a_hint() {
    let Some(found) = of_counters("pcp/diskmodel/nasdata", None) else {
        return;
    };
    assert_eq!(found.devices.devices.len(), 16);
    assert_eq!(found.devices.ranked_by, DeviceRankingKey::Busy);
    assert_eq!(found.profile.disk, "sdi");
    let reads = found.profile.direction(IoDirection::Read).unwrap();
    assert_eq!(
        format!("{:.6}", reads.ops_per_s.unwrap().stochastic),
        "84.987851"
    );
    let writes = found
        .profile
        .bursts
        .iter()
        .find(|b| b.direction == IoDirection::Write);
    assert!((writes.unwrap().period_s.unwrap() - 300.0).abs() < 1.0);
    assert_eq!(found.profile.points.len(), 239);
}

#[test]
fn streams_are_those_that_an_independent_count_found() {
    // Runs per request by another program with the same rule: 0.4437 and 0.787.
    for (name, runs, requests) in [
        ("traces/vscsi/cloudPhysicsIO.vscsi", 50_525, 113_872),
        ("traces/msr/msr-cambridge1-sample.csv", 787, 1_000),
    ] {
        let Some(found) = of_requests(name) else {
            continue;
        };
        let told: u64 = found.kinds.iter().map(|kind| kind.requests).sum();
        assert_eq!(told, requests, "{name}");
        let streams = found.streams.unwrap();
        let apart = streams.runs.abs_diff(runs);
        assert!(
            apart <= runs / 500,
            "{name}: {} runs, not {runs}",
            streams.runs
        );
        let whole = found.working_set.last().unwrap();
        assert!(whole.mean_bytes <= found.span_bytes as f64, "{name}");
        assert!(
            found.misses.is_sorted_by(|a, b| a.misses >= b.misses),
            "{name}"
        );
    }
}
