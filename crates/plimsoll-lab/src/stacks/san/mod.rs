// SPDX-License-Identifier: Apache-2.0
//! The poor man's SAN: an array of the kernel over iSCSI disks of several nodes, moved from node to
//! node by a cluster manager, exported as one iSCSI disk at an address of its own.
//!
//! What a node does is in the scripts of `node/`; what the cluster is told is in [`config`]; the steps
//! are in [`cluster`]. Manual: `san.md`.

use plimsoll_core::plan::{Plan, PlanAction, PlanCommand, StackOutputs, StackSelfTest};
use plimsoll_core::settings::{SettingDefinition, SettingUnit};

use super::nfs::kernel;
use super::node::{self, chain, file_system};
use super::{
    ClientPlace, PreconditionError, StackChange, StackConfig, StackFootprint, StackPlacement,
    StackPlanInput, StackRecipe, StackRequirements, not_given,
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
        help: "a copy on every node; or parity over three nodes and more, its write hole closed by a log",
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
        help: "one node more that has no disk and a vote, so that of two nodes the right one goes on at \
               once",
    },
    SettingDefinition {
        name: "service",
        unit: SettingUnit::Text,
        default: "",
        help: "the address of the exported disk, 192.168.1.50/24; on virtual machines one is chosen",
    },
    SettingDefinition {
        name: "token",
        unit: SettingUnit::Time,
        default: "3s",
        help: "silence after which a node counts as lost, 1s to 60s; agreeing on that takes 1.2 times as \
               long again",
    },
    SettingDefinition {
        name: "hold",
        unit: SettingUnit::Flag,
        default: "on",
        help: "what is written waits for a lost leg until it is safe to go on without it; off: it does \
               not, as hand-made arrays do, and acknowledged writes can be lost: a control of tests",
    },
    SettingDefinition {
        name: "prefer",
        unit: SettingUnit::Choice(&["active", "any"]),
        default: "active",
        help: "which of two nodes that lost each other goes on: the one that runs the array, which cuts \
               the other's power 3 s sooner; or any, by chance",
    },
    SettingDefinition {
        name: "export",
        unit: SettingUnit::Choice(&["iscsi", "nfs"]),
        default: "iscsi",
        help: "how the array is exported: as a disk, whose file system the client makes; or a file system \
               on it, by the NFS server of the kernel",
    },
    file_system::FS,
    SettingDefinition {
        name: "fail_after",
        unit: SettingUnit::Time,
        default: "5min",
        help: "time without the target after which the iSCSI client here fails instead of waiting, from \
               1s to 1h: longer than any outage",
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
        Ok(StackFootprint {
            servers: with_disks + u16::from(choice.settings.flag("witness")),
            ports: 0,
            place: StackPlacement::Here,
        })
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
            programs: vec!["mount", file_system::maker(&choice.settings)],
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
