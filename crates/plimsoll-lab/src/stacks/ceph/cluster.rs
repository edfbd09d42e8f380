// SPDX-License-Identifier: Apache-2.0
//! The daemons: a monitor, a manager and (for the file system) a metadata server on the first node,
//! a storage daemon on every node.
//!
//! Nothing of it lies outside the stack's directory: one settings file and one keyring for each
//! daemon, readable by their owner alone. The keys are known to the monitor from its making, so
//! that no command has to bring them in.

use plimsoll_core::plan::{
    Plan, PlanAction, PlanCommand, PlanNode, PlanReadinessCheck, StackServer,
};
use plimsoll_core::rng::{Rng, Seed};

use super::super::StackPlanInput;

/// The port of the monitor, on an address of its own.
const PORT: u16 = 3300;

/// Longest time to make the disk of a storage daemon; seconds on a machine that is not busy.
const MAKE_LIMIT_S: u32 = 300;

/// Longest time until the placement groups serve.
const SERVE_LIMIT_S: u32 = 180;

/// Memory that a storage daemon aims at when its cache is left to itself, which it is not here. The
/// least it takes.
const MEMORY_TARGET_BYTES: u64 = 896 << 20;

/// The pool of the data.
pub(super) const POOL: &str = "data";

/// The daemons of a stack.
#[derive(Debug)]
pub(super) struct CephCluster<'a> {
    order: &'a StackPlanInput<'a>,
    dir: &'a str,
    /// The nodes, one storage daemon on each.
    pub(super) nodes: &'a [PlanNode],
}

/// One storage daemon.
#[derive(Debug)]
pub(super) struct CephOsd<'a> {
    cluster: &'a CephCluster<'a>,
    /// Its node.
    pub(super) node: &'a PlanNode,
    number: usize,
}

/// The rights of one of the daemons: the daemon it asks, and the operations it may ask for.
type Rights = &'static [(&'static str, &'static str)];

const ADMIN: Rights = &[
    ("mon", "allow *"),
    ("osd", "allow *"),
    ("mds", "allow *"),
    ("mgr", "allow *"),
];
const MANAGER: Rights = &[
    ("mon", "allow profile mgr"),
    ("osd", "allow *"),
    ("mds", "allow *"),
];
const METADATA: Rights = &[
    ("mon", "allow profile mds"),
    ("mgr", "allow profile mds"),
    ("osd", "allow rwx"),
    ("mds", "allow *"),
];
const STORAGE: Rights = &[
    ("mon", "allow profile osd"),
    ("mgr", "allow profile osd"),
    ("osd", "allow *"),
];

impl<'a> CephCluster<'a> {
    pub(super) fn of(order: &'a StackPlanInput<'a>, dir: &'a str) -> Self {
        CephCluster {
            order,
            dir,
            nodes: &order.site.servers,
        }
    }

    pub(super) fn osds(&self) -> impl Iterator<Item = CephOsd<'_>> {
        let osd = |(number, node)| CephOsd {
            cluster: self,
            node,
            number,
        };
        self.nodes.iter().enumerate().map(osd)
    }

    /// The settings file of daemons and clients.
    pub(super) fn settings_file(&self) -> String {
        format!("{}/ceph.conf", self.dir)
    }

    fn keyring(&self, name: &str) -> String {
        format!("{}/{name}.keyring", self.dir)
    }

    /// An identifier in the form of a UUID. It need not be random: the network holds no other cluster.
    fn uuid(&self, purpose: &str, number: usize) -> String {
        let seed = Seed(0).derive(&self.order.choice.parts.to_string(), 0);
        let mut rng = Rng::new(seed.derive(purpose, number as u64));
        let (high, low) = (rng.next_u64(), rng.next_u64());
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0xfff,
            low & 0xffff_ffff_ffff
        )
    }

    /// The address of the monitor as commands and settings take it.
    fn monitor(&self) -> String {
        format!("[v2:{}:{PORT}]", self.nodes[0].address)
    }

    fn settings(&self) -> String {
        let dir = self.dir;
        let settings = self.order.settings();
        let replicas = settings.count("replicas");
        let client_cache = settings.bytes("client_cache");
        let lines = [
            format!("fsid = {}", self.uuid("cluster", 0)),
            format!("mon_host = {}", self.monitor()),
            format!("keyring = {dir}/$name.keyring"),
            format!("run_dir = {dir}"),
            format!("admin_socket = {dir}/$name.asok"),
            format!("crash_dir = {dir}"),
            format!("mon_data = {dir}/mon"),
            format!("mgr_data = {dir}"),
            format!("mds_data = {dir}"),
            format!("osd_data = {dir}/osd$id"),
            "pid_file =".into(),
            // Everything they have to say goes to the log of the stack.
            "log_to_file = false".into(),
            "mon_cluster_log_to_file = false".into(),
            "auth_cluster_required = cephx".into(),
            "auth_service_required = cephx".into(),
            "auth_client_required = cephx".into(),
            "auth_allow_insecure_global_id_reclaim = false".into(),
            // Else the monitor ends itself when the disk of this machine is nearly full.
            "mon_data_avail_crit = 0".into(),
            "mon_data_avail_warn = 0".into(),
            "mgr_initial_modules =".into(),
            "osd_pool_default_pg_autoscale_mode = off".into(),
            format!("osd_pool_default_size = {replicas}"),
            format!("osd_pool_default_min_size = {}", replicas - 1),
            format!("osd_memory_target = {MEMORY_TARGET_BYTES}"),
            format!("bluestore_block_size = {}", self.order.size_bytes),
            // Reserved: a full disk must not stop a run.
            "bluestore_block_preallocate_file = true".into(),
            "bluestore_cache_autotune = false".into(),
            format!("bluestore_cache_size = {}", settings.bytes("cache")),
            "[client]".into(),
            // Several clients would ask for the same name.
            "admin_socket =".into(),
            // The mount waits for the metadata server, which takes a moment to become active.
            "fuse_require_active_mds = false".into(),
            format!("client_oc = {}", client_cache > 0),
            format!("client_oc_size = {client_cache}"),
        ];
        format!("[global]\n{}\n", lines.join("\n"))
    }

    /// A command to the monitor, from this machine.
    pub(super) fn command(&self, program: &str, words: &[&str]) -> PlanCommand {
        let conf = self.settings_file();
        PlanCommand::new(program, ["--conf", &conf].iter().chain(words).copied())
    }

    fn run(&self, plan: &mut Plan, why: &str, words: &[&str]) {
        plan.step(why, PlanAction::Run(self.command("ceph", words)), None);
    }

    /// The words that every daemon is started with.
    fn daemon(&self, program: &str, id: &str, node: &PlanNode) -> PlanCommand {
        let conf = self.settings_file();
        let at = &node.address;
        let words = ["-f", "--conf", &conf, "--id", id, "--public-addr", at];
        PlanCommand::new(program, words.into_iter().chain(["--cluster-addr", at]))
    }

    fn mark(&self, name: &str) -> String {
        self.order.mark(name)
    }

    fn start(&self, name: &str, cmd: PlanCommand, ready: PlanReadinessCheck) -> PlanAction {
        PlanAction::Start {
            cmd,
            mark: self.mark(name),
            log: format!("{}/{name}.log", self.dir),
            ready,
        }
    }

    fn add_daemon(&self, plan: &mut Plan, why: &str, (name, start): (&str, PlanAction)) {
        let mark = self.mark(name);
        let node = &self.nodes[0].name;
        plan.step_on(node, why, start, Some(PlanAction::Stop { mark }));
    }

    /// Adds the key of a daemon or client, for the store of the monitor.
    fn add_key(&self, plan: &mut Plan, name: &str, rights: Rights) {
        let file = self.make_key(plan, name, rights);
        let all = self.keyring("mon");
        let tell = PlanCommand::new("ceph-authtool", [&*all, "--import-keyring", &file]);
        plan.step(
            "register the key with the monitor",
            PlanAction::Run(tell),
            None,
        );
    }

    /// Adds a key in a file of its own, and says where.
    fn make_key(&self, plan: &mut Plan, name: &str, rights: Rights) -> String {
        let file = self.keyring(name);
        let mut words = vec!["--create-keyring", &file, "--gen-key", "--name", name];
        for (whom, right) in rights {
            words.extend(["--cap", whom, right]);
        }
        let make = PlanAction::Run(PlanCommand::new("ceph-authtool", words));
        plan.step(&format!("generate the key of {name}"), make, None);
        file
    }

    /// Adds all daemons, and the pool of the data.
    pub(super) fn add_to(&self, plan: &mut Plan) {
        let write = PlanAction::write_file(self.settings_file(), self.settings());
        plan.step("write the configuration", write, None);
        self.add_keys(plan);
        self.add_monitor(plan);
        self.add_daemon(plan, "start the manager", self.manager_start());
        for osd in self.osds() {
            osd.add_to(plan);
        }
        let pg_num = self.order.settings().text("pg_num");
        let why = "create the data pool";
        self.run(plan, why, &["osd", "pool", "create", POOL, pg_num]);
        let ask = self.command("rados", &["--pool", POOL, "ls"]);
        let wait = PlanAction::Await(ask.within_s(SERVE_LIMIT_S));
        plan.step("wait until the pool is served", wait, None);
    }

    fn add_keys(&self, plan: &mut Plan) {
        let all = self.keyring("mon");
        let words = ["--create-keyring", &all, "--gen-key", "--name", "mon."];
        let words = words.iter().chain(&["--cap", "mon", "allow *"]);
        let make = PlanAction::Run(PlanCommand::new("ceph-authtool", words.copied()));
        plan.step("generate the key of the monitor", make, None);
        self.add_key(plan, "client.admin", ADMIN);
        self.add_key(plan, "mgr.x", MANAGER);
        self.add_key(plan, "mds.a", METADATA);
        for osd in self.osds() {
            self.add_key(plan, &osd.name(), STORAGE);
        }
    }

    fn add_monitor(&self, plan: &mut Plan) {
        let (map, fsid) = (format!("{}/monmap", self.dir), self.uuid("cluster", 0));
        let at = self.monitor();
        let words = ["--create", "--addv", "a", &at, "--fsid", &fsid, &map];
        let make = PlanAction::Run(PlanCommand::new("monmaptool", words));
        plan.step("create the monitor map", make, None);
        // It makes its directory itself: in one that is there already, which holds our mark, it
        // makes nothing and says that all is well.
        let keys = self.keyring("mon");
        let words = ["--mkfs", "--id", "a", "--monmap", &map, "--keyring", &keys];
        let make = PlanAction::Run(self.command("ceph-mon", &words).within_s(MAKE_LIMIT_S));
        plan.step("create the monitor store", make, None);
        self.add_daemon(plan, "start the monitor", self.monitor_start());
    }

    /// Actions that start the daemons that exist once, with their names. All are on the first node.
    fn monitor_start(&self) -> (&'static str, PlanAction) {
        let daemon = self.daemon("ceph-mon", "a", &self.nodes[0]);
        (
            "mon",
            self.start("mon", daemon, PlanReadinessCheck::Port(PORT)),
        )
    }

    fn manager_start(&self) -> (&'static str, PlanAction) {
        let daemon = self.daemon("ceph-mgr", "x", &self.nodes[0]);
        let ready = PlanReadinessCheck::Exists(format!("{}/mgr.x.asok", self.dir));
        ("mgr", self.start("mgr", daemon, ready))
    }

    fn metadata_start(&self) -> (&'static str, PlanAction) {
        let daemon = self.daemon("ceph-mds", "a", &self.nodes[0]);
        let ready = PlanReadinessCheck::Exists(format!("{}/mds.a.asok", self.dir));
        ("mds", self.start("mds", daemon, ready))
    }

    /// Adds the file system over the pool, and who serves its names.
    pub(super) fn add_file_system(&self, plan: &mut Plan) {
        let why = "create the metadata pool";
        self.run(plan, why, &["osd", "pool", "create", "meta", "8"]);
        let why = "create the file system";
        self.run(plan, why, &["fs", "new", "fs", "meta", POOL]);
        self.add_daemon(plan, "start the metadata server", self.metadata_start());
    }

    /// The servers that are watched. Without the first, which has the only monitor, nothing goes on.
    pub(super) fn servers(&self) -> Vec<StackServer> {
        let with_names = !super::is_rbd(self.order.settings());
        let server = |osd: CephOsd<'_>| {
            let mut marks = vec![osd.mark()];
            let mut restore = Vec::new();
            if osd.number == 0 {
                let names = with_names.then(|| self.metadata_start());
                let once = [
                    Some(self.monitor_start()),
                    Some(self.manager_start()),
                    names,
                ];
                for (name, start) in once.into_iter().flatten() {
                    marks.push(self.mark(name));
                    restore.push((osd.node.name.clone(), start));
                }
                restore.push((osd.node.name.clone(), osd.restart()));
            }
            StackServer {
                restore,
                ..StackServer::on(&osd.node.name, marks)
            }
        };
        self.osds().map(server).collect()
    }
}

impl CephOsd<'_> {
    /// Its name in Ceph.
    pub(super) fn name(&self) -> String {
        format!("osd.{}", self.number)
    }

    /// The name of the part lost with it: its node, where it is alone on that.
    pub(super) fn known_as(&self) -> String {
        match self.number > 0 && self.node.has_network() {
            true => self.node.name.clone(),
            false => self.name(),
        }
    }

    /// Where its disk lies.
    pub(super) fn dir(&self) -> String {
        format!("{}/osd{}", self.cluster.dir, self.number)
    }

    pub(super) fn mark(&self) -> String {
        self.cluster.mark(&format!("osd{}", self.number))
    }

    /// The action that ends it.
    pub(super) fn stop(&self) -> PlanAction {
        PlanAction::Stop { mark: self.mark() }
    }

    fn start(&self, ready: PlanReadinessCheck) -> PlanAction {
        let id = self.number.to_string();
        let mut cmd = self.cluster.daemon("ceph-osd", &id, self.node);
        // Copies are kept on different nodes.
        let place = format!("root=default host={}", self.node.name);
        cmd.args.extend(["--crush-location".into(), place.into()]);
        self.cluster.start(&format!("osd{id}"), cmd, ready)
    }

    /// The action that starts it again. It is back when the others can reach it.
    pub(super) fn restart(&self) -> PlanAction {
        let ask = self
            .cluster
            .command("ceph", &["tell", &self.name(), "version"]);
        self.start(PlanReadinessCheck::Succeeds(ask))
    }

    /// Adds it to a cluster that runs. The others begin to move data to it when it is there.
    pub(super) fn add_to_running(&self, plan: &mut Plan) {
        let (cluster, name) = (self.cluster, self.name());
        let file = cluster.make_key(plan, &name, STORAGE);
        let why = "register the key with the monitor";
        cluster.run(plan, why, &["auth", "import", "--in-file", &file]);
        // With it go its key and its place among the others.
        let words = ["osd", "purge", &name, "--yes-i-really-mean-it"];
        plan.taken_back_by(PlanAction::Run(cluster.command("ceph", &words)));
        self.add_to(plan);
        // The others give it data as soon as it runs.
        plan.point_of_no_return();
    }

    /// Adds it, with its key made before.
    fn add_to(&self, plan: &mut Plan) {
        let (id, uuid) = (
            self.number.to_string(),
            self.cluster.uuid("osd", self.number),
        );
        let name = self.name();
        let why = format!("add {name} to the cluster");
        self.cluster.run(plan, &why, &["osd", "new", &uuid, &id]);
        let dir = self.dir();
        let undo = Some(PlanAction::RemoveDir(dir.clone()));
        let why = format!("create the directory of {name}");
        plan.step_on(&self.node.name, &why, PlanAction::MakeDir(dir), undo);
        let words = ["--mkfs", "--id", &id, "--osd-uuid", &uuid];
        let make = self.cluster.command("ceph-osd", &words);
        let make = PlanAction::Run(make.within_s(MAKE_LIMIT_S));
        plan.step_on(
            &self.node.name,
            &format!("create the disk of {name}"),
            make,
            None,
        );
        let ready = PlanReadinessCheck::Exists(format!("{}/{name}.asok", self.cluster.dir));
        let start = self.start(ready);
        plan.step_on(
            &self.node.name,
            &format!("start {name}"),
            start,
            Some(self.stop()),
        );
    }
}
