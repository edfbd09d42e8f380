// SPDX-License-Identifier: Apache-2.0
//! Verdicts on simulated devices whose law says whether they fit.

use crate::support::{Lab, text};
use serde_json::Value;

/// One server: what a write and a sync take is known, and nothing goes beside them.
fn device(service: &str) -> String {
    format!("sim(queue,servers=1,service={service},rate=100000M)")
}

/// The verdict and the interval of the only target; the exit code must be this one.
fn judged(lab: &Lab, args: &[&str], run: &str, code: i32) -> (String, [f64; 3], String) {
    let output = lab.run(&[args, &["--seed", "3", "-o", run, "--json"]].concat());
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    let line = &json["load_lines"]["lines"][0];
    assert_eq!(
        line["requirement"]["name"].as_str(),
        args[1].split(',').next()
    );
    let ends = line["sustained"].as_array().expect("an interval");
    let ends = [0, 1, 2].map(|at: usize| ends[at].as_f64().expect("a number"));
    let fit = line["fit"].as_str().expect("a verdict").to_owned();
    let told = text(&lab.run(&["report", run]).stdout);
    (
        fit,
        ends,
        told.split_whitespace().collect::<Vec<_>>().join(" "),
    )
}

#[test]
fn a_log_that_is_fast_enough_fits_and_its_head_room_is_where_the_law_says() {
    let lab = Lab::new();
    // A write and a sync of 2 ms each: 250 commits a second, 2.5 times 100.
    let device = device("2ms");
    let args = ["fit-for", "postgres-wal", &device, "--for", "30s"];
    let (fit, [low, _, high], told) = judged(&lab, &args, "r", 0);
    assert_eq!(fit, "fits");
    assert!(
        low <= 2.5 && 2.5 <= high && high / low < 1.5,
        "{low} {high}"
    );
    assert!(told.contains("[fits]"), "{told}");
    assert!(told.contains("fits postgres-wal: it carries"), "{told}");
    assert!(told.contains("https://www.postgresql.org/docs/15/pgtestfsync.html"));
    assert!(told.contains("What does postgres-wal need?"), "{told}");
}

#[test]
fn a_sync_beyond_the_limit_does_not_fit_at_any_load() {
    let lab = Lab::new();
    let device = device("11ms");
    let args = ["fit-for", "etcd", &device, "--for", "30s"];
    let (fit, _, told) = judged(&lab, &args, "r", 10);
    assert_eq!(fit, "does not fit");
    assert!(told.contains("[does not fit]"), "{told}");
    assert!(
        told.contains("it carries less than 0.") && told.contains("× of what it needs"),
        "{told}"
    );
    assert!(told.contains("https://etcd.io/docs/v3.5/faq/"), "{told}");
}

#[test]
fn a_line_at_what_is_needed_cannot_be_told() {
    let lab = Lab::new();
    // 100 commits a second are all that two operations of 5 ms leave room for, and 100 are needed.
    let device = device("5ms");
    let args = ["fit-for", "postgres-wal", &device, "--for", "30s"];
    let (fit, [low, _, high], told) = judged(&lab, &args, "r", 11);
    assert_eq!(fit, "cannot tell");
    assert!(low < 1.0 && 1.0 <= high, "{low} {high}");
    assert!(told.contains("[cannot tell]"), "{told}");
}

#[test]
fn limits_and_settings_of_the_user_change_the_verdict() {
    let lab = Lab::new();
    let device = device("2ms");
    let slower = [
        "fit-for",
        "postgres-wal,commits=800",
        &device,
        "--for",
        "20s",
    ];
    assert_eq!(judged(&lab, &slower, "slower", 10).0, "does not fit");
    let closer = [
        "fit-for",
        "postgres-wal",
        &device,
        "--for",
        "20s",
        "--slo",
        "fdatasync p99 < 1ms",
    ];
    let (fit, _, told) = judged(&lab, &closer, "r", 10);
    assert_eq!(fit, "does not fit");
    assert!(told.contains("The limits are those of --slo."), "{told}");
}

#[test]
fn every_requirement_is_played_and_one_target_that_does_not_fit_is_enough() {
    let lab = Lab::new();
    for requirement in ["vm-boot", "mail", "checkpoint", "kv-cache"] {
        let output = lab.run(&[
            "fit-for",
            requirement,
            "sim(queue,servers=64,service=100us,rate=1000000M)",
            "sim(queue,servers=1,service=2s)",
            "--for",
            "10s",
            "--seed",
            "1",
            "-o",
            requirement,
        ]);
        let told = text(&output.stdout);
        let errors = text(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(10),
            "{requirement}: {errors}{told}"
        );
        assert!(told.contains("[fits]"), "{requirement}: {told}");
        assert!(told.contains("[does not fit]"), "{requirement}: {told}");
    }
}

#[test]
fn the_list_names_every_source() {
    let lab = Lab::new();
    let told = text(&lab.run(&["fit-for", "--list"]).stdout);
    for part in [
        "etcd: a member of an etcd cluster",
        "limits   fdatasync p99 < 10.0 ms, write p99 < 12.5 ms",
        "https://etcd.io/docs/v3.5/op-guide/hardware/",
        "setting  commits=100",
        "kv-cache: ",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let all = lab.json(&["fit-for", "--list", "--json"]);
    let all = all.as_array().expect("a list");
    assert_eq!(all.len(), 6);
    for one in all {
        let sources = one["requirement"]["sources"].as_array();
        assert!(sources.is_some_and(|all| !all.is_empty()), "{one}");
    }
}

#[test]
fn mistakes_are_refused_with_one_error() {
    let lab = Lab::new();
    for (args, part) in [
        (
            &["etc", "sim"][..],
            "unknown requirement 'etc' (did you mean 'etcd'?)",
        ),
        (&["etcd,rate=5", "sim"], "unknown setting 'rate' of etcd"),
        (&["etcd"], "<TARGET>... is missing"),
        (&["etcd", "sim", "--max", "0.5"], "one above 1"),
        (&["etcd", "sim", "--min", "2"], "a positive number below 1"),
        (&["etcd", "sim", "--for", "5s"], "expected at least 10 s"),
        (&["etcd", "sim", "--slo", "p99"], "expected a limit such as"),
        (&["etcd", "sim", "--list"], "cannot be used with"),
    ] {
        let output = lab.run(&[&["fit-for"], args].concat());
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(told.contains(part), "{args:?}: {told}");
    }
}
