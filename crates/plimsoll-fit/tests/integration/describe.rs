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

/// Profile of a recording with this text.
fn described(text: &str) -> RecordingProfile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    std::fs::write(&path, text).unwrap();
    match open(&path).unwrap() {
        OpenRecording::Counters(counters) => {
            describe(&*counters, None, &counters.times().span()).unwrap()
        }
        OpenRecording::Requests(mut requests) => {
            let found = survey(&mut *requests).unwrap();
            let mut sorted = TraceSorter::new(plimsoll_trace::requests::open(&path).unwrap());
            describe_requests(&mut sorted, &found, None).unwrap().0
        }
    }
}

#[test]
fn requests_without_ends_make_no_response_busy_or_queue() {
    // Every millisecond a read that takes half of one.
    for (missing, is_known) in [(0, true), (10, true), (60, false), (180, false)] {
        let mut lines = Vec::new();
        for i in 0..200 {
            let (at, place) = (i * 1_000_000, i * 1000 % 7_919);
            lines.push((at, format!("Q R {place} + 8 [a]")));
            if i * missing % 200 + missing <= 200 - usize::from(missing > 0) {
                lines.push((at + 500_000, format!("C R {place} + 8 [0]")));
            }
        }
        let ends = lines.len() - 200;
        let text = (1..)
            .zip(&lines)
            .map(|(number, (at_ns, rest))| format!("8,0 0 {number} 0.{at_ns:09} 7 {rest}\n"));
        let found = described(&text.collect::<String>());
        let device = &found.devices.devices[0];
        let told = found.warnings.join(" ");
        assert!(
            (device.response_ms.unwrap() - 0.5).abs() < 1e-9,
            "{device:?}"
        );
        assert_eq!(device.busy.is_some(), is_known, "{missing}: {device:?}");
        assert_eq!(device.queue.is_some(), is_known, "{missing}: {device:?}");
        assert_eq!(found.profile.queue.is_some(), is_known);
        assert_eq!(found.profile.utilisation.is_some(), is_known);
        let note = format!("{} of 200 requests of 8,0 have no end", 200 - ends);
        assert_eq!(told.contains(&note), missing > 0, "{note}: {told}");
        if missing == 0 {
            assert!((device.busy.unwrap() - 0.5).abs() < 0.01, "{device:?}");
        }
    }
}

#[test]
fn whole_seconds_are_told_with_what_they_cost() {
    for (step, part, note) in [
        (2, 0, Some("an interval of 2 s is known to ±1 s (±50 %)")),
        (2, 5, None),
        (60, 0, None),
    ] {
        let row = |i: u64| {
            let (at, n) = (1_795_220_132 + i * step, i * 100);
            format!("{at}.{part}\n8 0 sda {n} 0 {n} 1 {n} 0 {n} 1 0 1 1\n")
        };
        let told = described(&(0..20).map(row).collect::<String>())
            .warnings
            .join(" ");
        assert_eq!(told.contains("whole seconds"), note.is_some(), "{told}");
        assert!(told.contains(note.unwrap_or_default()), "{told}");
    }
}
