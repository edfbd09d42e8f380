// SPDX-License-Identifier: Apache-2.0
//! The reader held against figures that others published for real recordings.
//!
//! The recordings may not be distributed with this program. Set `PLIMSOLL_TEST_DATA` to a folder
//! that holds `pcp/diskmodel`, `pcp/good` and `pcp/bad` (from the PCP source tree); without it
//! every test here says that it was skipped.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use plimsoll_core::model::{FidelityCheck, IoDirection, ModelFacts};
use plimsoll_core::profile::QueueSource;
use plimsoll_fit::{FitOptions, describe, fit};
use plimsoll_trace::pcp::PcpArchive;
use plimsoll_trace::{CounterSource, DiskMetric, DiskSeries, MetricSeries, TraceError};

const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

fn data(part: &str) -> Option<PathBuf> {
    let root = std::env::var_os("PLIMSOLL_TEST_DATA").map_or(PathBuf::from(DEFAULT), PathBuf::from);
    let folder = root.join("pcp").join(part);
    if folder.is_dir() {
        return Some(folder);
    }
    // Straight to the stream: what the test harness captures is shown only for failed tests.
    let skipped = format!(
        "\nSKIPPED: no recordings in {}; set PLIMSOLL_TEST_DATA\n",
        folder.display()
    );
    std::io::stderr().write_all(skipped.as_bytes()).unwrap();
    None
}

/// Checks that `got` rounds to the digits that were printed.
fn printed(what: &str, got: f64, expected: &str) {
    let decimals = expected.split_once('.').map_or(0, |(_, d)| d.len());
    assert_eq!(format!("{got:.decimals$}"), expected, "{what}: {got}");
}

fn series(name: &str, disk: &str, from: &str, to: &str) -> Option<DiskSeries> {
    let archive = PcpArchive::open(&data("diskmodel")?.join(name)).unwrap();
    let window = archive.times().window(Some(from), Some(to)).unwrap();
    Some(archive.series(disk, &window).unwrap())
}

const KIB: f64 = 1024.0;

struct Row {
    metric: DiskMetric,
    unit: f64,
    stochastic: &'static str,
    time: &'static str,
}

fn row(metric: DiskMetric, unit: f64, stochastic: &'static str, time: &'static str) -> Row {
    Row {
        metric,
        unit,
        stochastic,
        time,
    }
}

fn check(series: &DiskSeries, rows: &[Row]) {
    for row in rows {
        let found = series.averages(row.metric).unwrap();
        let name = row.metric.pcp_name();
        printed(name, found.stochastic / row.unit, row.stochastic);
        printed(name, found.time / row.unit, row.time);
    }
    assert_eq!(series.damage, None);
}

#[test]
fn the_file_servers_hour_has_the_published_averages() {
    let Some(series) = series("nasdata", "sdi", "11:00", "12:00") else {
        return;
    };
    check(
        &series,
        &[
            row(DiskMetric::Reads, 1.0, "84.987851", "84.988"),
            row(DiskMetric::ReadBytes, KIB, "2521.440829", "2521.441"),
            row(DiskMetric::Writes, 1.0, "40.046553", "40.046"),
            row(DiskMetric::WriteBytes, KIB, "1233.424685", "1233.419"),
            row(DiskMetric::Active, 1.0, "0.13912", "0.139"),
        ],
    );
}

#[test]
fn the_databases_interactive_load_has_the_published_averages() {
    let Some(series) = series("dbdata", "F:", "11:10", "11:55") else {
        return;
    };
    check(
        &series,
        &[
            row(DiskMetric::Reads, 1.0, "145.142408", "145.141"),
            row(DiskMetric::ReadBytes, 1.0, "1255955.8", "1255963.97"),
            row(DiskMetric::Writes, 1.0, "82.343775", "82.362"),
            row(DiskMetric::WriteBytes, 1.0, "803580.8", "803756.29"),
            row(DiskMetric::QueueLength, 1.0, "2.094444", "2.106"),
            row(DiskMetric::Idle, 1.0, "0.531372", "0.531"),
        ],
    );
}

#[test]
fn the_databases_reporting_load_has_the_published_averages() {
    let Some(series) = series("dbdata.0", "F:", "2010-07-14 11:00:00", "11:05") else {
        return;
    };
    check(
        &series,
        &[
            row(DiskMetric::Reads, 1.0, "863.729369", "863.288"),
            row(DiskMetric::ReadBytes, 1.0, "42983866.7", "42959950.9"),
            row(DiskMetric::Writes, 1.0, "67.330524", "67.257"),
            row(DiskMetric::WriteBytes, 1.0, "650304.4", "649705.4"),
            row(DiskMetric::QueueLength, 1.0, "9.2", "9.683"),
            row(DiskMetric::Idle, 1.0, "0.283327", "0.283"),
        ],
    );
}

fn options(archive: &PcpArchive, disk: &str, window: Option<(&str, &str)>) -> FitOptions {
    let window = match window {
        Some((from, to)) => archive.times().window(Some(from), Some(to)).unwrap(),
        None => archive.times().span(),
    };
    FitOptions {
        disk: disk.into(),
        window,
        name: "test".into(),
        facts: ModelFacts::assumed(64 << 30),
    }
}

#[test]
fn sizes_shares_and_queues_are_those_of_the_published_spreadsheet() {
    let Some(folder) = data("diskmodel") else {
        return;
    };
    // Archive, disk, window, read size, write size (bytes), read share in per cent.
    for (name, disk, window, read, write, share) in [
        ("nasdata", "sdi", ("11:00", "12:00"), "30380", "31539", "68"),
        ("dbdata", "F:", ("11:10", "11:55"), "8653.3", "9758.9", "64"),
        (
            "dbdata",
            "F:",
            ("11:00", "11:05"),
            "49765.4",
            "9658.4",
            "93",
        ),
    ] {
        let archive = PcpArchive::open(&folder.join(name)).unwrap();
        let fitted = fit(&archive, &options(&archive, disk, Some(window))).unwrap();
        let missed = fitted.model.fidelity.iter().filter(|f| !f.passed());
        assert_eq!(missed.count(), 0, "{:?}", fitted.model.fidelity);
        let profile = fitted.profile;
        let of = |direction| profile.direction(direction).unwrap();
        let size = |direction| of(direction).mean_size_bytes.unwrap().stochastic;
        printed("read size", size(IoDirection::Read), read);
        printed("write size", size(IoDirection::Write), write);
        printed("share", of(IoDirection::Read).share.unwrap() * 100.0, share);
        if disk == "F:" {
            let queue = profile.queue.unwrap();
            assert_eq!(queue.source, QueueSource::Sampled);
            assert!(queue.standard_error.unwrap() > 0.4);
        } else {
            printed("busy ms", profile.busy_ms_per_op.unwrap(), "1.11");
        }
    }
}

#[test]
fn hidden_periods_are_found_and_the_models_pass_their_gates() {
    let Some(folder) = data("diskmodel") else {
        return;
    };
    for (name, disk, period) in [("nasdata", "sdi", 300.0), ("dbdata", "F:", 75.0)] {
        let archive = PcpArchive::open(&folder.join(name)).unwrap();
        let fitted = fit(&archive, &options(&archive, disk, None)).unwrap();
        let write = |b: &&plimsoll_core::model::BurstPattern| b.direction == IoDirection::Write;
        let bursts = fitted.model.bursts.iter().find(write).unwrap();
        eprintln!("{name} {disk}: {bursts:?}");
        assert!((bursts.period_s.unwrap() - period).abs() < 0.5);
        for phase in &fitted.model.phases {
            eprintln!("  {phase:?}");
        }
        let scan = fitted.model.phases.iter().find(|p| p.name == "scan");
        let windows: Vec<(&str, &str)> = scan
            .iter()
            .flat_map(|scan| &scan.stretches)
            .map(|s| (&s.from[11..16], &s.to[11..16]))
            .collect();
        let expected = match disk {
            "F:" => vec![("11:00", "11:02"), ("12:00", "12:02")],
            _ => Vec::new(),
        };
        assert_eq!(windows, expected, "{name} {disk}");
        let missed: Vec<&FidelityCheck> = fitted
            .model
            .fidelity
            .iter()
            .filter(|f| !f.passed())
            .collect();
        for line in &fitted.model.fidelity {
            eprintln!("  {line:?}");
        }
        assert!(missed.is_empty(), "{missed:?}");
        assert!(fitted.model.fidelity.len() > 15);
    }
}

/// The column as pmlogsummary 6 sees it: it cuts the nanoseconds of version 3 to microseconds,
/// which changes the seventh digit of a rate over some seconds.
fn to_microseconds(column: &MetricSeries) -> MetricSeries {
    let mut column = column.clone();
    for interval in &mut column.intervals {
        interval.from_unix_ns -= interval.from_unix_ns % 1_000;
        interval.to_unix_ns -= interval.to_unix_ns % 1_000;
    }
    column
}

#[test]
fn other_hosts_give_what_pmlogsummary_gives() {
    let Some(folder) = data("good") else {
        return;
    };
    let expected = folder.with_file_name("good_expected_pmlogsummary.txt");
    let expected = fs::read_to_string(expected).unwrap();
    let mut archive: Option<PcpArchive> = None;
    let mut checked = 0;
    for line in expected.lines() {
        if let Some(name) = line.strip_prefix("# ") {
            archive = Some(PcpArchive::open(&folder.join(name)).unwrap());
            continue;
        }
        let (Some(archive), Some((name, rest))) = (&archive, line.split_once(" [\"")) else {
            continue;
        };
        let (disk, rest) = rest.split_once("\"] ").unwrap();
        let value = rest.split(' ').next().unwrap();
        let unit = if rest.contains("Kbyte") { KIB } else { 1.0 };
        let known = DiskMetric::ALL.into_iter().find(|m| m.pcp_name() == name);
        let series = archive.series(disk, &archive.times().span()).unwrap();
        let column = series.column(known.unwrap()).unwrap();
        let found = to_microseconds(column).averages().unwrap();
        printed(line, found.time / unit, value);
        let exact = column.averages().unwrap();
        assert!(
            (exact.time - found.time).abs() <= 1e-6 * found.time,
            "{line}"
        );
        checked += 1;
    }
    assert_eq!(checked, 85);
}

#[test]
fn odd_archives_have_their_disks_or_say_why_not() {
    let Some(folder) = data("good") else {
        return;
    };
    // No disk.dev at all; compressed metadata; cut short, but where a record ends.
    for (name, disks) in [
        ("disk-b.meta", 0),
        // A disk, two partitions and two volumes.
        ("zero_disk_activity.0", 5),
        ("20101004-trunc.index", 24),
    ] {
        let archive = PcpArchive::open(&folder.join(name)).unwrap();
        assert_eq!(archive.disks().len(), disks, "{name}");
        assert_eq!(archive.damage(), None, "{name}");
    }
    let error = PcpArchive::open(&folder.join("no-such")).unwrap_err();
    assert!(error.to_string().contains("find a PCP archive"), "{error}");
    let archive = PcpArchive::open(&folder.join("vldb-disks")).unwrap();
    let disks = archive.disks();
    let error = fit(&archive, &options(&archive, &disks[0], None)).unwrap_err();
    assert!(
        error.to_string().contains("disk.dev.read was not recorded"),
        "{error}"
    );
    // Only a total, under a name that is padded with zeros.
    let told = describe(&archive, Some(&disks[0]), &archive.times().span()).unwrap();
    assert_eq!(
        (told.profile.intervals, told.profile.intervals_dropped),
        (3, 0)
    );
    assert!(told.profile.directions.is_empty());
    assert!(
        told.warnings
            .contains(&"disk.dev.read was not recorded".into())
    );
}

#[test]
fn a_folio_of_two_hosts_names_the_archives_to_choose_from() {
    let Some(folder) = data("diskmodel") else {
        return;
    };
    let error = PcpArchive::open(&folder).unwrap_err().to_string();
    assert!(error.contains("of several hosts"), "{error}");
    assert!(error.contains("dbdata (host db2)"), "{error}");
    assert!(error.contains("nasdata (host nas2)"), "{error}");
}

#[test]
fn a_disk_that_is_not_there_is_answered_with_those_that_are() {
    let Some(folder) = data("diskmodel") else {
        return;
    };
    let archive = PcpArchive::open(&folder.join("dbdata")).unwrap();
    let error = fit(&archive, &options(&archive, "sda", None)).unwrap_err();
    assert!(error.to_string().contains("F:, G:"), "{error}");
    let error = archive
        .times()
        .window(Some("14:00"), Some("15:00"))
        .unwrap_err();
    assert!(
        matches!(&error, TraceError::Outside { from, .. } if from == "2010-07-14T10:30:02+10:00"),
        "{error}"
    );
}

/// Results of pmlogsummary on damaged archives, from `bad_expected.txt`: where it gave up, this
/// reader must refuse the archive or tell its damage, by file and byte.
#[test]
fn damaged_archives_are_refused_or_read_up_to_the_damage() {
    let Some(folder) = data("bad") else {
        return;
    };
    let expected = fs::read_to_string(folder.with_file_name("bad_expected.txt")).unwrap();
    let mut refused = Vec::new();
    for line in expected.lines() {
        let (name, rest) = line.split_once(" rc=").unwrap();
        let is_read = rest.starts_with('0');
        match PcpArchive::open(&folder.join(name)) {
            Err(error) => {
                let text = error.to_string();
                assert!(!is_read, "{name}: {text}");
                let place = text.contains(" at byte ") || text.contains("version 1 archive");
                assert!(place && text.contains(&format!("/{name}.")), "{text}");
                refused.push(name);
            }
            Ok(archive) => {
                assert!(is_read || archive.damage().is_some(), "{name} has damage");
                if let Some(damage) = archive.damage() {
                    assert!(damage.file.contains(&format!("/{name}.")), "{damage}");
                    assert!(damage.offset >= 132, "{damage}");
                }
                let span = archive.times().span();
                assert!(span.from_unix_ns < span.to_unix_ns, "{name} has records");
                let all = archive.all_series(&span).unwrap();
                assert_eq!(all.len(), archive.disks().len());
            }
        }
    }
    // Labels that are none, version 1, or not one record: nothing could be kept of these alone.
    let nothing = [
        "ace",
        "badlabel-1",
        "badlen-10",
        "badlen-2",
        "badlen-4",
        "badlen-6",
        "badlen-8",
        "err_v1",
    ];
    assert_eq!(refused, nothing);
}
