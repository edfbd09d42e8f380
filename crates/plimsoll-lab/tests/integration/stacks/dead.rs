// SPDX-License-Identifier: Apache-2.0
//! A disk whose program is gone: it is in the way of no other, and it is not lost sight of.

use super::support::{RazedAtTheEnd, check_nothing_left, host, is_possible};
use super::{choice, options};
use plimsoll_core::plan::PlanAction;
use plimsoll_lab::stacks;
use plimsoll_machine::cleanup::raze_all;
use plimsoll_machine::host::Host as _;
use plimsoll_machine::journal::StateDir;
use std::fs::{self, File};

#[test]
fn a_disk_whose_program_is_gone_is_in_no_way_and_kept_in_sight_until_it_is_free() {
    if !is_possible("dead program") {
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

    // The tools of btrfs look at every mount that they see.
    let beside = super::options(&state, 23_314);
    let other = stacks::up(&choice("nbd(btrfs)"), &beside, &state, &mut host).unwrap();
    let razed = stacks::down(&other.name, &state, &mut host).unwrap();
    assert!(razed.is_clean(), "{razed:?}");

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

/// A program that ends by itself unmounts its file system, even while it is in use: then no path leads to the
/// file.
#[test]
fn a_loop_device_is_found_although_its_file_is_mounted_nowhere_any_more() {
    if !is_possible("unmounted disk") {
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
