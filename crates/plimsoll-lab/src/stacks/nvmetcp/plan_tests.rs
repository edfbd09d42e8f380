// SPDX-License-Identifier: Apache-2.0
//! The plans of disks that kernels serve as text, and what is refused.

use crate::fake::FakeHost;
use crate::stacks::manage::plan;
use crate::stacks::{StackConfig, StackUpOptions, snapshot};

#[test]
fn the_plans_of_server_and_client_are_the_committed_ones() {
    snapshot::assert_beside!("plan", snapshot::text_of_server_and_client("nvmetcp"));
}

#[test]
fn the_names_of_two_stacks_on_one_network_differ() {
    let name = |text: &str| {
        let planned = snapshot::planned_on_machines(text, &[]).unwrap();
        let shown = snapshot::steps(&planned.plan);
        let up = shown.split("transport.sh up ").nth(1).unwrap().to_owned();
        up.split(' ').next().unwrap().to_owned()
    };
    assert_ne!(name("nvmetcp"), name("nvmetcp(fs=xfs)"));
}

#[test]
fn what_the_kernels_target_cannot_do_is_said_and_so_is_that_it_needs_machines() {
    for (text, expect) in [
        ("iscsi(target=lio,chap)", "chap is for target=tgt"),
        (
            "iscsi(target=lio,sectors=4096)",
            "sectors=4096 is for target=tgt",
        ),
        (
            "iscsi(lio,write_cache=off)",
            "write_cache=off is for target=tgt",
        ),
        ("nvmetcp(fail_after=0s)", "from 1s to 1h"),
    ] {
        let error = snapshot::planned_on_machines(text, &[]).unwrap_err();
        assert!(error.contains(expect), "{text}: {error}");
    }
    for text in ["iscsi(target=lio)", "nvmetcp"] {
        let choice = StackConfig::parse(text).unwrap();
        let options = StackUpOptions::new("/var/lib/plimsoll/stacks".into());
        let error = plan(&choice, &options, &mut FakeHost::new()).unwrap_err();
        assert!(error.to_string().contains("--on FILE"), "{error}");
    }
}
