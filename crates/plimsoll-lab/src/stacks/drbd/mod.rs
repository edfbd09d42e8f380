// SPDX-License-Identifier: Apache-2.0
//! A disk that DRBD mirrors over two machines, with a file system that the first of them serves by NFS.
//!
//! The commands of a half are in `drbd.sh`. No server takes over when the first machine is lost:
//! that is not the matter of this recipe. Manual: `drbd.md`.

use plimsoll_core::plan::{
    Plan, PlanAction, PlanCommand, PlanCommandArg, PlanNode, StackOutputs, StackSelfTest,
    StackServer,
};

use super::nfs::kernel::{self, KnfsdExport};
use super::node::{self, file_system::MOUNT_OPTIONS};
use super::{
    ClientPlace, PreconditionError, StackConfig, StackFootprint, StackLadderRung, StackPlanInput,
    StackRecipe, StackRequirements,
};

/// The stack `drbd`.
#[derive(Debug)]
pub struct DrbdStack;

const SCRIPT: &str = include_str!("drbd.sh");

/// The disk where it is used; `drbd.sh` says so too.
const DEVICE: &str = "/dev/drbd30";

/// How long the halves may take to find each other, and to become the same again: a lab's disk has some
/// gigabytes at most, and an emulated machine moves some megabytes a second.
const MEET_LIMIT_S: u32 = 120;
const RESYNC_LIMIT_S: u32 = 3600;

/// Most bytes that one call of NFS moves.
const TRANSFER_BYTES: u64 = 1 << 20;

impl StackRecipe for DrbdStack {
    fn name(&self) -> &'static str {
        "drbd"
    }

    fn about(&self) -> &'static str {
        "ext4 on a disk that DRBD mirrors over two machines (protocol C), served by the kernel's NFS"
    }

    fn shape(&self, _: &StackConfig) -> Result<StackFootprint, PreconditionError> {
        Ok(StackFootprint::here(2, 0))
    }

    fn lets_in(&self, _: &StackConfig) -> Option<&'static str> {
        Some(super::ANYBODY)
    }

    fn needs_machines(&self, _: &StackConfig) -> bool {
        true
    }

    fn server_needs(&self, _: &StackConfig) -> StackRequirements {
        kernel::needs().and(StackRequirements {
            programs: vec!["drbdadm", "fallocate", "losetup", "mkfs.ext4", "mount"],
            root: true,
            ..StackRequirements::default()
        })
    }

    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError> {
        let halves = DrbdReplica::both(order);
        let [first, second] = &halves;
        node::check_size(order, 1)?;
        let mut plan = Plan::default();
        for half in &halves {
            node::check_path(&half.dir)?;
            node::add_dir_on(&mut plan, half.node, &half.dir);
        }
        let exported = format!("{}/export", first.dir);
        let kernel = first.kernel(&exported);
        kernel.add_check(&mut plan);
        for half in &halves {
            half.add_to(&mut plan, order.size_bytes);
        }
        let on = &*first.node.name;
        for half in &halves {
            plan.step_on(&half.node.name, "wait for the connection", half.met(), None);
        }
        plan.step_on(on, "skip the initial sync", first.tell(&["new"]), None);
        plan.step_on(
            on,
            "wait until both replicas are up to date",
            first.whole(),
            None,
        );
        plan.step_on(on, "make this node primary", first.tell(&["primary"]), None);
        plan.step_on(on, "create the file system", first.tell(&["format"]), None);
        let mount = first.add_mount(&mut plan, &exported);
        let serve = kernel.add(&mut plan, order);
        let back = [
            first.back(),
            vec![first.on(first.tell(&["primary"])), mount],
            serve,
        ]
        .concat();
        let rejoin = [second.back(), vec![second.on(second.whole())]].concat();
        let made = StackOutputs {
            address: Some(kernel.address(&first.node.address)),
            description: format!("{}; plimsoll is the client", self.about()),
            servers: vec![first.server(back), second.server(Vec::new())],
            proofs: vec![StackSelfTest::Survives {
                node: second.node.name.clone(),
                lose: second.lose(),
                restore: rejoin,
            }],
            ..StackOutputs::default()
        };
        Ok((plan, made))
    }

    fn client_needs(&self, _: &StackConfig) -> Option<StackRequirements> {
        Some(StackRequirements::default())
    }

    fn client(
        &self,
        order: &StackPlanInput<'_>,
        _: ClientPlace<'_>,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        let [first, _] = DrbdReplica::both(order);
        let exported = format!("{}/export", first.dir);
        let made = StackOutputs {
            address: Some(first.kernel(&exported).address(&first.node.address)),
            ..StackOutputs::default()
        };
        Ok((Plan::default(), made))
    }

    fn rungs(&self, _: &StackConfig) -> Vec<StackLadderRung> {
        vec![
            StackLadderRung::new("disk", "local"),
            StackLadderRung::new("export", "nfs(server=knfsd)"),
            StackLadderRung::new("redundancy", "drbd"),
        ]
    }
}

/// One half of the mirror.
struct DrbdReplica<'a> {
    node: &'a PlanNode,
    dir: String,
    /// Of both, the same on both sides.
    addresses: [&'a str; 2],
    /// Who may mount what it serves.
    clients: Vec<String>,
}

impl<'a> DrbdReplica<'a> {
    fn both(order: &'a StackPlanInput<'_>) -> [DrbdReplica<'a>; 2] {
        let servers = &order.site.servers;
        let half = |node: &'a PlanNode| DrbdReplica {
            node,
            dir: order.dir_on(&node.dir),
            addresses: [&servers[0].address, &servers[1].address],
            clients: node::clients_of(order, node),
        };
        [half(&servers[0]), half(&servers[1])]
    }

    fn kernel<'k>(&'k self, exported: &'k str) -> KnfsdExport<'k> {
        KnfsdExport {
            on: &self.node.name,
            dir: &self.dir,
            exported,
            version: "3",
            is_async: false,
            transfer_bytes: TRANSFER_BYTES,
            clients: self.clients.clone(),
        }
    }

    fn image(&self) -> String {
        format!("{}/disk.img", self.dir)
    }

    fn on(&self, action: PlanAction) -> (String, PlanAction) {
        (self.node.name.clone(), action)
    }

    fn cmd(&self, words: &[&str], more: Option<PlanCommandArg>) -> PlanCommand {
        let (verb, rest) = words.split_first().unwrap_or((&"", &[]));
        let script = format!("{}/drbd.sh", self.dir);
        let begin = [script.as_str(), verb, &self.dir].map(PlanCommandArg::from);
        let rest = rest.iter().map(|word| PlanCommandArg::from(*word));
        PlanCommand::new("sh", begin.into_iter().chain(rest).chain(more))
    }

    fn tell(&self, words: &[&str]) -> PlanAction {
        PlanAction::Run(self.cmd(words, None))
    }

    fn met(&self) -> PlanAction {
        PlanAction::Await(self.cmd(&["met"], None).within_s(MEET_LIMIT_S))
    }

    /// Waits until both halves are the same, which takes as long as what one missed.
    fn whole(&self) -> PlanAction {
        PlanAction::Await(self.cmd(&["whole"], None).within_s(RESYNC_LIMIT_S))
    }

    /// Actions that make it take part, with the disk that it has.
    fn take_part(&self) -> [PlanAction; 2] {
        let device = Some(PlanCommandArg::LoopOf(self.image()));
        let up = self.cmd(&["up", self.addresses[0], self.addresses[1]], device);
        [PlanAction::AttachLoop(self.image()), PlanAction::Run(up)]
    }

    fn add_to(&self, plan: &mut Plan, size_bytes: u64) {
        let on = &*self.node.name;
        let size = size_bytes.to_string();
        let reserve = PlanCommand::new("fallocate", ["--length", &size, &self.image()]);
        let remove = Some(PlanAction::RemoveFile(self.image()));
        plan.step_on(
            on,
            "allocate the image file",
            PlanAction::Run(reserve),
            remove,
        );
        let script = PlanAction::write_file(format!("{}/drbd.sh", self.dir), SCRIPT);
        // It goes with the directory.
        plan.step_on(on, "install the DRBD control script", script, None);
        let [attach, up] = self.take_part();
        let detach = Some(PlanAction::DetachLoop(self.image()));
        plan.step_on(on, "attach a loop device", attach, detach);
        // A machine that took the place of this one has no script, and nothing to be ended by it.
        let down = Some(PlanAction::RunIf {
            when: PlanCommand::new("ls", [format!("{}/drbd.sh", self.dir)]),
            run: self.cmd(&["down"], None),
        });
        plan.step_on(on, "join the mirror", up, down);
    }

    /// Actions after its machine was off, until the halves are connected.
    fn back(&self) -> Vec<(String, PlanAction)> {
        let [attach, up] = self.take_part();
        [attach, up, self.met()]
            .map(|action| self.on(action))
            .into()
    }

    fn lose(&self) -> Vec<(String, PlanAction)> {
        let detach = PlanAction::DetachLoop(self.image());
        vec![self.on(self.tell(&["down"])), self.on(detach)]
    }

    /// Adds the mount; gives what mounts it.
    fn add_mount(&self, plan: &mut Plan, at: &str) -> (String, PlanAction) {
        let on = &*self.node.name;
        let point = PlanAction::MakeDir(at.into());
        let remove = Some(PlanAction::RemoveDir(at.into()));
        plan.step_on(on, "create the mount point", point, remove);
        let mount = PlanAction::Run(PlanCommand::new(
            "mount",
            ["-t", "ext4", "-o", MOUNT_OPTIONS, DEVICE, at],
        ));
        let unmount = Some(PlanAction::Unmount(at.into()));
        plan.step_on(on, "mount the file system", mount.clone(), unmount);
        let look = PlanAction::mount_is(at, "ext4", vec![DEVICE.into()]);
        plan.step_on(on, "check that the file system is mounted", look, None);
        self.on(mount)
    }

    fn server(&self, restore: Vec<(String, PlanAction)>) -> StackServer {
        StackServer::kernel_of(&self.node.name, restore)
    }
}

#[cfg(test)]
mod plan_tests;
