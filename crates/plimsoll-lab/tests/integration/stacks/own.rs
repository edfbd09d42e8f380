// SPDX-License-Identifier: Apache-2.0
//! A user's own stack: the example of the manual, up, used, killed, down.

use super::support::{RazedAtTheEnd, check_nothing_left, host, is_possible, traces};
use plimsoll_lab::stacks::{self, StackConfig, StackUpOptions};
use plimsoll_machine::host::Host as _;
use plimsoll_machine::journal::StateDir;
use std::fs;
use std::path::Path;

#[test]
fn the_example_comes_up_and_leaves_nothing() {
    if !is_possible("own stack") {
        return;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/stacks/own.toml");
    let choice = StackConfig::parse(example.to_str().unwrap()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let _guard = RazedAtTheEnd(&state);
    let options = StackUpOptions {
        size_bytes: 256 << 20,
        first_port: 23_640,
        ..StackUpOptions::new(state.stacks())
    };
    let up = stacks::up(&choice, &options, &state, &mut host()).unwrap();
    fs::write(up.mount_dir().join("file"), "x").unwrap();
    let mounts = traces(place.path()).into_iter();
    assert!(mounts.filter(|trace| trace.starts_with("mount")).count() > 0);
    // Every undo action runs a second time after `down`, as if another process had been faster.
    let record = stacks::manage::record(&up.name, &state).unwrap();
    assert!(
        stacks::down(&up.name, &state, &mut host())
            .unwrap()
            .is_clean()
    );
    check_nothing_left(place.path());
    let mut host = host();
    let programs = &record.header.ask.as_ref().unwrap().programs;
    plimsoll_machine::host::HostResolver::trust(&mut host, &record.header.id, programs);
    for (_, _, action) in record.to_undo() {
        host.carry_out(&record.header.id, &action).unwrap();
    }
}
