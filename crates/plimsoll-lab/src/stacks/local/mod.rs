// SPDX-License-Identifier: Apache-2.0
//! A directory in the base directory: what the disk of this machine can do without any stack.
//!
//! Manual: `local.md`.

use plimsoll_core::plan::{Made, Plan};

use super::{Choice, Needs, Order, Place, Rung, Shape, Stack, Unmet, node};

/// The stack `local`.
#[derive(Debug)]
pub struct Local;

impl Stack for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn about(&self) -> &'static str {
        "a directory on a file system of this machine"
    }

    fn shape(&self, _: &Choice) -> Result<Shape, Unmet> {
        Ok(Shape {
            servers: 0,
            ports: 0,
            place: Place::Here,
        })
    }

    fn needs(&self, _: &Choice) -> Needs {
        Needs::default()
    }

    fn plan(&self, order: &Order<'_>) -> Result<(Plan, Made), Unmet> {
        let mut plan = Plan::default();
        node::add_dir(&mut plan, &order.dir());
        let made = Made {
            mount_dir: order.dir(),
            description: self.about().into(),
            ..Made::default()
        };
        Ok((plan, made))
    }

    fn rungs(&self, _: &Choice) -> Vec<Rung> {
        vec![Rung::new("disk", "local")]
    }
}

#[cfg(test)]
mod plan_tests;
