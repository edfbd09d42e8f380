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

use plimsoll_core::plan::{
    self, HERE, Plan, PlanAction, PlanCommand, PlanReadinessCheck, StackSelfTest, StackServer,
};
use plimsoll_core::settings::{SettingDefinition, SettingUnit};
use plimsoll_core::units::{self, Nanos};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use super::{MIN_SIZE_BYTES, PreconditionError, SPARE_BYTES, StackPlanInput, StackRequirements};
use chain::{ClientDiskChain, SECTOR_BYTES};
pub(super) use file_system::{add_mount_at, add_mount_of};

/// Requirements of a stack of such nodes on the client, besides the programs of its file system.
pub(super) fn needs(transport: &ExportTransport, programs: &[&'static str]) -> StackRequirements {
    let own = StackRequirements {
        programs: ["mount"].iter().chain(programs).copied().collect(),
        qemu_modules: match transport {
            ExportTransport::Iscsi(_) => vec!["block-iscsi.so"],
            ExportTransport::Nbd(_) => vec![],
        },
        ..StackRequirements::default()
    };
    chain::needs().and(own)
}

/// Requirements of such a node on the machine it serves from.
pub(super) fn server_needs(transport: &ExportTransport) -> StackRequirements {
    let programs = match transport {
        ExportTransport::Iscsi(_) => &["tgtd", "tgtadm"][..],
        ExportTransport::Nbd(_) => &["nbdkit", "nbdinfo", "timeout"],
    };
    StackRequirements {
        programs: programs
            .iter()
            .chain(&["fallocate", "setsid"])
            .copied()
            .collect(),
        ..StackRequirements::default()
    }
}

/// How long a client waits for a server that is gone, as a setting.
pub(super) const FAIL_AFTER: SettingDefinition = SettingDefinition {
    name: "fail_after",
    unit: SettingUnit::Time,
    default: "30s",
    help: "time without its server after which I/O fails instead of waiting, 1s to 1h",
};

/// Reads that setting, in whole seconds.
pub(super) fn fail_after_s(
    settings: &plimsoll_core::settings::SettingValues,
) -> Result<u32, PreconditionError> {
    let asked = settings.time("fail_after");
    let seconds = asked.0.div_ceil(Nanos::SECOND.0);
    match u32::try_from(seconds) {
        Ok(seconds @ 1..=3600) => Ok(seconds),
        _ => Err(PreconditionError(vec![format!(
            "invalid value '{}' for fail_after: expected a time from 1s to 1h",
            settings.text("fail_after")
        )])),
    }
}

/// Reads how many operations a server works on at the same time.
pub(super) fn threads(
    settings: &plimsoll_core::settings::SettingValues,
) -> Result<u32, PreconditionError> {
    let threads = settings.count_within("threads", 1, 256);
    threads.map_err(|error| PreconditionError(vec![error.to_string()]))
}

/// Longest path of a Unix socket, without its final zero byte.
const MAX_SOCKET_PATH: usize = 107;

/// Longest name of a socket in the stack's directory, or of a node's; tgtd adds `.0` to the name we give.
const SOCKET_NAME: &str = "/glusterd.sock";

/// Image sizes are multiples of this, so that every layer agrees on the size.
const SIZE_STEP_BYTES: u64 = 1 << 20;

/// Checks the path of a stack's directory, which becomes part of commands and settings files.
pub(super) fn check_path(path: &str) -> Result<(), PreconditionError> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    if Path::new(path).is_absolute() && path.chars().all(is_safe) {
        return Ok(());
    }
    Err(PreconditionError(vec![format!(
        "invalid path {path}: expected an absolute path of letters, digits and /._-+@ only; choose \
         another base directory"
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
pub(super) fn check(order: &StackPlanInput<'_>) -> Result<(), PreconditionError> {
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
        Err(PreconditionError(unmet))
    }
}

/// Checks the size of the disks, and the room for `disks` of them on one machine.
pub(super) fn check_size(
    order: &StackPlanInput<'_>,
    disks: usize,
) -> Result<(), PreconditionError> {
    let size = order.size_bytes;
    let mut unmet = Vec::new();
    if size < MIN_SIZE_BYTES || !size.is_multiple_of(SIZE_STEP_BYTES) {
        unmet.push(format!(
            "invalid --size {}: expected at least {}M for each disk, in whole MiB",
            units::size(size as f64),
            MIN_SIZE_BYTES >> 20
        ));
    }
    unmet.extend(room(order, disks));
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(PreconditionError(unmet))
    }
}

/// Checks the room for one more node, the last of those in the order.
pub(super) fn check_room(
    order: &StackPlanInput<'_>,
    nodes: usize,
) -> Result<(), PreconditionError> {
    room(order, nodes).map_or(Ok(()), |missing| Err(PreconditionError(vec![missing])))
}

/// The shortage of room for this number of nodes.
pub(super) fn room(order: &StackPlanInput<'_>, nodes: usize) -> Option<String> {
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
pub(super) enum ExportTransport {
    /// iSCSI.
    Iscsi(iscsi::IscsiExportOptions),
    /// NBD.
    Nbd(nbd::NbdExportOptions),
}

/// One node of a stack.
#[derive(Debug)]
pub(super) struct ExportedDisk<'a> {
    /// The stack's directory on the client.
    dir: &'a str,
    /// The stack's directory where it serves from.
    server_dir: String,
    /// Number in the stack, from 0.
    number: u16,
    /// Where it serves from.
    server: &'a plan::PlanNode,
    /// Size of its disk.
    size_bytes: u64,
    /// Identifier of the journal.
    id: &'a str,
    transport: &'a ExportTransport,
}

impl ExportedDisk<'_> {
    /// The way from its client to a block device.
    fn chain(&self) -> ClientDiskChain<'_> {
        ClientDiskChain {
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
            ExportTransport::Iscsi(_) => "tgtd",
            ExportTransport::Nbd(_) => "nbdkit",
        }
    }

    /// Its name in reports.
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
        let reserve = PlanCommand::new("fallocate", ["--length".into(), size, image.clone()]);
        let remove = Some(PlanAction::RemoveFile(image));
        let why = "allocate the image file";
        plan.step_on(&self.server.name, why, PlanAction::Run(reserve), remove);
        plan.lasting();
        match self.transport {
            ExportTransport::Iscsi(settings) => settings.add_secret(self, plan),
            ExportTransport::Nbd(settings) => settings.add_key(self, plan),
        }
        self.add_server(plan);
        self.add_client(plan);
        self.chain().add_mount_point(plan);
        self.add_loop(plan);
    }

    /// Adds the steps that bring a node back that was taken away: its server, and what of the
    /// client does not come back by itself. Nothing may be mounted on its disk.
    pub(super) fn add_again(&self, plan: &mut Plan) {
        let file = self.device_file();
        plan.step("detach the loop device", PlanAction::DetachLoop(file), None);
        for (why, name) in [("stop nbdfuse", "nbdfuse"), ("stop the client", "qsd")] {
            let mark = self.mark(name);
            plan.step(why, PlanAction::Stop { mark }, None);
        }
        plan.step(
            "unmount nbdfuse if it is mounted",
            PlanAction::Unmount(self.chain().mount_point()),
            None,
        );
        self.add_forgetting(plan);
        self.add_server(plan);
        self.add_client(plan);
        self.add_loop(plan);
    }

    /// Ready files of earlier daemons must not make the next ones seem ready.
    pub(super) fn add_forgetting(&self, plan: &mut Plan) {
        for (name, suffix) in [("nbd", ".sock"), ("watch", ".ready")] {
            let path = self.path(name, suffix);
            plan.step(
                "remove stale client files",
                PlanAction::RemoveFile(path),
                None,
            );
        }
    }

    /// Actions that take the node away as if its machine had lost its power, and the rest of the
    /// client with it, so that no process waits for it.
    pub(super) fn lose(&self) -> Vec<(String, PlanAction)> {
        let mut lose = Vec::new();
        if matches!(self.transport, ExportTransport::Iscsi(_)) {
            let mark = self.mark("watch");
            lose.push((HERE.into(), PlanAction::Stop { mark }));
        }
        let mark = self.server_mark();
        lose.push((self.server.name.clone(), PlanAction::Stop { mark }));
        let mark = self.mark("qsd");
        lose.push((HERE.into(), PlanAction::Stop { mark }));
        lose
    }

    fn start_server(
        &self,
        plan: &mut Plan,
        why: &str,
        cmd: PlanCommand,
        ready: PlanReadinessCheck,
    ) {
        let place = (&*self.server.name, &*self.server_dir);
        let what = (why, self.server_program());
        self.chain().start_on(plan, place, what, cmd, ready);
    }

    /// Actions that start its server again, whose client finds it by itself.
    pub(super) fn restart(&self) -> Vec<(String, PlanAction)> {
        let mut plan = Plan::default();
        self.add_server(&mut plan);
        let steps = plan.steps.into_iter();
        steps.map(|step| (step.node, step.apply)).collect()
    }

    fn add_server(&self, plan: &mut Plan) {
        match self.transport {
            ExportTransport::Iscsi(settings) => settings.add_target(self, plan),
            ExportTransport::Nbd(settings) => settings.add_server(self, plan),
        }
    }

    fn add_client(&self, plan: &mut Plan) {
        let (objects, disk) = match self.transport {
            ExportTransport::Iscsi(settings) => settings.client(self),
            ExportTransport::Nbd(settings) => settings.client(self),
        };
        self.chain().add_client(plan, objects, &disk);
        if let ExportTransport::Iscsi(settings) = self.transport {
            let portal = iscsi::IscsiExportOptions::portal(self);
            self.chain()
                .add_watchdog(plan, &portal, settings.fail_after_s);
        }
    }

    fn add_loop(&self, plan: &mut Plan) {
        let sector_bytes = match self.transport {
            ExportTransport::Iscsi(settings) => settings.sector_bytes,
            ExportTransport::Nbd(_) => SECTOR_BYTES,
        };
        self.chain().add_loop(plan, self.size_bytes, sector_bytes);
    }

    /// That a flush of the client reaches its disk.
    pub(super) fn flushes(&self) -> StackSelfTest {
        StackSelfTest::Flushes {
            node: self.server.name.clone(),
            dir: self.server_dir.clone(),
        }
    }

    /// Adds the look at its port before anything is made.
    pub(super) fn add_port(&self, plan: &mut Plan) {
        // NBD has a socket there.
        if !self.server.has_network() && matches!(self.transport, ExportTransport::Iscsi(_)) {
            let why = "check that the iSCSI port is free";
            plan.step(why, PlanAction::PortFree(self.server.first_port), None);
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
    order: &'a StackPlanInput<'_>,
    dir: &'a str,
    transport: &'a ExportTransport,
) -> Vec<ExportedDisk<'a>> {
    let node = |(number, server): (u16, &'a plan::PlanNode)| ExportedDisk {
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
pub(super) fn begin(plan: &mut Plan, nodes: &[ExportedDisk<'_>], dir: &str) {
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
pub(super) fn servers(nodes: &[ExportedDisk<'_>]) -> Vec<StackServer> {
    let server = |node: &ExportedDisk<'_>| StackServer {
        name: node.name(),
        ..StackServer::on(&node.server.name, vec![node.server_mark()])
    };
    nodes.iter().map(server).collect()
}

/// The programs that make disks of this machine of what the servers export.
pub(super) fn client_programs(nodes: &[ExportedDisk<'_>]) -> Vec<StackServer> {
    let programs = [("qemu-storage-daemon", "qsd"), ("nbdfuse", "nbdfuse")];
    let program = |(name, mark)| client_program(name, nodes.iter().map(|node| node.mark(mark)));
    programs.map(program).into()
}

/// A program of this machine between the load and the servers.
pub(super) fn client_program(name: &str, marks: impl IntoIterator<Item = String>) -> StackServer {
    StackServer {
        name: name.into(),
        ..StackServer::on(HERE, marks.into_iter().collect())
    }
}

/// Who may use what a server exports to addresses: this machine alone where the server is one of its
/// processes; else the server's network, since the load may come from any machine of it.
pub(super) fn clients_of(order: &StackPlanInput<'_>, server: &plan::PlanNode) -> Vec<String> {
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
    // Where addresses are names or of version 6, no network can be derived.
    let all = of_server.unwrap_or_else(|| "*".into());
    std::iter::once(all).chain(own).collect()
}

/// Adds the directory of a stack on this machine.
pub(super) fn add_dir(plan: &mut Plan, dir: &str) {
    let undo = Some(PlanAction::RemoveDir(dir.into()));
    let why = "create the stack directory";
    plan.step(why, PlanAction::MakeDir(dir.into()), undo);
}

/// Adds the directory of a stack where a node serves from.
pub(super) fn add_dir_on(plan: &mut Plan, node: &plan::PlanNode, dir: &str) {
    let undo = Some(PlanAction::RemoveDir(dir.into()));
    let why = "create the node directory";
    plan.step_on(&node.name, why, PlanAction::MakeDir(dir.into()), undo);
}
