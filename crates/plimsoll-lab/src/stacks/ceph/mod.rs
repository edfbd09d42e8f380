// SPDX-License-Identifier: Apache-2.0
//! Ceph: one `BlueStore` daemon on each node, a file system or a block device over all of them.
//!
//! Manual: `ceph.md`. What the daemons are is in [`cluster`], how clients reach them in [`client`].

use plimsoll_core::plan::{Made, Plan, Proof, Reach};
use plimsoll_core::settings::{Setting, Settings, Unit};

use super::node::{self, chain, file_system};
use super::{Choice, Needs, Order, Place, SPARE_BYTES, Shape, Stack, Unmet, Verb, not_given};
use crate::journal::Record;
use cluster::Cluster;

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

const SETTINGS: &[Setting] = &[
    Setting {
        name: "access",
        unit: Unit::Choice(&["fuse", "rbd"]),
        default: "fuse",
        help: "a CephFS mount by ceph-fuse; or a file system on an RBD image",
    },
    Setting {
        name: "replicas",
        unit: Unit::Choice(&["3", "2"]),
        default: "3",
        help: "copies of everything; writes go on as long as one less is there",
    },
    Setting {
        name: "osds",
        unit: Unit::Count,
        default: "3",
        help: "nodes, each with one disk; from the number of copies to 12",
    },
    Setting {
        name: "pg_num",
        unit: Unit::Count,
        default: "32",
        help: "placement groups of the data, from 1 to 64",
    },
    Setting {
        name: "cache",
        unit: Unit::Size(1),
        default: "128MiB",
        help: "cache of each node's daemon, from 16MiB",
    },
    Setting {
        name: "client_cache",
        unit: Unit::Size(1),
        default: "200MiB",
        help: "access=fuse: data the client keeps, written or read; 0: none",
    },
    file_system::FS,
];

/// The stack `ceph`.
#[derive(Debug)]
pub struct Ceph;

fn is_rbd(settings: &Settings) -> bool {
    settings.text("access") == "rbd"
}

impl Stack for Ceph {
    fn name(&self) -> &'static str {
        "ceph"
    }

    fn about(&self) -> &'static str {
        "Ceph (one monitor, one manager, a BlueStore daemon on each of three nodes) as a file \
         system by FUSE, or as a block device"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn shape(&self, choice: &Choice) -> Result<Shape, Unmet> {
        Ok(Shape {
            servers: osds(&choice.settings)?,
            ports: 1,
            place: Place::Namespaces,
        })
    }

    fn needs(&self, choice: &Choice) -> Needs {
        let common = Needs {
            programs: vec!["ceph", "ceph-authtool", "monmaptool", "rados"],
            root: true,
            ..Needs::default()
        };
        if is_rbd(&choice.settings) {
            return common.and(chain::needs()).and(Needs {
                programs: vec!["rbd", "mount", file_system::maker(&choice.settings)],
                qemu_modules: vec!["block-rbd.so"],
                ..Needs::default()
            });
        }
        common.and(Needs {
            programs: vec!["ceph-mds", "ceph-fuse", "umount", "setsid"],
            devices: vec![("/dev/fuse", "modprobe fuse")],
            ..Needs::default()
        })
    }

    fn server_needs(&self, _: &Choice) -> Needs {
        Needs {
            programs: vec!["ceph-mon", "ceph-mgr", "ceph-osd", "setsid"],
            root: true,
            ..Needs::default()
        }
    }

    fn plan(&self, order: &Order<'_>) -> Result<(Plan, Made), Unmet> {
        match is_rbd(order.settings()) {
            true => not_given(order.settings(), &["client_cache"], "access=fuse")?,
            false => not_given(order.settings(), &["fs"], "access=rbd")?,
        }
        check(order)?;
        let (settings, dir) = (order.settings(), order.dir());
        let cluster = Cluster::of(order, &dir);
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
        verb: Verb<'_>,
        order: &Order<'_>,
        record: &Record,
    ) -> Result<(Plan, Made), Unmet> {
        let dir = order.dir();
        let cluster = Cluster::of(order, &dir);
        let plan = change::plan(verb, order, &cluster, record)?;
        Ok((plan, made(order, &cluster)))
    }
}

fn made(order: &Order<'_>, cluster: &Cluster<'_>) -> Made {
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
    Made {
        mount_dir: at,
        file_system: file_system.into(),
        description,
        servers: cluster.servers(),
        proofs: proofs(order, cluster),
        ..Made::default()
    }
}

fn proofs(order: &Order<'_>, cluster: &Cluster<'_>) -> Vec<Proof> {
    let mut proofs = Vec::new();
    for osd in cluster.osds() {
        // All nodes are this machine, whose disk the data go to whichever of them has a copy.
        proofs.push(Proof::Flushes {
            node: osd.node.name.clone(),
            dir: osd.dir(),
        });
        proofs.push(Proof::Survives {
            node: osd.known_as(),
            lose: vec![(osd.node.name.clone(), osd.stop())],
            restore: vec![(osd.node.name.clone(), osd.restart())],
        });
    }
    if !is_rbd(order.settings()) {
        proofs.push(Proof::SecondClient {
            path: client::second_dir(order),
            synced: false,
        });
    }
    proofs
}

/// How many nodes there are.
fn osds(settings: &Settings) -> Result<u16, Unmet> {
    let unmet = |error: plimsoll_core::settings::SettingError| Unmet(vec![error.to_string()]);
    let copies = u32::try_from(settings.count("replicas")).unwrap_or(3);
    let count = settings.count_within("osds", copies, OSDS_MAX);
    settings.count_within("pg_num", 1, PG_MAX).map_err(unmet)?;
    settings
        .bytes_within("cache", 16 << 20, CACHE_MAX_BYTES)
        .map_err(unmet)?;
    Ok(u16::try_from(count.map_err(unmet)?).unwrap_or(3))
}

fn check(order: &Order<'_>) -> Result<(), Unmet> {
    let dir = order.dir();
    let mut unmet = node::check_path(&dir).map_or_else(|unmet| unmet.0, |()| Vec::new());
    unmet.extend(node::check_sockets(&dir));
    let is_namespace = |reach: &Reach| matches!(reach, Reach::Namespace(_));
    // Keys are made in the stack's directory, which other machines do not see.
    if !order.site.servers.iter().all(|n| is_namespace(&n.reach)) {
        unmet.push("its nodes are namespaces of this machine: --on netns".into());
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
        Err(Unmet(unmet))
    }
}

/// Size of the image: three quarters of what fits, since the daemons stop taking data before their
/// disks are full.
fn image_bytes(order: &Order<'_>) -> u64 {
    let disks = order.site.servers.len() as u64;
    let raw = order.size_bytes.saturating_sub(SPARE_BYTES / 2) * disks;
    let fits = raw / order.settings().count("replicas").max(1) / 4 * 3;
    fits >> 20 << 20
}

#[cfg(test)]
mod plan_tests;
