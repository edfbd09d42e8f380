// SPDX-License-Identifier: Apache-2.0
//! The machine is restarted in the middle of a comparison: the same command goes on.
//!
//! A restart is pretended: processes are killed, mounts and loop devices go, and the journals are of another
//! boot. Files stay, as on a disk.

use super::commands::{files_below, left};
use crate::support::{Lab, program, skipped, text};
use std::fs;

/// Parts of the state directory of this place that a restart takes away.
fn restart(lab: &Lab) {
    let state = lab.path("state").display().to_string();
    let mark = format!("PLIMSOLL_MARK_OF={state}");
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        if text(&environ).split('\0').any(|one| one == mark) {
            let process = entry.file_name().to_string_lossy().into_owned();
            program("kill", &["-9", &process]);
        }
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let ours = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|at| at.contains(&state));
    for mount in ours.collect::<Vec<_>>().into_iter().rev() {
        program("umount", &["--lazy", mount]);
    }
    for disk in fs::read_dir("/sys/block").unwrap().flatten() {
        let file = fs::read_to_string(disk.path().join("loop/backing_file")).unwrap_or_default();
        if file.starts_with(&state) {
            program(
                "losetup",
                &[
                    "--detach",
                    &format!("/dev/{}", disk.file_name().to_string_lossy()),
                ],
            );
        }
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for journal in files_below(&lab.path("state/journals")) {
        let text = fs::read_to_string(&journal).unwrap();
        assert!(
            text.contains(boot.trim()),
            "{journal} says which boot it is of"
        );
        fs::write(
            &journal,
            text.replace(boot.trim(), "00000000-1111-2222-3333-444444444444"),
        )
        .unwrap();
    }
}

/// Kills a comparison after some trials, restarts the machine, and lets the same command go on.
fn goes_on(lab: &Lab, command: &str) -> serde_json::Value {
    let words: Vec<&str> = command.split(' ').collect();
    let mut child = lab.start(&words);
    lab.wait_for_text("run", "\"trial_ended\"");
    child.kill().unwrap();
    child.wait_with_output().unwrap();
    restart(lab);
    let output = lab.run(&words);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(
        errors.contains("removed first what killed runs left"),
        "{errors}"
    );
    let left = [left(lab), files_below(&lab.path("state"))].concat();
    assert!(left.is_empty(), "{left:?}");
    lab.json(&["report", "run", "--json"])
}

fn check(told: &serde_json::Value, trials: usize) {
    assert_eq!(told["complete"], true);
    assert_eq!(told["trials"].as_array().unwrap().len(), trials);
    let said = told["warnings"].to_string();
    assert!(
        said.contains("the run was interrupted and resumed after"),
        "{said}"
    );
}

#[test]
fn a_comparison_of_directories_goes_on_after_a_restart() {
    let lab = Lab::new();
    let (a, b) = (lab.directory("a"), lab.directory("b"));
    let told = goes_on(
        &lab,
        "compare a b -w randwrite,size=1m --for 300ms --warmup 0s --blocks 2 --no-self-test -o run",
    );
    check(&told, 6);
    for place in [a, b] {
        assert_eq!(fs::read_dir(place).unwrap().count(), 0);
    }
}

#[test]
fn a_comparison_of_stacks_goes_on_after_a_restart_and_a_stack_of_the_users_stays() {
    let lab = Lab::new();
    if !rustix::process::geteuid().is_root() {
        return skipped("stacks after a restart", "only root can mount them");
    }
    let doctor = lab.json(&["doctor", "--json"]);
    let checks = doctor["checks"].as_array().unwrap().iter();
    let is_missing = |check: &&serde_json::Value| {
        check["ok"] == false
            && check["needed_for"]
                .as_str()
                .is_some_and(|of| of.contains("nbd"))
    };
    let missing: Vec<_> = checks
        .filter(is_missing)
        .map(|check| check["name"].to_string())
        .collect();
    if !missing.is_empty() {
        return skipped(
            "stacks after a restart",
            &format!("missing here: {}", missing.join(", ")),
        );
    }
    let directory = lab.directory("a");
    let told = goes_on(
        &lab,
        "compare nbd a -w randwrite,size=4m --size 512M --for 300ms --warmup 0s --blocks 2 --no-self-test -o run",
    );
    check(&told, 6);
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
    // A stack that a person brought up is not taken down for them: its data may be dear.
    assert_eq!(
        lab.run(&["stack", "up", "nbd", "--size", "512M"])
            .status
            .code(),
        Some(0)
    );
    restart(&lab);
    let output = lab.run(&["stack", "up", "nbd", "--size", "512M"]);
    let errors = text(&output.stderr);
    assert_ne!(output.status.code(), Some(0), "{errors}");
    let wanted = "this machine was restarted since it was brought up";
    assert!(
        errors.contains(wanted) && errors.contains("plimsoll stack down 'nbd'"),
        "{errors}"
    );
    assert!(text(&lab.run(&["stack", "status"]).stdout).contains(wanted));
    assert!(lab.run(&["raze"]).status.success());
}
