// SPDX-License-Identifier: Apache-2.0
//! Plans as text, compared with snapshots that lie beside the tests (`plan.snap`).
//!
//! `cargo insta review` shows what changed and writes them anew.

use plimsoll_core::plan::{NodeTransport, Plan, PlanNode};
use std::fmt::Write;

use super::manage::{StackPlan, plan};
use super::{
    ClientPlace, NodeInventory, StackConfig, StackPlacement, StackPlanInput, StackUpOptions,
};
use crate::fake::FakeHost;

/// The plan of a stack with default options on a pretended machine.
pub(crate) fn planned(text: &str) -> StackPlan {
    let choice = StackConfig::parse(text).unwrap();
    let options = StackUpOptions::new("/var/lib/plimsoll/stacks".into());
    let mut host = FakeHost::new();
    host.file_systems.insert("lustre".into());
    plan(&choice, &options, &mut host).unwrap()
}

/// The plan of a stack on three pretended machines whose kernels can mount these, or why there is none.
pub(crate) fn planned_on_machines(text: &str, file_systems: &[&str]) -> Result<StackPlan, String> {
    let choice = StackConfig::parse(text).unwrap();
    let options = StackUpOptions {
        place: Some(machines()),
        ..StackUpOptions::new("/var/lib/plimsoll/stacks".into())
    };
    let mut host = FakeHost::new();
    host.file_systems = file_systems.iter().map(ToString::to_string).collect();
    plan(&choice, &options, &mut host).map_err(|error| error.to_string())
}

/// Three machines of an inventory.
pub(crate) fn machines() -> StackPlacement {
    let machine = |number: u8| PlanNode {
        name: format!("n{number}"),
        reach: NodeTransport::Agent(vec!["ssh".into(), format!("storage{number}")]),
        address: format!("10.0.0.{number}"),
        power: Vec::new(),
        fence: Vec::new(),
        fence_next: Vec::new(),
        faults: Vec::new(),
        dir: "/srv/bench".into(),
        free_bytes: 0,
        direct_align_bytes: 0,
        first_port: 0,
    };
    StackPlacement::Inventory(Box::new(NodeInventory {
        file: "lab.toml".into(),
        address: Some("10.0.0.99".into()),
        is_apart: false,
        machines: (1..=3).map(machine).collect(),
    }))
}

/// Compares a text with the snapshot of this name in the folder of the test.
macro_rules! assert_beside {
    ($name:expr, $text:expr) => {
        insta::with_settings!({
            snapshot_path => ".",
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!($name, $text);
        })
    };
}
pub(crate) use assert_beside;

/// The plan of a stack as text.
pub(super) fn text_of(text: &str) -> String {
    let planned = planned(text);
    // The identifier contains time and process, and the network is one that is free now.
    let text = as_text(text, &planned).replace(&planned.id, "example-1");
    match planned.ask.site.client.address.split('.').nth(2) {
        Some(number) if number != "0" => text
            .replace(&format!("10.92.{number}."), "10.92.1.")
            .replace(&format!("plimsoll{number}n"), "plimsoll1n")
            .replace(&format!("plimsoll{number} "), "plimsoll1 ")
            .replace(&format!("plimsoll{number};"), "plimsoll1;")
            .replace(&format!("plimsoll{number}\n"), "plimsoll1\n"),
        _ => text,
    }
}

/// The plans of a stack on machines and of the machine that the load comes from, as text.
pub(super) fn text_of_server_and_client(text: &str) -> String {
    let planned = planned_on_machines(text, &[]).unwrap();
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
    let [server, client] = [&planned.plan, &plan].map(steps);
    let text = format!("{server}\nand on the machine that the load comes from:\n{client}");
    text.replace(&planned.id, "example-1")
}

fn as_text(name: &str, planned: &StackPlan) -> String {
    let made = &planned.made;
    let mut text = format!(
        "stack {name}: {}\ngives {}\n",
        made.description,
        made.place()
    );
    text += &steps(&planned.plan);
    text
}

/// The steps of a plan, numbered.
pub(crate) fn steps(plan: &Plan) -> String {
    let mut text = String::new();
    for (n, step) in plan.steps.iter().enumerate() {
        let node = match step.node.as_str() {
            "here" => String::new(),
            node => format!("on {node}: "),
        };
        let (n, why, apply) = (n + 1, &step.why, &step.apply);
        writeln!(text, "\n{n:2}  {node}{why}\n    do    {apply}").unwrap();
        if let Some(undo) = &step.undo {
            writeln!(text, "    undo  {undo}").unwrap();
        }
    }
    text
}
