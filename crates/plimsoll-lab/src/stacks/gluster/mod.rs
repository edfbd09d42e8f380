// SPDX-License-Identifier: Apache-2.0
//! GlusterFS: one brick on each node, spread, mirrored or coded over them, mounted by FUSE.
//!
//! Manual: `gluster.md`. The layer `tenant` is built in here: what it means for the volumes is in
//! [`tenants`], what a node is in [`cluster`], what a mount is in [`client`].

use plimsoll_core::plan::{HERE, NodeTransport, Plan, PlanAction, StackOutputs, StackSelfTest};
use plimsoll_core::settings::{
    SettingDefinition, SettingLevels, SettingUnit, level, levels, risky,
};

use super::{
    ClientPlace, PreconditionError, StackChange, StackConfig, StackFootprint, StackLadderRung,
    StackPlacement, StackPlanInput, StackRecipe, StackRequirements, node,
};
use client::GlusterMount;
use cluster::GlusterCluster;
use plimsoll_machine::host::HostResolver;
use plimsoll_machine::journal::JournalContents;
use tenants::GlusterTenancy;

mod certificates;
mod change;
mod client;
mod cluster;
mod health;
mod tenants;

/// Most nodes: far more than one machine carries.
const NODES_MAX: u32 = 12;

/// Bricks of one mirrored or coded set: three copies, or two parts of data and one of parity.
const SET: u32 = 3;

/// The volume of who is alone.
const VOLUME: &str = "data";

/// Access that the management daemons give, which know no certificates.
const MANAGEMENT: &str = "anyone who reaches port 24007 of its servers can read the names and settings of its \
     volumes: use a network that only the lab is in";

/// Files that each daemon may have open: with the limit of 64 none of them comes up.
const OPEN_FILES: u64 = 1024;

const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition {
        name: "volume",
        unit: SettingUnit::Choice(&["replicate", "distribute", "disperse"]),
        default: "replicate",
        help: "three replicas; each file on one brick; or two data fragments and one of parity",
    },
    SettingDefinition {
        name: "nodes",
        unit: SettingUnit::Count,
        default: "3",
        help: "servers, each with one brick; sets of three unless distributed",
    },
    SettingDefinition {
        name: "tls",
        unit: SettingUnit::Flag,
        default: "on",
        help: "clients and servers show certificates of the stack's own authority; off: every user of every \
               machine that reaches the ports can read and write the volume",
    },
    SettingDefinition {
        name: "ping_timeout",
        unit: SettingUnit::Count,
        default: "10",
        help: "seconds without an answer after which a server counts as failed; Gluster's default: 42",
    },
    SettingDefinition {
        name: "direct",
        unit: SettingUnit::Flag,
        default: "on",
        help: "direct I/O of the client bypasses its caches and the servers' page cache",
    },
    SettingDefinition {
        name: "write_behind",
        unit: SettingUnit::Flag,
        default: "on",
        help: "the client acknowledges buffered writes before the servers have them",
    },
    SettingDefinition {
        name: "write_behind_window",
        unit: SettingUnit::Size(1),
        default: "1MiB",
        help: "size of the write-behind buffer, per file",
    },
    SettingDefinition {
        name: "flush_behind",
        unit: SettingUnit::Flag,
        default: "off",
        help: "close does not wait for buffered writes; Gluster's default: on",
    },
    SettingDefinition {
        name: "io_cache",
        unit: SettingUnit::Flag,
        default: "off",
        help: "the client caches what it read",
    },
    SettingDefinition {
        name: "cache_size",
        unit: SettingUnit::Size(1),
        default: "32MiB",
        help: "size of that cache",
    },
    SettingDefinition {
        name: "read_ahead",
        unit: SettingUnit::Flag,
        default: "off",
        help: "the client reads ahead of sequential readers",
    },
    SettingDefinition {
        name: "quick_read",
        unit: SettingUnit::Flag,
        default: "on",
        help: "small files are returned with the lookup",
    },
    SettingDefinition {
        name: "stat_prefetch",
        unit: SettingUnit::Flag,
        default: "on",
        help: "the client caches attributes for a second",
    },
    SettingDefinition {
        name: "io_threads",
        unit: SettingUnit::Count,
        default: "16",
        help: "maximum number of I/O threads of a brick",
    },
    SettingDefinition {
        name: "event_threads",
        unit: SettingUnit::Count,
        default: "2",
        help: "network threads of the client and of each brick",
    },
    SettingDefinition {
        name: "link_rate",
        unit: SettingUnit::Size(1),
        default: "0",
        help: "--on netns: bytes per second that the link of each server carries in each direction; 0: \
               unlimited",
    },
];

const LEVELS: &[SettingLevels] = &[
    levels("direct", &[level("off"), level("on")]),
    levels("write_behind", &[level("off"), level("on")]),
    levels("write_behind_window", &[level("16MiB"), level("1MiB")]),
    levels(
        "flush_behind",
        &[
            risky(
                "on",
                "what was written to files that were closed without fsync, when the client dies",
            ),
            level("off"),
        ],
    ),
    levels("io_cache", &[level("on"), level("off")]),
    levels("cache_size", &[level("128MiB"), level("32MiB")]),
    levels("read_ahead", &[level("on"), level("off")]),
    levels("quick_read", &[level("off"), level("on")]),
    levels("stat_prefetch", &[level("off"), level("on")]),
    levels("io_threads", &[level("64"), level("4"), level("16")]),
    levels("event_threads", &[level("4"), level("1"), level("2")]),
    // A limit is there to be planted: without it a server is as fast as it can be.
    levels("link_rate", &[level("0")]),
];

/// Lowest rate of a link: below it connections time out rather than wait.
const LINK_RATE_MIN: u64 = 100_000;

/// The stack `gluster`.
#[derive(Debug)]
pub struct GlusterStack;

impl StackRecipe for GlusterStack {
    fn name(&self) -> &'static str {
        "gluster"
    }

    fn about(&self) -> &'static str {
        "a GlusterFS volume (replicated, distributed or dispersed) over bricks on servers of their \
         own, mounted by FUSE"
    }

    fn settings(&self) -> &'static [SettingDefinition] {
        SETTINGS
    }

    fn levels(&self) -> &'static [SettingLevels] {
        LEVELS
    }

    fn shape(&self, choice: &StackConfig) -> Result<StackFootprint, PreconditionError> {
        let rate = choice.settings.bytes("link_rate");
        if (1..LINK_RATE_MIN).contains(&rate) {
            return Err(PreconditionError(vec![format!(
                "invalid value '{rate}' for link_rate: expected 0, or at least {LINK_RATE_MIN} bytes \
                 per second"
            )]));
        }
        let servers = nodes(choice)? + u16::from(GlusterTenancy::of(choice).is_some());
        Ok(StackFootprint {
            servers,
            ports: 1,
            place: StackPlacement::Namespaces,
        })
    }

    fn lets_in(&self, choice: &StackConfig) -> Option<&'static str> {
        Some(match choice.settings.flag("tls") {
            true => MANAGEMENT,
            false => super::ANYBODY,
        })
    }

    fn needs(&self, choice: &StackConfig) -> StackRequirements {
        let makes_certificates = choice.settings.flag("tls");
        client_needs().and(StackRequirements {
            programs: makes_certificates
                .then_some("openssl")
                .into_iter()
                .collect(),
            ..StackRequirements::default()
        })
    }

    fn server_needs(&self, choice: &StackConfig) -> StackRequirements {
        let needs = StackRequirements {
            programs: vec!["glusterd", "gluster", "bwrap", "grep", "setsid"],
            open_files: OPEN_FILES,
            root: true,
            ..StackRequirements::default()
        };
        // The other tenant, which tries to mount what is not its own.
        match GlusterTenancy::of(choice) {
            Some(_) => needs.and(StackRequirements {
                programs: vec!["ls", "cat", "mkdir"],
                ..client_needs()
            }),
            None => needs,
        }
    }

    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError> {
        let cluster = GlusterCluster::of(order)?;
        let tenancy = GlusterTenancy::of(order.choice);
        check(order, &cluster)?;
        let mut plan = Plan::default();
        node::add_dir(&mut plan, &order.dir());
        let volumes = tenancy
            .as_ref()
            .map_or(vec![VOLUME], GlusterTenancy::volumes);
        if let Some(certificates) = &cluster.certificates {
            certificates.add_to(&mut plan, &volumes);
            if tenancy.is_some() {
                certificates.add_forged(&mut plan, tenants::FORGED, tenants::OURS);
            }
        }
        cluster.add_to(&mut plan);
        for volume in &volumes {
            cluster.add_volume(&mut plan, volume);
        }
        if let Some(tenancy) = &tenancy {
            tenancy.add_directories(&mut plan, order, &cluster);
        }
        let mut made = StackOutputs {
            file_system: client::FILE_SYSTEM.into(),
            description: self.about().into(),
            servers: cluster.servers(),
            proofs: proofs(order, &cluster, &volumes),
            ..StackOutputs::default()
        };
        add_mounts(&mut plan, &mut made, order, &cluster, tenancy.as_ref());
        Ok((plan, made))
    }

    fn change(
        &self,
        verb: StackChange<'_>,
        order: &StackPlanInput<'_>,
        record: &JournalContents,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        let cluster = GlusterCluster::of(order)?;
        let plan = change::plan(verb, order, &cluster, record)?;
        // The outputs afterwards are those of a plan made now.
        let (_, made) = self.plan(order)?;
        Ok((plan, made))
    }

    fn lacks(
        &self,
        order: &StackPlanInput<'_>,
        _: &JournalContents,
        hosts: &mut dyn HostResolver,
    ) -> Vec<String> {
        let volumes =
            GlusterTenancy::of(order.choice).map_or(vec![VOLUME], |tenancy| tenancy.volumes());
        match GlusterCluster::of(order) {
            Ok(cluster) => health::lacks(order, &cluster, &volumes, hosts),
            Err(unmet) => unmet.0,
        }
    }

    fn client_needs(&self, _: &StackConfig) -> Option<StackRequirements> {
        Some(client_needs())
    }

    fn client(
        &self,
        order: &StackPlanInput<'_>,
        place: ClientPlace<'_>,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        let cluster = GlusterCluster::of(order)?;
        let mut mount =
            GlusterMount::new(order, &cluster, place.node, "mnt", VOLUME).below(place.dir);
        let mut plan = Plan::default();
        if let Some(certificates) = &cluster.certificates {
            certificates.add_copies(&mut plan, place.node, place.dir, &[VOLUME]);
            mount = certificates::shown(mount, &format!("{}/tls/{VOLUME}", place.dir));
        }
        mount.add_to(&mut plan, "mount the volume");
        let made = StackOutputs {
            file_system: client::FILE_SYSTEM.into(),
            mount_dir: mount.dir,
            ..StackOutputs::default()
        };
        Ok((plan, made))
    }

    /// A set at a time.
    fn growth(&self, choice: &StackConfig) -> u16 {
        match choice.settings.text("volume") {
            "distribute" => 1,
            _ => 3,
        }
    }

    fn rungs(&self, choice: &StackConfig) -> Vec<StackLadderRung> {
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
            StackLadderRung::new("disk", "local"),
            StackLadderRung::new("export", with("distribute", "1")),
        ];
        let count = choice.settings.text("nodes");
        let is_distributed = choice.settings.text("volume") == "distribute";
        if !is_distributed {
            rungs.push(StackLadderRung::new("transport", with("distribute", count)));
            rungs.push(StackLadderRung::new(
                "redundancy",
                choice.parts.base.to_string(),
            ));
        } else if count != "1" {
            rungs.push(StackLadderRung::new(
                "transport",
                choice.parts.base.to_string(),
            ));
        }
        rungs
    }
}

/// Requirements on a machine that mounts it.
fn client_needs() -> StackRequirements {
    StackRequirements {
        programs: vec!["glusterfs", "grep", "umount", "setsid"],
        devices: vec![("/dev/fuse", "modprobe fuse")],
        open_files: OPEN_FILES,
        root: true,
        ..StackRequirements::default()
    }
}

/// How many servers there are.
fn nodes(choice: &StackConfig) -> Result<u16, PreconditionError> {
    let unmet = |reason: String| PreconditionError(vec![reason]);
    let settings = &choice.settings;
    let count = settings
        .count_within("nodes", 1, NODES_MAX)
        .map_err(|error| unmet(error.to_string()))?;
    let volume = settings.text("volume");
    if volume != "distribute" && !count.is_multiple_of(SET) {
        return Err(unmet(format!(
            "invalid value '{count}' for nodes: expected a multiple of {SET} for a {volume}d volume"
        )));
    }
    Ok(u16::try_from(count).unwrap_or(1))
}

fn check(
    order: &StackPlanInput<'_>,
    cluster: &GlusterCluster<'_>,
) -> Result<(), PreconditionError> {
    let mut unmet = Vec::new();
    // A management daemon knows the others by their addresses alone: the port is always the same.
    if cluster.nodes.iter().any(|node| !node.has_network()) {
        unmet.push("every server needs an address of its own: use --on netns".into());
    }
    for node in &cluster.nodes {
        let dir = &node.dir;
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
        if !dir.chars().all(is_safe) {
            unmet.push(format!(
                "invalid path {dir}: expected only letters, digits and / . _ - + @; choose another \
                 base directory"
            ));
        }
        unmet.extend(node::check_sockets(&cluster.dir(node)));
        let is_limited = order.settings().bytes("link_rate") > 0;
        if is_limited && !matches!(node.reach, NodeTransport::Namespace(_)) {
            unmet.push("link_rate limits links that the stack makes itself: use --on netns".into());
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
        Err(PreconditionError(unmet))
    }
}

/// The mount that is measured, one for a second client, and what is put over the first.
fn add_mounts(
    plan: &mut Plan,
    made: &mut StackOutputs,
    order: &StackPlanInput<'_>,
    cluster: &GlusterCluster<'_>,
    tenancy: Option<&GlusterTenancy>,
) {
    let here = &order.site.client;
    let mount = |name: &'static str| match (tenancy, &cluster.certificates) {
        (Some(tenancy), _) => tenancy.mount(order, cluster, name, tenants::OURS),
        (None, Some(certificates)) => {
            let mount = GlusterMount::new(order, cluster, here, name, VOLUME);
            certificates::shown(mount, &certificates.dir_on(here, VOLUME))
        }
        (None, None) => GlusterMount::new(order, cluster, here, name, VOLUME),
    };
    let first = mount("mnt");
    first.add_to(plan, "mount the volume");
    made.client_programs = vec![node::client_program("glusterfs", [order.mark("mnt")])];
    let second = mount("second").without_caches();
    second.add_to(plan, "mount it for a second client");
    made.mount_dir.clone_from(&first.dir);
    made.proofs.push(StackSelfTest::SecondClient {
        path: second.dir.clone(),
        synced: false,
    });
    if let Some(tenancy) = tenancy {
        tenancy.finish(plan, made, order, cluster);
    }
}

fn proofs(
    order: &StackPlanInput<'_>,
    cluster: &GlusterCluster<'_>,
    volumes: &[&str],
) -> Vec<StackSelfTest> {
    let mut proofs = Vec::new();
    let mount = format!("{}/mnt", order.dir());
    let is_distributed = order.settings().text("volume") == "distribute";
    let is_one_disk = cluster
        .nodes
        .iter()
        .all(|node| node.reach.is_this_machine());
    for node in &cluster.nodes {
        // A file of a distributed volume lies on one brick: with several disks it is unknown which of them
        // must flush.
        if !is_distributed || is_one_disk {
            proofs.push(StackSelfTest::Flushes {
                node: node.name.clone(),
                dir: cluster.bricks(node),
            });
        }
        if !is_distributed {
            proofs.push(StackSelfTest::Survives {
                node: node.name.clone(),
                lose: vec![(node.name.clone(), cluster.stop(node))],
                restore: vec![(node.name.clone(), cluster.restart(node, volumes[0], &mount))],
            });
        }
    }
    proofs
}

/// Something that is only waited for, or done to its end.
fn run(plan: &mut Plan, why: &str, cmd: plimsoll_core::plan::PlanCommand) {
    plan.step_on(HERE, why, PlanAction::Run(cmd), None);
}

#[cfg(test)]
mod plan_tests;
