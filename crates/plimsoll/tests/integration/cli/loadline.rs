// SPDX-License-Identifier: Apache-2.0
//! Load lines of simulated devices whose edge is known from their law.

use crate::support::{Lab, text};
use serde_json::Value;

/// A queue of one server with exponential service. Response times are exponential as well, and their rate is
/// the free capacity of the server.
const MM1: &str = "sim(queue,servers=1,law=exponential,service=10ms,rate=100000M)";

/// The same with half the service time.
const MM1_FAST: &str = "sim(queue,servers=1,law=exponential,service=5ms,rate=100000M)";

/// `w.toml`: reads at instants of a Poisson process, `per_s` per second.
fn open_loop(lab: &Lab, per_s: f64) {
    workload(
        lab,
        &format!("depth = 1024\npace = {{ open = {{ poisson = {{ per_s = {per_s:.1} }} }} }}"),
    );
}

fn workload(lab: &Lab, group: &str) {
    let text = format!(
        "format = \"2.0\"\n[workload.blocks]\nname = \"w\"\n[[workload.blocks.groups]]\nname = \"io\"\n\
         {group}\nextent = {{ file = \"data\", bytes = 67108864 }}\n"
    );
    std::fs::write(lab.path("w.toml"), text).expect("a writable test directory");
}

fn lines(json: &Value) -> &Vec<Value> {
    json["load_lines"]["lines"].as_array().expect("load lines")
}

fn edge(line: &Value) -> [f64; 3] {
    let ends = line["sustained"].as_array().expect("an interval");
    [0, 1, 2].map(|i| ends[i].as_f64().expect("a number"))
}

#[test]
fn the_line_of_a_queue_is_where_its_law_says_and_twice_as_fast_is_different() {
    let lab = Lab::new();
    open_loop(&lab, 10.0);
    let json = lab.json(&[
        "loadline",
        "-w",
        "w.toml",
        "--slo",
        "p99 < 200ms",
        MM1,
        MM1_FAST,
        "--for",
        "4m",
        "--width",
        "10%",
        "--seed",
        "5",
        "--cost",
        &format!("{MM1}=0.36/h"),
        "-o",
        "r",
        "--json",
    ]);
    // Free capacity of the server (service rate less arrival rate) must be ln 100 ÷ 200 ms.
    let free = 100f64.ln() / 0.2;
    for (line, rate) in lines(&json).iter().zip([100.0, 200.0]) {
        let truth = (rate - free) / 10.0;
        let [low, _, high] = edge(line);
        assert!(low <= truth && truth <= high, "{truth}: {line}");
        assert!(high / low < 1.25, "{line}");
        assert_eq!(line["binding"], "p99 < 200 ms", "{line}");
    }
    let ratio = &json["load_lines"]["ratios"][0];
    assert_eq!(ratio["verdict"], "different", "{ratio}");
    // 0.36 an hour are 0.0001 a second.
    let first = &lines(&json)[0];
    let of = |name: &str| first[name].as_f64().expect("a number");
    let cost = of("cost_per_million");
    assert!(
        (cost * of("ops_per_s") / 100.0 - 1.0).abs() < 1e-6,
        "{first}"
    );
    let told = text(&lab.run(&["report", "r"]).stdout);
    assert!(told.contains("[load line]"), "{told}");
    let page = std::fs::read_to_string(lab.path("r/report.html")).expect("a page");
    assert!(
        page.contains("How does p99 of w grow with the load?"),
        "a chart"
    );
}

#[test]
fn of_a_closed_loop_clients_are_counted() {
    let lab = Lab::new();
    workload(&lab, "workers = 1");
    // Four servers of 1 ms each: with 9 clients one of them waits for two others. The time ends before the
    // step from 8 to 9 is certain.
    let json = lab.json(&[
        "loadline",
        "-w",
        "w.toml",
        "--slo",
        "p99 < 2.6ms",
        "sim(queue,servers=4,service=1ms,rate=100000M)",
        "--for",
        "10s",
        "--max",
        "40",
        "--seed",
        "1",
        "-o",
        "r",
        "--json",
    ]);
    let line = &lines(&json)[0];
    assert_eq!(line["unit"], "clients", "{line}");
    let [low, point, high] = edge(line);
    assert!((low..=high).contains(&8.0) && high <= 10.0, "{line}");
    assert!((point - 8.0).abs() < 1.5, "{line}");
}

#[test]
fn what_is_beyond_the_multiples_is_said_and_not_made_up() {
    let lab = Lab::new();
    open_loop(&lab, 10.0);
    let search = |to: &[&str], folder: &str| {
        let common = [
            "loadline",
            "-w",
            "w.toml",
            "--slo",
            "p99 < 200ms",
            MM1,
            "--for",
            "20s",
        ];
        let output = lab.run(&[&common[..], to, &["--seed", "2", "-o", folder]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let told = text(&output.stdout);
        told.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let told = search(&["--max", "2"], "most");
    assert!(
        told.contains("carries at least 2.00× w at p99 < 200 ms (no limit was reached)"),
        "{told}"
    );
    let told = search(&["--min", "12", "--max", "50"], "least");
    assert!(
        told.contains("lies below 12.0× w at p99 < 200 ms"),
        "{told}"
    );
}

#[test]
fn a_search_that_was_killed_is_resumed_and_ends_as_if_nothing_had_been() {
    let lab = Lab::new();
    open_loop(&lab, 50.0);
    let args = |folder: &'static str| {
        [
            "loadline",
            "-w",
            "w.toml",
            "--slo",
            "p99 < 200ms",
            MM1,
            "--for",
            "60s",
            "--width",
            "15%",
            "--seed",
            "7",
            "--json",
            "-o",
            folder,
        ]
    };
    let whole = lab.json(&args("whole"));
    let mut child = lab.start(&args("cut"));
    lab.wait_for_text("cut", "\"trial_ended\"");
    child.kill().expect("it was started here");
    child.wait().expect("it was started here");
    let output = lab.run(&args("cut"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.contains("resuming the run in cut:"), "{told}");
    let resumed: Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    // Numbers that were read from the folder may be off by their last digit.
    let both = edge(&lines(&resumed)[0])
        .into_iter()
        .zip(edge(&lines(&whole)[0]));
    for (resumed, whole) in both {
        assert!((resumed / whole - 1.0).abs() < 1e-6, "{resumed} {whole}");
    }
    assert_eq!(lines(&resumed)[0]["trials"], lines(&whole)[0]["trials"]);
}

#[test]
fn what_has_no_load_line_is_refused_with_one_error() {
    let lab = Lab::new();
    open_loop(&lab, 10.0);
    let with = |workload: &str, slo: &str, more: &[&str]| {
        let common = ["loadline", "-w", workload, "--slo", slo, "sim"];
        let output = lab.run(&[&common[..], more].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
        text(&output.stderr)
    };
    for (workload, slo, more, part) in [
        (
            "w.toml",
            "p99",
            &[][..],
            "expected a limit such as 'p99 < 20ms'",
        ),
        ("w.toml", "p99 <20", &[], "20 what? Write 'p99 < 20ms'"),
        (
            "w.toml",
            "p99 < 20ms",
            &["--for", "5s"],
            "expected at least 10 s",
        ),
        (
            "w.toml",
            "p99 < 20ms",
            &["--min", "5", "--max", "2"],
            "the smaller first",
        ),
        (
            "w.toml",
            "p99 < 20ms",
            &["--cost", "x=1/h"],
            "expected one of the targets: sim",
        ),
        (
            "w.toml",
            "p99 < 20ms",
            &["--cost", "sim=1"],
            "expected TARGET=PRICE/h",
        ),
        (
            "iozone -i 0 -s 1m",
            "p99 < 20ms",
            &[],
            "has no load line: it has phases or programs",
        ),
    ] {
        let told = with(workload, slo, more);
        assert!(told.contains(part), "{workload} {slo} {more:?}: {told}");
    }
}
