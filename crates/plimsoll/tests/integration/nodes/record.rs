// SPDX-License-Identifier: Apache-2.0
//! Recordings of the disks of nodes: begun together, kept here while they go on, ended cleanly or
//! not, and nothing left behind.

use super::load::Pair;
use super::support::{Lab, command, is_possible, local_host};
use crate::built::text;
use crate::support::{signal, until};
use plimsoll_machine::host::Host as _;
use plimsoll_trace::pcp::PcpArchive;
use std::fs;
use std::io::Write as _;
use std::process::{Child, Output, Stdio};

const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// Two nodes with host names of their own.
fn named_pair() -> Pair {
    let pair = Pair::new();
    let words = |name: &str| {
        let line = format!("hostname {name} && exec \"$@\"");
        let words = ["unshare", "--uts", "sh", "-c", &line, "sh"];
        words.map(Into::into).to_vec()
    };
    pair.write_inventory(&[words("first"), words("second")]);
    pair
}

/// Records on both nodes ten times a second.
fn recording<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let words = "record --nodes n1,n2 --on lab.toml -o made --interval 100ms";
    words.split(' ').chain(more.iter().copied()).collect()
}

fn start(pair: &Pair, args: &[&str]) -> Child {
    let mut command = pair.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn await_samples(pair: &Pair) {
    for name in ["made-n1.0", "made-n2.0"] {
        let path = pair.path(name);
        until("sample", || {
            path.metadata().is_ok_and(|data| data.len() > 4096)
        });
    }
}

fn told(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Both archives are readable, and say which machine they are of.
fn check_archives(pair: &Pair) {
    for (name, host) in [("made-n1", "first"), ("made-n2", "second")] {
        let archive = PcpArchive::open(&pair.path(name)).unwrap();
        assert_eq!(archive.label().host, host);
        let told = pair.run(&["profile", name]);
        assert!(told.status.success(), "{}", text(&told));
        if local_host().find_program("pmlogcheck").is_some() {
            let base = pair.path(name);
            let output = command("pmlogcheck").arg(base).output().unwrap();
            assert!(output.status.success(), "{}", text(&output));
        }
    }
}

#[test]
fn disks_of_machines_are_recorded_over_ssh() {
    if !is_possible("record over ssh") {
        return;
    }
    let lab = Lab::of(2);
    let output = lab.run(&recording(&["--for", "1s", "--json"]));
    assert!(output.status.success(), "{}", text(&output));
    lab.check_nothing_left();
    let told = told(&output);
    for (n, name) in ["n1", "n2"].into_iter().enumerate() {
        let one = &told["recordings"][n];
        assert_eq!(one["node"], name);
        assert_eq!(one["incomplete"], serde_json::Value::Null);
        let [samples, missed] = ["samples", "missed"].map(|key| one[key].as_u64().unwrap());
        assert_eq!(samples + missed, 11, "{told}");
        PcpArchive::open(&lab.path(&format!("made-{name}"))).unwrap();
    }
    // One node has the name that was asked for.
    let one = "record --nodes n2 --on lab.toml -o one --interval 100ms --for 200ms";
    let output = lab.run(&one.split(' ').collect::<Vec<_>>());
    assert!(output.status.success(), "{}", text(&output));
    PcpArchive::open(&lab.path("one")).unwrap();
    lab.check_nothing_left();
}

#[test]
fn a_recording_of_nodes_is_here_while_it_goes_on_and_is_kept_however_it_ends() {
    if !is_possible("record on nodes, ended") {
        return;
    }
    for (name, code) in [("-INT", Some(0)), ("-TERM", Some(0)), ("-KILL", None)] {
        let pair = named_pair();
        let recorder = start(&pair, &recording(&["--json"]));
        await_samples(&pair);
        signal(recorder.id(), name);
        let output = recorder.wait_with_output().unwrap();
        assert_eq!(output.status.code(), code, "{name}: {}", text(&output));
        // Also without anybody who could tell them to end.
        pair.check_nothing_left();
        check_archives(&pair);
    }
}

#[test]
fn a_node_that_is_lost_keeps_what_had_come_and_the_others_go_on() {
    if !is_possible("record on nodes, one lost") {
        return;
    }
    let pair = named_pair();
    let recorder = start(&pair, &recording(&["--json"]));
    await_samples(&pair);
    for pid in pair.agents("node2") {
        signal(pid, "-9");
    }
    let length = || pair.path("made-n1.0").metadata().unwrap().len();
    until("end of the agent", || pair.agents("node2").is_empty());
    let before = length();
    until("sample of the other", || length() > before + 4096);
    signal(recorder.id(), "-INT");
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(15), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("node n2 was lost"), "{said}");
    assert!(said.contains("is kept in made-n2"), "{said}");
    let told = told(&output);
    assert_eq!(told["recordings"][0]["incomplete"], serde_json::Value::Null);
    assert!(told["recordings"][1]["incomplete"].is_string(), "{told}");
    check_archives(&pair);
    // Leftovers of a killed agent are removed when the node is used again.
    let again = "record --nodes n2 --on lab.toml -o again --interval 100ms --for 200ms";
    let output = pair.run(&again.split(' ').collect::<Vec<_>>());
    assert!(output.status.success(), "{}", text(&output));
    pair.check_nothing_left();
}

/// A loop device of the test.
struct Loop(String);

impl Loop {
    fn over(pair: &Pair) -> Option<Loop> {
        let image = pair.path("image");
        fs::write(&image, vec![1; 4 << 20]).unwrap();
        let mut losetup = command("losetup");
        losetup.args(["--find", "--show"]).arg(&image);
        let output = losetup.output().ok()?;
        if !output.status.success() {
            return None;
        }
        Some(Loop(text(&output).trim().to_owned()))
    }

    /// Reads 4 KiB `count` times.
    fn read(&self, count: u32) {
        let input = format!("if={}", self.0);
        let count = format!("count={count}");
        let words = [&*input, "of=/dev/null", "bs=4k", "iflag=direct", &count];
        let output = command("dd").args(words).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = command("losetup").args(["--detach", &self.0]).output();
    }
}

/// Instances of the tracer that recorders with these ids have made.
fn instances(recorders: &[u32]) -> usize {
    let entries = fs::read_dir(INSTANCES).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_ours = |name: &String| {
        let of = |pid: &u32| name.ends_with(&format!("-{pid}"));
        name.starts_with("plimsoll-record-") && recorders.iter().any(of)
    };
    names.filter(is_ours).count()
}

#[test]
fn every_request_of_a_node_is_recorded_and_its_tracer_goes_with_the_connection() {
    const TEST: &str = "record --requests on a node";
    if !is_possible(TEST) {
        return;
    }
    let pair = named_pair();
    let device = Loop::over(&pair).filter(|_| fs::exists(INSTANCES).unwrap_or(false));
    let Some(device) = device else {
        let why = "no loop device can be made here, or tracefs is not mounted";
        let _ = writeln!(std::io::stderr(), "SKIPPED: {TEST}: {why}");
        return;
    };
    let line = format!(
        "record --nodes n1,n2 --on lab.toml --requests --disk {} -o made.parquet --json",
        device.0
    );
    let args: Vec<&str> = line.split(' ').collect();
    for name in ["-INT", "-KILL"] {
        let recorder = start(&pair, &args);
        let parts = ["n1", "n2"].map(|node| pair.path(&format!("made-{node}.parquet.part")));
        let lengths =
            || [&parts[0], &parts[1]].map(|part| part.metadata().map_or(0, |of| of.len()));
        let both = || [pair.agents("node1"), pair.agents("node2")].concat();
        until("tracer", || {
            lengths().iter().all(|length| *length > 0) && instances(&both()) == 2
        });
        let (agents, empty) = (both(), lengths());
        let have_grown = |from: [u64; 2], by: u64| {
            let now = lengths();
            (0..2).all(|n| now[n] >= from[n] + by)
        };
        // The last event is switched on a moment after the file is there, on each node.
        until("request", || {
            device.read(1);
            have_grown(empty, 1)
        });
        let before = lengths();
        device.read(500);
        // 32 bytes each.
        until("all requests", || have_grown(before, 500 * 32));
        signal(recorder.id(), name);
        let output = recorder.wait_with_output().unwrap();
        pair.check_nothing_left();
        assert_eq!(instances(&agents), 0, "{name}");
        if name == "-KILL" {
            let finish = ["record", "--finish", "made-n1.parquet.part", "--json"];
            let told = told(&pair.run(&finish));
            assert!(told["requests"].as_u64().unwrap() >= 501, "{told}");
            continue;
        }
        assert!(output.status.success(), "{}", text(&output));
        let told = told(&output);
        for n in 0..2 {
            let one = &told["recordings"][n];
            assert!(one["requests"].as_u64().unwrap() >= 501, "{told}");
            assert_eq!(one["lost_events"], 0, "{told}");
            let file = pair.path(one["recording"].as_str().unwrap());
            fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn what_cannot_be_recorded_on_nodes_is_refused_before_anything_is_made() {
    if !is_possible("refused recordings of nodes") {
        return;
    }
    let pair = named_pair();
    for (line, expect) in [
        ("--nodes n1", "--nodes needs --on FILE"),
        ("--nodes n3 --on lab.toml", "has no node 'n3'"),
        ("--nodes n1 --nodes n1 --on lab.toml", "named twice"),
        (
            "--nodes n1,n2 --on lab.toml --disk nosuchdisk",
            // Whichever node is asked to say so first.
            ": failed to record disk 'nosuchdisk': there is no block device",
        ),
        ("--on lab.toml", "--nodes"),
        (
            "--nodes n1 --on lab.toml --interval 1ms",
            "expected at least",
        ),
    ] {
        let words = line.split(' ');
        let args: Vec<&str> = ["record", "-o", "made"].into_iter().chain(words).collect();
        let output = pair.run(&args);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(expect), "{expect}: {said}");
        assert!(!said.contains("Ctrl-C"), "nothing began: {said}");
    }
    pair.check_nothing_left();
    for name in ["made.meta", "made-n1.meta"] {
        assert!(!pair.path(name).exists(), "{name}");
    }
}
