// SPDX-License-Identifier: Apache-2.0
//! One disk over NBD: as it is, or with known delays, limits and errors.
//!
//! Manual: `nbd.md`.

use plimsoll_core::plan::{Plan, StackOutputs, StackServer};
use plimsoll_core::settings::{
    SettingDefinition, SettingLevels, SettingUnit, SettingValues, level, levels,
};

use super::node::nbd::{self as nbd_node, NbdExportOptions};
use super::node::{ExportTransport, FAIL_AFTER, file_system};
use super::{
    PreconditionError, StackConfig, StackFootprint, StackLadderRung, StackPlanInput, StackRecipe,
    StackRequirements, node,
};

/// The stack `nbd`.
#[derive(Debug)]
pub struct NbdStack;

const SETTINGS: &[SettingDefinition] = &[
    file_system::FS,
    SettingDefinition {
        name: "read_delay",
        unit: SettingUnit::Time,
        default: "0",
        help: "time added to each read, in whole milliseconds",
    },
    SettingDefinition {
        name: "write_delay",
        unit: SettingUnit::Time,
        default: "0",
        help: "time added to each write, in whole milliseconds",
    },
    SettingDefinition {
        name: "rate",
        unit: SettingUnit::Size(1),
        default: "0",
        help: "bytes per second, for reads and for writes; 0: unlimited",
    },
    SettingDefinition {
        name: "burst",
        unit: SettingUnit::Time,
        default: "2s",
        help: "how long the rate may be exceeded after a pause, as the time in which the credit is earned",
    },
    SettingDefinition {
        name: "read_errors",
        unit: SettingUnit::Number,
        default: "0",
        help: "percentage of reads that fail once the stack is up",
    },
    SettingDefinition {
        name: "write_errors",
        unit: SettingUnit::Number,
        default: "0",
        help: "percentage of writes that fail once the stack is up",
    },
    SettingDefinition {
        name: "tls",
        unit: SettingUnit::Flag,
        default: "on",
        help: "--on netns or FILE: TLS with a pre-shared key generated for the stack; off: every user of \
               every machine that reaches the port can read and write the disk. Without --on the disk \
               is served at a private Unix socket",
    },
    nbd_node::CACHE,
    nbd_node::THREADS,
    file_system::READ_AHEAD,
    file_system::ATIME,
    file_system::BARRIER,
    file_system::JOURNAL_DATA,
    FAIL_AFTER,
];

/// Delays and limits are there to be planted: without them it is as fast as it can be.
const LEVELS: &[SettingLevels] = &[
    levels("read_delay", &[level("0")]),
    levels("write_delay", &[level("0")]),
    levels("rate", &[level("0")]),
    file_system::FS_LEVELS,
    nbd_node::THREADS_LEVELS,
    nbd_node::CACHE_LEVELS,
    file_system::READ_AHEAD_LEVELS,
    file_system::ATIME_LEVELS,
    file_system::BARRIER_LEVELS,
    file_system::JOURNAL_DATA_LEVELS,
];

fn transport(settings: &SettingValues) -> Result<ExportTransport, PreconditionError> {
    NbdExportOptions::of(settings).map(ExportTransport::Nbd)
}

/// For what does not depend on the settings, which are checked elsewhere.
fn any() -> ExportTransport {
    ExportTransport::Nbd(NbdExportOptions::plain(1))
}

impl StackRecipe for NbdStack {
    fn name(&self) -> &'static str {
        "nbd"
    }

    fn about(&self) -> &'static str {
        "a file system on one disk over NBD (image, nbdkit, qemu-storage-daemon, nbdfuse, loop \
         device), with optional delays, a rate limit and I/O errors"
    }

    fn settings(&self) -> &'static [SettingDefinition] {
        SETTINGS
    }

    fn levels(&self) -> &'static [SettingLevels] {
        LEVELS
    }

    fn shape(&self, choice: &StackConfig) -> Result<StackFootprint, PreconditionError> {
        transport(&choice.settings)?;
        file_system::check_settings(&choice.settings, choice.settings.text("fs"))?;
        Ok(StackFootprint::here(1, 1))
    }

    fn lets_in(&self, choice: &StackConfig) -> Option<&'static str> {
        (!choice.settings.flag("tls")).then_some(super::ANYBODY)
    }

    fn needs(&self, choice: &StackConfig) -> StackRequirements {
        node::needs(&any(), file_system::makers(&choice.settings))
    }

    fn server_needs(&self, _: &StackConfig) -> StackRequirements {
        node::server_needs(&any())
    }

    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError> {
        node::check(order)?;
        file_system::check(order)?;
        let (settings, dir) = (order.settings(), order.dir());
        let transport = transport(settings)?;
        let nodes = node::all(order, &dir, &transport);
        let mut plan = Plan::default();
        node::begin(&mut plan, &nodes, &dir);
        let at = format!("{dir}/mnt");
        let disk = nodes[0].device_file();
        node::add_mount_of(&mut plan, settings, &disk, &at);
        if let ExportTransport::Nbd(nbd) = &transport {
            nbd.add_errors(&nodes[0], &mut plan);
        }
        let fs = settings.text("fs");
        let made = StackOutputs {
            mount_dir: at,
            file_system: fs.into(),
            description: format!(
                "{fs} on one disk over NBD (image, nbdkit, qemu-storage-daemon, nbdfuse, loop \
                 device)"
            ),
            servers: vec![StackServer {
                restore: nodes[0].restart(),
                ..node::servers(&nodes).remove(0)
            }],
            client_programs: node::client_programs(&nodes),
            proofs: match nbd_node::sends_flushes(settings) {
                true => vec![nodes[0].flushes()],
                false => Vec::new(),
            },
            ..StackOutputs::default()
        };
        Ok((plan, made))
    }

    fn rungs(&self, choice: &StackConfig) -> Vec<StackLadderRung> {
        vec![
            StackLadderRung::new("disk", "local"),
            StackLadderRung::new("transport", choice.parts.base.to_string()),
        ]
    }
}

#[cfg(test)]
mod plan_tests;
