// SPDX-License-Identifier: Apache-2.0
//! GlusterFS: one brick on each node, spread, mirrored or coded over them, mounted by FUSE.
//!
//! Manual: `gluster.md`. The layer `tenant` is built in here: what it means for the volumes is in
//! [`tenants`], what a node is in [`cluster`], what a mount is in [`client`].

use plimsoll_core::plan::{Action, HERE, Made, Plan, Proof};
use plimsoll_core::settings::{Setting, Unit};

use super::{Choice, ClientPlace, Needs, Order, Place, Rung, Shape, Stack, Unmet, Verb, node};
use crate::host::Hosts;
use crate::journal::Record;
use client::Mount;
use cluster::Cluster;
use tenants::Tenancy;

mod change;
mod client;
mod cluster;
mod health;
mod tenants;

/// Most nodes: far more than one machine carries.
const NODES_MAX: u32 = 12;

/// Bricks of one mirrored or coded set: three copies, or two parts of data and one of parity.
const SET: u32 = 3;

/// Files that each daemon may have open: with the limit of 64 none of them comes up.
const OPEN_FILES: u64 = 1024;

const SETTINGS: &[Setting] = &[
    Setting {
        name: "volume",
        unit: Unit::Choice(&["replicate", "distribute", "disperse"]),
        default: "replicate",
        help: "three copies; each file on one brick; or two parts of data and one of parity",
    },
    Setting {
        name: "nodes",
        unit: Unit::Count,
        default: "3",
        help: "servers, each with one brick; sets of three unless distributed",
    },
    Setting {
        name: "ping_timeout",
        unit: Unit::Count,
        default: "10",
        help: "seconds without an answer after which a server counts as gone; Gluster's own: 42",
    },
    Setting {
        name: "direct",
        unit: Unit::Flag,
        default: "on",
        help: "direct I/O of the client bypasses its caches and the servers' page cache",
    },
    Setting {
        name: "write_behind",
        unit: Unit::Flag,
        default: "on",
        help: "the client acknowledges buffered writes before the servers have them",
    },
    Setting {
        name: "write_behind_window",
        unit: Unit::Size(1),
        default: "1MiB",
        help: "bytes of a file that may wait so",
    },
    Setting {
        name: "flush_behind",
        unit: Unit::Flag,
        default: "off",
        help: "closing a file does not wait for them; Gluster's own: on",
    },
    Setting {
        name: "io_cache",
        unit: Unit::Flag,
        default: "off",
        help: "the client caches what it read",
    },
    Setting {
        name: "cache_size",
        unit: Unit::Size(1),
        default: "32MiB",
        help: "size of that cache",
    },
    Setting {
        name: "read_ahead",
        unit: Unit::Flag,
        default: "off",
        help: "the client reads ahead of sequential readers",
    },
    Setting {
        name: "quick_read",
        unit: Unit::Flag,
        default: "on",
        help: "small files come with their lookup",
    },
    Setting {
        name: "stat_prefetch",
        unit: Unit::Flag,
        default: "on",
        help: "the client caches attributes for a second",
    },
    Setting {
        name: "io_threads",
        unit: Unit::Count,
        default: "16",
        help: "most threads of a brick that do I/O",
    },
    Setting {
        name: "event_threads",
        unit: Unit::Count,
        default: "2",
        help: "threads of the client and of each brick that serve the network",
    },
];

/// The stack `gluster`.
#[derive(Debug)]
pub struct Gluster;

impl Stack for Gluster {
    fn name(&self) -> &'static str {
        "gluster"
    }

    fn about(&self) -> &'static str {
        "a GlusterFS volume (replicated, distributed or dispersed) over bricks on servers of their \
         own, mounted by FUSE"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn shape(&self, choice: &Choice) -> Result<Shape, Unmet> {
        let servers = nodes(choice)? + u16::from(Tenancy::of(choice).is_some());
        Ok(Shape {
            servers,
            ports: 1,
            place: Place::Namespaces,
        })
    }

    fn lets_in(&self, choice: &Choice) -> Option<&'static str> {
        (!Tenancy::of(choice).is_some_and(|tenancy| tenancy.tls)).then_some(super::ANYBODY)
    }

    fn needs(&self, _: &Choice) -> Needs {
        Needs {
            programs: vec!["glusterfs", "grep", "umount", "setsid"],
            devices: vec![("/dev/fuse", "modprobe fuse")],
            open_files: OPEN_FILES,
            root: true,
            ..Needs::default()
        }
    }

    fn server_needs(&self, choice: &Choice) -> Needs {
        let needs = Needs {
            programs: vec!["glusterd", "gluster", "bwrap", "grep", "setsid"],
            open_files: OPEN_FILES,
            root: true,
            ..Needs::default()
        };
        // The other tenant, which tries to mount what is not its own.
        match Tenancy::of(choice) {
            Some(_) => needs.and(Needs {
                programs: vec!["ls", "cat", "mkdir"],
                ..self.needs(choice)
            }),
            None => needs,
        }
    }

    fn plan(&self, order: &Order<'_>) -> Result<(Plan, Made), Unmet> {
        let cluster = Cluster::of(order)?;
        let tenancy = Tenancy::of(order.choice);
        check(order, &cluster)?;
        let mut plan = Plan::default();
        node::add_dir(&mut plan, &order.dir());
        if let Some(tenancy) = &tenancy {
            tenancy.add_certificates(&mut plan, order);
        }
        cluster.add_to(&mut plan);
        let volumes = tenancy.as_ref().map_or(vec!["data"], Tenancy::volumes);
        for volume in &volumes {
            cluster.add_volume(&mut plan, volume, tenancy.as_ref());
        }
        if let Some(tenancy) = &tenancy {
            tenancy.add_directories(&mut plan, order, &cluster);
        }
        let mut made = Made {
            file_system: client::FILE_SYSTEM.into(),
            description: self.about().into(),
            servers: cluster.servers(),
            proofs: proofs(order, &cluster, &volumes),
            ..Made::default()
        };
        add_mounts(&mut plan, &mut made, order, &cluster, tenancy.as_ref());
        Ok((plan, made))
    }

    fn change(
        &self,
        verb: Verb<'_>,
        order: &Order<'_>,
        record: &Record,
    ) -> Result<(Plan, Made), Unmet> {
        let cluster = Cluster::of(order)?;
        let plan = change::plan(verb, order, &cluster, record)?;
        // What it is made of afterwards is what it would be made of now.
        let (_, made) = self.plan(order)?;
        Ok((plan, made))
    }

    fn lacks(&self, order: &Order<'_>, _: &Record, hosts: &mut dyn Hosts) -> Vec<String> {
        let volumes = Tenancy::of(order.choice).map_or(vec!["data"], |tenancy| tenancy.volumes());
        match Cluster::of(order) {
            Ok(cluster) => health::lacks(order, &cluster, &volumes, hosts),
            Err(unmet) => unmet.0,
        }
    }

    fn client_needs(&self, choice: &Choice) -> Option<Needs> {
        Some(self.needs(choice))
    }

    fn client(&self, order: &Order<'_>, place: ClientPlace<'_>) -> Result<(Plan, Made), Unmet> {
        let cluster = Cluster::of(order)?;
        let mount = Mount::new(order, &cluster, place.node, "mnt", "data").below(place.dir);
        let mut plan = Plan::default();
        mount.add_to(&mut plan, "mount the volume");
        let made = Made {
            file_system: client::FILE_SYSTEM.into(),
            mount_dir: mount.dir,
            ..Made::default()
        };
        Ok((plan, made))
    }

    /// A set at a time.
    fn growth(&self, choice: &Choice) -> u16 {
        match choice.settings.text("volume") {
            "distribute" => 1,
            _ => 3,
        }
    }

    fn rungs(&self, choice: &Choice) -> Vec<Rung> {
        // Everything that was set apart from the shape stays as it is.
        let with = |volume: &str, nodes: &str| {
            let mut part = choice.parts.base.clone();
            part.given
                .retain(|(name, _)| name != "volume" && name != "nodes");
            part.given.push(("volume".into(), volume.into()));
            part.given.push(("nodes".into(), nodes.into()));
            part.to_string()
        };
        let mut rungs = vec![
            Rung::new("disk", "local"),
            Rung::new("export", with("distribute", "1")),
        ];
        let count = choice.settings.text("nodes");
        let is_distributed = choice.settings.text("volume") == "distribute";
        if !is_distributed {
            rungs.push(Rung::new("transport", with("distribute", count)));
            rungs.push(Rung::new("redundancy", choice.parts.base.to_string()));
        } else if count != "1" {
            rungs.push(Rung::new("transport", choice.parts.base.to_string()));
        }
        rungs
    }
}

/// How many servers there are.
fn nodes(choice: &Choice) -> Result<u16, Unmet> {
    let unmet = |reason: String| Unmet(vec![reason]);
    let settings = &choice.settings;
    let count = settings
        .count_within("nodes", 1, NODES_MAX)
        .map_err(|error| unmet(error.to_string()))?;
    let volume = settings.text("volume");
    if volume != "distribute" && !count.is_multiple_of(SET) {
        return Err(unmet(format!(
            "a {volume}d volume is made of sets of {SET} servers, and nodes={count} is not a \
             multiple of it"
        )));
    }
    Ok(u16::try_from(count).unwrap_or(1))
}

fn check(order: &Order<'_>, cluster: &Cluster<'_>) -> Result<(), Unmet> {
    let mut unmet = Vec::new();
    // A management daemon knows the others by their addresses alone: the port is always the same.
    if cluster.nodes.iter().any(|node| !node.has_network()) {
        unmet.push("every server needs an address of its own: --on netns gives it one".into());
    }
    for node in &cluster.nodes {
        let dir = &node.dir;
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
        if !dir.chars().all(is_safe) {
            unmet.push(format!(
                "the path {dir} stands in lists of options, so it may have only letters, digits \
                 and / . _ - + @; choose another base directory"
            ));
        }
        if order.settings().flag("direct") && node.direct_align_bytes == 0 {
            unmet.push(format!(
                "direct I/O does not work in {dir}; choose another base directory, or direct=off"
            ));
        }
    }
    unmet.dedup();
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(Unmet(unmet))
    }
}

/// The mount that is measured, one for a second client, and what is put over the first.
fn add_mounts(
    plan: &mut Plan,
    made: &mut Made,
    order: &Order<'_>,
    cluster: &Cluster<'_>,
    tenancy: Option<&Tenancy>,
) {
    let mount = |name: &'static str| match tenancy {
        Some(tenancy) => tenancy.mount(order, cluster, name, tenants::OURS),
        None => Mount::new(order, cluster, &order.site.client, name, "data"),
    };
    let first = mount("mnt");
    first.add_to(plan, "mount the volume");
    let second = mount("second").without_caches();
    second.add_to(plan, "mount it for a second client");
    made.mount_dir.clone_from(&first.dir);
    made.proofs.push(Proof::SecondClient {
        path: second.dir.clone(),
        synced: false,
    });
    if let Some(tenancy) = tenancy {
        tenancy.finish(plan, made, order, cluster);
    }
}

fn proofs(order: &Order<'_>, cluster: &Cluster<'_>, volumes: &[&str]) -> Vec<Proof> {
    let mut proofs = Vec::new();
    let mount = format!("{}/mnt", order.dir());
    let is_distributed = order.settings().text("volume") == "distribute";
    let is_one_disk = cluster
        .nodes
        .iter()
        .all(|node| node.reach.is_this_machine());
    for node in &cluster.nodes {
        // A file of a distributed volume lies on one brick: on several disks nobody knows which.
        if !is_distributed || is_one_disk {
            proofs.push(Proof::Flushes {
                node: node.name.clone(),
                dir: cluster.bricks(node),
            });
        }
        if !is_distributed {
            proofs.push(Proof::Survives {
                node: node.name.clone(),
                lose: vec![(node.name.clone(), cluster.stop(node))],
                restore: vec![(node.name.clone(), cluster.restart(node, volumes[0], &mount))],
            });
        }
    }
    proofs
}

/// Something that is only waited for, or done to its end.
fn run(plan: &mut Plan, why: &str, cmd: plimsoll_core::plan::Cmd) {
    plan.step_on(HERE, why, Action::Run(cmd), None);
}

#[cfg(test)]
mod plan_tests;
