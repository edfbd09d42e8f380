// SPDX-License-Identifier: Apache-2.0
//! The poor man's SAN: an array of the kernel over iSCSI disks of several nodes, moved from node to
//! node by a cluster manager, exported as one iSCSI disk at an address of its own.
//!
//! What a node does is in the scripts of `node/`; what the cluster is told is in [`config`]; the steps
//! are in [`cluster`]. Manual: `san.md`.

use plimsoll_core::plan::{Action, Cmd, Made, Plan, Proof};
use plimsoll_core::settings::{Setting, Unit};

use super::nfs::kernel;
use super::node::{self, chain, file_system};
use super::{Choice, ClientPlace, Needs, Order, Place, Shape, Stack, Unmet, Verb, not_given};
use crate::journal::Record;
use cluster::Cluster;

mod change;
mod cluster;
mod config;

const SETTINGS: &[Setting] = &[
    Setting {
        name: "raid",
        unit: Unit::Choice(&["1", "5"]),
        default: "1",
        help: "a copy on every node; or parity over three nodes and more, its write hole closed by a log",
    },
    Setting {
        name: "nodes",
        unit: Unit::Count,
        default: "0",
        help: "nodes with a disk: 2 to 4 for RAID 1, 3 to 8 for RAID 5; 0: 2 or 3",
    },
    Setting {
        name: "witness",
        unit: Unit::Flag,
        default: "off",
        help: "one node more that has no disk and a vote, so that of two nodes the right one goes on at \
               once",
    },
    Setting {
        name: "service",
        unit: Unit::Text,
        default: "",
        help: "the address of the exported disk, 192.168.1.50/24; on virtual machines one is chosen",
    },
    Setting {
        name: "token",
        unit: Unit::Time,
        default: "3s",
        help: "silence after which a node counts as lost, 1s to 60s; agreeing on that takes 1.2 times as \
               long again",
    },
    Setting {
        name: "hold",
        unit: Unit::Flag,
        default: "on",
        help: "what is written waits for a lost leg until it is safe to go on without it; off: it does \
               not, as hand-made arrays do, and acknowledged writes can be lost: a control of tests",
    },
    Setting {
        name: "prefer",
        unit: Unit::Choice(&["active", "any"]),
        default: "active",
        help: "which of two nodes that lost each other goes on: the one that runs the array, which cuts \
               the other's power 3 s sooner; or any, by chance",
    },
    Setting {
        name: "export",
        unit: Unit::Choice(&["iscsi", "nfs"]),
        default: "iscsi",
        help: "how the array is exported: as a disk, whose file system the client makes; or a file system \
               on it, by the NFS server of the kernel",
    },
    file_system::FS,
    Setting {
        name: "fail_after",
        unit: Unit::Time,
        default: "5min",
        help: "time without the target after which the iSCSI client here fails instead of waiting, from \
               1s to 1h: longer than any outage",
    },
];

/// The stack `san`.
#[derive(Debug)]
pub struct San;

impl Stack for San {
    fn name(&self) -> &'static str {
        "san"
    }

    fn about(&self) -> &'static str {
        "the poor man's SAN: RAID 1 or 5 of the kernel over iSCSI disks of several nodes, moved between \
         them by pacemaker, exported by iSCSI (LIO) or NFS"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn shape(&self, choice: &Choice) -> Result<Shape, Unmet> {
        let with_disks = config::nodes(&choice.settings)?;
        config::token_ms(&choice.settings)?;
        Ok(Shape {
            servers: with_disks + u16::from(choice.settings.flag("witness")),
            ports: 0,
            place: Place::Here,
        })
    }

    fn lets_in(&self, _: &Choice) -> Option<&'static str> {
        Some(super::ANYBODY)
    }

    fn needs_machines(&self, _: &Choice) -> bool {
        true
    }

    fn needs(&self, choice: &Choice) -> Needs {
        if config::exports_files(&choice.settings) {
            return Needs::default();
        }
        chain::needs().and(Needs {
            programs: vec!["mount", file_system::maker(&choice.settings)],
            qemu_modules: vec!["block-iscsi.so"],
            ..Needs::default()
        })
    }

    fn server_needs(&self, choice: &Choice) -> Needs {
        let of_export = match config::exports_files(&choice.settings) {
            true => kernel::needs().and(Needs {
                programs: vec!["nsenter", "mount", file_system::maker(&choice.settings)],
                ..Needs::default()
            }),
            false => Needs::default(),
        };
        of_export.and(Needs {
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
            ..Needs::default()
        })
    }

    fn plan(&self, order: &Order<'_>) -> Result<(Plan, Made), Unmet> {
        if config::exports_files(order.settings()) {
            not_given(order.settings(), &["fail_after"], "export=iscsi")?;
        }
        let cluster = Cluster::of(order)?;
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
        let made = Made {
            mount_dir,
            address,
            file_system: order.settings().text("fs").into(),
            description: cluster.description(),
            servers: cluster.servers(),
            proofs: proofs(&cluster),
            fences: true,
            ..Made::default()
        };
        Ok((plan, made))
    }

    fn client_needs(&self, choice: &Choice) -> Option<Needs> {
        config::exports_files(&choice.settings).then(Needs::default)
    }

    fn client(&self, order: &Order<'_>, _: ClientPlace<'_>) -> Result<(Plan, Made), Unmet> {
        let address = Cluster::of(order)?.export();
        Ok((
            Plan::default(),
            Made {
                address,
                ..Made::default()
            },
        ))
    }

    fn change(
        &self,
        verb: Verb<'_>,
        order: &Order<'_>,
        record: &Record,
    ) -> Result<(Plan, Made), Unmet> {
        let cluster = Cluster::of(order)?;
        let plan = change::plan(verb, &cluster, record)?;
        let made = record.made.clone();
        let made = made.ok_or_else(|| Unmet(vec!["its journal does not say what it is".into()]))?;
        Ok((plan, made))
    }
}

fn proofs(cluster: &Cluster<'_>) -> Vec<Proof> {
    let mut proofs = Vec::new();
    for node in cluster.with_disks() {
        proofs.push(Proof::Flushes {
            node: node.name.clone(),
            dir: cluster.dir(node),
        });
        let on = |action: Action| (node.name.clone(), action);
        let mut restore: Vec<(String, Action)> = cluster.daemons(node).map(on).into();
        let whole: Cmd = cluster
            .script(node, &["whole"])
            .within_s(cluster::REBUILD_LIMIT_S);
        restore.push(on(Action::Await(whole)));
        proofs.push(Proof::Survives {
            node: node.name.clone(),
            lose: cluster.leaving(node).map(on).into(),
            restore,
        });
    }
    proofs
}

#[cfg(test)]
mod plan_tests;
