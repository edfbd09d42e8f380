// SPDX-License-Identifier: Apache-2.0
//! A disk whose program is gone: what it is in the way of says so, and it is not lost sight of.

use super::support::{RazedAtTheEnd, check_nothing_left, host, is_possible};
use super::{choice, options};
use plimsoll_core::plan::PlanAction;
use plimsoll_lab::stacks;
use plimsoll_machine::cleanup::raze_all;
use plimsoll_machine::host::Host as _;
use plimsoll_machine::journal::StateDir;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// Tells a copy of this test program that nobody else sees what it mounts.
const APART: &str = "PLIMSOLL_TEST_APART";

/// Whether this is a process that nobody else sees the mounts of: a dead disk that is mounted is in the
/// way of all tests of file systems. If not, it has been done by such a one.
fn is_apart(test: &str) -> bool {
    if std::env::var_os(APART).is_some() {
        let_go_of_others();
        return true;
    }
    let copy = Command::new("unshare")
        .arg("--mount")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(APART, "1")
        .status();
    assert!(copy.unwrap().success());
    false
}

/// Copies of what tests in other processes have mounted: held here, they would keep disks busy that those
/// tests take away.
fn let_go_of_others() {
    let places = [std::env::temp_dir(), env!("CARGO_TARGET_TMPDIR").into()];
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let is_below = |place: &Path, point: &str| {
        let point = Path::new(point);
        point.starts_with(place) && point != place
    };
    let theirs = points.filter(|point| places.iter().any(|place| is_below(place, point)));
    for point in theirs.collect::<Vec<_>>().into_iter().rev() {
        let _ = Command::new("umount").args(["--lazy", point]).status();
    }
}

#[test]
fn a_disk_whose_program_is_gone_is_named_and_kept_in_sight_until_it_is_free() {
    let test = "dead::a_disk_whose_program_is_gone_is_named_and_kept_in_sight_until_it_is_free";
    if !is_possible("dead program") || !is_apart(test) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = host();
    let _guard = RazedAtTheEnd(&state);
    let options = options(&state, 23_310);
    let up = stacks::up(&choice("nbd"), &options, &state, &mut host).unwrap();
    let user = File::create(up.mount_dir().join("open")).unwrap();
    let mark = format!("plimsoll-{}-nbdfuse0", up.id);
    host.carry_out(&up.id, &PlanAction::Kill { mark }).unwrap();

    let error = stacks::up(&choice("nbd(btrfs)"), &options, &state, &mut host).unwrap_err();
    let error = error.to_string();
    let point = up.mount_dir().display().to_string();
    for words in ["is in the way", &*point, "-disk0 any more", "plimsoll raze"] {
        assert!(error.contains(words), "{words}: {error}");
    }

    let razed = stacks::down("nbd", &state, &mut host).unwrap();
    let problems = razed.problems().join("\n");
    assert!(problems.contains("is still in use"), "{problems}");
    assert_eq!(
        state.journal_files().unwrap().len(),
        1,
        "it is not forgotten"
    );

    drop(user);
    for razed in raze_all(&state, &mut host).unwrap() {
        let razed = razed.result.unwrap();
        assert!(razed.is_clean(), "{razed:?}");
    }
    check_nothing_left(place.path());
}

/// Files that loop devices are attached to, and that this journal named.
fn attached_files(id: &str) -> Vec<String> {
    let entries = fs::read_dir("/sys/block").unwrap().flatten();
    let files = entries.filter_map(|entry| {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        file.contains(id).then(|| file.trim().into())
    });
    files.collect()
}

/// A program that ends by itself unmounts what it serves, whoever uses it: no path leads to the file then.
#[test]
fn a_loop_device_is_found_although_its_file_is_mounted_nowhere_any_more() {
    let test = "dead::a_loop_device_is_found_although_its_file_is_mounted_nowhere_any_more";
    if !is_possible("unmounted disk") || !is_apart(test) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = host();
    let _guard = RazedAtTheEnd(&state);
    let up = stacks::up(&choice("nbd"), &options(&state, 23_312), &state, &mut host).unwrap();
    let mark = format!("plimsoll-{}-nbdfuse0", up.id);
    host.carry_out(&up.id, &PlanAction::Stop { mark }).unwrap();
    let file = format!("/plimsoll-{}-disk0", up.id);
    assert_eq!(attached_files(&up.id), [file]);

    let razed = stacks::down("nbd", &state, &mut host).unwrap();
    assert!(razed.is_clean(), "{razed:?}");
    assert_eq!(attached_files(&up.id), [""; 0]);
    check_nothing_left(place.path());
}
