// SPDX-License-Identifier: Apache-2.0
//! Two tenants that must not see each other's data; measured is the one that is this machine.
//!
//! Manual: `tenant.md`. The stack below builds it in; here is what can be set.

use plimsoll_core::plan::{Plan, StackOutputs};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

use super::{LayerRecipe, PreconditionError, StackPlanInput, StackRequirements};

const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition {
        name: "address",
        unit: SettingUnit::Flag,
        default: "on",
        help: "each tenant's directory is mounted from its own address alone",
    },
    SettingDefinition {
        name: "uid_map",
        unit: SettingUnit::Flag,
        default: "off",
        help: "root of the tenant is another user on the servers (bindfs over the mount)",
    },
];

/// The layer `tenant`.
#[derive(Debug)]
pub struct TenantLayer;

impl LayerRecipe for TenantLayer {
    fn name(&self) -> &'static str {
        "tenant"
    }

    fn about(&self) -> &'static str {
        "a directory for each of two tenants, isolated by certificates, addresses and users"
    }

    fn settings(&self) -> &'static [SettingDefinition] {
        SETTINGS
    }

    fn only_over(&self) -> Option<&'static [&'static str]> {
        Some(&["gluster"])
    }

    fn needs(&self, settings: &SettingValues) -> StackRequirements {
        let mut programs = vec!["mkdir", "fallocate", "ls", "cat"];
        programs.extend(settings.flag("uid_map").then_some("bindfs"));
        StackRequirements {
            programs,
            root: true,
            ..StackRequirements::default()
        }
    }

    fn add(
        &self,
        _: &mut Plan,
        _: &mut StackOutputs,
        _: &StackPlanInput<'_>,
        _: &SettingValues,
    ) -> Result<(), PreconditionError> {
        Ok(())
    }
}

#[cfg(test)]
mod plan_tests;
