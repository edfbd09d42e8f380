// SPDX-License-Identifier: Apache-2.0
//! Report on a made-up recording, checked against its figures, and its text against a snapshot.

use plimsoll_core::histogram::Histogram;
use plimsoll_core::model::{
    BurstPattern, DirectionRates, FidelityCheck, FidelityNoiseFloor, FidelityReport,
    FidelityReportRow, IoDirection, ModelPhase, ModelPhaseSpan,
};
use plimsoll_core::op::OpKind;
use plimsoll_core::profile::{
    AccessSkew, ArrivalDispersion, DeviceKind, DeviceLoad, DeviceRanking, DirectionProfile,
    DiskProfile, InFlightStats, IntervalRates, KindProfile, MissRatio, OtherProfile,
    ProfileAverage, ProfilePoint, QueueDepthProfile, QueueSource, RecordingProfile,
    RequestsProfile, SequentialRunStats, SizeCount, TimeDistribution, WorkingSet,
};
use plimsoll_core::units::Nanos;
use plimsoll_report::{describe, html, terminal};

fn average(value: f64) -> ProfileAverage {
    ProfileAverage {
        stochastic: value,
        time: value * 0.99,
    }
}

fn device(name: &str, busy: f64) -> DeviceLoad {
    DeviceLoad {
        name: name.into(),
        layer: DeviceKind::Disk,
        counted_again: false,
        ops_per_s: Some(1_000.0 * busy),
        read_share: Some(0.75),
        bytes_per_s: Some(8e6 * busy),
        busy: Some(busy),
        queue: None,
        response_ms: None,
    }
}

fn direction(direction: IoDirection, ops: f64) -> DirectionProfile {
    DirectionProfile {
        direction,
        ops_per_s: Some(average(ops)),
        bytes_per_s: Some(average(ops * 8192.0)),
        mean_size_bytes: Some(average(8192.0)),
        share: Some(ops / 400.0),
        rates: Some(IntervalRates {
            median_per_s: ops / 2.0,
            p95_per_s: ops * 2.0,
            peak_per_s: ops * 3.0,
        }),
        idc: Some(123.4),
    }
}

fn point(at: u32) -> ProfilePoint {
    let at = f64::from(at);
    ProfilePoint {
        from_s: at * 10.0,
        to_s: at * 10.0 + 10.0,
        reads_per_s: Some(100.0 + at),
        reads_peak_per_s: Some(300.0),
        writes_per_s: Some(at % 5.0 * 40.0),
        busy: Some(0.4),
        queue: Some(at / 10.0),
        read_response_ms: Some(2.0),
        ..ProfilePoint::default()
    }
}

fn phase(name: &str, from: &str, to: &str) -> ModelPhase {
    let rates = DirectionRates {
        ops_per_s: 100.0,
        bytes_per_s: 1e6,
    };
    ModelPhase {
        name: name.into(),
        stretches: vec![ModelPhaseSpan {
            first: 0,
            intervals: 10,
            from: from.into(),
            to: to.into(),
        }],
        share: 0.5,
        load: [rates, rates],
        own: None,
    }
}

fn profile() -> DiskProfile {
    DiskProfile {
        disk: "sd<i>".into(),
        from: "2010-07-14T11:00:00+10:00".into(),
        to: "2010-07-14T11:05:00+10:00".into(),
        intervals: 60,
        intervals_dropped: 1,
        interval_s: 5.0,
        ops_per_s: Some(average(400.0)),
        bytes_per_s: Some(average(400.0 * 8192.0)),
        others: vec![OtherProfile {
            what: "flushes".into(),
            per_s: average(588.0),
            is_bytes: false,
        }],
        directions: vec![
            direction(IoDirection::Read, 300.0),
            direction(IoDirection::Write, 100.0),
        ],
        utilisation: Some(average(0.4)),
        queue: Some(QueueDepthProfile {
            average: average(2.0),
            source: QueueSource::Sampled,
            standard_error: Some(0.48),
        }),
        busy_ms_per_op: Some(1.0),
        bursts: vec![BurstPattern {
            direction: IoDirection::Write,
            threshold_per_s: 125.0,
            count: 1,
            period_s: Some(300.0),
            autocorrelation: Some(0.8),
            duty: 0.1,
            share: 0.6,
        }],
        phases: vec![
            phase(
                "base",
                "2010-07-14T11:00:00+10:00",
                "2010-07-14T11:03:00+10:00",
            ),
            phase(
                "scan",
                "2010-07-14T11:03:00+10:00",
                "2010-07-14T11:05:00+10:00",
            ),
        ],
        points: (0..30).filter(|at| *at != 11).map(point).collect(),
        requests: None,
    }
}

fn requests() -> RequestsProfile {
    let mut histogram = Histogram::new();
    (1..=5_000).for_each(|i| histogram.record(Nanos(i * 1_000)));
    let times = TimeDistribution::of(&histogram);
    RequestsProfile {
        tells_kinds: true,
        kinds: vec![KindProfile {
            kind: OpKind::Read,
            requests: 5_000,
            bytes: Some(5_000 * 4096),
            response: times.clone(),
        }],
        sizes: vec![SizeCount {
            kind: OpKind::Read,
            bytes: 4096,
            requests: 4_000,
        }],
        sizes_more: 1_000,
        streams: Some(SequentialRunStats {
            sequential_share: 0.35,
            runs: 3_250,
            run_mean_requests: 1.54,
            run_median_requests: 2,
            run_max_requests: 77,
            run_mean_bytes: 6_300.0,
        }),
        skew: vec![AccessSkew {
            zones: 0.01,
            requests: 0.2,
        }],
        resolution_ns: 1,
        span_bytes: 1 << 34,
        working_set: vec![WorkingSet {
            window_s: 300.0,
            mean_bytes: 2e7,
            max_bytes: 2e7,
        }],
        misses: vec![
            MissRatio {
                cache_bytes: 4096.0,
                misses: 0.8,
            },
            MissRatio {
                cache_bytes: 8192.0,
                misses: 0.3,
            },
        ],
        gaps: times,
        gaps_variation: Some(0.58),
        dispersion: vec![ArrivalDispersion {
            window_s: 1.0,
            index: 12.0,
        }],
        in_flight: Some(InFlightStats {
            mean: 1.5,
            busy: 0.6,
            found_median: 1,
            found_p99: 7,
            found_max: 9,
        }),
    }
}

fn description(requests: Option<RequestsProfile>) -> RecordingProfile {
    let devices = vec![
        device("sd<i>", 0.4),
        device("sdb", 0.1),
        device("dm-0", 0.5),
    ];
    RecordingProfile {
        recording: "nas".into(),
        format: "PCP archive, version 2".into(),
        host: "nas2".into(),
        devices: DeviceRanking::rank(devices, &|_| None),
        profile: DiskProfile {
            requests,
            ..profile()
        },
        warnings: vec!["one thing to know".into()],
    }
}

#[test]
fn the_text_of_a_fixed_description_is_as_it_was() {
    let found = terminal(&describe(&description(Some(requests()))), 100, false, false);
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!("describe.txt", found);
    });
}

#[test]
fn the_page_has_charts_with_holes_marks_and_no_foreign_markup() {
    let page = html(&describe(&description(Some(requests()))));
    assert!(!page.contains("sd<i>") && page.contains("sd&lt;i&gt;"));
    for part in [
        "11:01",
        "class=\"band\"",
        ">scan</text>",
        "one thing to know",
        "(dm-0)",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // The missing point cuts each line of the reads in two.
    let (_, evidence) = page.split_once("id=\"content\"").unwrap();
    let reads = evidence.matches("<title>operations, read</title>").count();
    assert_eq!(reads, 2);
    let without = html(&describe(&description(None)));
    assert!(!without.contains("Working set"));
}

#[test]
fn a_description_in_which_nothing_is_known_is_still_told() {
    let mut bare = description(None);
    bare.devices = DeviceRanking::rank(
        vec![DeviceLoad {
            read_share: None,
            bytes_per_s: None,
            busy: None,
            ..device("sda", 0.0)
        }],
        &|_| None,
    );
    bare.profile = DiskProfile {
        directions: Vec::new(),
        utilisation: None,
        queue: None,
        busy_ms_per_op: None,
        bursts: Vec::new(),
        phases: Vec::new(),
        points: Vec::new(),
        ..profile()
    };
    let text = terminal(&describe(&bare), 60, false, false);
    assert!(
        text.contains("reads and writes not distinguished"),
        "{text}"
    );
    assert!(text.contains("none found"), "{text}");
}

#[test]
fn what_was_not_recorded_is_a_dash_and_never_nought() {
    let mut bare = description(None);
    let bytes_only = DeviceLoad {
        ops_per_s: None,
        read_share: None,
        busy: None,
        ..device("sda", 0.5)
    };
    let other = DeviceLoad {
        name: "sdb".into(),
        bytes_per_s: None,
        ..bytes_only.clone()
    };
    bare.devices = DeviceRanking::rank(vec![bytes_only, other], &|_| None);
    let only_bytes = |d: IoDirection| DirectionProfile {
        ops_per_s: None,
        mean_size_bytes: None,
        share: None,
        rates: None,
        idc: None,
        ..direction(d, 1.0)
    };
    bare.profile = DiskProfile {
        ops_per_s: None,
        directions: vec![only_bytes(IoDirection::Read)],
        points: Vec::new(),
        phases: Vec::new(),
        others: Vec::new(),
        ..profile()
    };
    let text = terminal(&describe(&bare), 100, false, false);
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
    for device in ["sda", "sdb", "all"] {
        assert!(line(device).contains('–'), "{text}");
    }
    assert!(text.contains("operations were not recorded"), "{text}");
    assert!(text.contains("their bytes"), "{text}");
    for nought in [
        "0.00 operations",
        "-0 B",
        " 0 B/s",
        "no reads",
        "read operations",
    ] {
        assert!(!text.contains(nought), "{nought}: {text}");
    }
}

#[test]
fn gates_are_a_page_that_says_first_whether_all_were_passed() {
    let check = |metric: &str, error: f64| FidelityReportRow {
        line: FidelityCheck {
            metric: metric.into(),
            recorded: 100.0,
            submitted: 100.0 * (1.0 + error),
            error,
            gate: 0.02,
            copy: false,
        },
        floor: FidelityNoiseFloor {
            seeds: None,
            halves: None,
        },
    };
    let report = |lines: Vec<FidelityReportRow>| FidelityReport {
        recording: "nas.csv".into(),
        disk: "sda".into(),
        from: "0 s".into(),
        to: "60 s".into(),
        compared: 60,
        lines,
        untold: vec!["no offsets".into()],
    };
    let good = report(vec![check("reads <per> second", 0.01)]);
    let page = |report: &FidelityReport| {
        let document = plimsoll_report::verified("nas.toml", &[("nas".into(), report)]);
        (document.answer.text.clone(), html(&document))
    };
    let (said, drawn) = page(&good);
    assert_eq!(
        said,
        "nas.toml is the recorded load: it passes all of 1 gate."
    );
    assert!(drawn.contains("reads &lt;per&gt; second") && drawn.contains("data-n=\"0.01\""));
    let bad = report(vec![check("reads per second", 0.01), check("bytes", -0.3)]);
    let (said, drawn) = page(&bad);
    assert!(said.contains("misses 1 of 2 gates: bytes"), "{said}");
    assert!(drawn.contains("MISSED") && drawn.contains("no offsets"));
}
