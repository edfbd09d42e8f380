// SPDX-License-Identifier: Apache-2.0
//! The classic benchmarks as their users call them, at sizes that end in seconds.

use crate::support::{Lab, text};

/// Every workload by name, what to run of it in a moment, and what its own text must contain
/// (nothing: it has none).
const CLASSICS: &[(&str, &[&str])] = &[
    ("varmail,nfiles=300,nthreads=2", &["IO Summary:"]),
    ("webserver,nfiles=300,nthreads=2", &["IO Summary:"]),
    (
        "fileserver,nfiles=300,nthreads=2,meandirwidth=5",
        &["IO Summary:"],
    ),
    ("webproxy,nfiles=300,nthreads=2", &["IO Summary:"]),
    ("randomread,filesize=4m", &["IO Summary:"]),
    ("bonnie++ -s 2 -n 1 -r 0 -f", &["2.00", "1.98"]),
    (
        "iozone -i 0 1 2 -t 2 -s 1m -r 64k -e -c",
        &[
            "Children see throughput for",
            "Parent sees throughput for",
            "Min xfer",
        ],
    ),
    (
        "sgpdd-survey,size=4,rszlo=64,rszhi=64,crglo=1,crghi=2,thrlo=1,thrhi=2",
        &["total_size", "rsz"],
    ),
    ("ior-easy,b=2m,t=256k,workers=2", &["write", "read"]),
    ("ior-hard,s=4,workers=2", &["write", "read"]),
    (
        "mdtest-easy,n=20,threads=2",
        &["File creation", "File removal"],
    ),
    (
        "mdtest-hard,n=20,threads=2",
        &["File creation", "File read"],
    ),
];

#[test]
fn every_classic_runs_tells_its_own_text_and_leaves_the_target_clean() {
    let lab = Lab::new();
    for (place, (workload, expect)) in CLASSICS.iter().enumerate() {
        let target = lab.directory("t");
        let folder = format!("r{place}");
        let args = [
            "run",
            workload,
            &target,
            "--for",
            "200ms",
            "--warmup",
            "0s",
            "--no-self-test",
            "-o",
            &folder,
        ];
        let output = lab.run(&args);
        let (shown, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{workload}: {error}");
        for line in *expect {
            assert!(shown.contains(line), "{workload} lacks '{line}': {shown}");
        }
        let left = std::fs::read_dir(&target)
            .expect("the target is there")
            .count();
        assert_eq!(left, 0, "{workload} left something behind");
        let again = text(&lab.run(&["report", &folder, "--classic"]).stdout);
        assert!(shown.contains(again.trim()), "{workload}: {again}");
    }
}

#[test]
fn phases_are_compared_one_by_one() {
    let lab = Lab::new();
    let (one, other) = (lab.directory("a"), lab.directory("b"));
    let json = lab.json(&[
        "compare",
        &one,
        &other,
        "-w",
        "mdtest-easy,n=50,threads=1",
        "--blocks",
        "2",
        "--no-control",
        "--no-self-test",
        "--json",
        "-o",
        "r",
    ]);
    let rows = json["comparisons"]
        .as_array()
        .expect("comparisons are listed");
    let labels: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["workload"].as_str())
        .collect();
    assert!(
        labels.iter().any(|label| label.ends_with(": create")),
        "{labels:?}"
    );
    assert!(
        labels.iter().any(|label| label.ends_with(": delete")),
        "{labels:?}"
    );
}

#[test]
fn workloads_are_listed_with_their_settings_and_mistakes_find_the_nearest() {
    let lab = Lab::new();
    let all = text(&lab.run(&["workloads"]).stdout);
    for name in [
        "varmail",
        "bonnie++",
        "iozone",
        "sgpdd-survey",
        "copy-tree",
        "build",
        "stamp",
    ] {
        assert!(all.contains(name), "{name} is missing: {all}");
    }
    let one = text(&lab.run(&["workloads", "varmail"]).stdout);
    assert!(one.contains("nfiles") && one.contains("1000"), "{one}");
    let target = lab.directory("t");
    for (workload, expect) in [
        ("varmial", "did you mean 'varmail'"),
        ("varmail,nfile=3", "did you mean 'nfiles'"),
        (
            "varmail,nfiles=many",
            "error: invalid value 'many' for nfiles of varmail: expected an integer",
        ),
        ("iozone -i 0 -r 4k -s 1g -Z", "'Z'"),
    ] {
        let output = lab.run(&["run", workload, &target]);
        assert_eq!(output.status.code(), Some(2), "{workload}");
        let error = text(&output.stderr);
        assert!(error.contains(expect), "{workload}: {error}");
    }
}

/// The operations that `--trace-ops` prints, as objects.
fn traced(lab: &Lab, args: &[&str]) -> Vec<serde_json::Value> {
    let args = [&["run"], args, &["--json", "--seed", "1"]].concat();
    let value = lab.json(&args);
    value.as_array().expect("an array of operations").clone()
}

#[test]
fn the_operations_of_varmail_are_shown_without_a_target() {
    let lab = Lab::new();
    let args = ["varmail,nthreads=1", "--trace-ops", "13"];
    let expect = "delete create append fsync close open read_whole append fsync close open \
                  read_whole close";
    let ops = traced(&lab, &args);
    let kinds: Vec<&str> = ops.iter().filter_map(|op| op["kind"].as_str()).collect();
    assert_eq!(kinds.join(" "), expect);
    let output = lab.run(&[&["run"], &args[..]].concat());
    let lines = text(&output.stdout);
    let words = lines.lines().map(|line| line.split_whitespace().collect());
    let words: Vec<Vec<&str>> = words.collect();
    let first: Vec<&str> = words.iter().map(|words| words[0]).collect();
    assert_eq!(first.join(" "), expect);
    assert!(words.iter().all(|words| words.len() == 4), "{lines}");
    let told = text(&output.stderr);
    assert!(told.lines().any(|line| line.starts_with("seed ")), "{told}");
    // The output lists differences from the original.
    assert!(told.contains("unlike in filebench"), "{told}");
}

#[test]
fn the_records_of_iozone_are_shown_phase_by_phase() {
    let lab = Lab::new();
    let ops = traced(
        &lab,
        &[
            "iozone -i 0 -i 1 -i 2 -t 2 -s 64k -r 16k",
            "--trace-ops",
            "100",
        ],
    );
    // Each test ends with a sync and a close.
    assert_eq!(ops.len(), 6 * (4 + 2));
    for (phase, kind, is_random) in [
        ("write", "write", false),
        ("rewrite", "write", false),
        ("read", "read", false),
        ("reread", "read", false),
        ("random_read", "read", true),
        ("random_write", "write", true),
    ] {
        let mut of_phase: Vec<_> = ops.iter().filter(|op| op["phase"] == phase).collect();
        for last in ["close", "fsync"] {
            assert_eq!(of_phase.pop().unwrap()["kind"], last, "{phase}");
        }
        assert!(of_phase.iter().all(|op| op["kind"] == kind), "{phase}");
        assert!(of_phase.iter().all(|op| op["bytes"] == 16_384), "{phase}");
        let offsets = of_phase.iter().filter_map(|op| op["offset"].as_u64());
        let mut offsets: Vec<u64> = offsets.collect();
        if is_random {
            offsets.sort_unstable();
        }
        assert_eq!(offsets, [0, 16_384, 32_768, 49_152], "{phase}");
    }
}

#[test]
fn what_cannot_be_traced_is_said() {
    let lab = Lab::new();
    for (args, expect) in [
        (
            &["randread", "--trace-ops", "1", "--group", "7"][..],
            "no worker 0 in a group 7",
        ),
        (&["cmd:true", "--trace-ops", "1"], "not traced"),
        (&["randread", "--trace-ops", "0"], "1..=10000000"),
        (&["randread"], "no target is given"),
        (&["randread", "t", "--group", "0"], "--trace-ops"),
    ] {
        let output = lab.run(&[&["run"], args].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expect), "{args:?}: {said}");
    }
}
