// SPDX-License-Identifier: Apache-2.0
//! A directory in the base directory: what the disk of this machine can do without any stack.
//!
//! Manual: `local.md`.

use plimsoll_core::plan::Plan;
use std::path::PathBuf;

use super::{Facts, Needs, Options, Stack, Unmet, node, stack_dir};

/// The stack `local`.
#[derive(Debug)]
pub struct Local;

impl Stack for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn description(&self) -> &'static str {
        "a directory on a file system of this machine"
    }

    fn needs(&self) -> Needs {
        Needs {
            programs: &[],
            qemu_modules: &[],
            devices: &[],
            root: false,
        }
    }

    fn mount_dir(&self, options: &Options) -> PathBuf {
        stack_dir(self.name(), options)
    }

    fn plan(&self, options: &Options, _facts: &Facts) -> Result<Plan, Unmet> {
        let mut plan = Plan::default();
        node::add_dir(&mut plan, &self.mount_dir(options).to_string_lossy());
        Ok(plan)
    }
}

#[cfg(test)]
mod plan_tests;
