// SPDX-License-Identifier: Apache-2.0
//! The plan of `local+crypt` as text, and what is to be proved of it.

use crate::stacks::snapshot;
use plimsoll_core::plan::StackSelfTest;

#[test]
fn the_plan_is_the_committed_one() {
    snapshot::assert_beside!("plan", snapshot::text_of("local+crypt"));
}

#[test]
fn the_bricks_below_must_not_show_anything() {
    let hidden = |text: &str| {
        let proofs = snapshot::planned(text).made.proofs;
        let is_hidden = |proof: &&StackSelfTest| matches!(proof, StackSelfTest::Hidden { .. });
        proofs.iter().filter(is_hidden).count()
    };
    assert_eq!(hidden("local+crypt"), 1);
    assert_eq!(hidden("gluster+crypt(xchacha)"), 4);
    // Names that are not encrypted are not hidden.
    assert_eq!(hidden("gluster+crypt(names=off)"), 0);
}

#[test]
fn threads_are_those_of_its_scheduler_and_its_process_is_watched() {
    let planned = |text: &str| {
        let plan = snapshot::planned(text);
        let steps = plan.plan.steps.iter();
        let lines: Vec<String> = steps.map(|step| step.apply.to_string()).collect();
        let programs = plan.made.client_programs.iter();
        let programs: Vec<String> = programs.map(|one| one.name.clone()).collect();
        (lines.join("\n"), programs)
    };
    let (plain, programs) = planned("gluster(distribute)+tenant(uid_map=on)+crypt");
    assert!(!plain.contains("GOMAXPROCS"));
    assert_eq!(programs, ["glusterfs", "bindfs", "gocryptfs"]);
    let (one, programs) = planned("nbd+crypt(threads=1)");
    assert!(one.contains("GOMAXPROCS=1 gocryptfs"), "{one}");
    assert_eq!(programs, ["qemu-storage-daemon", "nbdfuse", "gocryptfs"]);
}

#[test]
fn a_second_client_would_see_what_is_encrypted() {
    let made = snapshot::planned("gluster+crypt").made;
    let is_second = |proof: &StackSelfTest| matches!(proof, StackSelfTest::SecondClient { .. });
    assert!(!made.proofs.iter().any(is_second));
}
