// SPDX-License-Identifier: Apache-2.0
//! Mounts of a volume, on this machine or on the node of a tenant.

use plimsoll_core::plan::{
    HERE, NodeTransport, Plan, PlanAction, PlanCommand, PlanNode, PlanReadinessCheck,
};

use super::super::StackPlanInput;
use super::super::node::file_system::MOUNT_OPTIONS;
use super::cluster::GlusterCluster;

/// The type of file system of a mount, as the kernel names it.
pub(super) const FILE_SYSTEM: &str = "fuse.glusterfs";

/// One mount: a process that serves a directory.
#[derive(Debug)]
pub(super) struct GlusterMount {
    /// Where.
    pub(super) dir: String,
    node: String,
    mark: String,
    log: String,
    server: String,
    volume: String,
    options: Vec<String>,
}

impl GlusterMount {
    /// A mount of a volume, below the stack's directory on a node.
    pub(super) fn new(
        order: &StackPlanInput<'_>,
        cluster: &GlusterCluster<'_>,
        node: &PlanNode,
        name: &str,
        volume: &str,
    ) -> Self {
        let dir = order.dir_on(&node.dir);
        GlusterMount {
            node: match node.reach {
                NodeTransport::Agent(_) | NodeTransport::Fleet => node.name.clone(),
                // A mount in a namespace of the network is a mount on this machine.
                _ => HERE.into(),
            },
            mark: order.mark(name),
            log: format!("{dir}/{name}.log"),
            dir: format!("{dir}/{name}"),
            server: cluster.nodes[0].address.clone(),
            volume: volume.into(),
            options: Vec::new(),
        }
    }

    /// The same below another directory, of the machine it is made on.
    pub(super) fn below(mut self, dir: &str) -> Self {
        self.log = format!("{dir}/mnt.log");
        self.dir = format!("{dir}/mnt");
        self
    }

    /// The same with one more option.
    pub(super) fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// The same with nothing remembered on the client, so that it sees what the servers have. Other
    /// clients may see for a second what was there before.
    pub(super) fn without_caches(self) -> Self {
        [
            "--attribute-timeout=0",
            "--entry-timeout=0",
            "--direct-io-mode=enable",
            "--xlator-option=*-md-cache.pass-through=on",
            "--xlator-option=*-quick-read.pass-through=on",
            "--xlator-option=*-io-cache.pass-through=on",
        ]
        .into_iter()
        .fold(self, GlusterMount::option)
    }

    fn cmd(&self) -> PlanCommand {
        let own = [
            "--no-daemon".into(),
            format!("--fuse-mountopts={MOUNT_OPTIONS}"),
            // An error about an unknown server names it in the log, which the plan names.
            format!("--log-file={}", self.log),
            format!("--volfile-server={}", self.server),
            format!("--volfile-id={}", self.volume),
        ];
        let last = [self.dir.clone()];
        PlanCommand::new(
            "glusterfs",
            own.into_iter().chain(self.options.clone()).chain(last),
        )
    }

    /// The action that starts it.
    pub(super) fn start(&self) -> PlanAction {
        PlanAction::Start {
            cmd: self.cmd(),
            mark: self.mark.clone(),
            log: format!("{}.out", self.dir),
            ready: PlanReadinessCheck::Mounted(self.dir.clone()),
        }
    }

    /// The action that ends it.
    pub(super) fn stop(&self) -> PlanAction {
        PlanAction::Stop {
            mark: self.mark.clone(),
        }
    }

    /// The action that detaches it.
    pub(super) fn unmount(&self) -> PlanAction {
        PlanAction::Unmount(self.dir.clone())
    }

    /// Adds the steps that make it.
    pub(super) fn add_to(&self, plan: &mut Plan, why: &str) {
        self.add_point(plan);
        plan.step_on(&self.node, why, self.start(), Some(self.stop()));
        // Undone first: unmounting while the process still lives lets it finish what it holds.
        let look = PlanAction::MountIs {
            path: self.dir.clone(),
            file_system: FILE_SYSTEM.into(),
            // The name of a mounted subdirectory is left to the program.
            sources: match self.options.iter().any(|o| o.starts_with("--subdir-mount")) {
                true => Vec::new(),
                false => vec![format!("{}:{}", self.server, self.volume).into()],
            },
        };
        let why = "check that the volume is mounted";
        plan.step_on(&self.node, why, look, Some(self.unmount()));
    }

    /// Adds the directory. It goes with the one around it; its own undo detaches what a killed
    /// process left mounted.
    pub(super) fn add_point(&self, plan: &mut Plan) {
        let make = PlanAction::MakeDir(self.dir.clone());
        let why = "create a mount point";
        plan.step_on(&self.node, why, make, Some(self.unmount()));
    }
}
