// SPDX-License-Identifier: Apache-2.0
//! The plans of disks that kernels serve as text, and what is refused.

use crate::stacks::manage::plan;
use crate::stacks::{ClientPlace, StackConfig, StackPlanInput, StackUpOptions, snapshot};
use plimsoll_core::plan::{NodeTransport, PlanNode};
use plimsoll_machine::host::FakeHost;

#[test]
fn the_plans_of_server_and_client_are_the_committed_ones() {
    for (text, folder, file) in [
        ("nvmetcp", "nvmetcp", "plan.txt"),
        ("iscsi(target=lio,fs=xfs)", "iscsi", "plan_lio.txt"),
    ] {
        let planned = snapshot::planned_on_machines(text, &[]).unwrap();
        assert_eq!(
            planned.made.place(),
            "",
            "{text}: it is not for this machine"
        );
        let choice = StackConfig::parse(text).unwrap();
        let order = StackPlanInput {
            id: "run-1",
            choice: &choice,
            size_bytes: planned.ask.size_bytes,
            site: &planned.ask.site,
            kernel_has_nfs: false,
            kernel_has_md: false,
        };
        let node = PlanNode {
            name: "c1".into(),
            reach: NodeTransport::Agent(vec!["ssh".into()]),
            ..planned.ask.site.client.clone()
        };
        let place = ClientPlace {
            node: &node,
            dir: "/srv/load",
        };
        let (plan, made) = choice.stack.client(&order, place).unwrap();
        assert_eq!(made.mount_dir, "/srv/load/mnt");
        let steps = [&planned.plan, &plan].map(snapshot::steps);
        let text = format!(
            "{}\nand on the machine that the load comes from:\n{}",
            steps[0], steps[1]
        );
        snapshot::check_text(&text.replace(&planned.id, "example-1"), folder, file);
    }
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
