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
            "--no-verify",
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
        "--no-verify",
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
        ("varmail,nfiles=many", "whole number"),
        ("iozone -i 0 -r 4k -s 1g -Z", "'Z'"),
    ] {
        let output = lab.run(&["run", workload, &target]);
        assert_eq!(output.status.code(), Some(2), "{workload}");
        let error = text(&output.stderr);
        assert!(error.contains(expect), "{workload}: {error}");
    }
}
