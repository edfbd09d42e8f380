// SPDX-License-Identifier: Apache-2.0
//! A file system on one disk reached over iSCSI.
//!
//! Manual: `iscsi.md`.

use plimsoll_core::plan::{Plan, StackOutputs};
use plimsoll_core::settings::{
    SettingDefinition, SettingLevels, SettingUnit, SettingValues, level, levels, risky,
};

use super::kernel_disk::KernelDisk;
use super::node::{ExportTransport, FAIL_AFTER, file_system};
use super::{
    ClientPlace, PreconditionError, StackConfig, StackFootprint, StackLadderRung, StackPlanInput,
    StackRecipe, StackRequirements, node,
};

/// The stack `iscsi`.
#[derive(Debug)]
pub struct IscsiStack;

const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition {
        name: "target",
        unit: SettingUnit::Choice(&["tgt", "lio"]),
        default: "tgt",
        help: "tgt: target and initiator in user space; lio: the kernel's target on a machine, with the \
               kernel's initiator on the machine that the load comes from (--on FILE, --clients \
               NODE)",
    },
    file_system::FS,
    SettingDefinition {
        name: "chap",
        unit: SettingUnit::Flag,
        default: "on",
        help: "CHAP with a secret generated for the stack; off: every user of every machine that reaches \
               the port can read and write the disk",
    },
    SettingDefinition {
        name: "write_cache",
        unit: SettingUnit::Flag,
        default: "on",
        help: "the disk may cache writes until a flush; off: each write is answered when it is \
               durable",
    },
    SettingDefinition {
        name: "sectors",
        unit: SettingUnit::Choice(&["512", "4096"]),
        default: "512",
        help: "logical sector size of the disk, in bytes",
    },
    node::iscsi::IMMEDIATE_DATA,
    node::iscsi::MAX_BURST,
    node::nbd::THREADS,
    file_system::READ_AHEAD,
    file_system::ATIME,
    file_system::BARRIER,
    file_system::JOURNAL_DATA,
    FAIL_AFTER,
];

const LEVELS: &[SettingLevels] = &[
    file_system::FS_LEVELS,
    levels(
        "write_cache",
        &[risky("on", "writes that no flush followed"), level("off")],
    ),
    levels("sectors", &[level("4096"), level("512")]),
    node::iscsi::IMMEDIATE_DATA_LEVELS,
    node::iscsi::MAX_BURST_LEVELS,
    node::nbd::THREADS_LEVELS,
    file_system::READ_AHEAD_LEVELS,
    file_system::ATIME_LEVELS,
    file_system::BARRIER_LEVELS,
    file_system::JOURNAL_DATA_LEVELS,
];

/// Settings that only the target in user space, and its client, take.
const OF_TGT: [&str; 7] = [
    "immediate_data",
    "max_burst",
    "threads",
    "read_ahead",
    "atime",
    "barrier",
    "journal_data",
];

/// From kernel to kernel.
const DISK: KernelDisk = KernelDisk {
    about: "one iSCSI disk (LIO and open-iscsi of kernels, loop device with direct I/O)",
    script: include_str!("lio.sh"),
    client_programs: &["iscsiadm", "iscsid"],
};

fn is_kernel(choice: &StackConfig) -> bool {
    choice.settings.text("target") == "lio"
}

/// Settings that the kernel's target does not have here are refused.
fn check_lio(settings: &SettingValues) -> Result<(), PreconditionError> {
    node::fail_after_s(settings)?;
    let given = [
        ("chap", settings.is_given("chap")),
        ("write_cache=off", !settings.flag("write_cache")),
        ("sectors=4096", settings.text("sectors") != "512"),
    ];
    let given = given.iter().filter(|(_, is_given)| *is_given);
    let given = given.map(|(word, _)| *word);
    let others = OF_TGT.into_iter().filter(|name| settings.is_given(name));
    let unmet: Vec<String> = given
        .chain(others)
        .map(|word| format!("{word} is for target=tgt"))
        .collect();
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(PreconditionError(unmet))
    }
}

/// For what does not depend on the settings, which are checked elsewhere.
fn any() -> ExportTransport {
    ExportTransport::Iscsi(node::iscsi::IscsiExportOptions::plain(1))
}

impl StackRecipe for IscsiStack {
    fn name(&self) -> &'static str {
        "iscsi"
    }

    fn about(&self) -> &'static str {
        "a file system on one iSCSI disk (image with direct I/O, tgtd, qemu-storage-daemon, \
         nbdfuse, loop device)"
    }

    fn settings(&self) -> &'static [SettingDefinition] {
        SETTINGS
    }

    fn levels(&self) -> &'static [SettingLevels] {
        LEVELS
    }

    fn shape(&self, choice: &StackConfig) -> Result<StackFootprint, PreconditionError> {
        file_system::check_settings(&choice.settings, choice.settings.text("fs"))?;
        if is_kernel(choice) {
            check_lio(&choice.settings)?;
        }
        node::iscsi::IscsiExportOptions::of(&choice.settings)?;
        Ok(StackFootprint::here(1, u16::from(!is_kernel(choice))))
    }

    fn needs_machines(&self, choice: &StackConfig) -> bool {
        is_kernel(choice)
    }

    fn lets_in(&self, choice: &StackConfig) -> Option<&'static str> {
        (is_kernel(choice) || !choice.settings.flag("chap")).then_some(super::ANYBODY)
    }

    fn needs(&self, choice: &StackConfig) -> StackRequirements {
        if is_kernel(choice) {
            return StackRequirements::default();
        }
        node::needs(&any(), file_system::makers(&choice.settings))
    }

    fn server_needs(&self, choice: &StackConfig) -> StackRequirements {
        if is_kernel(choice) {
            return DISK.server_needs(choice);
        }
        node::server_needs(&any())
    }

    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError> {
        if is_kernel(order.choice) {
            return DISK.plan(order);
        }
        node::check(order)?;
        file_system::check(order)?;
        let (settings, dir) = (order.settings(), order.dir());
        let transport = ExportTransport::Iscsi(node::iscsi::IscsiExportOptions::of(settings)?);
        let nodes = node::all(order, &dir, &transport);
        let mut plan = Plan::default();
        node::begin(&mut plan, &nodes, &dir);
        let at = format!("{dir}/mnt");
        node::add_mount_of(&mut plan, settings, &nodes[0].device_file(), &at);
        let fs = settings.text("fs");
        let made = StackOutputs {
            mount_dir: at,
            file_system: fs.into(),
            description: format!(
                "{fs} on one iSCSI disk (image with direct I/O, tgtd, qemu-storage-daemon, \
                 nbdfuse, loop device)"
            ),
            servers: node::servers(&nodes),
            client_programs: node::client_programs(&nodes),
            proofs: match settings.flag("barrier") {
                true => vec![nodes[0].flushes()],
                false => Vec::new(),
            },
            ..StackOutputs::default()
        };
        Ok((plan, made))
    }

    fn client_needs(&self, choice: &StackConfig) -> Option<StackRequirements> {
        is_kernel(choice).then(|| DISK.client_needs())
    }

    fn has_one_client(&self, choice: &StackConfig) -> bool {
        is_kernel(choice)
    }

    fn client(
        &self,
        order: &StackPlanInput<'_>,
        place: ClientPlace<'_>,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        Ok(DISK.client(order, place))
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
