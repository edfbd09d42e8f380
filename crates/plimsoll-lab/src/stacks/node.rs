// SPDX-License-Identifier: Apache-2.0
//! One storage node: a file served over iSCSI and attached as a loop device.
//!
//! The chain: image file, opened with direct I/O by tgtd; iSCSI over the loopback address;
//! qemu-storage-daemon as initiator, giving the disk on as NBD over a Unix socket; nbdfuse
//! making a file of it; a loop device with direct I/O on that file. qemu-storage-daemon could make
//! the file itself (its FUSE export), but that corrupts data under concurrent writes in the
//! version Debian 12 has: it must not be used here.

use plimsoll_core::plan::{Action, Arg, Cmd, HERE, Plan, Ready, Server};
use std::path::Path;

use super::{MIN_SIZE_BYTES, Needs, Order, SPARE_BYTES, Unmet};

/// What a stack of such nodes needs, besides the programs of its file system.
pub(super) fn needs(programs: &[&'static str]) -> Needs {
    let chain = [
        "tgtd",
        "tgtadm",
        "qemu-storage-daemon",
        "nbdfuse",
        "losetup",
        "mount",
        "umount",
        "setsid",
        "fallocate",
    ];
    Needs {
        programs: chain.iter().chain(programs).copied().collect(),
        qemu_modules: vec!["block-iscsi.so"],
        devices: vec![
            ("/dev/fuse", "modprobe fuse"),
            ("/dev/loop-control", "modprobe loop"),
        ],
        root: true,
    }
}

/// Longest path of a Unix socket, without its final zero byte.
const MAX_SOCKET_PATH: usize = 107;

/// Longest name of a socket in the stack's directory: tgtd adds `.0` to the name we give.
const SOCKET_NAME: &str = "/tgt0.sock.0";

/// iSCSI sectors as tgtd makes them; direct I/O on the image must allow them.
const SECTOR_BYTES: u32 = 512;

/// Image sizes are multiples of this, so that every layer agrees on the size.
const SIZE_STEP_BYTES: u64 = 1 << 20;

/// Checks what all stacks of disks on this machine have in common.
pub(super) fn check(order: &Order<'_>) -> Result<(), Unmet> {
    let mut unmet = Vec::new();
    let path = order.dir();
    let base = &order.site.client.dir;
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    if !Path::new(&path).is_absolute() || !path.chars().all(is_safe) {
        unmet.push(format!(
            "the path {path} stands in option lists and addresses, so it must be absolute and \
             made of letters, digits and /._-+@ only; choose another base directory"
        ));
    }
    if path.len() + SOCKET_NAME.len() > MAX_SOCKET_PATH {
        unmet.push(format!(
            "the path {path} is too long for sockets in it ({MAX_SOCKET_PATH} bytes at most); \
             choose a shorter base directory"
        ));
    }
    let size = order.size_bytes;
    if size < MIN_SIZE_BYTES || !size.is_multiple_of(SIZE_STEP_BYTES) {
        unmet.push(format!(
            "a node of {size} bytes is not possible: at least {MIN_SIZE_BYTES}, in whole MiB"
        ));
    }
    let nodes = order.site.servers.len();
    let needed = size
        .saturating_mul(nodes as u64)
        .saturating_add(SPARE_BYTES);
    let free = order.site.client.free_bytes;
    if needed > free {
        unmet.push(format!(
            "{base} has {} MiB free, and {} MiB are needed ({nodes} × {} MiB and {} MiB to spare); \
             choose a smaller size or another base directory",
            free >> 20,
            needed.div_ceil(1 << 20),
            size >> 20,
            SPARE_BYTES >> 20,
        ));
    }
    let align = order.site.client.direct_align_bytes;
    if align == 0 || align > SECTOR_BYTES {
        unmet.push(format!(
            "direct I/O in units of {SECTOR_BYTES} bytes does not work in {base}, so the page \
             cache of the server would be measured; choose another base directory"
        ));
    }
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(Unmet(unmet))
    }
}

/// One node of a stack.
#[derive(Debug)]
pub(super) struct Node<'a> {
    /// The stack's directory.
    pub(super) dir: &'a str,
    /// Number in the stack, from 0.
    pub(super) number: u16,
    /// Port of its target.
    pub(super) port: u16,
    /// Size of its disk.
    pub(super) size_bytes: u64,
    /// Identifier of the journal.
    pub(super) id: &'a str,
}

impl Node<'_> {
    fn path(&self, name: &str, suffix: &str) -> String {
        format!("{}/{name}{}{suffix}", self.dir, self.number)
    }

    fn mark(&self, name: &str) -> String {
        format!("plimsoll-{}-{name}{}", self.id, self.number)
    }

    fn target(&self) -> String {
        format!("iqn.2026-01.lab.plimsoll:{}.{}", self.id, self.number)
    }

    /// The file its loop device is attached to.
    pub(super) fn device_file(&self) -> String {
        self.path("disk", ".fuse")
    }

    /// Adds the steps that make it.
    pub(super) fn add_to(&self, plan: &mut Plan) {
        let image = self.path("disk", ".img");
        let reserve = Cmd::new(
            "fallocate",
            [
                "--length".into(),
                self.size_bytes.to_string(),
                image.clone(),
            ],
        );
        let remove = Some(Action::RemoveFile(image.clone()));
        plan.step("reserve the image file", Action::Run(reserve), remove);
        self.add_target(plan, &image);
        self.add_initiator(plan);
        self.add_loop(plan);
    }

    fn start(&self, plan: &mut Plan, why: &str, name: &str, cmd: Cmd, ready: Ready) {
        let mark = self.mark(name);
        let stop = Action::Stop { mark: mark.clone() };
        let start = Action::Start {
            cmd,
            mark,
            log: self.path(name, ".log"),
            ready,
        };
        plan.step(why, start, Some(stop));
    }

    fn add_target(&self, plan: &mut Plan, image: &str) {
        let control = self.path("tgt", ".sock");
        let portal = format!("portal=127.0.0.1:{}", self.port);
        let tgtd = Cmd::new("tgtd", ["-f", "--iscsi", &portal]).env("TGT_IPC_SOCKET", &control);
        let ready = Ready::Port(self.port);
        self.start(plan, "start the iSCSI target", "tgtd", tgtd, ready);
        let target = self.target();
        // What these set up lives in tgtd and ends with it: nothing to undo.
        let mut admin = |why: &str, args: &[&str]| {
            let all = ["--lld", "iscsi", "--op"].iter().chain(args);
            let cmd = Cmd::new("tgtadm", all.copied()).env("TGT_IPC_SOCKET", &control);
            plan.step(why, Action::Run(cmd), None);
        };
        admin(
            "define the iSCSI target",
            &[
                "new",
                "--mode",
                "target",
                "--tid",
                "1",
                "--targetname",
                &target,
            ],
        );
        // Direct: else the server's page cache answers and the disk is not measured.
        admin(
            "define the logical unit",
            &[
                "new",
                "--mode",
                "logicalunit",
                "--tid",
                "1",
                "--lun",
                "1",
                "--bstype",
                "rdwr",
                "--bsoflags",
                "direct",
                "--backing-store",
                image,
            ],
        );
        // The portal listens on the loopback address only.
        admin(
            "open the iSCSI target",
            &[
                "bind",
                "--mode",
                "target",
                "--tid",
                "1",
                "--initiator-address",
                "ALL",
            ],
        );
    }

    fn add_initiator(&self, plan: &mut Plan) {
        let disk = format!(
            "driver=iscsi,node-name=lun,transport=tcp,portal=127.0.0.1:{},target={},lun=1,\
             initiator-name={}.client,cache.direct=on,timeout=30",
            self.port,
            self.target(),
            self.target()
        );
        let server = format!(
            "addr.type=unix,addr.path={},max-connections=8",
            self.path("nbd", ".sock")
        );
        let export = "type=nbd,id=nbd,node-name=lun,name=lun,writable=on";
        // Written when all options have been carried out: the socket exists a moment earlier.
        let pid_file = self.path("qsd", ".pid");
        let args = [
            "--blockdev",
            &disk,
            "--nbd-server",
            &server,
            "--export",
            export,
            "--pidfile",
            &pid_file,
        ];
        let cmd = Cmd::new("qemu-storage-daemon", args);
        let ready = Ready::Exists(pid_file.clone());
        self.start(plan, "connect the iSCSI initiator", "qsd", cmd, ready);
    }

    fn add_loop(&self, plan: &mut Plan) {
        let file = self.device_file();
        // Undone after nbdfuse has been ended: normally it has unmounted itself by then, but not
        // when it was killed. The file goes with the directory.
        plan.step(
            "make the file that becomes the disk",
            Action::MakeFile {
                path: file.clone(),
                bytes: 0,
            },
            Some(Action::Unmount(file.clone())),
        );
        let uri = format!("nbd+unix:///lun?socket={}", self.path("nbd", ".sock"));
        let ready = Ready::Size {
            path: file.clone(),
            bytes: self.size_bytes,
        };
        let cmd = Cmd::new("nbdfuse", [&*file, &*uri]);
        self.start(plan, "make the disk a file", "nbdfuse", cmd, ready);
        plan.step(
            "attach a loop device",
            Action::AttachLoop(file.clone()),
            Some(Action::DetachLoop(file)),
        );
    }
}

/// Adds the steps from loop devices to a mounted file system: the commands of `make` make it,
/// `source` is one of the files behind the loop devices.
pub(super) fn add_mount(
    plan: &mut Plan,
    make: impl IntoIterator<Item = (&'static str, Cmd)>,
    source: &str,
    file_system: &str,
    at: &str,
) {
    for (why, cmd) in make {
        plan.step(why, Action::Run(cmd), None);
    }
    plan.step(
        "make the mount point",
        Action::MakeDir(at.into()),
        Some(Action::RemoveDir(at.into())),
    );
    let args = [
        Arg::from("-t"),
        file_system.into(),
        Arg::LoopOf(source.into()),
        at.into(),
    ];
    plan.step(
        "mount the file system",
        Action::Run(Cmd::new("mount", args)),
        Some(Action::Unmount(at.into())),
    );
    let is_mounted = Action::MountIs {
        path: at.into(),
        file_system: file_system.into(),
    };
    plan.step("see the file system mounted", is_mounted, None);
}

/// The nodes of an order.
pub(super) fn all<'a>(order: &'a Order<'_>, dir: &'a str) -> Vec<Node<'a>> {
    let node = |(number, server): (u16, &'a plimsoll_core::plan::Node)| Node {
        dir,
        number,
        port: server.first_port,
        size_bytes: order.size_bytes,
        id: order.id,
    };
    (0..).zip(&order.site.servers).map(node).collect()
}

/// Adds the looks before anything is made, the directory, and the nodes themselves.
pub(super) fn begin(plan: &mut Plan, nodes: &[Node<'_>], dir: &str) {
    for node in nodes {
        add_port(plan, node.port);
    }
    add_dir(plan, dir);
    for node in nodes {
        node.add_to(plan);
    }
}

/// The servers that are watched: the targets.
pub(super) fn servers(nodes: &[Node<'_>]) -> Vec<Server> {
    let server = |node: &Node<'_>| Server {
        name: format!("tgtd{}", node.number),
        node: HERE.into(),
        marks: vec![node.mark("tgtd")],
    };
    nodes.iter().map(server).collect()
}

/// Adds the directory of a stack.
pub(super) fn add_dir(plan: &mut Plan, dir: &str) {
    plan.step(
        "make the directory of the stack",
        Action::MakeDir(dir.into()),
        Some(Action::RemoveDir(dir.into())),
    );
}

/// Adds the look at a port before anything is made.
fn add_port(plan: &mut Plan, port: u16) {
    plan.step(
        "use the port of the iSCSI target",
        Action::PortFree(port),
        None,
    );
}
