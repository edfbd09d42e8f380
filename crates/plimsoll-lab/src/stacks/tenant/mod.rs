// SPDX-License-Identifier: Apache-2.0
//! Two tenants that must not see each other's data; measured is the one that is this machine.
//!
//! Manual: `tenant.md`. The stack below builds it in; here is what can be set.

use plimsoll_core::plan::{Made, Plan};
use plimsoll_core::settings::{Setting, Settings, Unit};

use super::{Layer, Needs, Order, Unmet};

const SETTINGS: &[Setting] = &[
    Setting {
        name: "tls",
        unit: Unit::Flag,
        default: "on",
        help: "a volume and a certificate for each tenant, and encryption on the way",
    },
    Setting {
        name: "address",
        unit: Unit::Flag,
        default: "on",
        help: "each tenant's directory is mounted from its own address alone",
    },
    Setting {
        name: "uid_map",
        unit: Unit::Flag,
        default: "off",
        help: "root of the tenant is another user on the servers (bindfs over the mount)",
    },
];

/// The layer `tenant`.
#[derive(Debug)]
pub struct Tenant;

impl Layer for Tenant {
    fn name(&self) -> &'static str {
        "tenant"
    }

    fn about(&self) -> &'static str {
        "a directory for each of two tenants, kept apart by certificates, addresses and users"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn only_over(&self) -> Option<&'static [&'static str]> {
        Some(&["gluster"])
    }

    fn needs(&self, settings: &Settings) -> Needs {
        let mut programs = vec!["mkdir", "fallocate", "ls", "cat"];
        programs.extend(settings.flag("tls").then_some("openssl"));
        programs.extend(settings.flag("uid_map").then_some("bindfs"));
        Needs {
            programs,
            root: true,
            ..Needs::default()
        }
    }

    fn add(&self, _: &mut Plan, _: &mut Made, _: &Order<'_>, _: &Settings) -> Result<(), Unmet> {
        Ok(())
    }
}

#[cfg(test)]
mod plan_tests;
