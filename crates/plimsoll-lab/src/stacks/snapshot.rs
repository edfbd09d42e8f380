// SPDX-License-Identifier: Apache-2.0
//! Plans as text, compared with files that are committed.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p plimsoll-lab` writes the files anew; read the difference.

use plimsoll_core::plan::Plan;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::manage::{StackPlan, plan};
use super::{NodeInventory, NodeSpec, StackConfig, StackPlacement, StackUpOptions};
use plimsoll_machine::host::FakeHost;

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
    let machine = |number: u8| NodeSpec {
        name: format!("n{number}"),
        reach: vec!["ssh".into(), format!("storage{number}")],
        address: format!("10.0.0.{number}"),
        power: Vec::new(),
        fence: Vec::new(),
        fence_next: Vec::new(),
        faults: Vec::new(),
        dir: "/srv/bench".into(),
    };
    StackPlacement::Inventory(Box::new(NodeInventory {
        file: "lab.toml".into(),
        address: Some("10.0.0.99".into()),
        is_apart: false,
        machines: (1..=3).map(machine).collect(),
    }))
}

/// Compares the plan of a stack with `file` in the folder of its recipe, or of its last layer's.
pub(super) fn check(text: &str, folder: &str, file: &str) {
    let planned = planned(text);
    // The identifier contains time and process, and the network is one that is free now.
    let text = as_text(text, &planned).replace(&planned.id, "example-1");
    let text = match planned.ask.site.client.address.split('.').nth(2) {
        Some(number) if number != "0" => text
            .replace(&format!("10.92.{number}."), "10.92.1.")
            .replace(&format!("plimsoll{number}n"), "plimsoll1n")
            .replace(&format!("plimsoll{number} "), "plimsoll1 ")
            .replace(&format!("plimsoll{number};"), "plimsoll1;")
            .replace(&format!("plimsoll{number}\n"), "plimsoll1\n"),
        _ => text,
    };
    check_text(&text, folder, file);
}

/// Compares a text with `file` in the folder of a recipe.
pub(crate) fn check_text(text: &str, folder: &str, file: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/stacks")
        .join(folder)
        .join(file);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&file, text).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, committed, "see the module comment to update it");
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
