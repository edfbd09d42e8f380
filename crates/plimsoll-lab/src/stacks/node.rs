// SPDX-License-Identifier: Apache-2.0
//! One storage node: a file served over the network and attached as a loop device.
//!
//! The chain: image file; a server of it (tgtd with direct I/O for iSCSI, nbdkit for NBD);
//! qemu-storage-daemon as client, giving the disk on as NBD over a Unix socket; nbdfuse making a
//! file of it; a loop device with direct I/O on that file. qemu-storage-daemon could make
//! the file itself (its FUSE export), but that corrupts data under concurrent writes in the
//! version Debian 12 has: it must not be used here. nbdfuse could reach an NBD server without it,
//! but gives up for ever when the server goes once.

pub(crate) mod chain;
pub(super) mod file_system;
pub(super) mod iscsi;
pub(super) mod nbd;

use plimsoll_core::plan::{self, Action, Cmd, HERE, Plan, Proof, Ready, Server};
use plimsoll_core::settings::{Setting, Unit};
use plimsoll_core::units::{self, Nanos};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use super::{MIN_SIZE_BYTES, Needs, Order, SPARE_BYTES, Unmet};
use chain::{Chain, SECTOR_BYTES};
pub(super) use file_system::{add_mount, add_mount_of};

/// What a stack of such nodes needs on the client, besides the programs of its file system.
pub(super) fn needs(transport: &Transport, programs: &[&'static str]) -> Needs {
    let own = Needs {
        programs: ["mount"].iter().chain(programs).copied().collect(),
        qemu_modules: match transport {
            Transport::Iscsi(_) => vec!["block-iscsi.so"],
            Transport::Nbd(_) => vec![],
        },
        ..Needs::default()
    };
    chain::needs().and(own)
}

/// What such a node needs where it serves from.
pub(super) fn server_needs(transport: &Transport) -> Needs {
    let programs = match transport {
        Transport::Iscsi(_) => &["tgtd", "tgtadm"][..],
        Transport::Nbd(_) => &["nbdkit", "nbdinfo", "timeout"],
    };
    Needs {
        programs: programs
            .iter()
            .chain(&["fallocate", "setsid"])
            .copied()
            .collect(),
        ..Needs::default()
    }
}

/// How long a client waits for a server that is gone, as a setting.
pub(super) const FAIL_AFTER: Setting = Setting {
    name: "fail_after",
    unit: Unit::Time,
    default: "30s",
    help: "time without its server after which the disk fails instead of waiting, from 1s to 1h",
};

/// Reads that setting, in whole seconds.
pub(super) fn fail_after_s(settings: &plimsoll_core::settings::Settings) -> Result<u32, Unmet> {
    let asked = settings.time("fail_after");
    let seconds = asked.0.div_ceil(Nanos::SECOND.0);
    match u32::try_from(seconds) {
        Ok(seconds @ 1..=3600) => Ok(seconds),
        _ => Err(Unmet(vec![format!(
            "fail_after is {asked}, and it is from 1s to 1h"
        )])),
    }
}

/// Longest path of a Unix socket, without its final zero byte.
const MAX_SOCKET_PATH: usize = 107;

/// Longest name of a socket in the stack's directory: tgtd adds `.0` to the name we give.
const SOCKET_NAME: &str = "/tgt0.sock.0";

/// Image sizes are multiples of this, so that every layer agrees on the size.
const SIZE_STEP_BYTES: u64 = 1 << 20;

/// Checks the path of a stack's directory, which stands in the middle of other texts.
pub(super) fn check_path(path: &str) -> Result<(), Unmet> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    if Path::new(path).is_absolute() && path.chars().all(is_safe) {
        return Ok(());
    }
    Err(Unmet(vec![format!(
        "the path {path} stands in option lists and addresses, so it must be absolute and \
         made of letters, digits and /._-+@ only; choose another base directory"
    )]))
}

/// Why there cannot be sockets in the directory of a stack.
pub(super) fn check_sockets(path: &str) -> Option<String> {
    (path.len() + SOCKET_NAME.len() > MAX_SOCKET_PATH).then(|| {
        format!(
            "the path {path} is too long for sockets in it ({MAX_SOCKET_PATH} bytes at most); \
             choose a shorter base directory"
        )
    })
}

/// Checks what all stacks of disks on this machine have in common.
pub(super) fn check(order: &Order<'_>) -> Result<(), Unmet> {
    let path = order.dir();
    let mut unmet = check_path(&path).map_or_else(|unmet| unmet.0, |()| Vec::new());
    unmet.extend(check_sockets(&path));
    unmet.extend(
        check_size(order, order.site.servers.len())
            .err()
            .map_or_else(Vec::new, |unmet| unmet.0),
    );
    let align = order.site.client.direct_align_bytes;
    if align == 0 || align > SECTOR_BYTES {
        unmet.push(format!(
            "direct I/O in units of {SECTOR_BYTES} bytes does not work in {}, so the page \
             cache of the server would be measured; choose another base directory",
            order.site.client.dir
        ));
    }
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(Unmet(unmet))
    }
}

/// Checks the size of the disks, and the room for so many of them on one machine.
pub(super) fn check_size(order: &Order<'_>, disks: usize) -> Result<(), Unmet> {
    let size = order.size_bytes;
    let mut unmet = Vec::new();
    if size < MIN_SIZE_BYTES || !size.is_multiple_of(SIZE_STEP_BYTES) {
        unmet.push(format!(
            "--size of {} is not possible: each disk has at least {}M, in whole MiB",
            units::size(size as f64),
            MIN_SIZE_BYTES >> 20
        ));
    }
    unmet.extend(room(order, disks));
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(Unmet(unmet))
    }
}

/// Checks the room for one more node, the last of those in the order.
pub(super) fn check_room(order: &Order<'_>, nodes: usize) -> Result<(), Unmet> {
    room(order, nodes).map_or(Ok(()), |missing| Err(Unmet(vec![missing])))
}

/// What is missing of the room for so many nodes.
pub(super) fn room(order: &Order<'_>, nodes: usize) -> Option<String> {
    let size = order.size_bytes;
    let needed = size
        .saturating_mul(nodes as u64)
        .saturating_add(SPARE_BYTES);
    // The newest look is that at the last node.
    let node = order.site.servers.last().unwrap_or(&order.site.client);
    (needed > node.free_bytes).then(|| {
        format!(
            "{} has {} MiB free, and {} MiB are needed ({nodes} × {} MiB and {} MiB to spare); \
             choose a smaller size or another base directory",
            node.dir,
            node.free_bytes >> 20,
            needed.div_ceil(1 << 20),
            size >> 20,
            SPARE_BYTES >> 20,
        )
    })
}

/// How the disk gets to the client.
#[derive(Debug)]
pub(super) enum Transport {
    /// iSCSI.
    Iscsi(iscsi::Iscsi),
    /// NBD.
    Nbd(nbd::Nbd),
}

/// One node of a stack.
#[derive(Debug)]
pub(super) struct Node<'a> {
    /// The stack's directory on the client.
    dir: &'a str,
    /// The stack's directory where it serves from.
    server_dir: String,
    /// Number in the stack, from 0.
    number: u16,
    /// Where it serves from.
    server: &'a plan::Node,
    /// Size of its disk.
    size_bytes: u64,
    /// Identifier of the journal.
    id: &'a str,
    transport: &'a Transport,
}

impl Node<'_> {
    /// The way from its client to a block device.
    fn chain(&self) -> Chain<'_> {
        Chain {
            dir: self.dir,
            id: self.id,
            number: self.number,
        }
    }

    fn path(&self, name: &str, suffix: &str) -> String {
        self.chain().path(name, suffix)
    }

    fn server_path(&self, name: &str, suffix: &str) -> String {
        format!("{}/{name}{}{suffix}", self.server_dir, self.number)
    }

    fn mark(&self, name: &str) -> String {
        self.chain().mark(name)
    }

    fn image(&self) -> String {
        self.server_path("disk", ".img")
    }

    fn server_program(&self) -> &'static str {
        match self.transport {
            Transport::Iscsi(_) => "tgtd",
            Transport::Nbd(_) => "nbdkit",
        }
    }

    /// What reports call it.
    pub(super) fn name(&self) -> String {
        if self.server.has_network() {
            return self.server.name.clone();
        }
        format!("{}{}", self.server_program(), self.number)
    }

    /// The mark of its server.
    pub(super) fn server_mark(&self) -> String {
        self.mark(self.server_program())
    }

    /// The file its loop device is attached to.
    pub(super) fn device_file(&self) -> String {
        self.chain().device_file()
    }

    /// Adds the steps that make it.
    pub(super) fn add_to(&self, plan: &mut Plan) {
        let image = self.image();
        let size = self.size_bytes.to_string();
        let reserve = Cmd::new("fallocate", ["--length".into(), size, image.clone()]);
        let remove = Some(Action::RemoveFile(image));
        let why = "reserve the image file";
        plan.step_on(&self.server.name, why, Action::Run(reserve), remove);
        match self.transport {
            Transport::Iscsi(settings) => settings.add_secret(self, plan),
            Transport::Nbd(settings) => settings.add_key(self, plan),
        }
        self.add_server(plan);
        self.add_client(plan);
        self.chain().add_file(plan);
        self.add_loop(plan);
    }

    /// Adds the steps that bring a node back that was taken away: its server, and what of the
    /// client does not come back by itself. Nothing may be mounted on its disk.
    pub(super) fn add_again(&self, plan: &mut Plan) {
        let file = self.device_file();
        plan.step(
            "detach the loop device",
            Action::DetachLoop(file.clone()),
            None,
        );
        for (why, name) in [
            ("end what made the disk a file", "nbdfuse"),
            ("end the client", "qsd"),
        ] {
            let mark = self.mark(name);
            plan.step(why, Action::Stop { mark }, None);
        }
        plan.step("see that the file is free", Action::Unmount(file), None);
        self.add_forgetting(plan);
        self.add_server(plan);
        self.add_client(plan);
        self.add_loop(plan);
    }

    /// What said that the daemons before were ready must not say it of the next.
    pub(super) fn add_forgetting(&self, plan: &mut Plan) {
        for (name, suffix) in [("nbd", ".sock"), ("watch", ".ready")] {
            let path = self.path(name, suffix);
            plan.step("forget an old client", Action::RemoveFile(path), None);
        }
    }

    /// What takes the node away as if its machine had lost its power, and what is left of the
    /// client with it, so that nobody waits for it.
    pub(super) fn lose(&self) -> Vec<(String, Action)> {
        let mut lose = Vec::new();
        if matches!(self.transport, Transport::Iscsi(_)) {
            let mark = self.mark("watch");
            lose.push((HERE.into(), Action::Stop { mark }));
        }
        let mark = self.server_mark();
        lose.push((self.server.name.clone(), Action::Stop { mark }));
        let mark = self.mark("qsd");
        lose.push((HERE.into(), Action::Stop { mark }));
        lose
    }

    fn start_server(&self, plan: &mut Plan, why: &str, cmd: Cmd, ready: Ready) {
        let place = (&*self.server.name, &*self.server_dir);
        let what = (why, self.server_program());
        self.chain().start_on(plan, place, what, cmd, ready);
    }

    fn add_server(&self, plan: &mut Plan) {
        match self.transport {
            Transport::Iscsi(settings) => settings.add_target(self, plan),
            Transport::Nbd(settings) => settings.add_server(self, plan),
        }
    }

    fn add_client(&self, plan: &mut Plan) {
        let (objects, disk) = match self.transport {
            Transport::Iscsi(settings) => settings.client(self),
            Transport::Nbd(settings) => settings.client(self),
        };
        self.chain().add_client(plan, objects, &disk);
        if let Transport::Iscsi(settings) = self.transport {
            let portal = iscsi::Iscsi::portal(self);
            self.chain()
                .add_watchdog(plan, &portal, settings.fail_after_s);
        }
    }

    fn add_loop(&self, plan: &mut Plan) {
        let sector_bytes = match self.transport {
            Transport::Iscsi(settings) => settings.sector_bytes,
            Transport::Nbd(_) => SECTOR_BYTES,
        };
        self.chain().add_loop(plan, self.size_bytes, sector_bytes);
    }

    /// That a flush of the client reaches its disk.
    pub(super) fn flushes(&self) -> Proof {
        Proof::Flushes {
            node: self.server.name.clone(),
            dir: self.server_dir.clone(),
        }
    }

    /// Adds the look at its port before anything is made.
    pub(super) fn add_port(&self, plan: &mut Plan) {
        // NBD has a socket there.
        if !self.server.has_network() && matches!(self.transport, Transport::Iscsi(_)) {
            let why = "use the port of the iSCSI target";
            plan.step(why, Action::PortFree(self.server.first_port), None);
        }
    }

    /// Adds the directory of the node where it is not the client's.
    pub(super) fn add_server_dir(&self, plan: &mut Plan) {
        if !self.server.reach.is_this_machine() {
            add_dir_on(plan, self.server, &self.server_dir);
        }
    }
}

/// The nodes of an order.
pub(super) fn all<'a>(
    order: &'a Order<'_>,
    dir: &'a str,
    transport: &'a Transport,
) -> Vec<Node<'a>> {
    let node = |(number, server): (u16, &'a plan::Node)| Node {
        dir,
        server_dir: order.dir_on(&server.dir),
        number,
        server,
        size_bytes: order.size_bytes,
        id: order.id,
        transport,
    };
    (0..).zip(&order.site.servers).map(node).collect()
}

/// Adds the looks before anything is made, the directory, and the nodes themselves.
pub(super) fn begin(plan: &mut Plan, nodes: &[Node<'_>], dir: &str) {
    for node in nodes {
        node.add_port(plan);
    }
    add_dir(plan, dir);
    for node in nodes {
        node.add_server_dir(plan);
        node.add_to(plan);
    }
}

/// The servers that are watched.
pub(super) fn servers(nodes: &[Node<'_>]) -> Vec<Server> {
    let server = |node: &Node<'_>| Server {
        name: node.name(),
        node: node.server.name.clone(),
        marks: vec![node.server_mark()],
        asked: None,
        restore: Vec::new(),
    };
    nodes.iter().map(server).collect()
}

/// Who may use what a server exports to addresses: this machine alone where the server is one of its
/// processes; else the server's network, since the load may come from any machine of it.
pub(super) fn clients_of(order: &Order<'_>, server: &plan::Node) -> Vec<String> {
    let client = &order.site.client.address;
    if server.reach.is_this_machine() {
        return vec![client.clone()];
    }
    let network = |address: &str| {
        let [a, b, c, _] = address.parse::<Ipv4Addr>().ok()?.octets();
        Some(format!("{a}.{b}.{c}.0/24"))
    };
    let of_server = network(&server.address);
    let is_apart = client.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let own = (!is_apart && network(client) != of_server).then(|| client.clone());
    // Where addresses are names or of version 6, no network can be told.
    let all = of_server.unwrap_or_else(|| "*".into());
    std::iter::once(all).chain(own).collect()
}

/// Adds the directory of a stack on this machine.
pub(super) fn add_dir(plan: &mut Plan, dir: &str) {
    let undo = Some(Action::RemoveDir(dir.into()));
    let why = "make the directory of the stack";
    plan.step(why, Action::MakeDir(dir.into()), undo);
}

/// Adds the directory of a stack where a node serves from.
pub(super) fn add_dir_on(plan: &mut Plan, node: &plan::Node, dir: &str) {
    let undo = Some(Action::RemoveDir(dir.into()));
    let why = "make the directory of the node";
    plan.step_on(&node.name, why, Action::MakeDir(dir.into()), undo);
}
