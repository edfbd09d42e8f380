// SPDX-License-Identifier: Apache-2.0
//! The nodes of a SAN and its client, as steps.

use plimsoll_core::plan::{
    Plan, PlanAction, PlanCommand, PlanCommandArg, PlanNode, PlanReadinessCheck, StackServer,
};
use std::fmt::Write as _;

use super::super::nfs::kernel;
use super::super::node::chain::{ClientDiskChain, SECTOR_BYTES};
use super::super::node::{self, file_system};
use super::super::{PreconditionError, StackPlanInput};
use super::config::{self, SanResourceParameters};

/// The resource agent, and what stands beside it on a node.
const FILES: [(&str, &str); 4] = [
    ("events", include_str!("node/events")),
    ("leg", include_str!("node/leg")),
    ("fence", include_str!("node/fence")),
    ("run", include_str!("node/run")),
];

/// How long one step of a node may take: on an emulated machine each command takes a second or two.
const STEP_LIMIT_S: u32 = 120;

/// How long the cluster may take to be up, or to move everything from a node.
pub(super) const MOVE_LIMIT_S: u32 = 300;

/// How long a leg may take to be rebuilt.
pub(super) const REBUILD_LIMIT_S: u32 = 3600;

/// The port of iSCSI.
const PORT: u16 = 3260;

/// The array of a node, and where the agent mounts what is on it where that is exported.
const ARRAY: &str = "/dev/md127";
const EXPORTED: &str = "/run/plimsoll-san/export";

/// The cluster of an order.
#[derive(Debug)]
pub(super) struct SanCluster<'a> {
    order: &'a StackPlanInput<'a>,
    with_disks: usize,
    token_ms: u64,
    service: String,
}

impl<'a> SanCluster<'a> {
    pub(super) fn of(order: &'a StackPlanInput<'a>) -> Result<Self, PreconditionError> {
        let servers = &order.site.servers;
        let mut unmet = Vec::new();
        for server in servers {
            if server.fence.is_empty() {
                unmet.push(format!(
                    "no fence command for {}, and without fencing two nodes may write at once: name \
                     one in the inventory (fence = [...])",
                    server.name
                ));
            }
            if let Err(wrong) = node::check_path(&order.dir_on(&server.dir)) {
                unmet.extend(wrong.0);
            }
        }
        if !unmet.is_empty() {
            return Err(PreconditionError(unmet));
        }
        let settings = order.settings();
        Ok(SanCluster {
            order,
            with_disks: usize::from(config::nodes(settings)?),
            token_ms: config::token_ms(settings)?,
            service: config::service(settings, servers)?,
        })
    }

    /// All nodes, those without a disk too.
    pub(super) fn members(&self) -> &'a [PlanNode] {
        &self.order.site.servers
    }

    /// The nodes that have a leg; the first makes the array.
    pub(super) fn with_disks(&self) -> &'a [PlanNode] {
        &self.members()[..self.with_disks]
    }

    /// Directory of a node.
    pub(super) fn dir(&self, node: &PlanNode) -> String {
        self.order.dir_on(&node.dir)
    }

    fn disk(&self, node: &PlanNode) -> String {
        format!("{}/leg.img", self.dir(node))
    }

    pub(super) fn mark(&self, node: &PlanNode, daemon: &str) -> String {
        self.order.mark(&format!("{}-{daemon}", node.name))
    }

    /// The begin of the names of targets.
    fn names(&self) -> String {
        format!("iqn.2026-01.lab.plimsoll:{}", self.order.id)
    }

    /// The service address without its prefix.
    fn address(&self) -> &str {
        self.service.split('/').next().unwrap_or_default()
    }

    /// Where clients find the disk.
    fn portal(&self) -> String {
        format!("{}:{PORT}", self.address())
    }

    /// Where clients find the export, if that is no disk.
    pub(super) fn export(&self) -> Option<String> {
        let exports_files = self.exports_files();
        exports_files.then(|| kernel::address(self.address(), EXPORTED))
    }

    fn exports_files(&self) -> bool {
        config::exports_files(self.order.settings())
    }

    pub(super) fn description(&self) -> String {
        let settings = self.order.settings();
        let exported = match self.export() {
            Some(export) => format!("NFS at {export}; plimsoll is the client"),
            None => format!("iSCSI at {} as {}.service", self.portal(), self.names()),
        };
        format!(
            "{} on RAID {} of the kernel over {} nodes by iSCSI{}, moved by pacemaker, exported by {exported}",
            settings.text("fs"),
            settings.text("raid"),
            self.with_disks,
            if settings.flag("witness") {
                " and a witness"
            } else {
                ""
            },
        )
    }

    /// The servers that are watched.
    pub(super) fn servers(&self) -> Vec<StackServer> {
        let server = |node: &PlanNode| StackServer {
            name: node.name.clone(),
            node: node.name.clone(),
            marks: ["ring", "cluster"]
                .map(|daemon| self.mark(node, daemon))
                .into(),
            asked: Some(self.script(node, &[])),
            restore: Vec::new(),
        };
        self.with_disks().iter().map(server).collect()
    }

    /// A command of the script of a node.
    pub(super) fn script(&self, node: &PlanNode, words: &[&str]) -> PlanCommand {
        let script = format!("{}/run", self.dir(node));
        let words = words.iter().map(ToString::to_string);
        PlanCommand::new("sh", std::iter::once(script).chain(words)).within_s(STEP_LIMIT_S)
    }

    /// The same for undoing, when the script may not be there yet, or not any more.
    fn undoing(&self, node: &PlanNode, word: &str, limit_s: u32) -> PlanAction {
        PlanAction::RunIf {
            when: PlanCommand::new("ls", [format!("{}/run", self.dir(node))]),
            run: self.script(node, &[word]).within_s(limit_s),
        }
    }

    /// The actions that start a node, in order.
    pub(super) fn daemons(&self, node: &PlanNode) -> [PlanAction; 2] {
        let start = |daemon: &str, ready: PlanReadinessCheck| PlanAction::Start {
            cmd: self.script(node, &[daemon]),
            mark: self.mark(node, daemon),
            log: format!("{}/{daemon}.out", self.dir(node)),
            ready,
        };
        let is_up = |what: &str| PlanReadinessCheck::Succeeds(self.script(node, &["is-up", what]));
        [
            start("ring", is_up("ring")),
            start("cluster", is_up("cluster")),
        ]
    }

    /// The actions that take a node away in good order.
    pub(super) fn leaving(&self, node: &PlanNode) -> [PlanAction; 3] {
        let end = |daemon: &str| PlanAction::Stop {
            mark: self.mark(node, daemon),
        };
        let leave = self.script(node, &["leave"]).within_s(MOVE_LIMIT_S);
        [PlanAction::Run(leave), end("cluster"), end("ring")]
    }

    fn parameters(&self) -> SanResourceParameters {
        let settings = self.order.settings();
        let of_all = |value: &dyn Fn(&PlanNode) -> String| {
            let pair = |node: &PlanNode| format!("{}={}", node.name, value(node));
            let pairs: Vec<String> = self.with_disks().iter().map(pair).collect();
            pairs.join(" ")
        };
        let mut parameters = vec![
            ("disks", of_all(&|node| self.disk(node))),
            ("addresses", of_all(&|node| node.address.clone())),
            ("iqn", self.names()),
            ("service", self.service.clone()),
            ("serial", self.order.id.to_uppercase()),
            ("uuid", config::array_uuid(self.order.id)),
            ("level", settings.text("raid").into()),
            // Twice the time after which a cut is seen by everybody, and a little more.
            (
                "hold",
                if settings.flag("hold") { "on" } else { "off" }.into(),
            ),
            ("sure_s", (self.token_ms.div_ceil(1000) * 5 + 3).to_string()),
        ];
        if self.exports_files() {
            let script = |node: &PlanNode| format!("{}/{}", self.dir(node), kernel::NAME);
            parameters.extend([
                ("export", "nfs".into()),
                ("fs", settings.text("fs").into()),
                ("nfs", of_all(&script)),
            ]);
        }
        parameters
    }

    /// The settings that the script of a node reads.
    fn settings_of(&self, node: &PlanNode) -> String {
        let parameters = self.parameters();
        let names: Vec<&str> = parameters.iter().map(|(name, _)| *name).collect();
        let mut text: String = parameters
            .iter()
            .map(|(name, value)| format!("{name}='{value}'\n"))
            .collect();
        let count = self.members().len();
        let settings = self.order.settings();
        let mark = self.mark(node, "cluster");
        let (names, node) = (names.join(" "), &node.name);
        let made = match self.exports_files() {
            true => file_system::make(settings, &PlanCommandArg::from(ARRAY)).to_string(),
            // The client makes one.
            false => String::new(),
        };
        let _ = write!(
            text,
            "parameters='{names}'\nnode={node}\nmark={mark}\nmembers={count}\nmake_fs='{made}'\n"
        );
        text
    }

    /// Adds the nodes: their files, the array, and the cluster that carries it.
    pub(super) fn add_to(&self, plan: &mut Plan) {
        let key = format!("{}/key", self.order.dir());
        plan.step(
            "generate the key of the cluster",
            PlanAction::MakeSecret(key.clone()),
            None,
        );
        for node in self.members() {
            node::add_dir_on(plan, node, &self.dir(node));
            self.add_files(plan, node, &key);
        }
        self.add_array(plan);
        let all = self.members();
        for node in all {
            let [ring, _] = self.daemons(node);
            let mark = self.mark(node, "ring");
            plan.step_on(
                &node.name,
                "join the cluster ring",
                ring,
                Some(PlanAction::Stop { mark }),
            );
        }
        for node in all {
            let [_, cluster] = self.daemons(node);
            let mark = self.mark(node, "cluster");
            plan.step_on(
                &node.name,
                "start the cluster manager",
                cluster,
                Some(PlanAction::Stop { mark }),
            );
        }
        // On undo, the first node stops all resources of the cluster at once and switches fencing off, so
        // that no resource moves to the next node and no node is fenced because it leaves.
        for node in all {
            let is_whole = PlanAction::Await(self.script(node, &["whole"]).within_s(MOVE_LIMIT_S));
            let stop = self.undoing(node, "stop-all", MOVE_LIMIT_S);
            plan.step_on(
                &node.name,
                "wait until the array is served",
                is_whole,
                Some(stop),
            );
        }
    }

    fn add_files(&self, plan: &mut Plan, node: &PlanNode, key: &str) {
        let dir = self.dir(node);
        let copy = PlanAction::CopySecret {
            from: key.into(),
            to: format!("{dir}/secret"),
        };
        plan.step_on(&node.name, "copy the key to the node", copy, None);
        let mut write = |name: &str, text: String, secret: Option<String>| {
            let write = PlanAction::WriteFile {
                path: format!("{dir}/{name}"),
                text,
                secret,
            };
            plan.step_on(&node.name, &format!("write {name}"), write, None);
        };
        // The ring wants 128 bytes at least.
        write("key", "{secret}".repeat(4), Some(format!("{dir}/secret")));
        let servers = self.members();
        write(
            "ring.conf",
            config::ring(&dir, servers, self.token_ms),
            None,
        );
        write(
            "cib.xml",
            config::cib(
                self.order.settings(),
                &self.parameters(),
                servers,
                self.with_disks(),
            ),
            None,
        );
        write("settings", self.settings_of(node), None);
        let of_export = self
            .exports_files()
            .then_some((kernel::NAME, kernel::SCRIPT));
        for (name, text) in FILES.into_iter().chain(of_export) {
            write(name, text.into(), None);
        }
        let look = PlanAction::Run(self.script(node, &["free"]));
        let why = "check that no other cluster is running";
        plan.step_on(&node.name, why, look, None);
    }

    fn add_leg(&self, plan: &mut Plan, node: &PlanNode) {
        let size = self.order.size_bytes.to_string();
        let reserve = PlanCommand::new("fallocate", ["--length".into(), size, self.disk(node)]);
        plan.step_on(
            &node.name,
            "allocate the mirror leg",
            PlanAction::Run(reserve),
            None,
        );
    }

    /// Adds what a machine lacks that takes the place of a node. With the rest of the stack it is undone by
    /// the steps that made the first one.
    pub(super) fn add_replacing(&self, plan: &mut Plan, node: &PlanNode) {
        let dir = self.dir(node);
        // It fails on the node itself, whose directory must not be removed then.
        let look = PlanAction::Run(PlanCommand::new("test", ["!", "-e", dir.as_str()]));
        let why = format!(
            "check that {} has no directory of this stack yet",
            node.name
        );
        plan.step_on(&node.name, &why, look, None);
        let make = PlanAction::MakeDir(dir.clone());
        plan.step_on(&node.name, "create the node directory", make, None);
        plan.taken_back_by(PlanAction::RemoveDir(dir));
        self.add_files(plan, node, &format!("{}/key", self.order.dir()));
        self.add_leg(plan, node);
        for (daemon, start) in ["ring", "cluster"].into_iter().zip(self.daemons(node)) {
            plan.step_on(&node.name, &format!("start its {daemon}"), start, None);
            let mark = self.mark(node, daemon);
            plan.taken_back_by(PlanAction::Stop { mark });
        }
    }

    fn add_array(&self, plan: &mut Plan) {
        let clear = |node: &PlanNode| self.undoing(node, "clear", STEP_LIMIT_S);
        for node in self.with_disks() {
            self.add_leg(plan, node);
        }
        let [first, others @ ..] = self.with_disks() else {
            return;
        };
        for node in others {
            let lend = PlanAction::Run(self.script(node, &["lend"]));
            plan.step_on(&node.name, "export the mirror leg", lend, Some(clear(node)));
        }
        let create = PlanAction::Run(self.script(first, &["create"]));
        plan.step_on(&first.name, "create the array", create, Some(clear(first)));
        for node in others {
            plan.step_on(
                &node.name,
                "stop exporting the mirror leg",
                PlanAction::Run(self.script(node, &["clear"])),
                None,
            );
        }
    }

    /// Adds the client on this machine; gives the directory where the file system is mounted.
    pub(super) fn add_client(&self, plan: &mut Plan) -> Result<String, PreconditionError> {
        let dir = self.order.dir();
        if let Some(why) = node::check_sockets(&dir) {
            return Err(PreconditionError(vec![why]));
        }
        let chain = ClientDiskChain {
            dir: &dir,
            id: self.order.id,
            number: 0,
        };
        let (names, portal) = (self.names(), self.portal());
        // No limit of time for a request: what is away is waited for, until the watchdog ends it.
        let disk = format!(
            "driver=iscsi,node-name=lun,transport=tcp,portal={portal},target={names}.service,lun=0,\
             initiator-name={names}.client,cache.direct=on,timeout=0"
        );
        chain.add_client(plan, Vec::new(), &disk);
        let settings = self.order.settings();
        chain.add_watchdog(plan, &portal, node::fail_after_s(settings)?);
        chain.add_mount_point(plan);
        chain.add_loop(plan, 1, SECTOR_BYTES);
        let at = format!("{dir}/mnt");
        file_system::add_mount_of(plan, settings, &chain.device_file(), &at);
        Ok(at)
    }
}
