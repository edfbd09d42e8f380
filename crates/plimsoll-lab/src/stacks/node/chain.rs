// SPDX-License-Identifier: Apache-2.0
//! From the client of a disk to a block device of this machine: qemu-storage-daemon asks, nbdfuse
//! makes a file of what it gives on, a loop device makes a disk of the file.

use plimsoll_core::plan::{
    HERE, Plan, PlanAction, PlanCommand, PlanCommandArg, PlanReadinessCheck,
};

use crate::stacks::StackRequirements;
use plimsoll_machine::host::watchdog;

/// Default sector size of a loop device.
pub(crate) const SECTOR_BYTES: u32 = 512;

/// Requirements of such a chain.
pub(crate) fn needs() -> StackRequirements {
    StackRequirements {
        programs: vec![
            "qemu-storage-daemon",
            "nbdfuse",
            "nbdinfo",
            "losetup",
            "blockdev",
            "umount",
            "setsid",
        ],
        devices: vec![
            ("/dev/fuse", "modprobe fuse"),
            ("/dev/loop-control", "modprobe loop"),
        ],
        root: true,
        ..StackRequirements::default()
    }
}

/// The mark of what a daemon of a chain depends on, by its own mark: nbdfuse ends when the client does.
pub(crate) fn server_of(mark: &str) -> Option<String> {
    let (begin, number) = mark.rsplit_once("-nbdfuse")?;
    Some(format!("{begin}-qsd{number}"))
}

/// One chain: where it lies, and what its parts are called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientDiskChain<'a> {
    /// A directory of ours on this machine.
    pub(crate) dir: &'a str,
    /// Identifier of the journal.
    pub(crate) id: &'a str,
    /// Number in that directory, from 0.
    pub(crate) number: u16,
}

impl ClientDiskChain<'_> {
    pub(crate) fn path(&self, name: &str, suffix: &str) -> String {
        format!("{}/{name}{}{suffix}", self.dir, self.number)
    }

    pub(crate) fn mark(&self, name: &str) -> String {
        format!("plimsoll-{}-{name}{}", self.id, self.number)
    }

    /// Where nbdfuse mounts the file system that consists of that file.
    pub(crate) fn mount_point(&self) -> String {
        self.path("disk", ".fuse")
    }

    /// The file its loop device is attached to. When nbdfuse ends, its mount goes, and the kernel still knows
    /// this name of the file, but no longer where it was.
    pub(crate) fn device_file(&self) -> String {
        format!("{}/{}", self.mount_point(), self.mark("disk"))
    }

    /// Where the client gives the disk on.
    fn uri(&self) -> String {
        format!("nbd+unix:///lun?socket={}", self.path("nbd", ".sock"))
    }

    /// Adds a daemon of this machine.
    fn start(
        &self,
        plan: &mut Plan,
        (why, name): (&str, &str),
        cmd: PlanCommand,
        ready: PlanReadinessCheck,
    ) {
        self.start_on(plan, (HERE, self.dir), (why, name), cmd, ready);
    }

    /// Adds a daemon of a node, its output in this directory there.
    pub(crate) fn start_on(
        &self,
        plan: &mut Plan,
        (node, dir): (&str, &str),
        (why, name): (&str, &str),
        cmd: PlanCommand,
        ready: PlanReadinessCheck,
    ) {
        let mark = self.mark(name);
        let stop = PlanAction::Stop { mark: mark.clone() };
        let start = PlanAction::Start {
            cmd,
            mark,
            log: format!("{dir}/{name}{}.log", self.number),
            ready,
        };
        plan.step_on(node, why, start, Some(stop));
    }

    /// Adds the client. `objects` are options before its disk, which has the name `lun`.
    pub(crate) fn add_client(&self, plan: &mut Plan, objects: Vec<PlanCommandArg>, disk: &str) {
        let server = format!(
            "addr.type=unix,addr.path={},max-connections=8",
            self.path("nbd", ".sock")
        );
        let export = "type=nbd,id=nbd,node-name=lun,name=lun,writable=on";
        let mut args = objects;
        for (option, value) in [
            ("--blockdev", disk),
            ("--nbd-server", &*server),
            ("--export", export),
        ] {
            args.extend([option.into(), value.into()]);
        }
        let cmd = PlanCommand::new("qemu-storage-daemon", args);
        // The socket exists before anybody answers at it, and after a kill.
        let ready =
            PlanReadinessCheck::Succeeds(PlanCommand::new("nbdinfo", ["--size", &self.uri()]));
        self.start(plan, ("connect the client", "qsd"), cmd, ready);
    }

    /// Adds what ends the client of an iSCSI target that is gone for too long: alone it would wait
    /// for ever.
    pub(crate) fn add_watchdog(&self, plan: &mut Plan, portal: &str, fail_after_s: u32) {
        let ready = self.path("watch", ".ready");
        let cmd = watchdog::command(portal, fail_after_s, &self.mark("qsd"), &ready);
        let ready = PlanReadinessCheck::Exists(ready);
        self.start(plan, ("start the target watchdog", "watch"), cmd, ready);
    }

    /// Adds the directory that the disk appears in.
    pub(crate) fn add_mount_point(&self, plan: &mut Plan) {
        let make = PlanAction::MakeDir(self.mount_point());
        let remove = PlanAction::RemoveDir(self.mount_point());
        plan.step("create the mount point of nbdfuse", make, Some(remove));
        // Undone after nbdfuse has been ended: normally it has unmounted itself by then, but not
        // when it was killed.
        let free = PlanAction::Unmount(self.mount_point());
        plan.step("unmount nbdfuse if it is mounted", free.clone(), Some(free));
    }

    /// Adds the disk, which has at least `bytes`, in sectors of `sector_bytes`.
    pub(crate) fn add_loop(&self, plan: &mut Plan, bytes: u64, sector_bytes: u32) {
        let file = self.device_file();
        let uri = self.uri();
        let ready = PlanReadinessCheck::Size {
            path: file.clone(),
            bytes,
        };
        let cmd = PlanCommand::new("nbdfuse", [&*file, &*uri]);
        self.start(plan, ("expose the disk as a file", "nbdfuse"), cmd, ready);
        let attach = if sector_bytes > SECTOR_BYTES {
            // The client refuses parts of sectors, so the loop device must not ask for any.
            let sectors = format!("--sector-size={sector_bytes}");
            let args = ["--find", "--direct-io=on", &sectors, &file];
            PlanAction::Run(PlanCommand::new("losetup", args))
        } else {
            PlanAction::AttachLoop(file.clone())
        };
        let detach = Some(PlanAction::DetachLoop(file));
        plan.step("attach a loop device", attach, detach);
    }
}
