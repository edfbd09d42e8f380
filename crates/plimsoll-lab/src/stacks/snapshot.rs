// SPDX-License-Identifier: Apache-2.0
//! Plans as text, compared with files that are committed.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p plimsoll-lab` writes the files anew; read the difference.

use plimsoll_core::plan::Plan;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::{Facts, Options, Stack};

/// The facts of the machine that snapshots pretend.
pub(super) fn facts() -> Facts {
    Facts {
        id: "example-1".into(),
        free_bytes: 1 << 40,
        direct_align_bytes: 512,
    }
}

/// Compares the plan with default options with `plan.txt` in the folder of the stack.
pub(super) fn check(stack: &dyn Stack) {
    let options = Options::new("/var/lib/plimsoll/stacks".into());
    let plan = stack.plan(&options, &facts()).unwrap();
    let text = as_text(stack, &options, &plan);
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/stacks")
        .join(stack.name())
        .join("plan.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, committed, "see the module comment to update it");
}

fn as_text(stack: &dyn Stack, options: &Options, plan: &Plan) -> String {
    let mut text = format!(
        "stack {}: {}\ngives {}\n",
        stack.name(),
        stack.description(),
        stack.mount_dir(options).display()
    );
    for (n, step) in plan.steps.iter().enumerate() {
        writeln!(
            text,
            "\n{:2}  {}\n    do    {}",
            n + 1,
            step.why,
            step.apply
        )
        .unwrap();
        if let Some(undo) = &step.undo {
            writeln!(text, "    undo  {undo}").unwrap();
        }
    }
    text
}
