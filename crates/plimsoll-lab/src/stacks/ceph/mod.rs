// SPDX-License-Identifier: Apache-2.0
//! Ceph: one `BlueStore` daemon on each node, a file system or a block device over all of them.
//!
//! Manual: `ceph.md`. What the daemons are is in [`cluster`], how clients reach them in [`client`].

use plimsoll_core::plan::{NodeTransport, Plan, StackOutputs, StackSelfTest};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

use super::node::{self, chain, file_system};
use super::{
    PreconditionError, SPARE_BYTES, StackChange, StackConfig, StackFootprint, StackPlacement,
    StackPlanInput, StackRecipe, StackRequirements, not_given,
};
use cluster::CephCluster;
use plimsoll_machine::journal::JournalContents;

mod change;
mod client;
mod cluster;

/// Most nodes: far more than one machine carries.
const OSDS_MAX: u32 = 12;

/// Most placement groups: with three copies on three nodes a daemon takes no more than 250.
const PG_MAX: u32 = 64;

/// Smallest disk of a node: `BlueStore` takes about 0.3 GiB of it for itself.
const MIN_DISK_BYTES: u64 = 1 << 30;

/// Largest cache of a node that is still one of a laboratory.
const CACHE_MAX_BYTES: u64 = 64 << 30;

const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition {
        name: "access",
        unit: SettingUnit::Choice(&["fuse", "rbd"]),
        default: "fuse",
        help: "a CephFS mount by ceph-fuse; or a file system on an RBD image",
    },
    SettingDefinition {
        name: "replicas",
        unit: SettingUnit::Choice(&["3", "2"]),
        default: "3",
        help: "replicas of each object; writes continue while at most one is missing",
    },
    SettingDefinition {
        name: "osds",
        unit: SettingUnit::Count,
        default: "3",
        help: "nodes, each with one disk; from the number of replicas to 12",
    },
    SettingDefinition {
        name: "pg_num",
        unit: SettingUnit::Count,
        default: "32",
        help: "placement groups of the data, from 1 to 64",
    },
    SettingDefinition {
        name: "cache",
        unit: SettingUnit::Size(1),
        default: "128MiB",
        help: "cache of each node's daemon, from 16MiB",
    },
    SettingDefinition {
        name: "client_cache",
        unit: SettingUnit::Size(1),
        default: "200MiB",
        help: "access=fuse: size of the client's cache for reads and writes; 0: off",
    },
    file_system::FS,
];

/// The stack `ceph`.
#[derive(Debug)]
pub struct CephStack;

fn is_rbd(settings: &SettingValues) -> bool {
    settings.text("access") == "rbd"
}

impl StackRecipe for CephStack {
    fn name(&self) -> &'static str {
        "ceph"
    }

    fn about(&self) -> &'static str {
        "Ceph (one monitor, one manager, a BlueStore daemon on each of three nodes) as a file \
         system by FUSE, or as a block device"
    }

    fn settings(&self) -> &'static [SettingDefinition] {
        SETTINGS
    }

    fn shape(&self, choice: &StackConfig) -> Result<StackFootprint, PreconditionError> {
        Ok(StackFootprint {
            servers: osds(&choice.settings)?,
            ports: 1,
            place: StackPlacement::Namespaces,
        })
    }

    fn needs(&self, choice: &StackConfig) -> StackRequirements {
        let common = StackRequirements {
            programs: vec!["ceph", "ceph-authtool", "monmaptool", "rados"],
            root: true,
            ..StackRequirements::default()
        };
        if is_rbd(&choice.settings) {
            return common.and(chain::needs()).and(StackRequirements {
                programs: [&["rbd", "mount"], file_system::makers(&choice.settings)].concat(),
                qemu_modules: vec!["block-rbd.so"],
                ..StackRequirements::default()
            });
        }
        common.and(StackRequirements {
            programs: vec!["ceph-mds", "ceph-fuse", "umount", "setsid"],
            devices: vec![("/dev/fuse", "modprobe fuse")],
            ..StackRequirements::default()
        })
    }

    fn server_needs(&self, _: &StackConfig) -> StackRequirements {
        StackRequirements {
            programs: vec!["ceph-mon", "ceph-mgr", "ceph-osd", "setsid"],
            root: true,
            ..StackRequirements::default()
        }
    }

    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError> {
        match is_rbd(order.settings()) {
            true => not_given(order.settings(), &["client_cache"], "access=fuse")?,
            false => not_given(order.settings(), &["fs"], "access=rbd")?,
        }
        check(order)?;
        let (settings, dir) = (order.settings(), order.dir());
        let cluster = CephCluster::of(order, &dir);
        let mut plan = Plan::default();
        node::add_dir(&mut plan, &dir);
        cluster.add_to(&mut plan);
        if is_rbd(settings) {
            client::add_image(&mut plan, order, &cluster);
        } else {
            client::add_mounts(&mut plan, order, &cluster);
        }
        Ok((plan, made(order, &cluster)))
    }

    fn change(
        &self,
        verb: StackChange<'_>,
        order: &StackPlanInput<'_>,
        record: &JournalContents,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        let dir = order.dir();
        let cluster = CephCluster::of(order, &dir);
        let plan = change::plan(verb, order, &cluster, record)?;
        Ok((plan, made(order, &cluster)))
    }
}

fn made(order: &StackPlanInput<'_>, cluster: &CephCluster<'_>) -> StackOutputs {
    let settings = order.settings();
    let at = format!("{}/mnt", order.dir());
    let replicas = settings.text("replicas");
    let over = format!(
        "{replicas} copies over {} BlueStore daemons",
        cluster.nodes.len()
    );
    let (file_system, description) = if is_rbd(settings) {
        let fs = settings.text("fs");
        let chain = "librbd in qemu-storage-daemon, nbdfuse, loop device";
        (fs, format!("{fs} on a Ceph RBD image ({chain}), {over}"))
    } else {
        let what = format!("CephFS by ceph-fuse, {over}");
        (client::FILE_SYSTEM, what)
    };
    StackOutputs {
        mount_dir: at,
        file_system: file_system.into(),
        description,
        servers: cluster.servers(),
        proofs: proofs(order, cluster),
        ..StackOutputs::default()
    }
}

fn proofs(order: &StackPlanInput<'_>, cluster: &CephCluster<'_>) -> Vec<StackSelfTest> {
    let mut proofs = Vec::new();
    for osd in cluster.osds() {
        // All nodes are this machine, whose disk the data go to whichever of them has a copy.
        proofs.push(StackSelfTest::Flushes {
            node: osd.node.name.clone(),
            dir: osd.dir(),
        });
        proofs.push(StackSelfTest::Survives {
            node: osd.known_as(),
            lose: vec![(osd.node.name.clone(), osd.stop())],
            restore: vec![(osd.node.name.clone(), osd.restart())],
        });
    }
    if !is_rbd(order.settings()) {
        proofs.push(StackSelfTest::SecondClient {
            path: client::second_dir(order),
            synced: false,
        });
    }
    proofs
}

/// How many nodes there are.
fn osds(settings: &SettingValues) -> Result<u16, PreconditionError> {
    let unmet =
        |error: plimsoll_core::settings::SettingError| PreconditionError(vec![error.to_string()]);
    let copies = u32::try_from(settings.count("replicas")).unwrap_or(3);
    let count = settings.count_within("osds", copies, OSDS_MAX);
    settings.count_within("pg_num", 1, PG_MAX).map_err(unmet)?;
    settings
        .bytes_within("cache", 16 << 20, CACHE_MAX_BYTES)
        .map_err(unmet)?;
    Ok(u16::try_from(count.map_err(unmet)?).unwrap_or(3))
}

fn check(order: &StackPlanInput<'_>) -> Result<(), PreconditionError> {
    let dir = order.dir();
    let mut unmet = node::check_path(&dir).map_or_else(|unmet| unmet.0, |()| Vec::new());
    unmet.extend(node::check_sockets(&dir));
    let is_namespace = |reach: &NodeTransport| matches!(reach, NodeTransport::Namespace(_));
    // Keys are made in the stack's directory, which other machines do not see.
    if !order.site.servers.iter().all(|n| is_namespace(&n.reach)) {
        unmet.push("its nodes are namespaces of this machine: use --on netns".into());
    }
    if order.size_bytes < MIN_DISK_BYTES {
        unmet.push(format!(
            "a node of {} MiB is too small for BlueStore: --size 1GiB or more",
            order.size_bytes >> 20
        ));
    }
    unmet.extend(node::room(order, order.site.servers.len()));
    if is_rbd(order.settings())
        && let Err(small) = file_system::check(order)
    {
        unmet.extend(small.0);
    }
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(PreconditionError(unmet))
    }
}

/// Size of the image: three quarters of what fits, since the daemons stop taking data before their
/// disks are full.
fn image_bytes(order: &StackPlanInput<'_>) -> u64 {
    let disks = order.site.servers.len() as u64;
    let raw = order.size_bytes.saturating_sub(SPARE_BYTES / 2) * disks;
    let fits = raw / order.settings().count("replicas").max(1) / 4 * 3;
    fits >> 20 << 20
}

#[cfg(test)]
mod plan_tests;
