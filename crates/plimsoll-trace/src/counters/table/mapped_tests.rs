// SPDX-License-Identifier: Apache-2.0
//! Mapping files that say what names do not, and what is wrong with one.

use std::path::Path;

use crate::counters::begun_mapping;
use crate::series::DiskMetric;
use crate::{OpenRecording, open};

/// The figures of a disk of a mapping in a folder.
fn sums(path: &Path, disk: &str) -> Vec<(DiskMetric, f64)> {
    let OpenRecording::Counters(counters) = open(path).unwrap() else {
        panic!("it is of counters");
    };
    let series = counters.series(disk, &counters.times().span()).unwrap();
    let columns = series.columns.iter();
    columns
        .map(|column| (column.metric, column.averages().unwrap().whole))
        .collect()
}

fn in_folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

const CSV: &str =
    "Time;nas read;nas ops;lat\n21.11.2026 01:00:00;1.000,5;7;2\n21.11.2026 01:01:00;2.000,5;9;4\n";
const MAPPING: &str = r#"# Of a panel.
recording = "nas.csv"
decimal = ","
[time]
column = "Time"
zone = "Europe/Berlin"
[[column]]
name = "nas read"
device = "sda"
metric = "read-bytes"
kind = "rate"
unit = "kB"
[[column]]
name = "nas ops"
device = "sda"
metric = "reads"
kind = "sum"
[[column]]
name = "lat"
device = "sda"
metric = "read-time"
kind = "mean"
unit = "ms"
"#;

#[test]
fn a_mapping_says_what_names_do_not() {
    let folder = in_folder(&[("nas.csv", CSV), ("nas.toml", MAPPING)]);
    let path = folder.path().join("nas.toml");
    let found = sums(&path, "sda");
    let expect = [
        (DiskMetric::Reads, 9.0),
        (DiskMetric::ReadBytes, 2_000.5 * 1_000.0 * 60.0),
        (DiskMetric::ReadTime, 0.036),
    ];
    assert_eq!(found.len(), expect.len());
    for ((metric, value), (wanted, sum)) in found.iter().zip(expect) {
        assert_eq!(*metric, wanted);
        assert!((value - sum).abs() < 1e-6, "{metric:?}: {value}");
    }
    let OpenRecording::Counters(counters) = open(&path).unwrap() else {
        panic!("it is of counters");
    };
    // Midnight in UTC, an hour later in Berlin, and no note that there is no zone.
    assert_eq!(
        counters.times().span().to_unix_ns,
        1_795_219_260_000_000_000
    );
    assert_eq!(counters.warnings(), [] as [&str; 0]);
    let files = crate::files(&path).unwrap();
    assert_eq!(files, [path, folder.path().join("nas.csv")]);
    // Times that mark beginnings, and how long the intervals are.
    let begin = MAPPING.replace("zone =", "marks = \"begin\"\ninterval_s = 60\nzone =");
    std::fs::write(folder.path().join("nas.toml"), begin).unwrap();
    let found = sums(&folder.path().join("nas.toml"), "sda");
    assert!((found[0].1 - 16.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn a_mapping_that_is_wrong_is_refused_by_its_key() {
    for (from, to, parts) in [
        (
            "kind = \"sum\"",
            "kind = \"sums\"",
            ["unknown variant `sums`", "line 17"],
        ),
        ("zone =", "zones =", ["unknown field `zones`", "line 6"]),
        (
            "\"lat\"",
            "\"late\"",
            ["column 'late' is not in the table", "'lat' is"],
        ),
        (
            "unit = \"kB\"",
            "unit = \"ms\"",
            ["'nas read'", "none of bytes"],
        ),
        (
            "metric = \"read-time\"",
            "metric = \"reads\"",
            ["'lat'", "kind 'mean' is for"],
        ),
        ("Europe/Berlin", "Europe/Nowhere", ["time.zone", "Nowhere"]),
        ("\"nas.csv\"", "\"gone.csv\"", ["gone.csv", "is no file"]),
        (
            "name = \"lat\"",
            "name = \"nas ops\"",
            ["read-time", "mean"],
        ),
    ] {
        let folder = in_folder(&[
            ("nas.csv", CSV),
            ("nas.toml", &MAPPING.replacen(from, to, 1)),
        ]);
        let Err(error) = open(&folder.path().join("nas.toml")) else {
            assert_eq!(to, "name = \"nas ops\"", "a column may hold two figures");
            continue;
        };
        let error = error.to_string();
        assert!(
            parts.iter().all(|part| error.contains(part)),
            "{to}: {error}"
        );
    }
}

/// The answer of `history.get` as Zabbix's manual shows it, with another item and a later time.
const ZABBIX: &str = r#"{"jsonrpc":"2.0","result":[{"itemid":"23296","clock":"1351090996","value":"0.0850",
"ns":"563157632"},{"itemid":"23296","clock":"1351090936","value":"0.1600","ns":"549216402"},
{"itemid":"23297","clock":"1351090936","value":"3","ns":"1"},{"itemid":"23297","clock":"1351090996","value":"5",
"ns":"1"}],"id":1}"#;

#[test]
fn items_of_zabbix_are_named_by_a_mapping() {
    let example = include_str!("../../../../../examples/mappings/zabbix.toml");
    let folder = in_folder(&[("zabbix.json", ZABBIX), ("nas.toml", example)]);
    let found = sums(&folder.path().join("nas.toml"), "sda");
    assert_eq!(found.len(), 2);
    assert!(
        (found[0].1 - 0.085 * 60.0).abs() < 1e-9 && (found[1].1 - 300.0).abs() < 1e-9,
        "{found:?}"
    );
    let begun = begun_mapping(&folder.path().join("zabbix.json"), "zabbix.json").unwrap();
    for part in [
        "column = \"clock\"",
        "metric = \"itemid\"",
        "value = \"value\"",
    ] {
        assert!(begun.contains(part), "{begun}");
    }
}

#[test]
fn a_mapping_that_is_begun_has_what_is_understood_and_asks_for_the_rest() {
    let csv = "Time,sda r/s,nas read,cpu\n2026-11-21 00:00:00,1,2.5,3\n2026-11-21 00:00:01,3,4,5\n";
    let folder = in_folder(&[("nas.csv", csv)]);
    let begun = begun_mapping(&folder.path().join("nas.csv"), "nas.csv").unwrap();
    let path = folder.path().join("nas.toml");
    std::fs::write(&path, &begun).unwrap();
    assert_eq!(sums(&path, "sda"), [(DiskMetric::Reads, 3.0)]);
    for part in [
        "recording = \"nas.csv\"\nseparator = \",\"",
        "[time]\ncolumn = \"Time\"",
        "[[column]]\nname = \"sda r/s\"\ndevice = \"sda\"\nmetric = \"reads\"\nkind = \"rate\"",
        "# first value: 2.5\n# [[column]]\n# name = \"nas read\"",
        "# name = \"cpu\"",
    ] {
        assert!(begun.contains(part), "{part}\n{begun}");
    }
    // Values and names of others stay in their line.
    let evil = "Time,\"a\u{1b}[2J\"\n2026-11-21 00:00:00,\"x\u{7}y\"\n";
    std::fs::write(folder.path().join("nas.csv"), evil).unwrap();
    let begun = begun_mapping(&folder.path().join("nas.csv"), "nas.csv").unwrap();
    assert!(
        !begun.contains('\u{1b}') && !begun.contains('\u{7}'),
        "{begun}"
    );
    toml::from_str::<toml::Table>(&begun).unwrap();
    std::fs::write(folder.path().join("nas.csv"), "\0\0\0").unwrap();
    let error = begun_mapping(&folder.path().join("nas.csv"), "nas.csv").unwrap_err();
    assert!(
        error.to_string().contains("no columns with names"),
        "{error}"
    );
}
