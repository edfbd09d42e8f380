// SPDX-License-Identifier: Apache-2.0
//! The machines that are wanted, and the steps that make them.

use plimsoll_core::plan::{
    NodeTransport, Plan, PlanAction, PlanCommand, PlanNode, PlanReadinessCheck, PlanStep,
};

use super::machine::{VmAcceleration, VmCommonConfig, VmConfig, file_in};
use super::{VmCommandTemplate, VmError, switch};
use crate::stacks::site::bridge_name;
use plimsoll_machine::host::SWITCH;
use plimsoll_machine::host::{Host, network, watchdog};

/// Last number of this machine's address in the machines' network.
const HERE_NUMBER: u8 = 254;

/// Last number of the first client's address; those of nodes begin with 1.
const FIRST_CLIENT: u8 = 101;

/// Most nodes, and most clients.
const EACH_MAX: u16 = 20;

/// Where everything is made on a machine: on the disk that a power cut leaves as it is.
const DATA_DIR: &str = "/data/plimsoll";

/// The command with which machines cut each other's power.
const GUEST_POWER: &str = "/lab/power";

/// How long a machine may take until it is ready: under emulation, with others beside it.
const BOOT_LIMIT_S: u32 = 240;

/// Least memory that the image boots with.
const MEMORY_MIN: u64 = 256 << 20;

/// Least size of a disk: a file system with a journal.
const DISK_MIN: u64 = 64 << 20;

/// Most bytes in the path of a socket, as the kernel has it, without what names a machine's.
const DIR_MAX: usize = 107 - "/c20.port7".len();

/// How the cables of machines are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VmNetworkKind {
    /// By a bridge, which puts this machine into their network. Only root can make one.
    Bridge,
    /// By a multicast group on the loopback interface of this machine, which is not in their network.
    Group,
}

impl VmNetworkKind {
    /// The best that this user can have.
    pub(super) fn of(host: &dyn Host) -> VmNetworkKind {
        match host.is_root() {
            true => VmNetworkKind::Bridge,
            false => VmNetworkKind::Group,
        }
    }
}

/// The multicast group of the machines of a journal: an address for use within an organisation (RFC 2365) and
/// a port that other programs are unlikely to use. Packets of other programs would be dropped because of
/// their addresses.
fn group(id: &str) -> String {
    let [a, b, c, d, ..] = network::fingerprint(id).to_le_bytes();
    let port = 20_000 + u16::from_le_bytes([c, d]) % 20_000;
    format!("239.192.{a}.{b}:{port}")
}

/// The machines that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmGroupSpec {
    /// Machines that serve: `n1`, `n2`, ...
    pub nodes: u16,
    /// Machines that load comes from: `c1`, ...
    pub clients: u16,
    /// Memory of each.
    pub memory_bytes: u64,
    /// Size of each disk.
    pub disk_bytes: u64,
    /// Disks of each besides the one for data.
    pub disks: u16,
}

impl VmGroupSpec {
    /// Whether they can be made at all.
    ///
    /// # Errors
    /// When a number is out of its range.
    pub fn check(&self) -> Result<(), VmError> {
        let refuse = |text: String| Err(VmError::Wanted(text));
        if self.nodes + self.clients == 0 {
            return refuse(
                "no machine requested: give at least one of --node-count or --client-count".into(),
            );
        }
        if self.nodes > EACH_MAX || self.clients > EACH_MAX {
            return refuse(format!(
                "too many machines: --node-count {} and --client-count {}, at most {EACH_MAX} of each",
                self.nodes, self.clients
            ));
        }
        if self.memory_bytes < MEMORY_MIN {
            let least = MEMORY_MIN >> 20;
            return refuse(format!(
                "--memory: expected at least {least}M for each machine"
            ));
        }
        if self.disk_bytes < DISK_MIN {
            return refuse(format!("--disk: expected at least {}M", DISK_MIN >> 20));
        }
        if self.disks > 8 {
            return refuse(format!("too many --disks: {}, at most 8", self.disks));
        }
        Ok(())
    }
}

/// Sockets have short names.
pub(super) fn check_dir(dir: &str) -> Result<(), VmError> {
    // QEMU takes a comma for the end of a value.
    if dir.len() <= DIR_MAX && !dir.contains(',') {
        return Ok(());
    }
    Err(VmError::State(format!(
        "{dir} cannot hold the sockets of machines: its name may have at most {DIR_MAX} letters \
         and no comma; set PLIMSOLL_STATE to a shorter one"
    )))
}

/// The address of this machine beside that of a machine.
pub(super) fn address_here(of_machine: &str) -> String {
    let network = of_machine
        .rsplit_once('.')
        .map_or("", |(network, _)| network);
    format!("{network}.{HERE_NUMBER}")
}

/// Mark of a machine's process.
pub(super) fn mark(id: &str, name: &str) -> String {
    format!("plimsoll-{id}-{name}")
}

/// Whether a step is one of those that bring the machine of this name up.
pub(super) fn starts(step: &PlanStep, name: &str) -> bool {
    [why_start(name), why_wait(name), why_look(name)].contains(&step.why)
}

fn why_start(name: &str) -> String {
    format!("start machine {name}")
}

fn why_wait(name: &str) -> String {
    format!("wait until machine {name} is ready")
}

fn why_look(name: &str) -> String {
    format!("check that machine {name} is ready")
}

/// Machines that are going to be made.
#[derive(Debug)]
pub(super) struct VmGroupPlan<'a> {
    wanted: &'a VmGroupSpec,
    id: &'a str,
    dir: &'a str,
    network: u8,
    wires: VmNetworkKind,
    pub(super) nodes: Vec<PlanNode>,
}

impl<'a> VmGroupPlan<'a> {
    pub(super) fn new(
        wanted: &'a VmGroupSpec,
        (id, dir, network): (&'a str, &'a str, u8),
        wires: VmNetworkKind,
        commands: &VmCommandTemplate,
    ) -> Self {
        let numbers = |count: u16, first: u8| (first..).take(count.into());
        let node = |name: String, number: u8| PlanNode {
            reach: NodeTransport::Agent(commands.shell_of(&name)),
            address: format!("10.92.{network}.{number}"),
            dir: DATA_DIR.into(),
            free_bytes: 0,
            direct_align_bytes: 0,
            first_port: 0,
            power: commands.power_of(&name),
            fence: vec![GUEST_POWER.into()],
            fence_next: Vec::new(),
            faults: commands.faults_of(&name),
            name,
        };
        let servers = numbers(wanted.nodes, 1).map(|n| node(format!("n{n}"), n));
        let clients = numbers(wanted.clients, FIRST_CLIENT);
        let clients = clients.map(|n| node(format!("c{}", n - FIRST_CLIENT + 1), n));
        VmGroupPlan {
            nodes: servers.chain(clients).collect(),
            wanted,
            id,
            dir,
            network,
            wires,
        }
    }

    /// The steps that make them, all started before the first is waited for.
    pub(super) fn steps(&self, image: &str, acceleration: VmAcceleration) -> Plan {
        let names = self.nodes.iter();
        let names = names.map(|node| format!("{}={}", node.name, node.address));
        let hosts = names.collect::<Vec<_>>().join(",");
        let common = VmCommonConfig {
            image,
            dir: self.dir,
            acceleration,
            memory_mib: self.wanted.memory_bytes >> 20,
            disks: self.wanted.disks,
            hosts: &hosts,
        };
        let mut plan = Plan::default();
        plan.step(
            "create a folder for the machines",
            PlanAction::MakeDir(self.dir.into()),
            Some(PlanAction::RemoveDir(self.dir.into())),
        );
        let here = format!("10.92.{}.{HERE_NUMBER}", self.network);
        let bridge = bridge_name(&here);
        if self.wires == VmNetworkKind::Bridge {
            plan.step(
                "create the network of the machines",
                PlanAction::MakeBridge {
                    name: bridge.clone(),
                    address: format!("{here}/24"),
                },
                Some(PlanAction::RemoveLink(bridge.clone())),
            );
        }
        self.add_switch(&mut plan);
        for node in &self.nodes {
            self.add_machine(&mut plan, &common, node, &bridge);
        }
        for node in &self.nodes {
            let console = common.file(&node.name, "console");
            // One word ends the wait, whichever it is; what it said is looked at then.
            let words = ["-q", "^plimsoll-[rf]", &console];
            let wait = PlanCommand::new("grep", words).within_s(BOOT_LIMIT_S);
            plan.step(&why_wait(&node.name), PlanAction::Await(wait), None);
            let words = ["^plimsoll-ready", &console];
            let look = PlanAction::Run(PlanCommand::new("grep", words));
            plan.step(&why_look(&node.name), look, None);
        }
        plan
    }

    /// The daemon that machines ask about each other's power.
    fn add_switch(&self, plan: &mut Plan) {
        let options = ["--dir", self.dir, "--id", self.id];
        let names = self.nodes.iter().map(|node| &*node.name);
        let words = SWITCH.into_iter().chain(options).chain(names);
        let mark = mark(self.id, "switch");
        let start = PlanAction::Start {
            cmd: PlanCommand::new(watchdog::PROGRAM, words.map(str::to_owned)),
            mark: mark.clone(),
            log: format!("{}/switch.log", self.dir),
            ready: PlanReadinessCheck::Exists(format!("{}/{}", self.dir, switch::READY)),
        };
        let stop = Some(PlanAction::Stop { mark });
        plan.step("start the power switch of the machines", start, stop);
    }

    fn add_machine(
        &self,
        plan: &mut Plan,
        common: &VmCommonConfig<'_>,
        node: &PlanNode,
        bridge: &str,
    ) {
        let name = &node.name;
        for (path, serial) in common.disks(name) {
            // They go with the folder.
            let bytes = self.wanted.disk_bytes;
            let why = format!("create disk {serial} of machine {name}");
            plan.step(&why, PlanAction::MakeFile { path, bytes }, None);
        }
        let number = node.address.rsplit('.').next();
        let number = number.and_then(|number| number.parse().ok()).unwrap_or(0);
        let (cable, ready) = self.cable(name, bridge);
        let machine = VmConfig {
            name,
            address: &format!("{}/24", node.address),
            hardware: (self.network, number),
            cable: &cable,
        };
        let mark = mark(self.id, name);
        let start = PlanAction::Start {
            cmd: common.command(&machine),
            mark: mark.clone(),
            log: file_in(self.dir, name, "log"),
            ready,
        };
        plan.step(&why_start(name), start, Some(PlanAction::Stop { mark }));
    }

    /// The network device that QEMU makes for a machine, and the check that it is there.
    fn cable(&self, name: &str, bridge: &str) -> (String, PlanReadinessCheck) {
        match self.wires {
            VmNetworkKind::Bridge => {
                // It is there as long as the machine is: QEMU makes it, and the kernel removes it. As soon as
                // it is there it is joined to the network, and the machine boots meanwhile.
                let tap = format!("{bridge}{name}");
                let join = ["link", "set", "dev", &tap, "master", bridge, "up"];
                let ready = PlanReadinessCheck::Succeeds(PlanCommand::new("ip", join));
                (format!("tap,ifname={tap},script=no,downscript=no"), ready)
            }
            VmNetworkKind::Group => {
                let group = group(self.id);
                let ready = PlanReadinessCheck::Exists(file_in(self.dir, name, "qmp"));
                (format!("socket,mcast={group},localaddr=127.0.0.1"), ready)
            }
        }
    }
}
