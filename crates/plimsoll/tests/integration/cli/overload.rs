// SPDX-License-Identifier: Apache-2.0
//! Loads that are too much for a system, and generators that were not let run.

use crate::support::{Lab, pause, program, skipped, text};
use plimsoll_machine::host::{Host as _, LocalHost, SearchPath};
use serde_json::Value;
use std::process::{Child, Command, Stdio};

/// Output of a loop over /proc/diskstats: this rate of reads of 4 KiB for twenty minutes.
fn counters(reads_per_s: u64) -> String {
    let line = |n: u64| {
        let reads = 1_000 + n * 10 * reads_per_s;
        format!(
            "{}\n   8 0 sda {reads} 0 {} 0 50 0 800 0 0 0 0\n",
            1_795_220_000 + n * 10,
            reads * 8
        )
    };
    (0..121).map(line).collect()
}

/// A model of that, `load.toml`.
fn model(lab: &Lab, reads_per_s: u64) {
    std::fs::write(lab.path("d.txt"), counters(reads_per_s)).expect("a writable test directory");
    let fit = ["fit", "d.txt", "--disk", "sda", "--working-set", "4M"];
    let output = lab.run(&[&fit[..], &["-o", "load.toml"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn compare(lab: &Lab, targets: &[&str], more: &[&str]) -> (Option<i32>, String, Value) {
    let common = ["-o", "r", "--fail-on", "different"];
    let output = lab.run(&[&["compare"][..], targets, &common, more].concat());
    let told = text(&output.stdout);
    let json = lab.json(&["report", "r", "--json"]);
    (output.status.code(), told, json)
}

fn first_mark(told: &str) -> &str {
    let marks = told.lines().find(|line| line.starts_with('['));
    marks.unwrap_or("no mark")
}

#[test]
fn a_disk_that_cannot_carry_the_load_is_told_so_before_all_else() {
    let lab = Lab::new();
    model(&lab, 1_800);
    let more = ["-w", "load.toml", "--for", "5s"];
    let (code, told, json) = compare(&lab, &["sim(flash)", "sim(disk)"], &more);
    assert_eq!(code, Some(10), "{told}");
    assert_eq!(first_mark(&told), "[cannot carry]", "{told}");
    assert!(!told.contains("[check the"), "{told}");
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("sim(disk) cannot carry load:"), "{told}");
    assert!(words.contains("Seen in 5 of 5 blocks"), "{told}");
    assert!(words.contains("@auto"), "{told}");
    let row = &json["comparisons"][0];
    assert_eq!(row["verdict"], "cannot_carry", "{row}");
    let carried = &row["arm_carried"];
    let of = |name: &str| carried[name].as_f64().unwrap();
    assert!(of("served_per_s") < 0.3 * of("offered_per_s"), "{carried}");
    assert!(
        of("backlog_growth_per_s") > 0.5 * of("offered_per_s"),
        "{carried}"
    );
    let page = std::fs::read_to_string(lab.path("r/report.html")).unwrap();
    assert!(page.contains("sim(disk) cannot carry load"), "the page too");
    let trials = json["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| trial["errors"] == 0), "{json}");
}

#[test]
fn of_two_that_cannot_carry_it_the_better_one_is_named_and_a_base_is_told_too() {
    let lab = Lab::new();
    model(&lab, 1_800);
    let more = ["-w", "load.toml", "--for", "5s", "--blocks", "3"];
    let (_, told, _) = compare(&lab, &["sim(disk)", "sim(disk,rpm=15000)"], &more);
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(first_mark(&told), "[neither can carry it]", "{told}");
    assert!(words.contains("sim(disk,rpm=15000) carries more"), "{told}");
    std::fs::rename(lab.path("r"), lab.path("first")).unwrap();
    let (_, told, _) = compare(&lab, &["sim(disk)", "sim(flash)"], &more);
    assert_eq!(first_mark(&told), "[the base cannot carry it]", "{told}");
}

/// A queue of one server: with a service of 1 ms it does 1000 requests a second.
#[test]
fn ninety_five_percent_are_carried_and_a_tenth_too_much_is_not() {
    for (reads_per_s, wanted) in [(950, false), (1_100, true)] {
        let lab = Lab::new();
        model(&lab, reads_per_s);
        for seed in ["1", "2", "3"] {
            let more = [
                "-w",
                "load.toml",
                "--for",
                "20s",
                "--blocks",
                "3",
                "--seed",
                seed,
            ];
            let noisy = "sim(queue,service=1ms,servers=1,rate=0,law=exponential)";
            let (_, told, json) = compare(&lab, &[noisy], &more);
            let trials = json["comparisons"].as_array().unwrap().iter();
            let seen = trials
                .filter(|row| row["verdict"] == "cannot_carry")
                .count();
            assert_eq!(seen > 0, wanted, "{reads_per_s}/s, seed {seed}: {told}");
            std::fs::rename(lab.path("r"), lab.path(seed)).unwrap();
        }
    }
}

/// An nbdkit on a port of this machine, ended with the test.
struct Served(Child, String);

impl Served {
    #[expect(clippy::disallowed_methods, reason = "the test serves the disk")]
    fn begin(port: u16, more: &[&str]) -> Option<Served> {
        let port_text = port.to_string();
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-i", "127.0.0.1", "-p", &port_text]);
        let child = command.args(more).stderr(Stdio::null()).spawn().ok()?;
        let mut served = Served(child, format!("nbd://127.0.0.1:{port}/"));
        let is_up = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        // Until it listens, or has ended because it cannot.
        while !is_up() {
            pause(100);
            if served.0.try_wait().ok()?.is_some() {
                return None;
            }
        }
        Some(served)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_disk_that_is_throttled_cannot_carry_the_load() {
    const TEST: &str = "a_real_disk_that_is_throttled_cannot_carry_the_load";
    if program("id", &["-u"]).is_none_or(|id| id.trim() != "0") {
        return skipped(TEST, "it attaches disks, for which it needs root");
    }
    // Ports of this test alone.
    let here = LocalHost::new(SearchPath::new("".as_ref()));
    let port = here.free_ports(20_000, 2).unwrap();
    let Some(free) = Served::begin(port, &["memory", "256M"]) else {
        return skipped(TEST, "nbdkit is missing, or its port is taken");
    };
    // 8 MBit/s are 245 reads of 4 KiB a second, and 4 s for what is laid out. The load is one that the
    // other disk carries however busy the machine is.
    let slow = ["--filter=rate", "memory", "256M", "rate=8M"];
    let Some(slow) = Served::begin(port + 1, &slow) else {
        return skipped(TEST, "nbdkit has no filter 'rate', or its port is taken");
    };
    let lab = Lab::new();
    model(&lab, 600);
    let more = [
        "-w",
        "load.toml",
        "--for",
        "8s",
        "--blocks",
        "1",
        "--no-control",
        "--no-self-test",
        "--destroy",
    ];
    let (_, told, json) = compare(&lab, &[&free.1, &slow.1], &more);
    let rows = json["comparisons"].as_array().unwrap();
    let slow_row = rows.iter().find(|row| row["is_control"] == false).unwrap();
    assert_eq!(slow_row["verdict"], "cannot_carry", "{told}");
    assert!(told.contains("cannot carry load"), "{told}");
}

#[test]
fn a_generator_that_was_stopped_is_not_told_as_slow_storage() {
    let lab = Lab::new();
    let target = lab.directory("t");
    let run = [
        "run",
        "randread,size=8M",
        &target,
        "--for",
        "10s",
        "--warmup",
        "0s",
    ];
    let mut child = lab.start(&[&run[..], &["-o", "r"]].concat());
    // Behind the first second, and long before the last one also on a busy machine.
    lab.wait_for_text("r", "\"interval\"");
    let id = child.id().to_string();
    program("kill", &["-STOP", &id]).expect("kill");
    pause(2_500);
    program("kill", &["-CONT", &id]).expect("kill");
    child.wait().unwrap();
    let json = lab.json(&["report", "r", "--json"]);
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains("was suspended for"), "{json}");
    let told = text(&lab.run(&["report", "r"]).stdout);
    assert!(told.contains("[check the generator]"), "{told}");
}
