// SPDX-License-Identifier: Apache-2.0
//! The state in which systems are measured: preconditioning, steady states, byte budgets and cliffs, on
//! simulated devices whose law is known.

use crate::support::{Lab, text};
use serde_json::Value;

/// 1,000 operations a second until its credit is spent after about 3 s, then 400 for good.
const CREDIT: &str = "sim(queue,servers=1,service=1ms+throttle,iops=400,burst=4500ms)";
/// The same with credit for about a quarter of a minute.
const MORE_CREDIT: &str = "sim(queue,servers=1,service=1ms+throttle,iops=400,burst=22s)";
/// One that scatters, and never changes.
const CLEAN: &str = "sim(queue,servers=4,service=2ms,law=exponential)";
const READS: &str = "randread,size=64m,depth=8";

/// Runs it into a folder, which must succeed; what it said.
fn run(lab: &Lab, command: &[&str], more: &[&str]) -> String {
    let rest = ["--no-self-test", "--seed", "3", "-o", "r"];
    let output = lab.run(&[command, &rest[..], more].concat());
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    told
}

fn report(lab: &Lab) -> Value {
    lab.json(&["report", "r", "--json"])
}

/// The verdicts of steps that were to make a system steady.
fn steady(report: &Value, step: &str) -> Vec<Value> {
    let done = report["conditioning"]["done"].as_array().expect("a list");
    let steps = done.iter().map(|one| one["step"][step].clone());
    steps.filter(|one| !one.is_null()).collect()
}

#[test]
fn trials_begin_when_the_credit_of_a_system_is_spent() {
    let lab = Lab::new();
    let told = run(
        &lab,
        &["compare", CREDIT, CLEAN, "-w", READS],
        &["--steady", "--blocks", "2"],
    );
    assert!(
        told.contains("play until it is steady, for 10 min 00 s at most"),
        "{told}"
    );
    assert!(
        told.contains("once more, after the others: steady after"),
        "{told}"
    );
    let report = report(&lab);
    for step in ["steady", "steady_again"] {
        let both = steady(&report, step);
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(
            both.iter().all(|one| one["verdict"] == "steady"),
            "{both:?}"
        );
        let level = both[0]["level"].as_f64().unwrap();
        assert!((level / 400.0 - 1.0).abs() < 0.03, "{both:?}");
        // Spent at 600 a second more than there is: after 4.5 s × 400 ÷ 600.
        let begins = both[0]["begins"].as_f64().unwrap() / 1e9;
        assert!((2.5..=6.0).contains(&begins), "{both:?}");
    }
    // No trial of it has seen more.
    for trial in report["trials"].as_array().unwrap() {
        if trial["arm"].as_str().unwrap().contains("throttle") {
            let ops = trial["ops"].as_f64().unwrap();
            assert!((ops / 4_000.0 - 1.0).abs() < 0.03, "{ops}");
        }
    }
    assert!(report["cliffs"].as_array().unwrap().is_empty());
    let page = std::fs::read_to_string(lab.path("r/report.html")).unwrap();
    for said in ["Were the systems steady?", "SNIA", "Before the first block"] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn a_throughput_that_falls_and_stays_is_said_with_its_instant_and_its_factor() {
    let lab = Lab::new();
    run(&lab, &["run", READS, MORE_CREDIT], &["--for", "60s"]);
    let report = report(&lab);
    let [cliff] = &report["cliffs"].as_array().unwrap()[..] else {
        panic!("{}", report["cliffs"])
    };
    // After 22 s × 400 ÷ 600, of which one is warm-up.
    let after = cliff["after"].as_f64().unwrap() / 1e9;
    assert!((12.0..=16.0).contains(&after), "{cliff}");
    let factor = cliff["before_per_s"].as_f64().unwrap() / cliff["after_per_s"].as_f64().unwrap();
    assert!((2.4..=2.6).contains(&factor), "{cliff}");
    let page = std::fs::read_to_string(lab.path("r/report.html")).unwrap();
    assert!(page.contains("what was measured before is not sustained"));
}

#[test]
fn a_clean_system_has_no_cliff_and_is_soon_steady() {
    let lab = Lab::new();
    run(
        &lab,
        &["run", READS, CLEAN],
        &["--for", "60s", "--steady=2m"],
    );
    let report = report(&lab);
    assert!(
        report["cliffs"].as_array().unwrap().is_empty(),
        "{}",
        report["cliffs"]
    );
    let first = &steady(&report, "steady")[0];
    assert_eq!(first["verdict"], "steady", "{first}");
    assert!(first["after"].as_f64().unwrap() < 120e9, "{first}");
}

#[test]
fn a_trial_ends_with_its_bytes_the_same_in_each_run() {
    let ended = || {
        let lab = Lab::new();
        let told = run(&lab, &["run", READS, CLEAN], &["--bytes", "64M"]);
        assert!(told.contains("until it has moved 64.0 MiB"), "{told}");
        let report = report(&lab);
        assert_eq!(report["trial_bytes"], 64 << 20);
        let trial = report["trials"][0].clone();
        (
            trial["bytes"].as_u64().unwrap(),
            trial["length_ns"].as_u64().unwrap(),
        )
    };
    let (bytes, length) = ended();
    // Requests in flight at the end count as well.
    assert!(
        (64 << 20..=(64 << 20) + 8 * 4096).contains(&bytes),
        "{bytes}"
    );
    // 16,384 reads at 2,000 a second.
    assert!((7.8..=8.7).contains(&(length as f64 / 1e9)), "{length}");
    assert_eq!(ended(), (bytes, length));
}

#[test]
fn time_that_is_over_before_the_bytes_is_said() {
    let lab = Lab::new();
    let told = run(
        &lab,
        &["run", READS, CLEAN],
        &["--bytes", "1G", "--for", "5s"],
    );
    assert!(
        told.contains("the time of the trial was over when"),
        "{told}"
    );
}

#[test]
fn a_directory_is_written_as_often_as_asked_before_the_first_block() {
    let lab = Lab::new();
    let place = lab.directory("place");
    let place = place.as_str();
    let workload = "randwrite,size=8m,depth=4";
    let command = [
        "compare",
        place,
        "-w",
        workload,
        "--precondition",
        "2x",
        "--blocks",
        "1",
        "--for",
        "1s",
    ];
    let plan = lab.run(&[&command[..], &["--dry-run"]].concat());
    let said = text(&plan.stdout);
    assert!(
        said.contains("write 16.0 MiB in order, and as much again by the workload itself"),
        "{said}"
    );
    assert!(said.contains("at 200 MB/s"), "{said}");
    run(&lab, &command, &[]);
    let report = report(&lab);
    // The control has files of its own.
    let written = steady(&report, "written");
    assert_eq!(written.len(), 2, "{report}");
    for written in written {
        assert_eq!(written["ordered_bytes"], 16 << 20);
        let own = written["own_bytes"].as_u64().unwrap();
        assert!(
            (16 << 20..(16 << 20) + (1 << 18)).contains(&own),
            "{written}"
        );
    }
    assert_eq!(
        std::fs::read_dir(place).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn what_cannot_be_done_is_refused_with_the_reason() {
    let lab = Lab::new();
    let place = lab.directory("place");
    let place = place.as_str();
    for (workload, more, expect) in [
        (
            "varmail,nfiles=10",
            &["--precondition", "2x"][..],
            "makes its files anew for every trial",
        ),
        (
            READS,
            &["--precondition", "0x"],
            "expected how many times, such as 2x",
        ),
        (READS, &["--steady=1s"], "expected at least 2m"),
        (READS, &["--bytes", "0"], "expected a size above 0"),
        (
            "iozone -i 0 -s 1m -r 64k",
            &["--bytes", "1G"],
            "ends when its work is done",
        ),
        (
            "iozone -i 0 -s 1m -r 64k",
            &["--steady"],
            "ends when its work is done",
        ),
    ] {
        let output = lab.run(&[&["run", workload, place, "--dry-run"][..], more].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{workload} {more:?}: {said}");
        assert!(said.contains(expect), "{workload} {more:?}: {said}");
    }
    let both = [
        "compare",
        CREDIT,
        CLEAN,
        "-w",
        READS,
        "--bytes",
        "1G",
        "--effect",
        "5%",
        "--dry-run",
    ];
    let said = text(&lab.run(&both).stderr);
    assert!(
        said.contains("--bytes does not work with --effect"),
        "{said}"
    );
}
