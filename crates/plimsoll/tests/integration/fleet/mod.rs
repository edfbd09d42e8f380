// SPDX-License-Identifier: Apache-2.0
//! Load from hosts that a scheduler provides: processes of this machine, and a Slurm cluster of sixteen nodes
//! in networks of their own. Says loudly what is skipped.
#![expect(
    clippy::disallowed_methods,
    reason = "a test: it panics, waits and starts programs"
)]

mod kubernetes;
mod slurm;
mod support;

use crate::support::{signal, until};
use plimsoll_core::event::OpStats;
use std::fs;
use support::TestFleet;

/// Read load of `local` hosts; each test adds their number and the length.
const READ: [&str; 4] = ["run", "randread,size=1M", "DATA", "--no-self-test"];

#[test]
fn hosts_come_by_themselves_and_leave_nothing() {
    let bench = TestFleet::new();
    let load = ["--clients", "local:3", "--for", "500ms", "--warmup", "0s"];
    let said = bench.must(&[&READ[..], &load].concat());
    assert!(said.contains("all 3 load hosts are there"), "{said}");
    let results = bench.results();
    let names: Vec<&str> = (results.manifest.load_nodes.iter())
        .map(|node| &*node.name)
        .collect();
    assert_eq!(names, ["h0", "h1", "h2"]);
    let trial = &results.trials[0];
    let mut pooled = OpStats::default();
    trial
        .nodes
        .iter()
        .for_each(|node| pooled.merge(&node.stats));
    assert_eq!(trial.stats, pooled);
    assert!(
        trial
            .nodes
            .iter()
            .all(|node| node.stats.ops() > 0 && node.lost.is_none())
    );
    bench.check_nothing_left();
}

#[test]
fn a_host_of_many_that_is_killed_is_data_and_one_too_many_is_not() {
    for (share, code) in [("40%", 0), ("10%", 15)] {
        let bench = TestFleet::new();
        let load = [
            "--clients",
            "local:3",
            // Long enough that the kill comes in the middle on a busy machine.
            "--for",
            "8s",
            "--lose-clients",
            share,
        ];
        let child = bench.start(&[&READ[..], &load].concat());
        bench.await_load();
        signal(bench.agents()[0], "-KILL");
        let output = child.wait_with_output().unwrap();
        let said = crate::built::text(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        let trial = &bench.results().trials[0];
        assert_eq!(trial.lost_nodes().count(), 1);
        let offered = trial.offered().unwrap();
        assert!(offered > 0.6 && offered < 1.0, "{offered}");
        assert_eq!(trial.is_comparable(), code == 0);
        assert_eq!(said.contains("Lost 1 of 3 load nodes"), code == 0, "{said}");
        let document = bench.must(&["report", &bench.path("out").display().to_string(), "--json"]);
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        let told = &document["trials"][0];
        let nodes = told["nodes"].as_array().unwrap();
        let lost = nodes.iter().filter(|node| !node["lost"].is_null());
        assert_eq!((nodes.len(), lost.count()), (3, 1), "{document}");
        assert!((told["offered_share"].as_f64().unwrap() - offered).abs() < 1e-9);
        // Files that the run made in the shared directory are gone when it ends.
        assert_eq!(fs::read_dir(bench.path("data")).unwrap().count(), 0);
    }
}

#[test]
fn a_controller_that_may_open_no_more_files_says_so_at_once() {
    let limited = ["prlimit", "--nofile=24:24"].map(String::from);
    let bench = TestFleet::behind(limited.into());
    let load = ["--clients", "local:40", "--for", "1s"];
    let (code, said) = bench.run(&[&READ[..], &load].concat());
    assert!(code == 1 && said.contains("ulimit -n"), "{code}: {said}");
    until("end of the agents", || bench.agents().is_empty());
}

#[test]
fn of_a_controller_that_is_killed_nothing_stays() {
    let bench = TestFleet::new();
    let load = ["--clients", "local:2", "--for", "60s"];
    let mut child = bench.start(&[&READ[..], &load].concat());
    bench.await_load();
    child.kill().unwrap();
    child.wait().unwrap();
    until("end of the agents", || bench.agents().is_empty());
    until("end of what they made", || {
        fs::read_dir(bench.path("data")).unwrap().count() == 0
    });
    bench.must(&["raze"]);
    bench.check_nothing_left();
}

#[test]
fn the_ticket_is_in_no_argument_and_no_file_of_the_run() {
    let bench = TestFleet::new();
    let file = bench.path("ticket").display().to_string();
    let agent = format!("exec:1,ticket={file}:env -u PLIMSOLL_FLEET_TICKET");
    let load = ["--clients", &agent, "--for", "6s"];
    let child = bench.start(&[&READ[..], &load].concat());
    bench.await_load();
    let ticket = fs::read_to_string(bench.path("ticket")).unwrap();
    let token = ticket.trim().rsplit(',').next().unwrap().to_owned();
    assert_eq!(token.len(), 64);
    for pid in bench.agents() {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(!String::from_utf8_lossy(&words).contains(&token));
    }
    let output = child.wait_with_output().unwrap();
    let said = crate::built::text(&output);
    assert!(output.status.success() && !said.contains(&token), "{said}");
    assert!(!bench.path("ticket").exists());
    for file in fs::read_dir(bench.path("out")).unwrap().flatten() {
        let bytes = fs::read(file.path()).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&bytes).contains(&token),
            "{file:?}"
        );
    }
}

#[test]
fn hosts_that_do_not_come_are_named() {
    let bench = TestFleet::new();
    let load = [
        "--clients",
        "exec:2:env PLIMSOLL_RANK=1",
        "--wait-for-clients",
        "10s",
    ];
    let (code, said) = bench.run(&[&READ[..], &load].concat());
    assert_eq!(code, 15, "{said}");
    assert!(
        said.contains("1 of 2 load hosts arrived within 10 s; missing: 0"),
        "{said}"
    );
    let load = ["--clients", "exec:2:false"];
    let (code, said) = bench.run(&[&READ[..], &load].concat());
    assert_eq!(code, 15, "{said}");
    assert!(said.contains("the carrier ended when 0 of 2"), "{said}");
    bench.check_nothing_left();
}
