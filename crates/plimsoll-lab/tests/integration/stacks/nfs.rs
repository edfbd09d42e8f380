// SPDX-License-Identifier: Apache-2.0
//! The stack `nfs` for real, and directories of ours on its export.

use plimsoll_core::plan::{HERE, PlanAction};
use plimsoll_lab::stacks::{self, StackConfig, StackUpOptions};
use plimsoll_machine::host::{Host, HostPool, HostResolver};
use plimsoll_machine::journal::StateDir;
use plimsoll_nfs::{NfsAddress, NfsMount};
use std::fs;
use std::path::Path;

use super::support::{RazedAtTheEnd, check_nothing_left, host, is_stack_possible};

#[test]
fn nfs_comes_up_serves_and_leaves_nothing() {
    const STACK: &str = "nfs(client=own)";
    if !is_stack_possible("nfs comes up", STACK) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let _guard = RazedAtTheEnd(&state);
    let mut hosts = HostPool::new(host());
    let choice = StackConfig::parse(STACK).unwrap();
    let options = StackUpOptions::new(state.stacks());
    let up = stacks::up(&choice, &options, &state, &mut hosts).unwrap();
    let status = stacks::status(&state, &mut hosts).unwrap();
    assert!(status[0].problems.is_empty(), "{status:?}");
    let address = up.made.address.clone().unwrap();
    serve(
        hosts.on(HERE).unwrap(),
        &address,
        up.made.served_dir.as_deref().unwrap(),
    );
    let down = stacks::down(&up.name, &state, &mut hosts).unwrap();
    assert!(down.is_clean(), "{down:?}");
    check_nothing_left(place.path());
    for process in ["rpcbind", "ganesha"] {
        let mark = format!("plimsoll-{}-{process}", up.id);
        assert_eq!(hosts.here().marked(&mark), [0_u32; 0], "{process}");
    }
}

/// Files made on the export are seen below it, and only ours are removed.
fn serve(host: &mut dyn Host, address: &str, served: &str) {
    let share = NfsMount::mount(&address.parse::<NfsAddress>().unwrap()).unwrap();
    assert!(share.room().unwrap().free_bytes > 0);
    let (address, name) = (address.to_owned(), "plimsoll-run-1-nfs".to_owned());
    let make = PlanAction::MakeRemoteDir {
        address: address.clone(),
        name: name.clone(),
    };
    let remove = PlanAction::RemoveRemoteDir { address, name };
    let made = Path::new(served).join("plimsoll-run-1-nfs");
    // Safe when it was not made, made once, or half undone.
    host.carry_out("run-1", &remove).unwrap();
    host.carry_out("run-1", &make).unwrap();
    assert!(host.carry_out("run-1", &make).is_err(), "it is there");
    fs::create_dir(made.join("below")).unwrap();
    fs::write(made.join("below/file"), "x").unwrap();
    let refused = host.carry_out("run-2", &remove).unwrap_err();
    assert!(refused.to_string().contains("not ours"), "{refused}");
    assert!(made.join("below/file").exists());
    host.carry_out("run-1", &remove).unwrap();
    host.carry_out("run-1", &remove).unwrap();
    let left: Vec<_> = fs::read_dir(served)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, [".plimsoll"], "the mark of the stack alone");
    let mut session = share.session().unwrap();
    let names: Vec<String> = session.list(&share.root()).unwrap();
    assert_eq!(names, [".plimsoll"]);
}
