// SPDX-License-Identifier: Apache-2.0
//! `plimsoll profile`: figures that others published, layers, requests, and what is refused.

use super::bad_input::refuses;
use super::exchange::vscsi;
use super::spreadsheet::cells;
use crate::support::{Lab, skipped, text};
use plimsoll_core::profile::{DeviceComposition, DeviceKind};
use plimsoll_core::recording::{DeviceCounterSample, DiskCounters};
use plimsoll_trace::pcp::{PcpWriter, PcpWriterOptions};
use std::fmt::Write as _;

/// The tutorial's recordings, or a word that they are missing.
fn recording(name: &str) -> Option<String> {
    let base = std::env::var("PLIMSOLL_TEST_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").into());
    let path = format!("{base}/pcp/diskmodel/{name}");
    if std::path::Path::new(&format!("{path}.0")).exists() {
        return Some(path);
    }
    skipped(
        &format!("the published figures of {name}"),
        "set PLIMSOLL_TEST_DATA to the recordings",
    );
    None
}

/// Checks that a number rounds to the digits that were printed.
fn printed(what: &str, got: &str, expected: &str) {
    let decimals = expected.split_once('.').map_or(0, |(_, d)| d.len());
    let got: f64 = got
        .parse()
        .unwrap_or_else(|_| panic!("{what}: '{got}' is not a number"));
    assert_eq!(format!("{got:.decimals$}"), expected, "{what}");
}

/// Profiles a window into a spreadsheet and holds its averages: figure, unit, average of interval
/// rates (what the tutorial's spreadsheet has), average over time.
fn holds(lab: &Lab, args: &[&str], rows: &[(&str, &str, &str, &str)]) {
    let file = "out.xlsx";
    let mut all = vec!["profile"];
    all.extend(args);
    all.extend(["--xlsx", file, "--force"]);
    let done = lab.run(&all);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let cells = cells(&lab.path(file), "averages");
    let cell = |place: String| cells.get(&place).map_or("", String::as_str);
    for (figure, unit, stochastic, time) in rows {
        let is_row =
            |row: &usize| cell(format!("B{row}")) == *figure && cell(format!("E{row}")) == *unit;
        let row = (2..40)
            .find(is_row)
            .unwrap_or_else(|| panic!("{figure}, {unit}: {cells:?}"));
        assert_eq!(cell(format!("A{row}")), args[2], "{figure}");
        printed(figure, cell(format!("C{row}")), stochastic);
        printed(figure, cell(format!("D{row}")), time);
    }
}

#[test]
fn the_tutorials_spreadsheet_is_written_with_both_averages() {
    let (Some(nas), Some(db)) = (recording("nasdata"), recording("dbdata")) else {
        return;
    };
    let lab = Lab::new();
    holds(
        &lab,
        &[&nas, "--disk", "sdi", "--from", "11:00", "--to", "12:00"],
        &[
            ("read operations", "1/s", "84.987851", "84.988"),
            ("read throughput", "KiB/s", "2521.440829", "2521.441"),
            ("write operations", "1/s", "40.046553", "40.046"),
            ("write throughput", "KiB/s", "1233.424685", "1233.419"),
            ("busy share of time", "1", "0.13912", "0.139"),
        ],
    );
    holds(
        &lab,
        &[&db, "--disk", "F:", "--from", "11:10", "--to", "11:55"],
        &[
            ("read operations", "1/s", "145.142408", "145.141"),
            ("read throughput", "B/s", "1255955.8", "1255963.97"),
            ("write operations", "1/s", "82.343775", "82.362"),
            ("write throughput", "B/s", "803580.8", "803756.29"),
            ("mean queue", "1", "2.094444", "2.106"),
            ("idle share of time", "1", "0.531372", "0.531"),
        ],
    );
    holds(
        &lab,
        &[&db, "--disk", "F:", "--from", "11:00", "--to", "11:05"],
        &[
            ("read operations", "1/s", "863.729369", "863.288"),
            ("read throughput", "B/s", "42983866.7", "42959950.9"),
            ("write operations", "1/s", "67.330524", "67.257"),
            ("write throughput", "B/s", "650304.4", "649705.4"),
            ("mean queue", "1", "9.2", "9.683"),
            ("idle share of time", "1", "0.283327", "0.283"),
        ],
    );
}

/// A recording of `/proc/diskstats`: a disk, its partition, a volume above it, and a disk without
/// load, for `seconds` seconds.
fn diskstats(seconds: u64) -> String {
    let mut out = String::new();
    for s in 0..seconds {
        let _ = writeln!(out, "{}", 1_795_220_132 + s);
        let (reads, sectors, ms) = (100 * s, 800 * s, 200 * s);
        for (minor, name) in [(0, "sda"), (1, "sda1")] {
            let _ = writeln!(
                out,
                "8 {minor} {name} {reads} 0 {sectors} {ms} 0 0 0 0 0 {} {ms}",
                150 * s
            );
        }
        let _ = writeln!(out, "8 16 sdb 5 0 40 1 0 0 0 0 0 1 1");
        let _ = writeln!(
            out,
            "253 0 dm-0 {reads} 0 {sectors} {ms} 0 0 0 0 0 {} {ms}",
            150 * s
        );
    }
    out
}

#[test]
fn layers_are_told_apart_and_the_busiest_disk_is_told_in_full() {
    let lab = Lab::new();
    std::fs::write(lab.path("stat.txt"), diskstats(20)).unwrap();
    let told = lab.json(&[
        "profile",
        "stat.txt",
        "-o",
        "page.html",
        "--parquet",
        "all.parquet",
        "--json",
    ]);
    let devices = told["devices"]["devices"].as_array().unwrap();
    let again = |name: &str| {
        let device = devices.iter().find(|d| d["name"] == name).unwrap();
        (
            device["layer"].as_str().unwrap(),
            device["counted_again"] == true,
        )
    };
    assert_eq!(again("sda"), ("disk", false));
    assert_eq!(again("sda1"), ("partition", true));
    assert_eq!(again("dm-0"), ("device_mapper", true));
    let near = |value: &serde_json::Value, expect: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - expect).abs() < 1e-6, "{value} is not {expect}");
    };
    near(&told["devices"]["ops_per_s"], 100.0);
    assert_eq!(devices[0]["name"], "sda");
    near(&devices[0]["busy"], 0.15);
    near(&devices[0]["queue"], 0.2);
    near(&devices[0]["response_ms"], 2.0);
    let profile = &told["profile"];
    assert_eq!(
        (&profile["disk"], &profile["intervals"]),
        (&"sda".into(), &19.into())
    );
    let points = profile["points"].as_array().unwrap();
    assert_eq!(points.len(), 19);
    near(&points[7]["reads_per_s"], 100.0);
    near(&points[7]["read_response_ms"], 2.0);
    let table = std::fs::read(lab.path("all.parquet")).unwrap();
    assert!(table.starts_with(b"PAR1") && table.ends_with(b"PAR1"));
    for name in [&b"sda1"[..], b"sdb", b"dm-0"] {
        assert!(
            table.windows(name.len()).any(|w| w == name),
            "every disk is in it"
        );
    }
    let page = std::fs::read_to_string(lab.path("page.html")).unwrap();
    for part in ["(sda1)", "not in the sum", "<svg", "prefers-color-scheme"] {
        assert!(page.contains(part), "{part} is on the page");
    }
    assert!(!page.contains("http://") || page.contains("http://www.w3.org/2000/svg"));
}

/// An archive of a disk with a partition and a volume, and of one that is reached on two ways.
fn write_layers(lab: &Lab) {
    const START_NS: u64 = 1_795_220_000_000_000_000;
    let heading = PcpWriterOptions {
        host: "recorded".into(),
        zone: "UTC".into(),
        zone_name: String::new(),
        process: 1,
        start_unix_ns: START_NS,
        volume_bytes: 1 << 20,
    };
    let mut writer = PcpWriter::create(&lab.path("layers"), heading).expect("a writable directory");
    for n in 0..=40 {
        let counted = |rate: u64| DiskCounters {
            reads: rate * n,
            read_sectors: rate * 8 * n,
            read_ms: rate * n,
            writes: rate * n,
            write_sectors: rate * 8 * n,
            write_ms: rate * n,
            queue_ms: 2 * rate * n,
            ..DiskCounters::default()
        };
        let above = |name: &str, made: DeviceComposition, rate| DeviceCounterSample {
            made,
            ..DeviceCounterSample::disk(name, counted(rate))
        };
        let both = DeviceComposition {
            layer: DeviceKind::Multipath,
            paths: ["sda", "sdb"].map(Into::into).to_vec(),
        };
        let found = [
            DeviceCounterSample::disk("sda", counted(100)),
            DeviceCounterSample::disk("sdb", counted(150)),
            DeviceCounterSample::disk("vda", counted(200)),
            above("vda1", DeviceComposition::of(DeviceKind::Partition), 200),
            above("home", DeviceComposition::of(DeviceKind::DeviceMapper), 200),
            above("36001", both, 250),
        ];
        let at_unix_ns = START_NS + 1 + n * 1_000_000_000;
        writer
            .record(at_unix_ns, &found)
            .expect("it is later than the last");
    }
    writer.finish().expect("a writable directory");
}

#[test]
fn layers_of_an_archive_are_set_aside_and_named() {
    let lab = Lab::new();
    write_layers(&lab);
    let told = lab.json(&["profile", "layers", "--json"]);
    let sum = told["devices"]["ops_per_s"].as_f64().unwrap();
    assert!((sum - 900.0).abs() < 1e-6, "{told}");
    assert_eq!(told["profile"]["disk"], "36001");
    let listed = text(&lab.run(&["fit", "layers"]).stderr);
    let aside = "sda (disk), sdb (disk), vda1 (partition), home (device mapper)";
    for part in ["its disks are vda, 36001;", aside] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let fitted = lab.run(&["fit", "layers", "--disk", "home"]);
    let said = text(&fitted.stderr);
    assert!(
        said.contains("note: home (device mapper) repeats load of"),
        "{said}"
    );
    let fitted = lab.run(&["fit", "layers", "--disk", "36001"]);
    assert_eq!(fitted.status.code(), Some(0), "{}", text(&fitted.stderr));
    assert!(!text(&fitted.stderr).contains("repeats load of"));
}

#[test]
fn a_disk_without_load_has_a_profile_and_an_empty_window_none() {
    let lab = Lab::new();
    std::fs::write(lab.path("stat.txt"), diskstats(20)).unwrap();
    let idle = lab.run(&[
        "profile",
        "stat.txt",
        "--disk",
        "sdb",
        "--xlsx",
        "idle.xlsx",
    ]);
    assert!(idle.status.success(), "{}", text(&idle.stderr));
    assert!(
        text(&idle.stdout).contains("no reads and no writes"),
        "{}",
        text(&idle.stdout)
    );
    assert_eq!(cells(&lab.path("idle.xlsx"), "averages")["C2"], "0");
    let rows = cells(&lab.path("idle.xlsx"), "intervals");
    assert!(
        rows.contains_key("A20") && !rows.contains_key("A21"),
        "19 intervals"
    );
    assert_eq!(rows.get("M2"), None, "no response time without reads");
    let refused = |args: &[&str], parts: &[&str]| refuses(&lab, args, 2, parts);
    let (from, to) = ("2026-11-21 00:15:33.2", "2026-11-21 00:15:33.8");
    refused(
        &["profile", "stat.txt", "--from", from, "--to", to],
        &["sda", "0 intervals are usable", "longer window"],
    );
    refused(
        &["profile", "stat.txt", "--disk", "sdz"],
        &["sdz", "it has sda, sda1, sdb, dm-0"],
    );
    let table = ["profile", "stat.txt", "--parquet", "no/such/table"];
    refused(&table, &["no/such/table"]);
    refused(&["profile", "none"], &["find a recording at none"]);
    refused(
        &["profile", "stat.txt", "--xlsx", "idle.xlsx"],
        &["it exists", "--force"],
    );
    std::fs::write(lab.path("v"), vscsi()).unwrap();
    refused(
        &["profile", "v", "--from", "11:00"],
        &["11:00", "such as 10m"],
    );
    let nowhere = ["profile", "stat.txt", "-o", "no/such/page.html"];
    refused(&nowhere, &["no/such/page.html"]);
}

#[test]
fn requests_are_told_by_order_places_and_times() {
    let lab = Lab::new();
    std::fs::write(lab.path("web.vscsi"), vscsi()).unwrap();
    let told = lab.json(&["profile", "web.vscsi", "--xlsx", "web.xlsx", "--json"]);
    let requests = &told["profile"]["requests"];
    assert_eq!(requests["streams"]["runs"], 2);
    assert_eq!(requests["streams"]["run_max_requests"], 500);
    assert_eq!(requests["sizes"][0]["bytes"], 8192);
    let whole = requests["working_set"].as_array().unwrap().last().unwrap();
    assert_eq!(whole["mean_bytes"], 8_192_000.0);
    assert_eq!(requests["gaps"]["max_ns"], 4_000_000);
    assert_eq!(requests["in_flight"], serde_json::Value::Null);
    let last = requests["misses"].as_array().unwrap().last().unwrap();
    assert_eq!(last["misses"], 1.0, "nothing is touched twice");
    let shown = text(&lab.run(&["profile", "web.vscsi"]).stdout);
    for part in ["100 % of the requests continue", "0.00 (Poisson: 1)"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.lines().count() < 80, "one screen: {shown}");
}

/// A disk that reads, writes and is flushed after each write, by `/proc/diskstats` each second.
fn flushed(seconds: u64) -> String {
    let mut out = String::new();
    for s in 0..seconds {
        let _ = writeln!(
            out,
            "{}\n254 0 vda {} 0 {} {} {} 0 {} {} 0 {} {} 0 0 0 0 {} 1",
            1_795_220_132 + s,
            100 * s,
            800 * s,
            20 * s,
            600 * s,
            4_800 * s,
            30 * s,
            15 * s,
            50 * s,
            588 * s
        );
    }
    out
}

#[test]
fn the_only_disk_is_taken_flushes_are_told_and_passed_gates_are_one_line() {
    let lab = Lab::new();
    std::fs::write(lab.path("disk.txt"), flushed(60)).unwrap();
    let fitted = lab.run(&["fit", "disk.txt", "-o", "disk.toml"]);
    assert_eq!(fitted.status.code(), Some(0), "{}", text(&fitted.stderr));
    let note = "588 flushes/s beside 600 writes/s are recorded and not played: add --declare sync";
    let said = text(&fitted.stderr);
    assert!(said.contains(note), "{said}");
    let told = text(&fitted.stdout);
    assert!(
        told.contains("gates passed") && !told.contains("  pass"),
        "{told}"
    );
    assert!(told.contains("flushes"), "{told}");
    let listed = text(&lab.run(&["fit", "disk.txt", "--gates"]).stdout);
    assert!(listed.matches("  pass").count() > 5, "{listed}");
    // A copy held against itself has no error to report.
    assert!(
        listed.contains(" copy ") && !listed.contains(" 0.00 %"),
        "{listed}"
    );
    assert!(listed.contains("of them on a copy"), "{listed}");
    let json = lab.json(&["fit", "disk.txt", "--json"]);
    let gates = json["fidelity"].as_array().unwrap();
    let is_told = |gate: &&serde_json::Value| gate["copy"] == true || gate["error"] != 0.0;
    assert_eq!(
        gates.iter().filter(is_told).count(),
        gates.len(),
        "{gates:?}"
    );
    let sync = ["fit", "disk.txt", "--declare", "sync", "-o", "sync.toml"];
    assert!(!text(&lab.run(&sync).stderr).contains("not played"));
    let verified = lab.run(&["verify", "sync.toml", "--against", "disk.txt"]);
    assert!(!text(&verified.stdout).contains("not played"));
    let verify = ["verify", "disk.toml", "--against", "disk.txt"];
    let verified = text(&lab.run(&verify).stdout);
    assert!(
        verified.contains("Passed: ") && !verified.contains("  pass"),
        "{verified}"
    );
    assert!(verified.contains("588 flushes/s"), "{verified}");
    let listed = text(&lab.run(&[&verify[..], &["--gates"]].concat()).stdout);
    assert!(listed.matches("  pass").count() > 5, "{listed}");
}

#[test]
fn damage_is_told_by_file_and_byte_and_a_device_is_called_one() {
    let lab = Lab::new();
    write_layers(&lab);
    let meta = std::fs::read(lab.path("layers.meta")).unwrap();
    std::fs::write(lab.path("layers.meta"), &meta[..830]).unwrap();
    for command in ["profile", "fit"] {
        let words = ["layers.meta is damaged at byte 808", "disks"];
        refuses(&lab, &[command, "layers"], 2, &words);
    }
    let words = ["another device", "into a file first"];
    refuses(&lab, &["profile", "/dev/null"], 2, &words);
    std::fs::write(lab.path("sa22"), b"\x96\xd5\x75\x21\x0c\x06").unwrap();
    refuses(&lab, &["profile", "sa22"], 2, &["sadf -j FILE -- -d"]);
}
