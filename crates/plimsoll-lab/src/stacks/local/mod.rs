// SPDX-License-Identifier: Apache-2.0
//! A directory in the base directory: the disk of this machine without any stack.
//!
//! Manual: `local.md`.

use plimsoll_core::plan::{Plan, StackOutputs};

use super::{
    PreconditionError, StackConfig, StackFootprint, StackLadderRung, StackPlanInput, StackRecipe,
    StackRequirements, node,
};

/// The stack `local`.
#[derive(Debug)]
pub struct LocalStack;

impl StackRecipe for LocalStack {
    fn name(&self) -> &'static str {
        "local"
    }

    fn about(&self) -> &'static str {
        "a directory on a file system of this machine"
    }

    fn shape(&self, _: &StackConfig) -> Result<StackFootprint, PreconditionError> {
        Ok(StackFootprint::here(0, 0))
    }

    fn needs(&self, _: &StackConfig) -> StackRequirements {
        StackRequirements::default()
    }

    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError> {
        let mut plan = Plan::default();
        node::add_dir(&mut plan, &order.dir());
        let made = StackOutputs {
            mount_dir: order.dir(),
            description: self.about().into(),
            ..StackOutputs::default()
        };
        Ok((plan, made))
    }

    fn rungs(&self, _: &StackConfig) -> Vec<StackLadderRung> {
        vec![StackLadderRung::new("disk", "local")]
    }
}

#[cfg(test)]
mod plan_tests;
