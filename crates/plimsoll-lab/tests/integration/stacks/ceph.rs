// SPDX-License-Identifier: Apache-2.0
//! Ceph for real: it keeps data while a daemon is gone, and leaves nothing.
//!
//! Its packages are large, so they are not among those that tests install: `scripts/setup.sh ceph`
//! does.

use super::RazedAtTheEnd;
use super::support::{check_nothing_left, host, is_of_shared_disk, missing, now, pause, seconds};
use plimsoll_lab::proofs::{SelfTestDepth, SelfTestResult, SelfTestStatus, prove};
use plimsoll_lab::stacks::{self, StackChange, StackConfig, StackUpOptions, change};
use plimsoll_machine::cleanup::raze_all;
use plimsoll_machine::host::{HostPool, HostResolver};
use plimsoll_machine::journal::StateDir;
use plimsoll_machine::raise::list;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Tells a copy of this test program to raise the stack in this state directory.
const VICTIM_STATE: &str = "PLIMSOLL_TEST_CEPH_VICTIM_STATE";

fn options(state: &StateDir) -> StackUpOptions {
    StackUpOptions {
        size_bytes: 1 << 30,
        ..StackUpOptions::new(state.stacks())
    }
}

/// Brings it up, sees all its proofs, takes a daemon away and back, takes it down.
fn check(stack: &str) {
    let choice = StackConfig::parse(stack).unwrap();
    if missing(stack, &choice) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let _guard = RazedAtTheEnd(&state);
    let mut hosts = HostPool::new(host());
    let began = now();
    let up = stacks::up(&choice, &options(&state), &state, &mut hosts).unwrap();
    eprintln!("{stack}: up in {:.1} s", seconds(began));
    let record = list(&state).unwrap().remove(0);
    hosts.meet(record.record.unwrap().header.nodes());
    let dir = up.mount_dir().join("proofs");
    fs::create_dir(&dir).unwrap();
    let proved = prove(
        &up.made,
        Some(&dir),
        &up.id,
        SelfTestDepth::Whole,
        &mut hosts,
    );
    assert_eq!(proved.len(), up.made.proofs.len());
    let is_bad = |one: &&SelfTestResult| match &one.outcome {
        SelfTestStatus::Passed(_) => false,
        // All nodes share one disk here: the self-test cannot tell their flushes from each other or from
        // other tests.
        SelfTestStatus::Unseen(why) => !is_of_shared_disk(why),
        SelfTestStatus::Failed(_) => true,
    };
    let bad: Vec<&SelfTestResult> = proved.iter().filter(is_bad).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    let name = up.name.clone();
    change(
        &name,
        StackChange::Degrade,
        None,
        &state,
        &mut hosts,
        &mut |_| {},
    )
    .unwrap();
    fs::write(dir.join("file"), "written while it was gone").unwrap();
    change(
        &name,
        StackChange::Rebuild,
        None,
        &state,
        &mut hosts,
        &mut |_| {},
    )
    .unwrap();
    assert_eq!(
        fs::read_to_string(dir.join("file")).unwrap(),
        "written while it was gone"
    );
    let found = stacks::status(&state, &mut hosts).unwrap();
    assert_eq!(found[0].problems, [""; 0]);
    let razed = stacks::down(&name, &state, &mut hosts).unwrap();
    assert!(razed.is_clean(), "{:?}", razed.errors);
    check_nothing_left(place.path());
}

#[test]
fn a_file_system_keeps_data_without_one_daemon() {
    check("ceph");
}

#[test]
fn a_block_device_keeps_data_without_one_daemon() {
    check("ceph(rbd)");
}

/// Not a test: what a copy of this program does when the next one starts it.
#[test]
fn victim() {
    if let Some(place) = std::env::var_os(VICTIM_STATE) {
        let state = StateDir::new(place);
        let choice = StackConfig::parse("ceph").unwrap();
        stacks::up(
            &choice,
            &options(&state),
            &state,
            &mut HostPool::new(host()),
        )
        .unwrap();
    }
}

fn steps(state: &StateDir) -> usize {
    let found = list(state).unwrap().into_iter().next();
    let record = found.and_then(|found| found.record.ok());
    record.map_or(0, |record| record.entries.len())
}

/// Kills the process that raises the stack once its journal has `wanted` steps, then razes the stack.
fn kill_at(place: &Path, wanted: usize) {
    let state = StateDir::new(place);
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stacks::ceph::victim"])
        .env(VICTIM_STATE, place)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = now();
    while steps(&state) < wanted {
        let gone = victim.try_wait().unwrap();
        assert!(gone.is_none(), "it ended before step {wanted}");
        assert!(seconds(began) < 300.0, "it did not get to step {wanted}");
        pause(Duration::from_millis(5));
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    for razed in raze_all(&state, &mut HostPool::new(host())).unwrap() {
        let razed = razed.result.unwrap();
        assert!(razed.is_clean(), "{razed:?}");
    }
    check_nothing_left(place);
}

#[test]
fn killed_while_it_is_made_it_leaves_nothing() {
    if missing("ceph killed", &StackConfig::parse("ceph").unwrap()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    // Among the keys, while a disk is made, and while the file system is mounted.
    for wanted in [15, 36, 49] {
        kill_at(place.path(), wanted);
    }
}
