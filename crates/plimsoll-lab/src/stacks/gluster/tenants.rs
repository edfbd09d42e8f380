// SPDX-License-Identifier: Apache-2.0
//! Two tenants of one cluster: what keeps them apart, and what a tenant would try.
//!
//! Tenant `a` is this machine, tenant `b` a node that serves nothing: the cluster trusts its
//! own servers, so a stranger must not be one of them. With certificates each tenant has a volume
//! of its own, because the list of names a volume accepts is for the whole volume; without them
//! both share one, distinguished by their addresses.

use plimsoll_core::plan::{
    Plan, PlanAction, PlanCommand, PlanNode, PlanReadinessCheck, StackOutputs, StackSelfTest,
};
use plimsoll_core::settings::SettingValues;

use super::super::{StackConfig, StackPlanInput, node};
use super::certificates;
use super::client::GlusterMount;
use super::cluster::GlusterCluster;
use super::run;

/// The tenant whose storage is measured.
pub(super) const OURS: &str = "a";

/// The other one.
const THEIRS: &str = "b";

/// A file of a tenant: what the other one looks for.
const HELD: &str = ".tenant";

/// A directory of a tenant, which must exist for anything to be made in it.
const DIRECTORY: &str = ".tenant.d";

/// The directory that the other tenant tries to make in it.
const STOLEN: &str = ".tenant.d/stolen";

/// User and group that the files of a tenant belong to on the servers when they are mapped.
const MAPPED_ID: u32 = 100_000;

/// A certificate in the name of our tenant that the authority did not sign.
pub(super) const FORGED: &str = "self";

/// Settings that keep tenants apart.
#[derive(Debug)]
pub(super) struct GlusterTenancy {
    /// Whether the cluster has certificates.
    tls: bool,
    address: bool,
    uid_map: bool,
}

impl GlusterTenancy {
    /// The tenancy that was asked for, if any.
    pub(super) fn of(choice: &StackConfig) -> Option<Self> {
        let settings: &SettingValues = choice.layer("tenant")?;
        Some(GlusterTenancy {
            tls: choice.settings.flag("tls"),
            address: settings.flag("address"),
            uid_map: settings.flag("uid_map"),
        })
    }

    /// The volumes.
    pub(super) fn volumes(&self) -> Vec<&'static str> {
        if self.tls {
            vec![OURS, THEIRS]
        } else {
            vec![super::VOLUME]
        }
    }

    fn volume_of(&self, tenant: &'static str) -> &'static str {
        if self.tls { tenant } else { super::VOLUME }
    }

    /// The mount of a tenant, on this machine.
    pub(super) fn mount(
        &self,
        order: &StackPlanInput<'_>,
        cluster: &GlusterCluster<'_>,
        name: &str,
        tenant: &'static str,
    ) -> GlusterMount {
        self.whole(order, cluster, name, tenant, tenant)
            .option(format!("--subdir-mount=/{tenant}"))
    }

    /// A mount of the whole volume of `tenant` with the certificate `shown`.
    fn whole(
        &self,
        order: &StackPlanInput<'_>,
        cluster: &GlusterCluster<'_>,
        name: &str,
        tenant: &'static str,
        shown: &str,
    ) -> GlusterMount {
        let here = &order.site.client;
        let mount = GlusterMount::new(order, cluster, here, name, self.volume_of(tenant));
        show(mount, cluster, here, shown)
    }

    /// Adds the directories of both tenants, each with a file in it, and then the rules: from then
    /// on a whole volume cannot be mounted any more, and mounts of it vanish.
    pub(super) fn add_directories(
        &self,
        plan: &mut Plan,
        order: &StackPlanInput<'_>,
        cluster: &GlusterCluster<'_>,
    ) {
        for tenant in [OURS, THEIRS] {
            let mount = self.whole(order, cluster, &format!("setup-{tenant}"), tenant, tenant);
            mount.add_to(plan, &format!("mount the volume of tenant {tenant}"));
            let dir = format!("{}/{tenant}", mount.dir);
            let make = PlanCommand::new("mkdir", ["--parents", &format!("{dir}/{DIRECTORY}")]);
            run(
                plan,
                &format!("create the directory of tenant {tenant}"),
                make,
            );
            let file = format!("{dir}/{HELD}");
            let make = PlanCommand::new("fallocate", ["--length", "4096", &file]);
            run(plan, &format!("create a file of tenant {tenant}"), make);
            plan.step("unmount the volume", mount.unmount(), None);
        }
        if !self.address {
            return;
        }
        let servers: Vec<&str> = cluster.nodes.iter().map(|n| &*n.address).collect();
        let servers = servers.join("|");
        let rule = |tenant: &str| {
            let address = match tenant {
                OURS => &order.site.client.address,
                _ => &stranger(order).address,
            };
            format!("/{tenant}({address})")
        };
        for volume in self.volumes() {
            let own = if self.tls {
                rule(volume)
            } else {
                format!("{},{}", rule(OURS), rule(THEIRS))
            };
            // The servers themselves: healing goes over the whole volume.
            let rules = format!("/({servers}),{own}");
            let set = cluster.cli(&["volume", "set", volume, "auth.allow", &rules]);
            cluster.on_first(
                plan,
                &format!("restrict volume {volume} to the addresses of tenants"),
                set,
            );
        }
    }

    /// Adds what stands over the mount, and what must be refused.
    pub(super) fn finish(
        &self,
        plan: &mut Plan,
        made: &mut StackOutputs,
        order: &StackPlanInput<'_>,
        cluster: &GlusterCluster<'_>,
    ) {
        let mut words = vec!["a directory for each of two tenants"];
        words.extend(self.tls.then_some("certificates and TLS"));
        words.extend(self.address.then_some("address rules"));
        if self.uid_map {
            words.push("users mapped by bindfs");
            self.add_map(plan, made, order);
        }
        made.description = format!("{}; {}", made.description, words.join(", "));
        self.add_attempts(plan, made, order, cluster);
    }

    fn add_map(&self, plan: &mut Plan, made: &mut StackOutputs, order: &StackPlanInput<'_>) {
        let at = format!("{}/mapped", order.dir());
        let unmount = PlanAction::Unmount(at.clone());
        let make = PlanAction::MakeDir(at.clone());
        plan.step("create a mount point", make, Some(unmount.clone()));
        let mark = order.mark("bindfs");
        let map = format!("--map={MAPPED_ID}/0:@{MAPPED_ID}/@0");
        let start = PlanAction::Start {
            // Direct I/O would else end here.
            cmd: PlanCommand::new(
                "bindfs",
                [
                    "-f",
                    "--multithreaded",
                    "--forward-odirect=4096",
                    // Our mark lies in the mount point.
                    "-o",
                    "nonempty",
                    &map,
                    &made.mount_dir,
                    &at,
                ],
            ),
            mark: mark.clone(),
            log: format!("{at}.log"),
            ready: PlanReadinessCheck::Mounted(at.clone()),
        };
        plan.step("map the users", start, Some(PlanAction::Stop { mark }));
        let look = PlanAction::mount_is(at.clone(), "fuse", Vec::new());
        plan.step("check that the users are mapped", look, Some(unmount));
        // It closes a file below after its own close has been answered, and is not asked to flush
        // before: what the client keeps back for a moment is at the servers after a sync alone.
        for proof in &mut made.proofs {
            if let StackSelfTest::SecondClient { synced, .. } = proof {
                *synced = true;
            }
        }
        made.client_programs
            .push(node::client_program("bindfs", [order.mark("bindfs")]));
        made.mount_dir = at;
        made.file_system = "fuse".into();
    }

    /// Adds the place where they are tried, and says what must fail. Each looks for what exists only
    /// behind the mount: the place itself stays where a mount was refused.
    fn add_attempts(
        &self,
        plan: &mut Plan,
        made: &mut StackOutputs,
        order: &StackPlanInput<'_>,
        cluster: &GlusterCluster<'_>,
    ) {
        let volume = self.volume_of(OURS);
        let stranger = stranger(order);
        if !stranger.reach.is_this_machine() {
            node::add_dir_on(plan, stranger, &order.dir_on(&stranger.dir));
            if let Some(certificates) = &cluster.certificates {
                let dir = order.dir_on(&stranger.dir);
                certificates.add_copies(plan, stranger, &dir, &[THEIRS, FORGED]);
            }
        }
        let at = |volume: &str| GlusterMount::new(order, cluster, stranger, "stranger", volume);
        at(volume).add_point(plan);
        for attempt in self.attempts() {
            let mut mount = match attempt.volume {
                Some(kind) => at(&format!("{kind}/{volume}")),
                None => at(volume),
            };
            if let Some(directory) = attempt.directory {
                mount = mount.option(format!("--subdir-mount={directory}"));
            }
            if let Some(certificate) = attempt.certificate {
                mount = show(mount, cluster, stranger, certificate);
            }
            let (program, path) = attempt.try_this;
            made.proofs.push(StackSelfTest::Refused {
                why: attempt.why.into(),
                node: stranger.name.clone(),
                before: vec![mount.start()],
                attempt: Box::new(PlanCommand::new(program, [format!("{}/{path}", mount.dir)])),
                undo: vec![mount.stop(), mount.unmount()],
            });
        }
    }

    fn attempts(&self) -> Vec<Attempt> {
        let read = ("cat", HELD);
        let with = |why, directory, try_this| Attempt {
            why,
            volume: None,
            directory: Some(directory),
            certificate: Some(THEIRS),
            try_this,
        };
        let mut all = vec![
            Attempt {
                directory: None,
                ..with("list the whole volume", "", ("ls", OURS))
            },
            with("list the other's directory", "/a", ("ls", HELD)),
            with("read in the other's directory", "/a", read),
            with("write in the other's directory", "/a", ("mkdir", STOLEN)),
            with("get through its own directory and back", "/b/../a", read),
            Attempt {
                volume: Some("shd"),
                directory: None,
                ..with(
                    "pass for the servers' healer, whose credentials anyone may ask for",
                    "",
                    ("cat", "a/.tenant"),
                )
            },
        ];
        if self.tls {
            all.push(Attempt {
                certificate: None,
                ..with("get in without a certificate", "/a", read)
            });
            all.push(Attempt {
                certificate: Some(FORGED),
                ..with("get in with a certificate it signed itself", "/a", read)
            });
        }
        all
    }
}

/// An attempt of a stranger.
struct Attempt {
    why: &'static str,
    /// Whose view of the volume is asked for, if not a client's.
    volume: Option<&'static str>,
    directory: Option<&'static str>,
    certificate: Option<&'static str>,
    /// A program, and what it is given below the mount.
    try_this: (&'static str, &'static str),
}

fn show(
    mount: GlusterMount,
    cluster: &GlusterCluster<'_>,
    node: &PlanNode,
    name: &str,
) -> GlusterMount {
    match &cluster.certificates {
        Some(certificates) => certificates::shown(mount, &certificates.dir_on(node, name)),
        None => mount,
    }
}

/// Where tenant `b` is: the last node, which serves nothing.
fn stranger<'a>(order: &'a StackPlanInput<'_>) -> &'a PlanNode {
    let servers = &order.site.servers;
    servers.last().unwrap_or(&order.site.client)
}
