// SPDX-License-Identifier: Apache-2.0
//! A disk with a file system that the kernel of one machine serves, and that of the machine the load
//! comes from attaches and mounts.
//!
//! The disk is a loop device, with direct I/O, of a file: nothing that a user has is formatted. What is
//! given to the kernels is in a script of each transport, which both machines get. One machine at a time
//! can have the disk mounted, and it is not this one: here user programs would be in between.

use plimsoll_core::plan::{
    Plan, PlanAction, PlanCommand, PlanCommandArg, PlanNode, StackOutputs, StackServer,
};

use super::node::{self, file_system};
use super::{ClientPlace, PreconditionError, StackPlanInput, StackRequirements};

/// A transport between kernels.
#[derive(Debug)]
pub(super) struct KernelDisk {
    /// Its description for readers.
    pub(super) about: &'static str,
    /// Its script: `up`, `down`, `attach`, `detach`.
    pub(super) script: &'static str,
    /// Programs that a machine needs that attaches it.
    pub(super) client_programs: &'static [&'static str],
}

/// Where the script lies, in a directory of ours.
const SCRIPT: &str = "transport.sh";

/// The name of the link to the disk where it is attached.
const LINK: &str = "disk";

impl KernelDisk {
    pub(super) fn server_needs(&self, order: &super::StackConfig) -> StackRequirements {
        let make = file_system::maker(&order.settings);
        StackRequirements {
            programs: vec!["fallocate", "losetup", "modprobe", make],
            root: true,
            ..StackRequirements::default()
        }
    }

    pub(super) fn client_needs(&self) -> StackRequirements {
        let own = ["modprobe", "mount"].iter();
        StackRequirements {
            programs: own.chain(self.client_programs).copied().collect(),
            root: true,
            ..StackRequirements::default()
        }
    }

    /// Adds what serves the disk.
    pub(super) fn plan(
        &self,
        order: &StackPlanInput<'_>,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        let server = &order.site.servers[0];
        let (on, dir) = (&*server.name, order.dir_on(&server.dir));
        node::check_path(&dir)?;
        node::check_size(order, 1)?;
        file_system::check(order)?;
        let mut plan = Plan::default();
        node::add_dir_on(&mut plan, server, &dir);
        let file = format!("{dir}/disk.img");
        let size = order.size_bytes.to_string();
        let reserve = PlanCommand::new("fallocate", ["--length", &size, &file]);
        let remove = Some(PlanAction::RemoveFile(file.clone()));
        plan.step_on(
            on,
            "allocate the image file",
            PlanAction::Run(reserve),
            remove,
        );
        let attach = PlanAction::AttachLoop(file.clone());
        let detach = Some(PlanAction::DetachLoop(file.clone()));
        plan.step_on(on, "attach a loop device", attach.clone(), detach);
        let device = PlanCommandArg::LoopOf(file);
        let make = file_system::make(order.settings(), &device);
        plan.step_on(on, "create the file system", PlanAction::Run(make), None);
        self.add_script(&mut plan, on, &dir);
        let up = Self::tell(&dir, &["up", &name(order), &server.address], Some(device));
        let down = Self::tell(&dir, &["down", &name(order), &server.address], None);
        plan.step_on(on, "export the disk", up.clone(), Some(down));
        let restore = vec![(on.into(), attach), (on.into(), up)];
        let made = StackOutputs {
            description: format!("{} on {}", order.settings().text("fs"), self.about),
            servers: vec![StackServer::kernel_of(on, restore)],
            ..StackOutputs::default()
        };
        Ok((plan, made))
    }

    /// Adds what attaches and mounts it.
    pub(super) fn client(
        &self,
        order: &StackPlanInput<'_>,
        place: ClientPlace<'_>,
    ) -> (Plan, StackOutputs) {
        let (on, dir) = (&*place.node.name, place.dir);
        let server: &PlanNode = &order.site.servers[0];
        let mut plan = Plan::default();
        self.add_script(&mut plan, on, dir);
        let (name, link) = (name(order), format!("{dir}/{LINK}"));
        let seconds = node::fail_after_s(order.settings())
            .unwrap_or(1)
            .to_string();
        let words = ["attach", &name, &server.address, &seconds, &link];
        let attach = Self::tell(dir, &words, None);
        let detach = Self::tell(dir, &["detach", &name, &server.address, &link], None);
        plan.step_on(on, "attach the disk", attach, Some(detach));
        let at = format!("{dir}/mnt");
        let fs = order.settings().text("fs");
        let options = file_system::MOUNT_OPTIONS;
        let disk = [PlanCommandArg::Text(link)];
        file_system::add_mount_at(&mut plan, on, (&disk, fs, options), &at);
        let made = StackOutputs {
            mount_dir: at,
            file_system: fs.into(),
            ..StackOutputs::default()
        };
        (plan, made)
    }

    fn add_script(&self, plan: &mut Plan, on: &str, dir: &str) {
        let write = PlanAction::write_file(format!("{dir}/{SCRIPT}"), self.script);
        // It goes with the directory.
        plan.step_on(on, "install the control script", write, None);
    }

    fn tell(dir: &str, words: &[&str], device: Option<PlanCommandArg>) -> PlanAction {
        let script = PlanCommandArg::Text(format!("{dir}/{SCRIPT}"));
        let words = words.iter().map(|word| PlanCommandArg::from(*word));
        PlanAction::Run(PlanCommand::new(
            "sh",
            [script].into_iter().chain(words).chain(device),
        ))
    }
}

/// The name of the disk on the network: its client, whose steps are in another journal, knows it
/// too.
fn name(order: &StackPlanInput<'_>) -> String {
    order.choice.parts.file_name()
}
