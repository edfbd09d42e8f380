// SPDX-License-Identifier: Apache-2.0
//! One load, recorded by several programs at the same time, and what is read of their files.
//!
//! `tests/fixtures/programs` holds what atop 2.8.1, nmon 16n, collectl 4.3.1, dstat 0.8.0, dool 1.3.8,
//! vmstat of procps 4.0 and iostat 12.6 wrote on 2026-11-27 on one machine, every two seconds, while two
//! fio jobs read 40 and wrote some 25 times a second on a loop device, and others used the disk `vda`; and
//! `diskstats.txt`, the kernel's counters twice a second. (Debian's dstat does not run with Python 3.11
//! unless it is given `types.ListType`, `TupleType` and `StringType`; nothing else was changed.)

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use plimsoll_core::units::Nanos;
use plimsoll_trace::{CounterSource, DiskMetric, OpenRecording};

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/programs");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The counters of a text, and its file, which they are read of again.
fn opened(text: &str) -> (tempfile::NamedTempFile, Box<dyn CounterSource>) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    match plimsoll_trace::open(file.path()).unwrap() {
        OpenRecording::Counters(counters) => (file, counters),
        OpenRecording::Requests(_) => panic!("it is of counters"),
    }
}

/// Rates of the device in one line, found by hand: operations and KiB written per second.
type ByHand = fn(&[&str]) -> Option<[f64; 2]>;

fn number(word: &str) -> f64 {
    word.parse().unwrap()
}

/// A file, its device, the separator of its columns, the figures of a line, and the number of rows at the
/// front that are since the machine was started.
const FILES: [(&str, &str, &str, ByHand, usize); 8] = [
    (
        "atop.txt",
        "vda",
        " ",
        |w| {
            let is_row = w[0] == "DSK";
            is_row.then(|| {
                [
                    (number(w[8]) + number(w[10])) / number(w[5]),
                    number(w[11]) / 2.0 / number(w[5]),
                ]
            })
        },
        1,
    ),
    (
        "nmon.nmon",
        "loop0",
        ",",
        |w| {
            // One figure on a line: operations are in DISKXFER, KiB written are not checked here.
            (w[0] == "DISKXFER" && w[1].starts_with('T')).then(|| [number(w[2]), f64::NAN])
        },
        0,
    ),
    (
        "collectl-date.txt",
        "loop0",
        " ",
        |w| {
            w[0].starts_with("2026")
                .then(|| [number(w[3]) + number(w[7]), number(w[9])])
        },
        1,
    ),
    (
        "collectl-utc.txt",
        "loop0",
        " ",
        |w| {
            w[0].starts_with("1795")
                .then(|| [number(w[2]) + number(w[6]), number(w[8])])
        },
        1,
    ),
    (
        "collectl.txt",
        "loop0",
        " ",
        |w| (w.get(2) == Some(&"loop0")).then(|| [number(w[5]) + number(w[10]), number(w[8])]),
        0,
    ),
    (
        "dstat.csv",
        "loop0",
        ",",
        |w| {
            w[0].starts_with("27-11")
                .then(|| [number(w[7]) + number(w[8]), number(w[2]) / 1024.0])
        },
        1,
    ),
    (
        "dstat-epoch.csv",
        "loop0",
        ",",
        |w| {
            w[0].starts_with("1795")
                .then(|| [number(w[3]) + number(w[4]), number(w[2]) / 1024.0])
        },
        1,
    ),
    (
        "dool.csv",
        "loop0",
        ",",
        |w| {
            // Bits.
            w[0].starts_with("Nov-")
                .then(|| [number(w[3]) + number(w[4]), number(w[2]) / 8192.0])
        },
        1,
    ),
];

#[test]
fn every_row_of_a_program_is_told_to_the_digit() {
    for (name, device, separator, by_hand, skipped) in FILES {
        let text = fixture(name);
        let rows = text.lines().filter_map(|line| {
            let words: Vec<&str> = match separator {
                " " => line.split_whitespace().collect(),
                _ => line.split(separator).collect(),
            };
            by_hand(if words.is_empty() { &[""] } else { &words })
        });
        let expect: Vec<[f64; 2]> = rows.skip(skipped).collect();
        let (_file, counters) = opened(&text);
        let series = counters.series(device, &counters.times().span()).unwrap();
        let rates = |metric| -> Vec<f64> {
            let column = series.column(metric);
            let intervals = column.map(|column| column.intervals.iter());
            intervals.into_iter().flatten().map(|i| i.rate()).collect()
        };
        let (reads, writes, all) = (
            rates(DiskMetric::Reads),
            rates(DiskMetric::Writes),
            rates(DiskMetric::Ops),
        );
        let operations = match all.is_empty() {
            true => reads
                .iter()
                .zip(&writes)
                .map(|(reads, writes)| reads + writes)
                .collect(),
            false => all,
        };
        let written = rates(DiskMetric::WriteBytes);
        assert_eq!(operations.len(), expect.len(), "{name}");
        for (i, [ops, kib]) in expect.iter().enumerate() {
            assert!(
                (operations[i] - ops).abs() < 1e-6,
                "{name} {i}: {} {ops}",
                operations[i]
            );
            let is_kib = kib.is_nan() || (written[i] - kib * 1024.0).abs() < 1e-3;
            assert!(is_kib, "{name} {i}: {} {kib}", written[i]);
        }
    }
}

/// The kernel's counters of a device: time, then reads, sectors, writes, sectors.
fn kernel(device: &str) -> Vec<(f64, [f64; 4])> {
    let (mut at, mut found) = (0.0, Vec::new());
    for line in fixture("diskstats.txt").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.len() {
            1 => at = number(words[0]),
            _ if words[2] == device => {
                found.push((at, [3, 5, 7, 9].map(|place| number(words[place]))));
            }
            _ => {}
        }
    }
    found
}

/// Counters of the kernel at an instant, interpolated between two of its samples.
fn at(kernel: &[(f64, [f64; 4])], second: f64) -> [f64; 4] {
    let after = kernel.iter().position(|(at, _)| *at >= second).unwrap();
    let ((t0, a), (t1, b)) = (kernel[after - 1], kernel[after]);
    let share = (second - t0) / (t1 - t0);
    [0, 1, 2, 3].map(|i| a[i] + share * (b[i] - a[i]))
}

#[test]
fn programs_that_record_one_load_agree_with_the_kernel() {
    let others = [
        ("vmstat.txt", "loop0"),
        ("iostat-y.txt", "loop0"),
        ("iostat-y.json", "loop0"),
    ];
    let files = FILES.iter().map(|(name, device, ..)| (*name, *device));
    for (name, device) in files.chain(others) {
        let (_file, counters) = opened(&fixture(name));
        let known = kernel(device);
        let mut window = counters.times().span();
        let [begin, end] = [known[0].0 + 1.0, known[known.len() - 1].0 - 1.0];
        window.from_unix_ns = window.from_unix_ns.max(Nanos::from_secs_f64(begin).0);
        window.to_unix_ns = window.to_unix_ns.min(Nanos::from_secs_f64(end).0);
        let series = counters.series(device, &window).unwrap();
        let whole = |metric| series.averages(metric).map(|mean| mean.whole);
        let intervals = &series.columns[0].intervals;
        let ends = [
            intervals[0].from_unix_ns,
            intervals[intervals.len() - 1].to_unix_ns,
        ];
        let [from, to] = ends.map(|ns| ns as f64 / 1e9);
        assert!(to - from > 15.0, "{name}");
        // Ends are known to the second, so each count is one between these.
        let rise = |from, to| {
            let (before, after) = (at(&known, from), at(&known, to));
            let rise = |i: usize| after[i] - before[i];
            [
                rise(0),
                512.0 * rise(1),
                rise(2),
                512.0 * rise(3),
                rise(0) + rise(2),
            ]
        };
        let (least, most) = (rise(from + 1.0, to - 1.0), rise(from - 1.0, to + 1.0));
        // Figures printed without decimals are off by up to a half, for each of two figures.
        let half = if name.starts_with("collectl") {
            to - from
        } else {
            0.1
        };
        for (i, (metric, unit)) in [
            (DiskMetric::Reads, 1.0),
            (DiskMetric::ReadBytes, 1024.0),
            (DiskMetric::Writes, 1.0),
            (DiskMetric::WriteBytes, 1024.0),
            (DiskMetric::Ops, 1.0),
        ]
        .into_iter()
        .enumerate()
        {
            let Some(whole) = whole(metric) else { continue };
            let expect = rise(from, to)[i];
            let error = 100.0 * (whole - expect) / expect;
            let _ = writeln!(
                std::io::stderr(),
                "{name} {device} {metric:?}: {whole:.0}, kernel {expect:.0}, {error:+.2} %"
            );
            let slack = half * unit;
            let is_one = whole >= least[i] - slack && whole <= most[i] + slack;
            assert!(is_one, "{name} {metric:?}: {} to {}", least[i], most[i]);
        }
    }
}

#[test]
fn what_servers_of_monitoring_export_is_what_they_count() {
    // Of another load of 24 s (40 reads and 60 writes a second), scraped once a second by VictoriaMetrics
    // 1.79.5 from node_exporter 1.5 and exported by it; and written to InfluxDB 1.6.7 as Telegraf writes,
    // printed by `influx -format csv`. Both servers, asked for the last value less the first, said the same,
    // as fio did.
    for name in ["victoria.jsonl", "influx.csv"] {
        let (_file, counters) = opened(&fixture(name));
        assert_eq!(counters.disks(), ["loop0"], "{name}");
        let span = counters.times().span();
        let found = counters.averages(&counters.disks(), &span).unwrap();
        let whole = |metric| found[0].figure(metric).unwrap().whole;
        for (metric, expect) in [
            (DiskMetric::Reads, 960.0),
            (DiskMetric::ReadBytes, 7_864_320.0),
            (DiskMetric::Writes, 1_440.0),
            (DiskMetric::WriteBytes, 23_592_960.0),
        ] {
            assert!(
                (whole(metric) - expect).abs() < 1e-3,
                "{name} {metric:?}: {}",
                whole(metric)
            );
        }
    }
}

#[test]
fn counters_of_vmstat_are_those_of_the_kernel() {
    let text = fixture("vmstat.txt");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let rows: Vec<&Vec<&str>> = rows.iter().filter(|words| words[0] == "loop0").collect();
    let (first, last) = (rows[0], rows[rows.len() - 1]);
    let (_file, counters) = opened(&text);
    assert_eq!(counters.warnings(), [] as [&str; 0]);
    let found = counters
        .averages(&["loop0".into()], &counters.times().span())
        .unwrap();
    for (place, metric, unit) in [
        (1, DiskMetric::Reads, 1.0),
        (3, DiskMetric::ReadBytes, 512.0),
        (4, DiskMetric::ReadTime, 0.001),
        (5, DiskMetric::Writes, 1.0),
        (7, DiskMetric::WriteBytes, 512.0),
        (8, DiskMetric::WriteTime, 0.001),
    ] {
        let rise = (number(last[place]) - number(first[place])) * unit;
        assert!(
            (found[0].figure(metric).unwrap().whole - rise).abs() < 1e-6,
            "{metric:?}"
        );
    }
    let span = counters.times().span();
    assert_eq!(span.to_unix_ns - span.from_unix_ns, 24_000_000_000);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who asks nfsiostat"
)]
fn mounts_of_nfs_are_told_as_nfsiostat_tells_them() {
    // A mount as a page on NFS clients shows it (2020-04-30), without operations that were never asked for,
    // and ten seconds later, by hand.
    let text = fixture("mountstats.txt");
    let copies = text.split("1795785978.5\n").nth(1).unwrap();
    let (first, second) = copies.split_once("1795785988.5\n").unwrap();
    let copies = [first, second];
    let (_file, counters) = opened(&text);
    assert_eq!(counters.disks(), ["/mnt"]);
    let found = counters
        .averages(&["/mnt".into()], &counters.times().span())
        .unwrap();
    let mean = |metric| found[0].figure(metric).unwrap().time;
    assert!((mean(DiskMetric::ReadBytes) - 26_214_400.0).abs() < 1e-6);
    assert!((mean(DiskMetric::WriteBytes) - 12_897_484.8).abs() < 1e-6);
    let Ok(program) = std::fs::read_to_string("/usr/sbin/nfsiostat") else {
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: nfsiostat is missing\n");
        return;
    };
    // Its functions, without what it does when it is started.
    let program = program.split("\nprog = os.path.basename").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in ["a", "b"].into_iter().zip(copies) {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let place = folder.path().display();
    let asked = [
        "old, new = DeviceData(), DeviceData()",
        &format!("old.parse_stats(parse_stats_file('{place}/a')['/mnt'])"),
        &format!("new.parse_stats(parse_stats_file('{place}/b')['/mnt'])"),
        "new.compare_iostats(old).display_iostats(10.0, 0)",
    ];
    let script = [&[program][..], &asked].concat().join("\n");
    let output = Command::new("python3")
        .args(["-c", &script])
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaint}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut told = BTreeMap::new();
    let mut lines = printed.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line
            .split_whitespace()
            .next()
            .filter(|word| ["read:", "write:"].contains(word))
        {
            // Operations a second and the sixth value, the mean time in all; its KiB hold headers of calls.
            let values: Vec<f64> = lines
                .next()
                .unwrap()
                .split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect();
            told.insert(name, [values[0], values[values.len() - 2]]);
        }
    }
    for (name, ops, time) in [
        ("read:", DiskMetric::Reads, DiskMetric::ReadTime),
        ("write:", DiskMetric::Writes, DiskMetric::WriteTime),
    ] {
        let [per_s, exe_ms] = told[name];
        assert!((mean(ops) - per_s).abs() < 1e-3, "{printed}");
        assert!(
            (1000.0 * mean(time) / mean(ops) - exe_ms).abs() < 1e-3,
            "{printed}"
        );
    }
}

/// A log of typeperf in German, by the names of counters that Windows publishes; its figures are made up.
#[test]
fn counters_of_german_machines_are_read_in_any_encoding() {
    let disk = "\\\\DB1\\Physikalischer Datenträger(0 C:)";
    let names = [
        "Lesevorgänge/s",
        "Schreibvorgänge/s",
        "Bytes gelesen/s",
        "Bytes geschrieben/s",
        "Mittlere Sek./Lesevorgänge",
        "Leerlaufzeit (%)",
    ];
    let columns: String = names
        .iter()
        .map(|name| format!(",\"{disk}\\{name}\""))
        .collect();
    let row = |at, reads| {
        format!(
            "\"11/21/2026 00:15:3{at}\",\"{reads}\",\"5,5\",\"4096\",\"2048\",\"0,0005\",\"75\"\r\n"
        )
    };
    let text = format!(
        "\"(PDH-CSV 4.0)\"{columns}\r\n{}{}",
        row(2, "1"),
        row(4, "100,25")
    );
    for encoding in ["UTF-8", "code page 1252"] {
        let bytes: Vec<u8> = match encoding {
            "UTF-8" => text.clone().into_bytes(),
            _ => text
                .chars()
                .map(|letter| u8::try_from(u32::from(letter)).unwrap())
                .collect(),
        };
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let OpenRecording::Counters(counters) = plimsoll_trace::open(file.path()).unwrap() else {
            panic!("{encoding}");
        };
        assert_eq!(counters.disks(), ["0 C:"], "{encoding}");
        let found = counters
            .averages(&counters.disks(), &counters.times().span())
            .unwrap();
        let mean = |metric| found[0].figure(metric).unwrap().time;
        assert!(
            (mean(DiskMetric::Reads) - 100.25).abs() < 1e-9,
            "{encoding}"
        );
        assert!(
            (mean(DiskMetric::ReadTime) - 0.050_125).abs() < 1e-9,
            "{encoding}"
        );
        assert!(
            (mean(DiskMetric::WriteBytes) - 2048.0).abs() < 1e-9,
            "{encoding}"
        );
    }
}
