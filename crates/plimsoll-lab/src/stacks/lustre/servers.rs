// SPDX-License-Identifier: Apache-2.0
//! Servers of Lustre over files: on the first node the configuration and the metadata, on each of the
//! others an object storage target; and the mounts of clients.
//!
//! Invariant: what is formatted is the loop device of a file that the plan itself made.

use plimsoll_core::plan::{
    HERE, NodeTransport, Plan, PlanAction, PlanCommand, PlanCommandArg, PlanNode, StackOutputs,
    StackSelfTest,
};

use super::super::node::file_system::MOUNT_OPTIONS;
use super::{FILE_SYSTEM, LustreOptions, check_nid};
use crate::stacks::{
    ClientPlace, MIN_SIZE_BYTES, PreconditionError, StackPlanInput, StackRequirements, node,
};

/// Longest time to make a file system: a slow disk is what some of these are for.
const MAKE_LIMIT_S: u32 = 600;

/// Longest time to mount one: a target asks the first server who else there is, and waits for it.
const MOUNT_LIMIT_S: u32 = 300;

/// Requirements of a client.
pub(super) fn client_needs() -> StackRequirements {
    StackRequirements {
        programs: vec!["lfs", "lctl", "mount.lustre", "mount", "umount"],
        file_systems: vec![FILE_SYSTEM],
        root: true,
        ..StackRequirements::default()
    }
}

/// Requirements of a server.
pub(super) fn needs() -> StackRequirements {
    StackRequirements {
        programs: vec![
            "mkfs.lustre",
            "lctl",
            "mount.lustre",
            "mount",
            "umount",
            "losetup",
            "fallocate",
        ],
        devices: vec![("/dev/loop-control", "modprobe loop")],
        file_systems: vec![FILE_SYSTEM],
        root: true,
        ..StackRequirements::default()
    }
}

/// The file system of an order.
#[derive(Debug)]
pub(super) struct LustreServers<'a> {
    order: &'a StackPlanInput<'a>,
    asked: &'a LustreOptions,
    /// Its name: the kernel of a machine knows it by that, so two stacks have two.
    name: String,
    /// The address of the first server in Lustre's network.
    nid: String,
}

impl<'a> LustreServers<'a> {
    pub(super) fn of(
        order: &'a StackPlanInput<'a>,
        asked: &'a LustreOptions,
    ) -> Result<Self, PreconditionError> {
        // Ends in four digits that stand for the whole text of the stack. Eight letters are the most.
        let text = order.choice.parts.file_name();
        let digits = &text[text.len().saturating_sub(4)..];
        Ok(LustreServers {
            order,
            asked,
            name: format!("pl{digits}"),
            nid: nid(order, asked)?,
        })
    }

    /// The steps from nothing to a striped mount, and what they make.
    pub(super) fn plan(&self) -> Result<(Plan, StackOutputs), PreconditionError> {
        self.check()?;
        let (mut plan, dir) = (Plan::default(), self.order.dir());
        node::add_dir(&mut plan, &dir);
        for server in &self.order.site.servers {
            if !server.reach.is_this_machine() {
                let dir = self.order.dir_on(&server.dir);
                node::add_dir_on(&mut plan, server, &dir);
            }
        }
        for (number, server) in self.order.site.servers.iter().enumerate() {
            self.add_target(&mut plan, server, number);
        }
        let (at, second) = (format!("{dir}/mnt"), format!("{dir}/second"));
        self.add_mount(&mut plan, HERE, "mount the file system", &at);
        let stripe = PlanAction::Run(self.asked.stripe(&at));
        plan.step("set the stripe layout", stripe, None);
        self.add_mount(&mut plan, HERE, "mount it for a second client", &second);
        Ok((plan, self.made(at, second)))
    }

    /// The steps that make one more client.
    pub(super) fn client(&self, place: ClientPlace<'_>) -> (Plan, StackOutputs) {
        let (mut plan, at) = (Plan::default(), format!("{}/mnt", place.dir));
        self.add_mount(&mut plan, &place.node.name, "mount the file system", &at);
        let made = StackOutputs {
            mount_dir: at,
            file_system: FILE_SYSTEM.into(),
            ..StackOutputs::default()
        };
        (plan, made)
    }

    fn made(&self, at: String, second: String) -> StackOutputs {
        let mut proofs = vec![StackSelfTest::SecondClient {
            path: second,
            synced: false,
        }];
        // Where each target has a disk of its own, those that a file does not lie on have nothing to
        // flush.
        let here = self.order.site.servers.first();
        if let Some(here) = here.filter(|server| server.reach.is_this_machine()) {
            proofs.push(StackSelfTest::Flushes {
                node: here.name.clone(),
                dir: self.order.dir(),
            });
        }
        StackOutputs {
            mount_dir: at,
            file_system: FILE_SYSTEM.into(),
            description: format!(
                "Lustre with one metadata target and {} object storage targets over files, {}",
                self.asked.osts,
                self.asked.striping()
            ),
            proofs,
            ..StackOutputs::default()
        }
    }

    fn check(&self) -> Result<(), PreconditionError> {
        let order = self.order;
        let mut unmet = Vec::new();
        if order.size_bytes < MIN_SIZE_BYTES {
            unmet.push(format!(
                "a target of {} MiB is too small: --size 256MiB or more",
                order.size_bytes >> 20
            ));
        }
        let shares_disk = |server: &PlanNode| server.reach.is_this_machine();
        let images = match order.site.servers.iter().any(shares_disk) {
            true => order.site.servers.len(),
            false => 1,
        };
        unmet.extend(node::room(order, images));
        for server in &order.site.servers {
            let dir = order.dir_on(&server.dir);
            unmet.extend(node::check_path(&dir).err().into_iter().flat_map(|u| u.0));
            if server.direct_align_bytes == 0 {
                unmet.push(format!(
                    "direct I/O does not work in {}, so the page cache of the server would be \
                     measured; choose another base directory",
                    server.dir
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

    /// Adds a target: a file, a loop device, a file system of Lustre's own, and the mount that is its
    /// server.
    fn add_target(&self, plan: &mut Plan, server: &PlanNode, number: usize) {
        let on = &*server.name;
        let (name, role) = match number.checked_sub(1) {
            None => ("mdt0".to_owned(), metadata()),
            Some(index) => (format!("ost{index}"), self.storage(index)),
        };
        let at = format!("{}/{name}", self.order.dir_on(&server.dir));
        let image = format!("{at}.img");
        let size = self.order.size_bytes.to_string();
        let reserve = PlanCommand::new("fallocate", ["--length".into(), size, image.clone()]);
        plan.step_on(
            on,
            "allocate the image file",
            PlanAction::Run(reserve),
            Some(PlanAction::RemoveFile(image.clone())),
        );
        plan.step_on(
            on,
            "attach a loop device",
            PlanAction::AttachLoop(image.clone()),
            Some(PlanAction::DetachLoop(image.clone())),
        );
        // Without discarding: the image is reserved, and giving it back would change what is measured.
        let words = [
            "--reformat".to_owned(),
            format!("--fsname={}", self.name),
            "--mkfsoptions=-E nodiscard".to_owned(),
        ];
        let words = words.into_iter().chain(role).map(PlanCommandArg::from);
        let args = words.chain([PlanCommandArg::LoopOf(image.clone())]);
        let make = PlanCommand::new("mkfs.lustre", args).within_s(MAKE_LIMIT_S);
        plan.step_on(on, &format!("format {name}"), PlanAction::Run(make), None);
        let source = PlanCommandArg::LoopOf(image);
        add_mounted(plan, on, (&format!("start {name}"), source, &[]), &at);
    }

    /// Options of mkfs.lustre for an object storage target.
    fn storage(&self, index: usize) -> Vec<String> {
        vec![
            "--ost".into(),
            format!("--index={index}"),
            format!("--mgsnode={}", self.nid),
        ]
    }

    /// Adds the mount of a client.
    fn add_mount(&self, plan: &mut Plan, on: &str, why: &str, at: &str) {
        let source = PlanCommandArg::Text(format!("{}:/{}", self.nid, self.name));
        add_mounted(plan, on, (why, source.clone(), &["-o", MOUNT_OPTIONS]), at);
        let look = PlanAction::mount_is(at, FILE_SYSTEM, vec![source]);
        plan.step_on(on, "check that the file system is mounted", look, None);
    }
}

/// Options of mkfs.lustre for the first target, which also holds the configuration of all targets.
fn metadata() -> Vec<String> {
    ["--mgs", "--mdt", "--index=0"].map(Into::into).to_vec()
}

fn add_mounted(
    plan: &mut Plan,
    on: &str,
    (why, source, options): (&str, PlanCommandArg, &[&str]),
    at: &str,
) {
    plan.step_on(
        on,
        "create a mount point",
        PlanAction::MakeDir(at.into()),
        Some(PlanAction::RemoveDir(at.into())),
    );
    let begin = ["-t", FILE_SYSTEM]
        .into_iter()
        .chain(options.iter().copied());
    let args = begin.map(PlanCommandArg::from).chain([source, at.into()]);
    let mount = PlanCommand::new("mount", args).within_s(MOUNT_LIMIT_S);
    let unmount = Some(PlanAction::Unmount(at.into()));
    plan.step_on(on, why, PlanAction::Run(mount), unmount);
}

/// The address of the first server in Lustre's network: what was set, else its own over TCP.
fn nid(order: &StackPlanInput<'_>, asked: &LustreOptions) -> Result<String, PreconditionError> {
    let unmet = |text: &str| Err(PreconditionError(vec![text.into()]));
    let Some(first) = order.site.servers.first() else {
        return unmet("it has no servers");
    };
    if matches!(first.reach, NodeTransport::Namespace(_)) {
        return unmet(
            "servers of Lustre run in the kernel, which has one network for all of them: use --on \
             here, or --on FILE with machines",
        );
    }
    match &*asked.nid {
        "" if first.reach == NodeTransport::Here => unmet(
            "it needs the address of this machine in Lustre's network, not that of the loopback: \
             set nid, such as nid=10.0.0.5@tcp (see 'lctl list_nids')",
        ),
        "" => {
            let nid = format!("{}@tcp", first.address);
            check_nid(&nid).map(|()| nid)
        }
        given => Ok(given.into()),
    }
}
