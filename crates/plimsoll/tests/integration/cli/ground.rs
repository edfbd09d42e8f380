// SPDX-License-Identifier: Apache-2.0
//! Checks of targets: slips are caught, memory is named, runs on one directory know of each other.

use crate::support::{Lab, text};
use std::path::Path;

const QUICK: [&str; 5] = ["--for", "200ms", "--warmup", "0s", "--no-self-test"];

fn run<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["run", "randread,size=1m"], args, &QUICK].concat()
}

#[test]
fn a_path_that_is_not_there_is_a_slip_and_no_new_file() {
    let lab = Lab::new();
    let nas = lab.directory("mnt/nas");
    let slip = nas.replace("nas", "nsa");
    for given in [slip.as_str(), "mnt/nsa", "./mnt/nsa/deep"] {
        let output = lab.run(&run(&[given]));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("mnt/nas"), "{error}");
    }
    let output = lab.run(&run(&["./nothing-like-it"]));
    assert!(text(&output.stderr).contains("file:PATH"));
    let output = lab.run(&run(&["file:absent/x"]));
    assert!(text(&output.stderr).contains("no directory absent"));
    // The control has the file of its base.
    let plan = [
        "compare",
        "file:one",
        "null",
        "-w",
        "randread,size=1m",
        "--dry-run",
    ];
    let plan = text(&lab.run(&plan).stdout);
    assert_eq!(plan.matches("make one").count(), 1, "{plan}");
    assert!(!Path::new(&slip).exists() && !lab.path("nothing-like-it").exists());
}

#[test]
fn a_target_says_what_it_is_before_the_first_trial() {
    let lab = Lab::new();
    let (a, b) = (lab.directory("a"), lab.directory("b"));
    let compare = [
        "compare",
        &a,
        &b,
        "-w",
        "randread,size=1m",
        "--blocks",
        "1",
        "-o",
        "r",
    ];
    let output = lab.run(&[&compare[..], &QUICK].concat());
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let line = |name: &str| {
        let found = told.lines().find(|line| line.starts_with(name));
        found
            .unwrap_or_else(|| panic!("{name} is missing: {told}"))
            .to_owned()
    };
    assert!(line("a → ").contains(" on ") && line("a → ").contains(" free)"));
    assert_eq!(line("a → ")[5..], line("b → ")[5..]);
    let first = told.find("a → ").unwrap();
    assert!(first < told.find("trials").unwrap(), "{told}");
    // The folder of a run is no target.
    let output = lab.run(&run(&["r"]));
    assert!(text(&output.stderr).contains("plimsoll report r"));
}

#[test]
fn memory_is_named_before_and_at_the_head_of_the_report() {
    let is_tmpfs = std::fs::read_to_string("/proc/mounts").is_ok_and(|mounts| {
        mounts
            .lines()
            .any(|line| line.starts_with("tmpfs /dev/shm "))
    });
    if !is_tmpfs {
        eprintln!("SKIPPED: /dev/shm is no tmpfs");
        return;
    }
    let lab = Lab::new();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let target = memory.path().display().to_string();
    let output = lab.run(&run(&[&target, "-o", "r"]));
    let (told, report) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("measures memory, not storage"), "{told}");
    let head: String = report.lines().take(10).collect();
    assert!(head.contains("memory (tmpfs)"), "{report}");
    assert!(!report.contains("bypasses the client"), "{report}");
}

#[test]
fn two_runs_in_one_directory_know_of_each_other() {
    let lab = Lab::new();
    let target = lab.directory("t");
    let first = [
        "run",
        "randread,size=1m",
        &target,
        "--for",
        "60s",
        "--no-self-test",
        "-o",
        "first",
    ];
    let mut child = lab.start(&first);
    lab.wait_for_text("first", "interval");
    let other = lab.path("elsewhere").display().to_string();
    let refused = lab.run_with(
        &[("PLIMSOLL_STATE", &other)],
        &run(&[&target, "-o", "second"]),
    );
    let error = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{error}");
    assert!(
        error.contains(&format!("process {}", child.id())),
        "{error}"
    );
    assert!(error.contains("--shared"), "{error}");
    let shared = lab.run_with(
        &[("PLIMSOLL_STATE", &other)],
        &run(&[&target, "--shared", "-o", "third"]),
    );
    let told = text(&shared.stderr);
    assert_eq!(shared.status.code(), Some(0), "{told}");
    assert!(told.contains("works on it, too"), "{told}");
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    child.wait().unwrap();
    let after = lab.run(&run(&[&target, "-o", "fourth"]));
    assert_eq!(after.status.code(), Some(0), "{}", text(&after.stderr));
}
