// SPDX-License-Identifier: Apache-2.0
//! The poor man's SAN: an array of the kernel over iSCSI disks of several nodes, moved from node to
//! node by a cluster manager, exported as one iSCSI disk at an address of its own.
//!
//! The work of a node is in the scripts of `node/`; the configuration of the cluster is in
//! [`config`]; the steps are in [`cluster`]. Manual: `san.md`.

use plimsoll_core::plan::{Plan, PlanAction, PlanCommand, StackOutputs, StackSelfTest};
use plimsoll_core::settings::{SettingDefinition, SettingUnit};

use super::nfs::kernel;
use super::node::{self, chain, file_system};
use super::{
    ClientPlace, PreconditionError, StackChange, StackConfig, StackFootprint, StackPlanInput,
    StackRecipe, StackRequirements, not_given,
};
use cluster::SanCluster;
use plimsoll_machine::journal::JournalContents;

mod change;
mod cluster;
mod config;

const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition {
        name: "raid",
        unit: SettingUnit::Choice(&["1", "5"]),
        default: "1",
        help: "1: a copy on every node; 5: parity over three nodes or more, with a log against the write \
               hole",
    },
    SettingDefinition {
        name: "nodes",
        unit: SettingUnit::Count,
        default: "0",
        help: "nodes with a disk: 2 to 4 for RAID 1, 3 to 8 for RAID 5; 0: 2 or 3",
    },
    SettingDefinition {
        name: "witness",
        unit: SettingUnit::Flag,
        default: "off",
        help: "a quorum witness: one more node with a vote and no disk, so that one of two nodes \
               continues at once",
    },
    SettingDefinition {
        name: "service",
        unit: SettingUnit::Text,
        default: "",
        help: "service address of the exported disk, as in 192.168.1.50/24; on virtual machines chosen if not set",
    },
    SettingDefinition {
        name: "token",
        unit: SettingUnit::Time,
        default: "3s",
        help: "token timeout, after which a node counts as lost, 1s to 60s; consensus takes another 1.2 \
               times as long",
    },
    SettingDefinition {
        name: "hold",
        unit: SettingUnit::Flag,
        default: "on",
        help: "writes wait for a lost leg until it is safe to continue without it; off: they do not, as \
               in hand-made arrays, and acknowledged writes can be lost; a negative control for tests",
    },
    SettingDefinition {
        name: "prefer",
        unit: SettingUnit::Choice(&["active", "any"]),
        default: "active",
        help: "which of two nodes survives when they lose contact: the active one, because it fences 3 s \
               sooner; or any, by chance",
    },
    SettingDefinition {
        name: "export",
        unit: SettingUnit::Choice(&["iscsi", "nfs"]),
        default: "iscsi",
        help: "iscsi: the array is exported as a disk, and the client makes the file system; nfs: the \
               kernel's NFS server exports a file system on the array",
    },
    file_system::FS,
    SettingDefinition {
        name: "fail_after",
        unit: SettingUnit::Time,
        default: "5min",
        help: "replacement timeout of the iSCSI initiator here, after which I/O fails instead of waiting, \
               1s to 1h: choose more than any outage",
    },
];

/// The stack `san`.
#[derive(Debug)]
pub struct SanStack;

impl StackRecipe for SanStack {
    fn name(&self) -> &'static str {
        "san"
    }

    fn about(&self) -> &'static str {
        "the poor man's SAN: RAID 1 or 5 of the kernel over iSCSI disks of several nodes, moved between \
         them by pacemaker, exported by iSCSI (LIO) or NFS"
    }

    fn settings(&self) -> &'static [SettingDefinition] {
        SETTINGS
    }

    fn shape(&self, choice: &StackConfig) -> Result<StackFootprint, PreconditionError> {
        let with_disks = config::nodes(&choice.settings)?;
        config::token_ms(&choice.settings)?;
        Ok(StackFootprint::here(
            with_disks + u16::from(choice.settings.flag("witness")),
            0,
        ))
    }

    fn lets_in(&self, _: &StackConfig) -> Option<&'static str> {
        Some(super::ANYBODY)
    }

    fn needs_machines(&self, _: &StackConfig) -> bool {
        true
    }

    fn needs(&self, choice: &StackConfig) -> StackRequirements {
        if config::exports_files(&choice.settings) {
            return StackRequirements::default();
        }
        chain::needs().and(StackRequirements {
            programs: [&["mount"], file_system::makers(&choice.settings)].concat(),
            qemu_modules: vec!["block-iscsi.so"],
            ..StackRequirements::default()
        })
    }

    fn server_needs(&self, choice: &StackConfig) -> StackRequirements {
        let of_export = match config::exports_files(&choice.settings) {
            true => kernel::needs().and(StackRequirements {
                programs: vec!["nsenter", "mount", file_system::maker(&choice.settings)],
                ..StackRequirements::default()
            }),
            false => StackRequirements::default(),
        };
        of_export.and(StackRequirements {
            programs: vec![
                "sh",
                "unshare",
                "fallocate",
                "losetup",
                "mdadm",
                "iscsiadm",
                "iscsid",
                "ip",
                "arping",
                "corosync",
                "pacemakerd",
                "cibadmin",
                "crm_attribute",
                "crm_mon",
                "crm_resource",
                "setsid",
                "perl",
            ],
            root: true,
            ..StackRequirements::default()
        })
    }

    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError> {
        if config::exports_files(order.settings()) {
            not_given(order.settings(), &["fail_after"], "export=iscsi")?;
        }
        let cluster = SanCluster::of(order)?;
        file_system::check(order)?;
        let dir = order.dir();
        let mut plan = Plan::default();
        node::add_dir(&mut plan, &dir);
        cluster.add_to(&mut plan);
        let address = cluster.export();
        let mount_dir = match address {
            Some(_) => String::new(),
            None => cluster.add_client(&mut plan)?,
        };
        let made = StackOutputs {
            mount_dir,
            address,
            file_system: order.settings().text("fs").into(),
            description: cluster.description(),
            servers: cluster.servers(),
            proofs: proofs(&cluster),
            fences: true,
            ..StackOutputs::default()
        };
        Ok((plan, made))
    }

    fn client_needs(&self, choice: &StackConfig) -> Option<StackRequirements> {
        config::exports_files(&choice.settings).then(StackRequirements::default)
    }

    fn client(
        &self,
        order: &StackPlanInput<'_>,
        _: ClientPlace<'_>,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        let address = SanCluster::of(order)?.export();
        Ok((
            Plan::default(),
            StackOutputs {
                address,
                ..StackOutputs::default()
            },
        ))
    }

    fn change(
        &self,
        verb: StackChange<'_>,
        order: &StackPlanInput<'_>,
        record: &JournalContents,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        let cluster = SanCluster::of(order)?;
        let plan = change::plan(verb, &cluster, record)?;
        let made = record.made.clone();
        let made = made
            .ok_or_else(|| PreconditionError(vec!["its journal does not say what it is".into()]))?;
        Ok((plan, made))
    }
}

fn proofs(cluster: &SanCluster<'_>) -> Vec<StackSelfTest> {
    let mut proofs = Vec::new();
    for node in cluster.with_disks() {
        proofs.push(StackSelfTest::Flushes {
            node: node.name.clone(),
            dir: cluster.dir(node),
        });
        let on = |action: PlanAction| (node.name.clone(), action);
        let mut restore: Vec<(String, PlanAction)> = cluster.daemons(node).map(on).into();
        let whole: PlanCommand = cluster
            .script(node, &["whole"])
            .within_s(cluster::REBUILD_LIMIT_S);
        restore.push(on(PlanAction::Await(whole)));
        proofs.push(StackSelfTest::Survives {
            node: node.name.clone(),
            lose: cluster.leaving(node).map(on).into(),
            restore,
        });
    }
    proofs
}

#[cfg(test)]
mod plan_tests;
